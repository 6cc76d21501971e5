/* test_core.c - statuses, contexts, the allocator hooks, tensor checks, the arena, and calls upon
 * nothing. */
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"
#include "core/arena.h"
#include "core/context.h"
#include "core/tensor.h"
#include "core/threads.h"

static void every_status_and_dtype_has_a_name(void **state)
{
    (void)state;
    static const char *const names[] = { "ok",     "argument", "shape", "dtype", "unsupported",
                                         "memory", "file",     "format" };
    for (int i = 0; i < COUNT_OF(names); i++)
        assert_string_equal(lnt_status_name((lnt_status)i), names[i]);
    assert_non_null(lnt_status_name((lnt_status)99));
    static const char *const dtypes[] = { "f32", "f16", "bf16", "f64" };
    static const size_t sizes[] = { 4, 2, 2, 8 };
    for (int i = 0; i < 4; i++) {
        assert_string_equal(lnt_dtype_name((lnt_dtype)i), dtypes[i]);
        assert_int_equal(lnt_dtype_size((lnt_dtype)i), sizes[i]);
    }
    assert_int_equal(lnt_dtype_size((lnt_dtype)4), 0);
    assert_non_null(lnt_dtype_name((lnt_dtype)4));
    assert_string_equal(lnt_version(), LNT_VERSION_STRING);
}

/* ---- contexts ------------------------------------------------------------------------------ */

static void *no_memory(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    (void)bytes;
    (void)alignment;
    return NULL;
}

static void give_back(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(memory);
}

static void expect_no_context(lnt_ctx_options options, lnt_status status, const char *word)
{
    char text[512] = "";
    lnt_ctx *ctx = (lnt_ctx *)&options; /* must become NULL */
    assert_int_equal(lnt_ctx_create(&options, &ctx), status);
    assert_null(ctx);
    lnt_ctx_create_error(&options, status, text, sizeof text);
    if (!strstr(text, word)) fail_msg("\"%s\" does not say '%s'", text, word);
    char shorter[8];
    lnt_ctx_create_error(&options, status, shorter, sizeof shorter);
    assert_true(strlen(shorter) < sizeof shorter);
    lnt_ctx_create_error(&options, status, NULL, 0);
}

/* A team of any other size would end threads, and the next start them again. */
static void a_piece_of_work_is_worth_one_thread_or_all(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(7, NULL);
    int last = 1;
    for (double flops = 1; flops < 1e12; flops *= 1.1) {
        const int threads = lnt_threads_for(ctx, flops);
        assert_true(threads == last || (last == 1 && threads == 7));
        last = threads;
    }
    assert_int_equal(last, 7);
    lnt_ctx_destroy(ctx);
}

static void bad_context_options_are_refused_by_name(void **state)
{
    (void)state;
    const lnt_ctx_options good = { .size = sizeof good };
    lnt_ctx_options o = good;
    o.size = 3;
    expect_no_context(o, LNT_ERR_ARGUMENT, "size");
    o = good;
    o.threads = -1;
    expect_no_context(o, LNT_ERR_ARGUMENT, "threads is -1");
    o.threads = 1000000;
    expect_no_context(o, LNT_ERR_ARGUMENT, "threads is 1000000");
    o = good;
    o.isa = "z80";
    expect_no_context(o, LNT_ERR_ARGUMENT, "z80");
    o = good;
    o.allocator.release = give_back;
    expect_no_context(o, LNT_ERR_ARGUMENT, "allocator");
    o.allocator.allocate = no_memory;
    expect_no_context(o, LNT_ERR_MEMORY, "memory");
    char text[64];
    assert_int_equal(lnt_ctx_create(&good, NULL), LNT_ERR_ARGUMENT);
    lnt_ctx_create_error(&good, LNT_ERR_ARGUMENT, text, sizeof text);
    assert_string_equal(text, "out is NULL");
    assert_int_equal(lnt_ctx_create(NULL, NULL), LNT_ERR_ARGUMENT);
    lnt_ctx_create_error(NULL, LNT_ERR_ARGUMENT, text, sizeof text);
    assert_string_equal(text, "out is NULL");
}

static void a_context_is_what_its_options_say(void **state)
{
    (void)state;
    lnt_ctx *ctx;
    assert_int_equal(lnt_ctx_create(NULL, &ctx), LNT_OK);
    assert_true(lnt_ctx_threads(ctx) >= 1);
    assert_string_equal(lnt_ctx_error(ctx), "");
    lnt_ctx_destroy(ctx);
    lnt_ctx_destroy(NULL);
    ctx = context_new(3, "scalar");
    assert_int_equal(lnt_ctx_threads(ctx), 3);
    assert_string_equal(lnt_ctx_isa(ctx), "scalar");
    lnt_ctx_destroy(ctx);
    assert_non_null(lnt_ctx_error(NULL));
}

static void linnet_isa_forces_an_isa_and_the_option_goes_first(void **state)
{
    (void)state;
    const char *const old = getenv("LINNET_ISA");
    char *const kept = old ? strdup(old) : NULL;
    setenv("LINNET_ISA", "scalar", 1);
    for (int isa = 0; lnt_isa_name(isa); isa++) {
        if (!lnt_isa_available(isa)) continue;
        lnt_ctx *ctx = context_new(1, NULL);
        assert_string_equal(lnt_ctx_isa(ctx), "scalar");
        lnt_ctx_destroy(ctx);
        ctx = context_new(1, lnt_isa_name(isa));
        assert_string_equal(lnt_ctx_isa(ctx), lnt_isa_name(isa));
        lnt_ctx_destroy(ctx);
    }
    setenv("LINNET_ISA", "abacus", 1);
    expect_no_context((lnt_ctx_options){ .size = sizeof(lnt_ctx_options) }, LNT_ERR_ARGUMENT,
                      "abacus");
    if (kept) setenv("LINNET_ISA", kept, 1);
    else unsetenv("LINNET_ISA");
    free(kept);
    assert_null(lnt_isa_name(-1));
    assert_int_equal(lnt_isa_available(-1), 0);
    assert_int_equal(lnt_isa_available(99), 0);
}

static void all_memory_comes_from_the_hooks(void **state)
{
    (void)state;
    tracker mem;
    lnt_ctx *ctx = context_tracked(&mem, 1, NULL);
    const int64_t own = mem.live;
    assert_true(own > 0);
    void *memory = lnt_allocate(ctx, 100, "a test");
    void *empty = lnt_allocate(ctx, 0, "nothing");
    assert_non_null(memory);
    assert_non_null(empty);
    assert_int_equal((uintptr_t)memory % LNT_ALIGN, 0);
    assert_int_equal(mem.live, own + 2);
    lnt_release(ctx, memory, 100);
    lnt_release(ctx, empty, 0);
    lnt_release(ctx, NULL, 5);
    mem.fail_at = mem.calls;
    assert_null(lnt_allocate(ctx, 77, "the thing"));
    assert_non_null(strstr(lnt_ctx_error(ctx), "the thing"));
    assert_non_null(strstr(lnt_ctx_error(ctx), "77"));
    context_close_tracked(ctx, &mem);
}

static void the_last_failure_is_the_sentence_and_never_too_long(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    char word[2000];
    memset(word, 'x', sizeof word);
    word[sizeof word - 1] = 0;
    assert_int_equal(lnt_fail(ctx, LNT_ERR_SHAPE, "first %d", 1), LNT_ERR_SHAPE);
    assert_string_equal(lnt_ctx_error(ctx), "first 1");
    assert_int_equal(lnt_fail(ctx, LNT_ERR_FILE, "%s", word), LNT_ERR_FILE);
    assert_int_equal(strlen(lnt_ctx_error(ctx)), LNT_ERROR_CAPACITY - 1);
    assert_int_equal(lnt_fail(ctx, LNT_ERR_FILE, "%s", "a\n\033[2J\177 \303\251"), LNT_ERR_FILE);
    assert_string_equal(lnt_ctx_error(ctx), "a??[2J? \303\251"); /* one line, and no commands */
    assert_int_equal(lnt_fail(NULL, LNT_ERR_FILE, "nobody hears"), LNT_ERR_FILE);
    lnt_ctx_destroy(ctx);
}

static void products_of_sizes_do_not_wrap(void **state)
{
    (void)state;
    size_t n;
    assert_true(lnt_size_product(3, 5, 7, &n));
    assert_int_equal(n, 105);
    assert_true(lnt_size_product(0, SIZE_MAX, SIZE_MAX, &n));
    assert_int_equal(n, 0);
    assert_false(lnt_size_product(SIZE_MAX, 2, 1, &n));
    assert_false(lnt_size_product(SIZE_MAX / 2, 2, 2, &n));
}

/* ---- tensors ------------------------------------------------------------------------------- */

static void both_layouts_are_views_of_the_same_shape(void **state)
{
    (void)state;
    float data[2 * 3 * 4 * 5];
    for (int i = 0; i < 120; i++) data[i] = (float)i;
    const lnt_tensor x = lnt_tensor_bhnd(data, LNT_F32, 2, 3, 4, 5);
    const lnt_tensor y = lnt_tensor_bnhd(data, LNT_F32, 2, 3, 4, 5);
    for (int64_t b = 0; b < 2; b++)
        for (int64_t h = 0; h < 3; h++)
            for (int64_t n = 0; n < 4; n++)
                for (int64_t d = 0; d < 5; d++) {
                    assert_true(lnt_tensor_get(&x, b, h, n, d) ==
                                (double)(((b * 3 + h) * 4 + n) * 5 + d));
                    assert_true(lnt_tensor_get(&y, b, h, n, d) ==
                                (double)(((b * 4 + n) * 3 + h) * 5 + d));
                }
}

static void elements_round_to_the_dtype(void **state)
{
    (void)state;
    static const double third[] = { 0x1.555556p-2, 0x1.554p-2, 0x1.56p-2, 1.0 / 3 };
    for (int i = 0; i < 4; i++) {
        double room = 0;
        const lnt_tensor t = lnt_tensor_bhnd(&room, (lnt_dtype)i, 1, 1, 1, 1);
        lnt_tensor_set(&t, 0, 0, 0, 0, 1.0 / 3);
        assert_true(lnt_tensor_get(&t, 0, 0, 0, 0) == third[i]);
    }
}

static void bad_tensors_are_refused_by_name(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    float x[8];
    const lnt_tensor good = lnt_tensor_bhnd(x, LNT_F32, 1, 2, 2, 2);
    lnt_tensor t = good;
    assert_ok(ctx, lnt_tensor_check(ctx, "x", &t));
    assert_refused(ctx, lnt_tensor_check(ctx, "x", NULL), LNT_ERR_ARGUMENT, "x is NULL");
    t.dtype = (lnt_dtype)17;
    assert_refused(ctx, lnt_tensor_check(ctx, "x", &t), LNT_ERR_DTYPE, "17");
    t = good;
    t.shape[2] = -3;
    assert_refused(ctx, lnt_tensor_check(ctx, "x", &t), LNT_ERR_SHAPE, "-3");
    t = good;
    t.data = NULL;
    assert_refused(ctx, lnt_tensor_check(ctx, "x", &t), LNT_ERR_ARGUMENT, "data");
    t.shape[1] = 0;
    assert_ok(ctx, lnt_tensor_check(ctx, "x", &t));
    const int64_t far[] = { INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_MAX / 2 };
    for (int i = 0; i < COUNT_OF(far); i++) {
        t = good;
        t.stride[2] = far[i];
        assert_refused(ctx, lnt_tensor_check(ctx, "x", &t), LNT_ERR_SHAPE, "64-bit");
    }
    t = good;
    t.shape[0] = t.shape[1] = INT64_C(1) << 40;
    assert_refused(ctx, lnt_tensor_check(ctx, "x", &t), LNT_ERR_SHAPE, "64-bit");
    for (int64_t heads = 0; heads < 2; heads++) { /* the steps themselves are too large for 64 bits */
        t = lnt_tensor_bhnd(x, LNT_F32, 1, heads, INT64_C(1) << 62, 4);
        assert_refused(ctx, lnt_tensor_check(ctx, "x", &t), LNT_ERR_SHAPE, "64-bit");
        t = lnt_tensor_bnhd(x, LNT_F32, heads, INT64_C(1) << 40, INT64_C(1) << 40, 4);
        assert_refused(ctx, lnt_tensor_check(ctx, "x", &t), LNT_ERR_SHAPE, "64-bit");
    }
    lnt_ctx_destroy(ctx);
}

static void a_tensor_of_another_shape_is_refused_by_axis(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    float x[120];
    const lnt_tensor t = lnt_tensor_bhnd(x, LNT_F32, 2, 3, 4, 5);
    assert_ok(ctx, lnt_tensor_expect(ctx, "x", &t, 2, 3, 4, 5));
    assert_ok(ctx, lnt_tensor_expect(ctx, "x", &t, -1, 3, -1, 5));
    assert_refused(ctx, lnt_tensor_expect(ctx, "x", &t, 1, 3, 4, 5), LNT_ERR_SHAPE, "batch is 2");
    assert_refused(ctx, lnt_tensor_expect(ctx, "x", &t, 2, 4, 4, 5), LNT_ERR_SHAPE, "heads is 3");
    assert_refused(ctx, lnt_tensor_expect(ctx, "x", &t, 2, 3, 0, 5), LNT_ERR_SHAPE, "length is 4");
    assert_refused(ctx, lnt_tensor_expect(ctx, "x", &t, 2, 3, 4, 6), LNT_ERR_SHAPE, "dim is 5");
    lnt_ctx_destroy(ctx);
}

/* ---- arena --------------------------------------------------------------------------------- */

static void cut(lnt_arena *arena, char *piece[3])
{
    piece[0] = lnt_arena_take(arena, 3, 7);
    piece[1] = lnt_arena_take(arena, 0, 8);
    piece[2] = lnt_arena_take(arena, 100, 1);
}

static void an_arena_uses_exactly_what_it_counted(void **state)
{
    (void)state;
    tracker mem;
    lnt_ctx *ctx = context_tracked(&mem, 1, NULL);
    lnt_arena counting = { 0 }, arena;
    char *piece[3];
    cut(&counting, piece);
    for (int i = 0; i < 3; i++) assert_null(piece[i]);
    const size_t before = mem.live_bytes;
    assert_ok(ctx, lnt_arena_open(ctx, &counting, "a test", &arena));
    assert_int_equal(mem.live_bytes - before, counting.used);
    cut(&arena, piece);
    assert_int_equal(arena.used, counting.used);
    assert_true(piece[2] + 100 <= arena.base + arena.capacity && piece[0] + 21 <= piece[2]);
    for (int i = 0; i < 3; i++) assert_int_equal((uintptr_t)piece[i] % LNT_ALIGN, 0);
    lnt_arena_close(ctx, &arena);
    context_close_tracked(ctx, &mem);
}

static void an_arena_that_cannot_exist_is_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    const size_t counts[][2] = { { SIZE_MAX, 2 }, { SIZE_MAX, 1 }, { SIZE_MAX - 32, 1 } };
    for (int i = 0; i < COUNT_OF(counts); i++) {
        lnt_arena counting = { 0 }, arena;
        lnt_arena_take(&counting, 1, 1);
        lnt_arena_take(&counting, counts[i][0], counts[i][1]);
        assert_refused(ctx, lnt_arena_open(ctx, &counting, "a test", &arena), LNT_ERR_MEMORY,
                       "a test");
        assert_null(arena.base);
    }
    lnt_ctx_destroy(ctx);
}

/* A plan or a state that could not be made is NULL. */
static void a_call_without_its_object_is_refused(void **state)
{
    (void)state;
    lnt_tensor t = { 0 };
    const lnt_partial partial = { 0 };
    const lnt_attn_io io = { .size = sizeof io };
    const lnt_attn_grads grads = { .size = sizeof grads };
    lnt_plan_info plan = { .size = sizeof plan };
    lnt_state *made_state;
    int64_t index = 0;
    const char *text;
    const lnt_status answers[] = {
        lnt_plan_describe(NULL, &plan), lnt_plan_forward(NULL, &io), lnt_plan_backward(NULL, &io, &grads),
        lnt_plan_partial(NULL, &io, &partial),
        lnt_plan_landmarks(NULL, &io, 0, 0, &index, &index, &index),
        lnt_state_append(NULL, &t, &t), lnt_state_query(NULL, &t, &t), lnt_state_step(NULL, &t, &t, &t, &t),
        lnt_state_remove(NULL, &t, &t), lnt_state_merge(NULL, NULL), lnt_state_fork(NULL, &made_state),
        lnt_state_copy(NULL, 0, NULL, 0), lnt_state_select(NULL, &index, 1), lnt_state_reset(NULL, -1),
        lnt_state_reserve(NULL, 1), lnt_state_save(NULL, "x"), lnt_state_tensor(NULL, 0, &text, &t),
        lnt_plan_predict(NULL, NULL, NULL), lnt_plan_report(NULL, NULL), lnt_state_report(NULL, NULL),
        lnt_calibration_save(NULL, "x"), lnt_calibration_load(NULL, "x"),
    };
    for (int i = 0; i < COUNT_OF(answers); i++)
        if (answers[i] != LNT_ERR_ARGUMENT) fail_msg("call %d gives status %d", i, (int)answers[i]);
    assert_true(lnt_state_tokens(NULL, 0) == 0 && lnt_state_bytes(NULL) == 0 &&
                !lnt_state_algorithm(NULL));
    lnt_plan_destroy(NULL);
    lnt_state_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_and_dtype_has_a_name),
        cmocka_unit_test(a_piece_of_work_is_worth_one_thread_or_all),
        cmocka_unit_test(bad_context_options_are_refused_by_name),
        cmocka_unit_test(a_context_is_what_its_options_say),
        cmocka_unit_test(linnet_isa_forces_an_isa_and_the_option_goes_first),
        cmocka_unit_test(all_memory_comes_from_the_hooks),
        cmocka_unit_test(the_last_failure_is_the_sentence_and_never_too_long),
        cmocka_unit_test(products_of_sizes_do_not_wrap),
        cmocka_unit_test(both_layouts_are_views_of_the_same_shape),
        cmocka_unit_test(elements_round_to_the_dtype),
        cmocka_unit_test(bad_tensors_are_refused_by_name),
        cmocka_unit_test(a_tensor_of_another_shape_is_refused_by_axis),
        cmocka_unit_test(an_arena_uses_exactly_what_it_counted),
        cmocka_unit_test(an_arena_that_cannot_exist_is_refused),
        cmocka_unit_test(a_call_without_its_object_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
