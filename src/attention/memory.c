/* attention/memory.c - the state of linear and Taylor attention: S [D,m] and z [D] per kv head, of
 * fixed size.
 *
 * Every operation is a run of an algorithm with the state before and
 * after it: appending is a run without queries, querying one without keys. */
#include <math.h>

#include "attention/state.h"
#include "core/tensor.h"
#include "cpu/kernels.h"

extern const lnt_algo lnt_algo_linear_recurrent_f32, lnt_algo_linear_recurrent_f64;
extern const lnt_algo lnt_algo_linear_chunked_f32, lnt_algo_linear_chunked_f64;
extern const lnt_algo lnt_algo_taylor_recurrent_f32, lnt_algo_taylor_recurrent_f64;
extern const lnt_algo lnt_algo_taylor_state_f32, lnt_algo_taylor_state_f64;

enum { FEW_TOKENS = 4 }; /* up to here the recurrent form is faster than a chunk */

static void shape(const lnt_attn_desc *p, int64_t room, int i, int64_t out[3], int64_t *ld)
{
    (void)room;
    const int64_t D = lnt_problem_width(p);
    out[0] = p->kv_heads;
    out[1] = i == 0 ? D : 1;
    out[2] = i == 0 ? p->dim_value : D;
    *ld = (int64_t)lnt_round_up((size_t)out[2], LNT_PAD);
}

static lnt_dtype dtype(const lnt_attn_desc *p) { return p->dtype == LNT_F64 ? LNT_F64 : LNT_F32; }

static int algorithms(const lnt_attn_desc *p, const lnt_algo *algos[2])
{
    const bool wide = p->dtype == LNT_F64;
    if (p->mechanism == LNT_TAYLOR) {
        algos[0] = wide ? &lnt_algo_taylor_recurrent_f64 : &lnt_algo_taylor_recurrent_f32;
        algos[1] = wide ? &lnt_algo_taylor_state_f64 : &lnt_algo_taylor_state_f32;
        return 2;
    }
    algos[0] = wide ? &lnt_algo_linear_recurrent_f64 : &lnt_algo_linear_recurrent_f32;
    algos[1] = wide ? &lnt_algo_linear_chunked_f64 : &lnt_algo_linear_chunked_f32;
    return 2;
}

static void run(lnt_state *state, const lnt_attn_io *io, bool causal, double sign, int64_t tokens)
{
    const lnt_algo *algos[2];
    algorithms(&state->engine.p, algos);
    lnt_run r = lnt_engine_run(&state->engine, io, state->engine.p.batch);
    r.causal = causal;
    r.sign = sign;
    const lnt_algo *algo = algos[tokens > FEW_TOKENS];
    algo->forward(&r);
    state->nonpositive += r.nonpositive;
    state->algorithm = algo->name;
}

/* A tensor of the same kind with no rows. */
static lnt_tensor none(const lnt_state *state, int64_t heads, int64_t dim)
{
    return lnt_tensor_bhnd(NULL, state->engine.p.dtype, state->engine.p.batch, heads, 0, dim);
}

static void append(lnt_state *state, const lnt_tensor *k, const lnt_tensor *v, double sign)
{
    const lnt_attn_desc *p = &state->engine.p;
    const lnt_attn_io io = { .size = sizeof io,
                             .q = none(state, p->heads, p->dim),
                             .k = *k,
                             .v = *v,
                             .out = none(state, p->heads, p->dim_value),
                             .state_in = state,
                             .state_out = state };
    run(state, &io, false, sign, k->shape[2]);
}

static void query(lnt_state *state, const lnt_tensor *q, const lnt_tensor *out)
{
    const lnt_attn_desc *p = &state->engine.p;
    const lnt_attn_io io = { .size = sizeof io,
                             .q = *q,
                             .k = none(state, p->kv_heads, p->dim),
                             .v = none(state, p->kv_heads, p->dim_value),
                             .out = *out,
                             .state_in = state,
                             .state_out = state };
    run(state, &io, false, 1, q->shape[2]);
}

static void step(lnt_state *state, const lnt_tensor *q, const lnt_tensor *k, const lnt_tensor *v,
                 const lnt_tensor *out)
{
    const lnt_attn_io io = { .size = sizeof io,
                             .q = *q,
                             .k = *k,
                             .v = *v,
                             .out = *out,
                             .state_in = state,
                             .state_out = state };
    run(state, &io, true, 1, q->shape[2]);
}

/* Sequence b, head h: dst = factor dst + src over `count` numbers, padding included. */
static void add(const lnt_state *dst, const lnt_state *src, int i, int64_t b, int64_t h,
                double factor)
{
    const int isa = dst->engine.ctx->isa;
    void *to = lnt_tensor_row(&dst->tensor[i], b, h, 0);
    const void *from = lnt_tensor_row(&src->tensor[i], b, h, 0);
    const size_t count = (size_t)dst->tensor[i].stride[1];
    if (dst->tensor[i].dtype == LNT_F64) {
        lnt_kernels_get_f64(isa)->scale(to, factor, count);
        lnt_kernels_get_f64(isa)->axpy(to, 1, from, count);
    } else {
        lnt_kernels_get_f32(isa)->scale(to, (float)factor, count);
        lnt_kernels_get_f32(isa)->axpy(to, 1, from, count);
    }
}

/* src's tokens come after dst's, which age by as many. */
static void merge(lnt_state *dst, const lnt_state *src)
{
    const lnt_attn_desc *p = &dst->engine.p;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->kv_heads; h++) {
            const double aged = p->decay ? pow(p->decay[h], (double)src->tokens[b]) : 1;
            for (int i = 0; i < LNT_STATE_TENSORS; i++) add(dst, src, i, b, h, aged);
        }
}

const lnt_state_kind lnt_state_memory = { .names = { "s", "z" },
                                          .grows = false,
                                          .shape = shape,
                                          .dtype = dtype,
                                          .algorithms = algorithms,
                                          .append = append,
                                          .query = query,
                                          .step = step,
                                          .merge = merge };
