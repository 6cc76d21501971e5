/* stream.h - streaming problems: one of each mechanism and map, and what two states have in
 * common. */
#ifndef LNT_TESTS_STREAM_H
#define LNT_TESTS_STREAM_H

#include "case.h"

enum { STREAM_BATCH = 2, STREAM_HEADS = 4, STREAM_KV_HEADS = 2, STREAM_DIM = 11, STREAM_VALUE = 6 };

/* Form 0 is softmax; then every feature map, without decay (odd) and with it (even), some of them with
 * compensated sums. */
enum { STREAM_LINEAR = 1, STREAM_TAYLOR = STREAM_LINEAR + 2 * (LAST_MAP + 1) };
enum { STREAM_HYBRID = STREAM_TAYLOR + 3 }; /* TaylorShift; four terms, plain and compensated */
enum { STREAM_WINDOW = STREAM_HYBRID + 5 }; /* windows of 13, 7, 1, 64 and 40 tokens */
enum { STREAM_FORMS = STREAM_WINDOW + 2 };  /* softmax with windows of 13 and 70 tokens, slopes and a cap */

void stream_form(attn_case *c, int form, int64_t tokens, lnt_dtype dtype);
lnt_state *stream_state(lnt_ctx *ctx, const attn_case *c);
/* Appends tokens first .. first+count-1 of the trial. */
void stream_append(lnt_ctx *ctx, lnt_state *s, const trial *t, int64_t first, int64_t count);

/* The same tokens remembered, to rounding: every number of both states. */
void expect_same_state(const attn_case *c, lnt_ctx *ctx, const char *what, lnt_state *a,
                       lnt_state *b, double bound);
/* The answers of both to the trial's queries, bit for bit. */
void expect_same_answers(lnt_ctx *ctx, const attn_case *c, lnt_state *a, lnt_state *b,
                         const trial *t);

#endif
