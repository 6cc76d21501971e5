/* attention/workspace.h - what a plan and a state have in common: a resolved problem that owns its
 * arrays, and the scratch its algorithms run in. */
#ifndef LNT_ATTENTION_WORKSPACE_H
#define LNT_ATTENTION_WORKSPACE_H

#include "attention/algorithm.h"

typedef struct lnt_workspace {
    lnt_ctx *ctx;
    lnt_attn_desc p; /* resolved; its arrays are our own copies */
    lnt_arena arrays, memory;
    void *weights;
    char *shared, *scratch;
    size_t scratch_stride;
} lnt_workspace;

/* resolved comes from lnt_problem_resolve. */
lnt_status lnt_workspace_open(lnt_ctx *ctx, const lnt_attn_desc *resolved, lnt_workspace *out);
/* Scratch for any of these algorithms; without it nothing can run. */
lnt_status lnt_workspace_make_room(lnt_workspace *work, const lnt_algo *const *algos, int count);
/* How much that would be; more than the machine has is refused. */
lnt_status lnt_workspace_count(lnt_ctx *ctx, const lnt_attn_desc *resolved, const lnt_algo *algo,
                               size_t *bytes);
void lnt_workspace_close(lnt_workspace *work);

/* A run over a checked io. */
lnt_run lnt_workspace_run(const lnt_workspace *work, const lnt_attn_io *io, int64_t sequences);

#endif
