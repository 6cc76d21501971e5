/* nn/weight_store.c - rows of panels back in the blocks of files, to the bit: what nn/weight_codes.c takes
 * apart is put together here, field by field in the same order.
 *
 * A row costs one pass over it, a few nanoseconds a number. */
#include <assert.h>
#include <string.h>

#include "nn/weight.h"
#include "nn/weight_codes.h"

enum { HALF = LNT_PANEL_BLOCK / 2 };

static void put_half(uint8_t *to, uint16_t h) { memcpy(to, &h, sizeof h); }
static void put_bits(uint8_t *to, int bits) { *to = (uint8_t)(*to | bits); }

/* ---- blocks of 32 -------------------------------------------------------------------------- */

static void put_small(const lnt_codes *c, lnt_storage storage, uint8_t *to)
{
    const bool affine = lnt_form_of(storage).affine;
    const bool five = storage == LNT_STORAGE_Q5_0 || storage == LNT_STORAGE_Q5_1;
    uint8_t *rest = to + (affine ? 4 : 2), *four = five ? rest + 4 : rest;
    put_half(to, c->d);
    if (affine) put_half(to + 2, c->m);
    if (storage == LNT_STORAGE_Q8_0) {
        for (int j = 0; j < LNT_PANEL_BLOCK; j++) rest[j] = c->u[j] ^ 128;
        return;
    }
    for (int j = 0; j < HALF; j++) four[j] = (uint8_t)((c->u[j] & 15) | (c->u[j + HALF] & 15) << 4);
    for (int j = 0; five && j < LNT_PANEL_BLOCK; j++) put_bits(rest + j / 8, (c->u[j] >> 4) << j % 8);
}

/* ---- blocks of 256; b is which of the eight 32 ----------------------------------------------- */

static void put_q2(const lnt_codes *c, uint8_t *to, int b)
{
    uint8_t *two = to + 16 + 32 * (b / 4);
    for (int j = 0; j < LNT_PANEL_BLOCK; j++) put_bits(two + j, c->u[j] << 2 * (b % 4));
    for (int i = 0; i < 2; i++) to[2 * b + i] = (uint8_t)(c->a[i] | c->b[i] << 4);
    put_half(to + 80, c->d);
    put_half(to + 82, c->m);
}

static void put_q3(const lnt_codes *c, uint8_t *to, int b)
{
    uint8_t *third = to, *two = to + 32 + 32 * (b / 4), *scales = to + 96;
    for (int j = 0; j < LNT_PANEL_BLOCK; j++) {
        put_bits(two + j, (c->u[j] & 3) << 2 * (b % 4));
        put_bits(third + j, c->u[j] >> 2 << b);
    }
    for (int i = 2 * b; i < 2 * b + 2; i++) {
        const int scale = c->a[i % 2] + 32;
        put_bits(scales + i % 8, (scale & 15) << (i < 8 ? 0 : 4));
        put_bits(scales + 8 + i % 4, scale >> 4 << 2 * (i / 4));
    }
    put_half(to + 108, c->d);
}

static void put_scales(const lnt_codes *c, uint8_t *to, int b)
{
    uint8_t *s = to + 4;
    put_half(to, c->d);
    put_half(to + 2, c->m);
    if (b < 4) {
        put_bits(s + b, c->a[0]);
        put_bits(s + b + 4, c->b[0]);
    } else {
        put_bits(s + b + 4, (c->a[0] & 15) | (c->b[0] & 15) << 4);
        put_bits(s + b - 4, c->a[0] >> 4 << 6);
        put_bits(s + b, c->b[0] >> 4 << 6);
    }
}

static void put_halves(const lnt_codes *c, uint8_t *to, int b)
{
    for (int j = 0; j < LNT_PANEL_BLOCK; j++) put_bits(to + 32 * (b / 2) + j, (c->u[j] & 15) << 4 * (b % 2));
}

static void put_q4(const lnt_codes *c, uint8_t *to, int b)
{
    put_scales(c, to, b);
    put_halves(c, to + 16, b);
}

static void put_q5(const lnt_codes *c, uint8_t *to, int b)
{
    put_scales(c, to, b);
    put_halves(c, to + 48, b);
    for (int j = 0; j < LNT_PANEL_BLOCK; j++) put_bits(to + 16 + j, c->u[j] >> 4 << b);
}

static void put_q6(const lnt_codes *c, uint8_t *to, int b)
{
    uint8_t *four = to + 64 * (b / 4) + 32 * (b % 2), *two = to + 128 + 32 * (b / 4);
    const int quarter = b % 4;
    for (int j = 0; j < LNT_PANEL_BLOCK; j++) {
        put_bits(four + j, (c->u[j] & 15) << 4 * (quarter / 2));
        put_bits(two + j, c->u[j] >> 4 << 2 * quarter);
    }
    memcpy(to + 192 + 2 * b, c->a, 2);
    put_half(to + 208, c->d);
}

void lnt_codes_put(lnt_storage storage, uint8_t *row, size_t k, const lnt_codes *c)
{
    const size_t numbers = lnt_storage_numbers(storage);
    uint8_t *to = row + k / numbers * lnt_storage_bytes(storage);
    const int b = (int)(k % numbers / LNT_PANEL_BLOCK);
    switch (storage) {
    case LNT_STORAGE_Q2_K:
        put_q2(c, to, b);
        break;
    case LNT_STORAGE_Q3_K:
        put_q3(c, to, b);
        break;
    case LNT_STORAGE_Q4_K:
        put_q4(c, to, b);
        break;
    case LNT_STORAGE_Q5_K:
        put_q5(c, to, b);
        break;
    case LNT_STORAGE_Q6_K:
        put_q6(c, to, b);
        break;
    default:
        put_small(c, storage, to);
        break;
    }
}

/* ---- rows ---------------------------------------------------------------------------------- */

/* Numbers k .. k + 31 of row r of a panel of codes. */
static lnt_codes codes_at(const lnt_panel *panel, int r, size_t k)
{
    const lnt_form *f = panel->form;
    const uint8_t *block = (const uint8_t *)panel->at + lnt_panel_codes(*f, k);
    lnt_codes c = { .a = { 0 } };
    for (int j = 0; j < LNT_PANEL_BLOCK; j++) {
        const int group = j / 4, at = 4 * r + j % 4;
        c.u[j] = f->bits == 8 ? block[64 * group + at] : block[64 * (group / 2) + at] >> 4 * (group % 2) & 15;
    }
    for (int i = 0; i < LNT_PANEL_BLOCK / f->block; i++) {
        const lnt_scales s = lnt_panel_block(panel, k + (size_t)(i * f->block));
        c.d = s.d[r];
        if (s.m) c.m = s.m[r];
        if (s.a) c.a[i] = s.a[r];
        if (s.b) c.b[i] = s.b[r];
    }
    return c;
}

/* Numbers of `size` bytes, `group` of them side by side in a row of the panel. */
static void store_floats(const uint8_t *panel, int r, size_t in, size_t size, size_t group, uint8_t *to)
{
    for (size_t k = 0; k < in; k++) {
        const size_t at = k / group * group * LNT_PANEL + (size_t)r * group + k % group;
        memcpy(to + k * size, panel + at * size, size);
    }
}

void lnt_weight_store(const lnt_weight *w, size_t p, size_t row, void *to)
{
    const lnt_weight_rows *own = &w->parts[p];
    assert(p < w->part_count && row < own->count);
    const lnt_panel panel = { &own->form, own->panels + row / LNT_PANEL * own->panel_bytes, w->in };
    const int r = (int)(row % LNT_PANEL);
    switch (own->form.kind) {
    case LNT_FORM_F32:
        store_floats(panel.at, r, w->in, 4, 1, to);
        return;
    case LNT_FORM_F16:
        store_floats(panel.at, r, w->in, 2, 1, to);
        return;
    case LNT_FORM_BF16:
        store_floats(panel.at, r, w->in, 2, 2, to);
        return;
    case LNT_FORM_CODES:
        break;
    }
    memset(to, 0, lnt_weight_row_bytes(own->storage, w->in));
    for (size_t k = 0; k < w->in; k += LNT_PANEL_BLOCK) {
        const lnt_codes c = codes_at(&panel, r, k);
        lnt_codes_put(own->storage, to, k, &c);
    }
}
