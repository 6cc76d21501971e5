/* attention/cur/reference_cur.c - the oracle of CUR attention: one row in double, by the definition.
 *
 *     y_i = C_i pinv(U) (R V),  C = a(s q k_J^T),  U = C[I,:],  R = a(s q_I k^T)
 *
 * with a the softmax of a row or the Laplace activation; y_i = (R V)_l where token i is landmark l.
 * O(n M (d + m) + K M^3) for each row, on purpose: nothing here is shared with the algorithms but
 * the random numbers.  See docs/math/cur.md */
#include "attention/cur/reference_cur.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/cur/cur.h"
#include "core/rng.h"
#include "core/tensor.h"

enum { PROBES = 16 }; /* of tuned, at most */

/* One head of one sequence as plain arrays. */
typedef struct problem {
    const lnt_attn_desc *p;
    int64_t nq, nk, d, m, M, h;
    double *q, *k, *v;         /* [nq, d], [nk, d], [nk, m] */
    double *ql, *kl;           /* [M, d] landmarks */
    double *score;             /* [nq or nk, whichever is more] */
    double *row, *y;           /* [nk], [m] */
    double *rv, *w;            /* [M + PROBES, m], [M, m] */
    double *u, *z, *a, *b, *c; /* [M + PROBES, M] u, [M, M] the others */
    int64_t *i, *j;            /* [M + PROBES], [M] */
} problem;

/* ---- memory ---------------------------------------------------------------------------------- */

/* Bytes of all the arrays, and the arrays themselves where `at` is not NULL; 0: too many. */
static size_t lay_out(problem *x, char *at)
{
    const size_t nq = (size_t)x->nq, nk = (size_t)x->nk, d = (size_t)x->d, m = (size_t)x->m;
    const size_t M = (size_t)x->M, n = nq > nk ? nq : nk;
    const struct {
        double **array;
        size_t rows, cols;
    } all[] = { { &x->q, nq, d },  { &x->k, nk, d },  { &x->v, nk, m },    { &x->ql, M, d },
                { &x->kl, M, d },  { &x->score, n, 1 }, { &x->row, nk, 1 }, { &x->rv, M + PROBES, m },
                { &x->w, M, m },   { &x->u, M + PROBES, M },   { &x->z, M, M },     { &x->a, M, M },
                { &x->b, M, M },   { &x->c, M, M },   { &x->y, m, 1 } };
    size_t used = 0, bytes;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (!lnt_size_product(all[i].rows, all[i].cols, sizeof(double), &bytes)) return 0;
        *all[i].array = (double *)(void *)(at ? at + used : NULL);
        if (__builtin_add_overflow(used, bytes, &used)) return 0;
    }
    x->i = (int64_t *)(void *)(at ? at + used : NULL);
    x->j = at ? x->i + M + PROBES : NULL;
    return used + (2 * M + PROBES) * sizeof(int64_t);
}

static void read_rows(const lnt_tensor *t, int64_t b, int64_t h, int64_t first, int64_t n,
                      double *to)
{
    for (int64_t i = 0; i < n; i++) lnt_tensor_read(t, b, h, first + i, to + i * t->shape[3]);
}

/* ---- landmarks ------------------------------------------------------------------------------- */

static bool is_in(const int64_t *list, int64_t count, int64_t token)
{
    for (int64_t i = 0; i < count; i++)
        if (list[i] == token) return true;
    return false;
}

static bool is_pinned(const problem *x, int64_t token)
{
    return is_in(x->p->cur.pin, x->p->cur.pin ? x->p->cur.pins : 0, token);
}

static double token_score(const problem *x, const double *row)
{
    double sum = 0;
    if (x->p->cur.select == LNT_SELECT_EMBED) return row[x->p->cur.embed_column];
    for (int64_t c = 0; c < x->d; c++)
        sum += x->p->cur.select == LNT_SELECT_ABS ? fabs(row[c]) : row[c];
    return sum;
}

/* The token of the highest score of those left, the first of them. */
static void choose_highest(const problem *x, int64_t n, int64_t *out)
{
    int64_t count = 0;
    for (int64_t t = 0; t < n; t++)
        if (is_pinned(x, t)) out[count++] = t;
    for (; count < x->M; count++) {
        int64_t best = -1;
        for (int64_t t = 0; t < n; t++)
            if (!is_in(out, count, t) && (best < 0 || x->score[t] > x->score[best])) best = t;
        out[count] = best;
    }
}

/* Every place is moved to the pinned token it is nearest to, if that is not among them. */
static void choose_steps(const problem *x, int64_t n, int64_t *out)
{
    for (int64_t l = 0; l < x->M; l++) out[l] = l * n / x->M;
    for (int64_t i = 0; i < x->p->cur.pins; i++) {
        const int64_t pin = x->p->cur.pin[i];
        int64_t best = -1;
        if (pin >= n || is_in(out, x->M, pin)) continue;
        for (int64_t t = 0; t < n; t++) /* in order of tokens, so of two the first */
            if (is_in(out, x->M, t) && !is_pinned(x, t) &&
                (best < 0 || llabs(t - pin) < llabs(best - pin)))
                best = t;
        for (int64_t l = 0; l < x->M; l++)
            if (out[l] == best) out[l] = pin;
    }
}

/* Draw l is of 0 .. left - wanted + l, tokens that are not pinned counted; if taken, the last. */
static void choose_random(const problem *x, int64_t n, uint64_t stream, int64_t *out)
{
    const lnt_rng rng = lnt_rng_split(lnt_rng_make(x->p->seed), stream);
    int64_t pinned = 0;
    for (int64_t t = 0; t < n; t++)
        if (is_pinned(x, t)) out[pinned++] = t;
    for (int64_t l = 0; l < x->M - pinned; l++) {
        const int64_t last = n - x->M + l;
        int64_t number = (int64_t)(lnt_rng_uniform(rng, (uint64_t)l) * (double)(last + 1));
        int64_t token = 0;
        for (int tries = 0; tries < 2; tries++, number = last) {
            int64_t left = number;
            for (token = 0; is_pinned(x, token) || left; token++) left -= !is_pinned(x, token);
            if (!is_in(out, pinned + l, token)) break;
        }
        out[pinned + l] = token;
    }
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* From n tokens with the scores of one or both arrays. */
static void choose(problem *x, int64_t n, const double *one, const double *other, uint64_t stream,
                   int64_t *out)
{
    for (int64_t t = 0; t < n; t++)
        x->score[t] = token_score(x, one + t * x->d) +
                      (other ? token_score(x, other + t * x->d) : 0);
    switch (x->p->cur.select) {
    case LNT_SELECT_SUM:
    case LNT_SELECT_ABS:
    case LNT_SELECT_EMBED: choose_highest(x, n, out); break;
    case LNT_SELECT_RANDOM: choose_random(x, n, stream, out); break;
    default: choose_steps(x, n, out); break;
    }
    qsort(out, (size_t)x->M, sizeof *out, by_value);
}

static void choose_landmarks(problem *x)
{
    const bool same = !x->p->cur.separate_indices && x->nq == x->nk;
    const uint64_t stream = 2 * (uint64_t)x->h;
    choose(x, x->nq, x->q, same ? x->k : NULL, stream, x->i);
    if (same) memcpy(x->j, x->i, (size_t)x->M * sizeof *x->j);
    else choose(x, x->nk, x->k, NULL, stream + 1, x->j);
}

/* to [M, d] = tokens of from [n, d], or the means of M segments. */
static void load(const problem *x, const double *from, int64_t n, const int64_t *token, bool means,
                 double *to)
{
    for (int64_t l = 0; l < x->M; l++) {
        const int64_t first = means ? l * n / x->M : token[l];
        const int64_t end = means ? (l + 1) * n / x->M : token[l] + 1;
        for (int64_t c = 0; c < x->d; c++) {
            double sum = 0;
            for (int64_t t = first; t < end; t++) sum += from[t * x->d + c];
            to[l * x->d + c] = sum / (double)(end - first);
        }
    }
}

static double distance(const problem *x, int64_t key, int64_t start)
{
    double sum = 0;
    for (int64_t c = 0; c < x->d; c++) {
        const double difference = x->k[key * x->d + c] - x->k[start * x->d + c];
        sum += difference * difference;
    }
    return sum;
}

/* kmeans: kl = the means of the keys that each start is nearest to, of equal ones the first. */
static void load_clusters(problem *x)
{
    for (int64_t t = 0; t < x->nk; t++) {
        int64_t best = 0;
        for (int64_t l = 1; l < x->M; l++)
            if (distance(x, t, l * x->nk / x->M) < distance(x, t, best * x->nk / x->M)) best = l;
        x->score[t] = (double)best;
    }
    for (int64_t l = 0; l < x->M; l++)
        for (int64_t c = 0; c < x->d; c++) {
            double sum = 0, count = 0;
            for (int64_t t = 0; t < x->nk; t++)
                if (x->score[t] == (double)l) sum += x->k[t * x->d + c], count++;
            x->kl[l * x->d + c] = count > 0 ? sum / count : x->k[l * x->nk / x->M * x->d + c];
        }
}

/* ---- attention ------------------------------------------------------------------------------- */

/* out [n] = the weights of keys [n, d] for one query. */
static void weights(const problem *x, const double *query, const double *keys, int64_t n,
                    double *out)
{
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++) {
        double dot = 0;
        for (int64_t c = 0; c < x->d; c++) dot += query[c] * keys[j * x->d + c];
        out[j] = x->p->scale * dot;
        max = fmax(max, out[j]);
    }
    if (x->p->cur.activation == LNT_ACTIVATION_LAPLACE) {
        for (int64_t j = 0; j < n; j++) /* 1 + erf(z) without cancelling */
            out[j] = 0.5 * erfc(-(out[j] - sqrt(0.5)) / (sqrt(1 / (4 * M_PI)) * sqrt(2)));
        return;
    }
    for (int64_t j = 0; j < n; j++) sum += out[j] = exp(out[j] - max);
    for (int64_t j = 0; j < n; j++) out[j] /= sum;
}

/* out [m] = row [n] times values [n, m]. */
static void combine(const problem *x, const double *row, const double *values, int64_t n,
                    double *out)
{
    for (int64_t c = 0; c < x->m; c++) out[c] = 0;
    for (int64_t j = 0; j < n; j++)
        for (int64_t c = 0; c < x->m; c++) out[c] += row[j] * values[j * x->m + c];
}

static void multiply(const problem *x, const double *a, const double *b, double *c)
{
    for (int64_t i = 0; i < x->M; i++)
        for (int64_t j = 0; j < x->M; j++) {
            double sum = 0;
            for (int64_t k = 0; k < x->M; k++) sum += a[i * x->M + k] * b[k * x->M + j];
            c[i * x->M + j] = sum;
        }
}

/* z = number times the unit matrix - z */
static void from_unit(const problem *x, double number, double *z)
{
    for (int64_t i = 0; i < x->M; i++)
        for (int64_t j = 0; j < x->M; j++)
            z[i * x->M + j] = (i == j ? number : 0) - z[i * x->M + j];
}

/* ---- the pseudo-inverse ---------------------------------------------------------------------- */

static double norm(const problem *x, bool columns)
{
    double most = 0;
    for (int64_t i = 0; i < x->M; i++) {
        double sum = 0;
        for (int64_t j = 0; j < x->M; j++)
            sum += fabs(columns ? x->u[j * x->M + i] : x->u[i * x->M + j]);
        most = fmax(most, sum);
    }
    return most;
}

static double trace(const problem *x, const double *a)
{
    double sum = 0;
    for (int64_t i = 0; i < x->M; i++) sum += a[i * x->M + i];
    return sum;
}

static bool is_bounded(const problem *x, const double *a)
{
    double square = 0;
    for (int64_t i = 0; i < x->M * x->M; i++) square += a[i] * a[i];
    return square <= 16 * (double)x->M;
}

/* z from u^T / divisor; false if |u z| leaves 4 sqrt(M), or the last trace 4 M. */
static bool iterate(problem *x, double divisor)
{
    for (int64_t i = 0; i < x->M * x->M; i++)
        x->z[i] = x->u[i % x->M * x->M + i / x->M] / divisor;
    for (int64_t k = 0;; k++) {
        multiply(x, x->u, x->z, x->a); /* uz */
        if (k == x->p->cur.pinv_iterations) return fabs(trace(x, x->a)) <= 4 * (double)x->M;
        if (!is_bounded(x, x->a)) return false;
        memcpy(x->b, x->a, (size_t)(x->M * x->M) * sizeof *x->b);
        from_unit(x, 7, x->b);
        multiply(x, x->a, x->b, x->c);
        from_unit(x, 15, x->c);
        multiply(x, x->a, x->c, x->b);
        from_unit(x, 13, x->b);
        multiply(x, x->z, x->b, x->c);
        for (int64_t i = 0; i < x->M * x->M; i++) x->z[i] = x->c[i] / 4;
    }
}

static void swap_rows(double *g, int64_t width, int64_t a, int64_t b)
{
    for (int64_t j = 0; j < width; j++) {
        const double kept = g[a * width + j];
        g[a * width + j] = g[b * width + j];
        g[b * width + j] = kept;
    }
}

/* y [M, width] = g^-1 y by elimination with pivots; g [M, M] is overwritten. */
static void eliminate(const problem *x, double *g, double *y, int64_t width)
{
    const int64_t M = x->M;
    for (int64_t i = 0; i < M; i++) {
        int64_t pivot = i;
        for (int64_t k = i + 1; k < M; k++)
            if (fabs(g[k * M + i]) > fabs(g[pivot * M + i])) pivot = k;
        swap_rows(g, M, i, pivot);
        swap_rows(y, width, i, pivot);
        for (int64_t k = 0; k < M; k++) {
            const double factor = k == i ? 0 : g[k * M + i] / g[i * M + i];
            for (int64_t j = 0; j < M && k != i; j++) g[k * M + j] -= factor * g[i * M + j];
            for (int64_t j = 0; j < width && k != i; j++) y[k * width + j] -= factor * y[i * width + j];
        }
    }
    for (int64_t i = 0; i < M * width; i++) y[i] /= g[i / width * M + i / width];
}

/* x->a = f^T f + part |u|^2 of the first `rows` rows of f, which begin with those of u. */
static void fill_gram(problem *x, int64_t rows, double part)
{
    const int64_t M = x->M;
    double size = 0;
    for (int64_t i = 0; i < M * M; i++) size += x->u[i] * x->u[i];
    for (int64_t i = 0; i < M * M; i++) {
        x->a[i] = i / M != i % M ? 0 : size > 0 ? part * size : 1;
        for (int64_t r = 0; r < rows; r++) x->a[i] += x->u[r * M + i / M] * x->u[r * M + i % M];
    }
}

/* z = (u^T u + r)^-1 u^T, r = part |u|^2. */
static void ridge(problem *x, double part)
{
    for (int64_t i = 0; i < x->M * x->M; i++) x->z[i] = x->u[i % x->M * x->M + i / x->M];
    fill_gram(x, x->M, part);
    eliminate(x, x->a, x->z, x->M);
}

/* ---- tuned ----------------------------------------------------------------------------------- */

/* Queries between the landmarks, whose true y is known: their rows follow those of u and rv.  Gives how many
 * there are. */
static int64_t add_probes(problem *x)
{
    const int64_t most = (x->M + 7) / 8 * 8, left = x->nq - x->M;
    int64_t count = most < PROBES ? most : PROBES;
    if (left < count) count = left;
    for (int64_t t = 0; t < count; t++) {
        int64_t token = ((2 * t + 1) * x->nq / (2 * count) + x->nq / (2 * x->M)) % x->nq;
        while (is_in(x->i, x->M + t, token)) token = (token + 1) % x->nq;
        x->i[x->M + t] = token;
        weights(x, x->q + token * x->d, x->k, x->nk, x->row);
        combine(x, x->row, x->v, x->nk, x->rv + (x->M + t) * x->m);
        weights(x, x->q + token * x->d, x->kl, x->M, x->u + (x->M + t) * x->M);
    }
    return count;
}

/* |c z rv - y|^2 of probe t. */
static double probe_error(problem *x, int64_t t)
{
    const double *c = x->u + (x->M + t) * x->M, *y = x->rv + (x->M + t) * x->m;
    double error = 0;
    for (int64_t l = 0; l < x->M; l++) combine(x, x->z + l * x->M, x->rv, x->M, x->w + l * x->m);
    combine(x, c, x->w, x->M, x->y);
    for (int64_t i = 0; i < x->m; i++) error += (x->y[i] - y[i]) * (x->y[i] - y[i]);
    return error;
}

/* w = (f^T f + r |u|^2)^-1 f^T y, f and y the rows of u and of rv with those of the probes, by the ridge r
 * with which u alone serves the probes best. */
static void tune(problem *x, int64_t count)
{
    double least = INFINITY, best = 0.1;
    for (int e = 2; e <= 12; e++) {
        const double part = pow(10, -e / 2.0);
        double error = 0;
        ridge(x, part);
        for (int64_t t = 0; t < count; t++) error += probe_error(x, t);
        if (error < least) least = error, best = part;
    }
    fill_gram(x, x->M + count, best);
    for (int64_t i = 0; i < x->M * x->m; i++) {
        x->w[i] = 0;
        for (int64_t r = 0; r < x->M + count; r++)
            x->w[i] += x->u[r * x->M + i / x->m] * x->rv[r * x->m + i % x->m];
    }
    eliminate(x, x->a, x->w, x->m);
}

/* ---- either ---------------------------------------------------------------------------------- */

/* z, of all but tuned. */
static void invert(problem *x)
{
    const double columns = norm(x, true), rows = norm(x, false);
    const double safe = columns * rows > 0 ? columns * rows : 1;
    if (x->p->cur.pinv == LNT_PINV_RIDGE) {
        ridge(x, x->p->cur.ridge);
        return;
    }
    if (x->p->cur.pinv_init == LNT_PINV_PAPER1 && iterate(x, columns > 0 ? columns : 1)) return;
    iterate(x, safe);
}

/* ---- the row --------------------------------------------------------------------------------- */

static void landmark_row(problem *x, int64_t i, double *out)
{
    choose_landmarks(x);
    load(x, x->q, x->nq, x->i, lnt_cur_query_means(x->p), x->ql);
    if (lnt_cur_clusters(x->p)) load_clusters(x);
    else load(x, x->k, x->nk, x->j, lnt_cur_key_means(x->p), x->kl);
    for (int64_t l = 0; l < x->M; l++) {
        weights(x, x->ql + l * x->d, x->k, x->nk, x->row);
        combine(x, x->row, x->v, x->nk, x->rv + l * x->m);
        weights(x, x->ql + l * x->d, x->kl, x->M, x->u + l * x->M);
        if (lnt_cur_copies_rows(x->p) && x->i[l] == i) {
            memcpy(out, x->rv + l * x->m, (size_t)x->m * sizeof *out);
            return;
        }
    }
    const bool tuned = x->p->cur.pinv == LNT_PINV_TUNED;
    const int64_t probes = tuned ? add_probes(x) : 0;
    for (int64_t l = x->M; l < x->M + probes; l++)
        if (x->p->cur.copy_rows && x->i[l] == i) {
            memcpy(out, x->rv + l * x->m, (size_t)x->m * sizeof *out);
            return;
        }
    if (tuned) tune(x, probes);
    else invert(x);
    for (int64_t l = 0; l < x->M && !tuned; l++) combine(x, x->z + l * x->M, x->rv, x->M, x->w + l * x->m);
    weights(x, x->q + i * x->d, x->kl, x->M, x->row);
    combine(x, x->row, x->w, x->M, out);
}

lnt_status lnt_reference_cur_row(lnt_ctx *ctx, const lnt_attn_desc *p, const lnt_attn_io *io,
                                 const lnt_sequence *seq, int64_t h, int64_t i, double *out)
{
    const int64_t kv = h * p->kv_heads / p->heads;
    problem x = { .p = p, .nq = seq->nq, .nk = seq->nk, .d = p->dim, .m = p->dim_value, .h = h };
    const bool exact = lnt_cur_mode_of(p, seq) != LNT_CUR_LANDMARKS;
    x.M = exact ? 0 : p->cur.landmarks;
    const size_t bytes = lay_out(&x, NULL);
    if (!bytes && x.nk) return lnt_fail(ctx, LNT_ERR_MEMORY, "the reference: not enough memory");
    char *memory = lnt_allocate(ctx, bytes, "the reference");
    if (!memory) return LNT_ERR_MEMORY;
    lay_out(&x, memory);
    read_rows(&io->q, seq->b, h, seq->q0, x.nq, x.q);
    read_rows(&io->k, seq->b, kv, seq->k0, x.nk, x.k);
    read_rows(&io->v, seq->b, kv, seq->k0, x.nk, x.v);
    if (exact) {
        weights(&x, x.q + i * x.d, x.k, x.nk, x.row);
        combine(&x, x.row, x.v, x.nk, out);
    } else {
        landmark_row(&x, i, out);
    }
    lnt_release(ctx, memory, bytes);
    return LNT_OK;
}
