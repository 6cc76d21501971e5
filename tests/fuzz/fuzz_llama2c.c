/* fuzz_llama2c.c - the input is a model file of llama2.c: it is opened, and every tensor in it read. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "gguf_file.h"
#include "io/json.h"
#include "model/import/llama2c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lnt_ctx *ctx = fuzz_context();
    void *file = exact_copy(data, size);
    lnt_llama2c model;
    const lnt_status status = lnt_llama2c_parse(ctx, "fuzz.bin", file, size, &model);
    fuzz_check(status);
    if (status == LNT_OK) {
        lnt_json config;
        for (size_t i = 0; i < model.count; i++) fuzz_touch(model.tensors[i].data, model.tensors[i].bytes);
        if (lnt_json_parse(ctx, "fuzz.bin", "header", model.config, strlen(model.config), &config)) abort();
        lnt_json_free(ctx, &config);
        lnt_llama2c_close(ctx, &model);
    }
    free(file);
    return 0;
}
