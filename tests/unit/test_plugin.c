/* test_plugin.c - choosing a device: what is said where the plug-in is missing, is no plug-in, or is of
 * another version; and the table of one that fits.  The plug-ins are those of tests/plugin. */
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"

static void a_device_that_is_none_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = { "", "gpu", "cuda:", "cuda:x", "cuda:1x", "cuda:-1",
                                         "cuda:99999", "CUDA", "cuda " };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(wrong); i++)
        assert_refused(ctx, lnt_ctx_set_device(ctx, wrong[i]), LNT_ERR_ARGUMENT,
                       "must be cpu, cuda or cuda:N");
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
    assert_string_equal(lnt_ctx_device(ctx), "cpu"); /* the one before is closed */
    assert_ok(ctx, lnt_ctx_set_device(ctx, "cuda:0"));
    assert_ok(ctx, lnt_ctx_set_device(ctx, "cpu"));
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
        cmocka_unit_test(a_plugin_that_fits_is_opened),
        cmocka_unit_test(memory_goes_there_and_back),
        cmocka_unit_test(a_context_describes_the_cpu_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
