/* cache.c - checks of cache_scores and cache_sum: a few queries against rows of any kind that a cache has;
 * and of the blocks of q8 as load_rows, load_columns and store_rows have them. */
#include <stdlib.h>
#include <string.h>

#include "checks.h"
#include "core/dtype.h"

static const int kinds[4] = { (int)LNT_REAL_DTYPE, LNT_F16, LNT_BF16, LNT_Q8 };

static size_t blocks_of(size_t width) { return (width + LNT_Q8_NUMBERS - 1) / LNT_Q8_NUMBERS; }

static size_t row_words(int kind, size_t width)
{
    return kind == LNT_Q8 ? blocks_of(width) * LNT_Q8_WORDS : width;
}

/* Number j of a row. */
static real number_of(int kind, const void *row, size_t j)
{
    const lnt_q8_block *part = (const lnt_q8_block *)row + j / LNT_Q8_NUMBERS;
    switch (kind) {
    case LNT_F16: return (real)lnt_f16_to_float(((const uint16_t *)row)[j]);
    case LNT_BF16: return (real)lnt_bf16_to_float(((const uint16_t *)row)[j]);
    case LNT_Q8: return (real)part->number[j % LNT_Q8_NUMBERS] * (real)lnt_bf16_to_float(part->scale);
    default: return ((const real *)row)[j];
    }
}

/* [rows, width] random numbers in memory that ends with them. */
typedef struct narrow {
    int kind;
    size_t rows, width, size;
    int64_t stride;
    char *memory, *at;
} narrow;

static narrow narrow_new(trial *t, int kind, size_t rows, size_t width)
{
    narrow x = { .kind = kind, .rows = rows, .width = width };
    const size_t words = row_words(kind, width);
    x.size = kind == LNT_REAL_DTYPE ? sizeof(real) : 2;
    x.stride = (int64_t)words + (dice_range(&t->dice, 0, 2) ? 0 : dice_range(&t->dice, 1, 9));
    const size_t all = rows ? (size_t)x.stride * (rows - 1) + words : 0;
    x.memory = x.at = malloc(all ? all * x.size : 1);
    assert_non_null(x.memory);
    memset(x.memory, 0xFF, all * x.size);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < words; j++) {
            char *to = x.at + ((int64_t)i * x.stride + (int64_t)j) * (int64_t)x.size;
            const real number = (real)dice_normal(&t->dice);
            const uint16_t scale = lnt_float_to_bf16((float)(fabs((double)number) / 127));
            uint16_t word = kind == LNT_F16    ? lnt_float_to_f16((float)number)
                            : kind == LNT_BF16 ? lnt_float_to_bf16((float)number)
                                               : (uint16_t)dice_next(&t->dice);
            if (kind == LNT_Q8 && j % LNT_Q8_WORDS == 0) word = scale;
            if (kind == LNT_REAL_DTYPE) memcpy(to, &number, sizeof number);
            else memcpy(to, &word, sizeof word);
        }
    return x;
}

static double narrow_at(const narrow *x, size_t i, size_t j)
{
    return (double)number_of(x->kind, x->at + (int64_t)i * x->stride * (int64_t)x->size, j);
}

/* What stands behind the width of the last block counts for nothing: a row is filled up with 0. */
static void fill_up(const narrow *x)
{
    for (size_t i = 0; i < x->rows && x->kind == LNT_Q8; i++) {
        lnt_q8_block *row = (lnt_q8_block *)(void *)(x->at + (int64_t)i * x->stride * 2);
        for (size_t j = x->width; j < blocks_of(x->width) * LNT_Q8_NUMBERS; j++)
            row[j / LNT_Q8_NUMBERS].number[j % LNT_Q8_NUMBERS] = 0;
    }
}

static const size_t head_counts[] = { 0, 1, 2, 3, 4, 5, 8, 11 };
static const size_t key_counts[] = { 1, 2, 3, 7, 15, 16, 17, 33, 40, 5, 0, 64, 31 };
static const size_t widths[] = { 1, 3, 8, 11, 16, 24, 31, 32, 33, 48, 64, 67, 80, 96, 128, 7, 15 };

void CHECK(cache_scores)(trial *t)
{
    const size_t count = (size_t)budget(4 * COUNT_OF(widths), 4 * 13 * 17);
    for (size_t i = 0; i < count; i++) {
        const size_t heads = TAKE(head_counts, i), keys = TAKE(key_counts, i), width = TAKE(widths, i);
        const size_t padded = lnt_round_up(keys, t->ker->lanes), wide = lnt_round_up(width, LNT_Q8_NUMBERS);
        narrow k = narrow_new(t, TAKE(kinds, i), keys, width);
        grid q = grid_input(t, heads, wide, leading(t, wide));
        grid s = grid_output(t, heads, padded, leading(t, padded));
        for (size_t h = 0; h < heads; h++)
            for (size_t j = width; j < wide; j++) q.at[h * q.ld + j] = 0;
        grid_keep(&q);
        trial_sizes(t, "kind %d heads %zu keys %zu width %zu stride %lld", k.kind, heads, keys, width,
                    (long long)k.stride);
        t->ker->cache_scores(s.at, s.ld, q.at, q.ld, heads, k.at, k.kind, k.stride, keys, width);
        for (size_t h = 0; h < heads; h++)
            for (size_t r = 0; r < keys; r++) {
                double sum = 0, magnitude = 0;
                for (size_t j = 0; j < width; j++) {
                    sum += was(&q, h, j) * narrow_at(&k, r, j);
                    magnitude += fabs(was(&q, h, j) * narrow_at(&k, r, j));
                }
                expect_near(t, "s", h, r, now(&s, h, r), sum, sum_bound(width, magnitude));
            }
        expect_untouched(t, "s", &s, heads, padded);
        expect_untouched(t, "q", &q, 0, 0);
        grid_free(&q), grid_free(&s), free(k.memory);
    }
}

void CHECK(cache_sum)(trial *t)
{
    const size_t count = (size_t)budget(4 * COUNT_OF(widths), 4 * 13 * 17);
    for (size_t i = 0; i < count; i++) {
        const size_t heads = TAKE(head_counts, i), keys = TAKE(key_counts, i), width = TAKE(widths, i);
        const size_t padded = lnt_round_up(width, t->ker->lanes);
        narrow v = narrow_new(t, TAKE(kinds, i), keys, width);
        fill_up(&v);
        grid w = grid_input(t, heads, keys, leading(t, keys));
        grid o = grid_inout(t, heads, padded, leading(t, padded));
        trial_sizes(t, "kind %d heads %zu keys %zu width %zu stride %lld", v.kind, heads, keys, width,
                    (long long)v.stride);
        t->ker->cache_sum(o.at, o.ld, w.at, w.ld, heads, v.at, v.kind, v.stride, keys, width);
        for (size_t h = 0; h < heads; h++)
            for (size_t j = 0; j < width; j++) {
                double sum = was(&o, h, j), magnitude = fabs(sum);
                for (size_t r = 0; r < keys; r++) {
                    sum += was(&w, h, r) * narrow_at(&v, r, j);
                    magnitude += fabs(was(&w, h, r) * narrow_at(&v, r, j));
                }
                expect_near(t, "o", h, j, now(&o, h, j), sum, sum_bound(keys, magnitude));
            }
        expect_untouched(t, "o", &o, heads, padded);
        expect_untouched(t, "w", &w, 0, 0);
        grid_free(&w), grid_free(&o), free(v.memory);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

void check_blocks_loaded(trial *t, bool turned)
{
    for (int i = 0; i < COUNT_OF(key_counts) * COUNT_OF(widths); i += budget(7, 1)) {
        const size_t rows = TAKE(key_counts, (size_t)i), width = TAKE(widths, (size_t)i);
        const size_t ld = leading(t, turned ? rows : width), high = turned ? width : rows;
        const real scale = i % 3 ? (real)dice_normal(&t->dice) : 1;
        narrow x = narrow_new(t, LNT_Q8, rows, width);
        grid dst = grid_output(t, high, ld, ld);
        trial_sizes(t, "q8 rows %zu width %zu ld %zu scale %g", rows, width, ld, (double)scale);
        (turned ? t->ker->load_columns : t->ker->load_rows)(dst.at, ld, x.at, LNT_Q8, x.stride, 1, rows,
                                                            width, scale);
        for (size_t a = 0; a < high; a++)
            for (size_t b = 0; b < ld; b++) {
                const real number = b >= (turned ? rows : width) ? 0
                                    : (real)narrow_at(&x, turned ? b : a, turned ? a : b) * scale;
                expect_bits(t, "dst", a, b, now(&dst, a, b), (double)number);
            }
        expect_untouched(t, "dst", &dst, high, ld);
        grid_free(&dst), free(x.memory);
    }
}

/* A block of these `count` numbers, or fewer than a block has: each is the nearest multiple of the step,
 * which is no more than it need be. */
static void expect_block(const trial *t, const lnt_q8_block *got, const real *x, size_t left, size_t i)
{
    const size_t count = left < LNT_Q8_NUMBERS ? left : LNT_Q8_NUMBERS;
    double most = 0;
    bool finite = true;
    for (size_t j = 0; j < count; j++) {
        finite &= isfinite((float)x[j]) != 0;
        most = fabs((double)x[j]) > most ? fabs((double)x[j]) : most;
    }
    const double step = (double)lnt_bf16_to_float(got->scale);
    if (!finite != (isnan(step) != 0)) trial_fail(t, "block %zu: a step of %g", i, step);
    if (!finite) return;
    const double least = 0x1p-133, nothing = 0x1p-149; /* the smallest numbers of bf16 and f32 */
    if (!(127 * (step + nothing) >= most * (1 - 1e-7) && step <= most / 127 * (1 + 0x1p-7) + least))
        trial_fail(t, "block %zu: a step of %g for numbers up to %g", i, step, most);
    for (size_t j = 0; j < LNT_Q8_NUMBERS; j++)
        expect_near(t, "block", i, j, got->number[j] * step, j < count ? (double)x[j] : 0,
                    j < count ? step * (0.5 + 1e-5) + 127 * nothing : 0);
}

void check_blocks_stored(trial *t)
{
    static const double sizes[] = { 1, 1e-3, 1e4, 1e38, 1e-38, 1e-42, 0 };
    for (int i = 0; i < COUNT_OF(key_counts) * COUNT_OF(widths); i += budget(7, 1)) {
        const size_t rows = TAKE(key_counts, (size_t)i), width = TAKE(widths, (size_t)i);
        const int64_t stride = (int64_t)blocks_of(width) * LNT_Q8_WORDS + i % 3;
        const size_t words = rows ? (size_t)stride * rows : 0;
        grid src = grid_input(t, rows, width, leading(t, width)), factors = grid_input(t, 1, rows, rows + 1);
        const real *scale = i % 2 ? factors.at : NULL;
        for (size_t r = 0; r < rows; r++)
            for (size_t j = 0; j < width; j++) src.at[r * src.ld + j] *= (real)sizes[(r + (size_t)i) % 7];
        if (rows && i % 4 == 0) src.at[width / 2] = i % 8 ? (real)INFINITY : (real)NAN;
        grid_keep(&src);
        uint16_t *got = malloc(words ? 2 * words : 1);
        assert_non_null(got);
        memset(got, 0xA5, 2 * words);
        trial_sizes(t, "q8 rows %zu width %zu stride %lld%s", rows, width, (long long)stride,
                    scale ? " scaled" : "");
        t->ker->store_rows(got, LNT_Q8, stride, 1, src.at, src.ld, rows, width, scale);
        for (size_t r = 0; r < rows; r++) {
            for (size_t j = 0; j < width; j++) src.at[r * src.ld + j] *= scale ? scale[r] : 1;
            for (size_t b = 0; b < blocks_of(width); b++)
                expect_block(t, (const lnt_q8_block *)(const void *)(got + (int64_t)r * stride) + b,
                             src.at + r * src.ld + b * LNT_Q8_NUMBERS, width - b * LNT_Q8_NUMBERS, b);
            for (int64_t j = (int64_t)blocks_of(width) * LNT_Q8_WORDS; j < stride; j++)
                assert_int_equal(got[(int64_t)r * stride + j], 0xA5A5);
        }
        grid_free(&src), grid_free(&factors), free(got);
    }
}
