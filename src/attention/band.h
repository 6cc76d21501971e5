/* attention/band.h - which keys a query sees by where it stands: those of a band about its position.
 *
 * Query i stands at key i + offset and sees the keys from `behind` before that to `ahead` after it. */
#ifndef LNT_ATTENTION_BAND_H
#define LNT_ATTENTION_BAND_H

#include "attention/algorithm.h"

typedef struct lnt_band {
    int64_t offset, behind, ahead;
} lnt_band;

/* Of a side without an end; sums of a few positions with it still fit 64 bits. */
#define LNT_BAND_ALL (INT64_C(1) << 60)

/* Of nq queries and nk keys. */
static inline lnt_band lnt_band_of(const lnt_attn_desc *p, bool causal, int64_t nq, int64_t nk)
{
    const int64_t window = p->mechanism == LNT_SOFTMAX ? p->softmax.window : 0;
    const bool begin = p->mechanism == LNT_SOFTMAX && p->softmax.align_begin;
    return (lnt_band){ .offset = begin ? 0 : nk - nq,
                       .behind = window ? window - 1 : LNT_BAND_ALL,
                       .ahead = causal ? 0 : window ? window - 1 : LNT_BAND_ALL };
}

/* The first key that query i sees of nk, and the one behind its last; no key: the second is not above the
 * first. */
static inline int64_t lnt_band_first(lnt_band band, int64_t i)
{
    const int64_t first = i + band.offset - band.behind;
    return first > 0 ? first : 0;
}

static inline int64_t lnt_band_end(lnt_band band, int64_t i, int64_t nk)
{
    const int64_t end = i + band.offset + band.ahead + 1;
    return end < nk ? end : nk;
}

/* How many those are. */
static inline int64_t lnt_band_keys(lnt_band band, int64_t i, int64_t nk)
{
    const int64_t count = lnt_band_end(band, i, nk) - lnt_band_first(band, i);
    return count > 0 ? count : 0;
}

#endif
