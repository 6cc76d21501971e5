/* convert.c - checks of load_rows, load_columns, store_rows, store_columns: every dtype, strides of
 * every kind, and not one rounding more than the multiplication and the conversion need.
 *
 * The conversions of f16 and bf16 themselves are held against their definition in test_numbers.c;
 * a double goes to them by way of float. */
#include "checks.h"

#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"

static const lnt_dtype dtypes[4] = { LNT_F32, LNT_F16, LNT_BF16, LNT_F64 };

/* ---- a strided tensor ---------------------------------------------------------------------- */

/* Element [i,j] stands at data[i * row_stride + j * col_stride]. */
typedef struct strided {
    lnt_dtype dtype;
    int64_t row_stride, col_stride;
    char *data, *memory;
    size_t size, count; /* bytes of an element; elements in memory */
} strided;

/* The first LOAD_ONLY give every element a place of its own. */
enum { LOAD_ONLY = 7, STRIDE_KINDS = 11 };

static void strides_of_kind(strided *s, size_t kind, int64_t rows, int64_t width)
{
    const int64_t strides[STRIDE_KINDS][2] = {
        { width, 1 },   { width + 3, 1 },      { 1, rows },       { 2 * width + 1, 2 },
        { -width, -1 }, { 3 * width + 2, -3 }, { -width - 2, 1 }, /* and those to load from: */
        { 1, 0 },       { 0, 1 },              { 0, 0 },          { 1, 1 },
    };
    s->row_stride = strides[kind][0];
    s->col_stride = strides[kind][1];
}

/* `behind` elements follow the last one; all is NaN. */
static strided strided_new(lnt_dtype dtype, size_t kind, size_t rows, size_t width, size_t behind)
{
    strided s = { .dtype = dtype, .size = lnt_dtype_size(dtype) };
    strides_of_kind(&s, kind, (int64_t)rows, (int64_t)width);
    int64_t low = 0, high = -1; /* offsets in use */
    if (rows && width) {
        const int64_t down = s.row_stride * (int64_t)(rows - 1);
        const int64_t across = s.col_stride * (int64_t)(width - 1);
        low = (down < 0 ? down : 0) + (across < 0 ? across : 0);
        high = (down > 0 ? down : 0) + (across > 0 ? across : 0);
    }
    const size_t front = 9;
    s.count = front + (size_t)(high - low + 1) + behind;
    s.memory = malloc(s.count * s.size);
    assert_non_null(s.memory);
    memset(s.memory, 0xFF, s.count * s.size);
    s.data = s.memory + ((int64_t)front - low) * (int64_t)s.size;
    return s;
}

static void *element(const strided *s, size_t i, size_t j)
{
    return s->data +
           ((int64_t)i * s->row_stride + (int64_t)j * s->col_stride) * (int64_t)s->size;
}

static real number_at(lnt_dtype dtype, const void *p)
{
    uint16_t half;
    float single;
    double wide;
    switch (dtype) {
    case LNT_F32: memcpy(&single, p, sizeof single); return (real)single;
    case LNT_F64: memcpy(&wide, p, sizeof wide); return (real)wide;
    case LNT_F16: memcpy(&half, p, sizeof half); return (real)lnt_f16_to_float(half);
    case LNT_BF16: memcpy(&half, p, sizeof half); return (real)lnt_bf16_to_float(half);
    }
    return 0;
}

static void put_number(lnt_dtype dtype, void *p, real x)
{
    const float single = (float)x;
    const double wide = (double)x;
    const uint16_t half = lnt_double_to_f16(wide), brain = lnt_double_to_bf16(wide);
    switch (dtype) {
    case LNT_F32: memcpy(p, &single, sizeof single); break;
    case LNT_F64: memcpy(p, &wide, sizeof wide); break;
    case LNT_F16: memcpy(p, &half, sizeof half); break;
    case LNT_BF16: memcpy(p, &brain, sizeof brain); break;
    }
}

/* ---- loading ------------------------------------------------------------------------------- */

/* Any bits at all in every second number: subnormal, infinite, NaN. */
static void fill_source(trial *t, const strided *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const uint64_t bits = dice_next(&t->dice);
        const double wide = dice_normal(&t->dice);
        if (bits >> 63) memcpy(s->memory + i * s->size, &bits, s->size);
        else if (s->dtype == LNT_F64) memcpy(s->memory + i * s->size, &wide, s->size);
        else put_number(s->dtype, s->memory + i * s->size, (real)wide);
    }
}

/* `turned`: dst[j,i] holds element [i,j]. */
static void expect_loaded(const trial *t, const grid *dst, const strided *src, bool turned,
                          size_t rows, size_t width, real scale)
{
    const size_t filled = turned ? rows : width;
    for (size_t i = 0; i < dst->rows; i++)
        for (size_t j = 0; j < dst->ld; j++) {
            const void *from = turned ? element(src, j, i) : element(src, i, j);
            const double want = j < filled ? (double)(scale * number_at(src->dtype, from)) : 0;
            expect_bits(t, "dst", i, j, now(dst, i, j), want);
        }
    expect_untouched(t, "dst", dst, dst->rows, dst->ld);
}

static void load_one(trial *t, bool turned, lnt_dtype dtype, size_t kind, size_t rows, size_t width,
                     real scale)
{
    strided src = strided_new(dtype, kind, rows, width, 0);
    fill_source(t, &src);
    const size_t ld = leading(t, turned ? rows : width);
    grid dst = grid_output(t, turned ? width : rows, ld, ld);
    trial_sizes(t, "%s rows %zu width %zu strides %lld %lld ld %zu scale %g",
                lnt_dtype_name(src.dtype), rows, width, (long long)src.row_stride,
                (long long)src.col_stride, ld, (double)scale);
    (turned ? t->ker->load_columns : t->ker->load_rows)(dst.at, ld, src.data, (int)src.dtype,
                                                        src.row_stride, src.col_stride, rows, width,
                                                        scale);
    expect_loaded(t, &dst, &src, turned, rows, width, scale);
    grid_free(&dst);
    free(src.memory);
}

static void check_load(trial *t, bool turned)
{
    const size_t count = (size_t)budget(STRIDE_KINDS * 4, 2 * 13 * 17);
    const lnt_dtype own = sizeof(real) == sizeof(double) ? LNT_F64 : LNT_F32;
    for (size_t i = 0; i < count; i++)
        load_one(t, turned, TAKE(dtypes, i), i % STRIDE_KINDS, TAKE(any_sizes, i),
                 TAKE(sum_lengths, i), i % 3 ? (real)dice_normal(&t->dice) : 1);
    for (size_t width = 8; width <= 64; width += 8) /* some have code of their own */
        for (size_t kind = 0; kind < 2; kind++)
            load_one(t, turned, own, kind, 5, width, (real)dice_normal(&t->dice));
}

void CHECK(load_rows)(trial *t)
{
    check_load(t, false);
    check_blocks_loaded(t, false);
}

void CHECK(load_columns)(trial *t)
{
    check_load(t, true);
    check_blocks_loaded(t, true);
}

/* ---- storing ------------------------------------------------------------------------------- */

/* Numbers that are hard to round: ties of f16 and of bf16, the ends of their ranges, the rest. */
static real hard_number(dice *d)
{
    static const double ends[] = { 0.0,     -0.0,    (double)INFINITY, -(double)INFINITY,
                                   65504,   65519.9, 65520,            3.39e38,
                                   0x1p-24, 0x1p-25, 0x1.8p-25,        (double)NAN };
    const double f16_odd = (double)(2 * dice_range(d, 1024, 2047) + 1);
    const double bf16_odd = (double)(2 * dice_range(d, 128, 255) + 1);
    const double beside_tie = 1 + ldexp(dice_normal(d), (int)dice_range(d, -52, -20));
    switch (dice_range(d, 0, 6)) {
    case 0: return (real)DICE_PICK(d, ends);
    case 1: return (real)ldexp(f16_odd, (int)dice_range(d, -28, 4));
    case 2: return (real)ldexp(bf16_odd, (int)dice_range(d, -60, 60));
    case 3: return (real)ldexp(dice_normal(d), (int)dice_range(d, -30, 30));
    case 4: return (real)(beside_tie * ldexp(f16_odd, (int)dice_range(d, -28, 4)));
    case 5: return (real)(beside_tie * ldexp(bf16_odd, (int)dice_range(d, -60, 60)));
    default: return (real)dice_normal(d);
    }
}

static void expect_stored(const trial *t, const strided *got, const strided *want, bool targets_nan)
{
    for (size_t i = 0; i < got->count; i++) {
        const char *a = got->memory + i * got->size, *b = want->memory + i * got->size;
        if (memcmp(a, b, got->size) == 0) continue;
        const double x = (double)number_at(got->dtype, a), y = (double)number_at(got->dtype, b);
        if (!(targets_nan && isnan(x) && isnan(y)))
            trial_fail(t, "dst[%td] holds %.17g, not %.17g (NaN: not to be written)",
                       (a - got->data) / (ptrdiff_t)got->size, x, y);
    }
}

/* Fills src, and in want what has to come of it; scale is NULL or a factor per row. */
static void fill_store(trial *t, grid *src, const strided *want, bool turned, size_t rows,
                       size_t width, const real *scale, bool with_nan)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < width; j++) {
            real x = hard_number(&t->dice);
            if (!with_nan && isnan(x)) x = 0;
            src->at[turned ? j * src->ld + i : i * src->ld + j] = x;
            put_number(want->dtype, element(want, i, j), scale ? x * scale[i] : x);
        }
    grid_keep(src);
}

static void check_store(trial *t, bool turned)
{
    const size_t count = (size_t)budget(LOAD_ONLY * 4, 2 * 13 * 17);
    for (size_t i = 0; i < count; i++) {
        const size_t rows = TAKE(any_sizes, i), width = TAKE(sum_lengths, i);
        strided got = strided_new(TAKE(dtypes, i), i % LOAD_ONLY, rows, width, 9);
        strided want = strided_new(TAKE(dtypes, i), i % LOAD_ONLY, rows, width, 9);
        grid src = turned ? grid_input(t, width, rows, leading(t, rows))
                          : grid_input(t, rows, width, leading(t, width));
        grid factors = grid_input(t, 1, rows, rows + 1);
        const real *scale = !turned && i % 3 == 0 ? factors.at : NULL;
        const bool with_nan = i % 5 == 0;
        fill_store(t, &src, &want, turned, rows, width, scale, with_nan);
        trial_sizes(t, "%s rows %zu width %zu strides %lld %lld ld %zu%s",
                    lnt_dtype_name(got.dtype), rows, width, (long long)got.row_stride,
                    (long long)got.col_stride, src.ld, scale ? " scaled" : "");
        if (turned)
            t->ker->store_columns(got.data, (int)got.dtype, got.row_stride, got.col_stride, src.at,
                                  src.ld, rows, width);
        else
            t->ker->store_rows(got.data, (int)got.dtype, got.row_stride, got.col_stride, src.at,
                               src.ld, rows, width, scale);
        expect_stored(t, &got, &want, with_nan);
        expect_untouched(t, "src", &src, 0, 0);
        expect_untouched(t, "scale", &factors, 0, 0);
        free(got.memory), free(want.memory);
        grid_free(&src), grid_free(&factors);
    }
}

void CHECK(store_rows)(trial *t)
{
    check_store(t, false);
    check_blocks_stored(t);
}

void CHECK(store_columns)(trial *t) { check_store(t, true); }
