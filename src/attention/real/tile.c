/* attention/real/tile.c - the end of every algorithm: dividing, and clearing what no sequence covers; and
 * the begin of some: prefetching what is read. */
#include "attention/tile.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/threads.h"

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
    return run->p->mechanism == LNT_LINEAR ? run->p->linear.eps : 0;
}

/* Denominators, without their sign, that backward divides by; a factor of 2^20 is left for dy and v. */
#ifdef LNT_DOUBLE
static const real least_divisor = DBL_MIN * 0x1p20;
#else
static const real least_divisor = FLT_MIN * 0x1p20f;
#endif

static real inverse_of(real total)
{
    return total < least_divisor && total > -least_divisor ? 0 : 1 / total;
}

static int64_t keys_seen(const lnt_run *run, const lnt_sequence *seq, int64_t t)
{
    return seq->before + lnt_band_keys(lnt_band_of(run->p, run->causal, seq->nq, seq->nk), t, seq->nk);
}

/* Whether a sum over no key may belong to a query that has some. */
static bool may_see_none(const lnt_run *run, const lnt_sequence *seq, int64_t t)
{
    return run->io->mask.data || keys_seen(run, seq, t) == 0;
}

real lnt_output_factor(const lnt_run *run, const lnt_sequence *seq, int64_t t)
{
    if (run->p->mechanism != LNT_TAYLOR || !run->p->taylor.output_norm) return 1;
    return (real)sqrt((double)keys_seen(run, seq, t) / (double)run->p->dim);
}

static size_t value_width(const lnt_run *run) { return (size_t)run->p->dim_value; }

static void load_dy(const lnt_run *run, query_rows rows, real *dy)
{
    load_rows(run_kernels(run), dy, pad(value_width(run)), &run->grads->dout, rows.seq->b, rows.h,
              first_row(rows), rows.n, 1);
}

static real factor_of(const lnt_run *run, query_rows rows, size_t i)
{
    return lnt_output_factor(run, rows.seq, rows.t + (int64_t)i);
}

void lnt_quotient_reload(const lnt_run *run, query_rows rows, real *dn, real *dden)
{
    const kernels *ker = run_kernels(run);
    const size_t m = value_width(run), mp = pad(m);
    const real *carried = carried_of(run, rows);
    load_dy(run, rows, dn);
    for (size_t i = 0; i < rows.n; i++) {
        ker->scale(dn + i * mp, carried[2 * i], m);
        dden[i] = carried[2 * i + 1];
    }
}

/* Of a query: 1 / den and, given delta = dy.y, dden. */
static void carry_quotient(real *carried, real inverse, real delta, real factor)
{
    const bool has = has_gradient(inverse, delta);
    carried[0] = has ? inverse * factor : 0;
    carried[1] = has ? -delta * inverse : 0;
}

void lnt_quotient_recall(const lnt_run *run, query_rows rows, real *y, real *dy)
{
    const kernels *ker = run_kernels(run);
    const size_t m = value_width(run), mp = pad(m);
    const real *inverse = statistics_of(run, 0, rows);
    real *carried = carried_of(run, rows);
    load_rows(ker, y, mp, &run->io->out, rows.seq->b, rows.h, first_row(rows), rows.n, 1);
    load_dy(run, rows, dy);
    for (size_t i = 0; i < rows.n; i++) {
        const real delta = ker->dot(dy + i * mp, y + i * mp, m);
        carry_quotient(carried + 2 * i, inverse[i], delta, factor_of(run, rows, i));
    }
}

/* The same given num and den. */
static void find_quotients(const lnt_run *run, query_rows rows, const real *num, const real *den,
                           real *dn)
{
    const kernels *ker = run_kernels(run);
    const size_t m = value_width(run), mp = pad(m);
    real *carried = carried_of(run, rows);
    load_dy(run, rows, dn);
    for (size_t i = 0; i < rows.n; i++) {
        const real inverse = inverse_of(den[i] + (real)run_eps(run));
        const real along = ker->dot(dn + i * mp, num + i * mp, m);
        const real factor = factor_of(run, rows, i);
        carry_quotient(carried + 2 * i, inverse, along * inverse * factor, factor);
    }
}

void lnt_quotient_grad(const lnt_run *run, query_rows rows, real *num, const real *den, real *dn,
                       real *dden)
{
    if (run->statistics) lnt_quotient_recall(run, rows, num, dn);
    else find_quotients(run, rows, num, den, dn);
    lnt_quotient_reload(run, rows, dn, dden);
}

real lnt_statistic(const lnt_run *run, const real *max, real den)
{
    if (max) return den > 0 ? *max + (real)log((double)den) : 0;
    return inverse_of(den + (real)run_eps(run));
}

static void keep_statistics(const lnt_run *run, query_rows rows, const real *den, const real *max)
{
    real *statistic = statistics_of(run, 0, rows);
    for (size_t i = 0; i < rows.n; i++)
        statistic[i] = lnt_statistic(run, max ? max + i : NULL, den[i]);
}

/* num [m] of query i divided into out, where 1 / total would overflow. */
static void divide_row(const lnt_run *run, query_rows rows, size_t i, const real *num, double total)
{
    const lnt_tensor *out = &run->io->out;
    const double factor = (double)factor_of(run, rows, i);
    for (int64_t d = 0; d < out->shape[3]; d++)
        lnt_tensor_set(out, rows.seq->b, rows.h, first_row(rows) + (int64_t)i, d,
                       factor * (double)num[d] / total);
}

/* src [n, ld], times scale [n] unless that is NULL, into rows of t. */
static void put_rows(const lnt_run *run, query_rows rows, const lnt_tensor *t, const real *src,
                     size_t ld, const real *scale)
{
    store_rows(run_kernels(run), t, rows.seq->b, rows.h, first_row(rows), rows.n, src, ld, scale);
}

int64_t lnt_tile_finish(const lnt_run *run, query_rows rows, const real *num, const real *den,
                        const real *max, real *inverse)
{
    const lnt_partial *partial = run->partial;
    const real eps = partial ? 0 : (real)run_eps(run);
    const size_t mp = pad(value_width(run));
    int64_t nonpositive = 0;
    for (size_t i = 0; i < rows.n; i++) {
        const real total = den[i] + eps;
        if (!(total > 0 && isfinite(total)) &&
            !(total == 0 && may_see_none(run, rows.seq, rows.t + (int64_t)i)))
            nonpositive++;
        inverse[i] = total == 0 ? 0 : factor_of(run, rows, i) / total;
    }
    if (!partial) { /* 0/0 gave 0 */
        put_rows(run, rows, &run->io->out, num, mp, inverse);
        for (size_t i = 0; i < rows.n; i++)
            if (isinf(inverse[i])) divide_row(run, rows, i, num + i * mp, (double)(den[i] + eps));
        if (run->statistics) keep_statistics(run, rows, den, max);
        return nonpositive;
    }
    put_rows(run, rows, &partial->num, num, mp, NULL);
    put_rows(run, rows, &partial->den, den, 1, NULL);
    if (max) put_rows(run, rows, &partial->max, max, 1, NULL);
    return nonpositive;
}

/* Of `heads` heads from h on, which lie side by side. */
static void clear_row(const lnt_tensor *t, int64_t b, int64_t h, int64_t heads, int64_t n)
{
    if (t->stride[3] == 1 && t->shape[3] > 0) /* 0 is the same bytes in every dtype */
        memset(lnt_tensor_row(t, b, h, n), 0,
               (size_t)(heads * t->shape[3]) * lnt_dtype_size(t->dtype));
    else
        for (int64_t d = 0; d < t->shape[3]; d++) lnt_tensor_set(t, b, h, n, d, 0);
}

static void clear_rows(const lnt_tensor *t, int64_t b, int64_t from, int64_t to)
{
    const int64_t H = t->shape[1];
    const bool together = t->stride[3] == 1 && t->stride[1] == t->shape[3];
    for (int64_t h = 0; h < H; h += together ? H : 1)
        for (int64_t n = from; n < to; n++) clear_row(t, b, h, together ? H : 1, n);
}

static void clear_gaps(const lnt_run *run, const lnt_tensor *t, bool keys)
{
    const lnt_attn_io *io = run->io;
    if (!io->sequences) {
        if (!(keys ? io->lengths_k : io->lengths_q)) return;
        const double rows = (double)run->sequences * (double)t->shape[1] * (double)t->shape[2];
        const int threads = lnt_threads_for(run->ctx, rows * (double)t->shape[3]);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
        for (int64_t s = 0; s < run->sequences; s++) {
            const lnt_sequence seq = lnt_io_sequence(io, s);
            clear_rows(t, s, keys ? seq.nk : seq.nq, t->shape[2]);
        }
        return;
    }
    const int64_t *cu = keys ? io->cu_seqlens_k : io->cu_seqlens_q;
    clear_rows(t, 0, 0, cu[0]);
    clear_rows(t, 0, cu[io->sequences], t->shape[2]);
}

void lnt_clear_gaps(const lnt_run *run)
{
    if (run->grads) {
        clear_gaps(run, &run->grads->dq, false);
        clear_gaps(run, &run->grads->dk, true);
        clear_gaps(run, &run->grads->dv, true);
    } else if (!run->partial) {
        clear_gaps(run, &run->io->out, false);
    }
}

/* ---- prefetching rows ------------------------------------------------------------------------ */

enum { LINE = 64, MOST_PREFETCHED = 1 << 18 }; /* bytes; of a tensor, so that all stay in the cache */

static void prefetch_rows(const lnt_tensor *t, int64_t b, int64_t first, int64_t rows, bool write)
{
    const size_t head = (size_t)t->shape[3] * lnt_dtype_size(t->dtype);
    const size_t row = (size_t)t->shape[1] * head;
    const bool beside = t->stride[3] == 1 && t->stride[1] == t->shape[3];
    if (!t->data || !beside || head > LINE || (size_t)rows * row > MOST_PREFETCHED) return;
    for (int64_t n = first; n < first + rows; n++) {
        const char *from = lnt_tensor_row(t, b, 0, n);
        for (size_t at = 0; at < row; at += LINE)
            if (write) __builtin_prefetch(from + at, 1, 2);
            else __builtin_prefetch(from + at, 0, 2);
    }
}

void lnt_prefetch_inputs(const lnt_run *run, const lnt_sequence *seq)
{
    prefetch_rows(&run->io->q, seq->b, seq->q0, seq->nq, false);
    prefetch_rows(&run->io->k, seq->b, seq->k0, seq->nk, false);
    prefetch_rows(&run->io->v, seq->b, seq->k0, seq->nk, false);
}

void lnt_prefetch_gradients(const lnt_run *run, const lnt_sequence *seq)
{
    const lnt_attn_grads *g = run->grads;
    lnt_prefetch_inputs(run, seq);
    prefetch_rows(&run->io->out, seq->b, seq->q0, seq->nq, false);
    prefetch_rows(&g->dout, seq->b, seq->q0, seq->nq, false);
    prefetch_rows(&g->dq, seq->b, seq->q0, seq->nq, true);
    prefetch_rows(&g->dk, seq->b, seq->k0, seq->nk, true);
    prefetch_rows(&g->dv, seq->b, seq->k0, seq->nk, true);
}
