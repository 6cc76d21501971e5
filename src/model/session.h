/* model/session.h - the inside of a session. */
#ifndef LNT_MODEL_SESSION_H
#define LNT_MODEL_SESSION_H

#include "model/model.h"
#include "model/sampler.h"

enum { LNT_SESSION_CHUNK = 128 }; /* tokens of a prompt taken at once */

struct lnt_session {
    lnt_model *model;
    size_t batch;
    int64_t tokens; /* of each sequence so far */
    lnt_state **states; /* [layers] */
    lnt_network network;
    float *logits;    /* [batch,outputs] */
    int32_t *chunk;   /* [batch,LNT_SESSION_CHUNK] */
    double *scores;   /* of one sequence: outputs, or 256 */
    lnt_candidate *candidates;
};

#endif
