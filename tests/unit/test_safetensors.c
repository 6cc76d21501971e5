/* test_safetensors.c - io/safetensors: what was saved comes back, what was damaged is refused. */
#include "io/safetensors.h"

#include <fcntl.h>

#include "io/crc64.h"
#include "io_support.h"

#define PATH "t.safetensors"

static const float floats[6] = { 1, -2, 3.5f, 0, 1e30f, -1e-30f };
static const double doubles[2] = { 3.25, -1e300 };
static const uint8_t bytes3[3] = { 7, 8, 9 };

/* In an order that is not that of the data: narrow elements first. */
static const lnt_st_entry sample[] = {
    { .name = "mask", .dtype = LNT_ST_U8, .rank = 1, .shape = { 3 }, .data = bytes3, .bytes = 3 },
    { .name = "s \"\xc3\xa9\"", .dtype = LNT_ST_F32, .rank = 3, .shape = { 1, 2, 3 },
      .data = floats, .bytes = sizeof floats },
    { .name = "none", .dtype = LNT_ST_F32, .rank = 2, .shape = { 0, 5 }, .data = NULL },
    { .name = "z", .dtype = LNT_ST_F64, .rank = 1, .shape = { 2 }, .data = doubles,
      .bytes = sizeof doubles },
    { .name = "scalar", .dtype = LNT_ST_F32, .rank = 0, .data = floats + 2, .bytes = 4 },
};
static const lnt_st_meta sample_meta[] = { { "mechanism", "linear" }, { "note", "a \"b\"\n\\c" } };

static void write_sample(lnt_ctx *ctx)
{
    assert_ok(ctx, lnt_safetensors_write(ctx, PATH, sample, (size_t)COUNT_OF(sample), sample_meta,
                                         (size_t)COUNT_OF(sample_meta)));
}

/* A file made by hand: the length of the header, the header, the data. */
static void put_parts(uint64_t length, const char *header, size_t header_bytes, const void *data,
                      size_t data_bytes)
{
    FILE *file = fopen(PATH, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(&length, 1, 8, file), 8);
    assert_int_equal(fwrite(header, 1, header_bytes, file), header_bytes);
    assert_int_equal(fwrite(data, 1, data_bytes, file), data_bytes);
    assert_int_equal(fclose(file), 0);
}

static void put_header(const char *header, size_t data_bytes)
{
    static const char zeros[64];
    put_parts(strlen(header), header, strlen(header), zeros, data_bytes);
}

static void what_was_written_is_read_back(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    lnt_safetensors st;
    write_sample(ctx);
    assert_ok(ctx, lnt_safetensors_read(ctx, PATH, &st));
    assert_int_equal(st.entry_count, COUNT_OF(sample));
    for (int i = 0; i < COUNT_OF(sample); i++) {
        const lnt_st_entry *e = lnt_safetensors_find(&st, sample[i].name);
        assert_non_null(e);
        assert_int_equal(e->dtype, sample[i].dtype);
        assert_int_equal(e->rank, sample[i].rank);
        assert_memory_equal(e->shape, sample[i].shape, sizeof e->shape);
        assert_int_equal(e->bytes, sample[i].bytes);
        if (e->bytes) assert_memory_equal(e->data, sample[i].data, e->bytes);
        if (e->dtype == LNT_ST_F64) assert_int_equal((uintptr_t)e->data % sizeof(double), 0);
        if (e->dtype == LNT_ST_F32) assert_int_equal((uintptr_t)e->data % sizeof(float), 0);
    }
    assert_int_equal(st.meta_count, COUNT_OF(sample_meta));
    for (int i = 0; i < COUNT_OF(sample_meta); i++)
        assert_string_equal(lnt_safetensors_meta(&st, sample_meta[i].key), sample_meta[i].value);
    assert_null(lnt_safetensors_find(&st, "absent"));
    assert_null(lnt_safetensors_find(&st, "__metadata__"));
    assert_null(lnt_safetensors_meta(&st, "absent"));
    lnt_safetensors_free(ctx, &st);
    unlink(PATH);
    context_close_tracked(ctx, &t);
}

/* Puts an array in pieces of a few bytes. */
static lnt_status make_sample(void *user, size_t index, lnt_st_sink *sink)
{
    const lnt_st_entry *e = &sample[index];
    lnt_status status = LNT_OK;
    ++*(int *)user;
    for (size_t at = 0; !status && at < e->bytes; at += 2)
        status = lnt_st_put(sink, (const char *)e->data + at, e->bytes - at < 2 ? e->bytes - at : 2);
    return status;
}

static lnt_status make_nothing(void *user, size_t index, lnt_st_sink *sink)
{
    (void)index, (void)sink;
    return lnt_fail(user, LNT_ERR_ARGUMENT, "nothing is made");
}

static void what_is_made_while_it_is_written_is_the_same_file(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    size_t count, other;
    write_sample(ctx);
    unsigned char *want = get_file(PATH, &count);
    for (unsigned made = 0; made < 1u << COUNT_OF(sample); made++) { /* any of them, the others as they are */
        lnt_st_entry entries[COUNT_OF(sample)];
        int calls = 0, expected = 0;
        for (int i = 0; i < COUNT_OF(sample); i++) {
            entries[i] = sample[i];
            if (made >> i & 1) entries[i].data = NULL;
            expected += (made >> i & 1) && sample[i].bytes;
        }
        assert_ok(ctx, lnt_safetensors_write_made(ctx, PATH, entries, (size_t)COUNT_OF(sample), sample_meta,
                                                  (size_t)COUNT_OF(sample_meta), make_sample, &calls));
        unsigned char *got = get_file(PATH, &other);
        assert_int_equal(calls, expected);
        assert_int_equal(other, count);
        assert_memory_equal(got, want, count);
        free(got);
    }
    lnt_st_entry entry = sample[1];
    entry.data = NULL;
    assert_refused(ctx, lnt_safetensors_write_made(ctx, PATH, &entry, 1, NULL, 0, make_nothing, ctx),
                   LNT_ERR_ARGUMENT, "nothing is made");
    unsigned char *got = get_file(PATH, &other);
    assert_int_equal(other, count);
    assert_memory_equal(got, want, count);
    assert_refused(ctx, lnt_safetensors_write_made(ctx, "/dev/null", &entry, 1, NULL, 0, make_nothing, ctx),
                   LNT_ERR_FILE, "not a regular file");
    free(got), free(want);
    unlink(PATH);
    assert_int_equal(count_files(), 0);
    context_close_tracked(ctx, &t);
}

static void every_dtype_keeps_its_name_and_size(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    static const struct {
        lnt_st_dtype dtype;
        const char *name;
        size_t size;
    } cases[] = {
        { LNT_ST_F32, "F32", 4 }, { LNT_ST_F64, "F64", 8 }, { LNT_ST_F16, "F16", 2 },
        { LNT_ST_BF16, "BF16", 2 }, { LNT_ST_I64, "I64", 8 }, { LNT_ST_I32, "I32", 4 },
        { LNT_ST_I16, "I16", 2 }, { LNT_ST_I8, "I8", 1 }, { LNT_ST_U64, "U64", 8 },
        { LNT_ST_U32, "U32", 4 }, { LNT_ST_U16, "U16", 2 }, { LNT_ST_U8, "U8", 1 },
        { LNT_ST_BOOL, "BOOL", 1 },
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        const lnt_st_entry e = { .name = "x", .dtype = cases[i].dtype, .rank = 1, .shape = { 1 },
                                 .data = floats, .bytes = cases[i].size };
        char want[64];
        size_t bytes;
        lnt_safetensors st;
        assert_ok(ctx, lnt_safetensors_write(ctx, PATH, &e, 1, NULL, 0));
        unsigned char *file = get_file(PATH, &bytes);
        snprintf(want, sizeof want, "\"x\":{\"dtype\":\"%s\",\"shape\":[1],", cases[i].name);
        assert_non_null(memmem(file, bytes, want, strlen(want)));
        free(file);
        assert_ok(ctx, lnt_safetensors_read(ctx, PATH, &st));
        assert_int_equal(st.entries[0].dtype, cases[i].dtype);
        lnt_safetensors_free(ctx, &st);
    }
    unlink(PATH);
    lnt_ctx_destroy(ctx);
}

/* Against the format itself rather than against our reader. */
static void file_has_the_layout_of_the_format(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    size_t bytes;
    uint64_t length;
    write_sample(ctx);
    unsigned char *file = get_file(PATH, &bytes);
    memcpy(&length, file, 8);
    assert_int_equal((8 + length) % 64, 0);
    assert_int_equal(bytes, 8 + length + 16 + 24 + 4 + 3);
    assert_int_equal(file[8], '{');
    static const char tail[] =
        "\"mechanism\":\"linear\",\"note\":\"a \\\"b\\\"\\u000a\\\\c\"},"
        "\"z\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]},"
        "\"s \\\"\xc3\xa9\\\"\":{\"dtype\":\"F32\",\"shape\":[1,2,3],\"data_offsets\":[16,40]},"
        "\"none\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[40,40]},"
        "\"scalar\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[40,44]},"
        "\"mask\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[44,47]}}";
    const unsigned char *at = memmem(file, 8 + (size_t)length, tail, strlen(tail));
    assert_non_null(at);
    for (at += strlen(tail); at < file + 8 + length; at++) assert_int_equal(*at, ' ');
    assert_memory_equal(file + 8 + length, doubles, 16);
    assert_memory_equal(file + 8 + length + 16, floats, 24);
    assert_memory_equal(file + 8 + length + 40, floats + 2, 4);
    assert_memory_equal(file + 8 + length + 44, bytes3, 3);
    free(file);
    unlink(PATH);
    lnt_ctx_destroy(ctx);
}

static void checksum_is_crc64_xz(void **state)
{
    (void)state;
    lnt_crc64 crc;
    lnt_crc64_init(&crc);
    lnt_crc64_add(&crc, "123456789", 9);
    assert_true(lnt_crc64_finish(&crc) == UINT64_C(0x995dc9bbdf1939fa));
    lnt_crc64_init(&crc);
    lnt_crc64_add(&crc, "1", 1);
    lnt_crc64_add(&crc, "23456789", 8);
    assert_true(lnt_crc64_finish(&crc) == UINT64_C(0x995dc9bbdf1939fa));
}

/* Of a file that is large enough to be summed by several threads. */
static void the_checksum_is_the_same_by_any_number_of_threads(void **state)
{
    (void)state;
    enum { COUNT = 1300003 };
    float *many = calloc(COUNT, sizeof *many);
    assert_non_null(many);
    for (int i = 0; i < COUNT; i++) many[i] = (float)i;
    const lnt_st_entry e = { .name = "many", .dtype = LNT_ST_F32, .rank = 1, .shape = { COUNT }, .data = many,
                             .bytes = COUNT * sizeof *many };
    lnt_ctx *one = context_new(1, NULL);
    assert_ok(one, lnt_safetensors_write(one, PATH, &e, 1, sample_meta, 2));
    lnt_ctx_destroy(one);
    const int fd = open(PATH, O_RDWR);
    assert_true(fd >= 0);
    for (int threads = 1; threads <= 7; threads++) {
        lnt_ctx *ctx = context_new(threads, NULL);
        lnt_safetensors st;
        assert_ok(ctx, lnt_safetensors_map(ctx, PATH, &st));
        lnt_safetensors_free(ctx, &st);
        for (off_t at = 5000; at < COUNT * 4; at += COUNT / 2) {
            unsigned char byte, other;
            assert_int_equal(pread(fd, &byte, 1, at), 1);
            other = byte ^ 1;
            assert_int_equal(pwrite(fd, &other, 1, at), 1);
            assert_refused(ctx, lnt_safetensors_map(ctx, PATH, &st), LNT_ERR_FORMAT, "damaged");
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        }
        lnt_ctx_destroy(ctx);
    }
    close(fd);
    unlink(PATH);
    free(many);
}

static void any_changed_byte_is_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    const lnt_st_entry e = { .name = "s", .dtype = LNT_ST_F32, .rank = 1, .shape = { 6 },
                             .data = floats, .bytes = sizeof floats };
    size_t bytes;
    assert_ok(ctx, lnt_safetensors_write(ctx, PATH, &e, 1, sample_meta, 2));
    unsigned char *file = get_file(PATH, &bytes);
    const int fd = open(PATH, O_WRONLY);
    assert_true(fd >= 0);
    const int step = budget(37, 1); /* 37 and 256 share no factor: from every residue a few */
    for (size_t at = 0; at < bytes; at++)
        for (int mask = 1; mask < 256; mask++) {
            if ((mask & (mask - 1)) && mask != 0xff && mask != 0x20 && mask % step) continue;
            const unsigned char changed = (unsigned char)(file[at] ^ mask);
            lnt_safetensors st;
            assert_int_equal(pwrite(fd, &changed, 1, (off_t)at), 1);
            if (lnt_safetensors_read(ctx, PATH, &st) != LNT_ERR_FORMAT)
                fail_msg("byte %zu was read with bits %02x changed", at, (unsigned)mask);
            assert_null(st.entries);
            assert_int_equal(pwrite(fd, file + at, 1, (off_t)at), 1);
        }
    close(fd);
    lnt_safetensors st;
    assert_ok(ctx, lnt_safetensors_read(ctx, PATH, &st));
    lnt_safetensors_free(ctx, &st);
    free(file);
    unlink(PATH);
    lnt_ctx_destroy(ctx);
}

static void file_cut_short_or_made_longer_is_refused_at_every_length(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    size_t bytes;
    lnt_safetensors st;
    write_sample(ctx);
    unsigned char *file = get_file(PATH, &bytes);
    for (size_t n = 0; n < bytes; n++) {
        put_file(PATH, file, n);
        assert_int_equal(lnt_safetensors_read(ctx, PATH, &st), LNT_ERR_FORMAT);
    }
    put_file(PATH, file, bytes + 1);
    assert_refused(ctx, lnt_safetensors_read(ctx, PATH, &st), LNT_ERR_FORMAT,
                   "48 bytes of data, the arrays take 47");
    free(file);
    unlink(PATH);
    context_close_tracked(ctx, &t);
}

static void file_of_another_tool_is_read_without_checksum(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_safetensors st;
    /* The header is of odd length, the arrays are not in the order of the data. */
    put_header("{\"b\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[8,12]}, "
               "\"e\":{\"shape\":[0],\"dtype\":\"I8\",\"data_offsets\":[8,8]},"
               "\"a\":{\"data_offsets\":[0,8],\"dtype\":\"I64\",\"shape\":[]},"
               "\"__metadata__\":{\"format\":\"pt\"}}   ",
               12);
    assert_ok(ctx, lnt_safetensors_read(ctx, PATH, &st));
    assert_int_equal(st.entry_count, 3);
    assert_string_equal(st.entries[0].name, "a");
    assert_string_equal(st.entries[1].name, "e");
    assert_string_equal(st.entries[2].name, "b");
    assert_int_equal((uintptr_t)st.entries[0].data % 64, 0);
    assert_string_equal(lnt_safetensors_meta(&st, "format"), "pt");
    lnt_safetensors_free(ctx, &st);
    put_header("{}", 0);
    assert_ok(ctx, lnt_safetensors_read(ctx, PATH, &st));
    assert_int_equal(st.entry_count, 0);
    assert_int_equal(st.meta_count, 0);
    lnt_safetensors_free(ctx, &st);
    unlink(PATH);
    lnt_ctx_destroy(ctx);
}

#define X(fields) "{\"x\":{" fields "}}"
#define X_F32(shape, offsets) \
    X("\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets)

static void header_that_lies_is_refused(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *word;
    } cases[] = {
        { "[]", 0, "begin with '{'" },
        { " {}", 0, "begin with '{'" },
        { "{\"x\":1}", 0, "array 'x': must have dtype" },
        { "{\"x\":[]}", 0, "must have dtype" },
        { X(""), 0, "must have dtype" },
        { X("\"dtype\":\"F32\",\"shape\":[1]"), 4, "must have dtype" },
        { X("\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,4]"), 4, "must have dtype" },
        { X("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1"), 4,
          "nothing else" },
        { X("\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]"), 8, "unknown dtype 'C64'" },
        { X("\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]"), 4, "unknown dtype 'f32'" },
        { X("\"dtype\":\"\\u001b[31m\",\"shape\":[1],\"data_offsets\":[0,4]"), 4,
          "unknown dtype '?[31m'" },
        { X_F32("1", "[0,4]"), 4, "shape must be" },
        { X_F32("[-1]", "[0,4]"), 4, "shape must be" },
        { X_F32("[1.0]", "[0,4]"), 4, "shape must be" },
        { X_F32("[9223372036854775808]", "[0,4]"), 4, "shape must be" },
        { X_F32("[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "at most 8" },
        { X_F32("[1]", "[0]"), 4, "data_offsets must be two" },
        { X_F32("[1]", "[0,4,8]"), 4, "data_offsets must be two" },
        { X_F32("[1]", "[4,0]"), 4, "in order" },
        { X_F32("[1]", "[-4,0]"), 4, "data_offsets must be two" },
        { X_F32("[1]", "[0,\"4\"]"), 4, "data_offsets must be two" },
        { X_F32("[2]", "[0,8]"), 4, "past the end" },
        { X_F32("[1]", "[9223372036854775803,9223372036854775807]"), 4, "past the end" },
        { X_F32("[2]", "[0,4]"), 4, "do not span" },
        { X_F32("[0]", "[0,4]"), 4, "do not span" },
        { X_F32("[4611686018427387905]", "[0,4]"), 4, "do not span" },
        { X_F32("[4294967296,4294967296]", "[0,0]"), 0, "do not span" },
        { X_F32("[0,4294967296,4294967296,4294967296]", "[0,0]"), 0, "do not span" },
        { X_F32("[1]", "[4,8]"), 8, "overlaps the array before it, or leaves a gap" },
        { X_F32("[1]", "[0,4]"), 8, "8 bytes of data, the arrays take 4" },
        { "{}", 1, "1 bytes of data, the arrays take 0" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
          "\"y\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
          4, "overlaps" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
          "\"y\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
          12, "array 'y': it overlaps" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
          "\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]},"
          "\"y\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
          12, "array 'e': it overlaps" },
        { "{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
          "\"y\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}",
          5, "array 'y': data_offsets must be a multiple" },
        { "{\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
          "\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
          0, "same key twice" },
        { "{\"__metadata__\":[\"a\"]}", 0, "__metadata__ is not an object" },
        { "{\"__metadata__\":{\"a\":1}}", 0, "metadata 'a' is not a string" },
        { "{\"__metadata__\":{\"linnet.checksum\":1}}", 0, "is not a string" },
        { "{\"__metadata__\":{\"linnet.checksum\":\"0123456789abcdef\"}}", 0, "crc64-xz" },
        { "{\"__metadata__\":{\"linnet.checksum.kind\":\"crc64-xz\"}}", 0, "crc64-xz" },
        { "{\"__metadata__\":{\"linnet.checksum\":\"12\",\"linnet.checksum.kind\":\"crc64-xz\"}}",
          0, "16 digits" },
        { "{\"__metadata__\":{\"linnet.checksum\":\"0123456789abcdef\",\"linnet.checksum.kind\":"
          "\"md5\"}}",
          0, "crc64-xz" },
        { "{\"__metadata__\":{\"linnet.checksum\":\"0123456789abcdef\",\"linnet.checksum.kind\":"
          "\"crc64-xz\"}}",
          0, "does not match" },
        { "{} {", 0, ": JSON header, byte 3: more text" },
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        lnt_safetensors st;
        put_header(cases[i].header, cases[i].data_bytes);
        const lnt_status status = lnt_safetensors_read(ctx, PATH, &st);
        if (status != LNT_ERR_FORMAT) print_error("%s\n", cases[i].header);
        assert_refused(ctx, status, LNT_ERR_FORMAT, cases[i].word);
        assert_non_null(strstr(lnt_ctx_error(ctx), PATH));
        assert_null(st.entries);
    }
    unlink(PATH);
    context_close_tracked(ctx, &t);
}

static void length_of_the_header_is_not_trusted(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    static const uint64_t lengths[] = { 3, 100000000, 100000001, INT64_MAX, UINT64_MAX - 7,
                                        UINT64_MAX };
    lnt_safetensors st;
    for (int i = 0; i < COUNT_OF(lengths); i++) {
        put_parts(lengths[i], "{}", 2, "", 0);
        assert_refused(ctx, lnt_safetensors_read(ctx, PATH, &st), LNT_ERR_FORMAT,
                       "no .safetensors file, or a damaged one: the header is said to have");
    }
    put_parts(100000001, "{}", 2, "", 0);
    assert_int_equal(truncate(PATH, 8 + 100000001), 0); /* it is that long, but may not be */
    assert_refused(ctx, lnt_safetensors_read(ctx, PATH, &st), LNT_ERR_FORMAT, "100000000");
    assert_true(t.total_bytes < 1 << 20);
    put_parts(0, "", 0, "", 0);
    assert_refused(ctx, lnt_safetensors_read(ctx, PATH, &st), LNT_ERR_FORMAT, "expected a value");
    put_file(PATH, "", 0);
    assert_refused(ctx, lnt_safetensors_read(ctx, PATH, &st), LNT_ERR_FORMAT,
                   "0 bytes are too few for a .safetensors file");
    unlink(PATH);
    assert_refused(ctx, lnt_safetensors_read(ctx, PATH, &st), LNT_ERR_FILE, "No such file");
    assert_refused(ctx, lnt_safetensors_read(ctx, ".", &st), LNT_ERR_FILE, "Is a directory");
    context_close_tracked(ctx, &t);
}

static void want_of_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    lnt_safetensors st;
    write_sample(ctx);
    int64_t before = t.calls;
    assert_ok(ctx, lnt_safetensors_read(ctx, PATH, &st));
    lnt_safetensors_free(ctx, &st);
    const int64_t needed = t.calls - before;
    assert_true(needed > 0);
    for (int64_t k = 0; k < needed; k++) {
        t.fail_at = t.calls + k;
        assert_int_equal(lnt_safetensors_read(ctx, PATH, &st), LNT_ERR_MEMORY);
        assert_null(st.entries);
        assert_int_equal(t.live, 1); /* the context */
    }
    t.fail_at = t.calls;
    assert_int_equal(lnt_safetensors_write(ctx, "other", sample, 1, NULL, 0), LNT_ERR_MEMORY);
    assert_int_equal(count_files(), 1);
    unlink(PATH);
    context_close_tracked(ctx, &t);
}

static void input_that_would_make_a_bad_file_is_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    const lnt_st_entry good = { .name = "a", .dtype = LNT_ST_F32, .rank = 1, .shape = { 2 },
                                .data = floats, .bytes = 8 };
    lnt_st_entry cases[12];
    for (int i = 0; i < COUNT_OF(cases); i++) cases[i] = good;
    cases[0].name = NULL;
    cases[1].name = "\xff";
    cases[2].name = "__metadata__";
    cases[3].dtype = (lnt_st_dtype)99;
    cases[4].rank = 9;
    cases[5].rank = -1;
    cases[6].shape[0] = -2;
    cases[7].shape[0] = 3;
    cases[8].bytes = 7;
    cases[9].data = NULL;
    cases[10].rank = 3; /* extents 2, 0, 0: nothing, but 8 bytes are given */
    cases[11].shape[0] = INT64_MAX;
    static const char *const words[] = { "is not UTF-8", "is not UTF-8", "is __metadata__", "dtype 99",
                                         "rank 9", "rank -1", "extent 0 is -2" };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        if (lnt_safetensors_write(ctx, PATH, &cases[i], 1, NULL, 0) == LNT_OK)
            fail_msg("entry %d was written", i);
        const char *word = i < COUNT_OF(words) ? words[i] : "is not its shape";
        if (!strstr(lnt_ctx_error(ctx), word))
            fail_msg("entry %d: '%s' is not in: %s", i, word, lnt_ctx_error(ctx));
    }
    const lnt_st_entry twice[2] = { good, good };
    assert_refused(ctx, lnt_safetensors_write(ctx, PATH, twice, 2, NULL, 0), LNT_ERR_ARGUMENT,
                   "two arrays are named 'a'");
    static const lnt_st_meta metas[][2] = {
        { { "k", "1" }, { "k", "2" } },
        { { "j", "1" }, { "linnet.checksum", "0" } },
        { { "j", "1" }, { "linnet.checksum.kind", "crc64-xz" } },
        { { "j", "1" }, { "k", "\xff" } },
        { { "j", "1" }, { "\xc3", "2" } },
        { { "j", "1" }, { "k", NULL } },
        { { "j", "1" }, { NULL, "2" } },
    };
    for (int i = 0; i < COUNT_OF(metas); i++)
        assert_refused(ctx, lnt_safetensors_write(ctx, PATH, &good, 1, metas[i], 2),
                       LNT_ERR_ARGUMENT, "metadata");
    assert_refused(ctx, lnt_safetensors_write(ctx, PATH, &good, LNT_ST_MAX_COUNT + 1, NULL, 0),
                   LNT_ERR_ARGUMENT, "60001 arrays");
    assert_int_equal(count_files(), 0);
    lnt_ctx_destroy(ctx);
}

static void failed_write_leaves_the_previous_file(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    assert_refused(ctx, lnt_safetensors_write(ctx, "none/" PATH, sample, 1, NULL, 0), LNT_ERR_FILE,
                   "cannot write 'none/t.safetensors'");
    assert_refused(ctx, lnt_safetensors_write(ctx, "/dev/full", sample, 1, NULL, 0), LNT_ERR_FILE,
                   "No space left on device");
    assert_int_equal(count_files(), 0);
    context_close_tracked(ctx, &t);
}

static void many_arrays_of_the_highest_rank_are_read_back(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    const int count = budget(300, 3000); /* the writer compares all names */
    lnt_st_entry *entries = calloc((size_t)count, sizeof *entries);
    lnt_st_meta *meta = calloc((size_t)count, sizeof *meta);
    char(*names)[12] = calloc((size_t)count, sizeof *names);
    assert_true(entries && meta && names);
    for (int i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        entries[i] = (lnt_st_entry){ .name = names[i], .dtype = LNT_ST_U8, .rank = 8,
                                     .shape = { 1, 1, 1, 1, 1, 1, 1, 1 }, .data = &floats,
                                     .bytes = 1 };
        meta[i] = (lnt_st_meta){ names[i], "v" };
    }
    lnt_safetensors st;
    assert_ok(ctx, lnt_safetensors_write(ctx, PATH, entries, (size_t)count, meta, (size_t)count));
    assert_ok(ctx, lnt_safetensors_read(ctx, PATH, &st));
    assert_int_equal(st.entry_count, count);
    assert_int_equal(st.meta_count, count);
    lnt_safetensors_free(ctx, &st);
    free(names);
    free(meta);
    free(entries);
    unlink(PATH);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_back),
        cmocka_unit_test(what_is_made_while_it_is_written_is_the_same_file),
        cmocka_unit_test(every_dtype_keeps_its_name_and_size),
        cmocka_unit_test(file_has_the_layout_of_the_format),
        cmocka_unit_test(checksum_is_crc64_xz),
        cmocka_unit_test(the_checksum_is_the_same_by_any_number_of_threads),
        cmocka_unit_test(any_changed_byte_is_refused),
        cmocka_unit_test(file_cut_short_or_made_longer_is_refused_at_every_length),
        cmocka_unit_test(file_of_another_tool_is_read_without_checksum),
        cmocka_unit_test(header_that_lies_is_refused),
        cmocka_unit_test(length_of_the_header_is_not_trusted),
        cmocka_unit_test(want_of_memory_is_reported_and_nothing_leaks),
        cmocka_unit_test(input_that_would_make_a_bad_file_is_refused),
        cmocka_unit_test(failed_write_leaves_the_previous_file),
        cmocka_unit_test(many_arrays_of_the_highest_rank_are_read_back),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
