/* test_state_file.c - what a file says of a state is held against what is asked for, and files that claim
 * what cannot be are refused. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../support/stream.h"
#include "io/safetensors.h"

/* What it must name, of the mechanism; -1: of any. */
static const struct {
    int mechanism;
    const char *key;
} keys[] = { { -1, "format" },           { -1, "mechanism" },      { -1, "kv_heads" },
             { -1, "dim" },              { -1, "dim_value" },      { LNT_LINEAR, "feature_map" },
             { LNT_TAYLOR, "terms" },    { LNT_TAYLOR, "normalize" }, { LNT_HYBRID, "far" },
             { LNT_HYBRID, "window" },   { LNT_HYBRID, "sink" } };

static void check_words(lnt_ctx *ctx, const attn_case *c, lnt_safetensors *st)
{
    static const char path[] = "told.safetensors";
    lnt_state *none;
    for (int i = 0; i < COUNT_OF(keys); i++)
        if (keys[i].mechanism < 0 || keys[i].mechanism == (int)c->desc.mechanism)
            assert_non_null(lnt_safetensors_meta(st, keys[i].key));
    assert_string_equal(lnt_safetensors_meta(st, "mechanism"), lnt_mechanism_name(c->desc.mechanism));
    for (size_t i = 0; i < st->meta_count; i++) {
        const char *const value = st->meta[i].value;
        st->meta[i].value = "7.5";
        assert_ok(ctx, lnt_safetensors_write(ctx, path, st->entries, st->entry_count, st->meta,
                                             st->meta_count));
        assert_refused(ctx, lnt_state_load(ctx, &c->desc, path, &none), LNT_ERR_FORMAT, st->meta[i].key);
        st->meta[i].value = value;
    }
    unlink(path);
}

static void nothing_that_a_file_says_of_its_state_can_be_otherwise(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int f = 0; f < STREAM_FORMS; f++) {
        static const char path[] = "state.safetensors";
        attn_case c;
        lnt_safetensors st;
        stream_form(&c, f, 4, LNT_F32);
        lnt_state *s = stream_state(ctx, &c);
        assert_ok(ctx, lnt_state_save(s, path));
        assert_ok(ctx, lnt_safetensors_read(ctx, path, &st));
        check_words(ctx, &c, &st);
        lnt_safetensors_free(ctx, &st);
        lnt_state_destroy(s);
        unlink(path);
    }
    lnt_ctx_destroy(ctx);
}

/* A cache of one sequence and head, widths 8, that counts so many tokens. */
static void write_cache(lnt_ctx *ctx, const char *path, const int64_t *tokens, lnt_st_entry k,
                        lnt_st_entry v)
{
    static const lnt_st_meta meta[] = { { "format", "linnet state 1" }, { "mechanism", "softmax" },
                                        { "kv_heads", "1" },            { "dim", "8" },
                                        { "dim_value", "8" } };
    const lnt_st_entry entries[] = { k, v, { .name = "tokens", .dtype = LNT_ST_I64, .rank = 1,
                                             .shape = { 1 }, .data = tokens, .bytes = 8 } };
    assert_ok(ctx, lnt_safetensors_write(ctx, path, entries, 3, meta, COUNT_OF(meta)));
}

static void a_cache_that_claims_tokens_it_does_not_hold_gets_no_room(void **state)
{
    (void)state;
    enum { CLAIMED = 1 << 16 };
    static const int64_t tokens = CLAIMED;
    static float rows[CLAIMED + 1][8];
    const lnt_st_entry good = { .dtype = LNT_ST_F32, .rank = 4, .shape = { 1, 1, CLAIMED, 8 },
                                .data = rows, .bytes = CLAIMED * sizeof rows[0] };
    static const char path[] = "state.safetensors";
    tracker mem;
    lnt_ctx *ctx = context_tracked(&mem, 1, NULL);
    attn_case c = case_make(LNT_SOFTMAX, 1, 1, 0, 0, 8, 8);
    for (int change = 0; change < 7; change++) {
        lnt_st_entry k = good, v = good, *wrong = change % 2 ? &v : &k;
        lnt_state *s;
        k.name = "k", v.name = "v";
        if (change < 2) wrong->shape[3] = 0, wrong->bytes = 0;
        else if (change < 4) wrong->dtype = LNT_ST_U8, wrong->bytes /= 4;
        else if (change < 5) wrong->shape[2] = 1, wrong->bytes = sizeof rows[0];
        else wrong->shape[2] = CLAIMED + 1, wrong->bytes = sizeof rows;
        write_cache(ctx, path, &tokens, k, v);
        const size_t file = k.bytes + v.bytes;
        mem.peak_bytes = mem.live_bytes;
        assert_refused(ctx, lnt_state_load(ctx, &c.desc, path, &s), LNT_ERR_FORMAT,
                       change < 2   ? "another shape"
                       : change < 4 ? "another dtype"
                                    : "does not hold the 65536 tokens it counts");
        assert_null(s);
        assert_true(mem.peak_bytes < file + (1 << 20)); /* the file itself, and little more */
    }
    unlink(path);
    context_close_tracked(ctx, &mem);
}

static void a_file_that_counts_more_tokens_than_can_be_is_named(void **state)
{
    (void)state;
    static const int64_t wrong[] = { -1, (INT64_C(1) << 40) + 1, INT64_MAX - 1 };
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c;
    static const char path[] = "state.safetensors";
    stream_form(&c, STREAM_LINEAR, 4, LNT_F32);
    lnt_state *s = stream_state(ctx, &c), *loaded;
    assert_ok(ctx, lnt_state_save(s, path));
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        lnt_safetensors st;
        char says[64];
        const int64_t tokens[STREAM_BATCH] = { 0, wrong[i] };
        assert_ok(ctx, lnt_safetensors_read(ctx, path, &st));
        for (size_t e = 0; e < st.entry_count; e++)
            if (!strcmp(st.entries[e].name, "tokens")) st.entries[e].data = tokens;
        assert_ok(ctx, lnt_safetensors_write(ctx, path, st.entries, st.entry_count, st.meta,
                                             st.meta_count));
        lnt_safetensors_free(ctx, &st);
        snprintf(says, sizeof says, "sequence 1 has %lld tokens, must have 0 to 2^40",
                 (long long)wrong[i]);
        assert_refused(ctx, lnt_state_load(ctx, &c.desc, path, &loaded), LNT_ERR_FORMAT, says);
        assert_non_null(strstr(lnt_ctx_error(ctx), path));
    }
    lnt_state_destroy(s);
    unlink(path);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_that_a_file_says_of_its_state_can_be_otherwise),
        cmocka_unit_test(a_cache_that_claims_tokens_it_does_not_hold_gets_no_room),
        cmocka_unit_test(a_file_that_counts_more_tokens_than_can_be_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
