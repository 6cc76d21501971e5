/* cli/arrays/operands.c - reads the arrays Q, K, V of `attend`, checks them against each other, converts
 * them. */
#include "cli/arrays/operands.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/arrays/tensors.h"
#include "cli/show/report.h"

enum { BATCH, HEADS, LENGTH, WIDTH };

/* "[2,128,64]" */
static const char *shape_text(const lnt_array *array, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < array->rank && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%lld", i ? "," : "[",
                                 (long long)array->shape[i]);
    if (used + 1 < capacity) memcpy(text + used, array->rank ? "]" : "[]", array->rank ? 2 : 3);
    return text;
}

static int read_one(lnt_ctx *ctx, const char *path, operand *out)
{
    char shape[96];
    int64_t extent[4] = { 1, 1, 1, 1 };
    out->path = path;
    if (lnt_npy_read(ctx, path, &out->array)) return fail_ctx(ctx);
    const lnt_array *a = &out->array;
    if (a->rank < 2)
        return fail("'%s' is of shape %s, must be [N,d], [H,N,d] or [B,H,N,d]", path,
                    shape_text(a, shape, sizeof shape));
    for (int i = 0; i < a->rank; i++) extent[4 - a->rank + i] = a->shape[i];
    out->view = lnt_tensor_bhnd(a->data, a->dtype, extent[0], extent[1], extent[2], extent[3]);
    return EXIT_OK;
}

int operands_read(lnt_ctx *ctx, const options *o, operands *out)
{
    int status = read_one(ctx, o->operand[0], &out->q);
    if (!status) status = read_one(ctx, o->operand[1], &out->k);
    if (!status) status = read_one(ctx, o->operand[2], &out->v);
    return status;
}

static int mismatch(const operand *a, const operand *b, const char *rule)
{
    char left[96], right[96];
    return fail("'%s' is %s and '%s' is %s: %s", a->path,
                shape_text(&a->array, left, sizeof left), b->path,
                shape_text(&b->array, right, sizeof right), rule);
}

/* ordered: every query has a key of its own. */
static int check_fit(const operands *in, bool ordered)
{
    const operand *q = &in->q, *k = &in->k, *v = &in->v;
    const int64_t *sq = q->view.shape, *sk = k->view.shape, *sv = v->view.shape;
    if (q->array.rank != k->array.rank || q->array.rank != v->array.rank)
        return mismatch(q, q->array.rank != k->array.rank ? k : v,
                        "the three arrays must have as many dimensions");
    if (sq[BATCH] != sk[BATCH]) return mismatch(q, k, "their batches must be equal");
    if (sk[BATCH] != sv[BATCH]) return mismatch(k, v, "their batches must be equal");
    if (sk[HEADS] != sv[HEADS]) return mismatch(k, v, "their heads must be equal");
    if (sk[HEADS] < 1 ? sq[HEADS] != 0 : sq[HEADS] % sk[HEADS] != 0)
        return mismatch(q, k, "the heads of K must divide those of Q");
    if (sq[WIDTH] != sk[WIDTH]) return mismatch(q, k, "the last dimensions must be equal");
    if (sk[LENGTH] != sv[LENGTH]) return mismatch(k, v, "their lengths must be equal");
    if (ordered && sq[LENGTH] > sk[LENGTH])
        return mismatch(q, k, "causal needs no more queries than keys");
    return EXIT_OK;
}

static int check_said(const options *o, option_id id, int64_t found, const char *path)
{
    if (opt_whole(o, id, found) == found) return EXIT_OK;
    return fail("%s is %s, but '%s' has %lld", option_name(id), opt_text(o, id), path,
                (long long)found);
}

int operands_shape(const operands *in, const options *o, lnt_attn_desc *desc)
{
    const int64_t *sq = in->q.view.shape, *sk = in->k.view.shape, *sv = in->v.view.shape;
    int status = check_fit(in, desc->causal && !desc->softmax.align_begin);
    if (!status) status = check_said(o, OPT_HEADS, sq[HEADS], in->q.path);
    if (!status) status = check_said(o, OPT_KV_HEADS, sk[HEADS], in->k.path);
    if (!status) status = check_said(o, OPT_DIM, sq[WIDTH], in->q.path);
    if (!status) status = check_said(o, OPT_DIM_VALUE, sv[WIDTH], in->v.path);
    if (status) return status;
    /* To the descriptor a value width of 0 would mean "as the keys". */
    if (sq[WIDTH] < 1 || sv[WIDTH] < 1)
        return mismatch(&in->q, &in->v, "the last dimensions must be at least 1");
    desc->batch = sq[BATCH];
    desc->heads = sq[HEADS];
    desc->kv_heads = sk[HEADS];
    desc->length_q = sq[LENGTH];
    desc->length_k = sk[LENGTH];
    desc->dim = sq[WIDTH];
    desc->dim_value = sv[WIDTH];
    return EXIT_OK;
}

static int convert_one(operand *in, lnt_dtype dtype)
{
    const int64_t *s = in->view.shape;
    if (in->view.dtype == dtype) return EXIT_OK;
    const int status = tensor_make(&in->converted, dtype, s[0], s[1], s[2], s[3]);
    if (status) return status;
    tensor_convert(&in->view, &in->converted);
    in->view = in->converted;
    return EXIT_OK;
}

int operands_convert(operands *in, lnt_dtype dtype)
{
    int status = convert_one(&in->q, dtype);
    if (!status) status = convert_one(&in->k, dtype);
    if (!status) status = convert_one(&in->v, dtype);
    return status;
}

enum { SAMPLES = 48 }; /* of queries and of keys, spread evenly */

/* The score of query i and key j of head h, what is taken from the key aside. */
static double score(const operands *in, const lnt_attn_desc *desc, int64_t b, int64_t h, int64_t i,
                    int64_t j)
{
    const bool unit = desc->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT;
    const int64_t kv = h * desc->kv_heads / desc->heads;
    double dot = 0, q_square = 0, k_square = 0;
    for (int64_t c = 0; c < desc->dim; c++) {
        const double q = lnt_tensor_get(&in->q.view, b, h, i, c);
        const double k = lnt_tensor_get(&in->k.view, b, kv, j, c) -
                         (desc->taylor.center ? desc->taylor.center[kv * desc->dim + c] : 0);
        dot += q * k;
        q_square += q * q;
        k_square += k * k;
    }
    const double usual = unit ? 1 : 1 / sqrt((double)desc->dim);
    const double scale = isnan(desc->scale) ? usual : desc->scale;
    const double tau = desc->taylor.temperature ? desc->taylor.temperature[h] : 1;
    if (!unit) return scale * dot;
    return scale * tau * dot / fmax(sqrt(q_square * k_square), 1e-24);
}

/* The sum of the squares of the scores of one query with some keys; about their mean where the mean
 * key is taken from each. */
static double sum_squares(const operands *in, const lnt_attn_desc *desc, int64_t b, int64_t h,
                          int64_t i)
{
    double sum = 0, square = 0;
    for (int64_t t = 0; t < SAMPLES && desc->length_k; t++) {
        const double x = score(in, desc, b, h, i, desc->length_k * t / SAMPLES);
        sum += x;
        square += x * x;
    }
    return desc->taylor.center_mean ? square - sum * sum / SAMPLES : square;
}

double operands_sigma(const operands *in, const lnt_attn_desc *desc)
{
    double square = 0, count = 0;
    for (int64_t b = 0; b < desc->batch; b++)
        for (int64_t h = 0; h < desc->heads; h++)
            for (int64_t s = 0; s < SAMPLES && desc->length_q; s++) {
                square += sum_squares(in, desc, b, h, desc->length_q * s / SAMPLES);
                count += SAMPLES;
            }
    const double sigma = count > 0 ? sqrt(square / count) : 1;
    return sigma < 10 ? sigma : 10; /* beyond, no polynomial is near e^x; NaN stays out too */
}

void operands_free(lnt_ctx *ctx, operands *in)
{
    operand *all[] = { &in->q, &in->k, &in->v };
    for (int i = 0; i < 3; i++) {
        tensor_free(&all[i]->converted);
        if (all[i]->path) lnt_array_free(ctx, &all[i]->array);
    }
}
