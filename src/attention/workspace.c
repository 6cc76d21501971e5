/* attention/workspace.c - an arena for the arrays of a problem, and one for random directions and scratch. */
#include "attention/workspace.h"

#include <stdio.h>
#include <string.h>

#include "attention/linear/feature.h"
#include "cpu/kernels.h"

/* Arrays of the problem, our own copies. */
static void lay_out_arrays(lnt_arena *arena, const lnt_attn_desc *p, lnt_attn_desc *out)
{
    double *decay = lnt_arena_take(arena, p->decay ? (size_t)p->kv_heads : 0, sizeof *decay);
    out->decay = p->decay ? decay : NULL;
    double *coefficients =
        lnt_arena_take(arena, p->taylor.coefficients ? (size_t)p->taylor.terms : 0, sizeof *coefficients);
    out->taylor.coefficients = p->taylor.coefficients ? coefficients : NULL;
    double *temperature =
        lnt_arena_take(arena, p->taylor.temperature ? (size_t)p->heads : 0, sizeof *temperature);
    out->taylor.temperature = p->taylor.temperature ? temperature : NULL;
    double *center =
        lnt_arena_take(arena, p->taylor.center ? (size_t)(p->kv_heads * p->dim) : 0, sizeof *center);
    out->taylor.center = p->taylor.center ? center : NULL;
    double *slopes = lnt_arena_take(arena, p->softmax.slopes ? (size_t)p->heads : 0, sizeof *slopes);
    out->softmax.slopes = p->softmax.slopes ? slopes : NULL;
    int64_t *pin = lnt_arena_take(arena, p->cur.pin ? (size_t)p->cur.pins : 0, sizeof *pin);
    out->cur.pin = p->cur.pin ? pin : NULL;
}

static void lay_out(lnt_arena *arena, const lnt_algo *const *algos, int count, lnt_workspace *work)
{
    const lnt_attn_desc *p = &work->p;
    size_t shared = 0, scratch = 0;
    for (int i = 0; i < count; i++) {
        const size_t s = algos[i]->shared(p), t = algos[i]->scratch(p);
        shared = s > shared ? s : shared;
        scratch = t > scratch ? t : scratch;
    }
    const size_t weights = lnt_feature_bytes(p);
    work->weights = lnt_arena_take(arena, weights, 1);
    if (!weights) work->weights = NULL;
    work->shared = lnt_arena_take(arena, shared, 1);
    work->scratch_stride = scratch;
    work->scratch = lnt_arena_take(arena, (size_t)work->ctx->threads, scratch);
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

lnt_status lnt_workspace_open(lnt_ctx *ctx, const lnt_attn_desc *resolved, lnt_workspace *out)
{
    *out = (lnt_workspace){ .ctx = ctx, .p = *resolved };
    out->p.algorithm = NULL; /* the caller's string may go */
    lnt_arena counting = { 0 };
    lay_out_arrays(&counting, resolved, &out->p);
    const lnt_status status = lnt_arena_open(ctx, &counting, "the problem", &out->arrays);
    if (status) return status;
    lay_out_arrays(&out->arrays, resolved, &out->p);
    copy_doubles(out->p.decay, resolved->decay, resolved->kv_heads);
    copy_doubles(out->p.taylor.coefficients, resolved->taylor.coefficients, resolved->taylor.terms);
    copy_doubles(out->p.taylor.temperature, resolved->taylor.temperature, resolved->heads);
    copy_doubles(out->p.taylor.center, resolved->taylor.center, resolved->kv_heads * resolved->dim);
    copy_doubles(out->p.softmax.slopes, resolved->softmax.slopes, resolved->heads);
    if (resolved->cur.pin)
        memcpy((int64_t *)(uintptr_t)out->p.cur.pin, resolved->cur.pin,
               (size_t)resolved->cur.pins * sizeof *resolved->cur.pin);
    ctx->users++;
    return LNT_OK;
}

/* What there is to say where there is no room for p. */
static lnt_status explain(lnt_ctx *ctx, const lnt_attn_desc *p, lnt_status status)
{
    return status && lnt_problem_sums(p) == LNT_TAYLOR ? explain_taylor(ctx, p) : status;
}

lnt_status lnt_workspace_count(lnt_ctx *ctx, const lnt_attn_desc *resolved, const lnt_algo *algo,
                               size_t *bytes)
{
    lnt_workspace work = { .ctx = ctx, .p = *resolved };
    lnt_arena counting = { 0 };
    lay_out(&counting, &algo, 1, &work);
    *bytes = lnt_arena_counted(&counting);
    if ((double)*bytes <= lnt_machine_bytes()) return LNT_OK;
    return explain(ctx, resolved, lnt_fail(ctx, LNT_ERR_MEMORY, "out of memory for the workspace"));
}

lnt_status lnt_workspace_make_room(lnt_workspace *work, const lnt_algo *const *algos, int count)
{
    const lnt_attn_desc *p = &work->p;
    lnt_arena counting = { 0 };
    lay_out(&counting, algos, count, work);
    const lnt_status status = lnt_problem_sums(p) == LNT_TAYLOR && finds_no_room(p)
                                  ? refuse_heads(work->ctx, p)
                                  : lnt_arena_open(work->ctx, &counting, "workspace", &work->memory);
    if (status) return explain(work->ctx, p, status);
    lay_out(&work->memory, algos, count, work);
    return work->weights ? lnt_feature_draw(work->ctx, p, work->weights) : LNT_OK;
}

void lnt_workspace_close(lnt_workspace *work)
{
    work->ctx->users--;
    lnt_arena_close(work->ctx, &work->memory);
    lnt_arena_close(work->ctx, &work->arrays);
}

static const void *kernels_of(const lnt_workspace *work)
{
    const int isa = work->ctx->isa;
    if (work->p.dtype == LNT_F64) return lnt_kernels_get_f64(isa);
    return lnt_kernels_get_f32(isa);
}

lnt_run lnt_workspace_run(const lnt_workspace *work, const lnt_attn_io *io, int64_t sequences)
{
    return (lnt_run){ .ctx = work->ctx,
                      .p = &work->p,
                      .kernels = kernels_of(work),
                      .weights = work->weights,
                      .shared = work->shared,
                      .scratch = work->scratch,
                      .scratch_stride = work->scratch_stride,
                      .io = io,
                      .sequences = sequences,
                      .causal = work->p.causal != 0,
                      .sign = 1 };
}
