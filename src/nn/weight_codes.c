/* nn/weight_codes.c - blocks of 2 to 8 bits as codes and scales: w = d (u - zero), w = d u + m, or where
 * scales are nested w = d a (u - zero), w = d a u - m b.
 *
 * The layouts are in io/storage.c, which has their numbers as floats.  Here they are taken apart 32 at a
 * time; of 256 (K) that is the b-th of eight. */
#include "nn/weight_codes.h"

#include <assert.h>
#include <string.h>


enum { HALF = LNT_PANEL_BLOCK / 2 };

lnt_form lnt_form_of(lnt_storage storage)
{
    static const lnt_form forms[] = {
        [LNT_STORAGE_F32] = { .kind = LNT_FORM_F32 },
        [LNT_STORAGE_F16] = { .kind = LNT_FORM_F16 },
        [LNT_STORAGE_BF16] = { .kind = LNT_FORM_BF16 },
        [LNT_STORAGE_Q8_0] = { .bits = 8, .block = 32, .zero = 128 },
        [LNT_STORAGE_Q4_0] = { .bits = 4, .block = 32, .zero = 8 },
        [LNT_STORAGE_Q4_1] = { .bits = 4, .block = 32, .affine = true },
        [LNT_STORAGE_Q5_0] = { .bits = 8, .block = 32, .zero = 16 },
        [LNT_STORAGE_Q5_1] = { .bits = 8, .block = 32, .affine = true },
        [LNT_STORAGE_Q2_K] = { .bits = 4, .block = 16, .affine = true, .nested = true },
        [LNT_STORAGE_Q3_K] = { .bits = 4, .block = 16, .zero = 4, .nested = true },
        [LNT_STORAGE_Q4_K] = { .bits = 4, .block = 32, .affine = true, .nested = true },
        [LNT_STORAGE_Q5_K] = { .bits = 8, .block = 32, .affine = true, .nested = true },
        [LNT_STORAGE_Q6_K] = { .bits = 8, .block = 16, .zero = 32, .nested = true },
    };
    assert((size_t)storage < sizeof forms / sizeof forms[0]);
    return forms[storage];
}

static uint16_t half_at(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return h;
}

/* ---- blocks of 32 -------------------------------------------------------------------------- */

static void take_nibbles(uint8_t *u, const uint8_t *from)
{
    for (int j = 0; j < HALF; j++) {
        u[j] = from[j] & 15;
        u[j + HALF] = from[j] >> 4;
    }
}

/* The fifth bit of number j is bit j. */
static void take_fifth(uint8_t *u, const uint8_t *from)
{
    for (int j = 0; j < LNT_PANEL_BLOCK; j++) u[j] = (uint8_t)(u[j] | (from[j / 8] >> j % 8 & 1) << 4);
}

static void take_small(lnt_codes *c, lnt_storage storage, const uint8_t *from)
{
    const bool affine = lnt_form_of(storage).affine;
    const uint8_t *rest = from + (affine ? 4 : 2);
    c->d = half_at(from);
    if (affine) c->m = half_at(from + 2);
    if (storage == LNT_STORAGE_Q8_0) {
        for (int j = 0; j < LNT_PANEL_BLOCK; j++) c->u[j] = rest[j] ^ 128; /* two's complement plus 128 */
        return;
    }
    const bool five = storage == LNT_STORAGE_Q5_0 || storage == LNT_STORAGE_Q5_1;
    take_nibbles(c->u, five ? rest + 4 : rest);
    if (five) take_fifth(c->u, rest);
}

/* ---- blocks of 256; b is which of the eight 32 ----------------------------------------------- */

static void take_q2(lnt_codes *c, const uint8_t *from, int b)
{
    const uint8_t *two = from + 16 + 32 * (b / 4);
    for (int j = 0; j < LNT_PANEL_BLOCK; j++) c->u[j] = two[j] >> 2 * (b % 4) & 3;
    for (int i = 0; i < 2; i++) {
        c->a[i] = from[2 * b + i] & 15;
        c->b[i] = (int8_t)(from[2 * b + i] >> 4);
    }
    c->d = half_at(from + 80);
    c->m = half_at(from + 82);
}

/* A third bit that is not there takes 4 off. */
static void take_q3(lnt_codes *c, const uint8_t *from, int b)
{
    const uint8_t *third = from, *two = from + 32 + 32 * (b / 4), *scales = from + 96;
    for (int j = 0; j < LNT_PANEL_BLOCK; j++)
        c->u[j] = (uint8_t)((two[j] >> 2 * (b % 4) & 3) | (third[j] >> b & 1) << 2);
    for (int i = 2 * b; i < 2 * b + 2; i++) {
        const int low = i < 8 ? scales[i] & 15 : scales[i - 8] >> 4;
        const int high = scales[8 + i % 4] >> 2 * (i / 4) & 3;
        c->a[i % 2] = (int8_t)((low | high << 4) - 32);
    }
    c->d = half_at(from + 108);
}

/* Eight pairs of 6 bits in 12 bytes. */
static void take_scales(lnt_codes *c, const uint8_t *from, int b)
{
    c->d = half_at(from);
    c->m = half_at(from + 2);
    const uint8_t *s = from + 4;
    if (b < 4) {
        c->a[0] = s[b] & 63;
        c->b[0] = s[b + 4] & 63;
    } else {
        c->a[0] = (int8_t)((s[b + 4] & 15) | s[b - 4] >> 6 << 4);
        c->b[0] = (int8_t)(s[b + 4] >> 4 | s[b] >> 6 << 4);
    }
}

/* The lower halves of 32 bytes are one 32, the upper halves the next. */
static void take_halves(uint8_t *u, const uint8_t *from, int b)
{
    for (int j = 0; j < LNT_PANEL_BLOCK; j++) u[j] = from[32 * (b / 2) + j] >> 4 * (b % 2) & 15;
}

static void take_q4(lnt_codes *c, const uint8_t *from, int b)
{
    take_scales(c, from, b);
    take_halves(c->u, from + 16, b);
}

static void take_q5(lnt_codes *c, const uint8_t *from, int b)
{
    take_scales(c, from, b);
    take_halves(c->u, from + 48, b);
    for (int j = 0; j < LNT_PANEL_BLOCK; j++) c->u[j] = (uint8_t)(c->u[j] | (from[16 + j] >> b & 1) << 4);
}

static void take_q6(lnt_codes *c, const uint8_t *from, int b)
{
    const uint8_t *four = from + 64 * (b / 4) + 32 * (b % 2), *two = from + 128 + 32 * (b / 4);
    const int quarter = b % 4;
    for (int j = 0; j < LNT_PANEL_BLOCK; j++)
        c->u[j] = (uint8_t)((four[j] >> 4 * (quarter / 2) & 15) | (two[j] >> 2 * quarter & 3) << 4);
    memcpy(c->a, from + 192 + 2 * b, 2);
    c->d = half_at(from + 208);
}

lnt_codes lnt_codes_of(lnt_storage storage, const uint8_t *row, size_t k)
{
    const size_t numbers = lnt_storage_numbers(storage);
    const uint8_t *from = row + k / numbers * lnt_storage_bytes(storage);
    const int b = (int)(k % numbers / LNT_PANEL_BLOCK);
    lnt_codes c = { .a = { 0 } };
    switch (storage) {
    case LNT_STORAGE_Q2_K: take_q2(&c, from, b); break;
    case LNT_STORAGE_Q3_K: take_q3(&c, from, b); break;
    case LNT_STORAGE_Q4_K: take_q4(&c, from, b); break;
    case LNT_STORAGE_Q5_K: take_q5(&c, from, b); break;
    case LNT_STORAGE_Q6_K: take_q6(&c, from, b); break;
    default: take_small(&c, storage, from); break;
    }
    return c;
}
