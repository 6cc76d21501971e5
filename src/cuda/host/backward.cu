/* cuda/host/backward.cu - the backward pass of a plan: its workspace, and its launches. */
#include "cuda/host/plan.h"

namespace lnt
{

/* ---- sizes ----------------------------------------------------------------------------------- */

static int pieces(int64_t n, int64_t segment) { return (int)((n + segment - 1) / segment); }

/* Tokens between states of linear attention: a few blocks of threads for each of those that run at
 * once, two on a multiprocessor. */
static int64_t linear_segment(const lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    const int64_t n = p->length_k > p->length_q ? p->length_k : p->length_q;
    const int64_t wanted = 8 * plan->device->properties.multiProcessorCount;
    const int64_t segment = n * p->batch * p->kv_heads / wanted / 64 * 64;
    return segment < 256 ? 256 : segment > 4096 ? 4096 : segment;
}

static void lay_out_linear(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    lnt_cuda_backward_layout *at = &plan->backward;
    const size_t heads = (size_t)(p->batch * p->kv_heads);
    const size_t columns = (size_t)(8 * plan->width + 8), state = (columns - 7) * columns * 4;
    const int64_t segment = linear_segment(plan);
    const size_t keys = (size_t)pieces(p->length_k, segment),
                 queries = p->causal ? keys : (size_t)pieces(p->length_q, segment);
    at->sums = take(&at->bytes, heads * keys * state);
    at->total = take(&at->bytes, heads * state);
    at->gradient_sums = take(&at->bytes, heads * queries * state);
    at->gradient_total = take(&at->bytes, heads * state);
    at->rows = take(&at->bytes, (size_t)(p->batch * p->heads * p->length_q) * sizeof(float2));
    plan->by_boxes = p->causal && !plan->decay && p->heads == p->kv_heads &&
                     p->length_q == p->length_k && p->dim <= 64 && p->dim_value <= 64 &&
                     p->dim + p->dim_value > 64 && /* or the boxes are half empty */
                     plan->device->has_warpgroups;
    if (plan->by_boxes)
        at->boxes = take(&at->bytes, linear_boxes_workspace(p->batch * p->heads, p->length_q));
}

/* Blocks of 32 tokens of the packed queries; causal, they stand where their keys do. */
static int64_t query_blocks(const lnt_cuda_plan *plan, int64_t length_q, int64_t length_k)
{
    return ((plan->p.causal ? length_k : length_q) + 127) / 128 * 4;
}

/* Whether R is built of dout / den as two bf16: twice the columns, which is little where there are
 * few monomials.  One bf16 is the largest part of the error of dk and dv. */
static bool folds(const lnt_cuda_plan *plan)
{
    return plan->width <= 2 || (plan->width <= 4 && plan->p.taylor.terms <= 3);
}

static int slope_tiles(const lnt_cuda_plan *plan)
{
    return tiles_slope_count(plan->dim8, (int)plan->p.taylor.terms);
}

static void lay_out_packed(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    lnt_cuda_backward_layout *at = &plan->backward;
    const size_t heads = (size_t)(p->batch * p->heads), columns = (size_t)(8 * plan->width + 8);
    const int64_t most = query_blocks(plan, p->length_q, p->length_k);
    const size_t blocks = heads * (size_t)most, even8 = (size_t)(plan->dim8 + 1) / 2 * 2;
    const size_t queries = heads * (size_t)p->length_q,
                 keys = (size_t)(p->batch * p->kv_heads * p->length_k);
    at->bytes = plan->at.bytes;
    at->q_keys = take(&at->bytes, blocks * even8 * 512);
    at->douts = take(&at->bytes, blocks * columns * 64);
    at->rows = take(&at->bytes, blocks * 32 * sizeof(float2));
    if (plan->by_state) {
        const size_t scaled =
                         plan->pairs ? 0 : (size_t)(8 * (folds(plan) ? 2 : 1) * plan->width + 8),
                     numbers = (size_t)plan->tile_count * 16 * scaled;
        const size_t states = (size_t)(p->batch * p->kv_heads) * (size_t)plan->prefixes;
        at->q_rows = take(&at->bytes, blocks * (size_t)plan->dim8 * 512);
        at->scaled = take(&at->bytes, blocks * scaled * 64);
        at->slopes =
            take(&at->bytes, states * (size_t)tiles_slopes_bytes(plan->width, slope_tiles(plan)));
        at->gradient_sums = take(&at->bytes, heads * (size_t)pieces(most * 32, plan->segment) *
                                                 numbers * sizeof(float));
        const int64_t kv = p->batch * p->kv_heads;
        at->center = take(&at->bytes, (size_t)(8 * kv * plan->width) * sizeof(float));
        at->center_parts = take(
            &at->bytes, (size_t)tiles_center_parts(kv, p->length_k, plan->width) * sizeof(float));
    }
    if (p->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT) {
        at->gradient =
            take(&at->bytes, (queries > keys ? queries : keys) * (size_t)p->dim * sizeof(float));
        at->along = take(&at->bytes, queries * sizeof(float));
    }
}

void backward_lay_out(lnt_cuda_plan *plan)
{
    if (plan->f32)
        f32_backward_lay_out(plan);
    else if (plan->p.mechanism == LNT_LINEAR)
        lay_out_linear(plan);
    else
        lay_out_packed(plan);
}

/* ---- rows that no kernel writes -------------------------------------------------------------- */

static cudaError_t clear_gaps(lnt_cuda_plan *plan, const lnt_cuda_io *io,
                              const lnt_cuda_grads *grads, cudaStream_t stream)
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

/* ---- linear ---------------------------------------------------------------------------------- */

static cudaError_t linear_backward(lnt_cuda_plan *plan, const lnt_cuda_io *io,
                                   const lnt_cuda_grads *grads, cudaStream_t stream)
{
    const lnt_attn_desc *p = &plan->p;
    char *work = (char *)io->workspace;
    linear_backward_args a = {};
    a.q = view_of(io->q), a.k = view_of(io->k), a.v = view_of(io->v);
    a.dout = view_of(grads->dout), a.dq = view_of(grads->dq);
    a.dk = view_of(grads->dk), a.dv = view_of(grads->dv);
    a.length_q = io->q.shape[2], a.length_k = io->k.shape[2];
    a.lengths_q = io->lengths_q, a.lengths_k = io->lengths_k;
    a.batch = (int)io->q.shape[0], a.heads = (int)p->heads, a.kv_heads = (int)p->kv_heads;
    a.dim = (int)p->dim, a.dim_value = (int)p->dim_value, a.width = plan->width;
    a.map = p->linear.feature_map, a.causal = p->causal, a.eps = (float)p->linear.eps,
    a.decay = plan->decay;
    a.segment = linear_segment(plan);
    a.segments = pieces(a.length_k, a.segment);
    a.query_segments = p->causal ? a.segments : pieces(a.length_q, a.segment);
    a.sums = (float *)(work + plan->backward.sums),
    a.total = (float *)(work + plan->backward.total);
    a.gradient_sums = (float *)(work + plan->backward.gradient_sums);
    a.gradient_total = (float *)(work + plan->backward.gradient_total);
    a.rows = (float2 *)(work + plan->backward.rows);
    if (io->state_in) a.s_in = io->state_in->s, a.z_in = io->state_in->z;
    if (grads->dstate_out) a.ds_out = grads->dstate_out->s, a.dz_out = grads->dstate_out->z;
    if (grads->dstate_in) a.ds_in = grads->dstate_in->s, a.dz_in = grads->dstate_in->z;
    cudaError_t e = cudaSuccess;
    if (!a.batch || (plan->by_boxes && a.length_q &&
                     linear_boxes_run(a, work + plan->backward.boxes, stream, &e)))
        return e;
    return linear_backward_run(a, stream);
}

/* ---- normalised rows ------------------------------------------------------------------------- */

cudaError_t normalized_run(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_grads *grads,
                           bool keys, cudaStream_t stream)
{
    const lnt_attn_desc *p = &plan->p;
    if (p->mechanism != LNT_TAYLOR || p->taylor.normalize != LNT_NORMALIZE_TAYLORSHIFT)
        return cudaSuccess;
    char *work = (char *)io->workspace;
    normal_args a = {};
    a.x = view_of(keys ? io->k : io->q), a.dx = view_of(keys ? grads->dk : grads->dq);
    a.gradient = (float *)(work + plan->backward.gradient);
    a.length = keys ? io->k.shape[2] : io->q.shape[2];
    a.lengths = keys ? io->lengths_k : io->lengths_q;
    a.batch = (int)io->q.shape[0], a.heads = (int)(keys ? p->kv_heads : p->heads);
    a.dim = (int)p->dim;
    if (!keys) {
        a.along = (float *)(work + plan->backward.along), a.temperature = plan->temperature;
        a.dtemperature = grads->dtemperature;
    }
    return normal_backward_run(a, stream);
}

/* ---- taylor and softmax ---------------------------------------------------------------------- */

cudaError_t pack_for_gradients(lnt_cuda_plan *plan, const lnt_cuda_io *io, int64_t blocks,
                               const float **center, cudaStream_t stream)
{
    tiles_pack_args a = pack_of(plan, io, blocks);
    *center = NULL;
    if (!plan->by_state || (plan->p.causal && a.length <= plan->segment))
        return tiles_pack_run(a, stream);
    char *work = (char *)io->workspace;
    tiles_center_args c = {};
    c.v = a.v, c.length = a.length, c.lengths = a.lengths;
    c.batch = a.batch, c.heads = a.heads, c.dim_value = a.dim_value, c.value8 = a.value8;
    c.parts = (float *)(work + plan->backward.center_parts);
    *center = a.center = c.center = (float *)(work + plan->backward.center);
    const cudaError_t e = tiles_center_run(c, stream);
    return e == cudaSuccess ? tiles_pack_run(a, stream) : e;
}

static bool same_view(const lnt_tensor &a, const lnt_tensor &b)
{
    bool same = a.data == b.data;
    for (int i = 0; i < 4; i++)
        same = same && a.shape[i] == b.shape[i] && a.stride[i] == b.stride[i];
    return same;
}

/* Whether the workspace has what forward made of these keys and values. */
static bool is_left(const lnt_cuda_left &left, const lnt_cuda_io *io)
{
    return left.workspace && left.workspace == io->workspace && left.lengths_k == io->lengths_k &&
           same_view(left.k, io->k) && same_view(left.v, io->v);
}

struct packed_run {
    lnt_cuda_plan *plan;
    const lnt_cuda_io *io;
    const lnt_cuda_grads *grads;
    cudaStream_t stream;
    int64_t blocks_k, blocks_q;
    char *work;

    template <class T> T *at(size_t place) const { return (T *)(work + place); }

    tiles_pack_args pack_queries() const
    {
        const lnt_attn_desc *p = &plan->p;
        tiles_pack_args a = pack_of(plan, io, blocks_q);
        a.k = view_of(io->q), a.v = view_of(grads->dout);
        a.rows = plan->by_state ? work + plan->backward.q_rows : NULL;
        a.keys = work + plan->backward.q_keys, a.values = work + plan->backward.douts;
        a.length = io->q.shape[2], a.lengths = io->lengths_q, a.heads = (int)p->heads;
        a.temperature = plan->temperature;
        a.aligned = p->causal, a.length_keys = io->k.shape[2], a.lengths_keys = io->lengths_k;
        return a;
    }
    tiles_scaled_args scaled() const
    {
        tiles_scaled_args a = {};
        a.rows = at<float2>(plan->backward.rows), a.douts = work + plan->backward.douts;
        a.scaled = work + plan->backward.scaled, a.blocks = blocks_q, a.fold = folds(plan);
        a.heads = (int)(io->q.shape[0] * plan->p.heads), a.width = plan->width;
        return a;
    }
    tiles_backward_args side(int which, const tiles_answer_args &read) const
    {
        const lnt_attn_desc *p = &plan->p;
        const bool keys = which == BACKWARD_KEYS;
        char *k = work + plan->at.keys, *v = work + plan->at.values;
        char *q = work + plan->backward.q_keys, *d = work + plan->backward.douts;
        tiles_backward_args a = {};
        a.mode = read.mode, a.causal = p->causal, a.output_norm = p->taylor.output_norm;
        a.own_keys = keys ? k : q, a.own_values = keys ? v : d;
        a.other_keys = keys ? q : k, a.other_values = keys ? d : v;
        a.own_blocks = keys ? blocks_k : blocks_q, a.other_blocks = keys ? blocks_q : blocks_k;
        a.length_q = io->q.shape[2], a.length_k = io->k.shape[2];
        a.lengths_q = io->lengths_q, a.lengths_k = io->lengths_k;
        a.batch = read.batch, a.heads = read.heads, a.kv_heads = read.kv_heads;
        a.dim = read.dim, a.dim_value = read.dim_value, a.dim8 = read.dim8, a.width = read.width;
        a.direct = p->causal || !plan->by_state, a.segment = plan->segment;
        a.tile_count = plan->tile_count, a.terms = read.terms, a.edge = -1;
        for (int t = 0; t < 32; t++) a.coefficient[t] = read.coefficient[t];
        a.rows = at<float2>(plan->backward.rows);
        a.dx = view_of(keys ? grads->dk : grads->dq), a.dv = view_of(grads->dv);
        if (p->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT)
            a.gradient = at<float>(plan->backward.gradient);
        return a;
    }
    /* With the states of forward or of gradients_of_states in the workspace. */
    void with_states(tiles_backward_args *a, int prefixes, int edge) const
    {
        a->prefixes = prefixes, a->edge = edge;
        a->state = work + plan->at.state, a->mean = at<float>(plan->at.mean);
        a->slopes = work + plan->backward.slopes, a->slope_tiles = slope_tiles(plan);
        a->slope_bytes = tiles_slopes_bytes(plan->width, a->slope_tiles);
        a->linear = at<float>(plan->at.linear);
    }
    cudaError_t back(const tiles_backward_args &a, int which) const
    {
        if (!plan->by_state || !plan->pairs)
            return tiles_backward_run(a, which, plan->units, stream);
        return pairs_backward_run(a, which, plan->device->properties.multiProcessorCount, stream);
    }
    cudaError_t slopes(int prefixes) const
    {
        tiles_slopes_args a = {};
        a.state = work + plan->at.state, a.entries = plan->slopes;
        a.slopes = work + plan->backward.slopes, a.tiles = slope_tiles(plan);
        a.states = (int)(io->q.shape[0] * plan->p.kv_heads) * prefixes, a.width = plan->width;
        a.numbers = (int64_t)(plan->tile_count - 1) * (plan->width + 1) * 128, a.left = 8;
        if (plan->pairs) {
            a.numbers = PAIRS_STATE_BYTES / 2, a.left = PAIRS_LEFT;
            a.linear = at<float>(plan->at.linear), a.linear_numbers = PAIRS_LINEAR;
        }
        return tiles_slopes_run(a, stream);
    }
    /* The same of pairs_basis.h. */
    cudaError_t gradients_of_pairs(int *prefixes) const
    {
        pairs_args a = {};
        a.rows = work + plan->backward.q_rows, a.values = work + plan->backward.douts;
        a.blocks = blocks_q, a.segment_blocks = plan->segment / 32;
        a.prefixes = *prefixes = pieces(blocks_q * 32, plan->segment);
        a.segments = a.prefixes - 1, a.heads = (int)(io->q.shape[0] * plan->p.kv_heads);
        a.kv_heads = (int)plan->p.kv_heads;
        a.length = blocks_q * 32, a.scale = at<float2>(plan->backward.rows);
        a.factor = plan->factor, a.place = plan->place;
        a.constant = (float)plan->coefficient[0];
        a.state = work + plan->at.state, a.linear = at<float>(plan->at.linear);
        a.mean = at<float>(plan->at.mean), a.aside = work + plan->at.sums;
        a.count = plan->count, a.dim_value = (int)plan->p.dim_value;
        return a.segments > 0 ? pairs_sum_run(a, stream) : cudaSuccess;
    }
    /* The states after each segment, R, in place of those before. */
    cudaError_t gradients_of_states(int *prefixes) const
    {
        if (plan->pairs) return gradients_of_pairs(prefixes);
        const lnt_attn_desc *p = &plan->p;
        tiles_sum_args b = {};
        b.rows = work + plan->backward.q_rows, b.values = work + plan->backward.scaled;
        b.blocks = blocks_q, b.segment_blocks = plan->segment / 32;
        b.segments = pieces(blocks_q * 32, plan->segment);
        b.heads = (int)(io->q.shape[0] * p->heads);
        b.tasks = plan->tasks, b.task_count = plan->task_count, b.tile_count = plan->tile_count;
        b.dim8 = plan->dim8, b.width = folds(plan) ? 2 * plan->width : plan->width;
        b.sums = at<float>(plan->backward.gradient_sums);
        tiles_scan_args s = {};
        s.sums = b.sums, s.segments = b.segments, s.heads = (int)(io->q.shape[0] * p->kv_heads);
        s.prefixes = p->causal ? b.segments : 1, s.total = !p->causal;
        s.reverse = p->causal, s.group = (int)(p->heads / p->kv_heads);
        s.tile_count = plan->tile_count, s.width = plan->width, s.dim8 = plan->dim8;
        s.factor = plan->factor, s.fold = folds(plan);
        s.state = work + plan->at.state, s.mean = at<float>(plan->at.mean);
        s.place = plan->place, s.count = plan->count, s.dim_value = (int)p->dim_value;
        *prefixes = s.prefixes;
        cudaError_t e = b.segments ? tiles_scaled_run(scaled(), stream) : cudaSuccess;
        if (e == cudaSuccess && b.segments) e = tiles_sum_run(b, stream);
        if (e == cudaSuccess) e = tiles_scan_run(s, stream);
        return e == cudaSuccess ? slopes(s.prefixes) : e;
    }
};

/* The states, unless they are made, and of every query what the keys give that it meets one by one;
 * where it meets them once, nothing yet.  Forward does not run: its weights inside a segment are
 * bf16, which would be most of the error of h. */
static cudaError_t packed_rows(const packed_run &run, bool made, tiles_answer_args *read)
{
    lnt_cuda_plan *plan = run.plan;
    tiles_backward_args a = run.side(BACKWARD_ROWS, *read);
    if (plan->by_state) {
        cudaError_t e = plan->pairs ? make_pairs(plan, run.io, run.blocks_k, made, read, run.stream)
                                    : make_states(plan, run.io, run.blocks_k, read, run.stream);
        if (e == cudaSuccess) e = run.slopes(read->prefixes);
        if (e == cudaSuccess && !(plan->p.causal && backward_twice(plan->width))) {
            const size_t places = (size_t)(a.batch * a.heads) * (size_t)run.blocks_q * 32;
            return cudaMemsetAsync(a.rows, 0, places * sizeof *a.rows, run.stream);
        }
        if (e != cudaSuccess) return e;
        run.with_states(&a, read->prefixes, 0);
    }
    return tiles_backward_run(a, BACKWARD_ROWS, plan->units, run.stream);
}

static cudaError_t packed_backward(lnt_cuda_plan *plan, const lnt_cuda_io *io,
                                   const lnt_cuda_grads *grads, cudaStream_t stream)
{
    const int64_t nq = io->q.shape[2], nk = io->k.shape[2];
    const packed_run run = { plan,
                             io,
                             grads,
                             stream,
                             (nk + 127) / 128 * 4,
                             query_blocks(plan, nq, nk),
                             (char *)io->workspace };
    if (!io->q.shape[0]) return cudaSuccess;
    tiles_answer_args read = answer_of(plan, io, run.blocks_k);
    const bool made = grads->after_forward && is_left(plan->left, io);
    plan->left = {}; /* other states take their place */
    const float *center;
    cudaError_t e = cudaSuccess;
    if (run.blocks_k && !made) e = pack_for_gradients(plan, io, run.blocks_k, &center, stream);
    if (e == cudaSuccess && run.blocks_q) e = tiles_pack_run(run.pack_queries(), stream);
    if (e == cudaSuccess && run.blocks_q) e = packed_rows(run, made, &read);
    tiles_backward_args a = run.side(BACKWARD_QUERIES, read);
    if (plan->by_state) run.with_states(&a, read.prefixes, plan->p.causal ? 0 : -1);
    if (e == cudaSuccess && nq) e = run.back(a, BACKWARD_QUERIES);
    if (e == cudaSuccess) e = normalized_run(plan, io, grads, false, stream);
    a = run.side(BACKWARD_KEYS, read);
    int prefixes = 0;
    if (plan->by_state && e == cudaSuccess) e = run.gradients_of_states(&prefixes);
    if (plan->by_state) run.with_states(&a, prefixes, plan->p.causal ? prefixes - 1 : -1);
    if (e == cudaSuccess && nk) e = run.back(a, BACKWARD_KEYS);
    return e == cudaSuccess ? normalized_run(plan, io, grads, true, stream) : e;
}

/* ---- backward -------------------------------------------------------------------------------- */

static lnt_status check_grads(lnt_cuda_plan *plan, const lnt_cuda_io *io,
                              const lnt_cuda_grads *grads)
{
    const lnt_attn_desc *p = &plan->p;
    lnt_status s = fits(plan, "dout", grads->dout, p->heads, p->length_q, p->dim_value);
    if (!s) s = fits(plan, "dq", grads->dq, p->heads, p->length_q, p->dim);
    if (!s) s = fits(plan, "dk", grads->dk, p->kv_heads, p->length_k, p->dim);
    if (!s) s = fits(plan, "dv", grads->dv, p->kv_heads, p->length_k, p->dim_value);
    if (s) return s;
    if (!grads->dstate_out && !grads->dstate_in && !io->state_in) return LNT_OK;
    if (p->mechanism != LNT_LINEAR && !(plan->f32 && plan->by_state))
        return fail(plan->device, LNT_ERR_UNSUPPORTED,
                    "cuda: backward of %s takes no state; of taylor/state it does where the "
                    "descriptor's state is 1",
                    p->algorithm);
    if (p->taylor.output_norm && io->state_in)
        return fail(plan->device, LNT_ERR_UNSUPPORTED,
                    "cuda: backward with output_norm takes no state before the first key");
    return LNT_OK;
}

lnt_status plan_backward(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_grads *grads)
{
    if (!plan->p.backward)
        return fail(plan->device, LNT_ERR_ARGUMENT,
                    "cuda: backward was not planned; set backward in the descriptor");
    lnt_status s = check_inputs(plan, io, plan->backward.bytes);
    if (!s) s = check_grads(plan, io, grads);
    if (s) return s;
    cudaStream_t stream = (cudaStream_t)io->stream;
    cudaError_t e = clear_gaps(plan, io, grads, stream);
    if (e == cudaSuccess)
        e = plan->f32                         ? f32_backward(plan, io, grads, stream)
            : plan->p.mechanism == LNT_LINEAR ? linear_backward(plan, io, grads, stream)
                                              : packed_backward(plan, io, grads, stream);
    return check(plan->device, e, "backward");
}

} // namespace lnt
