/* cuda/split_plan.cu - plans and runs of split.h: how long segments are, what the workspace holds.
 */
#include <math.h>

#include "cuda/plan.h"
#include "cuda/split.h"

namespace lnt
{

bool split_is_for(const lnt_attn_desc *p, bool by_state)
{
    if (p->dtype != LNT_BF16 || p->mechanism == LNT_CUR) return true;
    const bool wide = width_for((int)p->dim, (int)p->dim_value) > BACK_STATE_WIDTH;
    return by_state && p->mechanism == LNT_TAYLOR &&
           (p->taylor.terms > 4 || (p->backward && (p->state || wide)));
}

static bool has_states(const lnt_cuda_plan *plan)
{
    return plan->by_state || plan->p.mechanism == LNT_LINEAR;
}

static int64_t state_numbers(const lnt_cuda_plan *plan)
{
    return split_rounded(plan->count) * split_columns((int)plan->p.dim_value);
}

/* As causal_segment() of plan.cu has it, at the rates of one H200: a key one by one takes 2 (d + N)
 * operations at 1e14 a second, a state's number 16 bytes to write, sum and read. */
static int64_t causal_segment(const lnt_cuda_plan *plan)
{
    const double key = 2.0 * (double)(plan->p.dim + split_columns((int)plan->p.dim_value)) / 1e14;
    const double best = sqrt(2 * (double)state_numbers(plan) * 16 / 4e12 / key);
    int64_t segment = SPLIT_ROWS;
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

void split_cut(lnt_cuda_plan *plan)
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

void split_lay_out(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    const int64_t heads = p->batch * p->kv_heads;
    auto floats = [&](int64_t numbers) {
        return take(&plan->at.bytes, (size_t)numbers * sizeof(float));
    };
    plan->at.keys = floats(split_key_numbers(heads, p->length_k, (int)p->dim));
    plan->at.values = floats(split_value_numbers(heads, p->length_k, (int)p->dim_value));
    if (has_states(plan)) plan->at.sums = floats(heads * plan->segments * state_numbers(plan));
    if (p->mechanism == LNT_CUR) cur_lay_out(plan);
}

split_args split_args_of(lnt_cuda_plan *plan, const lnt_cuda_io *io)
{
    const lnt_attn_desc *p = &plan->p;
    char *work = (char *)io->workspace;
    split_args a = {};
    a.q = view_of(io->q), a.k = view_of(io->k), a.v = view_of(io->v), a.out = view_of(io->out);
    a.length_q = io->q.shape[2], a.length_k = io->k.shape[2];
    a.lengths_q = io->lengths_q, a.lengths_k = io->lengths_k;
    a.batch = (int)io->q.shape[0], a.heads = (int)p->heads, a.kv_heads = (int)p->kv_heads;
    a.dim = (int)p->dim, a.dim_value = (int)p->dim_value;
    a.causal = p->causal, a.map = p->linear.feature_map, a.terms = (int)p->taylor.terms;
    a.mode = p->mechanism == LNT_TAYLOR   ? SPLIT_TAYLOR
             : p->mechanism == LNT_LINEAR ? SPLIT_LINEAR
                                          : SPLIT_SOFTMAX;
    if (a.mode == SPLIT_TAYLOR) {
        a.normalize = p->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT, a.output_norm = p->taylor.output_norm;
        a.temperature = plan->temperature;
        for (int t = 0; t < p->taylor.terms && t < 32; t++) a.coefficient[t] = (float)plan->coefficient[t];
    }
    if (a.mode == SPLIT_LINEAR) a.eps = (float)p->linear.eps, a.log_decay = plan->log_decay;
    if (a.mode == SPLIT_SOFTMAX) a.coefficient[0] = (float)(p->scale * 1.4426950408889634);
    a.by_state = has_states(plan), a.segment = plan->segment;
    a.segments = (int)((a.length_k + a.segment - 1) / a.segment);
    /* The sum of the last segment goes nowhere but into a state. */
    a.summed = p->causal && !io->state_out && a.segments > 0 ? a.segments - 1 : a.segments;
    if (a.segments < 1) a.segments = 1;
    a.table = plan->split_table, a.count = plan->count;
    a.factor = a.mode == SPLIT_TAYLOR ? plan->step_factor : NULL;
    a.factors = a.mode == SPLIT_TAYLOR ? a.terms - 1 : 1;
    a.keys = (float *)(work + plan->at.keys), a.values = (float *)(work + plan->at.values);
    a.sums = (float *)(work + plan->at.sums), a.nonpositive = plan->nonpositive;
    a.group = 1;
    if (io->state_in) a.s_in = io->state_in->s, a.z_in = io->state_in->z;
    if (io->state_out) a.s_out = io->state_out->s, a.z_out = io->state_out->z;
    return a;
}

static cudaError_t run_forward(const split_args &a, cudaStream_t stream)
{
    cudaError_t e = a.batch && a.length_k ? split_pack_run(a, stream) : cudaSuccess;
    if (e == cudaSuccess && a.batch && a.by_state) e = split_sum_run(a, stream);
    if (e == cudaSuccess && a.batch && a.length_q) e = split_read_run(a, stream);
    return e;
}

lnt_status split_forward(lnt_cuda_plan *plan, const lnt_cuda_io *io, cudaStream_t stream)
{
    return check(plan->device, run_forward(split_args_of(plan, io), stream), "forward");
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

void split_back_lay_out(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    lnt_cuda_back_layout *at = &plan->back;
    const int64_t heads = p->batch * p->heads, queries = heads * p->length_q,
                  keys = p->batch * p->kv_heads * p->length_k,
                  places = query_places(plan, p->length_q, p->length_k);
    at->bytes = plan->at.bytes; /* after all that forward takes */
    auto floats = [&](int64_t numbers) {
        return take(&at->bytes, (size_t)numbers * sizeof(float));
    };
    at->q_keys = floats(split_key_numbers(heads, places, (int)p->dim));
    at->douts = floats(split_value_numbers(heads, places, (int)p->dim_value));
    at->rows = floats(p->mechanism == LNT_SOFTMAX ? heads * split_rounded(places) : 0);
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

static split_back_args back_args_of(lnt_cuda_plan *plan, const lnt_cuda_io *io,
                                    const lnt_cuda_grads *grads)
{
    const lnt_attn_desc *p = &plan->p;
    char *work = (char *)io->workspace;
    lnt_cuda_io forward = *io;
    forward.state_out = NULL;
    split_back_args a = {};
    (split_args &)a = split_args_of(plan, &forward);
    const int64_t n = a.length_q, m = p->dim_value;
    a.out = a.y = { work + plan->back.y, LNT_F32, { p->heads * n * m, n * m, m, 1 } };
    a.inverse = (float *)(work + plan->back.inverse);
    a.nonpositive = (unsigned long long *)(work + plan->back.counter); /* forward has counted */
    a.dout = view_of(grads->dout), a.dq = view_of(grads->dq);
    a.dk = view_of(grads->dk), a.dv = view_of(grads->dv);
    a.places = query_places(plan, n, a.length_k);
    a.q_keys = (float *)(work + plan->back.q_keys);
    a.q_values = (float *)(work + plan->back.douts);
    a.logs = (float *)(work + plan->back.rows);
    a.gradient_sums = (float *)(work + plan->back.gradient_sums);
    a.gradient_segments = query_segments(plan, a.places);
    if (grads->dstate_out) a.ds_out = grads->dstate_out->s, a.dz_out = grads->dstate_out->z;
    if (grads->dstate_in) a.ds_in = grads->dstate_in->s, a.dz_in = grads->dstate_in->z;
    if (a.normalize) a.gradient = (float *)(work + plan->back.gradient);
    return a;
}

cudaError_t split_backward(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_grads *grads,
                           cudaStream_t stream)
{
    const split_back_args a = back_args_of(plan, io, grads);
    if (!a.batch) return cudaSuccess;
    cudaError_t e = run_forward(a, stream);
    if (e == cudaSuccess) e = split_queries_run(a, stream);
    if (e == cudaSuccess) e = split_back_run(a, SPLIT_QUERIES, stream);
    if (e == cudaSuccess) e = normalized_run(plan, io, grads, false, stream);
    if (e == cudaSuccess && a.by_state) e = split_gradient_sum_run(a, stream);
    if (e == cudaSuccess) e = split_back_run(a, SPLIT_KEYS, stream);
    if (e == cudaSuccess) e = split_last_run(a, stream);
    return e == cudaSuccess ? normalized_run(plan, io, grads, true, stream) : e;
}

} // namespace lnt
