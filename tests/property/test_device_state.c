/* test_device_state.c - states on a GPU give the oracle's answers in any portions, and mean the same
 * there as on the CPU; pools, forks and merges.  Where there is no GPU this says so and exits with 77; it
 * also runs upon the fake plug-in, as test_device.c does. */
#include <unistd.h>

#include "../support/device.h"

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

static void steps_match_the_oracle_in_any_portions(void **state)
{
    (void)state;
    dice dice_ = { 31 };
    int ran = 0;
    for (int f = 0; f < STREAM_FORMS; f++)
        for (int t = 0; t < DEVICE_DTYPES; t++)
            for (int i = 0; i < budget(1, 4); i++) {
                attn_case c;
                const int64_t n = 45;
                if (!device_form(&c, f, n, device_dtypes[t])) continue;
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
                device_add(&c.desc, &tr.out.t, error);
                for (int64_t b = 0; b < STREAM_BATCH; b++)
                    assert_int_equal(lnt_state_tokens(s, b), n);
                lnt_state_destroy(s);
                device_trial_free(device, &d);
                trial_free(&tr);
                ran++;
            }
    assert_true(ran > 10);
    device_judge();
}

/* All numbers of a state on the device and of one on the CPU, by way of a file. */
static void expect_same_numbers(const attn_case *c, const char *what, lnt_state *on_device,
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
        for (int t = 0; t < DEVICE_DTYPES; t++) {
            attn_case c;
            if (!device_form(&c, f, 40, device_dtypes[t])) continue;
            trial tr = trial_new(host, &c);
            device_trial d = device_trial_new(device, &tr);
            lnt_state *s = device_state(&c), *same = stream_state(host, &c), *moved;
            device_append(s, &d, 0, 25);
            stream_append(host, same, &tr, 0, 25);
            expect_same_numbers(&c, "appended on each", s, same, 2e-6);
            moved = device_state_from(device, host, &c, same);
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
        for (int i = 0; i < 2 * DEVICE_DTYPES; i++) {
            attn_case c;
            const int64_t n = 300, cut = i % 2 + 1;
            if (!device_form(&c, f, n, device_dtypes[i / 2]) || c.desc.taylor.output_norm) continue;
            if (c.desc.mechanism == LNT_TAYLOR && cut == 2) c.desc.taylor.terms += 2; /* past four */
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
            device_add(&c.desc, &tr.out.t, error);
            lnt_state_destroy(s);
            lnt_plan_destroy(plan);
            device_trial_free(device, &d);
            trial_free(&tr);
            ran++;
        }
    assert_true(ran > 4);
    device_judge();
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_match_the_oracle_in_any_portions),
        cmocka_unit_test(a_pool_runs_the_sequences_that_are_selected),
        cmocka_unit_test(a_state_means_the_same_on_the_device_and_on_the_cpu),
        cmocka_unit_test(forks_and_merges_remember_what_they_should),
        cmocka_unit_test(a_prompt_then_steps_match_the_oracle),
    };
    if (!device_open()) return DEVICE_MISSING;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close();
    return failed;
}
