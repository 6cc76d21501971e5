/* test_layers.c - layers in double: what they compute, and every gradient against differences. */
#define LNT_DOUBLE 1 /* before the headers: these are the layers in double */

#include <math.h>
#include <stdlib.h>

#include "gradient.h"
#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/dense.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/norm.h"
#include "nn/position.h"
#include "support.h"

static const double TOLERANCE = 1e-8;

/* A layer under test: `run` computes y from the arrays, the loss is y.r, so that dy is r. */
typedef struct bench {
    lnt_ctx *ctx;
    size_t batch, length, n, in, out;
    double *x, *w, *b, *y, *r;
    double *dx, *dw, *db;
    size_t xs, ws, bs, ys;
    int kind;
    double *extra;
    void (*run)(struct bench *t);
} bench;

static bench bench_new(size_t batch, size_t length, size_t in, size_t out, size_t ws, size_t bs)
{
    dice d = { 5 };
    bench t = { .ctx = context_new(2, NULL), .batch = batch, .length = length, .n = batch * length,
                .in = in, .out = out, .ws = ws, .bs = bs };
    t.xs = t.n * in;
    t.ys = t.n * out;
    t.x = random_doubles(&d, t.xs, 1);
    t.w = random_doubles(&d, ws, 0.7);
    t.b = random_doubles(&d, bs, 0.7);
    t.r = random_doubles(&d, t.ys, 1);
    t.y = zero_doubles(t.ys);
    t.dx = zero_doubles(t.xs);
    t.dw = zero_doubles(ws);
    t.db = zero_doubles(bs);
    return t;
}

static void bench_close(bench *t)
{
    double *all[] = { t->x, t->w, t->b, t->r, t->y, t->dx, t->dw, t->db, t->extra };
    for (int i = 0; i < COUNT_OF(all); i++) free(all[i]);
    lnt_ctx_destroy(t->ctx);
}

static double bench_loss(void *user)
{
    bench *t = user;
    t->run(t);
    return inner_product(t->y, t->r, t->ys);
}

static void bench_check(bench *t, const char *what)
{
    const slope slopes[] = { { "x", t->x, t->dx, t->xs },
                             { "w", t->w, t->dw, t->ws },
                             { "b", t->b, t->db, t->bs } };
    check_slopes(what, bench_loss, t, slopes, 3, TOLERANCE);
}

static lnt_dense dense_of(const bench *t)
{
    return (lnt_dense){ .in = t->in, .out = t->out, .w = t->w, .b = t->b, .dw = t->dw, .db = t->db };
}

static void run_dense(bench *t)
{
    const lnt_dense dense = dense_of(t);
    lnt_dense_forward(t->ctx, &dense, t->x, t->y, t->n);
}

static void dense_is_a_product_and_its_gradients_are_right(void **state)
{
    (void)state;
    static const size_t shapes[][3] = { { 1, 1, 1 }, { 3, 7, 5 }, { 2, 16, 32 }, { 150, 130, 129 },
                                        { 5, 300, 17 } };
    for (int s = 0; s < COUNT_OF(shapes); s++) {
        const size_t n = shapes[s][0], in = shapes[s][1], out = shapes[s][2];
        bench t = bench_new(1, n, in, out, in * out, out);
        const lnt_dense dense = dense_of(&t);
        t.run = run_dense;
        run_dense(&t);
        for (size_t i = 0; i < n; i++)
            for (size_t c = 0; c < out; c++) {
                double want = t.b[c];
                for (size_t k = 0; k < in; k++) want += t.x[i * in + k] * t.w[k * out + c];
                assert_true(fabs(t.y[i * out + c] - want) < 1e-10 * (1 + fabs(want)));
            }
        lnt_dense_backward(t.ctx, &dense, t.x, t.r, t.dx, n);
        bench_check(&t, "dense");
        bench_close(&t);
    }
}

static lnt_norm norm_of(const bench *t)
{
    return (lnt_norm){ .kind = (lnt_norm_kind)t->kind, .width = t->in, .epsilon = 1e-5,
                       .gain = t->w, .bias = t->b, .dgain = t->dw, .dbias = t->db };
}

static void run_norm(bench *t)
{
    const lnt_norm norm = norm_of(t);
    lnt_norm_forward(t->ctx, &norm, t->x, t->y, t->extra, t->n);
}

static void norms_have_the_right_gradients(void **state)
{
    (void)state;
    static const size_t shapes[][2] = { { 5, 70 }, { 95, 3 }, { 2, 300 } }; /* tokens, width */
    for (int i = 0; i < 2 * COUNT_OF(shapes); i++) {
        const int kind = i % 2;
        const size_t n = shapes[i / 2][0], width = shapes[i / 2][1];
        bench t = bench_new(1, n, width, width, width, kind == LNT_NORM_LAYER ? width : 0);
        t.kind = kind;
        t.extra = zero_doubles(2 * t.n);
        t.run = run_norm;
        run_norm(&t);
        const lnt_norm norm = norm_of(&t);
        lnt_norm_backward(t.ctx, &norm, t.x, t.extra, t.r, t.dx, false, t.n);
        bench_check(&t, kind ? "RMSNorm" : "LayerNorm");
        bench_close(&t);
    }
}

/* Many tokens, and wide ones, with dx where dy was: the same as token by token. */
static void a_token_goes_back_through_a_norm_whatever_is_beside_it(void **state)
{
    (void)state;
    static const size_t shapes[][2] = { { 1100, 3 }, { 70, 300 }, { 33, 600 } };
    for (int i = 0; i < 2 * COUNT_OF(shapes); i++) {
        const size_t n = shapes[i / 2][0], width = shapes[i / 2][1];
        bench t = bench_new(1, n, width, width, width, width);
        double *dgain = zero_doubles(width), *dbias = zero_doubles(width);
        t.kind = i % 2;
        const lnt_norm alone = norm_of(&t);
        lnt_norm together = alone;
        together.dgain = dgain;
        together.dbias = dbias;
        t.extra = zero_doubles(2 * n);
        run_norm(&t);
        for (size_t token = 0; token < n; token++) {
            const size_t at = token * width;
            lnt_norm_backward(t.ctx, &alone, t.x + at, t.extra + 2 * token, t.r + at, t.dx + at, false,
                              1);
        }
        lnt_norm_backward(t.ctx, &together, t.x, t.extra, t.r, t.r, false, n);
        assert_memory_equal(t.r, t.dx, n * width * sizeof *t.r);
        for (size_t c = 0; c < width; c++)
            assert_true(fabs(dgain[c] - t.dw[c]) < 1e-10 && fabs(dbias[c] - t.db[c]) < 1e-10);
        free(dgain);
        free(dbias);
        bench_close(&t);
    }
}

static void a_normalised_token_has_mean_0_and_square_1(void **state)
{
    (void)state;
    bench t = bench_new(1, 4, 50, 50, 50, 50);
    t.extra = zero_doubles(2 * t.n);
    for (size_t i = 0; i < 50; i++) t.w[i] = 1, t.b[i] = 0;
    run_norm(&t);
    for (size_t i = 0; i < t.n; i++) {
        double mean = 0, square = 0;
        for (size_t c = 0; c < 50; c++) {
            mean += t.y[i * 50 + c] / 50;
            square += t.y[i * 50 + c] * t.y[i * 50 + c] / 50;
        }
        assert_true(fabs(mean) < 1e-12 && fabs(square - 1) < 1e-4);
    }
    bench_close(&t);
}

static void run_act(bench *t)
{
    lnt_act_forward(t->ctx, (lnt_act)t->kind, t->x, t->y, t->n, t->out);
}

static void activations_have_the_right_gradients(void **state)
{
    (void)state;
    for (int kind = 0; kind <= LNT_ACT_SIGMOID; kind++) {
        bench t = bench_new(1, 3, 300 * lnt_act_inputs((lnt_act)kind), 300, 0, 0);
        t.kind = kind;
        t.run = run_act;
        run_act(&t);
        lnt_act_backward(t.ctx, (lnt_act)kind, t.x, t.y, t.r, t.dx, t.n, t.out);
        bench_check(&t, "activation");
        bench_close(&t);
    }
}

static void activations_are_their_formulas_and_survive_large_numbers(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    const double x[] = { -1e4, -3, -0.5, 0, 0.5, 3, 1e4 };
    double y[7], dx[7], one[7];
    for (int i = 0; i < 7; i++) one[i] = 1;
    lnt_act_forward(ctx, LNT_ACT_GELU, x, y, 1, 7);
    for (int i = 1; i < 6; i++)
        assert_true(fabs(y[i] - x[i] * 0.5 * (1 + erf(x[i] / sqrt(2)))) < 5e-4);
    assert_true(y[0] == 0 && y[6] == 1e4);
    lnt_act_backward(ctx, LNT_ACT_GELU, x, y, one, dx, 1, 7);
    assert_true(dx[0] == 0 && dx[3] == 0.5 && dx[6] == 1);
    lnt_act_forward(ctx, LNT_ACT_GELU_ERF, x, y, 1, 7);
    for (int i = 1; i < 6; i++) /* in every digit */
        assert_true(fabs(y[i] - x[i] * 0.5 * erfc(-x[i] / sqrt(2))) <= 1e-14 * fabs(y[i]));
    assert_true(y[0] == 0 && y[6] == 1e4);
    lnt_act_backward(ctx, LNT_ACT_GELU_ERF, x, y, one, dx, 1, 7);
    assert_true(dx[0] == 0 && fabs(dx[3] - 0.5) < 1e-15 && dx[6] == 1);
    lnt_act_forward(ctx, LNT_ACT_SILU, x, y, 1, 7);
    for (int i = 1; i < 6; i++) assert_true(fabs(y[i] - x[i] / (1 + exp(-x[i]))) < 1e-14);
    lnt_ctx_destroy(ctx);
}

static const int64_t conv_lengths[2] = { 0, 2 };

static lnt_conv conv_of(const bench *t)
{
    return (lnt_conv){ .in = t->in, .out = t->out, .w = t->w, .b = t->b, .dw = t->dw, .db = t->db };
}

static lnt_pass conv_pass(const bench *t)
{
    return (lnt_pass){ .ctx = t->ctx, .batch = t->batch, .length = t->length,
                       .lengths = t->kind ? conv_lengths : NULL };
}

static void run_conv(bench *t)
{
    const lnt_conv conv = conv_of(t);
    const lnt_pass pass = conv_pass(t);
    lnt_conv_forward(&pass, &conv, t->x, t->y);
}

static void convolution_has_the_right_gradients(void **state)
{
    (void)state;
    static const size_t longest[] = { 1, 2, 9, 4 };
    for (int l = 0; l < 4; l++) {
        bench t = bench_new(2, longest[l], 5, 7, 3 * 5 * 7, 7);
        t.kind = l == 3;
        for (size_t i = 0; t.kind && i < t.ys; i++)
            if ((int64_t)(i / 7 % 4) >= conv_lengths[i / 28]) t.r[i] = 0;
        t.run = run_conv;
        const lnt_conv conv = conv_of(&t);
        const lnt_pass pass = conv_pass(&t);
        lnt_conv_backward(&pass, &conv, t.x, t.r, t.dx);
        bench_check(&t, "convolution");
        bench_close(&t);
    }
}

static void embedding_and_positions_have_the_right_gradients(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    enum { B = 2, N = 3, V = 4, D = 70 };
    const int32_t tokens[B * N] = { 3, 0, 3, 1, 3, 0 };
    dice d = { 9 };
    double *table = random_doubles(&d, V * D, 1), *place = random_doubles(&d, N * D, 1);
    double *r = random_doubles(&d, B * N * D, 1), *y = zero_doubles(B * N * D);
    double *dtable = zero_doubles(V * D), *dplace = zero_doubles(N * D);
    lnt_embedding_forward(ctx, tokens, table, y, B * N, D);
    lnt_position_add(ctx, y, place, B, N, D);
    for (int i = 0; i < B * N; i++)
        for (int c = 0; c < D; c++)
            assert_true(y[i * D + c] == table[tokens[i] * D + c] + place[i % N * D + c]);
    lnt_embedding_backward(ctx, tokens, r, dtable, B * N, D);
    lnt_position_backward(ctx, r, dplace, B, N, D);
    for (int c = 0; c < D; c++) { /* both are linear: the gradients are sums of r */
        assert_true(fabs(dtable[3 * D + c] - (r[c] + r[2 * D + c] + r[4 * D + c])) < 1e-12);
        assert_true(dtable[2 * D + c] == 0);
        assert_true(fabs(dplace[D + c] - (r[D + c] + r[4 * D + c])) < 1e-12);
    }
    double *all[] = { table, place, r, y, dtable, dplace };
    for (int i = 0; i < COUNT_OF(all); i++) free(all[i]);
    lnt_ctx_destroy(ctx);
}

/* Of 8 numbers, pairs turn by 1, 0.1, 0.01 and 0.001 a token. */
static void positions_are_waves_a_power_of_ten_apart(void **state)
{
    (void)state;
    enum { D = 8, FIRST = 5, N = 3 };
    double turn[N * D], wave[N * D];
    const lnt_rotary rotary = { .base = 10000 };
    double frequency[D / 2];
    lnt_rotary_frequencies(&rotary, D, frequency);
    lnt_rotary_table(turn, FIRST, N, &rotary, frequency, D);
    lnt_sinusoidal_table(wave, FIRST, N, D);
    for (int i = 0; i < N * D; i++) {
        const double angle = (FIRST + i / D) * pow(0.1, i % D / 2);
        assert_true(fabs(turn[i] - (i % 2 ? sin(angle) : cos(angle))) < 1e-14);
        assert_true(fabs(wave[i] - (i % 2 ? cos(angle) : sin(angle))) < 1e-14);
    }
}

static void a_rotation_depends_on_the_distance_and_turns_back(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    enum { D = 8, N = 6 };
    dice d = { 11 };
    double *x = random_doubles(&d, D, 1), *k = random_doubles(&d, D, 1);
    double q[N * D], turned[N * D], table[N * D];
    for (int i = 0; i < N * D; i++) q[i] = x[i % D], turned[i] = k[i % D];
    const lnt_rotary rotary = { .base = 10000 };
    double frequency[D / 2];
    lnt_rotary_frequencies(&rotary, D, frequency);
    lnt_rotary_table(table, 1000000, N, &rotary, frequency, D);
    const lnt_pass pass = { .ctx = ctx, .batch = 1, .length = N, .rotary = table };
    lnt_rotary_rotate(&pass, q, D, 1, 1, D, 0);
    lnt_rotary_rotate(&pass, turned, D, 1, 1, D, 0);
    for (int i = 0; i + 2 < N; i++)
        assert_true(fabs(inner_product(q + i * D, turned + (i + 2) * D, D) -
                         inner_product(q, turned + 2 * D, D)) < 1e-8);
    assert_true(fabs(inner_product(q, turned, D) - inner_product(q, turned + D, D)) > 1e-3);
    lnt_rotary_rotate(&pass, q, D, -1, 1, D, 0);
    for (int i = 0; i < N * D; i++) assert_true(fabs(q[i] - x[i % D]) < 1e-12);
    free(x);
    free(k);
    lnt_ctx_destroy(ctx);
}

/* Both pairings turn the same numbers, each where it has them; what is beyond `dims` stays. */
static void halves_turn_as_neighbours_do_and_the_rest_of_a_head_stays(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    enum { D = 10, W = 6, N = 5, H = 3 };
    dice d = { 12 };
    double *x = random_doubles(&d, N * H * D, 1), near[N * H * D], far[N * H * D], frequency[W / 2];
    double tables[2][N * D];
    for (int halves = 0; halves < 2; halves++) {
        const lnt_rotary rotary = { .base = 500, .dims = W, .halves = halves, .magnitude = 1.5 };
        lnt_rotary_frequencies(&rotary, D, frequency);
        lnt_rotary_table(tables[halves], 7, N, &rotary, frequency, D);
    }
    for (int i = 0; i < N * H; i++)
        for (int c = 0; c < D; c++) {
            near[i * D + c] = x[i * D + c];
            far[i * D + (c >= W ? c : c % 2 * (W / 2) + c / 2)] = x[i * D + c];
        }
    const lnt_pass pass[2] = { { .ctx = ctx, .batch = 1, .length = N, .rotary = tables[0] },
                               { .ctx = ctx, .batch = 1, .length = N, .rotary = tables[1] } };
    lnt_rotary_rotate(&pass[0], near, H * D, 1, H, D, 0);
    lnt_rotary_rotate(&pass[1], far, H * D, 1, H, D, W / 2);
    for (int i = 0; i < N * H; i++)
        for (int c = 0; c < D; c++) {
            const double angle = (7 + i / H) * pow(500, -(c / 2) * 2.0 / W), *at = x + i * D + c / 2 * 2;
            const double want = c >= W  ? x[i * D + c]
                                : c % 2 ? 1.5 * (at[0] * sin(angle) + at[1] * cos(angle))
                                        : 1.5 * (at[0] * cos(angle) - at[1] * sin(angle));
            assert_true(fabs(near[i * D + c] - want) < 1e-12);
            assert_true(fabs(far[i * D + (c >= W ? c : c % 2 * (W / 2) + c / 2)] - near[i * D + c]) < 1e-14);
        }
    free(x);
    lnt_ctx_destroy(ctx);
}

/* Pairs of 8 numbers, base 10000, turn by 1, 0.1, 0.01 and 0.001 a token: 159, 15.9, 1.59 and 0.159 times in
 * 1000 tokens. */
static void frequencies_are_scaled_as_models_were_stretched(void **state)
{
    (void)state;
    static const struct {
        lnt_rotary rotary;
        double want[4], magnitude;
    } cases[] = {
        { { .base = 10000 }, { 1, 0.1, 0.01, 0.001 }, 1 },
        { { .base = 10000, .dims = 4 }, { 1, 0.01 }, 1 },
        { { .base = 10000, .scaling = LNT_ROTARY_LINEAR, .factor = 4 }, { 0.25, 0.025, 0.0025, 0.00025 }, 1 },
        { { .base = 10000, .scaling = LNT_ROTARY_LLAMA3, .factor = 8, .low_freq_factor = 1,
            .high_freq_factor = 4, .original_length = 1000 },
          { 1, 0.1, (0.197183 + 0.802817 / 8) * 0.01, 0.001 / 8 }, 1 }, /* (1.591549 - 1) / 3 */
        /* 32 turns: pair 0.697; one turn: pair 2.202: from 0 to 3 */
        { { .base = 10000, .scaling = LNT_ROTARY_YARN, .factor = 4, .beta_fast = 32, .beta_slow = 1,
            .original_length = 1000 },
          { 1, 0.1 * (2.0 / 3 + 1.0 / 12), 0.01 * (1.0 / 3 + 2.0 / 12), 0.00025 }, 1.138629436 },
        { { .base = 10000, .magnitude = 2, .divisors = { 1, 2, 4, 8 }, .divisor_count = 4 },
          { 1, 0.05, 0.0025, 0.000125 }, 2 },
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        double got[4] = { 0 };
        lnt_rotary_frequencies(&cases[i].rotary, 8, got);
        for (int p = 0; p < 4; p++) assert_true(fabs(got[p] - cases[i].want[p]) <= 2e-6 * cases[i].want[p]);
        assert_true(fabs(lnt_rotary_magnitude(&cases[i].rotary) - cases[i].magnitude) < 1e-8);
    }
}

/* Word i % 4 of group i / 4 decides about number i. */
static void dropout_goes_by_the_generator(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int count = 1; count < 600; count += count < 20 ? 1 : 57) {
        const lnt_rng rng = lnt_rng_make((uint64_t)count);
        double x[600];
        for (int i = 0; i < count; i++) x[i] = i + 1;
        lnt_dropout(ctx, rng, 0.25, x, (size_t)count);
        for (int i = 0; i < count; i++) {
            uint32_t words[4];
            lnt_rng_words(rng, (uint64_t)(i / 4), words);
            const double want = words[i % 4] < 0x40000000 ? 0 : (i + 1) / 0.75;
            assert_true(fabs(x[i] - want) < 1e-12 * (i + 1));
        }
    }
    lnt_ctx_destroy(ctx);
}

static void dropout_keeps_the_mean_and_draws_the_same_again(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    enum { N = 40001 };
    double *x = zero_doubles(N), *again = zero_doubles(N), sum = 0;
    for (int i = 0; i < N; i++) x[i] = again[i] = 1;
    const lnt_rng rng = lnt_rng_make(3);
    lnt_dropout(ctx, rng, 0.25, x, N);
    lnt_dropout(ctx, rng, 0.25, again, N);
    assert_memory_equal(x, again, N * sizeof *x);
    for (int i = 0; i < N; i++) {
        assert_true(x[i] == 0 || fabs(x[i] - 4.0 / 3) < 1e-15);
        sum += x[i];
    }
    assert_true(fabs(sum / N - 1) < 0.02);
    for (int i = 0; i < N; i++) x[i] = 1;
    lnt_drop_path(ctx, rng, 0.5, x, N / 4, 4);
    int kept = 0;
    for (int b = 0; b < N / 4; b++) {
        for (int i = 1; i < 4; i++) assert_true(x[4 * b + i] == x[4 * b]);
        kept += x[4 * b] == 2;
        assert_true(x[4 * b] == 2 || x[4 * b] == 0);
    }
    assert_true(abs(kept - N / 8) < 200);
    free(x);
    free(again);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_is_a_product_and_its_gradients_are_right),
        cmocka_unit_test(norms_have_the_right_gradients),
        cmocka_unit_test(a_token_goes_back_through_a_norm_whatever_is_beside_it),
        cmocka_unit_test(a_normalised_token_has_mean_0_and_square_1),
        cmocka_unit_test(activations_have_the_right_gradients),
        cmocka_unit_test(activations_are_their_formulas_and_survive_large_numbers),
        cmocka_unit_test(convolution_has_the_right_gradients),
        cmocka_unit_test(embedding_and_positions_have_the_right_gradients),
        cmocka_unit_test(positions_are_waves_a_power_of_ten_apart),
        cmocka_unit_test(a_rotation_depends_on_the_distance_and_turns_back),
        cmocka_unit_test(halves_turn_as_neighbours_do_and_the_rest_of_a_head_stays),
        cmocka_unit_test(frequencies_are_scaled_as_models_were_stretched),
        cmocka_unit_test(dropout_goes_by_the_generator),
        cmocka_unit_test(dropout_keeps_the_mean_and_draws_the_same_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
