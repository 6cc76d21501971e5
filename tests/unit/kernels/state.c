/* state.c - checks of state_step and state_query: one token through s [d,m], z [d]. */
#include "checks.h"

typedef struct operands {
    grid s, z, q, k, v, out;
    size_t d, m;
} operands;

static operands operands_new(trial *t, size_t i)
{
    const size_t d = TAKE(any_sizes, i), m = TAKE(vector_counts, i) * t->ker->lanes;
    return (operands){ .d = d,
                       .m = m,
                       .s = grid_inout(t, d, m, leading(t, m)),
                       .z = grid_inout(t, 1, d, d + 1),
                       .q = grid_input(t, 1, d, d + 1),
                       .k = grid_input(t, 1, d, d + 1),
                       .v = grid_input(t, 1, m, m + 1),
                       .out = grid_output(t, 1, m, m + 1) };
}

static void operands_free(operands *x)
{
    grid_free(&x->s), grid_free(&x->z), grid_free(&x->q);
    grid_free(&x->k), grid_free(&x->v), grid_free(&x->out);
}

/* out = q^T s and q.z, of the s and z that are there now. */
static void expect_reading(const trial *t, const operands *x, double den)
{
    double sum = 0, magnitude = 0;
    for (size_t i = 0; i < x->d; i++) {
        sum += was(&x->q, 0, i) * now(&x->z, 0, i);
        magnitude += fabs(was(&x->q, 0, i) * now(&x->z, 0, i));
    }
    expect_near(t, "q.z", 0, 0, den, sum, sum_bound(x->d, magnitude));
    for (size_t j = 0; j < x->m; j++) {
        sum = magnitude = 0;
        for (size_t i = 0; i < x->d; i++) {
            sum += was(&x->q, 0, i) * now(&x->s, i, j);
            magnitude += fabs(was(&x->q, 0, i) * now(&x->s, i, j));
        }
        expect_near(t, "out", 0, j, now(&x->out, 0, j), sum, sum_bound(x->d, magnitude));
    }
    expect_untouched(t, "out", &x->out, 1, x->m);
    expect_untouched(t, "q", &x->q, 0, 0);
    expect_untouched(t, "k", &x->k, 0, 0);
    expect_untouched(t, "v", &x->v, 0, 0);
}

/* y = decay x + term, rounded twice at most. */
static void expect_update(const trial *t, const char *what, size_t i, size_t j, double got,
                          double decayed, double term)
{
    expect_near(t, what, i, j, got, decayed + term, REAL_EPSILON * (fabs(decayed) + fabs(term)));
}

void CHECK(state_step)(trial *t)
{
    static const real decays[] = { 1, (real)0.9, (real)0.5, 1, 0 };
    const size_t count = (size_t)budget(COUNT_OF(any_sizes), 2 * 11 * 17);
    for (size_t i = 0; i < count; i++) {
        operands x = operands_new(t, i);
        const real decay = TAKE(decays, i);
        trial_sizes(t, "d %zu m %zu ld %zu decay %g", x.d, x.m, x.s.ld, (double)decay);
        const real den = t->ker->state_step(x.s.at, x.s.ld, x.z.at, x.q.at, x.k.at, x.v.at,
                                            x.out.at, x.d, x.m, decay);
        for (size_t r = 0; r < x.d; r++) {
            const double k = was(&x.k, 0, r);
            expect_update(t, "z", 0, r, now(&x.z, 0, r), (double)decay * was(&x.z, 0, r), k);
            for (size_t j = 0; j < x.m; j++)
                expect_update(t, "s", r, j, now(&x.s, r, j), (double)decay * was(&x.s, r, j),
                              k * was(&x.v, 0, j));
        }
        expect_untouched(t, "s", &x.s, x.d, x.m);
        expect_untouched(t, "z", &x.z, 1, x.d);
        expect_reading(t, &x, (double)den);
        operands_free(&x);
    }
}

void CHECK(state_query)(trial *t)
{
    const size_t count = (size_t)budget(COUNT_OF(any_sizes), 11 * 17);
    for (size_t i = 0; i < count; i++) {
        operands x = operands_new(t, i);
        trial_sizes(t, "d %zu m %zu ld %zu", x.d, x.m, x.s.ld);
        const real den =
            t->ker->state_query(x.s.at, x.s.ld, x.z.at, x.q.at, x.out.at, x.d, x.m);
        expect_untouched(t, "s", &x.s, 0, 0);
        expect_untouched(t, "z", &x.z, 0, 0);
        expect_reading(t, &x, (double)den);
        operands_free(&x);
    }
}
