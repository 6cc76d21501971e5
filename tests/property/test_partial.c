/* test_partial.c - answers before the division add up: any grouping of disjoint keys, merged and
 * finished, is attention over all of them. */
#include <string.h>

#include "../support/case.h"

enum { H = 4, KVH = 2, D = 13, M = 6, PIECES = 5 };

typedef struct piece {
    block num, den, max;
    lnt_partial p;
} piece;

static piece piece_new(const attn_case *c)
{
    const lnt_dtype type = c->desc.dtype == LNT_F64 ? LNT_F64 : LNT_F32;
    const int64_t b = c->desc.batch, n = c->desc.length_q;
    piece x = { .num = block_new(type, c->lay_out, b, H, n, M),
                .den = block_new(type, c->lay_out, b, H, n, 1),
                .max = block_new(type, c->lay_out, b, H, n, 1) };
    x.p = (lnt_partial){ .size = sizeof x.p, .num = x.num.t, .den = x.den.t };
    if (c->desc.mechanism == LNT_SOFTMAX) x.p.max = x.max.t;
    return x;
}

static void piece_free(piece *x)
{
    assert_true(block_guard_intact(&x->num));
    assert_true(block_guard_intact(&x->den));
    if (x->p.max.data) assert_true(block_guard_intact(&x->max));
    block_free(&x->num);
    block_free(&x->den);
    block_free(&x->max);
}

static void run_piece(lnt_ctx *ctx, lnt_plan *plan, const trial *t, int64_t first, int64_t count,
                      const piece *x)
{
    lnt_attn_io io = t->io;
    io.k = tensor_rows(&t->k.t, first, count);
    io.v = tensor_rows(&t->v.t, first, count);
    io.mask = mask_columns(&t->io.mask, first, count);
    io.out = (lnt_tensor){ 0 };
    assert_ok(ctx, lnt_plan_partial(plan, &io, &x->p));
}

static double eps_of(const attn_case *c)
{
    return c->desc.mechanism == LNT_LINEAR ? c->desc.linear.eps : 0;
}

static void random_form(dice *d, attn_case *c, lnt_mechanism mechanism, int i)
{
    static const lnt_dtype dtypes[] = { LNT_F32, LNT_F64, LNT_BF16, LNT_F16 };
    *c = case_make(mechanism, H, KVH, dice_range(d, 0, 40), dice_range(d, 0, 170), D, M);
    c->desc.batch = dice_range(d, 0, 2);
    c->desc.dtype = dtypes[i % 4];
    c->lay_out = (layout)(i % LAYOUT_OUTPUTS);
    c->seed = dice_next(d);
    if (mechanism == LNT_SOFTMAX && i % 3) {
        c->desc.softmax.cap = i % 3 - 1;
        c->mask = mask_form_random(d);
    }
    if (mechanism == LNT_LINEAR)
        c->desc.linear.feature_map = (lnt_feature_map)dice_range(d, 0, LAST_MAP);
}

/* Merges the pieces two at a time in a random order, until one is left, and gives its index. */
static int merge_all(lnt_ctx *ctx, dice *d, piece *pieces)
{
    int alive[PIECES];
    for (int i = 0; i < PIECES; i++) alive[i] = i;
    for (int left = PIECES; left > 1; left--) {
        const int64_t x = dice_range(d, 0, left - 1);
        int64_t y = dice_range(d, 0, left - 2);
        y += y >= x;
        assert_ok(ctx, lnt_partial_merge(ctx, &pieces[alive[x]].p, &pieces[alive[y]].p));
        alive[y] = alive[left - 1];
    }
    return alive[0];
}

static void partials_over_disjoint_keys_in_any_grouping_give_the_whole(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    coverage cover = { { 0 } };
    dice d = { 21 };
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; i < budget(4, 48); i++) {
            attn_case c;
            if (lnt_algorithm_mechanism(a) == LNT_HYBRID) { /* says no: test_hybrid.c */
                cover.supported[a]++;
                continue;
            }
            random_form(&d, &c, lnt_algorithm_mechanism(a), i);
            lnt_plan *plan = case_plan(ctx, &c, a);
            if (!plan) continue;
            cover.supported[a]++;
            if (c.desc.mechanism == LNT_CUR) { /* says no: test_cur.c */
                lnt_plan_destroy(plan);
                continue;
            }
            trial t = trial_new(ctx, &c);
            piece pieces[PIECES];
            int64_t first = 0;
            for (int p = 0; p < PIECES; p++) { /* pieces without a key included */
                const int64_t rest = case_length_k(&c) - first;
                const int64_t count = p == PIECES - 1 ? rest : dice_range(&d, 0, rest);
                pieces[p] = piece_new(&c);
                run_piece(ctx, plan, &t, first, count, &pieces[p]);
                first += count;
            }
            const int last = merge_all(ctx, &d, pieces);
            assert_ok(ctx, lnt_partial_finish(ctx, &pieces[last].p, eps_of(&c), &t.out.t));
            expect_below(&c, lnt_algorithm_name(a), ctx, "merged partials",
                         oracle_error(ctx, &c.desc, &t.io, 8), forward_bound(&c.desc));
            expect_true(&c, lnt_algorithm_name(a), ctx, "guard", block_guard_intact(&t.out));
            for (int p = 0; p < PIECES; p++) piece_free(&pieces[p]);
            trial_free(&t);
            lnt_plan_destroy(plan);
        }
    coverage_check(&cover);
    lnt_ctx_destroy(ctx);
}

/* What chunking rests on: the keys before a chunk in full, those inside it causally. */
static void the_past_in_full_and_a_causal_chunk_give_causal_attention(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    int ran = 0;
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int64_t past = 0; past <= 80; past += 40) {
            attn_case c = case_make(lnt_algorithm_mechanism(a), H, KVH, 37, 37 + past, D, M);
            if (c.desc.mechanism == LNT_HYBRID) continue;
            attn_case full = c;
            c.desc.causal = 1;
            lnt_plan *causal = case_plan(ctx, &c, a), *whole = case_plan(ctx, &full, -1);
            if (causal) {
                trial t = trial_new(ctx, &c);
                piece x = piece_new(&c), y = piece_new(&c);
                run_piece(ctx, whole, &t, 0, past, &x);
                run_piece(ctx, causal, &t, past, 37, &y);
                assert_ok(ctx, lnt_partial_merge(ctx, &x.p, &y.p));
                assert_ok(ctx, lnt_partial_finish(ctx, &x.p, eps_of(&c), &t.out.t));
                expect_below(&c, lnt_algorithm_name(a), ctx, "past and chunk",
                             oracle_error(ctx, &c.desc, &t.io, 37), 2e-6);
                piece_free(&x);
                piece_free(&y);
                trial_free(&t);
                ran++;
            }
            lnt_plan_destroy(causal);
            lnt_plan_destroy(whole);
        }
    assert_true(ran > 0);
    lnt_ctx_destroy(ctx);
}

/* Logits 10^4 apart between pieces: the merge must rescale, not overflow. */
static void merging_survives_maxima_far_apart(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c = case_make(LNT_SOFTMAX, H, KVH, 3, 20, D, M);
    c.desc.scale = 1;
    lnt_plan *plan = case_plan(ctx, &c, -1);
    for (int order = 0; order < 2; order++) {
        trial t = trial_new(ctx, &c);
        tensor_fill(&t.q.t, 20);
        for (int64_t i = 0; i < tensor_elements(&t.k.t); i++)
            tensor_put(&t.k.t, i, i / D % 20 < 10 ? -20 : 20);
        piece x = piece_new(&c), y = piece_new(&c);
        run_piece(ctx, plan, &t, 0, 10, order ? &y : &x);
        run_piece(ctx, plan, &t, 10, 10, order ? &x : &y);
        assert_ok(ctx, lnt_partial_merge(ctx, &x.p, &y.p));
        assert_ok(ctx, lnt_partial_finish(ctx, &x.p, 0, &t.out.t));
        expect_below(&c, NULL, ctx, "maxima 10^4 apart", oracle_error(ctx, &c.desc, &t.io, 3),
                     2e-6);
        piece_free(&x);
        piece_free(&y);
        trial_free(&t);
    }
    lnt_plan_destroy(plan);
    lnt_ctx_destroy(ctx);
}

static void partials_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c = case_make(LNT_SOFTMAX, H, KVH, 3, 5, D, M);
    lnt_plan *plan = case_plan(ctx, &c, -1);
    trial t = trial_new(ctx, &c);
    piece x = piece_new(&c), y = piece_new(&c);
    lnt_partial bad = x.p;
    bad.num.shape[3]--;
    assert_refused(ctx, lnt_plan_partial(plan, &t.io, &bad), LNT_ERR_SHAPE, "num");
    bad = x.p;
    bad.den.shape[2]--;
    assert_refused(ctx, lnt_plan_partial(plan, &t.io, &bad), LNT_ERR_SHAPE, "den");
    bad = x.p;
    assert_int_equal(lnt_partial_merge(NULL, &bad, &bad), LNT_ERR_ARGUMENT);
    assert_int_equal(lnt_partial_finish(NULL, &bad, 0, &bad.num), LNT_ERR_ARGUMENT);
    bad.max.data = NULL;
    assert_true(lnt_plan_partial(plan, &t.io, &bad) != LNT_OK);
    assert_non_null(strstr(lnt_ctx_error(ctx), "max"));
    run_piece(ctx, plan, &t, 0, 5, &x);
    run_piece(ctx, plan, &t, 0, 5, &y);
    bad = y.p;
    bad.num.shape[2]--;
    assert_refused(ctx, lnt_partial_merge(ctx, &x.p, &bad), LNT_ERR_SHAPE, "num");
    lnt_tensor small = t.out.t;
    small.shape[2]--;
    assert_refused(ctx, lnt_partial_finish(ctx, &x.p, 0, &small), LNT_ERR_SHAPE, "out");
    piece_free(&x);
    piece_free(&y);
    trial_free(&t);
    lnt_plan_destroy(plan);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partials_over_disjoint_keys_in_any_grouping_give_the_whole),
        cmocka_unit_test(the_past_in_full_and_a_causal_chunk_give_causal_attention),
        cmocka_unit_test(merging_survives_maxima_far_apart),
        cmocka_unit_test(partials_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
