/* cpu/body/state.c - one token through a state s [d,m], z [d]: the recurrent form.
 *
 *     s = decay s + k v^T,   z = decay z + k,   out = q^T s,   q.z
 *
 * Every number of s is read once and written once; the step is as fast as the memory s lives in. */
#include "cpu/body/vec.h"

enum { COLS = LNT_VEC_BYTES == 32 ? 4 : 8 }; /* vectors of out and of v held in registers */

INLINE void columns(int cols, int update, int decays, real *s, size_t ld, const real *q,
                    const real *k, const real *v, real *out, size_t d, real decay)
{
    vec sum[COLS], value[COLS];
    UNROLL_FULL
    for (int j = 0; j < cols; j++) {
        sum[j] = vsplat(0);
        value[j] = update ? vload(v + (size_t)(j * LANES)) : vsplat(0);
    }
    for (size_t i = 0; i < d; i++) {
        const real qi = q[i], ki = k[i];
        UNROLL_FULL
        for (int j = 0; j < cols; j++) {
            real *at = s + i * ld + (size_t)(j * LANES);
            vec x = vload(at);
            if (decays) x *= decay;
            if (update) {
                x += ki * value[j];
                vstore(at, x);
            }
            sum[j] += qi * x;
        }
    }
    UNROLL_FULL
    for (int j = 0; j < cols; j++) vstore(out + (size_t)(j * LANES), sum[j]);
}

INLINE void all_columns(int update, int decays, real *s, size_t ld, const real *q, const real *k,
                        const real *v, real *out, size_t d, size_t m, real decay)
{
    size_t j = 0;
    for (; j + COLS * LANES <= m; j += COLS * LANES)
        columns(COLS, update, decays, s + j, ld, q, k, v + j, out + j, d, decay);
    for (; j < m; j += LANES)
        columns(1, update, decays, s + j, ld, q, k, v + j, out + j, d, decay);
}

real KERNEL(state_step)(real *s, size_t ld, real *z, const real *q, const real *k, const real *v,
                        real *out, size_t d, size_t m, real decay)
{
    real den = 0;
    for (size_t i = 0; i < d; i++) {
        z[i] = decay * z[i] + k[i];
        den += q[i] * z[i];
    }
    if (decay < 1)
        all_columns(1, 1, s, ld, q, k, v, out, d, m, decay);
    else
        all_columns(1, 0, s, ld, q, k, v, out, d, m, decay);
    return den;
}

real KERNEL(state_query)(const real *s, size_t ld, const real *z, const real *q, real *out,
                         size_t d, size_t m)
{
    real den = 0;
    for (size_t i = 0; i < d; i++) den += q[i] * z[i];
    all_columns(0, 0, (real *)(uintptr_t)s, ld, q, q, s, out, d, m, 1); /* update off: s only read */
    return den;
}
