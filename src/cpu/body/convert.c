/* cpu/body/convert.c - between strided tensors of any dtype and packed tiles of `real`. */
#include "core/dtype.h"
#include "cpu/body/narrow.h"

#ifdef LNT_DOUBLE
#define TO_F16 lnt_double_to_f16
#define TO_BF16 lnt_double_to_bf16
#else
#define TO_F16 lnt_float_to_f16
#define TO_BF16 lnt_float_to_bf16
#endif

INLINE real get(lnt_dtype dtype, const void *p, int64_t i)
{
    switch (dtype) {
    case LNT_F32: return (real)((const float *)p)[i];
    case LNT_F64: return (real)((const double *)p)[i];
    case LNT_F16: return (real)lnt_f16_to_float(((const uint16_t *)p)[i]);
    case LNT_BF16: return (real)lnt_bf16_to_float(((const uint16_t *)p)[i]);
    }
    return 0;
}

INLINE void put(lnt_dtype dtype, void *p, int64_t i, real x)
{
    switch (dtype) {
    case LNT_F32: ((float *)p)[i] = (float)x; break;
    case LNT_F64: ((double *)p)[i] = (double)x; break;
    case LNT_F16: ((uint16_t *)p)[i] = TO_F16(x); break;
    case LNT_BF16: ((uint16_t *)p)[i] = TO_BF16(x); break;
    }
}

/* Rows i of the tensor start at element i * row_stride. */
INLINE void load(lnt_dtype dtype, real *dst, size_t row_step, size_t col_step, const void *src,
                 int64_t row_stride, int64_t col_stride, size_t rows, size_t width, real scale)
{
    for (size_t i = 0; i < rows; i++) {
        real *to = dst + i * row_step;
        const int64_t from = (int64_t)i * row_stride;
        if (col_stride == 1)
            for (size_t j = 0; j < width; j++)
                to[j * col_step] = scale * get(dtype, src, from + (int64_t)j);
        else
            for (size_t j = 0; j < width; j++)
                to[j * col_step] = scale * get(dtype, src, from + (int64_t)j * col_stride);
    }
}

INLINE void load_any(int dtype, real *dst, size_t row_step, size_t col_step, const void *src,
                     int64_t row_stride, int64_t col_stride, size_t rows, size_t width, real scale)
{
    switch ((lnt_dtype)dtype) {
    case LNT_F32:
        load(LNT_F32, dst, row_step, col_step, src, row_stride, col_stride, rows, width, scale);
        break;
    case LNT_F64:
        load(LNT_F64, dst, row_step, col_step, src, row_stride, col_stride, rows, width, scale);
        break;
    case LNT_F16:
        load(LNT_F16, dst, row_step, col_step, src, row_stride, col_stride, rows, width, scale);
        break;
    case LNT_BF16:
        load(LNT_BF16, dst, row_step, col_step, src, row_stride, col_stride, rows, width, scale);
        break;
    }
}

/* The hardware does not prefetch rows that are far apart, so row i + PREFETCH is fetched with row i. */
enum { PREFETCH = 8, LINE = 64 / (int)sizeof(real) };

INLINE void prefetch_row(const real *src, int64_t stride, size_t i, size_t rows, size_t width)
{
    if (stride <= 2 * (int64_t)width || i + PREFETCH >= rows) return;
    const real *row = src + (int64_t)(i + PREFETCH) * stride;
    for (size_t j = 0; j < width; j += LINE) __builtin_prefetch(row + j);
}

/* Blocks of numbers are transposed in registers: 16 bytes each way, which every ISA has, and 32 where vectors
 * are wider. */
#if LNT_VEC_BYTES
enum { SIDE = 16 / (int)sizeof(real) };
typedef real block_row __attribute__((vector_size(16), aligned(sizeof(real)), may_alias));

INLINE void transpose_block(real *dst, size_t ld, const real *src, int64_t stride, real scale)
{
    block_row in[SIDE], out[SIDE];
    UNROLL_FULL
    for (int i = 0; i < SIDE; i++) in[i] = *(const block_row *)(src + i * stride) * scale;
#ifdef LNT_DOUBLE
    out[0] = SHUFFLE(in[0], in[1], 0, 2);
    out[1] = SHUFFLE(in[0], in[1], 1, 3);
#else
    const block_row a = SHUFFLE(in[0], in[2], 0, 4, 1, 5);
    const block_row b = SHUFFLE(in[1], in[3], 0, 4, 1, 5);
    const block_row c = SHUFFLE(in[0], in[2], 2, 6, 3, 7);
    const block_row d = SHUFFLE(in[1], in[3], 2, 6, 3, 7);
    out[0] = SHUFFLE(a, b, 0, 4, 1, 5);
    out[1] = SHUFFLE(a, b, 2, 6, 3, 7);
    out[2] = SHUFFLE(c, d, 0, 4, 1, 5);
    out[3] = SHUFFLE(c, d, 2, 6, 3, 7);
#endif
    UNROLL_FULL
    for (int i = 0; i < SIDE; i++) *(block_row *)(dst + (size_t)i * ld) = out[i];
}

#if LNT_VEC_BYTES >= 32
enum { WIDE_SIDE = 2 * SIDE };
typedef real wide_row __attribute__((vector_size(32), aligned(sizeof(real)), may_alias));

/* Both halves of the rows as blocks of 16 bytes, which then change places across the diagonal. */
INLINE void transpose_wide_block(real *dst, size_t ld, const real *src, int64_t stride, real scale)
{
    wide_row in[WIDE_SIDE], half[WIDE_SIDE];
    UNROLL_FULL
    for (int i = 0; i < WIDE_SIDE; i++) in[i] = *(const wide_row *)(src + i * stride) * scale;
    UNROLL_FULL
    for (int i = 0; i < WIDE_SIDE; i += SIDE) {
#ifdef LNT_DOUBLE
        half[i] = SHUFFLE(in[i], in[i + 1], 0, 4, 2, 6);
        half[i + 1] = SHUFFLE(in[i], in[i + 1], 1, 5, 3, 7);
#else
        const wide_row a = SHUFFLE(in[i], in[i + 2], 0, 8, 1, 9, 4, 12, 5, 13);
        const wide_row b = SHUFFLE(in[i + 1], in[i + 3], 0, 8, 1, 9, 4, 12, 5, 13);
        const wide_row c = SHUFFLE(in[i], in[i + 2], 2, 10, 3, 11, 6, 14, 7, 15);
        const wide_row d = SHUFFLE(in[i + 1], in[i + 3], 2, 10, 3, 11, 6, 14, 7, 15);
        half[i] = SHUFFLE(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
        half[i + 1] = SHUFFLE(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
        half[i + 2] = SHUFFLE(c, d, 0, 8, 1, 9, 4, 12, 5, 13);
        half[i + 3] = SHUFFLE(c, d, 2, 10, 3, 11, 6, 14, 7, 15);
#endif
    }
    UNROLL_FULL
    for (int i = 0; i < SIDE; i++) {
#ifdef LNT_DOUBLE
        const wide_row low = SHUFFLE(half[i], half[i + SIDE], 0, 1, 4, 5);
        const wide_row high = SHUFFLE(half[i], half[i + SIDE], 2, 3, 6, 7);
#else
        const wide_row low = SHUFFLE(half[i], half[i + SIDE], 0, 1, 2, 3, 8, 9, 10, 11);
        const wide_row high = SHUFFLE(half[i], half[i + SIDE], 4, 5, 6, 7, 12, 13, 14, 15);
#endif
        *(wide_row *)(dst + (size_t)i * ld) = low;
        *(wide_row *)(dst + (size_t)(i + SIDE) * ld) = high;
    }
}
#else
enum { WIDE_SIDE = SIDE };
#define transpose_wide_block transpose_block
#endif

/* dst[width, ld] = scale src^T of `side` rows of `width` numbers. */
INLINE void transpose_rows(size_t side, real *dst, size_t ld, const real *src, int64_t stride,
                      size_t width, real scale)
{
    size_t j = 0;
    for (; side == WIDE_SIDE && j + WIDE_SIDE <= width; j += WIDE_SIDE)
        transpose_wide_block(dst + j * ld, ld, src + j, stride, scale);
    for (; j + SIDE <= width; j += SIDE)
        for (size_t r = 0; r < side; r += SIDE)
            transpose_block(dst + j * ld + r, ld, src + (int64_t)r * stride + j, stride, scale);
    for (; j < width; j++)
        for (size_t r = 0; r < side; r++)
            dst[j * ld + r] = scale * src[(int64_t)r * stride + (int64_t)j];
}

/* Of all rows, as many at a time as make whole blocks; returns the rows done, of `done` before. */
INLINE size_t transpose_by(size_t side, size_t done, real *dst, size_t ld, const real *src, int64_t stride,
                      size_t rows, size_t width, real scale)
{
    for (; done + side <= rows; done += side) {
        for (size_t r = done; r < done + side; r++) prefetch_row(src, stride, r, rows, width);
        transpose_rows(side, dst + done, ld, src + (int64_t)done * stride, stride, width, scale);
    }
    return done;
}

/* dst[width, ld] = scale src[rows, width]^T where src is packed reals; returns the rows done. */
INLINE size_t transpose_blocks(real *dst, size_t ld, const real *src, int64_t stride, size_t rows,
                          size_t width, real scale)
{
    const size_t done = transpose_by(WIDE_SIDE, 0, dst, ld, src, stride, rows, width, scale);
    return transpose_by(SIDE, done, dst, ld, src, stride, rows, width, scale);
}
#else
INLINE size_t transpose_blocks(real *dst, size_t ld, const real *src, int64_t stride, size_t rows,
                          size_t width, real scale)
{
    (void)dst, (void)ld, (void)src, (void)stride, (void)rows, (void)width, (void)scale;
    return 0;
}
#endif

INLINE void clear_margin(real *dst, size_t ld, size_t rows, size_t width)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = width; j < ld; j++) dst[i * ld + j] = 0;
}

/* CALL(width), with one that the compiler knows where heads often have it: twice as fast. */
#define BY_WIDTH(CALL, width) \
    switch (width) {          \
    case 8: CALL(8); break;   \
    case 16: CALL(16); break; \
    case 24: CALL(24); break; \
    case 32: CALL(32); break; \
    default: CALL(width);     \
    }

/* Whether rows of packed reals go vector by vector; those of own, [rows, ld], have room for whole ones. */
INLINE int by_vectors(int dtype, int64_t col_stride, size_t width, size_t ld)
{
    return dtype == LNT_REAL_DTYPE && col_stride == 1 &&
           (width % LANES == 0 || (BY_PART && ld % LANES == 0));
}

/* dst[rows, ld] = scale src where src is packed reals; 0 up to a whole vector. */
INLINE void copy_vectors(real *dst, size_t ld, const real *src, int64_t stride, size_t rows,
                         size_t width, real scale)
{
    for (size_t i = 0; i < rows; i++) {
        const real *from = src + (int64_t)i * stride;
        real *to = dst + i * ld;
        size_t j = 0;
        prefetch_row(src, stride, i, rows, width);
        for (; j + LANES <= width; j += LANES) vstore(to + j, vload(from + j) * scale);
        if (j < width)
            vstore(to + j, vpart(vload_part(from + j, width - j) * scale, width - j));
    }
}

/* Whether rows lie side by side in fewer bits than reals have. */
INLINE bool is_narrow(int dtype, int64_t col_stride)
{
    return dtype == LNT_Q8 || (col_stride == 1 && (dtype == LNT_F16 || dtype == LNT_BF16));
}

/* dst[rows, ld] = scale src, where they do. */
INLINE void widen(int dtype, real *dst, size_t ld, const char *src, int64_t stride, size_t rows, size_t width,
                  real scale)
{
    for (size_t i = 0; i < rows; i++, src += row_bytes(dtype, stride), dst += ld) {
        size_t j = 0;
        if (dtype == LNT_Q8) {
            q8_load(dst, (const lnt_q8_block *)src, width, scale);
            continue;
        }
        for (; j + LANES <= width; j += LANES) vstore(dst + j, row_vec(dtype, src, j) * scale);
        if (j < width) vstore_part(dst + j, row_part(dtype, src, j, width - j) * scale, width - j);
    }
}

INLINE void widen_any(int dtype, real *dst, size_t ld, const void *src, int64_t stride, size_t rows,
                      size_t width, real scale)
{
    switch (dtype) {
    case LNT_F16: widen(LNT_F16, dst, ld, src, stride, rows, width, scale); break;
    case LNT_BF16: widen(LNT_BF16, dst, ld, src, stride, rows, width, scale); break;
    default: widen(LNT_Q8, dst, ld, src, stride, rows, width, scale);
    }
}

/* dst[width, ld] = scale src^T of such rows: widened some at a time, then transposed. */
INLINE void widen_columns(int dtype, real *dst, size_t ld, const char *src, int64_t stride, size_t rows,
                          size_t width, real scale)
{
    enum { ROWS = 16, COLUMNS = 64 };
    real some[ROWS * COLUMNS];
    for (size_t i = 0; i < rows; i += ROWS, src += ROWS * row_bytes(dtype, stride)) {
        const size_t m = rows - i < ROWS ? rows - i : ROWS;
        for (size_t j = 0; j < width; j += COLUMNS) {
            const size_t n = width - j < COLUMNS ? width - j : COLUMNS;
            const size_t at = dtype == LNT_Q8 ? j / LNT_Q8_NUMBERS * sizeof(lnt_q8_block) : 2 * j;
            real *to = dst + j * ld + i;
            widen_any(dtype, some, COLUMNS, src + at, stride, m, n, scale);
            const size_t done = transpose_blocks(to, ld, some, COLUMNS, m, n, 1);
            for (size_t c = 0; c < n; c++)
                for (size_t r = done; r < m; r++) to[c * ld + r] = some[r * COLUMNS + c];
        }
    }
}

void KERNEL(load_rows)(real *dst, size_t ld, const void *src, int dtype, int64_t row_stride,
                       int64_t col_stride, size_t rows, size_t width, real scale)
{
#define COPY(wide) copy_vectors(dst, ld, src, row_stride, rows, wide, scale)
    if (is_narrow(dtype, col_stride)) {
        widen_any(dtype, dst, ld, src, row_stride, rows, width, scale);
        clear_margin(dst, ld, rows, width);
        return;
    }
    const int vectors = by_vectors(dtype, col_stride, width, ld);
    const size_t done = vectors ? lnt_round_up(width, LANES) : width;
    if (vectors)
        BY_WIDTH(COPY, width)
    else
        load_any(dtype, dst, ld, 1, src, row_stride, col_stride, rows, width, scale);
    if (done < ld) clear_margin(dst, ld, rows, done);
}

void KERNEL(load_columns)(real *dst, size_t ld, const void *src, int dtype, int64_t row_stride,
                          int64_t col_stride, size_t rows, size_t width, real scale)
{
    size_t done = 0;
    if (is_narrow(dtype, col_stride)) {
        widen_columns(dtype, dst, ld, src, row_stride, rows, width, scale);
        clear_margin(dst, ld, width, rows);
        return;
    }
    if (dtype == LNT_REAL_DTYPE && col_stride == 1) /* 1 is not multiplied by */
        done = scale == 1 ? transpose_blocks(dst, ld, src, row_stride, rows, width, 1)
                          : transpose_blocks(dst, ld, src, row_stride, rows, width, scale);
    const char *rest = (const char *)src + (int64_t)done * row_stride *
                                               (int64_t)lnt_dtype_size((lnt_dtype)dtype);
    load_any(dtype, dst + done, 1, ld, rest, row_stride, col_stride, rows - done, width, scale);
    clear_margin(dst, ld, width, rows);
}

INLINE void store(lnt_dtype dtype, void *dst, int64_t row_stride, int64_t col_stride,
                  const real *src, size_t row_step, size_t col_step, size_t rows, size_t width,
                  const real *scale)
{
    for (size_t i = 0; i < rows; i++) {
        const real *from = src + i * row_step;
        const int64_t to = (int64_t)i * row_stride;
        const real factor = scale ? scale[i] : 1;
        if (col_stride == 1)
            for (size_t j = 0; j < width; j++)
                put(dtype, dst, to + (int64_t)j, from[j * col_step] * factor);
        else
            for (size_t j = 0; j < width; j++)
                put(dtype, dst, to + (int64_t)j * col_stride, from[j * col_step] * factor);
    }
}

INLINE void store_any(void *dst, int dtype, int64_t row_stride, int64_t col_stride, const real *src,
                      size_t row_step, size_t col_step, size_t rows, size_t width,
                      const real *scale)
{
    switch ((lnt_dtype)dtype) {
    case LNT_F32:
        store(LNT_F32, dst, row_stride, col_stride, src, row_step, col_step, rows, width, scale);
        break;
    case LNT_F64:
        store(LNT_F64, dst, row_stride, col_stride, src, row_step, col_step, rows, width, scale);
        break;
    case LNT_F16:
        store(LNT_F16, dst, row_stride, col_stride, src, row_step, col_step, rows, width, scale);
        break;
    case LNT_BF16:
        store(LNT_BF16, dst, row_stride, col_stride, src, row_step, col_step, rows, width, scale);
        break;
    }
}

/* dst = src[rows, ld], row i times scale[i], where dst is packed reals. */
INLINE void store_vectors(real *dst, int64_t stride, const real *src, size_t ld, size_t rows,
                          size_t width, const real *scale)
{
    for (size_t i = 0; i < rows; i++, src += ld) {
        real *to = dst + (int64_t)i * stride;
        const real factor = scale ? scale[i] : 1;
        size_t j = 0;
        for (; j + LANES <= width; j += LANES) vstore(to + j, vload(src + j) * factor);
        if (j < width) vstore_part(to + j, vload_part(src + j, width - j) * factor, width - j);
    }
}

INLINE void store_blocks(char *dst, int64_t stride, const real *src, size_t ld, size_t rows, size_t width,
                         const real *scale)
{
    for (size_t i = 0; i < rows; i++, src += ld, dst += row_bytes(LNT_Q8, stride)) {
        lnt_q8_block *to = (lnt_q8_block *)dst;
        for (size_t j = 0; j < width; j += LNT_Q8_NUMBERS)
            q8_store(to++, src + j, width - j < LNT_Q8_NUMBERS ? width - j : LNT_Q8_NUMBERS,
                     scale ? scale[i] : 1);
    }
}

void KERNEL(store_rows)(void *dst, int dtype, int64_t row_stride, int64_t col_stride,
                        const real *src, size_t ld, size_t rows, size_t width, const real *scale)
{
    if (dtype == LNT_Q8) {
        store_blocks(dst, row_stride, src, ld, rows, width, scale);
        return;
    }
#define STORE(wide) store_vectors(dst, row_stride, src, ld, rows, wide, scale)
    if (by_vectors(dtype, col_stride, width, ld))
        BY_WIDTH(STORE, width)
    else
        store_any(dst, dtype, row_stride, col_stride, src, ld, 1, rows, width, scale);
}

void KERNEL(store_columns)(void *dst, int dtype, int64_t row_stride, int64_t col_stride,
                           const real *src, size_t ld, size_t rows, size_t width)
{
    size_t done = 0;
    if (dtype == LNT_REAL_DTYPE && col_stride == 1 && row_stride > 0)
        done = transpose_blocks(dst, (size_t)row_stride, src, (int64_t)ld, width, rows, 1);
    char *rest = (char *)dst + done * lnt_dtype_size((lnt_dtype)dtype);
    if (done < width)
        store_any(rest, dtype, row_stride, col_stride, src + done * ld, 1, ld, rows, width - done,
                  NULL);
}
