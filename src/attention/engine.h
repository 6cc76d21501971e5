/* attention/engine.h - what a plan and a state have in common: a resolved problem that owns its
 * arrays, and the scratch its algorithms run in. */
#ifndef LNT_ATTENTION_ENGINE_H
#define LNT_ATTENTION_ENGINE_H

#include "attention/algorithm.h"

typedef struct lnt_engine {
    lnt_ctx *ctx;
    lnt_attn_desc p; /* resolved; its arrays are our own copies */
    lnt_arena arrays, memory;
    void *weights;
    char *shared, *scratch;
    size_t scratch_stride;
} lnt_engine;

/* resolved comes from lnt_problem_resolve. */
lnt_status lnt_engine_open(lnt_ctx *ctx, const lnt_attn_desc *resolved, lnt_engine *out);
/* Scratch for any of these algorithms; without it the engine runs nothing. */
/* How much that would be; more than the machine has is refused. */
lnt_status lnt_engine_count(lnt_ctx *ctx, const lnt_attn_desc *resolved, const lnt_algo *algo, size_t *bytes);
lnt_status lnt_engine_make_room(lnt_engine *engine, const lnt_algo *const *algos, int count);
void lnt_engine_close(lnt_engine *engine);

/* A run over a checked io. */
lnt_run lnt_engine_run(const lnt_engine *engine, const lnt_attn_io *io, int64_t sequences);

#endif
