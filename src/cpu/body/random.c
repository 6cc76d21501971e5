/* cpu/body/random.c - what dropout drops, and that done.
 *
 * Words are those of Philox-4x32-10 (core/rng.c), as many groups of four at once as go into a vector.
 *
 * A word stands in the lower half of 64 bits.  What comes into the upper half does no harm: products read the
 * lower halves alone, and so does the end. */
#include <string.h>

#include "cpu/body/vec.h"

#if LNT_VEC_BYTES
enum { TOGETHER = LNT_VEC_BYTES / (int)sizeof(uint64_t) };
typedef uint64_t wide_words __attribute__((vector_size(LNT_VEC_BYTES)));
#else
enum { TOGETHER = 1 };
typedef uint64_t wide_words;
#endif

/* The whole products of the lower halves with a number. */
#if LNT_VEC_BYTES == 64
INLINE wide_words product(wide_words x, uint32_t by)
{
    return (wide_words)_mm512_mul_epu32((__m512i)x, _mm512_set1_epi64(by));
}
#elif LNT_VEC_BYTES == 32
INLINE wide_words product(wide_words x, uint32_t by)
{
    return (wide_words)_mm256_mul_epu32((__m256i)x, _mm256_set1_epi64x(by));
}
#elif LNT_VEC_BYTES == 16
INLINE wide_words product(wide_words x, uint32_t by)
{
    return (wide_words)vmull_n_u32(vmovn_u64((uint64x2_t)x), by);
}
#else
INLINE wide_words product(wide_words x, uint32_t by) { return (uint64_t)(uint32_t)x * by; }
#endif

/* out[4 TOGETHER]: the four words of a group, then those of the next. */
INLINE void store_groups(uint32_t *out, const wide_words c[4])
{
    const wide_words lower = (wide_words){ 0 } + UINT32_MAX;
    const wide_words pair[2] = { (c[0] & lower) | c[1] << 32, (c[2] & lower) | c[3] << 32 };
#if LNT_VEC_BYTES == 64
    const wide_words turned[2] = {
        SHUFFLE(pair[0], pair[1], 0, 8, 1, 9, 2, 10, 3, 11),
        SHUFFLE(pair[0], pair[1], 4, 12, 5, 13, 6, 14, 7, 15),
    };
#elif LNT_VEC_BYTES == 32
    const wide_words turned[2] = { SHUFFLE(pair[0], pair[1], 0, 4, 1, 5),
                                   SHUFFLE(pair[0], pair[1], 2, 6, 3, 7) };
#elif LNT_VEC_BYTES == 16
    const wide_words turned[2] = { SHUFFLE(pair[0], pair[1], 0, 2), SHUFFLE(pair[0], pair[1], 1, 3) };
#else
    const wide_words turned[2] = { pair[0], pair[1] };
#endif
    memcpy(out, turned, sizeof turned);
}

INLINE void make_groups(uint32_t *out, uint64_t key, uint64_t domain, uint64_t first)
{
    static const uint64_t from_0_on[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    uint64_t k0 = (uint32_t)key, k1 = key >> 32;
    wide_words c[4];
    memcpy(&c[0], from_0_on, sizeof c[0]);
    c[0] += first;
    c[1] = c[0] >> 32;
    c[2] = (wide_words){ 0 } + domain;
    c[3] = c[2] >> 32;
    for (int round = 0; round < 10; round++) {
        const wide_words p0 = product(c[0], 0xD2511F53u), p1 = product(c[2], 0xCD9E8D57u);
        c[0] = p1 >> 32 ^ c[1] ^ k0;
        c[2] = p0 >> 32 ^ c[3] ^ k1;
        c[1] = p1;
        c[3] = p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    store_groups(out, c);
}

void KERNEL(random_words)(uint32_t *out, uint64_t key, uint64_t domain, uint64_t first, size_t groups)
{
    size_t g = 0;
    for (; g + TOGETHER <= groups; g += TOGETHER) make_groups(out + 4 * g, key, domain, first + g);
    if (g == groups) return;
    uint32_t own[4 * TOGETHER];
    make_groups(own, key, domain, first + g);
    memcpy(out + 4 * g, own, 4 * (groups - g) * sizeof *out);
}

void KERNEL(drop)(real *x, const uint32_t *words, uint32_t below, real keep, size_t n)
{
    size_t i = 0;
#if LNT_VEC_BYTES
    typedef uint32_t chances __attribute__((vector_size(LANES * sizeof(uint32_t))));
    for (; i + LANES <= n; i += LANES) {
        chances chance;
        memcpy(&chance, words + i, sizeof chance);
        const ivec dropped = __builtin_convertvector(chance, wvec) < (lane_word)below;
        vstore(x + i, vselect(dropped, vsplat(0), vload(x + i) * keep));
    }
#endif
    for (; i < n; i++) x[i] = words[i] < below ? 0 : x[i] * keep;
}
