/* cli/arrays/mask.h - the mask of `attend`: read, and set against the problem. */
#ifndef LNT_CLI_ARRAYS_MASK_H
#define LNT_CLI_ARRAYS_MASK_H

#include "linnet.h"

/* Reads the .npy of --mask as it broadcasts over [B,H,N_q,N_k] of desc.  array is to be freed, whatever is
 * returned: EXIT_OK, or EXIT_FAILED with one sentence said. */
int mask_read(lnt_ctx *ctx, const char *path, const lnt_attn_desc *desc, lnt_array *array, lnt_mask *mask);

#endif
