/* attention/cur/landmark.c - which tokens are the landmarks of CUR attention.
 *
 *     sum, abs, embed   the tokens of the highest score, of equal ones the first
 *     step, means       token floor(i n / M)
 *     random            M of n, each set as likely as any other
 *
 * The scores are summed in double, element after element, so that the choice does not depend on how
 * many are summed at once.  O(n d) for sum and abs, O(n log M) for the highest.
 * See docs/math/cur.md */
#include <math.h>
#include <stdlib.h>

#include "attention/cur/cur.h"
#include "core/rng.h"
#include "core/tensor.h"
#include "cpu/kernels.h"

enum { TOKENS = 64 }; /* scored at a time */

size_t lnt_landmark_scratch(const lnt_attn_desc *p)
{
    size_t bytes;
    const size_t scored = TOKENS * ((size_t)p->dim + 2), best = (size_t)p->cur.landmarks;
    return lnt_size_product(scored + best, sizeof(double), 1, &bytes) ? bytes : SIZE_MAX;
}

/* One choice: among rows 0 .. n-1 of one or two tensors. */
typedef struct choice {
    const lnt_ctx *ctx;
    const lnt_attn_desc *p;
    int64_t n, M;
    int count;                  /* tensors whose scores are added */
    const lnt_tensor *x[2];
    int64_t b, head[2], row[2]; /* of row 0 in each */
    uint64_t stream;            /* of random numbers */
    double *scratch;
} choice;

static bool is_pinned(const choice *c, int64_t token)
{
    for (int64_t i = 0; i < c->p->cur.pins; i++)
        if (c->p->cur.pin[i] == token) return true;
    return false;
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The pinned tokens that this sequence has; returns how many. */
static int64_t take_pinned(const choice *c, int64_t *out)
{
    int64_t count = 0;
    for (int64_t i = 0; i < c->p->cur.pins; i++)
        if (c->p->cur.pin[i] < c->n) out[count++] = c->p->cur.pin[i];
    qsort(out, (size_t)count, sizeof *out, by_value);
    return count;
}

/* ---- by score -------------------------------------------------------------------------------- */

/* score[count] of tokens first .. of tensor t, added to what is there. */
static void add_scores(const choice *c, int t, int64_t first, size_t count, double *score)
{
    const lnt_tensor *x = c->x[t];
    const size_t d = (size_t)x->shape[3];
    double *columns = c->scratch + 2 * TOKENS, *sum = c->scratch + TOKENS;
    const char *rows = lnt_tensor_row(x, c->b, c->head[t], c->row[t] + first);
    if (c->p->cur.select == LNT_SELECT_EMBED) {
        for (size_t i = 0; i < count; i++)
            score[i] += lnt_tensor_get(x, c->b, c->head[t], c->row[t] + first + (int64_t)i,
                                       c->p->cur.embed_column);
        return;
    }
    lnt_kernels_get_f64(c->ctx->isa)->load_columns(columns, TOKENS, rows, (int)x->dtype,
                                                   x->stride[2], x->stride[3], count, d, 1);
    for (size_t i = 0; i < TOKENS; i++) sum[i] = 0;
    for (size_t e = 0; e < d; e++) {
        const double *column = columns + e * TOKENS;
        if (c->p->cur.select == LNT_SELECT_ABS)
            for (size_t i = 0; i < TOKENS; i++) sum[i] += fabs(column[i]);
        else
            for (size_t i = 0; i < TOKENS; i++) sum[i] += column[i];
    }
    for (size_t i = 0; i < count; i++) score[i] += sum[i];
}

/* A heap of the best tokens so far, the worst of them on top. */
typedef struct heap {
    double *score;
    int64_t *token, count, most;
} heap;

static bool is_worse(const heap *h, int64_t a, int64_t b)
{
    return h->score[a] < h->score[b] || (h->score[a] == h->score[b] && h->token[a] > h->token[b]);
}

static void swap(heap *h, int64_t a, int64_t b)
{
    const double score = h->score[a];
    const int64_t token = h->token[a];
    h->score[a] = h->score[b], h->token[a] = h->token[b];
    h->score[b] = score, h->token[b] = token;
}

static void sift_up(heap *h, int64_t at)
{
    for (; at > 0 && is_worse(h, at, (at - 1) / 2); at = (at - 1) / 2) swap(h, at, (at - 1) / 2);
}

static void sift_down(heap *h, int64_t at)
{
    for (;;) {
        int64_t worst = at;
        for (int64_t child = 2 * at + 1; child <= 2 * at + 2 && child < h->count; child++)
            if (is_worse(h, child, worst)) worst = child;
        if (worst == at) return;
        swap(h, at, worst);
        at = worst;
    }
}

/* Tokens come in order, so one of equal score never replaces an earlier one. */
static void offer(heap *h, double score, int64_t token)
{
    if (h->count < h->most) {
        h->score[h->count] = score;
        h->token[h->count] = token;
        sift_up(h, h->count++);
    } else if (h->most && score > h->score[0]) {
        h->score[0] = score;
        h->token[0] = token;
        sift_down(h, 0);
    }
}

static void choose_highest(const choice *c, int64_t *out)
{
    const int64_t pinned = take_pinned(c, out);
    double *score = c->scratch;
    heap best = { .score = c->scratch + TOKENS * (c->p->dim + 2),
                  .token = out + pinned,
                  .most = c->M - pinned };
    for (int64_t first = 0; first < c->n; first += TOKENS) {
        const size_t count = c->n - first < TOKENS ? (size_t)(c->n - first) : TOKENS;
        for (size_t i = 0; i < count; i++) score[i] = 0;
        for (int t = 0; t < c->count; t++) add_scores(c, t, first, count, score);
        for (size_t i = 0; i < count; i++)
            if (!is_pinned(c, first + (int64_t)i)) offer(&best, score[i], first + (int64_t)i);
    }
}

/* ---- by place -------------------------------------------------------------------------------- */

static bool contains(const int64_t *list, int64_t count, int64_t token)
{
    for (int64_t i = 0; i < count; i++)
        if (list[i] == token) return true;
    return false;
}

/* A pinned token takes the place of the nearest that is not pinned, of two the first. */
static void choose_steps(const choice *c, int64_t *out)
{
    for (int64_t i = 0; i < c->M; i++) out[i] = i * c->n / c->M;
    for (int64_t i = 0; i < c->p->cur.pins; i++) {
        const int64_t pin = c->p->cur.pin[i];
        if (pin >= c->n || contains(out, c->M, pin)) continue;
        int64_t nearest = -1;
        for (int64_t at = 0; at < c->M; at++)
            if (!is_pinned(c, out[at]) &&
                (nearest < 0 || llabs(out[at] - pin) < llabs(out[nearest] - pin)))
                nearest = at;
        out[nearest] = pin;
        qsort(out, (size_t)c->M, sizeof *out, by_value);
    }
}

/* Floyd's way: of 0 .. last, last growing, a number that is taken already gives `last` itself.  The
 * numbers count the tokens that are not pinned. */
static void choose_random(const choice *c, int64_t *out)
{
    const int64_t pinned = take_pinned(c, out), wanted = c->M - pinned, left = c->n - pinned;
    const lnt_rng rng = lnt_rng_split(lnt_rng_make(c->p->seed), c->stream);
    int64_t *chosen = out + pinned;
    for (int64_t i = 0; i < wanted; i++) {
        const int64_t last = left - wanted + i;
        const int64_t draw = (int64_t)(lnt_rng_uniform(rng, (uint64_t)i) * (double)(last + 1));
        chosen[i] = draw > last || contains(chosen, i, draw) ? last : draw;
    }
    for (int64_t i = 0; i < wanted; i++) /* past every pinned token up to it */
        for (int64_t p = 0; p < pinned; p++) chosen[i] += out[p] <= chosen[i];
}

static void choose(const choice *c, int64_t *out)
{
    switch (c->p->cur.select) {
    case LNT_SELECT_SUM:
    case LNT_SELECT_ABS:
    case LNT_SELECT_EMBED: choose_highest(c, out); break;
    case LNT_SELECT_RANDOM: choose_random(c, out); break;
    case LNT_SELECT_STEP:
    case LNT_SELECT_MEAN:
    case LNT_SELECT_STEP_MEAN:
    case LNT_SELECT_KMEANS: choose_steps(c, out); break;
    }
    qsort(out, (size_t)c->M, sizeof *out, by_value);
}

void lnt_landmark_choose(const lnt_ctx *ctx, const lnt_attn_desc *p, const lnt_attn_io *io,
                         const lnt_sequence *seq, int64_t h, int64_t *queries, int64_t *keys,
                         double *scratch)
{
    const int64_t kv = h * p->kv_heads / p->heads, M = p->cur.landmarks;
    choice c = { .ctx = ctx, .p = p, .n = seq->nq, .M = M, .count = 1, .b = seq->b,
                 .x = { &io->q, &io->k }, .head = { h, kv }, .row = { seq->q0, seq->k0 },
                 .stream = 2 * (uint64_t)h, .scratch = scratch };
    const bool means = lnt_cur_key_means(p) || lnt_cur_clusters(p); /* no token of them is pinned */
    if (!means && !p->cur.separate_indices && seq->nq == seq->nk) {
        c.count = 2;
        choose(&c, queries);
        for (int64_t i = 0; i < M; i++) keys[i] = queries[i];
        return;
    }
    choose(&c, queries);
    if (means) {
        for (int64_t i = 0; i < M; i++) keys[i] = i * seq->nk / M;
        return;
    }
    c.n = seq->nk;
    c.x[0] = &io->k, c.head[0] = kv, c.row[0] = seq->k0;
    c.stream++;
    choose(&c, keys);
}
