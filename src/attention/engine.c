/* attention/engine.c - one arena holds decay, random directions and scratch. */
#include "attention/engine.h"

#include <string.h>

#include "attention/feature.h"

size_t lnt_feature_bytes_f32(const lnt_attn_desc *p);
size_t lnt_feature_bytes_f64(const lnt_attn_desc *p);
void lnt_feature_pack_f32(const lnt_attn_desc *p, const double *w, void *weights);
void lnt_feature_pack_f64(const lnt_attn_desc *p, const double *w, void *weights);

static void lay_out(lnt_arena *arena, const lnt_attn_desc *p, const lnt_algo *const *algos,
                    int count, size_t threads, lnt_engine *engine)
{
    size_t shared = 0, scratch = 0;
    for (int i = 0; i < count; i++) {
        const size_t s = algos[i]->shared(p), t = algos[i]->scratch(p);
        shared = s > shared ? s : shared;
        scratch = t > scratch ? t : scratch;
    }
    const bool wide = p->dtype == LNT_F64;
    const size_t weights = wide ? lnt_feature_bytes_f64(p) : lnt_feature_bytes_f32(p);
    double *decay = lnt_arena_take(arena, p->decay ? (size_t)p->kv_heads : 0, sizeof *decay);
    engine->p.decay = p->decay ? decay : NULL;
    engine->weights = lnt_arena_take(arena, weights, 1);
    if (!weights) engine->weights = NULL;
    engine->shared = lnt_arena_take(arena, shared, 1);
    engine->scratch_stride = scratch;
    engine->scratch = lnt_arena_take(arena, threads, scratch);
}

static lnt_status draw_weights(lnt_engine *engine)
{
    const lnt_attn_desc *p = &engine->p;
    size_t bytes;
    if (!lnt_size_product((size_t)lnt_feature_rows(p), (size_t)p->dim, sizeof(double), &bytes))
        return lnt_fail(engine->ctx, LNT_ERR_MEMORY, "features is %lld: too many to hold",
                        (long long)p->features);
    double *w = lnt_allocate(engine->ctx, bytes, "the random features");
    if (!w) return LNT_ERR_MEMORY;
    lnt_feature_weights(p, w);
    (p->dtype == LNT_F64 ? lnt_feature_pack_f64 : lnt_feature_pack_f32)(p, w, engine->weights);
    lnt_release(engine->ctx, w, bytes);
    return LNT_OK;
}

lnt_status lnt_engine_open(lnt_ctx *ctx, const lnt_attn_desc *resolved,
                           const lnt_algo *const *algos, int count, lnt_engine *out)
{
    *out = (lnt_engine){ .ctx = ctx, .p = *resolved };
    out->p.algorithm = NULL; /* the caller's string may go */
    lnt_arena counting = { 0 };
    const size_t threads = (size_t)ctx->threads;
    lay_out(&counting, resolved, algos, count, threads, out);
    lnt_status status = lnt_arena_open(ctx, &counting, "workspace", &out->memory);
    if (status) return status;
    lay_out(&out->memory, resolved, algos, count, threads, out);
    if (resolved->decay)
        for (int64_t h = 0; h < resolved->kv_heads; h++)
            ((double *)(uintptr_t)out->p.decay)[h] = resolved->decay[h];
    if (out->weights) status = draw_weights(out);
    if (status) lnt_engine_close(out);
    return status;
}

void lnt_engine_close(lnt_engine *engine) { lnt_arena_close(engine->ctx, &engine->memory); }

lnt_run lnt_engine_run(const lnt_engine *engine, const lnt_attn_io *io, int64_t sequences)
{
    return (lnt_run){ .ctx = engine->ctx,
                      .p = &engine->p,
                      .weights = engine->weights,
                      .shared = engine->shared,
                      .scratch = engine->scratch,
                      .scratch_stride = engine->scratch_stride,
                      .io = io,
                      .sequences = sequences,
                      .causal = engine->p.causal != 0,
                      .sign = 1 };
}
