/* random.c - checks of random_words, drop. */
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

void CHECK(drop)(trial *t)
{
    enum { MOST = 70 };
    for (size_t n = 0; n <= MOST; n++) {
        uint32_t words[MOST] = { 0 };
        const uint32_t below = n % 7 ? (uint32_t)dice_range(&t->dice, 0, UINT32_MAX) : 0;
        const real keep = (real)dice_normal(&t->dice);
        grid x = grid_inout(t, 1, n, n + 1);
        for (size_t i = 0; i < n; i++) /* beside the limit, and anywhere */
            words[i] = below + (uint32_t)(i % 2 ? (int64_t)(i % 3) - 1
                                                : dice_range(&t->dice, 0, UINT32_MAX));
        trial_sizes(t, "n %zu below %u keep %g", n, below, (double)keep);
        t->ker->drop(x.at, words, below, keep, n);
        for (size_t i = 0; i < n; i++) {
            const real kept = (real)was(&x, 0, i) * keep;
            expect_bits(t, "x", 0, i, now(&x, 0, i), words[i] < below ? 0 : (double)kept);
        }
        expect_untouched(t, "x", &x, 1, n);
        grid_free(&x);
    }
}
