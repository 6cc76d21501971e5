/* cli/request.h - turns options into what the library takes: a context and a descriptor. */
#ifndef LNT_CLI_REQUEST_H
#define LNT_CLI_REQUEST_H

#include "cli/options.h"
#include "linnet.h"

/* Each gives EXIT_OK, or says one sentence and gives another exit status. */

/* A context with that many threads; 0: those of --threads, or all.  The first is on the CPU, the
 * second where --device says. */
int request_host(const options *o, int threads, lnt_ctx **out);
int request_context(const options *o, int threads, lnt_ctx **out);

/* Times the algorithms, so that plans are chosen by it; with --calibration it loads the file instead, or
 * saves it if there is none. */
int request_calibration(const options *o, lnt_ctx *ctx);

/* A descriptor as the library begins it. */
int request_defaults(lnt_attn_desc *desc);

/* The mechanism with its options, the dtype (f32) and the algorithm.  Shapes stay at their
 * defaults; desc points into o. */
int request_mechanism(const options *o, lnt_attn_desc *desc);

/* The same for a model, which says by itself what is causal, of those options that are given; without
 * --mechanism it is that of nothing, and no option of a mechanism may be there. */
int request_attention(const options *o, lnt_attn_desc *desc);

/* That the pinned tokens are some of the sequence, whose length must be known by now. */
int request_pins(const lnt_attn_desc *desc);

/* desc->decay, temperature or slopes, one number per head, whose number must be known by now; the caller
 * frees *owned. */
int request_per_head(const options *o, lnt_attn_desc *desc, double **owned);

/* desc->center or desc->center_mean with --center, shapes known; the caller frees *owned. */
int request_center(const options *o, lnt_ctx *ctx, lnt_attn_desc *desc, double **owned);

/* desc->coefficients with --coefficients fit, for --sigma or else sigma. */
int request_fit(const options *o, lnt_ctx *ctx, double sigma, lnt_attn_desc *desc,
                double fitted[MAX_TERMS]);

/* A problem by options alone: 8 heads of 64, 4096 tokens and one sequence where they do not say.  desc
 * points into the rest. */
typedef struct requested {
    lnt_ctx *ctx;
    lnt_attn_desc desc;
    double *per_head, *center, fitted[MAX_TERMS];
} requested;

int request_open(const options *o, requested *r);
void request_close(requested *r); /* also after request_open failed */

#endif
