/* attention/state/device_state.c - states on a GPU: S [B,K,D,m] and z [B,K,D] in its memory, in the order
 * of those on the CPU and without their padding, so that copies of whole sequences are all it takes
 * to move them.  The plug-in appends and reads; it also counts the tokens, since which sequence of a
 * pool a run adds to may be known on the device alone. */
#include "attention/state/device_state.h"

#include <math.h>
#include <string.h>

#include "attention/taylor/basis.h"
#include "core/tensor.h"

/* ---- life ------------------------------------------------------------------------------------ */

static lnt_status allocate_tensor(lnt_state *state, int i)
{
    const lnt_attn_desc *p = &state->engine.p;
    int64_t shape[3], padded;
    size_t rows;
    state->kind->shape(p, 0, i, shape, &padded);
    state->tensor[i] =
        lnt_tensor_bhnd(NULL, LNT_F32, p->batch, shape[0], shape[1], shape[2]);
    if (!lnt_size_product((size_t)p->batch, (size_t)shape[0], (size_t)shape[1], &rows) ||
        !lnt_size_product(rows, (size_t)shape[2], sizeof(float), &state->bytes[i]))
        return lnt_fail(state->engine.ctx, LNT_ERR_MEMORY,
                        "state: its size exceeds the address space");
    return lnt_device_allocate(state->engine.ctx, state->bytes[i], &state->tensor[i].data);
}

static size_t token_bytes(const lnt_state *state)
{
    return (size_t)state->engine.p.batch * sizeof *state->seen;
}

static lnt_status open_plan(lnt_state *state, const lnt_attn_desc *p)
{
    lnt_ctx *ctx = state->engine.ctx;
    lnt_attn_desc step = *p;
    step.length_q = step.length_k = 0; /* a step brings its own lengths */
    step.algorithm = NULL;
    const lnt_status status = lnt_device_plan_open(ctx, &step, &state->device);
    if (status) return status;
    if (!state->device.info.features)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "state: %s keeps none of %lld terms with a dim of %lld", ctx->device->name,
                        (long long)p->taylor.terms, (long long)p->dim);
    return LNT_OK;
}

lnt_status lnt_device_state_make(lnt_ctx *ctx, const lnt_attn_desc *resolved, lnt_state **out)
{
    *out = NULL;
    if (resolved->mechanism != LNT_LINEAR && resolved->mechanism != LNT_TAYLOR)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "state: %s has one on the cpu only, not on %s",
                        lnt_mechanism_name(resolved->mechanism), ctx->device->name);
    lnt_state *state = lnt_allocate(ctx, sizeof *state, "the state");
    if (!state) return LNT_ERR_MEMORY;
    lnt_attn_desc p = *resolved;
    p.causal = 1;
    p.backward = 0;
    p.state = 1;
    *state = (lnt_state){ .kind = &lnt_state_sums, .engine.ctx = ctx, .selected = p.batch };
    lnt_status status = open_plan(state, &p);
    if (!status) status = lnt_engine_open(ctx, &p, NULL, 0, &state->engine);
    for (int i = 0; i < LNT_STATE_PUBLIC && !status; i++) status = allocate_tensor(state, i);
    void *seen = NULL;
    if (!status) status = lnt_device_allocate(ctx, token_bytes(state), &seen);
    state->seen = seen;
    if (!status) status = lnt_device_state_reset(state, -1);
    if (status) {
        lnt_device_state_close(state);
        lnt_release(ctx, state, sizeof *state);
        return status;
    }
    *out = state;
    return LNT_OK;
}

void lnt_device_state_close(lnt_state *state)
{
    lnt_ctx *ctx = state->engine.ctx;
    lnt_device_release(ctx, state->seen, token_bytes(state));
    for (int i = 0; i < LNT_STATE_PUBLIC; i++)
        lnt_device_release(ctx, state->tensor[i].data, state->bytes[i]);
    lnt_device_plan_close(ctx, &state->device);
    if (state->engine.memory.base) lnt_engine_close(&state->engine);
}

/* ---- tokens in, answers out ------------------------------------------------------------------ */

lnt_cuda_states lnt_device_state_view(const lnt_state *state)
{
    return (lnt_cuda_states){ .s = state->tensor[LNT_STATE_S].data,
                              .z = state->tensor[LNT_STATE_Z].data,
                              .slots = state->engine.p.batch,
                              .tokens = state->seen };
}

lnt_status lnt_device_state_run(lnt_state *state, const lnt_tensor *q, const lnt_tensor *k,
                                const lnt_tensor *v, const lnt_tensor *out)
{
    lnt_ctx *ctx = state->engine.ctx;
    lnt_cuda_states slots = lnt_device_state_view(state);
    lnt_cuda_io io = lnt_device_plan_io(ctx, &state->device);
    slots.index = state->index;
    if (k) {
        io.k = *k;
        io.v = *v;
    }
    if (q) {
        io.q = *q;
        io.out = *out;
    }
    state->algorithm =
        state->engine.p.mechanism == LNT_TAYLOR ? "taylor/recurrent" : "linear/recurrent";
    if (!state->selected || !state->engine.p.heads) return LNT_OK;
    const int what = (k ? LNT_CUDA_APPEND : 0) | (q ? LNT_CUDA_QUERY : 0);
    return lnt_device_told(ctx,
                           ctx->device->api->step(state->device.plan, &io, &slots, what));
}

lnt_status lnt_device_state_reset(lnt_state *state, int64_t sequence)
{
    lnt_ctx *ctx = state->engine.ctx;
    const lnt_cuda_states slots = lnt_device_state_view(state);
    if (sequence >= 0)
        return lnt_device_told(ctx, ctx->device->api->state_reset(state->device.plan, &slots,
                                                                  sequence, ctx->stream));
    lnt_status status = lnt_device_clear(ctx, state->seen, token_bytes(state));
    for (int i = 0; i < LNT_STATE_PUBLIC && !status; i++)
        status = lnt_device_clear(ctx, state->tensor[i].data, state->bytes[i]);
    return status;
}

/* ---- copies ---------------------------------------------------------------------------------- */

lnt_status lnt_device_state_fork(const lnt_state *state, lnt_state *to)
{
    lnt_ctx *ctx = state->engine.ctx;
    lnt_status status = lnt_device_copy(ctx, to->seen, state->seen, token_bytes(state));
    for (int i = 0; i < LNT_STATE_PUBLIC && !status; i++)
        status = lnt_device_copy(ctx, to->tensor[i].data, state->tensor[i].data, state->bytes[i]);
    return status;
}

lnt_status lnt_device_state_copy(lnt_state *to, int64_t to_sequence, const lnt_state *from,
                                 int64_t from_sequence)
{
    lnt_ctx *ctx = to->engine.ctx;
    lnt_status status = lnt_device_copy(ctx, to->seen + to_sequence, from->seen + from_sequence,
                                        sizeof *to->seen);
    for (int i = 0; i < LNT_STATE_PUBLIC && !status; i++) {
        const size_t share = to->bytes[i] / (size_t)to->engine.p.batch;
        status = lnt_device_copy(ctx, (char *)to->tensor[i].data + (size_t)to_sequence * share,
                                 (char *)from->tensor[i].data + (size_t)from_sequence * share, share);
    }
    return status;
}

int64_t lnt_device_state_tokens(const lnt_state *state, int64_t sequence)
{
    int64_t tokens = 0;
    const lnt_status status = lnt_device_read(state->engine.ctx, &tokens, state->seen + sequence,
                                              sizeof tokens);
    return status ? -1 : tokens;
}

/* ---- to the CPU and back --------------------------------------------------------------------- */

/* With taylorshift the library's sums are over keys times r = d^(1/4), the plug-in's over keys of length
 * 1: rows of degree t differ by r^t.  packed: `each` numbers for a monomial. */
static void rescale(const lnt_attn_desc *p, float *packed, int64_t each, bool to_host)
{
    if (p->mechanism != LNT_TAYLOR || p->taylor.normalize != LNT_NORMALIZE_TAYLORSHIFT) return;
    const double r = sqrt(lnt_taylor_score_factor(p));
    for (int64_t head = 0; head < p->batch * p->kv_heads; head++)
        for (int64_t t = 0, first = 0; t < p->taylor.terms; t++) {
            const int64_t end = lnt_basis_size(p->dim, t + 1);
            const float factor = (float)pow(r, (double)(to_host ? t : -t));
            for (int64_t i = (end - first) * each; i > 0; i--) *packed++ *= factor;
            first = end;
        }
}

static lnt_status move_tensor(const lnt_state *state, const lnt_state *host, int i, bool to_host)
{
    const int64_t each = i == LNT_STATE_S ? state->engine.p.dim_value : 1;
    lnt_ctx *ctx = state->engine.ctx;
    void *packed = lnt_allocate(ctx, state->bytes[i], "a copy of the state");
    if (!packed) return LNT_ERR_MEMORY;
    lnt_status status = LNT_OK;
    if (to_host) {
        status = lnt_device_read(ctx, packed, state->tensor[i].data, state->bytes[i]);
        if (!status) rescale(&state->engine.p, packed, each, to_host);
        if (!status) lnt_tensor_unpack(&host->tensor[i], host->tensor[i].shape[2], packed);
    } else {
        lnt_state_settle(host);
        lnt_tensor_pack(&host->tensor[i], host->tensor[i].shape[2], packed);
        rescale(&state->engine.p, packed, each, to_host);
        status = lnt_device_write(ctx, state->tensor[i].data, packed, state->bytes[i]);
    }
    lnt_release(ctx, packed, state->bytes[i]);
    return status;
}

lnt_status lnt_device_state_to_host(const lnt_state *state, lnt_state **out)
{
    lnt_ctx *ctx = state->engine.ctx;
    lnt_status status = lnt_state_make(ctx, &state->engine.p, 0, out);
    if (status) return status;
    for (int i = 0; i < LNT_STATE_PUBLIC && !status; i++)
        status = move_tensor(state, *out, i, true);
    if (!status) status = lnt_device_read(ctx, (*out)->tokens, state->seen, token_bytes(state));
    if (!status) return LNT_OK;
    lnt_state_destroy(*out);
    *out = NULL;
    return status;
}

lnt_status lnt_device_state_from_host(lnt_state *state, const lnt_state *host)
{
    lnt_status status = LNT_OK;
    for (int i = 0; i < LNT_STATE_PUBLIC && !status; i++)
        status = move_tensor(state, host, i, false);
    return status ? status
                  : lnt_device_write(state->engine.ctx, state->seen, host->tokens,
                                     token_bytes(state));
}
