/* cli/measure/workload.h - the random data of a measurement, and its verification. */
#ifndef LNT_CLI_MEASURE_WORKLOAD_H
#define LNT_CLI_MEASURE_WORKLOAD_H

#include "cli/options.h"
#include "linnet.h"

/* q, k, v, out of `length` rows; the gradients only for the backward pass. */
typedef struct workload {
    lnt_tensor q, k, v, out, dout, dq, dk, dv;
} workload;

/* Each gives EXIT_OK, or says one sentence and gives EXIT_FAILED. */

int workload_make(lnt_ctx *ctx, const lnt_attn_desc *desc, int64_t length, bool gradients,
                  workload *out);
void workload_free(workload *w); /* a zeroed one is fine */
/* The same where the context computes: on a GPU copies, else the host's own. */
lnt_status workload_place(lnt_ctx *ctx, const workload *host, workload *there);
void workload_leave(lnt_ctx *ctx, workload *there); /* a zeroed one is fine */
lnt_attn_io workload_io(const workload *w);
lnt_attn_grads workload_grads(const workload *w);

/* Computes a part of the problem and holds it against the definition in double.
 * *error is the relative root mean square error; more than the dtype excuses is a failure.
 *   forward   sampled rows of the whole problem, first and last included
 *   step      the first tokens from an empty state, one by one
 *   backward  a shorter problem: directional derivatives against central differences */
int workload_verify(lnt_ctx *ctx, const lnt_attn_desc *desc, pass_kind pass, double *error);

#endif
