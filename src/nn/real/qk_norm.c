/* nn/real/qk_norm.c - q = norm(q) gain_q, k = norm(k) gain_k by heads: norm.c on the heads of all tokens,
 * which are copied together for it.  O(n (heads + kv_heads) dim). */
#include "nn/qk_norm.h"

#include <string.h>

#include "nn/norm.h"

/* Queries, or keys: their heads, and where they begin in a row and in what is kept. */
typedef struct part {
    size_t heads, in_row, kept;
    lnt_norm norm;
} part;

static part part_of(const lnt_qk_norm *l, bool keys, size_t n)
{
    return (part){ .heads = keys ? l->kv_heads : l->heads, .in_row = keys ? l->heads * l->dim : 0,
                   .kept = keys ? n * l->heads : 0,
                   .norm = { .kind = LNT_NORM_RMS, .width = l->dim, .epsilon = l->epsilon,
                             .gain = keys ? l->k : l->q, .dgain = keys ? l->dk : l->dq } };
}

static void gather(const part *p, real *to, const real *x, size_t ld, size_t n)
{
    const size_t width = p->heads * p->norm.width;
    for (size_t t = 0; t < n; t++) memcpy(to + t * width, x + t * ld + p->in_row, width * sizeof *to);
}

static void scatter(const part *p, const real *from, real *x, size_t ld, size_t n)
{
    const size_t width = p->heads * p->norm.width;
    for (size_t t = 0; t < n; t++) memcpy(x + t * ld + p->in_row, from + t * width, width * sizeof *from);
}

void lnt_qk_norm_forward(const lnt_pass *pass, const lnt_qk_norm *l, real *x, size_t ld, real *bare,
                         real *stat, real *scratch)
{
    const size_t n = nn_tokens(pass);
    for (int keys = 0; keys < 2; keys++) {
        const part p = part_of(l, keys, n);
        real *own = bare + p.kept * l->dim;
        gather(&p, own, x, ld, n);
        lnt_norm_forward(pass->ctx, &p.norm, own, scratch, stat + 2 * p.kept, n * p.heads);
        scatter(&p, scratch, x, ld, n);
    }
}

void lnt_qk_norm_backward(const lnt_pass *pass, const lnt_qk_norm *l, real *dx, size_t ld,
                          const real *bare, const real *stat, real *scratch)
{
    const size_t n = nn_tokens(pass);
    for (int keys = 0; keys < 2; keys++) {
        const part p = part_of(l, keys, n);
        gather(&p, scratch, dx, ld, n);
        lnt_norm_backward(pass->ctx, &p.norm, bare + p.kept * l->dim, stat + 2 * p.kept, scratch, scratch,
                          false, n * p.heads);
        scatter(&p, scratch, dx, ld, n);
    }
}
