/* attention/state/cpu_state.c - states on the CPU: tensors in memory, and the scratch of the algorithms that
 * add to them and read.  What a state remembers and how it is added to is its kind's business: sums.c
 * and kv_cache.c (softmax). */
#include <string.h>

#include "attention/registry.h"
#include "attention/state/state.h"
#include "core/tensor.h"

static lnt_state *own(const lnt_device_state *state) { return (lnt_state *)(uintptr_t)state; }

/* ---- size and life --------------------------------------------------------------------------- */

/* The view of tensor i with no data yet; false if its size does not fit size_t. */
static bool shape_tensor(const lnt_attn_desc *p, int64_t room, int i, lnt_tensor *view,
                         size_t *bytes)
{
    const lnt_state_kind *kind = lnt_state_kind_of(p->mechanism);
    int64_t shape[3], ld;
    kind->shape(p, room, i, shape, &ld);
    *view = (lnt_tensor){ .dtype = kind->dtype(p),
                          .shape = { p->batch, shape[0], shape[1], shape[2] } };
    size_t rows;
    if (!lnt_size_product((size_t)p->batch, (size_t)shape[0], (size_t)shape[1], &rows) ||
        !lnt_size_product(rows, (size_t)ld, lnt_dtype_size(view->dtype), bytes) ||
        *bytes > PTRDIFF_MAX)
        return false;
    const int64_t stride[4] = { shape[0] * shape[1] * ld, shape[1] * ld, ld, 1 };
    memcpy(view->stride, stride, sizeof stride);
    return true;
}

size_t lnt_state_predict(const lnt_attn_desc *p, int64_t room)
{
    size_t total = 0;
    if (p->mechanism == LNT_CUR) return 0;
    for (int i = 0; i < LNT_STATE_TENSORS; i++) {
        lnt_tensor view;
        size_t bytes;
        if (!shape_tensor(p, room, i, &view, &bytes)) return 0;
        total += bytes;
    }
    return total;
}

static lnt_status allocate_tensors(lnt_ctx *ctx, const lnt_attn_desc *p, int64_t room,
                                   lnt_tensor tensor[], size_t bytes[])
{
    for (int i = 0; i < LNT_STATE_TENSORS; i++) {
        if (!shape_tensor(p, room, i, &tensor[i], &bytes[i]))
            return lnt_fail(ctx, LNT_ERR_MEMORY, "state: its size exceeds the address space");
        if (!bytes[i] && i >= LNT_STATE_PUBLIC) continue;
        tensor[i].data = lnt_allocate(ctx, bytes[i], "the state");
        if (!tensor[i].data) return LNT_ERR_MEMORY;
        memset(tensor[i].data, 0, bytes[i]);
    }
    return LNT_OK;
}

static void release_tensors(lnt_ctx *ctx, lnt_tensor tensor[], const size_t bytes[])
{
    for (int i = 0; i < LNT_STATE_TENSORS; i++) lnt_release(ctx, tensor[i].data, bytes[i]);
}

/* Of tokens and of held, which lies behind them. */
static size_t count_bytes(const lnt_attn_desc *p) { return 2 * (size_t)p->batch * sizeof(int64_t); }

static void close_state(lnt_device_state *of)
{
    lnt_state *state = own(of);
    lnt_ctx *ctx = state->work.ctx;
    release_tensors(ctx, state->tensor, state->bytes);
    lnt_release(ctx, state->tokens, count_bytes(&state->work.p));
}

static lnt_status open_state(lnt_ctx *ctx, const lnt_attn_desc *p, int64_t room, lnt_state *state,
                             lnt_device_state **out)
{
    const size_t tokens = count_bytes(p);
    *out = (lnt_device_state *)(void *)state;
    if (state->kind->most && room > state->kind->most(p)) room = state->kind->most(p);
    state->room = room;
    lnt_registry_for_state(p, state->algos);
    lnt_status status = lnt_workspace_make_room(&state->work, state->algos, 2);
    if (!status) status = allocate_tensors(ctx, p, room, state->tensor, state->bytes);
    if (!status) state->tokens = lnt_allocate(ctx, tokens, "the state");
    if (!status && !state->tokens) status = LNT_ERR_MEMORY;
    if (status) {
        close_state(*out);
        return status;
    }
    memset(state->tokens, 0, tokens);
    state->held = state->tokens + p->batch;
    return LNT_OK;
}

static lnt_status fork_state(lnt_device_state *to_state, const lnt_device_state *from_state)
{
    lnt_state *to = own(to_state), *from = own(from_state);
    for (int i = 0; i < LNT_STATE_TENSORS; i++)
        if (from->bytes[i]) memcpy(to->tensor[i].data, from->tensor[i].data, from->bytes[i]);
    to->recent = from->recent;
    memcpy(to->tokens, from->tokens, count_bytes(&from->work.p));
    return LNT_OK;
}

static lnt_status copy(lnt_device_state *to_state, int64_t to_sequence, const lnt_device_state *from_state,
                       int64_t from_sequence)
{
    lnt_state *to = own(to_state), *from = own(from_state);
    to->tokens[to_sequence] = from->tokens[from_sequence];
    for (int i = 0; i < LNT_STATE_TENSORS; i++) {
        const size_t share = to->bytes[i] / (size_t)to->work.p.batch;
        if (share) memmove((char *)to->tensor[i].data + (size_t)to_sequence * share,
                           (char *)from->tensor[i].data + (size_t)from_sequence * share, share);
    }
    return LNT_OK;
}

int64_t lnt_state_longest(const lnt_state *state)
{
    int64_t most = 0;
    for (int64_t b = 0; b < state->work.p.batch; b++)
        if (state->tokens[b] > most) most = state->tokens[b];
    return most;
}

static lnt_status reserve(lnt_device_state *of, int64_t tokens)
{
    lnt_state *state = own(of);
    lnt_ctx *ctx = state->work.ctx;
    if (state->kind->most && tokens > state->kind->most(&state->work.p))
        tokens = state->kind->most(&state->work.p);
    if (!state->kind->grows || tokens <= state->room) return LNT_OK;
    lnt_tensor tensor[LNT_STATE_TENSORS] = { 0 };
    size_t bytes[LNT_STATE_TENSORS] = { 0 };
    const lnt_status status = allocate_tensors(ctx, &state->work.p, tokens, tensor, bytes);
    if (status) {
        release_tensors(ctx, tensor, bytes);
        return status;
    }
    for (int i = 0; i < LNT_STATE_PUBLIC; i++) {
        const lnt_tensor *old = &state->tensor[i];
        const size_t row = (size_t)old->stride[2] * lnt_dtype_size(old->dtype);
        for (int64_t b = 0; b < old->shape[0]; b++)
            for (int64_t h = 0; h < old->shape[1]; h++)
                memcpy(lnt_tensor_row(&tensor[i], b, h, 0), lnt_tensor_row(old, b, h, 0),
                       (size_t)state->held[b] * row);
    }
    release_tensors(ctx, state->tensor, state->bytes);
    memcpy(state->tensor, tensor, sizeof tensor);
    memcpy(state->bytes, bytes, sizeof bytes);
    state->room = tokens;
    return LNT_OK;
}

lnt_status lnt_state_make_room(lnt_state *state, int64_t n)
{
    const int64_t before = lnt_state_longest(state);
    if (n > LNT_MAX_EXTENT - before)
        return lnt_fail(state->work.ctx, LNT_ERR_SHAPE,
                        "a sequence has seen %lld tokens, and %lld more make over 2^40", (long long)before,
                        (long long)n);
    const int64_t needed = before + n;
    if (!state->kind->grows || needed <= state->room) return LNT_OK;
    const int64_t doubled = 2 * state->room > 16 ? 2 * state->room : 16;
    return lnt_state_reserve(state, needed > doubled ? needed : doubled);
}

/* What was kept back must be settled. */
static void forget(lnt_state *state, int64_t b)
{
    state->tokens[b] = state->held[b] = 0;
    for (int i = 0; i < LNT_STATE_TENSORS; i++) {
        const size_t share = state->bytes[i] / (size_t)state->work.p.batch;
        if (share) memset((char *)state->tensor[i].data + (size_t)b * share, 0, share);
    }
}

static lnt_status reset(lnt_device_state *state, int64_t sequence)
{
    for (int64_t b = 0; b < own(state)->work.p.batch; b++)
        if (sequence == -1 || b == sequence) forget(own(state), b);
    return LNT_OK;
}

/* ---- tokens in, answers out ------------------------------------------------------------------ */

static void count_tokens(lnt_state *state, int64_t n)
{
    for (int64_t b = 0; b < state->work.p.batch; b++) state->tokens[b] += n;
}

static lnt_status run(lnt_device_state *of, const lnt_tensor *q, const lnt_tensor *k, const lnt_tensor *v,
                      const lnt_tensor *out)
{
    lnt_state *state = own(of);
    const lnt_status status = k ? lnt_state_make_room(state, k->shape[2]) : LNT_OK;
    if (status) return status;
    if (!k) state->kind->query(state, q, out);
    else if (q) state->kind->step(state, q, k, v, out);
    else state->kind->append(state, k, v, 1);
    if (k) count_tokens(state, k->shape[2]);
    return LNT_OK;
}

static lnt_status take_out(lnt_device_state *of, const lnt_tensor *k, const lnt_tensor *v)
{
    lnt_state *state = own(of);
    lnt_ctx *ctx = state->work.ctx;
    const lnt_attn_desc *p = &state->work.p;
    for (int64_t b = 0; b < p->batch; b++)
        if (state->tokens[b] < k->shape[2])
            return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                            "remove: %lld tokens, but sequence %lld has seen %lld",
                            (long long)k->shape[2], (long long)b, (long long)state->tokens[b]);
    state->kind->append(state, k, v, -1);
    count_tokens(state, -k->shape[2]);
    for (int64_t b = 0; b < p->batch; b++) /* else what rounding left is divided by what it left */
        if (k->shape[2] && !state->tokens[b]) forget(state, b);
    return LNT_OK;
}

static lnt_status merge(lnt_device_state *dst_state, const lnt_device_state *src_state)
{
    lnt_state *dst = own(dst_state), *src = own(src_state);
    const lnt_status status = lnt_state_make_room(dst, lnt_state_longest(src));
    if (status) return status;
    lnt_state_settle(dst);
    lnt_state_settle(src);
    dst->kind->merge(dst, src);
    for (int64_t b = 0; b < dst->work.p.batch; b++) dst->tokens[b] += src->tokens[b];
    return LNT_OK;
}

void lnt_state_advance(const lnt_attn_io *io, int64_t sequences)
{
    for (int64_t s = 0; io->state_out && s < sequences; s++)
        io->state_out->tokens[s] =
            (io->state_in ? io->state_in->tokens[s] : 0) + lnt_io_sequence(io, s).nk;
}

/* ---- looking in ------------------------------------------------------------------------------ */

static lnt_tensor tensor(const lnt_device_state *state, int i) { return own(state)->tensor[i]; }

static size_t bytes(const lnt_device_state *state)
{
    size_t total = 0;
    for (int i = 0; i < LNT_STATE_TENSORS; i++) total += own(state)->bytes[i];
    return total;
}

static lnt_status pack(const lnt_device_state *state, int i, int64_t rows, void *packed)
{
    lnt_tensor_pack(&own(state)->tensor[i], rows, packed);
    return LNT_OK;
}

static lnt_status unpack(lnt_device_state *state, int i, int64_t rows, const void *packed)
{
    lnt_tensor_unpack(&own(state)->tensor[i], rows, packed);
    return LNT_OK;
}

static lnt_status tokens(const lnt_device_state *state, int64_t first, int64_t count, int64_t *out)
{
    memcpy(out, own(state)->tokens + first, (size_t)count * sizeof *out);
    return LNT_OK;
}

static lnt_status set_tokens(lnt_device_state *state, const int64_t *counts)
{
    lnt_state *s = own(state);
    memcpy(s->tokens, counts, (size_t)s->work.p.batch * sizeof *counts);
    for (int64_t b = 0; b < s->work.p.batch; b++) s->held[b] = lnt_state_rows(&s->work.p, s->tokens[b]);
    return LNT_OK;
}

static lnt_status report(lnt_device_state *state, lnt_report *out)
{
    out->nonpositive = own(state)->nonpositive;
    own(state)->nonpositive = 0;
    return LNT_OK;
}

static const char *algorithm(const lnt_device_state *state) { return own(state)->algorithm; }

const lnt_device_states lnt_cpu_states = { .open = open_state,
                                           .close = close_state,
                                           .fork = fork_state,
                                           .copy = copy,
                                           .reset = reset,
                                           .reserve = reserve,
                                           .run = run,
                                           .remove = take_out,
                                           .merge = merge,
                                           .tensor = tensor,
                                           .bytes = bytes,
                                           .pack = pack,
                                           .unpack = unpack,
                                           .tokens = tokens,
                                           .set_tokens = set_tokens,
                                           .report = report,
                                           .algorithm = algorithm };
