/* fuzz_safetensors.c - the input is a .safetensors file: it is parsed in place, and everything in it read.
 * */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "gguf_file.h"
#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lnt_ctx *ctx = fuzz_context();
    void *file = exact_copy(data, size);
    lnt_safetensors st;
    const lnt_status status = lnt_safetensors_parse(ctx, "fuzz", file, size, &st);
    fuzz_check(status);
    if (status == LNT_OK) {
        for (size_t i = 0; i < st.entry_count; i++) {
            fuzz_touch(st.entries[i].data, st.entries[i].bytes);
            fuzz_touch(st.entries[i].name, strlen(st.entries[i].name));
        }
        for (size_t i = 0; i < st.meta_count; i++) fuzz_touch(st.meta[i].value, strlen(st.meta[i].value));
        lnt_safetensors_free(ctx, &st);
    }
    free(file);
    return 0;
}
