/* attention/state/kv_cache.c - the state of softmax attention: the keys and values themselves.
 *
 * It grows by (d + m) numbers per kv head and token, and every query reads all of it: what the
 * other mechanisms' states are compared with. */
#include <string.h>

#include "attention/state/state.h"
#include "core/tensor.h"

enum { FEW_QUERIES = 2 }; /* up to here row by row is faster than a tile */

static void shape(const lnt_attn_desc *p, int64_t room, int i, int64_t out[3], int64_t *ld)
{
    out[0] = p->kv_heads;
    out[1] = i < LNT_STATE_PUBLIC ? room : 0;
    out[2] = i == 0 ? p->dim : p->dim_value;
    *ld = out[2];
}

static lnt_dtype dtype(const lnt_attn_desc *p) { return p->dtype; }

/* Rows 0 .. n-1 of src behind the tokens that sequence b of the cache holds. */
static void put_rows(const lnt_state *state, int i, const lnt_tensor *src, int64_t b, int64_t n)
{
    const lnt_tensor *dst = &state->tensor[i];
    const size_t row = (size_t)dst->shape[3] * lnt_dtype_size(dst->dtype);
    for (int64_t h = 0; h < dst->shape[1]; h++)
        for (int64_t t = 0; t < n; t++) {
            const int64_t at = state->tokens[b] + t;
            if (src->stride[3] == 1)
                memcpy(lnt_tensor_row(dst, b, h, at), lnt_tensor_row(src, b, h, t), row);
            else
                for (int64_t d = 0; d < dst->shape[3]; d++)
                    lnt_tensor_set(dst, b, h, at, d, lnt_tensor_get(src, b, h, t, d));
        }
}

static void append(lnt_state *state, const lnt_tensor *k, const lnt_tensor *v, double sign)
{
    (void)sign; /* lnt_state_remove refuses a cache */
    for (int64_t b = 0; b < state->work.p.batch; b++) {
        put_rows(state, 0, k, b, k->shape[2]);
        put_rows(state, 1, v, b, k->shape[2]);
    }
}

static void attend(lnt_state *state, const lnt_tensor *q, const lnt_tensor *out, bool causal)
{
    const lnt_attn_io io = { .size = sizeof io,
                             .q = *q,
                             .k = state->tensor[0],
                             .v = state->tensor[1],
                             .out = *out,
                             .lengths_k = state->tokens };
    lnt_run r = lnt_workspace_run(&state->work, &io, state->work.p.batch);
    r.causal = causal;
    const lnt_algo *algo = state->algos[q->shape[2] > FEW_QUERIES];
    algo->forward(&r);
    state->nonpositive += r.nonpositive;
    state->algorithm = algo->name;
}

static void query(lnt_state *state, const lnt_tensor *q, const lnt_tensor *out)
{
    attend(state, q, out, false);
}

static void step(lnt_state *state, const lnt_tensor *q, const lnt_tensor *k, const lnt_tensor *v,
                 const lnt_tensor *out)
{
    const int64_t batch = state->work.p.batch, n = k->shape[2];
    append(state, k, v, 1);
    for (int64_t b = 0; b < batch; b++) state->tokens[b] += n;
    attend(state, q, out, true);
    for (int64_t b = 0; b < batch; b++) state->tokens[b] -= n; /* the caller counts */
}

static void merge(lnt_state *dst, const lnt_state *src)
{
    for (int64_t b = 0; b < dst->work.p.batch; b++)
        for (int i = 0; i < LNT_STATE_PUBLIC; i++)
            put_rows(dst, i, &src->tensor[i], b, src->tokens[b]);
}

const lnt_state_kind lnt_state_kv_cache = { .names = { "k", "v" },
                                            .grows = true,
                                            .shape = shape,
                                            .dtype = dtype,
                                            .append = append,
                                            .query = query,
                                            .step = step,
                                            .merge = merge };
