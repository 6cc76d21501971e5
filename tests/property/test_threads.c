/* test_threads.c - the number of threads does not change one bit of any answer. */
#include "../support/case.h"

static const int counts[] = { 1, 2, 3, 7 };
enum { COUNTS = COUNT_OF(counts) };

static void contexts_open(lnt_ctx *ctx[COUNTS], const char *isa)
{
    for (int i = 0; i < COUNTS; i++) {
        ctx[i] = context_new(counts[i], isa);
        assert_int_equal(lnt_ctx_threads(ctx[i]), counts[i]);
    }
}

static void contexts_close(lnt_ctx *ctx[COUNTS])
{
    for (int i = 0; i < COUNTS; i++) lnt_ctx_destroy(ctx[i]);
}

/* Whether the algorithm does this case at all. */
static bool runs(lnt_ctx *ctx, const attn_case *c, int algorithm)
{
    lnt_plan *plan = case_plan(ctx, c, algorithm);
    if (!plan) return false;
    lnt_plan_destroy(plan);
    return true;
}

static bool same_state(lnt_ctx *ctx, lnt_state *a, lnt_state *b)
{
    bool same = true;
    for (int p = 0; p < 2; p++) {
        lnt_tensor x, y;
        const char *name;
        assert_ok(ctx, lnt_state_tensor(a, p, &name, &x));
        assert_ok(ctx, lnt_state_tensor(b, p, &name, &y));
        for (int64_t i = 0; i < tensor_elements(&x); i++)
            same &= tensor_at(&x, i) == tensor_at(&y, i);
    }
    return same;
}

static void thread_count_does_not_change_a_bit_of_forward(void **state)
{
    (void)state;
    static const lnt_dtype dtypes[] = { LNT_F32, LNT_F16, LNT_BF16, LNT_F64 };
    coverage cover = { { 0 } };
    dice d = { 31 };
    for (int isa = 0; lnt_isa_name(isa); isa++) {
        if (!lnt_isa_available(isa)) continue;
        lnt_ctx *ctx[COUNTS];
        contexts_open(ctx, lnt_isa_name(isa));
        for (int a = 0; lnt_algorithm_name(a); a++)
            for (int i = 0; i < budget(2, 24); i++) {
                attn_case c;
                case_random(&d, lnt_algorithm_mechanism(a), dtypes[i % 4], &c);
                trial t[COUNTS];
                if (!runs(ctx[0], &c, a)) continue;
                lnt_plan *plan;
                cover.supported[a]++;
                for (int n = 0; n < COUNTS; n++) {
                    plan = case_plan(ctx[n], &c, a);
                    t[n] = trial_new(ctx[n], &c);
                    assert_ok(ctx[n], lnt_plan_forward(plan, &t[n].io));
                    lnt_plan_destroy(plan);
                    expect_true(&c, lnt_algorithm_name(a), ctx[n], "forward differs from 1 thread",
                                block_same_bits(&t[n].out, &t[0].out));
                }
                for (int n = 0; n < COUNTS; n++) trial_free(&t[n]);
            }
        contexts_close(ctx);
    }
    coverage_check(&cover);
}

/* dq, dk, dv of one context's run, and the gradient of the state before it where there is one. */
typedef struct backward_run {
    trial t;
    block dout, dx[3];
    lnt_state *dstate_in;
} backward_run;

static backward_run backward_on(lnt_ctx *ctx, const attn_case *c, int algorithm)
{
    backward_run r = { .t = trial_new(ctx, c) };
    const lnt_tensor *const x[] = { &r.t.q.t, &r.t.k.t, &r.t.v.t, &r.t.out.t };
    block *const dx[] = { &r.dx[0], &r.dx[1], &r.dx[2], &r.dout };
    for (int i = 0; i < 4; i++)
        *dx[i] = block_new(c->desc.dtype, c->lay_out, x[i]->shape[0], x[i]->shape[1],
                           x[i]->shape[2], x[i]->shape[3]);
    draw_values(&(dice){ c->seed + 1 }, &r.dout.t);
    lnt_attn_grads grads = { .size = sizeof grads, .dout = r.dout.t, .dq = r.dx[0].t,
                             .dk = r.dx[1].t, .dv = r.dx[2].t };
    if (r.t.state) assert_ok(ctx, lnt_state_fork(r.t.state, &r.dstate_in));
    grads.dstate_out = r.t.state; /* any numbers will do */
    grads.dstate_in = r.dstate_in;
    lnt_plan *plan = case_plan(ctx, c, algorithm);
    assert_non_null(plan);
    assert_ok(ctx, lnt_plan_forward(plan, &r.t.io));
    assert_ok(ctx, lnt_plan_backward(plan, &r.t.io, &grads));
    lnt_plan_destroy(plan);
    return r;
}

static void backward_run_free(backward_run *r)
{
    trial_free(&r->t);
    block_free(&r->dout);
    for (int i = 0; i < 3; i++) block_free(&r->dx[i]);
    lnt_state_destroy(r->dstate_in);
}

static void compare_backward(lnt_ctx *ctx[COUNTS], const attn_case *c, int a)
{
    const char *name = lnt_algorithm_name(a);
    backward_run r[COUNTS];
    for (int n = 0; n < COUNTS; n++) {
        r[n] = backward_on(ctx[n], c, a);
        expect_true(c, name, ctx[n], "forward differs from 1 thread",
                    block_same_bits(&r[n].t.out, &r[0].t.out));
        for (int p = 0; p < 3; p++)
            expect_true(c, name, ctx[n], "backward differs from 1 thread",
                        block_same_bits(&r[n].dx[p], &r[0].dx[p]));
        if (r[n].dstate_in)
            expect_true(c, name, ctx[n], "the gradient of the state differs from 1 thread",
                        same_state(ctx[n], r[n].dstate_in, r[0].dstate_in));
    }
    for (int n = 0; n < COUNTS; n++) backward_run_free(&r[n]);
}

static void thread_count_does_not_change_a_bit_of_backward(void **state)
{
    (void)state;
    coverage cover = { { 0 } };
    dice d = { 32 };
    lnt_ctx *ctx[COUNTS];
    contexts_open(ctx, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; i < budget(2, 16); i++) {
            attn_case c;
            case_random(&d, lnt_algorithm_mechanism(a), i % 3 ? LNT_F32 : LNT_F64, &c);
            c.desc.backward = 1;
            if (!runs(ctx[0], &c, a)) continue;
            cover.supported[a]++;
            compare_backward(ctx, &c, a);
        }
    contexts_close(ctx);
    coverage_check(&cover);
}

/* Several tiles of queries and of keys: with heads enough for the threads the direct form goes back in
 * one pass, else in two. */
static void thread_count_does_not_change_a_bit_of_many_tiles(void **state)
{
    (void)state;
    lnt_ctx *ctx[COUNTS];
    contexts_open(ctx, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++) {
        const lnt_mechanism mechanism = lnt_algorithm_mechanism(a);
        if (mechanism == LNT_CUR || mechanism == LNT_HYBRID) continue;
        for (int i = 0; i < 8; i++) {
            attn_case c = case_make(mechanism, 4, i % 4 < 2 ? 2 : 4, 200, i < 4 ? 200 : 241, 10, 7);
            c.desc.backward = 1;
            c.desc.causal = i % 2;
            if (mechanism == LNT_LINEAR && i % 4 == 3) case_set_decay(&c, 0.9);
            if (runs(ctx[0], &c, a)) compare_backward(ctx, &c, a);
        }
    }
    contexts_close(ctx);
}

/* States that threads share: causal or not, with a state before or not, fewer or more kv heads. */
static void thread_count_does_not_change_a_bit_of_taylor_in_parts(void **state)
{
    (void)state;
    lnt_ctx *ctx[COUNTS];
    contexts_open(ctx, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; lnt_algorithm_mechanism(a) == LNT_TAYLOR && i < 8; i++) {
            attn_case c = case_make(LNT_TAYLOR, 2, 1 + i / 4, 300, 300, 10, 7);
            case_set_parts(&c);
            c.desc.backward = 1;
            c.desc.causal = i % 2;
            c.desc.compensated = i == 5;
            c.state_tokens = i / 2 % 2 ? 30 : 0;
            if (runs(ctx[0], &c, a)) compare_backward(ctx, &c, a);
        }
    contexts_close(ctx);
}

static void thread_count_does_not_change_a_bit_of_a_state(void **state)
{
    (void)state;
    lnt_ctx *ctx[COUNTS];
    contexts_open(ctx, NULL);
    for (int f = 0; f < 2 * (LAST_MAP + 2); f++) {
        attn_case c = case_make(f < 2 ? LNT_SOFTMAX : LNT_LINEAR, 6, 3, 90, 90, 19, 10);
        c.desc.batch = 2;
        c.desc.causal = 1;
        if (f >= 2) c.desc.linear.feature_map = (lnt_feature_map)(f / 2 - 1);
        if (f >= 2 && f % 2) case_set_decay(&c, 0.9);
        trial t[COUNTS];
        block answer[COUNTS];
        lnt_state *s[COUNTS];
        for (int n = 0; n < COUNTS; n++) {
            t[n] = trial_new(ctx[n], &c);
            assert_ok(ctx[n], lnt_state_create(ctx[n], &c.desc, &s[n]));
            assert_ok(ctx[n], lnt_state_append(s[n], &t[n].k.t, &t[n].v.t));
            assert_ok(ctx[n], lnt_state_step(s[n], &t[n].q.t, &t[n].k.t, &t[n].v.t, &t[n].out.t));
            expect_true(&c, NULL, ctx[n], "step differs from 1 thread",
                        block_same_bits(&t[n].out, &t[0].out));
            answer[n] = block_new(c.desc.dtype, LAYOUT_BHND, 2, 6, 90, 10);
            assert_ok(ctx[n], lnt_state_query(s[n], &t[n].q.t, &answer[n].t));
            expect_true(&c, NULL, ctx[n], "query differs from 1 thread",
                        block_same_bits(&answer[n], &answer[0]));
            if (f >= 2)
                expect_true(&c, NULL, ctx[n], "the state differs from 1 thread",
                            same_state(ctx[n], s[n], s[0]));
        }
        for (int n = 0; n < COUNTS; n++) {
            lnt_state_destroy(s[n]);
            block_free(&answer[n]);
            trial_free(&t[n]);
        }
    }
    contexts_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thread_count_does_not_change_a_bit_of_forward),
        cmocka_unit_test(thread_count_does_not_change_a_bit_of_backward),
        cmocka_unit_test(thread_count_does_not_change_a_bit_of_many_tiles),
        cmocka_unit_test(thread_count_does_not_change_a_bit_of_taylor_in_parts),
        cmocka_unit_test(thread_count_does_not_change_a_bit_of_a_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
