/* test_plan.c - what a plan tells: the algorithm it chose; operations and numbers counted by the formulas. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../support/case.h"
#include "attention/registry.h"
#include "core/context.h"

/* A descriptor that is fine. */
static lnt_attn_desc good(lnt_mechanism mechanism)
{
    attn_case c = case_make(mechanism, 4, 2, 8, 8, 4, 3);
    return c.desc;
}

static lnt_plan_info describe(lnt_ctx *ctx, const lnt_attn_desc *d)
{
    lnt_plan *plan;
    lnt_plan_info info = { .size = sizeof info };
    assert_ok(ctx, lnt_plan_create(ctx, d, &plan));
    assert_ok(ctx, lnt_plan_describe(plan, &info));
    lnt_plan_destroy(plan);
    return info;
}

/* Forward runs that a plan's run takes, by the algorithm's own word. */
static double runs_of(const lnt_attn_desc *d, const char *name)
{
    const double both = lnt_registry_get(lnt_registry_find(name), d->dtype)->both;
    return d->backward && both > 0 ? both : 1;
}

/* Of a problem, that the planner takes what costs least, and what it is told to take. */
static void check_choice(lnt_ctx *ctx, lnt_attn_desc d)
{
    const lnt_plan_info chosen = describe(ctx, &d);
    const double least = chosen.seconds * runs_of(&d, chosen.algorithm);
    int others = 0;
    for (int a = 0; (d.algorithm = lnt_algorithm_name(a)); a++) {
        lnt_plan *plan;
        if (lnt_algorithm_mechanism(a) != d.mechanism) continue;
        const lnt_status status = lnt_plan_create(ctx, &d, &plan);
        lnt_plan_destroy(plan);
        if (status == LNT_ERR_UNSUPPORTED) continue;
        const lnt_plan_info forced = describe(ctx, &d);
        assert_string_equal(forced.algorithm, d.algorithm);
        assert_true(forced.seconds > 0 && forced.seconds * runs_of(&d, d.algorithm) >= least);
        others += strcmp(forced.algorithm, chosen.algorithm) != 0;
    }
    assert_true(others > 0);
}

static void the_planner_takes_what_costs_least_and_what_it_is_told_to_take(void **state)
{
    (void)state;
    static const lnt_mechanism mechanisms[] = { LNT_SOFTMAX, LNT_LINEAR, LNT_TAYLOR, LNT_CUR, LNT_HYBRID };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int m = 0; m < COUNT_OF(mechanisms); m++)
        for (int64_t length = 1; length < 3000; length *= 7)
            for (int i = 0; i < 4; i++) {
                lnt_attn_desc d = good(mechanisms[m]);
                d.length_q = d.length_k = length;
                d.dim = d.dim_value = i / 2 ? 64 : 5;
                d.backward = i % 2;
                check_choice(ctx, d);
            }
    lnt_ctx_destroy(ctx);
}

/* That algorithm `index` takes so many seconds for a forward run of d. */
static void set_seconds(lnt_ctx *ctx, const lnt_attn_desc *d, int index, double seconds)
{
    lnt_attn_desc forced = *d;
    ctx->seconds_per_flop[LNT_F32][index] = 1;
    forced.algorithm = lnt_algorithm_name(index);
    ctx->seconds_per_flop[LNT_F32][index] = seconds / describe(ctx, &forced).seconds;
}

/* Of two algorithms one is a little faster forward, and a little slower forward and back. */
static void a_plan_with_a_backward_run_is_chosen_by_both_runs(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    int pairs = 0;
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int b = 0; lnt_algorithm_name(b); b++) {
            const double slow = lnt_registry_get(a, LNT_F32)->both;
            const double quick = lnt_registry_get(b, LNT_F32)->both;
            const lnt_mechanism mechanism = lnt_algorithm_mechanism(a);
            if (mechanism != lnt_algorithm_mechanism(b) || !(slow > quick && quick > 0)) continue;
            lnt_attn_desc d = good(mechanism);
            for (int i = 0; lnt_algorithm_name(i); i++)
                if (lnt_algorithm_mechanism(i) == mechanism)
                    set_seconds(ctx, &d, i, i == a ? 1 : i == b ? sqrt(slow / quick) : 100);
            assert_string_equal(describe(ctx, &d).algorithm, lnt_algorithm_name(a));
            d.backward = 1;
            assert_string_equal(describe(ctx, &d).algorithm, lnt_algorithm_name(b));
            pairs++;
        }
    assert_true(pairs > 0);
    lnt_ctx_destroy(ctx);
}

/* Whether the planner takes an algorithm with a state for so many tokens. */
static bool takes_state(lnt_ctx *ctx, lnt_attn_desc d, int64_t length)
{
    d.length_q = d.length_k = length;
    return lnt_registry_get(lnt_registry_find(describe(ctx, &d).algorithm), d.dtype)->takes_state;
}

static void expect_taken(lnt_ctx *ctx, lnt_attn_desc d, int64_t length, int64_t crossover)
{
    if (takes_state(ctx, d, length) == (length >= crossover)) return;
    d.length_q = d.length_k = length;
    fail_msg("of %lld tokens, width %lld, causal %d, %s is taken; the crossover is %lld", (long long)length,
             (long long)d.dim, d.causal, describe(ctx, &d).algorithm, (long long)crossover);
}

static void from_the_crossover_on_the_planner_takes_a_state_and_not_before(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    int before = 0;
    for (int i = 0; i < 8; i++) {
        lnt_attn_desc d = good(i % 2 ? LNT_TAYLOR : LNT_LINEAR);
        d.causal = i / 2 % 2;
        d.dim = d.dim_value = 16 << i / 4;
        const int64_t crossover = (int64_t)describe(ctx, &d).crossover_speed;
        assert_true(crossover > 0);
        before += crossover > 1;
        if (crossover > 1) expect_taken(ctx, d, crossover - 1, crossover);
        for (int64_t n = crossover; n <= 8 * crossover; n += n / 8 + 1) expect_taken(ctx, d, n, crossover);
        d.length_q = d.length_k = crossover;
        const lnt_plan_info info = describe(ctx, &d);
        assert_true(info.flops == info.flops_state && info.flops_backward == 3 * info.flops);
    }
    assert_true(before > 0);
    lnt_ctx_destroy(ctx);
}

static void what_no_number_counts_is_not_a_number(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int64_t terms = 3; terms <= 32; terms += 29) { /* 1024 choose 31 is about 1e59 */
        lnt_attn_desc d = good(LNT_TAYLOR);
        d.dim = 993;
        d.taylor.terms = terms;
        const lnt_plan_info info = describe(ctx, &d);
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
    assert_int_equal(describe(ctx, &d).state_bytes, 0);
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
        const lnt_plan_info info = describe(ctx, &d);
        assert_true(info.flops == far + near * (2 * (DIM + VALUES) + 3));
        assert_true(info.flops_backward == 3 * far + near * (6 * DIM + 4 * VALUES + 4));
    }
    lnt_ctx_destroy(ctx);
}

static void a_prediction_is_what_the_plan_tells_and_allocates_nothing(void **state)
{
    (void)state;
    tracker track = { .fail_at = -1 };
    lnt_ctx *ctx = context_tracked(&track, 2, NULL);
    int same = 0, refused = 0;
    for (int i = 0; lnt_algorithm_name(i / 12); i++) {
        lnt_attn_desc d = good(lnt_algorithm_mechanism(i / 12));
        d.algorithm = i % 2 ? lnt_algorithm_name(i / 12) : NULL; /* else the planner's */
        d.causal = i / 2 % 2;
        d.backward = i / 4 % 3 == 1;
        d.state = i / 4 % 3 == 2;
        lnt_plan_info told = { .size = sizeof told }, predicted = told;
        const int64_t calls = track.calls;
        const lnt_status status = lnt_plan_predict(ctx, &d, &predicted);
        assert_int_equal(track.calls, calls);
        char sentence[512];
        snprintf(sentence, sizeof sentence, "%s", lnt_ctx_error(ctx));
        lnt_plan *plan;
        assert_int_equal(lnt_plan_create(ctx, &d, &plan), status);
        if (status) {
            assert_string_equal(sentence, lnt_ctx_error(ctx));
            refused++;
            continue;
        }
        assert_ok(ctx, lnt_plan_describe(plan, &told));
        assert_true(!memcmp(&told, &predicted, sizeof told));
        lnt_plan_destroy(plan);
        same++;
    }
    assert_true(same > 50 && refused > 10);
    context_close_tracked(ctx, &track);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_planner_takes_what_costs_least_and_what_it_is_told_to_take),
        cmocka_unit_test(a_plan_with_a_backward_run_is_chosen_by_both_runs),
        cmocka_unit_test(from_the_crossover_on_the_planner_takes_a_state_and_not_before),
        cmocka_unit_test(what_no_number_counts_is_not_a_number),
        cmocka_unit_test(a_plan_is_made_for_more_states_than_64_bits_count),
        cmocka_unit_test(a_hybrid_plan_counts_what_is_near_and_what_is_far),
        cmocka_unit_test(a_prediction_is_what_the_plan_tells_and_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
