/* cpu/body/narrow.h - vectors of `real` from numbers of fewer bits: f16, and the blocks of a cache (q8). */
#ifndef LNT_CPU_BODY_NARROW_H
#define LNT_CPU_BODY_NARROW_H

#include "cpu/body/vec.h"

#if LNT_VEC_BYTES == 0
INLINE vec vload_f16(const uint16_t *p) { return (vec)lnt_f16_to_float(*p); }
INLINE vec vload_i8(const int8_t *p) { return (vec)*p; }
#elif defined(LNT_DOUBLE) /* a cache of f64 has none of these: only the tests come here */
INLINE vec vload_f16(const uint16_t *p)
{
    vec x = { 0 };
    for (int i = 0; i < LANES; i++) x[i] = (real)lnt_f16_to_float(p[i]);
    return x;
}
INLINE vec vload_i8(const int8_t *p)
{
    vec x = { 0 };
    for (int i = 0; i < LANES; i++) x[i] = (real)p[i];
    return x;
}
#elif LNT_VEC_BYTES == 16
INLINE vec vload_f16(const uint16_t *p)
{
    return (vec)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
INLINE vec vload_i8(const int8_t *p)
{
    int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    const int8x8_t bytes = vreinterpret_s8_s32(vdup_n_s32(four));
    return (vec)vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
}
#elif LNT_VEC_BYTES == 32
INLINE vec vload_f16(const uint16_t *p) { return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
INLINE vec vload_i8(const int8_t *p)
{
    return (vec)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
#else
INLINE vec vload_f16(const uint16_t *p)
{
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
INLINE vec vload_i8(const int8_t *p)
{
    return (vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
#endif

INLINE vec vload_f16_part(const uint16_t *p, size_t count)
{
    uint16_t part[LANES] = { 0 };
    __builtin_memcpy(part, p, count * sizeof *p);
    return vload_f16(part);
}

/* ---- rows of numbers of any dtype, which is known where these are inlined ---------------------- */

INLINE size_t q8_blocks(size_t width) { return (width + LNT_Q8_NUMBERS - 1) / LNT_Q8_NUMBERS; }
INLINE real q8_scale(const lnt_q8_block *block) { return (real)lnt_bf16_to_float(block->scale); }

/* Bytes from row to row, given that many elements; of q8 words. */
INLINE int64_t row_bytes(int dtype, int64_t stride)
{
    return stride * (dtype == LNT_F64 ? 8 : dtype == LNT_F32 ? 4 : 2);
}

/* Numbers j .. of a row: a whole vector, or the first `count`, then 0. */
INLINE vec row_vec(int dtype, const char *row, size_t j)
{
    switch (dtype) {
    case LNT_F16: return vload_f16((const uint16_t *)row + j);
    case LNT_BF16: return vload_bf16((const uint16_t *)row + j);
    default: return vload((const real *)row + j);
    }
}

INLINE vec row_part(int dtype, const char *row, size_t j, size_t count)
{
    switch (dtype) {
    case LNT_F16: return vload_f16_part((const uint16_t *)row + j, count);
    case LNT_BF16: return vload_bf16_part((const uint16_t *)row + j, count);
    default: return vload_part((const real *)row + j, count);
    }
}

/* dst[width] = scale times a row of blocks. */
INLINE void q8_load(real *dst, const lnt_q8_block *row, size_t width, real scale)
{
    for (size_t j = 0; j < width; j += LNT_Q8_NUMBERS, row++) {
        const real step = q8_scale(row);
        size_t i = 0;
        for (; i + LANES <= LNT_Q8_NUMBERS && j + i + LANES <= width; i += LANES)
            vstore(dst + j + i, vload_i8(row->number + i) * step * scale);
        for (; i < LNT_Q8_NUMBERS && j + i < width; i++) dst[j + i] = (real)row->number[i] * step * scale;
    }
}

/* As a block of `count` numbers, the others 0: the largest is 127 steps or a little less, for the step is
 * rounded up.  One that is infinite, or no number, makes NaN of the whole block. */
INLINE void q8_store(lnt_q8_block *block, const real *x, size_t count, real scale)
{
    enum { INFINITE = 0x7f800000, NOT_A_NUMBER = 0x7fc0 };
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t size = lnt_float_bits((float)(x[i] * scale)) & 0x7fffffff;
        most = size > most ? size : most;
    }
    const uint32_t step = lnt_float_bits(lnt_bits_float(most) / 127);
    block->scale = most >= INFINITE ? NOT_A_NUMBER : (uint16_t)((step + 0xffff) >> 16);
    memset(block->number, 0, sizeof block->number);
    if (most >= INFINITE || !block->scale) return;
    const real by = q8_scale(block);
    for (size_t i = 0; i < count; i++) {
        const real number = x[i] * scale / by;
        block->number[i] = (int8_t)(number < 0 ? number - (real)0.5 : number + (real)0.5);
    }
}

#endif
