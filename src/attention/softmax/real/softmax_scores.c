/* attention/softmax/real/softmax_scores.c - what becomes of scores before they are weights: a soft cap, the
 * slopes of ALiBi, a mask.
 *
 *     x = cap tanh(x / cap) - slope |t - j| + mask      back: dx (1 - (capped / cap)^2)
 *
 * A few operations for each pair of query and key, where the products take 2 (d + m).  See
 * docs/math/softmax.md */
#include <math.h>
#include <string.h>

#include "attention/direct/direct_tile.h"
#include "attention/mask.h"
#include "attention/softmax/softmax.h"

/* Numbers of a strip from its first query on. */
static size_t width_of(const kernels *ker, const tile *t)
{
    return lnt_round_up(t->nq, ker->lanes) - t->from;
}

static void cap(const lnt_run *run, const kernels *ker, const scratch *s, const tile *t)
{
    const size_t wide = width_of(ker, t);
    for (size_t j = 0; j < t->rows; j++) {
        real *x = s->x + j * TQ + t->from;
        ker->soft_cap(x, (real)run->p->softmax.cap, wide);
        if (run->grads) memcpy(s->capped + j * TQ + t->from, x, wide * sizeof *x);
    }
}

static void slope(const lnt_run *run, const kernels *ker, const scratch *s, const tile *t)
{
    const real by = -(real)run->p->softmax.slopes[t->h];
    const int64_t base = t->offset + t->q0 - t->k0 - (int64_t)t->row - (TK - 1);
    for (int64_t i = 0; i < TQ + TK; i++) s->distance[i] = (real)(base + i < 0 ? -(base + i) : base + i);
    for (size_t j = 0; j < t->rows; j++)
        ker->axpy(s->x + j * TQ + t->from, by, s->distance + t->from + TK - 1 - j, width_of(ker, t));
}

/* x of n keys, `step` apart, becomes -inf where keep, `stride` apart, is 0.  In most masks bytes that lie
 * together are alike: eight that all keep are passed by at once. */
static void hide(const char *keep, int64_t stride, real *x, size_t step, size_t n)
{
    size_t j = 0;
    while (j < n) {
        uint64_t word;
        if (stride == 1 && n - j >= sizeof word) {
            memcpy(&word, keep + j, sizeof word);
            if (!((word - UINT64_C(0x0101010101010101)) & ~word & UINT64_C(0x8080808080808080))) {
                j += sizeof word;
                continue;
            }
        }
        const size_t end = j + sizeof word < n ? j + sizeof word : n;
        for (; j < end; j++)
            if (!keep[(int64_t)j * stride]) x[j * step] = -(real)INFINITY;
    }
}

static void mask(const lnt_run *run, const kernels *ker, const scratch *s, const tile *t)
{
    const lnt_mask *m = &run->io->mask;
    const int64_t row = t->seq.q0 + t->q0, key = t->seq.k0 + t->k0 + (int64_t)t->row;
    if (m->kind == LNT_MASK_KEEP) {
        for (size_t i = t->from; i < t->nq; i++)
            hide(lnt_mask_at(m, t->seq.b, t->h, row + (int64_t)i, key), m->stride[3], s->x + i, TQ, t->rows);
        return;
    }
    ker->load_columns(s->bias, TQ, lnt_mask_at(m, t->seq.b, t->h, row, key), (int)m->dtype, m->stride[2],
                      m->stride[3], t->nq, t->rows, 1);
    for (size_t j = 0; j < t->rows; j++)
        ker->axpy(s->x + j * TQ + t->from, 1, s->bias + j * TQ + t->from, width_of(ker, t));
}

void lnt_softmax_adjust(const lnt_run *run, const kernels *ker, const scratch *s, const tile *t)
{
    if (run->p->softmax.cap > 0) cap(run, ker, s, t);
    if (run->p->softmax.slopes) slope(run, ker, s, t);
    if (run->io->mask.data) mask(run, ker, s, t);
}

void lnt_softmax_adjust_back(const lnt_run *run, const kernels *ker, const scratch *s, const tile *t)
{
    const real most = (real)run->p->softmax.cap;
    for (size_t j = 0; j < t->rows; j++)
        ker->soft_cap_back(s->dx + j * TQ + t->from, s->capped + j * TQ + t->from, most, width_of(ker, t));
}

void lnt_softmax_adjust_row(const lnt_run *run, const kernels *ker, const lnt_sequence *seq, int64_t h,
                            int64_t i, int64_t j, size_t n, real *x, real *bias)
{
    const lnt_softmax_options *o = &run->p->softmax;
    const lnt_mask *m = &run->io->mask;
    const size_t padded = lnt_round_up(n, ker->lanes);
    for (size_t c = n; c < padded; c++) x[c] = 0;
    if (o->cap > 0) ker->soft_cap(x, (real)o->cap, padded);
    if (o->slopes) {
        const int64_t at = i + lnt_band_of(run->p, run->causal, seq->nq, seq->nk).offset - j;
        for (size_t c = 0; c < n; c++) bias[c] = (real)(at < (int64_t)c ? (int64_t)c - at : at - (int64_t)c);
        ker->axpy(x, -(real)o->slopes[h], bias, n);
    }
    if (!m->data) return;
    const char *from = lnt_mask_at(m, seq->b, h, seq->q0 + i, seq->k0 + j);
    if (m->kind == LNT_MASK_KEEP) {
        hide(from, m->stride[3], x, 1, n);
        return;
    }
    ker->load_rows(bias, padded, from, (int)m->dtype, 0, m->stride[3], 1, n, 1);
    ker->axpy(x, 1, bias, n);
}
