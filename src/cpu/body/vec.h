/* cpu/body/vec.h - vectors of `real` as wide as the ISA this file is compiled for.
 *
 * LNT_VEC_BYTES is 16, 32 or 64, or 0 for the scalar build, where a vec is a plain real. */
#ifndef LNT_CPU_BODY_VEC_H
#define LNT_CPU_BODY_VEC_H

#if LNT_VEC_BYTES == 16
#include <arm_neon.h>
#elif LNT_VEC_BYTES
#include <immintrin.h>
#endif

#include <math.h>

#include "core/dtype.h"
#include "cpu/kernels.h"

#define KERNEL(name) LNT_PASTE4(lnt_, LNT_ISA, _, LNT_REAL_NAME(name))
#define INLINE static inline __attribute__((always_inline))

/* Before a loop of known count over an array of vecs: without it they would live in memory. */
#if defined(__clang__)
#define UNROLL_FULL _Pragma("clang loop unroll(full)")
#else
#define UNROLL_FULL _Pragma("GCC unroll 32")
#endif

/* What stands at the given places of a and, counted on, of b: a vector like them. */
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define BEFORE_GCC_12
#define PLACE(a) __typeof__(_Generic((a)[0], float: (int32_t)0, default: (int64_t)0))
#define SHUFFLE(a, b, ...) \
    __builtin_shuffle(a, b, (PLACE(a) __attribute__((vector_size(sizeof(a))))){ __VA_ARGS__ })
#endif

#ifdef LNT_DOUBLE
typedef int64_t lane_int;
typedef uint64_t lane_word;
#else
typedef int32_t lane_int;
typedef uint32_t lane_word;
#endif

#if LNT_VEC_BYTES == 0
typedef real vec;
typedef lane_int ivec;
enum { LANES = 1 };

INLINE vec vload(const real *p) { return *p; }
INLINE void vstore(real *p, vec x) { *p = x; }
INLINE vec vsplat(real x) { return x; }
INLINE real vsum(vec x) { return x; }
INLINE vec vselect(int mask, vec a, vec b) { return mask ? a : b; }
INLINE vec vfrom_bits(ivec bits)
{
    vec x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}
INLINE ivec vbits(vec x)
{
    ivec bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}
INLINE ivec vshift_exponent(ivec n, int mantissa) { return (ivec)((lane_word)n << mantissa); }
INLINE vec vload_bf16(const uint16_t *p) { return (vec)lnt_bf16_to_float(*p); }
INLINE vec vload_bf16_part(const uint16_t *p, size_t count) { return count ? vload_bf16(p) : 0; }
#else
typedef real vec __attribute__((vector_size(LNT_VEC_BYTES)));
typedef lane_int ivec __attribute__((vector_size(LNT_VEC_BYTES)));
typedef lane_word wvec __attribute__((vector_size(LNT_VEC_BYTES)));
typedef real vec_anywhere
    __attribute__((vector_size(LNT_VEC_BYTES), aligned(sizeof(real)), may_alias));
enum { LANES = LNT_VEC_BYTES / (int)sizeof(real) };

INLINE vec vload(const real *p) { return *(const vec_anywhere *)p; }
INLINE void vstore(real *p, vec x) { *(vec_anywhere *)p = x; }
INLINE vec vsplat(real x) { return x - (vec){ 0 }; }
#if LNT_VEC_BYTES == 16 && defined(LNT_DOUBLE)
INLINE real vsum(vec x) { return vaddvq_f64((float64x2_t)x); }
#elif LNT_VEC_BYTES == 16
INLINE real vsum(vec x) { return vaddvq_f32((float32x4_t)x); }
#elif defined(BEFORE_GCC_12) /* it has no half of a vector */
INLINE real vsum(vec x)
{
    real part[LANES];
    vstore(part, x);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) part[i] += part[i + half];
    return part[0];
}
#else
typedef real vec_of_16 __attribute__((vector_size(16)));
typedef real vec_of_32 __attribute__((vector_size(32)));

/* The upper half onto the lower until one number is left. */
#ifdef LNT_DOUBLE
INLINE real vsum_of_16(vec_of_16 x) { return x[0] + x[1]; }
INLINE real vsum_of_32(vec_of_32 x)
{
    return vsum_of_16(__builtin_shufflevector(x, x, 0, 1) + __builtin_shufflevector(x, x, 2, 3));
}
#else
INLINE real vsum_of_16(vec_of_16 x) { return (x[0] + x[2]) + (x[1] + x[3]); }
INLINE real vsum_of_32(vec_of_32 x)
{
    return vsum_of_16(__builtin_shufflevector(x, x, 0, 1, 2, 3) +
                      __builtin_shufflevector(x, x, 4, 5, 6, 7));
}
#endif
#if LNT_VEC_BYTES == 32
INLINE real vsum(vec x) { return vsum_of_32(x); }
#elif defined(LNT_DOUBLE)
INLINE real vsum(vec x)
{
    return vsum_of_32(__builtin_shufflevector(x, x, 0, 1, 2, 3) +
                      __builtin_shufflevector(x, x, 4, 5, 6, 7));
}
#else
INLINE real vsum(vec x)
{
    return vsum_of_32(__builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
                      __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15));
}
#endif
#endif

/* The numbers at a and b, 0 or 1, of each pair. */
#if LNT_VEC_BYTES == 16 && defined(LNT_DOUBLE)
#define OF_PAIRS(x, a, b) SHUFFLE(x, x, a, b)
#elif LNT_VEC_BYTES == 16 || (LNT_VEC_BYTES == 32 && defined(LNT_DOUBLE))
#define OF_PAIRS(x, a, b) SHUFFLE(x, x, a, b, a + 2, b + 2)
#elif LNT_VEC_BYTES == 32 || defined(LNT_DOUBLE)
#define OF_PAIRS(x, a, b) SHUFFLE(x, x, a, b, a + 2, b + 2, a + 4, b + 4, a + 6, b + 6)
#else
#define OF_PAIRS(x, a, b)                                                                          \
    SHUFFLE(x, x, a, b, a + 2, b + 2, a + 4, b + 4, a + 6, b + 6, a + 8, b + 8, a + 10, b + 10, a + 12, \
            b + 12, a + 14, b + 14)
#endif

INLINE vec vfrom_bits(ivec bits) { return (vec)bits; }
INLINE ivec vbits(vec x) { return (ivec)x; }
INLINE ivec vshift_exponent(ivec n, int mantissa) { return (ivec)((wvec)n << mantissa); }
INLINE vec vselect(ivec mask, vec a, vec b)
{
    return (vec)((mask & (ivec)a) | (~mask & (ivec)b));
}

/* A number of bf16 is the upper half of one in float. */
typedef uint16_t bf16_anywhere __attribute__((vector_size(2 * LANES), aligned(2), may_alias));
typedef uint32_t bf16_word __attribute__((vector_size(4 * LANES)));
typedef float bf16_float __attribute__((vector_size(4 * LANES)));
INLINE vec vfrom_bf16(bf16_anywhere x)
{
    const bf16_word bits = __builtin_convertvector(x, bf16_word) << 16;
    return __builtin_convertvector((bf16_float)bits, vec);
}
INLINE vec vload_bf16(const uint16_t *p) { return vfrom_bf16(*(const bf16_anywhere *)p); }
INLINE vec vload_bf16_part(const uint16_t *p, size_t count)
{
    bf16_anywhere x = { 0 };
    __builtin_memcpy(&x, p, count * sizeof *p);
    return vfrom_bf16(x);
}
#endif

/* The first `count` numbers of a vector alone, the others 0; BY_PART: that costs no more than all. */
#define BY_PART (LNT_VEC_BYTES == 64)
#if BY_PART
#ifdef LNT_DOUBLE
#define MASKED(operation) _mm512_##operation##_pd
typedef __mmask8 vmask;
typedef __m512d vmasked;
#else
#define MASKED(operation) _mm512_##operation##_ps
typedef __mmask16 vmask;
typedef __m512 vmasked;
#endif
INLINE vmask vfirst(size_t count) { return (vmask)((1u << count) - 1); }
INLINE vec vpart(vec x, size_t count) { return (vec)MASKED(maskz_mov)(vfirst(count), (vmasked)x); }
INLINE vec vload_part(const real *p, size_t count)
{
    return (vec)MASKED(maskz_loadu)(vfirst(count), p);
}
INLINE void vstore_part(real *p, vec x, size_t count)
{
    MASKED(mask_storeu)(p, vfirst(count), (vmasked)x);
}
#else
INLINE vec vload_part(const real *p, size_t count)
{
    vec x = { 0 };
    __builtin_memcpy(&x, p, count * sizeof *p);
    return x;
}
INLINE vec vpart(vec x, size_t count) { return vload_part((const real *)&x, count); }
INLINE void vstore_part(real *p, vec x, size_t count) { __builtin_memcpy(p, &x, count * sizeof *p); }
#endif

/* NEON multiplies by one lane of a register, so that LANES numbers side by side come with one load; other
 * ISAs broadcast from memory for nothing. */
#define BY_LANE (LNT_VEC_BYTES == 16)

/* Independent sums in peak_fma: well more than latency times pipes, which are 4 and 4 on Neoverse-V1 (with
 * 16 it reaches four fifths), and room left in the registers. */
enum { PEAK_CHAINS = LNT_VEC_BYTES == 32 ? 12 : 24 };

/* The larger; compilers do not find the instruction by themselves, because of NaN. */
#if LNT_VEC_BYTES == 16 && defined(LNT_DOUBLE)
INLINE vec vmax(vec a, vec b) { return (vec)vmaxq_f64((float64x2_t)a, (float64x2_t)b); }
#elif LNT_VEC_BYTES == 16
INLINE vec vmax(vec a, vec b) { return (vec)vmaxq_f32((float32x4_t)a, (float32x4_t)b); }
#elif LNT_VEC_BYTES == 32 && defined(LNT_DOUBLE)
INLINE vec vmax(vec a, vec b) { return (vec)_mm256_max_pd((__m256d)a, (__m256d)b); }
#elif LNT_VEC_BYTES == 32
INLINE vec vmax(vec a, vec b) { return (vec)_mm256_max_ps((__m256)a, (__m256)b); }
#elif LNT_VEC_BYTES == 64 && defined(LNT_DOUBLE)
INLINE vec vmax(vec a, vec b) { return (vec)_mm512_max_pd((__m512d)a, (__m512d)b); }
#elif LNT_VEC_BYTES == 64
INLINE vec vmax(vec a, vec b) { return (vec)_mm512_max_ps((__m512)a, (__m512)b); }
#else
INLINE vec vmax(vec a, vec b) { return a > b ? a : b; }
#endif

#if LNT_VEC_BYTES == 16 && defined(LNT_DOUBLE)
INLINE vec vsqrt(vec a) { return (vec)vsqrtq_f64((float64x2_t)a); }
#elif LNT_VEC_BYTES == 16
INLINE vec vsqrt(vec a) { return (vec)vsqrtq_f32((float32x4_t)a); }
#elif LNT_VEC_BYTES == 32 && defined(LNT_DOUBLE)
INLINE vec vsqrt(vec a) { return (vec)_mm256_sqrt_pd((__m256d)a); }
#elif LNT_VEC_BYTES == 32
INLINE vec vsqrt(vec a) { return (vec)_mm256_sqrt_ps((__m256)a); }
#elif LNT_VEC_BYTES == 64 && defined(LNT_DOUBLE)
INLINE vec vsqrt(vec a) { return (vec)_mm512_sqrt_pd((__m512d)a); }
#elif LNT_VEC_BYTES == 64
INLINE vec vsqrt(vec a) { return (vec)_mm512_sqrt_ps((__m512)a); }
#else
INLINE vec vsqrt(vec a) { return (vec)sqrt((double)a); }
#endif

/* The exponential: x = n ln 2 + rest with ln 2 in two parts, so that n times the first is exact
 * even without a fused multiply-add; a minimax polynomial for the rest (relative error 2e-9 in float,
 * 4e-20 in double); 2^n by its exponent bits, which adding a large number brings to the low end. */
#ifdef LNT_DOUBLE
#define EXP_MAGIC 0x1.8p52
static const real EXP_LOG2E = 0x1.71547652b82fep+0, EXP_LN2_HIGH = 0x1.62e42feep-1,
                  EXP_LN2_LOW = 0x1.a39ef35793c76p-33, EXP_LOWEST[] = { -709, -708.6 };
enum { EXP_MANTISSA = 52, EXP_BIAS = 1023, EXP_DEGREE = 12 };
#define EXP_EACH(c) { c, c }
#define EXP_COEFFICIENTS(F)                                                                     \
    {                                                                                           \
        F(1.0), F(1.0), F(0x1.0000000000000p-1), F(0x1.5555555555562p-3),                       \
            F(0x1.55555555554ebp-5), F(0x1.111111110dc4cp-7), F(0x1.6c16c16c3376dp-10),         \
            F(0x1.a01a01b7c67b3p-13), F(0x1.a01a0132ccda9p-16), F(0x1.71dde7de49538p-19),       \
            F(0x1.27e5af8a4d006p-22), F(0x1.af77bb5e66289p-26), F(0x1.1e4fd6f637e72p-29)        \
    }
#else
#define EXP_MAGIC 0x1.8p23f
static const real EXP_LOG2E = 0x1.715476p+0f, EXP_LN2_HIGH = 0x1.63p-1f,
                  EXP_LN2_LOW = -0x1.bd0106p-13f, EXP_LOWEST[] = { -88, -87.6f };
enum { EXP_MANTISSA = 23, EXP_BIAS = 127, EXP_DEGREE = 6 };
#define EXP_EACH(c) { c, c, c, c }
#define EXP_COEFFICIENTS(F)                                                                     \
    {                                                                                           \
        F(1.0f), F(0x1.000000p+0f), F(0x1.fffffap-2f), F(0x1.55540ap-3f), F(0x1.55589ep-5f),    \
            F(0x1.126dbep-7f), F(0x1.6ab8cep-10f)                                               \
    }
#endif
#define EXP_ONE(c) c

INLINE vec vexp_of_rest(vec rest)
{
    static const real c[] = EXP_COEFFICIENTS(EXP_ONE);
    /* In pairs (Estrin): shorter chains, and fewer copies of constants where a multiply-add
     * overwrites its addend. */
    const vec square = rest * rest;
    vec y = vsplat(c[EXP_DEGREE]);
    UNROLL_FULL
    for (int i = EXP_DEGREE - 2; i >= 0; i -= 2) y = (c[i] + c[i + 1] * rest) + square * y;
    return y;
}

/* e^x 2^-halvings of `count` vectors: x up to 88 (709 in double), as where a maximum was taken off, or with
 * one halving up to where e^x overflows.  From the x on for which the bits of 2^n are 0, so is the product,
 * and x is taken to be no less; NaN stays. */
#if defined(__aarch64__) && LNT_VEC_BYTES
enum { EXPS = 8 }; /* vectors at once: a multiply-add takes 4 cycles, and two or four begin in each */

/* *c, a constant, to be the addend of a product with x.  A multiply-add overwrites its addend: one kept in
 * a register would be copied by one of the units that multiply, one that is loaded each time costs
 * them nothing.  That x is named keeps the load where it is; the memory is not, for it never changes, and
 * arrays would be written out before it is read. */
INLINE vec vaddend(const vec *c, vec x)
{
    vec y;
    __asm__ volatile("ldr %q0, [%1]" : "=w"(y) : "r"(c), "w"(x));
    return y;
}

/* The polynomial by Horner's rule, which has the fewest operations; vectors side by side make up for
 * its long chain, step by step, for the CPU does not look far enough ahead to put them so. */
INLINE void vexps(int count, vec *x, int halvings)
{
    static const vec shift[] = { EXP_EACH(EXP_MAGIC + EXP_BIAS), EXP_EACH(EXP_MAGIC + EXP_BIAS - 1) };
    static const vec c[] = EXP_COEFFICIENTS(EXP_EACH);
    vec shifted[EXPS], y[EXPS];
    UNROLL_FULL
    for (int j = 0; j < count; j++) x[j] = vmax(vsplat(EXP_LOWEST[halvings]), x[j]);
    UNROLL_FULL
    for (int j = 0; j < count; j++) shifted[j] = vaddend(shift + halvings, x[j]) + x[j] * EXP_LOG2E;
    UNROLL_FULL
    for (int j = 0; j < count; j++) y[j] = shifted[j] - (EXP_MAGIC + EXP_BIAS - (real)halvings);
    UNROLL_FULL
    for (int j = 0; j < count; j++) x[j] = x[j] - y[j] * EXP_LN2_HIGH;
    UNROLL_FULL
    for (int j = 0; j < count; j++) x[j] = x[j] - y[j] * EXP_LN2_LOW;
    UNROLL_FULL
    for (int j = 0; j < count; j++) y[j] = c[EXP_DEGREE];
    UNROLL_FULL
    for (int i = EXP_DEGREE - 1; i >= 0; i--)
        UNROLL_FULL
        for (int j = 0; j < count; j++) y[j] = vaddend(c + i, x[j]) + x[j] * y[j];
    UNROLL_FULL
    for (int j = 0; j < count; j++)
        x[j] = y[j] * vfrom_bits(vshift_exponent(vbits(shifted[j]), EXP_MANTISSA));
}
#else
enum { EXPS = 4 }; /* vectors at once: one alone would wait for itself */

INLINE void vexps(int count, vec *x, int halvings)
{
    const real magic = EXP_MAGIC + EXP_BIAS - (real)halvings;
    UNROLL_FULL
    for (int j = 0; j < count; j++) {
        const vec number = vmax(vsplat(EXP_LOWEST[halvings]), x[j]);
        const vec shifted = number * EXP_LOG2E + magic, n = shifted - magic;
        const vec y = vexp_of_rest((number - n * EXP_LN2_HIGH) - n * EXP_LN2_LOW);
        x[j] = y * vfrom_bits(vshift_exponent(vbits(shifted), EXP_MANTISSA));
    }
}
#endif

INLINE void vexps_below(int count, vec *x) { vexps(count, x, 0); }

INLINE vec vexp_below(vec x)
{
    vexps_below(1, &x);
    return x;
}

#endif
