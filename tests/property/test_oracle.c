/* test_oracle.c - the oracle itself, against answers worked out by hand. */
#include <math.h>

#include "../support/case.h"

/* q, k of width 1 and v of width 1 as [1,1,n,1] views on arrays of double. */
static lnt_attn_io scalars(double *q, int64_t nq, double *k, double *v, int64_t nk)
{
    return (lnt_attn_io){
        .size = sizeof(lnt_attn_io),
        .q = lnt_tensor_bhnd(q, LNT_F64, 1, 1, nq, 1),
        .k = lnt_tensor_bhnd(k, LNT_F64, 1, 1, nk, 1),
        .v = lnt_tensor_bhnd(v, LNT_F64, 1, 1, nk, 1),
    };
}

static attn_case scalar_case(lnt_mechanism mechanism, int64_t nq, int64_t nk)
{
    attn_case c = case_make(mechanism, 1, 1, nq, nk, 1, 1);
    c.desc.dtype = LNT_F64;
    return c;
}

static double row(lnt_ctx *ctx, const attn_case *c, const lnt_attn_io *io, int64_t i)
{
    double y = NAN;
    assert_ok(ctx, lnt_reference_row(ctx, &c->desc, io, 0, 0, i, &y));
    return y;
}

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 4e-15 * (1 + fabs(want))))
        fail_msg("got %.17g, not %.17g", got, want);
}

static void softmax_of_two_keys_is_a_logistic(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    double q[] = { 2 }, k[] = { 0.5, -0.25 }, v[] = { 3, 7 };
    attn_case c = scalar_case(LNT_SOFTMAX, 1, 2);
    const lnt_attn_io io = scalars(q, 1, k, v, 2);
    near(row(ctx, &c, &io, 0), 3 + 4 / (1 + exp(1.5)));
    c.desc.scale = -0.5;
    near(row(ctx, &c, &io, 0), 3 + 4 / (1 + exp(-0.75)));
    lnt_ctx_destroy(ctx);
}

static void softmax_survives_logits_of_ten_thousand(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    double q[] = { 100 }, k[] = { 100, 99.99, -100 }, v[] = { 1, 2, 4 };
    const attn_case c = scalar_case(LNT_SOFTMAX, 1, 3);
    const lnt_attn_io io = scalars(q, 1, k, v, 3);
    const double got = row(ctx, &c, &io, 0);
    assert_true(fabs(got - (1 + 1 / (1 + exp(1)))) < 1e-11); /* 9999 is rounded once */
    lnt_ctx_destroy(ctx);
}

static void causal_is_aligned_at_the_end(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    double q[] = { 0, 0 }, k[] = { 1, 1, 1, 1 }, v[] = { 1, 3, 8, 100 };
    attn_case c = scalar_case(LNT_SOFTMAX, 2, 4);
    c.desc.causal = 1;
    const lnt_attn_io io = scalars(q, 2, k, v, 4);
    near(row(ctx, &c, &io, 0), 4);
    near(row(ctx, &c, &io, 1), 28);
    lnt_ctx_destroy(ctx);
}

static void linear_maps_are_the_formulas(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    double q[] = { 2 }, k[] = { -1, 3 }, v[] = { 5, 7 };
    attn_case c = scalar_case(LNT_LINEAR, 1, 2);
    const lnt_attn_io io = scalars(q, 1, k, v, 2);
    c.desc.linear.eps = 0.5;
    near(row(ctx, &c, &io, 0), 3 * (exp(-1) * 5 + 4 * 7) / (3 * (exp(-1) + 4) + 0.5));
    c.desc.linear.feature_map = LNT_MAP_RELU;
    near(row(ctx, &c, &io, 0), 2 * 3 * 7 / (2 * 3 + 0.5));
    c.desc.linear.feature_map = LNT_MAP_EXP;
    near(row(ctx, &c, &io, 0), (exp(1) * 5 + exp(5) * 7) / (exp(1) + exp(5) + 0.5));
    c.desc.linear.feature_map = LNT_MAP_IDENTITY;
    near(row(ctx, &c, &io, 0), (-2 * 5 + 6 * 7) / (-2 + 6 + 0.5));
    lnt_ctx_destroy(ctx);
}

/* Of x = 1 and -1/2.  Algorithms take the same coefficients: only here would wrong ones be seen. */
static void taylor_is_the_start_of_the_series(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    double q[] = { 2 }, k[] = { 0.5, -0.25 }, v[] = { 3, 7 };
    static const double weight[][2] = { { 1, 1 },
                                        { 2, 0.5 },
                                        { 5.0 / 2, 5.0 / 8 },
                                        { 8.0 / 3, 29.0 / 48 },
                                        { 65.0 / 24, 233.0 / 384 },
                                        { 163.0 / 60, 2329.0 / 3840 } };
    attn_case c = scalar_case(LNT_TAYLOR, 1, 2);
    const lnt_attn_io io = scalars(q, 1, k, v, 2);
    for (int t = 0; t < COUNT_OF(weight); t++) {
        const double *w = weight[t];
        c.desc.taylor.terms = t + 1;
        near(row(ctx, &c, &io, 0), (3 * w[0] + 7 * w[1]) / (w[0] + w[1]));
    }
    static const double own[] = { 1, 2, 3 };
    c.desc.taylor.terms = 3;
    c.desc.taylor.coefficients = own;
    near(row(ctx, &c, &io, 0), (3 * 6.0 + 7 * 0.75) / 6.75);
    lnt_ctx_destroy(ctx);
}

/* One key: y = v w / (w + eps) gives the kernel w = phi(q).phi(k) away.  Equal vectors: 1 for
 * fourier whatever the weights, since cos^2 + sin^2 = 1; e^{2wx - x^2} averaged for positive. */
static void random_maps_are_the_formulas(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    double q[] = { 0.75 }, k[] = { 0.75 }, v[] = { 1 };
    attn_case c = scalar_case(LNT_LINEAR, 1, 1);
    const lnt_attn_io io = scalars(q, 1, k, v, 1);
    c.desc.linear.eps = 1;
    c.desc.linear.features = 8;
    c.desc.linear.feature_map = LNT_MAP_FOURIER;
    near(row(ctx, &c, &io, 0), 0.5);
    c.desc.linear.feature_map = LNT_MAP_POSITIVE;
    double mean = 0; /* E e^{w(q+k) - (q^2+k^2)/2} = e^{qk} */
    c.desc.linear.features = 2000;
    for (c.desc.seed = 0; c.desc.seed < 20; c.desc.seed++) {
        const double y = row(ctx, &c, &io, 0);
        mean += y / (1 - y) / 20;
    }
    assert_true(fabs(mean / exp(0.5625) - 1) < 0.075); /* deviation 2.9 / sqrt(40000), 5 of them */
    lnt_ctx_destroy(ctx);
}

static void decay_weighs_a_key_by_its_age(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    double q[] = { 1, 1 }, k[] = { 1, 2, 4 }, v[] = { 10, 20, 30 };
    attn_case c = scalar_case(LNT_LINEAR, 2, 3);
    c.desc.causal = 1;
    c.desc.linear.feature_map = LNT_MAP_IDENTITY;
    c.desc.linear.eps = 0;
    case_set_decay(&c, 0.5);
    const lnt_attn_io io = scalars(q, 2, k, v, 3);
    near(row(ctx, &c, &io, 0), (0.5 * 10 + 2 * 20) / 2.5);
    near(row(ctx, &c, &io, 1), (0.25 * 10 + 1 * 20 + 4 * 30) / 5.25);
    lnt_ctx_destroy(ctx);
}

static void a_state_is_one_decay_older_than_the_first_key(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    double q[] = { 1, 1, 1 }, k[] = { 1, 2, 4 }, v[] = { 10, 20, 30 };
    attn_case c = scalar_case(LNT_LINEAR, 3, 3);
    c.desc.causal = 1;
    c.desc.linear.feature_map = LNT_MAP_IDENTITY;
    case_set_decay(&c, 0.5);
    lnt_attn_io whole = scalars(q, 3, k, v, 3), rest = scalars(q + 1, 2, k + 1, v + 1, 2);
    lnt_state *first;
    const char *name;
    lnt_tensor s, z;
    assert_ok(ctx, lnt_state_create(ctx, &c.desc, &first));
    assert_ok(ctx, lnt_state_tensor(first, 0, &name, &s));
    assert_ok(ctx, lnt_state_tensor(first, 1, &name, &z));
    lnt_tensor_set(&s, 0, 0, 0, 0, 10);
    lnt_tensor_set(&z, 0, 0, 0, 0, 1);
    rest.state_in = first;
    near(row(ctx, &c, &rest, 0), row(ctx, &c, &whole, 1));
    near(row(ctx, &c, &rest, 1), row(ctx, &c, &whole, 2));
    lnt_state_destroy(first);
    lnt_ctx_destroy(ctx);
}

static void query_heads_share_kv_heads_in_order(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    double q[4] = { 0 }, k[2] = { 0 }, v[2] = { 5, 6 }, y;
    attn_case c = case_make(LNT_SOFTMAX, 4, 2, 1, 1, 1, 1);
    c.desc.dtype = LNT_F64;
    const lnt_attn_io io = {
        .size = sizeof io,
        .q = lnt_tensor_bhnd(q, LNT_F64, 1, 4, 1, 1),
        .k = lnt_tensor_bhnd(k, LNT_F64, 1, 2, 1, 1),
        .v = lnt_tensor_bhnd(v, LNT_F64, 1, 2, 1, 1),
    };
    for (int h = 0; h < 4; h++) {
        assert_ok(ctx, lnt_reference_row(ctx, &c.desc, &io, 0, h, 0, &y));
        near(y, h < 2 ? 5 : 6);
    }
    lnt_ctx_destroy(ctx);
}

static void rows_outside_a_sequence_and_rows_without_a_key_are_zero(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    double q[] = { 0, 0, 0, 0 }, k[] = { 1, 1, 1, 1 }, v[] = { 1, 3, 8, 100 };
    attn_case c = scalar_case(LNT_SOFTMAX, 4, 4);
    lnt_attn_io io = scalars(q, 4, k, v, 4);
    const int64_t nq[] = { 2 }, nk[] = { 3 }, none[] = { 0 };
    io.lengths_q = nq;
    io.lengths_k = nk;
    near(row(ctx, &c, &io, 1), 4);
    near(row(ctx, &c, &io, 2), 0);
    io.lengths_k = none;
    near(row(ctx, &c, &io, 1), 0);

    const int64_t cu[] = { 0, 1, 3 }; /* row 3 belongs to none */
    io = scalars(q, 4, k, v, 4);
    io.sequences = 2;
    io.cu_seqlens_q = io.cu_seqlens_k = cu;
    near(row(ctx, &c, &io, 0), 1);
    near(row(ctx, &c, &io, 2), 5.5);
    near(row(ctx, &c, &io, 3), 0);
    lnt_ctx_destroy(ctx);
}

static void nothing_over_nothing_is_zero(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    double q[] = { 1 }, k[] = { -1 }, v[] = { 5 };
    attn_case c = scalar_case(LNT_LINEAR, 1, 1);
    c.desc.linear.feature_map = LNT_MAP_RELU;
    c.desc.linear.eps = 0;
    const lnt_attn_io io = scalars(q, 1, k, v, 1);
    near(row(ctx, &c, &io, 0), 0);
    lnt_ctx_destroy(ctx);
}

static double laplace(double x) { return 0.5 + 0.5 * erf((x - sqrt(0.5)) * sqrt(2 * acos(-1))); }

/* One landmark, the first token.  Softmax: C and U are 1, so that every row is the landmark's.
 * Laplace: U = u, and from 1 / u the iterations stay where they are. */
static void one_landmark_gives_its_row_to_all(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    double q[] = { 0.5, -2, 1 }, k[] = { 1, 3, -1 }, v[] = { 2, 5, 11 };
    attn_case c = scalar_case(LNT_CUR, 3, 3), softmax = scalar_case(LNT_SOFTMAX, 3, 3);
    c.desc.cur.landmarks = 1;
    const lnt_attn_io io = scalars(q, 3, k, v, 3);
    for (int64_t i = 0; i < 3; i++) near(row(ctx, &c, &io, i), row(ctx, &softmax, &io, 0));
    c.desc.cur.activation = LNT_ACTIVATION_LAPLACE;
    const double u = laplace(0.5), rv = 2 * laplace(0.5) + 5 * laplace(1.5) + 11 * laplace(-0.5);
    near(row(ctx, &c, &io, 0), rv);
    near(row(ctx, &c, &io, 2), laplace(1) / u * rv);
    c.desc.cur.copy_rows = 0;
    c.desc.cur.pinv = LNT_PINV_RIDGE;
    c.desc.cur.ridge = 0.25;
    near(row(ctx, &c, &io, 0), rv / 1.25);
    near(row(ctx, &c, &io, 2), laplace(1) / (1.25 * u) * rv);
    c.desc.cur.landmarks = 3; /* all of them: exact */
    near(row(ctx, &c, &io, 1), 2 * laplace(-2) + 5 * laplace(-6) + 11 * laplace(2));
    lnt_ctx_destroy(ctx);
}

/* Segments 0 and 1, 2: means 1.5 and 0.5 of q, 2 and 0 of k. */
static void means_of_segments_are_landmarks(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    double q[] = { 1.5, 0, 1 }, k[] = { 2, 1, -1 }, v[] = { 2, 5, 11 };
    attn_case c = scalar_case(LNT_CUR, 3, 3);
    c.desc.cur.landmarks = 2;
    c.desc.cur.select = LNT_SELECT_MEAN;
    c.desc.cur.pinv_iterations = 40;
    const lnt_attn_io io = scalars(q, 3, k, v, 3);
    double rv[2], u[2][2];
    for (int l = 0; l < 2; l++) {
        const double query = l ? 0.5 : 1.5, e = exp(2 * query);
        const double w[] = { e, exp(query), exp(-query) };
        rv[l] = (2 * w[0] + 5 * w[1] + 11 * w[2]) / (w[0] + w[1] + w[2]);
        u[l][0] = e / (e + 1);
        u[l][1] = 1 / (e + 1);
    }
    const double det = u[0][0] * u[1][1] - u[0][1] * u[1][0];
    const double w0 = (u[1][1] * rv[0] - u[0][1] * rv[1]) / det;
    const double w1 = (u[0][0] * rv[1] - u[1][0] * rv[0]) / det;
    for (int i = 0; i < 3; i++) {
        const double e = exp(2 * q[i]);
        assert_true(fabs(row(ctx, &c, &io, i) - (e * w0 + w1) / (e + 1)) < 1e-12);
    }
    lnt_ctx_destroy(ctx);
}

static void an_index_out_of_range_is_named(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    double q[] = { 1 }, k[] = { -1 }, v[] = { 5 }, y;
    const attn_case c = scalar_case(LNT_SOFTMAX, 1, 1);
    const lnt_attn_io io = scalars(q, 1, k, v, 1);
    static const struct {
        int64_t b, h, i;
        const char *word;
    } bad[] = { { 1, 0, 0, "b is 1" }, { 0, -1, 0, "h is -1" }, { 0, 0, 1, "i is 1" } };
    for (int n = 0; n < COUNT_OF(bad); n++)
        assert_refused(ctx,
                       lnt_reference_row(ctx, &c.desc, &io, bad[n].b, bad[n].h, bad[n].i, &y),
                       LNT_ERR_ARGUMENT, bad[n].word);
    assert_refused(ctx, lnt_reference_row(ctx, &c.desc, &io, 0, 0, 0, NULL), LNT_ERR_ARGUMENT,
                   "out");
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_of_two_keys_is_a_logistic),
        cmocka_unit_test(softmax_survives_logits_of_ten_thousand),
        cmocka_unit_test(causal_is_aligned_at_the_end),
        cmocka_unit_test(linear_maps_are_the_formulas),
        cmocka_unit_test(taylor_is_the_start_of_the_series),
        cmocka_unit_test(random_maps_are_the_formulas),
        cmocka_unit_test(decay_weighs_a_key_by_its_age),
        cmocka_unit_test(a_state_is_one_decay_older_than_the_first_key),
        cmocka_unit_test(query_heads_share_kv_heads_in_order),
        cmocka_unit_test(rows_outside_a_sequence_and_rows_without_a_key_are_zero),
        cmocka_unit_test(nothing_over_nothing_is_zero),
        cmocka_unit_test(one_landmark_gives_its_row_to_all),
        cmocka_unit_test(means_of_segments_are_landmarks),
        cmocka_unit_test(an_index_out_of_range_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
