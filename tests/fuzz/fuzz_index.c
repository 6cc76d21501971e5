/* fuzz_index.c - the input is the index of a directory that has one file, 1.safetensors, with two tensors.
 * */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "io/tensors.h"

#define INDEX "model.safetensors.index.json"

static char folder[] = "/tmp/linnet-fuzz-XXXXXX";

static void leave(void)
{
    if (chdir(folder) == 0 && unlink("1.safetensors") == 0 && unlink(INDEX) == 0) rmdir(folder);
}

/* The index is a link to the input, which stays in memory. */
static void enter(const char *input)
{
    static const float numbers[2];
    const lnt_st_entry entries[] = {
        { .name = "a", .dtype = LNT_ST_F32, .rank = 1, .shape = { 1 }, .data = numbers, .bytes = 4 },
        { .name = "b", .dtype = LNT_ST_F32, .rank = 0, .data = numbers + 1, .bytes = 4 },
    };
    char path[64];
    if (!mkdtemp(folder)) abort();
    snprintf(path, sizeof path, "%s/1.safetensors", folder);
    fuzz_check(lnt_safetensors_write(fuzz_context(), path, entries, 2, NULL, 0));
    snprintf(path, sizeof path, "%s/" INDEX, folder);
    if (symlink(input, path)) abort();
    atexit(leave);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool entered;
    const char *input = fuzz_file(data, size);
    if (!entered) enter(input);
    entered = true;
    lnt_ctx *ctx = fuzz_context();
    lnt_tensors t;
    const lnt_status status = lnt_tensors_open(ctx, folder, &t);
    fuzz_check(status);
    for (size_t i = 0; i < t.count; i++) fuzz_touch(t.entries[i].data, t.entries[i].bytes);
    if (status == LNT_OK && t.count > 2) abort(); /* of two tensors */
    lnt_tensors_close(ctx, &t);
    return 0;
}
