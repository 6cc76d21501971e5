/* cli/describe.h - describes a problem and its plan: sizes, algorithm, device, options of the mechanism. */
#ifndef LNT_CLI_DESCRIBE_H
#define LNT_CLI_DESCRIBE_H

#include "cli/show/json.h"
#include "linnet.h"

/* Plans desc and describes the plan.  EXIT_OK, or one sentence and EXIT_FAILED. */
int describe_plan(lnt_ctx *ctx, const lnt_attn_desc *desc, lnt_plan_info *out);
/* The first fields of a plan and of a measurement: mechanism, algorithm, device, sizes. */
void json_problem(json *line, const lnt_attn_desc *d, const char *algorithm, const char *device,
                  const char *isa, int threads);
/* "4 terms", "64 landmarks", "128 near, 3 terms" behind `before`; "" where there is nothing to say. */
void text_mechanism(const lnt_attn_desc *d, const char *before, char *text, size_t capacity);

#endif
