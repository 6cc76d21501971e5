/* nn/quantise.c - see quantise.h.
 *
 *     q8_0    x = d q, d = max |x| / 127
 *     q4_1    x = d q + m
 *
 * Of q4_1 four ranges are tried, the whole one and three that leave out more and more at its ends; d and m
 * are then those of least squares, and the best is taken.  On the matrices of MiniLM's blocks the relative
 * error is 0.0750; the whole range alone gives 0.0806, and q4_0, which has no m and so half a bit less for a
 * number, 0.0854 when it is searched for alike.
 *
 * d and m are rounded to f16 before numbers are rounded to multiples of them. */
#include "nn/quantise.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/dtype.h"

enum { BLOCK = 32, RANGES = 4 };

static float largest(const float *x, size_t count)
{
    float most = 0;
    for (size_t i = 0; i < count; i++) {
        const float size = fabsf(x[i]);
        if (!(size <= most) && !isnan(most)) most = size; /* NaN stays */
    }
    return most;
}

/* The nearest of low .. high, where low is at least -128. */
static int whole(float x, int low, int high)
{
    const float bounded = x < (float)low ? (float)low : x > (float)high ? (float)high : x;
    return (int)(bounded + 128.5f) - 128; /* without a call of the C library, in vectors */
}

static bool is_half(float x) { return isfinite(lnt_f16_to_float(lnt_float_to_f16(x))); }

static void put_q8_0(const float *x, unsigned char *to)
{
    const uint16_t half = lnt_float_to_f16(largest(x, BLOCK) / 127);
    const float d = lnt_f16_to_float(half);
    memcpy(to, &half, sizeof half);
    for (int i = 0; i < BLOCK; i++) to[2 + i] = (unsigned char)(d > 0 ? whole(x[i] / d, -127, 127) : 0);
}

typedef struct line {
    uint16_t d, m; /* f16 */
    int q[BLOCK];
    double error; /* sum of squares */
} line;

static void round_to(const float *x, float d, float m, int *q)
{
    for (int i = 0; i < BLOCK; i++) q[i] = d > 0 ? whole((x[i] - m) / d, 0, 15) : 0;
}

/* The line through the numbers whose codes are q, by least squares; d and m stay where all codes are one. */
static void fit(const float *x, const int *q, float *d, float *m)
{
    double s = 0, ss = 0, y = 0, sy = 0;
    for (int i = 0; i < BLOCK; i++) {
        s += q[i], ss += (double)q[i] * q[i];
        y += (double)x[i], sy += q[i] * (double)x[i];
    }
    const double det = BLOCK * ss - s * s;
    if (!(det > 0)) return;
    const double slope = (BLOCK * sy - s * y) / det;
    *d = (float)slope;
    *m = (float)((y - slope * s) / BLOCK);
}

/* Codes of 16 steps from low to high, then the line through them, then the codes of that. */
static line line_of(const float *x, float low, float high)
{
    line out = { .error = 0 };
    float d = (high - low) / 15, m = low;
    round_to(x, d, m, out.q);
    fit(x, out.q, &d, &m);
    out.d = lnt_float_to_f16(d);
    out.m = lnt_float_to_f16(m);
    d = lnt_f16_to_float(out.d), m = lnt_f16_to_float(out.m);
    round_to(x, d, m, out.q);
    for (int i = 0; i < BLOCK; i++) {
        const double e = (double)x[i] - ((double)d * out.q[i] + (double)m);
        out.error += e * e;
    }
    return out;
}

static bool put_q4_1(const float *x, unsigned char *to)
{
    float low = x[0], high = x[0];
    for (int i = 1; i < BLOCK; i++) {
        if (x[i] < low) low = x[i];
        if (x[i] > high) high = x[i];
    }
    if (!is_half(low) || !is_half(high) || !is_half((high - low) / 15)) return false;
    line best = line_of(x, low, high);
    for (int r = 1; r < RANGES; r++) {
        const float cut = 0.02f * (float)r * (high - low);
        const line other = line_of(x, low + cut, high - cut);
        if (other.error < best.error) best = other;
    }
    if (!isfinite(best.error)) return false;
    memcpy(to, &best.d, sizeof best.d);
    memcpy(to + 2, &best.m, sizeof best.m);
    for (int i = 0; i < BLOCK / 2; i++) to[4 + i] = (unsigned char)(best.q[i] | best.q[i + BLOCK / 2] << 4);
    return true;
}

static bool put_bf16(const float *from, void *to, size_t count)
{
    bool finite = true;
    for (size_t i = 0; i < count; i++) {
        const uint16_t half = lnt_float_to_bf16(from[i]);
        finite &= isfinite(lnt_bf16_to_float(half));
        memcpy((char *)to + i * sizeof half, &half, sizeof half);
    }
    return finite;
}

bool lnt_quantise(lnt_storage storage, const float *from, void *to, size_t count)
{
    unsigned char *at = to;
    const bool q8 = storage == LNT_STORAGE_Q8_0;
    assert(count % lnt_storage_numbers(storage) == 0);
    assert(q8 || storage == LNT_STORAGE_Q4_1 || storage == LNT_STORAGE_BF16 || storage == LNT_STORAGE_F32);
    if (!isfinite(largest(from, count))) return false;
    if (storage == LNT_STORAGE_BF16) return put_bf16(from, to, count);
    if (storage == LNT_STORAGE_F32) {
        memcpy(to, from, count * sizeof *from);
        return true;
    }
    bool fits = true;
    for (size_t i = 0; fits && i < count; i += BLOCK, at += lnt_storage_bytes(storage)) {
        if (q8) {
            fits = is_half(largest(from + i, BLOCK) / 127);
            if (fits) put_q8_0(from + i, at);
        } else {
            fits = put_q4_1(from + i, at);
        }
    }
    return fits;
}
