/* attention/tile.h - packed tiles: how algorithms get tensors into scratch and back. */
#ifndef LNT_ATTENTION_TILE_H
#define LNT_ATTENTION_TILE_H

#include <math.h>

#include "attention/algorithm.h"
#include "attention/band.h"
#include "core/tensor.h"
#include "cpu/kernels.h"

typedef LNT_REAL_NAME(lnt_kernels) kernels;

static inline const kernels *run_kernels(const lnt_run *run) { return run->kernels; }

static inline size_t pad(size_t n) { return lnt_round_up(n, LNT_PAD); }

/* Tiles of `width` tokens that n make; tokens of a tile of at most `most` where so many are left. */
static inline int64_t tiles_of(int64_t n, int64_t width) { return (n + width - 1) / width; }

static inline size_t smaller(int64_t left, size_t most)
{
    return left < (int64_t)most ? (size_t)left : most;
}

static inline real *take(lnt_arena *arena, size_t rows, size_t cols)
{
    return lnt_arena_take_matrix(arena, rows, cols, sizeof(real));
}

/* The scratch of a thread of the run. */
static inline lnt_arena run_arena(const lnt_run *run, int thread)
{
    return (lnt_arena){ .base = run->scratch + (size_t)thread * run->scratch_stride,
                        .capacity = run->scratch_stride };
}

/* Rows n0 .. n0+n-1 of head h as dst [n, ld]. */
static inline void load_rows(const kernels *ker, real *dst, size_t ld, const lnt_tensor *t,
                             int64_t b, int64_t h, int64_t n0, size_t n, double scale)
{
    ker->load_rows(dst, ld, lnt_tensor_row(t, b, h, n0), (int)t->dtype, t->stride[2], t->stride[3],
                   n, (size_t)t->shape[3], (real)scale);
}

/* The same rows to read only: the tensor itself where it is packed reals of a whole number of
 * vectors, not too far apart to share the cache; else loaded into own [n, *ld].  *ld goes in as own's
 * leading dimension and comes out as that of what is returned. */
static inline const real *read_rows(const kernels *ker, real *own, size_t *ld, const lnt_tensor *t,
                                    int64_t b, int64_t h, int64_t n0, size_t n)
{
    const bool near = n == 1 || (t->stride[2] >= 0 && t->stride[2] <= 4 * t->shape[3]);
    if ((int)t->dtype == LNT_REAL_DTYPE && t->stride[3] == 1 && near &&
        (size_t)t->shape[3] % ker->lanes == 0) {
        *ld = (size_t)t->stride[2];
        return (const real *)lnt_tensor_row(t, b, h, n0);
    }
    load_rows(ker, own, *ld, t, b, h, n0, n, 1);
    return own;
}

/* ... as dst [width, ld], one token a column. */
static inline void load_columns(const kernels *ker, real *dst, size_t ld, const lnt_tensor *t,
                                int64_t b, int64_t h, int64_t n0, size_t n, double scale)
{
    ker->load_columns(dst, ld, lnt_tensor_row(t, b, h, n0), (int)t->dtype, t->stride[2],
                      t->stride[3], n, (size_t)t->shape[3], (real)scale);
}

static inline void store_rows(const kernels *ker, const lnt_tensor *t, int64_t b, int64_t h,
                              int64_t n0, size_t n, const real *src, size_t ld, const real *scale)
{
    ker->store_rows(lnt_tensor_row(t, b, h, n0), (int)t->dtype, t->stride[2], t->stride[3], src, ld,
                    n, (size_t)t->shape[3], scale);
}

static inline void store_columns(const kernels *ker, const lnt_tensor *t, int64_t b, int64_t h,
                                 int64_t n0, size_t n, const real *src, size_t ld)
{
    ker->store_columns(lnt_tensor_row(t, b, h, n0), (int)t->dtype, t->stride[2], t->stride[3], src,
                       ld, n, (size_t)t->shape[3]);
}

/* dst [n, ldd] = src [width, lds] transposed. */
static inline void transpose(const kernels *ker, real *dst, size_t ldd, const real *src, size_t lds,
                             size_t n, size_t width)
{
    ker->store_columns(dst, LNT_REAL_DTYPE, (int64_t)ldd, 1, src, lds, n, width);
}

/* n queries of head h, from query t of a sequence on. */
typedef struct query_rows {
    const lnt_sequence *seq;
    int64_t h, t;
    size_t n;
} query_rows;

/* The first of them as a row of q and out; and among all queries of the run, [B, H, N]. */
static inline int64_t first_row(query_rows rows) { return rows.seq->q0 + rows.t; }

static inline int64_t place_of(const lnt_run *run, query_rows rows)
{
    return (rows.seq->b * run->p->heads + rows.h) * run->io->q.shape[2] + first_row(rows);
}

static inline int64_t all_queries(const lnt_run *run)
{
    return run->io->q.shape[0] * run->p->heads * run->io->q.shape[2];
}

/* What backward carries from its first pass to its second: two numbers for each query.  Their bytes;
 * and where those of some queries are. */
size_t LNT_REAL_NAME(lnt_two_per_query)(const lnt_attn_desc *p);
#define lnt_two_per_query LNT_REAL_NAME(lnt_two_per_query)
static inline real *carried_of(const lnt_run *run, query_rows rows)
{
    return (real *)run->shared + 2 * place_of(run, rows);
}

/* Where the maxima of hybrid are, behind those. */
static inline real *carried_max(const lnt_run *run, query_rows rows)
{
    return (real *)run->shared + 2 * all_queries(run) + place_of(run, rows);
}

/* Where their statistics are, if the run has any: the first of each query, that of lnt_statistic; the
 * second, hybrid's maximum. */
static inline real *statistics_of(const lnt_run *run, int i, query_rows rows)
{
    return (real *)run->statistics + i * all_queries(run) + place_of(run, rows);
}

/* Whether a query has gradients, given 1 / den and delta = dy.y: none where den is 0, or so small that
 * 1 / den (which is given as 0 then) or delta / den would overflow. */
static inline bool has_gradient(real inverse, real delta)
{
    return inverse != 0 && !(isinf(delta * inverse) && isfinite(delta));
}

/* The gradient of y = num / den: dn [n, mp] = dy / den and dden [n] = -(dy.y) / den, where mp is the
 * padded width of a value.  The first keeps 1 / den and dden, the second reads them.  Where forward kept
 * statistics num and den are not read, and num is overwritten. */
void LNT_REAL_NAME(lnt_quotient_grad)(const lnt_run *run, query_rows rows, real *num,
                                      const real *den, real *dn, real *dden);
void LNT_REAL_NAME(lnt_quotient_reload)(const lnt_run *run, query_rows rows, real *dn, real *dden);
/* Keeps what the first keeps, given out as forward left it and its statistics; y and dy [n, mp] are
 * overwritten. */
void LNT_REAL_NAME(lnt_quotient_recall)(const lnt_run *run, query_rows rows, real *y, real *dy);
#define lnt_quotient_recall LNT_REAL_NAME(lnt_quotient_recall)
#define lnt_quotient_grad LNT_REAL_NAME(lnt_quotient_grad)
#define lnt_quotient_reload LNT_REAL_NAME(lnt_quotient_reload)

/* What y of query t is multiplied by: 1, or with output_norm sqrt(keys seen / dim). */
real LNT_REAL_NAME(lnt_output_factor)(const lnt_run *run, const lnt_sequence *seq, int64_t t);
#define lnt_output_factor LNT_REAL_NAME(lnt_output_factor)

/* What backward needs to know of a query again: the logarithm of its sum, or with max NULL 1 / den,
 * and 0 where den is too small to divide gradients by. */
real LNT_REAL_NAME(lnt_statistic)(const lnt_run *run, const real *max, real den);
#define lnt_statistic LNT_REAL_NAME(lnt_statistic)

/* Queries are summed: num [n, mp], den [n], max [n] (softmax, else NULL) go into the run's partial if
 * it has one, else out = num / (den + eps), and its statistics.  Overwrites inverse [n].  Gives those
 * whose denominator is not above zero, or infinite. */
int64_t LNT_REAL_NAME(lnt_tile_finish)(const lnt_run *run, query_rows rows, const real *num,
                                       const real *den, const real *max, real *inverse);
#define lnt_tile_finish LNT_REAL_NAME(lnt_tile_finish)

/* Rows of what the run writes, gradients or the output, that belong to no sequence, or lie past its length,
 * become 0; not those of a partial. */
void LNT_REAL_NAME(lnt_clear_gaps)(const lnt_run *run);
#define lnt_clear_gaps LNT_REAL_NAME(lnt_clear_gaps)

/* For a thread that will take the heads of a sequence one after another: prefetches the rows of all of
 * them at once, as they lie in memory.  Where heads stand side by side and are narrow, each row of one
 * is a line of its own, far from the next, and comes slowly by itself; nothing where that is not so. */
void LNT_REAL_NAME(lnt_prefetch_inputs)(const lnt_run *run, const lnt_sequence *seq);
void LNT_REAL_NAME(lnt_prefetch_gradients)(const lnt_run *run, const lnt_sequence *seq);
#define lnt_prefetch_inputs LNT_REAL_NAME(lnt_prefetch_inputs)
#define lnt_prefetch_gradients LNT_REAL_NAME(lnt_prefetch_gradients)

#endif
