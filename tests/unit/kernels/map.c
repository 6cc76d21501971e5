/* map.c - checks of map_exp, map_elu1 and elu1_back over the whole range of the real type. */
#include "checks.h"

#include <string.h>

#ifdef LNT_DOUBLE
typedef uint64_t word;
static const double bottom = -708.3964185322641, top = 709.782712893384; /* e^x normal, finite */
static const word quiet_nan = UINT64_C(0x7ff8000000000000), sign = UINT64_C(1) << 63;
#else
typedef uint32_t word;
static const double bottom = -87.33654475055310, top = 88.72283905206835;
static const word quiet_nan = 0x7fc00000, sign = UINT32_C(1) << 31;
#endif

static real from_bits(word bits)
{
    real x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Edge i of what a map may meet; false past the last. */
static bool edge(size_t i, real *x)
{
    const real plain[] = { 0, -(real)0.0, 1, -1, INFINITY, -INFINITY, REAL_MAX, -REAL_MAX };
    const double around[] = { bottom, bottom - 1, -87, -708, -88, -104, -746, -1000, -1e10, top,
                              top - 1, 89, 710, 1000, 1e10, 0, 0.34657359027997264 };
    enum { STEPS = 41 };
    if (i < (size_t)COUNT_OF(plain)) {
        *x = plain[i];
        return true;
    }
    i -= (size_t)COUNT_OF(plain);
    if (i < (size_t)COUNT_OF(around) * STEPS) { /* and its neighbours, 20 to either side */
        const int step = (int)(i % STEPS) - STEPS / 2;
        const double centre = around[i / STEPS];
        *x = (real)(centre + step * REAL_EPSILON * fmax(fabs(centre), 1));
        return true;
    }
    i -= (size_t)COUNT_OF(around) * STEPS;
    const word bit = i < 2 * (sizeof(word) * 8 - 1) && i >= 2 ? (word)1 << (i / 2 - 1) : 0;
    *x = from_bits(quiet_nan | bit | (i % 2 ? sign : 0)); /* NaN of every payload of one bit */
    return i < 2 * (sizeof(word) * 8 - 1);
}

static real anywhere(dice *d)
{
    switch (dice_range(d, 0, 3)) {
    case 0: return (real)(bottom + (top - bottom) * dice_uniform(d));
    case 1: return (real)dice_normal(d);
    case 2: return (real)ldexp(dice_normal(d), (int)dice_range(d, -140, 8)); /* down to tiny */
    default: return (real)(bottom * dice_uniform(d));
    }
}

/* Fills x, `first` counting the edges given so far; true while there are edges left. */
static bool fill(trial *t, grid *x, size_t *first)
{
    bool more = false;
    for (size_t j = 0; j < x->cols; j++)
        if (edge(*first, &x->at[j])) more = true, ++*first;
        else x->at[j] = anywhere(&t->dice);
    grid_keep(x);
    return more || x->cols == 0;
}

/* In place, and by turns into other memory. */
static void check_map(trial *t, void (*map)(real *, const real *, size_t),
                      void (*expect)(const trial *, size_t, real, real))
{
    size_t edges = 0;
    bool more = true;
    const size_t least = (size_t)budget(20, 600);
    for (size_t i = 0; more || i < least; i++) {
        const size_t padded = TAKE(vector_counts, i) * t->ker->lanes;
        const bool in_place = i % 2;
        grid x = (in_place ? grid_output : grid_input)(t, 1, padded, padded + 1);
        grid apart = grid_output(t, 1, padded, padded + 1), *y = in_place ? &x : &apart;
        more = fill(t, &x, &edges);
        trial_sizes(t, "padded %zu%s", padded, in_place ? " in place" : "");
        map(y->at, x.at, padded);
        for (size_t j = 0; j < padded; j++) expect(t, j, y->at[j], (real)was(&x, 0, j));
        expect_untouched(t, "y", y, 1, padded);
        if (!in_place) expect_untouched(t, "x", &x, 0, 0);
        grid_free(&x), grid_free(&apart);
    }
}

static void expect_plain_exp(const trial *t, size_t j, real got, real x)
{
    expect_exp(t, "y", 0, j, got, x);
}

static void expect_elu1(const trial *t, size_t j, real got, real x)
{
    if (x > 0) expect_bits(t, "y", 0, j, (double)got, (double)(real)(x + 1));
    else expect_exp(t, "y", 0, j, got, x);
}

void CHECK(map_exp)(trial *t) { check_map(t, t->ker->map_exp, expect_plain_exp); }
void CHECK(map_elu1)(trial *t) { check_map(t, t->ker->map_elu1, expect_elu1); }

void CHECK(elu1_back)(trial *t)
{
    size_t edges = 0;
    bool more = true;
    for (size_t i = 0; more || i < 33; i++) {
        const size_t padded = TAKE(vector_counts, i) * t->ker->lanes;
        grid phi = grid_input(t, 1, padded, padded + 1), d = grid_inout(t, 1, padded, padded + 1);
        more = fill(t, &phi, &edges);
        trial_sizes(t, "padded %zu", padded);
        t->ker->elu1_back(d.at, phi.at, padded);
        for (size_t j = 0; j < padded; j++) {
            const real slope = (real)was(&phi, 0, j) < 1 ? (real)was(&phi, 0, j) : 1;
            expect_bits(t, "d", 0, j, now(&d, 0, j), (double)((real)was(&d, 0, j) * slope));
        }
        expect_untouched(t, "phi", &phi, 0, 0);
        expect_untouched(t, "d", &d, 1, padded);
        grid_free(&phi), grid_free(&d);
    }
}
