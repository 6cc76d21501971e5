/* test_device.c - plans and states on a GPU give the oracle's answers, and states mean the same there
 * as on the CPU.  Where there is no GPU this says so and exits with 77; with LINNET_CUDA_PLUGIN naming
 * the fake plug-in of tests/plugin it holds all that lies between a caller and a plug-in. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/mirror.h"
#include "../support/stream.h"

enum { SKIPPED = 77 };
static const lnt_dtype dtypes[] = { LNT_BF16, LNT_F32, LNT_F16 };

static lnt_ctx *host, *device;

/* Tensor cores take operands of bf16: mapped queries and keys, or weights, and the state are rounded
 * before the result is.  Where a few values cancel, their mean keeps a large part of that: one case of
 * few value columns is held to 2^-5 (two columns of 137 random values reach 2e-2 with these roundings),
 * any other to 2^-7, and all cases of a test together to the 3e-3 that the device promises. */
static double device_bound(const lnt_attn_desc *desc)
{
    if (desc->dtype == LNT_F32) return 2e-5;
    if (desc->dtype != LNT_BF16) return forward_bound(desc);
    const int64_t columns = desc->dim_value ? desc->dim_value : desc->dim;
    return columns < 8 ? 0x1p-5 : 0x1p-7;
}

static const double together_bound = 3e-3;
static struct {
    double difference, reference; /* sums of squares, of the cases in bf16 since the last verdict */
} together;

static void add_to_all(const lnt_attn_desc *desc, const lnt_tensor *out, double error)
{
    double square = 0;
    if (desc->dtype != LNT_BF16) return;
    for (int64_t i = 0; i < tensor_elements(out); i++)
        square += tensor_at(out, i) * tensor_at(out, i);
    together.difference += error * error * square;
    together.reference += square;
}

static void judge_all(void)
{
    const double error = sqrt(together.difference / together.reference);
    const bool good = error <= together_bound;
    together.difference = together.reference = 0;
    print_message("all cases in bf16 together: relative error %.2e\n", error);
    if (!good) fail_msg("all cases together: error %.3g, allowed %.3g", error, together_bound);
}

static lnt_state *to_device(const attn_case *c, const lnt_state *state)
{
    return device_state_from(device, host, c, state);
}

/* A mechanism that the device has not is refused by a sentence that names it. */
static void expect_refusal(const attn_case *c, const char *algorithm, const lnt_plan *plan)
{
    expect_true(c, algorithm, device, "a mechanism that is not offered was planned", !plan);
    expect_true(c, algorithm, device, "the refusal does not name the mechanism",
                strstr(lnt_ctx_error(device), lnt_mechanism_name(c->desc.mechanism)) != NULL);
}

/* Runs one case on the device and holds it against the oracle; false if it is not offered. */
static bool matches(const attn_case *c, int algorithm)
{
    const char *name = lnt_algorithm_name(algorithm);
    lnt_plan *plan = case_plan(device, c, algorithm);
    if (!device_offers(c->desc.mechanism)) expect_refusal(c, name, plan);
    if (!plan) return false;
    trial t = trial_new(host, c);
    device_trial d = device_trial_new(device, &t);
    lnt_state *before = t.state ? to_device(c, t.state) : NULL;
    d.io.state_in = before;
    lnt_status status = t.state && !before ? LNT_ERR_UNSUPPORTED : lnt_plan_forward(plan, &d.io);
    if (status != LNT_ERR_UNSUPPORTED) { /* output_norm after a state */
        if (status) case_print(c, name, device);
        assert_ok(device, status);
        mirror_read(device, &d.out);
        const double error = oracle_error(host, &c->desc, &t.io, budget(3, 10));
        expect_below(c, name, device, "forward against the oracle", error, device_bound(&c->desc));
        add_to_all(&c->desc, &t.out.t, error);
        expect_true(c, name, device, "something beside the output was written",
                    block_guard_intact(&t.out));
    }
    lnt_state_destroy(before);
    device_trial_free(device, &d);
    trial_free(&t);
    lnt_plan_destroy(plan);
    return status == LNT_OK;
}

/* Algorithms that a device must have for every dtype, whatever else it has. */
static void check_cover(const int supported[])
{
    static const char *const needed[] = { "softmax/tiled", "linear/chunked", "taylor/direct",
                                          "taylor/state", "cur/flash" };
    for (int i = 0; i < COUNT_OF(needed); i++)
        for (int a = 0; lnt_algorithm_name(a); a++)
            if (!strcmp(lnt_algorithm_name(a), needed[i]) && !supported[a])
                fail_msg("%s did no case at all on %s", needed[i], lnt_ctx_device(device));
}

static void forward_matches_the_oracle_on_random_cases(void **state)
{
    (void)state;
    dice d = { 5 };
    for (int t = 0; t < COUNT_OF(dtypes); t++) {
        int supported[64] = { 0 };
        for (int a = 0; lnt_algorithm_name(a); a++)
            for (int i = 0; i < budget(4, 40); i++) {
                attn_case c;
                case_random(&d, lnt_algorithm_mechanism(a), dtypes[t], &c);
                case_for_device(&c);
                supported[a] += matches(&c, a);
            }
        check_cover(supported);
    }
    judge_all();
}

static void forward_matches_the_oracle_at_every_nasty_length(void **state)
{
    (void)state;
    static const int64_t lengths[] = { 0,  1,  2,  3,  5,   7,   8,   15,  16,  17,  31,
                                       32, 33, 63, 64, 65,  97,  127, 128, 129, 257, 511,
                                       513, 700 };
    int supported[64] = { 0 };
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; i < COUNT_OF(lengths); i += budget(3, 1))
            for (int causal = 0; causal < 2; causal++)
                for (int more = -1; more < 2; more++) {
                    if (lengths[i] + more < 0 || (causal && more < 0)) continue;
                    attn_case c = case_make(lnt_algorithm_mechanism(a), 2, 1, lengths[i],
                                            lengths[i] + more, 17, 5);
                    c.desc.causal = causal;
                    for (int t = 0; t < budget(2, 3); t++) {
                        c.desc.dtype = dtypes[t];
                        supported[a] += matches(&c, a);
                    }
                }
    check_cover(supported);
    judge_all();
}

static void forward_matches_the_oracle_at_every_nasty_width(void **state)
{
    (void)state;
    static const int64_t dims[] = { 1, 2, 3, 5, 8, 16, 17, 31, 32, 33, 64, 65, 80, 128 };
    int supported[64] = { 0 };
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; i < COUNT_OF(dims); i++)
            for (int j = i % budget(6, 2); j < COUNT_OF(dims); j += budget(6, 2)) {
                attn_case c =
                    case_make(lnt_algorithm_mechanism(a), 1, 1, 19, 137, dims[i], dims[j]);
                c.desc.causal = (i + j) % 4 < 2;
                for (int t = 0; t < budget(2, 3); t++) {
                    c.desc.dtype = dtypes[t];
                    supported[a] += matches(&c, a);
                }
            }
    check_cover(supported);
    judge_all();
}

static void forward_matches_the_oracle_in_every_layout(void **state)
{
    (void)state;
    int supported[64] = { 0 };
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; i < LAYOUT_COUNT * LAYOUT_OUTPUTS; i += budget(3, 1)) {
            attn_case c = case_make(lnt_algorithm_mechanism(a), 4, 2, 35, 67, 24, 13);
            c.desc.batch = 2;
            c.desc.causal = i % 2;
            c.lay_out = (layout)(i % LAYOUT_OUTPUTS);
            c.lay_q = (layout)(i / LAYOUT_OUTPUTS);
            c.lay_k = (layout)((i + i / LAYOUT_OUTPUTS) % LAYOUT_COUNT);
            c.lay_v = (layout)((i + 3) % LAYOUT_COUNT);
            for (int t = 0; t < COUNT_OF(dtypes); t++) {
                c.desc.dtype = dtypes[t];
                supported[a] += matches(&c, a);
            }
        }
    check_cover(supported);
    judge_all();
}

/* Several segments, several states: what short sequences do not reach. */
static void forward_matches_the_oracle_on_long_sequences(void **state)
{
    (void)state;
    int supported[64] = { 0 };
    static const int64_t dims[] = { 8, 16, 32, 64 };
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; i < COUNT_OF(dims); i += budget(2, 1))
            for (int causal = 0; causal < 2; causal++) {
                attn_case c = case_make(lnt_algorithm_mechanism(a), 4, 2, budget(600, 9000),
                                        budget(611, 9011), dims[i], 0);
                if (c.desc.mechanism == LNT_TAYLOR) c.desc.terms = dims[i] > 32 ? 3 : 4;
                c.desc.causal = causal;
                for (int t = 0; t < 2; t++) {
                    c.desc.dtype = dtypes[t];
                    supported[a] += matches(&c, a);
                }
            }
    check_cover(supported);
    judge_all();
}

/* Up to 8 terms have a state where the width is up to 16. */
static void forward_matches_the_oracle_with_many_terms(void **state)
{
    (void)state;
    static const int64_t dims[] = { 3, 8, 16 };
    int ran = 0;
    for (int64_t terms = 5; terms <= 8; terms++)
        for (int i = 0; i < COUNT_OF(dims); i++)
            for (int a = 0; lnt_algorithm_name(a); a++)
                for (int t = 0; t < COUNT_OF(dtypes); t++) {
                    if (lnt_algorithm_mechanism(a) != LNT_TAYLOR) continue;
                    if (dims[i] == 16 && terms > budget(6, 8)) continue;
                    attn_case c = case_make(LNT_TAYLOR, 4, 2, 190, 333, dims[i], 6);
                    c.desc.terms = terms;
                    c.desc.causal = (t + a) % 2;
                    c.desc.dtype = dtypes[t];
                    ran += matches(&c, a);
                }
    assert_true(ran >= 2 * COUNT_OF(dtypes) * COUNT_OF(dims)); /* direct and state, at least */
    judge_all();
}

static void nothing_to_do_is_done(void **state)
{
    (void)state;
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int empty = 0; empty < 4; empty++) {
            attn_case c = case_make(lnt_algorithm_mechanism(a), 2, 1, 3, 3, 4, 4);
            c.desc.dtype = LNT_BF16;
            if (empty == 0) c.desc.batch = 0;
            if (empty == 1) c.desc.heads = c.desc.kv_heads = 0;
            if (empty == 2) c.desc.length_q = 0;
            if (empty == 3) c.desc.length_q = c.desc.length_k = 0;
            matches(&c, a);
        }
}

static void a_plan_serves_smaller_tensors_than_it_was_made_for(void **state)
{
    (void)state;
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; i < 4; i++) {
            attn_case c = case_make(lnt_algorithm_mechanism(a), 4, 2, 450, 500, 16, 8);
            c.desc.causal = i % 2;
            c.desc.batch = 3;
            c.desc.dtype = dtypes[i / 2];
            lnt_plan *plan = case_plan(device, &c, a);
            for (int64_t n = 0; plan && n < 450; n += budget(173, 89)) {
                attn_case less = c;
                less.desc.length_q = n;
                less.desc.length_k = n + n % 3;
                less.desc.batch = 1 + n % 3;
                trial t = trial_new(host, &less);
                device_trial d = device_trial_new(device, &t);
                assert_ok(device, lnt_plan_forward(plan, &d.io));
                mirror_read(device, &d.out);
                const double error = oracle_error(host, &less.desc, &t.io, 6);
                expect_below(&less, lnt_algorithm_name(a), device, "a smaller run", error,
                             device_bound(&less.desc));
                add_to_all(&less.desc, &t.out.t, error);
                device_trial_free(device, &d);
                trial_free(&t);
            }
            lnt_plan_destroy(plan);
        }
    judge_all();
}

/* Two runs give the same bits, and neither allocates on the host. */
static void runs_repeat_to_the_bit_and_allocate_nothing(void **state)
{
    (void)state;
    tracker track = { .fail_at = -1 };
    lnt_ctx *ctx = context_tracked(&track, 2, NULL);
    assert_ok(ctx, lnt_ctx_set_device(ctx, "cuda"));
    for (int i = 0; i < 2 * (LNT_TAYLOR + 1); i++) {
        attn_case c = case_make((lnt_mechanism)(i / 2), 4, 2, 1000, 1000, 16, 16);
        c.desc.causal = 1;
        c.desc.dtype = dtypes[i % 2];
        trial t = trial_new(host, &c);
        block first = block_new(c.desc.dtype, LAYOUT_BHND, 1, 4, 1000, 16);
        device_trial d = device_trial_new(ctx, &t);
        lnt_plan *plan = case_plan(ctx, &c, -1);
        const int64_t calls = track.calls;
        assert_ok(ctx, lnt_plan_forward(plan, &d.io));
        mirror_read(ctx, &d.out);
        tensor_copy(&first.t, &t.out.t);
        assert_ok(ctx, lnt_plan_forward(plan, &d.io));
        mirror_read(ctx, &d.out);
        assert_int_equal(track.calls, calls);
        for (int64_t e = 0; e < tensor_elements(&first.t); e++)
            assert_true(tensor_at(&first.t, e) == tensor_at(&t.out.t, e));
        lnt_plan_destroy(plan);
        device_trial_free(ctx, &d);
        block_free(&first);
        trial_free(&t);
    }
    context_close_tracked(ctx, &track);
}

/* ---- states ---------------------------------------------------------------------------------- */

static lnt_tensor rows(const mirror *m, int64_t first, int64_t count)
{
    return tensor_rows(&m->t, first, count);
}

static void device_append(lnt_state *s, const device_trial *d, int64_t first, int64_t count)
{
    const lnt_tensor k = rows(&d->k, first, count), v = rows(&d->v, first, count);
    assert_ok(device, lnt_state_append(s, &k, &v));
}

static void device_step(lnt_state *s, const device_trial *d, int64_t first, int64_t count)
{
    const lnt_tensor q = rows(&d->q, first, count), k = rows(&d->k, first, count);
    const lnt_tensor v = rows(&d->v, first, count), out = rows(&d->out, first, count);
    assert_ok(device, lnt_state_step(s, &q, &k, &v, &out));
}

/* A state of the case on the device, or NULL where it has none of the kind. */
static lnt_state *device_state(const attn_case *c)
{
    lnt_state *s = NULL;
    const lnt_status status = lnt_state_create(device, &c->desc, &s);
    if (status != LNT_ERR_UNSUPPORTED) assert_ok(device, status);
    return s;
}

/* Form f of stream.h, with what the device does not offer left out; false: nothing is left. */
static bool device_form(attn_case *c, int form, int64_t tokens, lnt_dtype dtype)
{
    stream_form(c, form, tokens, dtype);
    c->desc.causal = 1;
    const bool random = c->desc.mechanism == LNT_LINEAR && c->desc.feature_map > LNT_MAP_IDENTITY;
    return device_offers(c->desc.mechanism) && c->desc.mechanism != LNT_SOFTMAX &&
           !c->desc.compensated && !random;
}

static void steps_match_the_oracle_in_any_portions(void **state)
{
    (void)state;
    dice dice_ = { 31 };
    int ran = 0;
    for (int f = 0; f < STREAM_FORMS; f++)
        for (int t = 0; t < COUNT_OF(dtypes); t++)
            for (int i = 0; i < budget(1, 4); i++) {
                attn_case c;
                const int64_t n = 45;
                if (!device_form(&c, f, n, dtypes[t])) continue;
                trial tr = trial_new(host, &c);
                device_trial d = device_trial_new(device, &tr);
                lnt_state *s = device_state(&c);
                assert_non_null(s);
                for (int64_t at = 0, count; at < n; at += count) {
                    count = i ? dice_range(&dice_, 0, 9) : 1;
                    if (count > n - at) count = n - at;
                    device_step(s, &d, at, count);
                }
                mirror_read(device, &d.out);
                const double error = oracle_error(host, &c.desc, &tr.io, n);
                expect_below(&c, "step", device, "steps against the oracle", error,
                             device_bound(&c.desc));
                add_to_all(&c.desc, &tr.out.t, error);
                for (int64_t b = 0; b < STREAM_BATCH; b++)
                    assert_int_equal(lnt_state_tokens(s, b), n);
                lnt_state_destroy(s);
                device_trial_free(device, &d);
                trial_free(&tr);
                ran++;
            }
    assert_true(ran > 10);
    judge_all();
}

/* All numbers of a state on the device and of one on the CPU, by way of a file. */
static void expect_same_numbers(const attn_case *c, const char *what, const lnt_state *on_device,
                                lnt_state *on_host, double bound)
{
    lnt_state *back;
    assert_ok(device, lnt_state_save(on_device, "device.safetensors"));
    assert_ok(host, lnt_state_load(host, &c->desc, "device.safetensors", &back));
    unlink("device.safetensors");
    expect_same_state(c, host, what, back, on_host, bound);
    lnt_state_destroy(back);
}

static void a_state_means_the_same_on_the_device_and_on_the_cpu(void **state)
{
    (void)state;
    for (int f = 0; f < STREAM_FORMS; f++)
        for (int t = 0; t < COUNT_OF(dtypes); t++) {
            attn_case c;
            if (!device_form(&c, f, 40, dtypes[t])) continue;
            trial tr = trial_new(host, &c);
            device_trial d = device_trial_new(device, &tr);
            lnt_state *s = device_state(&c), *same = stream_state(host, &c), *moved;
            device_append(s, &d, 0, 25);
            stream_append(host, same, &tr, 0, 25);
            expect_same_numbers(&c, "appended on each", s, same, 2e-6);
            moved = to_device(&c, same);
            device_append(moved, &d, 25, 15);
            stream_append(host, same, &tr, 25, 15);
            expect_same_numbers(&c, "begun on the cpu", moved, same, 2e-6);
            lnt_state_destroy(moved);
            lnt_state_destroy(same);
            lnt_state_destroy(s);
            device_trial_free(device, &d);
            trial_free(&tr);
        }
}

/* A prompt through a plan, then steps; the sequence as a whole against the oracle. */
static void a_prompt_then_steps_match_the_oracle(void **state)
{
    (void)state;
    int ran = 0;
    for (int f = 0; f < STREAM_FORMS; f++)
        for (int i = 0; i < 2 * COUNT_OF(dtypes); i++) {
            attn_case c;
            const int64_t n = 300, cut = i % 2 + 1;
            if (!device_form(&c, f, n, dtypes[i / 2]) || c.desc.output_norm) continue;
            if (c.desc.mechanism == LNT_TAYLOR && cut == 2) c.desc.terms += 2; /* past four */
            c.desc.state = 1;
            trial tr = trial_new(host, &c);
            device_trial d = device_trial_new(device, &tr);
            lnt_plan *plan = case_plan(device, &c, -1);
            lnt_state *s = device_state(&c);
            const int64_t pieces[] = { 0, 170 / cut, 280, n };
            for (int part = 0; part < 2; part++) {
                const int64_t first = pieces[part], count = pieces[part + 1] - first;
                lnt_attn_io io = { .size = sizeof io, .state_in = s, .state_out = s };
                io.q = rows(&d.q, first, count);
                io.k = rows(&d.k, first, count);
                io.v = rows(&d.v, first, count);
                io.out = rows(&d.out, first, count);
                if (part == 0) io.state_in = NULL;
                assert_ok(device, lnt_plan_forward(plan, &io));
                assert_int_equal(lnt_state_tokens(s, 1), pieces[part + 1]);
            }
            for (int64_t at = pieces[2]; at < n; at++) device_step(s, &d, at, 1);
            mirror_read(device, &d.out);
            attn_case plain = c;
            plain.desc.state = 0;
            const double error = oracle_error(host, &plain.desc, &tr.io, 40);
            expect_below(&c, "prompt and steps", device, "against the oracle", error,
                         device_bound(&c.desc));
            add_to_all(&c.desc, &tr.out.t, error);
            lnt_state_destroy(s);
            lnt_plan_destroy(plan);
            device_trial_free(device, &d);
            trial_free(&tr);
            ran++;
        }
    assert_true(ran > 4);
    judge_all();
}

/* Two sequences in slots 3 and 1 of a pool of five: copied away, forgotten, copied back. */
static void a_pool_runs_the_sequences_that_are_selected(void **state)
{
    (void)state;
    for (int f = STREAM_LINEAR; f < STREAM_FORMS; f++) {
        attn_case c;
        const int64_t n = 12, index[STREAM_BATCH] = { 3, 1 };
        if (!device_form(&c, f, n, LNT_F32)) continue;
        trial tr = trial_new(host, &c);
        device_trial d = device_trial_new(device, &tr);
        attn_case pool_case = c;
        pool_case.desc.batch = 5;
        lnt_state *pool = device_state(&pool_case), *alone = device_state(&c);
        void *selected;
        assert_ok(device, lnt_device_allocate(device, sizeof index, &selected));
        assert_ok(device, lnt_device_write(device, selected, index, sizeof index));
        assert_ok(device, lnt_state_select(pool, selected, STREAM_BATCH));
        device_step(pool, &d, 0, 5);
        device_append(alone, &d, 0, 5);
        assert_int_equal(lnt_state_tokens(pool, 3), 5);
        assert_int_equal(lnt_state_tokens(pool, 0), 0);
        assert_ok(device, lnt_state_copy(pool, 4, pool, 3));
        assert_ok(device, lnt_state_reset(pool, 3));
        assert_int_equal(lnt_state_tokens(pool, 3), 0);
        assert_ok(device, lnt_state_copy(pool, 3, pool, 4));
        assert_ok(device, lnt_state_copy(pool, 1, alone, 1)); /* from another state */
        device_step(pool, &d, 5, n - 5);
        mirror_read(device, &d.out);
        expect_below(&c, "pool", device, "selected sequences against the oracle",
                     oracle_error(host, &c.desc, &tr.io, n), device_bound(&c.desc));
        lnt_device_release(device, selected, sizeof index);
        lnt_state_destroy(alone);
        lnt_state_destroy(pool);
        device_trial_free(device, &d);
        trial_free(&tr);
    }
}

static void forks_and_merges_remember_what_they_should(void **state)
{
    (void)state;
    for (int f = STREAM_LINEAR; f < STREAM_FORMS; f++) {
        attn_case c;
        if (!device_form(&c, f, 40, LNT_F32)) continue;
        trial tr = trial_new(host, &c);
        device_trial d = device_trial_new(device, &tr);
        lnt_state *a = device_state(&c), *b = device_state(&c), *fork;
        lnt_state *whole = stream_state(host, &c);
        device_append(a, &d, 0, 17);
        device_append(b, &d, 17, 23);
        assert_ok(device, lnt_state_fork(a, &fork));
        assert_ok(device, lnt_state_merge(fork, b));
        stream_append(host, whole, &tr, 0, 17);
        expect_same_numbers(&c, "the fork's parent", a, whole, 2e-6);
        stream_append(host, whole, &tr, 17, 23);
        expect_same_numbers(&c, "merged", fork, whole, 2e-6);
        assert_int_equal(lnt_state_tokens(fork, 0), 40);
        assert_ok(device, lnt_state_reset(fork, -1));
        assert_int_equal(lnt_state_tokens(fork, 0), 0);
        lnt_state_destroy(fork);
        lnt_state_destroy(whole);
        lnt_state_destroy(a);
        lnt_state_destroy(b);
        device_trial_free(device, &d);
        trial_free(&tr);
    }
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void what_a_device_cannot_do_is_said(void **state)
{
    (void)state;
    attn_case c;
    assert_true(device_form(&c, STREAM_LINEAR, 10, LNT_BF16));
    c.desc.state = 1;
    trial tr = trial_new(host, &c);
    device_trial d = device_trial_new(device, &tr);
    lnt_plan *plan = case_plan(device, &c, -1), *other;
    lnt_state *s = device_state(&c), *on_cpu = stream_state(host, &c);
    assert_refused(device, lnt_ctx_set_device(device, "cpu"), LNT_ERR_ARGUMENT, "2 plans, states and models");
    d.io.state_in = on_cpu;
    assert_refused(device, lnt_plan_forward(plan, &d.io), LNT_ERR_ARGUMENT, "not on a GPU");
    const int64_t cu[] = { 0, 10 };
    d.io.state_in = NULL;
    d.io.q.shape[0] = d.io.k.shape[0] = d.io.v.shape[0] = d.io.out.shape[0] = 1;
    d.io.sequences = 1;
    d.io.cu_seqlens_q = d.io.cu_seqlens_k = cu;
    assert_refused(device, lnt_plan_forward(plan, &d.io), LNT_ERR_UNSUPPORTED, "packed");
    assert_refused(device, lnt_state_copy(s, 0, on_cpu, 0), LNT_ERR_ARGUMENT, "on a GPU");
    assert_refused(device, lnt_state_copy(s, STREAM_BATCH, s, 0), LNT_ERR_ARGUMENT, "to_sequence");
    assert_refused(device, lnt_state_merge(s, on_cpu), LNT_ERR_ARGUMENT, "on a GPU");
    assert_refused(device, lnt_state_remove(s, &d.k.t, &d.v.t), LNT_ERR_UNSUPPORTED, "remove");
    assert_refused(device, lnt_state_select(s, cu, STREAM_BATCH + 1), LNT_ERR_ARGUMENT, "count");
    assert_refused(host, lnt_state_select(on_cpu, cu, 1), LNT_ERR_UNSUPPORTED, "cpu");
    attn_case named = c;
    named.desc.algorithm = "linear/recurrent";
    assert_refused(device, lnt_plan_create(device, &named.desc, &other), LNT_ERR_UNSUPPORTED,
                   "linear/recurrent: cuda:0 has linear/chunked");
    for (int m = LNT_SOFTMAX; m <= LNT_HYBRID; m++) {
        if (device_offers((lnt_mechanism)m)) continue;
        lnt_state *no_state;
        attn_case none = case_make((lnt_mechanism)m, 2, 1, 10, 10, 4, 4);
        assert_refused(device, lnt_plan_create(device, &none.desc, &other), LNT_ERR_UNSUPPORTED,
                       lnt_mechanism_name((lnt_mechanism)m));
        assert_refused(device, lnt_state_create(device, &none.desc, &no_state), LNT_ERR_UNSUPPORTED,
                       lnt_mechanism_name((lnt_mechanism)m));
    }
    lnt_state_destroy(on_cpu);
    lnt_state_destroy(s);
    lnt_plan_destroy(plan);
    device_trial_free(device, &d);
    trial_free(&tr);
}

static void calibration_measures_the_device(void **state)
{
    (void)state;
    attn_case c = case_make(LNT_TAYLOR, 16, 16, 65536, -1, 16, 0);
    lnt_plan_info info = { .size = sizeof info };
    lnt_plan *plan;
    c.desc.dtype = LNT_BF16;
    c.desc.terms = 3;
    assert_ok(device, lnt_ctx_calibrate(device));
    assert_ok(device, lnt_plan_create(device, &c.desc, &plan));
    assert_ok(device, lnt_plan_describe(plan, &info));
    assert_true(info.seconds > 0 && info.crossover_speed > 0);
    assert_true(info.state_bytes > 0 && info.workspace_bytes > 0);
    assert_string_equal(info.algorithm, "taylor/state"); /* 65,536 tokens against 153 monomials */
    lnt_plan_destroy(plan);
}

static void a_device_tells_what_it_is(void **state)
{
    (void)state;
    lnt_device_info info = { .size = sizeof info };
    double gflops = 0, gbytes = 0;
    assert_ok(device, lnt_device_describe(device, &info));
    assert_true(strlen(info.name) > 0 && info.major >= 8);
    assert_string_equal(lnt_ctx_device(device), "cuda:0");
    assert_ok(device, lnt_measure_flops(device, LNT_BF16, &gflops));
    assert_ok(device, lnt_measure_bandwidth(device, 1 << 24, &gbytes));
    assert_true(gflops > 0 && gbytes > 0);
    print_message("%s: %s, %d multiprocessors, %.0f GFLOP/s, %.0f GB/s\n", lnt_ctx_device(device),
                  info.name, info.multiprocessors, gflops, gbytes);
    info.size = 1;
    assert_refused(device, lnt_device_describe(device, &info), LNT_ERR_ARGUMENT, "size is 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_tells_what_it_is),
        cmocka_unit_test(what_a_device_cannot_do_is_said),
        cmocka_unit_test(nothing_to_do_is_done),
        cmocka_unit_test(steps_match_the_oracle_in_any_portions),
        cmocka_unit_test(a_pool_runs_the_sequences_that_are_selected),
        cmocka_unit_test(a_state_means_the_same_on_the_device_and_on_the_cpu),
        cmocka_unit_test(forks_and_merges_remember_what_they_should),
        cmocka_unit_test(a_prompt_then_steps_match_the_oracle),
        cmocka_unit_test(forward_matches_the_oracle_at_every_nasty_width),
        cmocka_unit_test(forward_matches_the_oracle_at_every_nasty_length),
        cmocka_unit_test(forward_matches_the_oracle_in_every_layout),
        cmocka_unit_test(forward_matches_the_oracle_on_random_cases),
        cmocka_unit_test(forward_matches_the_oracle_on_long_sequences),
        cmocka_unit_test(forward_matches_the_oracle_with_many_terms),
        cmocka_unit_test(a_plan_serves_smaller_tensors_than_it_was_made_for),
        cmocka_unit_test(runs_repeat_to_the_bit_and_allocate_nothing),
        cmocka_unit_test(calibration_measures_the_device),
    };
    const char *why = "";
    device = device_context(&why);
    if (!device) {
        printf("SKIP: no GPU: %s\n", why);
        return SKIPPED;
    }
    host = context_new(2, NULL);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lnt_ctx_destroy(host);
    lnt_ctx_destroy(device);
    return failed;
}
