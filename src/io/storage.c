/* io/storage.c - the formats of io/storage.h: names, sizes, and their numbers in f32.
 *
 * A layout is written as its fields in order.  Below, x[i] is number i of a block, q a small integer, d a
 * scale, m a minimum.  Every product has at most 24 significant bits, so it is exact in f32: only a sum
 * with a minimum rounds, and once.  O(count). */
#include "io/storage.h"

#include <assert.h>

#include "core/dtype.h"

typedef unsigned char byte;

static float half_at(const byte *p) { return lnt_f16_to_float((uint16_t)(p[0] | p[1] << 8)); }
static uint32_t word_at(const byte *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* ---- numbers as they are ------------------------------------------------------------------- */

static void unpack_f32(const byte *b, float *x) { *x = lnt_bits_float(word_at(b)); }
static void unpack_f16(const byte *b, float *x) { *x = half_at(b); }
static void unpack_bf16(const byte *b, float *x) { *x = lnt_bf16_to_float((uint16_t)(b[0] | b[1] << 8)); }

/* ---- blocks of 32 -------------------------------------------------------------------------- */

/* f16 d, i8 q[32]:  x = d q */
static void unpack_q8_0(const byte *b, float *x)
{
    const float d = half_at(b);
    for (int i = 0; i < 32; i++) x[i] = d * (float)(int8_t)b[2 + i];
}

/* Four bits of x[i] are in the low half of q[i], those of x[i + 16] in the high half. */

/* f16 d, u8 q[16]:  x = d (q - 8) */
static void unpack_q4_0(const byte *b, float *x)
{
    const float d = half_at(b);
    for (int i = 0; i < 16; i++) {
        x[i] = d * (float)((b[2 + i] & 15) - 8);
        x[i + 16] = d * (float)((b[2 + i] >> 4) - 8);
    }
}

/* f16 d, f16 m, u8 q[16]:  x = d q + m */
static void unpack_q4_1(const byte *b, float *x)
{
    const float d = half_at(b), m = half_at(b + 2);
    for (int i = 0; i < 16; i++) {
        x[i] = d * (float)(b[4 + i] & 15) + m;
        x[i + 16] = d * (float)(b[4 + i] >> 4) + m;
    }
}

/* f16 d, u32 h, u8 q[16]; bit i of h is the fifth bit of x[i]:  x = d (q - 16) */
static void unpack_q5_0(const byte *b, float *x)
{
    const float d = half_at(b);
    const uint32_t h = word_at(b + 2);
    for (int i = 0; i < 16; i++) {
        x[i] = d * (float)((b[6 + i] & 15) + (int)(h >> i & 1) * 16 - 16);
        x[i + 16] = d * (float)((b[6 + i] >> 4) + (int)(h >> (i + 16) & 1) * 16 - 16);
    }
}

/* f16 d, f16 m, u32 h, u8 q[16]:  x = d q + m */
static void unpack_q5_1(const byte *b, float *x)
{
    const float d = half_at(b), m = half_at(b + 2);
    const uint32_t h = word_at(b + 4);
    for (int i = 0; i < 16; i++) {
        x[i] = d * (float)((b[8 + i] & 15) + (int)(h >> i & 1) * 16) + m;
        x[i + 16] = d * (float)((b[8 + i] >> 4) + (int)(h >> (i + 16) & 1) * 16) + m;
    }
}

/* ---- blocks of 256: scales of scales ------------------------------------------------------- */

/* u8 s[16], u8 q[64], f16 d, f16 m.  Byte k (0..31) of half n of q has two bits each of x[128 n + 32 j +
 * k], j = 0..3 from the lowest.  Group g of 16 numbers:  x = d (s[g] & 15) q - m (s[g] >> 4) */
static void unpack_q2_k(const byte *b, float *x)
{
    const byte *s = b, *q = b + 16;
    const float d = half_at(b + 80), m = half_at(b + 82);
    for (int i = 0; i < 256; i++) {
        const int n = i / 128, j = i / 32 % 4, g = i / 16;
        const int two = q[32 * n + i % 32] >> 2 * j & 3;
        x[i] = d * (float)(s[g] & 15) * (float)two - m * (float)(s[g] >> 4);
    }
}

/* u8 h[32], u8 q[64], u8 s[12], f16 d.  q as in q2_k; bit 4 n + j of h[k] is the third bit.  The scale of
 * group g has four bits in s[g % 8], low for g < 8, else high, and two in s[8 + g % 4] from bit 2 (g / 4):
 * x = d (scale - 32) (q - 4) */
static void unpack_q3_k(const byte *b, float *x)
{
    const byte *h = b, *q = b + 32, *s = b + 96;
    const float d = half_at(b + 108);
    for (int i = 0; i < 256; i++) {
        const int n = i / 128, j = i / 32 % 4, k = i % 32, g = i / 16;
        const int scale = (s[g % 8] >> (g < 8 ? 0 : 4) & 15) + (s[8 + g % 4] >> 2 * (g / 4) & 3) * 16;
        const int three = (q[32 * n + k] >> 2 * j & 3) + (h[k] >> (4 * n + j) & 1) * 4;
        x[i] = d * (float)(scale - 32) * (float)(three - 4);
    }
}

/* Eight scales and eight minima of six bits in s[12]: the first four of each in the low bits of s[0..3]
 * and s[4..7]; of the others four bits are the halves of s[8..11], the highest two those of s[0..3] and
 * s[4..7]. */
static int scale_of(const byte *s, int g)
{
    return g < 4 ? s[g] & 63 : (s[g + 4] & 15) + (s[g - 4] >> 6) * 16;
}
static int minimum_of(const byte *s, int g)
{
    return g < 4 ? s[g + 4] & 63 : (s[g + 4] >> 4) + (s[g] >> 6) * 16;
}

/* f16 d, f16 m, u8 s[12], u8 q[128].  Byte k (0..31) of quarter n of q has four bits of x[64 n + k], the
 * lower, and of x[64 n + 32 + k].  Group g of 32 numbers:  x = d scale[g] q - m minimum[g] */
static void unpack_q4_k(const byte *b, float *x)
{
    const byte *s = b + 4, *q = b + 16;
    const float d = half_at(b), m = half_at(b + 2);
    for (int g = 0; g < 8; g++) {
        const float scale = d * (float)scale_of(s, g), minimum = m * (float)minimum_of(s, g);
        for (int k = 0; k < 32; k++)
            x[32 * g + k] = scale * (float)(q[32 * (g / 2) + k] >> 4 * (g % 2) & 15) - minimum;
    }
}

/* f16 d, f16 m, u8 s[12], u8 h[32], u8 q[128].  As q4_k; bit g of h[k] is the fifth bit. */
static void unpack_q5_k(const byte *b, float *x)
{
    const byte *s = b + 4, *h = b + 16, *q = b + 48;
    const float d = half_at(b), m = half_at(b + 2);
    for (int g = 0; g < 8; g++) {
        const float scale = d * (float)scale_of(s, g), minimum = m * (float)minimum_of(s, g);
        for (int k = 0; k < 32; k++) {
            const int five = (q[32 * (g / 2) + k] >> 4 * (g % 2) & 15) + (h[k] >> g & 1) * 16;
            x[32 * g + k] = scale * (float)five - minimum;
        }
    }
}

/* u8 q[128], u8 h[64], i8 s[16], f16 d.  In half n, number 32 j + k (k = 0..31) has four bits in
 * q[64 n + 32 (j % 2) + k], low for j < 2, else high, and two in h[32 n + k] from bit 2 j.  Group g of 16
 * numbers:  x = d s[g] (q - 32) */
static void unpack_q6_k(const byte *b, float *x)
{
    const byte *q = b, *h = b + 128, *s = b + 192;
    const float d = half_at(b + 208);
    for (int i = 0; i < 256; i++) {
        const int n = i / 128, j = i / 32 % 4, k = i % 32;
        const int four = q[64 * n + 32 * (j % 2) + k] >> 4 * (j / 2) & 15;
        const int six = four + (h[32 * n + k] >> 2 * j & 3) * 16;
        x[i] = d * (float)(int8_t)s[i / 16] * (float)(six - 32);
    }
}

static const struct {
    const char *name;
    size_t numbers, bytes;
    void (*unpack)(const byte *block, float *to); /* one block */
} formats[] = {
    [LNT_STORAGE_F32] = { "f32", 1, 4, unpack_f32 },
    [LNT_STORAGE_F16] = { "f16", 1, 2, unpack_f16 },
    [LNT_STORAGE_BF16] = { "bf16", 1, 2, unpack_bf16 },
    [LNT_STORAGE_Q8_0] = { "q8_0", 32, 34, unpack_q8_0 },
    [LNT_STORAGE_Q4_0] = { "q4_0", 32, 18, unpack_q4_0 },
    [LNT_STORAGE_Q4_1] = { "q4_1", 32, 20, unpack_q4_1 },
    [LNT_STORAGE_Q5_0] = { "q5_0", 32, 22, unpack_q5_0 },
    [LNT_STORAGE_Q5_1] = { "q5_1", 32, 24, unpack_q5_1 },
    [LNT_STORAGE_Q2_K] = { "q2_k", 256, 84, unpack_q2_k },
    [LNT_STORAGE_Q3_K] = { "q3_k", 256, 110, unpack_q3_k },
    [LNT_STORAGE_Q4_K] = { "q4_k", 256, 144, unpack_q4_k },
    [LNT_STORAGE_Q5_K] = { "q5_k", 256, 176, unpack_q5_k },
    [LNT_STORAGE_Q6_K] = { "q6_k", 256, 210, unpack_q6_k },
};

const char *lnt_storage_name(lnt_storage storage) { return formats[storage].name; }
size_t lnt_storage_numbers(lnt_storage storage) { return formats[storage].numbers; }
size_t lnt_storage_bytes(lnt_storage storage) { return formats[storage].bytes; }

void lnt_storage_unpack(lnt_storage storage, const void *from, float *to, size_t count)
{
    const size_t numbers = formats[storage].numbers, bytes = formats[storage].bytes;
    assert(count % numbers == 0);
    const byte *block = from;
    for (size_t i = 0; i < count; i += numbers, block += bytes) formats[storage].unpack(block, to + i);
}
