/* attention/state/state_view.c - a state as algorithms see it. */
#include "attention/state/state_view.h"

#include "attention/state/state.h"

/* A step of Taylor attention is bound by memory: S that is written for one token in 16 only is read
 * twice as fast, and compensating 16 at once costs little.  For linear attention, whose S is in cache,
 * attending to the tokens kept back would cost as much as it saves. */
int64_t lnt_recent_room(const lnt_attn_desc *p)
{
    return lnt_problem_sums(p) == LNT_TAYLOR || p->compensated ? 16 : 0;
}

const lnt_tensor *lnt_state_parts(const lnt_state *state) { return state->tensor; }

int64_t lnt_state_recent(const lnt_state *state) { return state->recent; }

const lnt_device_ops *lnt_state_device(const lnt_state *state) { return lnt_device_of(state->work.ctx); }

int64_t lnt_state_before(const lnt_state *state, int64_t sequence)
{
    const bool counted = state->tokens && sequence >= 0 && sequence < state->work.p.batch;
    return counted ? state->tokens[sequence] : 0;
}

void lnt_state_settle(lnt_state *state)
{
    if (state && state->recent) state->kind->settle(state);
}
