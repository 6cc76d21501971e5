/* model/session.h - the internals of a session. */
#ifndef LNT_MODEL_SESSION_H
#define LNT_MODEL_SESSION_H

#include "model/model.h"
#include "model/recent.h"
#include "model/sampler.h"

/* Tokens of a prompt taken at once: of all sequences together, but no fewer of each. */
enum { LNT_SESSION_TOKENS = 512, LNT_SESSION_EACH = 128 };

struct lnt_session {
    const lnt_model *model;
    size_t batch, length; /* sequences, and tokens of each that are taken at once */
    lnt_cache cache;      /* how layers of softmax store keys and values */
    int64_t tokens;       /* of each sequence so far */
    lnt_state **states; /* [layers] */
    lnt_network network;
    float *logits;    /* [batch,outputs] */
    int32_t *chunk;   /* [batch,length] */
    double *scores;   /* of one sequence: outputs, or 256 */
    lnt_candidate *candidates;
    lnt_recent recent;
    char *note; /* the caller's; NULL: none */
};

/* Before tokens [batch,count] are fed: that they may be, and that every layer has room for them. */
lnt_status lnt_session_begin(lnt_session *session, const int32_t *tokens, int64_t count);
/* Feeds as many of them, from `at` on, as are taken at once: *taken.  Headless: without logits, which
 * lnt_network_logits gives of any rows of network.top [batch,taken,dim]. */
lnt_status lnt_session_chunk(lnt_session *session, const int32_t *tokens, int64_t count, int64_t at,
                             bool headless, size_t *taken);

#endif
