/* test_forward.c - every algorithm, dtype and ISA gives the oracle's answer, for any shape and any
 * layout, and writes nothing but its output. */
#include "../support/case.h"

static const lnt_dtype dtypes[] = { LNT_F32, LNT_F16, LNT_BF16, LNT_F64 };

/* Runs one case and holds it against the oracle; false if the algorithm does not do it. */
static bool matches(lnt_ctx *ctx, const attn_case *c, int algorithm)
{
    const char *name = lnt_algorithm_name(algorithm);
    lnt_plan *plan = case_plan(ctx, c, algorithm);
    if (!plan) return false;
    trial t = trial_new(ctx, c);
    case_forward(ctx, c, name, plan, &t.io);
    const double error = oracle_error(ctx, &c->desc, &t.io, budget(3, 10));
    expect_below(c, name, ctx, "forward against the oracle", error, forward_bound(&c->desc));
    expect_true(c, name, ctx, "something beside the output was written",
                block_guard_intact(&t.out));
    trial_free(&t);
    lnt_plan_destroy(plan);
    return true;
}

static void forward_matches_the_oracle_on_random_cases(void **state)
{
    (void)state;
    coverage cover = { { 0 } };
    for (int isa = 0; lnt_isa_name(isa); isa++) {
        if (!lnt_isa_available(isa)) continue;
        for (int threads = 1; threads <= 3; threads += budget(2, 1)) {
            lnt_ctx *ctx = context_new(threads, lnt_isa_name(isa));
            dice d = { (uint64_t)(100 * isa + threads) };
            for (int a = 0; lnt_algorithm_name(a); a++)
                for (int t = 0; t < COUNT_OF(dtypes); t++)
                    for (int i = 0; i < budget(1, 12); i++) {
                        attn_case c;
                        case_random(&d, lnt_algorithm_mechanism(a), dtypes[t], &c);
                        cover.supported[a] += matches(ctx, &c, a);
                    }
            lnt_ctx_destroy(ctx);
        }
    }
    coverage_check(&cover);
}

/* Lengths 0, 1, prime, and one off a power of two, on both sides. */
static void forward_matches_the_oracle_at_every_nasty_length(void **state)
{
    (void)state;
    static const int64_t lengths[] = { 0,  1,  2,  3,  5,  7,  8,  15,  16,  17,
                                       31, 32, 33, 63, 64, 65, 97, 127, 129, 257 };
    lnt_ctx *ctx = context_new(2, NULL);
    coverage cover = { { 0 } };
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; i < COUNT_OF(lengths); i += budget(3, 1))
            for (int causal = 0; causal < 2; causal++)
                for (int more = -1; more < 2; more++) {
                    if (lengths[i] + more < 0 || (causal && more < 0)) continue;
                    attn_case c = case_make(lnt_algorithm_mechanism(a), 2, 1, lengths[i],
                                            lengths[i] + more, 17, 5);
                    c.desc.causal = causal;
                    cover.supported[a] += matches(ctx, &c, a);
                }
    coverage_check(&cover);
    lnt_ctx_destroy(ctx);
}

static void forward_matches_the_oracle_at_every_nasty_width(void **state)
{
    (void)state;
    static const int64_t dims[] = { 1, 2, 3, 5, 8, 16, 17, 31, 33, 64, 65, 80, 128 };
    lnt_ctx *ctx = context_new(2, NULL);
    coverage cover = { { 0 } };
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; i < COUNT_OF(dims); i++)
            for (int j = i % budget(6, 2); j < COUNT_OF(dims); j += budget(6, 2)) {
                attn_case c = case_make(lnt_algorithm_mechanism(a), 1, 1, 19, 37, dims[i], dims[j]);
                c.desc.causal = (i + j) % 4 < 2;
                cover.supported[a] += matches(ctx, &c, a);
            }
    coverage_check(&cover);
    lnt_ctx_destroy(ctx);
}

static void forward_matches_the_oracle_in_every_layout(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    coverage cover = { { 0 } };
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; i < LAYOUT_COUNT * LAYOUT_OUTPUTS; i += budget(3, 1)) {
            attn_case c = case_make(lnt_algorithm_mechanism(a), 4, 2, 35, 67, 24, 13);
            c.desc.batch = 2;
            c.desc.dtype = dtypes[i % COUNT_OF(dtypes)];
            c.desc.causal = i % 2;
            c.lay_out = (layout)(i % LAYOUT_OUTPUTS);
            c.lay_q = (layout)(i / LAYOUT_OUTPUTS);
            c.lay_k = (layout)((i + i / LAYOUT_OUTPUTS) % LAYOUT_COUNT);
            c.lay_v = (layout)((i + 3) % LAYOUT_COUNT);
            cover.supported[a] += matches(ctx, &c, a);
        }
    coverage_check(&cover);
    lnt_ctx_destroy(ctx);
}

static void every_feature_map_matches_the_oracle(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++) {
        if (lnt_algorithm_mechanism(a) != LNT_LINEAR) continue;
        int supported = 0;
        for (int map = 0; lnt_feature_map_name((lnt_feature_map)map); map++)
            for (int form = map % budget(3, 1); form < 8; form += budget(3, 1)) {
                attn_case c = case_make(LNT_LINEAR, 2, 1, 70, 70 + 9 * (form & 1), 12, 9);
                c.desc.linear.feature_map = (lnt_feature_map)map;
                c.desc.causal = (form & 2) != 0;
                if (form & 4) c.state_tokens = 11;
                if ((form & 4) && c.desc.causal) case_set_decay(&c, 0.9);
                supported += matches(ctx, &c, a);
            }
        assert_true(supported > 0);
    }
    lnt_ctx_destroy(ctx);
}

/* Normal q, k and v: values of both signs, so that little is left of ten thousand, and scores far
 * from where a polynomial is small.  Causal or not, each query sees nearly all keys. */
static void ten_thousand_tokens_lose_no_digits_at_any_number_of_terms(void **state)
{
    (void)state;
    static const int64_t dims[] = { 16, 16, 16, 12, 8, 6, 4, 4 }; /* for 1 to 8 terms */
    const int64_t n = budget(700, 10000);
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int p = 0; p < COUNT_OF(dims); p++)
            for (int causal = 0; causal < 2; causal++) {
                if (lnt_algorithm_mechanism(a) != LNT_TAYLOR) continue;
                attn_case c = case_make(LNT_TAYLOR, 1, 1, 70, n, dims[p], 8);
                c.desc.taylor.terms = p + 1;
                c.desc.causal = causal;
                lnt_plan *plan = case_plan(ctx, &c, a);
                assert_non_null(plan);
                trial t = trial_new(ctx, &c);
                assert_ok(ctx, lnt_tensor_fill_normal(ctx, &t.q.t, 1, 1));
                assert_ok(ctx, lnt_tensor_fill_normal(ctx, &t.k.t, 2, 1));
                case_forward(ctx, &c, lnt_algorithm_name(a), plan, &t.io);
                expect_below(&c, lnt_algorithm_name(a), ctx, "against the oracle",
                             oracle_error(ctx, &c.desc, &t.io, budget(5, 20)), 5e-6);
                trial_free(&t);
                lnt_plan_destroy(plan);
            }
    lnt_ctx_destroy(ctx);
}

/* The largest plan a caller makes must serve every smaller batch and length. */
static void a_plan_serves_smaller_tensors_than_it_was_made_for(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int causal = 0; causal < 2; causal++) {
            attn_case c = case_make(lnt_algorithm_mechanism(a), 4, 2, 150, 200, 16, 8);
            c.desc.causal = causal;
            c.desc.batch = 3;
            lnt_plan *plan = case_plan(ctx, &c, a);
            if (!plan) continue;
            for (int64_t n = 0; n < 150; n += budget(73, 29)) {
                attn_case less = c;
                less.desc.length_q = n;
                less.desc.length_k = n + n % 3;
                less.desc.batch = 1 + n % 3;
                trial t = trial_new(ctx, &less);
                assert_ok(ctx, lnt_plan_forward(plan, &t.io));
                expect_below(&less, lnt_algorithm_name(a), ctx, "a smaller run",
                             oracle_error(ctx, &less.desc, &t.io, 6), 2e-6);
                trial_free(&t);
            }
            lnt_plan_destroy(plan);
        }
    lnt_ctx_destroy(ctx);
}

static void nothing_to_do_is_done(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int empty = 0; empty < 4; empty++) {
            attn_case c = case_make(lnt_algorithm_mechanism(a), 2, 1, 3, 3, 4, 4);
            if (empty == 0) c.desc.batch = 0;
            if (empty == 1) c.desc.heads = c.desc.kv_heads = 0;
            if (empty == 2) c.desc.length_q = 0;
            if (empty == 3) c.desc.length_q = c.desc.length_k = 0;
            expect_true(&c, lnt_algorithm_name(a), ctx, "refused", matches(ctx, &c, a));
        }
    lnt_ctx_destroy(ctx);
}

/* It is done at once, however many sequences have nothing. */
static void no_tokens_of_many_sequences_take_no_time(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    const int64_t many = INT64_C(1) << 40;
    for (int a = 0; lnt_algorithm_name(a); a++) {
        attn_case c = case_make(lnt_algorithm_mechanism(a), 1, 1, 0, 0, 4, 4);
        c.desc.batch = many;
        c.desc.causal = c.desc.mechanism == LNT_HYBRID;
        lnt_plan *plan = case_plan(ctx, &c, a);
        if (!plan) continue;
        lnt_attn_io io = { .size = sizeof io, .q = lnt_tensor_bhnd(NULL, LNT_F32, many, 1, 0, 4) };
        io.k = io.v = io.out = io.q;
        assert_ok(ctx, lnt_plan_forward(plan, &io));
        lnt_plan_destroy(plan);
    }
    const lnt_tensor none = lnt_tensor_bhnd(NULL, LNT_F32, many, 1, 1, 0);
    assert_ok(ctx, lnt_tensor_fill_normal(ctx, &none, 1, 1));
    assert_int_equal(lnt_tensor_fill_normal(NULL, &none, 1, 1), LNT_ERR_ARGUMENT);
    lnt_ctx_destroy(ctx);
}

/* Relative to what one algorithm gives, so this holds at lengths the oracle is too slow for. */
static void all_algorithms_of_one_mechanism_agree(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int mechanism = 0; lnt_mechanism_name((lnt_mechanism)mechanism); mechanism++)
        for (int causal = 0; causal < 2; causal++) {
            attn_case c = case_make((lnt_mechanism)mechanism, 2, 1, 1100, 1203, 40, 24);
            c.desc.causal = causal;
            if (causal && c.desc.mechanism == LNT_CUR) continue; /* refused by all */
            if (!causal && c.desc.mechanism == LNT_HYBRID) continue;
            trial t = trial_new(ctx, &c);
            block first = block_new(LNT_F32, LAYOUT_BHND, 1, 2, 1100, 24);
            int ran = 0;
            for (int a = 0; lnt_algorithm_name(a); a++) {
                lnt_plan *plan = NULL;
                if (lnt_algorithm_mechanism(a) == c.desc.mechanism) plan = case_plan(ctx, &c, a);
                if (!plan) continue;
                assert_ok(ctx, lnt_plan_forward(plan, &t.io));
                if (ran++ == 0) tensor_copy(&first.t, &t.out.t);
                expect_below(&c, lnt_algorithm_name(a), ctx, "two algorithms",
                             tensor_error(&t.out.t, &first.t), 2e-6);
                lnt_plan_destroy(plan);
            }
            assert_true(ran > 0);
            block_free(&first);
            trial_free(&t);
        }
    lnt_ctx_destroy(ctx);
}

static void every_isa_agrees_with_scalar(void **state)
{
    (void)state;
    dice d = { 77 };
    for (int isa = 1; lnt_isa_name(isa); isa++) {
        if (!lnt_isa_available(isa)) continue;
        lnt_ctx *scalar = context_new(2, "scalar"), *ctx = context_new(2, lnt_isa_name(isa));
        assert_string_equal(lnt_ctx_isa(ctx), lnt_isa_name(isa));
        for (int a = 0; lnt_algorithm_name(a); a++)
            for (int i = 0; i < budget(2, 20); i++) {
                attn_case c;
                case_random(&d, lnt_algorithm_mechanism(a), i % 2 ? LNT_F32 : LNT_F64, &c);
                c.state_tokens = 0; /* a state belongs to one context */
                lnt_plan *plan = case_plan(ctx, &c, a), *other = case_plan(scalar, &c, a);
                expect_true(&c, lnt_algorithm_name(a), ctx, "supported on one ISA only",
                            !plan == !other);
                if (!plan) continue;
                trial t = trial_new(ctx, &c), u = trial_new(scalar, &c);
                assert_ok(ctx, lnt_plan_forward(plan, &t.io));
                assert_ok(scalar, lnt_plan_forward(other, &u.io));
                expect_below(&c, lnt_algorithm_name(a), ctx, "against the scalar ISA",
                             tensor_error(&t.out.t, &u.out.t), forward_bound(&c.desc));
                trial_free(&t);
                trial_free(&u);
                lnt_plan_destroy(plan);
                lnt_plan_destroy(other);
            }
        lnt_ctx_destroy(ctx);
        lnt_ctx_destroy(scalar);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_matches_the_oracle_on_random_cases),
        cmocka_unit_test(forward_matches_the_oracle_at_every_nasty_length),
        cmocka_unit_test(forward_matches_the_oracle_at_every_nasty_width),
        cmocka_unit_test(forward_matches_the_oracle_in_every_layout),
        cmocka_unit_test(every_feature_map_matches_the_oracle),
        cmocka_unit_test(ten_thousand_tokens_lose_no_digits_at_any_number_of_terms),
        cmocka_unit_test(a_plan_serves_smaller_tensors_than_it_was_made_for),
        cmocka_unit_test(nothing_to_do_is_done),
        cmocka_unit_test(no_tokens_of_many_sequences_take_no_time),
        cmocka_unit_test(all_algorithms_of_one_mechanism_agree),
        cmocka_unit_test(every_isa_agrees_with_scalar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
