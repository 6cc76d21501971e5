/* cuda/host/plan_f32.cu - plans and runs of f32.h: how long segments are, what the workspace holds. */
#include <math.h>

#include "cuda/host/plan.h"

namespace lnt
{

static bool has_states(const lnt_cuda_plan *plan)
{
    return plan->chosen.by_state || plan->p.mechanism == LNT_LINEAR;
}

static int64_t state_numbers(const lnt_cuda_plan *plan)
{
    return f32_rounded(plan->count) * f32_columns((int)plan->p.dim_value);
}

/* As causal_segment() of plan.cu has it, at the rates of one H200: a key one by one takes 2 (d + N)
 * operations at 1e14 a second, a state's number 16 bytes to write, sum and read. */
static int64_t causal_segment(const lnt_cuda_plan *plan)
{
    const double key = 2.0 * (double)(plan->p.dim + f32_columns((int)plan->p.dim_value)) / 1e14;
    const double best = sqrt(2 * (double)state_numbers(plan) * 16 / 4e12 / key);
    int64_t segment = F32_ROWS;
    while ((double)segment * 1.41 < best) segment *= 2;
    return segment;
}

/* Not causal: enough of them to fill the machine. */
static int64_t full_segment(const lnt_cuda_plan *plan)
{
    const int64_t blocks = (plan->count + 127) / 128 * plan->p.batch * plan->p.kv_heads;
    const int64_t want = 4 * plan->device->limits.processors / blocks + 1;
    const int64_t segment = (plan->p.length_k / want + 127) / 128 * 128;
    return segment < 512 ? 512 : segment;
}

/* The features, for make_features() of f32.cuh. */
static cudaError_t upload_table(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    const bool taylor = p->mechanism == LNT_TAYLOR;
    std::vector<uint64_t> index;
    std::vector<float> factor;
    for (int64_t i = 0; i < p->dim && !taylor; i++) index.push_back((uint64_t)i);
    if (taylor) monomials_table((int)p->dim, (int)p->taylor.terms, plan->coefficient, index, factor);
    const int factors = taylor ? (int)p->taylor.terms - 1 : 1;
    return upload(plan, &plan->f32.table, f32_table(index, (int)p->dim, factors));
}

cudaError_t f32_cut(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    if (!has_states(plan)) {
        plan->segment = p->length_k > 0 ? (p->length_k + 127) / 128 * 128 : 128;
        plan->segments = 1;
        return cudaSuccess;
    }
    plan->segment = p->causal ? causal_segment(plan) : full_segment(plan);
    /* Of what the device has, a quarter may go to states. */
    const double most = (double)plan->device->properties.totalGlobalMem / 4,
                 each = (double)(p->batch * (p->backward ? p->heads : p->kv_heads) * state_numbers(plan)) *
                        sizeof(float);
    while (plan->segment < p->length_k && each * ceil((double)p->length_k / (double)plan->segment) > most)
        plan->segment *= 2;
    plan->segments = pieces(p->length_k, plan->segment);
    if (plan->segments < 1) plan->segments = 1; /* the state before, which is summed to as well */
    return upload_table(plan);
}

void f32_lay_out(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    const int64_t heads = p->batch * p->kv_heads;
    f32_plan *own = &plan->f32;
    own->keys = take_floats(&plan->bytes, f32_key_numbers(heads, p->length_k, (int)p->dim));
    own->values = take_floats(&plan->bytes, f32_value_numbers(heads, p->length_k, (int)p->dim_value));
    if (has_states(plan)) own->sums = take_floats(&plan->bytes, heads * plan->segments * state_numbers(plan));
}

f32_args f32_args_of(lnt_cuda_plan *plan, const lnt_cuda_io *io)
{
    const f32_plan *own = &plan->f32;
    char *work = (char *)io->workspace;
    f32_args a = {};
    (attention_args &)a = attention_of(plan, io);
    const lnt_mechanism m = plan->p.mechanism;
    a.mode = m == LNT_TAYLOR ? F32_TAYLOR : m == LNT_LINEAR ? F32_LINEAR : F32_SOFTMAX;
    a.by_state = has_states(plan), a.log_decay = plan->log_decay;
    if (a.mode == F32_SOFTMAX) a.coefficient[0] = (float)(plan->p.scale * 1.4426950408889634);
    a.segments = pieces(a.length_k, a.segment);
    /* The sum of the last segment goes nowhere but into a state. */
    a.summed = a.causal && !io->state_out && a.segments > 0 ? a.segments - 1 : a.segments;
    if (a.segments < 1) a.segments = 1;
    a.table = own->table, a.factor = plan->feature_factor;
    a.factors = a.mode == F32_TAYLOR ? a.terms - 1 : 1;
    a.keys = (float *)(work + own->keys), a.values = (float *)(work + own->values);
    a.sums = (float *)(work + own->sums);
    a.group = 1;
    return a;
}

static cudaError_t run_forward(const f32_args &a, cudaStream_t stream)
{
    cudaError_t e = a.batch && a.length_k ? f32_pack_run(a, stream) : cudaSuccess;
    if (e == cudaSuccess && a.batch && a.by_state) e = f32_sum_run(a, stream);
    if (e == cudaSuccess && a.batch && a.length_q) e = f32_answer_run(a, stream);
    return e;
}

static cudaError_t forward(lnt_cuda_plan *plan, const lnt_cuda_io *io, cudaStream_t stream)
{
    return run_forward(f32_args_of(plan, io), stream);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Causal, queries stand where their keys do. */
static int64_t query_places(const lnt_cuda_plan *plan, int64_t length_q, int64_t length_k)
{
    return plan->p.causal ? length_k : length_q;
}

static int query_segments(const lnt_cuda_plan *plan, int64_t places)
{
    const int segments = pieces(places, plan->segment);
    return segments < 1 ? 1 : segments;
}

static void lay_out_backward(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    auto *at = &plan->f32.back;
    const int64_t heads = p->batch * p->heads, queries = heads * p->length_q,
                  places = query_places(plan, p->length_q, p->length_k);
    size_t *bytes = &plan->backward_bytes;
    *bytes = plan->bytes; /* after all that forward takes */
    at->q_keys = take_floats(bytes, f32_key_numbers(heads, places, (int)p->dim));
    at->douts = take_floats(bytes, f32_value_numbers(heads, places, (int)p->dim_value));
    at->rows = take_floats(bytes, p->mechanism == LNT_SOFTMAX ? heads * f32_rounded(places) : 0);
    at->y = take_floats(bytes, queries * p->dim_value);
    at->inverse = take_floats(bytes, queries);
    at->counter = take(bytes, sizeof(unsigned long long));
    if (has_states(plan)) {
        const int segments = query_segments(plan, places);
        const bool fits = p->heads * segments <= p->kv_heads * plan->segments;
        at->gradient_sums = fits ? plan->f32.sums /* dq has read them by then */
                                 : take_floats(bytes, heads * segments * state_numbers(plan));
    }
    normal_lay_out(plan);
}

static f32_backward_args backward_args_of(lnt_cuda_plan *plan, const lnt_cuda_io *io,
                                          const lnt_cuda_grads *grads)
{
    const auto *at = &plan->f32.back;
    char *work = (char *)io->workspace;
    lnt_cuda_io forward = *io;
    forward.state_out = NULL;
    f32_backward_args a = {};
    (f32_args &)a = f32_args_of(plan, &forward);
    const int64_t n = a.length_q, m = a.dim_value;
    a.out = a.y = { work + at->y, LNT_F32, { a.heads * n * m, n * m, m, 1 } };
    a.inverse = (float *)(work + at->inverse);
    a.nonpositive = (unsigned long long *)(work + at->counter); /* forward has counted */
    a.dout = view_of(grads->dout), a.dq = view_of(grads->dq);
    a.dk = view_of(grads->dk), a.dv = view_of(grads->dv);
    a.places = query_places(plan, n, a.length_k);
    a.q_keys = (float *)(work + at->q_keys);
    a.q_values = (float *)(work + at->douts);
    a.logs = (float *)(work + at->rows);
    a.gradient_sums = (float *)(work + at->gradient_sums);
    a.gradient_segments = query_segments(plan, a.places);
    if (grads->dstate_out) a.ds_out = grads->dstate_out->s, a.dz_out = grads->dstate_out->z;
    if (grads->dstate_in) a.ds_in = grads->dstate_in->s, a.dz_in = grads->dstate_in->z;
    if (a.normalize) a.gradient = (float *)(work + plan->normal.gradient);
    return a;
}

static cudaError_t backward(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_grads *grads,
                            cudaStream_t stream)
{
    const f32_backward_args a = backward_args_of(plan, io, grads);
    if (!a.batch) return cudaSuccess;
    cudaError_t e = run_forward(a, stream);
    if (e == cudaSuccess) e = f32_pack_queries_run(a, stream);
    if (e == cudaSuccess) e = f32_backward_run(a, F32_QUERIES, stream);
    if (e == cudaSuccess) e = normalized_run(plan, io, grads, false, stream);
    if (e == cudaSuccess && a.by_state) e = f32_backward_sum_run(a, stream);
    if (e == cudaSuccess) e = f32_backward_run(a, F32_KEYS, stream);
    if (e == cudaSuccess) e = f32_backward_last_run(a, stream);
    return e == cudaSuccess ? normalized_run(plan, io, grads, true, stream) : e;
}

const family f32_family = { f32_cut, f32_lay_out, lay_out_backward, forward, backward };

} // namespace lnt
