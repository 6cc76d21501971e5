/* cpu/weight/panel.h - how the kernels of weights have a matrix: in panels of 16 rows.
 *
 * Quantised numbers are whole numbers u, unsigned, of 4 or 8 bits, times a scale that the numbers of a block
 * share: w = d (u - zero), or w = d u + m.  Four consecutive u of a row are one 32-bit lane, and 16 rows are
 * side by side: 64 bytes, of which one instruction multiplies and adds 16 sums.  Of 4 bits, the lower halves
 * of such bytes are the first four numbers and the upper halves the next.
 *
 *     codes   for each 32 of `in`: 8 groups [16 rows][4], of 64 bytes each, or 4 pairs of groups
 *     scales  for each block: d [16], and m [16], in f16
 *             nested, for each 256 of `in`: d [16], and m [16], in f16; then for each block: a [16], and
 *             b [16], signed bytes, so that the scale of the block is d a and what is added -m b
 *
 * f16 and f32 are [in][16 rows]; bf16 is [in / 2][16 rows][2]. */
#ifndef LNT_CPU_WEIGHT_PANEL_H
#define LNT_CPU_WEIGHT_PANEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LNT_PANEL = 16,       /* rows */
    LNT_PANEL_BLOCK = 32, /* numbers along `in` that activations share a scale for */
    LNT_PANEL_NEST = 256  /* numbers along `in` that share the upper scales of nested ones */
};

typedef enum lnt_form_kind { LNT_FORM_CODES, LNT_FORM_F16, LNT_FORM_BF16, LNT_FORM_F32 } lnt_form_kind;

typedef struct lnt_form {
    lnt_form_kind kind;
    int bits;  /* 4 or 8: this and what follows is of codes alone */
    int block; /* 16 or 32 */
    int zero;
    bool affine; /* w = d u + m; zero is 0 */
    bool nested;
} lnt_form;

/* A panel: its form, its memory, and how many numbers a row has; of codes a multiple of 32, nested of 256. */
typedef struct lnt_panel {
    const lnt_form *form;
    const void *at;
    size_t in;
} lnt_panel;

/* Activations of 32 consecutive numbers: x = scale (128 high + low), to 15 bits of the largest; code is in
 * the order that the kernels of this instruction set read. */
typedef struct lnt_quants {
    int8_t code[2 * LNT_PANEL_BLOCK];
    float scale;    /* NaN, if any of the numbers is not finite */
    int32_t sum[2]; /* of the first and the second 16 */
    float total[3]; /* scale times each sum, and times both */
    float unused[2];
} lnt_quants;

static inline size_t lnt_panel_codes(lnt_form form, size_t in)
{
    return in * LNT_PANEL * (size_t)form.bits / 8;
}

/* Bytes of the scales of so many numbers. */
static inline size_t lnt_panel_scales(lnt_form form, size_t in)
{
    const size_t each = (form.affine ? 2 : 1) * LNT_PANEL, blocks = in / (size_t)form.block;
    return form.nested ? in / LNT_PANEL_NEST * each * sizeof(uint16_t) + blocks * each
                       : blocks * each * sizeof(uint16_t);
}

/* The scales of the block that number k is in, [16] each; m NULL if not affine, a and b if not nested. */
typedef struct lnt_scales {
    const uint16_t *d, *m;
    const int8_t *a, *b;
} lnt_scales;

static inline lnt_scales lnt_panel_block(const lnt_panel *panel, size_t k)
{
    const lnt_form f = *panel->form;
    const size_t own = (size_t)f.block, shared = f.nested ? LNT_PANEL_NEST : own;
    const char *at = (const char *)panel->at + lnt_panel_codes(f, panel->in);
    const uint16_t *d = (const void *)(at + lnt_panel_scales(f, k / shared * shared));
    lnt_scales s = { .d = d, .m = f.affine ? d + LNT_PANEL : NULL };
    const size_t each = (f.affine ? 2 : 1) * LNT_PANEL;
    if (f.nested) s.a = (const int8_t *)(d + each) + k % shared / own * each;
    if (f.nested && f.affine) s.b = s.a + LNT_PANEL;
    return s;
}

/* Bytes of a panel, whole lines of the cache. */
static inline size_t lnt_panel_bytes(lnt_form form, size_t in)
{
    size_t bytes = 0;
    switch (form.kind) {
    case LNT_FORM_CODES: bytes = lnt_panel_codes(form, in) + lnt_panel_scales(form, in); break;
    case LNT_FORM_F16: bytes = in * LNT_PANEL * sizeof(uint16_t); break;
    case LNT_FORM_BF16: bytes = (in + in % 2) * LNT_PANEL * sizeof(uint16_t); break;
    case LNT_FORM_F32: bytes = in * LNT_PANEL * sizeof(float); break;
    }
    return (bytes + 63) / 64 * 64;
}

#endif
