/* core/rng.c - Philox-4x32-10, and uniform and normal numbers from it. */
#include "core/rng.h"

#include <math.h>

void lnt_rng_words(lnt_rng rng, uint64_t index, uint32_t out[4])
{
    uint32_t c[4] = { (uint32_t)index, (uint32_t)(index >> 32), (uint32_t)rng.domain,
                      (uint32_t)(rng.domain >> 32) };
    uint32_t k0 = (uint32_t)rng.key, k1 = (uint32_t)(rng.key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
        const uint32_t next[4] = { (uint32_t)(p1 >> 32) ^ c[1] ^ k0, (uint32_t)p1,
                                   (uint32_t)(p0 >> 32) ^ c[3] ^ k1, (uint32_t)p0 };
        for (int i = 0; i < 4; i++) c[i] = next[i];
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++) out[i] = c[i];
}

lnt_rng lnt_rng_make(uint64_t seed) { return (lnt_rng){ .key = seed, .domain = 0 }; }

lnt_rng lnt_rng_split(lnt_rng parent, uint64_t index)
{
    /* A block from a domain no drawing uses (the top bit) becomes the child's key and domain. */
    uint32_t w[4];
    lnt_rng_words((lnt_rng){ parent.key, parent.domain | (UINT64_C(1) << 63) }, index, w);
    const uint64_t domain = ((uint64_t)w[3] << 32 | w[2]) & ~(UINT64_C(1) << 63);
    return (lnt_rng){ .key = (uint64_t)w[1] << 32 | w[0], .domain = domain };
}

static double to_unit(uint32_t high, uint32_t low)
{
    return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}

double lnt_rng_uniform(lnt_rng rng, uint64_t index)
{
    uint32_t w[4];
    lnt_rng_words(rng, index, w);
    return to_unit(w[0], w[1]);
}

double lnt_rng_normal(lnt_rng rng, uint64_t index)
{
    uint32_t w[4];
    lnt_rng_words(rng, index, w);
    const double u = 1.0 - to_unit(w[0], w[1]); /* (0, 1]: the logarithm is finite */
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * to_unit(w[2], w[3]));
}
