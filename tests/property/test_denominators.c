/* test_denominators.c - rows whose denominator gives no answer are counted, and no others; and one that is
 * small gives gradients that are right, or none. */
#include <float.h>
#include <math.h>

#include "../support/backward.h"

static void rows_with_a_denominator_not_above_zero_are_counted(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++) {
        if (lnt_algorithm_mechanism(a) != LNT_LINEAR) continue;
        attn_case c = case_make(LNT_LINEAR, 2, 1, 20, 20, 1, 1);
        c.desc.linear.feature_map = LNT_MAP_IDENTITY;
        lnt_plan *plan = case_plan(ctx, &c, a);
        if (!plan) continue;
        trial t = trial_new(ctx, &c);
        tensor_fill(&t.k.t, 1);
        for (int64_t i = 0; i < 40; i++) tensor_put(&t.q.t, i, i % 20 < 7 ? -1 : 1);
        assert_ok(ctx, lnt_plan_forward(plan, &t.io));
        assert_int_equal(plan_nonpositive(plan), 2 * 7);
        expect_below(&c, lnt_algorithm_name(a), ctx, "a negative denominator",
                     oracle_error(ctx, &c.desc, &t.io, 20), 2e-6);
        tensor_fill(&t.q.t, 1);
        assert_ok(ctx, lnt_plan_forward(plan, &t.io));
        assert_int_equal(plan_nonpositive(plan), 0);
        trial_free(&t);
        lnt_plan_destroy(plan);
    }
    lnt_ctx_destroy(ctx);
}

/* Of the first 7 queries, those that have a far key: all but as many as the window is wide. */
static void rows_of_a_hybrid_with_a_denominator_not_above_zero_are_counted(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    int ran = 0;
    for (int a = 0; lnt_algorithm_name(a); a++) {
        if (lnt_algorithm_mechanism(a) != LNT_HYBRID) continue;
        attn_case c = case_make(LNT_HYBRID, 2, 1, 20, 20, 1, 1);
        c.desc.causal = 1;
        c.desc.hybrid.window = 2;
        c.desc.hybrid.sink = 0;
        c.desc.hybrid.far = LNT_LINEAR;
        c.desc.linear.feature_map = LNT_MAP_IDENTITY;
        lnt_plan *plan = case_plan(ctx, &c, a);
        if (!plan) continue;
        trial t = trial_new(ctx, &c);
        tensor_fill(&t.k.t, 1);
        for (int64_t i = 0; i < 40; i++) tensor_put(&t.q.t, i, i % 20 < 7 ? -5 : 1);
        for (int run = 0; run < 2; run++) {
            assert_ok(ctx, lnt_plan_forward(plan, &t.io));
            expect_true(&c, lnt_algorithm_name(a), ctx, "another count",
                        plan_nonpositive(plan) == (run ? 0 : 2 * 5));
            tensor_fill(&t.q.t, 1);
        }
        ran++;
        trial_free(&t);
        lnt_plan_destroy(plan);
    }
    assert_true(ran > 1);
    lnt_ctx_destroy(ctx);
}

static void a_denominator_that_is_no_number_is_counted(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++) {
        if (lnt_algorithm_mechanism(a) != LNT_TAYLOR) continue;
        attn_case c = case_make(LNT_TAYLOR, 2, 1, 5, 5, 3, 4);
        c.desc.taylor.terms = 3;
        c.desc.causal = 1;
        lnt_plan *plan = case_plan(ctx, &c, a);
        if (!plan) continue;
        trial t = trial_new(ctx, &c);
        tensor_fill(&t.q.t, 1e20); /* the square of a score is beyond f32 */
        tensor_fill(&t.k.t, 1e20);
        assert_ok(ctx, lnt_plan_forward(plan, &t.io));
        expect_true(&c, lnt_algorithm_name(a), ctx, "infinite and not counted",
                    plan_nonpositive(plan) == 2 * 5);
        trial_free(&t);
        lnt_plan_destroy(plan);
    }
    lnt_ctx_destroy(ctx);
}

/* Of a plan without a state, or with one of no token. */
static bool counts_no_row(lnt_ctx *ctx, int a, bool with_state)
{
    attn_case c = case_make(lnt_algorithm_mechanism(a), 2, 2, 20, 0, 3, 3);
    c.desc.linear.eps = 0;
    c.desc.state = with_state;
    lnt_plan *plan = case_plan(ctx, &c, a);
    if (!plan) return false;
    trial t = trial_new(ctx, &c);
    lnt_state *memory = NULL;
    if (with_state) assert_ok(ctx, lnt_state_create(ctx, &c.desc, &memory));
    t.io.state_in = t.io.state_out = memory;
    assert_ok(ctx, lnt_plan_forward(plan, &t.io));
    expect_true(&c, lnt_algorithm_name(a), ctx, "a row without any key is counted",
                plan_nonpositive(plan) == 0);
    lnt_state_destroy(memory);
    trial_free(&t);
    lnt_plan_destroy(plan);
    return true;
}

static void rows_without_any_key_are_not_counted(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    int plain = 0, states = 0;
    for (int a = 0; lnt_algorithm_name(a); a++) {
        const lnt_mechanism mechanism = lnt_algorithm_mechanism(a);
        if (mechanism == LNT_HYBRID) continue; /* is causal: a query sees itself */
        plain += counts_no_row(ctx, a, false);
        if (mechanism == LNT_LINEAR || mechanism == LNT_TAYLOR)
            states += counts_no_row(ctx, a, true);
    }
    assert_true(plain > 0 && states > 0);
    lnt_ctx_destroy(ctx);
}

/* One query sees two keys with the same weight, of which den is the sum: dv = dy / 2.  dy is large, and
 * across v, so that dy.y and with it dq and dk are 0. */
static bool check_small_denominator(lnt_ctx *ctx, attn_case *c, int a, double den, bool must)
{
    const double large = 0x1p19;
    setup s = setup_new(ctx, c);
    tensor_fill(&s.t.q.t, c->desc.mechanism == LNT_LINEAR ? den / 2 : 1);
    tensor_fill(&s.t.k.t, 1);
    for (int64_t i = 0; i < 4; i++) tensor_put(&s.t.v.t, i, i % 2 ? 0 : 1);
    for (int64_t i = 0; i < 2; i++) tensor_put(&s.dout.t, i, i % 2 ? large : 0);
    c->coefficients[0] = den / 2;
    const bool ran = run_backward(&s, a);
    const double got = ran ? tensor_at(&s.dx[2], 1) : 0;
    const bool right = fabs(got / (large / 2) - 1) < 1e-5;
    if (ran) {
        expect_true(c, lnt_algorithm_name(a), ctx, "neither the gradient nor none",
                    right || (!must && got == 0));
        expect_true(c, lnt_algorithm_name(a), ctx, "dv of both keys differ", tensor_at(&s.dx[2], 3) == got);
        for (int64_t i = 0; i < 4; i++) /* dq, dk [2], and dv's first column */
            expect_true(c, lnt_algorithm_name(a), ctx, "what is 0 is not",
                        (i == 0 ? tensor_at(&s.dx[0], 0)
                         : i < 3 ? tensor_at(&s.dx[1], i - 1)
                                 : tensor_at(&s.dx[2], 0) + tensor_at(&s.dx[2], 2)) == 0);
    }
    setup_free(&s);
    return ran;
}

static void small_denominators_give_gradients_that_are_right_or_none(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++) {
        const lnt_mechanism mechanism = lnt_algorithm_mechanism(a);
        if (mechanism != LNT_LINEAR && mechanism != LNT_TAYLOR) continue;
        int ran = 0;
        for (int i = 0; i < 4; i++) {
            attn_case c = case_make(mechanism, 1, 1, 1, 2, 1, 2);
            c.desc.dtype = i % 2 ? LNT_F64 : LNT_F32;
            c.desc.causal = i / 2;
            c.desc.backward = 1;
            c.desc.linear.feature_map = LNT_MAP_IDENTITY;
            c.desc.linear.eps = 0;
            c.desc.taylor.terms = 1;
            c.desc.taylor.coefficients = c.coefficients;
            const double least = i % 2 ? DBL_MIN : (double)FLT_MIN;
            for (int e = 2; e < 30; e++)
                ran += check_small_denominator(ctx, &c, a, ldexp(least, e), e >= 20);
        }
        expect_true(&(attn_case){ 0 }, lnt_algorithm_name(a), ctx, "never ran", ran > 0);
    }
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_with_a_denominator_not_above_zero_are_counted),
        cmocka_unit_test(rows_of_a_hybrid_with_a_denominator_not_above_zero_are_counted),
        cmocka_unit_test(a_denominator_that_is_no_number_is_counted),
        cmocka_unit_test(rows_without_any_key_are_not_counted),
        cmocka_unit_test(small_denominators_give_gradients_that_are_right_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
