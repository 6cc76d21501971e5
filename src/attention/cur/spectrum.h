/* attention/cur/spectrum.h - the pseudo-inverse by iterations, found from the eigenvectors of U U^T, and the
 * way back through it; as in attention/cur/pinv.h. */
#ifndef LNT_ATTENTION_CUR_SPECTRUM_H
#define LNT_ATTENTION_CUR_SPECTRUM_H

#include "attention/cur/pinv_work.h"

/* Rows [ld] of lnt_pinv_work that it needs; numbers that forward keeps. */
size_t lnt_spectrum_rows(const lnt_attn_desc *p);
size_t lnt_spectrum_kept(const lnt_attn_desc *p);

/* kept may be NULL in both. */
lnt_pinv_report lnt_spectrum_forward(const lnt_pinv_work *w, const double *u, double *z, double *kept);
lnt_pinv_report lnt_spectrum_backward(const lnt_pinv_work *w, const double *u, const double *kept,
                                      double *z, const double *dz, double *du);

#endif
