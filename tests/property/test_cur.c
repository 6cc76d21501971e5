/* test_cur.c - claims about CUR attention: when it is exact, what it refuses, and what it says when a
 * pseudo-inverse goes wrong. */
#include <math.h>
#include <string.h>

#include "../support/backward.h"
#include "../support/cur_case.h"
#include "attention/algorithm.h"
#include "attention/cur/pinv.h"
#include "plan/plan.h"

static const char *const algorithms[] = { "cur/flash", "cur/stored" };

/* ---- the answer ------------------------------------------------------------------------------ */

static void swap_tokens(const lnt_tensor *t, int64_t a, int64_t b)
{
    for (int64_t h = 0; h < t->shape[1]; h++)
        for (int64_t e = 0; e < t->shape[3]; e++) {
            const double x = lnt_tensor_get(t, 0, h, a, e);
            lnt_tensor_set(t, 0, h, a, e, lnt_tensor_get(t, 0, h, b, e));
            lnt_tensor_set(t, 0, h, b, e, x);
        }
}

/* C is made of the landmark keys and RV is a sum over all keys: their order does not matter. */
static void the_order_of_keys_that_are_no_landmarks_does_not_matter(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; a < COUNT_OF(algorithms); a++) {
        attn_case c = cur_case(N);
        trial t = trial_new(ctx, &c);
        block first = block_new(LNT_F32, LAYOUT_BHND, 1, 4, N, V);
        cur_forward(ctx, &c, algorithms[a], &t);
        tensor_copy(&first.t, &t.out.t);
        for (int64_t n = 0; n < N; n += 15) /* step: every 15th token is a landmark */
            for (int64_t i = 1; i < 8; i++) {
                swap_tokens(&t.k.t, n + i, (n + 15 * 4) % N + 15 - i);
                swap_tokens(&t.v.t, n + i, (n + 15 * 4) % N + 15 - i);
            }
        cur_forward(ctx, &c, algorithms[a], &t);
        expect_below(&c, algorithms[a], ctx, "keys in another order",
                     tensor_error(&t.out.t, &first.t), 2e-6);
        lnt_tensor_set(&t.k.t, 0, 0, 15, 0, 3); /* a landmark: it must be able to fail */
        cur_forward(ctx, &c, algorithms[a], &t);
        assert_true(tensor_error(&t.out.t, &first.t) > 1e-4);
        block_free(&first);
        trial_free(&t);
    }
    lnt_ctx_destroy(ctx);
}

static void as_many_landmarks_as_tokens_give_exact_softmax(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    static const int64_t shapes[][2] = { { 40, 40 }, { 90, 40 }, { 40, 90 }, { 1, 90 }, { 90, 1 } };
    for (int a = 0; a < COUNT_OF(algorithms); a++)
        for (int i = 0; i < COUNT_OF(shapes); i++) {
            attn_case c = case_make(LNT_CUR, 4, 2, shapes[i][0], shapes[i][1], D, V), exact = c;
            c.desc.cur.landmarks = 40;
            exact.desc.mechanism = LNT_SOFTMAX;
            trial t = trial_new(ctx, &c);
            cur_forward(ctx, &c, algorithms[a], &t);
            expect_below(&c, algorithms[a], ctx, "exact softmax",
                         oracle_error(ctx, &exact.desc, &t.io, 90), 2e-6);
            int64_t queries[40], keys[40];
            assert_int_equal(cur_landmarks(ctx, &c, &t, 0, 0, queries, keys), 0);
            trial_free(&t);
        }
    lnt_ctx_destroy(ctx);
}

/* Where U is the attention matrix but for a few rows and well conditioned, and inverted well. */
static void the_answer_approaches_softmax_as_landmarks_are_added(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    double last = INFINITY;
    for (int64_t n = 8; n <= 96; n += 44) {
        attn_case c = case_make(LNT_CUR, 2, 2, 97, 97, 4, 5), exact;
        c.desc.dtype = LNT_F64;
        c.desc.cur.landmarks = n;
        c.desc.cur.pinv = LNT_PINV_RIDGE;
        c.desc.scale = 0.3;
        exact = c;
        exact.desc.mechanism = LNT_SOFTMAX;
        trial t = trial_new(ctx, &c);
        cur_forward(ctx, &c, NULL, &t);
        const double error = oracle_error(ctx, &exact.desc, &t.io, 97);
        expect_below(&c, NULL, ctx, "more landmarks", error, 0.5 * last);
        last = error;
        trial_free(&t);
    }
    assert_true(last < 1e-3);
    lnt_ctx_destroy(ctx);
}

/* On and beside the edges of vectors, of the blocks of the inverse and of tiles. */
static void any_number_of_landmarks_gives_the_definition(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    static const int64_t counts[] = { 1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 130 };
    for (int i = 0; i < COUNT_OF(counts); i += budget(3, 1))
        for (int a = 0; a < COUNT_OF(algorithms); a++)
            for (int pinv = 0; lnt_pinv_name((lnt_pinv)pinv); pinv++) {
                attn_case c = cur_case(N);
                c.desc.cur.landmarks = counts[i];
                c.desc.cur.pinv = (lnt_pinv)pinv;
                c.desc.cur.ridge = 1e-3;
                c.desc.dtype = i % 2 ? LNT_F64 : LNT_F32;
                trial t = trial_new(ctx, &c);
                cur_forward(ctx, &c, algorithms[a], &t);
                expect_below(&c, algorithms[a], ctx, "against the oracle",
                             oracle_error(ctx, &c.desc, &t.io, 3), forward_bound(&c.desc));
                trial_free(&t);
            }
    lnt_ctx_destroy(ctx);
}

static void the_row_of_a_pinned_token_is_exact(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int select = 0; lnt_select_name((lnt_select)select); select++) {
        if (select == LNT_SELECT_MEAN) continue;
        attn_case c = cur_case(N), exact;
        const int64_t pin[] = { 77, 0 };
        c.desc.cur.select = (lnt_select)select;
        c.desc.cur.pin = pin;
        c.desc.cur.pins = 2;
        exact = c;
        exact.desc.mechanism = LNT_SOFTMAX;
        trial t = trial_new(ctx, &c);
        cur_forward(ctx, &c, NULL, &t);
        for (int i = 0; i < 2; i++)
            for (int64_t h = 0; h < 4; h++) {
                double y[V];
                assert_ok(ctx, lnt_reference_row(ctx, &exact.desc, &t.io, 0, h, pin[i], y));
                for (int64_t e = 0; e < V; e++)
                    expect_below(&c, NULL, ctx, "a pinned row",
                                 fabs(lnt_tensor_get(&t.out.t, 0, h, pin[i], e) - y[e]), 2e-6);
            }
        trial_free(&t);
    }
    lnt_ctx_destroy(ctx);
}

/* ---- the pseudo-inverse ---------------------------------------------------------------------- */

/* Diverges where every weight is nearly 1, as of queries and keys that are all 1: |U|_inf is M. */
static attn_case daring_case(const char *algorithm)
{
    attn_case c = cur_case(N);
    c.desc.cur.activation = LNT_ACTIVATION_LAPLACE;
    c.desc.cur.pinv_init = LNT_PINV_PAPER1;
    c.desc.backward = 1;
    c.desc.algorithm = algorithm;
    return c;
}

static void a_divergence_is_counted_and_answered_from_the_safe_start(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; a < COUNT_OF(algorithms); a++) {
        attn_case c = daring_case(algorithms[a]);
        trial t = trial_new(ctx, &c);
        tensor_fill(&t.q.t, 1);
        tensor_fill(&t.k.t, 1);
        lnt_plan *plan, *safe;
        assert_ok(ctx, lnt_plan_create(ctx, &c.desc, &plan));
        assert_ok(ctx, lnt_plan_forward(plan, &t.io));
        assert_int_equal(plan_report(plan).divergent, 4);
        block first = block_new(LNT_F32, LAYOUT_BHND, 1, 4, N, V);
        tensor_copy(&first.t, &t.out.t);
        c.desc.cur.pinv_init = LNT_PINV_NORMS;
        assert_ok(ctx, lnt_plan_create(ctx, &c.desc, &safe));
        assert_ok(ctx, lnt_plan_forward(safe, &t.io));
        assert_int_equal(plan_report(safe).divergent, 0);
        expect_below(&c, algorithms[a], ctx, "after a divergence",
                     tensor_error(&first.t, &t.out.t), 1e-6);
        lnt_plan_destroy(plan);
        lnt_plan_destroy(safe);
        block_free(&first);
        trial_free(&t);
    }
    lnt_ctx_destroy(ctx);
}

static void backward_tells_of_divergence_and_rank_as_forward_does(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; a < COUNT_OF(algorithms); a++)
        for (int form = 0; form < 2 * 3; form++) {
            const bool alike = form % 2;
            attn_case c = daring_case(algorithms[a]);
            c.desc.cur.pinv_iterations = (const int64_t[]){ 1, 6, 9 }[form / 2];
            setup s = setup_new(ctx, &c);
            for (int i = 0; alike && i < 2; i++) tensor_fill(&s.x[i], 1);
            lnt_plan *plan;
            assert_ok(ctx, lnt_plan_create(ctx, &c.desc, &plan));
            assert_ok(ctx, lnt_plan_forward(plan, &s.t.io));
            const lnt_report first = plan_report(plan);
            assert_int_equal(first.divergent > 0, alike);
            assert_true(first.rank > 0);
            assert_ok(ctx, lnt_plan_backward(plan, &s.t.io, &s.grads));
            const lnt_report second = plan_report(plan);
            assert_int_equal(second.divergent, first.divergent);
            assert_true(fabs(second.rank - first.rank) <= 1e-9 * first.rank); /* found in another way */
            lnt_plan_destroy(plan);
            setup_free(&s);
        }
    lnt_ctx_destroy(ctx);
}

/* The gradients, f64, of a run that keeps or does not; its answer is in s->t.out. */
static void run_keeping(setup *s, const char *algorithm, bool keeping)
{
    lnt_attn_desc d = s->c->desc;
    d.algorithm = algorithm;
    lnt_plan *plan;
    assert_ok(s->ctx, lnt_plan_create(s->ctx, &d, &plan));
    const size_t bytes = plan_kept_bytes(plan);
    const size_t numbers = d.cur.pinv == LNT_PINV_RIDGE ? 0 : (M + 1) * lnt_pinv_ld(&d);
    assert_int_equal(bytes, (size_t)(d.batch * d.heads) * numbers * sizeof(double));
    double *kept = keeping ? test_malloc(bytes + 1) : NULL, *second = kept;
    if (keeping && numbers) *(second = kept + (size_t)d.heads * numbers) = -1; /* of the second sequence */
    s->t.io.kept = kept;
    s->t.io.kept_bytes = bytes;
    assert_ok(s->ctx, lnt_plan_forward(plan, &s->t.io));
    assert_true(!keeping || !numbers || *second >= 0);
    assert_ok(s->ctx, lnt_plan_backward(plan, &s->t.io, &s->grads));
    if (kept) test_free(kept);
    lnt_plan_destroy(plan);
}

/* By products and by eigenvectors; of sequences with and without an inverse, from every start. */
static void what_forward_keeps_changes_neither_the_answer_nor_gradients(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int i = 0; i < 2 * 2 * 2 * 2; i++) {
        const char *algorithm = algorithms[i & 1];
        attn_case c = daring_case(NULL);
        c.desc.dtype = LNT_F64;
        c.desc.batch = 4;
        c.desc.cur.pinv = i & 2 ? LNT_PINV_RIDGE : LNT_PINV_ITERATE;
        c.desc.cur.pinv_init = i & 4 ? LNT_PINV_NORMS : LNT_PINV_PAPER1;
        if (i & 8) c.desc.cur.activation = LNT_ACTIVATION_SOFTMAX;
        c.with_lengths = true;
        for (int b = 0; b < 4; b++)
            c.lengths_q[b] = c.lengths_k[b] = (const int64_t[]){ M, N, 0, M + 1 }[b];
        setup s = setup_new(ctx, &c);
        run_keeping(&s, algorithm, false);
        block found[3], out = block_copy(&s.t.out.t);
        for (int p = 0; p < 3; p++) found[p] = block_copy(&s.dx[p]);
        run_keeping(&s, algorithm, true);
        expect_below(&c, algorithm, ctx, "y", tensor_error(&s.t.out.t, &out.t), 1e-11);
        for (int p = 0; p < 3; p++) {
            expect_below(&c, algorithm, ctx, "gradients", tensor_error(&s.dx[p], &found[p].t), 1e-14);
            block_free(&found[p]);
        }
        block_free(&out);
        setup_free(&s);
    }
    lnt_ctx_destroy(ctx);
}

static void landmarks_that_are_alike_show_in_the_rank_and_give_numbers(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int pinv = 0; lnt_pinv_name((lnt_pinv)pinv); pinv++)
        for (int alike = 0; alike < 2; alike++) {
            attn_case c = cur_case(N);
            c.desc.cur.pinv = (lnt_pinv)pinv;
            c.desc.cur.pinv_iterations = 20;
            c.desc.scale = 0.5;
            if (alike) c.lay_k = LAYOUT_REPEATED;
            trial t = trial_new(ctx, &c);
            lnt_plan *plan;
            assert_ok(ctx, lnt_plan_create(ctx, &c.desc, &plan));
            assert_ok(ctx, lnt_plan_forward(plan, &t.io));
            const double rank = plan_report(plan).rank;
            const double least = pinv == LNT_PINV_TUNED ? 1 : 0.8 * M; /* its ridge may be strong */
            assert_true(alike ? fabs(rank - 1) < 1e-3 + 0.1 * (pinv == LNT_PINV_TUNED)
                              : rank > least && rank < M + 1e-6);
            for (int64_t i = 0; i < tensor_elements(&t.out.t); i++)
                assert_true(isfinite(tensor_at(&t.out.t, i)));
            tensor_put(&t.q.t, 0, NAN); /* of a landmark: not silent */
            assert_ok(ctx, lnt_plan_forward(plan, &t.io));
            assert_int_equal(plan_report(plan).divergent, 1);
            lnt_plan_destroy(plan);
            trial_free(&t);
        }
    lnt_ctx_destroy(ctx);
}

/* Laplace's weights for such scores are so small that their square is nothing: there is no inverse. */
static void weights_too_small_to_invert_are_counted(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; a < COUNT_OF(algorithms); a++)
        for (int form = 0; form < 2 * 2; form++) {
            attn_case c = daring_case(algorithms[a]);
            c.desc.dtype = LNT_F64;
            c.desc.scale = 1;
            c.desc.cur.pinv_init = LNT_PINV_NORMS;
            c.desc.cur.pinv_iterations = form % 2 ? 6 : 9;
            setup s = setup_new(ctx, &c);
            tensor_fill(&s.x[0], 1);
            tensor_fill(&s.x[1], -6.88 / D);
            lnt_plan *plan;
            assert_ok(ctx, lnt_plan_create(ctx, &c.desc, &plan));
            assert_ok(ctx, lnt_plan_forward(plan, &s.t.io));
            if (form / 2) assert_ok(ctx, lnt_plan_backward(plan, &s.t.io, &s.grads));
            assert_int_equal(plan_report(plan).divergent, form / 2 ? 8 : 4);
            lnt_plan_destroy(plan);
            setup_free(&s);
        }
    lnt_ctx_destroy(ctx);
}

/* The keys of every second landmark are those of the one before: more iterations do not change the answer,
 * and half the landmarks are the rank. */
static void many_iterations_do_not_invert_what_is_rounding(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; a < COUNT_OF(algorithms); a++) {
        block first;
        for (int64_t iterations = 16; iterations <= 64; iterations += 16) {
            attn_case c = cur_case(N);
            c.desc.dtype = LNT_F64;
            c.desc.cur.pinv_iterations = iterations;
            c.desc.algorithm = algorithms[a];
            trial t = trial_new(ctx, &c);
            for (int64_t i = 0; i < 2 * D * M / 2; i++) /* step: landmark l is token 15 l */
                lnt_tensor_set(&t.k.t, 0, i % 2, i / 2 / D * 30 + 15, i / 2 % D,
                               lnt_tensor_get(&t.k.t, 0, i % 2, i / 2 / D * 30, i / 2 % D));
            lnt_plan *plan;
            assert_ok(ctx, lnt_plan_create(ctx, &c.desc, &plan));
            assert_ok(ctx, lnt_plan_forward(plan, &t.io));
            const lnt_report report = plan_report(plan);
            assert_int_equal(report.divergent, 0);
            assert_true(fabs(report.rank - M / 2) < 1e-6);
            if (iterations == 16) first = block_copy(&t.out.t);
            expect_below(&c, algorithms[a], ctx, "y of many iterations",
                         tensor_error(&t.out.t, &first.t), 1e-6);
            lnt_plan_destroy(plan);
            trial_free(&t);
        }
        block_free(&first);
    }
    lnt_ctx_destroy(ctx);
}

/* Scores of -inf, whose weights are all 0, then of inf, which has no weight: in every mode a row of
 * the answer is counted once. */
static void rows_that_no_number_divides_are_counted(void **state)
{
    (void)state;
    static const int64_t lengths[][2] = { { N, N }, { N, M }, { M, N } };
    lnt_ctx *ctx = context_new(2, NULL);
    for (int form = 0; form < 4 * COUNT_OF(lengths) * COUNT_OF(algorithms); form++) {
        const int64_t *n = lengths[form / 4 % COUNT_OF(lengths)];
        const char *algorithm = algorithms[form / 4 / COUNT_OF(lengths)];
        const double huge = form & 1 ? 1e200 : 1e20;
        attn_case c = case_make(LNT_CUR, 4, 2, n[0], n[1], D, V);
        c.desc.cur.landmarks = M;
        c.desc.algorithm = algorithm;
        c.desc.backward = 1;
        if (form & 1) c.desc.dtype = LNT_F64;
        setup s = setup_new(ctx, &c);
        lnt_plan *plan;
        assert_ok(ctx, lnt_plan_create(ctx, &c.desc, &plan));
        assert_ok(ctx, lnt_plan_forward(plan, &s.t.io));
        assert_int_equal(plan_nonpositive(plan), 0);
        tensor_fill(&s.x[0], form & 2 ? huge : -huge);
        tensor_fill(&s.x[1], huge);
        assert_ok(ctx, lnt_plan_forward(plan, &s.t.io));
        expect_true(&c, algorithm, ctx, "not counted", plan_nonpositive(plan) == 4 * n[0]);
        assert_ok(ctx, lnt_plan_backward(plan, &s.t.io, &s.grads));
        assert_int_equal(plan_nonpositive(plan), 0); /* forward has told of them */
        for (int64_t i = 0; !(form & 2) && i < tensor_elements(&s.t.out.t); i++)
            expect_true(&c, algorithm, ctx, "not 0", tensor_at(&s.t.out.t, i) == 0);
        for (int p = 0; !(form & 2) && p < 3; p++)
            for (int64_t i = 0; i < tensor_elements(&s.dx[p]); i++)
                expect_true(&c, algorithm, ctx, part_names[p], tensor_at(&s.dx[p], i) == 0);
        lnt_plan_destroy(plan);
        setup_free(&s);
    }
    lnt_ctx_destroy(ctx);
}

/* Smooth keys and queries, as neighbours in a signal are. */
static void ridge_and_means_of_keys_halve_the_error_on_smooth_data(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    double error[2];
    for (int better = 0; better < 2; better++) {
        attn_case c = cur_case(N), exact;
        c.desc.cur.landmarks = 24;
        c.desc.cur.pinv = better ? LNT_PINV_RIDGE : LNT_PINV_ITERATE;
        c.desc.cur.select = better ? LNT_SELECT_STEP_MEAN : LNT_SELECT_STEP;
        exact = c;
        exact.desc.mechanism = LNT_SOFTMAX;
        trial t = trial_new(ctx, &c);
        for (int64_t i = 0; i < tensor_elements(&t.q.t); i++)
            tensor_put(&t.q.t, i, 1.5 * sin(0.07 * (double)(i / D % N) * (double)(1 + i % D % 5)));
        for (int64_t i = 0; i < tensor_elements(&t.k.t); i++)
            tensor_put(&t.k.t, i, 1.5 * cos(0.05 * (double)(i / D % N) * (double)(1 + i % D % 7)));
        cur_forward(ctx, &c, NULL, &t);
        error[better] = oracle_error(ctx, &exact.desc, &t.io, N);
        trial_free(&t);
    }
    if (!(error[1] < 0.5 * error[0])) fail_msg("%g, and %g with both", error[0], error[1]);
    lnt_ctx_destroy(ctx);
}

/* The error to softmax. */
static double softmax_error(lnt_ctx *ctx, const attn_case *c, const trial *t)
{
    attn_case exact = *c;
    exact.desc.mechanism = LNT_SOFTMAX;
    return oracle_error(ctx, &exact.desc, &t->io, N);
}

/* Keys that neighbours share ask for a weak ridge, white noise for a strong one: on either it has a smaller
 * error than the best of them, because the queries that it is tuned by are fitted too. */
static void a_tuned_inverse_is_better_than_the_best_ridge(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    static const double ridges[] = { 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1 };
    double best_ridge[2];
    for (int smooth = 0; smooth < 2; smooth++) {
        attn_case c = cur_case(N);
        c.desc.dtype = LNT_F64;
        c.desc.cur.landmarks = 24;
        c.desc.cur.copy_rows = 0;
        c.desc.scale = smooth ? 1 / sqrt((double)D) : 1.5;
        trial t = trial_new(ctx, &c);
        for (int64_t i = 0; smooth && i < tensor_elements(&t.q.t); i++)
            tensor_put(&t.q.t, i, 1.5 * sin(0.07 * (double)(i / D % N) * (double)(1 + i % D % 5)));
        for (int64_t i = 0; smooth && i < tensor_elements(&t.k.t); i++)
            tensor_put(&t.k.t, i, 1.5 * cos(0.05 * (double)(i / D % N) * (double)(1 + i % D % 7)));
        double best = INFINITY;
        c.desc.cur.pinv = LNT_PINV_RIDGE;
        for (int r = 0; r < COUNT_OF(ridges); r++) {
            c.desc.cur.ridge = ridges[r];
            cur_forward(ctx, &c, NULL, &t);
            const double error = softmax_error(ctx, &c, &t);
            if (error < best) best = error, best_ridge[smooth] = ridges[r];
        }
        c.desc.cur.pinv = LNT_PINV_TUNED;
        cur_forward(ctx, &c, NULL, &t);
        const double fitted = softmax_error(ctx, &c, &t);
        expect_below(&c, NULL, ctx, "beside the best ridge", fitted, best);
        c.desc.cur.copy_rows = 1;
        cur_forward(ctx, &c, NULL, &t);
        expect_below(&c, NULL, ctx, "with the rows it knows", softmax_error(ctx, &c, &t), fitted);
        trial_free(&t);
    }
    assert_true(best_ridge[0] > 30 * best_ridge[1]); /* no one ridge serves both */
    lnt_ctx_destroy(ctx);
}

/* With copied rows those of 16 tokens beside the landmarks are softmax's, also where landmarks are means. */
static void the_rows_that_tune_an_inverse_are_exact(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int means = 0; means < 2; means++) {
        attn_case c = cur_case(N), exact;
        double row[V];
        int right = 0;
        c.desc.cur.landmarks = 24;
        c.desc.cur.select = means ? LNT_SELECT_MEAN : LNT_SELECT_STEP;
        c.desc.cur.pinv = LNT_PINV_TUNED;
        exact = c;
        exact.desc.mechanism = LNT_SOFTMAX;
        trial t = trial_new(ctx, &c);
        cur_forward(ctx, &c, NULL, &t);
        for (int64_t i = 0; i < N; i++) {
            double apart = 0;
            assert_ok(ctx, lnt_reference_row(ctx, &exact.desc, &t.io, 0, 0, i, row));
            for (int64_t k = 0; k < V; k++)
                apart = fmax(apart, fabs(row[k] - tensor_at(&t.out.t, i * V + k)));
            right += apart < 1e-5;
        }
        assert_int_equal(right, means ? 16 : 24 + 16);
        trial_free(&t);
    }
    lnt_ctx_destroy(ctx);
}

/* ---- what it costs, and what it refuses ------------------------------------------------------ */

static size_t workspace(lnt_ctx *ctx, const char *algorithm, int64_t n, int backward)
{
    attn_case c = cur_case(n);
    lnt_plan *plan;
    lnt_plan_info info = { .size = sizeof info };
    c.desc.algorithm = algorithm;
    c.desc.backward = backward;
    assert_ok(ctx, lnt_plan_create(ctx, &c.desc, &plan));
    assert_ok(ctx, lnt_plan_describe(plan, &info));
    lnt_plan_destroy(plan);
    return info.workspace_bytes;
}

/* By the formulas of docs/math/cur.md, for each head. */
static void operations_of_the_inverse_are_those_of_the_way_it_is_found(void **state)
{
    (void)state;
    static const int64_t iterations[] = { 1, 6, 8, 9, 64 }, counted[] = { 1, 6, 8, 8, 8 };
    const double cube = (double)M * M * M, rest = M * M * (2 * (D + V) + 3);
    const double passes = 2.0 * N * M;
    attn_case tuned = cur_case(N);
    tuned.desc.cur.pinv = LNT_PINV_TUNED;
    assert_true(fabs(lnt_cur_flops(&tuned.desc) / (double)(tuned.desc.heads * tuned.desc.batch) -
                     ((passes + 16.0 * N) * (2 * (D + V) + 3) + rest + 8 * cube)) < 1e-6);
    for (int i = 0; i < COUNT_OF(iterations); i++)
        for (int ridge = 0; ridge < 2; ridge++) {
            attn_case c = cur_case(N);
            c.desc.cur.pinv = ridge ? LNT_PINV_RIDGE : LNT_PINV_ITERATE;
            c.desc.cur.pinv_iterations = iterations[i];
            const double heads = (double)(c.desc.heads * c.desc.batch);
            const double forward = ridge ? 10.0 / 3 : 4.0 * (double)counted[i], back = ridge ? 10 : 22;
            assert_true(fabs(lnt_cur_flops(&c.desc) / heads -
                             (passes * (2 * (D + V) + 3) + rest + forward * cube)) < 1e-6);
            assert_true(fabs(lnt_cur_flops_backward(&c.desc) / heads -
                             (passes * (6 * D + 4 * V + 4) + 3 * rest + back * cube)) < 1e-6);
        }
}

static void the_scratch_of_flash_does_not_depend_on_the_length(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int backward = 0; backward < 2; backward++) {
        assert_int_equal(workspace(ctx, "cur/flash", 1 << 10, backward),
                         workspace(ctx, "cur/flash", 1 << 20, backward));
        const size_t more = workspace(ctx, "cur/stored", 1 << 12, backward) -
                            workspace(ctx, "cur/flash", 1 << 12, backward);
        assert_true(more >= 4 * 2 * M * (1 << 12) * sizeof(float)); /* C and R of four heads */
    }
    lnt_ctx_destroy(ctx);
}

static void the_plan_tells_from_which_length_it_beats_softmax(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    attn_case c = case_make(LNT_CUR, 8, 8, 4096, 4096, 64, 64);
    double crossover[2];
    for (int more = 0; more < 2; more++) {
        lnt_plan *plan;
        lnt_plan_info info = { .size = sizeof info };
        c.desc.cur.landmarks = more ? 128 : 32;
        assert_ok(ctx, lnt_plan_create(ctx, &c.desc, &plan));
        assert_ok(ctx, lnt_plan_describe(plan, &info));
        crossover[more] = info.crossover_speed;
        assert_true(info.crossover_speed > 2 * (double)c.desc.cur.landmarks &&
                    info.crossover_speed < 4096);
        assert_true(info.flops > 0 && info.flops < info.flops_direct);
        lnt_plan_destroy(plan);
    }
    assert_true(crossover[1] > crossover[0]);
    lnt_ctx_destroy(ctx);
}

static void causal_states_and_partials_are_refused_with_the_reason(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c = cur_case(N);
    trial t = trial_new(ctx, &c);
    lnt_plan *plan;
    lnt_state *memory;
    double y[V];
    lnt_attn_desc desc = c.desc;
    desc.causal = 1;
    assert_refused(ctx, lnt_plan_create(ctx, &desc, &plan), LNT_ERR_UNSUPPORTED, "causal");
    assert_non_null(strstr(lnt_ctx_error(ctx), "use softmax, linear, taylor or hybrid"));
    assert_refused(ctx, lnt_reference_row(ctx, &desc, &t.io, 0, 0, 0, y), LNT_ERR_UNSUPPORTED,
                   "causal");
    desc = c.desc;
    desc.state = 1;
    assert_refused(ctx, lnt_plan_create(ctx, &desc, &plan), LNT_ERR_UNSUPPORTED, "state");
    assert_refused(ctx, lnt_state_create(ctx, &c.desc, &memory), LNT_ERR_UNSUPPORTED, "state");
    const lnt_partial partial = { .size = sizeof partial, .num = t.out.t, .den = t.out.t };
    assert_ok(ctx, lnt_plan_create(ctx, &c.desc, &plan));
    assert_refused(ctx, lnt_plan_partial(plan, &t.io, &partial), LNT_ERR_UNSUPPORTED, "partial");
    int64_t count;
    assert_refused(ctx, lnt_plan_landmarks(plan, &t.io, 1, 0, NULL, NULL, &count),
                   LNT_ERR_ARGUMENT, "sequence 1");
    assert_refused(ctx, lnt_plan_landmarks(plan, &t.io, 0, 0, NULL, NULL, NULL), LNT_ERR_ARGUMENT,
                   "count");
    lnt_plan_destroy(plan);
    trial_free(&t);
    lnt_ctx_destroy(ctx);
}

static void every_option_out_of_range_is_named(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    const attn_case c = cur_case(N);
    const int64_t twice[] = { 3, 3 }, negative[] = { -1 }, past[] = { 0, N };
    lnt_plan *plan;
    for (int i = 0; i < 15; i++) {
        lnt_attn_desc d = c.desc;
        const char *word = "";
        switch (i) {
        case 0: d.cur.landmarks = -1, word = "landmarks is -1"; break;
        case 1: d.cur.landmarks = INT64_MAX, word = "landmarks is 9223372036854775807"; break;
        case 2: d.cur.select = (lnt_select)9, word = "select is 9"; break;
        case 3: d.cur.select = LNT_SELECT_EMBED, d.cur.embed_column = D, word = "embed_column is 12"; break;
        case 4: d.cur.pins = M + 1, d.cur.pin = twice, word = "pins is 11"; break;
        case 5: d.cur.pins = 1, word = "pin is NULL"; break;
        case 6: d.cur.pins = 2, d.cur.pin = twice, word = "pin 1 is 3"; break;
        case 7: d.cur.pins = 1, d.cur.pin = negative, word = "pin 0 is -1"; break;
        case 8: d.cur.pinv = (lnt_pinv)5, word = "pinv is 5"; break;
        case 9: d.cur.pinv_iterations = 65, word = "pinv_iterations is 65"; break;
        case 10: d.cur.pinv_init = (lnt_pinv_init)2, word = "pinv_init is 2"; break;
        case 11: d.cur.ridge = 0, word = "ridge is 0"; break;
        case 12: d.cur.activation = (lnt_activation)2, word = "activation is 2"; break;
        case 13: d.cur.pins = 2, d.cur.pin = past, word = "pin 1 is 150, not one of the 150 tokens"; break;
        default:
            d.cur.pins = 1, d.cur.pin = twice, d.cur.select = LNT_SELECT_MEAN, word = "pin";
            break;
        }
        assert_refused(ctx, lnt_plan_create(ctx, &d, &plan), LNT_ERR_ARGUMENT, word);
        assert_null(plan);
    }
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_keys_that_are_no_landmarks_does_not_matter),
        cmocka_unit_test(as_many_landmarks_as_tokens_give_exact_softmax),
        cmocka_unit_test(the_answer_approaches_softmax_as_landmarks_are_added),
        cmocka_unit_test(any_number_of_landmarks_gives_the_definition),
        cmocka_unit_test(the_row_of_a_pinned_token_is_exact),
        cmocka_unit_test(a_divergence_is_counted_and_answered_from_the_safe_start),
        cmocka_unit_test(backward_tells_of_divergence_and_rank_as_forward_does),
        cmocka_unit_test(what_forward_keeps_changes_neither_the_answer_nor_gradients),
        cmocka_unit_test(landmarks_that_are_alike_show_in_the_rank_and_give_numbers),
        cmocka_unit_test(weights_too_small_to_invert_are_counted),
        cmocka_unit_test(many_iterations_do_not_invert_what_is_rounding),
        cmocka_unit_test(rows_that_no_number_divides_are_counted),
        cmocka_unit_test(ridge_and_means_of_keys_halve_the_error_on_smooth_data),
        cmocka_unit_test(a_tuned_inverse_is_better_than_the_best_ridge),
        cmocka_unit_test(the_rows_that_tune_an_inverse_are_exact),
        cmocka_unit_test(operations_of_the_inverse_are_those_of_the_way_it_is_found),
        cmocka_unit_test(the_scratch_of_flash_does_not_depend_on_the_length),
        cmocka_unit_test(the_plan_tells_from_which_length_it_beats_softmax),
        cmocka_unit_test(causal_states_and_partials_are_refused_with_the_reason),
        cmocka_unit_test(every_option_out_of_range_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
