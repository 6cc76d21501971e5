/* attention/state/state_view.h - what an algorithm may see of a state: where its numbers lie, how many tokens
 * came before, and how many of them wait. */
#ifndef LNT_ATTENTION_STATE_STATE_VIEW_H
#define LNT_ATTENTION_STATE_STATE_VIEW_H

#include "attention/problem.h"
#include "device/device.h"

/* What a state is made of.  The first two are what it remembers, for all to see; then, for sums, what
 * their rounding lost, the tokens that hybrid holds as they were, for all to see too, and those that
 * are not yet in the sums. */
enum {
    LNT_STATE_S, /* softmax: k */
    LNT_STATE_Z, /* softmax: v */
    LNT_STATE_PUBLIC,
    LNT_STATE_LOW_S = LNT_STATE_PUBLIC,
    LNT_STATE_LOW_Z,
    LNT_STATE_WINDOW_K,
    LNT_STATE_WINDOW_V,
    LNT_STATE_SAVED,
    LNT_STATE_RECENT_K = LNT_STATE_SAVED,
    LNT_STATE_RECENT_V,
    LNT_STATE_TENSORS
};

/* The tensors of a state, each [batch, kv_heads, rows, columns]; the data of one that it has not is NULL. */
const lnt_tensor *lnt_state_parts(const lnt_state *state);

/* Tokens of every sequence that are not yet in the sums: in RECENT_K and RECENT_V, or among those that have
 * left hybrid's window; or rows that have left softmax's. */
int64_t lnt_state_recent(const lnt_state *state);

/* Before anybody but a step looks at its first two tensors.  What it remembers does not change. */
LNT_PRIVATE_API void lnt_state_settle(lnt_state *state);

/* The device it is on. */
const lnt_device_ops *lnt_state_device(const lnt_state *state);

/* lnt_state_tokens, without waiting: 0 where only the device knows. */
int64_t lnt_state_before(const lnt_state *state, int64_t sequence);

/* Whether a state can stand before or after a run of p over so many sequences. */
lnt_status lnt_state_fits(lnt_ctx *ctx, const char *name, const lnt_state *state,
                          const lnt_attn_desc *p, int64_t sequences);

/* Tokens a state keeps back before they go into its sums together; 0: none. */
int64_t lnt_recent_room(const lnt_attn_desc *p);

/* hybrid: rows of WINDOW_K and WINDOW_V behind those of the sinks, and the row of a token: the first
 * tokens stay, the others go round. */
static inline int64_t lnt_window_room(const lnt_attn_desc *p)
{
    return p->hybrid.window + lnt_recent_room(p);
}

static inline int64_t lnt_window_row(const lnt_attn_desc *p, int64_t token)
{
    return token < p->hybrid.sink ? token : p->hybrid.sink + (token - p->hybrid.sink) % lnt_window_room(p);
}

#endif
