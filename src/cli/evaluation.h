/* cli/evaluation.h - `linnet eval` of models that others trained. */
#ifndef LNT_CLI_EVALUATION_H
#define LNT_CLI_EVALUATION_H

#include "cli/options.h"
#include "linnet/model.h"

/* Each gives EXIT_OK, or says one sentence and gives another exit status. */

/* How well a decoder foretells the text of --data, in segments of --length tokens; where another mechanism
 * stands in place of its own, also how well it does so with its own, and what the other costs. */
int evaluation_text(const options *o, lnt_ctx *ctx, const lnt_model *model, const lnt_model_info *info);
/* The logits after the tokens of --token-ids, into --logits. */
int evaluation_logits(const options *o, lnt_ctx *ctx, const lnt_model *model, const lnt_model_info *info);

#endif
