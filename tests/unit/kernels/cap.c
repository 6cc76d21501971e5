/* cap.c - checks of soft_cap and soft_cap_back: where scores are small, where they are capped, and beyond. */
#include "checks.h"

/* From nothing to far beyond the cap, on both sides of where the polynomial ends, and what is no number. */
static real score(trial *t, real c)
{
    static const double edges[] = { 0, -0.0, 0.5, -0.5, 0.4999999, 0.5000001, 30, -30, 1e30, -1e30, INFINITY,
                                    -INFINITY };
    const int64_t kind = dice_range(&t->dice, 0, 4);
    if (kind == 0) return (real)((double)c * DICE_PICK(&t->dice, edges));
    if (kind == 1) return c * (real)ldexp(dice_normal(&t->dice), (int)dice_range(&t->dice, -60, 0));
    return c * (real)((double)kind * dice_normal(&t->dice));
}

void CHECK(soft_cap)(trial *t)
{
    for (size_t i = 0; i < 400; i++) {
        const size_t padded = TAKE(vector_counts, i) * t->ker->lanes;
        const real c = (real)ldexp(1 + dice_uniform(&t->dice), (int)dice_range(&t->dice, -10, 10));
        grid x = grid_inout(t, 1, padded, padded + 1);
        for (size_t j = 0; j < padded; j++) x.at[j] = score(t, c);
        grid_keep(&x);
        trial_sizes(t, "padded %zu cap %g", padded, (double)c);
        t->ker->soft_cap(x.at, c, padded);
        for (size_t j = 0; j < padded; j++) {
            const double want = (double)c * tanh(was(&x, 0, j) / (double)c);
            expect_near(t, "x", 0, j, now(&x, 0, j), want, 3 * REAL_EPSILON * fabs(want));
        }
        expect_untouched(t, "x", &x, 1, padded);
        grid_free(&x);
    }
}

void CHECK(soft_cap_back)(trial *t)
{
    for (size_t i = 0; i < 60; i++) {
        const size_t padded = TAKE(vector_counts, i) * t->ker->lanes;
        const real c = (real)ldexp(1 + dice_uniform(&t->dice), (int)dice_range(&t->dice, -10, 10));
        grid y = grid_input(t, 1, padded, padded + 1), d = grid_inout(t, 1, padded, padded + 1);
        for (size_t j = 0; j < padded; j++) y.at[j] = c * (real)tanh(dice_normal(&t->dice));
        grid_keep(&y);
        trial_sizes(t, "padded %zu cap %g", padded, (double)c);
        t->ker->soft_cap_back(d.at, y.at, c, padded);
        for (size_t j = 0; j < padded; j++) {
            const double u = was(&y, 0, j) / (double)c, x = was(&d, 0, j);
            expect_near(t, "d", 0, j, now(&d, 0, j), x * (1 - u * u), 3 * REAL_EPSILON * fabs(x));
        }
        expect_untouched(t, "y", &y, 0, 0);
        expect_untouched(t, "d", &d, 1, padded);
        grid_free(&y), grid_free(&d);
    }
}
