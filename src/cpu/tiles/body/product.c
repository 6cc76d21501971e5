/* cpu/tiles/body/product.c - packs factors into planes of bf16, and multiplies 32 rows by 32 columns.
 *
 * A step of 32 along k is four instructions of 16 x 16 x 32 multiply-adds for each product of two planes; two
 * tiles of either factor are in registers, and of three products two find one factor where the one before
 * left it: 8 loads for 12 instructions. */
#include "cpu/tiles/body/ops.h"

const lnt_tile_kernels *KERNEL(tile_table)(void);

/* `planes` planes of 32 numbers, as rows of tiles that stand a plane apart. */
INLINE void put(uint16_t *to, wide x, int planes, bool pairs)
{
    const narrow first = wide_round(x);
    narrow_store(to, pairs ? narrow_pairs(first) : first);
    if (planes == 1) return;
    const narrow rest = wide_round(wide_rest(x, first));
    narrow_store(to + LNT_TILES_PLANE, pairs ? narrow_pairs(rest) : rest);
}

INLINE void pack_rows(uint16_t *to, const float *x, size_t ldx, size_t rows, size_t depth, int planes)
{
    const size_t side = LNT_TILES_SIDE, step = (size_t)planes * LNT_TILES_PLANE;
    for (size_t r = 0; r < rows; r++) {
        const float *row = x + r * ldx;
        uint16_t *own = to + r * side;
        size_t k = 0;
        for (; k + side <= depth; k += side, own += step)
            put(own, wide_load(row + k, row + k + side / 2), planes, false);
        if (k == depth) continue;
        float last[LNT_TILES_SIDE] = { 0 };
        memcpy(last, row + k, (depth - k) * sizeof *last);
        put(own, wide_load(last, last + side / 2), planes, false);
    }
}

static void pack_left(uint16_t *to, const float *x, size_t ldx, size_t rows, size_t depth, int planes)
{
    const size_t side = LNT_TILES_SIDE;
    if (rows < side) memset(to, 0, (depth + side - 1) / side * (size_t)planes * LNT_TILES_PLANE * sizeof *to);
    if (planes == 1) pack_rows(to, x, ldx, rows, depth, 1);
    else pack_rows(to, x, ldx, rows, depth, 2);
}

/* Rows k and k + 1 of x, which may be the same row of zeros; half by half of the columns. */
INLINE void put_pair(uint16_t *to, const float *even, const float *odd, int planes)
{
    for (int half = 0; half < 2; half++)
        put(to + half * TILE, wide_load(even + 16 * half, odd + 16 * half), planes, true);
}

INLINE void pack_columns(uint16_t *to, const float *x, size_t ldx, size_t depth, int planes)
{
    static const float none[LNT_TILES_SIDE];
    const size_t side = LNT_TILES_SIDE, steps = (depth + side - 1) / side;
    for (size_t k = 0; k < steps * side; k += 2) {
        const float *even = k < depth ? x + k * ldx : none, *odd = k + 1 < depth ? x + (k + 1) * ldx : none;
        uint16_t *step = to + k / side * (size_t)planes * LNT_TILES_PLANE;
        put_pair(step + k % side * side / 2, even, odd, planes);
    }
}

static void pack_right(uint16_t *to, const float *x, size_t ldx, size_t depth, int planes)
{
    if (planes == 1) pack_columns(to, x, ldx, depth, 1);
    else pack_columns(to, x, ldx, depth, 2);
}

/* ---- products -------------------------------------------------------------------------------- */

/* Tiles 0 to 3 are the sums, row by row; 4 and 5 those of the left factor, 6 and 7 of the right. */
#define LOAD_LEFT(from)                       \
    tile_load(&t, 4, from, (size_t)TILE_BYTES); \
    tile_load(&t, 5, (from) + TILE, (size_t)TILE_BYTES)
#define LOAD_RIGHT(from)                      \
    tile_load(&t, 6, from, (size_t)TILE_BYTES); \
    tile_load(&t, 7, (from) + TILE, (size_t)TILE_BYTES)
#define MULTIPLY                 \
    tile_multiply(&t, 0, 4, 6);  \
    tile_multiply(&t, 1, 4, 7);  \
    tile_multiply(&t, 2, 5, 6);  \
    tile_multiply(&t, 3, 5, 7)

static void multiply(float *c, size_t ldc, const uint16_t *left, const uint16_t *right, size_t steps,
                     int left_planes, int right_planes, bool accumulate)
{
    tiles t;
    (void)t;
    float *at[4] = { c, c + 16, c + 16 * ldc, c + 16 * ldc + 16 };
    const size_t stride = ldc * sizeof *c;
    if (accumulate) {
        tile_load(&t, 0, at[0], stride);
        tile_load(&t, 1, at[1], stride);
        tile_load(&t, 2, at[2], stride);
        tile_load(&t, 3, at[3], stride);
    } else {
        tile_zero(&t, 0);
        tile_zero(&t, 1);
        tile_zero(&t, 2);
        tile_zero(&t, 3);
    }
    for (; steps > 0; steps--) {
        LOAD_RIGHT(right);
        if (left_planes == 2) { /* the rests first, which are small */
            LOAD_LEFT(left + LNT_TILES_PLANE);
            MULTIPLY;
        }
        LOAD_LEFT(left);
        MULTIPLY;
        if (right_planes == 2) {
            LOAD_RIGHT(right + LNT_TILES_PLANE);
            MULTIPLY;
        }
        left += left_planes * LNT_TILES_PLANE;
        right += right_planes * LNT_TILES_PLANE;
    }
    tile_store(&t, 0, at[0], stride);
    tile_store(&t, 1, at[1], stride);
    tile_store(&t, 2, at[2], stride);
    tile_store(&t, 3, at[3], stride);
}

static void begin(void) { tile_begin(); }
static void end(void) { tile_end(); }

static double peak(size_t rounds)
{
    uint16_t some[2 * TILE];
    tiles t;
    (void)t;
    for (int i = 0; i < 2 * TILE; i++) some[i] = (uint16_t)(0x3e00 + 97 * i % 0x180 + (i & 1) * 0x8000);
    tile_begin();
    tile_zero(&t, 0);
    tile_zero(&t, 1);
    tile_zero(&t, 2);
    tile_zero(&t, 3);
    __asm__ volatile("" : : "r"(some) : "memory"); /* what reads it does not say so */
    LOAD_LEFT(some);
    LOAD_RIGHT(some);
    for (size_t i = 0; i < rounds; i++) {
        MULTIPLY;
    }
    tile_end();
    return (double)rounds * 4 * 16 * 16 * 32;
}

const lnt_tile_kernels *KERNEL(tile_table)(void)
{
    static const lnt_tile_kernels table = { .pack_left = pack_left, .pack_right = pack_right,
                                            .multiply = multiply, .begin = begin, .end = end,
                                            .peak = peak };
    return &table;
}
