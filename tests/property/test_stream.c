/* test_stream.c - a state is the tokens it was given: however they came, it answers as one batch
 * would. */
#include "../support/stream.h"

static void any_split_through_step_equals_the_batch_answer(void **state)
{
    (void)state;
    static const lnt_dtype dtypes[] = { LNT_F32, LNT_F64, LNT_BF16, LNT_F16 };
    dice d = { 3 };
    for (int isa = 0; lnt_isa_name(isa); isa++) {
        if (!lnt_isa_available(isa)) continue;
        lnt_ctx *ctx = context_new(2, lnt_isa_name(isa));
        for (int f = 0; f < STREAM_FORMS; f++)
            for (int i = 0; i < budget(1, 8); i++) {
                attn_case c;
                stream_form(&c, f, dice_range(&d, 1, budget(40, 150)), dtypes[(f + i) % 4]);
                c.lay_q = c.lay_k = (layout)(i % LAYOUT_COUNT);
                c.lay_v = c.lay_out = (layout)(i % LAYOUT_OUTPUTS);
                trial t = trial_new(ctx, &c);
                lnt_state *s = stream_state(ctx, &c);
                for (int64_t n = 0, next; n < c.desc.length_q; n = next) {
                    next = n + (i == 0 ? 1 : dice_range(&d, 0, c.desc.length_q - n));
                    const lnt_tensor q = tensor_rows(&t.q.t, n, next - n),
                                     k = tensor_rows(&t.k.t, n, next - n),
                                     v = tensor_rows(&t.v.t, n, next - n),
                                     y = tensor_rows(&t.out.t, n, next - n);
                    assert_ok(ctx, lnt_state_step(s, &q, &k, &v, &y));
                }
                expect_below(&c, NULL, ctx, "stream against batch",
                             oracle_error(ctx, &c.desc, &t.io, budget(4, 12)),
                             forward_bound(&c.desc));
                expect_true(&c, NULL, ctx, "guard", block_guard_intact(&t.out));
                assert_int_equal(lnt_state_tokens(s, STREAM_BATCH - 1), c.desc.length_q);
                lnt_state_destroy(s);
                trial_free(&t);
            }
        lnt_ctx_destroy(ctx);
    }
}

/* With decay a query stands at the last token, so it is a causal run of one query. */
static void append_then_query_equals_attention_over_the_same_tokens(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int f = 0; f < STREAM_FORMS; f++)
        for (int64_t cut = 0; cut <= 70; cut += 35) {
            attn_case c;
            stream_form(&c, f, 70, f % 3 ? LNT_F32 : LNT_F64);
            trial t = trial_new(ctx, &c);
            lnt_state *s = stream_state(ctx, &c);
            stream_append(ctx, s, &t, 0, cut);
            stream_append(ctx, s, &t, cut, 70 - cut);
            assert_ok(ctx, lnt_state_query(s, &t.q.t, &t.out.t));
            for (int64_t n = 0; n < 70; n += 23) {
                lnt_attn_io one = t.io;
                one.q = tensor_rows(&t.q.t, n, 1);
                one.out = tensor_rows(&t.out.t, n, 1);
                expect_below(&c, NULL, ctx, "query against the oracle",
                             oracle_error(ctx, &c.desc, &one, 1), forward_bound(&c.desc));
            }
            lnt_state_destroy(s);
            trial_free(&t);
        }
    lnt_ctx_destroy(ctx);
}

static void querying_a_state_without_tokens_gives_zeros(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int f = 0; f < STREAM_FORMS; f++) {
        attn_case c;
        stream_form(&c, f, 5, LNT_F32);
        trial t = trial_new(ctx, &c);
        lnt_state *s = stream_state(ctx, &c);
        assert_ok(ctx, lnt_state_query(s, &t.q.t, &t.out.t));
        for (int64_t i = 0; i < tensor_elements(&t.out.t); i++)
            assert_true(tensor_at(&t.out.t, i) == 0);
        lnt_state_destroy(s);
        trial_free(&t);
    }
    lnt_ctx_destroy(ctx);
}

/* Tokens first .. first+count-1 of the trial, from state `in` to state `out`. */
static void run_part(lnt_ctx *ctx, const attn_case *c, lnt_plan *plan, const trial *t,
                     int64_t first, int64_t count, lnt_state *in, lnt_state *out)
{
    lnt_attn_io io = t->io;
    io.q = tensor_rows(&t->q.t, first, count);
    io.k = tensor_rows(&t->k.t, first, count);
    io.v = tensor_rows(&t->v.t, first, count);
    io.out = tensor_rows(&t->out.t, first, count);
    io.state_in = in;
    io.state_out = out;
    case_forward(ctx, c, NULL, plan, &io);
}

/* The same by steps of one token. */
static void step_part(lnt_ctx *ctx, lnt_state *s, const trial *t, int64_t first, int64_t count)
{
    for (int64_t i = first; i < first + count; i++) {
        const lnt_tensor q = tensor_rows(&t->q.t, i, 1), k = tensor_rows(&t->k.t, i, 1);
        const lnt_tensor v = tensor_rows(&t->v.t, i, 1), out = tensor_rows(&t->out.t, i, 1);
        assert_ok(ctx, lnt_state_step(s, &q, &k, &v, &out));
    }
}

/* A run, a few steps and another run, the state handed on, in place or not, against one run. */
static bool continues(lnt_ctx *ctx, const attn_case *c, int algorithm, int64_t cut, bool in_place)
{
    const char *name = algorithm < 0 ? NULL : lnt_algorithm_name(algorithm);
    const int64_t n = c->desc.length_q;
    attn_case with_state = *c;
    with_state.desc.state = 1;
    lnt_plan *plan = case_plan(ctx, &with_state, algorithm);
    if (!plan) return false;
    trial t = trial_new(ctx, c);
    lnt_state *s = stream_state(ctx, c), *end = stream_state(ctx, c), *want = stream_state(ctx, c);
    const int64_t steps = cut < 3 ? cut : 3;
    run_part(ctx, c, plan, &t, 0, cut - steps, NULL, s);
    step_part(ctx, s, &t, cut - steps, steps);
    stream_append(ctx, end, &t, 0, 2); /* replaced by what the run leaves */
    run_part(ctx, c, plan, &t, cut, n - cut, s, in_place ? s : end);
    expect_below(c, name, ctx, "runs and steps against one run",
                 oracle_error(ctx, &c->desc, &t.io, budget(2, 8)), 2e-6);
    stream_append(ctx, want, &t, 0, n);
    expect_same_state(c, ctx, "the state at the end", in_place ? s : end, want, 1e-6);
    assert_int_equal(lnt_state_tokens(s, 1), in_place ? n : cut);
    lnt_state_destroy(s);
    lnt_state_destroy(end);
    lnt_state_destroy(want);
    trial_free(&t);
    lnt_plan_destroy(plan);
    return true;
}

static void a_run_continues_from_the_state_of_another(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    int ran = 0;
    for (int a = -1; a < 0 || lnt_algorithm_name(a); a++)
        for (int f = STREAM_LINEAR; f < STREAM_WINDOW; f++)
            for (int64_t cut = 0; cut <= 90; cut += budget(45, 30)) {
                attn_case c;
                stream_form(&c, f, 90, LNT_F32);
                if (a >= 0 && lnt_algorithm_mechanism(a) != c.desc.mechanism) continue;
                const bool done = continues(ctx, &c, a, cut, f % 3 == 0);
                expect_true(&c, NULL, ctx, "the planner's choice must take states", done || a >= 0);
                ran += done && a >= 0;
            }
    assert_true(ran > 0);
    lnt_ctx_destroy(ctx);
}

/* What state `end` holds of sequence s, against appending that sequence's keys to the state it
 * came from. */
static void check_packed_state(lnt_ctx *ctx, const attn_case *c, const trial *t, lnt_state *end,
                               int64_t s)
{
    const int64_t n = c->cu_k[s + 1] - c->cu_k[s];
    lnt_tensor k = tensor_rows(&t->k.t, c->cu_k[s], n), v = tensor_rows(&t->v.t, c->cu_k[s], n);
    k.shape[0] = v.shape[0] = c->sequences; /* all take what s was given; only s is looked at */
    k.stride[0] = v.stride[0] = 0;
    lnt_state *want;
    assert_ok(ctx, lnt_state_fork(t->state, &want));
    assert_ok(ctx, lnt_state_append(want, &k, &v));
    assert_int_equal(lnt_state_tokens(end, s), c->state_tokens + n);
    for (int i = 0; i < 2; i++) {
        lnt_tensor x, y;
        const char *name;
        assert_ok(ctx, lnt_state_tensor(end, i, &name, &x));
        assert_ok(ctx, lnt_state_tensor(want, i, &name, &y));
        x = tensor_batch(&x, s);
        y = tensor_batch(&y, s);
        expect_below(c, NULL, ctx, "state after a packed sequence", tensor_error(&x, &y), 1e-6);
    }
    lnt_state_destroy(want);
}

static void each_packed_sequence_has_its_own_state(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    dice d = { 44 };
    int ran = 0;
    for (int a = -1; a < 0 || lnt_algorithm_name(a); a++)
        for (int f = STREAM_LINEAR; f < STREAM_WINDOW; f++) {
            attn_case c, batch;
            stream_form(&c, f, 100, LNT_F32);
            case_random_packing(&d, &c);
            c.state_tokens = 7;
            if (a >= 0 && lnt_algorithm_mechanism(a) != c.desc.mechanism) continue;
            lnt_plan *plan = case_plan(ctx, &c, a);
            if (!plan) continue;
            trial t = trial_new(ctx, &c);
            batch = c;
            batch.desc.batch = c.sequences;
            lnt_state *end = stream_state(ctx, &batch);
            t.io.state_out = end;
            case_forward(ctx, &c, NULL, plan, &t.io);
            for (int64_t s = 0; s < c.sequences; s++) check_packed_state(ctx, &c, &t, end, s);
            ran++;
            lnt_state_destroy(end);
            trial_free(&t);
            lnt_plan_destroy(plan);
        }
    assert_true(ran > STREAM_WINDOW);
    lnt_ctx_destroy(ctx);
}

static void a_softmax_cache_grows_and_keeps_what_it_holds(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    attn_case c;
    stream_form(&c, 0, 300, LNT_F32);
    trial t = trial_new(ctx, &c);
    c.desc.length_q = 0;
    c.desc.length_k = 1;
    lnt_state *s = stream_state(ctx, &c);
    const size_t first = lnt_state_bytes(s);
    for (int64_t n = 0; n < 300; n += 25) stream_append(ctx, s, &t, n, 25);
    assert_true(lnt_state_bytes(s) > first);
    const size_t a_token = STREAM_BATCH * STREAM_KV_HEADS * (STREAM_DIM + STREAM_VALUE);
    assert_true(lnt_state_bytes(s) >= 300 * a_token * sizeof(float));
    assert_ok(ctx, lnt_state_query(s, &t.q.t, &t.out.t));
    attn_case all;
    stream_form(&all, 0, 300, LNT_F32);
    all.desc.causal = 0;
    expect_below(&all, NULL, ctx, "a grown cache", oracle_error(ctx, &all.desc, &t.io, 12), 2e-6);
    lnt_state_destroy(s);
    trial_free(&t);
    lnt_ctx_destroy(ctx);
}

/* All of a trial through a state whose tensors lie so, by pieces. */
static trial stepped(lnt_ctx *ctx, int form, layout lay, int causal)
{
    attn_case c;
    stream_form(&c, form, 40, LNT_F32);
    c.desc.causal = causal;
    c.lay_q = c.lay_k = c.lay_v = c.lay_out = lay;
    trial t = trial_new(ctx, &c);
    lnt_state *s = stream_state(ctx, &c);
    for (int64_t n = 0; n < 40; n += 20) {
        const lnt_tensor q = tensor_rows(&t.q.t, n, 20), k = tensor_rows(&t.k.t, n, 20);
        const lnt_tensor v = tensor_rows(&t.v.t, n, 20), out = tensor_rows(&t.out.t, n, 20);
        assert_ok(ctx, lnt_state_step(s, &q, &k, &v, &out));
    }
    lnt_state_destroy(s);
    return t;
}

static void a_state_takes_tensors_however_they_lie(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int f = 0; f < STREAM_FORMS; f++) {
        trial plain = stepped(ctx, f, LAYOUT_BHND, 1);
        for (int lay = LAYOUT_BHND + 1; lay < LAYOUT_OUTPUTS; lay++) {
            trial t = stepped(ctx, f, (layout)lay, 1);
            assert_true(tensor_error(&t.out.t, &plain.out.t) < 1e-6);
            assert_true(block_guard_intact(&t.out));
            trial_free(&t);
        }
        trial_free(&plain);
    }
    lnt_ctx_destroy(ctx);
}

static void a_state_steps_causally_whatever_its_problem_says(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int f = 0; f < STREAM_HYBRID; f++) {
        trial one = stepped(ctx, f, LAYOUT_BHND, 1), other = stepped(ctx, f, LAYOUT_BHND, 0);
        assert_true(block_same_bits(&one.out, &other.out));
        trial_free(&one);
        trial_free(&other);
    }
    lnt_ctx_destroy(ctx);
}

/* The relative error of a state that has seen the trial's tokens `times` times over, `piece` at a time:
 * the right answer is that of seeing them once. */
static double error_after(lnt_ctx *ctx, const attn_case *c, const trial *t, int64_t times,
                          int64_t piece)
{
    lnt_state *s = stream_state(ctx, c);
    for (int64_t i = 0; i < times; i++)
        for (int64_t n = 0; n < c->desc.length_k; n += piece) stream_append(ctx, s, t, n, piece);
    assert_ok(ctx, lnt_state_query(s, &t->q.t, &t->out.t));
    lnt_state_destroy(s);
    lnt_attn_desc whole = c->desc;
    whole.causal = 0;
    return oracle_error(ctx, &whole, &t->io, 40);
}

static void compensated_sums_do_not_lose_digits_as_tokens_come(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL); /* two would mostly wait for each other at a token each */
    for (int m = LNT_LINEAR; m <= LNT_TAYLOR; m++)
        for (int64_t piece = budget(1000, 1); piece <= 1000; piece *= 1000) {
            attn_case c = case_make((lnt_mechanism)m, 2, 2, 1000, 1000, 8, 8);
            c.desc.causal = 1;
            trial t = trial_new(ctx, &c);
            const int64_t times = budget(100, piece == 1 ? 200 : 2000);
            const double plain = error_after(ctx, &c, &t, times, piece);
            c.desc.compensated = 1;
            const double first = error_after(ctx, &c, &t, 1, piece);
            const double last = error_after(ctx, &c, &t, times, piece);
            expect_below(&c, NULL, ctx, "compensated sums", last, 1.25 * first);
            expect_true(&c, NULL, ctx, "plain sums lost nothing: what is there to show?",
                        plain > 3 * last);
            trial_free(&t);
        }
    lnt_ctx_destroy(ctx);
}

/* A state merged into another many times over: the right answer is again that of seeing its tokens once. */
static void compensated_sums_do_not_lose_digits_as_states_are_merged(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int m = LNT_LINEAR; m <= LNT_TAYLOR; m++) {
        attn_case c = case_make((lnt_mechanism)m, 2, 2, 100, 100, 8, 8);
        c.desc.compensated = 1;
        trial t = trial_new(ctx, &c);
        lnt_attn_desc whole = c.desc;
        whole.causal = 0;
        lnt_state *one = stream_state(ctx, &c), *many = stream_state(ctx, &c);
        stream_append(ctx, one, &t, 0, 100);
        assert_ok(ctx, lnt_state_query(one, &t.q.t, &t.out.t));
        const double once = oracle_error(ctx, &whole, &t.io, 40);
        for (int i = 0; i < 5000; i++) assert_ok(ctx, lnt_state_merge(many, one));
        assert_ok(ctx, lnt_state_query(many, &t.q.t, &t.out.t));
        expect_below(&c, NULL, ctx, "merged sums", oracle_error(ctx, &whole, &t.io, 40), 1.25 * once);
        lnt_state_destroy(one);
        lnt_state_destroy(many);
        trial_free(&t);
    }
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_split_through_step_equals_the_batch_answer),
        cmocka_unit_test(append_then_query_equals_attention_over_the_same_tokens),
        cmocka_unit_test(querying_a_state_without_tokens_gives_zeros),
        cmocka_unit_test(a_run_continues_from_the_state_of_another),
        cmocka_unit_test(each_packed_sequence_has_its_own_state),
        cmocka_unit_test(compensated_sums_do_not_lose_digits_as_tokens_come),
        cmocka_unit_test(compensated_sums_do_not_lose_digits_as_states_are_merged),
        cmocka_unit_test(a_state_takes_tensors_however_they_lie),
        cmocka_unit_test(a_state_steps_causally_whatever_its_problem_says),
        cmocka_unit_test(a_softmax_cache_grows_and_keeps_what_it_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
