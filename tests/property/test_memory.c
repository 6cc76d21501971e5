/* test_memory.c - running a plan allocates nothing, what is planned is what is allocated, and every
 * allocation may fail without harm. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/case.h"

/* Form f: mechanisms, a plain and a random map, causal or not, f32 and f64. */
enum { KINDS = 6, FORMS = KINDS * 2 * 2 };

static void form(attn_case *c, int f, int64_t n)
{
    static const lnt_mechanism mechanisms[] = { LNT_SOFTMAX, LNT_LINEAR, LNT_LINEAR, LNT_TAYLOR,
                                                  LNT_CUR, LNT_HYBRID };
    *c = case_make(mechanisms[f % KINDS], 4, 2, n, n, 20, 12);
    c->desc.batch = 2;
    if (f % KINDS == 2) c->desc.linear.feature_map = LNT_MAP_POSITIVE;
    c->desc.causal = (f / KINDS % 2 && f % KINDS != 4) || f % KINDS == 5;
    if (f % KINDS == 5 && f / KINDS % 2) c->desc.hybrid.far = LNT_LINEAR;
    c->desc.dtype = f / (2 * KINDS) ? LNT_F64 : LNT_F32;
    c->desc.backward = 1;
    c->desc.compensated = f % KINDS == 3;
}

/* cur has neither states nor partial answers, hybrid no partial answers. */
static bool has_state(int f) { return f % KINDS != 4; }
static bool adds_up(int f) { return f % KINDS < 4; }

/* The first half of the batch stays in `first`, `second` is the other. */
static void split_batch(lnt_tensor *first, lnt_tensor *second)
{
    first->shape[0] /= 2;
    *second = *first;
    if (!first->data) return;
    second->data = (char *)first->data + first->shape[0] * first->stride[0] *
                                             (int64_t)lnt_dtype_size(first->dtype);
}

static void running_a_plan_allocates_nothing(void **state)
{
    (void)state;
    tracker mem;
    lnt_ctx *ctx = context_tracked(&mem, 3, NULL);
    coverage cover = { { 0 } };
    for (int f = 0; f < FORMS; f++)
        for (int a = 0; lnt_algorithm_name(a); a++) {
            attn_case c;
            form(&c, f, 90);
            if (lnt_algorithm_mechanism(a) != c.desc.mechanism) continue;
            lnt_plan *plan = case_plan(ctx, &c, a);
            if (!plan) continue;
            cover.supported[a]++;
            trial t = trial_new(ctx, &c), d = trial_new(ctx, &c);
            block den = block_new(c.desc.dtype, LAYOUT_BHND, 4, 4, 90, 1);
            block max = block_new(c.desc.dtype, LAYOUT_BHND, 4, 4, 90, 1);
            lnt_partial partial = { .size = sizeof partial, .num = d.out.t, .den = den.t };
            lnt_partial other = { .size = sizeof other, .num = t.out.t };
            if (c.desc.mechanism == LNT_SOFTMAX) partial.max = max.t;
            split_batch(&partial.den, &other.den);
            split_batch(&partial.max, &other.max);
            const lnt_attn_grads grads = { .size = sizeof grads, .dout = t.out.t, .dq = d.q.t,
                                           .dk = d.k.t, .dv = d.v.t };
            const int64_t calls = mem.calls;
            assert_ok(ctx, lnt_plan_forward(plan, &t.io));
            assert_ok(ctx, lnt_plan_backward(plan, &t.io, &grads));
            if (adds_up(f)) {
                assert_ok(ctx, lnt_plan_partial(plan, &t.io, &partial));
                assert_ok(ctx, lnt_plan_partial(plan, &t.io, &other));
                assert_ok(ctx, lnt_partial_merge(ctx, &partial, &other));
                assert_ok(ctx, lnt_partial_finish(ctx, &partial, 0, &t.out.t));
            }
            expect_true(&c, lnt_algorithm_name(a), ctx, "a run allocated", mem.calls == calls);
            block_free(&den);
            block_free(&max);
            trial_free(&t);
            trial_free(&d);
            lnt_plan_destroy(plan);
        }
    coverage_check(&cover);
    context_close_tracked(ctx, &mem);
}

static void a_state_allocates_nothing_once_it_has_room(void **state)
{
    (void)state;
    tracker mem;
    lnt_ctx *ctx = context_tracked(&mem, 2, NULL);
    for (int f = 0; f < FORMS; f++) {
        attn_case c;
        if (!has_state(f)) continue;
        form(&c, f, 50);
        c.desc.causal = 1;
        trial t = trial_new(ctx, &c);
        lnt_state *s;
        assert_ok(ctx, lnt_state_create(ctx, &c.desc, &s));
        assert_ok(ctx, lnt_state_reserve(s, 150));
        const int64_t calls = mem.calls;
        assert_ok(ctx, lnt_state_step(s, &t.q.t, &t.k.t, &t.v.t, &t.out.t));
        assert_ok(ctx, lnt_state_append(s, &t.k.t, &t.v.t));
        assert_ok(ctx, lnt_state_query(s, &t.q.t, &t.out.t));
        assert_ok(ctx, lnt_state_step(s, &t.q.t, &t.k.t, &t.v.t, &t.out.t));
        expect_true(&c, NULL, ctx, "a state allocated", mem.calls == calls);
        lnt_state_destroy(s);
        trial_free(&t);
    }
    context_close_tracked(ctx, &mem);
}

static lnt_plan_info describe(lnt_ctx *ctx, const lnt_plan *plan)
{
    lnt_plan_info info = { .size = sizeof info };
    assert_ok(ctx, lnt_plan_describe(plan, &info));
    return info;
}

/* Beside the scratch a plan holds itself: a fixed size, whatever the shape. */
static void the_scratch_of_a_plan_is_what_it_says(void **state)
{
    (void)state;
    tracker mem;
    lnt_ctx *ctx = context_tracked(&mem, 2, NULL);
    size_t itself = 0;
    for (int f = 0; f < FORMS; f++)
        for (int a = 0; lnt_algorithm_name(a); a++)
            for (int64_t n = 1; n < 3000; n *= 20) {
                attn_case c;
                form(&c, f, n);
                if (lnt_algorithm_mechanism(a) != c.desc.mechanism) continue;
                const size_t before = mem.live_bytes;
                lnt_plan *plan = case_plan(ctx, &c, a);
                if (!plan) continue;
                const lnt_plan_info info = describe(ctx, plan);
                assert_string_equal(info.algorithm, lnt_algorithm_name(a));
                const size_t rest = mem.live_bytes - before - info.workspace_bytes;
                expect_true(&c, lnt_algorithm_name(a), ctx, "the plan itself is over 4 kB",
                            rest <= 4096);
                if (!itself) itself = rest;
                expect_true(&c, lnt_algorithm_name(a), ctx, "scratch differs from workspace_bytes",
                            rest == itself);
                lnt_plan_destroy(plan);
            }
    context_close_tracked(ctx, &mem);
}

/* The most allocated at once in making a plan of n tokens and running it; 0: there is none. */
static size_t peak_of(attn_case *c, int a, int64_t n)
{
    tracker mem;
    lnt_ctx *ctx = context_tracked(&mem, 2, NULL);
    c->desc.length_q = c->desc.length_k = n;
    lnt_plan *plan = case_plan(ctx, c, a);
    const bool supported = plan != NULL;
    if (supported) {
        trial t = trial_new(ctx, c); /* not from the context's allocator */
        assert_ok(ctx, lnt_plan_forward(plan, &t.io));
        trial_free(&t);
    }
    lnt_plan_destroy(plan);
    context_close_tracked(ctx, &mem);
    return supported ? mem.peak_bytes : 0;
}

/* Algorithms that take a state are those with a memory of fixed size. */
static void the_peak_of_a_state_form_does_not_grow_with_the_length(void **state)
{
    (void)state;
    int seen[LNT_HYBRID + 1] = { 0 };
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int f = 0; f < FORMS; f++) {
            attn_case c;
            form(&c, f, 0);
            if (lnt_algorithm_mechanism(a) != c.desc.mechanism) continue;
            c.desc.backward = 0;
            c.desc.state = 1;
            const size_t peak = peak_of(&c, a, 100);
            if (!peak) continue;
            seen[c.desc.mechanism]++;
            expect_true(&c, lnt_algorithm_name(a), NULL, "ten times the tokens need more memory",
                        peak_of(&c, a, 1000) == peak);
        }
    assert_true(!seen[LNT_SOFTMAX] && seen[LNT_LINEAR] && seen[LNT_TAYLOR] && seen[LNT_HYBRID]);
}

static void the_bytes_of_a_state_are_what_the_plan_says(void **state)
{
    (void)state;
    tracker mem;
    lnt_ctx *ctx = context_tracked(&mem, 2, NULL);
    for (int f = 0; f < FORMS; f++) {
        attn_case c;
        if (!has_state(f)) continue;
        form(&c, f, 70);
        c.desc.causal = 1;
        lnt_plan *plan = case_plan(ctx, &c, -1);
        const lnt_plan_info info = describe(ctx, plan);
        lnt_state *s;
        const size_t before = mem.live_bytes;
        assert_ok(ctx, lnt_state_create(ctx, &c.desc, &s));
        assert_int_equal(lnt_state_bytes(s), info.state_bytes);
        assert_true(mem.live_bytes - before >= info.state_bytes);
        double elements = 0;
        const int tensors = c.desc.mechanism == LNT_HYBRID ? 4 : 2;
        for (int i = 0; i < tensors; i++) {
            lnt_tensor x;
            const char *name;
            assert_ok(ctx, lnt_state_tensor(s, i, &name, &x));
            elements += (double)tensor_elements(&x) / 2; /* of one of two sequences */
        }
        assert_true(info.state_elements == elements);
        lnt_state_destroy(s);
        lnt_plan_destroy(plan);
    }
    context_close_tracked(ctx, &mem);
}

/* ---- every allocation failing in turn ------------------------------------------------------ */

/* What a failing call is tried on; it must give back its status. */
typedef struct attempt {
    lnt_ctx *ctx;
    const attn_case *c;
    trial t;
    lnt_state *s;
    const char *path;
} attempt;

static lnt_status try_plan(attempt *x)
{
    lnt_plan *plan;
    const lnt_status status = lnt_plan_create(x->ctx, &x->c->desc, &plan);
    assert_true(!status == !!plan);
    lnt_plan_destroy(plan);
    return status;
}

static lnt_status try_state(attempt *x)
{
    lnt_state *s;
    const lnt_status status = lnt_state_create(x->ctx, &x->c->desc, &s);
    assert_true(!status == !!s);
    lnt_state_destroy(s);
    return status;
}

static lnt_status try_fork(attempt *x)
{
    lnt_state *s;
    const lnt_status status = lnt_state_fork(x->s, &s);
    assert_true(!status == !!s);
    lnt_state_destroy(s);
    return status;
}

static lnt_status try_save(attempt *x) { return lnt_state_save(x->s, x->path); }

static lnt_status try_load(attempt *x)
{
    lnt_state *s;
    const lnt_status status = lnt_state_load(x->ctx, &x->c->desc, x->path, &s);
    assert_true(!status == !!s);
    lnt_state_destroy(s);
    return status;
}

static lnt_status try_reference(attempt *x)
{
    double y[12];
    return lnt_reference_row(x->ctx, &x->c->desc, &x->t.io, 0, 0, 3, y);
}

/* Fails allocation 0, 1, 2 ... of the call until it succeeds.  Gives the number of failures. */
static int fail_in_turn(attempt *x, tracker *mem, const char *what, lnt_status (*call)(attempt *))
{
    for (int n = 0; n < 1000; n++) {
        const int64_t live = mem->live;
        const size_t bytes = mem->live_bytes;
        mem->fail_at = mem->calls + n;
        const lnt_status status = call(x);
        mem->fail_at = -1;
        expect_true(x->c, NULL, x->ctx, what, mem->live == live && mem->live_bytes == bytes);
        if (status == LNT_OK) return n;
        assert_refused(x->ctx, status, LNT_ERR_MEMORY, "memory");
    }
    fail_msg("%s never succeeded", what);
    return 0;
}

static void fail_states_in_turn(attempt *x, tracker *mem)
{
    assert_ok(x->ctx, lnt_state_create(x->ctx, &x->c->desc, &x->s));
    assert_ok(x->ctx, lnt_state_append(x->s, &x->t.k.t, &x->t.v.t));
    assert_true(fail_in_turn(x, mem, "state_create", try_state) > 0);
    assert_true(fail_in_turn(x, mem, "state_fork", try_fork) > 0);
    fail_in_turn(x, mem, "state_save", try_save);
    assert_true(fail_in_turn(x, mem, "state_load", try_load) > 0);
    lnt_state_destroy(x->s);
}

static void every_allocation_that_fails_says_so_and_leaks_nothing(void **state)
{
    (void)state;
    tracker mem;
    static const char path[] = "memory.safetensors";
    lnt_ctx *ctx = context_tracked(&mem, 2, NULL);
    for (int f = 0; f < FORMS; f++) {
        attn_case c;
        form(&c, f, 20);
        c.desc.causal = has_state(f);
        attempt x = { .ctx = ctx, .c = &c, .t = trial_new(ctx, &c), .path = path };
        assert_true(fail_in_turn(&x, &mem, "plan_create", try_plan) > 0);
        assert_int_equal(fail_in_turn(&x, &mem, "reference_row", try_reference), 1);
        if (has_state(f)) fail_states_in_turn(&x, &mem);
        trial_free(&x.t);
    }
    unlink(path);
    context_close_tracked(ctx, &mem);
}

static void a_cache_that_cannot_grow_keeps_its_tokens(void **state)
{
    (void)state;
    tracker mem;
    lnt_ctx *ctx = context_tracked(&mem, 2, NULL);
    attn_case c;
    form(&c, 0, 20);
    c.desc.causal = 1;
    trial t = trial_new(ctx, &c);
    block before = block_new(LNT_F32, LAYOUT_BHND, 2, 4, 20, 12);
    lnt_state *s;
    assert_ok(ctx, lnt_state_create(ctx, &c.desc, &s));
    assert_ok(ctx, lnt_state_append(s, &t.k.t, &t.v.t));
    assert_ok(ctx, lnt_state_query(s, &t.q.t, &before.t));
    for (int n = 0;; n++) {
        mem.fail_at = mem.calls + n;
        const lnt_status status = lnt_state_step(s, &t.q.t, &t.k.t, &t.v.t, &t.out.t);
        mem.fail_at = -1;
        if (status == LNT_OK) {
            assert_true(n > 0); /* it did have to grow */
            break;
        }
        assert_int_equal(status, LNT_ERR_MEMORY);
        assert_int_equal(lnt_state_tokens(s, 0), 20);
        assert_ok(ctx, lnt_state_query(s, &t.q.t, &t.out.t));
        assert_true(block_same_bits(&t.out, &before));
    }
    assert_int_equal(lnt_state_tokens(s, 0), 40);
    lnt_state_destroy(s);
    block_free(&before);
    trial_free(&t);
    context_close_tracked(ctx, &mem);
}

/* Sizes whose product does not exist must be refused, not wrapped around. */
static void sizes_that_cannot_exist_are_refused(void **state)
{
    (void)state;
    tracker mem;
    lnt_ctx *ctx = context_tracked(&mem, 2, NULL);
    for (int map = LNT_MAP_ELU1; map <= LAST_MAP; map++) {
        attn_case c = case_make(LNT_LINEAR, 1, 1, 8, 8, INT64_C(1) << 32, INT64_C(1) << 32);
        c.desc.linear.feature_map = (lnt_feature_map)map;
        c.desc.heads = 1 << 10;
        c.desc.kv_heads = 1 << 10;
        lnt_plan *plan;
        lnt_state *s;
        const lnt_status status = lnt_plan_create(ctx, &c.desc, &plan);
        assert_true(status == LNT_ERR_MEMORY || status == LNT_ERR_ARGUMENT);
        assert_null(plan);
        assert_true(lnt_state_create(ctx, &c.desc, &s) == LNT_ERR_MEMORY || !s);
        assert_null(s);
    }
    context_close_tracked(ctx, &mem);
}

static void more_than_the_machine_has_is_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx;
    assert_int_equal(lnt_ctx_create(NULL, &ctx), LNT_OK);
    attn_case c = case_make(LNT_SOFTMAX, 1, 1, 1, INT64_C(1) << 38, 64, 64); /* keys of 64 TiB */
    lnt_state *s;
    assert_int_equal(lnt_state_create(ctx, &c.desc, &s), LNT_ERR_MEMORY);
    assert_null(s);
    assert_non_null(strstr(lnt_ctx_error(ctx), "out of memory: the state needs 70368744177664 bytes"));
    lnt_ctx_destroy(ctx);
}

static void too_many_monomials_are_refused_with_what_would_fit(void **state)
{
    (void)state;
    lnt_ctx *ctx;
    assert_int_equal(lnt_ctx_create(NULL, &ctx), LNT_OK);
    attn_case c = case_make(LNT_TAYLOR, 1, 1, 8, 8, 64, 64);
    for (int terms = 8; terms <= 32; terms += 8) { /* from 9e9 to more than 2^62 */
        c.desc.taylor.terms = terms;
        c.desc.algorithm = "taylor/state";
        lnt_plan *plan;
        lnt_state *s;
        assert_int_equal(lnt_plan_create(ctx, &c.desc, &plan), LNT_ERR_MEMORY);
        assert_null(plan);
        assert_non_null(strstr(lnt_ctx_error(ctx), "terms in 64 dimensions make"));
        assert_non_null(strstr(lnt_ctx_error(ctx), "would fit"));
        assert_int_equal(lnt_state_create(ctx, &c.desc, &s), LNT_ERR_MEMORY);
        assert_null(s);
    }
    lnt_ctx_destroy(ctx);
}

/* States of 6 KB are not what 2^40 tokens have no room for; 2^39 of them have none. */
static void taylor_out_of_memory_is_told_by_what_is_too_large(void **state)
{
    (void)state;
    lnt_ctx *ctx;
    lnt_plan *plan;
    lnt_state *s;
    assert_int_equal(lnt_ctx_create(NULL, &ctx), LNT_OK);
    attn_case c = case_make(LNT_TAYLOR, 8, 8, INT64_C(1) << 40, -1, 8, 8);
    c.desc.backward = 1;
    assert_refused(ctx, lnt_plan_create(ctx, &c.desc, &plan), LNT_ERR_MEMORY,
                   "out of memory: workspace needs ");
    c.desc.mechanism = LNT_HYBRID;
    c.desc.causal = 1;
    assert_refused(ctx, lnt_plan_create(ctx, &c.desc, &plan), LNT_ERR_MEMORY,
                   "out of memory: workspace needs ");
    c = case_make(LNT_TAYLOR, 1, 1, 8, 8, 8, 8);
    c.desc.batch = INT64_C(1) << 39;
    assert_refused(ctx, lnt_state_create(ctx, &c.desc, &s), LNT_ERR_MEMORY,
                   "batch is 549755813888 and kv_heads is 1, with a state of 0.00594 MB for each");
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running_a_plan_allocates_nothing),
        cmocka_unit_test(a_state_allocates_nothing_once_it_has_room),
        cmocka_unit_test(the_scratch_of_a_plan_is_what_it_says),
        cmocka_unit_test(the_peak_of_a_state_form_does_not_grow_with_the_length),
        cmocka_unit_test(the_bytes_of_a_state_are_what_the_plan_says),
        cmocka_unit_test(every_allocation_that_fails_says_so_and_leaks_nothing),
        cmocka_unit_test(a_cache_that_cannot_grow_keeps_its_tokens),
        cmocka_unit_test(sizes_that_cannot_exist_are_refused),
        cmocka_unit_test(more_than_the_machine_has_is_refused),
        cmocka_unit_test(too_many_monomials_are_refused_with_what_would_fit),
        cmocka_unit_test(taylor_out_of_memory_is_told_by_what_is_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
