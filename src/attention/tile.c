/* attention/tile.c - the end of every algorithm: dividing, and clearing what no sequence covers. */
#include "attention/tile.h"

#include <math.h>

size_t lnt_two_per_query(const lnt_attn_desc *p)
{
    size_t bytes;
    if (!p->backward) return 0;
    if (!lnt_size_product((size_t)p->batch, (size_t)p->heads, (size_t)p->length_q, &bytes) ||
        !lnt_size_product(bytes, 2, sizeof(real), &bytes))
        return SIZE_MAX;
    return bytes;
}

static double run_eps(const lnt_run *run)
{
    return run->p->mechanism == LNT_LINEAR ? run->p->eps : 0;
}

void lnt_quotient_reload(const lnt_run *run, const kernels *ker, int64_t b, int64_t h, int64_t n0,
                         size_t n, real *dn, size_t ld, real *dden)
{
    const real *kept = kept_of(run, b, h, n0);
    load_rows(ker, dn, ld, &run->grads->dout, b, h, n0, n, 1);
    for (size_t i = 0; i < n; i++) {
        ker->scale(dn + i * ld, kept[2 * i], (size_t)run->p->dim_value);
        dden[i] = kept[2 * i + 1];
    }
}

void lnt_quotient_grad(const lnt_run *run, const kernels *ker, int64_t b, int64_t h, int64_t n0,
                       size_t n, const real *num, const real *den, real *dn, size_t ld, real *dden)
{
    real *keep = kept_of(run, b, h, n0);
    load_rows(ker, dn, ld, &run->grads->dout, b, h, n0, n, 1);
    for (size_t i = 0; i < n; i++) {
        const real total = den[i] + (real)run_eps(run), inverse = total == 0 ? 0 : 1 / total;
        const real along = ker->dot(dn + i * ld, num + i * ld, (size_t)run->p->dim_value);
        keep[2 * i] = inverse;
        keep[2 * i + 1] = -along * inverse * inverse;
    }
    lnt_quotient_reload(run, ker, b, h, n0, n, dn, ld, dden);
}

/* num / total where 1 / total would overflow. */
static void divide_row(const lnt_run *run, int64_t b, int64_t h, int64_t n, const real *num,
                       real total)
{
    const lnt_tensor *out = &run->io->out;
    for (int64_t d = 0; d < out->shape[3]; d++)
        lnt_tensor_set(out, b, h, n, d, (double)num[d] / (double)total);
}

void lnt_tile_finish(lnt_run *run, const kernels *ker, int64_t b, int64_t h, int64_t n0, size_t n,
                     const real *num, size_t ld, const real *den, const real *max, real *inverse,
                     bool seen, int64_t *nonpositive)
{
    const lnt_partial *partial = run->partial;
    const real eps = partial ? 0 : (real)run_eps(run);
    for (size_t i = 0; i < n; i++) {
        const real total = den[i] + eps;
        if (!(total > 0) && seen) ++*nonpositive;
        inverse[i] = total == 0 ? 0 : 1 / total; /* 0/0 gives 0 */
    }
    if (!partial) {
        store_rows(ker, &run->io->out, b, h, n0, n, num, ld, inverse);
        for (size_t i = 0; i < n; i++)
            if (isinf(inverse[i]))
                divide_row(run, b, h, n0 + (int64_t)i, num + i * ld, den[i] + eps);
        return;
    }
    store_rows(ker, &partial->num, b, h, n0, n, num, ld, NULL);
    store_rows(ker, &partial->den, b, h, n0, n, den, 1, NULL);
    if (max) store_rows(ker, &partial->max, b, h, n0, n, max, 1, NULL);
}

static void clear_rows(const lnt_tensor *t, int64_t b, int64_t from, int64_t to)
{
    for (int64_t h = 0; h < t->shape[1]; h++)
        for (int64_t n = from; n < to; n++)
            for (int64_t d = 0; d < t->shape[3]; d++) lnt_tensor_set(t, b, h, n, d, 0);
}

void lnt_clear_gaps(const lnt_run *run, const lnt_tensor *t, bool keys)
{
    const lnt_attn_io *io = run->io;
    if (!io->sequences) {
        for (int64_t s = 0; s < run->sequences; s++) {
            const lnt_sequence q = lnt_io_sequence(io, s);
            clear_rows(t, s, keys ? q.nk : q.nq, t->shape[2]);
        }
        return;
    }
    const int64_t *cu = keys ? io->cu_seqlens_k : io->cu_seqlens_q;
    clear_rows(t, 0, 0, cu[0]);
    clear_rows(t, 0, cu[io->sequences], t->shape[2]);
}
