/* cuda/pairs/pairs_basis.h - the monomials of d = 32, P = 4 as a product of pairs and elements.
 *
 * x is cut into 8 groups of 4.  A state has a part for each group c, the last factor of its
 * monomials: rows are pairs of elements, columns are x_(4 c + l) times [v, 1], l = 0 ... 3.
 *
 *     S_c[pair (i, j)][l, column]  =  sum over tokens of  (x_i x_j) (x_(4 c + l) [v, 1])
 *
 * So a token costs a multiplication for each pair and for each of x_l v, not for each monomial, and
 * products are 136 columns wide: 4 x 32 of values, then 4 of ones and 4 for what rounding leaves of
 * those.  224 pairs in 14 tiles of 16 cover everything of degrees 2 and 3:
 *
 *     tile 0 ... 3   x_i^2 and x_i 1, i in block r of 8
 *     tile 4, 5, 6   pairs within a group: one element apart (cyclic), two apart
 *     tile 7 ... 13  pairs of groups (a, b): of three different groups {a, b, c} each triple once.
 *                    a = c + pairs_first(k), b = c + pairs_second(k) mod 8
 *     tile 14        1 1, for degree 1: built, but kept apart in f32
 *
 * 7168 numbers are multiplied for the 6512 of the minimal basis.  See docs/gpu-kernels.md */
#ifndef LNT_CUDA_PAIRS_BASIS_H
#define LNT_CUDA_PAIRS_BASIS_H

#include <stdint.h>

#include <vector>

namespace lnt
{

enum {
    PAIRS_GROUPS = 8,
    PAIRS_TILES = 14,                                  /* of a part of the state, in bf16 */
    PAIRS_PLACES = 16,                                 /* tiles that are built, and an idle one */
    PAIRS_N8 = 17,                                     /* columns / 8 */
    PAIRS_TILE_BYTES = PAIRS_N8 * 256,                 /* product.cuh */
    PAIRS_PART_BYTES = PAIRS_TILES * PAIRS_TILE_BYTES, /* of one group */
    PAIRS_STATE_BYTES = PAIRS_GROUPS * PAIRS_PART_BYTES,
    PAIRS_LINEAR = PAIRS_GROUPS * 8 * PAIRS_N8,    /* floats: degree 1 */
    PAIRS_SEGMENT = 1024,                          /* tokens between states */
    PAIRS_ASIDE = 64,                              /* segments summed on the tensor cores */
    PAIRS_ASIDE_BYTES = 8 * 2 * PAIRS_N8 * 32 * 16 /* what is put aside of a part */
};

#ifdef __CUDACC__
#define LNT_ANYWHERE __host__ __device__
#else
#define LNT_ANYWHERE
#endif
/* Tile 7 + k: groups c + 1 and c + 2 ... 6, then c + 2 and c + 4, 5. */
LNT_ANYWHERE constexpr int pairs_first(int k) { return k < 5 ? 1 : 2; }
LNT_ANYWHERE constexpr int pairs_second(int k) { return k < 5 ? k + 2 : k - 1; }

/* The two elements of row s of a tile of part c; 32: the constant 1, 33: 0. */
void pairs_elements(int c, int tile, int s, int out[2]);

/* [PAIRS_GROUPS][PAIRS_PLACES][16][4 l]: a_p scale^p C, 0 where a monomial was covered before; and
 * its place in the library's order, -1 there.  coefficients [4]. */
struct pairs_tables {
    std::vector<float> factor;
    std::vector<int32_t> place;
};
pairs_tables pairs_tables_make(int dim, const double *coefficients);
/* For tiles_basis_slopes(): where z of the monomials stands, of degree 1 among PAIRS_LINEAR floats, else
 * in a state, in bf16, the second part PAIRS_LEFT after the first. */
enum { PAIRS_LEFT = 32 };
std::vector<int64_t> pairs_sums_at(const pairs_tables &t, int dim);

} // namespace lnt
#endif
