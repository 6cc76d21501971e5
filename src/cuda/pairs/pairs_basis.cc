/* cuda/pairs/pairs_basis.cc - which monomial stands where.  Host only; once per plan. */
#include "cuda/pairs/pairs_basis.h"

#include <assert.h>
#include <stddef.h>

#include <algorithm>

#include "cuda/common/monomials.h"

namespace lnt
{

enum { ONE = 32, ZERO = 33 };

void pairs_elements(int c, int tile, int s, int out[2])
{
    out[0] = out[1] = ZERO;
    if (tile < 4) {
        out[0] = 8 * tile + s % 8, out[1] = s < 8 ? out[0] : ONE;
    } else if (tile < 6) {
        out[0] = 16 * (tile - 4) + s, out[1] = (out[0] & ~3) | ((out[0] + 1) & 3);
    } else if (tile == 6) {
        out[0] = s / 2 * 4 + s % 2, out[1] = out[0] + 2;
    } else if (tile < PAIRS_TILES) {
        const int k = tile - 7;
        out[0] = 4 * ((c + pairs_first(k)) % 8) + s / 4;
        out[1] = 4 * ((c + pairs_second(k)) % 8) + s % 4;
    } else if (tile == PAIRS_TILES && s == 0) {
        out[0] = out[1] = ONE;
    }
}

pairs_tables pairs_tables_make(int dim, const double *coefficients)
{
    pairs_tables t;
    std::vector<char> seen((size_t)monomials_count(dim, 4), 0);
    for (int c = 0; c < PAIRS_GROUPS; c++)
        for (int tile = 0; tile < PAIRS_PLACES; tile++)
            for (int s = 0; s < 16; s++)
                for (int l = 0; l < 4; l++) {
                    int pair[2], i[3], n = 0;
                    pairs_elements(c, tile, s, pair);
                    bool there = true;
                    for (int x : { pair[0], pair[1], 4 * c + l }) {
                        if (x == ONE) continue;
                        there = there && x < dim;
                        i[n++] = x;
                    }
                    std::sort(i, i + n);
                    const int64_t place = there ? monomials_place(dim, n, i) : -1;
                    const bool fresh = there && !seen[(size_t)place];
                    if (fresh) seen[(size_t)place] = 1;
                    t.place.push_back(fresh ? (int32_t)place : -1);
                    t.factor.push_back(fresh ? (float)(coefficients[n] * monomials_orderings(n, i))
                                             : 0.0f);
                }
    /* Degree 0 alone is not here. */
    assert(std::count(seen.begin(), seen.end(), 1) + 1 == (ptrdiff_t)seen.size());
    return t;
}

std::vector<int64_t> pairs_sums_at(const pairs_tables &t, int dim)
{
    std::vector<int64_t> at((size_t)monomials_count(dim, 4), 0);
    for (size_t f = 0; f < t.place.size(); f++) {
        const int64_t l = (int64_t)f % 4, s = (int64_t)f / 4 % 16,
                      tile = (int64_t)f / 64 % PAIRS_PLACES, c = (int64_t)f / 64 / PAIRS_PLACES;
        if (t.place[f] >= 0)
            at[(size_t)t.place[f]] = tile == PAIRS_TILES
                                         ? c * 8 * PAIRS_N8 + 128 + l
                                         : (c * PAIRS_PART_BYTES + tile * PAIRS_TILE_BYTES) / 2 +
                                               16 * 128 + s / 8 * 64 + l * 8 + s % 8;
    }
    return at;
}

} // namespace lnt
