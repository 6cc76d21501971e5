/* cli/arrays/operands.h - reads the arrays Q, K, V of `attend`, checks them against each other, converts
 * them. */
#ifndef LNT_CLI_ARRAYS_OPERANDS_H
#define LNT_CLI_ARRAYS_OPERANDS_H

#include "cli/options.h"
#include "linnet.h"

typedef struct operand {
    const char *path;
    lnt_array array;      /* as in the file */
    lnt_tensor view;      /* [B,H,N,d] in the dtype to compute in */
    lnt_tensor converted; /* what view points at if the file has another dtype, else zero */
} operand;

typedef struct operands {
    operand q, k, v;
} operands;

/* Each gives EXIT_OK, or says one sentence and gives EXIT_FAILED. */

int operands_read(lnt_ctx *ctx, const options *o, operands *out);
/* Sets the shapes of desc from the arrays, or names the files that do not fit together, or the
 * option that says otherwise than they do. */
int operands_shape(const operands *in, const options *o, lnt_attn_desc *desc);
int operands_convert(operands *in, lnt_dtype dtype);
/* The deviation about 0 of the scores of desc, over some queries and keys of every head; at most 10. */
double operands_sigma(const operands *in, const lnt_attn_desc *desc);
void operands_free(lnt_ctx *ctx, operands *in); /* a zeroed one is fine */

#endif
