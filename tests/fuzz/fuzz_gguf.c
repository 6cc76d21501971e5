/* fuzz_gguf.c - the input is a GGUF file: it is opened, and everything in it read. */
#include <stdlib.h>

#include "fuzz.h"
#include "gguf_file.h"

static void read_metadata(lnt_ctx *ctx, const lnt_gguf *g)
{
    lnt_gguf_string string;
    lnt_gguf_value array;
    int64_t integer;
    double real;
    bool flag;
    fuzz_check(lnt_gguf_get_string(ctx, g, "general.architecture", &string));
    fuzz_check(lnt_gguf_get_integer(ctx, g, "llama.block_count", &integer));
    fuzz_check(lnt_gguf_get_real(ctx, g, "llama.rope.freq_base", &real));
    fuzz_check(lnt_gguf_get_bool(ctx, g, "yes", &flag));
    fuzz_check(lnt_gguf_get_array(ctx, g, "tokens", LNT_GGUF_STRING, &array));
    fuzz_check(lnt_gguf_get_array(ctx, g, "scores", LNT_GGUF_F64, &array));
    fuzz_check(lnt_gguf_get_array(ctx, g, "types", LNT_GGUF_I64, &array));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lnt_ctx *ctx = fuzz_context();
    void *file = exact_copy(data, size);
    lnt_gguf g;
    const lnt_status status = lnt_gguf_parse(ctx, "fuzz", file, size, &g);
    fuzz_check(status);
    if (status == LNT_OK) {
        gguf_file_walk(&g);
        read_metadata(ctx, &g);
        for (size_t i = 0; i < g.tensor_count; i++) {
            const lnt_stored *t = &g.tensors[i];
            float numbers[256];
            lnt_storage_unpack(t->storage, t->data, numbers, lnt_storage_numbers(t->storage));
        }
        lnt_gguf_close(ctx, &g);
    }
    free(file);
    return 0;
}
