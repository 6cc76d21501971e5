/* test_device_gradient.c - the backward pass on a GPU gives the gradients that the CPU finds in double
 * for the same rounded inputs, which test_gradient.c holds against the oracle.  Where there is no GPU
 * this says so and exits with 77; it also runs upon the fake plug-in, as test_device.c does. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "../support/device_backward.h"
#include "plan/plan.h"

/* ---- bounds ---------------------------------------------------------------------------------- */

/* dout / den, monomials, states and results are rounded to bf16 one after the other, 1.7e-3 each time,
 * and normalised rows before that.  Few numbers may all be off in one direction: one case is held to
 * 2^-6, or 2^-5 where rows are narrow, all cases of a test together to 3e-3.  Of f32 and f16 all is in
 * f32, and of f16 the result is rounded. */
static double case_bound(const attn_case *c)
{
    if (c->desc.dtype == LNT_F32) return 2e-5;
    if (c->desc.dtype == LNT_F16) return 0x1p-10;
    return c->desc.dim < 8 || case_dim_value(c) < 8 ? 0x1p-5 : 0x1p-6;
}

static double together_bound(lnt_dtype dtype)
{
    return dtype == LNT_F32 ? 2e-5 : dtype == LNT_F16 ? 4e-4 : 3e-3;
}

/* Relative.  dq, dk and dv are sums of about length_k terms, of the length of dout together and in no
 * common direction; where keys or values are all the same the terms cancel, and what is left are their
 * roundings: so no gradient counts as shorter than a quarter of what such a sum is. */
static double part_error(const setup *s, int part, const lnt_tensor *want)
{
    const double keys = fmax((double)s->t.io.k.shape[2], 1);
    error_sum e = { 0 };
    double square = 0;
    for (int64_t i = 0; i < tensor_elements(want); i++)
        error_add(&e, tensor_at(&s->dx[part], i), tensor_at(want, i));
    for (int64_t i = 0; i < tensor_elements(&s->dout.t); i++)
        square += tensor_at(&s->dout.t, i) * tensor_at(&s->dout.t, i);
    if (part < 3) e.reference = fmax(e.reference, square / (16 * keys));
    return error_value(&e);
}

static error_sum together[DEVICE_DTYPES][PARTS]; /* by dtype, in the order of device_dtypes */

/* A gradient that is 0 but for roundings in double too has no relative error. */
static void add_together(const setup *s, int part, const lnt_tensor *want)
{
    int t = 0;
    while (device_dtypes[t] != s->c->desc.dtype) t++;
    double square = 0;
    for (int64_t i = 0; i < tensor_elements(want); i++)
        square += tensor_at(want, i) * tensor_at(want, i);
    for (int64_t i = 0; i < tensor_elements(want) && square > 1e-20; i++)
        error_add(&together[t][part], tensor_at(&s->dx[part], i), tensor_at(want, i));
}

static void judge_all(void)
{
    for (int t = 0; t < DEVICE_DTYPES; t++)
        for (int p = 0; p < PARTS; p++) {
            const double error = error_value(&together[t][p]), allowed = together_bound(device_dtypes[t]);
            const char *dtype = lnt_dtype_name(device_dtypes[t]);
            if (together[t][p].reference > 0)
                print_message("all cases in %s together: relative error of %s %.2e\n", dtype,
                              part_names[p], error);
            if (!(error <= allowed))
                fail_msg("all cases in %s together: %s is off by %.3g, allowed %.3g", dtype,
                         part_names[p], error, allowed);
            together[t][p] = (error_sum){ 0 };
        }
}

/* ---- one case on the device ------------------------------------------------------------------ */

/* Forward and backward on the device into s; false if it is not offered. */
static bool run_on_device(setup *s, int algorithm)
{
    lnt_plan *plan = case_plan(device, s->c, algorithm);
    if (!plan) return false;
    for (int i = 0; i < 3; i++) tensor_fill(&s->dx[i], 1e6); /* to be overwritten, not added to */
    device_setup d = device_setup_new(device, s);
    static int runs;
    d.grads.dtemperature = s->grads.dtemperature;
    d.t.io.kept_bytes = plan_kept_bytes(plan);
    if (runs++ % 2) assert_ok(device, lnt_device_allocate(device, d.t.io.kept_bytes, &d.t.io.kept));
    assert_ok(device, lnt_plan_forward(plan, &d.t.io));
    const lnt_status status = lnt_plan_backward(plan, &d.t.io, &d.grads);
    if (status) case_print(s->c, lnt_algorithm_name(algorithm), device);
    assert_ok(device, status);
    mirror_read(device, &d.t.out);
    for (int i = 0; i < 3; i++) mirror_read(device, &d.grad[i]);
    for (int i = 0; i < 3; i++)
        expect_true(s->c, lnt_algorithm_name(algorithm), device,
                    "something beside the gradients was written", block_guard_intact(&s->grad[i]));
    if (d.dstate_in) device_setup_read_states(&d, s);
    lnt_device_release(device, d.t.io.kept, d.t.io.kept_bytes);
    device_setup_free(device, &d);
    lnt_plan_destroy(plan);
    return true;
}

static void compare_with(setup *s, const exact_gradients *exact, const char *algorithm)
{
    for (int p = 0; p < s->parts; p++) {
        expect_below(s->c, algorithm, device, part_names[p], part_error(s, p, &exact->s.dx[p]),
                     case_bound(s->c));
        add_together(s, p, &exact->s.dx[p]);
    }
    const double *got = s->grads.dtemperature, *want = exact->dtemperature;
    for (int64_t h = 0; h < s->c->desc.heads && got; h++)
        expect_below(s->c, algorithm, device, "dtemperature",
                     fabs(got[h] - want[h]) / (fabs(want[h]) + 1), case_bound(s->c));
}

/* The gradients of s against those of the CPU in double. */
static void compare(setup *s, const char *algorithm)
{
    exact_gradients exact;
    exact_open(&exact, s);
    compare_with(s, &exact, algorithm);
    setup_free(&exact.s);
}

/* Every algorithm of the registry that takes the case, each on inputs drawn anew, which are the same;
 * how many did.  mean: added to the values, of every other one taken away. */
static int matches_in_its_dtype(const attn_case *c, double mean, int supported[])
{
    exact_gradients exact;
    int count = 0;
    for (int a = 0; lnt_algorithm_name(a); a++) {
        if (lnt_algorithm_mechanism(a) != c->desc.mechanism) continue;
        setup s = setup_new(host, c);
        const lnt_tensor *v = &s.t.io.v;
        for (int64_t i = 0; i < tensor_elements(v) && mean != 0; i++)
            tensor_put(v, i, tensor_at(v, i) + (i % 2 ? -mean : mean));
        double dtemperature[MAX_HEADS];
        if (c->desc.taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT) s.grads.dtemperature = dtemperature;
        if (run_on_device(&s, a)) {
            if (count++ == 0) exact_open(&exact, &s);
            compare_with(&s, &exact, lnt_algorithm_name(a));
            expect_below(c, lnt_algorithm_name(a), device, "the answers of such a plan",
                         oracle_error(host, &c->desc, &s.t.io, 3), case_bound(c));
            supported[a]++;
        }
        setup_free(&s);
    }
    if (count) setup_free(&exact.s);
    return count;
}

/* In bf16 and f32, and where the budget is large in f16. */
static int matches(attn_case *c, int supported[])
{
    int count = 0;
    for (int t = 0; t < budget(2, DEVICE_DTYPES); t++) {
        c->desc.dtype = device_dtypes[t];
        c->desc.backward = 1;
        count += matches_in_its_dtype(c, 0, supported);
    }
    return count;
}

/* Algorithms whose gradients a device must have, whatever else it has. */
static void check_cover(const int supported[])
{
    static const char *const needed[] = { "softmax/tiled", "linear/chunked", "taylor/direct",
                                          "taylor/state" };
    for (int i = 0; i < COUNT_OF(needed); i++)
        for (int a = 0; lnt_algorithm_name(a); a++)
            if (!strcmp(lnt_algorithm_name(a), needed[i]) && !supported[a])
                fail_msg("%s did no case at all on %s", needed[i], lnt_ctx_device(device));
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* The forms of test_gradient.c, longer than a chunk. */
static void gradients_match_the_cpu_in_every_form(void **state)
{
    (void)state;
    int supported[64] = { 0 }, states[LNT_HYBRID + 1] = { 0 };
    for (int f = 0; f < FORM_SCORES; f++) {
        attn_case c;
        if (!gradient_form(&c, f, 131, 20, 9) || !device_offers(c.desc.mechanism)) continue;
        if (c.desc.mechanism == LNT_CUR) continue; /* forward alone */
        if (c.desc.mechanism == LNT_LINEAR && c.desc.linear.feature_map > LNT_MAP_IDENTITY) continue;
        case_for_device(&c);
        if (c.state_tokens) c.desc.taylor.output_norm = 0; /* with it a run takes no state */
        expect_true(&c, "any", device, "a form has no gradients on the device",
                    matches(&c, supported) >= 2);
        if (c.state_tokens) states[c.desc.mechanism]++;
    }
    check_cover(supported);
    assert_true(states[LNT_LINEAR] > 0 && states[LNT_TAYLOR] > 1);
    judge_all();
}

static void gradients_match_the_cpu_on_random_cases(void **state)
{
    (void)state;
    int supported[64] = { 0 };
    dice d = { 6 };
    for (int mechanism = LNT_SOFTMAX; mechanism <= LNT_TAYLOR; mechanism++)
        for (int i = 0; i < budget(6, 60); i++) {
            attn_case c;
            case_random(&d, (lnt_mechanism)mechanism, LNT_BF16, &c);
            case_for_device(&c);
            if (c.state_tokens) c.desc.taylor.output_norm = 0;
            matches(&c, supported);
        }
    check_cover(supported);
    judge_all();
}

static void gradients_match_the_cpu_at_every_nasty_length(void **state)
{
    (void)state;
    static const int64_t lengths[] = { 0,  1,  2,  3,  7,   8,   15,  16,  17,  31,  32,
                                       33, 63, 64, 65, 127, 128, 129, 257, 511, 513, 700 };
    int supported[64] = { 0 };
    for (int mechanism = LNT_SOFTMAX; mechanism <= LNT_TAYLOR; mechanism++)
        for (int i = 0; i < COUNT_OF(lengths); i += budget(3, 1))
            for (int causal = 0; causal < 2; causal++)
                for (int more = -1; more < 2; more++) {
                    if (lengths[i] + more < 0 || (causal && more < 0)) continue;
                    attn_case c = case_make((lnt_mechanism)mechanism, 2, 1, lengths[i],
                                            lengths[i] + more, 17, 9);
                    c.desc.causal = causal;
                    matches(&c, supported);
                }
    check_cover(supported);
    judge_all();
}

static void gradients_match_the_cpu_at_every_nasty_width(void **state)
{
    (void)state;
    static const int64_t dims[] = { 1, 2, 5, 8, 16, 17, 31, 32, 33, 64, 65, 128 };
    int supported[64] = { 0 };
    for (int mechanism = LNT_SOFTMAX; mechanism <= LNT_TAYLOR; mechanism++)
        for (int i = 0; i < COUNT_OF(dims); i++)
            for (int j = i % budget(6, 2); j < COUNT_OF(dims); j += budget(6, 2)) {
                attn_case c =
                    case_make((lnt_mechanism)mechanism, 1, 1, 19, 137, dims[i], dims[j]);
                if (mechanism == LNT_TAYLOR) c.desc.taylor.terms = dims[i] > 33 ? 3 : 4;
                c.desc.causal = (i + j) % 4 < 2;
                matches(&c, supported);
            }
    check_cover(supported);
    judge_all();
}

static void gradients_match_the_cpu_in_every_layout(void **state)
{
    (void)state;
    int supported[64] = { 0 };
    for (int mechanism = LNT_SOFTMAX; mechanism <= LNT_TAYLOR; mechanism++)
        for (int i = 0; i < LAYOUT_COUNT * LAYOUT_OUTPUTS; i += budget(4, 1)) {
            attn_case c = case_make((lnt_mechanism)mechanism, 4, 2, 35, 67, 24, 13);
            c.desc.batch = 2;
            c.desc.causal = i % 2;
            device_layouts(&c, i);
            matches(&c, supported);
        }
    check_cover(supported);
    judge_all();
}

/* Several segments, several states. */
static void gradients_match_the_cpu_on_long_sequences(void **state)
{
    (void)state;
    static const int64_t dims[] = { 8, 16, 32, 64 };
    int supported[64] = { 0 };
    for (int mechanism = LNT_SOFTMAX; mechanism <= LNT_TAYLOR; mechanism++)
        for (int i = 0; i < COUNT_OF(dims); i += budget(2, 1))
            for (int causal = 0; causal < 2; causal++) {
                attn_case c = case_make((lnt_mechanism)mechanism, 2, 1, budget(300, 3000),
                                        budget(311, 3011), dims[i], 0);
                if (mechanism == LNT_TAYLOR) c.desc.taylor.terms = dims[i] > 16 ? 3 : 4;
                c.desc.causal = causal;
                matches(&c, supported);
            }
    check_cover(supported);
    judge_all();
}

/* A gradient does not change with the mean of the values, but most of a state is that mean's, and its
 * rounding is not to stay in the gradients. */
static void gradients_match_the_cpu_where_values_have_a_mean(void **state)
{
    (void)state;
    static const double means[] = { 1, 4, 16 };
    int supported[64] = { 0 };
    for (int i = 0; i < COUNT_OF(means); i++)
        for (int causal = 0; causal < 2; causal++) {
            attn_case c =
                case_make(LNT_TAYLOR, 2, 1, causal ? 700 : 40, causal ? 700 : 512, 16, 0);
            c.desc.causal = causal;
            c.desc.backward = 1;
            for (int t = 0; t < 2; t++) {
                c.desc.dtype = device_dtypes[t];
                assert_true(matches_in_its_dtype(&c, means[i], supported) >= 2);
            }
        }
    judge_all();
}

/* Up to 8 terms have a state where the width is up to 16. */
static void gradients_match_the_cpu_with_many_terms(void **state)
{
    (void)state;
    static const int64_t dims[] = { 3, 8, 16 };
    int supported[64] = { 0 }, ran = 0, cases = 0;
    for (int64_t terms = 5; terms <= 8; terms++)
        for (int i = 0; i < COUNT_OF(dims); i++) {
            if (dims[i] == 16 && terms > budget(5, 8)) continue;
            attn_case c = case_make(LNT_TAYLOR, 4, 2, 90, 133, dims[i], 8);
            c.desc.taylor.terms = terms;
            c.desc.causal = (int)(terms + i) % 2;
            ran += matches(&c, supported);
            cases += budget(2, DEVICE_DTYPES);
        }
    assert_true(ran >= 2 * cases); /* direct and state, at least */
    judge_all();
}

/* Not causal, a sequence without keys of its own still has those of the state before it. */
static void a_query_without_keys_goes_back_to_the_state(void **state)
{
    (void)state;
    int supported[64] = { 0 };
    attn_case c = case_make(LNT_LINEAR, 4, 2, 70, 90, 20, 9);
    c.desc.batch = 3;
    c.state_tokens = 25;
    c.with_lengths = true;
    for (int b = 0; b < 3; b++) c.lengths_q[b] = 70 - 33 * b, c.lengths_k[b] = 45 * b;
    assert_true(matches(&c, supported) > 0);
    judge_all();
}

static void a_plan_goes_back_over_smaller_tensors_than_it_was_made_for(void **state)
{
    (void)state;
    for (int mechanism = LNT_SOFTMAX; mechanism <= LNT_TAYLOR; mechanism++)
        for (int i = 0; i < 4; i++) {
            attn_case c = case_make((lnt_mechanism)mechanism, 4, 2, 450, 500, 16, 8);
            c.desc.causal = i % 2;
            c.desc.batch = 3;
            c.desc.dtype = device_dtypes[i / 2];
            c.desc.backward = 1;
            lnt_plan *plan = case_plan(device, &c, -1);
            for (int64_t n = 0; n < 450; n += budget(173, 89)) {
                const attn_case less = device_smaller(&c, n);
                setup s = setup_new(host, &less);
                device_setup d = device_setup_new(device, &s);
                assert_ok(device, lnt_plan_backward(plan, &d.t.io, &d.grads)); /* needs no forward */
                for (int g = 0; g < 3; g++) mirror_read(device, &d.grad[g]);
                compare(&s, "smaller");
                device_setup_free(device, &d);
                setup_free(&s);
            }
            lnt_plan_destroy(plan);
        }
    judge_all();
}

static void gradients_follow_new_temperatures(void **state)
{
    (void)state;
    static const double first[] = { 1, 1, 1, 1 }, second[] = { 0.5, 0.8, 1.1, 1.4 };
    double dtemperature[MAX_HEADS];
    for (int t = 0; t < DEVICE_DTYPES; t++) {
        attn_case c = case_make(LNT_TAYLOR, 4, 2, 150, 150, 16, 8);
        c.desc.dtype = device_dtypes[t];
        c.desc.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT;
        c.desc.taylor.terms = 3;
        c.desc.backward = 1;
        c.desc.taylor.temperature = first;
        lnt_plan *plan = case_plan(device, &c, -1);
        assert_ok(device, lnt_plan_set_temperature(plan, second));
        c.desc.taylor.temperature = second;
        setup s = setup_new(host, &c);
        device_setup d = device_setup_new(device, &s);
        d.grads.dtemperature = s.grads.dtemperature = dtemperature;
        assert_ok(device, lnt_plan_backward(plan, &d.t.io, &d.grads));
        for (int i = 0; i < 3; i++) mirror_read(device, &d.grad[i]);
        compare(&s, "new temperatures");
        device_setup_free(device, &d);
        setup_free(&s);
        lnt_plan_destroy(plan);
    }
    judge_all();
}

/* Two runs give the same bits, and neither allocates on the host. */
static void backward_repeats_to_the_bit_and_allocates_nothing(void **state)
{
    (void)state;
    tracker track = { .fail_at = -1 };
    lnt_ctx *ctx = context_tracked(&track, 2, NULL);
    assert_ok(ctx, lnt_ctx_set_device(ctx, "cuda"));
    for (int kind = 0; kind < 2 * (LNT_TAYLOR + 1); kind++) {
        attn_case c = case_make((lnt_mechanism)(kind / 2), 4, 2, 600, 600, 16, 16);
        c.desc.causal = 1;
        c.desc.dtype = device_dtypes[kind % 2];
        c.desc.backward = 1;
        setup s = setup_new(host, &c);
        device_setup d = device_setup_new(ctx, &s);
        lnt_plan *plan = case_plan(ctx, &c, -1);
        block first[3];
        for (int run = 0; run < 2; run++) {
            const int64_t calls = track.calls;
            assert_ok(ctx, lnt_plan_backward(plan, &d.t.io, &d.grads));
            assert_int_equal(track.calls, calls);
            for (int i = 0; i < 3; i++) mirror_read(ctx, &d.grad[i]);
            for (int i = 0; i < 3 && run == 0; i++) {
                const int64_t *n = s.dx[i].shape;
                first[i] = block_new(c.desc.dtype, LAYOUT_BHND, n[0], n[1], n[2], n[3]);
                tensor_copy(&first[i].t, &s.dx[i]);
            }
        }
        for (int i = 0; i < 3; i++) {
            for (int64_t e = 0; e < tensor_elements(&s.dx[i]); e++)
                assert_true(tensor_at(&first[i].t, e) == tensor_at(&s.dx[i], e));
            block_free(&first[i]);
        }
        lnt_plan_destroy(plan);
        device_setup_free(ctx, &d);
        setup_free(&s);
    }
    context_close_tracked(ctx, &track);
}

static void what_has_no_gradient_on_a_device_is_said(void **state)
{
    (void)state;
    attn_case c = case_make(LNT_LINEAR, 2, 1, 10, 10, 8, 8);
    c.desc.dtype = LNT_BF16;
    setup s = setup_new(host, &c);
    device_setup d = device_setup_new(device, &s);
    lnt_plan *plan = case_plan(device, &c, -1), *none;
    assert_refused(device, lnt_plan_backward(plan, &d.t.io, &d.grads), LNT_ERR_ARGUMENT, "backward");
    lnt_plan_destroy(plan);
    c.desc.backward = 1;
    plan = case_plan(device, &c, -1);
    lnt_tensor *const all[] = { &d.grads.dout, &d.grads.dq, &d.grads.dk, &d.grads.dv };
    static const char *const names[] = { "dout", "dq", "dk", "dv" };
    for (int i = 0; i < 4; i++) {
        all[i]->shape[2]--;
        assert_refused(device, lnt_plan_backward(plan, &d.t.io, &d.grads), LNT_ERR_SHAPE, names[i]);
        all[i]->shape[2]++;
    }
    const int64_t cu[] = { 0, 10 };
    d.t.io.sequences = 1;
    d.t.io.cu_seqlens_q = d.t.io.cu_seqlens_k = cu;
    assert_refused(device, lnt_plan_backward(plan, &d.t.io, &d.grads), LNT_ERR_UNSUPPORTED,
                   "packed");
    lnt_plan_destroy(plan);
    c.desc.dtype = LNT_F64;
    assert_refused(device, lnt_plan_create(device, &c.desc, &none), LNT_ERR_UNSUPPORTED, "f64");
    c = case_make(LNT_CUR, 2, 2, 10, 10, 8, 8);
    c.desc.backward = 1;
    assert_refused(device, lnt_plan_create(device, &c.desc, &none), LNT_ERR_UNSUPPORTED, "cur");
    device_setup_free(device, &d);
    setup_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_has_no_gradient_on_a_device_is_said),
        cmocka_unit_test(gradients_match_the_cpu_in_every_form),
        cmocka_unit_test(gradients_match_the_cpu_on_random_cases),
        cmocka_unit_test(gradients_match_the_cpu_at_every_nasty_length),
        cmocka_unit_test(gradients_match_the_cpu_at_every_nasty_width),
        cmocka_unit_test(gradients_match_the_cpu_in_every_layout),
        cmocka_unit_test(gradients_match_the_cpu_on_long_sequences),
        cmocka_unit_test(gradients_match_the_cpu_where_values_have_a_mean),
        cmocka_unit_test(gradients_match_the_cpu_with_many_terms),
        cmocka_unit_test(a_query_without_keys_goes_back_to_the_state),
        cmocka_unit_test(a_plan_goes_back_over_smaller_tensors_than_it_was_made_for),
        cmocka_unit_test(gradients_follow_new_temperatures),
        cmocka_unit_test(backward_repeats_to_the_bit_and_allocates_nothing),
    };
    if (!device_open()) return DEVICE_MISSING;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close();
    return failed;
}
