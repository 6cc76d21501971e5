/* test_values.c - claims about particular inputs: constant values, the future, huge and tiny
 * numbers, equal keys, and what random feature maps approximate. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../support/case.h"

static bool is_positive(lnt_feature_map map)
{
    return map != LNT_MAP_IDENTITY && map != LNT_MAP_FOURIER;
}

/* Calls check(ctx, case, algorithm, arg) for every algorithm in every positive form. */
static void for_each_form(void (*check)(lnt_ctx *, attn_case *, int))
{
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++) {
        const bool linear = lnt_algorithm_mechanism(a) == LNT_LINEAR;
        for (int map = 0; map <= (linear ? (int)LAST_MAP : 0); map++)
            for (int causal = 0; causal < 2; causal++) {
                attn_case c = case_make(lnt_algorithm_mechanism(a), 4, 2, 75, 75, 20, 7);
                if (linear) c.desc.linear.feature_map = (lnt_feature_map)map;
                if (!is_positive((lnt_feature_map)map)) continue;
                c.desc.causal = causal;
                c.seed = (uint64_t)(map * 2 + causal);
                check(ctx, &c, a);
            }
    }
    lnt_ctx_destroy(ctx);
}

/* relu may see no feature in common with any key: such a row is 0 / 0, and 0. */
static void check_ones(lnt_ctx *ctx, attn_case *c, int a)
{
    c->desc.linear.eps = 0;
    c->desc.cur.pinv_iterations = 25; /* cur: U^+ 1 = 1 once it is the inverse, for U 1 = 1 */
    lnt_plan *plan = case_plan(ctx, c, a);
    if (!plan) return;
    trial t = trial_new(ctx, c);
    tensor_fill(&t.v.t, 1);
    assert_ok(ctx, lnt_plan_forward(plan, &t.io));
    int64_t zeros = 0;
    for (int64_t i = 0; i < tensor_elements(&t.out.t); i++) {
        const double y = tensor_at(&t.out.t, i);
        zeros += y == 0;
        const double bound = c->desc.mechanism == LNT_CUR ? 1e-5 : 1e-6; /* of large terms: U^+ */
        if (y != 0) expect_below(c, lnt_algorithm_name(a), ctx, "V = 1", fabs(y - 1), bound);
    }
    expect_true(c, lnt_algorithm_name(a), ctx, "V = 1 gave zeros",
                zeros == 0 || (c->desc.linear.feature_map == LNT_MAP_RELU && zeros < 28));
    trial_free(&t);
    lnt_plan_destroy(plan);
}

static void values_of_one_give_one(void **state)
{
    (void)state;
    for_each_form(check_ones);
}

static void values_of_one_give_the_share_of_eps(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++) {
        if (lnt_algorithm_mechanism(a) != LNT_LINEAR) continue;
        attn_case c = case_make(LNT_LINEAR, 1, 1, 1, 3, 1, 1);
        c.desc.linear.eps = 6;
        lnt_plan *plan = case_plan(ctx, &c, a);
        if (!plan) continue;
        trial t = trial_new(ctx, &c);
        tensor_fill(&t.q.t, 1); /* phi = 2, three keys of phi = 1: the denominator is 6 + 6 */
        tensor_fill(&t.k.t, 0);
        tensor_fill(&t.v.t, 1);
        assert_ok(ctx, lnt_plan_forward(plan, &t.io));
        expect_below(&c, lnt_algorithm_name(a), ctx, "6 / (6 + eps)",
                     fabs(tensor_at(&t.out.t, 0) - 0.5), 1e-6);
        trial_free(&t);
        lnt_plan_destroy(plan);
    }
    lnt_ctx_destroy(ctx);
}

/* Outputs up to `last` must not move by one bit when later tokens become huge. */
static void check_prefix(lnt_ctx *ctx, attn_case *c, int a)
{
    if (!c->desc.causal) return;
    lnt_plan *plan = case_plan(ctx, c, a);
    if (!plan) return;
    trial t = trial_new(ctx, c);
    block before = block_new(c->desc.dtype, LAYOUT_BHND, 1, 4, 75, 7);
    const double huge = c->desc.mechanism == LNT_SOFTMAX || c->desc.linear.feature_map == LNT_MAP_ELU1 ||
                                c->desc.linear.feature_map == LNT_MAP_RELU
                            ? 1e4
                            : 4; /* e^k must stay a number */
    for (int64_t last = 74; last >= 0; last -= budget(31, 6)) {
        trial_free(&t);
        t = trial_new(ctx, c);
        assert_ok(ctx, lnt_plan_forward(plan, &t.io));
        tensor_copy(&before.t, &t.out.t);
        const lnt_tensor k = tensor_rows(&t.k.t, last + 1, 74 - last),
                         v = tensor_rows(&t.v.t, last + 1, 74 - last);
        for (int64_t i = 0; i < tensor_elements(&k); i++) tensor_put(&k, i, i % 2 ? huge : -huge);
        for (int64_t i = 0; i < tensor_elements(&v); i++) tensor_put(&v, i, i % 3 ? 1e20 : -1e20);
        assert_ok(ctx, lnt_plan_forward(plan, &t.io));
        for (int64_t i = 0; i < 4 * (last + 1) * 7; i++) {
            const int64_t h = i / 7 / (last + 1), n = i / 7 % (last + 1), m = i % 7;
            expect_true(c, lnt_algorithm_name(a), ctx, "the future changed the past",
                        lnt_tensor_get(&t.out.t, 0, h, n, m) ==
                            lnt_tensor_get(&before.t, 0, h, n, m));
        }
    }
    block_free(&before);
    trial_free(&t);
    lnt_plan_destroy(plan);
}

static void the_future_does_not_change_the_past_by_one_bit(void **state)
{
    (void)state;
    for_each_form(check_prefix);
}

/* Integers, so that the logits are exact in f32 and only the exponential can go wrong. */
static void huge_logits_give_the_right_answer(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++) {
        if (lnt_algorithm_mechanism(a) != LNT_SOFTMAX) continue;
        for (int causal = 0; causal < 2; causal++) {
            attn_case c = case_make(LNT_SOFTMAX, 1, 1, 130, 130, 4, 5);
            c.desc.scale = 1;
            c.desc.causal = causal;
            lnt_plan *plan = case_plan(ctx, &c, a);
            if (!plan) continue;
            trial t = trial_new(ctx, &c);
            dice d = { 8 };
            for (int64_t i = 0; i < 520; i++) {
                tensor_put(&t.q.t, i, (double)dice_range(&d, -50, 50));
                tensor_put(&t.k.t, i, (double)dice_range(&d, -50, 50));
            }
            for (int64_t i = 0; i < 4; i++) { /* the extremes: +10^4 and -10^4 */
                tensor_put(&t.q.t, i, 50);
                tensor_put(&t.k.t, i, -50);
                tensor_put(&t.k.t, 512 + i, 50);
            }
            assert_ok(ctx, lnt_plan_forward(plan, &t.io));
            expect_below(&c, lnt_algorithm_name(a), ctx, "logits of 10^4",
                         oracle_error(ctx, &c.desc, &t.io, 130), 2e-6);
            trial_free(&t);
            lnt_plan_destroy(plan);
        }
    }
    lnt_ctx_destroy(ctx);
}

/* Their squares are beyond f32, and of some beyond f64. */
static void a_normalised_vector_may_be_as_long_as_a_number_can_be(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    static const double sizes[2][3] = { { 1e19, 1e30, 3e38 }, { 1e30, 1e160, 5e307 } };
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int form = 0; form < 12; form++) {
            const bool precise = form % 2;
            const double size = sizes[precise][form / 2 % 3];
            if (lnt_algorithm_mechanism(a) != LNT_TAYLOR) continue;
            attn_case c = case_make(LNT_TAYLOR, 2, 1, 70, 70, 4, 5);
            c.desc.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT;
            c.desc.taylor.terms = 3;
            c.desc.causal = form / 6;
            c.desc.dtype = precise ? LNT_F64 : LNT_F32;
            lnt_plan *plan = case_plan(ctx, &c, a);
            if (!plan) continue;
            trial t = trial_new(ctx, &c);
            dice d = { 6 };
            for (int64_t i = 0; i < 2 * 70 * 4; i++)
                tensor_put(&t.q.t, i, i / 4 % 3 ? size * (2 * dice_uniform(&d) - 1) : 0.5);
            for (int64_t i = 0; i < 70 * 4; i++)
                tensor_put(&t.k.t, i, i / 4 % 2 ? size * (2 * dice_uniform(&d) - 1) : -0.25);
            assert_ok(ctx, lnt_plan_forward(plan, &t.io));
            expect_below(&c, lnt_algorithm_name(a), ctx, "long vectors",
                         oracle_error(ctx, &c.desc, &t.io, 140), precise ? 1e-13 : 3e-6);
            trial_free(&t);
            lnt_plan_destroy(plan);
        }
    lnt_ctx_destroy(ctx);
}

static void taylorshift_has_three_terms_where_none_are_said(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    float out[2][35];
    for (int said = 0; said < 2; said++) {
        attn_case c = case_make(LNT_TAYLOR, 1, 1, 7, 7, 4, 5);
        c.desc.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT;
        c.desc.taylor.terms = said ? 3 : 0;
        lnt_plan *plan;
        assert_ok(ctx, lnt_plan_create(ctx, &c.desc, &plan));
        trial t = trial_new(ctx, &c);
        assert_ok(ctx, lnt_plan_forward(plan, &t.io));
        for (int i = 0; i < 35; i++) out[said][i] = (float)tensor_at(&t.out.t, i);
        trial_free(&t);
        lnt_plan_destroy(plan);
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    lnt_ctx_destroy(ctx);
}

static void elu1_keeps_its_value_at_minus_eighteen(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++) {
        if (lnt_algorithm_mechanism(a) != LNT_LINEAR) continue;
        attn_case c = case_make(LNT_LINEAR, 1, 1, 3, 3, 1, 1);
        c.desc.linear.eps = 0;
        c.desc.causal = 1;
        lnt_plan *plan = case_plan(ctx, &c, a);
        if (!plan) continue;
        trial t = trial_new(ctx, &c);
        for (int i = 0; i < 3; i++) tensor_put(&t.k.t, i, -18 - i);
        tensor_fill(&t.q.t, -18);
        assert_ok(ctx, lnt_plan_forward(plan, &t.io));
        expect_below(&c, lnt_algorithm_name(a), ctx, "phi(-18) phi(-18)",
                     oracle_error(ctx, &c.desc, &t.io, 3), 2e-6);
        trial_free(&t);
        lnt_plan_destroy(plan);
    }
    lnt_ctx_destroy(ctx);
}

/* 129 keys of phi.phi = 64 * 101^2: the denominator is 8.4e7, an f16 ends at 65504. */
static void half_precision_sums_do_not_overflow(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int causal = 0; causal < 2; causal++) {
            attn_case c = case_make(lnt_algorithm_mechanism(a), 1, 1, 129, 129, 64, 8);
            c.desc.dtype = LNT_F16;
            c.desc.causal = causal;
            lnt_plan *plan = case_plan(ctx, &c, a);
            if (!plan) continue;
            trial t = trial_new(ctx, &c);
            tensor_fill(&t.q.t, 100);
            tensor_fill(&t.k.t, 100);
            tensor_fill(&t.v.t, 60000);
            assert_ok(ctx, lnt_plan_forward(plan, &t.io));
            expect_below(&c, lnt_algorithm_name(a), ctx, "sums above 65504",
                         oracle_error(ctx, &c.desc, &t.io, budget(5, 40)), 0x1p-10);
            trial_free(&t);
            lnt_plan_destroy(plan);
        }
    lnt_ctx_destroy(ctx);
}

static void check_equal_keys(lnt_ctx *ctx, attn_case *c, int a)
{
    if (c->desc.causal) return;
    c->desc.linear.eps = 0;
    c->lay_k = LAYOUT_REPEATED;
    lnt_plan *plan = case_plan(ctx, c, a);
    if (!plan) return;
    trial t = trial_new(ctx, c);
    for (int64_t i = 0; i < tensor_elements(&t.q.t); i++) /* above 0, for the maps that are 0 below it */
        tensor_put(&t.q.t, i, 0.125 + fabs(tensor_at(&t.q.t, i)));
    assert_ok(ctx, lnt_plan_forward(plan, &t.io));
    for (int64_t h = 0; h < 4; h++)
        for (int64_t m = 0; m < 7; m++) {
            double mean = 0;
            for (int64_t n = 0; n < 75; n++) mean += lnt_tensor_get(&t.v.t, 0, h / 2, n, m) / 75;
            for (int64_t n = 0; n < 75; n++)
                expect_below(c, lnt_algorithm_name(a), ctx, "the mean of v",
                             fabs(lnt_tensor_get(&t.out.t, 0, h, n, m) - mean), 1e-6);
        }
    trial_free(&t);
    lnt_plan_destroy(plan);
}

static void equal_keys_give_the_mean_of_the_values(void **state)
{
    (void)state;
    for_each_form(check_equal_keys);
}

/* All zero inputs: finite, and 0; then the smallest numbers, which must not turn into NaN. */
static void check_tiny(lnt_ctx *ctx, attn_case *c, int a)
{
    lnt_plan *plan = case_plan(ctx, c, a);
    if (!plan) return;
    trial t = trial_new(ctx, c);
    const double sizes[] = { 0, 1e-45, 1e-39, 1e-20 };
    for (int s = 0; s < COUNT_OF(sizes); s++) {
        tensor_fill(&t.q.t, sizes[s]);
        tensor_fill(&t.k.t, sizes[s]);
        tensor_fill(&t.v.t, sizes[s]);
        assert_ok(ctx, lnt_plan_forward(plan, &t.io));
        const double sums = c->desc.mechanism == LNT_CUR ? 2 : 1; /* each rounds to 1.4e-45 */
        const double bound = c->desc.linear.feature_map == LNT_MAP_RELU ? 1e-38
                                                                 : sums * 2e-44 + 1e-5 * sizes[s];
        double worst = 0, y[7];
        assert_ok(ctx, lnt_reference_row(ctx, &c->desc, &t.io, 0, 3, 40, y));
        for (int64_t i = 0; i < tensor_elements(&t.out.t); i++) {
            const double x = tensor_at(&t.out.t, i);
            worst = isfinite(x) ? fmax(worst, fabs(x - y[0])) : INFINITY;
        }
        expect_below(c, lnt_algorithm_name(a), ctx, "tiny numbers", worst, bound);
    }
    trial_free(&t);
    lnt_plan_destroy(plan);
}

static void zeros_and_subnormals_give_the_right_answer(void **state)
{
    (void)state;
    for_each_form(check_tiny);
}

/* ---- random maps --------------------------------------------------------------------------- */

static void the_seed_fixes_a_random_map(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int map = LNT_MAP_FOURIER; map <= LNT_MAP_POSITIVE; map++) {
        attn_case c = case_make(LNT_LINEAR, 1, 1, 30, 30, 8, 8);
        c.desc.linear.feature_map = (lnt_feature_map)map;
        c.desc.seed = 42;
        trial t[3];
        for (int i = 0; i < 3; i++) {
            if (i == 2) c.desc.seed = 43;
            lnt_plan *plan = case_plan(ctx, &c, -1);
            t[i] = trial_new(ctx, &c);
            assert_ok(ctx, lnt_plan_forward(plan, &t[i].io));
            lnt_plan_destroy(plan);
        }
        assert_true(block_same_bits(&t[0].out, &t[1].out));
        assert_true(tensor_error(&t[2].out.t, &t[0].out.t) > 1e-3);
        for (int i = 0; i < 3; i++) trial_free(&t[i]);
    }
    lnt_ctx_destroy(ctx);
}

static void set_norms(const lnt_tensor *x, double norm)
{
    for (int64_t n = 0; n < x->shape[2]; n++) {
        double square = 0;
        for (int64_t i = 0; i < x->shape[3]; i++) square += pow(lnt_tensor_get(x, 0, 0, n, i), 2);
        for (int64_t i = 0; i < x->shape[3]; i++)
            lnt_tensor_set(x, 0, 0, n, i, lnt_tensor_get(x, 0, 0, n, i) * norm / sqrt(square));
    }
}

/* The error of linear attention with `features` random features as softmax, over some seeds.
 * Keys of equal length, so that the Fourier kernel e^{-|q-k|^2/2} is the softmax kernel too. */
static double softmax_gap(lnt_ctx *ctx, lnt_feature_map map, int64_t features)
{
    error_sum e = { 0 };
    for (uint64_t seed = 0; seed < (uint64_t)budget(4, 10); seed++) {
        attn_case c = case_make(LNT_LINEAR, 1, 1, 40, 40, 8, 8), exact = c;
        c.desc.linear.feature_map = map;
        c.desc.linear.features = features;
        c.desc.linear.eps = 0;
        c.desc.seed = seed;
        exact.desc.mechanism = LNT_SOFTMAX;
        exact.desc.scale = 1;
        trial t = trial_new(ctx, &c);
        set_norms(&t.q.t, 0.8);
        set_norms(&t.k.t, 0.8);
        lnt_plan *plan = case_plan(ctx, &c, -1);
        assert_ok(ctx, lnt_plan_forward(plan, &t.io));
        block want = block_new(LNT_F64, LAYOUT_BHND, 1, 1, 40, 8);
        oracle_fill(ctx, &exact.desc, &t.io, &want.t);
        for (int64_t i = 0; i < 320; i++)
            error_add(&e, tensor_at(&t.out.t, i), tensor_at(&want.t, i));
        block_free(&want);
        trial_free(&t);
        lnt_plan_destroy(plan);
    }
    return error_value(&e);
}

/* Monte Carlo: four times the features, half the error.  Allow 0.75 a step, and 0.25 over three. */
static void random_features_approach_softmax_as_they_grow(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int map = LNT_MAP_FOURIER; map <= LNT_MAP_POSITIVE; map++) {
        double gap[4];
        for (int i = 0; i < 4; i++)
            gap[i] = softmax_gap(ctx, (lnt_feature_map)map, (int64_t)64 << 2 * i);
        for (int i = 1; i < 4; i++)
            if (!(gap[i] < 0.75 * gap[i - 1]))
                fail_msg("%s: %g with %d features, %g with a quarter of them",
                         lnt_feature_map_name((lnt_feature_map)map), gap[i], 64 << 2 * i,
                         gap[i - 1]);
        assert_true(gap[3] < 0.25 * gap[0] && gap[3] < 0.05);
    }
    lnt_ctx_destroy(ctx);
}

/* ---- centring -------------------------------------------------------------------------------- */

/* Adds a vector to every key; the same vector for all keys of a kv head. */
static void shift_keys(const lnt_tensor *k, const double *by)
{
    for (int64_t h = 0; h < k->shape[1]; h++)
        for (int64_t n = 0; n < k->shape[2]; n++)
            for (int64_t c = 0; c < k->shape[3]; c++)
                lnt_tensor_set(k, 0, h, n, c,
                               lnt_tensor_get(k, 0, h, n, c) + by[h * k->shape[3] + c]);
}

/* With the mean taken from the keys, or with the vector given as the center, it is as if nothing had
 * been added. */
static void a_vector_added_to_every_key_is_taken_away_by_centring(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    double by[MAX_HEADS * 12];
    for (int i = 0; i < COUNT_OF(by); i++) by[i] = 0.5 + 0.01 * i;
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int mean = 0; mean < 2 && lnt_algorithm_mechanism(a) == LNT_TAYLOR; mean++) {
            attn_case c = case_make(LNT_TAYLOR, 4, 2, 75, 75, 12, 7);
            c.desc.dtype = LNT_F64;
            c.desc.taylor.center_mean = mean;
            trial t = trial_new(ctx, &c);
            block want = block_new(LNT_F64, LAYOUT_BHND, 1, 4, 75, 7);
            oracle_fill(ctx, &c.desc, &t.io, &want.t);
            shift_keys(&t.k.t, by);
            if (!mean) c.desc.taylor.center = by;
            lnt_plan *plan = case_plan(ctx, &c, a);
            if (plan) case_forward(ctx, &c, lnt_algorithm_name(a), plan, &t.io);
            for (int64_t i = 0; plan && i < tensor_elements(&want.t); i++)
                expect_below(&c, lnt_algorithm_name(a), ctx, "a centred answer",
                             fabs(tensor_at(&t.out.t, i) - tensor_at(&want.t, i)), 1e-12);
            lnt_plan_destroy(plan);
            block_free(&want);
            trial_free(&t);
        }
    lnt_ctx_destroy(ctx);
}

/* ---- decay ----------------------------------------------------------------------------------- */

/* Of values 0, then 1 from the middle on, weighed by age alone, the last row against the oracle: by how
 * much of what a decay does it is off. */
static double decay_error(lnt_ctx *ctx, const attn_case *c, int a)
{
    const int64_t last = c->desc.length_q - 1;
    lnt_plan *plan = case_plan(ctx, c, a);
    trial t = trial_new(ctx, c);
    double y;
    tensor_fill(&t.q.t, 0);
    tensor_fill(&t.k.t, 0);
    for (int64_t i = 0; i <= last; i++) tensor_put(&t.v.t, i, i > last / 2);
    assert_ok(ctx, lnt_plan_forward(plan, &t.io));
    assert_ok(ctx, lnt_reference_row(ctx, &c->desc, &t.io, 0, 0, last, &y));
    const double error = fabs(lnt_tensor_get(&t.out.t, 0, 0, last, 0) - y) / (y - 0.5);
    trial_free(&t);
    lnt_plan_destroy(plan);
    return error;
}

/* f32 has 1 or 1 - 1.2e-7 in place of these. */
static void a_decay_near_one_is_not_rounded(void **state)
{
    (void)state;
    static const double decays[] = { 1 - 2e-8, 1 - 1e-7 };
    lnt_ctx *ctx = context_new(1, NULL);
    int tried = 0;
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; i < COUNT_OF(decays); i++) {
            const char *name = lnt_algorithm_name(a);
            const bool hybrid = strcmp(name, "hybrid/chunked") == 0;
            if (!hybrid && strcmp(name, "linear/chunked") && strcmp(name, "linear/recurrent")) continue;
            attn_case c = case_make(lnt_algorithm_mechanism(a), 1, 1, 200000, 200000, 1, 1);
            c.desc.causal = 1;
            c.desc.compensated = !hybrid;
            c.desc.hybrid.far = LNT_LINEAR;
            case_set_decay(&c, decays[i]);
            expect_below(&c, name, ctx, "a decay near 1", decay_error(ctx, &c, a),
                         hybrid ? 0.1 : 0.001); /* plain sums round once a chunk */
            tried++;
        }
    assert_int_equal(tried, 6);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_one_give_one),
        cmocka_unit_test(values_of_one_give_the_share_of_eps),
        cmocka_unit_test(the_future_does_not_change_the_past_by_one_bit),
        cmocka_unit_test(huge_logits_give_the_right_answer),
        cmocka_unit_test(a_normalised_vector_may_be_as_long_as_a_number_can_be),
        cmocka_unit_test(taylorshift_has_three_terms_where_none_are_said),
        cmocka_unit_test(elu1_keeps_its_value_at_minus_eighteen),
        cmocka_unit_test(half_precision_sums_do_not_overflow),
        cmocka_unit_test(equal_keys_give_the_mean_of_the_values),
        cmocka_unit_test(zeros_and_subnormals_give_the_right_answer),
        cmocka_unit_test(the_seed_fixes_a_random_map),
        cmocka_unit_test(random_features_approach_softmax_as_they_grow),
        cmocka_unit_test(a_vector_added_to_every_key_is_taken_away_by_centring),
        cmocka_unit_test(a_decay_near_one_is_not_rounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
