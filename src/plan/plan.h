/* plan/plan.h - the inside of a plan, and what layers need of one beyond the public calls. */
#ifndef LNT_PLAN_PLAN_H
#define LNT_PLAN_PLAN_H

#include "attention/engine.h"
#include "device/device.h"

struct lnt_plan {
    lnt_engine engine;
    int index;            /* of its algorithm, in the registry */
    lnt_device_plan *own; /* what the device has of it; the CPU: the plan itself */
    /* What follows is the CPU's, and so is the scratch of the engine. */
    const lnt_algo *algo;
    int64_t nonpositive, divergent;
    double rank;
};

/* Runs from now on take temperature [heads], which is copied; the plan was made with one.  On a GPU
 * those that come after it on the context's stream. */
LNT_MUST_CHECK lnt_status lnt_plan_set_temperature(lnt_plan *plan, const double *temperature);

/* lnt_plan_forward, keeping what lnt_plan_backward of the same queries, with io->out as forward left it,
 * then need not find again, in as many bytes as the first says. */
size_t lnt_plan_kept_bytes(const lnt_plan *plan);
LNT_MUST_CHECK lnt_status lnt_plan_forward_keeping(lnt_plan *plan, const lnt_attn_io *io, void *kept);
LNT_MUST_CHECK lnt_status lnt_plan_backward_kept(lnt_plan *plan, const lnt_attn_io *io,
                                                 const lnt_attn_grads *grads, const void *kept);

#endif
