/* cli/measure/step.h - the cost of one step: a token added to the state of every sequence, and read. */
#ifndef LNT_CLI_MEASURE_STEP_H
#define LNT_CLI_MEASURE_STEP_H

#include "linnet.h"

/* That lnt_state_step runs; lives as long as the tool. */
const char *step_algorithm(lnt_mechanism mechanism);

/* All by the problem d and what a plan of it says of itself: useful operations, ... */
double step_flops(const lnt_attn_desc *d, const lnt_plan_info *info);
/* ... bytes of what is remembered, of which a cache grows, ... */
double step_state_bytes(const lnt_attn_desc *d, const lnt_plan_info *info);
double step_cache_bytes(const lnt_attn_desc *d, const lnt_plan_info *info); /* that of softmax */
/* ... and bytes that move: the state, read and (unless it is a cache) written, and the token. */
double step_bytes(const lnt_attn_desc *d, const lnt_plan_info *info);

#endif
