/* cli/cmd_demo.c - `linnet demo`: what a growing context costs softmax with its cache and linear
 * attention with its state, measured here and drawn in the terminal. */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/measure.h"
#include "cli/plot.h"
#include "cli/report.h"
#include "cli/request.h"
#include "cli/table.h"

enum { HEADS = 4, DIM = 32, POINTS = 7, FIRST_LENGTH = 256, MECHANISMS = 2 };
static const double BUDGET = 0.12; /* seconds a measurement, of which there are 28 */
static const lnt_mechanism mechanisms[MECHANISMS] = { LNT_SOFTMAX, LNT_LINEAR };

/* Whole passes use every thread; a token is too little work to share, so steps use one. */
typedef struct contexts {
    lnt_ctx *pass, *step;
} contexts;

typedef struct curves {
    double pass[POINTS];  /* seconds a token, the whole sequence at once */
    double step[POINTS];  /* seconds a token, with that many before it */
    double bytes[POINTS]; /* remembered of those */
} curves;

static int measure_point(const contexts *ctx, lnt_mechanism mechanism, double length, int at,
                         curves *out)
{
    lnt_attn_desc desc;
    if (lnt_attn_desc_init(&desc, sizeof desc)) return fail("the library does not match this tool");
    desc.mechanism = mechanism;
    desc.heads = desc.kv_heads = HEADS;
    desc.dim = desc.dim_value = DIM;
    desc.length_q = desc.length_k = (int64_t)length;
    desc.causal = 1;
    int status = measure_time(ctx->pass, &desc, PASS_FORWARD, BUDGET, &out->pass[at], NULL);
    out->pass[at] /= length;
    if (!status)
        status = measure_time(ctx->step, &desc, PASS_STEP, BUDGET, &out->step[at],
                              &out->bytes[at]);
    return status;
}

static int measure_all(const contexts *ctx, const double *lengths, curves out[MECHANISMS])
{
    int status = EXIT_OK;
    for (int i = 0; i < POINTS && !status; i++)
        for (int m = 0; m < MECHANISMS && !status; m++) {
            char what[64];
            snprintf(what, sizeof what, "%s, %.0f tokens", lnt_mechanism_name(mechanisms[m]),
                     lengths[i]);
            progress(what, MECHANISMS * i + m, MECHANISMS * POINTS);
            status = measure_point(ctx, mechanisms[m], lengths[i], i, &out[m]);
        }
    progress_end();
    return status;
}

static void print_table(const double *lengths, const curves *softmax, const curves *linear)
{
    static const char *const headings[] = { "tokens", "softmax: pass", "step",  "cache",
                                            "linear: pass", "step", "state", NULL };
    table t;
    char text[TABLE_CELL];
    table_begin(&t, 0, headings);
    for (int i = 0; i < POINTS; i++) {
        table_row(&t);
        table_cell(&t, "%.0f", lengths[i]);
        for (int m = 0; m < MECHANISMS; m++) {
            const curves *c = m ? linear : softmax;
            table_cell(&t, "%s", text_seconds(c->pass[i], text, sizeof text));
            table_cell(&t, "%s", text_seconds(c->step[i], text, sizeof text));
            table_cell(&t, "%s", text_bytes(c->bytes[i], text, sizeof text));
        }
    }
    table_print(&t, stdout);
    fputs("\npass: time a token when the sequence is attended at once; step: time of the next\n"
          "token with that many before it; cache, state: what is remembered of them.\n\n", stdout);
}

static void print_charts(const double *lengths, const curves *softmax, const curves *linear)
{
    const plot_series times[] = {
        { "softmax with its cache", softmax->step, '*', "●", 1 },
        { "linear with its state", linear->step, 'o', "○", 6 },
    };
    const plot_series memory[] = {
        { "softmax with its cache", softmax->bytes, '*', "●", 1 },
        { "linear with its state", linear->bytes, 'o', "○", 6 },
    };
    plot p = { .x = lengths, .points = POINTS, .count = MECHANISMS, .x_title = "tokens before" };
    p.title = "time of the next token";
    p.series = times;
    p.label = text_seconds;
    plot_print(&p, stdout);
    fputc('\n', stdout);
    p.title = "memory for the tokens so far";
    p.series = memory;
    p.label = text_bytes;
    plot_print(&p, stdout);
}

static void print_sentence(const double *lengths, const curves *softmax, const curves *linear)
{
    const int last = POINTS - 1;
    char step[32], bytes[32];
    printf("\nFrom %.0f to %.0f tokens the next token of softmax became %.1f times as slow and its "
           "cache %.0f times\nas large; with linear attention it took %.1f times as long (%s) and "
           "the state stayed at %s.\n",
           lengths[0], lengths[last], softmax->step[last] / softmax->step[0],
           softmax->bytes[last] / softmax->bytes[0], linear->step[last] / linear->step[0],
           text_seconds(linear->step[last], step, sizeof step),
           text_bytes(linear->bytes[last], bytes, sizeof bytes));
}

static int show(const contexts *ctx)
{
    double lengths[POINTS];
    curves found[MECHANISMS];
    const int threads = lnt_ctx_threads(ctx->pass);
    for (int i = 0; i < POINTS; i++) lengths[i] = (double)(FIRST_LENGTH << i);
    printf("Causal attention over growing lengths: %d heads x %d, f32, on cpu (%s; passes on %d\n"
           "thread%s, steps on 1).\n\n",
           HEADS, DIM, lnt_ctx_isa(ctx->pass), threads, threads == 1 ? "" : "s");
    fflush(stdout);
    const int status = measure_all(ctx, lengths, found);
    if (status) return status;
    print_table(lengths, &found[0], &found[1]);
    print_charts(lengths, &found[0], &found[1]);
    print_sentence(lengths, &found[0], &found[1]);
    return EXIT_OK;
}

static int run(const options *o)
{
    contexts ctx = { NULL, NULL };
    int status = request_context(o, 0, &ctx.pass);
    if (!status) status = request_context(o, 1, &ctx.step);
    if (!status) status = show(&ctx);
    lnt_ctx_destroy(ctx.pass);
    lnt_ctx_destroy(ctx.step);
    return status;
}

const command cmd_demo = {
    .name = "demo",
    .bit = CMD_DEMO,
    .usage = "[options]",
    .summary = "Attends over growing lengths and draws time and memory per token",
    .details = "",
    .run = run,
};
