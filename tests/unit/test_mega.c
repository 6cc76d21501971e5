/* test_mega.c - MEGA in double: moving averages both ways, and attention with a bias by distance,
 * against their formulas and against differences; and what it makes of the two, against its formula. */
#define LNT_DOUBLE 1 /* before the headers: these are the layers in double */

#include <math.h>
#include <stdlib.h>

#include "gradient.h"
#include "nn/ema.h"
#include "nn/full.h"
#include "nn/mega.h"
#include "support.h"

enum { B = 4, N = 9 };

static const int64_t LENGTHS[B] = { 4, N, 0, 1 };

/* ---- moving averages ------------------------------------------------------------------------- */

enum { WIDTH = 5, HIDDEN = 3, EMA_SIZE = 2 * WIDTH * HIDDEN };

typedef struct averages {
    lnt_ctx *ctx;
    double *w[5], *g[5]; /* delta, alpha, beta, gamma, omega */
    double *x, *y, *r, *dx;
} averages;

static averages averages_new(void)
{
    dice d = { 7 };
    averages t = { .ctx = context_new(2, NULL) };
    for (int i = 0; i < 5; i++) {
        t.w[i] = random_doubles(&d, EMA_SIZE, 0.8);
        t.g[i] = zero_doubles(EMA_SIZE);
    }
    t.x = random_doubles(&d, B * N * WIDTH, 1);
    t.r = random_doubles(&d, B * N * WIDTH, 1);
    t.y = zero_doubles(B * N * WIDTH);
    t.dx = zero_doubles(B * N * WIDTH);
    return t;
}

static void averages_close(averages *t)
{
    for (int i = 0; i < 5; i++) {
        free(t->w[i]);
        free(t->g[i]);
    }
    double *all[] = { t->x, t->y, t->r, t->dx };
    for (int i = 0; i < COUNT_OF(all); i++) free(all[i]);
    lnt_ctx_destroy(t->ctx);
}

static lnt_ema ema_of(const averages *t)
{
    return (lnt_ema){ .width = WIDTH, .hidden = HIDDEN,
                      .delta = t->w[0], .alpha = t->w[1], .beta = t->w[2], .gamma = t->w[3],
                      .omega = t->w[4],
                      .ddelta = t->g[0], .dalpha = t->g[1], .dbeta = t->g[2], .dgamma = t->g[3],
                      .domega = t->g[4] };
}

static lnt_pass averages_pass(const averages *t)
{
    return (lnt_pass){ .ctx = t->ctx, .batch = B, .length = N, .lengths = LENGTHS };
}

static double averages_loss(void *user)
{
    averages *t = user;
    const lnt_ema ema = ema_of(t);
    const lnt_pass pass = averages_pass(t);
    lnt_ema_forward(&pass, &ema, t->x, t->y);
    return inner_product(t->y, t->r, B * N * WIDTH);
}

static double logistic(double x) { return 1 / (1 + exp(-x)); }

/* What token `from` adds to channel c at distance `gap`, in one way. */
static double weight(const averages *t, int way, int c, int gap)
{
    double sum = 0;
    for (int i = 0; i < HIDDEN; i++) {
        const int at = (way * WIDTH + c) * HIDDEN + i;
        const double p = logistic(t->w[0][at]), q = 1 - p * logistic(t->w[1][at]);
        sum += t->w[3][at] * p * t->w[2][at] * pow(q, gap) / sqrt(HIDDEN);
    }
    return sum;
}

static void moving_averages_are_sums_over_past_and_future(void **state)
{
    (void)state;
    averages t = averages_new();
    averages_loss(&t);
    for (int b = 0; b < B; b++)
        for (int at = 0; at < N; at++)
            for (int c = 0; c < WIDTH; c++) {
                const double *x = t.x + b * N * WIDTH + c;
                double sum = at < LENGTHS[b] ? t.w[4][c] * x[at * WIDTH] : 0;
                for (int s = 0; s < LENGTHS[b] && at < LENGTHS[b]; s++) {
                    if (s <= at) sum += weight(&t, 0, c, at - s) * x[s * WIDTH];
                    if (s >= at) sum += weight(&t, 1, c, s - at) * x[s * WIDTH];
                }
                assert_true(fabs(t.y[(b * N + at) * WIDTH + c] - sum) < 1e-13);
            }
    averages_close(&t);
}

static void moving_averages_have_the_right_gradients(void **state)
{
    (void)state;
    averages t = averages_new();
    double *past = zero_doubles((size_t)lnt_ctx_threads(t.ctx) * N * HIDDEN);
    const lnt_ema ema = ema_of(&t);
    const lnt_pass pass = averages_pass(&t);
    lnt_ema_backward(&pass, &ema, t.x, t.r, t.dx, past);
    const slope slopes[] = {
        { "x", t.x, t.dx, B * N * WIDTH },    { "delta", t.w[0], t.g[0], EMA_SIZE },
        { "alpha", t.w[1], t.g[1], EMA_SIZE }, { "beta", t.w[2], t.g[2], EMA_SIZE },
        { "gamma", t.w[3], t.g[3], EMA_SIZE }, { "omega", t.w[4], t.g[4], WIDTH },
    };
    check_slopes("moving averages", averages_loss, &t, slopes, COUNT_OF(slopes), 1e-8);
    free(past);
    averages_close(&t);
}

static void moving_averages_have_the_same_bits_on_any_number_of_threads(void **state)
{
    (void)state;
    enum { LONG = 400, SIZE = LONG * WIDTH, GRADS = 4 * EMA_SIZE + WIDTH };
    dice d = { 8 };
    double *x = random_doubles(&d, SIZE, 1), *r = random_doubles(&d, SIZE, 1);
    double *w = random_doubles(&d, GRADS, 1), *g[2], *dx[2];
    for (int i = 0; i < 2; i++) {
        const int threads = i ? 3 : 1;
        double *past = zero_doubles((size_t)threads * LONG * HIDDEN);
        g[i] = zero_doubles(GRADS);
        dx[i] = zero_doubles(SIZE);
        const lnt_ema ema = { .width = WIDTH, .hidden = HIDDEN, .delta = w, .alpha = w + EMA_SIZE,
                              .beta = w + 2 * EMA_SIZE, .gamma = w + 3 * EMA_SIZE,
                              .omega = w + 4 * EMA_SIZE, .ddelta = g[i], .dalpha = g[i] + EMA_SIZE,
                              .dbeta = g[i] + 2 * EMA_SIZE, .dgamma = g[i] + 3 * EMA_SIZE,
                              .domega = g[i] + 4 * EMA_SIZE };
        const lnt_pass pass = { .ctx = context_new(threads, NULL), .batch = 1, .length = LONG };
        lnt_ema_backward(&pass, &ema, x, r, dx[i], past);
        lnt_ctx_destroy((lnt_ctx *)(uintptr_t)pass.ctx);
        free(past);
    }
    assert_memory_equal(dx[0], dx[1], SIZE * sizeof *x);
    assert_memory_equal(g[0], g[1], GRADS * sizeof *w);
    double *all[] = { x, r, w, g[0], g[1], dx[0], dx[1] };
    for (int i = 0; i < COUNT_OF(all); i++) free(all[i]);
}

/* ---- attention with a bias ------------------------------------------------------------------- */

typedef struct full {
    lnt_ctx *ctx;
    lnt_full_shape shape;
    size_t batch, length, bias_size, qk_size, v_size;
    const int64_t *lengths;
    double *qk, *v, *bias, *r, *out, *scores;
    double *dqk, *dv, *dbias;
} full;

static full full_new(lnt_full_shape shape, size_t batch, size_t length, const int64_t *lengths,
                     int threads)
{
    dice d = { 11 };
    full t = { .ctx = context_new(threads, NULL), .shape = shape, .batch = batch, .length = length,
               .lengths = lengths, .bias_size = shape.heads * lnt_full_distances(&shape),
               .qk_size = batch * length * 2 * shape.heads * shape.dim,
               .v_size = batch * length * shape.heads * shape.values };
    t.qk = random_doubles(&d, t.qk_size, 1);
    t.v = random_doubles(&d, t.v_size, 1);
    t.r = random_doubles(&d, t.v_size, 1);
    t.bias = random_doubles(&d, t.bias_size, 1);
    t.out = random_doubles(&d, t.v_size, 1); /* what was there before does not matter */
    t.dqk = random_doubles(&d, t.qk_size, 1);
    t.dv = random_doubles(&d, t.v_size, 1);
    t.dbias = zero_doubles(t.bias_size);
    t.scores = zero_doubles(2 * length * lnt_full_row(length));
    return t;
}

static void full_close(full *t)
{
    double *all[] = { t->qk, t->v, t->bias, t->r, t->out, t->scores, t->dqk, t->dv, t->dbias };
    for (int i = 0; i < COUNT_OF(all); i++) free(all[i]);
    lnt_ctx_destroy(t->ctx);
}

static lnt_full layer_of(const full *t)
{
    return (lnt_full){ .shape = &t->shape, .bias = t->bias, .dbias = t->dbias };
}

static lnt_pass full_pass(const full *t)
{
    return (lnt_pass){ .ctx = t->ctx, .batch = t->batch, .length = t->length, .lengths = t->lengths };
}

static double full_loss(void *user)
{
    full *t = user;
    const lnt_full layer = layer_of(t);
    const lnt_pass pass = full_pass(t);
    lnt_full_forward(&pass, &layer, t->qk, t->v, t->out, t->scores);
    return inner_product(t->out, t->r, t->v_size);
}

static void full_back(full *t)
{
    const lnt_full layer = layer_of(t);
    const lnt_pass pass = full_pass(t);
    lnt_full_backward(&pass, &layer, t->qk, t->v, t->r, t->dqk, t->dv, t->scores);
}

/* reach beyond the length: the bias of a model is as long as its longest sequence. */
static lnt_full_shape shape_of(int laplace, int biased)
{
    return (lnt_full_shape){ .used = true, .laplace = laplace, .reach = biased ? N + 2 : 0,
                             .scale = 0.4, .heads = 2, .dim = 4, .values = 3 };
}

/* The weight of key j for query i, not yet divided by a row's sum. */
static double weight_of(const full *t, size_t b, size_t h, size_t i, size_t j)
{
    const size_t shared = t->shape.heads * t->shape.dim;
    const double *q = t->qk + (b * t->length + i) * 2 * shared + h * t->shape.dim;
    const double *k = t->qk + (b * t->length + j) * 2 * shared + shared + h * t->shape.dim;
    double score = t->shape.scale * inner_product(q, k, t->shape.dim);
    if (t->shape.reach)
        score += t->bias[h * lnt_full_distances(&t->shape) + t->shape.reach - 1 + j - i];
    if (!t->shape.laplace) return exp(score);
    const double sigma = sqrt(1 / (4 * acos(-1)));
    return 0.5 * (1 + erf((score - sqrt(0.5)) / (sigma * sqrt(2))));
}

static double expected(const full *t, size_t b, size_t h, size_t i, size_t c)
{
    double sum = 0, all = 0;
    for (size_t j = 0; j < (size_t)t->lengths[b]; j++) {
        const double w = weight_of(t, b, h, i, j);
        sum += w * t->v[((b * t->length + j) * t->shape.heads + h) * t->shape.values + c];
        all += w;
    }
    return t->shape.laplace ? sum : sum / all;
}

static void attention_with_a_bias_is_its_formula(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        full t = full_new(shape_of(kind % 2, kind / 2), B, N, LENGTHS, 2);
        full_loss(&t);
        for (size_t b = 0; b < B; b++)
            for (size_t i = 0; i < N; i++)
                for (size_t at = 0; at < 2 * 3; at++) {
                    const double got = t.out[(b * N + i) * 2 * 3 + at];
                    if (i >= (size_t)LENGTHS[b]) assert_true(got == 0);
                    else assert_true(fabs(got - expected(&t, b, at / 3, i, at % 3)) < 1e-12);
                }
        full_close(&t);
    }
}

static void attention_with_a_bias_has_the_right_gradients(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        full t = full_new(shape_of(kind % 2, kind / 2), B, N, LENGTHS, 2);
        full_back(&t);
        const slope slopes[] = { { "qk", t.qk, t.dqk, t.qk_size },
                                 { "v", t.v, t.dv, t.v_size },
                                 { "bias", t.bias, t.dbias, t.bias_size } };
        check_slopes(kind % 2 ? "laplace" : "softmax", full_loss, &t, slopes, t.bias_size ? 3 : 2,
                     1e-8);
        full_close(&t);
    }
}

/* More distances than are summed in one piece. */
static void a_bias_by_many_distances_has_the_right_gradient(void **state)
{
    (void)state;
    lnt_full_shape shape = shape_of(0, 1);
    shape.reach = 70;
    full t = full_new(shape, 1, 70, NULL, 2);
    full_back(&t);
    const slope bias = { "bias", t.bias, t.dbias, t.bias_size };
    check_slopes("many distances", full_loss, &t, &bias, 1, 1e-8);
    full_close(&t);
}

static void attention_with_a_bias_has_the_same_bits_on_any_number_of_threads(void **state)
{
    (void)state;
    for (int laplace = 0; laplace < 2; laplace++) {
        lnt_full_shape shape = shape_of(laplace, 1);
        shape.reach = 150;
        full one = full_new(shape, 2, 150, NULL, 1), three = full_new(shape, 2, 150, NULL, 3);
        full_loss(&one);
        full_loss(&three);
        full_back(&one);
        full_back(&three);
        assert_memory_equal(one.out, three.out, one.v_size * sizeof *one.out);
        assert_memory_equal(one.dqk, three.dqk, one.qk_size * sizeof *one.dqk);
        assert_memory_equal(one.dv, three.dv, one.v_size * sizeof *one.dv);
        assert_memory_equal(one.dbias, three.dbias, one.bias_size * sizeof *one.dbias);
        full_close(&one);
        full_close(&three);
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

enum { HEADS = 2, HEAD = 3, VALUES = 8, SHARED = HEADS * HEAD };

static double silu(double x) { return x * logistic(x); }

/* Number c of  bias + x weight  for one token; weight [in,out]. */
static double dense(double *const *w, int param, const double *x, size_t in, size_t out, size_t c)
{
    double sum = w[param + 1][c];
    for (size_t i = 0; i < in; i++) sum += x[i] * w[param][i * out + c];
    return sum;
}

/* y as the formula at the head of mega.c has it, by the two parts that are tested above. */
static void expect_mega(const lnt_pass *pass, const lnt_full_shape *shape, double *const *w,
                        const double *x, const double *normed, const double *y)
{
    double m[N * WIDTH], v[N * VALUES], qk[N * 2 * SHARED], attended[N * VALUES], scores[N * 64];
    const lnt_ema ema = { .width = WIDTH, .hidden = HIDDEN, .delta = w[LNT_MEGA_DELTA],
                          .alpha = w[LNT_MEGA_ALPHA], .beta = w[LNT_MEGA_BETA],
                          .gamma = w[LNT_MEGA_GAMMA], .omega = w[LNT_MEGA_OMEGA] };
    const lnt_full layer = { .shape = shape, .bias = w[LNT_MEGA_DISTANCE] };
    lnt_ema_forward(pass, &ema, normed, m);
    for (size_t i = 0; i < N * WIDTH; i++) m[i] = silu(m[i]);
    for (size_t t = 0; t < N; t++) {
        for (size_t c = 0; c < VALUES; c++)
            v[t * VALUES + c] = silu(dense(w, LNT_MEGA_VALUE, normed + t * WIDTH, WIDTH, VALUES, c));
        for (size_t c = 0; c < 2 * SHARED; c++)
            qk[t * 2 * SHARED + c] =
                silu(dense(w, LNT_MEGA_SHARED, m + t * WIDTH, WIDTH, SHARED, c % SHARED)) *
                    w[LNT_MEGA_QK_GAIN][c] + w[LNT_MEGA_QK_BIAS][c];
    }
    lnt_full_forward(pass, &layer, qk, v, attended, scores);
    for (size_t t = 0; t < N; t++)
        for (size_t c = 0; c < WIDTH; c++) {
            const double *own = m + t * WIDTH;
            double h = dense(w, LNT_MEGA_CANDIDATE, own, WIDTH, WIDTH, c);
            for (size_t i = 0; i < VALUES; i++)
                h += attended[t * VALUES + i] * silu(dense(w, LNT_MEGA_RESET, own, WIDTH, VALUES, i)) *
                     w[LNT_MEGA_ATTENDED][i * WIDTH + c];
            const double u = logistic(dense(w, LNT_MEGA_GATE, own, WIDTH, WIDTH, c));
            assert_true(fabs(y[t * WIDTH + c] - u * (silu(h) - x[t * WIDTH + c])) < 1e-12);
        }
}

static void the_whole_is_its_formula(void **state)
{
    (void)state;
    const lnt_mega_shape shape = { .dim = WIDTH, .heads = HEADS, .head_dim = HEAD, .values = VALUES,
                                   .hidden = HIDDEN,
                                   .full = { .used = true, .reach = N, .scale = 0.4, .heads = HEADS,
                                             .dim = HEAD, .values = VALUES / HEADS } };
    dice d = { 13 };
    lnt_ctx *ctx = context_new(2, NULL);
    double *w[LNT_MEGA_PARAMS], scores[N * 64], y[N * WIDTH];
    double *x = random_doubles(&d, N * WIDTH, 1), *normed = random_doubles(&d, N * WIDTH, 1);
    for (int i = 0; i < LNT_MEGA_PARAMS; i++) w[i] = random_doubles(&d, 2 * WIDTH * 16, 0.6);
    const lnt_pass pass = { .ctx = ctx, .batch = 1, .length = N };
    const lnt_attention attention = { .scores = scores };
    lnt_arena counting = { 0 }, memory;
    lnt_mega_kept kept = { 0 };
    lnt_mega_take_kept(&counting, &shape, N, &kept);
    assert_ok(ctx, lnt_arena_open(ctx, &counting, "what is kept", &memory));
    lnt_mega_take_kept(&memory, &shape, N, &kept);
    const lnt_mega mega = { .shape = shape, .attention = &attention, .w = w, .kept = &kept };
    assert_true(lnt_full_row(N) <= 64);
    assert_ok(ctx, lnt_mega_forward(&pass, &mega, x, normed, y));
    expect_mega(&pass, &shape.full, w, x, normed, y);
    lnt_arena_close(ctx, &memory);
    for (int i = 0; i < LNT_MEGA_PARAMS; i++) free(w[i]);
    free(x);
    free(normed);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moving_averages_are_sums_over_past_and_future),
        cmocka_unit_test(moving_averages_have_the_right_gradients),
        cmocka_unit_test(moving_averages_have_the_same_bits_on_any_number_of_threads),
        cmocka_unit_test(attention_with_a_bias_is_its_formula),
        cmocka_unit_test(attention_with_a_bias_has_the_right_gradients),
        cmocka_unit_test(a_bias_by_many_distances_has_the_right_gradient),
        cmocka_unit_test(attention_with_a_bias_has_the_same_bits_on_any_number_of_threads),
        cmocka_unit_test(the_whole_is_its_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
