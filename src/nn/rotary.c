/* nn/rotary.c - the frequencies of rotary positions: f = base^(-2i/width) of pair i, and, by a factor s,
 *
 *     linear   f / s
 *     llama3   f where 2 pi/f < length/high, f / s where 2 pi/f > length/low, and a mean of both between
 *     yarn     a mean of f and f / s that goes from f, where a pair turns beta_fast times in `length` tokens,
 *              to f / s, where it turns beta_slow times; what has turned is multiplied by 1 + ln(s)/10
 *
 * where length is that of the texts the model was first trained on. */
#include "nn/rotary.h"

#include <math.h>

static const double TURN = 6.283185307179586;

/* Of f, against f / factor. */
static double llama3_share(const lnt_rotary *r, double f)
{
    const double turns = (double)r->original_length * f / TURN;
    const double share = (turns - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    return fmin(fmax(share, 0), 1);
}

/* The pair, not a whole one, that turns so many times. */
static double pair_of(const lnt_rotary *r, double turns, double width)
{
    return width * log((double)r->original_length / (turns * TURN)) / (2 * log(r->base));
}

static double yarn_share(const lnt_rotary *r, size_t i, double width)
{
    const double first = fmax(floor(pair_of(r, r->beta_fast, width)), 0);
    const double last = fmin(ceil(pair_of(r, r->beta_slow, width)), width - 1);
    const double ramp = ((double)i - first) / (first == last ? 0.001 : last - first);
    return 1 - fmin(fmax(ramp, 0), 1);
}

void lnt_rotary_frequencies(const lnt_rotary *r, size_t dim, double *frequency)
{
    const size_t width = lnt_rotary_width(r, dim);
    for (size_t i = 0; i < width / 2; i++) {
        double f = pow(r->base, -2 * (double)i / (double)width), share = 1;
        if (r->scaling == LNT_ROTARY_LINEAR) share = 0;
        if (r->scaling == LNT_ROTARY_LLAMA3) share = llama3_share(r, f);
        if (r->scaling == LNT_ROTARY_YARN) share = yarn_share(r, i, (double)width);
        if (share < 1) f = share * f + (1 - share) * f / r->factor;
        frequency[i] = r->divisor_count ? f / r->divisors[i] : f;
    }
}

double lnt_rotary_magnitude(const lnt_rotary *r)
{
    if (r->magnitude > 0) return r->magnitude;
    return r->scaling == LNT_ROTARY_YARN && r->factor > 1 ? 0.1 * log(r->factor) + 1 : 1;
}
