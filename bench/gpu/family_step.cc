/* bench/gpu/family_step.cc - decoding steps, from nothing or after forward, and slots of states. */
#include <algorithm>

#include "gpu/device.h"
#include "gpu/families.h"
#include "gpu/forward.h"
#include "gpu/rows.h"
#include "gpu/selection.h"
#include "gpu/state_memory.h"
#include "gpu/verdict.h"

/* Slots in any order, forked and forgotten. */
static void verify_slots()
{
    const char *name = "states in slots 3 and 1, forked, reset, forked back";
    if (!is_wanted(name)) return;
    lnt_attn_desc p = describe(LNT_TAYLOR, 2, 8, 6);
    p.batch = 2;
    problem x(p, false, 91);
    state_memory memory(x, 5);
    const device_integers index({ 3, 1 });
    memory.states.index = index.data;
    for (int64_t i = 0; i < 3; i++) must(x.step(x.io, memory.states, i, 1), "step");
    must(api->state_fork(x.plan, &memory.states, 3, 4, NULL), "fork");
    must(api->state_reset(x.plan, &memory.states, 3, NULL), "reset");
    must(api->state_fork(x.plan, &memory.states, 4, 3, NULL), "fork");
    for (int64_t i = 3; i < 6; i++) must(x.step(x.io, memory.states, i, 1), "step");
    must(cudaDeviceSynchronize(), "running");
    double worst = 0;
    for (int64_t b = 0; b < 2; b++)
        for (int64_t h = 0; h < 2; h++) worst = std::max(worst, x.error(all_rows(6), b, h, 6, 6));
    report(name, worst, 2.5e-3, true);
}

void verify_step()
{
    lnt_attn_desc p = describe(LNT_TAYLOR, 4, 8, 24);
    p.taylor.terms = 8;
    verify_steps("step taylor d 8 P 8, one at a time", p, 0, 1);
    p.taylor.terms = 4, p.dim = 64, p.dim_value = 64, p.scale = 0.125, p.length_q = p.length_k = 9;
    verify_steps("step taylor d 64 P 4, 7 at a time", p, 0, 7);
    p = describe(LNT_TAYLOR, 6, 20, 40);
    p.kv_heads = 2, p.dim_value = 13;
    verify_steps("step taylor 20 -> 13, 6 heads on 2", p, 0, 1);
    p = describe(LNT_TAYLOR, 10, 16, 700);
    p.kv_heads = 1, p.algorithm = "state", p.state = 1;
    verify_steps("taylor 680 tokens forward, 20 in steps, 10 heads on 1", p, 680, 1);
    p = describe(LNT_LINEAR, 4, 64, 700);
    verify_steps("linear 650 tokens forward, 50 in steps of 4", p, 650, 4);
    const double decay[2] = { 0.9, 0.999 };
    p = describe(LNT_LINEAR, 4, 24, 60), p.kv_heads = 2, p.decay = decay;
    verify_steps("step linear with decay, 4 heads on 2", p, 0, 1);
    verify_slots();
}
