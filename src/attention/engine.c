/* attention/engine.c - one arena holds decay, random directions and scratch. */
#include "attention/engine.h"

#include <stdio.h>
#include <string.h>

#include "attention/linear/feature.h"
#include "cpu/kernels.h"

static void lay_out(lnt_arena *arena, const lnt_attn_desc *p, const lnt_algo *const *algos,
                    int count, size_t threads, lnt_engine *engine)
{
    size_t shared = 0, scratch = 0;
    for (int i = 0; i < count; i++) {
        const size_t s = algos[i]->shared(p), t = algos[i]->scratch(p);
        shared = s > shared ? s : shared;
        scratch = t > scratch ? t : scratch;
    }
    const size_t weights = lnt_feature_bytes(p);
    double *decay = lnt_arena_take(arena, p->decay ? (size_t)p->kv_heads : 0, sizeof *decay);
    engine->p.decay = p->decay ? decay : NULL;
    double *coefficients =
        lnt_arena_take(arena, p->taylor.coefficients ? (size_t)p->taylor.terms : 0, sizeof *coefficients);
    engine->p.taylor.coefficients = p->taylor.coefficients ? coefficients : NULL;
    double *temperature =
        lnt_arena_take(arena, p->taylor.temperature ? (size_t)p->heads : 0, sizeof *temperature);
    engine->p.taylor.temperature = p->taylor.temperature ? temperature : NULL;
    double *center =
        lnt_arena_take(arena, p->taylor.center ? (size_t)(p->kv_heads * p->dim) : 0, sizeof *center);
    engine->p.taylor.center = p->taylor.center ? center : NULL;
    int64_t *pin = lnt_arena_take(arena, p->cur.pin ? (size_t)p->cur.pins : 0, sizeof *pin);
    engine->p.cur.pin = p->cur.pin ? pin : NULL;
    engine->weights = lnt_arena_take(arena, weights, 1);
    if (!weights) engine->weights = NULL;
    engine->shared = lnt_arena_take(arena, shared, 1);
    engine->scratch_stride = scratch;
    engine->scratch = lnt_arena_take(arena, threads, scratch);
}

/* Our own array, const in the descriptor; nothing to do where there is none. */
static void copy_doubles(const double *to, const double *from, int64_t count)
{
    if (from) memcpy((double *)(uintptr_t)to, from, (size_t)count * sizeof *from);
}

/* Bytes of the state of one head. */
static double head_bytes(const lnt_attn_desc *p)
{
    const double number = p->dtype == LNT_F64 ? 8 : 4;
    return number * (double)(p->dim_value + 1) * (double)lnt_problem_width(p);
}

/* Whether a state of p, which is made after its scratch, is known to find no room. */
static bool finds_no_room(const lnt_attn_desc *p)
{
    const double heads = (double)p->batch * (double)p->kv_heads;
    return p->state == LNT_STATE_ALWAYS && heads * head_bytes(p) > lnt_machine_bytes();
}

static lnt_status refuse_heads(lnt_ctx *ctx, const lnt_attn_desc *p)
{
    return lnt_fail(ctx, LNT_ERR_MEMORY,
                    "out of memory: batch is %lld and kv_heads is %lld, with a state of %.3g MB for each",
                    (long long)p->batch, (long long)p->kv_heads, head_bytes(p) * 1e-6);
}

/* Memory was short, and the sentence says of what.  Where the monomials are too many, it is how many, and
 * with how many terms there would be room for their state. */
static lnt_status explain_taylor(lnt_ctx *ctx, const lnt_attn_desc *p)
{
    const double most = lnt_machine_bytes() / 2;
    lnt_attn_desc fits = *p;
    while (head_bytes(&fits) * (double)ctx->threads > most && fits.taylor.terms > 1) fits.taylor.terms--;
    if (fits.taylor.terms == p->taylor.terms) return LNT_ERR_MEMORY;
    char size[80] = "more monomials than can be counted";
    if (lnt_problem_countable(p))
        snprintf(size, sizeof size, "%.4g monomials, a state of %.3g MB for each head",
                 (double)lnt_problem_width(p), head_bytes(p) * 1e-6);
    return lnt_fail(ctx, LNT_ERR_MEMORY,
                    "taylor: %lld terms in %lld dimensions make %s; %lld term%s, of %.3g MB, would fit",
                    (long long)p->taylor.terms, (long long)p->dim, size, (long long)fits.taylor.terms,
                    fits.taylor.terms == 1 ? "" : "s", head_bytes(&fits) * 1e-6);
}

lnt_status lnt_engine_open(lnt_ctx *ctx, const lnt_attn_desc *resolved,
                           const lnt_algo *const *algos, int count, lnt_engine *out)
{
    *out = (lnt_engine){ .ctx = ctx, .p = *resolved };
    out->p.algorithm = NULL; /* the caller's string may go */
    lnt_arena counting = { 0 };
    const size_t threads = (size_t)ctx->threads;
    lay_out(&counting, resolved, algos, count, threads, out);
    const bool taylor = lnt_problem_sums(resolved) == LNT_TAYLOR;
    lnt_status status = taylor && finds_no_room(resolved)
                            ? refuse_heads(ctx, resolved)
                            : lnt_arena_open(ctx, &counting, "workspace", &out->memory);
    if (status) return taylor ? explain_taylor(ctx, resolved) : status;
    lay_out(&out->memory, resolved, algos, count, threads, out);
    copy_doubles(out->p.decay, resolved->decay, resolved->kv_heads);
    copy_doubles(out->p.taylor.coefficients, resolved->taylor.coefficients, resolved->taylor.terms);
    copy_doubles(out->p.taylor.temperature, resolved->taylor.temperature, resolved->heads);
    copy_doubles(out->p.taylor.center, resolved->taylor.center, resolved->kv_heads * resolved->dim);
    if (resolved->cur.pin)
        memcpy((int64_t *)(uintptr_t)out->p.cur.pin, resolved->cur.pin,
               (size_t)resolved->cur.pins * sizeof *resolved->cur.pin);
    ctx->engines++;
    if (out->weights) status = lnt_feature_draw(ctx, resolved, out->weights);
    if (status) lnt_engine_close(out);
    return status;
}

void lnt_engine_close(lnt_engine *engine)
{
    engine->ctx->engines--;
    lnt_arena_close(engine->ctx, &engine->memory);
}

static const void *kernels_of(const lnt_engine *engine)
{
    const int isa = engine->ctx->isa;
    if (engine->p.dtype == LNT_F64) return lnt_kernels_get_f64(isa);
    return lnt_kernels_get_f32(isa);
}

lnt_run lnt_engine_run(const lnt_engine *engine, const lnt_attn_io *io, int64_t sequences)
{
    return (lnt_run){ .ctx = engine->ctx,
                      .p = &engine->p,
                      .kernels = kernels_of(engine),
                      .weights = engine->weights,
                      .shared = engine->shared,
                      .scratch = engine->scratch,
                      .scratch_stride = engine->scratch_stride,
                      .io = io,
                      .sequences = sequences,
                      .causal = engine->p.causal != 0,
                      .sign = 1 };
}
