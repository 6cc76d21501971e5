/* test_state.c - what can be done with a state: merge, fork, reset, remove, save, load. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/stream.h"

static void merge_is_associative_and_equals_the_concatenation(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    dice d = { 12 };
    for (int f = 0; f < STREAM_HYBRID; f++) /* hybrid refuses it: see test_hybrid.c */
        for (int i = 0; i < budget(1, 4); i++) {
            attn_case c;
            stream_form(&c, f, 60, i % 2 ? LNT_F64 : LNT_F32);
            trial t = trial_new(ctx, &c);
            const int64_t x = dice_range(&d, 0, 60), y = dice_range(&d, x, 60);
            const int64_t cut[] = { 0, x, y, 60 };
            lnt_state *left[3], *right[3], *whole = stream_state(ctx, &c);
            stream_append(ctx, whole, &t, 0, 60);
            for (int p = 0; p < 3; p++) {
                left[p] = stream_state(ctx, &c);
                stream_append(ctx, left[p], &t, cut[p], cut[p + 1] - cut[p]);
                assert_ok(ctx, lnt_state_fork(left[p], &right[p]));
            }
            assert_ok(ctx, lnt_state_merge(left[0], left[1])); /* (a b) c */
            assert_ok(ctx, lnt_state_merge(left[0], left[2]));
            assert_ok(ctx, lnt_state_merge(right[1], right[2])); /* a (b c) */
            assert_ok(ctx, lnt_state_merge(right[0], right[1]));
            const double bound = i % 2 ? 1e-14 : 1e-6;
            expect_same_state(&c, ctx, "(ab)c against abc", left[0], whole, bound);
            expect_same_state(&c, ctx, "a(bc) against abc", right[0], whole, bound);
            for (int p = 0; p < 3; p++) {
                lnt_state_destroy(left[p]);
                lnt_state_destroy(right[p]);
            }
            lnt_state_destroy(whole);
            trial_free(&t);
        }
    lnt_ctx_destroy(ctx);
}

static void a_fork_is_independent(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int f = 0; f < STREAM_FORMS; f++) {
        attn_case c;
        stream_form(&c, f, 30, LNT_F32);
        trial t = trial_new(ctx, &c);
        lnt_state *s = stream_state(ctx, &c), *same = stream_state(ctx, &c), *fork;
        stream_append(ctx, s, &t, 0, 20);
        stream_append(ctx, same, &t, 0, 20);
        assert_ok(ctx, lnt_state_fork(s, &fork));
        expect_same_answers(ctx, &c, fork, same, &t);
        stream_append(ctx, fork, &t, 20, 10);
        expect_same_answers(ctx, &c, s, same, &t); /* the fork's tokens did not come in */
        stream_append(ctx, s, &t, 20, 10);
        expect_same_answers(ctx, &c, s, fork, &t);
        lnt_state_destroy(s);
        assert_ok(ctx, lnt_state_reset(same, -1));
        stream_append(ctx, same, &t, 0, 30); /* in one piece: the same to rounding */
        expect_same_state(&c, ctx, "a fork that outlives its parent", fork, same, 1e-6);
        lnt_state_destroy(fork);
        lnt_state_destroy(same);
        trial_free(&t);
    }
    lnt_ctx_destroy(ctx);
}

/* s holds 0 and 30 tokens; gets 12 more.  Sequence by sequence it must be as if alone. */
static void check_uneven_lengths(lnt_ctx *ctx, const attn_case *c, lnt_state *s, const trial *t)
{
    block got = block_new(LNT_F32, LAYOUT_BHND, STREAM_BATCH, STREAM_HEADS, 30, STREAM_VALUE);
    for (int64_t b = 0; b < STREAM_BATCH; b++) {
        lnt_state *alone = stream_state(ctx, c), *both;
        if (b == 1) stream_append(ctx, alone, t, 0, 30);
        stream_append(ctx, alone, t, 0, 12);
        assert_ok(ctx, lnt_state_fork(s, &both));
        stream_append(ctx, both, t, 0, 12);
        assert_int_equal(lnt_state_tokens(both, b), b ? 42 : 12);
        assert_ok(ctx, lnt_state_query(both, &t->q.t, &got.t));
        assert_ok(ctx, lnt_state_query(alone, &t->q.t, &t->out.t));
        const int64_t half = tensor_elements(&got.t) / 2;
        for (int64_t i = b * half; i < (b + 1) * half; i++)
            expect_true(c, NULL, ctx, "a sequence is not as if alone",
                        tensor_at(&got.t, i) == tensor_at(&t->out.t, i));
        lnt_state_destroy(alone);
        lnt_state_destroy(both);
    }
    block_free(&got);
}

static void reset_of_one_sequence_leaves_the_others(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int f = 0; f < STREAM_FORMS; f++) {
        attn_case c;
        stream_form(&c, f, 30, LNT_F32);
        trial t = trial_new(ctx, &c);
        lnt_state *s = stream_state(ctx, &c);
        block before =
            block_new(LNT_F32, LAYOUT_BHND, STREAM_BATCH, STREAM_HEADS, 30, STREAM_VALUE);
        stream_append(ctx, s, &t, 0, 30);
        assert_ok(ctx, lnt_state_query(s, &t.q.t, &before.t));
        assert_ok(ctx, lnt_state_reset(s, 0));
        assert_int_equal(lnt_state_tokens(s, 0), 0);
        assert_int_equal(lnt_state_tokens(s, 1), 30);
        assert_ok(ctx, lnt_state_query(s, &t.q.t, &t.out.t));
        const int64_t half = tensor_elements(&t.out.t) / 2;
        for (int64_t i = 0; i < half; i++) {
            assert_true(tensor_at(&t.out.t, i) == 0);
            assert_true(tensor_at(&t.out.t, half + i) == tensor_at(&before.t, half + i));
        }
        check_uneven_lengths(ctx, &c, s, &t);
        assert_refused(ctx, lnt_state_reset(s, STREAM_BATCH), LNT_ERR_ARGUMENT, "2");
        assert_refused(ctx, lnt_state_reset(s, -2), LNT_ERR_ARGUMENT, "-2");
        block_free(&before);
        lnt_state_destroy(s);
        trial_free(&t);
    }
    lnt_ctx_destroy(ctx);
}

static void remove_undoes_append(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    static const int64_t counts[] = { 0, 1, 3, 13, 39 };
    int removed = 0;
    for (int f = 0; f < STREAM_FORMS; f++)
        for (int i = 0; i < COUNT_OF(counts); i++) {
            const int64_t n = counts[i];
            attn_case c;
            stream_form(&c, f, 40, f % 2 ? LNT_F64 : LNT_F32);
            trial t = trial_new(ctx, &c);
            lnt_state *s = stream_state(ctx, &c), *want = stream_state(ctx, &c);
            stream_append(ctx, want, &t, 0, 40 - n);
            stream_append(ctx, s, &t, 0, 40 - n);
            stream_append(ctx, s, &t, 40 - n, n);
            const lnt_tensor k = tensor_rows(&t.k.t, 40 - n, n), v = tensor_rows(&t.v.t, 40 - n, n);
            const lnt_status status = lnt_state_remove(s, &k, &v);
            if (status == LNT_OK) {
                removed++;
                expect_same_state(&c, ctx, "append and remove", s, want,
                                  f % 2 ? 1e-12 : n == 39 ? 1e-4 : 1e-5);
            } else { /* a cache, a sum that fades, and a window may say that they cannot */
                assert_true(f == 0 || c.desc.decay != NULL || f >= STREAM_HYBRID);
                assert_int_equal(status, LNT_ERR_UNSUPPORTED);
                assert_true(strlen(lnt_ctx_error(ctx)) > 0);
            }
            lnt_state_destroy(s);
            lnt_state_destroy(want);
            trial_free(&t);
        }
    assert_true(removed >= 6 * 5); /* every map without decay */
    lnt_ctx_destroy(ctx);
}

static void expect_as_new(const attn_case *c, lnt_ctx *ctx, lnt_state *s, int64_t b, const trial *t)
{
    const char *name;
    lnt_tensor view;
    assert_int_equal(lnt_state_tokens(s, b), 0);
    for (int i = 0; lnt_state_tensor(s, i, &name, &view) == LNT_OK; i++) {
        const int64_t share = tensor_elements(&view) / STREAM_BATCH;
        for (int64_t e = b * share; e < (b + 1) * share; e++)
            expect_true(c, NULL, ctx, "something is left of tokens removed", tensor_at(&view, e) == 0);
    }
    assert_ok(ctx, lnt_state_query(s, &t->q.t, &t->out.t));
    const int64_t half = tensor_elements(&t->out.t) / STREAM_BATCH;
    for (int64_t e = b * half; e < (b + 1) * half; e++)
        expect_true(c, NULL, ctx, "an answer without a token", tensor_at(&t->out.t, e) == 0);
}

static void a_sequence_whose_tokens_are_all_removed_is_as_new(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    int removed = 0;
    for (int f = 1; f < STREAM_HYBRID; f++) {
        attn_case c;
        stream_form(&c, f, 40, f % 2 ? LNT_F64 : LNT_F32);
        if (c.desc.decay) continue;
        trial t = trial_new(ctx, &c);
        lnt_state *s = stream_state(ctx, &c);
        stream_append(ctx, s, &t, 0, 40);
        assert_ok(ctx, lnt_state_reset(s, 0));
        for (int64_t n = 0; n < 40; n++) stream_append(ctx, s, &t, n, 1);
        assert_ok(ctx, lnt_state_remove(s, &t.k.t, &t.v.t)); /* of 40 and of 80 */
        expect_as_new(&c, ctx, s, 0, &t);
        assert_int_equal(lnt_state_tokens(s, 1), 40);
        assert_true(tensor_at(&t.out.t, tensor_elements(&t.out.t) - 1) != 0);
        assert_ok(ctx, lnt_state_reset(s, 0));
        stream_append(ctx, s, &t, 0, 40);
        assert_ok(ctx, lnt_state_remove(s, &t.k.t, &t.v.t));
        const lnt_tensor k = tensor_rows(&t.k.t, 0, 0), v = tensor_rows(&t.v.t, 0, 0);
        assert_ok(ctx, lnt_state_remove(s, &k, &v)); /* nothing, of nothing */
        expect_as_new(&c, ctx, s, 0, &t);
        removed++;
        lnt_state_destroy(s);
        trial_free(&t);
    }
    assert_true(removed >= 6);
    lnt_ctx_destroy(ctx);
}

static void removing_more_tokens_than_there_are_is_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c;
    stream_form(&c, 1, 8, LNT_F32);
    trial t = trial_new(ctx, &c);
    lnt_state *s = stream_state(ctx, &c), *want = stream_state(ctx, &c);
    stream_append(ctx, s, &t, 0, 7);
    stream_append(ctx, want, &t, 0, 7);
    assert_refused(ctx, lnt_state_remove(s, &t.k.t, &t.v.t), LNT_ERR_ARGUMENT, "7");
    expect_same_answers(ctx, &c, s, want, &t);
    lnt_state_destroy(s);
    lnt_state_destroy(want);
    trial_free(&t);
    lnt_ctx_destroy(ctx);
}

static void save_and_load_give_the_same_bits_and_continue_identically(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    static const lnt_dtype dtypes[] = { LNT_F32, LNT_F64, LNT_BF16, LNT_F16 };
    static const char path[] = "state.safetensors";
    for (int f = 0; f < STREAM_FORMS; f++) {
        attn_case c;
        stream_form(&c, f, 40, dtypes[f % 4]);
        trial t = trial_new(ctx, &c);
        lnt_state *s = stream_state(ctx, &c), *loaded;
        stream_append(ctx, s, &t, 0, 25);
        assert_ok(ctx, lnt_state_reset(s, 0)); /* sequences of different length */
        stream_append(ctx, s, &t, 25, 5);
        stream_append(ctx, s, &t, 30, 3); /* few: a state may keep them back, a file must not */
        assert_ok(ctx, lnt_state_save(s, path));
        assert_ok(ctx, lnt_state_load(ctx, &c.desc, path, &loaded));
        assert_int_equal(lnt_state_tokens(loaded, 0), 8);
        assert_int_equal(lnt_state_tokens(loaded, 1), 33);
        expect_same_answers(ctx, &c, s, loaded, &t);
        stream_append(ctx, s, &t, 33, 7);
        stream_append(ctx, loaded, &t, 33, 7);
        expect_same_answers(ctx, &c, s, loaded, &t);
        lnt_state_destroy(s);
        lnt_state_destroy(loaded);
        trial_free(&t);
    }
    unlink(path);
    lnt_ctx_destroy(ctx);
}

/* A seed has 64 bits: above half of them it is not a negative number. */
static void a_file_tells_any_seed_as_it_was_given(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    static const char path[] = "state.safetensors";
    attn_case c;
    stream_form(&c, 1 + 2 * LNT_MAP_POSITIVE, 8, LNT_F32);
    c.desc.seed = UINT64_MAX;
    trial t = trial_new(ctx, &c);
    lnt_state *s = stream_state(ctx, &c), *loaded;
    stream_append(ctx, s, &t, 0, 8);
    assert_ok(ctx, lnt_state_save(s, path));
    assert_ok(ctx, lnt_state_load(ctx, &c.desc, path, &loaded));
    expect_same_answers(ctx, &c, s, loaded, &t);
    lnt_state_destroy(loaded);
    c.desc.seed = 1;
    assert_refused(ctx, lnt_state_load(ctx, &c.desc, path, &loaded), LNT_ERR_FORMAT,
                   "seed is '18446744073709551615', expected '1'");
    lnt_state_destroy(s);
    trial_free(&t);
    unlink(path);
    lnt_ctx_destroy(ctx);
}

/* A cache that has grown is elsewhere, and sums may have kept tokens back until they are asked for. */
static void a_view_asked_for_again_shows_every_token(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int f = 0; f < STREAM_FORMS; f++) {
        attn_case c;
        stream_form(&c, f, 40, LNT_F64);
        trial t = trial_new(ctx, &c);
        c.desc.length_q = c.desc.length_k = 1; /* room for one token: a cache must grow */
        lnt_state *s = stream_state(ctx, &c);
        for (int64_t n = 0; n < 40; n += 3) {
            const int64_t count = n < 39 ? 3 : 1;
            lnt_state *whole = stream_state(ctx, &c);
            stream_append(ctx, s, &t, n, count);
            stream_append(ctx, whole, &t, 0, n + count);
            for (int i = 0; i < 2; i++) {
                lnt_tensor seen, want;
                assert_ok(ctx, lnt_state_tensor(s, i, NULL, &seen));
                assert_ok(ctx, lnt_state_tensor(whole, i, NULL, &want));
                const int64_t window = c.desc.softmax.window, tokens = n + count;
                if (c.desc.mechanism == LNT_SOFTMAX) /* of the room */
                    seen.shape[2] = want.shape[2] = window && window < tokens ? window : tokens;
                expect_below(&c, NULL, ctx, "a view", tensor_error(&seen, &want), 1e-13);
            }
            lnt_state_destroy(whole);
        }
        lnt_state_destroy(s);
        trial_free(&t);
    }
    lnt_ctx_destroy(ctx);
}

/* Widths without padding: 16 features and values. */
static void compensated_sums_are_twice_as_many_and_keep_room_for_16_tokens(void **state)
{
    (void)state;
    enum { D = 16, TOKENS = 16, SUMS = D * D + D, ROOM = TOKENS * (D + D) };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int taylor = 0; taylor < 2; taylor++)
        for (int compensated = 0; compensated < 2; compensated++) {
            attn_case c = case_make(taylor ? LNT_TAYLOR : LNT_LINEAR, 4, 2, 8, 8, taylor ? 15 : D, D);
            c.desc.taylor.terms = 2; /* taylor: a constant and 15 powers */
            c.desc.compensated = compensated;
            lnt_state *s = stream_state(ctx, &c);
            const int numbers = (1 + compensated) * SUMS + (taylor || compensated ? ROOM : 0);
            assert_int_equal(lnt_state_bytes(s), 2 * (size_t)numbers * sizeof(float));
            lnt_state_destroy(s);
        }
    lnt_ctx_destroy(ctx);
}

static void the_tensors_of_a_state_are_named_and_shaped(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int f = 0; f < 2; f++) {
        attn_case c;
        stream_form(&c, f, 10, LNT_F32);
        lnt_state *s = stream_state(ctx, &c);
        lnt_tensor x;
        const char *name;
        assert_ok(ctx, lnt_state_tensor(s, 0, &name, &x));
        assert_string_equal(name, f ? "s" : "k");
        assert_int_equal(x.shape[0], STREAM_BATCH);
        assert_int_equal(x.shape[1], STREAM_KV_HEADS);
        assert_int_equal(x.shape[2], f ? STREAM_DIM : 10);
        assert_int_equal(x.shape[3], f ? STREAM_VALUE : STREAM_DIM);
        assert_ok(ctx, lnt_state_tensor(s, 1, &name, &x));
        assert_string_equal(name, f ? "z" : "v");
        assert_int_equal(x.shape[2], f ? 1 : 10);
        assert_int_equal(x.shape[3], f ? STREAM_DIM : STREAM_VALUE);
        assert_int_equal(lnt_state_tensor(s, 2, &name, &x), LNT_ERR_ARGUMENT);
        assert_int_equal(lnt_state_tensor(s, -1, &name, &x), LNT_ERR_ARGUMENT);
        lnt_state_destroy(s);
    }
    lnt_ctx_destroy(ctx);
}

static void tensors_that_do_not_fit_a_state_are_refused_and_change_nothing(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int f = 0; f < 2; f++) {
        attn_case c, other;
        stream_form(&c, f, 10, LNT_F32);
        stream_form(&other, f, 10, LNT_F64);
        trial t = trial_new(ctx, &c), u = trial_new(ctx, &other);
        lnt_state *s = stream_state(ctx, &c), *want = stream_state(ctx, &c), *wide;
        stream_append(ctx, s, &t, 0, 10);
        stream_append(ctx, want, &t, 0, 10);
        const lnt_tensor fewer = tensor_rows(&t.v.t, 0, 9);
        assert_refused(ctx, lnt_state_append(s, &t.k.t, &fewer), LNT_ERR_SHAPE, "v");
        assert_refused(ctx, lnt_state_append(s, &t.q.t, &t.v.t), LNT_ERR_SHAPE, "k");
        assert_refused(ctx, lnt_state_append(s, &u.k.t, &u.v.t), LNT_ERR_DTYPE, "k");
        assert_refused(ctx, lnt_state_query(s, &t.k.t, &t.out.t), LNT_ERR_SHAPE, "q");
        assert_refused(ctx, lnt_state_append(s, NULL, &t.v.t), LNT_ERR_ARGUMENT, "k");
        other = c;
        other.desc.dim_value = STREAM_VALUE + 1;
        assert_ok(ctx, lnt_state_create(ctx, &other.desc, &wide));
        const lnt_status status = lnt_state_merge(s, wide);
        assert_true(status == LNT_ERR_SHAPE || status == LNT_ERR_ARGUMENT);
        expect_same_answers(ctx, &c, s, want, &t);
        lnt_state_destroy(wide);
        lnt_state_destroy(s);
        lnt_state_destroy(want);
        trial_free(&t);
        trial_free(&u);
    }
    lnt_ctx_destroy(ctx);
}

static void what_is_not_given_is_named(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c;
    stream_form(&c, STREAM_LINEAR, 8, LNT_F32);
    lnt_state *s = stream_state(ctx, &c);
    assert_refused(ctx, lnt_state_fork(s, NULL), LNT_ERR_ARGUMENT, "out is NULL");
    assert_refused(ctx, lnt_state_merge(s, NULL), LNT_ERR_ARGUMENT, "src is NULL");
    assert_refused(ctx, lnt_state_copy(s, 0, NULL, 0), LNT_ERR_ARGUMENT, "from is NULL");
    assert_refused(ctx, lnt_state_save(s, NULL), LNT_ERR_ARGUMENT, "path is NULL");
    lnt_state_destroy(s);
    lnt_ctx_destroy(ctx);
}

/* Sums of different features have the same shape and no meaning. */
static void states_of_different_problems_do_not_merge(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c, other;
    stream_form(&c, 1 + 2 * LNT_MAP_POSITIVE, 8, LNT_F32);
    const double decay[STREAM_KV_HEADS] = { 0.5, 0.5 };
    for (int change = 0; change < 4; change++) {
        other = c;
        if (change == 0) other.desc.linear.feature_map = LNT_MAP_FOURIER;
        if (change == 1) other.desc.seed++;
        if (change == 2) other.desc.decay = decay;
        if (change == 3) other.desc.mechanism = LNT_SOFTMAX;
        lnt_state *s = stream_state(ctx, &c), *x = stream_state(ctx, &other);
        static const char *const words[] = { "feature_map", "seed", "decay", "softmax" };
        const lnt_status status = lnt_state_merge(s, x);
        assert_refused(ctx, status, status == LNT_OK ? LNT_ERR_ARGUMENT : status, words[change]);
        lnt_state_destroy(s);
        lnt_state_destroy(x);
    }
    lnt_ctx_destroy(ctx);
}

/* The plan of the algorithm that a state says it ran, on the same tokens. */
static lnt_plan *plan_named(lnt_ctx *ctx, attn_case *c, const char *name)
{
    lnt_plan *plan;
    expect_true(c, name, ctx, "a step tells no algorithm", name != NULL);
    c->desc.algorithm = name;
    assert_ok(ctx, lnt_plan_create(ctx, &c->desc, &plan));
    return plan;
}

static void a_state_names_the_algorithm_that_gives_its_bits(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    static const int64_t tokens[] = { 1, 4, 40 };
    for (int f = 0; f < STREAM_FORMS; f++) {
        const char *first = NULL, *last = NULL;
        for (int i = 0; i < COUNT_OF(tokens); i++) {
            attn_case c;
            stream_form(&c, f, tokens[i], LNT_F32);
            trial t = trial_new(ctx, &c), same = trial_new(ctx, &c);
            lnt_state *s = stream_state(ctx, &c);
            assert_null(lnt_state_algorithm(s));
            assert_ok(ctx, lnt_state_step(s, &t.q.t, &t.k.t, &t.v.t, &t.out.t));
            last = lnt_state_algorithm(s);
            lnt_plan *plan = plan_named(ctx, &c, last);
            assert_ok(ctx, lnt_plan_forward(plan, &same.io));
            expect_true(&c, last, ctx, "other bits than the algorithm named",
                        block_same_bits(&t.out, &same.out));
            if (i == 0) first = last;
            lnt_plan_destroy(plan);
            lnt_state_destroy(s);
            trial_free(&t);
            trial_free(&same);
        }
        assert_string_not_equal(first, last); /* one token, and many at once */
    }
    assert_null(lnt_state_algorithm(NULL));
    lnt_ctx_destroy(ctx);
}

/* Tokens of no heads are counted like others, and take no memory. */
static void tokens_beyond_what_is_counted_are_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int f = 0; f < STREAM_FORMS; f++) {
        attn_case c;
        stream_form(&c, f, 4, LNT_F32);
        if (c.desc.mechanism == LNT_SOFTMAX) continue; /* a cache has room for no such number */
        c.desc.batch = 1;
        c.desc.heads = c.desc.kv_heads = 0;
        lnt_state *s = stream_state(ctx, &c);
        lnt_tensor k = lnt_tensor_bhnd(NULL, LNT_F32, 1, 0, INT64_C(1) << 40, c.desc.dim);
        lnt_tensor v = lnt_tensor_bhnd(NULL, LNT_F32, 1, 0, INT64_C(1) << 40, c.desc.dim_value);
        assert_ok(ctx, lnt_state_append(s, &k, &v));
        assert_int_equal(lnt_state_tokens(s, 0), INT64_C(1) << 40);
        k.shape[2] = v.shape[2] = 1;
        assert_refused(ctx, lnt_state_append(s, &k, &v), LNT_ERR_SHAPE, "1 more make over 2^40");
        assert_int_equal(lnt_state_tokens(s, 0), INT64_C(1) << 40);
        lnt_state_destroy(s);
    }
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merge_is_associative_and_equals_the_concatenation),
        cmocka_unit_test(a_fork_is_independent),
        cmocka_unit_test(reset_of_one_sequence_leaves_the_others),
        cmocka_unit_test(remove_undoes_append),
        cmocka_unit_test(a_sequence_whose_tokens_are_all_removed_is_as_new),
        cmocka_unit_test(removing_more_tokens_than_there_are_is_refused),
        cmocka_unit_test(save_and_load_give_the_same_bits_and_continue_identically),
        cmocka_unit_test(a_file_tells_any_seed_as_it_was_given),
        cmocka_unit_test(a_view_asked_for_again_shows_every_token),
        cmocka_unit_test(compensated_sums_are_twice_as_many_and_keep_room_for_16_tokens),
        cmocka_unit_test(the_tensors_of_a_state_are_named_and_shaped),
        cmocka_unit_test(tensors_that_do_not_fit_a_state_are_refused_and_change_nothing),
        cmocka_unit_test(what_is_not_given_is_named),
        cmocka_unit_test(states_of_different_problems_do_not_merge),
        cmocka_unit_test(a_state_names_the_algorithm_that_gives_its_bits),
        cmocka_unit_test(tokens_beyond_what_is_counted_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
