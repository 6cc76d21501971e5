/* cuda/host/plan.cu - from a descriptor to launches: checks, sizes, the lengths of segments, tables. */
#include "cuda/host/plan.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include <new>

namespace lnt
{

/* ---- what is asked for ----------------------------------------------------------------------- */

static void resolve(lnt_attn_desc *p)
{
    if (p->kv_heads == 0) p->kv_heads = p->heads;
    if (p->length_k < 0) p->length_k = p->length_q;
    if (p->dim_value == 0) p->dim_value = p->dim;
    if (p->taylor.terms == 0)
        p->taylor.terms = p->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT ? 3 : 4;
    if (p->cur.landmarks == 0) p->cur.landmarks = 64;
    if (p->cur.pinv_iterations == 0) p->cur.pinv_iterations = 6;
    if (isnan(p->scale))
        p->scale = p->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT ? 1 : 1 / sqrt((double)p->dim);
}

/* Whether the monomials of taylor are few enough to be listed, each with its place in a state. */
static bool has_table(const lnt_attn_desc *p)
{
    return p->taylor.terms <= 4 || (p->taylor.terms <= 8 && p->dim <= 16);
}

static lnt_status supported(lnt_cuda_device *d, const lnt_attn_desc *p)
{
    if (p->mechanism == LNT_CUR && cur_supported(d, p)) return LNT_ERR_UNSUPPORTED;
    if (p->mechanism == LNT_HYBRID)
        return fail(d, LNT_ERR_UNSUPPORTED, "cuda: hybrid is not offered");
    if (p->compensated)
        return fail(d, LNT_ERR_UNSUPPORTED, "cuda: compensated sums are not offered");
    if (p->mechanism == LNT_TAYLOR && (p->taylor.center || p->taylor.center_mean))
        return fail(d, LNT_ERR_UNSUPPORTED, "cuda: centred keys are not offered");
    if (p->dim > 128 || p->dim_value > 128)
        return fail(d, LNT_ERR_UNSUPPORTED,
                    "cuda: dim %lld and dim_value %lld, each may be up to 128", (long long)p->dim,
                    (long long)p->dim_value);
    if (p->dtype == LNT_F64)
        return fail(d, LNT_ERR_UNSUPPORTED,
                    "cuda: dtype f64 is not offered; f32, f16 and bf16 are");
    if (p->mechanism == LNT_LINEAR && p->linear.feature_map > LNT_MAP_IDENTITY)
        return fail(d, LNT_ERR_UNSUPPORTED,
                    "cuda: random feature maps are not offered; elu1, relu, exp and identity are");
    if (p->state && p->length_k > 0 &&
        (p->mechanism == LNT_SOFTMAX || p->mechanism == LNT_CUR ||
         (p->mechanism == LNT_TAYLOR && !has_table(p))))
        return fail(d, LNT_ERR_UNSUPPORTED,
                    "cuda: forward takes a state for linear, and for taylor with up to 4 terms or "
                    "8 where dim is up to 16");
    if (p->backward && p->mechanism == LNT_CUR)
        return fail(d, LNT_ERR_UNSUPPORTED, "cuda: backward is not offered for cur");
    if (p->batch > 65535 || p->heads > 65535 || p->batch * p->kv_heads > 65535)
        return fail(d, LNT_ERR_UNSUPPORTED,
                    "cuda: batch %lld times kv_heads %lld, up to 65535 are offered",
                    (long long)p->batch, (long long)p->kv_heads);
    return LNT_OK;
}

static void coefficients(lnt_cuda_plan *plan)
{
    double a = 1, power = 1;
    for (int t = 0; t < plan->p.taylor.terms; t++) {
        plan->coefficient[t] =
            (plan->p.taylor.coefficients ? plan->p.taylor.coefficients[t] : a) * power;
        a /= t + 1, power *= plan->p.scale;
    }
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Tokens between states.  A key read one by one costs 2 (d + m) operations and a weight, a state 14
 * bytes a number to write, sum and read; the lengths in which the two are equal, to a power of two.
 * Rates are those of one H200; elsewhere the choice is off by little. */
static int64_t causal_segment(const lnt_cuda_plan *plan)
{
    const double columns = 8 * (plan->width + 1), dim = plan->dim8 > 1 ? 8 * plan->dim8 : 16;
    const double key = (2 * dim + 2 * columns) / 4e14 + 2e-13;
    const double state = (double)plan->tile_count * 16 * columns * 14 / 4e12;
    const double best = sqrt(2 * state / key);
    int64_t segment = 256;
    while (segment * 1.41 < best) segment *= 2;
    return segment;
}

/* Of orbits: enough segments for the machine to be full a few times; the states of few are little
 * to write and read beside q, k, v and y. */
static int64_t orbits_segment(const lnt_cuda_plan *plan)
{
    const bool alone = orbits_is_alone(plan->orbits, (int)plan->p.taylor.terms);
    const int64_t teams = (alone ? 16 : 4) * (int64_t)plan->device->properties.multiProcessorCount;
    const int64_t n = plan->p.length_k * plan->p.batch * plan->p.kv_heads / teams;
    int64_t segment = 256;
    while (segment < n && segment < 8192) segment *= 2;
    return segment;
}

/* Of orbits: segments that one block (orbits_walk.cu) or two (orbits_relay.cu) walk through.  A block
 * has a multiprocessor to itself: few runs leave some idle at the end, many must be summed before
 * they can begin. */
static int orbits_walk(const lnt_cuda_plan *plan)
{
    const int64_t segments = (plan->p.length_k + plan->segment - 1) / plan->segment;
    const bool runs_on = plan->orbits == 1 || plan->relay;
    if (!runs_on || !plan->p.causal || segments < 1) return 1;
    const int64_t heads = plan->p.batch * plan->p.kv_heads,
                  walkers = plan->device->properties.multiProcessorCount / (plan->relay ? 2 : 1);
    const double summing = plan->orbits == 1 ? 0.4 : 0.7; /* of walking, about */
    int64_t best = segments;
    double least = 0;
    for (int64_t walk = segments; walk >= 1; walk--) {
        const int64_t runs = (segments + walk - 1) / walk,
                      rounds = (runs * heads + walkers - 1) / walkers;
        const double cost = (double)(rounds * walk) +
                            summing * (double)((runs - 1) * walk * heads) / (double)walkers;
        if (walk == segments || cost < least) best = walk, least = cost;
    }
    return (int)best;
}

/* Not causal: enough segments to fill the machine. */
static int64_t full_segment(const lnt_cuda_plan *plan)
{
    const int64_t heads = plan->p.batch * plan->p.kv_heads;
    const int64_t slabs = plan->tile_count / 40 + 1;
    const int64_t want = 4 * plan->device->properties.multiProcessorCount / (heads * slabs) + 1;
    const int64_t segment = (plan->p.length_k / want + 127) / 128 * 128;
    return segment < 512 ? 512 : segment;
}

enum { F32_COST = 4 }; /* an operation of f32.h in those of the direct form of bf16, about */

/* Whether reading every key costs less than making and reading a state. */
static bool direct_is_cheaper(const lnt_cuda_plan *plan)
{
    const double columns = 8 * (plan->width + 1), nq = (double)plan->p.length_q,
                 nk = (double)plan->p.length_k;
    const double pairs = plan->p.causal ? nq * nk - nq * nq / 2 : nq * nk;
    const double group = (double)plan->p.heads / (double)plan->p.kv_heads;
    const double direct = group * pairs * (2 * plan->dim8 * 8 + 2 * columns);
    const double states = (nk + group * nq) * 2 * columns * (double)plan->padded;
    const bool mixed = plan->p.dtype == LNT_BF16 && f32_is_for(&plan->p, true);
    return direct < states * (mixed ? F32_COST : 1);
}

size_t take(size_t *total, size_t bytes)
{
    const size_t at = *total;
    *total += (bytes + 255) / 256 * 256;
    return at;
}

static void lay_out(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    const size_t heads = (size_t)(p->batch * p->kv_heads), columns = (size_t)(8 * plan->width + 8);
    lnt_cuda_layout *at = &plan->at;
    if (plan->f32) {
        f32_lay_out(plan);
    } else if (p->mechanism == LNT_LINEAR) {
        const size_t state = (size_t)(8 * plan->width) * columns * sizeof(float);
        at->sums = take(&at->bytes, heads * (size_t)plan->segments * state);
        at->state = take(&at->bytes, heads * state);
    } else if (plan->by_state && plan->orbits) {
        const size_t state =
            (size_t)orbits_numbers(plan->orbits, (int)p->taylor.terms) * sizeof(float);
        at->sums = take(&at->bytes, heads * (size_t)plan->segments * state);
        at->state = take(&at->bytes, heads * state);
    } else {
        const size_t blocks = heads * (size_t)plan->blocks,
                     even8 = (size_t)(plan->dim8 + 1) / 2 * 2;
        if (plan->by_state) at->rows = take(&at->bytes, blocks * (size_t)plan->dim8 * 512);
        if (!plan->by_state || p->causal || p->backward)
            at->keys = take(&at->bytes, blocks * even8 * 512);
        at->values = take(&at->bytes, heads * (size_t)plan->blocks * columns * 64);
    }
    if (plan->by_state && plan->pairs && !plan->f32) {
        const size_t states = heads * (size_t)plan->prefixes;
        at->state = take(&at->bytes, states * PAIRS_STATE_BYTES);
        at->linear = take(&at->bytes, states * PAIRS_LINEAR * sizeof(float));
        at->mean = take(&at->bytes, states * columns * sizeof(float));
        at->sums = take(&at->bytes, heads * PAIRS_GROUPS * PAIRS_ASIDE_BYTES);
    } else if (plan->by_state && !plan->orbits && !plan->f32) {
        const size_t numbers = (size_t)plan->tile_count * 16 * columns;
        at->sums = take(&at->bytes, heads * (size_t)plan->segments * numbers * sizeof(float));
        at->state = take(&at->bytes, heads * (size_t)plan->prefixes * numbers * 2);
        at->mean = take(&at->bytes, heads * (size_t)plan->prefixes * columns * sizeof(float));
    }
    if (plan->pass) {
        const size_t pass = linear_pass_workspace(p->batch * p->kv_heads);
        if (at->bytes < pass) at->bytes = pass;
    }
    at->partial = 0; /* a step needs nothing else */
    const size_t step =
        plan->count ? state_step_workspace((int)heads, plan->splits, (int)p->dim_value) : 0;
    if (at->bytes < step) at->bytes = step;
}

static void cut(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    plan->blocks = (p->length_k + 127) / 128 * 4;
    const int64_t heads = p->batch * p->kv_heads, n = p->length_k + (p->causal ? p->length_q : 0);
    if (plan->by_state && plan->orbits) {
        plan->segment = orbits_segment(plan);
        plan->segments = (int)((n + plan->segment - 1) / plan->segment);
        plan->relay = plan->orbits == 2 && p->taylor.terms == 4 && plan->device->has_warpgroups;
        plan->walk = orbits_walk(plan);
        return;
    }
    if (p->mechanism == LNT_LINEAR) {
        int64_t segment = p->length_k * heads / (16 * plan->device->properties.multiProcessorCount);
        segment = segment / 64 * 64;
        plan->segment = segment < 256 ? 256 : segment > 4096 ? 4096 : segment;
        plan->segments = (int)((n + plan->segment - 1) / plan->segment);
        return;
    }
    plan->segment = plan->pairs ? (int64_t)PAIRS_SEGMENT
                    : p->causal ? causal_segment(plan)
                                : full_segment(plan);
    plan->segments = (int)((p->length_k + plan->segment - 1) / plan->segment);
    plan->prefixes = p->causal ? plan->segments : 1;
    if (plan->prefixes < 1) plan->prefixes = 1;
}

/* ---- tables ---------------------------------------------------------------------------------- */

template <class T> static cudaError_t upload(T **to, const void *from, size_t count)
{
    const cudaError_t e = cudaMalloc((void **)to, (count ? count : 1) * sizeof(T));
    if (e != cudaSuccess || !count) return e;
    return cudaMemcpy(*to, from, count * sizeof(T), cudaMemcpyHostToDevice);
}

static cudaError_t upload_floats(float **to, const double *from, int64_t count)
{
    if (!from) return cudaSuccess;
    std::vector<float> x(from, from + count);
    return upload(to, x.data(), x.size());
}

/* "direct" or "state", as asked for by name. */
static bool asks_for(const lnt_attn_desc *p, const char *name)
{
    if (!p->algorithm) return false;
    const char *slash = strrchr(p->algorithm, '/');
    return strcmp(slash ? slash + 1 : p->algorithm, name) == 0;
}

/* States of pairs_basis.h: one block of threads walks the whole sequence, so the heads must be enough for
 * half of the multiprocessors.  "pairs" and "tiles" ask for one or the other. */
static bool takes_pairs(const lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    if (p->mechanism != LNT_TAYLOR || p->dtype != LNT_BF16 || !p->causal || p->taylor.terms != 4 ||
        p->dim <= 24 || p->dim > 32 || p->dim_value > 32 || asks_for(p, "tiles") ||
        !plan->device->has_warpgroups)
        return false;
    return asks_for(p, "pairs") || 2 * p->batch * p->kv_heads * PAIRS_GROUPS >=
                                       plan->device->properties.multiProcessorCount;
}

/* What the kernels for bf16 need. */
static cudaError_t upload_basis(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    cudaError_t e = cudaSuccess;
    /* The backward pass takes them where no heads share keys. */
    plan->pairs = takes_pairs(plan) && (!p->backward || p->heads == p->kv_heads);
    if (plan->pairs) {
        const pairs_tables t = pairs_tables_make((int)p->dim, plan->coefficient);
        plan->padded = PAIRS_GROUPS * PAIRS_TILES * 16 * 4;
        e = upload(&plan->factor, t.factor.data(), t.factor.size());
        if (e == cudaSuccess) e = upload(&plan->place, t.place.data(), t.place.size());
        if (e != cudaSuccess || !p->backward) return e;
        const std::vector<uint32_t> slopes =
            tiles_basis_slopes((int)p->dim, 4, plan->width, pairs_sums_at(t, (int)p->dim));
        return upload(&plan->slopes, slopes.data(), slopes.size());
    }
    /* The backward pass needs the states of tiles_basis.h. */
    if (!p->backward)
        plan->orbits = orbits_width((int)p->dim, (int)p->dim_value, (int)p->taylor.terms);
    if (plan->orbits) {
        const std::vector<int32_t> place =
            orbits_places(plan->orbits, (int)p->dim, (int)p->taylor.terms);
        plan->padded = (int64_t)place.size();
        e = upload(&plan->place, place.data(), place.size());
    } else if (p->taylor.terms <= 4) {
        const basis b = tiles_basis_make((int)p->dim, (int)p->taylor.terms, plan->coefficient,
                                         tiles_sum_blocks(plan->width));
        plan->tile_count = (int)b.tiles.size(), plan->task_count = (int)b.tasks.size();
        plan->padded = plan->tile_count * 16;
        assert(b.units.size() <= MOST_UNITS);
        plan->units.count = (int)b.units.size();
        for (size_t i = 0; i < b.units.size(); i++) plan->units.list[i] = b.units[i].packed();
        e = upload(&plan->tasks, b.tasks.data(), b.tasks.size());
        if (e == cudaSuccess) e = upload(&plan->factor, b.factor.data(), b.factor.size());
        if (e == cudaSuccess) e = upload(&plan->place, b.place.data(), b.place.size());
        if (e == cudaSuccess && p->backward && plan->width <= BACKWARD_STATE_WIDTH) {
            const std::vector<uint32_t> slopes =
                tiles_basis_slopes((int)p->dim, (int)p->taylor.terms, plan->width,
                                   tiles_basis_sums_at(b, plan->width));
            e = upload(&plan->slopes, slopes.data(), slopes.size());
        }
    }
    return e;
}

/* The features in the library's order; of linear there is one for each element. */
static cudaError_t upload_table(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    const bool taylor = p->mechanism == LNT_TAYLOR;
    std::vector<uint64_t> index;
    std::vector<float> factor;
    for (int64_t i = 0; i < p->dim && !taylor; i++) index.push_back((uint64_t)i);
    if (taylor)
        monomials_table((int)p->dim, (int)p->taylor.terms, plan->coefficient, index, factor);
    plan->count = (int64_t)index.size();
    if (!plan->padded) plan->padded = plan->count;
    const int factors = taylor ? (int)p->taylor.terms - 1 : 1;
    const std::vector<uint64_t> packed = f32_table(index, (int)p->dim, factors);
    cudaError_t e = upload(&plan->step_index, index.data(), taylor ? index.size() : 0);
    if (e == cudaSuccess) e = upload(&plan->step_factor, factor.data(), factor.size());
    if (e == cudaSuccess) e = upload(&plan->f32_table, packed.data(), packed.size());
    return e;
}

/* log2 of the decay: of a decay near 1 f32 has too few digits to raise it to a high power. */
static cudaError_t upload_decay(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    if (p->mechanism != LNT_LINEAR || !p->decay) return cudaSuccess;
    std::vector<double> logs;
    for (int64_t h = 0; h < p->kv_heads; h++) logs.push_back(fmax(log2(p->decay[h]), -1e4));
    const cudaError_t e = upload_floats(&plan->decay, p->decay, p->kv_heads);
    return e == cudaSuccess ? upload_floats(&plan->log_decay, logs.data(), p->kv_heads) : e;
}

static cudaError_t upload_all(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    const size_t heads = (size_t)(p->batch * p->kv_heads);
    const bool taylor = p->mechanism == LNT_TAYLOR;
    cudaError_t e = upload_decay(plan);
    if (e == cudaSuccess) e = upload_floats(&plan->temperature, p->taylor.temperature, p->heads);
    if (e == cudaSuccess && taylor && p->dtype == LNT_BF16) e = upload_basis(plan);
    if (e == cudaSuccess && (taylor ? has_table(p) : p->mechanism == LNT_LINEAR))
        e = upload_table(plan);
    if (e == cudaSuccess) e = cudaMalloc((void **)&plan->arrived, heads * sizeof(unsigned));
    if (e == cudaSuccess) e = cudaMemset(plan->arrived, 0, heads * sizeof(unsigned));
    if (e == cudaSuccess) e = cudaMalloc((void **)&plan->nonpositive, sizeof(unsigned long long));
    if (e == cudaSuccess) e = cudaMemset(plan->nonpositive, 0, sizeof(unsigned long long));
    return e;
}

/* Linear attention in one pass: where each multiprocessor has a few segments of it, and its boxes,
 * which are 64 wide, are not half empty.  "pass" and "passes" ask for one or more of them. */
static bool takes_one_pass(const lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    if (p->mechanism != LNT_LINEAR || !p->causal || plan->decay || p->dim > 64 ||
        p->dim_value > 64 || asks_for(p, "passes") || !plan->device->has_warpgroups)
        return false;
    const int64_t heads = p->batch * p->kv_heads, tokens = p->length_k * heads;
    return asks_for(p, "pass") ||
           (p->dim + p->dim_value > 64 && heads >= 5 && /* each waits for its own states */
            tokens >= (int64_t)1024 * plan->device->properties.multiProcessorCount);
}

/* ---- create ---------------------------------------------------------------------------------- */

lnt_status plan_create(lnt_cuda_device *device, const lnt_attn_desc *desc, lnt_cuda_plan **out)
{
    *out = NULL;
    lnt_cuda_plan *plan = new (std::nothrow) lnt_cuda_plan();
    if (!plan) return fail(device, LNT_ERR_MEMORY, "cuda: no memory for a plan");
    plan->device = device, plan->p = *desc;
    resolve(&plan->p);
    lnt_status status = supported(device, &plan->p);
    if (!status) {
        plan->width = width_for((int)plan->p.dim, (int)plan->p.dim_value);
        if (plan->p.backward && plan->width < 2) plan->width = 2; /* the least it is compiled for */
        plan->dim8 = (int)(plan->p.dim + 7) / 8;
        coefficients(plan);
        status = check(device, upload_all(plan), "filling the tables of a plan");
    }
    if (status) {
        plan_destroy(plan);
        return status;
    }
    plan->by_state = plan->p.mechanism == LNT_TAYLOR && plan->count &&
                     !asks_for(&plan->p, "direct") &&
                     (asks_for(&plan->p, "state") || asks_for(&plan->p, "pairs") ||
                      asks_for(&plan->p, "tiles") || plan->p.state || !direct_is_cheaper(plan));
    plan->f32 = f32_is_for(&plan->p, plan->by_state);
    plan->pass = !plan->f32 && takes_one_pass(plan);
    if (plan->f32)
        f32_cut(plan);
    else
        cut(plan);
    if (plan->count)
        plan->splits =
            state_step_splits((int)(plan->p.batch * plan->p.kv_heads), plan->count,
                              (int)plan->p.dim_value, device->properties.multiProcessorCount);
    lay_out(plan);
    if (plan->p.backward) backward_lay_out(plan);
    if (plan->p.backward && plan->by_state && plan->p.dtype == LNT_BF16 &&
        plan->p.taylor.terms <= 4 &&
        (plan->f32 || (takes_pairs(plan) && !plan->pairs) ||
         orbits_width((int)plan->p.dim, (int)plan->p.dim_value, (int)plan->p.taylor.terms))) {
        lnt_attn_desc forward = *desc;
        forward.backward = 0, forward.algorithm = takes_pairs(plan) ? "pairs" : "state";
        status = plan_create(device, &forward, &plan->forward_plan);
        if (status) {
            plan_destroy(plan);
            return status;
        }
    }
    plan->p.algorithm = plan->p.mechanism == LNT_SOFTMAX  ? "softmax/tiled"
                        : plan->p.mechanism == LNT_CUR    ? "cur/flash"
                        : plan->p.mechanism == LNT_LINEAR ? "linear/chunked"
                        : plan->by_state                  ? "taylor/state"
                                                          : "taylor/direct";
    *out = plan;
    return LNT_OK;
}

void plan_destroy(lnt_cuda_plan *plan)
{
    if (!plan) return;
    plan_destroy(plan->forward_plan);
    for (void *p : { (void *)plan->tasks, (void *)plan->factor, (void *)plan->step_factor,
                     (void *)plan->decay, (void *)plan->log_decay, (void *)plan->temperature,
                     (void *)plan->place, (void *)plan->slopes, (void *)plan->step_index,
                     (void *)plan->f32_table, (void *)plan->arrived, (void *)plan->nonpositive })
        cudaFree(p);
    delete plan;
}

lnt_status plan_describe(const lnt_cuda_plan *plan, lnt_cuda_plan_info *info)
{
    info->algorithm = plan->p.algorithm;
    info->workspace_bytes = plan->at.bytes;
    if (plan->forward_plan && plan->forward_plan->at.bytes > plan->at.bytes)
        info->workspace_bytes = plan->forward_plan->at.bytes;
    info->segment = plan->segment;
    info->features = plan->count;
    info->state_bytes = (size_t)plan->p.kv_heads * (size_t)plan->count *
                        (size_t)(plan->p.dim_value + 1) * sizeof(float);
    info->backward_bytes = plan->backward.bytes;
    return LNT_OK;
}

} // namespace lnt
