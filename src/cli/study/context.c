/* cli/study/context.c - SATA, figure 6: memory and time per token by context, measured, for four head widths.
 *
 * For a whole causal pass, as long as a run takes some seconds: time and memory divided by the number of
 * tokens.  For the next token after so many: its time, and the size of the state or the cache.  A state has
 * the same size and cost whatever it holds, so it is not filled first. */
#include <math.h>
#include <stdio.h>

#include "cli/measure/measure.h"
#include "cli/show/amount.h"
#include "cli/study/study.h"

enum { WIDTHS = 4, FORMS = 2 };
enum { MAX_POINTS = 16, FIRST_LENGTH = 1024, LAST_LENGTH = 1 << 20, STEP = 2 };
static const int widths[WIDTHS] = { 8, 16, 32, 64 };
static const lnt_mechanism forms[FORMS] = { LNT_SOFTMAX, LNT_TAYLOR };
static const double BUDGET = 0.1, LONGEST_RUN = 10; /* seconds */

/* What was not measured, because it would take too long, is NaN. */
typedef struct curves {
    int points;
    double length[MAX_POINTS];
    double pass[FORMS][WIDTHS][MAX_POINTS];   /* seconds a token */
    double pass_memory[FORMS][WIDTHS][MAX_POINTS]; /* bytes a token */
    double next[FORMS][WIDTHS][MAX_POINTS];   /* seconds */
    double memory[FORMS][WIDTHS][MAX_POINTS]; /* bytes */
} curves;

static int measure_point(lnt_ctx *ctx, int64_t terms, int form, int w, int at, curves *c)
{
    const double n = c->length[at], growth = form == 0 ? STEP * STEP : STEP;
    const double before = at ? c->pass[form][w][at - 1] * c->length[at - 1] : 0;
    run_cost pass = { NAN, NAN }, next = { NAN, NAN };
    lnt_attn_desc desc;
    int status = study_problem(forms[form], 1, widths[w], (int64_t)n, &desc);
    desc.taylor.terms = terms;
    if (!status) status = measure_cost(ctx, &desc, PASS_STEP, BUDGET, &next);
    if (forms[form] == LNT_TAYLOR) desc.algorithm = "taylor/state";
    if (!status && growth * before <= LONGEST_RUN)
        status = measure_cost(ctx, &desc, PASS_FORWARD, BUDGET, &pass);
    c->pass[form][w][at] = pass.seconds / n;
    c->pass_memory[form][w][at] = pass.memory / n;
    c->next[form][w][at] = next.seconds;
    c->memory[form][w][at] = next.memory;
    return status;
}

static int measure_all(lnt_ctx *ctx, int64_t terms, curves *c)
{
    int status = EXIT_OK;
    for (int i = 0; i < c->points; i++)
        for (int w = 0; w < WIDTHS; w++)
            for (int f = 0; f < FORMS && !status; f++) {
                char what[64];
                snprintf(what, sizeof what, "%s, width %d, %.0f tokens",
                         lnt_mechanism_name(forms[f]), widths[w], c->length[i]);
                progress(what, WIDTHS * i + w, WIDTHS * c->points);
                status = measure_point(ctx, terms, f, w, i, c);
            }
    progress_end();
    return status;
}

static void print_json(int64_t terms, const curves *c)
{
    for (int i = 0; i < c->points; i++)
        for (int w = 0; w < WIDTHS; w++)
            for (int f = 0; f < FORMS; f++) {
                json line = study_line("context");
                json_text(&line, "mechanism", lnt_mechanism_name(forms[f]));
                json_whole(&line, "dim", widths[w]);
                if (forms[f] == LNT_TAYLOR) json_whole(&line, "terms", terms);
                json_real(&line, "length", c->length[i]);
                json_real(&line, "ns_per_token", 1e9 * c->pass[f][w][i]);
                json_real(&line, "bytes_per_token", c->pass_memory[f][w][i]);
                json_real(&line, "ns_next_token", 1e9 * c->next[f][w][i]);
                json_real(&line, "state_bytes", c->memory[f][w][i]);
                json_end(&line);
            }
}

static void print_table(const curves *c, int w)
{
    static const char *const headings[] = { "tokens", "softmax: pass", "memory", "next", "cache",
                                            "taylor: pass", "memory", "next", "state", NULL };
    table t;
    printf("width %d\n", widths[w]);
    table_begin(&t, 0, headings);
    for (int i = 0; i < c->points; i++) {
        table_row(&t);
        table_cell(&t, "%.0f", c->length[i]);
        for (int f = 0; f < FORMS; f++) {
            study_cell(&t, c->pass[f][w][i], text_seconds);
            study_cell(&t, c->pass_memory[f][w][i], text_bytes);
            study_cell(&t, c->next[f][w][i], text_seconds);
            study_cell(&t, c->memory[f][w][i], text_bytes);
        }
    }
    table_print(&t, stdout);
    fputc('\n', stdout);
}

static void draw_panel(figure *f, const char *title, const figure_axis *y, const curves *c,
                       double values[FORMS][WIDTHS][MAX_POINTS])
{
    static const char *const names[FORMS] = { "softmax", "taylor" };
    figure_panel *p = figure_add(f, "%s", title);
    p->x = (figure_axis){ "tokens of context", 10, FIGURE_PREFIXED, "" };
    p->y = *y;
    for (int form = FORMS - 1; form >= 0; form--)
        for (int w = 0; w < WIDTHS; w++)
            figure_series(p, form ? FIGURE_LINE : FIGURE_DASHES, w, c->length, values[form][w],
                          c->points, "%s, width %d", names[form], widths[w]);
}

static int draw(const options *o, int64_t terms, curves *c)
{
    const figure_axis next = { "time", 10, FIGURE_PREFIXED, "s" };
    const figure_axis total = { "bytes", 10, FIGURE_PREFIXED, "B" };
    figure f = figure_begin(2, "One head, causal: taylor of %lld terms and softmax",
                            (long long)terms);
    draw_panel(&f, "The next token: what is remembered", &total, c, c->memory);
    draw_panel(&f, "The next token: time", &next, c, c->next);
    return study_draw(o, &f);
}

static int run(const options *o, lnt_ctx *ctx)
{
    curves c = { .points = 0 };
    const int64_t last = opt_whole(o, OPT_LENGTH, LAST_LENGTH);
    const int64_t terms = opt_whole(o, OPT_TERMS, DEFAULT_TERMS);
    const int64_t first = last < FIRST_LENGTH ? last : FIRST_LENGTH;
    if (last < 1)
        return fail_usage("--length: '0' is no context to measure, at least 1 is needed");
    for (int64_t n = first; n < last && c.points < MAX_POINTS - 1; n *= STEP)
        c.length[c.points++] = (double)n;
    c.length[c.points++] = (double)last;
    const int status = measure_all(ctx, terms, &c);
    if (status) return status;
    if (opt_given(o, OPT_JSON)) print_json(terms, &c);
    for (int w = 0; w < WIDTHS && !opt_given(o, OPT_JSON); w++) print_table(&c, w);
    if (!opt_given(o, OPT_JSON))
        fputs("pass: a token of a whole pass, and memory over the number of tokens; next: the next "
              "token with\nso many before it; cache, state: what is remembered of them.\n", stdout);
    return draw(o, terms, &c);
}

const study study_context = {
    .name = "context",
    .summary = "memory and time per token by context, measured (SATA, figure 6)",
    .takes = { [OPT_LENGTH] = true, [OPT_TERMS] = true },
    .draws = true,
    .run = run,
};
