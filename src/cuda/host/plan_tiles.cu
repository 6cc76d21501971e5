/* cuda/host/plan_tiles.cu - plans and forward runs of what packs its keys and values first: taylor by tiles
 * and by pairs, its direct form, and softmax, in bf16. */
#include "cuda/host/plan_tiles.h"

#include <assert.h>
#include <math.h>

namespace lnt
{

/* ---- tables ---------------------------------------------------------------------------------- */

/* Tokens between states.  A key read one by one costs 2 (d + m) operations and a weight, a state 14
 * bytes a number to write, sum and read; the lengths in which the two are equal, to a power of two.
 * Rates are those of one H200; elsewhere the choice is off by little. */
static int64_t causal_segment(const lnt_cuda_plan *plan)
{
    const int dim8 = plan->tiles.dim8;
    const double columns = 8 * (plan->width + 1), dim = dim8 > 1 ? 8 * dim8 : 16;
    const double key = (2 * dim + 2 * columns) / 4e14 + 2e-13;
    const double state = (double)plan->tiles.tile_count * 16 * columns * 14 / 4e12;
    const double best = sqrt(2 * state / key);
    int64_t segment = 256;
    while (segment * 1.41 < best) segment *= 2;
    return segment;
}

/* Not causal: enough segments to fill the machine. */
static int64_t full_segment(const lnt_cuda_plan *plan)
{
    const int64_t heads = plan->p.batch * plan->p.kv_heads;
    const int64_t slabs = plan->tiles.tile_count / 40 + 1;
    const int64_t want = 4 * plan->device->limits.processors / (heads * slabs) + 1;
    const int64_t segment = (plan->p.length_k / want + 127) / 128 * 128;
    return segment < 512 ? 512 : segment;
}

static void cut(lnt_cuda_plan *plan, int64_t segment, const packed_states *states)
{
    tiles_plan *own = &plan->tiles;
    own->states = states, own->blocks = packed_blocks(plan->p.length_k);
    plan->segment = segment, plan->segments = pieces(plan->p.length_k, segment);
    own->prefixes = plan->p.causal && plan->segments > 1 ? plan->segments : 1;
}

static cudaError_t cut_bf16(lnt_cuda_plan *plan)
{
    plan->tiles.dim8 = (int)(plan->p.dim + 7) / 8;
    cut(plan, plan->p.causal ? causal_segment(plan) : full_segment(plan), NULL);
    return cudaSuccess;
}

static cudaError_t upload_slopes(lnt_cuda_plan *plan, const std::vector<int64_t> &sums_at)
{
    const lnt_attn_desc *p = &plan->p;
    return upload(plan, &plan->tiles.slopes,
                  tiles_basis_slopes((int)p->dim, (int)p->taylor.terms, plan->width, sums_at));
}

static cudaError_t cut_tiles(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    tiles_plan *own = &plan->tiles;
    const basis b =
        tiles_basis_make((int)p->dim, (int)p->taylor.terms, plan->coefficient, tiles_sum_blocks(plan->width));
    own->dim8 = b.dim8, own->tile_count = (int)b.tiles.size(), own->task_count = (int)b.tasks.size();
    assert(b.units.size() <= MOST_UNITS);
    own->units.count = (int)b.units.size();
    for (size_t i = 0; i < b.units.size(); i++) own->units.list[i] = b.units[i].packed();
    cut(plan, p->causal ? causal_segment(plan) : full_segment(plan), &tile_states);
    cudaError_t e = upload(plan, &own->tasks, b.tasks);
    if (e == cudaSuccess) e = upload(plan, &own->factor, b.factor);
    if (e == cudaSuccess) e = upload(plan, &own->place, b.place);
    return e == cudaSuccess && p->backward ? upload_slopes(plan, tiles_basis_sums_at(b, plan->width)) : e;
}

static cudaError_t cut_pairs(lnt_cuda_plan *plan)
{
    tiles_plan *own = &plan->tiles;
    const pairs_tables t = pairs_tables_make((int)plan->p.dim, plan->coefficient);
    own->dim8 = (int)(plan->p.dim + 7) / 8;
    cut(plan, PAIRS_SEGMENT, &pair_states);
    cudaError_t e = upload(plan, &own->factor, t.factor);
    if (e == cudaSuccess) e = upload(plan, &own->place, t.place);
    return e == cudaSuccess && plan->p.backward ? upload_slopes(plan, pairs_sums_at(t, (int)plan->p.dim)) : e;
}

/* ---- the workspace --------------------------------------------------------------------------- */

static void lay_out(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    tiles_plan *own = &plan->tiles;
    const size_t heads = (size_t)(p->batch * p->kv_heads), columns = (size_t)(8 * plan->width + 8),
                 blocks = heads * (size_t)own->blocks, even8 = (size_t)(own->dim8 + 1) / 2 * 2;
    size_t *bytes = &plan->bytes;
    if (own->states) own->at.rows = take(bytes, blocks * (size_t)own->dim8 * 512);
    if (meets_keys(plan)) own->at.keys = take(bytes, blocks * even8 * 512);
    own->at.values = take(bytes, blocks * columns * 64);
    if (own->states) own->states->lay_out(plan, heads, columns);
}

static void lay_out_tiles(lnt_cuda_plan *plan, size_t heads, size_t columns)
{
    tiles_plan *own = &plan->tiles;
    const size_t numbers = (size_t)own->tile_count * 16 * columns, states = heads * (size_t)own->prefixes;
    own->at.sums = take(&plan->bytes, heads * (size_t)plan->segments * numbers * sizeof(float));
    own->at.state = take(&plan->bytes, states * numbers * 2);
    own->at.mean = take(&plan->bytes, states * columns * sizeof(float));
}

static void lay_out_pairs(lnt_cuda_plan *plan, size_t heads, size_t columns)
{
    tiles_plan *own = &plan->tiles;
    const size_t states = heads * (size_t)own->prefixes;
    own->at.state = take(&plan->bytes, states * PAIRS_STATE_BYTES);
    own->at.linear = take(&plan->bytes, states * PAIRS_LINEAR * sizeof(float));
    own->at.mean = take(&plan->bytes, states * columns * sizeof(float));
    own->at.sums = take(&plan->bytes, heads * PAIRS_GROUPS * PAIRS_ASIDE_BYTES);
}

/* ---- arguments ------------------------------------------------------------------------------- */

bool meets_keys(const lnt_cuda_plan *plan)
{
    return !plan->tiles.states || plan->p.causal || plan->p.backward;
}

tiles_pack_args pack_of(const lnt_cuda_plan *plan, const lnt_cuda_io *io, int64_t blocks)
{
    const tiles_plan *own = &plan->tiles;
    char *work = (char *)io->workspace;
    tiles_pack_args a = {};
    a.k = view_of(io->k), a.v = view_of(io->v);
    if (own->states) a.rows = work + own->at.rows;
    if (meets_keys(plan)) a.keys = work + own->at.keys;
    a.values = work + own->at.values;
    a.length = io->k.shape[2], a.blocks = blocks, a.lengths = io->lengths_k;
    a.batch = (int)io->k.shape[0], a.heads = (int)plan->p.kv_heads;
    a.dim = (int)plan->p.dim, a.dim_value = (int)plan->p.dim_value;
    a.dim8 = own->dim8, a.value8 = plan->width;
    a.normalize = normalizes(&plan->p), a.grouped = own->states == &pair_states;
    return a;
}

tiles_answer_args answer_of(const lnt_cuda_plan *plan, const lnt_cuda_io *io, int64_t blocks)
{
    const tiles_plan *own = &plan->tiles;
    char *work = (char *)io->workspace;
    tiles_answer_args a = {};
    (attention_args &)a = attention_of(plan, io);
    a.dim8 = own->dim8, a.tile_count = own->tile_count, a.direct = 1;
    a.keys = work + own->at.keys, a.values = work + own->at.values, a.blocks = blocks;
    a.mode = plan->p.mechanism == LNT_SOFTMAX ? TILES_SOFTMAX
             : a.terms <= 4                   ? TILES_TAYLOR
                                              : TILES_TAYLOR_ANY;
    if (a.mode == TILES_SOFTMAX) a.coefficient[0] = (float)plan->p.scale;
    return a;
}

/* What the answers need to know of the states of a run. */
static void tell_states(const lnt_cuda_plan *plan, const lnt_cuda_io *io, int prefixes,
                        tiles_answer_args *answer)
{
    char *work = (char *)io->workspace;
    answer->prefixes = prefixes, answer->direct = plan->p.causal;
    answer->first_is_empty = plan->p.causal && !io->state_in, answer->remembers = io->state_in != NULL;
    answer->state = work + plan->tiles.at.state, answer->mean = (float *)(work + plan->tiles.at.mean);
}

tiles_sum_args sum_of(const lnt_cuda_plan *plan, int64_t blocks)
{
    const tiles_plan *own = &plan->tiles;
    tiles_sum_args a = {};
    a.blocks = blocks, a.segment_blocks = plan->segment / 32;
    a.tasks = own->tasks, a.task_count = own->task_count, a.tile_count = own->tile_count;
    a.dim8 = own->dim8, a.width = plan->width;
    return a;
}

tiles_scan_args scan_of(const lnt_cuda_plan *plan, char *work, const tiles_sum_args &sum)
{
    const tiles_plan *own = &plan->tiles;
    tiles_scan_args a = {};
    a.sums = sum.sums, a.segments = sum.segments, a.total = !plan->p.causal;
    a.tile_count = own->tile_count, a.width = plan->width, a.dim8 = own->dim8;
    a.factor = own->factor, a.place = own->place;
    a.state = work + own->at.state, a.mean = (float *)(work + own->at.mean);
    a.count = plan->count, a.dim_value = (int)plan->p.dim_value;
    return a;
}

pairs_args pairs_of(const lnt_cuda_plan *plan, char *work, int64_t blocks)
{
    const tiles_plan *own = &plan->tiles;
    pairs_args a = {};
    a.blocks = blocks, a.segment_blocks = plan->segment / 32, a.kv_heads = (int)plan->p.kv_heads;
    a.factor = own->factor, a.place = own->place, a.constant = (float)plan->coefficient[0];
    a.state = work + own->at.state, a.linear = (float *)(work + own->at.linear);
    a.mean = (float *)(work + own->at.mean), a.aside = work + own->at.sums;
    a.count = plan->count, a.dim_value = (int)plan->p.dim_value;
    return a;
}

/* ---- states ---------------------------------------------------------------------------------- */

static cudaError_t make_tiles(const lnt_cuda_plan *plan, const lnt_cuda_io *io, int64_t blocks, bool made,
                              tiles_answer_args *answer, cudaStream_t stream)
{
    char *work = (char *)io->workspace;
    const bool causal = plan->p.causal;
    tiles_sum_args b = sum_of(plan, blocks);
    const int all = pieces(blocks, b.segment_blocks);
    b.rows = work + plan->tiles.at.rows, b.values = answer->values;
    b.heads = (int)(io->k.shape[0] * plan->p.kv_heads);
    b.segments = causal && !io->state_out && all > 0 ? all - 1 : all;
    b.sums = (float *)(work + plan->tiles.at.sums);
    tiles_scan_args s = scan_of(plan, work, b);
    s.heads = b.heads, s.prefixes = causal && all > 1 ? all : 1;
    s.s_in = answer->s_in, s.z_in = answer->z_in, s.s_out = answer->s_out, s.z_out = answer->z_out;
    tell_states(plan, io, s.prefixes, answer);
    if (made) return cudaSuccess;
    const cudaError_t e = b.segments ? tiles_sum_run(b, stream) : cudaSuccess;
    return e == cudaSuccess ? tiles_scan_run(s, stream) : e;
}

static cudaError_t make_pairs(const lnt_cuda_plan *plan, const lnt_cuda_io *io, int64_t blocks, bool made,
                              tiles_answer_args *answer, cudaStream_t stream)
{
    char *work = (char *)io->workspace;
    pairs_args a = pairs_of(plan, work, blocks);
    const int all = pieces(blocks, a.segment_blocks);
    a.rows = work + plan->tiles.at.rows, a.values = answer->values;
    a.segments = !io->state_out && all > 0 ? all - 1 : all;
    a.prefixes = all > 1 ? all : 1;
    a.heads = (int)(io->k.shape[0] * plan->p.kv_heads);
    a.length = io->k.shape[2], a.lengths = io->lengths_k;
    a.s_in = answer->s_in, a.z_in = answer->z_in, a.s_out = answer->s_out, a.z_out = answer->z_out;
    tell_states(plan, io, a.prefixes, answer);
    const bool some = a.segments || io->state_in || io->state_out;
    return some && !made ? pairs_sum_run(a, stream) : cudaSuccess;
}

static cudaError_t answer_tiles(const lnt_cuda_plan *plan, const lnt_cuda_io *, const tiles_answer_args &a,
                                cudaStream_t stream)
{
    return tiles_answer_run(a, plan->tiles.units, stream);
}

static cudaError_t answer_pairs(const lnt_cuda_plan *plan, const lnt_cuda_io *io, const tiles_answer_args &a,
                                cudaStream_t stream)
{
    const float *linear = (const float *)((char *)io->workspace + plan->tiles.at.linear);
    return pairs_answer_run(a, linear, plan->device->limits.processors, stream);
}

const packed_states tile_states = { lay_out_tiles,   make_tiles,         answer_tiles,
                                    slopes_of_tiles, gradients_of_tiles, back_tiles };
const packed_states pair_states = { lay_out_pairs,   make_pairs,         answer_pairs,
                                    slopes_of_pairs, gradients_of_pairs, back_pairs };

/* ---- forward --------------------------------------------------------------------------------- */

/* Whether forward packs and sums as backward would, and leaves it there. */
static bool leaves_for_backward(const lnt_cuda_plan *plan, const lnt_cuda_io *io)
{
    return plan->p.backward && plan->tiles.states == &pair_states && !io->state_in && !io->state_out &&
           io->workspace_bytes >= plan->backward_bytes;
}

static cudaError_t forward(lnt_cuda_plan *plan, const lnt_cuda_io *io, cudaStream_t stream)
{
    const int64_t blocks = packed_blocks(io->k.shape[2]);
    const bool leaves = leaves_for_backward(plan, io);
    const packed_states *states = io->k.shape[0] > 0 ? plan->tiles.states : NULL;
    tiles_answer_args answer = answer_of(plan, io, blocks);
    cudaError_t e = cudaSuccess;
    if (blocks && io->k.shape[0])
        e = leaves ? pack_for_gradients(plan, io, blocks, &answer.center, stream)
                   : tiles_pack_run(pack_of(plan, io, blocks), stream);
    if (e == cudaSuccess && states) e = states->make(plan, io, blocks, false, &answer, stream);
    if (e == cudaSuccess && leaves) plan->tiles.left = { io->k, io->v, io->lengths_k, io->workspace };
    if (e != cudaSuccess || !io->q.shape[2] || !io->q.shape[0]) return e;
    return (states ? states->answer : answer_tiles)(plan, io, answer, stream);
}

const family bf16_family = { cut_bf16, lay_out, packed_lay_out_backward, forward, packed_backward };
const family tiles_family = { cut_tiles, lay_out, packed_lay_out_backward, forward, packed_backward };
const family pairs_family = { cut_pairs, lay_out, packed_lay_out_backward, forward, packed_backward };

} // namespace lnt
