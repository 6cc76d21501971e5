/* cli/cmd_demo.c - `linnet demo`: measures the cost of softmax, Taylor and linear attention over growing
 * lengths and draws it in the terminal. */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/request.h"
#include "cli/show/amount.h"
#include "cli/show/picture.h"
#include "cli/show/report.h"
#include "cli/study/crossover.h"

static int run(const options *o)
{
    lnt_ctx *ctx = NULL;
    int status = picture_check(o, OPT_SVG, ".svg");
    if (!status) status = request_context(o, 0, &ctx);
    if (!status && !opt_given(o, OPT_JSON)) {
        const int threads = lnt_ctx_threads(ctx);
        printf("Causal attention over growing lengths, f32, on cpu (%s, %d thread%s).\n\n",
               lnt_ctx_isa(ctx), threads, plural(threads));
        fflush(stdout);
    }
    if (!status) status = crossover_show(o, ctx, true);
    lnt_ctx_destroy(ctx);
    return status;
}

const command cmd_demo = {
    .name = "demo",
    .bit = CMD_DEMO,
    .usage = "[options]",
    .summary = "Attends over growing lengths and draws time and memory per token",
    .details = "\nIt is the study crossover of 'linnet bench', in the terminal.\n",
    .run = run,
};
