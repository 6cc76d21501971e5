/* test_session_cache.c - sessions whose softmax cache rounds: the same however a text is fed, and saved, near
 * what a cache of f32 gives and in as many bytes as is said; refused where there is none. */
#include <stdio.h>
#include <string.h>

#include "../support/models.h"
#include "model/session.h"

enum { CACHES = LNT_CACHE_Q8 + 1, TEXT = 80 };

/* Each with a layer of softmax: plain, with grouped heads, with a window, and beside layers of others. */
static const char *const configs[] = {
    "{\"dim\":24,\"layers\":2,\"heads\":3,\"length\":150}",
    "{\"dim\":96,\"layers\":2,\"heads\":6,\"kv_heads\":2,\"position\":\"rotary\"}",
    "{\"dim\":80,\"layers\":2,\"heads\":2,\"position\":\"rotary\",\"attention\":{\"window\":9}}",
    "{\"dim\":24,\"layers\":3,\"heads\":3,\"position\":\"rotary\",\"kinds\":["
    "{\"layers\":[0],\"attention\":{\"mechanism\":\"linear\"}},"
    "{\"layers\":[2],\"attention\":{\"mechanism\":\"hybrid\",\"window\":8,\"sink\":2}}]}",
};

static lnt_session *session_of(lnt_ctx *ctx, const lnt_model *model, lnt_cache cache, int64_t batch)
{
    const lnt_session_options options = { .size = sizeof options, .cache = cache };
    lnt_session *session;
    assert_ok(ctx, lnt_session_create_with(model, batch, &options, &session));
    assert_int_equal(lnt_session_cache(session), cache);
    return session;
}

static void walk(void (*check)(lnt_ctx *ctx, lnt_model *model, lnt_cache cache))
{
    lnt_ctx *ctx = context_new(2, NULL);
    for (int i = 0; i < COUNT_OF(configs); i++) {
        lnt_model *model = model_make(ctx, configs[i], LNT_SOFTMAX, 0);
        for (int c = 0; c < CACHES; c++) check(ctx, model, (lnt_cache)c);
        lnt_model_destroy(model);
    }
    lnt_ctx_destroy(ctx);
}

/* The logits of all tokens [TEXT,VOCABULARY], fed `first` at once and the rest by `step`. */
static void logits_of(lnt_ctx *ctx, const lnt_model *model, lnt_cache cache, int first, int step,
                      float *logits)
{
    int32_t tokens[TEXT];
    lnt_session *session = session_of(ctx, model, cache, 1);
    model_fill_tokens(tokens, TEXT, 31);
    for (int at = 0, n = first; at < TEXT; at += n, n = step < TEXT - at ? step : TEXT - at)
        assert_ok(ctx, lnt_session_forward_all(session, tokens + at, n, n, logits + at * VOCABULARY));
    lnt_session_destroy(session);
}

/* By which the logits may differ that a cache gives: from those of f32, and by how the text is fed, since a
 * number in the middle between two of the cache's may be rounded to either. */
static const struct {
    double least, most, split;
} errors[CACHES] = { { 0, 1e-12, 1e-5 }, { 1e-6, 1e-3, 1e-4 }, { 1e-5, 1e-2, 1e-3 }, { 1e-5, 2e-2, 2e-3 } };

static void check_splits(lnt_ctx *ctx, lnt_model *model, lnt_cache cache)
{
    static const int splits[][2] = { { 1, 1 }, { 3, 5 }, { 20, 1 }, { 60, 20 }, { 9, 8 }, { TEXT - 1, 1 } };
    static float whole[TEXT * VOCABULARY], exact[TEXT * VOCABULARY], parts[TEXT * VOCABULARY];
    logits_of(ctx, model, cache, TEXT, 1, whole);
    logits_of(ctx, model, LNT_CACHE_SAME, TEXT, 1, exact);
    const double off = model_difference(whole, exact, TEXT * VOCABULARY);
    if (!(off >= errors[cache].least && off <= errors[cache].most))
        fail_msg("%s of %s: off by %g", lnt_cache_name(cache), model->text, off);
    for (int i = 0; i < COUNT_OF(splits); i++) {
        logits_of(ctx, model, cache, splits[i][0], splits[i][1], parts);
        const double by = model_difference(parts, whole, TEXT * VOCABULARY);
        if (!(by < errors[cache].split))
            fail_msg("%s of %s: %d tokens, then by %d: off by %g", lnt_cache_name(cache), model->text,
                     splits[i][0], splits[i][1], by);
    }
}

static void any_split_of_a_text_gives_the_same_near_what_f32_gives(void **state)
{
    (void)state;
    walk(check_splits);
}

static void check_file(lnt_ctx *ctx, lnt_model *model, lnt_cache cache)
{
    enum { SEQUENCES = 2, N = 70 };
    int32_t tokens[SEQUENCES * N], next[SEQUENCES];
    lnt_session *session = session_of(ctx, model, cache, SEQUENCES), *again;
    model_fill_tokens(tokens, SEQUENCES * N, 5);
    assert_ok(ctx, lnt_session_forward(session, tokens, N));
    assert_ok(ctx, lnt_session_save(session, "c.safetensors"));
    assert_ok(ctx, lnt_session_load(model, "c.safetensors", &again));
    assert_int_equal(lnt_session_cache(again), cache);
    for (int i = 0; i < 30; i++) {
        model_fill_tokens(next, SEQUENCES, (uint64_t)i);
        assert_ok(ctx, lnt_session_forward(session, next, 1));
        assert_ok(ctx, lnt_session_forward(again, next, 1));
        assert_memory_equal(lnt_session_logits(again), lnt_session_logits(session),
                            SEQUENCES * VOCABULARY * sizeof(float));
    }
    assert_true(lnt_session_cache_bytes(again) == lnt_session_cache_bytes(session));
    remove("c.safetensors");
    lnt_session_destroy(session);
    lnt_session_destroy(again);
}

static void a_saved_session_keeps_its_cache_and_goes_on_to_the_bit(void **state)
{
    (void)state;
    walk(check_file);
}

static void a_cache_takes_the_bytes_that_are_said(void **state)
{
    (void)state;
    enum { N = 64 };
    static const size_t bytes[CACHES] = { 4 * 16, 2 * 16, 2 * 16, 34 }; /* of a row of 16 */
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = model_make(ctx, configs[1], LNT_SOFTMAX, 0); /* 2 layers, 2 kv heads of 16 */
    int32_t tokens[N];
    size_t of_f32 = 0; /* there is room for more tokens than there are */
    model_fill_tokens(tokens, N, 6);
    for (int c = 0; c < CACHES; c++) {
        lnt_session *session = session_of(ctx, model, (lnt_cache)c, 1);
        assert_ok(ctx, lnt_session_forward(session, tokens, N));
        assert_true(lnt_session_cache_bytes(session) == (double)(2 * 2 * 2 * N * bytes[c]));
        if (c == LNT_CACHE_SAME) of_f32 = lnt_session_bytes(session);
        assert_int_equal(lnt_session_bytes(session) * bytes[LNT_CACHE_SAME], of_f32 * bytes[c]);
        lnt_session_destroy(session);
    }
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
}

static void options_that_mean_nothing_are_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = model_make(ctx, configs[0], LNT_SOFTMAX, 0);
    lnt_model *linear = model_make(ctx, configs[0], LNT_LINEAR, 0);
    lnt_session_options options = { .size = sizeof options, .cache = LNT_CACHE_F16 };
    lnt_session *session;
    assert_refused(ctx, lnt_session_create_with(linear, 1, &options, &session), LNT_ERR_UNSUPPORTED,
                   "cache is f16, must be same: no layer");
    assert_null(session);
    options.cache = (lnt_cache)CACHES;
    assert_refused(ctx, lnt_session_create_with(model, 1, &options, &session), LNT_ERR_ARGUMENT,
                   "cache is 4, must be same, f16, bf16 or q8");
    options.cache = LNT_CACHE_SAME;
    assert_ok(ctx, lnt_session_create_with(linear, 1, &options, &session));
    lnt_session_destroy(session);
    options.reserved = 1;
    assert_refused(ctx, lnt_session_create_with(model, 1, &options, &session), LNT_ERR_ARGUMENT,
                   "reserved is 1");
    options.size += sizeof(size_t);
    assert_refused(ctx, lnt_session_create_with(model, 1, &options, &session), LNT_ERR_ARGUMENT,
                   "size of lnt_session_options");
    assert_int_equal(lnt_session_create_with(NULL, 1, NULL, &session), LNT_ERR_ARGUMENT);
    assert_int_equal(lnt_session_cache(NULL), LNT_CACHE_SAME);
    lnt_model_destroy(model);
    lnt_model_destroy(linear);
    lnt_ctx_destroy(ctx);
}

/* "c.safetensors" again, with `cache` in its metadata in place of what it says; NULL: nothing. */
static void rewrite(lnt_ctx *ctx, const char *cache)
{
    lnt_safetensors st;
    lnt_st_meta meta[8];
    size_t count = 0;
    assert_ok(ctx, lnt_safetensors_read(ctx, "c.safetensors", &st));
    assert_true(st.meta_count < COUNT_OF(meta));
    for (size_t i = 0; i < st.meta_count; i++)
        if (strcmp(st.meta[i].key, "cache") != 0) meta[count++] = st.meta[i];
    if (cache) meta[count++] = (lnt_st_meta){ "cache", cache };
    assert_ok(ctx, lnt_safetensors_write(ctx, "d.safetensors", st.entries, st.entry_count, meta, count));
    lnt_safetensors_free(ctx, &st);
}

static void a_file_that_says_otherwise_than_it_holds_is_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = model_make(ctx, configs[1], LNT_SOFTMAX, 0);
    lnt_session *session, *again;
    const int32_t tokens[] = { 1, 2, 3 };
    for (int c = 0; c < CACHES; c++) {
        session = session_of(ctx, model, (lnt_cache)c, 1);
        assert_ok(ctx, lnt_session_forward(session, tokens, 3));
        assert_ok(ctx, lnt_session_save(session, "c.safetensors"));
        lnt_session_destroy(session);
        for (int said = 0; said < CACHES; said++) {
            rewrite(ctx, said == LNT_CACHE_SAME ? NULL : lnt_cache_name((lnt_cache)said)); /* as older ones */
            if (said == c) {
                assert_ok(ctx, lnt_session_load(model, "d.safetensors", &again));
                lnt_session_destroy(again);
            } else {
                assert_refused(ctx, lnt_session_load(model, "d.safetensors", &again), LNT_ERR_FORMAT,
                               "tensor 'layers.0.k' is missing or has another shape or type");
                assert_null(again);
            }
        }
        rewrite(ctx, "q9");
        assert_refused(ctx, lnt_session_load(model, "d.safetensors", &again), LNT_ERR_FORMAT,
                       "cache is 'q9', must be same, f16, bf16 or q8");
    }
    remove("c.safetensors");
    remove("d.safetensors");
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_split_of_a_text_gives_the_same_near_what_f32_gives),
        cmocka_unit_test(a_saved_session_keeps_its_cache_and_goes_on_to_the_bit),
        cmocka_unit_test(a_cache_takes_the_bytes_that_are_said),
        cmocka_unit_test(options_that_mean_nothing_are_refused),
        cmocka_unit_test(a_file_that_says_otherwise_than_it_holds_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
