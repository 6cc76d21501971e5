/* test_device.c - plans on a GPU give the oracle's answers.  Where there is no GPU this says so and exits
 * with 77; with LINNET_CUDA_PLUGIN naming the fake plug-in of tests/plugin it holds all that lies between
 * a caller and a plug-in. */
#include <stdlib.h>
#include <string.h>

#include "../support/device.h"
#include "plan/plan.h"

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
    lnt_state *before = t.state ? device_state_from(device, host, c, t.state) : NULL;
    d.io.state_in = before;
    lnt_status status = t.state && !before ? LNT_ERR_UNSUPPORTED : lnt_plan_forward(plan, &d.io);
    if (status != LNT_ERR_UNSUPPORTED) { /* output_norm after a state */
        if (status) case_print(c, name, device);
        assert_ok(device, status);
        mirror_read(device, &d.out);
        const double error = oracle_error(host, &c->desc, &t.io, budget(3, 10));
        expect_below(c, name, device, "forward against the oracle", error, device_bound(&c->desc));
        device_add(&c->desc, &t.out.t, error);
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
static void check_cover(const coverage *cover)
{
    static const char *const needed[] = { "softmax/tiled", "linear/chunked", "taylor/direct",
                                          "taylor/state", "cur/flash" };
    for (int i = 0; i < COUNT_OF(needed); i++)
        for (int a = 0; lnt_algorithm_name(a); a++)
            if (!strcmp(lnt_algorithm_name(a), needed[i]) && !cover->supported[a])
                fail_msg("%s did no case at all on %s", needed[i], lnt_ctx_device(device));
}

static void forward_matches_the_oracle_on_random_cases(void **state)
{
    (void)state;
    dice d = { 5 };
    for (int t = 0; t < DEVICE_DTYPES; t++) {
        coverage cover = { { 0 } };
        for (int a = 0; lnt_algorithm_name(a); a++)
            for (int i = 0; i < budget(4, 40); i++) {
                attn_case c;
                case_random(&d, lnt_algorithm_mechanism(a), device_dtypes[t], &c);
                case_for_device(&c);
                cover.supported[a] += matches(&c, a);
            }
        check_cover(&cover);
    }
    device_judge();
}

static void forward_matches_the_oracle_at_every_nasty_length(void **state)
{
    (void)state;
    static const int64_t lengths[] = { 0,  1,  2,  3,  5,   7,   8,   15,  16,  17,  31,
                                       32, 33, 63, 64, 65,  97,  127, 128, 129, 257, 511,
                                       513, 700 };
    coverage cover = { { 0 } };
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; i < COUNT_OF(lengths); i += budget(3, 1))
            for (int causal = 0; causal < 2; causal++)
                for (int more = -1; more < 2; more++) {
                    if (lengths[i] + more < 0 || (causal && more < 0)) continue;
                    attn_case c = case_make(lnt_algorithm_mechanism(a), 2, 1, lengths[i],
                                            lengths[i] + more, 17, 5);
                    c.desc.causal = causal;
                    for (int t = 0; t < budget(2, 3); t++) {
                        c.desc.dtype = device_dtypes[t];
                        cover.supported[a] += matches(&c, a);
                    }
                }
    check_cover(&cover);
    device_judge();
}

static void forward_matches_the_oracle_at_every_nasty_width(void **state)
{
    (void)state;
    static const int64_t dims[] = { 1, 2, 3, 5, 8, 16, 17, 31, 32, 33, 64, 65, 80, 128 };
    coverage cover = { { 0 } };
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; i < COUNT_OF(dims); i++)
            for (int j = i % budget(6, 2); j < COUNT_OF(dims); j += budget(6, 2)) {
                attn_case c =
                    case_make(lnt_algorithm_mechanism(a), 1, 1, 19, 137, dims[i], dims[j]);
                c.desc.causal = (i + j) % 4 < 2;
                for (int t = 0; t < budget(2, 3); t++) {
                    c.desc.dtype = device_dtypes[t];
                    cover.supported[a] += matches(&c, a);
                }
            }
    check_cover(&cover);
    device_judge();
}

static void forward_matches_the_oracle_in_every_layout(void **state)
{
    (void)state;
    coverage cover = { { 0 } };
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; i < LAYOUT_COUNT * LAYOUT_OUTPUTS; i += budget(3, 1)) {
            attn_case c = case_make(lnt_algorithm_mechanism(a), 4, 2, 35, 67, 24, 13);
            c.desc.batch = 2;
            c.desc.causal = i % 2;
            device_layouts(&c, i);
            for (int t = 0; t < DEVICE_DTYPES; t++) {
                c.desc.dtype = device_dtypes[t];
                cover.supported[a] += matches(&c, a);
            }
        }
    check_cover(&cover);
    device_judge();
}

/* Several segments, several states: what short sequences do not reach. */
static void forward_matches_the_oracle_on_long_sequences(void **state)
{
    (void)state;
    coverage cover = { { 0 } };
    static const int64_t dims[] = { 8, 16, 32, 64 };
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; i < COUNT_OF(dims); i += budget(2, 1))
            for (int causal = 0; causal < 2; causal++) {
                attn_case c = case_make(lnt_algorithm_mechanism(a), 4, 2, budget(600, 9000),
                                        budget(611, 9011), dims[i], 0);
                if (c.desc.mechanism == LNT_TAYLOR) c.desc.taylor.terms = dims[i] > 32 ? 3 : 4;
                c.desc.causal = causal;
                for (int t = 0; t < 2; t++) {
                    c.desc.dtype = device_dtypes[t];
                    cover.supported[a] += matches(&c, a);
                }
            }
    check_cover(&cover);
    device_judge();
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
                for (int t = 0; t < DEVICE_DTYPES; t++) {
                    if (lnt_algorithm_mechanism(a) != LNT_TAYLOR) continue;
                    if (dims[i] == 16 && terms > budget(6, 8)) continue;
                    attn_case c = case_make(LNT_TAYLOR, 4, 2, 190, 333, dims[i], 6);
                    c.desc.taylor.terms = terms;
                    c.desc.causal = (t + a) % 2;
                    c.desc.dtype = device_dtypes[t];
                    ran += matches(&c, a);
                }
    assert_true(ran >= 2 * DEVICE_DTYPES * COUNT_OF(dims)); /* direct and state, at least */
    device_judge();
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
            c.desc.dtype = device_dtypes[i / 2];
            lnt_plan *plan = case_plan(device, &c, a);
            for (int64_t n = 0; plan && n < 450; n += budget(173, 89)) {
                const attn_case less = device_smaller(&c, n);
                trial t = trial_new(host, &less);
                device_trial d = device_trial_new(device, &t);
                assert_ok(device, lnt_plan_forward(plan, &d.io));
                mirror_read(device, &d.out);
                const double error = oracle_error(host, &less.desc, &t.io, 6);
                expect_below(&less, lnt_algorithm_name(a), device, "a smaller run", error,
                             device_bound(&less.desc));
                device_add(&less.desc, &t.out.t, error);
                device_trial_free(device, &d);
                trial_free(&t);
            }
            lnt_plan_destroy(plan);
        }
    device_judge();
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
        c.desc.dtype = device_dtypes[i % 2];
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

/* Of forward; where the plan goes back too, other kernels may take them. */
static void a_plan_takes_new_temperatures(void **state)
{
    (void)state;
    enum { HEADS = 600 }; /* more than one launch sets */
    double first[HEADS], second[HEADS];
    for (int h = 0; h < HEADS; h++) first[h] = 1, second[h] = 0.4 + 0.003 * h;
    for (int i = 0; i < 3 * DEVICE_DTYPES; i++) {
        const int kind = i % 3; /* the direct form, a state, and one for both passes */
        attn_case c = case_make(LNT_TAYLOR, i ? 4 : HEADS, 1, i ? 300 : 9, -1, 16, 8);
        c.desc.dtype = device_dtypes[i / 3];
        c.desc.algorithm = kind ? "taylor/state" : "taylor/direct";
        c.desc.backward = kind == 2;
        c.desc.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT;
        c.desc.taylor.terms = 3;
        c.desc.causal = 1;
        c.desc.taylor.temperature = first;
        lnt_plan *plan;
        assert_ok(device, lnt_plan_create(device, &c.desc, &plan));
        trial t = trial_new(host, &c);
        device_trial d = device_trial_new(device, &t);
        for (int turn = 0; turn < 2; turn++) {
            if (turn) assert_ok(device, lnt_plan_set_temperature(plan, second));
            c.desc.taylor.temperature = turn ? second : first;
            assert_ok(device, lnt_plan_forward(plan, &d.io));
            mirror_read(device, &d.out);
            const double error = oracle_error(host, &c.desc, &t.io, 3);
            expect_below(&c, c.desc.algorithm, device, "new temperatures", error,
                         device_bound(&c.desc));
        }
        device_trial_free(device, &d);
        trial_free(&t);
        lnt_plan_destroy(plan);
    }
}

/* Each thread has a stream that needs no CUDA to name: cudaStreamPerThread is 2. */
static void runs_on_a_stream_match_the_oracle(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * (LNT_TAYLOR + 1); i++) {
        attn_case c = case_make((lnt_mechanism)(i / 2), 4, 2, 700, 700, 16, 16);
        c.desc.causal = 1;
        c.desc.dtype = device_dtypes[i % 2];
        trial t = trial_new(host, &c);
        device_trial d = device_trial_new(device, &t);
        lnt_plan *plan = case_plan(device, &c, -1);
        assert_ok(device, lnt_ctx_set_stream(device, (void *)(uintptr_t)2));
        assert_ok(device, lnt_plan_forward(plan, &d.io));
        mirror_read(device, &d.out);
        assert_ok(device, lnt_ctx_synchronize(device));
        assert_ok(device, lnt_ctx_set_stream(device, NULL));
        expect_below(&c, "any", device, "on a stream", oracle_error(host, &c.desc, &t.io, 3),
                     device_bound(&c.desc));
        lnt_plan_destroy(plan);
        device_trial_free(device, &d);
        trial_free(&t);
    }
}

/* How many rows are counted where every denominator is that of q and k of one value each; -1: the device has
 * no such plan.  By a state: steps, else a run. */
static int64_t counted(attn_case *c, double q, double k, bool by_state)
{
    lnt_plan *plan = by_state ? NULL : case_plan(device, c, -1);
    lnt_state *s = by_state ? device_state(c) : NULL;
    if (!plan && !s) return -1;
    trial t = trial_new(host, c);
    tensor_fill(&t.q.t, q);
    tensor_fill(&t.k.t, k);
    device_trial d = device_trial_new(device, &t);
    assert_ok(device, s ? lnt_state_step(s, &d.q.t, &d.k.t, &d.v.t, &d.out.t)
                        : lnt_plan_forward(plan, &d.io));
    const int64_t count = s ? state_nonpositive(s) : plan_nonpositive(plan);
    lnt_state_destroy(s);
    lnt_plan_destroy(plan);
    device_trial_free(device, &d);
    trial_free(&t);
    return count;
}

static void denominators_that_give_no_answer_are_counted(void **state)
{
    (void)state;
    static const int64_t dims[] = { 8, 16, 32, 64 };
    enum { HEADS = 2, LENGTH = 70, ROWS = HEADS * LENGTH };
    int ran = 0;
    for (int i = 0; i < COUNT_OF(dims) * DEVICE_DTYPES * 8; i++) {
        const bool taylor = i % 2, by_state = i / 2 % 2, causal = i / 4 % 2 || by_state;
        attn_case c = case_make(taylor ? LNT_TAYLOR : LNT_LINEAR, HEADS, 1, LENGTH, -1, dims[i / 8 % 4], 0);
        c.desc.dtype = device_dtypes[i / 32];
        c.desc.causal = causal;
        if (taylor) c.desc.taylor.terms = 3;
        else c.desc.linear.feature_map = LNT_MAP_IDENTITY;
        const int64_t good = counted(&c, 1, 1, by_state);
        if (good < 0) continue;
        expect_true(&c, "any", device, "a good denominator is counted", good == 0);
        if (!taylor)
            expect_true(&c, "any", device, "a negative denominator is not counted",
                        counted(&c, -1, 1, by_state) == ROWS);
        if (c.desc.dtype != LNT_F16) /* whose largest number has no such square */
            expect_true(&c, "any", device, "an infinite denominator is not counted",
                        counted(&c, 1e20, 1e20, by_state) == ROWS);
        ran++;
    }
    assert_true(ran > 40);
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
    assert_refused(device, lnt_plan_forward(plan, &d.io), LNT_ERR_ARGUMENT, "is on cpu");
    const int64_t cu[] = { 0, 10 };
    d.io.state_in = NULL;
    d.io.q.shape[0] = d.io.k.shape[0] = d.io.v.shape[0] = d.io.out.shape[0] = 1;
    d.io.sequences = 1;
    d.io.cu_seqlens_q = d.io.cu_seqlens_k = cu;
    assert_refused(device, lnt_plan_forward(plan, &d.io), LNT_ERR_UNSUPPORTED, "packed");
    assert_refused(device, lnt_state_copy(s, 0, on_cpu, 0), LNT_ERR_ARGUMENT, "the other on cpu");
    assert_refused(device, lnt_state_copy(s, STREAM_BATCH, s, 0), LNT_ERR_ARGUMENT, "to_sequence");
    assert_refused(device, lnt_state_merge(s, on_cpu), LNT_ERR_ARGUMENT, "the other on cpu");
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
    c.desc.taylor.terms = 3;
    assert_ok(device, lnt_ctx_calibrate(device));
    for (int t = 0; t < DEVICE_DTYPES; t++) {
        c.desc.dtype = device_dtypes[t];
        assert_ok(device, lnt_plan_create(device, &c.desc, &plan));
        assert_ok(device, lnt_plan_describe(plan, &info));
        print_message("%s: %.3g ms, the state from %.0f tokens on\n", lnt_dtype_name(c.desc.dtype),
                      info.seconds * 1e3, info.crossover_speed);
        assert_true(info.seconds > 0 && info.crossover_speed > 0);
        assert_true(info.state_bytes > 0 && info.workspace_bytes > 0);
        assert_string_equal(info.algorithm, "taylor/state"); /* 65,536 tokens, 153 monomials */
        lnt_plan_destroy(plan);
    }
}

/* Of more than four terms there is no state beyond a width of 16, however many tokens there are. */
static void what_the_planner_would_take_may_not_be_there(void **state)
{
    (void)state;
    attn_case c = case_make(LNT_TAYLOR, 1, 1, 1 << 20, -1, 17, 1);
    lnt_plan_info info = { .size = sizeof info };
    lnt_plan *plan;
    c.desc.taylor.terms = 5;
    assert_ok(device, lnt_ctx_calibrate(device));
    assert_ok(device, lnt_plan_create(device, &c.desc, &plan));
    assert_ok(device, lnt_plan_describe(plan, &info));
    assert_string_equal(info.algorithm, "taylor/direct");
    lnt_plan_destroy(plan);
    c.desc.algorithm = "taylor/state";
    assert_refused(device, lnt_plan_create(device, &c.desc, &plan), LNT_ERR_UNSUPPORTED,
                   "has taylor/direct for this problem");
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
    assert_refused(device, lnt_device_describe(device, &info), LNT_ERR_ARGUMENT,
                   "size of lnt_device_info is 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_tells_what_it_is),
        cmocka_unit_test(what_a_device_cannot_do_is_said),
        cmocka_unit_test(nothing_to_do_is_done),
        cmocka_unit_test(forward_matches_the_oracle_at_every_nasty_width),
        cmocka_unit_test(forward_matches_the_oracle_at_every_nasty_length),
        cmocka_unit_test(forward_matches_the_oracle_in_every_layout),
        cmocka_unit_test(forward_matches_the_oracle_on_random_cases),
        cmocka_unit_test(forward_matches_the_oracle_on_long_sequences),
        cmocka_unit_test(forward_matches_the_oracle_with_many_terms),
        cmocka_unit_test(a_plan_serves_smaller_tensors_than_it_was_made_for),
        cmocka_unit_test(runs_repeat_to_the_bit_and_allocate_nothing),
        cmocka_unit_test(runs_on_a_stream_match_the_oracle),
        cmocka_unit_test(a_plan_takes_new_temperatures),
        cmocka_unit_test(denominators_that_give_no_answer_are_counted),
        cmocka_unit_test(calibration_measures_the_device),
        cmocka_unit_test(what_the_planner_would_take_may_not_be_there),
    };
    if (!device_open()) return DEVICE_MISSING;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close();
    return failed;
}
