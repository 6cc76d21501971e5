/* cli/prompt.h - runs the prompt, from --prompt or --prompt-file, through the model (prefill). */
#ifndef LNT_CLI_PROMPT_H
#define LNT_CLI_PROMPT_H

#include "cli/generation.h"

/* Whether the model's tokens are text; otherwise they are written as numbers. */
bool prompt_is_text(const generation *g);

/* Without a prompt a new session gets a line end, or token 0.  EXIT_OK, or one sentence and another
 * status. */
int prompt_prefill(generation *g);

#endif
