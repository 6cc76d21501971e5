/* attention/state/device_state.h - states on a GPU. */
#ifndef LNT_ATTENTION_STATE_DEVICE_STATE_H
#define LNT_ATTENTION_STATE_DEVICE_STATE_H

#include "attention/state/state.h"

static inline bool lnt_state_on_device(const lnt_state *state)
{
    return state->device.plan != NULL;
}

/* Arguments of all these are checked. */

lnt_status lnt_device_state_make(lnt_ctx *ctx, const lnt_attn_desc *resolved, lnt_state **out);
void lnt_device_state_close(lnt_state *state); /* all but the struct; one half made is fine */

/* k and v NULL: nothing is added; q and out NULL: nothing is read. */
lnt_status lnt_device_state_run(lnt_state *state, const lnt_tensor *q, const lnt_tensor *k,
                                const lnt_tensor *v, const lnt_tensor *out);
lnt_status lnt_device_state_reset(lnt_state *state, int64_t sequence); /* -1: all */
lnt_status lnt_device_state_fork(const lnt_state *state, lnt_state *to);
lnt_status lnt_device_state_copy(lnt_state *to, int64_t to_sequence, const lnt_state *from,
                                 int64_t from_sequence);
int64_t lnt_device_state_tokens(const lnt_state *state, int64_t sequence);

/* For the plug-in, each sequence its own. */
lnt_cuda_states lnt_device_state_view(const lnt_state *state);

/* A state on the CPU that remembers the same, and back: what is rare goes that way. */
lnt_status lnt_device_state_to_host(const lnt_state *state, lnt_state **out);
lnt_status lnt_device_state_from_host(lnt_state *state, const lnt_state *host);

#endif
