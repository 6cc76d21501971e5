/* nn/block.c - the residual block of a transformer, its norms before the branches or after the sums:
 *
 *     pre    m = x + attend(norm1(x)),    out = m + feed(norm2(m))
 *     post   m = norm1(x + attend(x)),    out = norm2(m + feed(m))
 *
 * attend = out-projection of attention, feed = down(act(up .)), each under dropout and drop path.
 * With moving averages attend is MEGA's gated attention (mega.c), of norm1(x) and x.
 * Dense products are 2 n (width + heads head_dim + (inputs + 1) ff) dim operations forward. */
#include "nn/block.h"

#include <string.h>

#include "nn/dense.h"
#include "nn/dropout.h"
#include "nn/position.h"

/* Of q, k and v side by side, which MEGA has in its own way. */
static size_t qkv_width(const lnt_block_shape *s)
{
    return s->averages ? 0 : (s->heads + 2 * s->kv_heads) * s->head_dim;
}

static size_t mixed_width(const lnt_block_shape *s) { return s->averages ? 0 : s->heads * s->head_dim; }

static size_t up_width(const lnt_block_shape *s) { return s->ff * lnt_act_inputs(s->activation); }

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

void lnt_block_keep(lnt_arena *arena, const lnt_block_shape *s, const lnt_attention *attention,
                    size_t n, lnt_block_kept *out)
{
    out->first = nn_take(arena, n, s->dim);
    out->stat1 = nn_take(arena, n, 2);
    out->stat2 = nn_take(arena, n, 2);
    out->qkv = nn_take(arena, n, qkv_width(s));
    out->mixed = nn_take(arena, n, mixed_width(s));
    out->notes = lnt_arena_take(arena, attention->notes, 1);
    out->middle = nn_take(arena, n, s->dim);
    out->second = nn_take(arena, n, s->dim);
    out->up = nn_take(arena, n, up_width(s));
    out->hidden = nn_take(arena, n, s->ff);
    out->out = nn_take(arena, n, s->dim);
    const lnt_mega_shape mega = lnt_block_mega(s);
    if (s->averages) lnt_mega_keep(arena, &mega, n, &out->mega);
    out->mega.notes = out->notes;
}

void lnt_block_room(lnt_arena *arena, const lnt_block_shape *s, size_t batch, size_t length,
                    size_t threads, lnt_block_scratch *out)
{
    const size_t n = batch * length;
    const lnt_mega_shape mega = lnt_block_mega(s);
    if (s->averages) lnt_mega_room(arena, &mega, n, length, threads, &out->mega);
    out->dim = nn_take(arena, n, s->dim);
    out->wide = nn_take(arena, n, larger(qkv_width(s), up_width(s)));
    out->half = nn_take(arena, n, larger(mixed_width(s), s->ff));
}

static bool drops(const lnt_block_shape *s, const lnt_pass *pass)
{
    return pass->training && (s->dropout > 0 || s->drop_path > 0);
}

/* Dropout and drop path of branch 0 or 1, on its values or on their gradients. */
static void drop(const lnt_block_shape *s, const lnt_pass *pass, uint64_t branch, real *x)
{
    const size_t size = pass->length * s->dim;
    if (!drops(s, pass)) return;
    lnt_dropout(pass->ctx, lnt_rng_split(pass->rng, 2 * branch), s->dropout, x, pass->batch * size);
    lnt_drop_path(pass->ctx, lnt_rng_split(pass->rng, 2 * branch + 1), s->drop_path, x, pass->batch,
                  size);
}

static void turn(const lnt_block_shape *s, const lnt_pass *pass, real *qkv, int sign)
{
    if (s->rotary) /* the heads of q and k stand side by side */
        lnt_rotary_turn(pass->ctx, qkv, qkv_width(s), pass->turn, sign, pass->batch, pass->length,
                        s->heads + s->kv_heads, s->head_dim);
}

static void norm(const lnt_block_shape *s, const lnt_pass *pass, real *const *w, int gain,
                 const real *x, real *y, real *stat)
{
    lnt_norm_forward(pass->ctx, s->norm, x, w[gain], w[gain + 1], y, stat,
                     pass->batch * pass->length, s->dim);
}

static lnt_status attend(const lnt_block_shape *s, const lnt_attention *attention,
                         const lnt_pass *pass, real *const *w, const real *in,
                         const lnt_block_kept *kept, real *y)
{
    const size_t n = pass->batch * pass->length;
    lnt_dense_forward(pass->ctx, in, w[LNT_BLOCK_QKV], w[LNT_BLOCK_QKV_BIAS], kept->qkv, n, s->dim,
                      qkv_width(s));
    turn(s, pass, kept->qkv, 1);
    const lnt_status status =
        lnt_attention_forward(attention, kept->qkv, w[LNT_BLOCK_TEMPERATURE], pass->lengths,
                              kept->mixed, kept->notes, pass->batch, pass->length);
    if (status) return status;
    lnt_dense_forward(pass->ctx, kept->mixed, w[LNT_BLOCK_OUT], w[LNT_BLOCK_OUT_BIAS], y, n,
                      mixed_width(s), s->dim);
    drop(s, pass, 0, y);
    return LNT_OK;
}

static void feed(const lnt_block_shape *s, const lnt_pass *pass, real *const *w, const real *in,
                 const lnt_block_kept *kept, real *y)
{
    const size_t n = pass->batch * pass->length;
    lnt_dense_forward(pass->ctx, in, w[LNT_BLOCK_UP], w[LNT_BLOCK_UP_BIAS], kept->up, n, s->dim,
                      up_width(s));
    lnt_act_forward(pass->ctx, s->activation, kept->up, kept->hidden, n, s->ff);
    lnt_dense_forward(pass->ctx, kept->hidden, w[LNT_BLOCK_DOWN], w[LNT_BLOCK_DOWN_BIAS], y, n,
                      s->ff, s->dim);
    drop(s, pass, 1, y);
}

static lnt_status attend_gated(const lnt_block_shape *s, const lnt_attention *attention,
                               const lnt_pass *pass, real *const *w, const real *x,
                               const lnt_block_kept *kept, real *y)
{
    const lnt_mega_shape mega = lnt_block_mega(s);
    const lnt_status status =
        lnt_mega_forward(&mega, attention, pass, w + LNT_BLOCK_MEGA, x, kept->first, &kept->mega, y);
    if (!status) drop(s, pass, 0, y);
    return status;
}

lnt_status lnt_block_forward(const lnt_block_shape *s, const lnt_attention *attention,
                             const lnt_pass *pass, real *const *w, const real *x,
                             const lnt_block_kept *kept)
{
    const size_t count = pass->batch * pass->length * s->dim;
    real *sum1 = s->post ? kept->first : kept->middle, *sum2 = s->post ? kept->second : kept->out;
    if (!s->post) norm(s, pass, w, LNT_BLOCK_NORM1_GAIN, x, kept->first, kept->stat1);
    const lnt_status status =
        s->averages ? attend_gated(s, attention, pass, w, x, kept, sum1)
                    : attend(s, attention, pass, w, s->post ? x : kept->first, kept, sum1);
    if (status) return status;
    nn_add(pass->ctx, sum1, x, count);
    if (s->post) norm(s, pass, w, LNT_BLOCK_NORM1_GAIN, kept->first, kept->middle, kept->stat1);
    else norm(s, pass, w, LNT_BLOCK_NORM2_GAIN, kept->middle, kept->second, kept->stat2);
    feed(s, pass, w, s->post ? kept->middle : kept->second, kept, sum2);
    nn_add(pass->ctx, sum2, kept->middle, count);
    if (s->post) norm(s, pass, w, LNT_BLOCK_NORM2_GAIN, kept->second, kept->out, kept->stat2);
    return LNT_OK;
}

/* ---- backward ------------------------------------------------------------------------------ */

/* The gradient of a branch's values: that of the sum, dropped as they were. */
static const real *branch_grad(const lnt_block_shape *s, const lnt_pass *pass, uint64_t branch,
                               const real *grad, real *own)
{
    if (!drops(s, pass)) return grad;
    memcpy(own, grad, pass->batch * pass->length * s->dim * sizeof *own);
    drop(s, pass, branch, own);
    return own;
}

static void norm_back(const lnt_block_shape *s, const lnt_pass *pass, real *const *w,
                      real *const *g, int gain, const real *x, const real *stat, const real *dy,
                      real *dx, bool accumulate)
{
    lnt_norm_backward(pass->ctx, s->norm, x, w[gain], stat, dy, dx, accumulate, g[gain],
                      g[gain + 1], pass->batch * pass->length, s->dim);
}

/* dy, which may be room->dim, of the branch's values to room->dim, of what went into it. */
static void feed_back(const lnt_block_shape *s, const lnt_pass *pass, real *const *w,
                      real *const *g, const real *in, const lnt_block_kept *kept,
                      const lnt_block_scratch *room, const real *dy)
{
    const size_t n = pass->batch * pass->length;
    real *up = lnt_act_inputs(s->activation) == 1 ? room->half : room->wide; /* in place if it fits */
    lnt_dense_backward(pass->ctx, kept->hidden, w[LNT_BLOCK_DOWN], dy, room->half,
                       g[LNT_BLOCK_DOWN], g[LNT_BLOCK_DOWN_BIAS], n, s->ff, s->dim);
    lnt_act_backward(pass->ctx, s->activation, kept->up, kept->hidden, room->half, up, n, s->ff);
    lnt_dense_backward(pass->ctx, in, w[LNT_BLOCK_UP], up, room->dim, g[LNT_BLOCK_UP],
                       g[LNT_BLOCK_UP_BIAS], n, s->dim, up_width(s));
}

static lnt_status attend_back(const lnt_block_shape *s, const lnt_attention *attention,
                              const lnt_pass *pass, real *const *w, real *const *g, const real *in,
                              const lnt_block_kept *kept, const lnt_block_scratch *room,
                              const real *dy)
{
    const size_t n = pass->batch * pass->length;
    lnt_dense_backward(pass->ctx, kept->mixed, w[LNT_BLOCK_OUT], dy, room->half, g[LNT_BLOCK_OUT],
                       g[LNT_BLOCK_OUT_BIAS], n, mixed_width(s), s->dim);
    const lnt_status status = lnt_attention_backward(
        attention, kept->qkv, w[LNT_BLOCK_TEMPERATURE], pass->lengths, kept->mixed, kept->notes,
        room->half, room->wide, g[LNT_BLOCK_TEMPERATURE], pass->batch, pass->length);
    if (status) return status;
    turn(s, pass, room->wide, -1);
    lnt_dense_backward(pass->ctx, in, w[LNT_BLOCK_QKV], room->wide, room->dim, g[LNT_BLOCK_QKV],
                       g[LNT_BLOCK_QKV_BIAS], n, s->dim, qkv_width(s));
    return LNT_OK;
}

/* As attend_back; what does not pass the norm goes straight to grad, that of x. */
static lnt_status attend_gated_back(const lnt_block_shape *s, const lnt_attention *attention,
                                    const lnt_pass *pass, real *const *w, real *const *g,
                                    const real *x, const lnt_block_kept *kept,
                                    const lnt_block_scratch *room, const real *dy, real *grad)
{
    const lnt_mega_shape mega = lnt_block_mega(s);
    return lnt_mega_backward(&mega, attention, pass, w + LNT_BLOCK_MEGA, g + LNT_BLOCK_MEGA, x,
                             kept->first, &kept->mega, &room->mega, dy, grad, room->dim);
}

static lnt_status backward_pre(const lnt_block_shape *s, const lnt_attention *attention,
                               const lnt_pass *pass, real *const *w, real *const *g, const real *x,
                               const lnt_block_kept *kept, const lnt_block_scratch *room,
                               real *grad)
{
    feed_back(s, pass, w, g, kept->second, kept, room, branch_grad(s, pass, 1, grad, room->dim));
    norm_back(s, pass, w, g, LNT_BLOCK_NORM2_GAIN, kept->middle, kept->stat2, room->dim, grad, true);
    const real *dy = branch_grad(s, pass, 0, grad, room->dim);
    const lnt_status status =
        s->averages ? attend_gated_back(s, attention, pass, w, g, x, kept, room, dy, grad)
                    : attend_back(s, attention, pass, w, g, kept->first, kept, room, dy);
    if (status) return status;
    norm_back(s, pass, w, g, LNT_BLOCK_NORM1_GAIN, x, kept->stat1, room->dim, grad, true);
    return LNT_OK;
}

static lnt_status backward_post(const lnt_block_shape *s, const lnt_attention *attention,
                                const lnt_pass *pass, real *const *w, real *const *g,
                                const real *x, const lnt_block_kept *kept,
                                const lnt_block_scratch *room, real *grad)
{
    const size_t count = pass->batch * pass->length * s->dim;
    norm_back(s, pass, w, g, LNT_BLOCK_NORM2_GAIN, kept->second, kept->stat2, grad, grad, false);
    feed_back(s, pass, w, g, kept->middle, kept, room, branch_grad(s, pass, 1, grad, room->dim));
    nn_add(pass->ctx, grad, room->dim, count);
    norm_back(s, pass, w, g, LNT_BLOCK_NORM1_GAIN, kept->first, kept->stat1, grad, grad, false);
    const lnt_status status = attend_back(s, attention, pass, w, g, x, kept, room,
                                          branch_grad(s, pass, 0, grad, room->dim));
    if (status) return status;
    nn_add(pass->ctx, grad, room->dim, count);
    return LNT_OK;
}

lnt_status lnt_block_backward(const lnt_block_shape *s, const lnt_attention *attention,
                              const lnt_pass *pass, real *const *w, real *const *g, const real *x,
                              const lnt_block_kept *kept, const lnt_block_scratch *room, real *grad)
{
    return (s->post ? backward_post : backward_pre)(s, attention, pass, w, g, x, kept, room, grad);
}
