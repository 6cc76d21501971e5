/* cuda/orbits/orbits_basis.cc - which monomial stands where in orbits_basis.h.  Host only; once per plan. */
#include "cuda/orbits/orbits_basis.h"

#include <algorithm>

#include "cuda/common/monomials.h"

namespace lnt
{

template <int d>
static std::vector<int32_t> places(const orbit *list, int count, int dim, int terms)
{
    std::vector<int32_t> place;
    std::vector<char> seen((size_t)monomials_count(dim, terms), 0);
    for (int o = 0; o < count; o++)
        for (int e = 0; e < d; e++) {
            const int degree = list[o].degree;
            int i[3] = { e, (e + list[o].t) % d, (e + list[o].s) % d };
            if (degree > 1 && i[0] > i[1]) std::swap(i[0], i[1]);
            if (degree > 2 && i[1] > i[2]) std::swap(i[1], i[2]);
            if (degree > 2 && i[0] > i[1]) std::swap(i[0], i[1]);
            if (degree >= terms || (degree && i[degree - 1] >= dim)) {
                place.push_back(ORBITS_NONE);
                continue;
            }
            const int64_t row = monomials_place(dim, degree, i);
            place.push_back((int32_t)(seen[(size_t)row] ? ~row : row));
            seen[(size_t)row] = 1;
        }
    return place;
}

template <int d> static std::vector<int32_t> places(int dim, int terms)
{
    if (terms == 4) {
        const orbits<d, 4> all;
        return places<d>(all.list, all.count, dim, terms);
    }
    const orbits<d, 3> all;
    return places<d>(all.list, all.count, dim, terms);
}

std::vector<int32_t> orbits_places(int width, int dim, int terms)
{
    if (width == 1) return places<8>(dim, terms);
    return width == 2 ? places<16>(dim, terms) : places<32>(dim, std::min(terms, 3));
}

int orbits_width(int dim, int dim_value, int terms)
{
    const int most = std::max(dim, dim_value);
    if (most <= 8 && terms <= 4) return 1;
    if (most <= 16 && dim > 8 && terms <= 4) return 2;
    return most <= 32 && dim > 16 && terms <= 3 ? 4 : 0;
}

} // namespace lnt
