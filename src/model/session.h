/* model/session.h - the internals of a session. */
#ifndef LNT_MODEL_SESSION_H
#define LNT_MODEL_SESSION_H

#include "model/model.h"
#include "model/sampler.h"

/* Tokens of a prompt taken at once: of all sequences together, but no fewer of each. */
enum { LNT_SESSION_TOKENS = 512, LNT_SESSION_EACH = 128 };

struct lnt_session {
    const lnt_model *model;
    size_t batch, length; /* sequences, and tokens of each that are taken at once */
    int64_t tokens;       /* of each sequence so far */
    lnt_state **states; /* [layers] */
    lnt_network network;
    float *logits;    /* [batch,outputs] */
    int32_t *chunk;   /* [batch,length] */
    double *scores;   /* of one sequence: outputs, or 256 */
    lnt_candidate *candidates;
};

#endif
