/* core/rng.h - a splittable counter-based generator: number i of stream s depends on (s, i) alone.
 *
 * Philox-4x32-10 (Salmon et al. 2011): any element in any order, on any thread, the same bits. */
#ifndef LNT_CORE_RNG_H
#define LNT_CORE_RNG_H

#include <stdint.h>

#include "core/private.h"

typedef struct lnt_rng {
    uint64_t key;    /* the stream */
    uint64_t domain; /* high half of the counter: which sub-stream */
} lnt_rng;

LNT_PRIVATE_API lnt_rng lnt_rng_make(uint64_t seed);
/* An independent stream; the parent stays usable. */
LNT_PRIVATE_API lnt_rng lnt_rng_split(lnt_rng parent, uint64_t index);

LNT_PRIVATE_API void lnt_rng_words(lnt_rng rng, uint64_t index, uint32_t out[4]);
/* Uniform in [0, 1) with 53 bits; normal with mean 0 and deviation 1. */
LNT_PRIVATE_API double lnt_rng_uniform(lnt_rng rng, uint64_t index);
LNT_PRIVATE_API double lnt_rng_normal(lnt_rng rng, uint64_t index);

#endif
