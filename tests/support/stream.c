/* stream.c - see stream.h. */
#include "stream.h"

/* Sinks, fewer and more than a state may hold back, and either mechanism for the far keys. */
static void stream_hybrid(attn_case *c, int form)
{
    static const int64_t window[] = { 13, 7, 1, 64, 40 }, sink[] = { 2, 0, 3, 0, 21 };
    const int k = form - STREAM_HYBRID;
    c->desc.hybrid.window = window[k];
    c->desc.hybrid.sink = sink[k];
    c->desc.taylor.terms = 3;
    c->desc.hybrid.far = k == 1 || k == 4 ? LNT_LINEAR : LNT_TAYLOR;
    c->desc.linear.feature_map = k == 1 ? LNT_MAP_ELU1 : LNT_MAP_POSITIVE;
    c->desc.linear.features = 24;
    if (k != 2 && k != 4) case_set_decay(c, 0.97);
    if (k) return;
    for (int i = 0; i < STREAM_KV_HEADS * STREAM_DIM; i++) c->center[i] = 0.02 * i - 0.2;
    c->desc.taylor.center = c->center;
}

/* All else that a cache takes too. */
static void stream_softmax(attn_case *c, int form)
{
    if (form < STREAM_WINDOW) return;
    c->desc.softmax.window = form == STREAM_WINDOW ? 13 : 70;
    c->desc.softmax.cap = form == STREAM_WINDOW ? 0 : 1.5;
    for (int h = 0; h < MAX_HEADS; h++) c->slopes[h] = 0.2 / (1 + h);
    c->desc.softmax.slopes = c->slopes;
}

void stream_form(attn_case *c, int form, int64_t tokens, lnt_dtype dtype)
{
    const bool softmax = form < STREAM_LINEAR || form >= STREAM_WINDOW;
    const lnt_mechanism mechanism = softmax                ? LNT_SOFTMAX
                                    : form < STREAM_TAYLOR ? LNT_LINEAR
                                    : form < STREAM_HYBRID ? LNT_TAYLOR
                                                           : LNT_HYBRID;
    *c = case_make(mechanism, STREAM_HEADS, STREAM_KV_HEADS, tokens, tokens, STREAM_DIM,
                   STREAM_VALUE);
    c->desc.batch = STREAM_BATCH;
    c->desc.causal = 1;
    c->desc.dtype = dtype;
    c->seed = (uint64_t)form + 1;
    if (mechanism == LNT_TAYLOR) c->desc.taylor.terms = form == STREAM_TAYLOR ? 3 : 4;
    if (form == STREAM_TAYLOR) {
        c->desc.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT;
        c->desc.taylor.output_norm = 1;
    }
    if (form == STREAM_TAYLOR + 2) {
        c->desc.compensated = 1;
        for (int i = 0; i < STREAM_KV_HEADS * STREAM_DIM; i++) c->center[i] = 0.02 * i - 0.2;
        c->desc.taylor.center = c->center;
    }
    if (mechanism == LNT_SOFTMAX) stream_softmax(c, form);
    if (mechanism == LNT_HYBRID) stream_hybrid(c, form);
    if (mechanism != LNT_LINEAR) return;
    c->desc.compensated = form % 3 == 0;
    c->desc.linear.feature_map = (lnt_feature_map)((form - STREAM_LINEAR) / 2);
    c->desc.linear.features = 24;
    c->desc.seed = 9;
    if (form % 2 == 0) case_set_decay(c, 0.93);
}

lnt_state *stream_state(lnt_ctx *ctx, const attn_case *c)
{
    lnt_state *s;
    assert_ok(ctx, lnt_state_create(ctx, &c->desc, &s));
    return s;
}

void stream_append(lnt_ctx *ctx, lnt_state *s, const trial *t, int64_t first, int64_t count)
{
    const lnt_tensor k = tensor_rows(&t->k.t, first, count), v = tensor_rows(&t->v.t, first, count);
    assert_ok(ctx, lnt_state_append(s, &k, &v));
}

void expect_same_state(const attn_case *c, lnt_ctx *ctx, const char *what, lnt_state *a,
                       lnt_state *b, double bound)
{
    for (int64_t s = 0; s < c->desc.batch; s++)
        expect_true(c, NULL, ctx, what, lnt_state_tokens(a, s) == lnt_state_tokens(b, s));
    for (int i = 0; i < 2; i++) { /* s and z; which rows of a window count, only answers tell */
        lnt_tensor x, y;
        const char *name;
        assert_ok(ctx, lnt_state_tensor(a, i, &name, &x));
        assert_ok(ctx, lnt_state_tensor(b, i, &name, &y));
        if (c->desc.mechanism == LNT_SOFTMAX) { /* beyond the tokens there is only room */
            const int64_t tokens = lnt_state_tokens(a, 0), window = c->desc.softmax.window;
            x = tensor_rows(&x, 0, window && window < tokens ? window : tokens);
            y = tensor_rows(&y, 0, window && window < tokens ? window : tokens);
        }
        expect_below(c, NULL, ctx, what, tensor_error(&x, &y), bound);
    }
}

void expect_same_answers(lnt_ctx *ctx, const attn_case *c, lnt_state *a, lnt_state *b,
                         const trial *t)
{
    const lnt_tensor *out = &t->out.t;
    block x = block_new(out->dtype, LAYOUT_BHND, out->shape[0], out->shape[1], out->shape[2],
                        out->shape[3]);
    block y = block_new(out->dtype, LAYOUT_BHND, out->shape[0], out->shape[1], out->shape[2],
                        out->shape[3]);
    assert_ok(ctx, lnt_state_query(a, &t->q.t, &x.t));
    assert_ok(ctx, lnt_state_query(b, &t->q.t, &y.t));
    expect_true(c, NULL, ctx, "two states answer differently", block_same_bits(&x, &y));
    block_free(&x);
    block_free(&y);
}
