/* checks.h - what the checks of the micro-kernels share: matrices in memory that tells what was
 * touched, sizes that fall on and beside the edges of tiles, and bounds on rounding.
 *
 * Everything in this folder is compiled twice, for float and (LNT_DOUBLE) for double. */
#ifndef LNT_TESTS_KERNEL_CHECKS_H
#define LNT_TESTS_KERNEL_CHECKS_H

#include <float.h>
#include <math.h>

#include "../../support/support.h"
#include "cpu/kernels.h"

typedef LNT_REAL_NAME(lnt_kernels) kernels;

#ifdef LNT_DOUBLE
#define REAL_EPSILON DBL_EPSILON
#define REAL_MAX DBL_MAX
#else
#define REAL_EPSILON ((double)FLT_EPSILON)
#define REAL_MAX FLT_MAX
#endif

/* One kernel on one ISA, and the sizes it is being tried on. */
typedef struct trial {
    const kernels *ker;
    const char *kernel, *isa;
    dice dice;
    char sizes[160];
} trial;

/* The check of a kernel: it computes what kernels.def says of it and touches nothing else. */
#define CHECK(name) LNT_REAL_NAME(check_##name)
#define K(name, result, arguments) void CHECK(name)(trial *t);
#include "cpu/kernels.def"
#undef K

/* What these files share has a name of its own for each real type. */
#define trial_sizes LNT_REAL_NAME(trial_sizes)
#define trial_fail LNT_REAL_NAME(trial_fail)
#define grid_input LNT_REAL_NAME(grid_input)
#define grid_output LNT_REAL_NAME(grid_output)
#define grid_inout LNT_REAL_NAME(grid_inout)
#define grid_keep LNT_REAL_NAME(grid_keep)
#define grid_free LNT_REAL_NAME(grid_free)
#define grid_bf16 LNT_REAL_NAME(grid_bf16)
#define expect_untouched LNT_REAL_NAME(expect_untouched)
#define expect_near LNT_REAL_NAME(expect_near)
#define expect_bits LNT_REAL_NAME(expect_bits)
#define expect_exp LNT_REAL_NAME(expect_exp)
#define sum_bound LNT_REAL_NAME(sum_bound)
#define check_blocks_loaded LNT_REAL_NAME(check_blocks_loaded)
#define check_blocks_stored LNT_REAL_NAME(check_blocks_stored)

/* Those of the blocks of a cache, parts of the checks of load_rows and load_columns, and of store_rows. */
void check_blocks_loaded(trial *t, bool turned);
void check_blocks_stored(trial *t);

__attribute__((format(printf, 2, 3))) void trial_sizes(trial *t, const char *format, ...);
/* Prints the kernel, the ISA, the real type, the sizes and the sentence, and fails the test. */
__attribute__((format(printf, 2, 3), noreturn)) void trial_fail(const trial *t, const char *format,
                                                                ...);

/* ---- sizes --------------------------------------------------------------------------------- */

/* On and one off the edges of tiles, for a count of any size, a padded one in vectors, and the
 * length of a sum.  Their lengths are different primes: a walk that takes element i of each meets
 * every pair. */
static const size_t any_sizes[17] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 16, 17, 24, 33 };
static const size_t vector_counts[11] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 17 };
static const size_t sum_lengths[13] = { 0, 1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 64, 67 };
#define TAKE(list, i) ((list)[(i) % COUNT_OF(list)])

/* cols, or more: the leading dimension of a matrix of so many columns. */
static inline size_t leading(trial *t, size_t cols)
{
    const size_t spare = (size_t)dice_range(&t->dice, 0, 3) * (size_t)dice_range(&t->dice, 0, 7);
    return cols + spare ? cols + spare : 1;
}

/* ---- matrices ------------------------------------------------------------------------------ */

/* [rows, cols] at any alignment.  Before an input and between its rows stand NaN, and it ends with
 * its last number: a read past it shows, in the result or to a memory checker.  Around an output,
 * behind it too, stand numbers: arithmetic would leave a NaN as it was. */
typedef struct grid {
    real *at;
    size_t rows, cols, ld;
    real *memory, *before; /* before: as of grid_keep */
    size_t count;
} grid;

grid grid_input(trial *t, size_t rows, size_t cols, size_t ld); /* normally distributed */
grid grid_output(trial *t, size_t rows, size_t cols, size_t ld); /* NaN, to be written over */
grid grid_inout(trial *t, size_t rows, size_t cols, size_t ld); /* an output with numbers in it */
void grid_keep(grid *g); /* takes what is there now as what was there before; new grids are kept */
void grid_free(grid *g);
/* Rounds an input to numbers that bf16 has, and gives them as such, from g->at on; to be freed. */
uint16_t *grid_bf16(grid *g);

static inline double now(const grid *g, size_t i, size_t j)
{
    return (double)g->at[i * g->ld + j];
}
static inline double was(const grid *g, size_t i, size_t j)
{
    return (double)g->before[(size_t)(g->at - g->memory) + i * g->ld + j];
}

/* ---- expectations -------------------------------------------------------------------------- */

/* Outside its first rows and cols the grid has the bits it had. */
void expect_untouched(const trial *t, const char *what, const grid *g, size_t rows, size_t cols);
/* |got - want| <= bound; i, j say where. */
void expect_near(const trial *t, const char *what, size_t i, size_t j, double got, double want,
                 double bound);
/* The same number, the sign of zero included; NaN for NaN. */
void expect_bits(const trial *t, const char *what, size_t i, size_t j, double got, double want);
/* got is e^x within 2 units in its last place; 0 is right where e^x is about the smallest normal
 * number or less. */
void expect_exp(const trial *t, const char *what, size_t i, size_t j, real got, real x);

/* For a sum of so many products whose magnitudes add up to `magnitude`.  Each rounding is off by at
 * most half an epsilon of that, and their signs are random; the numbers 4 leave room for both the
 * kernel's order and ours, and for terms that are themselves off by 2 units. */
double sum_bound(size_t terms, double magnitude);

#endif
