/* attention/cur/cur.h - CUR attention: its options, and which tokens are its landmarks. */
#ifndef LNT_ATTENTION_CUR_CUR_H
#define LNT_ATTENTION_CUR_CUR_H

#include "attention/io.h"
#include "attention/problem.h"

enum { LNT_MAX_PINV_ITERATIONS = 64 };

/* What is computed of a sequence.  With no more keys than landmarks every key is one, so that C is
 * the attention matrix; with no more queries, R is. */
typedef enum lnt_cur_mode { LNT_CUR_LANDMARKS, LNT_CUR_ALL_KEYS, LNT_CUR_ALL_QUERIES } lnt_cur_mode;

static inline lnt_cur_mode lnt_cur_mode_of(const lnt_attn_desc *p, const lnt_sequence *seq)
{
    if (seq->nk <= p->cur.landmarks) return LNT_CUR_ALL_KEYS;
    return seq->nq <= p->cur.landmarks ? LNT_CUR_ALL_QUERIES : LNT_CUR_LANDMARKS;
}

/* Whether landmarks are means of segments, token floor(i n / landmarks) to before the next. */
static inline bool lnt_cur_query_means(const lnt_attn_desc *p)
{
    return p->cur.select == LNT_SELECT_MEAN;
}

static inline bool lnt_cur_key_means(const lnt_attn_desc *p)
{
    return p->cur.select == LNT_SELECT_MEAN || p->cur.select == LNT_SELECT_STEP_MEAN;
}

/* Whether landmark keys are means of the keys nearest to each start. */
static inline bool lnt_cur_clusters(const lnt_attn_desc *p)
{
    return p->cur.select == LNT_SELECT_KMEANS;
}

/* Whether y of a landmark is its row of RV. */
static inline bool lnt_cur_copies_rows(const lnt_attn_desc *p)
{
    return p->cur.copy_rows && !lnt_cur_query_means(p);
}

/* The landmarks of head h in a sequence of mode LNT_CUR_LANDMARKS: rows of q and of k within the
 * sequence, ascending; queries and keys [landmarks].  scratch has lnt_landmark_scratch bytes. */
void lnt_landmark_choose(const lnt_ctx *ctx, const lnt_attn_desc *p, const lnt_attn_io *io,
                         const lnt_sequence *seq, int64_t h, int64_t *queries, int64_t *keys,
                         double *scratch);
size_t lnt_landmark_scratch(const lnt_attn_desc *p);

#endif
