/* attention/state/state.c - states: making and calling them.  What a state remembers and how it
 * is added to is its kind's business: sums.c and kv_cache.c (softmax). */
#include "attention/state/state.h"

#include <string.h>

#include "attention/registry.h"
#include "attention/state/device_state.h"
#include "core/tensor.h"

static const lnt_state_kind *kind_of(lnt_mechanism mechanism)
{
    return mechanism == LNT_SOFTMAX ? &lnt_state_kv_cache : &lnt_state_sums;
}

/* ---- size and life --------------------------------------------------------------------------- */

/* The view of tensor i with no data yet; false if its size does not fit size_t. */
static bool shape_tensor(const lnt_attn_desc *p, int64_t room, int i, lnt_tensor *view,
                         size_t *bytes)
{
    const lnt_state_kind *kind = kind_of(p->mechanism);
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

double lnt_state_elements(const lnt_attn_desc *p, int64_t room)
{
    double total = 0;
    if (p->mechanism == LNT_CUR) return 0;
    for (int i = 0; i < LNT_STATE_SAVED; i++) {
        int64_t shape[3], ld;
        if (i == LNT_STATE_LOW_S || i == LNT_STATE_LOW_Z) continue;
        kind_of(p->mechanism)->shape(p, room, i, shape, &ld);
        total += (double)shape[0] * (double)shape[1] * (double)shape[2];
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

lnt_status lnt_state_make(lnt_ctx *ctx, const lnt_attn_desc *resolved, int64_t room,
                          lnt_state **out)
{
    *out = NULL;
    if (resolved->mechanism == LNT_CUR)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "cur has no state: its landmarks are chosen from the whole sequence");
    if (resolved->taylor.center_mean)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "center_mean: a state never knows all keys; give center instead");
    lnt_state *state = lnt_allocate(ctx, sizeof *state, "the state");
    if (!state) return LNT_ERR_MEMORY;
    *state = (lnt_state){ .kind = kind_of(resolved->mechanism), .room = room };
    lnt_attn_desc p = *resolved;
    p.causal = 1;
    p.backward = 0;
    p.state = LNT_STATE_ALWAYS;
    lnt_registry_for_state(&p, state->algos);
    const size_t tokens = (size_t)p.batch * sizeof *state->tokens;
    lnt_status status = lnt_engine_open(ctx, &p, state->algos, 2, &state->engine);
    if (!status) status = allocate_tensors(ctx, &p, room, state->tensor, state->bytes);
    if (!status) state->tokens = lnt_allocate(ctx, tokens, "the state");
    if (!status && !state->tokens) status = LNT_ERR_MEMORY;
    if (status) {
        lnt_state_destroy(state);
        return status;
    }
    memset(state->tokens, 0, tokens);
    *out = state;
    return LNT_OK;
}

lnt_status lnt_state_create(lnt_ctx *ctx, const lnt_attn_desc *desc, lnt_state **out)
{
    if (!ctx || !out) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "ctx and out must not be NULL");
    *out = NULL;
    lnt_attn_desc p;
    const lnt_status status = lnt_problem_resolve(ctx, desc, &p);
    if (status) return status;
    return ctx->device ? lnt_device_state_make(ctx, &p, out)
                       : lnt_state_make(ctx, &p, p.length_k, out);
}

void lnt_state_destroy(lnt_state *state)
{
    if (!state) return;
    lnt_ctx *ctx = state->engine.ctx;
    if (lnt_state_on_device(state)) {
        lnt_device_state_close(state);
    } else {
        release_tensors(ctx, state->tensor, state->bytes);
        lnt_release(ctx, state->tokens, (size_t)state->engine.p.batch * sizeof *state->tokens);
        if (state->engine.memory.base) lnt_engine_close(&state->engine);
    }
    lnt_release(ctx, state, sizeof *state);
}

static lnt_status fork_on_device(const lnt_state *state, lnt_state **out)
{
    lnt_status status = lnt_device_state_make(state->engine.ctx, &state->engine.p, out);
    if (!status) status = lnt_device_state_fork(state, *out);
    if (!status) return LNT_OK;
    lnt_state_destroy(*out);
    *out = NULL;
    return status;
}

lnt_status lnt_state_fork(const lnt_state *state, lnt_state **out)
{
    if (!state) return LNT_ERR_ARGUMENT;
    if (!out) return lnt_fail(state->engine.ctx, LNT_ERR_ARGUMENT, "out is NULL");
    if (lnt_state_on_device(state)) return fork_on_device(state, out);
    const lnt_status status =
        lnt_state_make(state->engine.ctx, &state->engine.p, state->room, out);
    if (status) return status;
    for (int i = 0; i < LNT_STATE_TENSORS; i++)
        if (state->bytes[i])
            memcpy((*out)->tensor[i].data, state->tensor[i].data, state->bytes[i]);
    (*out)->recent = state->recent;
    memcpy((*out)->tokens, state->tokens,
           (size_t)state->engine.p.batch * sizeof *state->tokens);
    (*out)->nonpositive = state->nonpositive;
    return LNT_OK;
}

static lnt_status check_sequence(const lnt_state *state, const char *name, int64_t sequence)
{
    if (sequence >= 0 && sequence < state->engine.p.batch) return LNT_OK;
    return lnt_fail(state->engine.ctx, LNT_ERR_ARGUMENT, "%s is %lld, must be 0 to %lld", name,
                    (long long)sequence, (long long)(state->engine.p.batch - 1));
}

lnt_status lnt_state_copy(lnt_state *to, int64_t to_sequence, const lnt_state *from,
                          int64_t from_sequence)
{
    if (!to) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = to->engine.ctx;
    if (!from) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "from is NULL");
    if (to->kind->grows)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "copy: the sequences of a softmax cache share their room; fork it");
    lnt_status status = check_sequence(to, "to_sequence", to_sequence);
    if (!status) status = check_sequence(from, "from_sequence", from_sequence);
    if (!status) status = lnt_state_fits(ctx, "from", from, &to->engine.p, from->engine.p.batch);
    if (!status && lnt_state_on_device(to) != lnt_state_on_device(from))
        status = lnt_fail(ctx, LNT_ERR_ARGUMENT, "copy: one state is on a GPU and the other is not");
    if (status) return status;
    if (lnt_state_on_device(to))
        return lnt_device_state_copy(to, to_sequence, from, from_sequence);
    lnt_state_settle(to);
    lnt_state_settle(from);
    to->tokens[to_sequence] = from->tokens[from_sequence];
    for (int i = 0; i < LNT_STATE_TENSORS; i++) {
        const size_t share = to->bytes[i] / (size_t)to->engine.p.batch;
        if (share) memmove((char *)to->tensor[i].data + (size_t)to_sequence * share,
                           (char *)from->tensor[i].data + (size_t)from_sequence * share, share);
    }
    return LNT_OK;
}

lnt_status lnt_state_select(lnt_state *state, const int64_t *index, int64_t count)
{
    if (!state) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = state->engine.ctx;
    const int64_t batch = state->engine.p.batch;
    if (!lnt_state_on_device(state))
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "select: on the cpu a state runs all its sequences, in their order");
    if (index && (count < 0 || count > batch))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "count is %lld, must be 0 to %lld", (long long)count,
                        (long long)batch);
    state->index = index;
    state->selected = index ? count : batch;
    return LNT_OK;
}

int64_t lnt_state_longest(const lnt_state *state)
{
    int64_t most = 0;
    for (int64_t b = 0; b < state->engine.p.batch; b++)
        if (state->tokens[b] > most) most = state->tokens[b];
    return most;
}

lnt_status lnt_state_reserve(lnt_state *state, int64_t tokens)
{
    if (!state) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = state->engine.ctx;
    if (tokens < 0 || tokens > LNT_MAX_EXTENT)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "tokens is %lld, must be 0 to 2^40",
                        (long long)tokens);
    if (!state->kind->grows || tokens <= state->room) return LNT_OK;
    lnt_tensor tensor[LNT_STATE_TENSORS] = { 0 };
    size_t bytes[LNT_STATE_TENSORS] = { 0 };
    const lnt_status status = allocate_tensors(ctx, &state->engine.p, tokens, tensor, bytes);
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
                       (size_t)state->tokens[b] * row);
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
        return lnt_fail(state->engine.ctx, LNT_ERR_SHAPE,
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
    state->tokens[b] = 0;
    for (int i = 0; i < LNT_STATE_TENSORS; i++) {
        const size_t share = state->bytes[i] / (size_t)state->engine.p.batch;
        if (share) memset((char *)state->tensor[i].data + (size_t)b * share, 0, share);
    }
}

lnt_status lnt_state_reset(lnt_state *state, int64_t sequence)
{
    if (!state) return LNT_ERR_ARGUMENT;
    const int64_t batch = state->engine.p.batch;
    if (sequence < -1 || sequence >= batch)
        return lnt_fail(state->engine.ctx, LNT_ERR_ARGUMENT,
                        "sequence is %lld, must be 0 to %lld, or -1 for all", (long long)sequence,
                        (long long)(batch - 1));
    if (lnt_state_on_device(state)) return lnt_device_state_reset(state, sequence);
    lnt_state_settle(state);
    for (int64_t b = 0; b < batch; b++)
        if (sequence == -1 || b == sequence) forget(state, b);
    return LNT_OK;
}

/* ---- tokens in, answers out ------------------------------------------------------------------ */

static lnt_status check_tensor(const lnt_state *state, const char *name, const lnt_tensor *t,
                               int64_t heads, int64_t length, int64_t dim)
{
    lnt_ctx *ctx = state->engine.ctx;
    const lnt_attn_desc *p = &state->engine.p;
    const int64_t batch = lnt_state_on_device(state) ? state->selected : p->batch;
    const lnt_status status = lnt_tensor_expect(ctx, name, t, batch, heads, length, dim);
    if (status) return status;
    if (t->dtype != p->dtype)
        return lnt_fail(ctx, LNT_ERR_DTYPE, "%s: dtype is %s, the state's is %s", name,
                        lnt_dtype_name(t->dtype), lnt_dtype_name(p->dtype));
    return LNT_OK;
}

static lnt_status check_keys(const lnt_state *state, const lnt_tensor *k, const lnt_tensor *v)
{
    const lnt_attn_desc *p = &state->engine.p;
    const lnt_status status = check_tensor(state, "k", k, p->kv_heads, -1, p->dim);
    return status ? status
                  : check_tensor(state, "v", v, p->kv_heads, k->shape[2], p->dim_value);
}

static lnt_status check_queries(const lnt_state *state, const lnt_tensor *q, const lnt_tensor *out)
{
    const lnt_attn_desc *p = &state->engine.p;
    const lnt_status status = check_tensor(state, "q", q, p->heads, -1, p->dim);
    return status ? status : check_tensor(state, "out", out, p->heads, q->shape[2], p->dim_value);
}

static void count_tokens(lnt_state *state, int64_t n)
{
    for (int64_t b = 0; b < state->engine.p.batch; b++) state->tokens[b] += n;
}

lnt_status lnt_state_append(lnt_state *state, const lnt_tensor *k, const lnt_tensor *v)
{
    if (!state) return LNT_ERR_ARGUMENT;
    lnt_status status = check_keys(state, k, v);
    if (!status && lnt_state_on_device(state))
        return lnt_device_state_run(state, NULL, k, v, NULL);
    if (!status) status = lnt_state_make_room(state, k->shape[2]);
    if (status) return status;
    state->kind->append(state, k, v, 1);
    count_tokens(state, k->shape[2]);
    return LNT_OK;
}

lnt_status lnt_state_query(lnt_state *state, const lnt_tensor *q, const lnt_tensor *out)
{
    if (!state) return LNT_ERR_ARGUMENT;
    const lnt_status status = check_queries(state, q, out);
    if (status) return status;
    if (lnt_state_on_device(state)) return lnt_device_state_run(state, q, NULL, NULL, out);
    state->kind->query(state, q, out);
    return LNT_OK;
}

lnt_status lnt_state_step(lnt_state *state, const lnt_tensor *q, const lnt_tensor *k,
                          const lnt_tensor *v, const lnt_tensor *out)
{
    if (!state) return LNT_ERR_ARGUMENT;
    lnt_status status = check_keys(state, k, v);
    if (!status) status = check_queries(state, q, out);
    if (!status && q->shape[2] != k->shape[2])
        status = lnt_fail(state->engine.ctx, LNT_ERR_SHAPE, "q: length is %lld, that of k is %lld",
                          (long long)q->shape[2], (long long)k->shape[2]);
    if (!status && lnt_state_on_device(state)) return lnt_device_state_run(state, q, k, v, out);
    if (!status) status = lnt_state_make_room(state, k->shape[2]);
    if (status) return status;
    state->kind->step(state, q, k, v, out);
    count_tokens(state, k->shape[2]);
    return LNT_OK;
}

lnt_status lnt_state_remove(lnt_state *state, const lnt_tensor *k, const lnt_tensor *v)
{
    if (!state) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = state->engine.ctx;
    const lnt_attn_desc *p = &state->engine.p;
    if (state->kind->grows)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "remove: a softmax cache keeps tokens as they are; only a state that is a "
                        "sum can give tokens back");
    if (p->mechanism == LNT_HYBRID)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "remove: the tokens that would come back into the window of a hybrid state "
                        "are not known any more");
    if (lnt_state_on_device(state))
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "remove: on the cpu only, not on %s",
                        ctx->device->name);
    for (int64_t h = 0; p->decay && h < p->kv_heads; h++)
        if (p->decay[h] < 1)
            return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                            "remove: with a decay of %g a token's share depends on its age; "
                            "decay must be 1",
                            p->decay[h]);
    const lnt_status status = check_keys(state, k, v);
    if (status) return status;
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

/* By way of the CPU: seldom done, and the device has nothing to do it with. */
static lnt_status merge_on_device(lnt_state *dst, const lnt_state *src)
{
    lnt_state *a = NULL, *b = NULL;
    lnt_status status = lnt_device_state_to_host(dst, &a);
    if (!status) status = lnt_device_state_to_host(src, &b);
    if (!status) status = lnt_state_merge(a, b);
    if (!status) status = lnt_device_state_from_host(dst, a);
    lnt_state_destroy(a);
    lnt_state_destroy(b);
    return status;
}

lnt_status lnt_state_merge(lnt_state *dst, const lnt_state *src)
{
    if (!dst) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = dst->engine.ctx;
    if (!src) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "src is NULL");
    if (dst == src) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "merge: dst and src are the same state");
    if (dst->engine.p.mechanism == LNT_HYBRID)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "merge: in a hybrid state every token is near or far by where it stands; "
                        "append the tokens instead");
    lnt_status status =
        lnt_state_fits(ctx, "merge: src", src, &dst->engine.p, dst->engine.p.batch);
    if (!status && lnt_state_on_device(dst) != lnt_state_on_device(src))
        status = lnt_fail(ctx, LNT_ERR_ARGUMENT, "merge: one state is on a GPU and the other is not");
    if (!status && lnt_state_on_device(dst)) return merge_on_device(dst, src);
    if (!status) status = lnt_state_make_room(dst, lnt_state_longest(src));
    if (status) return status;
    lnt_state_settle(dst);
    lnt_state_settle(src);
    dst->kind->merge(dst, src);
    for (int64_t b = 0; b < dst->engine.p.batch; b++) dst->tokens[b] += src->tokens[b];
    return LNT_OK;
}

/* ---- looking in ------------------------------------------------------------------------------ */

void lnt_state_advance(const lnt_attn_io *io, int64_t sequences)
{
    for (int64_t s = 0; io->state_out && s < sequences; s++)
        io->state_out->tokens[s] =
            (io->state_in ? io->state_in->tokens[s] : 0) + lnt_io_sequence(io, s).nk;
}

int64_t lnt_state_tokens(const lnt_state *state, int64_t sequence)
{
    if (!state || sequence < 0 || sequence >= state->engine.p.batch) return 0;
    return lnt_state_on_device(state) ? lnt_device_state_tokens(state, sequence)
                                      : state->tokens[sequence];
}

size_t lnt_state_bytes(const lnt_state *state)
{
    size_t total = 0;
    for (int i = 0; state && i < LNT_STATE_TENSORS; i++) total += state->bytes[i];
    return total;
}

int64_t lnt_state_nonpositive(const lnt_state *state)
{
    if (!state) return 0;
    return lnt_state_on_device(state)
               ? lnt_device_plan_nonpositive(state->engine.ctx, &state->device)
               : state->nonpositive;
}

const char *lnt_state_algorithm(const lnt_state *state) { return state ? state->algorithm : NULL; }

lnt_status lnt_state_tensor(lnt_state *state, int index, const char **name, lnt_tensor *view)
{
    if (!state) return LNT_ERR_ARGUMENT;
    const int shown = state->engine.p.mechanism == LNT_HYBRID ? 4 : LNT_STATE_PUBLIC;
    if (index < 0 || index >= shown)
        return lnt_fail(state->engine.ctx, LNT_ERR_ARGUMENT, "index is %d, must be 0 to %d", index,
                        shown - 1);
    const int i = index < LNT_STATE_PUBLIC ? index : LNT_STATE_WINDOW_K + index - LNT_STATE_PUBLIC;
    lnt_state_settle(state);
    if (name) *name = state->kind->names[i];
    if (view) *view = state->tensor[i];
    return LNT_OK;
}
