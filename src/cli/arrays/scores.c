/* cli/arrays/scores.c - the range, mean and deviation of the scores x = s q.k, as the mechanism sees them.
 *
 * No matrix of scores is stored; both run through partial results, before the division.  The maximum of a
 * softmax of x is the largest score of each query, that of -x the least.  Taylor attention with the weights x
 * and x^2 has the sums of x and x^2 as its denominators.  O(n^2 d) time, three numbers per query. */
#include "cli/arrays/scores.h"

#include <math.h>

#include "cli/arrays/tensors.h"
#include "cli/request.h"
#include "cli/show/report.h"

enum { LEAST, MOST, SUM, SQUARES, FIGURES };

/* What the runs share: values that nobody reads, and a place for what they give. */
typedef struct probe {
    lnt_ctx *ctx;
    lnt_attn_desc desc;
    lnt_attn_io io;
    lnt_partial rows; /* [B,H,n,1] each */
    lnt_tensor q, k;  /* normalised or centred copies, or zero */
    double value;
} probe;

static bool normalises(const lnt_attn_desc *desc)
{
    return desc->mechanism == LNT_TAYLOR && desc->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT;
}

/* to [B,H,n,d] = x / |x|, times the temperature of the head where there are some. */
static int normalise(const lnt_tensor *x, const double *temperature, lnt_tensor *to)
{
    const int64_t *s = x->shape;
    const int status = tensor_make(to, LNT_F64, s[0], s[1], s[2], s[3]);
    for (int64_t r = 0; !status && r < s[0] * s[1] * s[2]; r++) {
        const int64_t b = r / s[2] / s[1], h = r / s[2] % s[1], n = r % s[2];
        double square = 0;
        for (int64_t c = 0; c < s[3]; c++) square += pow(lnt_tensor_get(x, b, h, n, c), 2);
        const double factor = (temperature ? temperature[h] : 1) / fmax(sqrt(square), 1e-12);
        for (int64_t c = 0; c < s[3]; c++)
            lnt_tensor_set(to, b, h, n, c, factor * lnt_tensor_get(x, b, h, n, c));
    }
    return status;
}

/* The mean of number c of the keys of a kv head. */
static double mean_key(const lnt_tensor *k, int64_t b, int64_t kv, int64_t c)
{
    double sum = 0;
    for (int64_t n = 0; n < k->shape[2]; n++) sum += lnt_tensor_get(k, b, kv, n, c);
    return sum / (double)k->shape[2];
}

/* to [B,H,n,d] = k less what the mechanism takes from every key. */
static int centre(const lnt_attn_desc *desc, const lnt_tensor *k, lnt_tensor *to)
{
    const int64_t *s = k->shape;
    const int status = tensor_make(to, LNT_F64, s[0], s[1], s[2], s[3]);
    for (int64_t r = 0; !status && r < s[0] * s[1] * s[3]; r++) {
        const int64_t b = r / s[3] / s[1], kv = r / s[3] % s[1], c = r % s[3];
        const double by = desc->taylor.center ? desc->taylor.center[kv * s[3] + c] : mean_key(k, b, kv, c);
        for (int64_t n = 0; n < s[2]; n++)
            lnt_tensor_set(to, b, kv, n, c, lnt_tensor_get(k, b, kv, n, c) - by);
    }
    return status;
}

int scores_softmax(const lnt_attn_desc *desc, lnt_attn_desc *out)
{
    const int status = request_defaults(out);
    if (status) return status;
    out->dtype = LNT_F64;
    out->batch = desc->batch;
    out->heads = desc->heads;
    out->kv_heads = desc->kv_heads;
    out->length_q = desc->length_q;
    out->length_k = desc->length_k;
    out->dim = desc->dim;
    out->dim_value = desc->dim_value;
    out->causal = desc->causal;
    out->scale = isnan(desc->scale) ? 1 / sqrt((double)desc->dim) : desc->scale;
    return EXIT_OK;
}

static int open_probe(probe *p, const lnt_attn_desc *desc, const lnt_tensor *q, const lnt_tensor *k)
{
    const bool unit = normalises(desc), centred = desc->taylor.center || desc->taylor.center_mean;
    int status = scores_softmax(desc, &p->desc);
    p->desc.dim_value = 1;
    if (unit && isnan(desc->scale)) p->desc.scale = 1;
    if (!status && unit) status = normalise(q, desc->taylor.temperature, &p->q);
    if (!status && unit) status = normalise(k, NULL, &p->k);
    if (!status && centred) status = centre(desc, k, &p->k);
    p->io = (lnt_attn_io){ .size = sizeof p->io };
    p->rows.size = sizeof p->rows;
    p->io.q = unit ? p->q : *q;
    p->io.k = unit || centred ? p->k : *k;
    p->io.v = lnt_tensor_bhnd(&p->value, LNT_F64, k->shape[0], k->shape[1], k->shape[2], 1);
    for (int i = 0; i < 4; i++) p->io.v.stride[i] = 0;
    lnt_tensor *const made[] = { &p->rows.num, &p->rows.den, &p->rows.max };
    for (int i = 0; i < 3 && !status; i++)
        status = tensor_make(made[i], LNT_F64, q->shape[0], q->shape[1], q->shape[2], 1);
    return status;
}

static void close_probe(probe *p)
{
    lnt_tensor *const made[] = { &p->q, &p->k, &p->rows.num, &p->rows.den, &p->rows.max };
    for (int i = 0; i < 5; i++) tensor_free(made[i]);
}

static lnt_status run(probe *p, const lnt_attn_desc *desc, const lnt_partial *rows)
{
    lnt_plan *plan;
    lnt_status status = lnt_plan_create(p->ctx, desc, &plan);
    if (status) return status;
    status = lnt_plan_partial(plan, &p->io, rows);
    lnt_plan_destroy(plan);
    return status;
}

/* The largest score times sign. */
static lnt_status largest(probe *p, double sign, double *out)
{
    const double *max = p->rows.max.data;
    lnt_attn_desc desc = p->desc;
    desc.scale *= sign;
    const lnt_status status = run(p, &desc, &p->rows);
    const int64_t rows = tensor_elements(&p->rows.max);
    *out = -INFINITY;
    for (int64_t i = 0; i < rows && !status; i++) *out = fmax(*out, max[i]);
    return status;
}

/* The sum of the scores to a power, 1 or 2. */
static lnt_status sum(probe *p, int power, double *out)
{
    const double first[] = { 0, 1 }, second[] = { 0, 0, 1 }, *den = p->rows.den.data;
    const lnt_partial rows = { .size = sizeof rows, .num = p->rows.num, .den = p->rows.den };
    lnt_attn_desc desc = p->desc;
    desc.mechanism = LNT_TAYLOR;
    desc.taylor.terms = power + 1;
    desc.taylor.coefficients = power == 1 ? first : second;
    const lnt_status status = run(p, &desc, &rows);
    *out = 0;
    for (int64_t i = 0; i < tensor_elements(&p->rows.den) && !status; i++) *out += den[i];
    return status;
}

static double pairs(const lnt_attn_desc *d)
{
    const double nq = (double)d->length_q, nk = (double)d->length_k;
    return (double)d->batch * (double)d->heads *
           (d->causal ? nq * (nk - nq) + nq * (nq + 1) / 2 : nq * nk);
}

static int measure_probe(probe *p, score_spread *out)
{
    double figure[FIGURES];
    const double count = pairs(&p->desc);
    lnt_status status = largest(p, 1, &figure[MOST]);
    if (!status) status = largest(p, -1, &figure[LEAST]);
    if (!status) status = sum(p, 1, &figure[SUM]);
    if (!status) status = sum(p, 2, &figure[SQUARES]);
    if (status) return fail_ctx(p->ctx);
    const double mean = figure[SUM] / count, variance = figure[SQUARES] / count - mean * mean;
    *out = (score_spread){ .least = -figure[LEAST],
                           .most = figure[MOST],
                           .mean = mean,
                           .sigma = variance < 0 ? 0 : sqrt(variance) }; /* NaN stays */
    return EXIT_OK;
}

double scores_farthest(const score_spread *scores)
{
    return fmax(fabs(scores->least), fabs(scores->most));
}

int scores_measure(lnt_ctx *ctx, const lnt_attn_desc *desc, const lnt_tensor *q,
                   const lnt_tensor *k, score_spread *out)
{
    probe p = { .ctx = ctx };
    *out = (score_spread){ NAN, NAN, NAN, NAN };
    if (!(pairs(desc) > 0)) return EXIT_OK;
    int status = open_probe(&p, desc, q, k);
    if (!status) status = measure_probe(&p, out);
    close_probe(&p);
    return status;
}
