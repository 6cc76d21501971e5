/* cli/study/drop_agreement.c - how far vectors of texts agree with others of the same texts.
 *
 *     cosine   of each text's two vectors, the mean
 *     rank     Spearman's correlation of the cosines between all pairs of texts
 *
 * O(texts^2 width). */
#include <math.h>
#include <stdlib.h>

#include "cli/study/drop_in.h"

static double cosine_of(const float *a, const float *b, int64_t width)
{
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < width; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

typedef struct ranked {
    double value;
    int at;
} ranked;

static int by_value(const void *a, const void *b)
{
    const double x = ((const ranked *)a)->value, y = ((const ranked *)b)->value;
    return (x > y) - (x < y);
}

/* values [count] become their ranks, which equal ones share. */
static int rank_values(double *values, int count)
{
    ranked *list = calloc((size_t)count, sizeof *list);
    if (!list) return fail_memory((size_t)count * sizeof *list);
    for (int i = 0; i < count; i++) list[i] = (ranked){ values[i], i };
    qsort(list, (size_t)count, sizeof *list, by_value);
    for (int i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && list[end].value == list[i].value;) end++;
        for (int k = i; k < end; k++) values[list[k].at] = 0.5 * (i + end - 1);
    }
    free(list);
    return EXIT_OK;
}

/* Pearson's. */
static double correlation(const double *a, const double *b, int count)
{
    double ma = 0, mb = 0, ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < count; i++) ma += a[i] / count, mb += b[i] / count;
    for (int i = 0; i < count; i++) {
        ab += (a[i] - ma) * (b[i] - mb);
        aa += (a[i] - ma) * (a[i] - ma);
        bb += (b[i] - mb) * (b[i] - mb);
    }
    return ab / sqrt(aa * bb);
}

/* a and b [count] become their ranks. */
int drop_rank_correlation(double *a, double *b, int count, double *out)
{
    int status = rank_values(a, count);
    if (!status) status = rank_values(b, count);
    if (!status) *out = correlation(a, b, count);
    return status;
}

/* Cosines between all pairs of texts; gives their number. */
static int fill_pairs(const float *vectors, int64_t texts, int64_t width, double *out)
{
    int count = 0;
    for (int64_t a = 0; a < texts; a++)
        for (int64_t b = 0; b < a; b++)
            out[count++] = cosine_of(vectors + a * width, vectors + b * width, width);
    return count;
}

int drop_agreement(const float *exact, const float *found, int64_t texts, int64_t width, drop_finding *out)
{
    const size_t bytes = (size_t)(texts * texts) * sizeof(double);
    double *pairs = malloc(2 * bytes), *others = pairs ? pairs + texts * texts : NULL;
    if (!pairs) return fail_memory(2 * bytes);
    const int count = fill_pairs(exact, texts, width, pairs);
    fill_pairs(found, texts, width, others);
    const int status = drop_rank_correlation(pairs, others, count, &out->rank);
    out->cosine = 0;
    for (int64_t t = 0; t < texts; t++)
        out->cosine += cosine_of(exact + t * width, found + t * width, width) / (double)texts;
    free(pairs);
    return status;
}
