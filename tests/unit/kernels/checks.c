/* checks.c - see checks.h; and the table of checks, from the list of kernels: a kernel without a
 * check does not link. */
#include "checks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "run.h"

#ifdef LNT_DOUBLE
static const char real_name[] = "f64";
#else
static const char real_name[] = "f32";
#endif

static const struct {
    const char *kernel;
    void (*check)(trial *t);
} checks[] = {
#define K(name, result, arguments) { #name, CHECK(name) },
#include "cpu/kernels.def"
#undef K
};

void LNT_REAL_NAME(run_check)(int kernel, int isa)
{
    trial t = { .ker = LNT_REAL_NAME(lnt_kernels_get)(isa),
                .kernel = checks[kernel].kernel,
                .isa = lnt_isa_name(isa),
                .dice = { (uint64_t)kernel } };
    checks[kernel].check(&t);
}

void trial_sizes(trial *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(t->sizes, sizeof t->sizes, format, arguments);
    va_end(arguments);
}

void trial_fail(const trial *t, const char *format, ...)
{
    char sentence[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    print_error("%s, %s, %s, %s: %s\n", t->kernel, t->isa, real_name, t->sizes, sentence);
    fail();
    abort(); /* fail does not come back, and does not say so */
}

/* ---- matrices ------------------------------------------------------------------------------ */

static grid grid_new(trial *t, size_t rows, size_t cols, size_t ld, size_t behind)
{
    grid g = { .rows = rows, .cols = cols, .ld = ld };
    const size_t front = (size_t)dice_range(&t->dice, 8, 24);
    g.count = front + (rows && cols ? (rows - 1) * ld + cols : 0) + behind;
    g.memory = malloc(g.count * sizeof(real));
    g.before = malloc(g.count * sizeof(real));
    assert_true(g.memory && g.before && ld >= cols && ld > 0);
    g.at = g.memory + front;
    memset(g.memory, 0xFF, g.count * sizeof(real));
    grid_keep(&g);
    return g;
}

static void grid_fill(trial *t, grid *g)
{
    for (size_t i = 0; i < g->rows; i++)
        for (size_t j = 0; j < g->cols; j++) g->at[i * g->ld + j] = (real)dice_normal(&t->dice);
    grid_keep(g);
}

grid grid_input(trial *t, size_t rows, size_t cols, size_t ld)
{
    grid g = grid_new(t, rows, cols, ld, 0);
    grid_fill(t, &g);
    return g;
}

static bool inside(const grid *g, size_t i, size_t rows, size_t cols)
{
    const size_t front = (size_t)(g->at - g->memory);
    return i >= front && (i - front) / g->ld < rows && (i - front) % g->ld < cols;
}

grid grid_output(trial *t, size_t rows, size_t cols, size_t ld)
{
    grid g = grid_new(t, rows, cols, ld, 2 * ld + 32); /* two rows more, and two vectors */
    for (size_t i = 0; i < g.count; i++)
        if (!inside(&g, i, rows, cols)) g.memory[i] = (real)-12.625;
    grid_keep(&g);
    return g;
}

grid grid_inout(trial *t, size_t rows, size_t cols, size_t ld)
{
    grid g = grid_output(t, rows, cols, ld);
    grid_fill(t, &g);
    return g;
}

void grid_keep(grid *g) { memcpy(g->before, g->memory, g->count * sizeof(real)); }

void grid_free(grid *g)
{
    free(g->memory);
    free(g->before);
}

uint16_t *grid_bf16(grid *g)
{
    const size_t count = g->count - (size_t)(g->at - g->memory);
    uint16_t *same = malloc(count ? count * sizeof *same : 1);
    assert_non_null(same);
    for (size_t i = 0; i < count; i++) {
        same[i] = lnt_float_to_bf16((float)g->at[i]);
        g->at[i] = (real)lnt_bf16_to_float(same[i]);
    }
    grid_keep(g);
    return same;
}

/* ---- expectations -------------------------------------------------------------------------- */

void expect_untouched(const trial *t, const char *what, const grid *g, size_t rows, size_t cols)
{
    for (size_t i = 0; i < g->count; i++)
        if (!inside(g, i, rows, cols) && memcmp(g->memory + i, g->before + i, sizeof(real)) != 0)
            trial_fail(t, "%s[%td] (leading dimension %zu) was %g and is %g, outside the output",
                       what, (g->memory + i) - g->at, g->ld, (double)g->before[i],
                       (double)g->memory[i]);
}

void expect_near(const trial *t, const char *what, size_t i, size_t j, double got, double want,
                 double bound)
{
    if (!(fabs(got - want) <= bound))
        trial_fail(t, "%s[%zu,%zu] is %.17g, not %.17g: off by %.3g, allowed %.3g", what, i, j, got,
                   want, fabs(got - want), bound);
}

void expect_bits(const trial *t, const char *what, size_t i, size_t j, double got, double want)
{
    if (isnan(got) && isnan(want)) return;
    if (got != want || signbit(got) != signbit(want))
        trial_fail(t, "%s[%zu,%zu] is %.17g, not %.17g", what, i, j, got, want);
}

#ifdef LNT_DOUBLE
enum { DIGITS = DBL_MANT_DIG, LOWEST_EXPONENT = DBL_MIN_EXP, HIGHEST_EXPONENT = DBL_MAX_EXP };
#else
enum { DIGITS = FLT_MANT_DIG, LOWEST_EXPONENT = FLT_MIN_EXP, HIGHEST_EXPONENT = FLT_MAX_EXP };
#endif

void expect_exp(const trial *t, const char *what, size_t i, size_t j, real got, real x)
{
    const long double want = expl((long double)x);
    int exponent; /* want = [0.5, 1) 2^exponent */
    frexpl(want, &exponent);
    if (exponent < LOWEST_EXPONENT) exponent = LOWEST_EXPONENT; /* subnormal */
    bool right;
    if (isnan(x)) right = isnan(got);
    else if (want >= ldexpl(1, HIGHEST_EXPONENT)) right = isinf(got) && got > 0;
    else if (got == 0 && !signbit(got)) right = want < ldexpl(1, LOWEST_EXPONENT);
    else right = fabsl(got - want) <= ldexpl(2, exponent - DIGITS);
    if (!right)
        trial_fail(t, "%s[%zu,%zu] is %a, not %La = e^%a", what, i, j, (double)got, want,
                   (double)x);
}

double sum_bound(size_t terms, double magnitude)
{
    return REAL_EPSILON * (4 + 4 * sqrt((double)terms)) * magnitude;
}
