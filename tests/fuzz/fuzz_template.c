/* fuzz_template.c - the input is a chat template, rendered with a small conversation: a text, or a sentence.
 * unit/test_template runs it over mutated templates. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/template/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const lnt_chat_message messages[] = { { "system", "Be brief.", 9, NULL },
                                                 { "user", " \xc3\xa9 1\n", 6, NULL },
                                                 { "assistant", "", 0, NULL },
                                                 { "tool", NULL, 0, NULL } };
    const struct tm now = { .tm_mday = 26, .tm_mon = 6, .tm_year = 124 };
    const lnt_template_options options = {
        .bos_token = "<s>", .eos_token = "</s>", .add_generation_prompt = true, .now = &now
    };
    lnt_ctx *ctx;
    lnt_template *t;
    char *text;
    size_t length;
    if (lnt_ctx_create(NULL, &ctx)) return 0;
    if (lnt_template_open(ctx, "fuzz", (const char *)bytes, count, &t)) {
        if (t || !*lnt_ctx_error(ctx)) abort();
    } else {
        const lnt_status status = lnt_template_render(t, messages, 4, &options, &text, &length);
        if (status ? text || !*lnt_ctx_error(ctx) : text[length] != 0) abort();
        lnt_release(ctx, text, length + 1);
        lnt_template_close(t);
    }
    lnt_ctx_destroy(ctx);
    return 0;
}
