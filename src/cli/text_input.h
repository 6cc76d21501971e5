/* cli/text_input.h - the text of --text or --file, and its tokens. */
#ifndef LNT_CLI_TEXT_INPUT_H
#define LNT_CLI_TEXT_INPUT_H

#include "cli/options.h"
#include "cli/text_buffer.h"
#include "linnet/model.h"

/* Each gives EXIT_OK, or says one sentence and gives another exit status. */

/* What --text or --file gives: one of them must be given. */
int text_input_read(const options *o, text_buffer *text);
/* tokens [*count], which the caller frees; flags are lnt_text_flags, without LNT_TEXT_CUT. */
int text_input_tokens(const lnt_ctx *ctx, const lnt_model *model, const char *text, size_t bytes,
                      unsigned flags, int32_t **tokens, size_t *count);

#endif
