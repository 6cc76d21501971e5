/* test_gradient.c - the backward pass is the derivative of the oracle.
 *
 * The loss is <dout, out> + <dstate_out, state_out> with random dout and dstate_out.  Its
 * derivative by five-point differences of the oracle in double, step 1e-3, is good to about 1e-11:
 * (h^4 / 30) f'''''  plus  1e-16 / h. */
#include <math.h>
#include <string.h>

#include "../support/backward.h"
#include "plan/plan.h"

/* <dstate_out, state_out>: the state after the keys, by appending them. */
static double state_loss(setup *s)
{
    lnt_state *end;
    lnt_tensor got[2], weight[2];
    double sum = 0;
    assert_ok(s->ctx, lnt_state_fork(s->t.state, &end));
    assert_ok(s->ctx, lnt_state_append(end, &s->t.k.t, &s->t.v.t));
    state_views(s->ctx, end, got);
    state_views(s->ctx, s->dstate_out, weight);
    for (int p = 0; p < 2; p++)
        for (int64_t i = 0; i < tensor_elements(&got[p]); i++)
            sum += tensor_at(&got[p], i) * tensor_at(&weight[p], i);
    lnt_state_destroy(end);
    return sum;
}

static double loss(setup *s)
{
    const lnt_tensor *dout = &s->dout.t;
    double y[16], sum = s->t.state ? state_loss(s) : 0;
    assert_true(dout->shape[3] <= 16);
    for (int64_t b = 0; b < dout->shape[0]; b++)
        for (int64_t h = 0; h < dout->shape[1]; h++)
            for (int64_t n = 0; n < dout->shape[2]; n++) {
                assert_ok(s->ctx, lnt_reference_row(s->ctx, &s->c->desc, &s->t.io, b, h, n, y));
                for (int64_t m = 0; m < dout->shape[3]; m++)
                    sum += lnt_tensor_get(dout, b, h, n, m) * y[m];
            }
    return sum;
}

/* Moves x by step * u, element by element, from where it was at `from`. */
static void shift(const lnt_tensor *x, const lnt_tensor *from, const lnt_tensor *u, double step)
{
    for (int64_t i = 0; i < tensor_elements(x); i++)
        tensor_put(x, i, tensor_at(from, i) + step * tensor_at(u, i));
}

/* d loss / d step where x = from + step u. */
static double slope_along(setup *s, const lnt_tensor *x, const lnt_tensor *from,
                          const lnt_tensor *u)
{
    static const double weight[4] = { 1.0 / 12, -8.0 / 12, 8.0 / 12, -1.0 / 12 };
    static const double at[4] = { -2, -1, 1, 2 };
    const double h = 1e-3;
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        shift(x, from, u, at[i] * h);
        sum += weight[i] * loss(s);
    }
    tensor_copy(x, from);
    return sum / h;
}

static block like(const lnt_tensor *x)
{
    block b = block_new(LNT_F64, LAYOUT_BHND, x->shape[0], x->shape[1], x->shape[2], x->shape[3]);
    tensor_fill(&b.t, 0);
    return b;
}

static block differences(setup *s, const lnt_tensor *x)
{
    block g = like(x), from = like(x), u = like(x);
    tensor_copy(&from.t, x);
    for (int64_t i = 0; i < tensor_elements(x); i++) {
        tensor_put(&u.t, i, 1);
        tensor_put(&g.t, i, slope_along(s, x, &from.t, &u.t));
        tensor_put(&u.t, i, 0);
    }
    block_free(&from);
    block_free(&u);
    return g;
}

static void gradients_match_finite_differences_of_the_oracle(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    coverage cover = { { 0 } };
    for (int f = 0; f < FORMS; f += budget(11, 1)) {
        attn_case c;
        if (!gradient_form(&c, f, 4, 3, 2)) continue;
        setup s = setup_new(ctx, &c);
        block want[PARTS];
        for (int p = 0; p < s.parts; p++) want[p] = differences(&s, &s.x[p]);
        for (int a = 0; lnt_algorithm_name(a); a++) {
            if (lnt_algorithm_mechanism(a) != c.desc.mechanism || !run_backward(&s, a)) continue;
            cover.supported[a]++;
            for (int p = 0; p < s.parts; p++)
                expect_below(&c, lnt_algorithm_name(a), ctx, part_names[p],
                             gradient_error(&s.dx[p], &want[p].t), 1e-8);
        }
        for (int p = 0; p < s.parts; p++) block_free(&want[p]);
        setup_free(&s);
    }
    coverage_check(&cover);
    lnt_ctx_destroy(ctx);
}

static void the_gradient_of_the_temperature_matches_differences(void **state)
{
    (void)state;
    static const double weight[4] = { 1.0 / 12, -8.0 / 12, 8.0 / 12, -1.0 / 12 };
    static const double at[4] = { -2, -1, 1, 2 };
    const double step = 1e-3;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int shape = 0; shape < FORM_SHAPES; shape++) {
        attn_case c;
        double tau[2] = { 0.7, 1.3 }, want[2] = { 0 }, got[2];
        assert_true(gradient_form(&c, FORM_TAYLOR + FORM_MAPS * (shape + FORM_SHAPES), 70, 3, 2));
        c.desc.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT;
        c.desc.taylor.terms = 3;
        c.desc.taylor.temperature = tau;
        setup s = setup_new(ctx, &c);
        s.grads.dtemperature = got;
        for (int h = 0; h < 2; h++)
            for (int i = 0; i < 4; i++) {
                const double centre = tau[h];
                tau[h] = centre + at[i] * step;
                want[h] += weight[i] * loss(&s) / step;
                tau[h] = centre;
            }
        for (int a = 0; lnt_algorithm_name(a); a++) {
            if (lnt_algorithm_mechanism(a) != LNT_TAYLOR || !run_backward(&s, a)) continue;
            for (int h = 0; h < 2; h++)
                expect_below(&c, lnt_algorithm_name(a), ctx, "temperature",
                             fabs(got[h] - want[h]) / (fabs(want[h]) + 1), 1e-8);
        }
        setup_free(&s);
    }
    lnt_ctx_destroy(ctx);
}

/* Slopes along random directions, where one difference per element would take too long. */
static void compare_along_random_directions(lnt_ctx *ctx, const attn_case *c, coverage *cover)
{
    setup s = setup_new(ctx, c);
    block u[PARTS];
    double want[PARTS], size[PARTS];
    dice d = { c->seed };
    for (int p = 0; p < s.parts; p++) {
        block from = like(&s.x[p]);
        u[p] = like(&s.x[p]);
        tensor_copy(&from.t, &s.x[p]);
        draw_values(&d, &u[p].t);
        for (int64_t i = 0; i < tensor_elements(&u[p].t); i++) /* not across a kink */
            tensor_put(&u[p].t, i, tanh(tensor_at(&u[p].t, i)));
        want[p] = slope_along(&s, &s.x[p], &from.t, &u[p].t);
        block_free(&from);
    }
    for (int a = 0; lnt_algorithm_name(a); a++) {
        if (lnt_algorithm_mechanism(a) != c->desc.mechanism || !run_backward(&s, a)) continue;
        cover->supported[a]++;
        for (int p = 0; p < s.parts; p++) {
            double got = 0;
            size[p] = 0;
            for (int64_t i = 0; i < tensor_elements(&u[p].t); i++) {
                got += tensor_at(&s.dx[p], i) * tensor_at(&u[p].t, i);
                size[p] += pow(tensor_at(&s.dx[p], i), 2);
            }
            expect_below(c, lnt_algorithm_name(a), ctx, part_names[p],
                         fabs(got - want[p]) / (sqrt(size[p]) + 1e-3), 1e-7);
        }
    }
    for (int p = 0; p < s.parts; p++) block_free(&u[p]);
    setup_free(&s);
}

/* Longer than any chunk. */
static void gradients_of_long_sequences_match_along_random_directions(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    coverage cover = { { 0 } };
    for (int f = 0; f < FORMS; f += budget(11, 4)) {
        attn_case c;
        if (gradient_form(&c, f, 131, 5, 3)) compare_along_random_directions(ctx, &c, &cover);
    }
    lnt_ctx_destroy(ctx);
    coverage_check(&cover);
}

/* Matrices of 64 landmarks, and of 128, have rows further apart than others. */
static void gradients_of_cur_match_with_64_landmarks(void **state)
{
    (void)state;
    static const int kinds[] = { 0, 1, 4 }; /* iterations, the ridge, another start of iterations */
    lnt_ctx *ctx = context_new(2, NULL);
    coverage cover = { { 0 } };
    for (int i = 0; i < COUNT_OF(kinds); i++) {
        attn_case c;
        assert_true(gradient_form(&c, FORM_CUR + kinds[i], 66, 5, 3));
        c.desc.cur.landmarks = 64;
        c.desc.heads = 1; /* the oracle inverts anew for every row of every head */
        compare_along_random_directions(ctx, &c, &cover);
    }
    coverage_check_of(&cover, LNT_CUR);
    lnt_ctx_destroy(ctx);
}

/* Keys before the first query move the edge between seen and unseen over the edges of all tiles. */
static void causal_gradients_match_wherever_the_queries_begin(void **state)
{
    (void)state;
    static const int64_t before[] = { 1, 31, 33, 63, 65 };
    static const int maps[] = { 0, 1, FORM_TAYLOR };
    lnt_ctx *ctx = context_new(2, NULL);
    coverage cover = { { 0 } };
    for (int i = 0; i < COUNT_OF(before); i += budget(4, 1))
        for (int m = 0; m < COUNT_OF(maps); m++) {
            attn_case c;
            assert_true(gradient_form(&c, maps[m] + FORM_MAPS * FORM_SHAPES, 70, 3, 2));
            c.desc.length_k = c.desc.length_q + before[i];
            compare_along_random_directions(ctx, &c, &cover);
        }
    coverage_check_of(&cover, LNT_SOFTMAX);
    coverage_check_of(&cover, LNT_LINEAR);
    coverage_check_of(&cover, LNT_TAYLOR);
    lnt_ctx_destroy(ctx);
}

/* Enough monomials for few states to be cut into parts. */
static void gradients_of_taylor_in_parts_match_along_random_directions(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    coverage cover = { { 0 } };
    for (int i = 0; i < 2 * FORM_SHAPES; i += budget(3, 1)) {
        attn_case c;
        assert_true(gradient_form(&c, FORM_TAYLOR + FORM_MAPS * i, budget(140, 200), budget(10, 17), 3));
        c.desc.taylor.terms = 4;
        c.desc.compensated = i % 3 == 0;
        c.desc.taylor.center_mean = !c.desc.causal && !c.state_tokens && !c.desc.taylor.normalize;
        compare_along_random_directions(ctx, &c, &cover);
    }
    coverage_check_of(&cover, LNT_TAYLOR);
    lnt_ctx_destroy(ctx);
}

/* Every other algorithm against one of them, where differences would take too long. */
static void compare_with(lnt_ctx *ctx, const attn_case *c, const char *name)
{
    block want[3];
    int one = 0;
    while (strcmp(lnt_algorithm_name(one), name) != 0) one++;
    setup s = setup_new(ctx, c);
    assert_true(run_backward(&s, one));
    for (int p = 0; p < 3; p++) {
        want[p] = like(&s.dx[p]);
        tensor_copy(&want[p].t, &s.dx[p]);
    }
    for (int a = 0; lnt_algorithm_name(a); a++) {
        if (a == one || lnt_algorithm_mechanism(a) != c->desc.mechanism) continue;
        if (!run_backward(&s, a)) continue;
        for (int p = 0; p < 3; p++)
            expect_below(c, lnt_algorithm_name(a), ctx, part_names[p],
                         tensor_error(&s.dx[p], &want[p].t), 1e-12);
    }
    for (int p = 0; p < 3; p++) block_free(&want[p]);
    setup_free(&s);
}

/* More chunks than parts take at a time. */
static void gradients_of_taylor_in_parts_match_the_direct_form(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int i = 0; i < 2 * FORM_SHAPES; i++) {
        attn_case c;
        if (i % FORM_SHAPES == 4) continue; /* the direct form takes no state */
        assert_true(gradient_form(&c, FORM_TAYLOR + FORM_MAPS * i, 600, 10, 9));
        c.desc.taylor.terms = 4;
        c.desc.kv_heads = 1 + i % 2;
        compare_with(ctx, &c, "taylor/direct");
    }
    lnt_ctx_destroy(ctx);
}

/* More queries in a group than the direct form keeps at hand. */
static void gradients_of_hybrid_in_large_groups_match_the_chunked_form(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int kind = 0; kind < 2; kind += budget(2, 1)) {
        attn_case c;
        assert_true(gradient_form(&c, FORM_HYBRID + kind, 400, 16, 16));
        c.desc.heads = 32;
        compare_with(ctx, &c, "hybrid/chunked");
    }
    lnt_ctx_destroy(ctx);
}

/* ---- tiny denominators ----------------------------------------------------------------------- */

/* d = 1, and a weight of 1e-40 between the query in the middle and any key, ordinary ones elsewhere.  Or
 * one of 1e-30, whose inverse is a number, and values of 1e12. */
static setup tiny_setup(lnt_ctx *ctx, attn_case *c, lnt_mechanism mechanism, int causal, bool large)
{
    const double linear = large ? 1e-21 : 1e-31, squared = large ? 1e-6 : 1e-11;
    static const double square[] = { 0, 0, 1 };
    *c = case_make(mechanism, 1, 1, 9, 9, 1, 3);
    c->desc.backward = 1;
    c->desc.causal = causal;
    c->desc.linear.eps = 0;
    if (mechanism == LNT_LINEAR) c->desc.linear.feature_map = LNT_MAP_RELU;
    else c->desc.taylor.coefficients = square, c->desc.taylor.terms = COUNT_OF(square);
    setup s = setup_new(ctx, c);
    for (int64_t i = 0; i < 9; i++) {
        tensor_put(&s.x[1], i, 1e-9);
        tensor_put(&s.x[0], i, i != 4 ? 1 : mechanism == LNT_LINEAR ? linear : squared);
    }
    for (int64_t i = 0; large && i < 9 * 3; i++) tensor_put(&s.x[2], i, 1e12 * tensor_at(&s.x[2], i));
    return s;
}

/* 1 / den overflows, or what it is multiplied with; y does not. */
static void a_row_with_a_tiny_denominator_has_no_gradient_and_spoils_none(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    int tried = 0;
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int form = 0; form < 8; form++) {
            const lnt_mechanism mechanism = lnt_algorithm_mechanism(a);
            bool (*const run)(setup *s, int algorithm) = form & 1 ? run_backward : run_backward_kept;
            attn_case c;
            if (mechanism != LNT_LINEAR && mechanism != LNT_TAYLOR) continue;
            setup s = tiny_setup(ctx, &c, mechanism, form & 2, form & 4);
            block with[3];
            if (run(&s, a)) {
                tried++;
                assert_true(isfinite(lnt_tensor_get(&s.t.out.t, 0, 0, 4, 0)));
                for (int p = 0; p < 3; p++) with[p] = block_copy(&s.dx[p]);
                for (int64_t i = 0; i < 3; i++) lnt_tensor_set(&s.dout.t, 0, 0, 4, i, 0);
                assert_true(run(&s, a));
                for (int p = 0; p < 3; p++) {
                    expect_below(&c, lnt_algorithm_name(a), ctx, part_names[p],
                                 gradient_error(&s.dx[p], &with[p].t), 0);
                    block_free(&with[p]);
                }
            }
            setup_free(&s);
        }
    assert_true(tried >= 8 * 5);
    lnt_ctx_destroy(ctx);
}

/* ---- other dtypes -------------------------------------------------------------------------- */

/* Twice the roundings of a forward pass or so: the row sums of p (dp - delta) cancel. */
static double gradient_bound(lnt_dtype dtype)
{
    return dtype == LNT_F32 ? 5e-6 : dtype == LNT_F16 ? 0x1p-9 : 0x1p-7;
}

/* Relative; where the gradient is 0 (one key only) what is left are the roundings, a few epsilon, of
 * terms of size 1 that cancel: so a norm below 0.1 counts as 0.1. */
static double rounding_error(const lnt_tensor *got, const lnt_tensor *want)
{
    error_sum e = { 0 };
    for (int64_t i = 0; i < tensor_elements(want); i++)
        error_add(&e, tensor_at(got, i), tensor_at(want, i));
    e.reference = fmax(e.reference, 0.01);
    return error_value(&e);
}

static void gradients_in_other_dtypes_match_f64_within_rounding(void **state)
{
    (void)state;
    static const lnt_dtype dtypes[] = { LNT_F32, LNT_BF16, LNT_F16 };
    lnt_ctx *ctx = context_new(2, NULL);
    coverage cover = { { 0 } };
    for (int f = 0; f < FORMS; f += budget(11, 4))
        for (int dt = 0; dt < COUNT_OF(dtypes); dt++) {
            attn_case c, low;
            if (!gradient_form(&c, f, 67, 20, 9) || c.state_tokens) continue;
            low = c;
            low.desc.dtype = dtypes[dt];
            setup exact = setup_new(ctx, &c), s = setup_new(ctx, &low);
            setup_copy(&exact, &s); /* rounded */
            for (int a = 0; lnt_algorithm_name(a); a++) {
                if (lnt_algorithm_mechanism(a) != c.desc.mechanism) continue;
                if (!run_backward(&s, a)) continue;
                assert_true(run_backward(&exact, a));
                cover.supported[a]++;
                for (int p = 0; p < 3; p++)
                    expect_below(&low, lnt_algorithm_name(a), ctx, part_names[p],
                                 rounding_error(&s.dx[p], &exact.dx[p]),
                                 gradient_bound(dtypes[dt]));
            }
            setup_free(&exact);
            setup_free(&s);
        }
    coverage_check(&cover);
    lnt_ctx_destroy(ctx);
}

/* ---- refusals ------------------------------------------------------------------------------ */

static void a_plan_made_without_backward_refuses_it(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int map = 0; map < 2; map++) {
        attn_case c;
        assert_true(gradient_form(&c, map, 4, 3, 2));
        c.desc.backward = 0;
        setup s = setup_new(ctx, &c);
        lnt_plan *plan = case_plan(ctx, &c, -1);
        assert_ok(ctx, lnt_plan_forward(plan, &s.t.io));
        const lnt_status status = lnt_plan_backward(plan, &s.t.io, &s.grads);
        assert_true(status == LNT_ERR_ARGUMENT || status == LNT_ERR_UNSUPPORTED);
        assert_refused(ctx, status, status, "backward");
        lnt_plan_destroy(plan);
        setup_free(&s);
    }
    lnt_ctx_destroy(ctx);
}

static void gradients_of_the_wrong_shape_are_refused_by_name(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c;
    assert_true(gradient_form(&c, 1, 4, 3, 2));
    setup s = setup_new(ctx, &c);
    lnt_plan *plan = case_plan(ctx, &c, -1);
    lnt_tensor *const all[] = { &s.grads.dout, &s.grads.dq, &s.grads.dk, &s.grads.dv };
    static const char *const names[] = { "dout", "dq", "dk", "dv" };
    for (int i = 0; i < 4; i++) {
        const lnt_tensor good = *all[i];
        all[i]->shape[2]--;
        assert_refused(ctx, lnt_plan_backward(plan, &s.t.io, &s.grads), LNT_ERR_SHAPE, names[i]);
        *all[i] = good;
        all[i]->dtype = LNT_F32;
        assert_refused(ctx, lnt_plan_backward(plan, &s.t.io, &s.grads), LNT_ERR_DTYPE, names[i]);
        *all[i] = good;
    }
    s.grads.size--;
    assert_refused(ctx, lnt_plan_backward(plan, &s.t.io, &s.grads), LNT_ERR_ARGUMENT, "size");
    lnt_plan_destroy(plan);
    setup_free(&s);
    lnt_ctx_destroy(ctx);
}

/* Of the keys alone, or of the queries alone, too. */
static void gradients_past_the_length_are_exactly_zero(void **state)
{
    (void)state;
    enum { ROWS = 40, WIDTH = 8 };
    static const int64_t n[] = { 0, 17, ROWS };
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int side = 0; side < 2; side++) { /* whose lengths are given */
            attn_case c = case_make(lnt_algorithm_mechanism(a), 2, 2, ROWS, ROWS, WIDTH, WIDTH);
            c.desc.batch = 3;
            c.desc.causal = 0;
            c.desc.backward = 1;
            setup s = setup_new(ctx, &c);
            *(side ? &s.t.io.lengths_k : &s.t.io.lengths_q) = n;
            const bool done = run_backward(&s, a);
            for (int p = 0; done && p < 3; p++)
                for (int64_t i = 0; i < 3 * 2 * ROWS * WIDTH; i++) {
                    const int64_t row = i / WIDTH % ROWS, b = i / WIDTH / ROWS / 2;
                    const double g = lnt_tensor_get(&s.dx[p], b, i / WIDTH / ROWS % 2, row, i % WIDTH);
                    expect_true(&c, lnt_algorithm_name(a), ctx, "a gradient past the length is not 0",
                                (p > 0) != side || row < n[b] || g == 0);
                }
            setup_free(&s);
        }
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_finite_differences_of_the_oracle),
        cmocka_unit_test(the_gradient_of_the_temperature_matches_differences),
        cmocka_unit_test(gradients_of_long_sequences_match_along_random_directions),
        cmocka_unit_test(gradients_of_cur_match_with_64_landmarks),
        cmocka_unit_test(causal_gradients_match_wherever_the_queries_begin),
        cmocka_unit_test(gradients_of_taylor_in_parts_match_along_random_directions),
        cmocka_unit_test(gradients_of_taylor_in_parts_match_the_direct_form),
        cmocka_unit_test(gradients_of_hybrid_in_large_groups_match_the_chunked_form),
        cmocka_unit_test(a_row_with_a_tiny_denominator_has_no_gradient_and_spoils_none),
        cmocka_unit_test(gradients_past_the_length_are_exactly_zero),
        cmocka_unit_test(gradients_in_other_dtypes_match_f64_within_rounding),
        cmocka_unit_test(a_plan_made_without_backward_refuses_it),
        cmocka_unit_test(gradients_of_the_wrong_shape_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
