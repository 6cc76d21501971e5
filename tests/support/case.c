/* case.c - see case.h. */
#include "case.h"

#include <math.h>
#include <stdlib.h>

static const int64_t lengths[] = { 0,  1,  2,  3,  5,  7,  8,  15,  16,  17,
                                   31, 32, 33, 63, 64, 65, 97, 127, 129, 257 };
static const int64_t dims[] = { 1, 2, 3, 5, 8, 16, 17, 31, 33, 64, 65, 80, 128 };

/* Monomials of degree below `terms` in `dim` variables. */
static double monomials(int64_t dim, int64_t terms)
{
    double count = 1;
    for (int64_t t = 1; t < terms; t++) count *= (double)(dim + t) / (double)t;
    return count;
}

/* As many terms as a test has time for. */
static int64_t fewer_terms(int64_t dim, int64_t terms)
{
    while (monomials(dim, terms) > budget(300, 3000)) terms--;
    return terms;
}

attn_case case_make(lnt_mechanism mechanism, int64_t heads, int64_t kv_heads, int64_t length_q,
                    int64_t length_k, int64_t dim, int64_t dim_value)
{
    attn_case c = { .seed = 1 };
    assert_int_equal(lnt_attn_desc_init(&c.desc, sizeof c.desc), LNT_OK);
    c.desc.mechanism = mechanism;
    c.desc.heads = heads;
    c.desc.kv_heads = kv_heads;
    c.desc.length_q = length_q;
    c.desc.length_k = length_k;
    c.desc.dim = dim;
    c.desc.dim_value = dim_value;
    if (mechanism == LNT_TAYLOR) c.desc.taylor.terms = fewer_terms(dim, 4);
    if (mechanism == LNT_CUR) c.desc.cur.landmarks = 8; /* short sequences are exact */
    if (mechanism == LNT_HYBRID) { /* short sequences have far keys, sinks are among them */
        c.desc.taylor.terms = fewer_terms(dim, 3);
        c.desc.hybrid.window = 11;
        c.desc.hybrid.sink = 2;
        c.desc.causal = 1;
    }
    return c;
}

static int64_t kv_heads_of(const attn_case *c)
{
    return c->desc.kv_heads ? c->desc.kv_heads : c->desc.heads;
}

int64_t case_length_k(const attn_case *c)
{
    return c->desc.length_k < 0 ? c->desc.length_q : c->desc.length_k;
}

int64_t case_dim_value(const attn_case *c)
{
    return c->desc.dim_value ? c->desc.dim_value : c->desc.dim;
}

void case_set_decay(attn_case *c, double first)
{
    assert_true(kv_heads_of(c) <= MAX_HEADS);
    for (int h = 0; h < MAX_HEADS; h++) c->decay[h] = 1 - (1 - first) / (1 + h);
    c->desc.decay = c->decay;
}

void case_set_parts(attn_case *c)
{
    c->desc.dim = 10;
    c->desc.taylor.terms = 4; /* 286 monomials */
}

/* Whether no sequence may have more queries than keys. */
static bool needs_keys(const attn_case *c) { return c->desc.causal && !c->desc.softmax.align_begin; }

void case_random_lengths(dice *d, attn_case *c)
{
    c->with_lengths = true;
    for (int b = 0; b < MAX_SEQUENCES; b++) {
        c->lengths_k[b] = dice_range(d, 0, case_length_k(c));
        const int64_t most = needs_keys(c) && c->lengths_k[b] < c->desc.length_q
                                 ? c->lengths_k[b]
                                 : c->desc.length_q;
        c->lengths_q[b] = dice_range(d, 0, most);
    }
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void case_random_packing(dice *d, attn_case *c)
{
    c->desc.batch = 1;
    c->sequences = dice_range(d, 1, MAX_SEQUENCES);
    const size_t n = (size_t)c->sequences + 1;
    for (size_t s = 0; s < n; s++) {
        c->cu_q[s] = dice_range(d, 0, c->desc.length_q);
        c->cu_k[s] = dice_range(d, 0, case_length_k(c));
    }
    if (dice_range(d, 0, 1)) c->cu_q[0] = c->cu_k[0] = 0; /* else rows in front of the first */
    qsort(c->cu_q, n, sizeof c->cu_q[0], by_value);
    qsort(c->cu_k, n, sizeof c->cu_k[0], by_value);
    for (size_t s = 0; s < n && needs_keys(c); s++) /* no more queries than keys: the same rows */
        c->cu_q[s] = c->cu_k[s] = c->cu_q[s] < c->cu_k[s] ? c->cu_q[s] : c->cu_k[s];
}

void case_random_scores(dice *d, attn_case *c)
{
    static const int64_t windows[] = { 1, 2, 7, 16, 40, 64, 65, 100, 300 };
    if (dice_range(d, 0, 1)) c->desc.softmax.window = DICE_PICK(d, windows);
    if (dice_range(d, 0, 1)) c->desc.softmax.cap = 0.3 + 3 * dice_uniform(d);
    if (dice_range(d, 0, 1)) return;
    for (int h = 0; h < MAX_HEADS; h++) c->slopes[h] = 0.3 / (1 + h);
    c->desc.softmax.slopes = c->slopes;
}

static void random_softmax(dice *d, attn_case *c)
{
    if (dice_range(d, 0, 2) == 0) c->desc.scale = (dice_uniform(d) - 0.3) / (double)c->desc.dim;
    if (dice_range(d, 0, 1)) return;
    case_random_scores(d, c);
    if (dice_range(d, 0, 1)) c->mask = mask_form_random(d);
    c->desc.softmax.align_begin = dice_range(d, 0, 2) == 0;
    if (c->desc.softmax.align_begin && dice_range(d, 0, 1)) { /* more queries than keys are seen by */
        c->desc.length_k = c->desc.length_q;
        c->desc.length_q = DICE_PICK(d, lengths);
    }
}

static void random_taylor(dice *d, attn_case *c)
{
    c->desc.taylor.terms = fewer_terms(c->desc.dim, dice_range(d, 1, 8));
    if (dice_range(d, 0, 2) == 0) case_set_parts(c);
    if (dice_range(d, 0, 2) == 0) c->desc.scale = (dice_uniform(d) - 0.3) / (double)c->desc.dim;
    if (dice_range(d, 0, 4) == 0) c->state_tokens = dice_range(d, 1, 40);
    c->desc.taylor.output_norm = dice_range(d, 0, 2) == 0;
    if (dice_range(d, 0, 2) == 0) {
        c->desc.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT;
        c->desc.scale = NAN;
        for (int h = 0; h < MAX_HEADS; h++) c->temperature[h] = 0.8 - 0.15 * h;
        /* 1 + x is 0 at x = -1, which opposite vectors of length 1 reach. */
        if (c->desc.taylor.terms % 2 == 0 || dice_range(d, 0, 1)) c->desc.taylor.temperature = c->temperature;
    }
    else if (!c->desc.causal && !c->state_tokens && dice_range(d, 0, 2) == 0) {
        c->desc.taylor.center_mean = 1;
    } else if (dice_range(d, 0, 2) == 0) {
        for (int i = 0; i < MAX_HEADS * 128; i++) c->center[i] = 0.3 * dice_normal(d);
        c->desc.taylor.center = c->center;
    }
    if (dice_range(d, 0, 3)) return;
    for (int t = 0; t < 8; t++) c->coefficients[t] = t ? 0.4 * dice_uniform(d) / t : 1;
    c->desc.taylor.coefficients = c->coefficients;
}

/* The ridge is one that rounding in f32 does not show through. */
static void random_cur(dice *d, attn_case *c)
{
    lnt_attn_desc *a = &c->desc;
    a->cur.landmarks = dice_range(d, 1, 20);
    a->cur.select = (lnt_select)dice_range(d, 0, LNT_SELECT_KMEANS);
    a->cur.embed_column = dice_range(d, 0, a->dim - 1);
    a->seed = dice_next(d);
    a->cur.separate_indices = dice_range(d, 0, 2) == 0;
    a->cur.copy_rows = dice_range(d, 0, 2) != 0;
    a->cur.pinv = (lnt_pinv)(dice_range(d, 0, 2) == 0);
    a->cur.pinv_iterations = dice_range(d, 1, 6);
    a->cur.pinv_init = (lnt_pinv_init)dice_range(d, 0, 1);
    a->cur.ridge = 0.01;
    a->cur.activation = (lnt_activation)(dice_range(d, 0, 3) == 0);
    if (dice_range(d, 0, 2) == 0) a->scale = (dice_uniform(d) - 0.3) / (double)a->dim;
    /* Far below 0 it is next to nothing, and so is U: scores near 0, as in use. */
    if (a->cur.activation == LNT_ACTIVATION_LAPLACE) a->scale = 0.3 / (double)a->dim;
    const int64_t last = (a->length_q > case_length_k(c) ? a->length_q : case_length_k(c)) - 1;
    if (a->cur.select == LNT_SELECT_MEAN || a->cur.landmarks < 2 || last < 7 || dice_range(d, 0, 1)) return;
    c->pin[0] = dice_range(d, 0, last < 40 ? last : 40);
    c->pin[1] = c->pin[0] ? 0 : 7;
    a->cur.pin = c->pin;
    a->cur.pins = 2;
}

/* Windows from one token to more than there are, sinks none to more than there are. */
static void random_hybrid(dice *d, attn_case *c)
{
    static const int64_t windows[] = { 1, 2, 7, 13, 32, 61, 64, 65, 128, 300 };
    static const int64_t sinks[] = { 0, 0, 0, 1, 3, 31, 64, 70, 300 };
    lnt_attn_desc *a = &c->desc;
    a->hybrid.window = DICE_PICK(d, windows);
    a->hybrid.sink = DICE_PICK(d, sinks);
    a->hybrid.far = dice_range(d, 0, 1) ? LNT_LINEAR : LNT_TAYLOR;
    a->taylor.terms = fewer_terms(a->dim, 2 * dice_range(d, 0, 2) + 1);
    const int most = a->dim > 33 ? LNT_MAP_IDENTITY : LAST_MAP;
    a->linear.feature_map = (lnt_feature_map)dice_range(d, 0, most);
    a->linear.features = 2 * dice_range(d, 8, 40);
    a->seed = dice_next(d);
    if (dice_range(d, 0, 2) == 0) a->scale = (dice_uniform(d) - 0.3) / (double)a->dim;
    if (dice_range(d, 0, 4) == 0) c->state_tokens = dice_range(d, 1, 200);
    if (dice_range(d, 0, 2) == 0) case_set_decay(c, 0.5 + 0.5 * dice_uniform(d));
    if (dice_range(d, 0, 2) == 0) {
        for (int i = 0; i < MAX_HEADS * 128; i++) c->center[i] = 0.3 * dice_normal(d);
        a->taylor.center = c->center;
    }
    if (dice_range(d, 0, 3)) return;
    for (int t = 0; t < 8; t++) c->coefficients[t] = t ? 0.4 * dice_uniform(d) / t : 1;
    a->taylor.coefficients = c->coefficients;
}

void case_random(dice *d, lnt_mechanism mechanism, lnt_dtype dtype, attn_case *c)
{
    static const int64_t heads[][2] = { { 1, 1 }, { 4, 2 }, { 6, 1 }, { 2, 0 }, { 3, 3 } };
    static const int64_t batches[] = { 0, 1, 1, 1, 2, 2, 3 };
    const int64_t *h = DICE_PICK(d, heads);
    const int64_t a = DICE_PICK(d, lengths), b = DICE_PICK(d, lengths), dim = DICE_PICK(d, dims);
    const bool causal =
        (dice_range(d, 0, 1) && mechanism != LNT_CUR) || mechanism == LNT_HYBRID;
    const bool same = dice_range(d, 0, 2) == 0;
    *c = case_make(mechanism, h[0], h[1], causal && b < a ? b : a,
                   same ? -1 : causal && b < a ? a : b, dim,
                   dice_range(d, 0, 1) ? 0 : DICE_PICK(d, dims));
    c->desc.dtype = dtype;
    c->desc.batch = DICE_PICK(d, batches);
    c->desc.causal = causal;
    c->seed = dice_next(d);
    c->lay_q = (layout)dice_range(d, 0, LAYOUT_COUNT - 1);
    c->lay_k = (layout)dice_range(d, 0, LAYOUT_COUNT - 1);
    c->lay_v = (layout)dice_range(d, 0, LAYOUT_COUNT - 1);
    c->lay_out = (layout)dice_range(d, 0, LAYOUT_OUTPUTS - 1);
    if (mechanism == LNT_SOFTMAX) random_softmax(d, c);
    if (mechanism == LNT_LINEAR) {
        /* The oracle draws a random map anew for each row: seldom a wide one. */
        const bool wide = dim > 33 && dice_range(d, 0, 3);
        c->desc.linear.feature_map =
            (lnt_feature_map)dice_range(d, 0, wide ? LNT_MAP_IDENTITY : LAST_MAP);
        /* Few Fourier features can cancel to a denominator near 0; positive ones cannot. */
        const int64_t fewest = c->desc.linear.feature_map == LNT_MAP_FOURIER ? 8 : 1;
        c->desc.linear.features = dim >= 8 && dice_range(d, 0, 1) ? 0 : 2 * dice_range(d, fewest, 40);
        c->desc.seed = dice_next(d);
        if (dice_range(d, 0, 2) == 0) c->desc.linear.eps = dice_range(d, 0, 1) ? 0 : 0.25;
        if (causal && dice_range(d, 0, 2) == 0) case_set_decay(c, 0.5 + 0.5 * dice_uniform(d));
        if (dice_range(d, 0, 4) == 0) c->state_tokens = dice_range(d, 1, 40);
    }
    if (mechanism == LNT_TAYLOR) random_taylor(d, c);
    if (mechanism == LNT_CUR) random_cur(d, c);
    if (mechanism == LNT_HYBRID) random_hybrid(d, c);
    const bool sums = mechanism == LNT_LINEAR || mechanism == LNT_TAYLOR;
    c->desc.compensated = sums && dice_range(d, 0, 3) == 0;
    const int64_t form = dice_range(d, 0, 7);
    if (form == 0 || form == 1) case_random_lengths(d, c);
    if (form == 2 || form == 3) case_random_packing(d, c);
}

void case_print(const attn_case *c, const char *algorithm, lnt_ctx *ctx)
{
    const lnt_attn_desc *a = &c->desc;
    print_error("case: %s %s isa=%s threads=%d batch=%lld heads=%lld/%lld n=%lld,%lld d=%lld,%lld "
                "causal=%d scale=%g compensated=%d\n",
                algorithm ? algorithm : lnt_mechanism_name(a->mechanism), lnt_dtype_name(a->dtype),
                ctx ? lnt_ctx_isa(ctx) : "?", ctx ? lnt_ctx_threads(ctx) : 0, (long long)a->batch,
                (long long)a->heads, (long long)kv_heads_of(c), (long long)a->length_q,
                (long long)case_length_k(c), (long long)a->dim, (long long)case_dim_value(c),
                a->causal, a->scale, a->compensated);
    if (a->mechanism == LNT_SOFTMAX)
        print_error("      window=%lld cap=%g slope=%g align_begin=%d mask=%s %s alike=%d\n",
                    (long long)a->softmax.window, a->softmax.cap,
                    a->softmax.slopes ? a->softmax.slopes[0] : 0.0, a->softmax.align_begin,
                    !c->mask.given ? "none" : c->mask.kind == LNT_MASK_KEEP ? "keep" : "add",
                    lnt_dtype_name(c->mask.dtype), c->mask.alike);
    if (a->mechanism == LNT_LINEAR)
        print_error("      map=%s features=%lld map seed=%llu eps=%g decay=%g state=%lld\n",
                    lnt_feature_map_name(a->linear.feature_map), (long long)a->linear.features,
                    (unsigned long long)a->seed, a->linear.eps, a->decay ? a->decay[0] : 0.0,
                    (long long)c->state_tokens);
    if (a->mechanism == LNT_TAYLOR)
        print_error("      terms=%lld coefficients=%s normalize=%s output_norm=%d center=%s "
                    "state=%lld\n",
                    (long long)a->taylor.terms, a->taylor.coefficients ? "given" : "1/p!",
                    lnt_normalize_name(a->taylor.normalize), a->taylor.output_norm,
                    a->taylor.center_mean ? "mean" : a->taylor.center ? "given" : "none",
                    (long long)c->state_tokens);
    if (a->mechanism == LNT_CUR)
        print_error("      landmarks=%lld select=%s separate=%d pins=%lld copy=%d pinv=%s "
                    "iterations=%lld init=%s ridge=%g activation=%s seed=%llu\n",
                    (long long)a->cur.landmarks, lnt_select_name(a->cur.select), a->cur.separate_indices,
                    (long long)a->cur.pins, a->cur.copy_rows, lnt_pinv_name(a->cur.pinv),
                    (long long)a->cur.pinv_iterations, lnt_pinv_init_name(a->cur.pinv_init), a->cur.ridge,
                    lnt_activation_name(a->cur.activation), (unsigned long long)a->seed);
    if (a->mechanism == LNT_HYBRID)
        print_error("      window=%lld sink=%lld far=%s terms=%lld coefficients=%s center=%s map=%s "
                    "features=%lld map seed=%llu state=%lld\n",
                    (long long)a->hybrid.window, (long long)a->hybrid.sink, lnt_mechanism_name(a->hybrid.far),
                    (long long)a->taylor.terms, a->taylor.coefficients ? "given" : "1/p!",
                    a->taylor.center ? "given" : "none", lnt_feature_map_name(a->linear.feature_map),
                    (long long)a->linear.features, (unsigned long long)a->seed,
                    (long long)c->state_tokens);
    print_error("      layouts q,k,v,out=%d,%d,%d,%d data seed=%llu\n", (int)c->lay_q,
                (int)c->lay_k, (int)c->lay_v, (int)c->lay_out, (unsigned long long)c->seed);
    for (int64_t b = 0; b < a->batch && c->with_lengths; b++)
        print_error("      sequence %lld: lengths %lld,%lld\n", (long long)b,
                    (long long)c->lengths_q[b], (long long)c->lengths_k[b]);
    for (int64_t s = 0; s < c->sequences; s++)
        print_error("      packed %lld: q %lld..%lld k %lld..%lld\n", (long long)s,
                    (long long)c->cu_q[s], (long long)c->cu_q[s + 1], (long long)c->cu_k[s],
                    (long long)c->cu_k[s + 1]);
}

/* ---- data ---------------------------------------------------------------------------------- */

/* Draws the keys or queries of a tensor for this case's map. */
static void draw_vectors(dice *d, const lnt_attn_desc *desc, const lnt_tensor *t)
{
    const lnt_feature_map map = desc->linear.feature_map;
    const bool hybrid = desc->mechanism == LNT_HYBRID;
    const bool linear = desc->mechanism == LNT_LINEAR || (hybrid && desc->hybrid.far == LNT_LINEAR);
    double sigma = 1;
    if (linear && map == LNT_MAP_FOURIER) sigma = 0.25 / sqrt((double)desc->dim);
    if (linear && map == LNT_MAP_POSITIVE) sigma = pow((double)desc->dim, -0.25);
    if (desc->mechanism == LNT_TAYLOR || (hybrid && !linear)) sigma = 0.5; /* no polynomial is near 0 */
    for (int64_t i = 0; i < tensor_elements(t); i++) {
        const double x = sigma * dice_normal(d);
        tensor_put(t, i, linear && map == LNT_MAP_IDENTITY ? fabs(x) + 0.125 : x);
    }
}

void draw_values(dice *d, const lnt_tensor *t)
{
    for (int64_t i = 0; i < tensor_elements(t); i++) tensor_put(t, i, dice_normal(d));
}

/* The tokens before the keys; all sequences the same number of them. */
static lnt_state *draw_state(lnt_ctx *ctx, dice *d, const attn_case *c)
{
    lnt_attn_desc desc = c->desc;
    desc.batch = c->sequences ? c->sequences : c->desc.batch;
    lnt_state *state;
    assert_ok(ctx, lnt_state_create(ctx, &desc, &state));
    block k = block_new(desc.dtype, LAYOUT_BHND, desc.batch, kv_heads_of(c), c->state_tokens,
                        desc.dim);
    block v = block_new(desc.dtype, LAYOUT_BHND, desc.batch, kv_heads_of(c), c->state_tokens,
                        case_dim_value(c));
    draw_vectors(d, &desc, &k.t);
    draw_values(d, &v.t);
    assert_ok(ctx, lnt_state_append(state, &k.t, &v.t));
    block_free(&k);
    block_free(&v);
    return state;
}

trial trial_new(lnt_ctx *ctx, const attn_case *c)
{
    const lnt_attn_desc *a = &c->desc;
    const int64_t m = case_dim_value(c), kv = kv_heads_of(c), nk = case_length_k(c);
    dice d = { c->seed };
    trial t = {
        .q = block_new(a->dtype, c->lay_q, a->batch, a->heads, a->length_q, a->dim),
        .k = block_new(a->dtype, c->lay_k, a->batch, kv, nk, a->dim),
        .v = block_new(a->dtype, c->lay_v, a->batch, kv, nk, m),
        .out = block_new(a->dtype, c->lay_out, a->batch, a->heads, a->length_q, m),
    };
    draw_vectors(&d, a, &t.q.t);
    draw_vectors(&d, a, &t.k.t);
    draw_values(&d, &t.v.t);
    t.io = (lnt_attn_io){ .size = sizeof t.io, .q = t.q.t, .k = t.k.t, .v = t.v.t, .out = t.out.t };
    t.mask = mask_new(&d, &c->mask, a->batch, a->heads, a->length_q, nk);
    t.io.mask = t.mask.mask;
    if (c->with_lengths) {
        t.io.lengths_q = c->lengths_q;
        t.io.lengths_k = c->lengths_k;
    }
    if (c->sequences) {
        t.io.sequences = c->sequences;
        t.io.cu_seqlens_q = c->cu_q;
        t.io.cu_seqlens_k = c->cu_k;
    }
    if (c->state_tokens) t.io.state_in = t.state = draw_state(ctx, &d, c);
    return t;
}

void trial_free(trial *t)
{
    block_free(&t->q);
    block_free(&t->k);
    block_free(&t->v);
    block_free(&t->out);
    mask_free(&t->mask);
    lnt_state_destroy(t->state);
    *t = (trial){ 0 };
}

/* ---- running ------------------------------------------------------------------------------- */

lnt_plan *case_plan(lnt_ctx *ctx, const attn_case *c, int algorithm)
{
    lnt_attn_desc desc = c->desc;
    desc.algorithm = algorithm < 0 ? NULL : lnt_algorithm_name(algorithm);
    if (c->state_tokens) desc.state = 1;
    lnt_plan *plan;
    const lnt_status status = lnt_plan_create(ctx, &desc, &plan);
    if (status == LNT_ERR_UNSUPPORTED && algorithm >= 0) return NULL;
    if (status) case_print(c, desc.algorithm, ctx);
    assert_ok(ctx, status);
    return plan;
}

void case_forward(lnt_ctx *ctx, const attn_case *c, const char *algorithm, lnt_plan *plan,
                  const lnt_attn_io *io)
{
    const lnt_status status = lnt_plan_forward(plan, io);
    if (status) case_print(c, algorithm, ctx);
    assert_ok(ctx, status);
}

void oracle_fill(lnt_ctx *ctx, const lnt_attn_desc *desc, const lnt_attn_io *io,
                 const lnt_tensor *want)
{
    double *y = malloc((size_t)(want->shape[3] + 1) * sizeof *y);
    assert_non_null(y);
    for (int64_t r = 0; r < want->shape[0] * want->shape[1] * want->shape[2]; r++) {
        const int64_t i = r % want->shape[2], h = r / want->shape[2] % want->shape[1],
                      b = r / want->shape[2] / want->shape[1];
        assert_ok(ctx, lnt_reference_row(ctx, desc, io, b, h, i, y));
        for (int64_t c = 0; c < want->shape[3]; c++) lnt_tensor_set(want, b, h, i, c, y[c]);
    }
    free(y);
}

double oracle_error(lnt_ctx *ctx, const lnt_attn_desc *desc, const lnt_attn_io *io, int64_t rows)
{
    const lnt_tensor *out = &io->out;
    double *y = malloc((size_t)(out->shape[3] + 1) * sizeof *y);
    assert_non_null(y);
    error_sum e = { 0 };
    dice d = { (uint64_t)out->shape[2] };
    for (int64_t bh = 0; bh < out->shape[0] * out->shape[1]; bh++) {
        const int64_t n = out->shape[2], b = bh / out->shape[1], h = bh % out->shape[1];
        for (int64_t r = 0; r < n && r < rows; r++) {
            int64_t i = n <= rows ? r : dice_range(&d, 0, n - 1);
            if (n > rows && r < 2) i = r ? n - 1 : 0;
            assert_ok(ctx, lnt_reference_row(ctx, desc, io, b, h, i, y));
            for (int64_t c = 0; c < out->shape[3]; c++)
                error_add(&e, lnt_tensor_get(out, b, h, i, c), y[c]);
        }
    }
    free(y);
    return error_value(&e);
}

double forward_bound(const lnt_attn_desc *desc)
{
    const bool taylor = desc->mechanism == LNT_TAYLOR || desc->mechanism == LNT_HYBRID;
    const double more = taylor ? 2.5 : 1; /* sums over the monomials too */
    switch (desc->dtype) {
    case LNT_F32: return 2e-6 * more;
    case LNT_F16: return 0x1p-10; /* twice the largest rounding error of one output */
    case LNT_BF16: return 0x1p-8; /* the largest rounding error of one output */
    case LNT_F64:
        /* (n + d) roundings of 1.1e-16 at n + d < 400; what is rounded before a pseudo-inverse is
         * multiplied by it, up to 34 times in the worst direction: 1e-13 is the most ever seen. */
        return 1e-13 * (desc->mechanism == LNT_CUR ? 2.5 : more);
    }
    return 0;
}

/* ---- verdicts ------------------------------------------------------------------------------ */

void expect_below(const attn_case *c, const char *algorithm, lnt_ctx *ctx, const char *what,
                  double error, double bound)
{
    if (error <= bound) return;
    case_print(c, algorithm, ctx);
    fail_msg("%s: error %.3g, allowed %.3g", what, error, bound);
}

void expect_true(const attn_case *c, const char *algorithm, lnt_ctx *ctx, const char *what,
                 bool good)
{
    if (good) return;
    case_print(c, algorithm, ctx);
    fail_msg("%s", what);
}

static void check_supported(const coverage *cover, int algorithm)
{
    if (!cover->supported[algorithm])
        fail_msg("%s supported no case at all", lnt_algorithm_name(algorithm));
}

void coverage_check(const coverage *cover)
{
    for (int a = 0; lnt_algorithm_name(a); a++) check_supported(cover, a);
}

void coverage_check_of(const coverage *cover, lnt_mechanism mechanism)
{
    for (int a = 0; lnt_algorithm_name(a); a++)
        if (lnt_algorithm_mechanism(a) == mechanism) check_supported(cover, a);
}

lnt_report plan_report(lnt_plan *plan)
{
    lnt_report report = { .size = sizeof report };
    assert_int_equal(lnt_plan_report(plan, &report), LNT_OK);
    return report;
}

int64_t plan_nonpositive(lnt_plan *plan) { return plan_report(plan).nonpositive; }

int64_t state_nonpositive(lnt_state *state)
{
    lnt_report report = { .size = sizeof report };
    assert_int_equal(lnt_state_report(state, &report), LNT_OK);
    return report.nonpositive;
}

size_t plan_kept_bytes(const lnt_plan *plan)
{
    lnt_plan_info info = { .size = sizeof info };
    assert_int_equal(lnt_plan_describe(plan, &info), LNT_OK);
    return info.kept_bytes;
}
