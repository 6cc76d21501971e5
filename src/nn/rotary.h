/* nn/rotary.h - by which angles rotary positions turn: the frequency of each pair.
 *
 * The library and the tests compile it once, in double. */
#ifndef LNT_NN_ROTARY_H
#define LNT_NN_ROTARY_H

#include <stddef.h>
#include <stdint.h>

/* How a model that was trained on short texts is made to read longer ones. */
typedef enum lnt_rotary_scaling {
    LNT_ROTARY_NONE = 0,
    LNT_ROTARY_LINEAR = 1, /* all pairs turn slower */
    LNT_ROTARY_LLAMA3 = 2, /* those that turn less than low_freq_factor times over original_length do */
    LNT_ROTARY_YARN = 3    /* by beta_fast and beta_slow turns, and queries and keys grow */
} lnt_rotary_scaling;

enum { LNT_ROTARY_DIVISORS = 128 };

typedef struct lnt_rotary {
    double base;
    int64_t dims; /* of each head turn, the first; 0: all */
    int off;      /* nothing turns */
    int halves;   /* the pairs are (i, i + dims/2), else (2i, 2i + 1) */
    int scaling;
    double factor, low_freq_factor, high_freq_factor, beta_fast, beta_slow;
    int64_t original_length; /* of the texts before */
    double magnitude;        /* of what has turned; 0: 1, or what yarn makes of its factor */
    double divisors[LNT_ROTARY_DIVISORS]; /* of the frequencies, after all that; one a pair, or none */
    int64_t divisor_count;
} lnt_rotary;

/* Numbers of a head [dim] that turn. */
static inline size_t lnt_rotary_width(const lnt_rotary *r, size_t dim)
{
    return r->dims ? (size_t)r->dims : dim;
}

/* frequency [width/2]: pair i turns by so much a token. */
void lnt_rotary_frequencies(const lnt_rotary *r, size_t dim, double *frequency);
double lnt_rotary_magnitude(const lnt_rotary *r);

#endif
