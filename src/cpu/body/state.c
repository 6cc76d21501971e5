/* cpu/body/state.c - one token through a state s [d,m], z [d]: the recurrent form.
 *
 *     s = decay s + k v^T,   z = decay z + k,   out = q^T s,   q.z
 *
 * Every number of s is read once and written once; the step is as fast as the memory s lives in. */
#include "cpu/body/vec.h"

real KERNEL(dot)(const real *x, const real *y, size_t n);

/* Vectors of out held in registers: a whole row of s where it fits, so that s streams by. */
enum { COLS = LNT_VEC_BYTES == 32 ? 8 : 16, HALF = COLS / 2, QUARTER = COLS / 4 };
/* Where rows are as narrow as PAIR vectors: with fewer at a time s would be gone through twice.  Rows are
 * prefetched so many AHEAD, which the hardware does too late. */
enum { PAIR = 2, AHEAD = 64 };

/* s[i .. i+rows-1, cols vectors] = decay s + k v^T; sum += q^T s.  Two rows share a load of v. */
INLINE void rows_of_state(int rows, int cols, int update, int decays, real *s, size_t ld,
                          const real *q, const real *k, const real *v, vec sum[COLS], real decay)
{
    UNROLL_FULL
    for (int j = 0; j < cols; j++) {
        const vec value = update ? vload(v + (size_t)(j * LANES)) : vsplat(0);
        UNROLL_FULL
        for (int r = 0; r < rows; r++) {
            real *at = s + (size_t)r * ld + (size_t)(j * LANES);
            vec x = vload(at);
            if (decays) x *= decay;
            if (update) {
                x += k[r] * value;
                vstore(at, x);
            }
            sum[j] += q[r] * x;
        }
    }
}

INLINE void columns(int cols, int update, int decays, real *s, size_t ld, const real *q,
                    const real *k, const real *v, real *out, size_t d, real decay)
{
    vec sum[COLS];
    UNROLL_FULL
    for (int j = 0; j < cols; j++) sum[j] = vsplat(0);
    size_t i = 0;
    for (; i + 2 <= d; i += 2) {
        if (LNT_VEC_BYTES == 64 && cols == PAIR)
            UNROLL_FULL
            for (size_t j = 0; j < 4; j++)
                __builtin_prefetch(s + (i + AHEAD + j / 2) * ld + j % 2 * LANES);
        const real two_q[2] = { q[i], q[i + 1] }, two_k[2] = { k[i], k[i + 1] };
        rows_of_state(2, cols, update, decays, s + i * ld, ld, two_q, two_k, v, sum, decay);
    }
    if (i < d)
        rows_of_state(1, cols, update, decays, s + i * ld, ld, q + i, k + i, v, sum, decay);
    UNROLL_FULL
    for (int j = 0; j < cols; j++) vstore(out + (size_t)(j * LANES), sum[j]);
}

INLINE void all_columns(int update, int decays, real *s, size_t ld, const real *q, const real *k,
                        const real *v, real *out, size_t d, size_t m, real decay)
{
    size_t j = 0;
    for (; j + COLS * LANES <= m; j += COLS * LANES)
        columns(COLS, update, decays, s + j, ld, q, k, v + j, out + j, d, decay);
    for (; j + HALF * LANES <= m; j += HALF * LANES)
        columns(HALF, update, decays, s + j, ld, q, k, v + j, out + j, d, decay);
    for (; j + QUARTER * LANES <= m; j += QUARTER * LANES)
        columns(QUARTER, update, decays, s + j, ld, q, k, v + j, out + j, d, decay);
    for (; LNT_VEC_BYTES == 64 && j + PAIR * LANES <= m; j += PAIR * LANES)
        columns(PAIR, update, decays, s + j, ld, q, k, v + j, out + j, d, decay);
    for (; j < m; j += LANES)
        columns(1, update, decays, s + j, ld, q, k, v + j, out + j, d, decay);
}

/* z = decay z + k; returns q.z.  Two chains of sums, as in dot. */
INLINE real update_z(real *z, const real *q, const real *k, size_t d, real decay)
{
    vec sum[2] = { vsplat(0), vsplat(0) };
    size_t i = 0;
    for (; i + 2 * LANES <= d; i += 2 * LANES)
        UNROLL_FULL
        for (int j = 0; j < 2; j++) {
            const size_t at = i + (size_t)(j * LANES);
            const vec x = vload(z + at) * decay + vload(k + at);
            vstore(z + at, x);
            sum[j] += vload(q + at) * x;
        }
    real den = vsum(sum[0] + sum[1]);
    for (; i < d; i++) {
        z[i] = decay * z[i] + k[i];
        den += q[i] * z[i];
    }
    return den;
}

real KERNEL(state_step)(real *s, size_t ld, real *z, const real *q, const real *k, const real *v,
                        real *out, size_t d, size_t m, real decay)
{
    if (decay < 1)
        all_columns(1, 1, s, ld, q, k, v, out, d, m, decay);
    else
        all_columns(1, 0, s, ld, q, k, v, out, d, m, decay);
    return update_z(z, q, k, d, decay);
}

real KERNEL(state_query)(const real *s, size_t ld, const real *z, const real *q, real *out,
                         size_t d, size_t m)
{
    all_columns(0, 0, (real *)(uintptr_t)s, ld, q, q, s, out, d, m, 1); /* update off: s only read */
    return KERNEL(dot)(q, z, d);
}
