/* cli/study/costs.c - SATA, figure 1: numbers in the state and operations per token of Taylor attention,
 * which are fixed, and of softmax with its cache, which grow with the context.
 *
 *     state (m + 1) F,  operations (4m + 2(Pd + 1)/(d + 1) + 2) F,   F = binomial(d + P - 1, P - 1)
 *     cache n (d + m),  operations n (2d + 2m + 3)
 *
 * All numbers come from plans; nothing is run. */
#include <math.h>

#include "cli/describe.h"
#include "cli/show/amount.h"
#include "cli/study/study.h"

enum { WIDTHS = 4, POINTS = 7 };
static const int widths[WIDTHS] = { 8, 16, 32, 64 };

typedef struct costs {
    double length[POINTS];
    double state[WIDTHS][POINTS], cache[WIDTHS][POINTS]; /* numbers */
    double fixed[WIDTHS][POINTS], growing[WIDTHS][POINTS]; /* operations a token */
} costs;

static int collect_point(lnt_ctx *ctx, int64_t terms, int w, int at, costs *c)
{
    lnt_attn_desc desc;
    lnt_plan_info taylor, softmax;
    int status = study_problem(LNT_TAYLOR, 1, widths[w], (int64_t)c->length[at], &desc);
    desc.taylor.terms = terms;
    if (!status) status = describe_plan(ctx, &desc, &taylor);
    desc.mechanism = LNT_SOFTMAX;
    if (!status) status = describe_plan(ctx, &desc, &softmax);
    if (status) return status;
    c->state[w][at] = taylor.state_elements;
    c->fixed[w][at] = taylor.flops_per_token;
    c->cache[w][at] = softmax.kv_cache_elements;
    c->growing[w][at] = softmax.flops_per_token;
    return EXIT_OK;
}

static int collect(lnt_ctx *ctx, int64_t terms, costs *c)
{
    int status = EXIT_OK;
    for (int i = 0; i < POINTS; i++) c->length[i] = pow(10, 2 + i);
    for (int w = 0; w < WIDTHS; w++)
        for (int i = 0; i < POINTS && !status; i++) status = collect_point(ctx, terms, w, i, c);
    return status;
}

static void print_json(int64_t terms, const costs *c)
{
    for (int w = 0; w < WIDTHS; w++)
        for (int i = 0; i < POINTS; i++) {
            json line = study_line("costs");
            json_whole(&line, "dim", widths[w]);
            json_whole(&line, "terms", terms);
            json_real(&line, "length", c->length[i]);
            json_real(&line, "state_elements", c->state[w][i]);
            json_real(&line, "flops_per_token", c->fixed[w][i]);
            json_real(&line, "kv_cache_elements", c->cache[w][i]);
            json_real(&line, "flops_per_token_softmax", c->growing[w][i]);
            json_end(&line);
        }
}

static const char *text_tokens(double tokens, char *text, size_t capacity)
{
    snprintf(text, capacity, "%.0f tokens", ceil(tokens));
    return text;
}

static void print_table(int64_t terms, const costs *c)
{
    static const char *const headings[] = { "width", "state", "smaller than the cache from",
                                            "operations a token", "fewer than softmax from", NULL };
    table t;
    char text[TABLE_CELL];
    table_begin(&t, 0, headings);
    for (int w = 0; w < WIDTHS; w++) {
        table_row(&t);
        table_cell(&t, "%d", widths[w]);
        table_cell(&t, "%s", text_count(c->state[w][0], text, sizeof text)); /* too large, perhaps */
        study_cell(&t, c->length[0] * c->state[w][0] / c->cache[w][0], text_tokens);
        table_cell(&t, "%s", text_count(c->fixed[w][0], text, sizeof text));
        study_cell(&t, c->length[0] * c->fixed[w][0] / c->growing[w][0], text_tokens);
    }
    table_print(&t, stdout);
    printf("\ntaylor of %lld terms, one head, by the formulas; the cache of softmax holds keys and "
           "values.\n", (long long)terms);
}

static int draw(const options *o, int64_t terms, const costs *c)
{
    figure f = figure_begin(2, "One head: taylor of %lld terms and softmax", (long long)terms);
    const panel_pair p = study_panels(&f, "Numbers remembered", "Operations a token",
                                      (figure_axis){ "tokens of context", 10, FIGURE_PREFIXED, "" });
    p.first->y = (figure_axis){ "state, cache", 10, FIGURE_PREFIXED, "" };
    p.second->y = (figure_axis){ "operations", 10, FIGURE_PREFIXED, "" };
    for (int w = 0; w < WIDTHS; w++)
        study_series(p, FIGURE_LINE, w, c->length, c->state[w], c->fixed[w], POINTS, "taylor, width %d",
                     widths[w]);
    for (int w = 0; w < WIDTHS; w++)
        study_series(p, FIGURE_DASHES, w, c->length, c->cache[w], c->growing[w], POINTS,
                     "softmax, width %d", widths[w]);
    return study_draw(o, &f);
}

static int run(const options *o, lnt_ctx *ctx)
{
    costs c;
    const int64_t terms = opt_whole(o, OPT_TERMS, DEFAULT_TERMS);
    const int status = collect(ctx, terms, &c);
    if (status) return status;
    if (opt_given(o, OPT_JSON)) print_json(terms, &c);
    else print_table(terms, &c);
    return draw(o, terms, &c);
}

const study study_costs = {
    .name = "costs",
    .summary = "state and operations per token by context, from formulas (SATA, figure 1)",
    .takes = { [OPT_TERMS] = true },
    .draws = true,
    .run = run,
};
