/* nn/real/block.c - the residual block of a transformer, with its norms before the branches or after the
 * sums:
 *
 *     pre    m = x + attend(norm1(x)),    out = m + feed(norm2(m))
 *     post   m = norm1(x + attend(x)),    out = norm2(m + feed(m))
 *
 * Side by side (parallel) the branches see x: out = x + attend(norm1(x)) + feed(norm2(x)).  Branches may have
 * norms after them, too, before they are added.
 * attend is attention and its output projection; feed, the feed-forward layer, is down(act(up .)).  Each is
 * under dropout and drop path.  With moving averages attend is MEGA's gated attention (mega.c) of norm1(x)
 * and x.  Dense products are 2 n (width + heads head_dim + (inputs + 1) ff) dim operations forward. */
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

void lnt_block_take_kept(lnt_arena *arena, const lnt_block_shape *s, const lnt_attention *attention,
                    size_t n, lnt_block_kept *out)
{
    out->first = nn_take(arena, n, s->dim);
    out->stat1 = nn_take(arena, n, 2);
    out->stat2 = nn_take(arena, n, 2);
    out->qkv = nn_take(arena, n, qkv_width(s));
    out->mixed = nn_take(arena, n, mixed_width(s));
    out->attention = lnt_arena_take(arena, attention->kept, 1);
    out->middle = nn_take(arena, n, s->dim);
    out->second = nn_take(arena, n, s->dim);
    out->up = nn_take(arena, n, up_width(s));
    out->hidden = nn_take(arena, n, s->ff);
    out->out = nn_take(arena, n, s->dim);
    const size_t heads = s->qk_norm ? n * (s->heads + s->kv_heads) : 0, after = s->after ? n : 0;
    out->bare = nn_take(arena, heads, s->head_dim);
    out->stat_qk = nn_take(arena, heads, 2);
    out->branch1 = nn_take(arena, after, s->dim);
    out->branch2 = nn_take(arena, after, s->dim);
    out->stat3 = nn_take(arena, after, 2);
    out->stat4 = nn_take(arena, after, 2);
    const lnt_mega_shape mega = lnt_block_mega(s);
    if (s->averages) lnt_mega_take_kept(arena, &mega, n, &out->mega);
    out->mega.attention = out->attention;
}

void lnt_block_take_scratch(lnt_arena *arena, const lnt_block_shape *s, size_t batch, size_t length,
                    size_t threads, lnt_block_scratch *out)
{
    const size_t n = batch * length;
    const lnt_mega_shape mega = lnt_block_mega(s);
    if (s->averages) lnt_mega_take_scratch(arena, &mega, n, length, threads, &out->mega);
    out->dim = nn_take(arena, n, s->dim);
    out->aside = nn_take(arena, s->after ? n : 0, s->dim);
    out->whole = nn_take(arena, s->parallel ? n : 0, s->dim);
    out->wide = nn_take(arena, n, larger(qkv_width(s), up_width(s)));
    out->half = nn_take(arena, n, larger(mixed_width(s), s->ff));
}

static bool drops(const lnt_pass *pass, const lnt_block *b)
{
    return pass->training && (b->shape->dropout > 0 || b->shape->drop_path > 0);
}

/* Dropout and drop path of branch 0 or 1, on its values or on their gradients. */
static void drop(const lnt_pass *pass, const lnt_block *b, uint64_t branch, real *x)
{
    const size_t size = pass->length * b->shape->dim;
    if (!drops(pass, b)) return;
    lnt_dropout(pass->ctx, lnt_rng_split(pass->rng, 2 * branch), b->shape->dropout, x,
                pass->batch * size);
    lnt_drop_path(pass->ctx, lnt_rng_split(pass->rng, 2 * branch + 1), b->shape->drop_path, x,
                  pass->batch, size);
}

static void rotate(const lnt_pass *pass, const lnt_block *b, real *qkv, int sign)
{
    const lnt_block_shape *s = b->shape;
    if (s->rotary) /* the heads of q and k stand side by side */
        lnt_rotary_rotate(pass, qkv, qkv_width(s), sign, s->heads + s->kv_heads, s->head_dim, s->half);
}

static lnt_mega mega_layer(const lnt_block *b)
{
    return (lnt_mega){ .shape = lnt_block_mega(b->shape), .attention = b->attention,
                       .w = b->w + LNT_BLOCK_MEGA, .kept = &b->kept->mega,
                       .g = b->g ? b->g + LNT_BLOCK_MEGA : NULL,
                       .scratch = b->scratch ? &b->scratch->mega : NULL };
}

/* The dense layer of this parameter. */
static lnt_dense dense_layer(const lnt_block *b, int param, size_t in, size_t out)
{
    lnt_dense dense = lnt_dense_of(b->w, b->g, param, in, out);
    if (b->bf16) dense.bf16 = b->bf16[param];
    dense.packed = lnt_weight_at(b->packed, (size_t)param);
    return dense;
}

static lnt_dense qkv_layer(const lnt_block *b)
{
    return dense_layer(b, LNT_BLOCK_QKV, b->shape->dim, qkv_width(b->shape));
}

static lnt_attention attention_layer(const lnt_block *b)
{
    lnt_attention attention = *b->attention;
    attention.temperature = b->w[LNT_BLOCK_TEMPERATURE];
    attention.dtemperature = b->g ? b->g[LNT_BLOCK_TEMPERATURE] : NULL;
    return attention;
}

static lnt_dense out_layer(const lnt_block *b)
{
    return dense_layer(b, LNT_BLOCK_OUT, mixed_width(b->shape), b->shape->dim);
}

static lnt_dense up_layer(const lnt_block *b)
{
    return dense_layer(b, LNT_BLOCK_UP, b->shape->dim, up_width(b->shape));
}

static lnt_dense down_layer(const lnt_block *b)
{
    return dense_layer(b, LNT_BLOCK_DOWN, b->shape->ff, b->shape->dim);
}

static lnt_qk_norm qk_norm_layer(const lnt_block *b)
{
    return (lnt_qk_norm){ .heads = b->shape->heads, .kv_heads = b->shape->kv_heads, .dim = b->shape->head_dim,
                          .epsilon = b->shape->epsilon,
                          .q = b->w[LNT_BLOCK_Q_NORM], .k = b->w[LNT_BLOCK_K_NORM],
                          .dq = b->g ? b->g[LNT_BLOCK_Q_NORM] : NULL,
                          .dk = b->g ? b->g[LNT_BLOCK_K_NORM] : NULL };
}

/* The norm whose gain is this parameter. */
static lnt_norm norm_layer(const lnt_block *b, int gain)
{
    return (lnt_norm){ .kind = b->shape->norm, .width = b->shape->dim, .epsilon = b->shape->epsilon,
                       .gain = b->w[gain], .bias = b->w[gain + 1],
                       .dgain = b->g ? b->g[gain] : NULL, .dbias = b->g ? b->g[gain + 1] : NULL };
}

/* ---- forward ------------------------------------------------------------------------------- */

static lnt_status attend(const lnt_pass *pass, const lnt_block *b, const real *in, real *y)
{
    const lnt_block_kept *kept = b->kept;
    const lnt_attention attention = attention_layer(b);
    const lnt_dense qkv = qkv_layer(b), out = out_layer(b);
    const lnt_qk_norm norm = qk_norm_layer(b);
    lnt_dense_forward(pass->ctx, &qkv, in, kept->qkv, nn_tokens(pass));
    if (b->shape->qk_norm)
        lnt_qk_norm_forward(pass, &norm, kept->qkv, qkv_width(b->shape), kept->bare, kept->stat_qk,
                            kept->mixed);
    rotate(pass, b, kept->qkv, 1);
    const lnt_status status =
        lnt_attention_forward(pass, &attention, kept->qkv, kept->mixed, kept->attention);
    if (status) return status;
    lnt_dense_forward(pass->ctx, &out, kept->mixed, y, nn_tokens(pass));
    return LNT_OK;
}

/* As attend, of x and its norm. */
static lnt_status attend_gated(const lnt_pass *pass, const lnt_block *b, const real *x, real *y)
{
    const lnt_mega mega = mega_layer(b);
    return lnt_mega_forward(pass, &mega, x, b->kept->first, y);
}

static void feed(const lnt_pass *pass, const lnt_block *b, const real *in, real *y)
{
    const lnt_block_shape *s = b->shape;
    const lnt_block_kept *kept = b->kept;
    const lnt_dense up = up_layer(b), down = down_layer(b);
    const size_t n = nn_tokens(pass);
    lnt_dense_forward(pass->ctx, &up, in, kept->up, n);
    lnt_act_forward(pass->ctx, s->activation, kept->up, kept->hidden, n, s->ff);
    lnt_dense_forward(pass->ctx, &down, kept->hidden, y, n);
}

/* What attention adds to x: `in` is what it sees. */
static lnt_status first_branch(const lnt_pass *pass, const lnt_block *b, const real *x, const real *in,
                               real *y)
{
    const lnt_block_kept *kept = b->kept;
    const lnt_norm after = norm_layer(b, LNT_BLOCK_AFTER1_GAIN);
    real *own = b->shape->after ? kept->branch1 : y;
    const lnt_status status = b->shape->averages ? attend_gated(pass, b, x, own) : attend(pass, b, in, own);
    if (status) return status;
    if (b->shape->after) lnt_norm_forward(pass->ctx, &after, own, y, kept->stat3, nn_tokens(pass));
    drop(pass, b, 0, y);
    return LNT_OK;
}

static void second_branch(const lnt_pass *pass, const lnt_block *b, const real *in, real *y)
{
    const lnt_block_kept *kept = b->kept;
    const lnt_norm after = norm_layer(b, LNT_BLOCK_AFTER2_GAIN);
    real *own = b->shape->after ? kept->branch2 : y;
    feed(pass, b, in, own);
    if (b->shape->after) lnt_norm_forward(pass->ctx, &after, own, y, kept->stat4, nn_tokens(pass));
    drop(pass, b, 1, y);
}

lnt_status lnt_block_forward(const lnt_pass *pass, const lnt_block *b, const real *x)
{
    const bool post = b->shape->post;
    const lnt_block_kept *kept = b->kept;
    const lnt_norm norm1 = norm_layer(b, LNT_BLOCK_NORM1_GAIN);
    const lnt_norm norm2 = norm_layer(b, LNT_BLOCK_NORM2_GAIN);
    const size_t n = nn_tokens(pass), count = n * b->shape->dim;
    real *sum1 = post ? kept->first : kept->middle, *sum2 = post ? kept->second : kept->out;
    if (!post) lnt_norm_forward(pass->ctx, &norm1, x, kept->first, kept->stat1, n);
    const lnt_status status = first_branch(pass, b, x, post ? x : kept->first, sum1);
    if (status) return status;
    nn_add(pass->ctx, sum1, x, count);
    if (post) lnt_norm_forward(pass->ctx, &norm1, kept->first, kept->middle, kept->stat1, n);
    else
        lnt_norm_forward(pass->ctx, &norm2, b->shape->parallel ? x : kept->middle, kept->second, kept->stat2,
                         n);
    second_branch(pass, b, post ? kept->middle : kept->second, sum2);
    nn_add(pass->ctx, sum2, kept->middle, count);
    if (post) lnt_norm_forward(pass->ctx, &norm2, kept->second, kept->out, kept->stat2, n);
    return LNT_OK;
}

/* ---- backward ------------------------------------------------------------------------------ */

/* The gradient of a branch's values: that of the sum or, dropped as they were, scratch->dim. */
static const real *branch_grad(const lnt_pass *pass, const lnt_block *b, uint64_t branch,
                               const real *grad)
{
    if (!drops(pass, b)) return grad;
    memcpy(b->scratch->dim, grad, nn_tokens(pass) * b->shape->dim * sizeof *grad);
    drop(pass, b, branch, b->scratch->dim);
    return b->scratch->dim;
}

/* The gradient of branch 0 or 1 before the norm after it, in scratch->aside; without such a norm dy. */
static const real *after_back(const lnt_pass *pass, const lnt_block *b, int branch, const real *dy)
{
    const lnt_block_kept *kept = b->kept;
    const lnt_norm norm = norm_layer(b, branch ? LNT_BLOCK_AFTER2_GAIN : LNT_BLOCK_AFTER1_GAIN);
    if (!b->shape->after) return dy;
    lnt_norm_backward(pass->ctx, &norm, branch ? kept->branch2 : kept->branch1,
                      branch ? kept->stat4 : kept->stat3, dy, b->scratch->aside, false, nn_tokens(pass));
    return b->scratch->aside;
}

/* dy, which may be scratch->dim, of the branch's values to scratch->dim, of what went into it. */
static void feed_back(const lnt_pass *pass, const lnt_block *b, const real *in, const real *dy)
{
    const lnt_block_shape *s = b->shape;
    const lnt_block_kept *kept = b->kept;
    const lnt_block_scratch *scratch = b->scratch;
    const lnt_dense up = up_layer(b), down = down_layer(b);
    const size_t n = nn_tokens(pass);
    real *dup = lnt_act_inputs(s->activation) == 1 ? scratch->half : scratch->wide; /* in place if it fits */
    lnt_dense_backward(pass->ctx, &down, kept->hidden, dy, scratch->half, n);
    lnt_act_backward(pass->ctx, s->activation, kept->up, kept->hidden, scratch->half, dup, n, s->ff);
    lnt_dense_backward(pass->ctx, &up, in, dup, scratch->dim, n);
}

static lnt_status attend_back(const lnt_pass *pass, const lnt_block *b, const real *in, const real *dy)
{
    const lnt_block_kept *kept = b->kept;
    const lnt_block_scratch *scratch = b->scratch;
    const lnt_attention attention = attention_layer(b);
    const lnt_dense qkv = qkv_layer(b), out = out_layer(b);
    lnt_dense_backward(pass->ctx, &out, kept->mixed, dy, scratch->half, nn_tokens(pass));
    const lnt_status status = lnt_attention_backward(pass, &attention, kept->qkv, kept->mixed,
                                                     kept->attention, scratch->half, scratch->wide);
    if (status) return status;
    const lnt_qk_norm norm = qk_norm_layer(b);
    rotate(pass, b, scratch->wide, -1);
    if (b->shape->qk_norm)
        lnt_qk_norm_backward(pass, &norm, scratch->wide, qkv_width(b->shape), kept->bare, kept->stat_qk,
                             scratch->half);
    lnt_dense_backward(pass->ctx, &qkv, in, scratch->wide, scratch->dim, nn_tokens(pass));
    return LNT_OK;
}

/* As attend_back; what does not pass the norm goes straight to grad, that of x. */
static lnt_status attend_gated_back(const lnt_pass *pass, const lnt_block *b, const real *x,
                                    const real *dy, real *grad)
{
    const lnt_mega mega = mega_layer(b);
    return lnt_mega_backward(pass, &mega, x, b->kept->first, dy, grad, b->scratch->dim);
}

static lnt_status backward_pre(const lnt_pass *pass, const lnt_block *b, const real *x, real *grad)
{
    const lnt_block_kept *kept = b->kept;
    const lnt_norm norm1 = norm_layer(b, LNT_BLOCK_NORM1_GAIN);
    const lnt_norm norm2 = norm_layer(b, LNT_BLOCK_NORM2_GAIN);
    const size_t n = nn_tokens(pass);
    const bool parallel = b->shape->parallel;
    real *din = b->scratch->dim; /* of what a branch is given */
    if (parallel) memcpy(b->scratch->whole, grad, n * b->shape->dim * sizeof *grad);
    feed_back(pass, b, kept->second, after_back(pass, b, 1, branch_grad(pass, b, 1, grad)));
    lnt_norm_backward(pass->ctx, &norm2, parallel ? x : kept->middle, kept->stat2, din, grad, true, n);
    const real *dy = branch_grad(pass, b, 0, parallel ? b->scratch->whole : grad);
    dy = after_back(pass, b, 0, dy);
    const lnt_status status = b->shape->averages ? attend_gated_back(pass, b, x, dy, grad)
                                                 : attend_back(pass, b, kept->first, dy);
    if (status) return status;
    lnt_norm_backward(pass->ctx, &norm1, x, kept->stat1, din, grad, true, n);
    return LNT_OK;
}

static lnt_status backward_post(const lnt_pass *pass, const lnt_block *b, const real *x, real *grad)
{
    const lnt_block_kept *kept = b->kept;
    const lnt_norm norm1 = norm_layer(b, LNT_BLOCK_NORM1_GAIN);
    const lnt_norm norm2 = norm_layer(b, LNT_BLOCK_NORM2_GAIN);
    const size_t n = nn_tokens(pass), count = n * b->shape->dim;
    lnt_norm_backward(pass->ctx, &norm2, kept->second, kept->stat2, grad, grad, false, n);
    feed_back(pass, b, kept->middle, branch_grad(pass, b, 1, grad));
    nn_add(pass->ctx, grad, b->scratch->dim, count);
    lnt_norm_backward(pass->ctx, &norm1, kept->first, kept->stat1, grad, grad, false, n);
    const lnt_status status = attend_back(pass, b, x, branch_grad(pass, b, 0, grad));
    if (status) return status;
    nn_add(pass->ctx, grad, b->scratch->dim, count);
    return LNT_OK;
}

lnt_status lnt_block_backward(const lnt_pass *pass, const lnt_block *b, const real *x, real *grad)
{
    return (b->shape->post ? backward_post : backward_pre)(pass, b, x, grad);
}
