/* cuda/tiles/tiles_basis.h - the monomials as the tensor cores take them: in tiles of 16.
 *
 * x is cut into blocks of 8 elements and half-blocks of 4.  A tile is two prefixes times one block,
 *
 *     feature 8 w + e  =  x_i[w] . x_j[w] . x_(8 r + e)          w = 0, 1;  e = 0 ... 7
 *
 * where the prefix's indices may also be ONE or ZERO, constants standing after x.  Degree 3 is
 * covered by prefixes whose two indices share a half-block, times every block; prefixes across the
 * halves of one block, times every other block; prefixes across two blocks, times a third, each
 * triple of blocks once.  What is covered twice inside a block has the coefficient 0 the second
 * time: 1.04 times the minimal basis at d = 32, 1.01 at 64 (docs/gpu-kernels.md).
 *
 * The readers make prefixes for a whole unit at a time; units are in the order of their tiles. */
#ifndef LNT_CUDA_TILES_BASIS_H
#define LNT_CUDA_TILES_BASIS_H

#include <stdint.h>

#include <vector>

namespace lnt
{

enum unit_kind {
    UNIT_ONE = 0,  /* prefixes 1 and 0; for each block r of the mask 1 tile.  Against a state both
                    * are 1: the second half holds what rounding left of the first */
    UNIT_HALF = 1, /* the 10 products within half-block h; 5 pairs, for each every r of the mask */
    UNIT_QUAD = 2  /* x_j times the 4 elements of half-block h; for each r of the mask 2 tiles */
};

/* Packed into a word: kernels take the list as a parameter, so that all threads know it to be the
 * same for all. */
struct unit {
    int32_t kind, j, h, mask;
    static constexpr int KIND = 2, J = 8, H = 6; /* bits; the rest is the mask */
    uint32_t packed() const
    {
        return (uint32_t)kind | (uint32_t)j << KIND | (uint32_t)h << (KIND + J) |
               (uint32_t)mask << (KIND + J + H);
    }
};
enum { MOST_UNITS = 1040 }; /* d = 128 */

struct tile {
    uint16_t i[2], j[2]; /* of the two prefixes; dim8 * 8: ONE, dim8 * 8 + 1: ZERO */
    uint16_t r;          /* dim8: the block that holds ONE and then ZEROs */
    uint16_t pad;
};

/* What a warp of tiles_sum.cu makes: 4 prefixes, the tiles of two of them and of the other two,
 * times up to 4 blocks.  Tile of block number b and half w of the prefixes: first + b step_r + w
 * step_w. Four tasks side by side have the same `blocks` and `second`; first < 0: only there for
 * that. */
struct tile_task {
    uint16_t i[4], j[4], r[4];
    int32_t first, step_r, step_w;
    uint8_t blocks;     /* how many of r */
    uint8_t second;     /* 0: the first half of the prefixes alone */
    uint8_t multiplies; /* by 0: nothing, 1: j[0] all of them, 2: each its own j */
    uint8_t pad;
};

struct basis {
    int dim, dim8, terms;    /* dim8: blocks */
    std::vector<unit> units; /* of tiles 1 ...; tile 0 is the degree 0 */
    std::vector<tile> tiles;
    std::vector<float> factor;  /* [tiles * 16]: a_p scale^p C; 0: covered already */
    std::vector<int32_t> place; /* [tiles * 16]: in the library's order; -1: covered already */
    std::vector<tile_task> tasks;
};

/* coefficients [terms]: a_p scale^p.  terms is at most 4, blocks the most a task may have.  The
 * number of tasks is a multiple of 8. */
basis tiles_basis_make(int dim, int terms, const double *coefficients, int blocks);
int tiles_basis_count(int dim, int terms); /* tiles of such a basis */

/* The gradient of a polynomial sum of z_f phi_f(x) as a product: of x and of pairs of its elements
 * with a matrix made of z, times d columns.  Tiles of 16 rows: first blocks r, r + 1 of x, then for
 * each pair of elements a, a + 1 and each block r from their own on the two times the block.  An
 * entry for each number of a tile, [tile][column / 8][row / 8][column % 8][row % 8], and then the
 * `8 width` numbers that x does not multiply: where z_f stands, and from SLOPE_TIMES on how often
 * it counts.  at: of the monomials in the library's order, where z stands. */
enum { SLOPE_TIMES = 28 };
std::vector<uint32_t> tiles_basis_slopes(int dim, int terms, int width, const std::vector<int64_t> &at);
/* In a state of this basis, in bf16; the second part 8 after the first. */
std::vector<int64_t> tiles_basis_sums_at(const basis &b, int width);
int tiles_slope_count(int dim8, int terms);

} // namespace lnt
#endif
