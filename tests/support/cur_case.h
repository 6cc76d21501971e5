/* cur_case.h - a problem of CUR attention for tests. */
#ifndef LNT_TESTS_CUR_CASE_H
#define LNT_TESTS_CUR_CASE_H

#include "case.h"

enum { N = 150, D = 12, V = 7, M = 10 }; /* tokens, widths of keys and values, landmarks */

/* Of n tokens, with M landmarks. */
attn_case cur_case(int64_t n);
void cur_forward(lnt_ctx *ctx, const attn_case *c, const char *algorithm, const trial *t);
/* The landmarks of head h of sequence s; their number. */
int64_t cur_landmarks(lnt_ctx *ctx, const attn_case *c, const trial *t, int64_t s, int64_t h,
                      int64_t *queries, int64_t *keys);

#endif
