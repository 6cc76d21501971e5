/* test_hybrid.c - hybrid attention is softmax where it is near, its far mechanism where it is far, and one
 * quotient of both. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/stream.h"

static bool is_hybrid(int a) { return lnt_algorithm_mechanism(a) == LNT_HYBRID; }

/* The output of registry entry a, in f64. */
static block answer(lnt_ctx *ctx, const attn_case *c, const trial *t, int a)
{
    lnt_plan *plan = case_plan(ctx, c, a);
    assert_non_null(plan);
    case_forward(ctx, c, lnt_algorithm_name(a), plan, &t->io);
    lnt_plan_destroy(plan);
    const int64_t *s = t->out.t.shape;
    block y = block_new(LNT_F64, LAYOUT_BHND, s[0], s[1], s[2], s[3]);
    tensor_copy(&y.t, &t->out.t);
    return y;
}

static void a_window_or_sinks_over_all_tokens_give_softmax(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; i < 8 && is_hybrid(a); i++) {
            attn_case c = case_make(LNT_HYBRID, 4, 2, 150, 170, 12, 7);
            c.desc.dtype = i & 1 ? LNT_F64 : LNT_F32;
            c.desc.hybrid.window = i & 2 ? 170 : 3;
            c.desc.hybrid.sink = i & 2 ? 0 : 170;
            c.desc.scale = i & 4 ? 9 : -1; /* scores of hundreds, that no e^x holds */
            trial t = trial_new(ctx, &c);
            block got = answer(ctx, &c, &t, a);
            attn_case plain = c;
            plain.desc.mechanism = LNT_SOFTMAX;
            block want = answer(ctx, &plain, &t, 0);
            expect_below(&c, lnt_algorithm_name(a), ctx, "against softmax",
                         tensor_error(&got.t, &want.t), i & 1 ? 1e-14 : 2e-6);
            block_free(&got);
            block_free(&want);
            trial_free(&t);
        }
    lnt_ctx_destroy(ctx);
}

/* Near keys whose scores are far below 0 weigh nothing beside far keys of weight 1: what is left is the
 * far mechanism alone over what has left the window. */
static void a_window_that_weighs_nothing_leaves_the_far_keys(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    const double constant = 1;
    for (int a = 0; lnt_algorithm_name(a); a++) {
        if (!is_hybrid(a)) continue;
        attn_case c = case_make(LNT_HYBRID, 1, 1, 200, 200, 4, 3);
        c.desc.dtype = LNT_F64;
        c.desc.hybrid.sink = 0;
        c.desc.taylor.terms = 1; /* w(x) = 1: the mean of the far values */
        c.desc.taylor.coefficients = &constant;
        c.desc.scale = 1;
        trial t = trial_new(ctx, &c);
        tensor_fill(&t.q.t, 20);
        tensor_fill(&t.k.t, -20); /* x = -1600 */
        block got = answer(ctx, &c, &t, a);
        for (int64_t m = 0; m < 3; m++) {
            double sum = 0;
            for (int64_t i = 0; i < 200; i++) {
                const int64_t out = i - c.desc.hybrid.window; /* has left the window of query i */
                if (out >= 0) sum += lnt_tensor_get(&t.v.t, 0, 0, out, m);
                if (out < 0) continue; /* softmax */
                const double want = sum / (double)(out + 1), y = lnt_tensor_get(&got.t, 0, 0, i, m);
                expect_below(&c, lnt_algorithm_name(a), ctx, "mean", fabs(y - want), 1e-13);
            }
        }
        block_free(&got);
        trial_free(&t);
    }
    lnt_ctx_destroy(ctx);
}

/* And the other way round: e^x of hundreds beside far keys does not overflow, in no dtype. */
static void great_scores_in_the_window_do_not_overflow(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int far = LNT_LINEAR; far <= LNT_TAYLOR && is_hybrid(a); far++) {
            attn_case c = case_make(LNT_HYBRID, 2, 1, 180, 180, 6, 5);
            c.desc.scale = 200;
            c.desc.hybrid.far = (lnt_mechanism)far;
            trial t = trial_new(ctx, &c);
            block got = answer(ctx, &c, &t, a);
            expect_below(&c, lnt_algorithm_name(a), ctx, "against the oracle",
                         oracle_error(ctx, &c.desc, &t.io, 60), 2e-5); /* x is rounded at 1e3 */
            block_free(&got);
            trial_free(&t);
        }
    lnt_ctx_destroy(ctx);
}

/* ---- gradients over many chunks --------------------------------------------------------------- */

static void run_backward(lnt_ctx *ctx, const attn_case *c, const trial *t, int a, const block *dout,
                         const block grad[3])
{
    lnt_plan *plan = case_plan(ctx, c, a);
    assert_non_null(plan);
    const lnt_attn_grads g = { .size = sizeof g, .dout = dout->t, .dq = grad[0].t, .dk = grad[1].t,
                               .dv = grad[2].t };
    assert_ok(ctx, lnt_plan_forward(plan, &t->io));
    assert_ok(ctx, lnt_plan_backward(plan, &t->io, &g));
    lnt_plan_destroy(plan);
}

static void gradients_through_the_sums_match_the_direct_form(void **state)
{
    (void)state;
    static const int64_t windows[] = { 1, 37, 64, 100, 128, 200 }, sinks[] = { 0, 5, 0, 64, 90, 3 };
    lnt_ctx *ctx = context_new(2, NULL);
    int direct = 0;
    while (strcmp(lnt_algorithm_name(direct), "hybrid/direct") != 0) direct++;
    for (int i = 0; i < 12; i++) {
        attn_case c = case_make(LNT_HYBRID, 4, 2, 500, i % 3 ? 500 : 611, 7, 5);
        c.desc.dtype = LNT_F64;
        c.desc.backward = 1;
        c.desc.hybrid.window = windows[i % 6];
        c.desc.hybrid.sink = sinks[i % 6];
        c.desc.hybrid.far = i < 6 ? LNT_TAYLOR : LNT_LINEAR;
        if (i % 2) case_set_decay(&c, 0.99);
        dice d = { (uint64_t)i };
        if (i % 4 == 1) case_random_packing(&d, &c);
        if (i % 4 == 2) case_random_lengths(&d, &c);
        trial t = trial_new(ctx, &c);
        const lnt_tensor *x[3] = { &t.q.t, &t.k.t, &t.v.t };
        block dout = block_new(LNT_F64, LAYOUT_BHND, 1, 4, 500, 5), want[3], got[3];
        draw_values(&d, &dout.t);
        for (int p = 0; p < 3; p++) {
            const int64_t *s = x[p]->shape;
            want[p] = block_new(LNT_F64, LAYOUT_BHND, s[0], s[1], s[2], s[3]);
            got[p] = block_new(LNT_F64, LAYOUT_BHND, s[0], s[1], s[2], s[3]);
        }
        run_backward(ctx, &c, &t, direct, &dout, want);
        for (int a = 0; lnt_algorithm_name(a); a++) {
            if (!is_hybrid(a) || a == direct) continue;
            run_backward(ctx, &c, &t, a, &dout, got);
            for (int p = 0; p < 3; p++)
                expect_below(&c, lnt_algorithm_name(a), ctx, "gradients of two forms",
                             tensor_error(&got[p].t, &want[p].t), 1e-12);
        }
        for (int p = 0; p < 3; p++) block_free(&want[p]), block_free(&got[p]);
        block_free(&dout);
        trial_free(&t);
    }
    lnt_ctx_destroy(ctx);
}

/* ---- states ----------------------------------------------------------------------------------- */

/* Tokens first .. first+count-1 through a step or, with `to`, through a plan from state s to that one. */
static void advance(lnt_ctx *ctx, lnt_plan *plan, lnt_state *s, lnt_state *to, const trial *t,
                    int64_t first, int64_t count)
{
    lnt_attn_io io = t->io;
    io.q = tensor_rows(&t->q.t, first, count);
    io.k = tensor_rows(&t->k.t, first, count);
    io.v = tensor_rows(&t->v.t, first, count);
    io.out = tensor_rows(&t->out.t, first, count);
    io.state_in = s;
    io.state_out = to;
    assert_ok(ctx, to ? lnt_plan_forward(plan, &io)
                      : lnt_state_step(s, &io.q, &io.k, &io.v, &io.out));
}

/* Prefill by plans, steps of any length, files and forks in between: one sequence all the same. */
static void long_streams_in_any_pieces_equal_the_oracle(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    static const char path[] = "hybrid.safetensors";
    dice d = { 77 };
    for (int f = STREAM_HYBRID; f < STREAM_WINDOW; f++)
        for (int i = 0; i < budget(2, 6); i++) {
            attn_case c;
            stream_form(&c, f, 700, LNT_F32);
            c.desc.state = 1;
            trial t = trial_new(ctx, &c);
            lnt_plan *plan = case_plan(ctx, &c, -1);
            lnt_state *s = stream_state(ctx, &c), *next;
            for (int64_t n = 0, count; n < 700; n += count) {
                count = dice_range(&d, 1, i % 2 ? 5 : 150);
                if (count > 700 - n) count = 700 - n;
                const int64_t what = dice_range(&d, 0, 9);
                next = what < 3 ? s : what == 7 ? stream_state(ctx, &c) : NULL;
                advance(ctx, plan, s, next, &t, n, count);
                if (what == 7) {
                    lnt_state_destroy(s);
                    s = next;
                } else if (what == 9) {
                    assert_ok(ctx, lnt_state_save(s, path));
                    assert_ok(ctx, lnt_state_load(ctx, &c.desc, path, &next));
                    lnt_state_destroy(s);
                    s = next;
                } else if (what == 8) {
                    assert_ok(ctx, lnt_state_fork(s, &next));
                    lnt_state_destroy(s);
                    s = next;
                }
            }
            expect_below(&c, NULL, ctx, "stream against the oracle",
                         oracle_error(ctx, &c.desc, &t.io, 40), forward_bound(&c.desc));
            lnt_state_destroy(s);
            lnt_plan_destroy(plan);
            trial_free(&t);
        }
    unlink(path);
    lnt_ctx_destroy(ctx);
}

static void a_state_does_not_grow_and_a_plan_predicts_its_size(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int f = STREAM_HYBRID; f < STREAM_WINDOW; f++) {
        attn_case c;
        stream_form(&c, f, 300, LNT_F32);
        trial t = trial_new(ctx, &c);
        lnt_plan *plan = case_plan(ctx, &c, -1);
        lnt_state *s = stream_state(ctx, &c);
        lnt_plan_info info = { .size = sizeof info };
        assert_ok(ctx, lnt_plan_describe(plan, &info));
        assert_true(info.state_bytes == lnt_state_bytes(s));
        stream_append(ctx, s, &t, 0, 300);
        assert_true(info.state_bytes == lnt_state_bytes(s));
        double held = 0;
        for (int i = 0; i < 4; i++) {
            lnt_tensor view;
            const char *name;
            assert_ok(ctx, lnt_state_tensor(s, i, &name, &view));
            held += (double)(tensor_elements(&view) / STREAM_BATCH);
        }
        assert_true(info.state_elements == held);
        lnt_state_destroy(s);
        lnt_plan_destroy(plan);
        trial_free(&t);
    }
    lnt_ctx_destroy(ctx);
}

static void states_that_differ_in_window_sink_or_far_do_not_fit(void **state)
{
    (void)state;
    static const char *const names[] = { "window", "sink", "far", "feature width" };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < 4; i++) {
        attn_case c = case_make(LNT_HYBRID, 1, 1, 4, 4, 5, 5), other;
        c.desc.taylor.terms = 2;
        c.desc.linear.feature_map = LNT_MAP_FOURIER;
        c.desc.linear.features = 6; /* as many as monomials: the same shape */
        other = c;
        if (i == 0) other.desc.hybrid.window++;
        if (i == 1) other.desc.hybrid.sink++;
        if (i == 2) other.desc.hybrid.far = LNT_LINEAR;
        if (i == 3) other.desc.taylor.terms = 3;
        c.desc.state = 1;
        trial t = trial_new(ctx, &c);
        lnt_plan *plan = case_plan(ctx, &c, -1);
        lnt_state *s = stream_state(ctx, &other);
        t.io.state_in = s;
        const lnt_status status = lnt_plan_forward(plan, &t.io);
        assert_true(status == LNT_ERR_SHAPE || status == LNT_ERR_ARGUMENT);
        assert_non_null(strstr(lnt_ctx_error(ctx), names[i]));
        lnt_state_destroy(s);
        lnt_plan_destroy(plan);
        trial_free(&t);
    }
    lnt_ctx_destroy(ctx);
}

static void merge_and_remove_are_refused_in_a_sentence(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c;
    stream_form(&c, STREAM_HYBRID, 8, LNT_F32);
    trial t = trial_new(ctx, &c);
    lnt_state *s = stream_state(ctx, &c), *other = stream_state(ctx, &c), *want;
    stream_append(ctx, s, &t, 0, 8);
    assert_ok(ctx, lnt_state_fork(s, &want));
    assert_refused(ctx, lnt_state_merge(s, other), LNT_ERR_UNSUPPORTED, "hybrid");
    assert_refused(ctx, lnt_state_remove(s, &t.k.t, &t.v.t), LNT_ERR_UNSUPPORTED, "window");
    expect_same_answers(ctx, &c, s, want, &t);
    lnt_state_destroy(s);
    lnt_state_destroy(other);
    lnt_state_destroy(want);
    trial_free(&t);
    lnt_ctx_destroy(ctx);
}

static void partial_answers_are_refused_in_a_sentence(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c = case_make(LNT_HYBRID, 1, 1, 4, 4, 5, 5);
    trial t = trial_new(ctx, &c);
    lnt_plan *plan = case_plan(ctx, &c, -1);
    block num = block_new(LNT_F32, LAYOUT_BHND, 1, 1, 4, 5);
    block den = block_new(LNT_F32, LAYOUT_BHND, 1, 1, 4, 1);
    const lnt_partial partial = { .size = sizeof partial, .num = num.t, .den = den.t };
    assert_refused(ctx, lnt_plan_partial(plan, &t.io, &partial), LNT_ERR_UNSUPPORTED, "hybrid");
    block_free(&num);
    block_free(&den);
    lnt_plan_destroy(plan);
    trial_free(&t);
    lnt_ctx_destroy(ctx);
}

static void what_hybrid_does_not_offer_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        lnt_status status;
    } wrong[] = { { "causal", LNT_ERR_UNSUPPORTED },    { "decay", LNT_ERR_ARGUMENT },
                  { "normalize", LNT_ERR_UNSUPPORTED }, { "output_norm", LNT_ERR_UNSUPPORTED },
                  { "center_mean", LNT_ERR_UNSUPPORTED }, { "window", LNT_ERR_ARGUMENT },
                  { "sink", LNT_ERR_ARGUMENT },         { "far is 0", LNT_ERR_ARGUMENT },
                  { "backward", LNT_ERR_UNSUPPORTED } };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        attn_case c = case_make(LNT_HYBRID, 1, 1, 4, 4, 5, 5);
        lnt_plan *plan;
        if (i == 0) c.desc.causal = 0;
        if (i == 1) case_set_decay(&c, 1.5);
        if (i == 2) c.desc.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT;
        if (i == 3) c.desc.taylor.output_norm = 1;
        if (i == 4) c.desc.taylor.center_mean = 1;
        if (i == 5) c.desc.hybrid.window = -1;
        if (i == 6) c.desc.hybrid.sink = -1;
        if (i == 7) c.desc.hybrid.far = LNT_SOFTMAX;
        if (i == 8) c.desc.state = c.desc.backward = 1;
        assert_refused(ctx, lnt_plan_create(ctx, &c.desc, &plan), wrong[i].status, wrong[i].word);
    }
    lnt_ctx_destroy(ctx);
}

static void the_sentence_on_causal_names_hybrid_once(void **state)
{
    (void)state;
    static const char sentence[] = "hybrid: which keys are the last ones needs an order; set causal";
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c = case_make(LNT_HYBRID, 1, 1, 4, 4, 5, 5);
    trial t = trial_new(ctx, &c);
    double y[5];
    lnt_plan *plan;
    c.desc.causal = 0;
    assert_int_equal(lnt_plan_create(ctx, &c.desc, &plan), LNT_ERR_UNSUPPORTED);
    assert_string_equal(lnt_ctx_error(ctx), sentence);
    assert_int_equal(lnt_reference_row(ctx, &c.desc, &t.io, 0, 0, 0, y), LNT_ERR_UNSUPPORTED);
    assert_string_equal(lnt_ctx_error(ctx), sentence);
    c.desc.algorithm = "direct";
    assert_int_equal(lnt_plan_create(ctx, &c.desc, &plan), LNT_ERR_UNSUPPORTED);
    assert_string_equal(lnt_ctx_error(ctx),
                        "hybrid/direct: which keys are the last ones needs an order; set causal");
    trial_free(&t);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_or_sinks_over_all_tokens_give_softmax),
        cmocka_unit_test(a_window_that_weighs_nothing_leaves_the_far_keys),
        cmocka_unit_test(great_scores_in_the_window_do_not_overflow),
        cmocka_unit_test(gradients_through_the_sums_match_the_direct_form),
        cmocka_unit_test(long_streams_in_any_pieces_equal_the_oracle),
        cmocka_unit_test(a_state_does_not_grow_and_a_plan_predicts_its_size),
        cmocka_unit_test(states_that_differ_in_window_sink_or_far_do_not_fit),
        cmocka_unit_test(merge_and_remove_are_refused_in_a_sentence),
        cmocka_unit_test(partial_answers_are_refused_in_a_sentence),
        cmocka_unit_test(what_hybrid_does_not_offer_is_refused_by_name),
        cmocka_unit_test(the_sentence_on_causal_names_hybrid_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
