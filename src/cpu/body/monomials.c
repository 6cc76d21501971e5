/* cpu/body/monomials.c - the monomials of Taylor attention, a token a lane.
 *
 * Each is its prefix times one column of x: a load, a product and a store.  A prefix stays in registers for
 * all of its run. */
#include "cpu/body/vec.h"

enum { AT_ONCE = 4 }; /* vectors of tokens */

/* Prefix `step->level`, which is left in memory for those that go on from it. */
INLINE void make_prefix(int cols, int query, real *prefix, const real *x, size_t ld,
                        const lnt_monomial_step *step, vec p[AT_ONCE])
{
    real *to = prefix + (size_t)step->level * ld;
    const real *by = x + (size_t)step->index * ld;
    UNROLL_FULL
    for (int j = 0; j < cols; j++) {
        const size_t at = (size_t)(j * LANES);
        p[j] = step->level ? vload(by + at) * vload(to - ld + at) : vsplat(1);
        if (query) p[j] *= (real)step->factor;
        vstore(to + at, p[j]);
    }
}

INLINE void make_run(int cols, int query, real *phi, const real *x, size_t ld,
                     const lnt_monomial_step *step, const vec p[AT_ONCE])
{
    x += (size_t)step->first * ld;
    UNROLL_FULL
    for (int j = 0; j < cols; j++) {
        const vec first = vload(x + (size_t)(j * LANES)) * p[j];
        vstore(phi + (size_t)(j * LANES), query ? first * (real)step->first_factor : first);
    }
    for (uint32_t i = 1; i < step->length; i++) {
        x += ld;
        phi += ld;
        UNROLL_FULL
        for (int j = 0; j < cols; j++)
            vstore(phi + (size_t)(j * LANES), vload(x + (size_t)(j * LANES)) * p[j]);
    }
}

INLINE void make_stripe(int cols, int query, real *phi, real *prefix, const real *x, size_t ld,
                        const lnt_monomial_step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        vec p[AT_ONCE];
        make_prefix(cols, query, prefix, x, ld, steps + i, p);
        if (!steps[i].length) continue;
        make_run(cols, query, phi, x, ld, steps + i, p);
        phi += steps[i].length * ld;
    }
}

INLINE void make_all(int query, real *phi, real *prefix, const real *x, size_t ld,
                     const lnt_monomial_step *steps, size_t count, size_t padded)
{
    size_t c = 0;
    for (; c + AT_ONCE * LANES <= padded; c += AT_ONCE * LANES)
        make_stripe(AT_ONCE, query, phi + c, prefix + c, x + c, ld, steps, count);
    for (; c < padded; c += LANES)
        make_stripe(1, query, phi + c, prefix + c, x + c, ld, steps, count);
}

void KERNEL(monomials)(real *phi, real *prefix, const real *x, size_t ld,
                       const lnt_monomial_step *steps, size_t count, size_t padded, int query)
{
    if (query) make_all(1, phi, prefix, x, ld, steps, count, padded);
    else make_all(0, phi, prefix, x, ld, steps, count, padded);
}
