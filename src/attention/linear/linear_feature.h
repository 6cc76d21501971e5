/* attention/linear/linear_feature.h - phi and its derivative on tiles, inside the linear algorithms.
 *
 * A tile of n tokens is held as columns [D, ld] (one token a column) or rows [n, ld]. */
#ifndef LNT_ATTENTION_LINEAR_LINEAR_FEATURE_H
#define LNT_ATTENTION_LINEAR_LINEAR_FEATURE_H

#include "attention/algorithm.h"
#include "attention/tile.h"

typedef struct lnt_feature_tile {
    real *x;   /* [d, ld] columns, random maps only */
    real *phi; /* [D, ld] columns */
    real *sum; /* [ld] */
    double *mean;         /* taylor: [d], where keys are centred by it; */
    const double *center; /* what is taken from every key, or NULL */
    size_t ld;
} lnt_feature_tile;

/* Scratch for tiles of up to `tokens`. */
lnt_feature_tile LNT_REAL_NAME(lnt_feature_tile_take)(lnt_arena *arena, const lnt_attn_desc *p,
                                                      size_t tokens);

/* phi of rows n0 .. n0+n-1 of head h, as columns [D, ld] (n of them, rounded up to whole vectors) and as
 * rows [n, ld]. */
void LNT_REAL_NAME(lnt_feature_columns)(const lnt_run *run, lnt_feature_tile *tile,
                                        const lnt_tensor *x, int64_t b, int64_t h, int64_t n0,
                                        size_t n, real *phi, size_t ld);
void LNT_REAL_NAME(lnt_feature_rows_of)(const lnt_run *run, lnt_feature_tile *tile,
                                        const lnt_tensor *x, int64_t b, int64_t h, int64_t n0,
                                        size_t n, real *phi, size_t ld);
/* Stores dx given dphi as columns [D, ld], which it overwrites. */
void LNT_REAL_NAME(lnt_feature_store_grad)(const lnt_run *run, lnt_feature_tile *tile,
                                           const lnt_tensor *x, const lnt_tensor *dx, int64_t b,
                                           int64_t h, int64_t n0, size_t n, real *dphi, size_t ld);

#define lnt_feature_columns LNT_REAL_NAME(lnt_feature_columns)
#define lnt_feature_rows_of LNT_REAL_NAME(lnt_feature_rows_of)
#define lnt_feature_store_grad LNT_REAL_NAME(lnt_feature_store_grad)
#define lnt_feature_tile_take LNT_REAL_NAME(lnt_feature_tile_take)

#endif
