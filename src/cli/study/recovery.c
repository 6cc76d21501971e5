/* cli/study/recovery.c - SATA, appendices A3 and A4: the error of Taylor attention against softmax attention,
 * element by element, by order of magnitude.
 *
 *     |taylor - softmax| with q, k, v normal, causal, 102,400 tokens, widths 8 to 64, 3 to 6 terms
 *
 * taylor runs over all tokens in f32 with the algorithm that the planner picks.  softmax runs in f64, with an
 * error near 1e-15, on blocks of rows spread evenly over the sequence: O(rows n d). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/arrays/tensors.h"
#include "cli/measure/order.h"
#include "cli/measure/workload.h"
#include "cli/study/study.h"

enum {
    WIDTHS = 4,
    ORDERS = 4,
    FEWEST = 3, /* terms */
    LENGTH = 102400,
    BLOCKS = 32,
    ROWS = 128,         /* of a block */
    LOWEST = -7,        /* decimal order of the first bin, which holds all below too */
    BINS_PER_ORDER = 5,
    BINS = 8 * BINS_PER_ORDER /* up to 10 */
};
static const int widths[WIDTHS] = { 8, 16, 32, 64 };

typedef struct recovery {
    int dim, terms;
    char algorithm[32];
    int64_t elements; /* compared */
    double low, median, high, most; /* 1 %, half, 99 % and all are no larger */
    double share[BINS];             /* of the elements, in each bin */
    double position[BLOCKS], by_position[BLOCKS]; /* the median of each block */
    int blocks;
} recovery;

/* One width: the inputs, softmax in f64 on the rows compared, and room. */
typedef struct experiment {
    lnt_ctx *ctx;
    int64_t n, d;
    workload data;       /* f32, all rows; out is taylor's */
    lnt_tensor q, k, v;  /* f64 */
    lnt_tensor exact;    /* f64 [blocks * rows,d] */
    double *error;       /* [blocks * rows * d] */
    int blocks;
    int64_t rows;
} experiment;

static int64_t block_start(const experiment *e, int b)
{
    return e->blocks < 2 ? 0 : (e->n - e->rows) * b / (e->blocks - 1);
}

/* ---- computing ------------------------------------------------------------------------------ */

static int convert(const lnt_tensor *from, lnt_tensor *to)
{
    const int status = tensor_make(to, LNT_F64, 1, 1, from->shape[2], from->shape[3]);
    if (!status) tensor_convert(from, to);
    return status;
}

/* Rows of block b by a plan of `rows` queries at the end of the keys up to them. */
static lnt_status exact_block(lnt_plan *plan, const experiment *e, int b)
{
    const int64_t start = block_start(e, b);
    const lnt_attn_io io = { .size = sizeof io,
                             .q = tensor_rows(&e->q, start, e->rows),
                             .k = tensor_rows(&e->k, 0, start + e->rows),
                             .v = tensor_rows(&e->v, 0, start + e->rows),
                             .out = tensor_rows(&e->exact, b * e->rows, e->rows) };
    return lnt_plan_forward(plan, &io);
}

static int compute_exact(experiment *e)
{
    lnt_plan *plan;
    lnt_attn_desc desc;
    int status = study_problem(LNT_SOFTMAX, 1, e->d, e->rows, &desc);
    if (status) return status;
    desc.dtype = LNT_F64;
    desc.length_k = e->n;
    if (lnt_plan_create(e->ctx, &desc, &plan)) return fail_ctx(e->ctx);
    for (int b = 0; b < e->blocks && !status; b++)
        if (exact_block(plan, e, b)) status = fail_ctx(e->ctx);
    lnt_plan_destroy(plan);
    return status;
}

static void experiment_close(experiment *e)
{
    workload_free(&e->data);
    lnt_tensor *all[] = { &e->q, &e->k, &e->v, &e->exact };
    for (int i = 0; i < 4; i++) tensor_free(all[i]);
    free(e->error);
}

static int experiment_open(lnt_ctx *ctx, int64_t n, int64_t d, uint64_t seed, experiment *e)
{
    lnt_attn_desc desc;
    *e = (experiment){ .ctx = ctx, .n = n, .d = d, .rows = n < ROWS ? n : ROWS };
    e->blocks = (int)(n / e->rows < BLOCKS ? n / e->rows : BLOCKS);
    int status = study_problem(LNT_SOFTMAX, 1, d, n, &desc); /* for its plain normal numbers */
    desc.seed = seed;
    if (!status) status = workload_make(ctx, &desc, n, false, &e->data);
    if (!status) status = convert(&e->data.q, &e->q);
    if (!status) status = convert(&e->data.k, &e->k);
    if (!status) status = convert(&e->data.v, &e->v);
    if (!status) status = tensor_make(&e->exact, LNT_F64, 1, 1, e->blocks * e->rows, d);
    const size_t count = (size_t)(e->blocks * e->rows * d);
    if (!status && !(e->error = malloc(count * sizeof *e->error)))
        status = fail_memory(count * sizeof *e->error);
    if (!status) status = compute_exact(e);
    return status;
}

static int compute_taylor(experiment *e, int terms, recovery *out)
{
    lnt_plan *plan;
    lnt_plan_info info = { .size = sizeof info };
    lnt_attn_desc desc;
    const lnt_attn_io io = workload_io(&e->data);
    const int status = study_problem(LNT_TAYLOR, 1, e->d, e->n, &desc);
    if (status) return status;
    desc.taylor.terms = terms;
    if (lnt_plan_create(e->ctx, &desc, &plan)) return fail_ctx(e->ctx);
    lnt_status failed = lnt_plan_describe(plan, &info);
    if (!failed) failed = lnt_plan_forward(plan, &io);
    snprintf(out->algorithm, sizeof out->algorithm, "%s", info.algorithm);
    lnt_plan_destroy(plan);
    return failed ? fail_ctx(e->ctx) : EXIT_OK;
}

/* ---- comparing ------------------------------------------------------------------------------ */

static void count_bins(const double *error, int64_t count, double share[BINS])
{
    for (int64_t i = 0; i < count; i++) {
        const double order = (log10(fmax(error[i], 1e-300)) - LOWEST) * BINS_PER_ORDER;
        const int bin = order < 0 ? 0 : order >= BINS ? BINS - 1 : (int)order;
        share[bin] += 1 / (double)count;
    }
}

/* error [count] is sorted on the way. */
static void compare(experiment *e, recovery *out)
{
    const int64_t part = e->rows * e->d;
    out->elements = e->blocks * part;
    out->blocks = e->blocks;
    for (int b = 0; b < e->blocks; b++) {
        double *error = e->error + b * part;
        for (int64_t i = 0; i < part; i++) {
            const int64_t row = i / e->d, c = i % e->d;
            error[i] = fabs(lnt_tensor_get(&e->data.out, 0, 0, block_start(e, b) + row, c) -
                            lnt_tensor_get(&e->exact, 0, 0, b * e->rows + row, c));
        }
        sort_ascending(error, (size_t)part);
        out->position[b] = (double)(block_start(e, b) + e->rows);
        out->by_position[b] = error[part / 2];
    }
    count_bins(e->error, out->elements, out->share);
    sort_ascending(e->error, (size_t)out->elements);
    out->low = e->error[out->elements / 100];
    out->median = e->error[out->elements / 2];
    out->high = e->error[out->elements - 1 - out->elements / 100];
    out->most = e->error[out->elements - 1];
}

static int recover_width(lnt_ctx *ctx, int64_t n, uint64_t seed, int w, recovery out[ORDERS])
{
    experiment e;
    char what[64];
    snprintf(what, sizeof what, "width %d, softmax in f64", widths[w]);
    progress(what, w * (ORDERS + 1), WIDTHS * (ORDERS + 1));
    int status = experiment_open(ctx, n, widths[w], seed, &e);
    for (int p = 0; p < ORDERS && !status; p++) {
        snprintf(what, sizeof what, "width %d, %d terms", widths[w], FEWEST + p);
        progress(what, w * (ORDERS + 1) + p + 1, WIDTHS * (ORDERS + 1));
        out[p] = (recovery){ .dim = widths[w], .terms = FEWEST + p };
        status = compute_taylor(&e, FEWEST + p, &out[p]);
        if (!status) compare(&e, &out[p]);
    }
    progress_end();
    experiment_close(&e);
    return status;
}

/* ---- showing -------------------------------------------------------------------------------- */

static void print_json(int64_t n, const recovery *r)
{
    json line = study_line("recovery");
    json_text(&line, "algorithm", r->algorithm);
    json_whole(&line, "dim", r->dim);
    json_whole(&line, "terms", r->terms);
    json_whole(&line, "length", n);
    json_whole(&line, "rows", r->elements / r->dim);
    json_real(&line, "percentile_1", r->low);
    json_real(&line, "median", r->median);
    json_real(&line, "percentile_99", r->high);
    json_real(&line, "most", r->most);
    json_real(&line, "first_order", LOWEST);
    json_whole(&line, "bins_per_order", BINS_PER_ORDER);
    json_reals(&line, "share", r->share, BINS);
    json_reals(&line, "position", r->position, r->blocks);
    json_reals(&line, "median_by_position", r->by_position, r->blocks);
    json_end(&line);
    fflush(stdout); /* a line as soon as it is known */
}

/* The share of elements whose decimal order is `order`; the first column holds all below too. */
static double share_of_order(const recovery *r, int order, int first)
{
    double sum = 0;
    for (int bin = 0; bin < BINS; bin++) {
        const int of = LOWEST + bin / BINS_PER_ORDER;
        if (of == order || (order == first && of < first)) sum += r->share[bin];
    }
    return sum;
}

static void print_table(int64_t n, recovery all[WIDTHS][ORDERS])
{
    enum { FIRST = -6, LAST = 0 };
    static const char *const headings[] = { "algorithm", "width", "terms", "median", "99 %",
                                            "to 1e-5", "1e-4", "1e-3", "1e-2", "1e-1", "1", "10",
                                            NULL };
    table t;
    table_begin(&t, 1, headings);
    for (int w = 0; w < WIDTHS; w++)
        for (int p = 0; p < ORDERS; p++) {
            const recovery *r = &all[w][p];
            table_row(&t);
            table_cell(&t, "%s", r->algorithm);
            table_cell(&t, "%d", r->dim);
            table_cell(&t, "%d", r->terms);
            table_cell(&t, "%.1e", r->median);
            table_cell(&t, "%.1e", r->high);
            for (int order = FIRST; order <= LAST; order++)
                table_cell(&t, "%.1f %%", 100 * share_of_order(r, order, FIRST));
        }
    table_print(&t, stdout);
    printf("\n|taylor - softmax| of the elements of %lld rows of %lld, causal, normal q, k, v: the "
           "share in each\ndecimal order.  taylor in f32 over all tokens, softmax in f64.\n",
           (long long)(all[0][0].elements / all[0][0].dim), (long long)n);
}

/* Of one width: the others look alike. */
static int draw(const options *o, int64_t n, recovery all[WIDTHS][ORDERS])
{
    const recovery *one = all[1];
    double order[BINS];
    figure f = figure_begin(2, "|taylor − softmax|, %lld tokens, causal, normal q, k, v, width %d",
                            (long long)n, one->dim);
    for (int i = 0; i < BINS; i++) order[i] = LOWEST + (i + 0.5) / BINS_PER_ORDER;
    figure_panel *errors = figure_add(&f, "Errors"), *median = figure_add(&f, "Median by position");
    errors->x = (figure_axis){ "decimal order of the error", 0, FIGURE_PLAIN, "" };
    errors->y = (figure_axis){ "share of elements", 0, FIGURE_PLAIN, "" };
    median->x = (figure_axis){ "tokens of context", 10, FIGURE_PREFIXED, "" };
    median->y = (figure_axis){ "median error", 10, FIGURE_POWERS, "" };
    for (int i = 0; i < ORDERS; i++) {
        figure_series(errors, FIGURE_STEPS, i, order, one[i].share, BINS, "%d terms", FEWEST + i);
        figure_series(median, FIGURE_LINE, i, one[i].position, one[i].by_position, one[i].blocks,
                      "%d terms", FEWEST + i);
    }
    return study_draw(o, &f);
}

static int run(const options *o, lnt_ctx *ctx)
{
    recovery(*all)[ORDERS] = calloc(WIDTHS, sizeof *all);
    const int64_t n = opt_whole(o, OPT_LENGTH, LENGTH);
    const uint64_t seed = opt_given(o, OPT_SEED) ? o->value[OPT_SEED].seed : 0;
    int status = EXIT_OK;
    if (!all) return fail_memory(WIDTHS * sizeof *all);
    if (n < 1) status = fail_usage("--length: '0' leaves nothing to compare, at least 1 is needed");
    for (int w = 0; w < WIDTHS && !status; w++) {
        status = recover_width(ctx, n, seed, w, all[w]);
        for (int p = 0; p < ORDERS && !status && opt_given(o, OPT_JSON); p++)
            print_json(n, &all[w][p]);
    }
    if (!status && !opt_given(o, OPT_JSON)) print_table(n, all);
    if (!status) status = draw(o, n, all);
    free(all);
    return status;
}

const study study_recovery = {
    .name = "recovery",
    .summary = "errors of taylor against softmax by order of magnitude (SATA, appendices A3, A4)",
    .takes = { [OPT_LENGTH] = true, [OPT_SEED] = true },
    .draws = true,
    .run = run,
};
