/* plan/planner.h - choosing an algorithm. */
#ifndef LNT_PLAN_PLANNER_H
#define LNT_PLAN_PLANNER_H

#include "attention/algorithm.h"

/* The algorithm named in p, or the cheapest that can do it; index into the registry.  Where no rate
 * is known it becomes -1: the device's choice. */
lnt_status lnt_planner_choose(lnt_ctx *ctx, const lnt_attn_desc *p, int *index);

/* Seconds of a forward run, by cost and rate; the rate is calibrated or built in; where it
 * is neither: 0. */
double lnt_planner_seconds(const lnt_ctx *ctx, int index, const lnt_attn_desc *p);

/* The shortest length from which the state form is and stays faster than the direct one, or cur
 * than softmax; 0: there are not both, or it never is. */
double lnt_planner_crossover(const lnt_ctx *ctx, const lnt_attn_desc *p);

#endif
