/* attention/state/sums.c - the state of linear, Taylor and hybrid attention: S [D,m] and z [D] per kv head,
 * of fixed size; hybrid keeps the last tokens, and the first, beside them.
 *
 * Every operation is a run of an algorithm with the state before and after it: appending is a run
 * without queries, querying one without keys.  Single tokens may be kept back for a while (see
 * recurrent.c): settling puts them into the sums. */
#include <math.h>

#include "attention/state/state.h"
#include "core/tensor.h"
#include "cpu/kernels.h"

enum { FEW_TOKENS = 4 }; /* up to here the recurrent form is faster than a chunk */

static void shape(const lnt_attn_desc *p, int64_t room, int i, int64_t out[3], int64_t *ld)
{
    (void)room;
    const int64_t D = lnt_problem_width(p), m = p->dim_value, W = lnt_score_width(p);
    const bool hybrid = p->mechanism == LNT_HYBRID;
    const int64_t low = p->compensated ? 1 : 0, recent = hybrid ? 0 : lnt_recent_room(p);
    const int64_t window = hybrid ? p->hybrid.sink + lnt_window_room(p) : 0;
    const struct {
        int64_t rows, columns;
    } of[LNT_STATE_TENSORS] = { [LNT_STATE_S] = { D, m },         [LNT_STATE_Z] = { 1, D },
                                [LNT_STATE_LOW_S] = { low * D, m }, [LNT_STATE_LOW_Z] = { low, D },
                                [LNT_STATE_WINDOW_K] = { window, p->dim },
                                [LNT_STATE_WINDOW_V] = { window, m },
                                [LNT_STATE_RECENT_K] = { recent, W },
                                [LNT_STATE_RECENT_V] = { recent, m } };
    out[0] = p->kv_heads;
    out[1] = of[i].rows;
    out[2] = of[i].columns;
    *ld = (int64_t)lnt_round_up((size_t)out[2], LNT_PAD);
}

static lnt_dtype dtype(const lnt_attn_desc *p) { return p->dtype == LNT_F64 ? LNT_F64 : LNT_F32; }

/* A tensor with no rows. */
static lnt_tensor none(const lnt_attn_desc *p, int64_t heads, int64_t dim)
{
    return lnt_tensor_bhnd(NULL, p->dtype, p->batch, heads, 0, dim);
}

/* A run in place, of what is not NULL. */
static lnt_attn_io io_of(lnt_state *state, const lnt_tensor *q, const lnt_tensor *k, const lnt_tensor *v,
                         const lnt_tensor *out)
{
    const lnt_attn_desc *p = &state->work.p;
    return (lnt_attn_io){ .size = sizeof(lnt_attn_io),
                          .q = q ? *q : none(p, p->heads, p->dim),
                          .k = k ? *k : none(p, p->kv_heads, p->dim),
                          .v = v ? *v : none(p, p->kv_heads, p->dim_value),
                          .out = out ? *out : none(p, p->heads, p->dim_value),
                          .state_in = state,
                          .state_out = state };
}

static void run(lnt_state *state, lnt_run *r, const lnt_algo *algo)
{
    algo->forward(r);
    state->nonpositive += r->nonpositive;
}

/* A run of `tokens`, keys among them if `adds`: few of them one by one, kept back where there is room
 * for that; else in chunks. */
static void run_tokens(lnt_state *state, const lnt_attn_io *io, bool causal, double sign,
                       int64_t tokens, bool adds)
{
    const int64_t room = lnt_recent_room(&state->work.p);
    const bool few = tokens <= FEW_TOKENS && sign > 0;
    if (!few) lnt_state_settle(state);
    lnt_run r = lnt_workspace_run(&state->work, io, state->work.p.batch);
    r.causal = causal;
    r.sign = sign;
    r.recents = few ? state : NULL;
    run(state, &r, state->algos[!few]);
    state->algorithm = state->algos[!few]->name;
    if (few && adds && room) state->recent = (state->recent + tokens) % room;
}

static void append(lnt_state *state, const lnt_tensor *k, const lnt_tensor *v, double sign)
{
    const lnt_attn_io io = io_of(state, NULL, k, v, NULL);
    run_tokens(state, &io, false, sign, k->shape[2], true);
}

static void query(lnt_state *state, const lnt_tensor *q, const lnt_tensor *out)
{
    const lnt_attn_io io = io_of(state, q, NULL, NULL, out);
    run_tokens(state, &io, false, 1, q->shape[2], false);
}

static void step(lnt_state *state, const lnt_tensor *q, const lnt_tensor *k, const lnt_tensor *v,
                 const lnt_tensor *out)
{
    const lnt_attn_io io = io_of(state, q, k, v, out);
    run_tokens(state, &io, true, 1, q->shape[2], true);
}

static void settle(lnt_state *state)
{
    const lnt_attn_io io = io_of(state, NULL, NULL, NULL, NULL);
    lnt_run r = lnt_workspace_run(&state->work, &io, state->work.p.batch);
    r.recents = state;
    r.settle = true;
    run(state, &r, state->algos[0]);
    state->recent = 0;
}

/* to = factor to + from; lost, unless NULL, takes what is rounded off. */
static void add_numbers(const lnt_state *state, void *to, void *lost, const void *from,
                        size_t count, double factor)
{
    const int isa = state->work.ctx->isa;
    if (dtype(&state->work.p) == LNT_F64) {
        const lnt_kernels_f64 *ker = lnt_kernels_get_f64(isa);
        ker->scale(to, factor, count);
        if (lost) ker->scale(lost, factor, count);
        if (lost) ker->add_compensated(to, lost, count, from, count, 1, count);
        else ker->axpy(to, 1, from, count);
    } else {
        const lnt_kernels_f32 *ker = lnt_kernels_get_f32(isa);
        ker->scale(to, (float)factor, count);
        if (lost) ker->scale(lost, (float)factor, count);
        if (lost) ker->add_compensated(to, lost, count, from, count, 1, count);
        else ker->axpy(to, 1, from, count);
    }
}

/* Tensor i of sequence b, head h: dst = factor dst + src, padding included. */
static void add(const lnt_state *dst, const lnt_state *src, int i, int64_t b, int64_t h,
                double factor)
{
    const int low = i == LNT_STATE_S ? LNT_STATE_LOW_S : LNT_STATE_LOW_Z;
    const size_t count = (size_t)dst->tensor[i].stride[1];
    void *to = lnt_tensor_row(&dst->tensor[i], b, h, 0);
    void *lost = dst->bytes[low] ? lnt_tensor_row(&dst->tensor[low], b, h, 0) : NULL;
    add_numbers(dst, to, lost, lnt_tensor_row(&src->tensor[i], b, h, 0), count, factor);
    if (lost) add_numbers(dst, to, lost, lnt_tensor_row(&src->tensor[low], b, h, 0), count, 1);
}

/* src's tokens come after dst's, which age by as many. */
static void merge(lnt_state *dst, const lnt_state *src)
{
    const lnt_attn_desc *p = &dst->work.p;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->kv_heads; h++) {
            const double aged = p->decay ? pow(p->decay[h], (double)src->tokens[b]) : 1;
            for (int i = 0; i < LNT_STATE_PUBLIC; i++) add(dst, src, i, b, h, aged);
        }
}

const lnt_state_kind lnt_state_sums = { .names = { "s", "z", "s_low", "z_low", "k", "v" },
                                        .grows = false,
                                        .shape = shape,
                                        .dtype = dtype,
                                        .append = append,
                                        .query = query,
                                        .step = step,
                                        .merge = merge,
                                        .settle = settle };
