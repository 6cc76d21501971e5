/* test_losses.c - losses in double: their definitions, gradients against differences; optimisers
 * and schedules against their formulas. */
#define LNT_DOUBLE 1

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gradient.h"
#include "nn/cross_entropy.h"
#include "nn/ctc.h"
#include "nn/logistics.h"
#include "nn/optimiser.h"
#include "support.h"
#include "task/recipe.h"

static const double TOLERANCE = 1e-8;

typedef struct setup {
    lnt_ctx *ctx;
    double *x, *dx, *loss, *scratch;
    int32_t *target;
    size_t n, classes, labels;
} setup;

static setup setup_new(size_t n, size_t classes, double sigma)
{
    dice d = { 21 };
    setup s = { .ctx = context_new(2, NULL), .n = n, .classes = classes };
    s.x = random_doubles(&d, n * classes, sigma);
    s.dx = zero_doubles(n * classes);
    s.loss = zero_doubles(n);
    s.target = calloc(n, sizeof *s.target);
    assert_non_null(s.target);
    for (size_t i = 0; i < n; i++) s.target[i] = (int32_t)dice_range(&d, 0, (int64_t)classes - 1);
    return s;
}

static void setup_close(setup *s)
{
    free(s->x);
    free(s->dx);
    free(s->loss);
    free(s->scratch);
    free(s->target);
    lnt_ctx_destroy(s->ctx);
}

static double weighted(const setup *s, double weight)
{
    double sum = 0;
    for (size_t i = 0; i < s->n; i++) sum += s->loss[i];
    return weight * sum;
}

static double loss_cross_entropy(void *user)
{
    setup *s = user;
    lnt_cross_entropy(s->ctx, s->x, s->target, s->loss, NULL, NULL, 1, s->n, s->classes);
    return weighted(s, 0.5);
}

static void cross_entropy_is_its_formula_with_the_right_gradient(void **state)
{
    (void)state;
    setup s = setup_new(7, 300, 3);
    unsigned char hit[7];
    s.target[2] = -1;
    lnt_cross_entropy(s.ctx, s.x, s.target, s.loss, hit, s.dx, 0.5, s.n, s.classes);
    for (size_t i = 0; i < s.n; i++) {
        double sum = 0, best = -INFINITY;
        for (size_t c = 0; c < s.classes; c++) {
            sum += exp(s.x[i * s.classes + c]);
            best = fmax(best, s.x[i * s.classes + c]);
        }
        if (s.target[i] < 0) {
            assert_true(s.loss[i] == 0 && !hit[i]);
            for (size_t c = 0; c < s.classes; c++) assert_true(s.dx[i * s.classes + c] == 0);
            continue;
        }
        const double at = s.x[i * s.classes + (size_t)s.target[i]];
        assert_true(fabs(s.loss[i] - (log(sum) - at)) < 1e-12);
        assert_int_equal(hit[i], at == best);
    }
    const slope x = { "logits", s.x, s.dx, s.n * s.classes };
    check_slopes("cross-entropy", loss_cross_entropy, &s, &x, 1, TOLERANCE);
    setup_close(&s);
}

static void a_hit_is_the_first_of_the_largest(void **state)
{
    (void)state;
    enum { MOST = 40 };
    lnt_ctx *ctx = context_new(1, NULL);
    double x[MOST], loss;
    unsigned char hit;
    for (int32_t classes = 1; classes <= MOST; classes++)
        for (int32_t best = 0; best < classes; best++)
            for (int32_t target = 0; target < classes; target++) {
                const double later = target % 2 ? MOST : -1; /* as large, or not */
                for (int32_t c = 0; c < classes; c++) x[c] = c < best ? c : c % 3 ? later : -c;
                x[best] = MOST;
                lnt_cross_entropy(ctx, x, &target, &loss, &hit, x, 1, 1, (size_t)classes);
                assert_int_equal(hit, target == best);
            }
    lnt_ctx_destroy(ctx);
}

static void cross_entropy_survives_large_logits(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    double x[] = { 1e4, -1e4, 0 }, loss;
    const int32_t target = 1;
    lnt_cross_entropy(ctx, x, &target, &loss, NULL, x, 1, 1, 3);
    assert_true(fabs(loss - 2e4) < 1e-6 && x[0] == 1 && x[1] == -1);
    double equal[] = { 3e38, 3e38, -3e38 };
    lnt_cross_entropy(ctx, equal, &target, &loss, NULL, NULL, 1, 1, 3);
    assert_true(fabs(loss - log(2)) < 1e-12);
    lnt_ctx_destroy(ctx);
}

static double loss_logistics(void *user)
{
    setup *s = user;
    lnt_logistics_loss(s->ctx, s->x, s->target, s->loss, NULL, 1, s->n);
    return weighted(s, 2);
}

static void a_mixture_of_logistics_sums_to_1_and_has_the_right_gradient(void **state)
{
    (void)state;
    setup s = setup_new(6, LNT_LOGISTICS_WIDTH, 1);
    const int32_t pixels[] = { 0, 255, 1, 128, 254, 77 };
    memcpy(s.target, pixels, sizeof pixels);
    for (size_t i = 0; i < s.n; i++) { /* narrow ones too, far from the pixel, and at it the narrowest */
        s.x[i * LNT_LOGISTICS_WIDTH + 20] -= 4;
        s.x[i * LNT_LOGISTICS_WIDTH + 11] = pixels[i] * 2.0 / 255 - 1;
        s.x[i * LNT_LOGISTICS_WIDTH + 21] = -8;
        double p[256], sum = 0;
        lnt_logistics_probability(s.x + i * LNT_LOGISTICS_WIDTH, p);
        for (int v = 0; v < 256; v++) sum += p[v];
        assert_true(fabs(sum - 1) < 1e-10);
    }
    lnt_logistics_loss(s.ctx, s.x, s.target, s.loss, s.dx, 2, s.n);
    const slope x = { "parameters", s.x, s.dx, s.n * LNT_LOGISTICS_WIDTH };
    check_slopes("logistics", loss_logistics, &s, &x, 1, 1e-6);
    setup_close(&s);
}

static void probabilities_of_all_values_are_those_of_the_loss(void **state)
{
    (void)state;
    enum { CASES = 8 };
    lnt_ctx *ctx = context_new(1, NULL);
    setup s = setup_new(CASES, LNT_LOGISTICS_WIDTH, 1);
    for (size_t i = 0; i < CASES; i++) { /* all narrow, all wide, all to one side, beyond both ends */
        double *x = s.x + i * LNT_LOGISTICS_WIDTH, p[256];
        for (int k = 0; k < 10; k++) {
            if (i == 1) x[20 + k] = -9;
            if (i == 2) x[20 + k] = 5;
            if (i == 3 || i == 4) x[10 + k] = i == 3 ? -3 : 3;
            if (i == 5) x[10 + k] = 1.0 / 255 - 1; /* an edge at 0 */
            if (i >= 6) x[20 + k] -= 4;
        }
        lnt_logistics_probability(x, p);
        for (int32_t v = 0; v < 256; v++) {
            double loss;
            lnt_logistics_loss(ctx, x, &v, &loss, NULL, 1, 1);
            const double off = fabs(p[v] - exp(-loss));
            if (!(off <= 1e-10 * exp(-loss))) fail_msg("case %zu: p(%d) is off by %g", i, v, off);
        }
    }
    setup_close(&s);
    lnt_ctx_destroy(ctx);
}

static double loss_ctc(void *user)
{
    setup *s = user;
    return 3 * lnt_ctc_loss(s->x, s->target, NULL, 1, s->n, s->classes, s->labels, s->scratch);
}

/* The probability of the labels by trying every path. */
static double by_paths(const setup *s)
{
    double total = 0;
    int paths = 1;
    for (size_t t = 0; t < s->n; t++) paths *= (int)s->classes;
    for (int path = 0; path < paths; path++) {
        double p = 1, x[64] = { 0 };
        int32_t read[8];
        int rest = path;
        for (size_t t = 0; t < s->n; t++, rest /= (int)s->classes) {
            const size_t c = (size_t)(rest % (int)s->classes);
            double sum = 0;
            for (size_t i = 0; i < s->classes; i++) sum += exp(s->x[t * s->classes + i]);
            p *= exp(s->x[t * s->classes + c]) / sum;
            x[t * s->classes + c] = 1;
        }
        const size_t count = lnt_ctc_decode(x, read, s->n, s->classes);
        if (count == s->labels && !memcmp(read, s->target, count * sizeof *read)) total += p;
    }
    return total;
}

static void ctc_sums_over_all_paths_and_has_the_right_gradient(void **state)
{
    (void)state;
    static const int32_t labels[][3] = { { 1, 2, 1 }, { 2, 2, 0 }, { 1, 0, 0 } };
    static const size_t counts[] = { 3, 2, 1, 0 };
    for (int k = 0; k < 4; k++) {
        setup s = setup_new(5, 3, 1);
        s.labels = counts[k];
        if (s.labels) memcpy(s.target, labels[k], s.labels * sizeof *s.target);
        s.scratch = zero_doubles(lnt_ctc_scratch(s.n, s.classes, s.labels));
        const double loss =
            lnt_ctc_loss(s.x, s.target, s.dx, 3, s.n, s.classes, s.labels, s.scratch);
        assert_true(fabs(loss + log(by_paths(&s))) < 1e-12);
        const slope x = { "scores", s.x, s.dx, s.n * s.classes };
        check_slopes("ctc", loss_ctc, &s, &x, 1, TOLERANCE);
        setup_close(&s);
    }
}

static void ctc_of_too_few_frames_is_infinite_and_teaches_nothing(void **state)
{
    (void)state;
    setup s = setup_new(2, 3, 1);
    const int32_t labels[] = { 1, 1 }; /* needs a blank between */
    s.scratch = zero_doubles(lnt_ctc_scratch(2, 3, 2));
    assert_true(isinf(lnt_ctc_loss(s.x, labels, s.dx, 1, 2, 3, 2, s.scratch)));
    for (int i = 0; i < 6; i++) assert_true(s.dx[i] == 0);
    setup_close(&s);
}

/* AdamW, RAdam and LAMB in the plainest way. */
typedef struct plain {
    double w[3], m[3], v[3];
} plain;

static void plain_step(plain *p, const lnt_update *u, const double *g)
{
    const double t = (double)u->step, b1 = u->beta1, b2 = u->beta2;
    const double rho_most = 2 / (1 - b2) - 1;
    const double rho = rho_most - 2 * t * pow(b2, t) / (1 - pow(b2, t));
    double direction[3], length = 0, weights = 0;
    for (int i = 0; i < 3; i++) {
        const double grad = g[i] * u->factor;
        p->m[i] = b1 * p->m[i] + (1 - b1) * grad;
        p->v[i] = b2 * p->v[i] + (1 - b2) * grad * grad;
        const double mean = p->m[i] / (1 - pow(b1, t)), square = p->v[i] / (1 - pow(b2, t));
        direction[i] = mean / (sqrt(square) + u->eps);
        if (u->kind == LNT_RADAM && rho <= 5) direction[i] = mean;
        if (u->kind == LNT_RADAM && rho > 5) {
            const double r = sqrt((rho - 4) * (rho - 2) * rho_most /
                                  ((rho_most - 4) * (rho_most - 2) * rho));
            direction[i] = r * mean / (sqrt(square) + u->eps);
        }
        direction[i] += u->decay * p->w[i];
        length += direction[i] * direction[i];
        weights += p->w[i] * p->w[i];
    }
    const double trust = u->kind == LNT_LAMB ? sqrt(weights / length) : 1;
    for (int i = 0; i < 3; i++) p->w[i] -= u->rate * trust * direction[i];
}

static void optimisers_follow_their_formulas(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int kind = LNT_ADAMW; kind <= LNT_LAMB; kind++) {
        plain want = { .w = { 1, -2, 0.5 } };
        double w[3] = { 1, -2, 0.5 }, m[3] = { 0 }, v[3] = { 0 };
        dice d = { 4 };
        for (int step = 1; step <= 20; step++) {
            const lnt_update u = { .kind = (lnt_optimiser)kind, .step = step, .rate = 0.01,
                                   .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1,
                                   .factor = 0.5 };
            const double g[3] = { dice_normal(&d), dice_normal(&d), dice_normal(&d) };
            plain_step(&want, &u, g);
            lnt_optimiser_update(ctx, &u, w, g, m, v, 3);
            for (int i = 0; i < 3; i++) assert_true(fabs(w[i] - want.w[i]) < 1e-9);
        }
    }
    lnt_ctx_destroy(ctx);
}

static void the_sum_of_squares_is_the_same_for_any_number_of_threads(void **state)
{
    (void)state;
    enum { N = 100003 };
    dice d = { 8 };
    double *x = random_doubles(&d, N, 1), sum = 0, first = 0;
    for (int i = 0; i < N; i++) sum += x[i] * x[i];
    for (int threads = 1; threads <= 4; threads++) {
        lnt_ctx *ctx = context_new(threads, NULL);
        const double got = lnt_square_sum(ctx, x, N);
        if (threads == 1) first = got;
        assert_true(got == first && fabs(got - sum) < 1e-9 * sum);
        lnt_ctx_destroy(ctx);
    }
    free(x);
}

static void rates_rise_and_fall_as_the_schedule_says(void **state)
{
    (void)state;
    lnt_recipe r = lnt_recipe_default();
    r.rate = 1;
    r.rate_last = 0.2;
    r.warmup = 10;
    r.steps = 110;
    r.drop_at = 50;
    assert_true(fabs(lnt_recipe_rate(&r, 1) - 0.1) < 1e-12 && lnt_recipe_rate(&r, 10) == 1);
    assert_true(fabs(lnt_recipe_rate(&r, 60) - 0.6) < 1e-12);
    assert_true(fabs(lnt_recipe_rate(&r, 110) - 0.2) < 1e-12);
    r.schedule = LNT_SCHEDULE_STEP;
    assert_true(lnt_recipe_rate(&r, 49) == 1 && lnt_recipe_rate(&r, 50) == 0.2);
    r.schedule = LNT_SCHEDULE_CONSTANT;
    assert_true(lnt_recipe_rate(&r, 1000) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cross_entropy_is_its_formula_with_the_right_gradient),
        cmocka_unit_test(a_hit_is_the_first_of_the_largest),
        cmocka_unit_test(cross_entropy_survives_large_logits),
        cmocka_unit_test(a_mixture_of_logistics_sums_to_1_and_has_the_right_gradient),
        cmocka_unit_test(probabilities_of_all_values_are_those_of_the_loss),
        cmocka_unit_test(ctc_sums_over_all_paths_and_has_the_right_gradient),
        cmocka_unit_test(ctc_of_too_few_frames_is_infinite_and_teaches_nothing),
        cmocka_unit_test(optimisers_follow_their_formulas),
        cmocka_unit_test(the_sum_of_squares_is_the_same_for_any_number_of_threads),
        cmocka_unit_test(rates_rise_and_fall_as_the_schedule_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
