/* cli/study/sizes.c - TaylorShift, table 1: the mean sizes of what its efficient form computes on
 * the way, which its normalisation undoes.
 *
 *     A = sum_j (k_j x k_j) u_j^T            Frobenius norm   (N + 1)/sqrt(d)
 *     sum_j (q.k_j)^2 u_j                    norm of a row    N/d
 *     sum_j (q.k_j) u_j                      norm of a row    sqrt(N) (4d + 1)/4d
 *     sum_j 1/2 + (q.k_j)/2 + (q.k_j)^2      a row            N (d + 2)/2d
 *     sum_j 1 + (q.k_j) + (q.k_j)^2/2        a row            N (2d + 1)/2d
 *     y                                      norm of a row    sqrt(d/N)
 *
 * q, k uniform on the sphere and u_j = (1, v_j), v_j normal: |v| is about sqrt(d).  The paper calls
 * the fourth its denominator; by its definition of the weights the denominator is the fifth.
 * Computed straight from the definitions in double, with N = 32 d^2, as the formulas are for N over
 * d^2.  The rows of one sequence go up and down together, so one query of each of many sequences is
 * taken: 2^19/d^2 of them bring the mean of |y| to within 0.8 % (one deviation). */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/study/study.h"

enum { WIDTHS = 3, WIDEST = 64, EXPRESSIONS = 6, PRODUCTS = 2 };
enum { TENSOR, SQUARE, PRODUCT, DENOMINATOR_PAPER, DENOMINATOR, OUTPUT };
static const int widths[WIDTHS] = { 8, 16, 32 };

static const char *const names[EXPRESSIONS] = {
    [TENSOR] = "A = (K x K)^T V",       [SQUARE] = "(Q K^T)^2 V",
    [PRODUCT] = "Q K^T V",              [DENOMINATOR_PAPER] = "Y denom, 1/2 + x/2 + x^2",
    [DENOMINATOR] = "Y denom, 1 + x + x^2/2", [OUTPUT] = "Y",
};

static double formula(int expression, double n, double d)
{
    switch (expression) {
    case TENSOR: return (n + 1) / sqrt(d);
    case SQUARE: return n / d;
    case PRODUCT: return sqrt(n) * (4 * d + 1) / (4 * d);
    case DENOMINATOR_PAPER: return n * (d + 2) / (2 * d);
    case DENOMINATOR: return n * (2 * d + 1) / (2 * d);
    default: return sqrt(d / n);
    }
}

/* ---- sequences ------------------------------------------------------------------------------ */

typedef struct sequence {
    int64_t n, d;
    double *k; /* [n,d] on the sphere */
    double *u; /* [n,d+1]: 1, v */
    double *q; /* [d] on the sphere */
    double *sums; /* [3,d+1]: of u, of x u, of x^2 u */
    double *tensor; /* [d(d+1)/2,d+1]: the rows of A with the first index up to the second */
} sequence;

static uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static double random_uniform(uint64_t *state) /* -1 to 1 */
{
    return (double)(random_bits(state) >> 11) * 0x1p-52 - 1;
}

/* x [count] normal; the polar method, because there are hundreds of millions. */
static void draw_normal(uint64_t *state, double *x, int64_t count)
{
    for (int64_t i = 0; i < count; i += 2) {
        double a, b, s;
        do {
            a = random_uniform(state);
            b = random_uniform(state);
            s = a * a + b * b;
        } while (s >= 1 || s == 0);
        const double r = sqrt(-2 * log(s) / s);
        x[i] = a * r;
        if (i + 1 < count) x[i + 1] = b * r;
    }
}

static double norm(const double *x, int64_t count)
{
    double square = 0;
    for (int64_t i = 0; i < count; i++) square += x[i] * x[i];
    return sqrt(square);
}

static void draw_sphere(uint64_t *state, double *x, int64_t d)
{
    draw_normal(state, x, d);
    const double length = norm(x, d);
    for (int64_t i = 0; i < d; i++) x[i] /= length;
}

static void draw_sequence(uint64_t *state, const sequence *s)
{
    draw_sphere(state, s->q, s->d);
    for (int64_t j = 0; j < s->n; j++) {
        draw_sphere(state, s->k + j * s->d, s->d);
        s->u[j * (s->d + 1)] = 1;
        draw_normal(state, s->u + j * (s->d + 1) + 1, s->d);
    }
}

static int sequence_open(int64_t n, int64_t d, sequence *out)
{
    const size_t rows = (size_t)n, width = (size_t)d, pairs = width * (width + 1) / 2;
    const size_t count = rows * (2 * width + 1) + width + (3 + pairs) * (width + 1);
    double *memory = calloc(count, sizeof *memory);
    if (!memory) return fail_memory(count * sizeof *memory);
    *out = (sequence){ .n = n, .d = d, .k = memory, .u = memory + rows * width };
    out->q = out->u + rows * (width + 1);
    out->sums = out->q + width;
    out->tensor = out->sums + 3 * (width + 1);
    return EXIT_OK;
}

static void sequence_close(sequence *s) { free(s->k); }

/* ---- sizes ---------------------------------------------------------------------------------- */

/* The sums over j of u, x u and x^2 u for the query. */
static void sum_powers(const sequence *s)
{
    const int64_t d = s->d, m = d + 1;
    memset(s->sums, 0, 3 * (size_t)m * sizeof *s->sums);
    for (int64_t j = 0; j < s->n; j++) {
        const double *k = s->k + j * d, *u = s->u + j * m;
        double x = 0;
        for (int64_t c = 0; c < d; c++) x += s->q[c] * k[c];
        for (int64_t c = 0; c < m; c++) {
            s->sums[c] += u[c];
            s->sums[m + c] += x * u[c];
            s->sums[2 * m + c] += x * x * u[c];
        }
    }
}

/* Norm of A, of whose equal rows (a, b) and (b, a) one is made. */
static double tensor_norm(const sequence *s)
{
    const int64_t d = s->d, m = d + 1;
    memset(s->tensor, 0, (size_t)(d * (d + 1) / 2 * m) * sizeof *s->tensor);
    for (int64_t j = 0; j < s->n; j++) {
        const double *k = s->k + j * d, *u = s->u + j * m;
        double *row = s->tensor;
        for (int64_t a = 0; a < d; a++)
            for (int64_t b = a; b < d; b++, row += m)
                for (int64_t c = 0; c < m; c++) row[c] += k[a] * k[b] * u[c];
    }
    double square = 0;
    const double *row = s->tensor;
    for (int64_t a = 0; a < d; a++)
        for (int64_t b = a; b < d; b++, row += m) square += (a == b ? 1 : 2) * pow(norm(row, m), 2);
    return sqrt(square);
}

/* Adds the sizes of what one query meets. */
static void add_sizes(const sequence *s, double total[EXPRESSIONS])
{
    const int64_t m = s->d + 1;
    const double *one = s->sums, *x = one + m, *xx = x + m; /* element 0 is the sum of weights */
    sum_powers(s);
    total[SQUARE] += norm(xx, m);
    total[PRODUCT] += norm(x, m);
    total[DENOMINATOR_PAPER] += fabs(one[0] / 2 + x[0] / 2 + xx[0]);
    total[DENOMINATOR] += fabs(one[0] + x[0] + xx[0] / 2);
    double square = 0;
    for (int64_t c = 1; c < m; c++) square += pow(one[c] + x[c] + xx[c] / 2, 2);
    total[OUTPUT] += sqrt(square) / fabs(one[0] + x[0] + xx[0] / 2);
}

typedef struct sizes {
    int64_t n, d, sequences;
    double measured[EXPRESSIONS];
} sizes;

static int measure_sizes(int64_t d, uint64_t seed, sizes *out)
{
    sequence s = { .n = 0 };
    *out = (sizes){ .n = 32 * d * d, .d = d, .sequences = (1 << 19) / (d * d) };
    const int status = sequence_open(out->n, d, &s);
    if (status) return status;
    for (int64_t i = 0; i < out->sequences; i++) {
        char what[64];
        snprintf(what, sizeof what, "width %lld", (long long)d);
        if (i % 16 == 0) progress(what, (int)i, (int)out->sequences);
        draw_sequence(&seed, &s);
        add_sizes(&s, out->measured);
        if (i < PRODUCTS) out->measured[TENSOR] += tensor_norm(&s); /* it hardly varies */
    }
    progress_end();
    for (int e = 0; e < EXPRESSIONS; e++)
        out->measured[e] /= (double)(e == TENSOR ? PRODUCTS : out->sequences);
    sequence_close(&s);
    return EXIT_OK;
}

static double deviation(const sizes *s, int expression)
{
    return s->measured[expression] / formula(expression, (double)s->n, (double)s->d) - 1;
}

/* ---- showing -------------------------------------------------------------------------------- */

static void print_json(const sizes *s)
{
    for (int e = 0; e < EXPRESSIONS; e++) {
        json line = study_line("sizes");
        json_text(&line, "expression", names[e]);
        json_whole(&line, "dim", s->d);
        json_whole(&line, "length", s->n);
        json_whole(&line, "sequences", e == TENSOR ? PRODUCTS : s->sequences);
        json_real(&line, "formula", formula(e, (double)s->n, (double)s->d));
        json_real(&line, "measured", s->measured[e]);
        json_real(&line, "deviation", deviation(s, e));
        json_end(&line);
    }
}

static void add_rows(table *t, const sizes *s)
{
    for (int e = 0; e < EXPRESSIONS; e++) {
        table_row(t);
        table_cell(t, "%s", names[e]);
        table_cell(t, "%lld", (long long)s->d);
        table_cell(t, "%lld", (long long)s->n);
        table_cell(t, "%lld", (long long)(e == TENSOR ? PRODUCTS : s->sequences));
        table_cell(t, "%.5g", formula(e, (double)s->n, (double)s->d));
        table_cell(t, "%.5g", s->measured[e]);
        table_cell(t, "%+.2f %%", 100 * deviation(s, e));
    }
}

static int run(const options *o, lnt_ctx *ctx)
{
    static const char *const headings[] = { "expression", "width", "tokens", "sequences", "formula",
                                            "measured", "deviation", NULL };
    (void)ctx;
    table t;
    sizes found;
    const int count = opt_given(o, OPT_DIM) ? 1 : WIDTHS;
    const uint64_t seed = opt_given(o, OPT_SEED) ? o->value[OPT_SEED].seed : 0;
    if (opt_whole(o, OPT_DIM, 1) > WIDEST)
        return fail_usage("--dim: '%s' is too large for --study sizes, at most %d is allowed",
                          opt_text(o, OPT_DIM), WIDEST);
    table_begin(&t, 1, headings);
    for (int w = 0; w < count; w++) {
        const int64_t d = opt_given(o, OPT_DIM) ? opt_whole(o, OPT_DIM, 0) : widths[w];
        const int status = measure_sizes(d, seed, &found);
        if (status) return status;
        if (opt_given(o, OPT_JSON)) print_json(&found);
        add_rows(&t, &found);
    }
    if (!opt_given(o, OPT_JSON)) table_print(&t, stdout);
    return EXIT_OK;
}

const study study_sizes = {
    .name = "sizes",
    .summary = "mean sizes of intermediate results on the sphere (TaylorShift, table 1)",
    .takes = { [OPT_DIM] = true, [OPT_SEED] = true },
    .run = run,
};
