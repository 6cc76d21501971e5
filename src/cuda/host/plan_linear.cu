/* cuda/host/plan_linear.cu - plans and runs of linear.h. */
#include "cuda/host/plan.h"

namespace lnt
{

/* Tokens of a sum: as many blocks of threads for each multiprocessor as given. */
static int64_t segment_of(const lnt_cuda_plan *plan, int64_t n, int blocks)
{
    const int64_t heads = plan->p.batch * plan->p.kv_heads;
    const int64_t segment = n * heads / (blocks * (int64_t)plan->device->limits.processors) / 64 * 64;
    return segment < 256 ? 256 : segment > 4096 ? 4096 : segment;
}

static cudaError_t cut(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    plan->segment = segment_of(plan, p->length_k, 16);
    plan->segments = pieces(p->length_k + (p->causal ? p->length_q : 0), plan->segment);
    plan->linear.one_pass = plan->chosen.forward == FORM_PASS;
    /* Or the boxes are half empty. */
    plan->linear.by_boxes = p->causal && !p->decay && p->heads == p->kv_heads && p->length_q == p->length_k &&
                            p->dim <= 64 && p->dim_value <= 64 && p->dim + p->dim_value > 64 &&
                            plan->device->limits.warpgroups;
    return cudaSuccess;
}

static void lay_out(lnt_cuda_plan *plan)
{
    const int64_t heads = plan->p.batch * plan->p.kv_heads, state = 8 * plan->width * (8 * plan->width + 8);
    plan->linear.sums = take_floats(&plan->bytes, heads * plan->segments * state);
    plan->linear.total = take_floats(&plan->bytes, heads * state);
    const size_t pass = plan->linear.one_pass ? linear_pass_workspace(heads) : 0;
    if (plan->bytes < pass) plan->bytes = pass;
}

static cudaError_t forward(lnt_cuda_plan *plan, const lnt_cuda_io *io, cudaStream_t stream)
{
    char *work = (char *)io->workspace;
    linear_args a = {};
    (attention_args &)a = attention_of(plan, io);
    a.decay = plan->decay;
    a.sums = (float *)(work + plan->linear.sums), a.total = (float *)(work + plan->linear.total);
    cudaError_t e = cudaSuccess;
    const bool done = plan->linear.one_pass && a.length_q && a.length_k && a.batch &&
                      linear_pass_run(a, plan->device->limits.processors, work, stream, &e);
    return done || !a.batch ? e : linear_run(a, stream);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Two blocks of threads run on a multiprocessor at once. */
static int64_t segment_backward(const lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    return segment_of(plan, p->length_k > p->length_q ? p->length_k : p->length_q, 8);
}

static void lay_out_backward(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    auto *at = &plan->linear.back;
    size_t *bytes = &plan->backward_bytes;
    const int64_t heads = p->batch * p->kv_heads, columns = 8 * plan->width + 8,
                  state = (columns - 7) * columns, segment = segment_backward(plan),
                  keys = pieces(p->length_k, segment),
                  queries = p->causal ? keys : pieces(p->length_q, segment);
    at->sums = take_floats(bytes, heads * keys * state);
    at->total = take_floats(bytes, heads * state);
    at->gradient_sums = take_floats(bytes, heads * queries * state);
    at->gradient_total = take_floats(bytes, heads * state);
    at->rows = take_floats(bytes, 2 * p->batch * p->heads * p->length_q);
    if (plan->linear.by_boxes)
        at->boxes = take(bytes, linear_boxes_workspace(p->batch * p->heads, p->length_q));
}

static cudaError_t backward(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_grads *grads,
                            cudaStream_t stream)
{
    const auto *at = &plan->linear.back;
    char *work = (char *)io->workspace;
    linear_backward_args a = {};
    (attention_args &)a = attention_of(plan, io);
    a.s_out = a.z_out = NULL;
    a.dout = view_of(grads->dout), a.dq = view_of(grads->dq);
    a.dk = view_of(grads->dk), a.dv = view_of(grads->dv);
    a.decay = plan->decay, a.segment = segment_backward(plan);
    a.segments = pieces(a.length_k, a.segment);
    a.query_segments = a.causal ? a.segments : pieces(a.length_q, a.segment);
    a.sums = (float *)(work + at->sums), a.total = (float *)(work + at->total);
    a.gradient_sums = (float *)(work + at->gradient_sums);
    a.gradient_total = (float *)(work + at->gradient_total);
    a.rows = (float2 *)(work + at->rows);
    if (grads->dstate_out) a.ds_out = grads->dstate_out->s, a.dz_out = grads->dstate_out->z;
    if (grads->dstate_in) a.ds_in = grads->dstate_in->s, a.dz_in = grads->dstate_in->z;
    cudaError_t e = cudaSuccess;
    if (!a.batch ||
        (plan->linear.by_boxes && a.length_q && linear_boxes_run(a, work + at->boxes, stream, &e)))
        return e;
    return linear_backward_run(a, stream);
}

const family linear_family = { cut, lay_out, lay_out_backward, forward, backward };

} // namespace lnt
