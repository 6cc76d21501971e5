/* test_landmarks.c - which tokens are the landmarks of CUR attention. */
#include <math.h>

#include "../support/cur_case.h"

static double score(const lnt_tensor *x, lnt_select select, int64_t h, int64_t n, int64_t column)
{
    double sum = 0;
    for (int64_t e = 0; e < x->shape[3]; e++) {
        const double element = lnt_tensor_get(x, 0, h, n, e);
        sum += select == LNT_SELECT_EMBED ? (e == column) * element
               : select == LNT_SELECT_ABS ? fabs(element)
                                          : element;
    }
    return sum;
}

/* Holds that no token outside has a higher score, or the same and a lower index. */
static void expect_highest(const attn_case *c, const lnt_tensor *one, int64_t h,
                           const lnt_tensor *two, int64_t kv, const int64_t *token)
{
    double value[N];
    bool in[N] = { false };
    for (int64_t n = 0; n < N; n++)
        value[n] = score(one, c->desc.cur.select, h, n, 3) +
                   (two ? score(two, c->desc.cur.select, kv, n, 3) : 0);
    for (int64_t i = 0; i < M; i++) in[token[i]] = true;
    for (int64_t n = 0; n < N; n++)
        for (int64_t i = 0; i < M && !in[n]; i++)
            assert_true(value[token[i]] > value[n] ||
                        (value[token[i]] == value[n] && token[i] < n));
}

static void the_highest_scores_are_chosen_and_ties_go_to_the_first(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    static const lnt_select kinds[] = { LNT_SELECT_SUM, LNT_SELECT_ABS, LNT_SELECT_EMBED };
    for (int k = 0; k < COUNT_OF(kinds); k++)
        for (int separate = 0; separate < 2; separate++)
            for (int ties = 0; ties < 3; ties++) {
                attn_case c = cur_case(N);
                c.desc.cur.select = kinds[k];
                c.desc.cur.embed_column = 3;
                c.desc.cur.separate_indices = separate;
                trial t = trial_new(ctx, &c);
                if (ties) /* few different rows; of 2, the highest late and fewer than landmarks */
                    for (int64_t i = 0; i < tensor_elements(&t.q.t); i++)
                        tensor_put(&t.q.t, i, (double)(ties == 1 ? i / D % 3 : i / D % 50 / 49 + 1));
                if (ties) tensor_fill(&t.k.t, 1);
                for (int64_t h = 0; h < 4; h++) {
                    int64_t queries[M], keys[M];
                    assert_int_equal(cur_landmarks(ctx, &c, &t, 0, h, queries, keys), M);
                    for (int i = 1; i < M; i++)
                        assert_true(queries[i] > queries[i - 1] && keys[i] > keys[i - 1]);
                    expect_highest(&c, &t.q.t, h, separate ? NULL : &t.k.t, h / 2, queries);
                    if (separate) expect_highest(&c, &t.k.t, h / 2, NULL, 0, keys);
                    else assert_memory_equal(queries, keys, sizeof keys);
                }
                trial_free(&t);
            }
    lnt_ctx_destroy(ctx);
}

static void steps_reach_over_the_whole_sequence_and_pins_are_always_in(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c = cur_case(N);
    int64_t queries[M], keys[M], pin[] = { 149, 0, 31 };
    trial t = trial_new(ctx, &c);
    cur_landmarks(ctx, &c, &t, 0, 0, queries, keys);
    for (int i = 0; i < M; i++) assert_int_equal(queries[i], i * N / M);
    c.desc.cur.pin = pin;
    c.desc.cur.pins = 3; /* 149 takes the place of 135, 31 that of 30 */
    cur_landmarks(ctx, &c, &t, 0, 0, queries, keys);
    const int64_t want[M] = { 0, 15, 31, 45, 60, 75, 90, 105, 120, 149 };
    assert_memory_equal(queries, want, sizeof want);
    assert_memory_equal(keys, want, sizeof want);
    for (int select = 0; lnt_select_name((lnt_select)select); select++) {
        if (select == LNT_SELECT_MEAN) continue;
        c.desc.cur.select = (lnt_select)select;
        cur_landmarks(ctx, &c, &t, 0, 3, queries, keys);
        int found = 0;
        for (int i = 0; i < M; i++)
            for (int p = 0; p < 3; p++) found += queries[i] == pin[p];
        assert_int_equal(found, 3);
    }
    trial_free(&t);
    lnt_ctx_destroy(ctx);
}

/* As many landmarks, and the definition, on either side of where a pinned token would be. */
static void a_pin_that_a_shorter_sequence_does_not_have_is_left_out(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    const int64_t pin[] = { 77, 2 };
    for (int64_t n = 77; n <= 78; n++)
        for (int select = 0; lnt_select_name((lnt_select)select); select++) {
            attn_case c = cur_case(N), less = cur_case(n);
            int64_t queries[M], keys[M];
            if (select == LNT_SELECT_MEAN) continue;
            c.desc.cur.select = (lnt_select)select;
            c.desc.cur.pin = pin;
            c.desc.cur.pins = 2;
            trial t = trial_new(ctx, &less);
            assert_int_equal(cur_landmarks(ctx, &c, &t, 0, 0, queries, keys), M);
            bool first = false, last = false;
            for (int i = 0; i < M; i++) {
                first = first || queries[i] == 2;
                last = last || queries[i] == 77;
            }
            assert_true(first && last == (n == 78));
            cur_forward(ctx, &c, "cur/flash", &t);
            expect_below(&less, "cur/flash", ctx, "a shorter sequence",
                         oracle_error(ctx, &c.desc, &t.io, 6), 2e-6);
            trial_free(&t);
        }
    lnt_ctx_destroy(ctx);
}

/* Each of 20 tokens is among 5 in a quarter of 4000 draws: 1000 +- 27, of which five are allowed */
static void random_landmarks_are_uniform_and_the_seed_fixes_them(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c = case_make(LNT_CUR, 1, 1, 20, 20, 2, 2);
    c.desc.cur.landmarks = 5;
    c.desc.cur.select = LNT_SELECT_RANDOM;
    trial t = trial_new(ctx, &c);
    int64_t counts[20] = { 0 }, queries[5], keys[5], again[5];
    for (c.desc.seed = 0; c.desc.seed < 4000; c.desc.seed++) {
        cur_landmarks(ctx, &c, &t, 0, 0, queries, keys);
        cur_landmarks(ctx, &c, &t, 0, 0, again, NULL);
        assert_memory_equal(queries, keys, sizeof keys);
        assert_memory_equal(queries, again, sizeof again);
        for (int i = 0; i < 5; i++) counts[queries[i]]++;
    }
    for (int n = 0; n < 20; n++) assert_true(counts[n] > 865 && counts[n] < 1135);
    trial_free(&t);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_highest_scores_are_chosen_and_ties_go_to_the_first),
        cmocka_unit_test(steps_reach_over_the_whole_sequence_and_pins_are_always_in),
        cmocka_unit_test(a_pin_that_a_shorter_sequence_does_not_have_is_left_out),
        cmocka_unit_test(random_landmarks_are_uniform_and_the_seed_fixes_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
