/* random.c - the check of random_words. */
#include "checks.h"

#include "core/rng.h"

void CHECK(random_words)(trial *t)
{
    enum { MOST = 40, GUARD = 8 };
    static const uint64_t begins[] = { 0, 1, 1000003, UINT32_MAX - 2, UINT64_C(0x123456789abcdef0) };
    for (size_t groups = 0; groups <= MOST; groups++)
        for (int i = 0; i < COUNT_OF(begins); i++) {
            const lnt_rng rng = lnt_rng_split(lnt_rng_make(groups), (uint64_t)i);
            uint32_t got[4 * MOST + GUARD], want[4];
            for (int j = 0; j < COUNT_OF(got); j++) got[j] = 12345;
            trial_sizes(t, "first %llu groups %zu", (unsigned long long)begins[i], groups);
            t->ker->random_words(got, rng.key, rng.domain, begins[i], groups);
            for (size_t g = 0; g < groups; g++) {
                lnt_rng_words(rng, begins[i] + g, want);
                for (size_t j = 0; j < 4; j++)
                    expect_bits(t, "word", g, j, got[4 * g + j], want[j]);
            }
            for (size_t j = 4 * groups; j < 4 * groups + GUARD; j++)
                expect_bits(t, "guard", groups, j, got[j], 12345);
        }
}
