/* model/image/resize.c - see resize.h.
 *
 * A pixel of the answer is the mean of those near its middle c, weighed by a filter f:
 *
 *     out[i] = sum_j f((j + 1/2 - c) / s) in[j] / sum_j f((j + 1/2 - c) / s),  c = (i + 1/2) n / m,  s =
 * max(1, n / m)
 *
 * for n pixels that become m: where the image shrinks the filter widens, so that no pixel is left out.  First
 * along rows, then along columns, each time rounded to 8 bits; weights are whole multiples of 2^-22.  So does
 * Pillow, and pixels are the same, but for 1 of 255 where it goes along columns first.  Time goes with the
 * pixels times the width of the filter, 2 s or 4 s. */
#include "model/image/resize.h"

#include <math.h>
#include <string.h>

/* 255 times weights whose sum without signs is up to 1.4 fits 31 bits. */
enum { BITS = 22, HALF = 1 << (BITS - 1) };

/* Where the pixels of the answer come from. */
typedef struct mix {
    size_t count, most;    /* of pixels in the answer, and of weights for each at the most */
    size_t *first, *taken; /* [count] */
    int32_t *weight;       /* [count,most]: in units of 2^-BITS, in all 1 */
    void *memory;
    size_t bytes;
} mix;

static double reach_of(lnt_filter filter) { return filter == LNT_FILTER_BICUBIC ? 2 : 1; }

/* A tent; or Keys' cubic with a = -1/2. */
static double value_of(lnt_filter filter, double x)
{
    x = fabs(x);
    if (filter == LNT_FILTER_BILINEAR) return x < 1 ? 1 - x : 0;
    if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
    return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

static void fill_mix(mix *m, size_t n, lnt_filter filter)
{
    const double ratio = (double)n / (double)m->count, stretch = fmax(1, ratio),
                 reach = reach_of(filter) * stretch;
    for (size_t i = 0; i < m->count; i++) {
        const double centre = ((double)i + 0.5) * ratio;
        const double begin = fmax(0, floor(centre - reach + 0.5)),
                     end = fmin((double)n, floor(centre + reach + 0.5));
        int32_t *w = m->weight + i * m->most;
        double sum = 0;
        m->first[i] = (size_t)begin;
        m->taken[i] = (size_t)end - (size_t)begin;
        for (size_t j = 0; j < m->taken[i]; j++)
            sum += value_of(filter, (begin + (double)j + 0.5 - centre) / stretch);
        for (size_t j = 0; j < m->taken[i]; j++)
            w[j] = (int32_t)round(value_of(filter, (begin + (double)j + 0.5 - centre) / stretch) / sum *
                                  (1 << BITS));
    }
}

/* n pixels to `count`. */
static lnt_status open_mix(lnt_ctx *ctx, size_t n, size_t count, lnt_filter filter, mix *m)
{
    const double stretch = fmax(1, (double)n / (double)count);
    *m = (mix){ .count = count, .most = (size_t)ceil(2 * reach_of(filter) * stretch) + 2 };
    m->bytes = count * (2 * sizeof(size_t) + m->most * sizeof *m->weight);
    m->memory = lnt_allocate(ctx, m->bytes, "the weights of a smaller image");
    if (!m->memory) return LNT_ERR_MEMORY;
    m->first = m->memory;
    m->taken = m->first + count;
    m->weight = (int32_t *)(m->taken + count);
    fill_mix(m, n, filter);
    return LNT_OK;
}

static unsigned char rounded(int32_t x)
{
    return (unsigned char)(x < HALF ? 0 : x >= 255 << BITS ? 255 : (x + HALF) >> BITS);
}

static void mix_row(const mix *m, const unsigned char *row, unsigned char *to)
{
    for (size_t i = 0; i < m->count; i++) {
        const unsigned char *from = row + m->first[i] * LNT_IMAGE_COLOURS;
        const int32_t *w = m->weight + i * m->most;
        int32_t sum[LNT_IMAGE_COLOURS] = { 0 };
        for (size_t j = 0; j < m->taken[i]; j++)
            for (size_t c = 0; c < LNT_IMAGE_COLOURS; c++) sum[c] += w[j] * from[j * LNT_IMAGE_COLOURS + c];
        for (size_t c = 0; c < LNT_IMAGE_COLOURS; c++) to[i * LNT_IMAGE_COLOURS + c] = rounded(sum[c]);
    }
}

/* sums [width,3] is scratch. */
static void mix_columns(const mix *m, const lnt_image *in, int32_t *sums, lnt_image *out)
{
    const size_t numbers = in->width * LNT_IMAGE_COLOURS;
    for (size_t i = 0; i < m->count; i++) {
        memset(sums, 0, numbers * sizeof *sums);
        for (size_t j = 0; j < m->taken[i]; j++) {
            const unsigned char *row = in->rgb + (m->first[i] + j) * numbers;
            const int32_t w = m->weight[i * m->most + j];
            for (size_t x = 0; x < numbers; x++) sums[x] += w * row[x];
        }
        for (size_t x = 0; x < numbers; x++) out->rgb[i * numbers + x] = rounded(sums[x]);
    }
}

static lnt_status resize_rows(lnt_ctx *ctx, const lnt_image *in, size_t width, lnt_filter filter,
                              lnt_image *out)
{
    mix m;
    lnt_status status = open_mix(ctx, in->width, width, filter, &m);
    if (!status) status = lnt_image_open(ctx, width, in->height, out);
    for (size_t y = 0; !status && y < in->height; y++)
        mix_row(&m, in->rgb + y * in->width * LNT_IMAGE_COLOURS, out->rgb + y * width * LNT_IMAGE_COLOURS);
    lnt_release(ctx, m.memory, m.bytes);
    return status;
}

static lnt_status resize_columns(lnt_ctx *ctx, const lnt_image *in, size_t height, lnt_filter filter,
                                 lnt_image *out)
{
    const size_t bytes = in->width * LNT_IMAGE_COLOURS * sizeof(int32_t);
    mix m;
    lnt_status status = open_mix(ctx, in->height, height, filter, &m);
    int32_t *sums = status ? NULL : lnt_allocate(ctx, bytes, "a row of an image");
    if (!status && !sums) status = LNT_ERR_MEMORY;
    if (!status) status = lnt_image_open(ctx, in->width, height, out);
    if (!status) mix_columns(&m, in, sums, out);
    lnt_release(ctx, sums, bytes);
    lnt_release(ctx, m.memory, m.bytes);
    return status;
}

lnt_status lnt_image_resize(lnt_ctx *ctx, const lnt_image *in, size_t width, size_t height, lnt_filter filter,
                            lnt_image *out)
{
    lnt_image narrow;
    *out = (lnt_image){ 0 };
    lnt_status status = resize_rows(ctx, in, width, filter, &narrow);
    if (status) return status;
    status = resize_columns(ctx, &narrow, height, filter, out);
    lnt_image_close(ctx, &narrow);
    if (status) *out = (lnt_image){ 0 };
    return status;
}
