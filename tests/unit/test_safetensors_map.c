/* test_safetensors_map.c - io/safetensors: a file read in place is the file that is read into memory, and
 * damage is found in it all the same. */
#include "gguf_file.h"
#include "io/crc64.h"
#include "io/safetensors.h"
#include "io_support.h"

#define PATH "t.safetensors"

static const float floats[6] = { 1, -2, 3.5f, 0, 1e30f, -1e-30f };
static const uint8_t bytes3[3] = { 7, 8, 9 };
static const lnt_st_entry sample[] = {
    { .name = "mask", .dtype = LNT_ST_U8, .rank = 1, .shape = { 3 }, .data = bytes3, .bytes = 3 },
    { .name = "x", .dtype = LNT_ST_F32, .rank = 3, .shape = { 1, 2, 3 }, .data = floats,
      .bytes = sizeof floats },
    { .name = "none", .dtype = LNT_ST_F32, .rank = 2, .shape = { 0, 5 }, .data = NULL },
};
static const lnt_st_meta sample_meta[] = { { "mechanism", "linear" } };

static void write_sample(lnt_ctx *ctx)
{
    assert_ok(ctx, lnt_safetensors_write(ctx, PATH, sample, (size_t)COUNT_OF(sample), sample_meta, 1));
}

static void mapped_file_is_the_file_that_is_read(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    lnt_safetensors mapped, read;
    write_sample(ctx);
    assert_ok(ctx, lnt_safetensors_read(ctx, PATH, &read));
    assert_ok(ctx, lnt_safetensors_map(ctx, PATH, &mapped));
    assert_int_equal(mapped.entry_count, read.entry_count);
    for (size_t i = 0; i < read.entry_count; i++) {
        const lnt_st_entry *a = &mapped.entries[i], *b = &read.entries[i];
        const unsigned char *data = a->data;
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->dtype, b->dtype);
        assert_int_equal(a->rank, b->rank);
        assert_memory_equal(a->shape, b->shape, sizeof a->shape);
        assert_int_equal(a->bytes, b->bytes);
        if (a->bytes) assert_memory_equal(a->data, b->data, a->bytes);
        assert_true(data >= mapped.map.data && data + a->bytes <= mapped.map.data + mapped.map.bytes);
    }
    assert_string_equal(lnt_safetensors_meta(&mapped, "mechanism"), "linear");
    assert_null(mapped.copy);
    lnt_safetensors_free(ctx, &mapped);
    lnt_safetensors_free(ctx, &read);
    unlink(PATH);
    assert_refused(ctx, lnt_safetensors_map(ctx, PATH, &mapped), LNT_ERR_FILE, "No such file");
    assert_null(mapped.entries);
    context_close_tracked(ctx, &t);
}

/* Another tool's file, whose header is of any length. */
static void arrays_are_aligned_whatever_the_header(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    for (int spaces = 0; spaces < 9; spaces++) {
        char text[128];
        buffer file = { 0 };
        lnt_safetensors st;
        const int length = snprintf(text, sizeof text, "{\"x\":{\"dtype\":\"F32\",\"shape\":[6],"
                                    "\"data_offsets\":[0,24]}}%*s", spaces, "");
        buffer_put_string(&file, text, (size_t)length);
        buffer_put(&file, floats, sizeof floats);
        put_file(PATH, file.data, file.used);
        assert_ok(ctx, lnt_safetensors_map(ctx, PATH, &st));
        assert_int_equal((uintptr_t)st.entries[0].data % sizeof(float), 0);
        assert_memory_equal(st.entries[0].data, floats, sizeof floats);
        assert_int_equal(st.copy == NULL, length % 8 == 0);
        assert_int_equal(st.map.data == NULL, length % 8 != 0);
        lnt_safetensors_free(ctx, &st);
        buffer_free(&file);
    }
    unlink(PATH);
    context_close_tracked(ctx, &t);
}

static void any_changed_byte_is_refused(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    size_t bytes;
    write_sample(ctx);
    unsigned char *file = get_file(PATH, &bytes), *copy = exact_copy(file, bytes);
    lnt_safetensors st;
    for (size_t at = 0; at < bytes; at++)
        for (int bit = 0; bit < 8; bit++) {
            copy[at] ^= (unsigned char)(1 << bit);
            if (lnt_safetensors_parse(ctx, PATH, copy, bytes, &st) != LNT_ERR_FORMAT)
                fail_msg("byte %zu was read with bit %d changed", at, bit);
            copy[at] = file[at];
        }
    assert_ok(ctx, lnt_safetensors_parse(ctx, PATH, copy, bytes, &st));
    lnt_safetensors_free(ctx, &st);
    free(copy);
    free(file);
    unlink(PATH);
    context_close_tracked(ctx, &t);
}

static void file_cut_short_is_refused_at_every_length(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    size_t bytes;
    write_sample(ctx);
    unsigned char *file = get_file(PATH, &bytes);
    for (size_t n = 0; n < bytes; n++) {
        unsigned char *copy = exact_copy(file, n);
        lnt_safetensors st;
        assert_int_equal(lnt_safetensors_parse(ctx, PATH, copy, n, &st), LNT_ERR_FORMAT);
        put_file(PATH, file, n);
        assert_int_equal(lnt_safetensors_map(ctx, PATH, &st), LNT_ERR_FORMAT);
        free(copy);
    }
    free(file);
    unlink(PATH);
    context_close_tracked(ctx, &t);
}

/* Long data are summed another way than short ones, and byte by byte a third. */
static void checksum_does_not_depend_on_the_pieces(void **state)
{
    (void)state;
    enum { BYTES = 300001 }; /* two times four streams, and a rest */
    unsigned char *bytes = malloc(BYTES);
    dice d = { 11 };
    lnt_crc64 whole, pieces, single;
    assert_non_null(bytes);
    for (int i = 0; i < BYTES; i++) bytes[i] = (unsigned char)dice_next(&d);
    lnt_crc64_init(&whole);
    lnt_crc64_init(&pieces);
    lnt_crc64_init(&single);
    lnt_crc64_add(&whole, bytes, BYTES);
    for (size_t i = 0; i < BYTES; i++) lnt_crc64_add(&single, bytes + i, 1);
    for (size_t at = 0, n; at < BYTES; at += n) {
        n = (size_t)dice_range(&d, 1, 200000);
        if (n > BYTES - at) n = BYTES - at;
        lnt_crc64_add(&pieces, bytes + at, n);
    }
    assert_true(lnt_crc64_finish(&whole) == lnt_crc64_finish(&single));
    assert_true(lnt_crc64_finish(&pieces) == lnt_crc64_finish(&single));
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mapped_file_is_the_file_that_is_read),
        cmocka_unit_test(arrays_are_aligned_whatever_the_header),
        cmocka_unit_test(any_changed_byte_is_refused),
        cmocka_unit_test(file_cut_short_is_refused_at_every_length),
        cmocka_unit_test(checksum_does_not_depend_on_the_pieces),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
