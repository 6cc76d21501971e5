/* test_block.c - residual blocks over every mechanism, in double: every gradient against
 * differences, and the whole against its formula. */
#define LNT_DOUBLE 1

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"
#include "gradient.h"
#include "nn/block.h"
#include "plan/plan.h"
#include "nn/position.h"
#include "support.h"

enum { B = 2, N = 5, TOKENS = B * N };

typedef struct fixture {
    lnt_ctx *ctx;
    lnt_block_shape shape;
    lnt_attention attention;
    lnt_pass pass;
    double *w[LNT_BLOCK_PARAMS], *g[LNT_BLOCK_PARAMS];
    double *x, *grad, *r, *rotary;
    double temperature[8], dtemperature[8];
    double scores[2 * N * LNT_PAD];
    double tuned[TOKENS * 64];
    lnt_arena memory;
    lnt_block_kept kept;
    lnt_block_scratch scratch;
} fixture;

static void lay_out(fixture *f, lnt_arena *arena)
{
    lnt_block_take_kept(arena, &f->shape, &f->attention, TOKENS, &f->kept);
    lnt_block_take_scratch(arena, &f->shape, B, N, 2, &f->scratch);
}

static void open_attention(fixture *f, lnt_attn_desc desc)
{
    desc.dtype = LNT_F64;
    desc.batch = B;
    desc.heads = (int64_t)f->shape.heads;
    desc.kv_heads = (int64_t)f->shape.kv_heads;
    desc.dim = (int64_t)f->shape.head_dim;
    desc.dim_value = f->shape.averages ? (int64_t)(f->shape.values / f->shape.heads) : 0;
    desc.length_q = N;
    desc.backward = 1;
    for (int h = 0; h < 8; h++) f->temperature[h] = 1;
    const bool shift = desc.taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT;
    if (f->shape.temperature && shift) desc.taylor.temperature = f->temperature;
    f->attention = (lnt_attention){ .heads = f->shape.heads,
                                    .kv_heads = f->shape.kv_heads, .dim = f->shape.head_dim,
                                    .learned = f->shape.temperature, .normalised = shift,
                                    .tuned = f->tuned,
                                    .plan_temperature = f->temperature,
                                    .plan_dtemperature = f->dtemperature, .scores = f->scores };
    assert_ok(f->ctx, lnt_plan_create(f->ctx, &desc, &f->attention.plan));
    f->attention.kept = plan_kept_bytes(f->attention.plan);
}

static size_t param_count(const lnt_param *p)
{
    size_t count = p->name ? 1 : 0;
    for (int i = 0; i < p->rank; i++) count *= p->shape[i];
    return count;
}

static void open_fixture(fixture *f, lnt_block_shape shape, const lnt_attn_desc *desc,
                         const int64_t *lengths)
{
    dice d = { 31 };
    memset(f, 0, sizeof *f);
    f->ctx = context_new(2, NULL);
    f->shape = shape;
    open_attention(f, *desc);
    for (int i = 0; i < LNT_BLOCK_PARAMS; i++) {
        const lnt_param p = lnt_block_param(&shape, i);
        const size_t count = param_count(&p);
        if (!count) continue;
        f->w[i] = random_doubles(&d, count, 0.4);
        f->g[i] = zero_doubles(count);
        for (size_t j = 0; j < count; j++) f->w[i][j] += p.constant;
    }
    f->x = random_doubles(&d, TOKENS * shape.dim, 1);
    f->r = random_doubles(&d, TOKENS * shape.dim, 1);
    f->grad = zero_doubles(TOKENS * shape.dim);
    f->rotary = zero_doubles(N * shape.head_dim);
    const lnt_rotary rotary = { .base = 10000, .halves = shape.half > 0 };
    double frequency[32];
    lnt_rotary_frequencies(&rotary, shape.head_dim, frequency);
    lnt_rotary_table(f->rotary, 3, N, &rotary, frequency, shape.head_dim);
    f->pass = (lnt_pass){ .ctx = f->ctx, .batch = B, .length = N, .lengths = lengths,
                          .training = true, .rng = lnt_rng_make(1), .rotary = f->rotary };
    lnt_arena counting = { 0 };
    lay_out(f, &counting);
    assert_ok(f->ctx, lnt_arena_open(f->ctx, &counting, "test", &f->memory));
    lay_out(f, &f->memory);
}

static void close_fixture(fixture *f)
{
    for (int i = 0; i < LNT_BLOCK_PARAMS; i++) {
        free(f->w[i]);
        free(f->g[i]);
    }
    free(f->x);
    free(f->r);
    free(f->grad);
    free(f->rotary);
    lnt_arena_close(f->ctx, &f->memory);
    lnt_plan_destroy(f->attention.plan);
    lnt_ctx_destroy(f->ctx);
}

static lnt_block block_of(const fixture *f)
{
    return (lnt_block){ .shape = &f->shape, .attention = &f->attention, .w = f->w, .kept = &f->kept,
                        .g = f->g, .scratch = &f->scratch };
}

static double loss(void *user)
{
    fixture *f = user;
    const lnt_block b = block_of(f);
    assert_ok(f->ctx, lnt_block_forward(&f->pass, &b, f->x));
    return inner_product(f->kept.out, f->r, TOKENS * f->shape.dim);
}

static void run_back(fixture *f)
{
    const lnt_block b = block_of(f);
    loss(f);
    memcpy(f->grad, f->r, TOKENS * f->shape.dim * sizeof *f->r);
    assert_ok(f->ctx, lnt_block_backward(&f->pass, &b, f->x, f->grad));
}

static void check(fixture *f, const char *what)
{
    slope slopes[LNT_BLOCK_PARAMS + 1];
    int count = 0;
    run_back(f);
    slopes[count++] = (slope){ "x", f->x, f->grad, TOKENS * f->shape.dim };
    for (int i = 0; i < LNT_BLOCK_PARAMS; i++) {
        const lnt_param p = lnt_block_param(&f->shape, i);
        if (p.name) slopes[count++] = (slope){ p.name, f->w[i], f->g[i], param_count(&p) };
    }
    check_slopes(what, loss, f, slopes, count, 1e-7);
}

static lnt_attn_desc describe(lnt_mechanism mechanism, int causal)
{
    lnt_attn_desc desc;
    assert_int_equal(lnt_attn_desc_init(&desc, sizeof desc), LNT_OK);
    desc.mechanism = mechanism;
    desc.causal = causal && mechanism != LNT_CUR; /* which sees whole sequences only */
    if (mechanism == LNT_HYBRID) { /* which never does */
        desc.causal = 1;
        desc.hybrid.window = 2;
    }
    desc.cur.landmarks = 3;                           /* fewer than tokens: not exact softmax */
    return desc;
}

static lnt_block_shape shape_of(size_t kv_heads)
{
    return (lnt_block_shape){ .dim = 12, .heads = 4, .kv_heads = kv_heads, .head_dim = 4, .ff = 10,
                              .depth = 2, .activation = LNT_ACT_GELU, .epsilon = 1e-5,
                              .bias = LNT_BIAS_ALL };
}

static void every_mechanism_has_the_right_gradients_in_a_block(void **state)
{
    (void)state;
    for (int m = 0; lnt_mechanism_name((lnt_mechanism)m); m++)
        for (int post = 0; post < 2; post++) {
            fixture f;
            lnt_block_shape shape = shape_of(post ? 2 : 4);
            const lnt_attn_desc desc = describe((lnt_mechanism)m, !post);
            shape.post = post;
            shape.rotary = !post;
            shape.half = m % 2 ? shape.head_dim / 2 : 0;
            open_fixture(&f, shape, &desc, NULL);
            check(&f, lnt_mechanism_name((lnt_mechanism)m));
            close_fixture(&f);
        }
}

static void a_learned_temperature_has_the_right_gradient(void **state)
{
    (void)state;
    fixture f;
    lnt_block_shape shape = shape_of(4);
    lnt_attn_desc desc = describe(LNT_TAYLOR, 1);
    desc.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT;
    desc.taylor.terms = 3;
    desc.taylor.output_norm = 1;
    shape.temperature = true;
    open_fixture(&f, shape, &desc, NULL);
    check(&f, "taylorshift");
    close_fixture(&f);
    for (int m = 0; lnt_mechanism_name((lnt_mechanism)m); m++)
        for (int kv_heads = 1; kv_heads <= 4; kv_heads *= 4)
            for (int padded = 0; padded < 2; padded++) {
                static const int64_t lengths[B] = { N - 2, N };
                const lnt_attn_desc other = describe((lnt_mechanism)m, m != LNT_CUR);
                shape = shape_of((size_t)kv_heads);
                shape.temperature = true;
                open_fixture(&f, shape, &other, padded ? lengths : NULL);
                if (m == LNT_SOFTMAX || m == LNT_TAYLOR) f.w[LNT_BLOCK_TEMPERATURE][1] = 0;
                check(&f, lnt_mechanism_name((lnt_mechanism)m));
                const double once = f.g[LNT_BLOCK_TEMPERATURE][0];
                run_back(&f); /* adds */
                assert_true(fabs(f.g[LNT_BLOCK_TEMPERATURE][0] - 2 * once) <= 1e-12 * fabs(once));
                close_fixture(&f);
            }
}

static void every_activation_and_norm_has_the_right_gradients(void **state)
{
    (void)state;
    for (int act = LNT_ACT_RELU; act < LNT_ACT_SIGMOID; act++)
        for (int norm = 0; norm < 2; norm++) {
            fixture f;
            lnt_block_shape shape = shape_of(1);
            const lnt_attn_desc desc = describe(LNT_LINEAR, 0);
            shape.activation = (lnt_act)act;
            shape.norm = (lnt_norm_kind)norm;
            shape.bias = norm ? LNT_BIAS_QKV : LNT_BIAS_NORM | LNT_BIAS_FEED;
            open_fixture(&f, shape, &desc, NULL);
            check(&f, "activation and norm");
            close_fixture(&f);
        }
}

/* Norms after the branches, branches side by side, norms of queries and keys: alone and together. */
static lnt_block_shape variant(int kind)
{
    lnt_block_shape shape = shape_of(2);
    shape.after = kind & 1;
    shape.parallel = kind & 2;
    shape.qk_norm = kind & 4;
    shape.norm = kind & 8 ? LNT_NORM_RMS : LNT_NORM_LAYER;
    shape.rotary = true;
    shape.bias = kind & 8 ? 0 : LNT_BIAS_ALL;
    return shape;
}

static void blocks_of_other_architectures_have_the_right_gradients(void **state)
{
    (void)state;
    const int64_t lengths[B] = { 3, N };
    const lnt_attn_desc desc = describe(LNT_SOFTMAX, 1);
    for (int kind = 1; kind < 16; kind++)
        for (int dropped = 0; dropped < 2; dropped++) {
            fixture f;
            lnt_block_shape shape = variant(kind);
            if (dropped) shape.dropout = 0.3, shape.drop_path = 0.2;
            open_fixture(&f, shape, &desc, dropped ? lengths : NULL);
            check(&f, "another architecture");
            close_fixture(&f);
        }
}

static void dropped_branches_and_padded_batches_have_the_right_gradients(void **state)
{
    (void)state;
    const int64_t lengths[B] = { 3, N };
    for (int post = 0; post < 2; post++) {
        fixture f;
        lnt_block_shape shape = shape_of(2);
        const lnt_attn_desc desc = describe(LNT_SOFTMAX, 0);
        shape.post = post;
        shape.dropout = 0.3;
        shape.drop_path = 0.2;
        open_fixture(&f, shape, &desc, lengths);
        check(&f, "dropout");
        close_fixture(&f);
    }
}

static void gated_attention_has_the_right_gradients_over_every_mechanism(void **state)
{
    (void)state;
    const int64_t lengths[B] = { 3, N };
    for (int m = 0; lnt_mechanism_name((lnt_mechanism)m); m++) {
        fixture f;
        lnt_block_shape shape = shape_of(4);
        const lnt_attn_desc desc = describe((lnt_mechanism)m, 0);
        shape.averages = 3;
        shape.values = 20;
        shape.activation = LNT_ACT_SILU;
        open_fixture(&f, shape, &desc, lengths);
        check(&f, lnt_mechanism_name((lnt_mechanism)m));
        close_fixture(&f);
    }
}

static void gated_attention_with_a_bias_by_distance_has_the_right_gradients(void **state)
{
    (void)state;
    const int64_t lengths[B] = { 3, N };
    for (int laplace = 0; laplace < 2; laplace++) {
        fixture f;
        lnt_block_shape shape = shape_of(4);
        const lnt_attn_desc desc = describe(LNT_SOFTMAX, 0);
        shape.averages = 3;
        shape.values = 20;
        shape.full = (lnt_full_shape){ .used = true, .laplace = laplace, .reach = N, .scale = 0.5 };
        open_fixture(&f, shape, &desc, lengths);
        check(&f, laplace ? "laplace" : "softmax");
        close_fixture(&f);
    }
}

/* A plan attends through q and k of the same numbers: without a bias the two roads agree. */
static void gated_attention_without_a_bias_is_that_of_the_library(void **state)
{
    (void)state;
    const int64_t lengths[B] = { 3, N };
    fixture plan, full;
    lnt_block_shape shape = shape_of(4);
    const lnt_attn_desc desc = describe(LNT_SOFTMAX, 0);
    shape.averages = 3;
    shape.values = 20;
    open_fixture(&plan, shape, &desc, lengths);
    shape.full = (lnt_full_shape){ .used = true, .scale = 0.5 }; /* 1 / sqrt(head_dim) */
    open_fixture(&full, shape, &desc, lengths);
    assert_true(fabs(loss(&plan) - loss(&full)) < 1e-12);
    close_fixture(&plan);
    close_fixture(&full);
}

/* ---- the whole by its formula ---------------------------------------------------------------- */

static void expect_norm(const fixture *f, int gain, const double *x, double *y)
{
    const size_t dim = f->shape.dim;
    const bool layer = f->shape.norm == LNT_NORM_LAYER;
    double mean = 0, square = 0;
    for (size_t i = 0; i < dim; i++) mean += layer ? x[i] / (double)dim : 0;
    for (size_t i = 0; i < dim; i++) square += (x[i] - mean) * (x[i] - mean) / (double)dim;
    for (size_t i = 0; i < dim; i++)
        y[i] = (x[i] - mean) / sqrt(square + f->shape.epsilon) * f->w[gain][i] +
               (layer && f->w[gain + 1] ? f->w[gain + 1][i] : 0);
}

/* y[out] = x[in] weight + bias, of one token. */
static void expect_dense(const fixture *f, int weight, const double *x, double *y, size_t in, size_t out)
{
    for (size_t c = 0; c < out; c++) {
        y[c] = f->w[weight + 1] ? f->w[weight + 1][c] : 0;
        for (size_t i = 0; i < in; i++) y[c] += x[i] * f->w[weight][i * out + c];
    }
}

static double expect_activation(lnt_act kind, const double *x, size_t width)
{
    const double silu = *x / (1 + exp(-*x)), erf_gelu = *x * 0.5 * erfc(-*x / sqrt(2));
    const double gelu = 0.5 * *x * (1 + tanh(sqrt(2 / acos(-1)) * (*x + 0.044715 * *x * *x * *x)));
    switch (kind) {
    case LNT_ACT_RELU: return fmax(*x, 0);
    case LNT_ACT_GELU: return gelu;
    case LNT_ACT_GELU_ERF: return erf_gelu;
    case LNT_ACT_GEGLU: return gelu * x[width];
    case LNT_ACT_GEGLU_ERF: return erf_gelu * x[width];
    case LNT_ACT_SWIGLU: return silu * x[width];
    default: return silu;
    }
}

/* The heads of q and k by their mean squares. */
static void expect_qk_norm(const fixture *f, double *qkv)
{
    const lnt_block_shape *s = &f->shape;
    for (size_t h = 0; h < s->heads + s->kv_heads; h++, qkv += s->head_dim) {
        const double *gain = f->w[h < s->heads ? LNT_BLOCK_Q_NORM : LNT_BLOCK_K_NORM];
        const double square = inner_product(qkv, qkv, s->head_dim) / (double)s->head_dim;
        for (size_t i = 0; i < s->head_dim; i++) qkv[i] *= gain[i] / sqrt(square + s->epsilon);
    }
}

/* The heads of q and k turned by the position, which begins at 3. */
static void expect_turn(const fixture *f, double *qkv, size_t t)
{
    const size_t dim = f->shape.head_dim;
    for (size_t i = 0; i < (f->shape.heads + f->shape.kv_heads) * dim; i += 2) {
        const double angle = (double)(3 + t) * pow(10000, -(double)(i % dim) / (double)dim);
        const double a = qkv[i], b = qkv[i + 1];
        qkv[i] = a * cos(angle) - b * sin(angle);
        qkv[i + 1] = a * sin(angle) + b * cos(angle);
    }
}

/* Causal softmax of the token t behind `qkv`, rows of `width`; y [heads,head_dim]. */
static void expect_attention(const fixture *f, const double *qkv, size_t width, size_t t, double *y)
{
    const size_t heads = f->shape.heads, kv_heads = f->shape.kv_heads, dim = f->shape.head_dim;
    memset(y, 0, heads * dim * sizeof *y);
    for (size_t h = 0; h < heads; h++) {
        const double *q = qkv + t * width + h * dim;
        double weight[N], all = 0;
        for (size_t j = 0; j <= t; j++) {
            const double *k = qkv + j * width + (heads + h * kv_heads / heads) * dim;
            all += weight[j] = exp(inner_product(q, k, dim) / sqrt((double)dim));
        }
        for (size_t j = 0; j <= t; j++)
            for (size_t c = 0; c < dim; c++)
                y[h * dim + c] += weight[j] / all *
                                  qkv[j * width + (heads + kv_heads + h * kv_heads / heads) * dim + c];
    }
}

/* The block's output of one sequence, as block.c has it at its head. */
static void expect_block(const fixture *f, const double *x, double *out)
{
    const lnt_block_shape *s = &f->shape;
    const size_t width = (s->heads + 2 * s->kv_heads) * s->head_dim, dim = s->dim, ff = s->ff;
    double in[16], qkv[N * 64], mixed[16], sum[16], middle[16], up[32], hidden[16];
    for (size_t t = 0; t < N; t++) {
        if (s->post) memcpy(in, x + t * dim, dim * sizeof *in);
        else expect_norm(f, LNT_BLOCK_NORM1_GAIN, x + t * dim, in);
        expect_dense(f, LNT_BLOCK_QKV, in, qkv + t * width, dim, width);
        if (s->qk_norm) expect_qk_norm(f, qkv + t * width);
        if (s->rotary) expect_turn(f, qkv + t * width, t);
    }
    for (size_t t = 0; t < N; t++, out += dim) {
        expect_attention(f, qkv, width, t, mixed);
        expect_dense(f, LNT_BLOCK_OUT, mixed, sum, s->heads * s->head_dim, dim);
        if (s->after) expect_norm(f, LNT_BLOCK_AFTER1_GAIN, memcpy(up, sum, dim * sizeof *up), sum);
        for (size_t i = 0; i < dim; i++) sum[i] += x[t * dim + i];
        if (s->post) expect_norm(f, LNT_BLOCK_NORM1_GAIN, sum, middle);
        else memcpy(middle, sum, dim * sizeof *middle);
        if (s->post) memcpy(in, middle, dim * sizeof *in);
        else expect_norm(f, LNT_BLOCK_NORM2_GAIN, s->parallel ? x + t * dim : middle, in);
        expect_dense(f, LNT_BLOCK_UP, in, up, dim, ff * lnt_act_inputs(s->activation));
        for (size_t i = 0; i < ff; i++) hidden[i] = expect_activation(s->activation, up + i, ff);
        expect_dense(f, LNT_BLOCK_DOWN, hidden, sum, ff, dim);
        if (s->after) expect_norm(f, LNT_BLOCK_AFTER2_GAIN, memcpy(up, sum, dim * sizeof *up), sum);
        for (size_t i = 0; i < dim; i++) sum[i] += middle[i];
        if (s->post) expect_norm(f, LNT_BLOCK_NORM2_GAIN, sum, out);
        else memcpy(out, sum, dim * sizeof *out);
    }
}

static void a_block_is_its_formula(void **state)
{
    (void)state;
    for (int act = LNT_ACT_RELU; act < LNT_ACT_SIGMOID; act++)
        for (int kind = 0; kind < 8; kind++) {
            fixture f;
            lnt_block_shape shape = shape_of(act % 2 ? 2 : 4);
            const lnt_attn_desc desc = describe(LNT_SOFTMAX, 1);
            double expected[TOKENS * 12];
            shape.activation = (lnt_act)act;
            shape.norm = (lnt_norm_kind)(kind & 1);
            shape.post = kind & 2;
            shape.rotary = kind & 4;
            shape.epsilon = kind & 1 ? 0.1 : 1e-12;
            shape.bias = kind == 3 ? LNT_BIAS_QKV : kind == 4 ? LNT_BIAS_OUT | LNT_BIAS_FEED : LNT_BIAS_ALL;
            open_fixture(&f, shape, &desc, NULL);
            loss(&f);
            for (size_t b = 0; b < B; b++)
                expect_block(&f, f.x + b * N * shape.dim, expected + b * N * shape.dim);
            for (size_t i = 0; i < TOKENS * shape.dim; i++)
                assert_true(fabs(f.kept.out[i] - expected[i]) < 1e-11);
            close_fixture(&f);
        }
}

static void a_block_of_another_architecture_is_its_formula(void **state)
{
    (void)state;
    const lnt_attn_desc desc = describe(LNT_SOFTMAX, 1);
    for (int kind = 1; kind < 16; kind++) {
        fixture f;
        double expected[TOKENS * 12];
        open_fixture(&f, variant(kind), &desc, NULL);
        loss(&f);
        for (size_t b = 0; b < B; b++) expect_block(&f, f.x + b * N * 12, expected + b * N * 12);
        for (size_t i = 0; i < TOKENS * 12; i++) assert_true(fabs(f.kept.out[i] - expected[i]) < 1e-11);
        close_fixture(&f);
    }
}

/* As wide a spread as keeps numbers as large as they came, the branches of a deep network less; gains and
 * biases, those of MEGA too, at a constant, or near it, and left alone by decay. */
static void parameters_begin_as_their_layers_want(void **state)
{
    (void)state;
    const lnt_block_shape s = { .dim = 16, .heads = 2, .kv_heads = 2, .head_dim = 10, .ff = 40, .depth = 8 };
    const lnt_mega_shape mega = { .dim = 16, .heads = 2, .head_dim = 4, .values = 32, .hidden = 2,
                                  .full = { .reach = 6 } };
    assert_true(lnt_block_param(&s, LNT_BLOCK_QKV).deviation == 0.25);
    assert_true(lnt_block_param(&s, LNT_BLOCK_UP).deviation == 0.25);
    assert_true(fabs(lnt_block_param(&s, LNT_BLOCK_OUT).deviation - 0.25 / sqrt(20)) < 1e-12);
    assert_true(fabs(lnt_block_param(&s, LNT_BLOCK_DOWN).deviation - 0.25 / sqrt(40)) < 1e-12);
    lnt_block_shape post = s;
    post.post = true;
    assert_true(fabs(lnt_block_param(&post, LNT_BLOCK_OUT).deviation - 1 / sqrt(20)) < 1e-12);
    static const int rows[] = { LNT_MEGA_QK_GAIN, LNT_MEGA_QK_BIAS, LNT_MEGA_DISTANCE };
    static const double spread[] = { 0.1, 0, 0.02 };
    for (int i = 0; i < 3; i++) {
        const lnt_param p = lnt_mega_param(&mega, rows[i]);
        assert_true(p.name && !p.decays && p.deviation == spread[i] && p.constant == (i == 0));
    }
    assert_true(lnt_mega_param(&mega, LNT_MEGA_VALUE).deviation == 0.25);
    assert_true(lnt_mega_param(&mega, LNT_MEGA_VALUE).decays && lnt_mega_param(&mega, LNT_MEGA_GATE).decays);
}

static void a_matrix_beyond_the_address_space_is_noticed(void **state)
{
    (void)state;
    lnt_arena counting = { 0 };
    nn_take(&counting, SIZE_MAX / 2, 4);
    assert_true(counting.overflow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mechanism_has_the_right_gradients_in_a_block),
        cmocka_unit_test(gated_attention_has_the_right_gradients_over_every_mechanism),
        cmocka_unit_test(gated_attention_with_a_bias_by_distance_has_the_right_gradients),
        cmocka_unit_test(gated_attention_without_a_bias_is_that_of_the_library),
        cmocka_unit_test(a_learned_temperature_has_the_right_gradient),
        cmocka_unit_test(every_activation_and_norm_has_the_right_gradients),
        cmocka_unit_test(dropped_branches_and_padded_batches_have_the_right_gradients),
        cmocka_unit_test(blocks_of_other_architectures_have_the_right_gradients),
        cmocka_unit_test(a_block_is_its_formula),
        cmocka_unit_test(a_block_of_another_architecture_is_its_formula),
        cmocka_unit_test(parameters_begin_as_their_layers_want),
        cmocka_unit_test(a_matrix_beyond_the_address_space_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
