/* cuda/host/plan_f32.cu - plans and runs of f32.h: how long segments are, what the workspace holds.
 */
#include <math.h>

#include "cuda/f32/f32.h"
#include "cuda/host/plan.h"

namespace lnt
{

bool f32_is_for(const lnt_attn_desc *p, bool by_state)
{
    if (p->dtype != LNT_BF16 || p->mechanism == LNT_CUR) return true;
    const bool wide = width_for((int)p->dim, (int)p->dim_value) > BACKWARD_STATE_WIDTH;
    return by_state && p->mechanism == LNT_TAYLOR &&
           (p->taylor.terms > 4 || (p->backward && (p->state || wide)));
}

static bool has_states(const lnt_cuda_plan *plan)
{
    return plan->by_state || plan->p.mechanism == LNT_LINEAR;
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
    const int64_t want = 4 * plan->device->properties.multiProcessorCount / blocks + 1;
    const int64_t segment = (plan->p.length_k / want + 127) / 128 * 128;
    return segment < 512 ? 512 : segment;
}

void f32_cut(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    if (!has_states(plan)) {
        plan->segment = p->length_k > 0 ? (p->length_k + 127) / 128 * 128 : 128;
        plan->segments = 1;
        return;
    }
    plan->segment = p->causal ? causal_segment(plan) : full_segment(plan);
    /* Of what the device has, a quarter may go to states. */
    const double most = (double)plan->device->properties.totalGlobalMem / 4,
                 each = (double)(p->batch * (p->backward ? p->heads : p->kv_heads) *
                                 state_numbers(plan)) *
                        sizeof(float);
    while (plan->segment < p->length_k &&
           each * ceil((double)p->length_k / (double)plan->segment) > most)
        plan->segment *= 2;
    plan->segments = (int)((p->length_k + plan->segment - 1) / plan->segment);
    if (plan->segments < 1) plan->segments = 1; /* the state before, which is summed to as well */
}

void f32_lay_out(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    const int64_t heads = p->batch * p->kv_heads;
    auto floats = [&](int64_t numbers) {
        return take(&plan->at.bytes, (size_t)numbers * sizeof(float));
    };
    plan->at.keys = floats(f32_key_numbers(heads, p->length_k, (int)p->dim));
    plan->at.values = floats(f32_value_numbers(heads, p->length_k, (int)p->dim_value));
    if (has_states(plan)) plan->at.sums = floats(heads * plan->segments * state_numbers(plan));
    if (p->mechanism == LNT_CUR) cur_lay_out(plan);
}

f32_args f32_args_of(lnt_cuda_plan *plan, const lnt_cuda_io *io)
{
    const lnt_attn_desc *p = &plan->p;
    char *work = (char *)io->workspace;
    f32_args a = {};
    a.q = view_of(io->q), a.k = view_of(io->k), a.v = view_of(io->v), a.out = view_of(io->out);
    a.length_q = io->q.shape[2], a.length_k = io->k.shape[2];
    a.lengths_q = io->lengths_q, a.lengths_k = io->lengths_k;
    a.batch = (int)io->q.shape[0], a.heads = (int)p->heads, a.kv_heads = (int)p->kv_heads;
    a.dim = (int)p->dim, a.dim_value = (int)p->dim_value;
    a.causal = p->causal, a.map = p->linear.feature_map, a.terms = (int)p->taylor.terms;
    a.mode = p->mechanism == LNT_TAYLOR   ? F32_TAYLOR
             : p->mechanism == LNT_LINEAR ? F32_LINEAR
                                          : F32_SOFTMAX;
    if (a.mode == F32_TAYLOR) {
        a.normalize = p->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT,
        a.output_norm = p->taylor.output_norm;
        a.temperature = plan->temperature;
        for (int t = 0; t < p->taylor.terms && t < 32; t++)
            a.coefficient[t] = (float)plan->coefficient[t];
    }
    if (a.mode == F32_LINEAR) a.eps = (float)p->linear.eps, a.log_decay = plan->log_decay;
    if (a.mode == F32_SOFTMAX) a.coefficient[0] = (float)(p->scale * 1.4426950408889634);
    a.by_state = has_states(plan), a.segment = plan->segment;
    a.segments = (int)((a.length_k + a.segment - 1) / a.segment);
    /* The sum of the last segment goes nowhere but into a state. */
    a.summed = p->causal && !io->state_out && a.segments > 0 ? a.segments - 1 : a.segments;
    if (a.segments < 1) a.segments = 1;
    a.table = plan->f32_table, a.count = plan->count;
    a.factor = a.mode == F32_TAYLOR ? plan->step_factor : NULL;
    a.factors = a.mode == F32_TAYLOR ? a.terms - 1 : 1;
    a.keys = (float *)(work + plan->at.keys), a.values = (float *)(work + plan->at.values);
    a.sums = (float *)(work + plan->at.sums), a.nonpositive = plan->nonpositive;
    a.group = 1;
    if (io->state_in) a.s_in = io->state_in->s, a.z_in = io->state_in->z;
    if (io->state_out) a.s_out = io->state_out->s, a.z_out = io->state_out->z;
    return a;
}

static cudaError_t run_forward(const f32_args &a, cudaStream_t stream)
{
    cudaError_t e = a.batch && a.length_k ? f32_pack_run(a, stream) : cudaSuccess;
    if (e == cudaSuccess && a.batch && a.by_state) e = f32_sum_run(a, stream);
    if (e == cudaSuccess && a.batch && a.length_q) e = f32_answer_run(a, stream);
    return e;
}

lnt_status f32_forward(lnt_cuda_plan *plan, const lnt_cuda_io *io, cudaStream_t stream)
{
    return check(plan->device, run_forward(f32_args_of(plan, io), stream), "forward");
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Causal, queries stand where their keys do. */
static int64_t query_places(const lnt_cuda_plan *plan, int64_t length_q, int64_t length_k)
{
    return plan->p.causal ? length_k : length_q;
}

static int query_segments(const lnt_cuda_plan *plan, int64_t places)
{
    const int segments = (int)((places + plan->segment - 1) / plan->segment);
    return segments < 1 ? 1 : segments;
}

void f32_backward_lay_out(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    lnt_cuda_backward_layout *at = &plan->backward;
    const int64_t heads = p->batch * p->heads, queries = heads * p->length_q,
                  keys = p->batch * p->kv_heads * p->length_k,
                  places = query_places(plan, p->length_q, p->length_k);
    at->bytes = plan->at.bytes; /* after all that forward takes */
    auto floats = [&](int64_t numbers) {
        return take(&at->bytes, (size_t)numbers * sizeof(float));
    };
    at->q_keys = floats(f32_key_numbers(heads, places, (int)p->dim));
    at->douts = floats(f32_value_numbers(heads, places, (int)p->dim_value));
    at->rows = floats(p->mechanism == LNT_SOFTMAX ? heads * f32_rounded(places) : 0);
    at->y = floats(queries * p->dim_value);
    at->inverse = floats(queries);
    at->counter = take(&at->bytes, sizeof(unsigned long long));
    if (has_states(plan)) {
        const int segments = query_segments(plan, places);
        const bool fits = p->heads * segments <= p->kv_heads * plan->segments;
        at->gradient_sums = fits ? plan->at.sums /* dq has read them by then */
                                 : floats(heads * segments * state_numbers(plan));
    }
    if (p->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT) {
        at->gradient = floats((queries > keys ? queries : keys) * p->dim);
        at->along = floats(queries);
    }
}

static f32_backward_args backward_args_of(lnt_cuda_plan *plan, const lnt_cuda_io *io,
                                          const lnt_cuda_grads *grads)
{
    const lnt_attn_desc *p = &plan->p;
    char *work = (char *)io->workspace;
    lnt_cuda_io forward = *io;
    forward.state_out = NULL;
    f32_backward_args a = {};
    (f32_args &)a = f32_args_of(plan, &forward);
    const int64_t n = a.length_q, m = p->dim_value;
    a.out = a.y = { work + plan->backward.y, LNT_F32, { p->heads * n * m, n * m, m, 1 } };
    a.inverse = (float *)(work + plan->backward.inverse);
    a.nonpositive = (unsigned long long *)(work + plan->backward.counter); /* forward has counted */
    a.dout = view_of(grads->dout), a.dq = view_of(grads->dq);
    a.dk = view_of(grads->dk), a.dv = view_of(grads->dv);
    a.places = query_places(plan, n, a.length_k);
    a.q_keys = (float *)(work + plan->backward.q_keys);
    a.q_values = (float *)(work + plan->backward.douts);
    a.logs = (float *)(work + plan->backward.rows);
    a.gradient_sums = (float *)(work + plan->backward.gradient_sums);
    a.gradient_segments = query_segments(plan, a.places);
    if (grads->dstate_out) a.ds_out = grads->dstate_out->s, a.dz_out = grads->dstate_out->z;
    if (grads->dstate_in) a.ds_in = grads->dstate_in->s, a.dz_in = grads->dstate_in->z;
    if (a.normalize) a.gradient = (float *)(work + plan->backward.gradient);
    return a;
}

cudaError_t f32_backward(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_grads *grads,
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

} // namespace lnt
