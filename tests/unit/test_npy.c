/* test_npy.c - .npy: every array comes back as it was, every file that is not one is refused. */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "core/dtype.h"
#include "io_support.h"

#define PATH "t.npy"

/* A file made by hand; version 1 has two bytes of length, 2 and 3 have four. */
static void put_npy(int version, const char *header, const void *data, size_t bytes)
{
    const size_t length = strlen(header), size_bytes = version == 1 ? 2 : 4;
    FILE *file = fopen(PATH, "wb");
    assert_non_null(file);
    fprintf(file, "\x93NUMPY%c%c", version, 0);
    for (size_t i = 0; i < size_bytes; i++) fputc((int)(length >> 8 * i & 0xff), file);
    assert_int_equal(fwrite(header, 1, length, file), length);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

#define HEADER(descr, fortran, shape) \
    "{'descr': " descr ", 'fortran_order': " fortran ", 'shape': " shape ", }\n"
#define F4(shape) HEADER("'<f4'", "False", shape)

static const float six[6] = { 1, 2, 3, 4, 5, 6 };

static lnt_array read_ok(lnt_ctx *ctx)
{
    lnt_array a;
    assert_ok(ctx, lnt_npy_read(ctx, PATH, &a));
    return a;
}

static lnt_tensor as_tensor(const lnt_array *a)
{
    int64_t elements = 1;
    for (int i = 0; i < a->rank; i++) elements *= a->shape[i];
    return lnt_tensor_bhnd(a->data, a->dtype, 1, 1, 1, elements);
}

static void every_shape_and_dtype_is_read_back(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    static const lnt_dtype dtypes[] = { LNT_F32, LNT_F16, LNT_F64 };
    static const struct {
        int rank;
        int64_t shape[4];
    } shapes[] = { { 0, { 0 } },          { 1, { 1 } },          { 1, { 0 } },
                   { 1, { 5 } },          { 2, { 3, 2 } },       { 3, { 2, 3, 4 } },
                   { 4, { 2, 3, 4, 5 } }, { 4, { 7, 0, 9, 11 } }, { 2, { 1, 12345 } } };
    for (int d = 0; d < COUNT_OF(dtypes); d++)
        for (int s = 0; s < COUNT_OF(shapes); s++) {
            lnt_array a = { .dtype = dtypes[d], .rank = shapes[s].rank };
            memcpy(a.shape, shapes[s].shape, sizeof a.shape);
            block b = block_new(a.dtype, LAYOUT_BHND, 1, 1, 1, as_tensor(&a).shape[3]);
            for (int64_t i = 0; i < tensor_elements(&b.t); i++)
                tensor_put(&b.t, i, 0.25 * (double)(i % 1000) - 7);
            a.data = b.t.data;
            assert_ok(ctx, lnt_npy_write(ctx, PATH, &a));
            lnt_array got = read_ok(ctx);
            assert_int_equal(got.dtype, a.dtype);
            assert_int_equal(got.rank, a.rank);
            assert_memory_equal(got.shape, a.shape, sizeof(int64_t) * (size_t)a.rank);
            const lnt_tensor view = as_tensor(&got);
            assert_int_equal(tensor_elements(&view), tensor_elements(&b.t));
            for (int64_t i = 0; i < tensor_elements(&b.t); i++)
                assert_true(tensor_at(&view, i) == tensor_at(&b.t, i));
            lnt_array_free(ctx, &got);
            assert_null(got.data);
            block_free(&b);
        }
    unlink(PATH);
    context_close_tracked(ctx, &t);
}

/* Byte for byte what numpy.save writes. */
static void file_is_what_numpy_writes(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    static const struct {
        lnt_array array;
        const char *dict;
    } cases[] = {
        { { NULL, LNT_F32, 2, { 2, 3 } },
          "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" },
        { { NULL, LNT_F16, 1, { 12 } },
          "{'descr': '<f2', 'fortran_order': False, 'shape': (12,), }" },
        { { NULL, LNT_F64, 0, { 0 } },
          "{'descr': '<f8', 'fortran_order': False, 'shape': (), }" },
        { { NULL, LNT_BF16, 1, { 6 } },
          "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }" },
    };
    static const char zeros[64];
    for (int i = 0; i < COUNT_OF(cases); i++) {
        lnt_array a = cases[i].array;
        char want[128];
        size_t bytes;
        memset(want, ' ', sizeof want);
        memcpy(want, "\x93NUMPY\x01\x00\x76\x00", 10);
        memcpy(want + 10, cases[i].dict, strlen(cases[i].dict));
        want[127] = '\n';
        a.data = (void *)(uintptr_t)zeros;
        assert_ok(ctx, lnt_npy_write(ctx, PATH, &a));
        unsigned char *file = get_file(PATH, &bytes);
        assert_true(bytes > 128);
        assert_memory_equal(file, want, 128);
        free(file);
    }
    unlink(PATH);
    lnt_ctx_destroy(ctx);
}

static void header_of_the_longest_shape_is_read_back(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    const lnt_array a = { .dtype = LNT_F64, .rank = 4, .shape = { 0, 0, INT64_MAX / 8, 0 } };
    size_t bytes;
    assert_ok(ctx, lnt_npy_write(ctx, PATH, &a));
    lnt_array got = read_ok(ctx);
    assert_memory_equal(got.shape, a.shape, sizeof a.shape);
    lnt_array_free(ctx, &got);
    free(get_file(PATH, &bytes));
    assert_int_equal(bytes % 64, 0);
    unlink(PATH);
    lnt_ctx_destroy(ctx);
}

static void bf16_is_written_as_f4(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    enum { N = 10001 }; /* several blocks, and a rest */
    uint16_t *bits = malloc(N * sizeof *bits);
    assert_non_null(bits);
    for (int i = 0; i < N; i++) bits[i] = (uint16_t)(i * 6);
    assert_ok(ctx, lnt_npy_write(ctx, PATH, &(lnt_array){ bits, LNT_BF16, 1, { N } }));
    lnt_array got = read_ok(ctx);
    assert_int_equal(got.dtype, LNT_F32);
    assert_int_equal(got.shape[0], N);
    for (int i = 0; i < N; i++) {
        const float want = lnt_bf16_to_float(bits[i]);
        assert_memory_equal((const float *)got.data + i, &want, sizeof want);
    }
    lnt_array_free(ctx, &got);
    free(bits);
    unlink(PATH);
    lnt_ctx_destroy(ctx);
}

static void every_version_spelling_and_byte_order_is_read(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    static const char f4[] = "\x00\x00\x80\x3f\x00\x00\x00\xc0"; /* 1, -2 */
    static const char f4_big[] = "\x3f\x80\x00\x00\xc0\x00\x00\x00";
    static const char f2[] = "\x00\x3c\x00\xc0", f2_big[] = "\x3c\x00\xc0\x00";
    static const char f8[] = "\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\x00\xc0";
    static const char f8_big[] = "\x3f\xf0\x00\x00\x00\x00\x00\x00\xc0\x00\x00\x00\x00\x00\x00\x00";
    static const struct {
        int version;
        const char *header, *data;
        lnt_dtype dtype;
    } cases[] = {
        { 1, F4("(2,)"), f4, LNT_F32 },
        { 2, F4("(2,)"), f4, LNT_F32 },
        { 3, F4("(2,)"), f4, LNT_F32 },
        { 1, HEADER("'=f4'", "False", "(2,)"), f4, LNT_F32 },
        { 1, HEADER("'>f4'", "False", "(2,)"), f4_big, LNT_F32 },
        { 1, HEADER("'<f2'", "False", "(2,)"), f2, LNT_F16 },
        { 1, HEADER("'>f2'", "False", "(2,)"), f2_big, LNT_F16 },
        { 1, HEADER("'<f8'", "False", "(2,)"), f8, LNT_F64 },
        { 1, HEADER("'>f8'", "False", "(2,)"), f8_big, LNT_F64 },
        { 1, HEADER("'>f8'", "True", "(2,)"), f8_big, LNT_F64 },
        { 1, "{\"shape\":(2,),\"descr\":\"<f4\",\"fortran_order\":True}", f4, LNT_F32 },
        { 1, " \t{ 'fortran_order' :False ,'shape':( 2 , ) , 'descr' : '<f4' } \r\n ", f4,
          LNT_F32 },
        { 2, "{'descr':'<f4','fortran_order':False,'shape':\n(2,),}", f4, LNT_F32 },
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        put_npy(cases[i].version, cases[i].header, cases[i].data,
                2 * lnt_dtype_size(cases[i].dtype));
        lnt_array a = read_ok(ctx);
        const lnt_tensor view = as_tensor(&a);
        assert_int_equal(a.dtype, cases[i].dtype);
        assert_int_equal(a.rank, 1);
        assert_int_equal(a.shape[0], 2);
        assert_true(tensor_at(&view, 0) == 1 && tensor_at(&view, 1) == -2);
        lnt_array_free(ctx, &a);
    }
    unlink(PATH);
    lnt_ctx_destroy(ctx);
}

static void fortran_order_becomes_row_major(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    put_npy(1, HEADER("'<f4'", "True", "(2, 3)"), six, sizeof six);
    lnt_array a = read_ok(ctx);
    static const float want[6] = { 1, 3, 5, 2, 4, 6 };
    assert_memory_equal(a.data, want, sizeof want);
    lnt_array_free(ctx, &a);
    put_npy(1, HEADER("'<f4'", "True", "()"), six, 4);
    a = read_ok(ctx);
    assert_memory_equal(a.data, six, 4);
    lnt_array_free(ctx, &a);
    put_npy(1, HEADER("'<f4'", "True", "(3, 0)"), six, 0);
    a = read_ok(ctx);
    assert_int_equal(a.shape[0], 3);
    lnt_array_free(ctx, &a);
    unlink(PATH);
    context_close_tracked(ctx, &t);
}

static void fortran_order_of_four_axes_becomes_row_major(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    enum { A = 3, B = 5, C = 7, D = 31, N = A * B * C * D }; /* more than one block of f8 */
    double *file = malloc(N * sizeof *file);
    assert_non_null(file);
    int at = 0;
    for (int l = 0; l < D; l++)
        for (int k = 0; k < C; k++)
            for (int j = 0; j < B; j++)
                for (int i = 0; i < A; i++) file[at++] = ((i * B + j) * C + k) * D + l;
    for (int i = 0; i < N; i++) {
        uint64_t bits;
        memcpy(&bits, &file[i], sizeof bits);
        bits = __builtin_bswap64(bits);
        memcpy(&file[i], &bits, sizeof bits);
    }
    put_npy(1, HEADER("'>f8'", "True", "(3, 5, 7, 31)"), file, N * sizeof *file);
    lnt_array a = read_ok(ctx);
    for (int i = 0; i < N; i++) assert_true(((const double *)a.data)[i] == i);
    lnt_array_free(ctx, &a);
    free(file);
    unlink(PATH);
    lnt_ctx_destroy(ctx);
}

/* Of masks alone; true is any byte but 0. */
static void booleans_of_a_mask_become_0_and_minus_infinity(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    static const unsigned char given[7] = { 1, 0, 0, 255, 1, 0, 1 };
    static const int rows[6] = { 0, 1, 2, 3, 4, 5 }, columns[6] = { 0, 2, 4, 1, 3, 5 };
    lnt_array a;
    for (int fortran = 0; fortran < 2; fortran++) {
        const char *const order[] = { HEADER("'|b1'", "False", "(2, 3)"), HEADER("'|b1'", "True", "(2, 3)") };
        put_npy(1, order[fortran], given, 6);
        assert_ok(ctx, lnt_npy_read_mask(ctx, PATH, &a));
        assert_int_equal(a.dtype, LNT_F16);
        const lnt_tensor got = as_tensor(&a);
        for (int i = 0; i < 6; i++)
            assert_true(tensor_at(&got, i) == (given[(fortran ? columns : rows)[i]] ? 0 : -(double)INFINITY));
        lnt_array_free(ctx, &a);
        assert_refused(ctx, lnt_npy_read(ctx, PATH, &a), LNT_ERR_DTYPE, "|b1, must be f2");
    }
    put_npy(1, HEADER("'|b1'", "False", "(2, 3)"), given, 7);
    assert_refused(ctx, lnt_npy_read_mask(ctx, PATH, &a), LNT_ERR_FORMAT,
                   "7 bytes of elements, the shape needs 6");
    put_npy(1, HEADER("'|b1'", "False", "(0, 3)"), given, 0);
    assert_ok(ctx, lnt_npy_read_mask(ctx, PATH, &a));
    lnt_array_free(ctx, &a);
    put_npy(1, HEADER("'<f4'", "False", "(2, 3)"), six, sizeof six);
    assert_ok(ctx, lnt_npy_read_mask(ctx, PATH, &a));
    assert_int_equal(a.dtype, LNT_F32);
    assert_memory_equal(a.data, six, sizeof six);
    lnt_array_free(ctx, &a);
    put_npy(1, HEADER("'<i4'", "False", "(2, 3)"), six, sizeof six);
    assert_refused(ctx, lnt_npy_read_mask(ctx, PATH, &a), LNT_ERR_DTYPE, "<i4, must be b1, f2");
    unlink(PATH);
    context_close_tracked(ctx, &t);
}

static void dtype_we_do_not_take_is_named(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    static const char *const cases[][2] = {
        { "'<i8'", "dtype is <i8" },   { "'|u1'", "dtype is |u1" },  { "'<c8'", "dtype is <c8" },
        { "'|O'", "dtype is |O" },     { "'|b1'", "dtype is |b1" },  { "'|f4'", "dtype is |f4" },
        { "'f4'", "dtype is f4" },     { "'<f16'", "dtype is <f16" }, { "''", "dtype is ," },
        { "'<f'", "dtype is <f," },    { "'<f44'", "dtype is <f44" }, { "'<F4'", "dtype is <F4" },
        { "[('a', '<f4')]", "dtype is a structure" }, { "('<f4', (2,))", "dtype is a structure" },
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        char header[128];
        lnt_array a;
        snprintf(header, sizeof header, HEADER("%s", "False", "(1,)"), cases[i][0]);
        put_npy(1, header, six, 4);
        assert_refused(ctx, lnt_npy_read(ctx, PATH, &a), LNT_ERR_DTYPE, cases[i][1]);
        assert_refused(ctx, lnt_npy_read(ctx, PATH, &a), LNT_ERR_DTYPE, "'t.npy'");
        assert_refused(ctx, lnt_npy_read(ctx, PATH, &a), LNT_ERR_DTYPE, "must be f2, f4 or f8");
        assert_null(a.data);
    }
    unlink(PATH);
    lnt_ctx_destroy(ctx);
}

static void header_that_is_not_the_dict_is_refused(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    static const char *const cases[][2] = {
        { "", "expected '{'" },
        { "[]", "expected '{'" },
        { "{}", "each once" },
        { "{'descr': '<f4', 'fortran_order': False}", "each once" },
        { "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "each once" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", "each once" },
        { "{'descr' '<f4'}", "expected ':'" },
        { "{descr: '<f4'}", "expected a string" },
        { "{b'descr': '<f4'}", "expected a string" },
        { "{'descr': '<f4\"}", "does not end" },
        { "{'descr': '<f4", "does not end" },
        { "{'descr': '<\\x664'}", "does not end, or is not plain" },
        { "{'descr': '\xc3\xa9'}", "plain ASCII" },
        { "{'descr': 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'}", "too long" },
        { "{'descr': <f4}", "expected a string" },
        { "{'descr': '<f4' 'fortran_order': False}", "expected ',' or '}'" },
        { "{'descr': '<f4',, 'fortran_order': False}", "expected a string" },
        { "{,}", "expected a string" },
        { HEADER("'<f4'", "false", "(1,)"), "True or False" },
        { HEADER("'<f4'", "0", "(1,)"), "True or False" },
        { HEADER("'<f4'", "Falsehood", "(1,)"), "expected ',' or '}'" },
        { F4("[1]"), "must be a tuple" },
        { F4("1"), "must be a tuple" },
        { F4("(1)"), "written (n,)" },
        { F4("(,)"), "plain number" },
        { F4("(1,,1)"), "plain number" },
        { F4("(-1,)"), "plain number" },
        { F4("(+1,)"), "plain number" },
        { F4("(01,)"), "plain number" },
        { F4("(1.0,)"), "expected ',' or ')'" },
        { F4("(1L,)"), "expected ',' or ')'" },
        { F4("(1_0,)"), "expected ',' or ')'" },
        { F4("(0x1,)"), "expected ',' or ')'" },
        { F4("(1 1)"), "expected ',' or ')'" },
        { F4("((1,),)"), "plain number" },
        { F4("(1, 1"), "plain number" },
        { F4("(1, 1, 1, 1, 1)"), "more than 4 extents" },
        { F4("(9223372036854775808,)"), "does not fit 64 bits" },
        { F4("(99999999999999999999999999,)"), "does not fit 64 bits" },
        { F4("(1,)") "x", "more text after" },
        { F4("(1,)") "{}", "more text after" },
        { F4("(9223372036854775807,)"), "more bytes than memory" },
        { F4("(2305843009213693952,)"), "more bytes than memory" },
        { F4("(4294967296, 4294967296)"), "more bytes than memory" },
        { F4("(0, 4294967296, 4294967296)"), "more bytes than memory" },
    };
    for (int i = 0; i < COUNT_OF(cases); i++)
        for (int version = 1; version <= 3; version++) {
            lnt_array a;
            put_npy(version, cases[i][0], six, 4);
            assert_refused(ctx, lnt_npy_read(ctx, PATH, &a), LNT_ERR_FORMAT, cases[i][1]);
            assert_non_null(strstr(lnt_ctx_error(ctx), "'t.npy'"));
            assert_null(a.data);
        }
    unlink(PATH);
    context_close_tracked(ctx, &t);
}

static void prefix_that_is_not_npy_is_refused(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    static const struct {
        const char *bytes;
        size_t count;
        const char *word;
    } cases[] = {
        { "", 0, "too short" },
        { "\x93NUMPY\x01", 7, "too short" },
        { "\x93NUMPY\x01\0\x04", 9, "too short" },
        { "\x93NUMPY\x02\0\x04\0\0", 11, "too short" },
        { "\x93numpy\x01\0\x02\0{}", 12, "first bytes are wrong" },
        { "PK\x03\x04 a .npz file", 16, "first bytes are wrong" },
        { "\x93NUMPY\0\0\x02\0{}", 12, "version 0.0, must be 1.0, 2.0 or 3.0" },
        { "\x93NUMPY\x04\0\x02\0\0\0{}", 14, "version 4.0" },
        { "\x93NUMPY\x01\x01\x02\0{}", 12, "version 1.1" },
        { "\x93NUMPY\x01\0\x03\0{}", 12, "said to have 3 bytes" },
        { "\x93NUMPY\x01\0\xff\xff{}", 12, "said to have 65535 bytes" },
        { "\x93NUMPY\x02\0\xff\xff\xff\xff{}", 14, "said to have 4294967295 bytes" },
    };
    lnt_array a;
    for (int i = 0; i < COUNT_OF(cases); i++) {
        put_file(PATH, cases[i].bytes, cases[i].count);
        assert_refused(ctx, lnt_npy_read(ctx, PATH, &a), LNT_ERR_FORMAT, cases[i].word);
    }
    put_file(PATH, "\x93NUMPY\x02\0\0\0\x20\0", 12); /* 2 MiB of header, and they are there */
    assert_int_equal(truncate(PATH, 1 << 22), 0);
    assert_refused(ctx, lnt_npy_read(ctx, PATH, &a), LNT_ERR_FORMAT, "1048576 are allowed");
    unlink(PATH);
    context_close_tracked(ctx, &t);
}

static void file_cut_short_or_made_longer_is_refused_at_every_length(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    size_t bytes;
    lnt_array a = { (void *)(uintptr_t)six, LNT_F32, 2, { 2, 3 } };
    assert_ok(ctx, lnt_npy_write(ctx, PATH, &a));
    unsigned char *file = get_file(PATH, &bytes);
    for (size_t n = 0; n < bytes; n++) {
        put_file(PATH, file, n);
        assert_int_equal(lnt_npy_read(ctx, PATH, &a), LNT_ERR_FORMAT);
        assert_null(a.data);
    }
    assert_refused(ctx, LNT_ERR_FORMAT, LNT_ERR_FORMAT, "23 bytes of elements, the shape needs 24");
    put_file(PATH, file, bytes + 1);
    assert_refused(ctx, lnt_npy_read(ctx, PATH, &a), LNT_ERR_FORMAT,
                   "25 bytes of elements, the shape needs 24");
    free(file);
    unlink(PATH);
    context_close_tracked(ctx, &t);
}

static void changed_byte_is_read_or_refused_but_never_worse(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    size_t bytes;
    lnt_array a = { (void *)(uintptr_t)six, LNT_F32, 3, { 1, 2, 3 } };
    assert_ok(ctx, lnt_npy_write(ctx, PATH, &a));
    unsigned char *file = get_file(PATH, &bytes);
    const int fd = open(PATH, O_WRONLY), step = budget(37, 1);
    int read = 0, refused = 0;
    assert_true(fd >= 0);
    for (size_t at = 0; at < bytes; at++)
        for (int mask = 1; mask < 256; mask++) {
            if ((mask & (mask - 1)) && mask != 0xff && mask % step) continue;
            const unsigned char changed = (unsigned char)(file[at] ^ mask);
            assert_int_equal(pwrite(fd, &changed, 1, (off_t)at), 1);
            const lnt_status status = lnt_npy_read(ctx, PATH, &a);
            assert_true(status == LNT_OK || status == LNT_ERR_FORMAT || status == LNT_ERR_DTYPE);
            read += status == LNT_OK;
            refused += status != LNT_OK;
            lnt_array_free(ctx, &a);
            assert_int_equal(pwrite(fd, file + at, 1, (off_t)at), 1);
        }
    assert_true(read > 0 && refused > 0);
    close(fd);
    free(file);
    unlink(PATH);
    context_close_tracked(ctx, &t);
}

static size_t largest_asked;

static void *allocate_little(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    if (bytes > largest_asked) largest_asked = bytes;
    if (bytes >= 1 << 20) return NULL;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void release_little(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(memory);
}

/* The elements would fill memory, so it is the size asked for that shows the 64-bit arithmetic. */
static void sizes_past_four_gigabytes_are_exact(void **state)
{
    (void)state;
    lnt_ctx *ctx;
    lnt_array a;
    const lnt_ctx_options options = { .size = sizeof options,
                                      .allocator = { allocate_little, release_little, NULL },
                                      .threads = 1 };
    assert_int_equal(lnt_ctx_create(&options, &ctx), LNT_OK);
    static const char header[] = F4("(3, 5, 119304647)");
    const int64_t elements = INT64_C(3) * 5 * 119304647, start = 10 + (int64_t)strlen(header);
    put_npy(1, header, "", 0);
    if (truncate(PATH, start + 4 * elements)) { /* sparse; not every file system can */
        unlink(PATH);
        lnt_ctx_destroy(ctx);
        skip_because("no file of 7 GB with a hole can be made here");
    }
    largest_asked = 0;
    assert_int_equal(lnt_npy_read(ctx, PATH, &a), LNT_ERR_MEMORY);
    assert_true(largest_asked == (uint64_t)(4 * elements));
    assert_int_equal(truncate(PATH, start + 4 * elements - (INT64_C(1) << 32)), 0);
    assert_refused(ctx, lnt_npy_read(ctx, PATH, &a), LNT_ERR_FORMAT, "the shape needs 7158278820");
    unlink(PATH);
    lnt_ctx_destroy(ctx);
}

static void want_of_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    put_npy(1, HEADER("'<f4'", "True", "(2, 3)"), six, sizeof six);
    const int64_t before = t.calls;
    lnt_array a = read_ok(ctx);
    lnt_array_free(ctx, &a);
    const int64_t needed = t.calls - before;
    assert_true(needed > 0);
    for (int64_t k = 0; k < needed; k++) {
        t.fail_at = t.calls + k;
        assert_int_equal(lnt_npy_read(ctx, PATH, &a), LNT_ERR_MEMORY);
        assert_null(a.data);
        assert_int_equal(t.live, 1); /* the context */
    }
    unlink(PATH);
    context_close_tracked(ctx, &t);
}

static void file_that_is_not_there_is_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_array a = { .rank = 3 };
    assert_refused(ctx, lnt_npy_read(ctx, "none.npy", &a), LNT_ERR_FILE,
                   "cannot read 'none.npy': No such file or directory");
    assert_int_equal(a.rank, 0);
    assert_refused(ctx, lnt_npy_read(ctx, ".", &a), LNT_ERR_FILE, "Is a directory");
    assert_refused(ctx, lnt_npy_read(ctx, NULL, &a), LNT_ERR_ARGUMENT, "path is NULL");
    assert_refused(ctx, lnt_npy_read(ctx, PATH, NULL), LNT_ERR_ARGUMENT, "out is NULL");
    assert_int_equal(lnt_npy_read(NULL, PATH, &a), LNT_ERR_ARGUMENT);
    lnt_array_free(ctx, NULL);
    lnt_array_free(ctx, &a);
    lnt_ctx_destroy(ctx);
}

static void array_that_is_not_one_is_not_written(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    void *data = (void *)(uintptr_t)six;
    static const lnt_array bad_dtype = { NULL, (lnt_dtype)9, 1, { 0 } };
    assert_refused(ctx, lnt_npy_write(ctx, PATH, &bad_dtype), LNT_ERR_DTYPE, "dtype 9");
    assert_refused(ctx, lnt_npy_write(ctx, PATH, &(lnt_array){ data, LNT_F32, 5, { 1, 1, 1, 1 } }),
                   LNT_ERR_SHAPE, "rank is 5, must be 0 to 4");
    assert_refused(ctx, lnt_npy_write(ctx, PATH, &(lnt_array){ data, LNT_F32, -1, { 0 } }),
                   LNT_ERR_SHAPE, "rank is -1");
    assert_refused(ctx, lnt_npy_write(ctx, PATH, &(lnt_array){ data, LNT_F32, 2, { 1, -3 } }),
                   LNT_ERR_SHAPE, "extent 1 is -3");
    assert_refused(ctx,
                   lnt_npy_write(ctx, PATH, &(lnt_array){ data, LNT_F32, 2, { INT64_MAX, 2 } }),
                   LNT_ERR_SHAPE, "more bytes than memory");
    assert_refused(ctx, lnt_npy_write(ctx, PATH, &(lnt_array){ NULL, LNT_F32, 1, { 1 } }),
                   LNT_ERR_ARGUMENT, "data is NULL");
    assert_refused(ctx, lnt_npy_write(ctx, PATH, NULL), LNT_ERR_ARGUMENT, "array is NULL");
    assert_refused(ctx, lnt_npy_write(ctx, NULL, &bad_dtype), LNT_ERR_ARGUMENT, "path is NULL");
    assert_int_equal(count_files(), 0);
    lnt_ctx_destroy(ctx);
}

/* A limit on the size of files stands for a disk that fills up after the header. */
static void failed_write_leaves_the_previous_file_and_nothing_else(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    static uint16_t many[20000];
    static const lnt_dtype dtypes[] = { LNT_F16, LNT_BF16 };
    struct rlimit before, limit;
    put_file(PATH, "old", 3);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 20000;
    for (int i = 0; i < COUNT_OF(dtypes); i++) {
        void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        const lnt_status status =
            lnt_npy_write(ctx, PATH, &(lnt_array){ many, dtypes[i], 1, { COUNT_OF(many) } });
        setrlimit(RLIMIT_FSIZE, &before);
        signal(SIGXFSZ, handler);
        assert_refused(ctx, status, LNT_ERR_FILE, "cannot write 't.npy': File too large");
        assert_file_holds(PATH, "old", 3);
        assert_int_equal(count_files(), 1);
    }
    assert_refused(ctx, lnt_npy_write(ctx, "/dev/full", &(lnt_array){ many, LNT_F16, 0, { 0 } }),
                   LNT_ERR_FILE, "cannot write '/dev/full': No space left on device");
    unlink(PATH);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_and_dtype_is_read_back),
        cmocka_unit_test(file_is_what_numpy_writes),
        cmocka_unit_test(header_of_the_longest_shape_is_read_back),
        cmocka_unit_test(bf16_is_written_as_f4),
        cmocka_unit_test(every_version_spelling_and_byte_order_is_read),
        cmocka_unit_test(fortran_order_becomes_row_major),
        cmocka_unit_test(fortran_order_of_four_axes_becomes_row_major),
        cmocka_unit_test(booleans_of_a_mask_become_0_and_minus_infinity),
        cmocka_unit_test(dtype_we_do_not_take_is_named),
        cmocka_unit_test(header_that_is_not_the_dict_is_refused),
        cmocka_unit_test(prefix_that_is_not_npy_is_refused),
        cmocka_unit_test(file_cut_short_or_made_longer_is_refused_at_every_length),
        cmocka_unit_test(changed_byte_is_read_or_refused_but_never_worse),
        cmocka_unit_test(sizes_past_four_gigabytes_are_exact),
        cmocka_unit_test(want_of_memory_is_reported_and_nothing_leaks),
        cmocka_unit_test(file_that_is_not_there_is_refused),
        cmocka_unit_test(array_that_is_not_one_is_not_written),
        cmocka_unit_test(failed_write_leaves_the_previous_file_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
