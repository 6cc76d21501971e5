/* test_calibration.c - a saved calibration gives the same plans again, bit for bit, and what is no
 * calibration of this machine leaves the context as it was. */
#include <signal.h>
#include <sys/resource.h>

#include "attention/registry.h"
#include "io_support.h"

/* A context with rates that only 17 digits tell apart. */
static lnt_ctx *calibrated_context(int threads)
{
    lnt_ctx *ctx = context_new(threads, NULL);
    for (int d = LNT_F32; d <= LNT_BF16; d++)
        for (int i = 0; i < lnt_registry_count(); i++)
            ctx->seconds_per_flop[d][i] = 1e-11 / (3 + 7 * i + d);
    ctx->seconds_per_flop[LNT_BF16][0] = 0; /* an algorithm that the device does not have */
    return ctx;
}

static char *saved_text(void)
{
    lnt_ctx *ctx = calibrated_context(1);
    size_t count;
    assert_ok(ctx, lnt_calibration_save(ctx, "c.json"));
    lnt_ctx_destroy(ctx);
    return (char *)get_file("c.json", &count);
}

/* The saved file with the first `old` replaced. */
static void put_changed(const char *text, const char *old, const char *new)
{
    const char *at = strstr(text, old);
    assert_non_null(at);
    FILE *file = fopen("c.json", "wb");
    assert_non_null(file);
    fprintf(file, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    assert_int_equal(fclose(file), 0);
}

/* In a context that has other rates, which stay. */
static void assert_load_refused(lnt_status expected, const char *sentence)
{
    lnt_ctx *ctx = calibrated_context(1);
    ctx->seconds_per_flop[LNT_F32][1] = 5e-10;
    double before[LNT_F64 + 1][LNT_MAX_ALGORITHMS];
    memcpy(before, ctx->seconds_per_flop, sizeof before);
    assert_refused(ctx, lnt_calibration_load(ctx, "c.json"), expected, sentence);
    assert_memory_equal(before, ctx->seconds_per_flop, sizeof before);
    lnt_ctx_destroy(ctx);
}

static void what_was_saved_is_loaded_bit_for_bit(void **state)
{
    (void)state;
    lnt_ctx *ctx = calibrated_context(2), *other = context_new(2, NULL);
    assert_ok(ctx, lnt_calibration_save(ctx, "c.json"));
    other->seconds_per_flop[LNT_F64][2] = 1; /* nothing of before is left */
    assert_ok(other, lnt_calibration_load(other, "c.json"));
    assert_memory_equal(ctx->seconds_per_flop, other->seconds_per_flop, sizeof ctx->seconds_per_flop);
    assert_int_equal(count_files(), 1);
    for (int64_t length = 16; length <= 4096; length *= 4) {
        lnt_plan_info a = { .size = sizeof a }, b = { .size = sizeof b };
        lnt_attn_desc d;
        assert_ok(ctx, lnt_attn_desc_init(&d, sizeof d));
        d.mechanism = LNT_TAYLOR;
        d.heads = 2;
        d.dim = 8;
        d.length_q = length;
        d.causal = 1;
        assert_ok(ctx, lnt_plan_predict(ctx, &d, &a));
        assert_ok(other, lnt_plan_predict(other, &d, &b));
        assert_string_equal(a.algorithm, b.algorithm);
        assert_true(a.seconds == b.seconds && a.crossover_speed == b.crossover_speed);
    }
    lnt_ctx_destroy(ctx);
    lnt_ctx_destroy(other);
    unlink("c.json");
}

static void nothing_is_saved_where_nothing_was_measured(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    assert_refused(ctx, lnt_calibration_save(ctx, "c.json"), LNT_ERR_ARGUMENT,
                   "ctx has no calibration to save; lnt_ctx_calibrate measures one");
    assert_refused(ctx, lnt_calibration_save(ctx, NULL), LNT_ERR_ARGUMENT, "path is NULL");
    assert_refused(ctx, lnt_calibration_load(ctx, NULL), LNT_ERR_ARGUMENT, "path is NULL");
    assert_refused(ctx, lnt_calibration_load(ctx, "c.json"), LNT_ERR_FILE, "cannot read 'c.json': No such");
    assert_int_equal(count_files(), 0);
    lnt_ctx_destroy(ctx);
}

static void another_machine_is_refused_by_what_differs(void **state)
{
    (void)state;
    char *text = saved_text();
    put_changed(text, "\"version\": \"" LNT_VERSION_STRING, "\"version\": \"0.0.9");
    assert_load_refused(LNT_ERR_UNSUPPORTED,
                        "its version is '0.0.9', here it is '" LNT_VERSION_STRING "'; calibrate again");
    put_changed(text, "\"isa\": \"", "\"isa\": \"other-");
    assert_load_refused(LNT_ERR_UNSUPPORTED, "'c.json': its isa is 'other-");
    put_changed(text, "\"threads\": 1", "\"threads\": 3");
    assert_load_refused(LNT_ERR_UNSUPPORTED, "'c.json': its threads is 3, here it is 1; calibrate again");
    put_changed(text, "\"device\": \"", "\"device\": \"other ");
    assert_load_refused(LNT_ERR_UNSUPPORTED, "'c.json': its device is 'other ");
    unlink("c.json");
    free(text);
}

static void what_is_no_calibration_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *old, *new, *sentence;
    } cases[] = {
        { "linnet calibration 1", "linnet calibration 2", "its 'format' must be 'linnet calibration 1'" },
        { "\"format\"", "\"form\"", "its 'format' must be" },
        { "\"isa\": \"", "\"isa\": 1, \"x\": \"", "its 'isa' must be a string" },
        { "\"device\"", "\"gpu\"", "its 'device' must be a string" },
        { "\"threads\": 1", "\"threads\": 1.5", "its 'threads' must be a whole number" },
        { "\"threads\": 1", "\"threads\": \"1\"", "its 'threads' must be a whole number" },
        { "\"seconds_per_flop\"", "\"rates\"", "its 'seconds_per_flop' must be an object" },
        { "\"seconds_per_flop\": {", "\"seconds_per_flop\": {}, \"x\": {", "'seconds_per_flop' has no rate" },
        { "\"seconds_per_flop\": {", "\"seconds_per_flop\": [], \"x\": {",
          "'seconds_per_flop' must be an object" },
        { "\"f32\"", "\"f31\"", "the dtype 'f31' is not one of the library" },
        { "\"f64\": {", "\"f64\": 3, \"x\": {", "the rates of 'f64' must be an object" },
        { "softmax/tiled", "softmax/tilde", "the algorithm 'softmax/tilde' is not one of the library" },
        { "tiled\": ", "tiled\": -", "the rate of 'softmax/tiled' must be a number above 0 and at most 1" },
        { "tiled\": ", "tiled\": 0, \"linear/x\": ", "the rate of 'softmax/tiled' must be" },
        { "tiled\": ", "tiled\": 7, \"x\": ", "the rate of 'softmax/tiled' must be" },
        { "tiled\": ", "tiled\": \"fast\", \"x\": ", "the rate of 'softmax/tiled' must be" },
        { "tiled\": ", "tiled\": null, \"x\": ", "the rate of 'softmax/tiled' must be" },
        { "tiled\": ", "tiled\": 1e999, \"x\": ", "'c.json'" },
        { "tiled\": ", "tiled\": NaN, \"x\": ", "'c.json', byte" },
        { "{", "[", "'c.json', byte" },
    };
    char *text = saved_text();
    for (int i = 0; i < COUNT_OF(cases); i++) {
        put_changed(text, cases[i].old, cases[i].new);
        assert_load_refused(LNT_ERR_FORMAT, cases[i].sentence);
    }
    for (size_t length = strlen(text) - 2; length >= 13; length -= 13) { /* first without its last brace */
        put_file("c.json", text, length);
        assert_load_refused(LNT_ERR_FORMAT, "'c.json', byte");
    }
    char *large = calloc(1, 65537);
    assert_non_null(large);
    put_file("c.json", large, 65537);
    assert_load_refused(LNT_ERR_FORMAT, "'c.json': is 65537 bytes, a calibration is at most 65536");
    free(large);
    put_file("c.json", "7", 1);
    assert_load_refused(LNT_ERR_FORMAT, "its 'format' must be");
    unlink("c.json");
    free(text);
}

/* A limit on the size of files stands for a disk that is full. */
static void a_save_that_fails_leaves_nothing(void **state)
{
    (void)state;
    lnt_ctx *ctx = calibrated_context(1);
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 100;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const lnt_status status = lnt_calibration_save(ctx, "c.json");
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    assert_refused(ctx, status, LNT_ERR_FILE, "cannot write 'c.json': File too large");
    assert_int_equal(count_files(), 0);
    assert_refused(ctx, lnt_calibration_save(ctx, "none/c.json"), LNT_ERR_FILE, "cannot write 'none/c.json'");
    lnt_ctx_destroy(ctx);
}

static void memory_that_runs_out_loses_nothing(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    ctx->seconds_per_flop[LNT_F32][0] = 1e-11;
    t.fail_at = t.calls;
    assert_refused(ctx, lnt_calibration_save(ctx, "c.json"), LNT_ERR_MEMORY, "out of memory");
    assert_int_equal(count_files(), 0);
    t.fail_at = -1;
    assert_ok(ctx, lnt_calibration_save(ctx, "c.json"));
    ctx->seconds_per_flop[LNT_F32][0] = 2e-11;
    for (int k = 0; k < 2; k++) { /* the text, and what is read from it */
        t.fail_at = t.calls + k;
        assert_refused(ctx, lnt_calibration_load(ctx, "c.json"), LNT_ERR_MEMORY, "out of memory");
        assert_true(ctx->seconds_per_flop[LNT_F32][0] == 2e-11);
    }
    t.fail_at = -1;
    assert_ok(ctx, lnt_calibration_load(ctx, "c.json"));
    assert_true(ctx->seconds_per_flop[LNT_F32][0] == 1e-11);
    unlink("c.json");
    context_close_tracked(ctx, &t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_saved_is_loaded_bit_for_bit),
        cmocka_unit_test(nothing_is_saved_where_nothing_was_measured),
        cmocka_unit_test(another_machine_is_refused_by_what_differs),
        cmocka_unit_test(what_is_no_calibration_is_refused),
        cmocka_unit_test(a_save_that_fails_leaves_nothing),
        cmocka_unit_test(memory_that_runs_out_loses_nothing),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
