/* cuda/orbits/orbits_basis.h - the monomials where d is 8, 16 or 32, eight at a time with hardly one too
 * many.
 *
 * Turning the indices of a monomial, i -> i + 1 mod d, gives another of the same kind, so the
 * monomials of each degree fall into orbits of d (d is a power of two: 3 indices never come back
 * early, 2 only where they are d / 2 apart).  An orbit is {0, s, t}; its member e is
 *
 *     x_e . x_(e+s) . x_(e+t)        e = 0 ... d - 1, indices mod d
 *
 * for any s and t that give the same three: which member is the first is free.  A lane that holds x
 * turned by its own number makes one member of every orbit with the registers it has, and all
 * members share one coefficient.  Orbits {0, d/2} come round twice: both members
 * count one half.  Degree 0 is an orbit too, all of its members the same: the first counts.
 * Numbers multiplied over the minimal basis: 1.07 at d = 8, 1.02 at 16 (P = 4), 1.08 at 32
 * (P = 3). */
#ifndef LNT_CUDA_ORBITS_BASIS_H
#define LNT_CUDA_ORBITS_BASIS_H

#include <stdint.h>

#include <vector>

namespace lnt
{

/* degree, the indices after 0, and how often the monomial comes in (sum of x)^degree. */
struct orbit {
    int8_t degree, s, t, times;
};

/* The orbits of d = 16, P = 4, four at a time that share s: x_e . x_(e+s) is made once for them.
 * ORBITS_ONE in place of an index: 1 in place of that factor.  The first of each half is degree 0,
 * the last of all is none. */
enum { ORBITS_ONE = 16, ORBITS_FOURS = 16 };
struct orbits_four {
    int8_t s, t[4];
};
constexpr orbits_four orbits_fours[ORBITS_FOURS] = {
    { 0, { -1, 2, 5, ORBITS_ONE } },
    { 0, { 0, 7, 8, 9 } },
    { 1, { 0, 3, 4, 5 } },
    { 1, { 1, 6, 7, 8 } },
    { 1, { 9, 10, 11, ORBITS_ONE } },
    { 1, { 2, 12, 13, 14 } },
    { 2, { 2, 5, 6, 7 } },
    { 2, { 8, 9, 10, ORBITS_ONE } },
    { 0, { -1, 3, 4, 12 } },
    { 2, { 4, 11, 12, 13 } },
    { 3, { 7, 8, 9, ORBITS_ONE } },
    { 3, { 6, 10, 11, 12 } },
    { 4, { 8, 9, 10, ORBITS_ONE } },
    { 5, { 5, 9, 10, ORBITS_ONE } },
    { ORBITS_ONE, { 6, 7, 8, ORBITS_ONE } },
    { 0, { 6, 10, 13, -1 } },
};

template <int d, int terms> struct orbits {
    int count = 0;
    orbit list[64] = {};
    constexpr void add(int degree, int s, int t, int times)
    {
        orbit &o = list[count++];
        o.degree = (int8_t)degree, o.s = (int8_t)s, o.t = (int8_t)t, o.times = (int8_t)times;
    }
    constexpr void add(int s, int t)
    {
        const bool square = s == ORBITS_ONE || t == ORBITS_ONE;
        const int gap = s == ORBITS_ONE ? t : s;
        if (gap == ORBITS_ONE)
            add(1, 0, 0, 1);
        else if (square)
            add(2, 0, gap, gap % (d / 2) == 0 ? 1 : 2);
        else
            add(3, s, t, s == 0 && t == 0 ? 1 : s == 0 || t == 0 || s == t ? 3 : 6);
    }
    constexpr orbits()
    {
        add(0, 0, 0, 1);
        if (d == 16 && terms > 3) {
            for (const orbits_four &four : orbits_fours)
                for (const int8_t t : four.t)
                    if (t >= 0) add(four.s, t);
            return;
        }
        add(1, 0, 0, 1);
        for (int s = 0; s <= d / 2; s++) add(2, 0, s, s == 0 || s == d / 2 ? 1 : 2);
        /* The gap s is the least of the three and does not come last: each orbit once. */
        for (int s = 0; s <= d / 3 && terms > 3; s++)
            for (int t = 2 * s; t < d - s; t++) add(3, s, t, s ? 6 : t ? 3 : 1);
    }
};

/* Member e of orbit o stands at [o d + e].  Its row in a state of the library; of members that are
 * there twice ~row the second time; ORBITS_NONE: no monomial of this problem. */
enum { ORBITS_NONE = INT32_MIN };
std::vector<int32_t> orbits_places(int width, int dim, int terms);

/* 8-element blocks to make orbits over (1, 2, 4), or 0: dim and terms are not for them. */
int orbits_width(int dim, int dim_value, int terms);

} // namespace lnt
#endif
