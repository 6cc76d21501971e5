/* attention/taylor/taylor.h - what the Taylor algorithms share: coefficients, and q and k on their way in
 * and their gradients on their way out (taylor_input.c). */
#ifndef LNT_ATTENTION_TAYLOR_TAYLOR_H
#define LNT_ATTENTION_TAYLOR_TAYLOR_H

#include "attention/taylor/basis.h"
#include "attention/direct/direct.h"

#define lnt_taylor_coefficients LNT_REAL_NAME(lnt_taylor_coefficients)
#define lnt_taylor_weights LNT_REAL_NAME(lnt_taylor_weights)
#define lnt_taylor_center LNT_REAL_NAME(lnt_taylor_center)
#define lnt_taylor_kind LNT_REAL_NAME(lnt_taylor_kind)
#define lnt_taylor_plain LNT_REAL_NAME(lnt_taylor_plain)
#define lnt_taylor_columns LNT_REAL_NAME(lnt_taylor_columns)
#define lnt_taylor_key_rows LNT_REAL_NAME(lnt_taylor_key_rows)
#define lnt_taylor_row LNT_REAL_NAME(lnt_taylor_row)
#define lnt_taylor_store_grad LNT_REAL_NAME(lnt_taylor_store_grad)
#define lnt_taylor_finish_grads LNT_REAL_NAME(lnt_taylor_finish_grads)
#define lnt_taylor_shared LNT_REAL_NAME(lnt_taylor_shared)

/* The quadratic form; see direct.h. */
extern const lnt_direct lnt_taylor_kind;

/* Those of powers of q'.k', with q' and k' as below. */
void lnt_taylor_coefficients(const lnt_attn_desc *p, real a[LNT_MAX_TERMS]);

/* y = w(x), [keys, ld] of which `padded` columns count; they may be the same place. */
void lnt_taylor_weights(const lnt_run *run, const kernels *ker, real *y, const real *x, size_t ld,
                        size_t keys, size_t padded);

/* What is taken from every key of this sequence and kv head, own [d] or the descriptor's; NULL:
 * nothing.  tile [d, ld] is overwritten. */
const double *lnt_taylor_center(const lnt_run *run, const lnt_sequence *seq, int64_t kvh,
                                double *own, real *tile, size_t ld);

/* Whether q', or k', is only multiplied by a factor: see direct.h. */
bool lnt_taylor_plain(const lnt_run *run, bool query, int64_t h, double *factor);

/* Queries or keys n0 .. n0+n-1 of head h, centred (keys), normalised and scaled (q', k'): as
 * columns [d, ld], n at most LNT_TILE_QUERIES; one of them as a row [d]; keys as rows, given their
 * columns: own [n, *ld], or the tensor itself with its own *ld. */
void lnt_taylor_columns(const lnt_run *run, bool query, const double *center, int64_t b, int64_t h,
                        int64_t n0, size_t n, real *xt, size_t ld);
void lnt_taylor_row(const lnt_run *run, bool query, int64_t b, int64_t h, int64_t n, real *x);
const real *lnt_taylor_key_rows(const lnt_run *run, int64_t b, int64_t h, int64_t n0, size_t n,
                                const real *kt, size_t ldt, real *own, size_t *ld);

/* Stores dq or dk given the gradient g [d, ld] of those columns; overwrites g and xt [d, ld]. */
void lnt_taylor_store_grad(const lnt_run *run, bool query, int64_t b, int64_t h, int64_t n0,
                           size_t n, real *g, real *xt, size_t ld);
/* Once every dq and dk is stored: the gradient of the temperatures, and through a mean key. */
void lnt_taylor_finish_grads(const lnt_run *run);
/* Bytes of lnt_run.shared. */
size_t lnt_taylor_shared(const lnt_attn_desc *p);

#endif
