/* cuda/host/run.cu - a plan on a stream: forward, step, and the states between. */
#include "cuda/host/plan.h"

namespace lnt
{

view view_of(const lnt_tensor &t)
{
    return { t.data, (int)t.dtype, { t.stride[0], t.stride[1], t.stride[2], t.stride[3] } };
}

/* The plug-in stands alone: it does not call the library that opened it. */
static const char *dtype_name(int dtype)
{
    static const char *const names[] = { "f32", "f16", "bf16", "f64" };
    return dtype >= 0 && dtype < 4 ? names[dtype] : "unknown";
}

lnt_status fits(lnt_cuda_plan *plan, const char *name, const lnt_tensor &t, int64_t heads,
                int64_t length, int64_t dim)
{
    const lnt_attn_desc *p = &plan->p;
    if (t.dtype != p->dtype)
        return fail(plan->device, LNT_ERR_DTYPE, "cuda: %s is %s, the plan is for %s", name,
                    dtype_name(t.dtype), dtype_name(p->dtype));
    if (t.shape[0] > p->batch || t.shape[1] != heads || t.shape[2] > length || t.shape[3] != dim)
        return fail(
            plan->device, LNT_ERR_SHAPE,
            "cuda: %s is [%lld,%lld,%lld,%lld], the plan is for up to [%lld,%lld,%lld,%lld]", name,
            (long long)t.shape[0], (long long)t.shape[1], (long long)t.shape[2],
            (long long)t.shape[3], (long long)p->batch, (long long)heads, (long long)length,
            (long long)dim);
    return LNT_OK;
}

lnt_status check_inputs(lnt_cuda_plan *plan, const lnt_cuda_io *io, size_t workspace_bytes)
{
    const lnt_attn_desc *p = &plan->p;
    lnt_status s = fits(plan, "q", io->q, p->heads, p->length_q, p->dim);
    if (!s) s = fits(plan, "k", io->k, p->kv_heads, p->length_k, p->dim);
    if (!s) s = fits(plan, "v", io->v, p->kv_heads, p->length_k, p->dim_value);
    if (s) return s;
    if (io->workspace_bytes < workspace_bytes)
        return fail(plan->device, LNT_ERR_ARGUMENT,
                    "cuda: a workspace of %zu bytes, the plan needs %zu", io->workspace_bytes,
                    workspace_bytes);
    if (p->causal && io->q.shape[2] > io->k.shape[2])
        return fail(plan->device, LNT_ERR_SHAPE, "cuda: causal with %lld queries and %lld keys",
                    (long long)io->q.shape[2], (long long)io->k.shape[2]);
    return LNT_OK;
}

static lnt_status check_io(lnt_cuda_plan *plan, const lnt_cuda_io *io)
{
    const lnt_status s = check_inputs(plan, io, plan->at.bytes);
    if (s) return s;
    return fits(plan, "out", io->out, plan->p.heads, plan->p.length_q, plan->p.dim_value);
}

/* ---- taylor and softmax ---------------------------------------------------------------------- */

tiles_pack_args pack_of(lnt_cuda_plan *plan, const lnt_cuda_io *io, int64_t blocks)
{
    char *work = (char *)io->workspace;
    tiles_pack_args a = {};
    a.k = view_of(io->k), a.v = view_of(io->v);
    if (plan->by_state) a.rows = work + plan->at.rows;
    if (!plan->by_state || plan->p.causal || plan->p.backward) a.keys = work + plan->at.keys;
    a.values = work + plan->at.values;
    a.length = io->k.shape[2], a.blocks = blocks, a.lengths = io->lengths_k;
    a.batch = (int)io->k.shape[0], a.heads = (int)plan->p.kv_heads;
    a.dim = (int)plan->p.dim, a.dim_value = (int)plan->p.dim_value;
    a.dim8 = plan->dim8, a.value8 = plan->width;
    a.normalize = plan->p.taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT, a.grouped = plan->pairs;
    return a;
}

tiles_answer_args answer_of(lnt_cuda_plan *plan, const lnt_cuda_io *io, int64_t blocks)
{
    const lnt_attn_desc *p = &plan->p;
    char *work = (char *)io->workspace;
    tiles_answer_args a = {};
    a.q = view_of(io->q), a.out = view_of(io->out);
    a.length_q = io->q.shape[2], a.length_k = io->k.shape[2];
    a.lengths_q = io->lengths_q, a.lengths_k = io->lengths_k;
    a.batch = (int)io->q.shape[0], a.heads = (int)p->heads, a.kv_heads = (int)p->kv_heads;
    a.dim = (int)p->dim, a.dim_value = (int)p->dim_value, a.dim8 = plan->dim8,
    a.width = plan->width;
    a.keys = work + plan->at.keys, a.values = work + plan->at.values, a.blocks = blocks;
    a.causal = p->causal, a.terms = (int)p->taylor.terms;
    a.tile_count = plan->tile_count;
    a.segment = plan->segment;
    a.normalize = p->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT,
    a.output_norm = p->taylor.output_norm;
    a.temperature = plan->temperature, a.nonpositive = plan->nonpositive;
    a.mode = p->mechanism == LNT_SOFTMAX ? TILES_SOFTMAX
             : p->taylor.terms <= 4      ? TILES_TAYLOR
                                         : TILES_TAYLOR_ANY;
    for (int t = 0; t < p->taylor.terms && t < 32; t++)
        a.coefficient[t] = (float)plan->coefficient[t];
    if (p->mechanism == LNT_SOFTMAX) a.coefficient[0] = (float)p->scale;
    a.direct = 1;
    return a;
}

/* The states of the segments; what the reader needs of them goes into `read`. */
cudaError_t make_states(lnt_cuda_plan *plan, const lnt_cuda_io *io, int64_t blocks,
                        tiles_answer_args *read, cudaStream_t stream)
{
    char *work = (char *)io->workspace;
    const lnt_attn_desc *p = &plan->p;
    const int64_t segment_blocks = plan->segment / 32;
    const int pieces = (int)((blocks + segment_blocks - 1) / segment_blocks);
    tiles_sum_args b = {};
    b.rows = work + plan->at.rows, b.values = read->values, b.blocks = blocks,
    b.segment_blocks = segment_blocks;
    b.heads = (int)(io->k.shape[0] * p->kv_heads);
    b.segments = p->causal && !io->state_out && pieces > 0 ? pieces - 1 : pieces;
    b.tasks = plan->tasks, b.task_count = plan->task_count, b.tile_count = plan->tile_count;
    b.dim8 = plan->dim8, b.width = plan->width;
    b.sums = (float *)(work + plan->at.sums);
    tiles_scan_args s = {};
    s.sums = b.sums, s.segments = b.segments, s.heads = b.heads;
    s.prefixes = p->causal && pieces > 1 ? pieces : 1, s.total = !p->causal;
    s.tile_count = plan->tile_count, s.width = plan->width, s.dim8 = plan->dim8;
    s.factor = plan->factor;
    s.state = work + plan->at.state, s.mean = (float *)(work + plan->at.mean);
    s.place = plan->place, s.count = plan->count, s.dim_value = (int)p->dim_value;
    if (io->state_in) s.s_in = io->state_in->s, s.z_in = io->state_in->z;
    if (io->state_out) s.s_out = io->state_out->s, s.z_out = io->state_out->z;
    cudaError_t e = b.segments ? tiles_sum_run(b, stream) : cudaSuccess;
    if (e == cudaSuccess) e = tiles_scan_run(s, stream);
    read->prefixes = s.prefixes, read->first_is_empty = p->causal && !io->state_in;
    read->remembers = io->state_in != NULL;
    read->state = s.state, read->mean = s.mean, read->direct = p->causal;
    return e;
}

/* The same of pairs_basis.h. */
cudaError_t make_pairs(lnt_cuda_plan *plan, const lnt_cuda_io *io, int64_t blocks, bool made,
                       tiles_answer_args *read, cudaStream_t stream)
{
    char *work = (char *)io->workspace;
    const lnt_attn_desc *p = &plan->p;
    pairs_args a = {};
    a.rows = work + plan->at.rows, a.values = read->values, a.blocks = blocks;
    a.segment_blocks = plan->segment / 32;
    const int pieces = (int)((blocks + a.segment_blocks - 1) / a.segment_blocks);
    a.segments = !io->state_out && pieces > 0 ? pieces - 1 : pieces;
    a.prefixes = pieces > 1 ? pieces : 1;
    a.heads = (int)(io->k.shape[0] * p->kv_heads), a.kv_heads = (int)p->kv_heads;
    a.length = io->k.shape[2], a.lengths = io->lengths_k;
    a.factor = plan->factor, a.place = plan->place, a.constant = (float)plan->coefficient[0];
    a.state = work + plan->at.state, a.linear = (float *)(work + plan->at.linear);
    a.mean = (float *)(work + plan->at.mean), a.aside = work + plan->at.sums;
    a.count = plan->count, a.dim_value = (int)p->dim_value;
    if (io->state_in) a.s_in = io->state_in->s, a.z_in = io->state_in->z;
    if (io->state_out) a.s_out = io->state_out->s, a.z_out = io->state_out->z;
    read->prefixes = a.prefixes, read->first_is_empty = !io->state_in;
    read->remembers = io->state_in != NULL, read->state = a.state, read->mean = a.mean;
    const bool some = a.segments || io->state_in || io->state_out;
    return some && !made ? pairs_sum_run(a, stream) : cudaSuccess;
}

/* Whether forward packs and sums as backward would, and leaves it there. */
static bool leaves_for_backward(const lnt_cuda_plan *plan, const lnt_cuda_io *io)
{
    return plan->p.backward && plan->by_state && plan->pairs && !io->state_in && !io->state_out &&
           io->workspace_bytes >= plan->backward.bytes;
}

static lnt_status packed_forward(lnt_cuda_plan *plan, const lnt_cuda_io *io, cudaStream_t stream)
{
    const int64_t blocks = (io->k.shape[2] + 127) / 128 * 4;
    tiles_answer_args read = answer_of(plan, io, blocks);
    const bool leaves = leaves_for_backward(plan, io);
    cudaError_t e = cudaSuccess;
    if (blocks && io->k.shape[0])
        e = leaves ? pack_for_gradients(plan, io, blocks, &read.center, stream)
                   : tiles_pack_run(pack_of(plan, io, blocks), stream);
    const bool remembers = plan->by_state && io->k.shape[0] > 0, pairs = remembers && plan->pairs;
    if (e == cudaSuccess && remembers)
        e = pairs ? make_pairs(plan, io, blocks, false, &read, stream)
                  : make_states(plan, io, blocks, &read, stream);
    if (e == cudaSuccess && leaves) plan->left = { io->k, io->v, io->lengths_k, io->workspace };
    if (e == cudaSuccess && io->q.shape[2] && io->q.shape[0])
        e = pairs ? pairs_answer_run(read, (const float *)((char *)io->workspace + plan->at.linear),
                                     plan->device->properties.multiProcessorCount, stream)
                  : tiles_answer_run(read, plan->units, stream);
    return check(plan->device, e, "forward");
}

/* Taylor attention whose monomials are orbits. */
static lnt_status orbits_forward(lnt_cuda_plan *plan, const lnt_cuda_io *io, cudaStream_t stream)
{
    const lnt_attn_desc *p = &plan->p;
    char *work = (char *)io->workspace;
    orbits_args a = {};
    a.q = view_of(io->q), a.k = view_of(io->k), a.v = view_of(io->v), a.out = view_of(io->out);
    a.length_q = io->q.shape[2], a.length_k = io->k.shape[2];
    a.lengths_q = io->lengths_q, a.lengths_k = io->lengths_k;
    a.batch = (int)io->q.shape[0], a.heads = (int)p->heads, a.kv_heads = (int)p->kv_heads;
    a.dim = (int)p->dim, a.dim_value = (int)p->dim_value;
    a.width = plan->orbits, a.terms = (int)p->taylor.terms, a.causal = p->causal;
    a.normalize = p->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT,
    a.output_norm = p->taylor.output_norm;
    for (int t = 0; t < p->taylor.terms; t++) a.coefficient[t] = (float)plan->coefficient[t];
    a.temperature = plan->temperature, a.nonpositive = plan->nonpositive;
    const int64_t n = a.length_k + (p->causal && io->lengths_q ? a.length_q : 0);
    a.segment = plan->segment, a.segments = (int)((n + a.segment - 1) / a.segment);
    a.walk = plan->walk, a.relay = plan->relay;
    a.summed =
        p->causal && !io->state_out && a.segments ? (a.segments - 1) / a.walk * a.walk : a.segments;
    a.sums = (float *)(work + plan->at.sums), a.total = (float *)(work + plan->at.state);
    a.place = plan->place, a.count = plan->count;
    if (io->state_in) a.s_in = io->state_in->s, a.z_in = io->state_in->z;
    if (io->state_out) a.s_out = io->state_out->s, a.z_out = io->state_out->z;
    cudaError_t e = a.batch ? orbits_sum_run(a, stream) : cudaSuccess;
    if (e == cudaSuccess && a.batch && a.length_q) e = orbits_answer_run(a, stream);
    return check(plan->device, e, "forward");
}

/* ---- linear ---------------------------------------------------------------------------------- */

static lnt_status linear_forward(lnt_cuda_plan *plan, const lnt_cuda_io *io, cudaStream_t stream)
{
    const lnt_attn_desc *p = &plan->p;
    char *work = (char *)io->workspace;
    linear_args a = {};
    a.q = view_of(io->q), a.k = view_of(io->k), a.v = view_of(io->v), a.out = view_of(io->out);
    a.length_q = io->q.shape[2], a.length_k = io->k.shape[2];
    a.lengths_q = io->lengths_q, a.lengths_k = io->lengths_k;
    a.batch = (int)io->q.shape[0], a.heads = (int)p->heads, a.kv_heads = (int)p->kv_heads;
    a.dim = (int)p->dim, a.dim_value = (int)p->dim_value, a.width = plan->width;
    a.map = p->linear.feature_map, a.causal = p->causal, a.eps = (float)p->linear.eps,
    a.decay = plan->decay;
    a.segment = plan->segment;
    const int64_t n = a.length_k + (p->causal && io->lengths_q ? a.length_q : 0);
    a.segments = (int)((n + a.segment - 1) / a.segment);
    a.sums = (float *)(work + plan->at.sums), a.total = (float *)(work + plan->at.state);
    if (io->state_in) a.s_in = io->state_in->s, a.z_in = io->state_in->z;
    if (io->state_out) a.s_out = io->state_out->s, a.z_out = io->state_out->z;
    a.nonpositive = plan->nonpositive;
    cudaError_t e = cudaSuccess;
    const bool done =
        plan->pass && a.length_q && a.length_k && a.batch &&
        linear_pass_run(a, plan->device->properties.multiProcessorCount, work, stream, &e);
    if (!done && a.batch) e = linear_run(a, stream);
    return check(plan->device, e, "forward");
}

/* ---- forward --------------------------------------------------------------------------------- */

static lnt_status check_states(lnt_cuda_plan *plan, const lnt_cuda_io *io)
{
    if (!io->state_in && !io->state_out) return LNT_OK;
    if (!plan->by_state && plan->p.mechanism != LNT_LINEAR)
        return fail(plan->device, LNT_ERR_UNSUPPORTED, "cuda: %s takes no state",
                    plan->p.algorithm);
    if (plan->p.taylor.output_norm && io->state_in)
        return fail(plan->device, LNT_ERR_UNSUPPORTED,
                    "cuda: forward with output_norm takes no state before the first key");
    return LNT_OK;
}

lnt_status plan_forward(lnt_cuda_plan *plan, const lnt_cuda_io *io)
{
    plan->left = {};
    if (plan->forward_plan) return plan_forward(plan->forward_plan, io);
    lnt_status s = check_io(plan, io);
    if (!s) s = check_states(plan, io);
    if (s) return s;
    cudaStream_t stream = (cudaStream_t)io->stream;
    s = plan->p.mechanism == LNT_CUR      ? cur_forward(plan, io, stream)
        : plan->f32                       ? f32_forward(plan, io, stream)
        : plan->p.mechanism == LNT_LINEAR ? linear_forward(plan, io, stream)
        : plan->by_state && plan->orbits  ? orbits_forward(plan, io, stream)
                                          : packed_forward(plan, io, stream);
    if (s || !io->state_out || !io->state_out->tokens) return s;
    return check(plan->device,
                 state_count_run(io->state_out->tokens, io->state_in ? io->state_in->tokens : NULL,
                                 NULL, io->k.shape[0], io->k.shape[2], io->lengths_k, stream),
                 "counting tokens");
}

/* ---- states ---------------------------------------------------------------------------------- */

lnt_status plan_step(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_states *states,
                     int what)
{
    const lnt_attn_desc *p = &plan->p;
    if (!plan->count)
        return fail(
            plan->device, LNT_ERR_UNSUPPORTED,
            "cuda: no step with %lld terms and dim %lld; linear, and taylor with up to 4 terms "
            "or 8 where dim is up to 16, have one",
            (long long)p->taylor.terms, (long long)p->dim);
    if (io->workspace_bytes < plan->at.bytes)
        return fail(plan->device, LNT_ERR_ARGUMENT,
                    "cuda: a workspace of %zu bytes, the plan needs %zu", io->workspace_bytes,
                    plan->at.bytes);
    const bool appends = what & LNT_CUDA_APPEND, answers = what & LNT_CUDA_QUERY;
    lnt_status s = LNT_OK;
    plan->left = {};
    if (appends) s = fits(plan, "k", io->k, p->kv_heads, INT32_MAX, p->dim);
    if (!s && appends) s = fits(plan, "v", io->v, p->kv_heads, INT32_MAX, p->dim_value);
    if (!s && answers) s = fits(plan, "q", io->q, p->heads, INT32_MAX, p->dim);
    if (!s && answers) s = fits(plan, "out", io->out, p->heads, INT32_MAX, p->dim_value);
    if (s) return s;
    if (appends && answers && io->q.shape[2] != io->k.shape[2])
        return fail(plan->device, LNT_ERR_SHAPE, "cuda: a step of %lld queries and %lld keys",
                    (long long)io->q.shape[2], (long long)io->k.shape[2]);
    state_step_args a = {};
    const lnt_tensor *lead = appends ? &io->k : &io->q;
    a.q = view_of(io->q), a.k = view_of(io->k), a.v = view_of(io->v), a.out = view_of(io->out);
    a.batch = (int)lead->shape[0], a.tokens = (int)lead->shape[2];
    a.heads = (int)p->heads, a.kv_heads = (int)p->kv_heads;
    a.dim = (int)p->dim, a.dim_value = (int)p->dim_value, a.count = plan->count;
    a.s = states->s, a.z = states->z, a.slots = states->index, a.seen = states->tokens;
    a.taylor = p->mechanism == LNT_TAYLOR, a.terms = (int)p->taylor.terms;
    a.index = plan->step_index, a.factor = plan->step_factor, a.map = p->linear.feature_map;
    a.decay = plan->decay, a.temperature = plan->temperature;
    a.normalize = a.taylor && p->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT;
    a.output_norm = a.taylor && p->taylor.output_norm && states->tokens;
    a.eps = a.taylor ? 0.0f : (float)p->linear.eps;
    a.append = appends, a.answer = answers;
    a.splits = plan->splits, a.partial = (float *)io->workspace;
    a.arrived = plan->arrived, a.nonpositive = plan->nonpositive;
    cudaStream_t stream = (cudaStream_t)io->stream;
    cudaError_t e = a.batch && a.tokens ? state_step_run(a, stream) : cudaSuccess;
    if (e == cudaSuccess && a.append && states->tokens)
        e = state_count_run(states->tokens, states->tokens, states->index, a.batch, a.tokens, NULL,
                            stream);
    return check(plan->device, e, "step");
}

lnt_status state_reset(lnt_cuda_plan *plan, const lnt_cuda_states *states, int64_t slot,
                       void *stream)
{
    const size_t rows = (size_t)plan->p.kv_heads * (size_t)plan->count,
                 m = (size_t)plan->p.dim_value;
    cudaError_t e = cudaMemsetAsync(states->s + (size_t)slot * rows * m, 0,
                                    rows * m * sizeof(float), (cudaStream_t)stream);
    if (e == cudaSuccess)
        e = cudaMemsetAsync(states->z + (size_t)slot * rows, 0, rows * sizeof(float),
                            (cudaStream_t)stream);
    if (e == cudaSuccess && states->tokens)
        e = cudaMemsetAsync(states->tokens + slot, 0, sizeof(int64_t), (cudaStream_t)stream);
    return check(plan->device, e, "forgetting a state");
}

lnt_status state_fork(lnt_cuda_plan *plan, const lnt_cuda_states *states, int64_t from, int64_t to,
                      void *stream)
{
    const size_t rows = (size_t)plan->p.kv_heads * (size_t)plan->count,
                 m = (size_t)plan->p.dim_value;
    const cudaMemcpyKind kind = cudaMemcpyDeviceToDevice;
    cudaError_t e =
        cudaMemcpyAsync(states->s + (size_t)to * rows * m, states->s + (size_t)from * rows * m,
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
            e = cudaMemcpyAsync(&count[i], from->nonpositive, sizeof count[i],
                                cudaMemcpyDeviceToHost, (cudaStream_t)stream);
    }
    if (e == cudaSuccess) e = cudaStreamSynchronize((cudaStream_t)stream);
    *out = (int64_t)(count[0] + count[1]);
    return check(plan->device, e, "reading a counter");
}

} // namespace lnt
