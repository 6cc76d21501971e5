/* cli/measure/measure.h - times one pass of one problem beside the peaks of this machine. */
#ifndef LNT_CLI_MEASURE_MEASURE_H
#define LNT_CLI_MEASURE_MEASURE_H

#include "cli/options.h"
#include "linnet.h"

typedef struct measurement {
    lnt_attn_desc desc; /* as measured: step is causal */
    pass_kind pass;
    char algorithm[64];
    const char *device; /* "cpu", "cuda" */
    bool apart;         /* its memory is not the program's */
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

/* What a run costs, without peaks beside it. */
typedef struct run_cost {
    double seconds; /* the least: what the work itself costs on a machine with other things to do */
    double memory;  /* bytes that have to be there, q and the output aside: keys and values, or the
                     * state in their place, and for a whole pass the scratch of its plan */
} run_cost;

/* Only times, for about `budget` seconds or one run. */
int measure_cost(lnt_ctx *ctx, const lnt_attn_desc *desc, pass_kind pass, double budget,
                 run_cost *out);

#endif
