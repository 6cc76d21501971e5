/* cli/study/packing.c - SATA, figure 3: what the symmetric basis saves.  Of the d^p index tuples of degree
 * p only the sorted ones are stored, binomial(d + p - 1, p): up to p! fewer. */
#include "cli/describe.h"
#include "cli/paper.h"
#include "cli/show/amount.h"
#include "cli/study/study.h"

enum { WIDTHS = 4, FEWEST = 2, MOST = 8, POINTS = MOST - FEWEST + 1 };
static const int widths[WIDTHS] = { 8, 16, 32, 64 };

typedef struct packing {
    double terms[POINTS];
    double state[WIDTHS][POINTS], flops[WIDTHS][POINTS]; /* of the plan, one head */
    double state_ratio[WIDTHS][POINTS], flops_ratio[WIDTHS][POINTS]; /* unpacked over packed */
} packing;

static int collect(lnt_ctx *ctx, packing *p)
{
    for (int w = 0; w < WIDTHS; w++)
        for (int i = 0; i < POINTS; i++) {
            lnt_attn_desc desc;
            lnt_plan_info info;
            const double d = widths[w];
            int status = study_problem(LNT_TAYLOR, 1, widths[w], 1, &desc);
            desc.algorithm = "taylor/direct"; /* the others would make room for the state */
            desc.taylor.terms = FEWEST + i;
            if (!status) status = describe_plan(ctx, &desc, &info);
            if (status) return status;
            p->terms[i] = FEWEST + i;
            p->state[w][i] = info.state_elements;
            p->flops[w][i] = info.flops_per_token;
            p->state_ratio[w][i] = paper_state_unpacked(d, d, FEWEST + i) / info.state_elements;
            p->flops_ratio[w][i] = paper_flops_unpacked(d, d, FEWEST + i) / info.flops_per_token;
        }
    return EXIT_OK;
}

static void print_json(const packing *p)
{
    for (int w = 0; w < WIDTHS; w++)
        for (int i = 0; i < POINTS; i++) {
            json line = study_line("packing");
            json_whole(&line, "dim", widths[w]);
            json_whole(&line, "terms", FEWEST + i);
            json_real(&line, "state_elements", p->state[w][i]);
            json_real(&line, "state_reduction", p->state_ratio[w][i]);
            json_real(&line, "flops_per_token", p->flops[w][i]);
            json_real(&line, "flops_reduction", p->flops_ratio[w][i]);
            json_end(&line);
        }
}

static void print_table(const packing *p)
{
    static const char *const headings[] = { "terms", "state of width 8", "reduced by", "16",
                                            "reduced by", "32", "reduced by", "64", "reduced by",
                                            NULL };
    table t;
    table_begin(&t, 0, headings);
    for (int i = 0; i < POINTS; i++) {
        table_row(&t);
        table_cell(&t, "%d", FEWEST + i);
        for (int w = 0; w < WIDTHS; w++) {
            study_cell(&t, p->state[w][i], text_count);
            table_cell(&t, "%.1f x", p->state_ratio[w][i]);
        }
    }
    table_print(&t, stdout);
    fputs("\nNumbers in the state of one head in the symmetric basis, and what all tuples of\n"
          "indices would need over that.  The operations a token are reduced alike: --json.\n",
          stdout);
}

static int draw(const options *o, const packing *p)
{
    figure f = figure_begin(2, "All tuples of indices over the sorted ones");
    const panel_pair panels =
        study_panels(&f, "State", "Operations a token", (figure_axis){ "terms", 0, FIGURE_PLAIN, "" });
    panels.first->y = panels.second->y = (figure_axis){ "reduction, times", 10, FIGURE_PLAIN, "" };
    for (int w = 0; w < WIDTHS; w++)
        study_series(panels, FIGURE_LINE, w, p->terms, p->state_ratio[w], p->flops_ratio[w], POINTS,
                     "width %d", widths[w]);
    return study_draw(o, &f);
}

static int run(const options *o, lnt_ctx *ctx)
{
    packing p;
    const int status = collect(ctx, &p);
    if (status) return status;
    if (opt_given(o, OPT_JSON)) print_json(&p);
    else print_table(&p);
    return draw(o, &p);
}

const study study_packing = {
    .name = "packing",
    .summary = "what the symmetric basis saves over all tuples of indices (SATA, figure 3)",
    .draws = true,
    .run = run,
};
