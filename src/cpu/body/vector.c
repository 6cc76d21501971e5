/* cpu/body/vector.c - dot, the largest, gemv, axpy, sums of products, scale and its rows, rotations, and a
 * sum that loses nothing, over any count. */
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

INLINE vec larger(vec x, vec y) { return vselect(x > y, x, y); }

real KERNEL(largest)(const real *x, size_t n)
{
    enum { BLOCK = 4 * LANES };
    vec top[4];
    real part[LANES], most = x[0];
    UNROLL_FULL
    for (int j = 0; j < 4; j++) top[j] = vsplat(most);
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        UNROLL_FULL
        for (int j = 0; j < 4; j++) top[j] = larger(vload(x + i + (size_t)(j * LANES)), top[j]);
    vstore(part, larger(larger(top[0], top[1]), larger(top[2], top[3])));
    for (int k = 0; k < LANES; k++) most = part[k] > most ? part[k] : most;
    for (; i < n; i++) most = x[i] > most ? x[i] : most;
    return most;
}

/* Numbers in memory, in `real` or in bf16: which, is known where this is inlined. */
typedef struct source {
    const void *at;
    bool bf16;
} source;

INLINE size_t source_size(source s) { return s.bf16 ? sizeof(uint16_t) : sizeof(real); }
INLINE source source_from(source s, size_t i)
{
    return (source){ (const char *)s.at + i * source_size(s), s.bf16 };
}
INLINE vec source_vec(source s) { return s.bf16 ? vload_bf16(s.at) : vload(s.at); }
INLINE vec source_part(source s, size_t count)
{
    return s.bf16 ? vload_bf16_part(s.at, count) : vload_part(s.at, count);
}
INLINE real source_one(source s)
{
    return s.bf16 ? (real)lnt_bf16_to_float(*(const uint16_t *)s.at) : *(const real *)s.at;
}

/* y[i] = vsum(x[i]) of eight vectors.  Together they take a third of the operations: halves, quarters and
 * pairs of two vectors are added at once, in vsum's order. */
#if LNT_VEC_BYTES == 64 && !defined(LNT_DOUBLE)
INLINE vec add_halves(vec a, vec b)
{
    return SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
           SHUFFLE(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
}

INLINE vec add_quarters(vec a, vec b)
{
    return SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
           SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}

INLINE vec add_pairs(vec a, vec b)
{
    const vec half = SHUFFLE(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
                     SHUFFLE(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    return half + SHUFFLE(half, half, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
}

INLINE void store_sums_of_8(real *y, const vec x[8])
{
    const vec a = add_quarters(add_halves(x[0], x[1]), add_halves(x[2], x[3]));
    const vec b = add_quarters(add_halves(x[4], x[5]), add_halves(x[6], x[7]));
    const vec both = add_pairs(a, b);
    vstore_part(y, SHUFFLE(both, both, 0, 4, 8, 12, 2, 6, 10, 14, 0, 4, 8, 12, 2, 6, 10, 14), 8);
}
#else
INLINE void store_sums_of_8(real *y, const vec x[8])
{
    UNROLL_FULL
    for (int r = 0; r < 8; r++) y[r] = vsum(x[r]);
}
#endif

/* The products of `rows` rows, 8 or 1, with x, each in a sum of its own. */
INLINE void few_rows(int rows, real *y, source a, size_t lda, const real *x, size_t k)
{
    vec sum[8];
    UNROLL_FULL
    for (int r = 0; r < rows; r++) sum[r] = vsplat(0);
    size_t p = 0;
    for (; p + LANES <= k; p += LANES) {
        const vec part = vload(x + p);
        UNROLL_FULL
        for (int r = 0; r < rows; r++) sum[r] += source_vec(source_from(a, (size_t)r * lda + p)) * part;
    }
    if (p < k) {
        const vec part = vload_part(x + p, k - p);
        UNROLL_FULL
        for (int r = 0; r < rows; r++)
            sum[r] += source_part(source_from(a, (size_t)r * lda + p), k - p) * part;
    }
    if (rows == 8) store_sums_of_8(y, sum);
    else y[0] = vsum(sum[0]);
}

INLINE void all_rows(real *y, source a, size_t lda, const real *x, size_t m, size_t k)
{
    size_t i = 0;
    for (; i + 8 <= m; i += 8) few_rows(8, y + i, source_from(a, i * lda), lda, x, k);
    for (; i < m; i++) few_rows(1, y + i, source_from(a, i * lda), lda, x, k);
}

void KERNEL(gemv)(real *y, const real *a, size_t lda, const real *x, size_t m, size_t k)
{
    all_rows(y, (source){ a, false }, lda, x, m, k);
}

void KERNEL(gemv_bf16)(real *y, const uint16_t *a, size_t lda, const real *x, size_t m, size_t k)
{
    all_rows(y, (source){ a, true }, lda, x, m, k);
}

void KERNEL(axpy)(real *y, real a, const real *x, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) vstore(y + i, vload(y + i) + a * vload(x + i));
    for (; i < n; i++) y[i] += a * x[i];
}

/* y[n] += a x[m,n], m known where this is inlined.  Prefetches the numbers `prefetch` further on, the next
 * rows, which the hardware does not. */
INLINE void add_few_rows(real *y, const real *a, source x, size_t ldx, size_t m, size_t n,
                         size_t prefetch)
{
    enum { LINE = 64, MOST = LINE / (int)sizeof(uint16_t) / LANES };
    const size_t vecs = LINE / source_size(x) / LANES, width = vecs * LANES; /* of a line of x */
    size_t i = 0;
    for (; i + width <= n; i += width) {
        vec sum[MOST];
        UNROLL_FULL
        for (size_t j = 0; j < vecs; j++) sum[j] = vload(y + i + j * LANES);
        for (size_t r = 0; r < m; r++) {
            const source row = source_from(x, r * ldx + i);
            __builtin_prefetch(source_from(row, prefetch).at);
            UNROLL_FULL
            for (size_t j = 0; j < vecs; j++) sum[j] += a[r] * source_vec(source_from(row, j * LANES));
        }
        UNROLL_FULL
        for (size_t j = 0; j < vecs; j++) vstore(y + i + j * LANES, sum[j]);
    }
    for (; i < n; i++)
        for (size_t r = 0; r < m; r++) y[i] += a[r] * source_one(source_from(x, r * ldx + i));
}

/* Several rows at once, so that y is read and written once for all of them. */
INLINE void add_all_rows(real *y, const real *a, source x, size_t ldx, size_t m, size_t n)
{
    enum { ROWS = 4 };
    size_t r = 0;
    for (; r + ROWS <= m; r += ROWS)
        add_few_rows(y, a + r, source_from(x, r * ldx), ldx, ROWS, n,
                     r + 2 * ROWS <= m ? ROWS * ldx : 0);
    for (; r < m; r++) add_few_rows(y, a + r, source_from(x, r * ldx), ldx, 1, n, 0);
}

void KERNEL(add_rows)(real *y, const real *a, const real *x, size_t ldx, size_t m, size_t n)
{
    add_all_rows(y, a, (source){ x, false }, ldx, m, n);
}

void KERNEL(add_rows_bf16)(real *y, const real *a, const uint16_t *x, size_t ldx, size_t m, size_t n)
{
    add_all_rows(y, a, (source){ x, true }, ldx, m, n);
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

/* For so many vectors of every row: the row that two rotations share stays in registers. */
INLINE void rotate_columns(int vecs, real *x, size_t ld, const real *c, const real *s, size_t m)
{
    vec next[8];
    UNROLL_FULL
    for (int j = 0; j < vecs; j++) next[j] = vload(x + m * ld + (size_t)(j * LANES));
    for (size_t i = m; i-- > 0;) {
        const real cosine = c[i], sine = s[i];
        UNROLL_FULL
        for (int j = 0; j < vecs; j++) {
            const vec row = vload(x + i * ld + (size_t)(j * LANES));
            vstore(x + (i + 1) * ld + (size_t)(j * LANES), sine * row + cosine * next[j]);
            next[j] = cosine * row - sine * next[j];
        }
    }
    UNROLL_FULL
    for (int j = 0; j < vecs; j++) vstore(x + (size_t)(j * LANES), next[j]);
}

void KERNEL(rotate_rows)(real *x, size_t ld, const real *c, const real *s, size_t m, size_t padded)
{
    size_t j = 0;
    for (; j + 8 * LANES <= padded; j += 8 * LANES) rotate_columns(8, x + j, ld, c, s, m);
    for (; j < padded; j += LANES) rotate_columns(1, x + j, ld, c, s, m);
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
