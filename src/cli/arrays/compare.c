/* cli/arrays/compare.c - compares a result y with exact softmax attention s on the same q, k, v.
 *
 * The error is ||y - s|| / ||s||, and the distribution of the elements |y - s|.  s is the library's softmax
 * in double of the arrays as the files hold them, so what a narrower dtype rounds away counts as error.
 * O(n^2 (d + m)) time; memory for q, k, v and one output in double. */
#include "cli/arrays/compare.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/arrays/tensors.h"
#include "cli/show/amount.h"
#include "cli/show/report.h"

/* ---- exact softmax ------------------------------------------------------------------------- */

/* The arrays of the files as f64 views; only what had to be converted is owned. */
static int widen(const operands *in, operands *wide)
{
    operand *const all[] = { &wide->q, &wide->k, &wide->v };
    *wide = *in;
    for (int i = 0; i < 3; i++) {
        const int64_t *s = all[i]->view.shape;
        const lnt_array *a = &all[i]->array;
        all[i]->path = NULL; /* the array stays with `in` */
        all[i]->converted = (lnt_tensor){ 0 };
        all[i]->view = lnt_tensor_bhnd(a->data, a->dtype, s[0], s[1], s[2], s[3]);
    }
    return operands_convert(wide, LNT_F64);
}

static int exact_softmax(lnt_ctx *ctx, const lnt_attn_desc *desc, const operands *wide,
                         const lnt_tensor *s)
{
    lnt_attn_desc softmax;
    lnt_plan *plan;
    if (scores_softmax(desc, &softmax)) return EXIT_FAILED;
    softmax.softmax.cap = desc->softmax.cap; /* all but a window, which is what is compared */
    softmax.softmax.slopes = desc->softmax.slopes;
    const lnt_attn_io io = { .size = sizeof io,
                             .q = wide->q.view,
                             .k = wide->k.view,
                             .v = wide->v.view,
                             .out = *s };
    if (lnt_plan_create(ctx, &softmax, &plan)) return fail_ctx(ctx);
    const lnt_status status = lnt_plan_forward(plan, &io);
    lnt_plan_destroy(plan);
    return status ? fail_ctx(ctx) : EXIT_OK;
}

/* ---- errors -------------------------------------------------------------------------------- */

/* Moves the k-th smallest to place k, those before it not above, those after it not below. */
static void select_kth(double *x, int64_t count, int64_t k)
{
    int64_t low = 0, high = count - 1;
    while (low < high) {
        const double pivot = x[k];
        int64_t i = low, j = high;
        do {
            while (x[i] < pivot) i++;
            while (pivot < x[j]) j--;
            if (i > j) break;
            const double swapped = x[i];
            x[i++] = x[j];
            x[j--] = swapped;
        } while (i <= j);
        if (j < k) low = i;
        if (k < i) high = j;
    }
}

/* The quantile of finite numbers, between two of them where it falls there; reorders them. */
static double quantile(double *x, int64_t count, double fraction)
{
    const double place = fraction * (double)(count - 1);
    const int64_t k = (int64_t)place;
    select_kth(x, count, k);
    double next = k + 1 < count ? x[k + 1] : x[k];
    for (int64_t i = k + 1; i < count; i++) next = fmin(next, x[i]);
    return x[k] + (place - (double)k) * (next - x[k]);
}

/* Sums over elements, and the largest. */
typedef struct error_sums {
    double error, error_square, softmax_square, most;
} error_sums;

/* Row i of head h: s becomes |y - s|, their sum is returned. */
static double add_row(const lnt_tensor *y, const lnt_tensor *s, int64_t b, int64_t h, int64_t i,
                      error_sums *sums)
{
    double sum = 0;
    for (int64_t c = 0; c < s->shape[3]; c++) {
        const double exact = lnt_tensor_get(s, b, h, i, c);
        const double error = fabs(lnt_tensor_get(y, b, h, i, c) - exact);
        lnt_tensor_set(s, b, h, i, c, error);
        sum += error;
        sums->error_square += error * error;
        sums->softmax_square += exact * exact;
        if (error > sums->most || isnan(error)) sums->most = error; /* NaN stays */
    }
    return sum;
}

/* 0/0 is no error; any error of a softmax that is 0 is infinite. */
static double relative(const error_sums *sums)
{
    return sums->error_square == 0 ? 0 : sqrt(sums->error_square / sums->softmax_square);
}

/* s [B,H,n,m], contiguous, is overwritten. */
static void measure_errors(const lnt_tensor *y, const lnt_tensor *s, comparison *out)
{
    const int64_t n = s->shape[2], elements = tensor_elements(s);
    const double count = (double)elements;
    error_sums sums = { 0 };
    int64_t rows[MAX_STRETCHES] = { 0 };
    if (!elements) return;
    out->stretches = n < MAX_STRETCHES ? (int)n : MAX_STRETCHES;
    for (int64_t b = 0; b < s->shape[0]; b++)
        for (int64_t h = 0; h < s->shape[1]; h++)
            for (int64_t i = 0; i < n; i++) {
                const int64_t stretch = i * out->stretches / n;
                rows[stretch]++;
                out->by_position[stretch] += add_row(y, s, b, h, i, &sums);
            }
    for (int t = 0; t < out->stretches; t++) {
        sums.error += out->by_position[t];
        out->by_position[t] /= (double)(rows[t] * s->shape[3]);
    }
    out->relative = relative(&sums);
    out->most = sums.most;
    out->mean = sums.error / count;
    out->softmax_rms = sqrt(sums.softmax_square / count);
    if (!isfinite(sums.error)) return;
    out->median = quantile(s->data, elements, 0.5);
    out->p95 = quantile(s->data, elements, 0.95);
}

/* ---- trust ---------------------------------------------------------------------------------- */

/* Whether an approximation of softmax can be trusted on this data:
 *
 *     ||y - s|| / ||s|| < 1 %    can be trusted
 *                       < 5 %    is rough
 *     otherwise                  cannot be trusted
 *
 * It cannot be trusted if a denominator was not above zero or overflowed.  For taylor the sentence also says
 * why: how far the scores reach, and how far the polynomial follows e^x. */
static const double TRUSTED = 0.01, ROUGH = 0.05, WITHIN = 0.01;

/* w(x) / e^x */
static double weight_ratio(const lnt_attn_desc *desc, double x)
{
    double weight = 0;
    for (int64_t t = desc->taylor.terms - 1; t >= 0; t--)
        weight = weight * x + (desc->taylor.coefficients ? desc->taylor.coefficients[t]
                                                  : 1 / tgamma((double)t + 1));
    return weight * exp(-x);
}

/* The largest X, in steps of 0.01 up to 64, such that the weights of taylor are within 1 % of e^x
 * (coefficients of its own: of a multiple of e^x) wherever |x| <= X. */
static double radius_of(const lnt_attn_desc *desc)
{
    enum { STEPS_PER_UNIT = 100, UNITS = 64 };
    double low = INFINITY, high = -INFINITY;
    for (int step = 0; step <= STEPS_PER_UNIT * UNITS; step++) {
        const double x = (double)step / STEPS_PER_UNIT;
        low = fmin(low, fmin(weight_ratio(desc, x), weight_ratio(desc, -x)));
        high = fmax(high, fmax(weight_ratio(desc, x), weight_ratio(desc, -x)));
        /* A common factor of all weights cancels in the division. */
        const double centre = desc->taylor.coefficients ? (low + high) / 2 : 1;
        if (!(low >= (1 - WITHIN) * centre && high <= (1 + WITHIN) * centre && centre > 0))
            return fmax(x - 1.0 / STEPS_PER_UNIT, 0);
    }
    return UNITS;
}

/* Appends to text. */
static void append(char *text, size_t capacity, const char *format, ...) PRINTF_LIKE(3, 4);
static void append(char *text, size_t capacity, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, capacity - used, format, args);
    va_end(args);
}

static void add_reason(const lnt_attn_desc *desc, const comparison *c, char *text, size_t capacity)
{
    const double farthest = scores_farthest(&c->scores), radius = radius_of(desc);
    const char *times = desc->taylor.coefficients ? "a multiple of " : "";
    const long long terms = desc->taylor.terms;
    if (isnan(farthest)) return; /* there are none */
    if (farthest > radius)
        append(text, capacity,
            "; scores reach |x| = %.3g, and %lld terms are within 1 %% of %se^x only for "
            "|x| <= %.2f", farthest, terms, times, radius);
    else
        append(text, capacity,
            "; scores reach only |x| = %.3g, where %lld terms are within 1 %% of %se^x", farthest,
            terms, times);
    if (desc->taylor.normalize != LNT_NORMALIZE_NONE)
        append(text, capacity, "; they are scores of normalised q and k, which softmax does not use");
    if (desc->taylor.output_norm) append(text, capacity, "; --output-norm multiplies what softmax does not");
}

static void trust_sentence(const lnt_attn_desc *desc, const comparison *c, int64_t nonpositive, char *text,
                           size_t capacity)
{
    const bool positive = nonpositive == 0;
    const char *verdict = c->relative < TRUSTED && positive ? "can be trusted here"
                          : c->relative < ROUGH && positive ? "is rough here"
                                                            : "cannot be trusted here";
    text[0] = '\0';
    if (!c->stretches) {
        append(text, capacity, "there is nothing to compare");
        return;
    }
    append(text, capacity, "%s %s: ", lnt_mechanism_name(desc->mechanism), verdict);
    if (isnan(c->relative)) append(text, capacity, "not every number is finite");
    else append(text, capacity, "the relative error is %.4g %%", 100 * c->relative);
    if (!positive)
        append(text, capacity,
            "; %lld row%s had a denominator that was not above zero, or too large for a number",
            (long long)nonpositive, plural(nonpositive));
    if (desc->mechanism == LNT_TAYLOR) add_reason(desc, c, text, capacity);
}

/* ---- the comparison ------------------------------------------------------------------------- */

int compare_softmax(lnt_ctx *ctx, const lnt_attn_desc *desc, const operands *in,
                    const lnt_tensor *y, int64_t nonpositive, comparison *out)
{
    operands wide = { 0 };
    lnt_tensor s = { 0 };
    *out = (comparison){ .relative = NAN, .mean = NAN, .median = NAN, .p95 = NAN, .most = NAN,
                         .softmax_rms = NAN };
    progress("comparing with exact softmax", 0, 2);
    int status = widen(in, &wide);
    if (!status)
        status = tensor_make(&s, LNT_F64, y->shape[0], y->shape[1], y->shape[2], y->shape[3]);
    if (!status) status = exact_softmax(ctx, desc, &wide, &s);
    if (!status) {
        measure_errors(y, &s, out);
        progress("measuring the scores", 1, 2);
        status = scores_measure(ctx, desc, &wide.q.view, &wide.k.view, &out->scores);
    }
    progress_end();
    if (!status) trust_sentence(desc, out, nonpositive, out->trust, sizeof out->trust);
    tensor_free(&s);
    operands_free(ctx, &wide);
    return status;
}

/* ---- what is told -------------------------------------------------------------------------- */

/* Whose scores were measured. */
static const char *scores_of(const lnt_attn_desc *desc)
{
    return lnt_mechanism_name(desc->mechanism == LNT_TAYLOR ? LNT_TAYLOR : LNT_SOFTMAX);
}

void comparison_json(json *line, const lnt_attn_desc *desc, const comparison *c)
{
    json_text(line, "compare", lnt_mechanism_name(LNT_SOFTMAX));
    json_real(line, "error_relative", c->relative);
    json_real(line, "error_mean", c->mean);
    json_real(line, "error_median", c->median);
    json_real(line, "error_p95", c->p95);
    json_real(line, "error_max", c->most);
    json_reals(line, "error_by_position", c->by_position, c->stretches);
    json_real(line, "softmax_rms", c->softmax_rms);
    json_text(line, "logits_of", scores_of(desc));
    json_real(line, "logit_min", c->scores.least);
    json_real(line, "logit_max", c->scores.most);
    json_real(line, "logit_abs_max", scores_farthest(&c->scores));
    json_real(line, "logit_mean", c->scores.mean);
    json_real(line, "logit_sigma", c->scores.sigma);
    json_text(line, "trust", c->trust);
}

void comparison_print(const lnt_attn_desc *desc, const comparison *c)
{
    const score_spread *x = &c->scores;
    printf("\nagainst exact softmax, y its output here and s that of softmax\n");
    printf("  ||y - s|| / ||s||    %.4g\n", c->relative);
    printf("  |y - s|              mean %.4g, median %.4g, 95 %% below %.4g, largest %.4g\n",
           c->mean, c->median, c->p95, c->most);
    printf("  s                    %.4g, root mean square\n", c->softmax_rms);
    printf("  mean |y - s| along the sequence");
    for (int t = 0; t < c->stretches; t++) printf(" %.3g", c->by_position[t]);
    putchar('\n');
    if (!isnan(x->mean))
        printf("  scores of %-10s %.4g to %.4g, mean %.4g, deviation %.4g\n", scores_of(desc), x->least,
               x->most, x->mean, x->sigma);
    printf("%s\n", c->trust);
}
