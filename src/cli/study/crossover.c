/* cli/study/crossover.c - time and memory per token by length: where forms with a state of fixed size
 * overtake those that read every key.
 *
 * In a causal pass over n tokens softmax and taylor/direct take O(n) time and O(1) memory per token;
 * taylor/state and linear take O(1) time and O(1/n) memory. */
#include "cli/study/crossover.h"

#include <math.h>
#include <stdio.h>

#include "cli/measure/measure.h"
#include "cli/show/amount.h"
#include "cli/show/plot.h"
#include "cli/study/study.h"

enum { FORMS = 4, MAX_POINTS = 24, FIRST_LENGTH = 256, LAST_LENGTH = 16384, HEADS = 2, DIM = 16 };
enum { SOFTMAX, DIRECT, STATE, LINEAR };
static const double BUDGET = 0.12; /* seconds a measurement, unless one run takes longer */

static const struct {
    lnt_mechanism mechanism;
    const char *algorithm; /* NULL: the planner's choice */
    const char *name;
    char mark;
    const char *mark_utf8;
    int terminal_color;
} forms[FORMS] = {
    [SOFTMAX] = { LNT_SOFTMAX, NULL, "softmax", '*', "●", 1 },
    [DIRECT] = { LNT_TAYLOR, "taylor/direct", "taylor/direct", 'x', "◆", 3 },
    [STATE] = { LNT_TAYLOR, "taylor/state", "taylor/state", 'o', "○", 6 },
    [LINEAR] = { LNT_LINEAR, NULL, "linear", '+', "▲", 2 },
};

typedef struct curves {
    lnt_attn_desc shape; /* heads, dim and terms of all */
    int points;
    double length[MAX_POINTS];
    double seconds[FORMS][MAX_POINTS]; /* a token */
    double memory[FORMS][MAX_POINTS];  /* bytes a token */
    double faster, smaller; /* the length from which taylor/state is, than softmax; NaN: none */
} curves;

static int request_curves(const options *o, curves *c)
{
    const int64_t last = opt_whole(o, OPT_LENGTH, LAST_LENGTH);
    const int status = study_problem(LNT_TAYLOR, opt_whole(o, OPT_HEADS, HEADS),
                                     opt_whole(o, OPT_DIM, DIM), 0, &c->shape);
    c->shape.taylor.terms = opt_whole(o, OPT_TERMS, DEFAULT_TERMS);
    c->points = 0;
    if (last < 2)
        return fail_usage("--length: '%lld' is too short for a curve, at least 2 is needed",
                          (long long)last);
    const double first = last < 2 * FIRST_LENGTH ? (double)last / 2 : FIRST_LENGTH;
    for (double n = first; n < (double)last && c->points < MAX_POINTS - 1; n *= 2)
        c->length[c->points++] = floor(n);
    c->length[c->points++] = (double)last;
    return status;
}

static int measure_point(lnt_ctx *ctx, curves *c, int form, int at)
{
    run_cost cost;
    lnt_attn_desc desc = c->shape;
    desc.mechanism = forms[form].mechanism;
    desc.algorithm = forms[form].algorithm;
    desc.length_q = desc.length_k = (int64_t)c->length[at];
    const int status = measure_cost(ctx, &desc, PASS_FORWARD, BUDGET, &cost);
    if (status) return status;
    c->seconds[form][at] = cost.seconds / c->length[at];
    c->memory[form][at] = cost.memory / c->length[at];
    return EXIT_OK;
}

static int measure_curves(lnt_ctx *ctx, curves *c)
{
    int status = EXIT_OK;
    for (int i = 0; i < c->points && !status; i++)
        for (int f = 0; f < FORMS && !status; f++) {
            char what[64];
            snprintf(what, sizeof what, "%s, %.0f tokens", forms[f].name, c->length[i]);
            progress(what, FORMS * i + f, FORMS * c->points);
            status = measure_point(ctx, c, f, i);
        }
    progress_end();
    if (status) return status;
    c->faster = study_crossing(c->length, c->seconds[SOFTMAX], c->seconds[STATE], c->points);
    c->smaller = study_crossing(c->length, c->memory[SOFTMAX], c->memory[STATE], c->points);
    return EXIT_OK;
}

/* ---- showing -------------------------------------------------------------------------------- */

static void print_json(const curves *c)
{
    for (int i = 0; i < c->points; i++)
        for (int f = 0; f < FORMS; f++) {
            json line = study_line("crossover");
            json_text(&line, "mechanism", lnt_mechanism_name(forms[f].mechanism));
            if (forms[f].algorithm) json_text(&line, "algorithm", forms[f].algorithm);
            json_whole(&line, "heads", c->shape.heads);
            json_whole(&line, "dim", c->shape.dim);
            if (forms[f].mechanism == LNT_TAYLOR) json_whole(&line, "terms", c->shape.taylor.terms);
            json_whole(&line, "length", (int64_t)c->length[i]);
            json_real(&line, "ns_per_token", 1e9 * c->seconds[f][i]);
            json_real(&line, "bytes_per_token", c->memory[f][i]);
            json_end(&line);
        }
    json line = study_line("crossover");
    json_real(&line, "crossover_speed", c->faster);
    json_real(&line, "crossover_memory", c->smaller);
    json_end(&line);
}

static void print_table(const curves *c)
{
    static const char *const headings[] = { "tokens", "softmax", "taylor/direct", "taylor/state",
                                            "linear", "softmax", "taylor/direct", "taylor/state",
                                            "linear", NULL };
    table t;
    table_begin(&t, 0, headings);
    for (int i = 0; i < c->points; i++) {
        table_row(&t);
        table_cell(&t, "%.0f", c->length[i]);
        for (int f = 0; f < FORMS; f++)
            study_cell(&t, c->seconds[f][i], text_seconds);
        for (int f = 0; f < FORMS; f++)
            study_cell(&t, c->memory[f][i], text_bytes);
    }
    table_print(&t, stdout);
    fputs("\nLeft the time, right the memory, a token of a causal pass: keys and values, or the\n"
          "state in their place, and scratch, over the number of tokens.\n\n", stdout);
}

static void print_chart(const curves *c, const char *title, double y[FORMS][MAX_POINTS],
                        const char *(*label)(double, char *, size_t))
{
    plot_series series[FORMS];
    for (int f = 0; f < FORMS; f++)
        series[f] = (plot_series){ forms[f].name, y[f], forms[f].mark, forms[f].mark_utf8,
                                   forms[f].terminal_color };
    const plot p = { .title = title, .x_title = "tokens", .x = c->length, .points = c->points,
                     .series = series, .count = FORMS, .label = label };
    plot_print(&p, stdout);
    fputc('\n', stdout);
}

static void print_sentence(const curves *c)
{
    const int last = c->points - 1;
    if (isfinite(c->faster))
        printf("From about %.0f tokens taylor/state is faster than softmax here", c->faster);
    else
        printf("Up to %.0f tokens taylor/state is not faster than softmax here", c->length[last]);
    if (isfinite(c->smaller)) printf(", and from about %.0f it holds less", c->smaller);
    printf(".\nFrom %.0f to %.0f tokens the time of a token became %.1f times as long with "
           "softmax,\n%.1f times with taylor/state, %.1f times with linear.\n",
           c->length[0], c->length[last], c->seconds[SOFTMAX][last] / c->seconds[SOFTMAX][0],
           c->seconds[STATE][last] / c->seconds[STATE][0],
           c->seconds[LINEAR][last] / c->seconds[LINEAR][0]);
}

static int draw(const options *o, const curves *c)
{
    figure f = figure_begin(2, "Causal attention, %lld heads × %lld, taylor of %lld terms",
                            (long long)c->shape.heads, (long long)c->shape.dim,
                            (long long)c->shape.taylor.terms);
    const panel_pair p = study_panels(&f, "Time a token", "Memory a token",
                                      (figure_axis){ "tokens", 10, FIGURE_PREFIXED, "" });
    p.first->y = (figure_axis){ "time a token", 10, FIGURE_PREFIXED, "s" };
    p.second->y = (figure_axis){ "bytes a token", 10, FIGURE_PREFIXED, "B" };
    for (int i = 0; i < FORMS; i++)
        study_series(p, FIGURE_LINE, i, c->length, c->seconds[i], c->memory[i], c->points, "%s",
                     forms[i].name);
    if (isfinite(c->faster)) figure_mark(p.first, c->faster, "%.0f", c->faster);
    if (isfinite(c->smaller)) figure_mark(p.second, c->smaller, "%.0f", c->smaller);
    return study_draw(o, &f);
}

int crossover_show(const options *o, lnt_ctx *ctx, bool charts)
{
    curves c;
    int status = request_curves(o, &c);
    if (!status) status = measure_curves(ctx, &c);
    if (status) return status;
    if (opt_given(o, OPT_JSON)) {
        print_json(&c);
    } else {
        print_table(&c);
        if (charts) print_chart(&c, "time a token", c.seconds, text_seconds);
        if (charts) print_chart(&c, "memory a token", c.memory, text_bytes);
        print_sentence(&c);
    }
    return draw(o, &c);
}

static int run(const options *o, lnt_ctx *ctx) { return crossover_show(o, ctx, false); }

const study study_crossover = {
    .name = "crossover",
    .summary = "time and memory per token by length of softmax, taylor and linear, as in demo",
    .takes = { [OPT_LENGTH] = true, [OPT_HEADS] = true, [OPT_DIM] = true, [OPT_TERMS] = true },
    .draws = true,
    .run = run,
};
