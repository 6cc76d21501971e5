/* test_alias.c - what a call writes may share memory with what it reads only where linnet.h says so: there
 * the answer has the same bits, elsewhere it is refused and nothing is written. */
#include <stdio.h>

#include "../support/case.h"
#include "core/overlap.h"
#include "linnet/model.h"

enum { H = 2, N = 7, D = 4 };

/* ---- views --------------------------------------------------------------------------------------- */

static lnt_tensor random_view(dice *d, float *memory)
{
    lnt_tensor t = { .data = memory + dice_range(d, 100, 200), .dtype = LNT_F32 };
    for (int i = 0; i < 4; i++) {
        t.shape[i] = dice_range(d, 0, 9) ? dice_range(d, 1, 4) : 0;
        t.stride[i] = dice_range(d, -12, 12);
    }
    return t;
}

/* Marks the elements of t; whether one was marked before. */
static bool mark(const lnt_tensor *t, const float *memory, unsigned char *marks, bool look)
{
    bool found = false;
    for (int64_t b = 0; b < t->shape[0]; b++)
        for (int64_t h = 0; h < t->shape[1]; h++)
            for (int64_t n = 0; n < t->shape[2]; n++)
                for (int64_t c = 0; c < t->shape[3]; c++) {
                    const int64_t at = (const float *)t->data - memory + b * t->stride[0] +
                                       h * t->stride[1] + n * t->stride[2] + c * t->stride[3];
                    found |= look && marks[at];
                    if (!look) marks[at] = 1;
                }
    return found;
}

static void views_overlap_exactly_where_they_share_an_element(void **state)
{
    (void)state;
    enum { CASES = 20000 };
    static float memory[512];
    dice d = { 3 };
    int shared = 0;
    for (int i = 0; i < budget(CASES / 10, CASES); i++) {
        unsigned char marks[512] = { 0 };
        const lnt_tensor a = random_view(&d, memory), b = random_view(&d, memory);
        mark(&a, memory, marks, false);
        const bool overlap = mark(&b, memory, marks, true);
        assert_int_equal(lnt_tensor_overlap(&a, &b), overlap);
        assert_int_equal(lnt_tensor_overlap(&b, &a), overlap);
        shared += overlap;
    }
    assert_true(shared > 0);
}

/* ---- plans --------------------------------------------------------------------------------------- */

static attn_case square_case(int algorithm, lnt_dtype dtype)
{
    const lnt_mechanism mechanism = lnt_algorithm_mechanism(algorithm);
    attn_case c = case_make(mechanism, H, H, N, N, D, D);
    c.desc.dtype = dtype;
    c.desc.causal = mechanism != LNT_CUR;
    c.desc.cur.landmarks = 3;
    return c;
}

/* The view one row on, which shares all rows but one with the view itself. */
static lnt_tensor next_row(const lnt_tensor *t, int64_t rows)
{
    lnt_tensor shifted = *t;
    shifted.data = (char *)t->data + rows * t->stride[2] * (int64_t)lnt_dtype_size(t->dtype);
    return shifted;
}

/* q, k, v and out as they lie in one array [N, 4, H, D]. */
static lnt_attn_io packed_io(const trial *t, const block *room)
{
    const lnt_tensor *const from[] = { &t->q.t, &t->k.t, &t->v.t };
    lnt_attn_io io = { .size = sizeof io };
    lnt_tensor *const to[] = { &io.q, &io.k, &io.v, &io.out };
    for (int i = 0; i < 4; i++) {
        *to[i] = room->t;
        to[i]->data = (char *)room->t.data + (size_t)i * H * D * lnt_dtype_size(room->t.dtype);
        to[i]->shape[1] = H;
        if (i < 3) tensor_copy(to[i], from[i]);
    }
    return io;
}

static bool same_values(const lnt_tensor *a, const lnt_tensor *b)
{
    bool same = true;
    for (int64_t i = 0; i < tensor_elements(a); i++) same &= tensor_at(a, i) == tensor_at(b, i);
    return same;
}

static void a_forward_run_writes_apart_from_what_it_reads(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int dtype = LNT_F32; dtype <= LNT_F64; dtype++) {
            const attn_case c = square_case(a, (lnt_dtype)dtype);
            lnt_plan *plan = case_plan(ctx, &c, a);
            if (!plan) continue;
            trial t = trial_new(ctx, &c);
            lnt_tensor *const inputs[] = { &t.io.q, &t.io.k, &t.io.v };
            static const char *const says[] = { "out overlaps q", "out overlaps k", "out overlaps v" };
            for (int i = 0; i < 6; i++) {
                lnt_attn_io io = t.io;
                io.out = next_row(inputs[i % 3], i / 3);
                block before = block_copy(inputs[i % 3]);
                assert_refused(ctx, lnt_plan_forward(plan, &io), LNT_ERR_ARGUMENT, says[i % 3]);
                assert_true(same_values(&before.t, inputs[i % 3]));
                block_free(&before);
            }
            case_forward(ctx, &c, lnt_algorithm_name(a), plan, &t.io);
            block room = block_new((lnt_dtype)dtype, LAYOUT_BNHD, 1, 4 * H, N, D);
            const lnt_attn_io io = packed_io(&t, &room);
            assert_ok(ctx, lnt_plan_forward(plan, &io));
            expect_true(&c, lnt_algorithm_name(a), ctx, "the same bits between rows of q, k and v",
                        same_values(&io.out, &t.out.t));
            block_free(&room);
            trial_free(&t);
            lnt_plan_destroy(plan);
        }
    lnt_ctx_destroy(ctx);
}

static void a_backward_run_writes_apart_from_what_it_reads(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++) {
        attn_case c = square_case(a, LNT_F32);
        c.desc.backward = 1;
        lnt_plan *plan = case_plan(ctx, &c, a);
        if (!plan) continue;
        trial t = trial_new(ctx, &c), g = trial_new(ctx, &c);
        const lnt_attn_grads good = { .size = sizeof good, .dout = g.out.t, .dq = g.q.t, .dk = g.k.t,
                                      .dv = g.v.t };
        tensor_fill(&g.out.t, 0.5);
        assert_ok(ctx, lnt_plan_backward(plan, &t.io, &good));
        static const char *const names[] = { "dq", "dk", "dv", "q", "k", "v", "dout" };
        for (int written = 0; written < 3; written++)
            for (int other = written + 1; other < 7; other++)
                for (int rows = 0; rows < 2; rows++) {
                    lnt_attn_grads bad = good;
                    lnt_tensor *const to[] = { &bad.dq, &bad.dk, &bad.dv };
                    const lnt_tensor *const with[] = { &bad.dq, &bad.dk, &bad.dv, &t.io.q, &t.io.k,
                                                       &t.io.v, &bad.dout };
                    char word[40];
                    *to[written] = next_row(with[other], rows);
                    snprintf(word, sizeof word, "%s overlaps %s", names[written], names[other]);
                    assert_refused(ctx, lnt_plan_backward(plan, &t.io, &bad), LNT_ERR_ARGUMENT, word);
                }
        /* Gradients as they lie in one array. */
        block room = block_new(LNT_F32, LAYOUT_BNHD, 1, 4 * H, N, D);
        const lnt_attn_io lies = packed_io(&g, &room);
        lnt_attn_grads packed = good;
        packed.dq = lies.q, packed.dk = lies.k, packed.dv = lies.v;
        for (int i = 0; i < 4 * H * N * D; i++) tensor_put(&room.t, i, -1);
        assert_ok(ctx, lnt_plan_backward(plan, &t.io, &packed));
        expect_true(&c, lnt_algorithm_name(a), ctx, "the same bits between rows",
                    same_values(&packed.dq, &good.dq) && same_values(&packed.dk, &good.dk) &&
                        same_values(&packed.dv, &good.dv));
        block_free(&room);
        trial_free(&g);
        trial_free(&t);
        lnt_plan_destroy(plan);
    }
    lnt_ctx_destroy(ctx);
}

static void a_run_may_leave_its_state_where_it_found_it(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++) {
        attn_case c = square_case(a, LNT_F32);
        c.desc.state = 1;
        lnt_plan *plan = case_plan(ctx, &c, a);
        if (!plan) continue;
        trial t = trial_new(ctx, &c);
        lnt_state *before, *after;
        assert_ok(ctx, lnt_state_create(ctx, &c.desc, &before));
        assert_ok(ctx, lnt_state_append(before, &t.k.t, &t.v.t));
        assert_ok(ctx, lnt_state_create(ctx, &c.desc, &after));
        t.io.state_in = before;
        t.io.state_out = after;
        assert_ok(ctx, lnt_plan_forward(plan, &t.io));
        block apart = block_copy(&t.out.t);
        t.io.state_out = before;
        assert_ok(ctx, lnt_plan_forward(plan, &t.io));
        expect_true(&c, lnt_algorithm_name(a), ctx, "the same bits", same_values(&apart.t, &t.out.t));
        for (int i = 0; i < 2; i++) {
            const char *name;
            lnt_tensor x, y;
            assert_ok(ctx, lnt_state_tensor(before, i, &name, &x));
            assert_ok(ctx, lnt_state_tensor(after, i, &name, &y));
            expect_true(&c, lnt_algorithm_name(a), ctx, name, same_values(&x, &y));
        }
        assert_int_equal(lnt_state_tokens(before, 0), lnt_state_tokens(after, 0));
        block_free(&apart);
        lnt_state_destroy(before);
        lnt_state_destroy(after);
        trial_free(&t);
        lnt_plan_destroy(plan);
    }
    lnt_ctx_destroy(ctx);
}

static void a_gradient_of_a_state_is_written_to_a_state_of_its_own(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c = case_make(LNT_LINEAR, H, H, N, N, D, D);
    c.desc.causal = c.desc.backward = c.desc.state = 1;
    lnt_plan *plan = case_plan(ctx, &c, -1);
    trial t = trial_new(ctx, &c), g = trial_new(ctx, &c);
    lnt_state *states[3];
    for (int i = 0; i < 3; i++) assert_ok(ctx, lnt_state_create(ctx, &c.desc, &states[i]));
    t.io.state_in = states[0];
    t.io.state_out = states[1];
    for (int i = 0; i < 3; i++) {
        const lnt_attn_grads grads = { .size = sizeof grads, .dout = g.out.t, .dq = g.q.t, .dk = g.k.t,
                                       .dv = g.v.t, .dstate_out = states[2], .dstate_in = states[i] };
        assert_refused(ctx, lnt_plan_backward(plan, &t.io, &grads), LNT_ERR_ARGUMENT,
                       "dstate_in is written");
    }
    for (int i = 0; i < 3; i++) lnt_state_destroy(states[i]);
    trial_free(&t);
    trial_free(&g);
    lnt_plan_destroy(plan);
    lnt_ctx_destroy(ctx);
}

/* ---- states -------------------------------------------------------------------------------------- */

static void a_state_reads_and_writes_apart_from_itself_and_its_inputs(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    static const lnt_mechanism mechanisms[] = { LNT_SOFTMAX, LNT_LINEAR, LNT_TAYLOR, LNT_HYBRID };
    for (int m = 0; m < COUNT_OF(mechanisms); m++) {
        attn_case c = case_make(mechanisms[m], H, H, 1, 1, D, D);
        c.desc.causal = 1;
        trial t = trial_new(ctx, &c);
        lnt_state *s, *fork;
        lnt_tensor own;
        const char *name;
        assert_ok(ctx, lnt_state_create(ctx, &c.desc, &s));
        assert_ok(ctx, lnt_state_step(s, &t.q.t, &t.k.t, &t.v.t, &t.out.t));
        const lnt_tensor *const inputs[] = { &t.q.t, &t.k.t, &t.v.t };
        static const char *const says[] = { "out overlaps q", "out overlaps k", "out overlaps v" };
        for (int i = 0; i < 3; i++)
            assert_refused(ctx, lnt_state_step(s, &t.q.t, &t.k.t, &t.v.t, inputs[i]), LNT_ERR_ARGUMENT,
                           says[i]);
        assert_refused(ctx, lnt_state_query(s, &t.q.t, &t.q.t), LNT_ERR_ARGUMENT, says[0]);
        assert_ok(ctx, lnt_state_tensor(s, 0, &name, &own)); /* which sums what it had kept back */
        assert_ok(ctx, lnt_state_fork(s, &fork));
        const lnt_tensor inside = lnt_tensor_bhnd(own.data, LNT_F32, 1, H, 1, D);
        assert_refused(ctx, lnt_state_append(s, &inside, &t.v.t), LNT_ERR_ARGUMENT, "k overlaps the state");
        assert_refused(ctx, lnt_state_append(s, &t.k.t, &inside), LNT_ERR_ARGUMENT, "v overlaps the state");
        assert_refused(ctx, lnt_state_query(s, &inside, &t.out.t), LNT_ERR_ARGUMENT, "q overlaps the state");
        assert_refused(ctx, lnt_state_query(s, &t.q.t, &inside), LNT_ERR_ARGUMENT, "out overlaps the state");
        if (mechanisms[m] == LNT_LINEAR || mechanisms[m] == LNT_TAYLOR)
            assert_refused(ctx, lnt_state_remove(s, &inside, &t.v.t), LNT_ERR_ARGUMENT,
                           "k overlaps the state");
        /* What was refused has changed nothing. */
        assert_int_equal(lnt_state_tokens(s, 0), 1);
        assert_ok(ctx, lnt_state_query(fork, &t.q.t, &t.out.t));
        block want = block_copy(&t.out.t);
        assert_ok(ctx, lnt_state_query(s, &t.q.t, &t.out.t));
        assert_true(same_values(&want.t, &t.out.t));
        block_free(&want);
        if (mechanisms[m] != LNT_HYBRID)
            assert_refused(ctx, lnt_state_merge(s, s), LNT_ERR_ARGUMENT, "the same state");
        if (mechanisms[m] != LNT_SOFTMAX) { /* a sequence copied to itself is as it was */
            block before = block_copy(&t.out.t);
            assert_ok(ctx, lnt_state_copy(s, 0, s, 0));
            assert_ok(ctx, lnt_state_query(s, &t.q.t, &t.out.t));
            assert_true(same_values(&before.t, &t.out.t));
            block_free(&before);
        }
        lnt_state_destroy(fork);
        lnt_state_destroy(s);
        trial_free(&t);
    }
    lnt_ctx_destroy(ctx);
}

/* ---- answers before the division ----------------------------------------------------------------- */

typedef struct parts {
    block num, den, max;
    lnt_partial p;
} parts;

static parts parts_new(lnt_mechanism mechanism)
{
    parts x = { .num = block_new(LNT_F32, LAYOUT_BHND, 1, H, N, D),
                .den = block_new(LNT_F32, LAYOUT_BHND, 1, H, N, 1),
                .max = block_new(LNT_F32, LAYOUT_BHND, 1, H, N, 1) };
    x.p = (lnt_partial){ .size = sizeof x.p, .num = x.num.t, .den = x.den.t };
    if (mechanism == LNT_SOFTMAX) x.p.max = x.max.t;
    return x;
}

static void parts_free(parts *x)
{
    block_free(&x->num);
    block_free(&x->den);
    block_free(&x->max);
}

static void a_partial_may_be_merged_with_itself_and_divided_in_place(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    static const lnt_mechanism mechanisms[] = { LNT_SOFTMAX, LNT_LINEAR, LNT_TAYLOR };
    for (int m = 0; m < COUNT_OF(mechanisms); m++) {
        const attn_case c = case_make(mechanisms[m], H, H, N, N, D, D);
        lnt_plan *plan = case_plan(ctx, &c, -1);
        trial t = trial_new(ctx, &c);
        parts x = parts_new(mechanisms[m]), y = parts_new(mechanisms[m]);
        lnt_partial bad = x.p;
        bad.num = t.q.t;
        assert_refused(ctx, lnt_plan_partial(plan, &t.io, &bad), LNT_ERR_ARGUMENT, "partial overlaps q");
        assert_ok(ctx, lnt_plan_partial(plan, &t.io, &x.p));
        assert_ok(ctx, lnt_plan_partial(plan, &t.io, &y.p));
        bad = y.p;
        bad.den = x.p.den; /* half its own, half the other's */
        assert_refused(ctx, lnt_partial_merge(ctx, &x.p, &bad), LNT_ERR_ARGUMENT, "into overlaps other");
        bad.den = lnt_tensor_bhnd(y.num.t.data, LNT_F32, 1, H, N, 1);
        assert_refused(ctx, lnt_partial_merge(ctx, &bad, &x.p), LNT_ERR_ARGUMENT, "into overlaps into");
        const lnt_tensor shifted = lnt_tensor_bhnd((float *)x.num.t.data + 1, LNT_F32, 1, H, N - 1, D);
        assert_ok(ctx, lnt_partial_finish(ctx, &x.p, 0, &t.out.t));
        lnt_partial shorter = x.p;
        shorter.num.shape[2] = shorter.den.shape[2] = N - 1;
        if (shorter.max.data) shorter.max.shape[2] = N - 1;
        assert_refused(ctx, lnt_partial_finish(ctx, &shorter, 0, &shifted), LNT_ERR_ARGUMENT,
                       "out overlaps num");
        assert_ok(ctx, lnt_partial_finish(ctx, &y.p, 0, &y.p.num));
        assert_true(same_values(&t.out.t, &y.p.num));
        /* Over the same keys twice: numerator and denominator double, the answer stays. */
        assert_ok(ctx, lnt_partial_merge(ctx, &x.p, &x.p));
        assert_ok(ctx, lnt_partial_finish(ctx, &x.p, 0, &x.p.num));
        assert_true(same_values(&t.out.t, &x.p.num));
        parts_free(&x);
        parts_free(&y);
        trial_free(&t);
        lnt_plan_destroy(plan);
    }
    lnt_ctx_destroy(ctx);
}

/* ---- all else ------------------------------------------------------------------------------------ */

static void the_reference_and_copies_write_apart_from_what_they_read(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c = case_make(LNT_SOFTMAX, 1, 1, N, N, D, D);
    c.desc.dtype = LNT_F64;
    trial t = trial_new(ctx, &c);
    assert_refused(ctx, lnt_reference_row(ctx, &c.desc, &t.io, 0, 0, 0, t.v.t.data), LNT_ERR_ARGUMENT,
                   "out overlaps v");
    char memory[16] = "apart";
    assert_refused(ctx, lnt_device_write(ctx, memory + 4, memory, 8), LNT_ERR_ARGUMENT, "to overlaps from");
    assert_refused(ctx, lnt_device_read(ctx, memory, memory, 1), LNT_ERR_ARGUMENT, "to overlaps from");
    assert_ok(ctx, lnt_device_write(ctx, memory + 8, memory, 8));
    assert_string_equal(memory + 8, "apart");
    trial_free(&t);
    lnt_ctx_destroy(ctx);
}

static void tokens_lie_apart_from_text_and_logits(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model;
    const lnt_model_request request = { .size = sizeof request, .task = "text",
        .text = "{\"model\":{\"dim\":8,\"layers\":1,\"heads\":1,\"length\":9}}" };
    assert_ok(ctx, lnt_model_create(ctx, &request, &model));
    static union {
        float logits[256];
        int32_t tokens[256];
        char text[8];
    } room;
    size_t count;
    const lnt_sampling draw = { .size = sizeof draw, .top_p = 1 };
    assert_refused(ctx, lnt_model_encode(model, room.text, 8, room.tokens + 1, &count), LNT_ERR_ARGUMENT,
                   "tokens overlaps text");
    assert_refused(ctx, lnt_model_sample(model, room.logits, 1, 1, &draw, room.tokens + 3),
                   LNT_ERR_ARGUMENT, "tokens overlaps logits");
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_overlap_exactly_where_they_share_an_element),
        cmocka_unit_test(a_forward_run_writes_apart_from_what_it_reads),
        cmocka_unit_test(a_backward_run_writes_apart_from_what_it_reads),
        cmocka_unit_test(a_run_may_leave_its_state_where_it_found_it),
        cmocka_unit_test(a_gradient_of_a_state_is_written_to_a_state_of_its_own),
        cmocka_unit_test(a_state_reads_and_writes_apart_from_itself_and_its_inputs),
        cmocka_unit_test(a_partial_may_be_merged_with_itself_and_divided_in_place),
        cmocka_unit_test(the_reference_and_copies_write_apart_from_what_they_read),
        cmocka_unit_test(tokens_lie_apart_from_text_and_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
