/* cpu/weight/body/many.c - c (+)= a w^T for many rows of a and panels of f16, bf16 or f32, which are read
 * where they stand and converted as they are read.
 *
 * A tile of ROWS rows and WIDE panels stays in registers over all of k: 4 + 6 loads for 24 multiply-adds with
 * AVX-512.  The order of the sum over k is the same for every element. */
#include "cpu/weight/body/ops.h"

/* Panels of a tile, and its rows: 24 sums of 32 registers, 12 of 16. */
enum { WIDE = LNT_VEC_BYTES == 64 ? 4 : 1, ROWS = LNT_VEC_BYTES == 0 ? 2 : 6 };

typedef struct source {
    const char *at; /* the first panel, from its number k0 on */
    size_t step;    /* bytes from one panel to the next */
} source;

INLINE vec load_number(const void *at, size_t k, int p, lnt_form_kind kind)
{
    const size_t i = k * LNT_PANEL + (size_t)p * LANES;
    if (kind == LNT_FORM_F16) return vload_f16((const uint16_t *)at + i);
    if (kind == LNT_FORM_F32) return vload((const float *)at + i);
    const word both = word_load((const uint16_t *)at + (k & ~(size_t)1) * LNT_PANEL + 2 * (size_t)p * LANES);
    return vfrom_bits((ivec)(k & 1 ? both & 0xffff0000u : both << 16));
}

INLINE void add_number(vec (*y)[WIDE][PARTS], int rows, int wide, source w, const float *a, size_t lda,
                       size_t k, lnt_form_kind kind)
{
    vec b[WIDE][PARTS];
    UNROLL_FULL
    for (int j = 0; j < wide; j++)
        UNROLL_FULL
        for (int p = 0; p < PARTS; p++) b[j][p] = load_number(w.at + (size_t)j * w.step, k, p, kind);
    UNROLL_FULL
    for (int r = 0; r < rows; r++) {
        const float x = a[(size_t)r * lda + k];
        UNROLL_FULL
        for (int j = 0; j < wide; j++)
            UNROLL_FULL
            for (int p = 0; p < PARTS; p++) y[r][j][p] += x * b[j][p];
    }
}

INLINE void tile(float *c, size_t ldc, source w, const float *a, size_t lda, int rows, int wide, size_t depth,
                 lnt_form_kind kind, int accumulate)
{
    vec y[ROWS][WIDE][PARTS] = { 0 };
    size_t k = 0;
    for (; k + 2 <= depth; k += 2) {
        add_number(y, rows, wide, w, a, lda, k, kind);
        add_number(y, rows, wide, w, a, lda, k + 1, kind);
    }
    if (k < depth) add_number(y, rows, wide, w, a, lda, k, kind);
    UNROLL_FULL
    for (int r = 0; r < rows; r++)
        UNROLL_FULL
        for (int j = 0; j < wide; j++)
            UNROLL_FULL
            for (int p = 0; p < PARTS; p++) {
                float *to = c + (size_t)r * ldc + (size_t)(j * LNT_PANEL + p * LANES);
                vstore(to, accumulate ? vload(to) + y[r][j][p] : y[r][j][p]);
            }
}

/* All rows by tiles that are `wide` panels wide. */
INLINE void multiply(float *c, size_t ldc, source w, const float *a, size_t lda, size_t m, int wide,
                     size_t depth, lnt_form_kind kind, int accumulate)
{
    for (; m >= ROWS; m -= ROWS, c += ROWS * ldc, a += ROWS * lda)
        tile(c, ldc, w, a, lda, ROWS, wide, depth, kind, accumulate);
    UNROLL_FULL
    for (int rows = ROWS > 4 ? 4 : 1; rows > 0; rows /= 2) {
        if (!(m & (size_t)rows)) continue;
        tile(c, ldc, w, a, lda, rows, wide, depth, kind, accumulate);
        c += (size_t)rows * ldc;
        a += (size_t)rows * lda;
    }
}

INLINE void multiply_all(float *c, size_t ldc, source w, size_t panels, const float *a, size_t lda, size_t m,
                         size_t depth, lnt_form_kind kind, int accumulate)
{
    for (; panels >= WIDE; panels -= WIDE, c += WIDE * LNT_PANEL, w.at += WIDE * w.step)
        multiply(c, ldc, w, a, lda, m, WIDE, depth, kind, accumulate);
    for (; WIDE > 1 && panels > 0; panels--, c += LNT_PANEL, w.at += w.step)
        multiply(c, ldc, w, a, lda, m, 1, depth, kind, accumulate);
}

void KERNEL(multiply_many)(float *c, size_t ldc, const lnt_panel *panel, size_t step, size_t panels,
                           const float *x, size_t ldx, size_t m, size_t k0, size_t depth, int accumulate)
{
    const lnt_form_kind kind = panel->form->kind;
    const size_t size = kind == LNT_FORM_F32 ? sizeof(float) : sizeof(uint16_t);
    const source w = { (const char *)panel->at + k0 * LNT_PANEL * size, step };
    switch (kind) {
    case LNT_FORM_F16: multiply_all(c, ldc, w, panels, x, ldx, m, depth, LNT_FORM_F16, accumulate); break;
    case LNT_FORM_BF16: multiply_all(c, ldc, w, panels, x, ldx, m, depth, LNT_FORM_BF16, accumulate); break;
    case LNT_FORM_F32: multiply_all(c, ldc, w, panels, x, ldx, m, depth, LNT_FORM_F32, accumulate); break;
    case LNT_FORM_CODES: break; /* they are unpacked first */
    }
}
