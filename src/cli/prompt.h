/* cli/prompt.h - runs the prompt, from --prompt or --prompt-file, through the model (prefill). */
#ifndef LNT_CLI_PROMPT_H
#define LNT_CLI_PROMPT_H

#include "cli/generation.h"

/* Whether the model's tokens are text; else they are told as numbers. */
bool prompt_is_text(const generation *g);

/* Feeds it to the session; where none is given, a line end, or the first token, to a new one.  EXIT_OK,
 * or one sentence and another status. */
int prompt_prefill(generation *g);

#endif
