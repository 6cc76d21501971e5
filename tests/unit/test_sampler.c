/* test_sampler.c - what a draw is restricted to, the penalty, and that a heap finds what sorting does. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/sampler.h"
#include "support.h"

enum { DRAWS = 10000 };

/* How often each of `count` tokens is drawn by DRAWS numbers that are spread evenly. */
static void count_draws(const lnt_sampling *s, const double *logits, int count, int *drawn)
{
    lnt_candidate scratch[16];
    memset(drawn, 0, (size_t)count * sizeof *drawn);
    for (int i = 0; i < DRAWS; i++)
        drawn[lnt_sampler_draw(s, logits, (size_t)count, (i + 0.5) / DRAWS, scratch)]++;
}

static void expect_shares(const lnt_sampling *s, const double *logits, int count, const double *shares)
{
    int drawn[16];
    count_draws(s, logits, count, drawn);
    for (int i = 0; i < count; i++) assert_true(fabs(drawn[i] - DRAWS * shares[i]) <= 2);
}

/* p = 0.1, 0.4, 0.2, 0.3 */
static const double four[4] = { -2.302585092994046, -0.916290731874155, -1.6094379124341003,
                                -1.2039728043259361 };

static void min_p_keeps_what_is_likely_enough_beside_the_likeliest(void **state)
{
    (void)state;
    const lnt_sampling half = { .size = sizeof half, .temperature = 1, .top_p = 1, .min_p = 0.45 };
    expect_shares(&half, four, 4, (double[]){ 0, 4 / 9.0, 2 / 9.0, 3 / 9.0 });
    const lnt_sampling most = { .size = sizeof most, .temperature = 1, .top_p = 1, .min_p = 1 };
    expect_shares(&most, four, 4, (double[]){ 0, 1, 0, 0 });
    /* At temperature 1/2 the shares are as 1, 16, 4, 9: the third is a quarter of the likeliest. */
    const lnt_sampling cold = { .size = sizeof cold, .temperature = 0.5, .top_p = 1, .min_p = 0.3 };
    expect_shares(&cold, four, 4, (double[]){ 0, 16 / 25.0, 0, 9 / 25.0 });
}

static void cuts_follow_one_another_and_each_counts_what_the_last_has_left(void **state)
{
    (void)state;
    /* Of the three likeliest, 4, 3 and 2 ninths, two have 0.7. */
    const lnt_sampling both = { .size = sizeof both, .temperature = 1, .top_k = 3, .top_p = 0.7 };
    expect_shares(&both, four, 4, (double[]){ 0, 4 / 7.0, 0, 3 / 7.0 });
    /* Of all, three do not have 0.95. */
    const lnt_sampling wide = { .size = sizeof wide, .temperature = 1, .top_p = 0.95 };
    expect_shares(&wide, four, 4, (double[]){ 0.1, 0.4, 0.2, 0.3 });
    const lnt_sampling all = { .size = sizeof all, .temperature = 1, .top_k = 3, .top_p = 0.95,
                               .min_p = 0.6 };
    expect_shares(&all, four, 4, (double[]){ 0, 4 / 7.0, 0, 3 / 7.0 });
}

static void a_penalty_divides_what_is_above_zero_and_multiplies_the_rest_once(void **state)
{
    (void)state;
    double logits[6] = { 3, -3, 0, 2, -1, 5 };
    const int32_t recent[] = { 0, 1, 0, 2, 1, 0, 7, -1 };
    lnt_sampler_penalise(2, recent, 8, logits, 6);
    const double expected[6] = { 1.5, -6, 0, 2, -1, 5 };
    assert_memory_equal(logits, expected, sizeof expected);
}

static void greedy_takes_the_likeliest_after_the_penalty_whatever_the_number(void **state)
{
    (void)state;
    double logits[3] = { 4, 3, 1 };
    const lnt_sampling greedy = { .size = sizeof greedy, .top_k = 2, .top_p = 0.5, .min_p = 0.5 };
    lnt_candidate scratch[3];
    assert_int_equal(lnt_sampler_draw(&greedy, logits, 3, 0.99, scratch), 0);
    lnt_sampler_penalise(1.5, (int32_t[]){ 0 }, 1, logits, 3);
    assert_int_equal(lnt_sampler_draw(&greedy, logits, 3, 0.99, scratch), 1);
}

static int by_weight(const void *a, const void *b)
{
    const lnt_candidate *x = a, *y = b;
    if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
    return x->token < y->token ? -1 : x->token > y->token;
}

/* The draw as the definition has it, by sorting everything. */
static int32_t draw_by_sorting(const lnt_sampling *s, const double *logits, size_t count, double u,
                               lnt_candidate *c)
{
    double total = 0, kept = 0;
    for (size_t i = 0; i < count; i++) c[i] = (lnt_candidate){ logits[i], (int32_t)i };
    qsort(c, count, sizeof *c, by_weight);
    const double best = c[0].weight;
    if (s->top_k && (size_t)s->top_k < count) count = (size_t)s->top_k;
    for (size_t i = 0; i < count; i++) total += c[i].weight = exp((c[i].weight - best) / s->temperature);
    size_t few = 0;
    while (few < count && (few == 0 || kept < s->top_p * total)) kept += c[few++].weight;
    while (few > 1 && c[few - 1].weight < s->min_p) kept -= c[--few].weight;
    double left = u * kept;
    size_t i = 0;
    while (i + 1 < few && left >= c[i].weight) left -= c[i++].weight;
    return c[i].token;
}

/* Many equals among them; the numbers are not so fine that the order of a sum matters. */
static void the_likeliest_are_those_that_sorting_finds(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    static const lnt_sampling each[] = {
        { .temperature = 1, .top_k = 1, .top_p = 1 },     { .temperature = 1, .top_k = 40, .top_p = 1 },
        { .temperature = 1, .top_k = 2999, .top_p = 1 },  { .temperature = 1, .top_k = 5000, .top_p = 1 },
        { .temperature = 1, .top_p = 0.1 },               { .temperature = 1, .top_p = 0.9 },
        { .temperature = 9, .top_p = 0.999 },             { .temperature = 1, .top_k = 100, .top_p = 0.5 },
        { .temperature = 0.7, .top_p = 0.9, .min_p = 0.2 }
    };
    static double logits[COUNT];
    static lnt_candidate a[COUNT], b[COUNT];
    uint32_t x = 1;
    for (int i = 0; i < COUNT; i++) {
        x = x * 1664525u + 1013904223u;
        logits[i] = (double)(x >> 22) / 128;
    }
    for (size_t e = 0; e < sizeof each / sizeof each[0]; e++)
        for (int i = 0; i < 25; i++) {
            const double u = (i + 0.37) / 25;
            assert_int_equal(lnt_sampler_draw(&each[e], logits, COUNT, u, a),
                             draw_by_sorting(&each[e], logits, COUNT, u, b));
        }
}

static void the_ring_has_the_last_tokens_of_each_sequence(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_recent r;
    static int32_t many[2 * 3000], last[LNT_RECENT_TOKENS];
    assert_ok(ctx, lnt_recent_open(ctx, 2, &r));
    assert_int_equal(lnt_recent_last(&r, 0, 10, last), 0);
    lnt_recent_add(&r, (int32_t[]){ 1, 2, 3, 11, 12, 13 }, 3);
    lnt_recent_add(&r, (int32_t[]){ 4, 14 }, 1);
    assert_int_equal(lnt_recent_last(&r, 1, 10, last), 4);
    assert_int_equal(lnt_recent_last(&r, 1, 2, last), 2);
    assert_true(last[0] + last[1] == 13 + 14);
    for (int i = 0; i < 3000; i++) many[i] = i, many[3000 + i] = 10000 + i;
    lnt_recent_add(&r, many, 3000);
    assert_int_equal(lnt_recent_last(&r, 1, LNT_RECENT_TOKENS, last), LNT_RECENT_TOKENS);
    for (int i = 0; i < LNT_RECENT_TOKENS; i++) assert_int_equal(last[i], 12999 - i);
    lnt_recent_close(ctx, &r);
    lnt_ctx_destroy(ctx);
}

static void samplings_out_of_bounds_are_refused_with_a_sentence(void **state)
{
    (void)state;
    static const double penalties[] = { -1, 0.001, 101, (double)NAN };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_sampling out;
    const lnt_sampling good = { .size = sizeof good, .temperature = 1, .top_p = 1 };
    assert_ok(ctx, lnt_sampling_take(ctx, &good, &out));
    assert_true(out.repetition_penalty == 1 && out.penalty_tokens == LNT_PENALTY_TOKENS && out.min_p == 0);
    for (int i = 0; i < 8; i++) {
        const char *named = i < 4 ? "repetition_penalty is" : i < 6 ? "min_p is" : "penalty_tokens is";
        lnt_sampling s = good;
        if (i < 4) s.repetition_penalty = penalties[i];
        else if (i < 6) s.min_p = i == 4 ? -0.1 : 1.1;
        else s.penalty_tokens = i == 6 ? -1 : LNT_RECENT_TOKENS + 1;
        assert_int_equal(lnt_sampling_take(ctx, &s, &out), LNT_ERR_ARGUMENT);
        assert_non_null(strstr(lnt_ctx_error(ctx), named));
    }
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(min_p_keeps_what_is_likely_enough_beside_the_likeliest),
        cmocka_unit_test(cuts_follow_one_another_and_each_counts_what_the_last_has_left),
        cmocka_unit_test(a_penalty_divides_what_is_above_zero_and_multiplies_the_rest_once),
        cmocka_unit_test(greedy_takes_the_likeliest_after_the_penalty_whatever_the_number),
        cmocka_unit_test(the_likeliest_are_those_that_sorting_finds),
        cmocka_unit_test(the_ring_has_the_last_tokens_of_each_sequence),
        cmocka_unit_test(samplings_out_of_bounds_are_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
