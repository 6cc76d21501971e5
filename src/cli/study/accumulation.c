/* cli/study/accumulation.c - the rounding error of a state of Taylor attention up to 10^8 tokens, with
 * plain and compensated sums.
 *
 * The same thousand tokens are appended again and again, so the exact answer stays that of one round; the
 * reference computes it in double.  O(n F m) time, memory that does not grow with n. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/arrays/tensors.h"
#include "cli/clock.h"
#include "cli/measure/workload.h"
#include "cli/study/study.h"

enum { BLOCK = 1000, QUERIES = 100, HEADS = 2, DIM = 8, POINTS = 12, KINDS = 2 };
static const double TOKENS = 1e8;

typedef struct series {
    double tokens[POINTS], error[POINTS];
    int points;
    double seconds; /* of appending them all */
} series;

/* The answers of the state to the first queries, against the reference of one block. */
static int state_error(lnt_ctx *ctx, const lnt_attn_desc *desc, lnt_state *state, const workload *w,
                       double *error)
{
    lnt_attn_desc whole = *desc;
    const lnt_attn_io io = workload_io(w);
    const lnt_tensor q = tensor_rows(&w->q, 0, QUERIES), out = tensor_rows(&w->out, 0, QUERIES);
    double wrong = 0, right = 0, y[DIM];
    whole.causal = 0;
    if (lnt_state_query(state, &q, &out)) return fail_ctx(ctx);
    for (int64_t r = 0; r < HEADS * QUERIES; r++) {
        const int64_t h = r / QUERIES, i = r % QUERIES;
        if (lnt_reference_row(ctx, &whole, &io, 0, h, i, y)) return fail_ctx(ctx);
        for (int64_t c = 0; c < DIM; c++) {
            wrong += pow(lnt_tensor_get(&out, 0, h, i, c) - y[c], 2);
            right += y[c] * y[c];
        }
    }
    *error = sqrt(wrong / right);
    return EXIT_OK;
}

/* Appends blocks until the state holds so many tokens. */
static int append_until(lnt_ctx *ctx, lnt_state *state, const workload *w, int64_t tokens)
{
    while (lnt_state_tokens(state, 0) < tokens)
        if (lnt_state_append(state, &w->k, &w->v)) return fail_ctx(ctx);
    return EXIT_OK;
}

static int follow(lnt_ctx *ctx, const lnt_attn_desc *desc, const workload *w, int64_t last,
                  const char *what, series *out)
{
    lnt_state *state;
    int status = EXIT_OK;
    *out = (series){ 0 };
    if (lnt_state_create(ctx, desc, &state)) return fail_ctx(ctx);
    for (int64_t n = 0; n < last && out->points < POINTS && !status;) {
        n = 10 * n < last ? (n ? 10 * n : BLOCK) : last;
        progress(what, out->points, POINTS / 2);
        const double start = now_seconds();
        status = append_until(ctx, state, w, n);
        out->seconds += now_seconds() - start;
        out->tokens[out->points] = (double)lnt_state_tokens(state, 0);
        if (!status) status = state_error(ctx, desc, state, w, &out->error[out->points++]);
    }
    progress_end();
    lnt_state_destroy(state);
    return status;
}

static const char *const kinds[KINDS] = { "plain", "compensated" };

static void print_json(const series all[KINDS])
{
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < all[k].points; i++) {
            json line = study_line("accumulation");
            json_text(&line, "sums", kinds[k]);
            json_whole(&line, "heads", HEADS);
            json_whole(&line, "dim", DIM);
            json_whole(&line, "terms", DEFAULT_TERMS);
            json_real(&line, "tokens", all[k].tokens[i]);
            json_real(&line, "relative_error", all[k].error[i]);
            json_real(&line, "seconds", all[k].seconds);
            json_end(&line);
        }
}

static void print_table(const series all[KINDS])
{
    static const char *const headings[] = { "tokens", "plain sums", "compensated", NULL };
    table t;
    table_begin(&t, 0, headings);
    for (int i = 0; i < all[0].points; i++) {
        table_row(&t);
        table_cell(&t, "%.0f", all[0].tokens[i]);
        for (int k = 0; k < KINDS; k++) table_cell(&t, "%.2e", all[k].error[i]);
    }
    table_print(&t, stdout);
    printf("\nRelative error of a state in f32, %d x %d, %d terms, to which the same %d tokens "
           "are\nappended over and over; %.3g s plain, %.3g s compensated.\n",
           HEADS, DIM, DEFAULT_TERMS, BLOCK, all[0].seconds, all[1].seconds);
}

static int draw(const options *o, const series all[KINDS])
{
    figure f = figure_begin(1, "What a state of f32 sums loses");
    figure_panel *p = figure_add(&f, "%d x %d, %d terms", HEADS, DIM, DEFAULT_TERMS);
    p->x = (figure_axis){ "tokens", 10, FIGURE_PREFIXED, "" };
    p->y = (figure_axis){ "relative error", 10, FIGURE_POWERS, "" };
    for (int k = 0; k < KINDS; k++)
        figure_series(p, FIGURE_LINE, k, all[k].tokens, all[k].error, all[k].points, "%s sums",
                      kinds[k]);
    return study_draw(o, &f);
}

static int run(const options *o, lnt_ctx *ctx)
{
    series all[KINDS];
    lnt_attn_desc desc;
    workload w;
    const int64_t asked = opt_whole(o, OPT_LENGTH, (int64_t)TOKENS), last = asked - asked % BLOCK;
    if (asked < BLOCK) return fail_usage("--length: '%lld' is less than %d", (long long)asked, BLOCK);
    int status = study_problem(LNT_TAYLOR, HEADS, DIM, BLOCK, &desc);
    if (!status) status = workload_make(ctx, &desc, BLOCK, false, &w);
    if (status) return status;
    for (int k = 0; k < KINDS && !status; k++) {
        desc.compensated = k;
        status = follow(ctx, &desc, &w, last, kinds[k], &all[k]);
    }
    if (!status && opt_given(o, OPT_JSON)) print_json(all);
    else if (!status) print_table(all);
    if (!status) status = draw(o, all);
    workload_free(&w);
    return status;
}

const study study_accumulation = {
    .name = "accumulation",
    .summary = "errors of a state up to 10^8 tokens, with plain and compensated sums",
    .takes = { [OPT_LENGTH] = true },
    .draws = true,
    .run = run,
};
