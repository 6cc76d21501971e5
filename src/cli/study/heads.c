/* cli/study/heads.c - SATA, figure 4: one width split into more and smaller heads.  State and operations
 * per token of Taylor attention fall steeply; those of softmax stay or grow. */
#include "cli/describe.h"
#include "cli/show/amount.h"
#include "cli/study/study.h"

enum { EMBEDDING = 1024, POINTS = 6, SMALLEST = 4, FEWEST = 3, ORDERS = 3, CONTEXTS = 3 };
static const int64_t contexts[CONTEXTS] = { 1000, 100000, 10000000 };

typedef struct heads {
    double width[POINTS]; /* of a head: 4, 8, ... 128 */
    double state[ORDERS][POINTS], fixed[ORDERS][POINTS];     /* all heads, P = 3, 4, 5 */
    double cache[CONTEXTS][POINTS], growing[CONTEXTS][POINTS];
} heads;

static int describe(lnt_ctx *ctx, lnt_mechanism mechanism, double width, int64_t length,
                    int64_t terms, lnt_plan_info *out)
{
    lnt_attn_desc desc;
    const int64_t d = (int64_t)width;
    int status = study_problem(mechanism, EMBEDDING / d, d, length, &desc);
    if (mechanism == LNT_TAYLOR) desc.algorithm = "taylor/direct"; /* makes no room for the state */
    desc.taylor.terms = terms;
    if (!status) status = describe_plan(ctx, &desc, out);
    return status;
}

static int collect(lnt_ctx *ctx, heads *h)
{
    lnt_plan_info info;
    for (int i = 0; i < POINTS; i++) {
        h->width[i] = SMALLEST << i;
        for (int p = 0; p < ORDERS; p++) {
            const int status = describe(ctx, LNT_TAYLOR, h->width[i], 1, FEWEST + p, &info);
            if (status) return status;
            h->state[p][i] = info.state_elements;
            h->fixed[p][i] = info.flops_per_token;
        }
        for (int c = 0; c < CONTEXTS; c++) {
            const int status = describe(ctx, LNT_SOFTMAX, h->width[i], contexts[c], FEWEST, &info);
            if (status) return status;
            h->cache[c][i] = info.kv_cache_elements;
            h->growing[c][i] = info.flops_per_token;
        }
    }
    return EXIT_OK;
}

static void print_json(const heads *h)
{
    for (int i = 0; i < POINTS; i++)
        for (int p = 0; p < ORDERS; p++) {
            json line = study_line("heads");
            json_whole(&line, "heads", EMBEDDING / (int64_t)h->width[i]);
            json_whole(&line, "dim", (int64_t)h->width[i]);
            json_whole(&line, "terms", FEWEST + p);
            json_real(&line, "state_elements", h->state[p][i]);
            json_real(&line, "flops_per_token", h->fixed[p][i]);
            json_end(&line);
        }
}

static void print_table(const heads *h)
{
    static const char *const headings[] = { "heads", "width", "state, 3 terms", "4 terms",
                                            "5 terms", "operations, 3 terms", "4 terms", "5 terms",
                                            NULL };
    table t;
    table_begin(&t, 0, headings);
    for (int i = 0; i < POINTS; i++) {
        table_row(&t);
        table_cell(&t, "%d", EMBEDDING / (int)h->width[i]);
        table_cell(&t, "%.0f", h->width[i]);
        for (int p = 0; p < ORDERS; p++)
            study_cell(&t, h->state[p][i], text_count);
        for (int p = 0; p < ORDERS; p++)
            study_cell(&t, h->fixed[p][i], text_count);
    }
    table_print(&t, stdout);
    printf("\nNumbers in the states of all heads, and operations a token; heads x width is %d.\n",
           EMBEDDING);
}

static int draw(const options *o, const heads *h)
{
    static const char *const words[CONTEXTS] = { "1k", "100k", "10M" };
    figure f = figure_begin(2, "A width of %d cut into heads", EMBEDDING);
    const panel_pair p = study_panels(&f, "Numbers remembered, all heads", "Operations a token, all heads",
                                      (figure_axis){ "width of a head", 2, FIGURE_PLAIN, "" });
    p.first->y = (figure_axis){ "states, caches", 10, FIGURE_PREFIXED, "" };
    p.second->y = (figure_axis){ "operations", 10, FIGURE_PREFIXED, "" };
    for (int i = 0; i < ORDERS; i++)
        study_series(p, FIGURE_LINE, i, h->width, h->state[i], h->fixed[i], POINTS, "taylor, %d terms",
                     FEWEST + i);
    for (int i = 0; i < CONTEXTS; i++)
        study_series(p, FIGURE_DASHES, ORDERS + i, h->width, h->cache[i], h->growing[i], POINTS,
                     "softmax, %s tokens", words[i]);
    return study_draw(o, &f);
}

static int run(const options *o, lnt_ctx *ctx)
{
    heads h;
    const int status = collect(ctx, &h);
    if (status) return status;
    if (opt_given(o, OPT_JSON)) print_json(&h);
    else print_table(&h);
    return draw(o, &h);
}

const study study_heads = {
    .name = "heads",
    .summary = "one width split into more and smaller heads, from formulas (SATA, figure 4)",
    .draws = true,
    .run = run,
};
