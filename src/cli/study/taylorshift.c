/* cli/study/taylorshift.c - TaylorShift, figure 2: time and memory of one head, not causal, by length, and
 * where the state form overtakes the direct one, for several widths.
 *
 * The paper's efficient form needs fewer operations from N0 on and less memory from N1 on.  Our symmetric
 * basis halves the operations, and our direct form stores keys, values and tiles instead of the n x n
 * scores, so the figure also shows what the paper's own forms would store. */
#include <math.h>
#include <stdio.h>

#include "cli/measure/measure.h"
#include "cli/paper.h"
#include "cli/show/amount.h"
#include "cli/study/study.h"

enum { WIDTHS = 5, POINTS = 6, FORMS = 3, SOFTMAX = 0, DIRECT = 1, STATE = 2 };
static const int widths[WIDTHS] = { 8, 16, 32, 64, 128 };
static const double BUDGET = 0.1, LONGEST_RUN = 12; /* seconds */

static const struct {
    lnt_mechanism mechanism;
    const char *algorithm, *name;
} forms[FORMS] = {
    [SOFTMAX] = { LNT_SOFTMAX, NULL, "softmax" },
    [DIRECT] = { LNT_TAYLOR, "taylor/direct", "taylor/direct" },
    [STATE] = { LNT_TAYLOR, "taylor/state", "taylor/state" },
};

/* One width.  What was not measured, because it would take too long, is NaN. */
typedef struct curves {
    int64_t dim;
    double length[POINTS];
    double seconds[FORMS][POINTS], memory[FORMS][POINTS]; /* of the whole pass */
    double plain_direct[POINTS], plain_efficient[POINTS]; /* bytes, by the paper's formulas */
    double n0, n1;          /* the paper's crossovers */
    double faster, smaller; /* from here on taylor/state is, than taylor/direct; NaN: nowhere */
} curves;

static int measure_point(lnt_ctx *ctx, curves *c, int form, int at)
{
    run_cost cost = { NAN, NAN };
    lnt_attn_desc desc;
    const double before = at ? c->seconds[form][at - 1] : 0;
    int status = study_problem(forms[form].mechanism, 1, c->dim, (int64_t)c->length[at], &desc);
    desc.algorithm = forms[form].algorithm;
    desc.causal = 0;
    desc.taylor.terms = 3;
    if (form != SOFTMAX) desc.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT;
    if (!status && 4 * before <= LONGEST_RUN) /* twice as long: at most four times as slow */
        status = measure_cost(ctx, &desc, PASS_FORWARD, BUDGET, &cost);
    c->seconds[form][at] = cost.seconds;
    c->memory[form][at] = cost.memory;
    return status;
}

static int measure_width(lnt_ctx *ctx, int64_t dim, int done, int total, curves *c)
{
    int status = EXIT_OK;
    const double d = (double)dim;
    *c = (curves){ .dim = dim, .n0 = paper_crossover_speed(d), .n1 = paper_crossover_memory(d) };
    for (int i = 0; i < POINTS && !status; i++) {
        c->length[i] = ceil(ldexp(c->n0, i - 4)); /* N0/16 .. 2 N0 */
        c->plain_direct[i] = 4 * paper_entries_direct(c->length[i], d);
        c->plain_efficient[i] = 4 * paper_entries_efficient(c->length[i], d);
        for (int f = 0; f < FORMS && !status; f++) {
            char what[64];
            snprintf(what, sizeof what, "width %lld, %.0f tokens, %s", (long long)dim,
                     c->length[i], forms[f].name);
            progress(what, done * POINTS + i, total * POINTS);
            status = measure_point(ctx, c, f, i);
        }
    }
    progress_end();
    c->faster = study_crossing(c->length, c->seconds[DIRECT], c->seconds[STATE], POINTS);
    c->smaller = study_crossing(c->length, c->memory[DIRECT], c->memory[STATE], POINTS);
    return status;
}

static void print_json(const curves *c)
{
    for (int i = 0; i < POINTS; i++)
        for (int f = 0; f < FORMS; f++) {
            json line = study_line("taylorshift");
            json_text(&line, "algorithm", forms[f].name);
            json_whole(&line, "dim", c->dim);
            json_real(&line, "length", c->length[i]);
            json_real(&line, "seconds", c->seconds[f][i]);
            json_real(&line, "bytes", c->memory[f][i]);
            json_real(&line, "crossover_speed_paper", c->n0);
            json_real(&line, "crossover_memory_paper", c->n1);
            json_real(&line, "crossover_speed", c->faster);
            json_real(&line, "crossover_memory", c->smaller);
            json_end(&line);
        }
}

static const char *text_tokens(double length, char *text, size_t capacity)
{
    snprintf(text, capacity, "%.0f", length);
    return text;
}

static void print_table(const curves *all, int count)
{
    static const char *const headings[] = { "width", "N0, paper", "here", "N1, paper", "here",
                                            "at N0: softmax", "direct", "state", "memory: direct",
                                            "state", NULL };
    enum { AT_N0 = 4 };
    table t;
    table_begin(&t, 0, headings);
    for (int w = 0; w < count; w++) {
        const curves *c = &all[w];
        table_row(&t);
        table_cell(&t, "%lld", (long long)c->dim);
        table_cell(&t, "%.0f", c->n0);
        study_cell(&t, c->faster, text_tokens);
        table_cell(&t, "%.0f", c->n1);
        study_cell(&t, c->smaller, text_tokens);
        for (int f = 0; f < FORMS; f++)
            study_cell(&t, c->seconds[f][AT_N0], text_seconds);
        for (int f = DIRECT; f < FORMS; f++)
            study_cell(&t, c->memory[f][AT_N0], text_bytes);
    }
    table_print(&t, stdout);
    fputs("\nOne head, three terms, not causal.  From N0 on the paper's state form does fewer\n"
          "operations than its direct form, from N1 on it holds fewer numbers.  Measured here:\n"
          "taylor/state is faster than taylor/direct, and holds less than the keys and values\n"
          "that taylor/direct goes back to.\n",
          stdout);
}

static void draw_width(figure *f, const curves *c, bool memory)
{
    figure_panel *p = figure_add(f, "%s, width %lld", memory ? "Memory" : "Time",
                                 (long long)c->dim);
    p->x = (figure_axis){ "tokens", 10, FIGURE_PREFIXED, "" };
    p->y = memory ? (figure_axis){ "bytes", 10, FIGURE_PREFIXED, "B" }
                  : (figure_axis){ "time of a pass", 10, FIGURE_PREFIXED, "s" };
    for (int i = 0; i < FORMS; i++)
        figure_series(p, FIGURE_LINE, i, c->length, memory ? c->memory[i] : c->seconds[i], POINTS,
                      "%s", forms[i].name);
    if (memory) {
        figure_series(p, FIGURE_DASHES, DIRECT, c->length, c->plain_direct, POINTS,
                      "direct, paper");
        figure_series(p, FIGURE_DASHES, STATE, c->length, c->plain_efficient, POINTS,
                      "efficient, paper");
        figure_mark(p, c->n1, "N₁ = %.0f", c->n1);
        if (isfinite(c->smaller)) figure_mark(p, c->smaller, "here %.0f", c->smaller);
    } else {
        figure_mark(p, c->n0, "N₀ = %.0f", c->n0);
        if (isfinite(c->faster)) figure_mark(p, c->faster, "here %.0f", c->faster);
    }
}

/* Of five widths the second and the fourth: the others look alike. */
static int draw(const options *o, const curves *all, int count)
{
    figure f = figure_begin(count > 1 ? 2 : 1, "TaylorShift, one head");
    for (int memory = 0; memory < 2; memory++)
        for (int w = count > 1; w < count; w += 2) draw_width(&f, &all[w], memory);
    return study_draw(o, &f);
}

static int run(const options *o, lnt_ctx *ctx)
{
    curves all[WIDTHS];
    int status = EXIT_OK;
    const int count = opt_given(o, OPT_DIM) ? 1 : WIDTHS;
    for (int w = 0; w < count && !status; w++) {
        const int64_t dim = opt_given(o, OPT_DIM) ? opt_whole(o, OPT_DIM, 0) : widths[w];
        status = measure_width(ctx, dim, w, count, &all[w]);
        if (!status && opt_given(o, OPT_JSON)) print_json(&all[w]);
    }
    if (status) return status;
    if (!opt_given(o, OPT_JSON)) print_table(all, count);
    return draw(o, all, count);
}

const study study_taylorshift = {
    .name = "taylorshift",
    .summary = "time, memory and crossovers of one head by length (TaylorShift, figure 2)",
    .takes = { [OPT_DIM] = true },
    .draws = true,
    .run = run,
};
