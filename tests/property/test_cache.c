/* test_cache.c - a cache that rounds keys and values answers as softmax over the rounded ones, however the
 * tokens came; and it stays what it is: in files, in forks, with any number of threads. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../support/stream.h"
#include "core/dtype.h"
#include "io/safetensors.h"

enum { CACHES = LNT_CACHE_Q8 + 1 };

/* A row [width] as the cache has it, straight from what linnet.h says of it. */
static void round_row(lnt_cache cache, float *row, int64_t width)
{
    for (int64_t b = 0; b < width; b += 32) {
        const int64_t end = b + 32 < width ? b + 32 : width;
        float most = 0;
        for (int64_t i = b; i < end; i++) most = fabsf(row[i]) > most ? fabsf(row[i]) : most;
        float step = lnt_bf16_to_float(lnt_float_to_bf16(most / 127));
        if (step < most / 127) step = lnt_bits_float(lnt_float_bits(step) + 0x10000);
        for (int64_t i = b; i < end; i++)
            switch (cache) {
            case LNT_CACHE_SAME: break;
            case LNT_CACHE_F16: row[i] = lnt_f16_to_float(lnt_float_to_f16(row[i])); break;
            case LNT_CACHE_BF16: row[i] = lnt_bf16_to_float(lnt_float_to_bf16(row[i])); break;
            case LNT_CACHE_Q8: row[i] = step > 0 ? roundf(row[i] / step) * step : 0; break;
            }
    }
}

static block rounded(lnt_cache cache, const lnt_tensor *from)
{
    const int64_t *s = from->shape;
    block b = block_new(LNT_F32, LAYOUT_BHND, s[0], s[1], s[2], s[3]);
    tensor_copy(&b.t, from);
    for (int64_t r = 0; r < s[0] * s[1] * s[2]; r++) round_row(cache, (float *)b.t.data + r * s[3], s[3]);
    return b;
}

/* The other options of softmax, each now and then. */
static void options_of(dice *d, attn_case *c)
{
    static const int64_t windows[] = { 0, 0, 1, 2, 13, 64, 129, 300, 600 };
    c->desc.softmax.window = DICE_PICK(d, windows);
    c->desc.softmax.cap = dice_range(d, 0, 2) ? 0 : 1.5;
    if (dice_range(d, 0, 2) || c->desc.heads > MAX_HEADS) return;
    for (int64_t h = 0; h < c->desc.heads; h++) c->slopes[h] = 0.2 / (double)(1 + h);
    c->desc.softmax.slopes = c->slopes;
}

/* A problem of random shape, with tokens for several pieces of a head now and then. */
static void case_of(dice *d, lnt_cache cache, attn_case *c)
{
    static const int64_t groups[] = { 1, 1, 2, 3, 4, 5, 8 };
    static const int64_t widths[] = { 1, 7, 11, 16, 32, 33, 40, 64, 65, 200 };
    static const int64_t lengths[] = { 1, 5, 17, 40, 129, 255, 257, 300, 513, 700 };
    const int64_t kv_heads = dice_range(d, 1, 3), n = DICE_PICK(d, lengths);
    *c = case_make(LNT_SOFTMAX, kv_heads * DICE_PICK(d, groups), kv_heads, n, n, DICE_PICK(d, widths),
                   DICE_PICK(d, widths));
    c->desc.batch = dice_range(d, 1, 2);
    c->desc.causal = 1;
    c->desc.softmax.cache = cache;
    if (dice_range(d, 0, 1)) options_of(d, c);
    c->seed = dice_next(d);
    c->lay_q = c->lay_k = (layout)dice_range(d, 0, LAYOUT_COUNT - 1);
    c->lay_v = c->lay_out = (layout)dice_range(d, 0, LAYOUT_OUTPUTS - 1);
}

/* Tokens first .. next-1 of the trial. */
static void step(lnt_ctx *ctx, lnt_state *s, const trial *t, int64_t first, int64_t next)
{
    const int64_t n = next - first;
    const lnt_tensor q = tensor_rows(&t->q.t, first, n), k = tensor_rows(&t->k.t, first, n);
    const lnt_tensor v = tensor_rows(&t->v.t, first, n), y = tensor_rows(&t->out.t, first, n);
    assert_ok(ctx, lnt_state_step(s, &q, &k, &v, &y));
}

/* All tokens in random pieces, of a few tokens or of many. */
static void step_all(lnt_ctx *ctx, lnt_state *s, const trial *t, int64_t length, dice *d)
{
    for (int64_t n = 0, next; n < length; n = next) {
        next = n + dice_range(d, 0, dice_range(d, 0, 2) ? 9 : length);
        step(ctx, s, t, n, next < length ? next : length);
    }
}

static void any_split_answers_as_softmax_over_the_rounded_keys_and_values(void **state)
{
    (void)state;
    dice d = { 91 };
    for (int isa = 0; lnt_isa_name(isa); isa++) {
        if (!lnt_isa_available(isa)) continue;
        lnt_ctx *ctx = context_new(2, lnt_isa_name(isa));
        for (int i = 0; i < budget(6, 20) * CACHES; i++) {
            attn_case c;
            case_of(&d, (lnt_cache)(i % CACHES), &c);
            trial t = trial_new(ctx, &c);
            lnt_state *s = stream_state(ctx, &c);
            step_all(ctx, s, &t, c.desc.length_q, &d);
            block k = rounded(c.desc.softmax.cache, &t.k.t), v = rounded(c.desc.softmax.cache, &t.v.t);
            lnt_attn_io io = t.io;
            io.k = k.t, io.v = v.t;
            expect_below(&c, lnt_cache_name(c.desc.softmax.cache), ctx, "stream against rounded keys",
                         oracle_error(ctx, &c.desc, &io, budget(4, 12)), forward_bound(&c.desc));
            expect_true(&c, NULL, ctx, "guard", block_guard_intact(&t.out));
            lnt_state_destroy(s);
            block_free(&k);
            block_free(&v);
            trial_free(&t);
        }
        lnt_ctx_destroy(ctx);
    }
}

/* The tensors given may be in f16 or bf16 themselves. */
static void tensors_of_fewer_bits_may_be_cached_in_fewer_still(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    static const lnt_dtype dtypes[] = { LNT_F16, LNT_BF16 };
    for (int i = 0; i < 2 * CACHES; i++) {
        attn_case c = case_make(LNT_SOFTMAX, 6, 2, 60, 60, 40, 24);
        c.desc.causal = 1;
        c.desc.dtype = dtypes[i % 2];
        c.desc.softmax.cache = (lnt_cache)(i / 2);
        trial t = trial_new(ctx, &c);
        dice d = { (uint64_t)i };
        lnt_state *s = stream_state(ctx, &c);
        step_all(ctx, s, &t, 60, &d);
        block k = rounded(c.desc.softmax.cache, &t.k.t), v = rounded(c.desc.softmax.cache, &t.v.t);
        block q = rounded(LNT_CACHE_SAME, &t.q.t), y = rounded(LNT_CACHE_SAME, &t.out.t);
        lnt_attn_io io = t.io;
        io.q = q.t, io.k = k.t, io.v = v.t, io.out = y.t;
        const double bound = forward_bound(&c.desc);
        c.desc.dtype = LNT_F32;
        expect_below(&c, lnt_cache_name(c.desc.softmax.cache), ctx, "of fewer bits",
                     oracle_error(ctx, &c.desc, &io, 12), bound);
        lnt_state_destroy(s);
        block_free(&y);
        block_free(&q);
        block_free(&k);
        block_free(&v);
        trial_free(&t);
    }
    lnt_ctx_destroy(ctx);
}

static void a_query_does_not_read_the_tokens_that_come_after_it(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < CACHES; i++) {
        attn_case c = case_make(LNT_SOFTMAX, 6, 2, 140, 140, 40, 24);
        c.desc.causal = 1;
        c.desc.softmax.cache = (lnt_cache)i;
        trial t = trial_new(ctx, &c);
        for (int64_t h = 0; h < 2; h++) lnt_tensor_set(&t.v.t, 0, h, 139, 3, (double)NAN);
        lnt_state *s = stream_state(ctx, &c);
        stream_append(ctx, s, &t, 0, 137);
        step(ctx, s, &t, 137, 140);
        for (int64_t h = 0; h < 6; h++)
            for (int64_t n = 137; n < 140; n++)
                expect_true(&c, lnt_cache_name((lnt_cache)i), ctx, "what is not a number",
                            !isnan(lnt_tensor_get(&t.out.t, 0, h, n, 3)) == (n < 139));
        lnt_state_destroy(s);
        trial_free(&t);
    }
    lnt_ctx_destroy(ctx);
}

/* 4096 keys make 16 pieces, 4097 make 11, which are wider. */
static void a_shorter_sequence_in_more_pieces_is_read_to_its_end(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++) {
        attn_case c = case_make(LNT_SOFTMAX, 2, 1, 1, 4097, 8, 8);
        if (lnt_algorithm_mechanism(a) != LNT_SOFTMAX) continue;
        c.desc.batch = 2;
        c.with_lengths = true;
        for (int b = 0; b < 2; b++) c.lengths_q[b] = 1, c.lengths_k[b] = 4096 + b;
        trial t = trial_new(ctx, &c);
        lnt_plan *plan = case_plan(ctx, &c, a);
        case_forward(ctx, &c, lnt_algorithm_name(a), plan, &t.io);
        expect_below(&c, lnt_algorithm_name(a), ctx, "lengths apart by one",
                     oracle_error(ctx, &c.desc, &t.io, 4), forward_bound(&c.desc));
        lnt_plan_destroy(plan);
        trial_free(&t);
    }
    lnt_ctx_destroy(ctx);
}

static void the_number_of_threads_does_not_change_a_bit(void **state)
{
    (void)state;
    static const int counts[] = { 1, 2, 3, 7 };
    dice d = { 17 };
    for (int i = 0; i < budget(3, 8) * CACHES; i++) {
        attn_case c;
        case_of(&d, (lnt_cache)(i % CACHES), &c);
        block first = { .memory = NULL };
        for (int n = 0; n < COUNT_OF(counts); n++) {
            lnt_ctx *ctx = context_new(counts[n], NULL);
            trial t = trial_new(ctx, &c);
            lnt_state *s = stream_state(ctx, &c);
            const int64_t length = c.desc.length_q, one = length < 9 ? 0 : length - 9;
            step(ctx, s, &t, 0, one);
            step(ctx, s, &t, one, length < 9 ? length : one + 1);
            if (length >= 9) step(ctx, s, &t, one + 1, length);
            if (n == 0) first = t.out, t.out = block_new(LNT_F32, LAYOUT_BHND, 0, 0, 0, 0);
            else expect_true(&c, NULL, ctx, "threads change bits", block_same_bits(&first, &t.out));
            lnt_state_destroy(s);
            trial_free(&t);
            lnt_ctx_destroy(ctx);
        }
        block_free(&first);
    }
}

static void files_and_forks_keep_the_bits_and_go_on_alike(void **state)
{
    (void)state;
    static const char path[] = "cache.safetensors";
    lnt_ctx *ctx = context_new(2, NULL);
    for (int form = 0; form < 2 * CACHES; form++) {
        attn_case c = case_make(LNT_SOFTMAX, 6, 3, 90, 90, 40, 24);
        const int i = form % CACHES;
        c.desc.batch = 2;
        c.desc.softmax.cache = (lnt_cache)i;
        c.desc.softmax.window = form < CACHES ? 0 : 9; /* of which a cache holds up to 72 rows */
        trial t = trial_new(ctx, &c);
        c.desc.length_q = c.desc.length_k = 1; /* it grows */
        lnt_state *s = stream_state(ctx, &c), *rest = stream_state(ctx, &c), *fork, *loaded;
        stream_append(ctx, s, &t, 0, 50);
        assert_ok(ctx, lnt_state_reset(s, 0)); /* sequences of different length */
        stream_append(ctx, s, &t, 50, 7);
        assert_ok(ctx, lnt_state_fork(s, &fork));
        assert_ok(ctx, lnt_state_save(s, path));
        assert_ok(ctx, lnt_state_load(ctx, &c.desc, path, &loaded));
        expect_same_answers(ctx, &c, s, fork, &t);
        expect_same_answers(ctx, &c, s, loaded, &t);
        stream_append(ctx, s, &t, 57, 33);
        stream_append(ctx, loaded, &t, 57, 33);
        stream_append(ctx, rest, &t, 57, 33);
        assert_ok(ctx, lnt_state_merge(fork, rest));
        expect_same_answers(ctx, &c, s, fork, &t);
        expect_same_answers(ctx, &c, s, loaded, &t);
        lnt_state *none;
        attn_case narrow = c;
        narrow.desc.softmax.window = 8;
        assert_refused(ctx, lnt_state_load(ctx, &narrow.desc, path, &none), LNT_ERR_FORMAT, "window");
        for (int other = 0; other < CACHES; other++) {
            attn_case another = c;
            char says[64];
            if (other == i) continue;
            another.desc.softmax.cache = (lnt_cache)other;
            snprintf(says, sizeof says, other ? "expected '%s'" : "expected none",
                     lnt_cache_name((lnt_cache)other));
            assert_refused(ctx, lnt_state_load(ctx, &another.desc, path, &none), LNT_ERR_FORMAT, says);
            lnt_state *unlike = stream_state(ctx, &another);
            snprintf(says, sizeof says, "cache is %s, expected %s", lnt_cache_name((lnt_cache)other),
                     lnt_cache_name((lnt_cache)i));
            assert_refused(ctx, lnt_state_merge(s, unlike), LNT_ERR_DTYPE, says);
            lnt_state_destroy(unlike);
        }
        lnt_state_destroy(s);
        lnt_state_destroy(rest);
        lnt_state_destroy(fork);
        lnt_state_destroy(loaded);
        trial_free(&t);
    }
    unlink(path);
    lnt_ctx_destroy(ctx);
}

/* A file of blocks with any bytes in it: answers may be nonsense, or NaN. */
static void a_file_with_other_bytes_for_blocks_is_read_as_it_is(void **state)
{
    (void)state;
    static const char path[] = "cache.safetensors";
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c = case_make(LNT_SOFTMAX, 2, 1, 20, 20, 40, 24);
    c.desc.softmax.cache = LNT_CACHE_Q8;
    trial t = trial_new(ctx, &c);
    lnt_state *s = stream_state(ctx, &c), *loaded;
    lnt_safetensors st;
    unsigned char bytes[20 * 2 * 34];
    stream_append(ctx, s, &t, 0, 20);
    assert_ok(ctx, lnt_state_save(s, path));
    assert_ok(ctx, lnt_safetensors_read(ctx, path, &st));
    for (int i = 0; i < COUNT_OF(bytes); i++) bytes[i] = i % 3 ? 0xff : 0x80;
    for (size_t e = 0; e < st.entry_count; e++)
        if (!strcmp(st.entries[e].name, "k")) {
            assert_int_equal(st.entries[e].dtype, LNT_ST_U8);
            assert_int_equal(st.entries[e].bytes, sizeof bytes);
            st.entries[e].data = bytes;
        }
    assert_ok(ctx, lnt_safetensors_write(ctx, path, st.entries, st.entry_count, st.meta, st.meta_count));
    lnt_safetensors_free(ctx, &st);
    assert_ok(ctx, lnt_state_load(ctx, &c.desc, path, &loaded));
    assert_ok(ctx, lnt_state_query(loaded, &t.q.t, &t.out.t));
    lnt_state_destroy(s);
    lnt_state_destroy(loaded);
    trial_free(&t);
    unlink(path);
    lnt_ctx_destroy(ctx);
}

static void a_cache_is_as_large_as_its_rows_and_shows_them_in_their_dtype(void **state)
{
    (void)state;
    static const size_t row[CACHES] = { 4 * (40 + 24), 2 * (40 + 24), 2 * (40 + 24), 34 * (2 + 1) };
    static const lnt_dtype dtypes[CACHES] = { LNT_F32, LNT_F16, LNT_BF16, LNT_F32 };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int form = 0; form < 2 * CACHES; form++) {
        const bool window = form >= CACHES;
        const int i = form % CACHES, length = window ? 100 : 10, rows = window ? 4 - 1 + 64 : 10;
        attn_case c = case_make(LNT_SOFTMAX, 6, 3, length, length, 40, 24);
        c.desc.softmax.cache = (lnt_cache)i;
        c.desc.softmax.window = window ? 4 : 0;
        lnt_state *s = stream_state(ctx, &c);
        lnt_tensor view;
        const char *name;
        lnt_plan *plan;
        lnt_plan_info info = { .size = sizeof info };
        assert_ok(ctx, lnt_plan_create(ctx, &c.desc, &plan));
        assert_ok(ctx, lnt_plan_describe(plan, &info));
        assert_int_equal(lnt_state_bytes(s), (size_t)(3 * rows) * row[i]);
        assert_int_equal(info.state_bytes, (size_t)(3 * rows) * row[i]);
        assert_true(info.kv_cache_elements == 3 * rows * (40 + 24));
        assert_true(info.state_elements == info.kv_cache_elements);
        lnt_plan_destroy(plan);
        if (i == LNT_CACHE_Q8) {
            assert_refused(ctx, lnt_state_tensor(s, 0, &name, &view), LNT_ERR_UNSUPPORTED,
                           "blocks, which have no dtype");
        } else {
            assert_ok(ctx, lnt_state_tensor(s, 0, &name, &view));
            assert_int_equal(view.dtype, dtypes[i]);
            assert_int_equal(view.shape[3], 40);
        }
        lnt_state_destroy(s);
    }
    lnt_ctx_destroy(ctx);
}

static void what_is_no_cache_of_softmax_is_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_state *none;
    for (int m = LNT_LINEAR; m <= LNT_HYBRID; m++) {
        attn_case c = case_make((lnt_mechanism)m, 1, 1, 8, 8, 8, 8);
        c.desc.causal = m != LNT_CUR;
        c.desc.softmax.cache = LNT_CACHE_F16;
        assert_refused(ctx, lnt_state_create(ctx, &c.desc, &none), LNT_ERR_UNSUPPORTED,
                       "has no softmax.cache: its state is not one of keys and values");
        assert_non_null(strstr(lnt_ctx_error(ctx), lnt_mechanism_name((lnt_mechanism)m)));
    }
    attn_case c = case_make(LNT_SOFTMAX, 1, 1, 8, 8, 8, 8);
    c.desc.softmax.cache = (lnt_cache)CACHES;
    assert_refused(ctx, lnt_state_create(ctx, &c.desc, &none), LNT_ERR_ARGUMENT,
                   "softmax.cache is 4, must be same, f16, bf16 or q8");
    c.desc.softmax.cache = LNT_CACHE_Q8;
    c.desc.dtype = LNT_F64;
    assert_refused(ctx, lnt_state_create(ctx, &c.desc, &none), LNT_ERR_UNSUPPORTED,
                   "softmax.cache is q8, must be same where dtype is f64");
    c.desc.dtype = LNT_F32;
    c.desc.softmax.reserved[2] = 1;
    assert_refused(ctx, lnt_state_create(ctx, &c.desc, &none), LNT_ERR_ARGUMENT,
                   "softmax.reserved[2] is 1, must be 0");
    assert_string_equal(lnt_cache_name(LNT_CACHE_SAME), "same");
    assert_string_equal(lnt_cache_name(LNT_CACHE_Q8), "q8");
    assert_null(lnt_cache_name((lnt_cache)CACHES));
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_split_answers_as_softmax_over_the_rounded_keys_and_values),
        cmocka_unit_test(tensors_of_fewer_bits_may_be_cached_in_fewer_still),
        cmocka_unit_test(a_query_does_not_read_the_tokens_that_come_after_it),
        cmocka_unit_test(a_shorter_sequence_in_more_pieces_is_read_to_its_end),
        cmocka_unit_test(the_number_of_threads_does_not_change_a_bit),
        cmocka_unit_test(files_and_forks_keep_the_bits_and_go_on_alike),
        cmocka_unit_test(a_file_with_other_bytes_for_blocks_is_read_as_it_is),
        cmocka_unit_test(a_cache_is_as_large_as_its_rows_and_shows_them_in_their_dtype),
        cmocka_unit_test(what_is_no_cache_of_softmax_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
