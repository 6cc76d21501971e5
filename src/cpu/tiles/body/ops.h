/* cpu/tiles/body/ops.h - registers for tiles, and rounding to bf16, as the kernels use them: by AMX and
 * AVX512-BF16, or with LNT_EMULATED by plain C, to the same bits.
 *
 * What the instructions do is in Intel's Software Developer's Manual, volume 2 (TDPBF16PS, VCVTNE2PS2BF16):
 * the products of even and of odd numbers have sums of their own, from 0 on, one rounding for each of them;
 * their sum is added to the tile.  Results and numbers under 2^-126 are 0, and rounding is to the nearest. */
#ifndef LNT_CPU_TILES_BODY_OPS_H
#define LNT_CPU_TILES_BODY_OPS_H

#include <string.h>

#include "cpu/tiles/tiles.h"

#define LNT_TILES_PASTE_(a, b) lnt_##a##_##b
#define LNT_TILES_PASTE(a, b) LNT_TILES_PASTE_(a, b)
#define KERNEL(name) LNT_TILES_PASTE(LNT_ISA, name)
#define INLINE static inline __attribute__((always_inline))

enum { TILE_ROWS = 16, TILE_BYTES = 64, TILE = 512 /* numbers of bf16 */ };

#ifndef LNT_EMULATED

#include <immintrin.h>

typedef struct tiles {
    char none; /* they are the CPU's */
} tiles;

#define tile_zero(t, to) _tile_zero(to)
#define tile_load(t, to, from, stride) _tile_loadd(to, from, stride)
#define tile_store(t, from, to, stride) _tile_stored(from, to, stride)
#define tile_multiply(t, sum, a, b) _tile_dpbf16ps(sum, a, b)

/* All eight of 16 rows of 64 bytes. */
INLINE void tile_begin(void)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = { .palette = 1 };
    for (int i = 0; i < 8; i++) config.bytes[i] = TILE_BYTES, config.rows[i] = TILE_ROWS;
    __asm__ volatile("" : : "r"(&config) : "memory"); /* compilers think that it reads 8 bytes of it */
    _tile_loadconfig(&config);
}
INLINE void tile_end(void) { _tile_release(); }

/* 32 numbers: of f32 in two halves, of bf16 in one. */
typedef struct wide {
    __m512 half[2];
} wide;
typedef __m512i narrow;

INLINE wide wide_load(const float *low, const float *high)
{
    return (wide){ { _mm512_loadu_ps(low), _mm512_loadu_ps(high) } };
}
INLINE narrow wide_round(wide x) { return (__m512i)_mm512_cvtne2ps_pbh(x.half[1], x.half[0]); }
INLINE __m512 widened(__m256i x)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}
INLINE wide wide_rest(wide x, narrow of)
{
    return (wide){ { _mm512_sub_ps(x.half[0], widened(_mm512_castsi512_si256(of))),
                     _mm512_sub_ps(x.half[1], widened(_mm512_extracti64x4_epi64(of, 1))) } };
}
INLINE void narrow_store(uint16_t *to, narrow x) { _mm512_storeu_si512(to, x); }
/* Number i of the first half, and of the second, side by side. */
INLINE narrow narrow_pairs(narrow x)
{
    static const uint16_t order[32] = { 0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31 };
    return _mm512_permutexvar_epi16(_mm512_loadu_si512(order), x);
}

#else

typedef union tile {
    uint16_t halves[TILE_ROWS][32];
    float sums[TILE_ROWS][16];
} tile;
typedef struct tiles {
    tile at[8];
} tiles;

INLINE uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
INLINE float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
/* 0 of its sign, if under 2^-126. */
INLINE float flushed(float x)
{
    const uint32_t u = bits_of(x);
    return float_of(u & 0x7f800000u ? u : u & 0x80000000u);
}

INLINE void tile_zero(tiles *t, int to) { memset(&t->at[to], 0, sizeof t->at[to]); }
INLINE void tile_load(tiles *t, int to, const void *from, size_t stride)
{
    for (size_t r = 0; r < TILE_ROWS; r++)
        memcpy(t->at[to].halves[r], (const char *)from + r * stride, TILE_BYTES);
}
INLINE void tile_store(const tiles *t, int from, void *to, size_t stride)
{
    for (size_t r = 0; r < TILE_ROWS; r++)
        memcpy((char *)to + r * stride, t->at[from].halves[r], TILE_BYTES);
}
/* A product of two numbers of bf16 has all its bits in f32, where it is not under 2^-126. */
INLINE void tile_multiply(tiles *t, int sum, int a, int b)
{
    for (int i = 0; i < TILE_ROWS; i++) {
        float even[16] = { 0 }, odd[16] = { 0 };
        for (int k = 0; k < TILE_ROWS; k++) {
            const uint16_t *x = t->at[a].halves[i] + 2 * k, *y = t->at[b].halves[k];
            const float x0 = flushed(float_of((uint32_t)x[0] << 16));
            const float x1 = flushed(float_of((uint32_t)x[1] << 16));
            for (int j = 0; j < 16; j++) {
                const float y0 = flushed(float_of((uint32_t)y[2 * j] << 16));
                const float y1 = flushed(float_of((uint32_t)y[2 * j + 1] << 16));
                even[j] = flushed(__builtin_fmaf(x0, y0, even[j]));
                odd[j] = flushed(__builtin_fmaf(x1, y1, odd[j]));
            }
        }
        float *sums = t->at[sum].sums[i];
        for (int j = 0; j < 16; j++) sums[j] = flushed(flushed(sums[j]) + flushed(even[j] + odd[j]));
    }
}
INLINE void tile_begin(void) {}
INLINE void tile_end(void) {}

typedef struct wide {
    float at[32];
} wide;
typedef struct narrow {
    uint16_t at[32];
} narrow;

INLINE wide wide_load(const float *low, const float *high)
{
    wide x;
    memcpy(x.at, low, sizeof x.at / 2);
    memcpy(x.at + 16, high, sizeof x.at / 2);
    return x;
}
INLINE uint16_t rounded(float x)
{
    const uint32_t u = bits_of(flushed(x));
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40); /* NaN, and a quiet one */
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
INLINE narrow wide_round(wide x)
{
    narrow y;
    for (int i = 0; i < 32; i++) y.at[i] = rounded(x.at[i]);
    return y;
}
INLINE wide wide_rest(wide x, narrow of)
{
    for (int i = 0; i < 32; i++) x.at[i] -= float_of((uint32_t)of.at[i] << 16);
    return x;
}
INLINE void narrow_store(uint16_t *to, narrow x) { memcpy(to, x.at, sizeof x.at); }
INLINE narrow narrow_pairs(narrow x)
{
    narrow y;
    for (int i = 0; i < 16; i++) y.at[2 * i] = x.at[i], y.at[2 * i + 1] = x.at[16 + i];
    return y;
}

#endif

#endif
