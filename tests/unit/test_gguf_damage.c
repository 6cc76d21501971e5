/* test_gguf_damage.c - io/gguf: a file that lies, is cut or changed is refused in one sentence, and never
 * read past its end. */
#include <stdlib.h>
#include <string.h>

#include "gguf_file.h"
#include "support.h"

#define PATH "t.gguf"

/* ---- lies ---------------------------------------------------------------------------------- */

static void expect(lnt_ctx *ctx, const buffer *file, const char *word)
{
    lnt_gguf g;
    void *memory = exact_copy(file->data, file->used);
    assert_refused(ctx, lnt_gguf_parse(ctx, PATH, memory, file->used, &g), LNT_ERR_FORMAT, word);
    assert_null(g.keys);
    assert_null(g.tensors);
    free(memory);
}

static void expect_joined(lnt_ctx *ctx, gguf_file *f, const char *word)
{
    buffer file = gguf_file_join(f);
    expect(ctx, &file, word);
    buffer_free(&file);
    gguf_file_free(f);
    gguf_file_begin(f);
}

static void header_that_lies_is_refused(void **state)
{
    (void)state;
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    gguf_file f;
    gguf_file_begin(&f);
    unsigned char other[] = "GGML\3\0\0", begin[] = "GGUF\3\0\0";
    expect(ctx, &(buffer){ .data = other, .used = 8 }, "does not begin with 'GGUF'");
    expect(ctx, &(buffer){ .data = begin, .used = 2 }, "does not begin with 'GGUF'");
    expect(ctx, &(buffer){ .data = begin, .used = 7 }, "byte 4: the file ends");
    f.version = 1;
    expect_joined(ctx, &f, "version 1 of GGUF is not known; known are 2 and 3");
    f.version = 4;
    expect_joined(ctx, &f, "version 4");
    f.version = 3 << 24;
    expect_joined(ctx, &f, "big-endian");
    f.key_count = UINT64_C(1) << 60;
    expect_joined(ctx, &f, "it is said to have 1152921504606846976 keys, more than its 24 bytes can hold");
    f.tensor_count = UINT64_MAX;
    expect_joined(ctx, &f, "18446744073709551615 tensors");
    f.key_count = 1;
    expect_joined(ctx, &f, "it is said to have 1 keys");
    context_close_tracked(ctx, &track);
}

static void key_that_lies_is_refused(void **state)
{
    (void)state;
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    static const unsigned char bomb[] = { 8, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0 }; /* 2^30 strings */
    gguf_file f;
    buffer b = { 0 };
    gguf_file_begin(&f);
    gguf_file_key(&f, "x", (lnt_gguf_type)13, "", 1);
    expect_joined(ctx, &f, "byte 37: a value of an unknown type");
    gguf_file_key(&f, "x", LNT_GGUF_U64, "1234", 4);
    expect_joined(ctx, &f, "the file ends in the middle");
    gguf_file_key(&f, "", LNT_GGUF_U64, "12345678", 8);
    expect_joined(ctx, &f, "a name before it is empty");
    gguf_file_key(&f, "x", LNT_GGUF_BOOL, "\2", 1);
    expect_joined(ctx, &f, "key 'x': a boolean is neither 0 nor 1");
    gguf_file_key(&f, "x", LNT_GGUF_STRING, "\0\0\0\100\0\0\0\0abc", 11);
    expect_joined(ctx, &f, "a string is said to be longer than the file");
    gguf_file_key(&f, "x", LNT_GGUF_STRING, "\377\377\377\377\377\377\377\377abc", 11);
    expect_joined(ctx, &f, "a string is said to be longer than the file");
    gguf_file_key(&f, "x", LNT_GGUF_ARRAY, bomb, sizeof bomb);
    expect_joined(ctx, &f, "an array is said to be longer than the file");
    gguf_file_u32(&f, "twice", 1);
    gguf_file_u32(&f, "once", 1);
    gguf_file_u32(&f, "twice", 1);
    expect_joined(ctx, &f, "key 'twice': it is there twice");
    for (int depth = 0; depth < 100; depth++) {
        buffer_put_u32(&b, LNT_GGUF_ARRAY);
        buffer_put_u64(&b, 1);
    }
    gguf_file_key(&f, "x", LNT_GGUF_ARRAY, b.data, b.used);
    expect_joined(ctx, &f, "arrays in arrays, more than 4 deep");
    buffer_free(&b);
    for (uint32_t alignment = 0; alignment < 64; alignment += 12) {
        gguf_file_u32(&f, "general.alignment", alignment);
        expect_joined(ctx, &f, "must be a power of two from 8 to 1048576");
    }
    gguf_file_u32(&f, "general.alignment", 1u << 31);
    expect_joined(ctx, &f, "general.alignment is 2147483648, must be");
    gguf_file_string(&f, "general.alignment", "32");
    expect_joined(ctx, &f, "is a string, must be an integer");
    context_close_tracked(ctx, &track);
}

static void tensor_that_lies_is_refused(void **state)
{
    (void)state;
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    static const struct {
        uint32_t rank;
        uint64_t extents[6], offset;
        uint32_t type;
        const char *word;
    } cases[] = {
        { 1, { 16 }, 0, 39, "type 39 of tensor 'x' is not known; known are f32, f16, bf16, q8_0" },
        { 1, { 16 }, 0, 4, "type 4 of tensor 'x' is not known" },
        { 5, { 1, 1, 1, 1, 1 }, 0, 0, "tensor 'x' has rank 5, at most 4 is known" },
        { UINT32_MAX, { 1 }, 0, 0, "has rank 4294967295" },
        { 1, { 17 }, 0, 0, "tensor 'x': it reaches past the end" },
        { 1, { 16 }, 32, 0, "past the end" },
        { 1, { 16 }, UINT64_C(1) << 63, 0, "past the end" },
        { 1, { UINT64_C(1) << 60 }, 0, 0, "past the end" },
        { 1, { UINT64_MAX }, 0, 0, "past the end" },
        { 4, { 1 << 15, 1 << 15, 1 << 15, 1 << 15 }, 0, 0, "past the end" },
        { 4, { UINT64_C(1) << 32, UINT64_C(1) << 32, 1, 1 }, 0, 1, "past the end" },
        { 2, { 4, 0 }, 0, 0, "an extent is 0" },
        { 1, { 16 }, 4, 0, "not a multiple of the file's alignment" },
        { 1, { 33 }, 0, 8, "rows of 33 numbers are not made of the blocks of 32 that q8_0 has" },
        { 2, { 16, 2 }, 0, 2, "rows of 16 numbers" },
        { 0, { 0 }, 0, 2, "rows of 1 numbers" },
    };
    gguf_file f;
    gguf_file_begin(&f);
    for (int i = 0; i < COUNT_OF(cases); i++) {
        gguf_file_line(&f, "x", cases[i].rank < 6 ? cases[i].rank : 0, cases[i].extents, cases[i].type,
                       cases[i].offset);
        if (cases[i].rank > 5) memcpy(f.tensors.data + 9, &cases[i].rank, 4);
        for (int byte = 0; byte < 64; byte++) buffer_put(&f.data, "", 1);
        expect_joined(ctx, &f, cases[i].word);
    }
    context_close_tracked(ctx, &track);
}

static void tensors_that_share_are_refused(void **state)
{
    (void)state;
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    static const float zeros[32];
    const int64_t shape[1] = { 16 };
    const uint64_t extents[1] = { 16 };
    gguf_file f;
    gguf_file_begin(&f);
    gguf_file_tensor(&f, "a", LNT_STORAGE_F32, 1, shape, zeros, 64);
    gguf_file_line(&f, "b", 1, extents, 0, 32);
    buffer_put(&f.data, zeros, 64);
    expect_joined(ctx, &f, "tensors 'a' and 'b' overlap");
    gguf_file_tensor(&f, "a", LNT_STORAGE_F32, 1, shape, zeros, 64);
    gguf_file_line(&f, "b", 1, extents, 0, 0);
    expect_joined(ctx, &f, "overlap");
    gguf_file_tensor(&f, "a", LNT_STORAGE_F32, 1, shape, zeros, 64);
    gguf_file_tensor(&f, "b", LNT_STORAGE_F32, 1, shape, zeros, 64);
    gguf_file_tensor(&f, "a", LNT_STORAGE_F32, 1, shape, zeros, 64);
    expect_joined(ctx, &f, "tensor 'a' is there twice");
    context_close_tracked(ctx, &track);
}

/* ---- damage -------------------------------------------------------------------------------- */

static void file_cut_short_is_refused_at_every_length(void **state)
{
    (void)state;
    buffer file = gguf_file_sample();
    for (size_t n = 0; n < file.used; n++) {
        tracker track;
        lnt_ctx *ctx = context_tracked(&track, 1, NULL);
        expect(ctx, &(buffer){ .data = file.data, .used = n }, "'t.gguf'");
        context_close_tracked(ctx, &track);
    }
    buffer_free(&file);
}

/* Every byte, every bit of it and some others: no crash, no read outside, and no more memory than the file
 * justifies. */
static void changed_byte_is_refused_or_harmless(void **state)
{
    (void)state;
    buffer file = gguf_file_sample();
    dice d = { 7 };
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    const size_t before = track.live_bytes;
    unsigned char *memory = exact_copy(file.data, file.used);
    int64_t refused = 0, read = 0;
    for (size_t at = 0; at < file.used; at++)
        for (int round = 0; round < 8 + budget(2, 40); round++) {
            const int mask = round < 8 ? 1 << round : (int)dice_range(&d, 1, 255);
            lnt_gguf g;
            memory[at] ^= (unsigned char)mask;
            const lnt_status status = lnt_gguf_parse(ctx, PATH, memory, file.used, &g);
            if (status == LNT_OK) gguf_file_walk(&g), lnt_gguf_close(ctx, &g);
            else assert_int_equal(status, LNT_ERR_FORMAT);
            refused += status != LNT_OK;
            read += status == LNT_OK;
            memory[at] = file.data[at];
        }
    assert_true(refused > 0 && read > 0);
    assert_true(track.peak_bytes - before < 8 * file.used);
    free(memory);
    buffer_free(&file);
    context_close_tracked(ctx, &track);
}

static void no_memory_is_said_and_nothing_is_lost(void **state)
{
    (void)state;
    buffer file = gguf_file_sample();
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    const int64_t first = track.calls;
    for (int64_t n = 0; n < 3; n++) {
        lnt_gguf g;
        track.fail_at = first + n;
        track.calls = first;
        assert_int_equal(lnt_gguf_parse(ctx, PATH, file.data, file.used, &g), LNT_ERR_MEMORY);
    }
    track.fail_at = -1;
    buffer_free(&file);
    context_close_tracked(ctx, &track);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_that_lies_is_refused),
        cmocka_unit_test(key_that_lies_is_refused),
        cmocka_unit_test(tensor_that_lies_is_refused),
        cmocka_unit_test(tensors_that_share_are_refused),
        cmocka_unit_test(file_cut_short_is_refused_at_every_length),
        cmocka_unit_test(changed_byte_is_refused_or_harmless),
        cmocka_unit_test(no_memory_is_said_and_nothing_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
