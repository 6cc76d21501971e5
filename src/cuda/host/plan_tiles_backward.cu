/* cuda/host/plan_tiles_backward.cu - gradients of taylor by tiles and by pairs, of its direct form, and of
 * softmax, in bf16: the workspace and the launches. */
#include <cstring>

#include "cuda/host/plan_tiles.h"

namespace lnt
{

/* ---- the workspace --------------------------------------------------------------------------- */

/* Blocks of 32 tokens of the packed queries; causal, they stand where their keys do. */
static int64_t query_blocks(const lnt_cuda_plan *plan, int64_t length_q, int64_t length_k)
{
    return packed_blocks(plan->p.causal ? length_k : length_q);
}

static bool folds(const lnt_cuda_plan *plan) { return tiles_fold(plan->width, (int)plan->p.taylor.terms); }

static int slope_tiles(const lnt_cuda_plan *plan)
{
    return tiles_slope_count(plan->tiles.dim8, (int)plan->p.taylor.terms);
}

static void lay_out_states(lnt_cuda_plan *plan, size_t heads, size_t blocks, int64_t most)
{
    const lnt_attn_desc *p = &plan->p;
    const tiles_plan *own = &plan->tiles;
    auto *at = &plan->tiles.back;
    size_t *bytes = &plan->backward_bytes;
    const int64_t kv = p->batch * p->kv_heads;
    const size_t columns = (size_t)(8 * (folds(plan) ? 2 : 1) * plan->width + 8),
                 scaled = own->states == &pair_states ? 0 : columns,
                 numbers = (size_t)own->tile_count * 16 * scaled;
    at->q_rows = take(bytes, blocks * (size_t)own->dim8 * 512);
    at->scaled = take(bytes, blocks * scaled * 64);
    at->slopes = take(bytes, (size_t)(kv * own->prefixes) *
                                 (size_t)tiles_slopes_bytes(plan->width, slope_tiles(plan)));
    at->gradient_sums =
        take(bytes, heads * (size_t)pieces(most * 32, plan->segment) * numbers * sizeof(float));
    at->center = take_floats(bytes, 8 * kv * plan->width);
    at->center_parts = take_floats(bytes, tiles_center_parts(kv, p->length_k, plan->width));
}

void packed_lay_out_backward(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    auto *at = &plan->tiles.back;
    size_t *bytes = &plan->backward_bytes;
    const int64_t most = query_blocks(plan, p->length_q, p->length_k);
    const size_t heads = (size_t)(p->batch * p->heads), columns = (size_t)(8 * plan->width + 8),
                 blocks = heads * (size_t)most, even8 = (size_t)(plan->tiles.dim8 + 1) / 2 * 2;
    *bytes = plan->bytes; /* after all that forward takes */
    at->q_keys = take(bytes, blocks * even8 * 512);
    at->douts = take(bytes, blocks * columns * 64);
    at->rows = take(bytes, blocks * 32 * sizeof(float2));
    if (plan->tiles.states) lay_out_states(plan, heads, blocks, most);
    normal_lay_out(plan);
}

/* ---- packing --------------------------------------------------------------------------------- */

cudaError_t pack_for_gradients(lnt_cuda_plan *plan, const lnt_cuda_io *io, int64_t blocks,
                               const float **center, cudaStream_t stream)
{
    tiles_pack_args a = pack_of(plan, io, blocks);
    *center = NULL;
    if (!plan->tiles.states || (plan->p.causal && a.length <= plan->segment))
        return tiles_pack_run(a, stream);
    char *work = (char *)io->workspace;
    tiles_center_args c = {};
    c.v = a.v, c.length = a.length, c.lengths = a.lengths;
    c.batch = a.batch, c.heads = a.heads, c.dim_value = a.dim_value, c.value8 = a.value8;
    c.parts = (float *)(work + plan->tiles.back.center_parts);
    *center = a.center = c.center = (float *)(work + plan->tiles.back.center);
    const cudaError_t e = tiles_center_run(c, stream);
    return e == cudaSuccess ? tiles_pack_run(a, stream) : e;
}

static tiles_pack_args pack_queries(const packed_run &run)
{
    const lnt_cuda_plan *plan = run.plan;
    tiles_pack_args a = pack_of(plan, run.io, run.blocks_q);
    a.k = view_of(run.io->q), a.v = view_of(run.grads->dout);
    a.rows = plan->tiles.states ? run.work + plan->tiles.back.q_rows : NULL;
    a.keys = run.work + plan->tiles.back.q_keys, a.values = run.work + plan->tiles.back.douts;
    a.length = run.io->q.shape[2], a.lengths = run.io->lengths_q, a.heads = (int)plan->p.heads;
    a.temperature = plan->temperature;
    a.aligned = plan->p.causal, a.length_keys = run.io->k.shape[2], a.lengths_keys = run.io->lengths_k;
    return a;
}

static bool same_view(const lnt_tensor &a, const lnt_tensor &b)
{
    bool same = a.data == b.data;
    for (int i = 0; i < 4; i++) same = same && a.shape[i] == b.shape[i] && a.stride[i] == b.stride[i];
    return same;
}

/* Whether the workspace has what forward made of these keys and values. */
static bool is_left(const lnt_cuda_plan *plan, const lnt_cuda_io *io)
{
    const auto &left = plan->tiles.left;
    return left.workspace && left.workspace == io->workspace && left.lengths_k == io->lengths_k &&
           same_view(left.k, io->k) && same_view(left.v, io->v);
}

/* ---- states ---------------------------------------------------------------------------------- */

void slopes_of_tiles(const packed_run &run, tiles_slopes_args *a)
{
    a->numbers = (int64_t)(run.plan->tiles.tile_count - 1) * (run.plan->width + 1) * 128, a->left = 8;
}

void slopes_of_pairs(const packed_run &run, tiles_slopes_args *a)
{
    a->numbers = PAIRS_STATE_BYTES / 2, a->left = PAIRS_LEFT;
    a->linear = run.at<float>(run.plan->tiles.at.linear), a->linear_numbers = PAIRS_LINEAR;
}

static cudaError_t make_slopes(const packed_run &run, int prefixes)
{
    const lnt_cuda_plan *plan = run.plan;
    tiles_slopes_args a = {};
    a.state = run.work + plan->tiles.at.state, a.entries = plan->tiles.slopes;
    a.slopes = run.work + plan->tiles.back.slopes, a.tiles = slope_tiles(plan);
    a.states = (int)(run.io->q.shape[0] * plan->p.kv_heads) * prefixes, a.width = plan->width;
    plan->tiles.states->slopes(run, &a);
    return tiles_slopes_run(a, run.stream);
}

cudaError_t gradients_of_pairs(const packed_run &run, int *prefixes)
{
    const lnt_cuda_plan *plan = run.plan;
    pairs_args a = pairs_of(plan, run.work, run.blocks_q);
    a.rows = run.work + plan->tiles.back.q_rows, a.values = run.work + plan->tiles.back.douts;
    a.prefixes = *prefixes = pieces(run.blocks_q * 32, plan->segment);
    a.segments = a.prefixes - 1, a.heads = (int)(run.io->q.shape[0] * plan->p.kv_heads);
    a.length = run.blocks_q * 32, a.scale = run.at<float2>(plan->tiles.back.rows);
    return a.segments > 0 ? pairs_sum_run(a, run.stream) : cudaSuccess;
}

cudaError_t gradients_of_tiles(const packed_run &run, int *prefixes)
{
    const lnt_cuda_plan *plan = run.plan;
    const lnt_attn_desc *p = &plan->p;
    const auto *at = &plan->tiles.back;
    tiles_scaled_args scaled = {};
    scaled.rows = run.at<float2>(at->rows), scaled.douts = run.work + at->douts;
    scaled.scaled = run.work + at->scaled, scaled.blocks = run.blocks_q, scaled.fold = folds(plan);
    scaled.heads = (int)(run.io->q.shape[0] * p->heads), scaled.width = plan->width;
    tiles_sum_args b = sum_of(plan, run.blocks_q);
    b.rows = run.work + at->q_rows, b.values = scaled.scaled, b.heads = scaled.heads;
    b.segments = pieces(run.blocks_q * 32, plan->segment), b.sums = run.at<float>(at->gradient_sums);
    if (scaled.fold) b.width *= 2;
    tiles_scan_args s = scan_of(plan, run.work, b);
    s.heads = (int)(run.io->q.shape[0] * p->kv_heads);
    s.prefixes = *prefixes = p->causal ? b.segments : 1;
    s.reverse = p->causal, s.group = (int)(p->heads / p->kv_heads), s.fold = scaled.fold;
    cudaError_t e = b.segments ? tiles_scaled_run(scaled, run.stream) : cudaSuccess;
    if (e == cudaSuccess && b.segments) e = tiles_sum_run(b, run.stream);
    if (e == cudaSuccess) e = tiles_scan_run(s, run.stream);
    return e == cudaSuccess ? make_slopes(run, s.prefixes) : e;
}

/* ---- launches -------------------------------------------------------------------------------- */

cudaError_t back_tiles(const packed_run &run, const tiles_backward_args &a, int side)
{
    return tiles_backward_run(a, side, run.plan->tiles.units, run.stream);
}

cudaError_t back_pairs(const packed_run &run, const tiles_backward_args &a, int side)
{
    return pairs_backward_run(a, side, run.plan->device->limits.processors, run.stream);
}

static tiles_backward_args side_of(const packed_run &run, int side, const tiles_answer_args &answer)
{
    const lnt_cuda_plan *plan = run.plan;
    const tiles_plan *own = &plan->tiles;
    const bool keys = side == BACKWARD_KEYS;
    char *k = run.work + own->at.keys, *v = run.work + own->at.values;
    char *q = run.work + own->back.q_keys, *d = run.work + own->back.douts;
    tiles_backward_args a = {};
    a.causal = answer.causal, a.batch = answer.batch, a.heads = answer.heads, a.kv_heads = answer.kv_heads;
    a.length_q = answer.length_q, a.length_k = answer.length_k;
    a.lengths_q = answer.lengths_q, a.lengths_k = answer.lengths_k;
    a.dim = answer.dim, a.dim_value = answer.dim_value, a.width = answer.width;
    a.output_norm = answer.output_norm, a.segment = answer.segment, a.terms = answer.terms;
    memcpy(a.coefficient, answer.coefficient, sizeof a.coefficient);
    a.mode = answer.mode, a.dim8 = own->dim8, a.tile_count = own->tile_count;
    a.own_keys = keys ? k : q, a.own_values = keys ? v : d;
    a.other_keys = keys ? q : k, a.other_values = keys ? d : v;
    a.own_blocks = keys ? run.blocks_k : run.blocks_q;
    a.other_blocks = keys ? run.blocks_q : run.blocks_k;
    a.direct = a.causal || !own->states, a.edge = -1;
    a.rows = run.at<float2>(own->back.rows);
    a.dx = view_of(keys ? run.grads->dk : run.grads->dq), a.dv = view_of(run.grads->dv);
    if (answer.normalize) a.gradient = run.at<float>(plan->normal.gradient);
    return a;
}

/* With the states of forward or of gradients() in the workspace. */
static void with_states(const packed_run &run, tiles_backward_args *a, int prefixes, int edge)
{
    const tiles_plan *own = &run.plan->tiles;
    a->prefixes = prefixes, a->edge = edge;
    a->state = run.work + own->at.state, a->mean = run.at<float>(own->at.mean);
    a->slopes = run.work + own->back.slopes, a->slope_tiles = slope_tiles(run.plan);
    a->slope_bytes = tiles_slopes_bytes(run.plan->width, a->slope_tiles);
    a->linear = run.at<float>(own->at.linear);
}

/* The states, unless they are made, and of every query what the keys give that it meets one by one;
 * where it meets them once, nothing yet.  Forward does not run: its weights inside a segment are
 * bf16, which would be most of the error of h. */
static cudaError_t prepare_rows(const packed_run &run, bool made, tiles_answer_args *answer)
{
    const lnt_cuda_plan *plan = run.plan;
    const packed_states *states = plan->tiles.states;
    tiles_backward_args a = side_of(run, BACKWARD_ROWS, *answer);
    if (states) {
        cudaError_t e = states->make(plan, run.io, run.blocks_k, made, answer, run.stream);
        if (e == cudaSuccess) e = make_slopes(run, answer->prefixes);
        if (e == cudaSuccess && !(a.causal && backward_twice(plan->width))) {
            const size_t places = (size_t)(a.batch * a.heads) * (size_t)run.blocks_q * 32;
            return cudaMemsetAsync(a.rows, 0, places * sizeof *a.rows, run.stream);
        }
        if (e != cudaSuccess) return e;
        with_states(run, &a, answer->prefixes, 0);
    }
    return back_tiles(run, a, BACKWARD_ROWS);
}

cudaError_t packed_backward(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_grads *grads,
                            cudaStream_t stream)
{
    const int64_t nq = io->q.shape[2], nk = io->k.shape[2];
    lnt_cuda_io before = *io;
    before.state_out = NULL;
    const packed_run run = {
        plan, &before, grads, stream, packed_blocks(nk), query_blocks(plan, nq, nk), (char *)io->workspace
    };
    if (!io->q.shape[0]) return cudaSuccess;
    tiles_answer_args answer = answer_of(plan, run.io, run.blocks_k);
    const packed_states *states = plan->tiles.states;
    const auto back = states ? states->back : back_tiles;
    const bool made = grads->after_forward && is_left(plan, io), causal = plan->p.causal;
    plan->tiles.left = {}; /* other states take their place */
    const float *center;
    cudaError_t e = cudaSuccess;
    if (run.blocks_k && !made) e = pack_for_gradients(plan, io, run.blocks_k, &center, stream);
    if (e == cudaSuccess && run.blocks_q) e = tiles_pack_run(pack_queries(run), stream);
    if (e == cudaSuccess && run.blocks_q) e = prepare_rows(run, made, &answer);
    tiles_backward_args a = side_of(run, BACKWARD_QUERIES, answer);
    if (states) with_states(run, &a, answer.prefixes, causal ? 0 : -1);
    if (e == cudaSuccess && nq) e = back(run, a, BACKWARD_QUERIES);
    if (e == cudaSuccess) e = normalized_run(plan, io, grads, false, stream);
    a = side_of(run, BACKWARD_KEYS, answer);
    int prefixes = 0;
    if (states && e == cudaSuccess) e = states->gradients(run, &prefixes);
    if (states) with_states(run, &a, prefixes, causal ? prefixes - 1 : -1);
    if (e == cudaSuccess && nk) e = back(run, a, BACKWARD_KEYS);
    return e == cudaSuccess ? normalized_run(plan, io, grads, true, stream) : e;
}

} // namespace lnt
