/* cuda/host/run.cu - a plan on a stream: forward, backward, step, and the states between. */
#include "cuda/host/plan.h"

namespace lnt
{

view view_of(const lnt_tensor &t)
{
    return { t.data, (int)t.dtype, { t.stride[0], t.stride[1], t.stride[2], t.stride[3] } };
}

attention_args attention_of(const lnt_cuda_plan *plan, const lnt_cuda_io *io)
{
    const lnt_attn_desc *p = &plan->p;
    const bool taylor = p->mechanism == LNT_TAYLOR;
    attention_args a = {};
    a.q = view_of(io->q), a.k = view_of(io->k), a.v = view_of(io->v), a.out = view_of(io->out);
    a.length_q = io->q.shape[2], a.length_k = io->k.shape[2];
    a.lengths_q = io->lengths_q, a.lengths_k = io->lengths_k;
    a.batch = (int)io->q.shape[0], a.heads = (int)p->heads, a.kv_heads = (int)p->kv_heads;
    a.dim = (int)p->dim, a.dim_value = (int)p->dim_value, a.width = plan->width;
    a.terms = (int)p->taylor.terms, a.causal = p->causal, a.map = p->linear.feature_map;
    a.normalize = normalizes(p), a.output_norm = taylor && p->taylor.output_norm;
    a.eps = p->mechanism == LNT_LINEAR ? (float)p->linear.eps : 0.0f;
    for (int t = 0; t < 32; t++) a.coefficient[t] = (float)plan->coefficient[t];
    a.temperature = plan->temperature, a.nonpositive = plan->nonpositive, a.count = plan->count;
    a.segment = plan->segment;
    a.segments = pieces(a.length_k + (a.causal && a.lengths_q ? a.length_q : 0), a.segment);
    if (io->state_in) a.s_in = io->state_in->s, a.z_in = io->state_in->z;
    if (io->state_out) a.s_out = io->state_out->s, a.z_out = io->state_out->z;
    return a;
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* The plug-in stands alone: it does not call the library that opened it. */
static const char *dtype_name(int dtype)
{
    static const char *const names[] = { "f32", "f16", "bf16", "f64" };
    return dtype >= 0 && dtype < 4 ? names[dtype] : "unknown";
}

static lnt_status fits(lnt_cuda_plan *plan, const char *name, const lnt_tensor &t, int64_t heads,
                       int64_t length, int64_t dim)
{
    const lnt_attn_desc *p = &plan->p;
    if (t.dtype != p->dtype)
        return fail(plan->device, LNT_ERR_DTYPE, "cuda: %s is %s, the plan is for %s", name,
                    dtype_name(t.dtype), dtype_name(p->dtype));
    if (t.shape[0] > p->batch || t.shape[1] != heads || t.shape[2] > length || t.shape[3] != dim)
        return fail(plan->device, LNT_ERR_SHAPE,
                    "cuda: %s is [%lld,%lld,%lld,%lld], the plan is for up to [%lld,%lld,%lld,%lld]", name,
                    (long long)t.shape[0], (long long)t.shape[1], (long long)t.shape[2],
                    (long long)t.shape[3], (long long)p->batch, (long long)heads, (long long)length,
                    (long long)dim);
    return LNT_OK;
}

static lnt_status check_inputs(lnt_cuda_plan *plan, const lnt_cuda_io *io, size_t workspace_bytes)
{
    const lnt_attn_desc *p = &plan->p;
    lnt_status s = fits(plan, "q", io->q, p->heads, p->length_q, p->dim);
    if (!s) s = fits(plan, "k", io->k, p->kv_heads, p->length_k, p->dim);
    if (!s) s = fits(plan, "v", io->v, p->kv_heads, p->length_k, p->dim_value);
    if (s) return s;
    if (io->workspace_bytes < workspace_bytes)
        return fail(plan->device, LNT_ERR_ARGUMENT, "cuda: a workspace of %zu bytes, the plan needs %zu",
                    io->workspace_bytes, workspace_bytes);
    if (p->causal && io->q.shape[2] > io->k.shape[2])
        return fail(plan->device, LNT_ERR_SHAPE, "cuda: causal with %lld queries and %lld keys",
                    (long long)io->q.shape[2], (long long)io->k.shape[2]);
    return LNT_OK;
}

/* Whether the states that come with a run are those of the plan; a family without them takes none. */
static lnt_status check_states(lnt_cuda_plan *plan, bool given, bool before, const char *pass, bool offered)
{
    if (given && !offered)
        return fail(
            plan->device, LNT_ERR_UNSUPPORTED,
            "cuda: %s of %s:%s takes no state; of taylor/state it does where the descriptor's state is 1",
            pass, plan->chosen.algorithm, form_name(plan->chosen.forward));
    if (plan->p.taylor.output_norm && before)
        return fail(plan->device, LNT_ERR_UNSUPPORTED,
                    "cuda: %s with output_norm takes no state before the first key", pass);
    return LNT_OK;
}

static bool has_states(const lnt_cuda_plan *plan)
{
    return plan->chosen.by_state || plan->p.mechanism == LNT_LINEAR;
}

/* ---- forward --------------------------------------------------------------------------------- */

lnt_status plan_forward(lnt_cuda_plan *plan, const lnt_cuda_io *io)
{
    const lnt_attn_desc *p = &plan->p;
    plan->tiles.left = {};
    if (plan->forward_plan) return plan_forward(plan->forward_plan, io);
    lnt_status s = check_inputs(plan, io, plan->bytes);
    if (!s) s = fits(plan, "out", io->out, p->heads, p->length_q, p->dim_value);
    if (!s) s = check_states(plan, io->state_in || io->state_out, io->state_in, "forward", has_states(plan));
    if (s) return s;
    cudaStream_t stream = (cudaStream_t)io->stream;
    s = check(plan->device, plan->family->forward(plan, io, stream), "forward");
    if (s || !io->state_out || !io->state_out->tokens) return s;
    return check(plan->device,
                 state_count_run(io->state_out->tokens, io->state_in ? io->state_in->tokens : NULL, NULL,
                                 io->k.shape[0], io->k.shape[2], io->lengths_k, stream),
                 "counting tokens");
}

/* ---- backward -------------------------------------------------------------------------------- */

static cudaError_t clear_gaps(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_grads *grads,
                              cudaStream_t stream)
{
    cudaError_t e = cudaSuccess;
    gaps_args a = {};
    a.batch = (int)io->q.shape[0];
    if (io->lengths_q || (plan->p.causal && io->lengths_k)) {
        a.x = view_of(grads->dq), a.length = io->q.shape[2], a.dim = plan->p.dim;
        a.heads = (int)plan->p.heads, a.lengths = io->lengths_q;
        a.lengths_k = plan->p.causal ? io->lengths_k : NULL;
        e = gaps_run(a, stream);
    }
    a.length = io->k.shape[2], a.heads = (int)plan->p.kv_heads;
    a.lengths = io->lengths_k, a.lengths_k = NULL;
    for (int value = 0; value < 2 && io->lengths_k && e == cudaSuccess; value++) {
        a.x = view_of(value ? grads->dv : grads->dk);
        a.dim = value ? plan->p.dim_value : plan->p.dim;
        e = gaps_run(a, stream);
    }
    return e;
}

void normal_lay_out(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    const int64_t queries = p->batch * p->heads * p->length_q, keys = p->batch * p->kv_heads * p->length_k;
    if (!normalizes(p)) return;
    plan->normal.gradient = take_floats(&plan->backward_bytes, (queries > keys ? queries : keys) * p->dim);
    plan->normal.along = take_floats(&plan->backward_bytes, queries);
}

cudaError_t normalized_run(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_grads *grads, bool keys,
                           cudaStream_t stream)
{
    const lnt_attn_desc *p = &plan->p;
    if (!normalizes(p)) return cudaSuccess;
    char *work = (char *)io->workspace;
    normal_args a = {};
    a.x = view_of(keys ? io->k : io->q), a.dx = view_of(keys ? grads->dk : grads->dq);
    a.gradient = (float *)(work + plan->normal.gradient);
    a.length = keys ? io->k.shape[2] : io->q.shape[2];
    a.lengths = keys ? io->lengths_k : io->lengths_q;
    a.batch = (int)io->q.shape[0], a.heads = (int)(keys ? p->kv_heads : p->heads);
    a.dim = (int)p->dim;
    if (!keys) {
        a.along = (float *)(work + plan->normal.along), a.temperature = plan->temperature;
        a.dtemperature = grads->dtemperature;
    }
    return normal_backward_run(a, stream);
}

static lnt_status check_grads(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_grads *grads)
{
    const lnt_attn_desc *p = &plan->p;
    lnt_status s = fits(plan, "dout", grads->dout, p->heads, p->length_q, p->dim_value);
    if (!s) s = fits(plan, "dq", grads->dq, p->heads, p->length_q, p->dim);
    if (!s) s = fits(plan, "dk", grads->dk, p->kv_heads, p->length_k, p->dim);
    if (!s) s = fits(plan, "dv", grads->dv, p->kv_heads, p->length_k, p->dim_value);
    const bool given = grads->dstate_out || grads->dstate_in || io->state_in;
    const bool offered = has_states(plan) && plan->chosen.backward >= FORM_PASS; /* linear, f32 */
    return s ? s : check_states(plan, given, io->state_in, "backward", offered);
}

lnt_status plan_backward(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_grads *grads)
{
    if (!plan->p.backward)
        return fail(plan->device, LNT_ERR_ARGUMENT,
                    "cuda: backward was not planned; set backward in the descriptor");
    lnt_status s = check_inputs(plan, io, plan->backward_bytes);
    if (!s) s = check_grads(plan, io, grads);
    if (s) return s;
    cudaStream_t stream = (cudaStream_t)io->stream;
    cudaError_t e = clear_gaps(plan, io, grads, stream);
    if (e == cudaSuccess) e = plan->family->backward(plan, io, grads, stream);
    return check(plan->device, e, "backward");
}

/* ---- states ---------------------------------------------------------------------------------- */

lnt_status plan_step(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_states *states, int what)
{
    const lnt_attn_desc *p = &plan->p;
    if (!plan->count)
        return fail(plan->device, LNT_ERR_UNSUPPORTED,
                    "cuda: no step with %lld terms and dim %lld; linear, and taylor with up to 4 terms "
                    "or 8 where dim is up to 16, have one",
                    (long long)p->taylor.terms, (long long)p->dim);
    if (io->workspace_bytes < plan->bytes)
        return fail(plan->device, LNT_ERR_ARGUMENT, "cuda: a workspace of %zu bytes, the plan needs %zu",
                    io->workspace_bytes, plan->bytes);
    const bool appends = what & LNT_CUDA_APPEND, answers = what & LNT_CUDA_QUERY;
    lnt_status s = LNT_OK;
    plan->tiles.left = {};
    if (appends) s = fits(plan, "k", io->k, p->kv_heads, INT32_MAX, p->dim);
    if (!s && appends) s = fits(plan, "v", io->v, p->kv_heads, INT32_MAX, p->dim_value);
    if (!s && answers) s = fits(plan, "q", io->q, p->heads, INT32_MAX, p->dim);
    if (!s && answers) s = fits(plan, "out", io->out, p->heads, INT32_MAX, p->dim_value);
    if (s) return s;
    if (appends && answers && io->q.shape[2] != io->k.shape[2])
        return fail(plan->device, LNT_ERR_SHAPE, "cuda: a step of %lld queries and %lld keys",
                    (long long)io->q.shape[2], (long long)io->k.shape[2]);
    state_step_args a = {};
    (attention_args &)a = attention_of(plan, io);
    const lnt_tensor *lead = appends ? &io->k : &io->q;
    a.batch = (int)lead->shape[0], a.tokens = (int)lead->shape[2];
    a.s = states->s, a.z = states->z, a.slots = states->index, a.seen = states->tokens;
    a.taylor = p->mechanism == LNT_TAYLOR, a.index = plan->index, a.factor = plan->feature_factor;
    a.decay = plan->decay, a.output_norm = a.output_norm && states->tokens;
    a.append = appends, a.answer = answers;
    a.splits = plan->splits, a.partial = (float *)io->workspace, a.arrived = plan->arrived;
    cudaStream_t stream = (cudaStream_t)io->stream;
    cudaError_t e = a.batch && a.tokens ? state_step_run(a, stream) : cudaSuccess;
    if (e == cudaSuccess && a.append && states->tokens)
        e = state_count_run(states->tokens, states->tokens, states->index, a.batch, a.tokens, NULL, stream);
    return check(plan->device, e, "step");
}

lnt_status state_reset(lnt_cuda_plan *plan, const lnt_cuda_states *states, int64_t slot, void *stream)
{
    const size_t rows = (size_t)plan->p.kv_heads * (size_t)plan->count, m = (size_t)plan->p.dim_value;
    cudaError_t e = cudaMemsetAsync(states->s + (size_t)slot * rows * m, 0, rows * m * sizeof(float),
                                    (cudaStream_t)stream);
    if (e == cudaSuccess)
        e = cudaMemsetAsync(states->z + (size_t)slot * rows, 0, rows * sizeof(float), (cudaStream_t)stream);
    if (e == cudaSuccess && states->tokens)
        e = cudaMemsetAsync(states->tokens + slot, 0, sizeof(int64_t), (cudaStream_t)stream);
    return check(plan->device, e, "forgetting a state");
}

lnt_status state_fork(lnt_cuda_plan *plan, const lnt_cuda_states *states, int64_t from, int64_t to,
                      void *stream)
{
    const size_t rows = (size_t)plan->p.kv_heads * (size_t)plan->count, m = (size_t)plan->p.dim_value;
    const cudaMemcpyKind kind = cudaMemcpyDeviceToDevice;
    cudaError_t e = cudaMemcpyAsync(states->s + (size_t)to * rows * m, states->s + (size_t)from * rows * m,
                                    rows * m * sizeof(float), kind, (cudaStream_t)stream);
    if (e == cudaSuccess)
        e = cudaMemcpyAsync(states->z + (size_t)to * rows, states->z + (size_t)from * rows,
                            rows * sizeof(float), kind, (cudaStream_t)stream);
    if (e == cudaSuccess && states->tokens)
        e = cudaMemcpyAsync(states->tokens + to, states->tokens + from, sizeof(int64_t), kind,
                            (cudaStream_t)stream);
    return check(plan->device, e, "copying a state");
}

lnt_status plan_nonpositive(lnt_cuda_plan *plan, void *stream, int64_t *out)
{
    unsigned long long count[2] = { 0, 0 };
    cudaError_t e = cudaSuccess;
    for (int i = 0; i < 2 && e == cudaSuccess; i++) {
        const lnt_cuda_plan *from = i ? plan->forward_plan : plan;
        if (from)
            e = cudaMemcpyAsync(&count[i], from->nonpositive, sizeof count[i], cudaMemcpyDeviceToHost,
                                (cudaStream_t)stream);
    }
    if (e == cudaSuccess) e = cudaStreamSynchronize((cudaStream_t)stream);
    *out = (int64_t)(count[0] + count[1]);
    return check(plan->device, e, "reading a counter");
}

} // namespace lnt
