/* test_weight.c - weights in the formats of files: repacked they are the numbers that storage defines, to the
 * bit, and products with them are those of these numbers, on every instruction set and for any number of
 * threads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "nn/tiles.h"
#include "nn/weight.h"
#include "support.h"

/* Bytes of a block at which f16 scales stand; all others may be anything. */
static const struct {
    int count, at[2];
} halves[LNT_STORAGES] = {
    [LNT_STORAGE_Q8_0] = { 1, { 0 } },      [LNT_STORAGE_Q4_0] = { 1, { 0 } },
    [LNT_STORAGE_Q4_1] = { 2, { 0, 2 } },   [LNT_STORAGE_Q5_0] = { 1, { 0 } },
    [LNT_STORAGE_Q5_1] = { 2, { 0, 2 } },   [LNT_STORAGE_Q2_K] = { 2, { 80, 82 } },
    [LNT_STORAGE_Q3_K] = { 1, { 108 } },    [LNT_STORAGE_Q4_K] = { 2, { 0, 2 } },
    [LNT_STORAGE_Q5_K] = { 2, { 0, 2 } },   [LNT_STORAGE_Q6_K] = { 1, { 208 } },
};

/* Any finite half, or one of the size that models have. */
static uint16_t random_half(dice *d, bool any)
{
    if (!any) return lnt_float_to_f16((float)(0.02 * dice_normal(d)));
    uint16_t h;
    do h = (uint16_t)dice_next(d);
    while ((h & 0x7c00) == 0x7c00);
    return h;
}

static void put_half(unsigned char *at, uint16_t h) { memcpy(at, &h, sizeof h); }

/* [count] numbers of a storage; any: whatever its blocks may hold that is finite, 0 among it. */
static unsigned char *random_data(dice *d, lnt_storage storage, size_t count, bool any)
{
    const size_t size = lnt_storage_bytes(storage), blocks = count / lnt_storage_numbers(storage);
    unsigned char *data = malloc(blocks * size + 1);
    assert_non_null(data);
    for (size_t i = 0; i < blocks * size; i++) data[i] = (unsigned char)dice_next(d);
    for (size_t b = 0; b < blocks; b++) {
        unsigned char *to = data + b * size;
        const float number = ldexpf((float)dice_normal(d), any ? (int)dice_range(d, -60, 60) : 0);
        if (storage == LNT_STORAGE_F32) memcpy(to, &number, sizeof number);
        if (storage == LNT_STORAGE_BF16) put_half(to, lnt_float_to_bf16(number));
        if (storage == LNT_STORAGE_F16) put_half(to, random_half(d, any));
        for (int i = 0; i < halves[storage].count; i++)
            put_half(to + halves[storage].at[i], random_half(d, any));
        if (any && dice_range(d, 0, 9) == 0) memset(to, 0, size);
    }
    return data;
}

/* A matrix of a few parts, and what its numbers are. */
typedef struct matrix {
    lnt_weight_part parts[LNT_WEIGHT_PARTS];
    size_t count, in, out;
    float *want; /* [out,in] */
    unsigned char *data[LNT_WEIGHT_PARTS];
    uint32_t *order[LNT_WEIGHT_PARTS];
} matrix;

static void shuffle(dice *d, uint32_t *order, size_t count)
{
    for (size_t i = 0; i < count; i++) order[i] = (uint32_t)i;
    for (size_t i = count; i > 1; i--) {
        const size_t j = (size_t)dice_range(d, 0, (int64_t)i - 1);
        const uint32_t kept = order[j];
        order[j] = order[i - 1], order[i - 1] = kept;
    }
}

/* data [rows,in] as [in,rows]. */
static void turn(unsigned char *data, size_t rows, size_t in, size_t size)
{
    unsigned char *turned = malloc(rows * in * size + 1);
    assert_non_null(turned);
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < in; k++)
            memcpy(turned + (k * rows + r) * size, data + (r * in + k) * size, size);
    memcpy(data, turned, rows * in * size);
    free(turned);
}

static void add_part(matrix *m, dice *d, lnt_storage storage, size_t rows, bool any)
{
    const size_t p = m->count++;
    unsigned char *data = m->data[p] = random_data(d, storage, rows * m->in, any);
    float *numbers = malloc(rows * m->in * sizeof *numbers + 1);
    uint32_t *order = m->order[p] = malloc(rows * sizeof *order + 1);
    m->want = realloc(m->want, (m->out + rows) * m->in * sizeof *m->want + 1);
    assert_true(numbers && order && m->want);
    lnt_storage_unpack(storage, data, numbers, rows * m->in);
    shuffle(d, order, rows);
    m->parts[p] = (lnt_weight_part){ .storage = storage, .data = data, .rows = rows,
                                     .order = dice_range(d, 0, 1) ? order : NULL };
    for (size_t r = 0; r < rows; r++)
        memcpy(m->want + (m->out + r) * m->in, numbers + (m->parts[p].order ? order[r] : r) * m->in,
               m->in * sizeof *numbers);
    if (lnt_storage_numbers(storage) == 1 && dice_range(d, 0, 1)) {
        m->parts[p].transposed = true;
        turn(data, rows, m->in, lnt_storage_bytes(storage));
    }
    m->out += rows;
    free(numbers);
}

static void matrix_free(matrix *m)
{
    for (size_t p = 0; p < m->count; p++) free(m->data[p]), free(m->order[p]);
    free(m->want);
}

/* A matrix of this storage, and beside it parts of it or of another. */
static matrix random_matrix(dice *d, lnt_storage storage, bool any)
{
    const size_t numbers = lnt_storage_numbers(storage);
    matrix m = { .in = numbers > 1 ? numbers * (size_t)dice_range(d, 1, 600 / (int64_t)numbers)
                                   : (size_t)dice_range(d, 1, 300) };
    for (int64_t p = dice_range(d, 1, LNT_WEIGHT_PARTS); p > 0; p--) {
        lnt_storage own = dice_range(d, 0, 2) ? storage : (lnt_storage)dice_range(d, 0, LNT_STORAGES - 1);
        if (m.in % lnt_storage_numbers(own)) own = storage;
        add_part(&m, d, own, (size_t)dice_range(d, 1, 70), any);
    }
    return m;
}

static lnt_weight open_weight(lnt_ctx *ctx, const matrix *m)
{
    lnt_weight w;
    assert_ok(ctx, lnt_weight_open(ctx, "the matrix", m->parts, m->count, m->in, NULL, &w));
    assert_int_equal(w.in, m->in);
    assert_int_equal(w.out, m->out);
    assert_int_equal(w.bytes, lnt_weight_bytes(m->parts, m->count, m->in));
    return w;
}

/* -0 and 0 are the same number. */
static void expect_number(float got, float want, const char *of, lnt_storage storage, size_t row, size_t k)
{
    if (!(got <= want && got >= want))
        fail_msg("%s, %s: number %zu of row %zu is %g, not %g", lnt_storage_name(storage), of, k, row,
                 (double)got, (double)want);
}

static void repacked_weights_are_the_numbers_that_storage_defines(void **state)
{
    (void)state;
    dice d = { 1 };
    for (int isa = 0; lnt_isa_name(isa); isa++) {
        if (!lnt_isa_available(isa)) continue;
        lnt_ctx *ctx = context_new(2, lnt_isa_name(isa));
        for (int trial = 0; trial < LNT_STORAGES * budget(2, 8); trial++) {
            const lnt_storage storage = (lnt_storage)(trial % LNT_STORAGES);
            matrix m = random_matrix(&d, storage, true);
            lnt_weight w = open_weight(ctx, &m);
            float *row = malloc(m.in * sizeof *row), *some = malloc(m.in * m.out * sizeof *some);
            assert_true(row && some);
            for (size_t i = 0; i < m.out; i++) {
                lnt_weight_row(&w, i, row);
                for (size_t k = 0; k < m.in; k++)
                    expect_number(row[k], m.want[i * m.in + k], "a row", storage, i, k);
            }
            const size_t row0 = (size_t)dice_range(&d, 0, (int64_t)m.out - 1);
            const size_t rows = (size_t)dice_range(&d, 1, (int64_t)(m.out - row0));
            const size_t k0 = 32 * (size_t)dice_range(&d, 0, ((int64_t)m.in - 1) / 32), depth = m.in - k0;
            lnt_weight_unpack(ctx, &w, row0, rows, k0, depth, some, rows);
            for (size_t k = 0; k < depth; k++)
                for (size_t i = 0; i < rows; i++)
                    expect_number(some[k * rows + i], m.want[(row0 + i) * m.in + k0 + k], "unpacked", storage,
                                  row0 + i, k0 + k);
            free(row), free(some);
            lnt_weight_close(ctx, &w);
            matrix_free(&m);
        }
        lnt_ctx_destroy(ctx);
    }
}

/* Row `row` of part `p` of the matrix, as its data have it, in `bytes` bytes. */
static void row_of_data(const matrix *m, size_t p, size_t row, size_t bytes, unsigned char *to)
{
    const lnt_weight_part *part = &m->parts[p];
    const size_t from = part->order ? part->order[row] : row;
    const size_t size = lnt_storage_bytes(part->storage);
    if (!part->transposed) memcpy(to, m->data[p] + from * bytes, bytes);
    for (size_t k = 0; part->transposed && k < m->in; k++)
        memcpy(to + k * size, m->data[p] + (k * part->rows + from) * size, size);
}

static void rows_are_stored_to_the_bytes_of_their_file(void **state)
{
    (void)state;
    dice d = { 7 };
    lnt_ctx *ctx = context_new(2, NULL);
    for (int trial = 0; trial < LNT_STORAGES * budget(3, 12); trial++) {
        matrix m = random_matrix(&d, (lnt_storage)(trial % LNT_STORAGES), true);
        lnt_weight w = open_weight(ctx, &m);
        size_t own = 0, row = 0; /* the part of panels, and its row */
        for (size_t p = 0; p < m.count; p++)
            for (size_t r = 0; r < m.parts[p].rows; r++, row++) {
                if (row == w.parts[own].count) own++, row = 0;
                assert_int_equal(w.parts[own].storage, m.parts[p].storage);
                const size_t bytes = lnt_weight_row_bytes(w.parts[own].storage, m.in);
                unsigned char *want = malloc(bytes), *got = malloc(bytes);
                assert_true(want && got);
                row_of_data(&m, p, r, bytes, want);
                lnt_weight_store(&w, own, row, got);
                if (memcmp(got, want, bytes) != 0)
                    fail_msg("row %zu of %s is stored in other bytes", r,
                             lnt_storage_name(m.parts[p].storage));
                free(want), free(got);
            }
        lnt_weight_close(ctx, &w);
        matrix_free(&m);
    }
    lnt_ctx_destroy(ctx);
}

/* ---- products ------------------------------------------------------------------------------- */

/* most [in] = the largest of each 32 of x. */
static void largest_around(float *most, const float *x, size_t in)
{
    for (size_t k = 0; k < in; k++) most[k] = fabsf(x[k]);
    for (size_t first = 0; first < in; first += 32) {
        float largest = 0;
        for (size_t k = first; k < first + 32 && k < in; k++) largest = fmaxf(largest, most[k]);
        for (size_t k = first; k < first + 32 && k < in; k++) most[k] = largest;
    }
}

/* What products may be off: with activations to 15 bits of the largest of each 32, and by tiles, where both
 * factors are two numbers of bf16. */
static const double LOSS = 3.2e-5, LOSS_OF_TILES = 4.6e-5;

/* Within that, and what rounding in float may take off. */
static void expect_row(const matrix *m, const float *x, const float *y, const float *before, size_t rows,
                       double loss, const char *isa)
{
    float *most = malloc(m->in * sizeof *most);
    assert_non_null(most);
    largest_around(most, x, m->in);
    for (size_t r = 0; r < m->out; r++) {
        const float *w = m->want + r * m->in;
        double want = before ? (double)before[r] : 0, size = 0;
        for (size_t k = 0; k < m->in; k++) {
            want += (double)x[k] * (double)w[k];
            size += (double)most[k] * fabs((double)w[k]);
        }
        const double error = fabs((double)y[r] - want), bound = loss * size + 1e-6 * fabs(want) + 1e-37;
        if (!(error <= bound))
            fail_msg("%s, %s: %zu rows x [%zu,%zu]: element %zu of a row is %g off, may be %g", isa,
                     lnt_storage_name(m->parts[0].storage), rows, m->out, m->in, r, error, bound);
    }
    free(most);
}

static void expect_product(const matrix *m, const float *x, const float *y, const float *before, size_t rows,
                           double loss, const char *isa)
{
    for (size_t i = 0; i < rows; i++)
        expect_row(m, x + i * m->in, y + i * m->out, before ? before + i * m->out : NULL, rows, loss, isa);
}

/* Of all sizes; one row in four is 0, one number in nine. */
static float *random_activations(dice *d, size_t rows, size_t in)
{
    float *x = malloc(rows * in * sizeof *x + 1);
    assert_non_null(x);
    for (size_t i = 0; i < rows; i++) {
        const double size = dice_range(d, 0, 3) ? exp2((double)dice_range(d, -30, 30)) : 0;
        for (size_t k = 0; k < in; k++)
            x[i * in + k] = (float)(dice_range(d, 0, 8) ? size * dice_normal(d) : 0);
    }
    return x;
}

/* Products by panels, as layers have them, and by tiles, emulated. */
typedef enum product_kind { BY_PANELS, BY_LAYERS, BY_TILES, PRODUCT_KINDS } product_kind;

const lnt_tile_kernels *lnt_emulated_tile_table(void);

static void multiply(product_kind kind, lnt_ctx *ctx, const lnt_weight *w, const float *x, float *y,
                     size_t rows, bool accumulate)
{
    const lnt_matrix left = nn_rows(x, w->in), right = { .packed = w };
    const lnt_tile_kernels *emulated = lnt_emulated_tile_table();
    switch (kind) {
    case BY_PANELS: lnt_weight_multiply(ctx, w, x, w->in, y, w->out, rows, accumulate); break;
    case BY_LAYERS: lnt_product(ctx, y, w->out, left, right, rows, w->out, w->in, accumulate); break;
    case BY_TILES:
        lnt_tiles_multiply(ctx, emulated, y, w->out, left, right, rows, w->out, w->in, accumulate, true);
        break;
    case PRODUCT_KINDS: break;
    }
}

static void try_product(lnt_ctx *const ctx[2], dice *d, lnt_storage storage, size_t rows, product_kind kind)
{
    matrix m = random_matrix(d, storage, false);
    const bool accumulate = dice_range(d, 0, 1);
    float *x = random_activations(d, rows, m.in), *before = random_activations(d, rows, m.out);
    float *y[2];
    for (int c = 0; c < 2; c++) {
        lnt_weight w = open_weight(ctx[c], &m);
        y[c] = malloc(rows * m.out * sizeof **y);
        assert_non_null(y[c]);
        memcpy(y[c], before, rows * m.out * sizeof **y);
        multiply(kind, ctx[c], &w, x, y[c], rows, accumulate);
        lnt_weight_close(ctx[c], &w);
    }
    if (memcmp(y[0], y[1], rows * m.out * sizeof **y))
        fail_msg("%s: the bits depend on the number of threads", lnt_storage_name(storage));
    const double loss = kind == BY_PANELS ? LOSS : LOSS_OF_TILES; /* layers take either way */
    expect_product(&m, x, y[0], accumulate ? before : NULL, rows, loss, lnt_ctx_isa(ctx[0]));
    free(x), free(before), free(y[0]), free(y[1]);
    matrix_free(&m);
}

static void products_are_those_of_the_numbers(void **state)
{
    (void)state;
    dice d = { 2 };
    for (int isa = 0; lnt_isa_name(isa); isa++) {
        if (!lnt_isa_available(isa)) continue;
        lnt_ctx *const ctx[] = { context_new(1, lnt_isa_name(isa)), context_new(3, lnt_isa_name(isa)) };
        for (int storage = 0; storage < LNT_STORAGES; storage++)
            for (size_t rows = 1; rows <= 40; rows += rows < 9 ? 1 : 31)
                for (int i = 0; i < budget(1, 2); i++)
                    try_product(ctx, &d, (lnt_storage)storage, rows, BY_PANELS);
        for (int i = 0; i < LNT_STORAGES * budget(1, 4); i++)
            try_product(ctx, &d, (lnt_storage)(i % LNT_STORAGES), (size_t)dice_range(&d, 1, 150), BY_LAYERS);
        lnt_ctx_destroy(ctx[0]);
        lnt_ctx_destroy(ctx[1]);
    }
}

/* On a CPU that has none as well. */
static void products_by_tiles_are_those_of_the_numbers(void **state)
{
    (void)state;
    dice d = { 6 };
    lnt_ctx *const ctx[] = { context_new(1, NULL), context_new(3, NULL) };
    for (int i = 0; i < LNT_STORAGES * budget(3, 20); i++)
        try_product(ctx, &d, (lnt_storage)(i % LNT_STORAGES), (size_t)dice_range(&d, 1, 100), BY_TILES);
    lnt_ctx_destroy(ctx[0]);
    lnt_ctx_destroy(ctx[1]);
}

/* Any bits at all, and half of the time those of numbers like others. */
static void random_bits(dice *d, float *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)dice_next(d);
        memcpy(x + i, &bits, sizeof bits);
        if (bits & 1) x[i] = (float)dice_normal(d);
    }
}

/* Both, or the same bits. */
static void expect_same(const float *a, const float *b, size_t count, const char *of)
{
    for (size_t i = 0; i < count; i++)
        if (!(isnan(a[i]) && isnan(b[i])) && memcmp(a + i, b + i, sizeof *a))
            fail_msg("%s: number %zu is %a, emulated %a", of, i, (double)a[i], (double)b[i]);
}

static void tiles_of_this_cpu_give_the_bits_of_the_emulation(void **state)
{
    (void)state;
    enum { ROWS = 29, DEPTH = 83, STEPS = 3 };
    static float x[ROWS * DEPTH], y[DEPTH * 32], c[2][32 * 32];
    static uint16_t left[2][STEPS * 2 * LNT_TILES_PLANE], right[2][STEPS * 2 * LNT_TILES_PLANE];
    dice d = { 7 };
    int amx = 0;
    while (lnt_isa_name(amx) && strcmp(lnt_isa_name(amx), "amx") != 0) amx++;
    if (!lnt_isa_name(amx) || !lnt_isa_available(amx))
        skip_because("this CPU has no registers for tiles (AMX)");
    const lnt_tile_kernels *const ker[] = { lnt_tile_kernels_get(amx), lnt_emulated_tile_table() };
    assert_non_null(ker[0]);
    for (int trial = 0; trial < 400; trial++) {
        const int planes[] = { trial % 4 ? 2 : 1, trial % 4 > 1 ? 2 : 1 };
        random_bits(&d, x, COUNT_OF(x));
        random_bits(&d, y, COUNT_OF(y));
        for (size_t i = 0; i < COUNT_OF(x) && trial & 8; i++) x[i] = (float)dice_normal(&d); /* all finite */
        for (size_t i = 0; i < COUNT_OF(y) && trial & 8; i++) y[i] = (float)dice_normal(&d);
        for (int i = 0; i < 1024; i++) c[0][i] = c[1][i] = (float)dice_normal(&d);
        for (int k = 0; k < 2; k++) {
            ker[k]->pack_left(left[k], x, DEPTH, ROWS, DEPTH, planes[0]);
            ker[k]->pack_right(right[k], y, 32, DEPTH, planes[1]);
        }
        const size_t plane = STEPS * LNT_TILES_PLANE * sizeof **left;
        assert_int_equal(memcmp(left[0], left[1], (size_t)planes[0] * plane), 0);
        assert_int_equal(memcmp(right[0], right[1], (size_t)planes[1] * plane), 0);
        for (int k = 0; k < 2; k++) {
            ker[k]->begin();
            ker[k]->multiply(c[k], 32, left[k], right[k], STEPS, planes[0], planes[1], trial & 16);
            ker[k]->end();
        }
        expect_same(c[0], c[1], 1024, "a product");
    }
}

/* Longer than the activations that are rounded at once. */
static void long_rows_are_multiplied_in_parts(void **state)
{
    (void)state;
    dice d = { 3 };
    lnt_ctx *ctx = context_new(2, NULL);
    matrix m = { .in = 33 * 1024 };
    add_part(&m, &d, LNT_STORAGE_Q4_K, 5, false);
    add_part(&m, &d, LNT_STORAGE_BF16, 3, false);
    lnt_weight w = open_weight(ctx, &m);
    float *x = random_activations(&d, 3, m.in), y[3 * 8];
    lnt_weight_multiply(ctx, &w, x, m.in, y, m.out, 3, false);
    expect_product(&m, x, y, NULL, 3, LOSS, "the best");
    free(x);
    lnt_weight_close(ctx, &w);
    matrix_free(&m);
    lnt_ctx_destroy(ctx);
}

/* What is not finite among activations is so in all that its row gives, and in nothing else. */
static void what_is_not_finite_stays_in_its_row(void **state)
{
    (void)state;
    dice d = { 4 };
    static const lnt_storage storages[] = { LNT_STORAGE_Q4_0, LNT_STORAGE_Q6_K, LNT_STORAGE_F16 };
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    for (int isa = 0; lnt_isa_name(isa); isa++) {
        if (!lnt_isa_available(isa)) continue;
        lnt_ctx *ctx = context_new(1, lnt_isa_name(isa));
        for (int i = 0; i < COUNT_OF(storages); i++)
            for (int which = 0; which < COUNT_OF(bad) * PRODUCT_KINDS; which++) {
                matrix m = { .in = 512 };
                add_part(&m, &d, storages[i], 20, false);
                lnt_weight w = open_weight(ctx, &m);
                float *x = random_activations(&d, 3, m.in), y[3 * 20];
                x[m.in + (size_t)dice_range(&d, 0, 511)] = bad[which / PRODUCT_KINDS];
                multiply((product_kind)(which % PRODUCT_KINDS), ctx, &w, x, y, 3, false);
                for (int r = 0; r < 60; r++)
                    if (isfinite(y[r]) == (r / 20 == 1))
                        fail_msg("%s, %s: element %d is %g", lnt_isa_name(isa),
                                 lnt_storage_name(storages[i]), r, (double)y[r]);
                free(x);
                lnt_weight_close(ctx, &w);
                matrix_free(&m);
            }
        lnt_ctx_destroy(ctx);
    }
}

static void rows_that_are_no_whole_blocks_are_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    const lnt_weight_part part = { .storage = LNT_STORAGE_Q4_K, .data = "", .rows = 1 };
    lnt_weight w;
    assert_refused(ctx, lnt_weight_open(ctx, "blk.0.ffn_up", &part, 1, 288, NULL, &w), LNT_ERR_FORMAT,
                   "blk.0.ffn_up: rows of 288 numbers are not whole blocks of q4_k, which have 256");
    const lnt_weight_part vast = { .storage = LNT_STORAGE_F32, .data = "", .rows = SIZE_MAX / 128 };
    assert_refused(ctx, lnt_weight_open(ctx, "it", &vast, 1, (size_t)1 << 40, NULL, &w), LNT_ERR_MEMORY,
                   "it alone exceeds");
    assert_true(lnt_weight_bytes(&vast, 1, (size_t)1 << 40) == SIZE_MAX);
    lnt_ctx_destroy(ctx);
}

static void memory_is_asked_for_once_and_given_back(void **state)
{
    (void)state;
    dice d = { 5 };
    matrix m = { .in = 256 };
    add_part(&m, &d, LNT_STORAGE_Q4_1, 40, false);
    add_part(&m, &d, LNT_STORAGE_Q6_K, 10, false);
    tracker t = { .fail_at = -1 };
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    const int64_t calls = t.calls;
    lnt_weight w = open_weight(ctx, &m);
    assert_int_equal(t.calls, calls + 1);
    lnt_weight_close(ctx, &w);
    t.fail_at = t.calls;
    assert_refused(ctx, lnt_weight_open(ctx, "the matrix", m.parts, 2, m.in, NULL, &w), LNT_ERR_MEMORY,
                   "the matrix");
    t.fail_at = -1;
    context_close_tracked(ctx, &t);
    matrix_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repacked_weights_are_the_numbers_that_storage_defines),
        cmocka_unit_test(rows_are_stored_to_the_bytes_of_their_file),
        cmocka_unit_test(products_are_those_of_the_numbers),
        cmocka_unit_test(products_by_tiles_are_those_of_the_numbers),
        cmocka_unit_test(tiles_of_this_cpu_give_the_bits_of_the_emulation),
        cmocka_unit_test(long_rows_are_multiplied_in_parts),
        cmocka_unit_test(what_is_not_finite_stays_in_its_row),
        cmocka_unit_test(rows_that_are_no_whole_blocks_are_refused),
        cmocka_unit_test(memory_is_asked_for_once_and_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
