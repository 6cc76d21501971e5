/* attention/cur/reference_cur.h - the oracle of CUR attention, for attention/reference.c. */
#ifndef LNT_ATTENTION_CUR_REFERENCE_CUR_H
#define LNT_ATTENTION_CUR_REFERENCE_CUR_H

#include "attention/io.h"

/* Row i, within the sequence, of head h; p is resolved and io checked.  out [m]. */
lnt_status lnt_reference_cur_row(lnt_ctx *ctx, const lnt_attn_desc *p, const lnt_attn_io *io,
                                 const lnt_sequence *seq, int64_t h, int64_t i, double *out);

#endif
