/* cli/arrays/compare.h - compares a result with exact softmax attention on the same q, k, v. */
#ifndef LNT_CLI_ARRAYS_COMPARE_H
#define LNT_CLI_ARRAYS_COMPARE_H

#include "cli/arrays/operands.h"
#include "cli/arrays/scores.h"
#include "cli/show/json.h"

enum { MAX_STRETCHES = 8 };

typedef struct comparison {
    double relative;                 /* |y - s| / |s| over everything */
    double mean, median, p95, most;  /* of the elements |y - s| */
    double softmax_rms;              /* of the elements of s, to hold them against */
    double by_position[MAX_STRETCHES]; /* mean |y - s| of equal stretches of the queries */
    int stretches;
    score_spread scores;
    char trust[400];                 /* one sentence */
} comparison;

/* y [B,H,n,m] is the result of desc on the arrays of `in`.  EXIT_OK, or one sentence and
 * EXIT_FAILED. */
int compare_softmax(lnt_ctx *ctx, const lnt_attn_desc *desc, const operands *in,
                    const lnt_tensor *y, int64_t nonpositive, comparison *out);

void comparison_json(json *line, const lnt_attn_desc *desc, const comparison *c);
void comparison_print(const lnt_attn_desc *desc, const comparison *c);

#endif
