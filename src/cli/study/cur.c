/* cli/study/cur.c - CUR, section 5.3 and figure 4: time and memory of CUR attention and of softmax by length,
 * 16 heads x 64, for several numbers of landmarks, 6 iterations.
 *
 * The paper has 64 sequences on a GPU; here it is 1 unless --batch says otherwise.  Memory is the workspace
 * of the plan: tiled softmax needs hardly any, cur/flash some that does not grow. */
#include <stdio.h>

#include "cli/describe.h"
#include "cli/measure/measure.h"
#include "cli/measure/workload.h"
#include "cli/show/amount.h"
#include "cli/study/study.h"

enum { COUNTS = 3, KINDS = 1 + 2 * COUNTS, POINTS = 4, HEADS = 16, DIM = 64, LONGEST = 4096 };
static const int counts[COUNTS] = { 32, 64, 128 };

static const double BUDGET = 0.2; /* seconds a measurement */

typedef struct costs {
    double length[POINTS];
    double seconds[KINDS][POINTS], memory[KINDS][POINTS], error[KINDS][POINTS];
} costs;

/* Kind 0 is softmax, then flash and stored with each number of landmarks. */
static int problem(const options *o, int kind, int64_t length, lnt_attn_desc *out)
{
    const int status = study_problem(kind ? LNT_CUR : LNT_SOFTMAX, opt_whole(o, OPT_HEADS, HEADS),
                                     opt_whole(o, OPT_DIM, DIM), length, out);
    out->causal = 0;
    out->batch = opt_whole(o, OPT_BATCH, 1);
    out->algorithm = !kind ? "softmax/tiled" : kind <= COUNTS ? "cur/flash" : "cur/stored";
    if (kind) out->cur.landmarks = counts[(kind - 1) % COUNTS];
    return status;
}

static int measure_point(const options *o, lnt_ctx *ctx, int kind, int at, costs *c)
{
    lnt_attn_desc desc;
    lnt_plan_info info;
    run_cost cost;
    int status = problem(o, kind, (int64_t)c->length[at], &desc);
    if (!status) status = describe_plan(ctx, &desc, &info);
    if (!status) status = workload_verify(ctx, &desc, PASS_FORWARD, &c->error[kind][at]);
    if (!status) status = measure_cost(ctx, &desc, PASS_FORWARD, BUDGET, &cost);
    if (status) return status;
    c->seconds[kind][at] = cost.seconds;
    c->memory[kind][at] = (double)info.workspace_bytes;
    return EXIT_OK;
}

static int measure_all(const options *o, lnt_ctx *ctx, costs *c)
{
    const int64_t last = opt_whole(o, OPT_LENGTH, LONGEST);
    int status = EXIT_OK;
    if (last < POINTS)
        return fail_usage("--length: '%s' is too short, at least %d is needed",
                          opt_text(o, OPT_LENGTH), POINTS);
    for (int i = 0; i < POINTS; i++) c->length[i] = (double)(last * (i + 1) / POINTS);
    for (int i = 0; i < POINTS; i++)
        for (int k = 0; k < KINDS && !status; k++) {
            char what[64];
            snprintf(what, sizeof what, "%.0f tokens", c->length[i]);
            progress(what, KINDS * i + k, KINDS * POINTS);
            status = measure_point(o, ctx, k, i, c);
        }
    progress_end();
    return status;
}

static void print_json(const options *o, const costs *c)
{
    for (int i = 0; i < POINTS; i++)
        for (int k = 0; k < KINDS; k++) {
            lnt_attn_desc d;
            if (problem(o, k, (int64_t)c->length[i], &d)) return;
            json line = study_line("cur");
            json_text(&line, "algorithm", d.algorithm);
            if (k) json_whole(&line, "landmarks", d.cur.landmarks);
            json_whole(&line, "batch", d.batch);
            json_whole(&line, "heads", d.heads);
            json_whole(&line, "dim", d.dim);
            json_real(&line, "length", c->length[i]);
            json_real(&line, "seconds", c->seconds[k][i]);
            json_real(&line, "speedup", c->seconds[0][i] / c->seconds[k][i]);
            json_real(&line, "workspace_bytes", c->memory[k][i]);
            json_real(&line, "relative_error", c->error[k][i]);
            json_end(&line);
        }
}

/* "cur/flash, 64 landmarks" */
static const char *kind_text(int kind, char text[TABLE_CELL])
{
    if (!kind) snprintf(text, TABLE_CELL, "softmax/tiled");
    else
        snprintf(text, TABLE_CELL, "%s, %d landmarks", kind <= COUNTS ? "cur/flash" : "cur/stored",
                 counts[(kind - 1) % COUNTS]);
    return text;
}

static void print_table(const costs *c)
{
    static const char *const headings[] = { "", "tokens", "time", "of softmax", "scratch", "error",
                                            NULL };
    table t;
    char text[TABLE_CELL];
    table_begin(&t, 1, headings);
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < POINTS; i++) {
            table_row(&t);
            table_cell(&t, "%s", i ? "" : kind_text(k, text));
            table_cell(&t, "%.0f", c->length[i]);
            study_cell(&t, c->seconds[k][i], text_seconds);
            table_cell(&t, "%.3f", c->seconds[k][i] / c->seconds[0][i]);
            study_cell(&t, c->memory[k][i], text_bytes);
            table_cell(&t, "%.1e", c->error[k][i]);
        }
    table_print(&t, stdout);
    fputs("\nForward; scratch is what a plan holds beside q, k, v and the output; the error is\n"
          "that of the algorithm against the definition, not that of cur against softmax.\n",
          stdout);
}

static int draw(const options *o, const costs *c)
{
    char text[TABLE_CELL];
    figure f = figure_begin(2, "%lld x %lld heads x %lld, forward", (long long)opt_whole(o, OPT_BATCH, 1),
                            (long long)opt_whole(o, OPT_HEADS, HEADS), (long long)opt_whole(o, OPT_DIM, DIM));
    const panel_pair p =
        study_panels(&f, "Time", "Scratch", (figure_axis){ "tokens", 0, FIGURE_PLAIN, "" });
    p.first->y = (figure_axis){ "time of a run", 10, FIGURE_PREFIXED, "s" };
    p.second->y = (figure_axis){ "scratch", 10, FIGURE_PREFIXED, "B" };
    for (int k = 0; k < KINDS; k++)
        study_series(p, k && k <= COUNTS ? FIGURE_LINE : FIGURE_DASHES, k ? (k - 1) % COUNTS : COUNTS,
                     c->length, c->seconds[k], c->memory[k], POINTS, "%s", kind_text(k, text));
    return study_draw(o, &f);
}

static int run(const options *o, lnt_ctx *ctx)
{
    costs c;
    const int status = measure_all(o, ctx, &c);
    if (status) return status;
    if (opt_given(o, OPT_JSON)) print_json(o, &c);
    else print_table(&c);
    return draw(o, &c);
}

const study study_cur = {
    .name = "cur",
    .summary = "time and workspace of cur and of softmax by length (CUR, section 5.3)",
    .takes = { [OPT_LENGTH] = true, [OPT_HEADS] = true, [OPT_DIM] = true, [OPT_BATCH] = true },
    .draws = true,
    .run = run,
};
