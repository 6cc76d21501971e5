/* cpu/weight/body/floats.c - y = x w^T for a panel of rows in f16, bf16 or f32, converted as they are read.
 *
 * Numbers 0, 1, 2, 3 of each four have sums of their own: no multiply-add waits for the one before. */
#include "cpu/weight/body/ops.h"

enum { CHAINS = 4, MOST = LNT_VEC_BYTES == 64 ? 4 : 2 }; /* MOST: rows of activations at once */

/* Numbers k and k + 1 of LANES rows. */
INLINE void two_numbers(vec w[2], const void *at, size_t k, int p, lnt_form_kind kind)
{
    const size_t i = k * LNT_PANEL + (size_t)p * LANES;
    if (kind == LNT_FORM_BF16) {
        const word both = word_load((const uint16_t *)at + k * LNT_PANEL + 2 * (size_t)p * LANES);
        w[0] = vfrom_bits((ivec)(both << 16));
        w[1] = vfrom_bits((ivec)(both & 0xffff0000u));
    } else
        for (int j = 0; j < 2; j++)
            w[j] = kind == LNT_FORM_F16 ? vload_f16((const uint16_t *)at + i + j * LNT_PANEL)
                                        : vload((const float *)at + i + j * LNT_PANEL);
}

/* The last number, where there is an odd count of them. */
INLINE vec one_number(const void *at, size_t k, int p, lnt_form_kind kind)
{
    const size_t i = k * LNT_PANEL + (size_t)p * LANES;
    if (kind == LNT_FORM_BF16) {
        const word both = word_load((const uint16_t *)at + k * LNT_PANEL + 2 * (size_t)p * LANES);
        return vfrom_bits((ivec)(both << 16));
    }
    return kind == LNT_FORM_F16 ? vload_f16((const uint16_t *)at + i) : vload((const float *)at + i);
}

INLINE void add_pair(vec (*y)[PARTS][CHAINS], int chain, const void *at, const float *x, size_t ldx, int m,
                     size_t k, lnt_form_kind kind)
{
    UNROLL_FULL
    for (int p = 0; p < PARTS; p++) {
        vec w[2];
        two_numbers(w, at, k, p, kind);
        UNROLL_FULL
        for (int i = 0; i < m; i++) {
            const float *own = x + (size_t)i * ldx + k;
            y[i][p][chain] += own[0] * w[0];
            y[i][p][chain + 1] += own[1] * w[1];
        }
    }
}

INLINE void multiply_rows(float *to, const void *at, const float *x, size_t ldx, int m, size_t depth,
                          lnt_form_kind kind)
{
    vec y[MOST][PARTS][CHAINS] = { 0 };
    size_t k = 0;
    for (; k + CHAINS <= depth; k += CHAINS) {
        add_pair(y, 0, at, x, ldx, m, k, kind);
        add_pair(y, 2, at, x, ldx, m, k + 2, kind);
    }
    for (; k + 2 <= depth; k += 2) add_pair(y, 0, at, x, ldx, m, k, kind);
    for (int p = 0; p < PARTS && k < depth; p++) {
        const vec w = one_number(at, k, p, kind);
        for (int i = 0; i < m; i++) y[i][p][2] += x[(size_t)i * ldx + k] * w;
    }
    UNROLL_FULL
    for (int i = 0; i < m; i++)
        UNROLL_FULL
        for (int p = 0; p < PARTS; p++)
            vstore(to + i * LNT_PANEL + p * LANES,
                   (y[i][p][0] + y[i][p][1]) + (y[i][p][2] + y[i][p][3]));
}

INLINE void multiply(float *y, const void *at, const float *x, size_t ldx, size_t m, size_t depth,
                     lnt_form_kind kind)
{
    for (; m >= MOST; m -= MOST, y += MOST * LNT_PANEL, x += MOST * ldx)
        multiply_rows(y, at, x, ldx, MOST, depth, kind);
    UNROLL_FULL
    for (int some = MOST / 2; some > 0; some /= 2) {
        if (!(m & (size_t)some)) continue;
        multiply_rows(y, at, x, ldx, some, depth, kind);
        y += some * LNT_PANEL;
        x += (size_t)some * ldx;
    }
}

void KERNEL(multiply_floats)(float *y, const lnt_panel *panel, const float *x, size_t ldx, size_t m,
                             size_t k0, size_t depth)
{
    const size_t first = k0 * LNT_PANEL;
    switch (panel->form->kind) {
    case LNT_FORM_F16:
        multiply(y, (const uint16_t *)panel->at + first, x, ldx, m, depth, LNT_FORM_F16);
        break;
    case LNT_FORM_BF16:
        multiply(y, (const uint16_t *)panel->at + first, x, ldx, m, depth, LNT_FORM_BF16);
        break;
    case LNT_FORM_F32: multiply(y, (const float *)panel->at + first, x, ldx, m, depth, LNT_FORM_F32); break;
    case LNT_FORM_CODES: break; /* they are multiplied by whole numbers */
    }
}
