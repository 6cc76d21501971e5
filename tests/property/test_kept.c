/* test_kept.c - backward does with what forward kept for it as with what it finds again itself, in the memory
 * that was promised; and of long sequences little is kept. */
#include <stdlib.h>

#include "../support/backward.h"

static void compare_with_what_is_kept(lnt_ctx *ctx, const attn_case *c, coverage *cover)
{
    setup s = setup_new(ctx, c);
    for (int a = 0; lnt_algorithm_name(a); a++) {
        block found[PARTS];
        if (lnt_algorithm_mechanism(a) != c->desc.mechanism || !run_backward(&s, a)) continue;
        cover->supported[a]++;
        for (int p = 0; p < s.parts; p++) found[p] = block_copy(&s.dx[p]);
        assert_true(run_backward_kept(&s, a));
        for (int p = 0; p < s.parts; p++) {
            expect_below(c, lnt_algorithm_name(a), ctx, part_names[p],
                         gradient_error(&s.dx[p], &found[p].t), 1e-12);
            block_free(&found[p]);
        }
    }
    setup_free(&s);
}

static void what_forward_keeps_gives_the_gradients_of_finding_it_again(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    coverage cover = { { 0 } };
    attn_case c;
    for (int f = 0; f < FORMS; f += budget(2, 1))
        if (gradient_form(&c, f, 131, 5, 3)) compare_with_what_is_kept(ctx, &c, &cover);
    for (int i = 0; i < 2 * FORM_SHAPES; i++) { /* taylor in parts */
        assert_true(gradient_form(&c, FORM_TAYLOR + FORM_MAPS * i, 200, 10, 9));
        c.desc.taylor.terms = 4;
        compare_with_what_is_kept(ctx, &c, &cover);
    }
    coverage_check(&cover);
    lnt_ctx_destroy(ctx);
}

/* Several tiles, of sequences as a network has them: the lengths of queries and keys are the same. */
static void what_forward_keeps_of_scores_gives_the_same_gradients(void **state)
{
    (void)state;
    enum { ROWS = 150 };
    static const lnt_mechanism mechanisms[] = { LNT_SOFTMAX, LNT_TAYLOR, LNT_LINEAR, LNT_HYBRID };
    static const int64_t dims[] = { 20, 128 }; /* narrow heads keep weights alone */
    lnt_ctx *ctx = context_new(2, NULL);
    for (int i = 0; i < 4 * 2 * 2; i += budget(3, 1)) { /* the fewer have every mechanism, width and mask */
        const lnt_mechanism mechanism = mechanisms[i / 4];
        const int64_t d = dims[i % 2];
        coverage cover = { { 0 } };
        attn_case c = case_make(mechanism, 2, 1, ROWS, ROWS, d, 7);
        c.desc.dtype = LNT_F64;
        c.desc.batch = 4;
        c.desc.causal = i / 2 % 2 || mechanism == LNT_HYBRID;
        c.desc.backward = 1;
        if (mechanism == LNT_HYBRID) c.desc.hybrid.window = i / 2 % 2 ? 20 : 100, c.desc.hybrid.sink = 3;
        c.with_lengths = true;
        for (int b = 0; b < 4; b++)
            c.lengths_q[b] = c.lengths_k[b] = (const int64_t[]){ ROWS, 0, 65, 128 }[b];
        compare_with_what_is_kept(ctx, &c, &cover);
        coverage_check_of(&cover, mechanism);
    }
    lnt_ctx_destroy(ctx);
}

static void too_little_room_for_what_is_kept_is_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c = case_make(LNT_SOFTMAX, 2, 2, 40, 40, 20, 7);
    c.desc.backward = 1;
    setup s = setup_new(ctx, &c);
    lnt_plan *plan;
    assert_ok(ctx, lnt_plan_create(ctx, &c.desc, &plan));
    char *kept = malloc(plan_kept_bytes(plan));
    assert_non_null(kept);
    s.t.io.kept = kept;
    s.t.io.kept_bytes = plan_kept_bytes(plan) - 1;
    assert_refused(ctx, lnt_plan_forward(plan, &s.t.io), LNT_ERR_ARGUMENT, "kept_bytes is");
    assert_refused(ctx, lnt_plan_backward(plan, &s.t.io, &s.grads), LNT_ERR_ARGUMENT, "must be at least");
    s.t.io.kept_bytes++;
    assert_ok(ctx, lnt_plan_forward(plan, &s.t.io));
    assert_ok(ctx, lnt_plan_backward(plan, &s.t.io, &s.grads));
    free(kept);
    lnt_plan_destroy(plan);
    setup_free(&s);
    lnt_ctx_destroy(ctx);
}

static double kept_bytes(lnt_ctx *ctx, lnt_attn_desc d, int64_t length)
{
    lnt_plan *plan;
    d.length_q = d.length_k = length;
    assert_ok(ctx, lnt_plan_create(ctx, &d, &plan));
    const double bytes = (double)plan_kept_bytes(plan);
    lnt_plan_destroy(plan);
    return bytes;
}

/* Scores would grow with the square of a sequence: of long ones they are not kept. */
static void what_is_kept_is_nothing_without_backward_and_grows_as_the_sequence_does(void **state)
{
    (void)state;
    enum { LONG = 1 << 15 };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; i < 4; i++) {
            const int64_t d = i % 2 ? 31 : 128;
            attn_case c = case_make(lnt_algorithm_mechanism(a), 3, 3, 0, 0, d, d);
            c.desc.algorithm = lnt_algorithm_name(a);
            c.desc.taylor.terms = 2;
            c.desc.causal = c.desc.mechanism != LNT_CUR && i / 2;
            c.desc.causal |= c.desc.mechanism == LNT_HYBRID;
            assert_true(kept_bytes(ctx, c.desc, 100) == 0);
            c.desc.backward = 1;
            const double bytes = kept_bytes(ctx, c.desc, LONG);
            assert_true(bytes <= 32 * 3 * (double)d * LONG * sizeof(float)); /* 32 arrays as large as q */
            assert_true(kept_bytes(ctx, c.desc, 4 * LONG) <= 4 * bytes);
        }
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_forward_keeps_gives_the_gradients_of_finding_it_again),
        cmocka_unit_test(what_forward_keeps_of_scores_gives_the_same_gradients),
        cmocka_unit_test(what_is_kept_is_nothing_without_backward_and_grows_as_the_sequence_does),
        cmocka_unit_test(too_little_room_for_what_is_kept_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
