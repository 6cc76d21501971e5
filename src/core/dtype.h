/* core/dtype.h - f16 and bf16 as bits: conversions to and from float and double, round to nearest even.
 *
 * Written on integers so that compilers without a half type, and auto-vectorisers, can take them. */
#ifndef LNT_CORE_DTYPE_H
#define LNT_CORE_DTYPE_H

#include <stdint.h>
#include <string.h>

/* What a cache keeps in a block: 32 numbers of a row, each `scale` (bf16) times a whole number.  A row is its
 * blocks, one after the other, the last of them filled up with 0. */
typedef struct lnt_q8_block {
    uint16_t scale;
    int8_t number[32];
} lnt_q8_block;

enum {
    LNT_Q8 = 16, /* in place of an lnt_dtype, of rows of blocks: strides are in words of 2 bytes */
    LNT_Q8_NUMBERS = 32,
    LNT_Q8_WORDS = sizeof(lnt_q8_block) / 2
};

static inline uint32_t lnt_float_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float lnt_bits_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float lnt_bf16_to_float(uint16_t h) { return lnt_bits_float((uint32_t)h << 16); }

static inline uint16_t lnt_float_to_bf16(float x)
{
    const uint32_t u = lnt_float_bits(x);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const uint32_t nan = (u >> 16) | 0x40u; /* quiet, sign kept */
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

static inline float lnt_f16_to_float(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t magnitude = (uint32_t)(h & 0x7fffu) << 13;
    /* Rebias by a multiplication, which also normalises subnormals; inf and nan keep exponent 255. */
    const float normal = lnt_bits_float(magnitude) * 0x1p112f;
    const uint32_t special = magnitude | 0x7f800000u;
    const uint32_t bits = magnitude >= 0x0f800000u ? special : lnt_float_bits(normal);
    return lnt_bits_float(bits | sign);
}

static inline uint16_t lnt_float_to_f16(float x)
{
    const uint32_t u = lnt_float_bits(x), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    /* Normal: rebias 127 -> 15 and round 13 bits off.  Overflow carries into infinity by itself. */
    const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    /* Subnormal: adding 0.5 puts the rounded value into the low bits. */
    const uint32_t small = lnt_float_bits(lnt_bits_float(magnitude) + 0.5f) - 0x3f000000u;
    const uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
    const uint32_t h = magnitude >= 0x477ff000u ? special : magnitude < 0x38800000u ? small : normal;
    return (uint16_t)(h | sign);
}

/* The float next to x towards 0, its last bit set where it is not x itself: rounded to fewer bits it gives
 * what x does, for it stands on the same side of every tie. */
static inline float lnt_double_to_odd(double x)
{
    const float near = (float)x;
    const double size = x < 0 ? -x : x, got = near < 0 ? -(double)near : (double)near;
    if (!(got < size || got > size)) return near; /* exact, or NaN */
    return lnt_bits_float((lnt_float_bits(near) - (got > size)) | 1u);
}

static inline uint16_t lnt_double_to_f16(double x) { return lnt_float_to_f16(lnt_double_to_odd(x)); }
static inline uint16_t lnt_double_to_bf16(double x) { return lnt_float_to_bf16(lnt_double_to_odd(x)); }

#endif
