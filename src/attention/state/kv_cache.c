/* attention/state/kv_cache.c - the state of softmax attention: the keys and values themselves.
 *
 * It grows by (d + m) numbers per kv head and token, and every query reads all of it: what the
 * other mechanisms' states are compared with.  They are kept as they came, or rounded to fewer bits
 * (desc.softmax.cache), which the kernels read as they are: where memory is slow, half the bytes take half
 * the time.  To all but algorithms a cache of blocks is made of their words.
 *
 * With a window W it stops growing at W - 1 rows that the next token sees, and room for some more.  Where
 * that is full the W - 1 last rows move to the front: 4 rows or fewer for each token, which reads W. */
#include <string.h>

#include "attention/state/state.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "cpu/kernels.h"

enum { FEW_QUERIES = 8 }; /* up to here row by row is faster than a tile */
enum { LEAST_SPARE = 64 }; /* rows: a tile of queries */

/* Rows that are kept where there is no room for more. */
static int64_t kept_rows(const lnt_attn_desc *p) { return p->softmax.window - 1; }

static int64_t most(const lnt_attn_desc *p)
{
    const int64_t window = p->softmax.window, quarter = window / 4;
    if (!window) return LNT_MAX_EXTENT;
    return kept_rows(p) + (quarter > LEAST_SPARE ? quarter : LEAST_SPARE);
}

static int64_t blocks(int64_t width) { return (width + LNT_Q8_NUMBERS - 1) / LNT_Q8_NUMBERS; }

static void shape(const lnt_attn_desc *p, int64_t room, int i, int64_t out[3], int64_t *ld)
{
    const int64_t rows = room < most(p) ? room : most(p);
    out[0] = p->kv_heads;
    out[1] = i < LNT_STATE_PUBLIC ? rows : 0;
    out[2] = i == 0 ? p->dim : p->dim_value;
    if (p->softmax.cache == LNT_CACHE_Q8) out[2] = LNT_Q8_WORDS * blocks(out[2]);
    *ld = out[2];
}

static lnt_dtype dtype(const lnt_attn_desc *p)
{
    switch (p->softmax.cache) {
    case LNT_CACHE_F16: return LNT_F16;
    case LNT_CACHE_BF16:
    case LNT_CACHE_Q8: return LNT_BF16;
    case LNT_CACHE_SAME: break;
    }
    return p->dtype;
}

/* The last `rows` rows of sequence b to the front, the others out. */
static void slide(lnt_state *state, int64_t b, int64_t rows)
{
    const int64_t from = state->held[b] - rows;
    if (from <= 0) return;
    for (int i = 0; i < LNT_STATE_PUBLIC; i++) {
        const lnt_tensor *t = &state->tensor[i];
        const size_t bytes = (size_t)rows * (size_t)t->shape[3] * lnt_dtype_size(t->dtype);
        for (int64_t h = 0; h < t->shape[1]; h++)
            memmove(lnt_tensor_row(t, b, h, 0), lnt_tensor_row(t, b, h, from), bytes);
    }
    state->held[b] = rows;
}

/* Tensor i as algorithms read it. */
static lnt_tensor stored(const lnt_state *state, int i)
{
    const lnt_attn_desc *p = &state->work.p;
    lnt_tensor t = state->tensor[i];
    if (p->softmax.cache != LNT_CACHE_Q8) return t;
    t.dtype = (lnt_dtype)LNT_Q8;
    t.shape[3] = i == 0 ? p->dim : p->dim_value;
    return t;
}

/* Rows t .. t+n-1 of src in head h, as dst has them, behind those that sequence b of the cache holds. */
static void round_rows(const lnt_state *state, const lnt_tensor *dst, const lnt_tensor *src, int64_t b,
                       int64_t h, int64_t t, int64_t n)
{
    enum { ROWS = 16, COLUMNS = 4 * LNT_Q8_NUMBERS };
    const lnt_kernels_f32 *ker = lnt_kernels_get_f32(state->work.ctx->isa);
    const bool in_blocks = (int)dst->dtype == LNT_Q8;
    float some[ROWS * COLUMNS];
    for (int64_t r = 0; r < n; r += ROWS)
        for (int64_t d = 0; d < dst->shape[3]; d += COLUMNS) {
            const size_t rows = n - r < ROWS ? (size_t)(n - r) : ROWS;
            const size_t columns = dst->shape[3] - d < COLUMNS ? (size_t)(dst->shape[3] - d) : COLUMNS;
            const char *from = lnt_tensor_row(src, b, h, t + r) +
                               d * src->stride[3] * (int64_t)lnt_dtype_size(src->dtype);
            char *to = lnt_tensor_row(dst, b, h, state->held[b] + r) +
                       2 * (in_blocks ? blocks(d) * LNT_Q8_WORDS : d);
            ker->load_rows(some, COLUMNS, from, (int)src->dtype, src->stride[2], src->stride[3], rows,
                           columns, 1);
            ker->store_rows(to, (int)dst->dtype, dst->stride[2], 1, some, COLUMNS, rows, columns, NULL);
        }
}

/* Rows t .. t+n-1 of src, stored as the cache is, behind those that sequence b of the cache holds. */
static void copy_rows(const lnt_state *state, int i, const lnt_tensor *src, int64_t b, int64_t t, int64_t n)
{
    const lnt_tensor *dst = &state->tensor[i];
    const size_t row = (size_t)dst->shape[3] * lnt_dtype_size(dst->dtype);
    for (int64_t h = 0; h < dst->shape[1]; h++)
        for (int64_t r = 0; r < n; r++) {
            const int64_t at = state->held[b] + r;
            if (src->stride[3] == 1)
                memcpy(lnt_tensor_row(dst, b, h, at), lnt_tensor_row(src, b, h, t + r), row);
            else
                for (int64_t d = 0; d < dst->shape[3]; d++)
                    lnt_tensor_set(dst, b, h, at, d, lnt_tensor_get(src, b, h, t + r, d));
        }
}

static void put_rows(const lnt_state *state, int i, const lnt_tensor *src, int64_t b, int64_t t, int64_t n)
{
    const lnt_tensor dst = stored(state, i);
    if (dst.dtype == src->dtype) {
        copy_rows(state, i, src, b, t, n);
        return;
    }
    for (int64_t h = 0; h < dst.shape[1]; h++) round_rows(state, &dst, src, b, h, t, n);
}

static void put(lnt_state *state, const lnt_tensor *k, const lnt_tensor *v, int64_t b, int64_t t, int64_t n)
{
    if (state->held[b] + n > state->room) slide(state, b, kept_rows(&state->work.p));
    put_rows(state, 0, k, b, t, n);
    put_rows(state, 1, v, b, t, n);
    state->held[b] += n;
}

/* The most of `left` rows that can be put at once behind the `held` that there are. */
static int64_t piece(const lnt_state *state, int64_t held, int64_t left)
{
    if (held + left <= state->room) return left;
    const int64_t spare = state->room - kept_rows(&state->work.p);
    return left < spare ? left : spare;
}

/* What has left the window, of the sequence that has most of it. */
static void note_recent(lnt_state *state)
{
    state->recent = 0;
    for (int64_t b = 0; b < state->work.p.batch; b++) {
        const int64_t more = state->held[b] - lnt_state_rows(&state->work.p, state->held[b]);
        if (more > state->recent) state->recent = more;
    }
}

static void settle(lnt_state *state)
{
    for (int64_t b = 0; b < state->work.p.batch; b++)
        slide(state, b, lnt_state_rows(&state->work.p, state->held[b]));
    state->recent = 0;
}

static int64_t most_held(const lnt_state *state)
{
    int64_t held = 0;
    for (int64_t b = 0; b < state->work.p.batch; b++)
        if (state->held[b] > held) held = state->held[b];
    return held;
}

static void append(lnt_state *state, const lnt_tensor *k, const lnt_tensor *v, double sign)
{
    (void)sign; /* lnt_state_remove refuses a cache */
    for (int64_t t = 0, n; t < k->shape[2]; t += n) {
        n = piece(state, most_held(state), k->shape[2] - t);
        for (int64_t b = 0; b < state->work.p.batch; b++) put(state, k, v, b, t, n);
    }
    note_recent(state);
}

/* Rows t .. t+n-1 of a tensor. */
static lnt_tensor rows_of(const lnt_tensor *tensor, int64_t t, int64_t n)
{
    lnt_tensor rows = *tensor;
    if (t) rows.data = lnt_tensor_row(tensor, 0, 0, t);
    rows.shape[2] = n;
    return rows;
}

static void attend(lnt_state *state, const lnt_tensor *q, const lnt_tensor *out, bool causal)
{
    const lnt_attn_io io = { .size = sizeof io,
                             .q = *q,
                             .k = stored(state, 0),
                             .v = stored(state, 1),
                             .out = *out,
                             .lengths_k = state->held };
    lnt_run r = lnt_workspace_run(&state->work, &io, state->work.p.batch);
    r.causal = causal;
    const lnt_algo *algo = state->algos[q->shape[2] > FEW_QUERIES];
    algo->forward(&r);
    state->nonpositive += r.nonpositive;
    state->algorithm = algo->name;
}

/* Every query stands at the last token: where that counts, one by one. */
static void query(lnt_state *state, const lnt_tensor *q, const lnt_tensor *out)
{
    const lnt_softmax_options *o = &state->work.p.softmax;
    const int64_t n = o->window || o->slopes ? 1 : q->shape[2];
    int64_t t = 0;
    do { /* once even where there is nothing to read */
        const int64_t count = n < q->shape[2] ? n : q->shape[2];
        const lnt_tensor some = rows_of(q, t, count), to = rows_of(out, t, count);
        attend(state, &some, &to, false);
    } while ((t += n) < q->shape[2]);
}

static void step(lnt_state *state, const lnt_tensor *q, const lnt_tensor *k, const lnt_tensor *v,
                 const lnt_tensor *out)
{
    int64_t t = 0, n;
    do {
        n = piece(state, most_held(state), k->shape[2] - t);
        for (int64_t b = 0; b < state->work.p.batch; b++) put(state, k, v, b, t, n);
        const lnt_tensor some = rows_of(q, t, n), to = rows_of(out, t, n);
        attend(state, &some, &to, true);
    } while ((t += n) < k->shape[2]);
    note_recent(state);
}

static void merge(lnt_state *dst, const lnt_state *src)
{
    for (int64_t b = 0; b < dst->work.p.batch; b++)
        for (int64_t t = 0, n; t < src->held[b]; t += n) {
            const lnt_tensor k = stored(src, 0), v = stored(src, 1);
            n = piece(dst, dst->held[b], src->held[b] - t);
            put(dst, &k, &v, b, t, n);
        }
    note_recent(dst);
}

const lnt_state_kind lnt_state_kv_cache = { .names = { "k", "v" },
                                            .grows = true,
                                            .most = most,
                                            .shape = shape,
                                            .dtype = dtype,
                                            .append = append,
                                            .query = query,
                                            .step = step,
                                            .merge = merge,
                                            .settle = settle };
