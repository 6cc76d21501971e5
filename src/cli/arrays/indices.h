/* cli/arrays/indices.h - the landmark tokens of cur as an array to write. */
#ifndef LNT_CLI_ARRAYS_INDICES_H
#define LNT_CLI_ARRAYS_INDICES_H

#include "cli/arrays/operands.h"
#include "linnet.h"

/* out becomes [B,H,2,M], of queries and of keys, its data from malloc; M is 0 where the answer is
 * exact.  EXIT_OK, or one sentence and EXIT_FAILED. */
int indices_read(lnt_ctx *ctx, lnt_plan *plan, const lnt_attn_desc *desc, const operands *in,
                 lnt_array *out);

#endif
