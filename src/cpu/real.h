/* cpu/real.h - the number type a file is compiled for.
 *
 * Kernels and algorithms are compiled twice, for float and (LNT_DOUBLE) for double; LNT_REAL_NAME
 * keeps the two apart, LNT_REAL_DTYPE is a tensor's word for it.  f16 and bf16 tensors are computed in
 * float. */
#ifndef LNT_CPU_REAL_H
#define LNT_CPU_REAL_H

#ifdef LNT_DOUBLE
typedef double real;
#define LNT_REAL_NAME(name) name##_f64
#define LNT_REAL_DTYPE LNT_F64
#else
typedef float real;
#define LNT_REAL_NAME(name) name##_f32
#define LNT_REAL_DTYPE LNT_F32
#endif

#define LNT_PASTE4_(a, b, c, d) a##b##c##d
#define LNT_PASTE4(a, b, c, d) LNT_PASTE4_(a, b, c, d)

#endif
