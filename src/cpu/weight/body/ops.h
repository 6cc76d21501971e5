/* cpu/weight/body/ops.h - what the kernels of weights are written in: vectors of cpu/body/vec.h, whose lanes
 * are rows of a panel, and sums of products of whole numbers.
 *
 * A word is the codes of four consecutive numbers of each row of a vector.  Activations of 15 bits are either
 * in two planes of signed bytes, high and low, for instructions that multiply bytes four at a time; or whole,
 * as 16-bit numbers in pairs (0, 2), (1, 3) of each four, for those that multiply pairs: a mask and a shift
 * part the bytes of a word so. */
#ifndef LNT_CPU_WEIGHT_BODY_OPS_H
#define LNT_CPU_WEIGHT_BODY_OPS_H

#include <string.h>

#include "cpu/body/vec.h"
#include "cpu/weight/kernels.h"

enum { PARTS = LNT_PANEL / LANES }; /* vectors to the rows of a panel */

#if LNT_VEC_BYTES == 0
typedef lane_word word;
INLINE vec vfrom_int(ivec x) { return (vec)x; }
#else
typedef wvec word;
INLINE vec vfrom_int(ivec x) { return __builtin_convertvector(x, vec); }
#endif

INLINE word word_load(const void *p)
{
    word w;
    memcpy(&w, p, sizeof w);
    return w;
}
INLINE word word_lower(word w) { return w & 0x0f0f0f0fu; }
INLINE word word_upper(word w) { return (w >> 4) & 0x0f0f0f0fu; }

INLINE int32_t four_bytes(const int8_t *p)
{
    int32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* sums_add adds the products of word w with numbers 4 group .. 4 group + 3 of a block of activations, and
 * sums_end gives the sums plus start; codes of 8 bits come less BYTE_OFFSET from word_bytes. */
#if LNT_VEC_BYTES == 0
#define LNT_PLANES 1
enum { BYTE_OFFSET = 0 };
typedef struct sums {
    ivec high, low;
} sums;
INLINE word word_bytes(const void *p) { return word_load(p); }
INLINE void sums_add(sums *s, word w, const int8_t *code, int group)
{
    for (int i = 0; i < 4; i++) {
        const ivec u = (ivec)(w >> 8 * i & 255);
        s->high += u * code[4 * group + i];
        s->low += u * code[LNT_PANEL_BLOCK + 4 * group + i];
    }
}
INLINE ivec sums_end(sums s, int32_t start) { return s.high * 128 + s.low + start; }

INLINE vec vload_f16(const uint16_t *p) { return lnt_f16_to_float(*p); }
INLINE vec vload_bytes(const int8_t *p) { return (vec)*p; }
#elif LNT_VEC_BYTES == 16
#ifdef __ARM_FEATURE_DOTPROD
#define LNT_PLANES 1
enum { BYTE_OFFSET = 128 }; /* signed bytes alone */
typedef struct sums {
    int32x4_t high, low;
} sums;
INLINE word word_bytes(const void *p) { return word_load(p) ^ 0x80808080u; }
INLINE int8x16_t bytes_to_all(const int8_t *p) { return vreinterpretq_s8_s32(vdupq_n_s32(four_bytes(p))); }
INLINE void sums_add(sums *s, word w, const int8_t *code, int group)
{
    s->high = vdotq_s32(s->high, (int8x16_t)w, bytes_to_all(code + 4 * group));
    s->low = vdotq_s32(s->low, (int8x16_t)w, bytes_to_all(code + LNT_PANEL_BLOCK + 4 * group));
}
INLINE ivec sums_end(sums s, int32_t start) { return (ivec)s.high * 128 + (ivec)s.low + start; }
#else
#define LNT_PLANES 0
enum { BYTE_OFFSET = 0 };
typedef struct sums {
    int32x4_t first, second; /* two of each row */
} sums;
INLINE word word_bytes(const void *p) { return word_load(p); }
INLINE void add_pairs(sums *s, word pairs, const int8_t *code)
{
    const int16x8_t u = (int16x8_t)pairs, x = vreinterpretq_s16_s32(vdupq_n_s32(four_bytes(code)));
    s->first = vmlal_s16(s->first, vget_low_s16(u), vget_low_s16(x));
    s->second = vmlal_high_s16(s->second, u, x);
}
INLINE void sums_add(sums *s, word w, const int8_t *code, int group)
{
    add_pairs(s, w & 0x00ff00ffu, code + 8 * group);
    add_pairs(s, (w >> 8) & 0x00ff00ffu, code + 8 * group + 4);
}
INLINE ivec sums_end(sums s, int32_t start) { return (ivec)vpaddq_s32(s.first, s.second) + start; }
#endif
INLINE vec vload_f16(const uint16_t *p) { return (vec)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
INLINE vec vload_bytes(const int8_t *p)
{
    const int8x8_t bytes = vreinterpret_s8_s32(vdup_n_s32(four_bytes(p)));
    return vfrom_int((ivec)vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
}
#else
#if LNT_VEC_BYTES == 64
typedef __m512i raw;
#define WIDE(operation) _mm512_##operation
INLINE vec vload_f16(const uint16_t *p) { return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)p)); }
INLINE vec vload_bytes(const int8_t *p)
{
    return vfrom_int((ivec)_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p)));
}
#else
typedef __m256i raw;
#define WIDE(operation) _mm256_##operation
INLINE vec vload_f16(const uint16_t *p) { return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const void *)p)); }
INLINE vec vload_bytes(const int8_t *p)
{
    return vfrom_int((ivec)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p)));
}
#endif
INLINE word word_bytes(const void *p) { return word_load(p); }
#ifdef __AVX512VNNI__
#define LNT_PLANES 1
enum { BYTE_OFFSET = 0 };
typedef struct sums {
    raw high, low;
} sums;
INLINE void sums_add(sums *s, word w, const int8_t *code, int group)
{
    const int8_t *high = code + 4 * group, *low = high + LNT_PANEL_BLOCK;
    s->high = WIDE(dpbusd_epi32)(s->high, (raw)w, WIDE(set1_epi32)(four_bytes(high)));
    s->low = WIDE(dpbusd_epi32)(s->low, (raw)w, WIDE(set1_epi32)(four_bytes(low)));
}
INLINE ivec sums_end(sums s, int32_t start) { return (ivec)s.high * 128 + (ivec)s.low + start; }
#else
#define LNT_PLANES 0
enum { BYTE_OFFSET = 0 };
typedef struct sums {
    raw all;
} sums;
INLINE ivec pairs_product(word pairs, const int8_t *code)
{
    return (ivec)WIDE(madd_epi16)((raw)pairs, WIDE(set1_epi32)(four_bytes(code)));
}
INLINE void sums_add(sums *s, word w, const int8_t *code, int group)
{
    const word odd = (word)WIDE(srli_epi16)((raw)w, 8);
    s->all = (raw)((ivec)s->all + pairs_product(w & 0x00ff00ffu, code + 8 * group) +
                    pairs_product(odd, code + 8 * group + 4));
}
INLINE ivec sums_end(sums s, int32_t start) { return (ivec)s.all + start; }
#endif
#endif

#endif
