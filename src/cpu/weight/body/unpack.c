/* cpu/weight/body/unpack.c - a panel as floats, transposed: what the matrix product reads in stripes.
 *
 * d (u - zero) and d u are exact in float, the scale of nested ones as well: a number is rounded once, when m
 * is added. */
#include "cpu/weight/body/ops.h"

/* The numbers of one part of a block: d (u - zero), or d u + m. */
typedef struct scales {
    vec d, m;
} scales;

INLINE scales read_scales(const lnt_panel *panel, size_t k, int p)
{
    const lnt_scales from = lnt_panel_block(panel, k);
    scales s = { vload_f16(from.d + p * LANES), vsplat(0) };
    if (from.m) s.m = vload_f16(from.m + p * LANES);
    if (from.a) s.d *= vload_bytes(from.a + p * LANES);
    if (from.b) s.m *= -vload_bytes(from.b + p * LANES);
    return s;
}

/* Four numbers of LANES rows. */
INLINE void unpack_word(float *y, size_t ld, word w, scales s, int zero)
{
    for (int i = 0; i < 4; i++)
        vstore(y + (size_t)i * ld, s.d * vfrom_int((ivec)(w >> 8 * i & 255) - zero) + s.m);
}

static void unpack_codes(float *y, size_t ld, const lnt_panel *panel, size_t k0, size_t depth)
{
    const lnt_form f = *panel->form;
    const uint8_t *codes = (const uint8_t *)panel->at + lnt_panel_codes(f, k0);
    for (size_t k = 0; k < depth; k += 8, codes += 8 * LNT_PANEL * f.bits / 8)
        for (int p = 0; p < PARTS; p++) {
            const scales s = read_scales(panel, k0 + k, p);
            const uint8_t *from = codes + 4 * LANES * p;
            const word first = word_load(from);
            const bool narrow = f.bits == 4;
            const word a = narrow ? word_lower(first) : first;
            const word b = narrow ? word_upper(first) : word_load(from + 4 * LNT_PANEL);
            float *to = y + k * ld + p * LANES;
            unpack_word(to, ld, a, s, f.zero);
            unpack_word(to + 4 * ld, ld, b, s, f.zero);
        }
}

static void unpack_bf16(float *y, size_t ld, const uint16_t *at, size_t depth)
{
    for (size_t k = 0; k < depth; k += 2, at += 2 * LNT_PANEL)
        for (int p = 0; p < PARTS; p++) {
            const word both = word_load(at + 2 * LANES * p);
            vstore(y + k * ld + p * LANES, vfrom_bits((ivec)(both << 16)));
            if (k + 1 < depth) vstore(y + (k + 1) * ld + p * LANES, vfrom_bits((ivec)(both & 0xffff0000u)));
        }
}

void KERNEL(unpack)(float *y, size_t ld, const lnt_panel *panel, size_t k0, size_t depth)
{
    const size_t first = k0 * LNT_PANEL;
    switch (panel->form->kind) {
    case LNT_FORM_CODES: unpack_codes(y, ld, panel, k0, depth); break;
    case LNT_FORM_BF16: unpack_bf16(y, ld, (const uint16_t *)panel->at + first, depth); break;
    case LNT_FORM_F16:
        for (size_t k = 0; k < depth; k++)
            for (int p = 0; p < PARTS; p++)
                vstore(y + k * ld + p * LANES,
                       vload_f16((const uint16_t *)panel->at + first + k * LNT_PANEL + p * LANES));
        break;
    case LNT_FORM_F32:
        for (size_t k = 0; k < depth; k++)
            memcpy(y + k * ld, (const float *)panel->at + first + k * LNT_PANEL, LNT_PANEL * sizeof *y);
        break;
    }
}
