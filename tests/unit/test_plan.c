/* test_plan.c - what a plan tells: the algorithm it chose, operations and numbers counted by the formulas;
 * and the ceilings of the machine beside which they stand. */
#include <math.h>

#include "../support/case.h"

/* A descriptor that is fine. */
static lnt_attn_desc good(lnt_mechanism mechanism)
{
    attn_case c = case_make(mechanism, 4, 2, 8, 8, 4, 3);
    return c.desc;
}

/* Operations and bytes by the nanosecond: above 0, and below what any machine of today does. */
static void ceilings_are_measured_in_the_units_they_are_named_by(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int wide = 0; wide < 2; wide++) {
        double gflops = -1;
        assert_ok(ctx, lnt_measure_flops(ctx, wide ? LNT_F64 : LNT_F32, &gflops));
        assert_true(gflops > 0 && gflops < 1e5);
    }
    double gbytes = -1;
    assert_ok(ctx, lnt_measure_bandwidth(ctx, 1 << 16, &gbytes));
    assert_true(gbytes > 0 && gbytes < 1e5);
    lnt_ctx_destroy(ctx);
}

/* What was the faster one of 8 heads of 64, where tiles of the direct form are mostly empty. */
static lnt_plan_info plan_linear(lnt_ctx *ctx, int64_t length)
{
    lnt_attn_desc d;
    lnt_plan *plan;
    lnt_plan_info info = { .size = sizeof info };
    assert_ok(ctx, lnt_attn_desc_init(&d, sizeof d));
    d.mechanism = LNT_LINEAR;
    d.causal = 1;
    d.heads = 8;
    d.dim = 64;
    d.length_q = length;
    assert_ok(ctx, lnt_plan_create(ctx, &d, &plan));
    assert_ok(ctx, lnt_plan_describe(plan, &info));
    lnt_plan_destroy(plan);
    return info;
}

static void few_tokens_take_a_state_and_more_the_direct_form(void **state)
{
    (void)state;
    static const struct {
        int64_t length;
        const char *algorithm;
    } fast[] = { { 1, "linear/recurrent" }, { 2, "linear/recurrent" }, { 4, "linear/recurrent" },
                 { 8, "linear/direct" },    { 16, "linear/direct" },   { 1000, "linear/chunked" } };
    lnt_ctx *ctx = context_new(1, NULL);
    int64_t crossover = 0;
    for (int i = 0; i < COUNT_OF(fast); i++) {
        const lnt_plan_info info = plan_linear(ctx, fast[i].length);
        assert_string_equal(info.algorithm, fast[i].algorithm);
        assert_true(info.crossover_speed > 64 && info.crossover_speed < 512); /* the last one */
        crossover = (int64_t)info.crossover_speed;
    }
    assert_string_equal(plan_linear(ctx, crossover - 1).algorithm, "linear/direct");
    const lnt_plan_info more = plan_linear(ctx, crossover);
    assert_string_equal(more.algorithm, "linear/chunked");
    assert_true(more.chunk > 1 && more.flops == more.flops_state && more.flops_backward == 3 * more.flops);
    lnt_ctx_destroy(ctx);
}

static void what_no_number_counts_is_not_a_number(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int64_t terms = 3; terms <= 32; terms += 29) { /* 1024 choose 31 is about 1e59 */
        lnt_attn_desc d = good(LNT_TAYLOR);
        lnt_plan *plan;
        d.dim = 993;
        d.taylor.terms = terms;
        assert_ok(ctx, lnt_plan_create(ctx, &d, &plan));
        lnt_plan_info info = { .size = sizeof info };
        assert_ok(ctx, lnt_plan_describe(plan, &info));
        lnt_plan_destroy(plan);
        const double figures[] = { info.flops_state, info.entries_state, info.state_elements,
                                   info.flops_per_token };
        for (int i = 0; i < COUNT_OF(figures); i++)
            assert_true(terms == 32 ? isnan(figures[i]) : figures[i] > 0);
        assert_int_equal(info.state_bytes == 0, terms == 32);
        assert_true(info.flops > 0 && info.flops_direct > 0 && info.kv_cache_elements > 0);
    }
    lnt_ctx_destroy(ctx);
}

/* 2^64 states: whether the work would be cut into parts is asked of the plan, not of a run. */
static void a_plan_is_made_for_more_states_than_64_bits_count(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_attn_desc d = good(LNT_TAYLOR);
    d.batch = d.heads = d.kv_heads = INT64_C(1) << 32;
    d.dim = d.dim_value = 16; /* of whose monomials there are parts */
    d.length_q = d.length_k = 1;
    d.algorithm = "state";
    lnt_plan *plan;
    assert_ok(ctx, lnt_plan_create(ctx, &d, &plan));
    lnt_plan_info info = { .size = sizeof info };
    assert_ok(ctx, lnt_plan_describe(plan, &info));
    assert_int_equal(info.state_bytes, 0);
    lnt_plan_destroy(plan);
    lnt_ctx_destroy(ctx);
}

/* Counted pair by pair: a near key costs a query 2 (d + m) + 3; a far one goes into S once, 2 D m + D, and
 * whoever has one behind it reads S, 2 D m + 2 D. */
static void a_hybrid_plan_counts_what_is_near_and_what_is_far(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = { /* queries, keys, window, sink */
        { 40, 40, 8, 2 }, { 40, 40, 64, 0 }, { 5, 40, 8, 2 }, { 20, 40, 30, 1 }, { 1, 40, 39, 1 } };
    enum { HEADS = 4, KV_HEADS = 2, DIM = 6, VALUES = 5 };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(shapes); i++) {
        const int64_t last = shapes[i][1], first = last - shapes[i][0], reach = shapes[i][2] + shapes[i][3];
        double near = 0, far = 0;
        for (int64_t t = first; t < last; t++)
            for (int64_t j = 0; j <= t; j++) near += j < shapes[i][3] || t - j < shapes[i][2];
        for (int64_t t = first; t < last; t++) far += HEADS * (t >= reach) * (2 * DIM * VALUES + 2 * DIM);
        for (int64_t j = shapes[i][3]; j + shapes[i][2] < last; j++)
            far += KV_HEADS * (2 * DIM * VALUES + DIM);
        near *= HEADS;
        lnt_attn_desc d = good(LNT_HYBRID);
        lnt_plan *plan;
        lnt_plan_info info = { .size = sizeof info };
        d.hybrid.far = LNT_LINEAR;
        d.heads = HEADS;
        d.kv_heads = KV_HEADS;
        d.dim = DIM;
        d.dim_value = VALUES;
        d.length_q = shapes[i][0];
        d.length_k = shapes[i][1];
        d.hybrid.window = shapes[i][2];
        d.hybrid.sink = shapes[i][3];
        d.algorithm = "hybrid/chunked";
        assert_ok(ctx, lnt_plan_create(ctx, &d, &plan));
        assert_ok(ctx, lnt_plan_describe(plan, &info));
        assert_true(info.flops == far + near * (2 * (DIM + VALUES) + 3));
        assert_true(info.flops_backward == 3 * far + near * (6 * DIM + 4 * VALUES + 4));
        lnt_plan_destroy(plan);
    }
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ceilings_are_measured_in_the_units_they_are_named_by),
        cmocka_unit_test(few_tokens_take_a_state_and_more_the_direct_form),
        cmocka_unit_test(what_no_number_counts_is_not_a_number),
        cmocka_unit_test(a_plan_is_made_for_more_states_than_64_bits_count),
        cmocka_unit_test(a_hybrid_plan_counts_what_is_near_and_what_is_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
