/* cli/text_input.c - see text_input.h. */
#include "cli/text_input.h"

#include <stdlib.h>
#include <string.h>

#include "cli/show/report.h"

int text_input_read(const options *o, text_buffer *text)
{
    const char *given = opt_text(o, OPT_TEXT), *file = opt_text(o, OPT_FILE);
    if (!given == !file) return fail_usage("either --text or --file must be given");
    return given ? text_buffer_add(text, given, strlen(given)) : text_buffer_read(text, file);
}

int text_input_tokens(const lnt_ctx *ctx, const lnt_model *model, const char *text, size_t bytes,
                      unsigned flags, int32_t **tokens, size_t *count)
{
    size_t room = bytes / 2 + 16; /* enough for most; a second call where it is not */
    for (*tokens = NULL;; room = *count) {
        free(*tokens);
        *tokens = malloc((room + 1) * sizeof **tokens);
        if (!*tokens) return fail_memory((room + 1) * sizeof **tokens);
        if (lnt_model_tokenize(model, text, bytes, flags, *tokens, room, count)) return fail_ctx(ctx);
        if (*count <= room) return EXIT_OK;
    }
}
