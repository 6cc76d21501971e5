/* model/recent.h - the last tokens that each sequence of a session was fed, for the repetition penalty. */
#ifndef LNT_MODEL_RECENT_H
#define LNT_MODEL_RECENT_H

#include "core/context.h"

enum {
    LNT_RECENT_TOKENS = 1024, /* of each sequence */
    LNT_PENALTY_TOKENS = 256  /* of these that a penalty counts where the caller does not say */
};

typedef struct lnt_recent {
    int32_t *tokens; /* [batch,LNT_RECENT_TOKENS], each a ring: the token number i is at i modulo its room */
    size_t batch;
    uint64_t fed; /* tokens of each sequence */
} lnt_recent;

lnt_status lnt_recent_open(lnt_ctx *ctx, size_t batch, lnt_recent *out);
void lnt_recent_close(lnt_ctx *ctx, lnt_recent *recent); /* a zeroed one is fine */

/* tokens [batch,count] were fed. */
void lnt_recent_add(lnt_recent *recent, const int32_t *tokens, size_t count);
/* Of sequence b the last `most`, or as many as there are, the newest first; returns how many. */
size_t lnt_recent_last(const lnt_recent *recent, size_t b, size_t most, int32_t *tokens);

#endif
