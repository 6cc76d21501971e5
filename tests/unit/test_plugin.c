/* test_plugin.c - choosing a device: what is said where the plug-in is missing, is no plug-in, or is of
 * another version; and the table of one that fits.  The plug-ins are those of tests/plugin. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "../support/mirror.h"
#include "core/context.h"
#include "device/plugin.h"
#include "plan/plan.h"

static void a_device_that_is_none_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = { "", "gpu", "cp", "cpu:0", "cuda:", "cuda:x", "cuda:1x", "cuda:-1",
                                         "cuda:99999", "CUDA", "cuda " };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(wrong); i++)
        assert_refused(ctx, lnt_ctx_set_device(ctx, wrong[i]), LNT_ERR_ARGUMENT,
                       "must be one of cpu, cuda, cuda:N");
    assert_refused(ctx, lnt_ctx_set_device(ctx, NULL), LNT_ERR_ARGUMENT, "NULL");
    assert_ok(ctx, lnt_ctx_set_device(ctx, "cpu"));
    assert_string_equal(lnt_ctx_device(ctx), "cpu");
    lnt_ctx_destroy(ctx);
}

/* What is said when LINNET_CUDA_PLUGIN is this; the context stays on the CPU, and usable. */
static void refuses(const char *plugin, const char *word)
{
    tracker track = { .fail_at = -1 };
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    assert_int_equal(setenv("LINNET_CUDA_PLUGIN", plugin, 1), 0);
    assert_refused(ctx, lnt_ctx_set_device(ctx, "cuda"), LNT_ERR_UNSUPPORTED, word);
    assert_string_equal(lnt_ctx_device(ctx), "cpu");
    assert_ok(ctx, lnt_ctx_synchronize(ctx));
    context_close_tracked(ctx, &track);
}

static void a_missing_plugin_is_named(void **state)
{
    (void)state;
    refuses("/nowhere/liblinnet-cuda.so", "/nowhere/liblinnet-cuda.so");
    refuses("/nowhere/liblinnet-cuda.so", "LINNET_CUDA_PLUGIN");
    refuses("/nowhere/liblinnet-cuda.so", "could not be opened");
}

static void a_library_that_is_no_plugin_is_refused(void **state)
{
    (void)state;
    refuses(PLUGIN_NONE, "is not a plug-in");
}

static void a_plugin_of_another_version_is_refused(void **state)
{
    (void)state;
    refuses(PLUGIN_REFUSES, "another version");
    refuses(PLUGIN_OTHER, "another version");
}

/* A struct that grew on one side, the version of the table being the same. */
static void a_plugin_with_other_structs_is_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    assert_int_equal(setenv("LINNET_CUDA_PLUGIN", PLUGIN_GREW, 1), 0);
    assert_refused(ctx, lnt_ctx_set_device(ctx, "cuda"), LNT_ERR_UNSUPPORTED,
                   "was built with a lnt_cuda_io of");
    lnt_ctx_destroy(ctx);

    void *library = dlopen(PLUGIN_FAKE, RTLD_NOW | RTLD_LOCAL), *symbol = dlsym(library, LNT_CUDA_SYMBOL);
    lnt_cuda_plugin_function plugin;
    memcpy(&plugin, &symbol, sizeof plugin);
    lnt_cuda_struct older[LNT_CUDA_STRUCTS];
    lnt_cuda_device *device;
    char sentence[200] = "";
    for (int i = 0; i < LNT_CUDA_STRUCTS; i++) {
        memcpy(older, lnt_cuda_structs, sizeof older);
        older[i].size -= 8;
        assert_int_equal(plugin(LNT_CUDA_ABI)->open(0, older, &device, sentence, sizeof sentence),
                         LNT_ERR_UNSUPPORTED);
        assert_non_null(strstr(sentence, older[i].name));
    }
    dlclose(library);
}

static void a_plugin_that_fits_is_opened(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_device_info info = { .size = sizeof info };
    assert_int_equal(setenv("LINNET_CUDA_PLUGIN", PLUGIN_FAKE, 1), 0);
    assert_ok(ctx, lnt_ctx_set_device(ctx, "cuda"));
    assert_string_equal(lnt_ctx_device(ctx), "cuda:0");
    assert_ok(ctx, lnt_device_describe(ctx, &info));
    assert_string_equal(info.name, "no GPU at all");
    assert_refused(ctx, lnt_ctx_set_device(ctx, "cuda:3"), LNT_ERR_UNSUPPORTED,
                   "device cuda:3: there is no device 3");
    assert_ok(ctx, lnt_ctx_set_device(ctx, "cpu"));
    lnt_ctx_destroy(ctx);
}

static void a_device_that_is_left_is_released(void **state)
{
    (void)state;
    tracker track = { .fail_at = -1 };
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    assert_int_equal(setenv("LINNET_CUDA_PLUGIN", PLUGIN_FAKE, 1), 0);
    for (int i = 0; i < 2; i++) assert_ok(ctx, lnt_ctx_set_device(ctx, "cuda:0"));
    assert_ok(ctx, lnt_ctx_set_device(ctx, "cpu"));
    context_close_tracked(ctx, &track);
}

/* On the CPU and on a device: which it is, the calibration and the stream stay, and it works. */
static void a_device_that_is_refused_leaves_the_one_before(void **state)
{
    (void)state;
    static const char *const before[] = { "cpu", "cuda:0" };
    tracker track = { .fail_at = -1 };
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    for (int i = 0; i < COUNT_OF(before); i++) {
        void *memory;
        assert_int_equal(setenv("LINNET_CUDA_PLUGIN", PLUGIN_FAKE, 1), 0);
        assert_ok(ctx, lnt_ctx_set_device(ctx, before[i]));
        assert_ok(ctx, lnt_ctx_set_stream(ctx, &track));
        ctx->seconds_per_flop[LNT_F32][0] = 1e-9;
        assert_refused(ctx, lnt_ctx_set_device(ctx, "cuda:3"), LNT_ERR_UNSUPPORTED, "no device 3");
        track.fail_at = track.calls;
        assert_refused(ctx, lnt_ctx_set_device(ctx, "cuda"), LNT_ERR_MEMORY, "memory");
        track.fail_at = -1;
        assert_int_equal(setenv("LINNET_CUDA_PLUGIN", PLUGIN_OTHER, 1), 0);
        assert_refused(ctx, lnt_ctx_set_device(ctx, "cuda"), LNT_ERR_UNSUPPORTED, "another version");
        assert_string_equal(lnt_ctx_device(ctx), before[i]);
        assert_true(ctx->stream == &track);
        assert_true(ctx->seconds_per_flop[LNT_F32][0] == 1e-9);
        assert_ok(ctx, lnt_device_allocate(ctx, 8, &memory));
        lnt_device_release(ctx, memory, 8);
    }
    context_close_tracked(ctx, &track);
}

static void a_form_is_the_devices_to_know(void **state)
{
    (void)state;
    assert_int_equal(setenv("LINNET_CUDA_PLUGIN", PLUGIN_FAKE, 1), 0);
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_plan_info info = { .size = sizeof info };
    lnt_attn_desc d;
    lnt_plan *plan;
    assert_ok(ctx, lnt_attn_desc_init(&d, sizeof d));
    d.mechanism = LNT_LINEAR;
    d.length_q = d.dim = 4;
    d.algorithm = "chunked:plain";
    assert_refused(ctx, lnt_plan_create(ctx, &d, &plan), LNT_ERR_UNSUPPORTED, "'linear/chunked:plain'");
    assert_ok(ctx, lnt_ctx_set_device(ctx, "cuda"));
    assert_ok(ctx, lnt_plan_create(ctx, &d, &plan));
    assert_ok(ctx, lnt_plan_describe(plan, &info));
    assert_string_equal(info.algorithm, "linear/chunked");
    assert_string_equal(info.form, "plain");
    lnt_plan_destroy(plan);
    d.algorithm = "linear/chunked:fancy";
    assert_refused(ctx, lnt_plan_create(ctx, &d, &plan), LNT_ERR_UNSUPPORTED, "plain would do");
    d.algorithm = "chunk:plain";
    assert_refused(ctx, lnt_plan_create(ctx, &d, &plan), LNT_ERR_ARGUMENT, "algorithm 'chunk:plain'");
    lnt_ctx_destroy(ctx);
}

/* On the device, and on the CPU, where the calls are plain copies. */
static void memory_goes_there_and_back(void **state)
{
    (void)state;
    assert_int_equal(setenv("LINNET_CUDA_PLUGIN", PLUGIN_FAKE, 1), 0);
    for (int on_device = 0; on_device < 2; on_device++) {
        lnt_ctx *ctx = context_new(1, NULL);
        const char sent[] = "there and back";
        char got[sizeof sent] = "";
        void *memory;
        if (on_device) assert_ok(ctx, lnt_ctx_set_device(ctx, "cuda"));
        assert_ok(ctx, lnt_device_allocate(ctx, sizeof sent, &memory));
        assert_ok(ctx, lnt_device_write(ctx, memory, sent, sizeof sent));
        assert_ok(ctx, lnt_device_read(ctx, got, memory, sizeof got));
        assert_string_equal(got, sent);
        assert_refused(ctx, lnt_device_write(ctx, NULL, sent, 1), LNT_ERR_ARGUMENT, "NULL");
        assert_refused(ctx, lnt_device_read(ctx, got, NULL, 1), LNT_ERR_ARGUMENT, "NULL");
        assert_ok(ctx, lnt_device_write(ctx, NULL, NULL, 0));
        lnt_device_release(ctx, memory, sizeof sent);
        lnt_ctx_destroy(ctx);
    }
}

/* Every call that works on the device goes to the context's stream, and tells what failed there: on
 * stream 13 of the fake plug-in everything does. */
static void what_fails_on_a_stream_is_told(void **state)
{
    (void)state;
    static const char sentence[] = "a launch failed on stream 13";
    double temperature[2] = { 1, 2 };
    char byte = 0;
    lnt_ctx *ctx = context_new(1, NULL), *host = context_new(1, NULL);
    assert_int_equal(setenv("LINNET_CUDA_PLUGIN", PLUGIN_FAKE, 1), 0);
    assert_ok(ctx, lnt_ctx_set_device(ctx, "cuda"));
    attn_case c = case_make(LNT_TAYLOR, 2, 2, 10, 10, 4, 4);
    c.desc.causal = c.desc.backward = c.desc.state = 1;
    c.desc.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT;
    c.desc.taylor.temperature = temperature;
    trial t = trial_new(host, &c);
    device_trial d = device_trial_new(ctx, &t), g = device_trial_new(ctx, &t);
    const lnt_attn_grads grads = { .size = sizeof grads, .dout = d.out.t, .dq = g.q.t, .dk = g.k.t,
                                   .dv = g.v.t };
    lnt_report report = { .size = sizeof report };
    lnt_plan *plan;
    lnt_state *s, *other;
    assert_ok(ctx, lnt_plan_create(ctx, &c.desc, &plan));
    assert_ok(ctx, lnt_state_create(ctx, &c.desc, &s));
    assert_ok(ctx, lnt_ctx_set_stream(ctx, (void *)(uintptr_t)13));
    const lnt_status failed[] = { lnt_plan_forward(plan, &d.io),
                                  lnt_plan_backward(plan, &d.io, &grads),
                                  lnt_plan_set_temperature(plan, temperature),
                                  lnt_state_step(s, &d.q.t, &d.k.t, &d.v.t, &d.out.t),
                                  lnt_state_append(s, &d.k.t, &d.v.t),
                                  lnt_state_query(s, &d.q.t, &d.out.t),
                                  lnt_state_fork(s, &other),
                                  lnt_state_copy(s, 0, s, 0),
                                  lnt_plan_report(plan, &report),
                                  lnt_device_write(ctx, d.q.memory, &byte, 1),
                                  lnt_device_read(ctx, &byte, d.q.memory, 1) };
    for (int i = 0; i < COUNT_OF(failed); i++) assert_int_equal(failed[i], LNT_ERR_UNSUPPORTED);
    assert_refused(ctx, lnt_ctx_synchronize(ctx), LNT_ERR_UNSUPPORTED, sentence);
    assert_refused(ctx, lnt_plan_forward(plan, &d.io), LNT_ERR_UNSUPPORTED, sentence);
    assert_refused(ctx, lnt_plan_backward(plan, &d.io, &grads), LNT_ERR_UNSUPPORTED, sentence);
    assert_ok(ctx, lnt_ctx_set_stream(ctx, NULL));
    assert_ok(ctx, lnt_plan_forward(plan, &d.io));
    assert_ok(ctx, lnt_state_append(s, &d.k.t, &d.v.t));
    lnt_state_destroy(s);
    lnt_plan_destroy(plan);
    device_trial_free(ctx, &d);
    device_trial_free(ctx, &g);
    trial_free(&t);
    lnt_ctx_destroy(ctx);
    lnt_ctx_destroy(host);
}

/* Forward leaves it in memory that the caller gives, and may leave that of several runs.  The fake plug-in
 * refuses what forward did not leave. */
static void backward_gets_what_forward_kept(void **state)
{
    (void)state;
    static const char sentence[] = "forward has not run in this workspace";
    lnt_ctx *ctx = context_new(1, NULL), *host = context_new(1, NULL);
    assert_int_equal(setenv("LINNET_CUDA_PLUGIN", PLUGIN_FAKE, 1), 0);
    assert_ok(ctx, lnt_ctx_set_device(ctx, "cuda"));
    attn_case c = case_make(LNT_TAYLOR, 2, 2, 10, 10, 4, 4);
    c.desc.causal = c.desc.backward = 1;
    trial t = trial_new(host, &c);
    tensor_fill(&t.out.t, 0.5); /* dout */
    device_trial d = device_trial_new(ctx, &t), g = device_trial_new(ctx, &t);
    lnt_attn_grads grads = { .size = sizeof grads, .dout = g.out.t, .dq = g.q.t, .dk = g.k.t,
                             .dv = g.v.t };
    lnt_plan *plan;
    assert_ok(ctx, lnt_plan_create(ctx, &c.desc, &plan));
    const size_t bytes = plan_kept_bytes(plan);
    void *kept[2];
    assert_true(bytes > 0);
    for (int i = 0; i < 2; i++) assert_ok(ctx, lnt_device_allocate(ctx, bytes, &kept[i]));
    lnt_attn_io io[2] = { d.io, d.io };
    for (int i = 0; i < 2; i++) io[i].kept = kept[i], io[i].kept_bytes = bytes;
    assert_ok(ctx, lnt_plan_backward(plan, &d.io, &grads)); /* nothing kept: found again */
    mirror_read(ctx, &g.q);
    block found = block_copy(&t.q.t);
    assert_refused(ctx, lnt_plan_backward(plan, &io[0], &grads), LNT_ERR_UNSUPPORTED, sentence);
    for (int i = 0; i < 2; i++) assert_ok(ctx, lnt_plan_forward(plan, &io[i]));
    assert_ok(ctx, lnt_plan_forward(plan, &d.io));
    for (int i = 0; i < 2; i++) {
        assert_ok(ctx, lnt_plan_backward(plan, &io[i], &grads));
        mirror_read(ctx, &g.q);
        for (int64_t e = 0; e < tensor_elements(&found.t); e++)
            assert_true(tensor_at(&found.t, e) == tensor_at(&t.q.t, e));
    }
    block_free(&found);
    io[0].kept_bytes--;
    assert_refused(ctx, lnt_plan_forward(plan, &io[0]), LNT_ERR_ARGUMENT, "kept_bytes");
    for (int i = 0; i < 2; i++) lnt_device_release(ctx, kept[i], bytes);
    lnt_plan_destroy(plan);
    device_trial_free(ctx, &d);
    device_trial_free(ctx, &g);
    trial_free(&t);
    lnt_ctx_destroy(ctx);
    lnt_ctx_destroy(host);
}

static void a_device_predicts_what_its_plan_tells(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    assert_int_equal(setenv("LINNET_CUDA_PLUGIN", PLUGIN_FAKE, 1), 0);
    assert_ok(ctx, lnt_ctx_set_device(ctx, "cuda"));
    for (int i = 0; i < 4; i++) {
        attn_case c = case_make(i & 1 ? LNT_TAYLOR : LNT_SOFTMAX, 2, 2, 10, 10, 4, 4);
        c.desc.backward = i / 2;
        lnt_plan_info told = { .size = sizeof told }, predicted = told;
        lnt_plan *plan;
        assert_ok(ctx, lnt_plan_predict(ctx, &c.desc, &predicted));
        assert_ok(ctx, lnt_ctx_set_device(ctx, "cuda")); /* it left no plan */
        assert_ok(ctx, lnt_plan_create(ctx, &c.desc, &plan));
        assert_ok(ctx, lnt_plan_describe(plan, &told));
        assert_true(!memcmp(&told, &predicted, sizeof told));
        lnt_plan_destroy(plan);
    }
    attn_case c = case_make(LNT_HYBRID, 2, 2, 10, 10, 4, 4);
    lnt_plan_info info = { .size = sizeof info };
    assert_refused(ctx, lnt_plan_predict(ctx, &c.desc, &info), LNT_ERR_UNSUPPORTED, "hybrid");
    lnt_ctx_destroy(ctx);
}

static const char *chosen(lnt_ctx *ctx, lnt_dtype dtype, int64_t terms)
{
    attn_case c = case_make(LNT_TAYLOR, 1, 1, 1 << 16, -1, 8, 1);
    lnt_plan_info info = { .size = sizeof info };
    lnt_plan *plan;
    c.desc.dtype = dtype, c.desc.taylor.terms = terms;
    assert_ok(ctx, lnt_plan_create(ctx, &c.desc, &plan));
    assert_ok(ctx, lnt_plan_describe(plan, &info));
    lnt_plan_destroy(plan);
    return info.algorithm;
}

/* A device whose states are fast in bf16 alone: those of more terms go in the precision of f32. */
static void states_of_many_terms_are_judged_by_the_rate_of_f32(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    assert_int_equal(setenv("LINNET_CUDA_PLUGIN", PLUGIN_FAKE, 1), 0);
    assert_ok(ctx, lnt_ctx_set_device(ctx, "cuda"));
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int t = 0; t <= LNT_F64; t++)
            ctx->seconds_per_flop[t][a] = strstr(lnt_algorithm_name(a), "taylor/direct") ? 1e-12
                                          : t == LNT_BF16                                ? 1e-12
                                                                                         : 1e-6;
    assert_string_equal(chosen(ctx, LNT_BF16, 4), "taylor/state");
    assert_string_equal(chosen(ctx, LNT_BF16, 5), "taylor/direct");
    assert_string_equal(chosen(ctx, LNT_F32, 4), "taylor/direct");
    lnt_ctx_destroy(ctx);
}

static void a_context_describes_the_cpu_too(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, "scalar");
    lnt_device_info info = { .size = sizeof info };
    assert_ok(ctx, lnt_device_describe(ctx, &info));
    assert_string_equal(info.name, "scalar");
    assert_int_equal(info.memory_bytes, 0);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_that_is_none_is_refused),
        cmocka_unit_test(a_missing_plugin_is_named),
        cmocka_unit_test(a_library_that_is_no_plugin_is_refused),
        cmocka_unit_test(a_plugin_of_another_version_is_refused),
        cmocka_unit_test(a_plugin_with_other_structs_is_refused),
        cmocka_unit_test(a_plugin_that_fits_is_opened),
        cmocka_unit_test(a_device_that_is_left_is_released),
        cmocka_unit_test(a_device_that_is_refused_leaves_the_one_before),
        cmocka_unit_test(a_form_is_the_devices_to_know),
        cmocka_unit_test(memory_goes_there_and_back),
        cmocka_unit_test(what_fails_on_a_stream_is_told),
        cmocka_unit_test(backward_gets_what_forward_kept),
        cmocka_unit_test(a_device_predicts_what_its_plan_tells),
        cmocka_unit_test(states_of_many_terms_are_judged_by_the_rate_of_f32),
        cmocka_unit_test(a_context_describes_the_cpu_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
