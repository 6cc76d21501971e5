/* cpu/body/vector.c - dot, gemv, axpy, sums of products, scale and its rows, and a sum that loses nothing,
 * over any count. */
#include "cpu/body/vec.h"

real KERNEL(dot)(const real *x, const real *y, size_t n)
{
    vec sum[2] = { vsplat(0), vsplat(0) };
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        sum[0] += vload(x + i) * vload(y + i);
        sum[1] += vload(x + i + LANES) * vload(y + i + LANES);
    }
    if (i + LANES <= n) {
        sum[0] += vload(x + i) * vload(y + i);
        i += LANES;
    }
    real total = vsum(sum[0] + sum[1]);
    for (; i < n; i++) total += x[i] * y[i];
    return total;
}

/* The products of `rows` rows with x, each in a sum of its own. */
INLINE void few_rows(int rows, real *y, const real *a, size_t lda, const real *x, size_t k)
{
    vec sum[8];
    UNROLL_FULL
    for (int r = 0; r < rows; r++) sum[r] = vsplat(0);
    size_t p = 0;
    for (; p + LANES <= k; p += LANES) {
        const vec part = vload(x + p);
        UNROLL_FULL
        for (int r = 0; r < rows; r++) sum[r] += vload(a + (size_t)r * lda + p) * part;
    }
    UNROLL_FULL
    for (int r = 0; r < rows; r++) {
        real total = vsum(sum[r]);
        for (size_t i = p; i < k; i++) total += a[(size_t)r * lda + i] * x[i];
        y[r] = total;
    }
}

void KERNEL(gemv)(real *y, const real *a, size_t lda, const real *x, size_t m, size_t k)
{
    size_t i = 0;
    for (; i + 8 <= m; i += 8) few_rows(8, y + i, a + i * lda, lda, x, k);
    for (; i < m; i++) few_rows(1, y + i, a + i * lda, lda, x, k);
}

void KERNEL(axpy)(real *y, real a, const real *x, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) vstore(y + i, vload(y + i) + a * vload(x + i));
    for (; i < n; i++) y[i] += a * x[i];
}

/* y[n] += a x[m,n], m known where this is inlined; rows `ahead` numbers further on are wanted next,
 * which no cache foresees. */
INLINE void add_few_rows(real *y, const real *a, const real *x, size_t ldx, size_t m, size_t n,
                         size_t ahead)
{
    enum { LINE = 64 / (int)sizeof(real), VECS = LINE / LANES ? LINE / LANES : 1 };
    size_t i = 0;
    for (; i + VECS * LANES <= n; i += VECS * LANES) {
        vec sum[VECS];
        UNROLL_FULL
        for (size_t j = 0; j < VECS; j++) sum[j] = vload(y + i + j * LANES);
        for (size_t r = 0; r < m; r++) {
            const real *row = x + r * ldx + i;
            __builtin_prefetch(row + ahead);
            UNROLL_FULL
            for (size_t j = 0; j < VECS; j++) sum[j] += a[r] * vload(row + j * LANES);
        }
        UNROLL_FULL
        for (size_t j = 0; j < VECS; j++) vstore(y + i + j * LANES, sum[j]);
    }
    for (; i < n; i++)
        for (size_t r = 0; r < m; r++) y[i] += a[r] * x[r * ldx + i];
}

/* Several rows at once, so that y is read and written once for all of them. */
void KERNEL(add_rows)(real *y, const real *a, const real *x, size_t ldx, size_t m, size_t n)
{
    enum { ROWS = 4 };
    size_t r = 0;
    for (; r + ROWS <= m; r += ROWS)
        add_few_rows(y, a + r, x + r * ldx, ldx, ROWS, n, r + 2 * ROWS <= m ? ROWS * ldx : 0);
    for (; r < m; r++) add_few_rows(y, a + r, x + r * ldx, ldx, 1, n, 0);
}

void KERNEL(combine)(real *y, const real *a, const real *const *x, size_t m, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec sum = a[0] * vload(x[0] + i);
        for (size_t r = 1; r < m; r++) sum += a[r] * vload(x[r] + i);
        vstore(y + i, sum);
    }
    for (; i < n; i++) {
        real sum = a[0] * x[0][i];
        for (size_t r = 1; r < m; r++) sum += a[r] * x[r][i];
        y[i] = sum;
    }
}

void KERNEL(scale)(real *x, real a, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) vstore(x + i, vload(x + i) * a);
    for (; i < n; i++) x[i] *= a;
}

/* By eights of rows, which are often all left as they are; to ask of each would be guessed wrong. */
void KERNEL(scale_rows)(real *x, size_t ld, const real *f, size_t m, size_t padded)
{
    enum { ROWS = 8 };
    for (size_t i0 = 0; i0 < m; i0 += ROWS) {
        const size_t end = m - i0 < ROWS ? m : i0 + ROWS;
        int changes = 0;
        for (size_t i = i0; i < end; i++) changes |= f[i] != 1;
        if (!changes) continue;
        for (size_t i = i0; i < end; i++)
            for (size_t j = 0; j < padded; j += LANES)
                vstore(x + i * ld + j, vload(x + i * ld + j) * f[i]);
    }
}

/* sum + rest = s + y exactly (Knuth's two-sum); no product that could be fused into it. */
#define TWO_SUM(type, s, y, sum, rest)                 \
    const type sum = (s) + (y), of_##y = sum - (s);    \
    const type rest = ((s) - (sum - of_##y)) + ((y) - of_##y)

INLINE void add_row(real *s, real *low, const real *x, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const vec y = vload(x + i) + vload(low + i), before = vload(s + i);
        TWO_SUM(vec, before, y, sum, rest);
        vstore(s + i, sum);
        vstore(low + i, rest);
    }
    for (; i < n; i++) {
        const real y = x[i] + low[i];
        TWO_SUM(real, s[i], y, sum, rest);
        s[i] = sum;
        low[i] = rest;
    }
}

void KERNEL(add_compensated)(real *s, real *low, size_t ld, const real *x, size_t ldx, size_t m,
                             size_t n)
{
    for (size_t i = 0; i < m; i++) add_row(s + i * ld, low + i * ld, x + i * ldx, n);
}
