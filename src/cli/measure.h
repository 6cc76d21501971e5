/* cli/measure.h - times one pass of one problem, and this machine's peaks beside it. */
#ifndef LNT_CLI_MEASURE_H
#define LNT_CLI_MEASURE_H

#include "cli/options.h"
#include "linnet.h"

typedef struct measurement {
    lnt_attn_desc desc; /* as measured: step is causal */
    pass_kind pass;
    char algorithm[64];
    const char *isa;
    int threads;
    double seconds; /* median of a run; of one step of the whole batch */
    double ns_per_token;
    double gflops, peak_gflops;
    double gbytes, peak_gbytes; /* per second */
    double relative_error;
} measurement;

/* Verifies, then times beside the peaks.  EXIT_OK, or one sentence and EXIT_FAILED. */
int measure(lnt_ctx *ctx, const lnt_attn_desc *desc, pass_kind pass, measurement *out);

/* Only times, for about `budget` seconds or one run: the least, which says what the work itself
 * costs on a machine that has other things to do.  *touched, which may be NULL, becomes the
 * bytes of its state that a step has to touch. */
int measure_time(lnt_ctx *ctx, const lnt_attn_desc *desc, pass_kind pass, double budget,
                 double *seconds, double *touched);

#endif
