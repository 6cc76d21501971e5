/* cpu/weight/body/codes.c - y = x w^T for a panel of quantised rows and a few rows of activations:
 *
 *     y[r] += d[r] scale (sum of u q - zero sum of q) + m[r] scale (sum of q), block by block of 32 or 16
 *
 * The sums are of whole numbers, which are exact; d, m and scale multiply them in float.  A panel is read
 * from end to end once for MOST rows of activations, two panels side by side for one row. */
#include "cpu/weight/body/ops.h"

/* Rows of activations that a panel is read for at once: their sums are in registers, and with VNNI there are
 * chains of them enough for its latency. */
#ifdef __AVX512VNNI__
enum { MOST = 8 };
#else
enum { MOST = LNT_VEC_BYTES == 64 ? 4 : 2 };
#endif

/* Panels that are read side by side for one row of activations: each of its numbers is loaded once for both,
 * and there are chains of sums enough for what the CPU looks ahead. */
enum { SIDE = LNT_VEC_BYTES == 64 ? 2 : 1 };

/* Where so few rows wait for memory, the panels that come next are asked for, line by line. */
enum { WAITING = 2, LINE = 64 };

/* What rows of activations have got so far; lower is what is taken off where scales are nested. */
typedef struct totals {
    vec y[SIDE][MOST][PARTS], lower[SIDE][MOST][PARTS];
} totals;

/* Where a pass stands in its panel, those `step` bytes behind it, and what it asks for. */
typedef struct place {
    const uint8_t *codes, *scales, *ahead;
    size_t step;
    const lnt_quants *x;
    size_t ldx;
} place;

/* How many rows of activations are multiplied by how many panels at once. */
typedef struct extent {
    int m, side;
} extent;

/* The sums of numbers 8 chunk .. of a block, chunk by chunk, in s. */
INLINE void add_chunks(sums s[SIDE][MOST][PARTS], const place *at, int first, int count, extent e, int bits)
{
    UNROLL_FULL
    for (int i = 0; i < count * PARTS * e.side; i++) {
        const int chunk = first + i / (PARTS * e.side), p = i / e.side % PARTS, b = i % e.side;
        const uint8_t *from =
            at->codes + (size_t)b * at->step + chunk * 8 * LNT_PANEL * bits / 8 + 4 * LANES * p;
        word lower, upper;
        if (bits == 4) {
            const word both = word_load(from);
            lower = word_lower(both), upper = word_upper(both);
        } else {
            lower = word_bytes(from), upper = word_bytes(from + 4 * LNT_PANEL);
        }
        UNROLL_FULL
        for (int r = 0; r < e.m; r++) {
            const int8_t *code = at->x[(size_t)r * at->ldx].code;
            sums_add(&s[b][r][p], lower, code, 2 * chunk);
            sums_add(&s[b][r][p], upper, code, 2 * chunk + 1);
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

INLINE int codes_bytes(lnt_form f) { return LNT_PANEL_BLOCK * LNT_PANEL * f.bits / 8; }

/* What a panel has for 32 numbers, but for scales that 256 share. */
INLINE int block_bytes(lnt_form f) { return codes_bytes(f) + LNT_PANEL_BLOCK / f.block * scales_bytes(f); }

INLINE void ask_ahead(const place *at, extent e, lnt_form f)
{
    UNROLL_FULL
    for (int line = 0; line < e.side * block_bytes(f); line += LINE) __builtin_prefetch(at->ahead + line);
}

/* Adds the sums of block or half-block number `half`, of panel b. */
INLINE void add_sums(totals *t, sums s[MOST][PARTS], const place *at, int half, int b, extent e, lnt_form f)
{
    const int offset = f.bits == 8 ? BYTE_OFFSET : 0;
    const bool whole = f.block == LNT_PANEL_BLOCK;
    const uint8_t *scales = at->scales + (size_t)b * at->step + half * scales_bytes(f);
    UNROLL_FULL
    for (int i = 0; i < e.m; i++) {
        const lnt_quants *x = &at->x[(size_t)i * at->ldx];
        const int32_t sum = whole ? x->sum[0] + x->sum[1] : x->sum[half];
        UNROLL_FULL
        for (int p = 0; p < PARTS; p++) {
            const vec products = vfrom_int(sums_end(s[i][p], (offset - f.zero) * sum)) * x->scale;
            vec *const lower = f.nested ? &t->lower[b][i][p] : &t->y[b][i][p];
            t->y[b][i][p] += scale_of(scales, 0, p, f.nested) * products;
            if (f.affine) *lower += scale_of(scales, 1, p, f.nested) * x->total[whole ? 2 : half];
        }
    }
}

/* Adds the products of 32 numbers. */
INLINE void add_block(totals *t, const place *at, extent e, lnt_form f)
{
    if (e.m <= WAITING) ask_ahead(at, e, f);
    UNROLL_FULL
    for (int half = 0; half < LNT_PANEL_BLOCK / f.block; half++) {
        sums s[SIDE][MOST][PARTS] = { 0 };
        add_chunks(s, at, half * f.block / 8, f.block / 8, e, f.bits);
        UNROLL_FULL
        for (int b = 0; b < e.side; b++) add_sums(t, s[b], at, half, b, e, f);
    }
}

INLINE place next_block(place at, extent e, lnt_form f)
{
    at.codes += codes_bytes(f);
    at.scales += LNT_PANEL_BLOCK / f.block * scales_bytes(f);
    at.ahead += e.side * block_bytes(f);
    at.x++;
    return at;
}

/* Adds the products of 256 numbers whose scales are nested. */
INLINE place add_nest(totals *t, place at, extent e, lnt_form f)
{
    totals own = { 0 };
    const uint8_t *outer = at.scales;
    at.scales += (f.affine ? 4 : 2) * LNT_PANEL;
    for (int b = 0; b < LNT_PANEL_NEST / LNT_PANEL_BLOCK; b++, at = next_block(at, e, f))
        add_block(&own, &at, e, f);
    UNROLL_FULL
    for (int i = 0; i < e.side * e.m * PARTS; i++) {
        const int b = i / (e.m * PARTS), r = i / PARTS % e.m, p = i % PARTS;
        const uint8_t *scales = outer + (size_t)b * at.step;
        t->y[b][r][p] += scale_of(scales, 0, p, false) * own.y[b][r][p];
        if (f.affine) t->y[b][r][p] -= scale_of(scales, 1, p, false) * own.lower[b][r][p];
    }
    return at;
}

/* y [m, ld]; panel b gives columns 16 b ... */
INLINE void multiply_rows(float *y, size_t ld, place at, extent e, size_t depth, lnt_form f)
{
    totals t = { 0 };
    if (f.nested)
        for (size_t k = 0; k < depth; k += LNT_PANEL_NEST) at = add_nest(&t, at, e, f);
    else
        for (size_t k = 0; k < depth; k += LNT_PANEL_BLOCK, at = next_block(at, e, f))
            add_block(&t, &at, e, f);
    UNROLL_FULL
    for (int i = 0; i < e.side * e.m * PARTS; i++) {
        const int b = i / (e.m * PARTS), r = i / PARTS % e.m, p = i % PARTS;
        vstore(y + (size_t)r * ld + b * LNT_PANEL + p * LANES, t.y[b][r][p]);
    }
}

/* All rows of one panel. */
INLINE void multiply_panel(float *y, size_t ld, place at, size_t m, size_t depth, lnt_form f)
{
    for (; m >= MOST; m -= MOST, y += MOST * ld, at.x += MOST * at.ldx)
        multiply_rows(y, ld, at, (extent){ MOST, 1 }, depth, f);
    UNROLL_FULL
    for (int some = MOST / 2; some > 0; some /= 2) {
        if (!(m & (size_t)some)) continue;
        multiply_rows(y, ld, at, (extent){ some, 1 }, depth, f);
        y += (size_t)some * ld;
        at.x += (size_t)some * at.ldx;
    }
}

INLINE place next_panels(place at, size_t count)
{
    at.codes += count * at.step;
    at.scales += count * at.step;
    at.ahead += count * at.step;
    return at;
}

/* All panels, for a form that the compiler knows but for its zero. */
INLINE void multiply(float *y, place at, size_t panels, size_t m, size_t depth, lnt_form f)
{
    const size_t ld = panels * LNT_PANEL;
    if (m == 1 && SIDE > 1)
        for (; panels >= SIDE; panels -= SIDE, y += SIDE * LNT_PANEL, at = next_panels(at, SIDE))
            multiply_rows(y, ld, at, (extent){ 1, SIDE }, depth, f);
    for (; panels > 0; panels--, y += LNT_PANEL, at = next_panels(at, 1))
        multiply_panel(y, ld, at, m, depth, f);
}

#define FORM(name, bits, block, affine, nested)                                                     \
    static void name(float *y, place at, size_t panels, size_t m, size_t depth, int zero)           \
    {                                                                                               \
        const lnt_form f = { LNT_FORM_CODES, bits, block, (affine) ? 0 : zero, affine, nested };    \
        multiply(y, at, panels, m, depth, f);                                                       \
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

void KERNEL(multiply_codes)(float *y, const lnt_panel *panel, size_t panels, const lnt_quants *x, size_t ldx,
                            size_t m, size_t k0, size_t depth)
{
    const lnt_form *f = panel->form;
    const uint8_t *codes = panel->at, *scales = codes + lnt_panel_codes(*f, panel->in);
    const size_t step = lnt_panel_bytes(*f, panel->in), side = m == 1 ? SIDE : 1;
    const place at = { .codes = codes + lnt_panel_codes(*f, k0),
                       .scales = scales + lnt_panel_scales(*f, k0),
                       .ahead = codes + side * (step + k0 / LNT_PANEL_BLOCK * (size_t)block_bytes(*f)),
                       .step = step,
                       .x = x,
                       .ldx = ldx };
    const bool wide = f->bits == 8, halves = f->block < LNT_PANEL_BLOCK;
    if (!f->nested && !f->affine) (wide ? plain8 : plain4)(y, at, panels, m, depth, f->zero);
    else if (!f->nested) (wide ? affine8 : affine4)(y, at, panels, m, depth, 0);
    else if (!f->affine) (wide ? nested8 : nested4)(y, at, panels, m, depth, f->zero);
    else if (halves) nested_affine4_of_16(y, at, panels, m, depth, 0);
    else (wide ? nested_affine8 : nested_affine4)(y, at, panels, m, depth, 0);
}
