/* cpu/tiles/tiles.h - products of bf16 numbers, whose sums are of f32, by an instruction set's registers for
 * tiles (AMX): 16 rows of 32 numbers times 32 rows of 16.
 *
 * A number of f32 is one plane of bf16, or two: what it rounds to, and what the rest rounds to.  Of two
 * factors in two planes each the three products are summed in which no rest meets a rest: what is off is
 * 3/65536 of a product at the most, a fifth of that as a rule.  Numbers under 2^-126 count as 0, as the
 * instructions have it; those that round to infinity, from 0x1.ffp127 on, count as such.
 *
 *     left    for each 32 of k: plane by plane [32 rows][32], as two tiles of 16 rows
 *     right   for each 32 of k: plane by plane [16 pairs of k][16 columns][2], for each 16 of 32 columns */
#ifndef LNT_CPU_TILES_TILES_H
#define LNT_CPU_TILES_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LNT_TILES_SIDE = 32,                                 /* rows, columns and depth of a step */
    LNT_TILES_PLANE = LNT_TILES_SIDE * LNT_TILES_SIDE    /* numbers of a plane of a step */
};

typedef struct lnt_tile_kernels {
    /* to [steps][planes], left, from x [rows,depth], rows ldx apart; rows is 1 to 32.  What is past either is
     * 0. */
    void (*pack_left)(uint16_t *to, const float *x, size_t ldx, size_t rows, size_t depth, int planes);
    /* to [steps][planes], right, from x [depth,32], rows ldx apart. */
    void (*pack_right)(uint16_t *to, const float *x, size_t ldx, size_t depth, int planes);
    /* c [32,32], rows ldc apart, = left right, added to c if `accumulate`.  planes: 1 and 1, 2 and 1, or 2
     * and 2. */
    void (*multiply)(float *c, size_t ldc, const uint16_t *left, const uint16_t *right, size_t steps,
                     int left_planes, int right_planes, bool accumulate);
    /* All that a thread multiplies stands between the two. */
    void (*begin)(void);
    void (*end)(void);
    /* Multiply-adds of so many rounds, for the peak: a round is four instructions on one core. */
    double (*peak)(size_t rounds);
} lnt_tile_kernels;

/* By the index of core/isa.h; NULL: it has no such registers, or the system does not let this process use
 * them, which it is asked each time: what a thread saves of its registers grows by 8 KB. */
const lnt_tile_kernels *lnt_tile_kernels_get(int isa);

#endif
