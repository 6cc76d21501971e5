/* fuzz.c - see fuzz.h. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void need(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

lnt_ctx *fuzz_context(void)
{
    static lnt_ctx *ctx;
    const lnt_ctx_options options = { .size = sizeof options, .threads = 1 };
    if (!ctx) need(lnt_ctx_create(&options, &ctx) == LNT_OK, "there is no context");
    return ctx;
}

const char *fuzz_file(const uint8_t *data, size_t size)
{
    static char path[32];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    need(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size, "no file in memory");
    return path;
}

void fuzz_check(lnt_status status)
{
    lnt_ctx *ctx = fuzz_context();
    const char *sentence = lnt_ctx_error(ctx);
    if (status) need(*sentence && !strchr(sentence, '\n'), "a failure without one sentence");
    ctx->error[0] = 0; /* the next failure must say its own */
}

void fuzz_touch(const void *data, size_t bytes)
{
    static volatile unsigned char sink;
    const unsigned char *p = data;
    unsigned char sum = 0;
    for (size_t i = 0; i < bytes; i++) sum = (unsigned char)(sum ^ p[i]);
    sink = sum;
    (void)sink;
}
