/* cpu/weight/body/codes.c - y = x w^T for a panel of quantised rows and a few rows of activations:
 *
 *     y[r] += d[r] scale (sum of u q - zero sum of q) + m[r] scale (sum of q), block by block of 32 or 16
 *
 * The sums are of whole numbers, which are exact; d, m and scale multiply them in float.  A panel is read
 * from end to end once for MOST rows of activations. */
#include "cpu/weight/body/ops.h"

/* Rows of activations that a panel is read for at once: their sums are in registers, and with VNNI there are
 * chains of them enough for its latency. */
#ifdef __AVX512VNNI__
enum { MOST = 8 };
#else
enum { MOST = LNT_VEC_BYTES == 64 ? 4 : 2 };
#endif

/* Bytes of codes that are asked of memory ahead of their turn, where so few rows wait for it: a fifth faster
 * than what the CPU foresees by itself. */
enum { AHEAD = 2048, WAITING = 2 };

/* What rows of activations have got so far; lower is what is taken off where scales are nested. */
typedef struct totals {
    vec y[MOST][PARTS], lower[MOST][PARTS];
} totals;

/* Where a pass stands in its panel. */
typedef struct place {
    const uint8_t *codes, *scales;
    const lnt_quants *x;
    size_t ldx;
} place;

/* The sums of numbers 8 chunk .. of a block, chunk by chunk, in s. */
INLINE void add_chunks(sums s[MOST][PARTS], const place *at, int first, int count, int m, int bits)
{
    UNROLL_FULL
    for (int chunk = first; chunk < first + count; chunk++)
        UNROLL_FULL
        for (int p = 0; p < PARTS; p++) {
            const uint8_t *from = at->codes + chunk * 8 * LNT_PANEL * bits / 8 + 4 * LANES * p;
            word a, b;
            if (m <= WAITING && p * LANES % 16 == 0) {
                __builtin_prefetch(from + AHEAD);
                if (bits == 8) __builtin_prefetch(from + AHEAD + 64);
            }
            if (bits == 4) {
                const word both = word_load(from);
                a = word_lower(both), b = word_upper(both);
            } else {
                a = word_bytes(from), b = word_bytes(from + 4 * LNT_PANEL);
            }
            UNROLL_FULL
            for (int i = 0; i < m; i++) {
                const int8_t *code = at->x[(size_t)i * at->ldx].code;
                sums_add(&s[i][p], a, code, 2 * chunk);
                sums_add(&s[i][p], b, code, 2 * chunk + 1);
            }
        }
}

/* Scale number `which` of a block, of LANES rows. */
INLINE vec scale_of(const uint8_t *scales, int which, int p, bool nested)
{
    const int i = which * LNT_PANEL + p * LANES;
    if (nested) return vload_bytes((const int8_t *)scales + i);
    return vload_f16((const uint16_t *)(const void *)scales + i);
}

INLINE int scales_bytes(lnt_form f) { return (f.affine ? 2 : 1) * LNT_PANEL * (f.nested ? 1 : 2); }

/* Adds the products of 32 numbers. */
INLINE void add_block(vec y[MOST][PARTS], vec lower[MOST][PARTS], const place *at, int m, lnt_form f)
{
    const int parts = LNT_PANEL_BLOCK / f.block, offset = f.bits == 8 ? BYTE_OFFSET : 0;
    UNROLL_FULL
    for (int half = 0; half < parts; half++) {
        sums s[MOST][PARTS] = { 0 };
        add_chunks(s, at, half * f.block / 8, f.block / 8, m, f.bits);
        const uint8_t *scales = at->scales + half * scales_bytes(f);
        UNROLL_FULL
        for (int i = 0; i < m; i++) {
            const lnt_quants *x = &at->x[(size_t)i * at->ldx];
            const int32_t sum = parts == 1 ? x->sum[0] + x->sum[1] : x->sum[half];
            UNROLL_FULL
            for (int p = 0; p < PARTS; p++) {
                const vec products = vfrom_int(sums_end(s[i][p], (offset - f.zero) * sum)) * x->scale;
                y[i][p] += scale_of(scales, 0, p, f.nested) * products;
                if (f.affine)
                    lower[i][p] += scale_of(scales, 1, p, f.nested) * x->total[parts == 1 ? 2 : half];
            }
        }
    }
}

INLINE place next_block(place at, lnt_form f)
{
    at.codes += LNT_PANEL_BLOCK * LNT_PANEL * f.bits / 8;
    at.scales += LNT_PANEL_BLOCK / f.block * scales_bytes(f);
    at.x++;
    return at;
}

/* Adds the products of 256 numbers whose scales are nested. */
INLINE place add_nest(totals *t, place at, int m, lnt_form f)
{
    totals own = { 0 };
    const uint8_t *outer = at.scales;
    at.scales += (f.affine ? 4 : 2) * LNT_PANEL;
    for (int b = 0; b < LNT_PANEL_NEST / LNT_PANEL_BLOCK; b++, at = next_block(at, f))
        add_block(own.y, own.lower, &at, m, f);
    UNROLL_FULL
    for (int i = 0; i < m; i++)
        UNROLL_FULL
        for (int p = 0; p < PARTS; p++) {
            t->y[i][p] += scale_of(outer, 0, p, false) * own.y[i][p];
            if (f.affine) t->y[i][p] -= scale_of(outer, 1, p, false) * own.lower[i][p];
        }
    return at;
}

INLINE void multiply_rows(float *y, place at, int m, size_t depth, lnt_form f)
{
    totals t = { 0 };
    if (f.nested)
        for (size_t k = 0; k < depth; k += LNT_PANEL_NEST) at = add_nest(&t, at, m, f);
    else
        for (size_t k = 0; k < depth; k += LNT_PANEL_BLOCK, at = next_block(at, f))
            add_block(t.y, t.y, &at, m, f);
    UNROLL_FULL
    for (int i = 0; i < m; i++)
        UNROLL_FULL
        for (int p = 0; p < PARTS; p++) vstore(y + i * LNT_PANEL + p * LANES, t.y[i][p]);
}

/* All rows, for a form that the compiler knows but for its zero. */
INLINE void multiply(float *y, place at, size_t m, size_t depth, lnt_form f)
{
    for (; m >= MOST; m -= MOST, y += MOST * LNT_PANEL, at.x += MOST * at.ldx)
        multiply_rows(y, at, MOST, depth, f);
    UNROLL_FULL
    for (int some = MOST / 2; some > 0; some /= 2) {
        if (!(m & (size_t)some)) continue;
        multiply_rows(y, at, some, depth, f);
        y += some * LNT_PANEL;
        at.x += (size_t)some * at.ldx;
    }
}

#define FORM(name, bits, block, affine, nested)                                                  \
    static void name(float *y, place at, size_t m, size_t depth, int zero)                       \
    {                                                                                            \
        multiply(y, at, m, depth, (lnt_form){ LNT_FORM_CODES, bits, block, zero, affine, nested }); \
    }
FORM(plain4, 4, 32, false, false)
FORM(plain8, 8, 32, false, false)
FORM(affine4, 4, 32, true, false)
FORM(affine8, 8, 32, true, false)
FORM(nested4, 4, 16, false, true)
FORM(nested8, 8, 16, false, true)
FORM(nested_affine4, 4, 32, true, true)
FORM(nested_affine8, 8, 32, true, true)
FORM(nested_affine4_of_16, 4, 16, true, true)

void KERNEL(multiply_codes)(float *y, const lnt_panel *panel, const lnt_quants *x, size_t ldx, size_t m,
                            size_t k0, size_t depth)
{
    const lnt_form *f = panel->form;
    const uint8_t *codes = panel->at, *scales = codes + lnt_panel_codes(*f, panel->in);
    const place at = { codes + lnt_panel_codes(*f, k0), scales + lnt_panel_scales(*f, k0), x, ldx };
    const bool wide = f->bits == 8;
    if (!f->nested && !f->affine) (wide ? plain8 : plain4)(y, at, m, depth, f->zero);
    else if (!f->nested) (wide ? affine8 : affine4)(y, at, m, depth, 0);
    else if (!f->affine) (wide ? nested8 : nested4)(y, at, m, depth, f->zero);
    else if (f->block == LNT_PANEL_BLOCK) (wide ? nested_affine8 : nested_affine4)(y, at, m, depth, 0);
    else nested_affine4_of_16(y, at, m, depth, 0);
}
