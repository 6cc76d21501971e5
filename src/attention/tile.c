/* attention/tile.c - the end of every algorithm: dividing, and clearing what no sequence covers; and
 * the begin of some: asking for what is read. */
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
    return run->p->mechanism == LNT_LINEAR ? run->p->eps : 0;
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
    return seq->before + (run->causal ? t + seq->nk - seq->nq + 1 : seq->nk);
}

real lnt_output_factor(const lnt_run *run, const lnt_sequence *seq, int64_t t)
{
    if (run->p->mechanism != LNT_TAYLOR || !run->p->output_norm) return 1;
    return (real)sqrt((double)keys_seen(run, seq, t) / (double)run->p->dim);
}

void lnt_quotient_reload(const lnt_run *run, const kernels *ker, const lnt_sequence *seq, int64_t h,
                         int64_t t, size_t n, real *dn, size_t ld, real *dden)
{
    const int64_t row = seq->q0 + t;
    const real *kept = kept_of(run, seq->b, h, row);
    load_rows(ker, dn, ld, &run->grads->dout, seq->b, h, row, n, 1);
    for (size_t i = 0; i < n; i++) {
        ker->scale(dn + i * ld, kept[2 * i], (size_t)run->p->dim_value);
        dden[i] = kept[2 * i + 1];
    }
}

/* Of a query: 1 / den and, given delta = dy.y, dden. */
static void keep_quotient(real *keep, real inverse, real delta, real factor)
{
    const bool has = has_gradient(inverse, delta);
    keep[0] = has ? inverse * factor : 0;
    keep[1] = has ? -delta * inverse : 0;
}

void lnt_quotient_recall(const lnt_run *run, const kernels *ker, const lnt_sequence *seq, int64_t h,
                         int64_t t, size_t n, real *y, real *dy, size_t ld)
{
    const int64_t row = seq->q0 + t;
    const real *inverse = statistics_of(run, 0, seq->b, h, row);
    real *keep = kept_of(run, seq->b, h, row);
    load_rows(ker, y, ld, &run->io->out, seq->b, h, row, n, 1);
    load_rows(ker, dy, ld, &run->grads->dout, seq->b, h, row, n, 1);
    for (size_t i = 0; i < n; i++) {
        const real delta = ker->dot(dy + i * ld, y + i * ld, (size_t)run->p->dim_value);
        keep_quotient(keep + 2 * i, inverse[i], delta, lnt_output_factor(run, seq, t + (int64_t)i));
    }
}

/* The same given num and den. */
static void find_quotients(const lnt_run *run, const kernels *ker, const lnt_sequence *seq, int64_t h,
                           int64_t t, size_t n, const real *num, const real *den, real *dn, size_t ld)
{
    const int64_t row = seq->q0 + t;
    real *keep = kept_of(run, seq->b, h, row);
    load_rows(ker, dn, ld, &run->grads->dout, seq->b, h, row, n, 1);
    for (size_t i = 0; i < n; i++) {
        const real inverse = inverse_of(den[i] + (real)run_eps(run));
        const real along = ker->dot(dn + i * ld, num + i * ld, (size_t)run->p->dim_value);
        const real factor = lnt_output_factor(run, seq, t + (int64_t)i);
        keep_quotient(keep + 2 * i, inverse, along * inverse * factor, factor);
    }
}

void lnt_quotient_grad(const lnt_run *run, const kernels *ker, const lnt_sequence *seq, int64_t h,
                       int64_t t, size_t n, real *num, const real *den, real *dn, size_t ld,
                       real *dden)
{
    if (run->statistics) lnt_quotient_recall(run, ker, seq, h, t, n, num, dn, ld);
    else find_quotients(run, ker, seq, h, t, n, num, den, dn, ld);
    lnt_quotient_reload(run, ker, seq, h, t, n, dn, ld, dden);
}

/* factor num / total where 1 / total would overflow. */
static void divide_row(const lnt_run *run, int64_t b, int64_t h, int64_t n, const real *num,
                       double factor, double total)
{
    const lnt_tensor *out = &run->io->out;
    for (int64_t d = 0; d < out->shape[3]; d++)
        lnt_tensor_set(out, b, h, n, d, factor * (double)num[d] / total);
}

real lnt_statistic(const lnt_run *run, const real *max, real den)
{
    if (max) return den > 0 ? *max + (real)log((double)den) : 0;
    return inverse_of(den + (real)run_eps(run));
}

static void keep_statistics(const lnt_run *run, const lnt_sequence *seq, int64_t h, int64_t t,
                            size_t n, const real *den, const real *max)
{
    real *statistic = statistics_of(run, 0, seq->b, h, seq->q0 + t);
    for (size_t i = 0; i < n; i++) statistic[i] = lnt_statistic(run, max ? max + i : NULL, den[i]);
}

void lnt_tile_finish(lnt_run *run, const kernels *ker, const lnt_sequence *seq, int64_t h,
                     int64_t t, size_t n, const real *num, size_t ld, const real *den,
                     const real *max, real *inverse, int64_t *nonpositive)
{
    const lnt_partial *partial = run->partial;
    const real eps = partial ? 0 : (real)run_eps(run);
    const int64_t b = seq->b, row = seq->q0 + t;
    for (size_t i = 0; i < n; i++) {
        const real total = den[i] + eps;
        if (!(total > 0 && isfinite(total)) && keys_seen(run, seq, t + (int64_t)i) > 0) ++*nonpositive;
        inverse[i] = total == 0 ? 0 : lnt_output_factor(run, seq, t + (int64_t)i) / total;
    }
    if (!partial) { /* 0/0 gave 0 */
        store_rows(ker, &run->io->out, b, h, row, n, num, ld, inverse);
        for (size_t i = 0; i < n; i++)
            if (isinf(inverse[i]))
                divide_row(run, b, h, row + (int64_t)i, num + i * ld,
                           (double)lnt_output_factor(run, seq, t + (int64_t)i),
                           (double)(den[i] + eps));
        if (run->statistics) keep_statistics(run, seq, h, t, n, den, max);
        return;
    }
    store_rows(ker, &partial->num, b, h, row, n, num, ld, NULL);
    store_rows(ker, &partial->den, b, h, row, n, den, 1, NULL);
    if (max) store_rows(ker, &partial->max, b, h, row, n, max, 1, NULL);
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

void lnt_clear_gaps(const lnt_run *run, const lnt_tensor *t, bool keys)
{
    const lnt_attn_io *io = run->io;
    if (!io->sequences) {
        if (!(keys ? io->lengths_k : io->lengths_q)) return;
        const double rows = (double)run->sequences * (double)t->shape[1] * (double)t->shape[2];
        const int threads = lnt_threads_for(run->ctx, rows * (double)t->shape[3]);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
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

/* ---- asking for rows ------------------------------------------------------------------------- */

enum { LINE = 64, MOST_ASKED = 1 << 18 }; /* bytes; of a tensor, so that all stay in the cache */

static void ask_rows(const lnt_tensor *t, int64_t b, int64_t first, int64_t rows, bool write)
{
    const size_t head = (size_t)t->shape[3] * lnt_dtype_size(t->dtype);
    const size_t row = (size_t)t->shape[1] * head;
    const bool beside = t->stride[3] == 1 && t->stride[1] == t->shape[3];
    if (!t->data || !beside || head > LINE || (size_t)rows * row > MOST_ASKED) return;
    for (int64_t n = first; n < first + rows; n++) {
        const char *from = lnt_tensor_row(t, b, 0, n);
        for (size_t at = 0; at < row; at += LINE)
            if (write) __builtin_prefetch(from + at, 1, 2);
            else __builtin_prefetch(from + at, 0, 2);
    }
}

void lnt_ask_inputs(const lnt_run *run, const lnt_sequence *seq)
{
    ask_rows(&run->io->q, seq->b, seq->q0, seq->nq, false);
    ask_rows(&run->io->k, seq->b, seq->k0, seq->nk, false);
    ask_rows(&run->io->v, seq->b, seq->k0, seq->nk, false);
}

void lnt_ask_gradients(const lnt_run *run, const lnt_sequence *seq)
{
    const lnt_attn_grads *g = run->grads;
    lnt_ask_inputs(run, seq);
    ask_rows(&run->io->out, seq->b, seq->q0, seq->nq, false);
    ask_rows(&g->dout, seq->b, seq->q0, seq->nq, false);
    ask_rows(&g->dq, seq->b, seq->q0, seq->nq, true);
    ask_rows(&g->dk, seq->b, seq->k0, seq->nk, true);
    ask_rows(&g->dv, seq->b, seq->k0, seq->nk, true);
}
