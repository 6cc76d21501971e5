/* nn/pass.h - what is the same for all layers of a forward or backward pass. */
#ifndef LNT_NN_PASS_H
#define LNT_NN_PASS_H

#include "core/rng.h"
#include "nn/layer.h"

#define lnt_pass LNT_REAL_NAME(lnt_pass)

typedef struct lnt_pass {
    lnt_ctx *ctx;
    size_t batch, length;
    const int64_t *lengths; /* [batch], NULL: full */
    bool training;          /* dropout applies */
    lnt_rng rng;            /* for it; another for every block */
    const real *rotary;     /* the rotary table of these positions */
} lnt_pass;

/* Tokens in all, padding among them. */
static inline size_t nn_tokens(const lnt_pass *pass) { return pass->batch * pass->length; }

/* Tokens of sequence b. */
static inline size_t nn_length(const lnt_pass *pass, size_t b)
{
    return pass->lengths ? (size_t)pass->lengths[b] : pass->length;
}

/* Heads side by side in rows of `width`, x being the first of them, as attention takes them. */
static inline lnt_tensor nn_heads(const lnt_pass *pass, const real *x, size_t width, size_t heads,
                                  size_t dim)
{
    return (lnt_tensor){ .data = (real *)(uintptr_t)x,
                         .dtype = LNT_REAL_DTYPE,
                         .shape = { (int64_t)pass->batch, (int64_t)heads, (int64_t)pass->length,
                                    (int64_t)dim },
                         .stride = { (int64_t)(pass->length * width), (int64_t)dim, (int64_t)width, 1 } };
}

#endif
