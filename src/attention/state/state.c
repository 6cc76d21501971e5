/* attention/state/state.c - the public calls of states: what a caller gives is checked here, and the device
 * does the rest (cpu_state.c, device/plugin_state.c). */
#include "attention/state/state.h"

#include <string.h>

#include "core/struct.h"
#include "core/overlap.h"
#include "core/tensor.h"

const lnt_state_kind *lnt_state_kind_of(lnt_mechanism mechanism)
{
    return mechanism == LNT_SOFTMAX ? &lnt_state_kv_cache : &lnt_state_sums;
}

/* ---- size and life --------------------------------------------------------------------------- */

double lnt_state_elements(const lnt_attn_desc *p, int64_t room)
{
    double total = 0;
    if (p->mechanism == LNT_CUR) return 0;
    for (int i = 0; i < LNT_STATE_SAVED; i++) {
        int64_t shape[3], ld;
        if (i == LNT_STATE_LOW_S || i == LNT_STATE_LOW_Z) continue;
        lnt_state_kind_of(p->mechanism)->shape(p, room, i, shape, &ld);
        if (p->mechanism == LNT_SOFTMAX) shape[2] = i == 0 ? p->dim : p->dim_value; /* it may be in blocks */
        total += (double)shape[0] * (double)shape[1] * (double)shape[2];
    }
    return total;
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
    if (resolved->softmax.align_begin)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "align_begin: the queries of a state stand at its last tokens; leave it out");
    lnt_state *state = lnt_allocate(ctx, sizeof *state, "the state");
    if (!state) return LNT_ERR_MEMORY;
    *state = (lnt_state){ .kind = lnt_state_kind_of(resolved->mechanism), .selected = resolved->batch };
    lnt_attn_desc p = *resolved;
    p.causal = 1;
    p.backward = 0;
    p.state = LNT_STATE_ALWAYS;
    lnt_status status = lnt_workspace_open(ctx, &p, &state->work);
    if (!status) {
        status = lnt_device_of(ctx)->states->open(ctx, &state->work.p, room, state, &state->own);
        if (status) lnt_workspace_close(&state->work);
    }
    if (status) lnt_release(ctx, state, sizeof *state);
    else *out = state;
    return status;
}

lnt_status lnt_state_create(lnt_ctx *ctx, const lnt_attn_desc *desc, lnt_state **out)
{
    if (!ctx || !out) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "ctx and out must not be NULL");
    *out = NULL;
    lnt_attn_desc p;
    const lnt_status status = lnt_problem_resolve(ctx, desc, &p);
    return status ? status : lnt_state_make(ctx, &p, p.length_k, out);
}

void lnt_state_destroy(lnt_state *state)
{
    if (!state) return;
    lnt_ctx *ctx = state->work.ctx;
    lnt_state_device(state)->states->close(state->own);
    lnt_workspace_close(&state->work);
    lnt_release(ctx, state, sizeof *state);
}

lnt_status lnt_state_fork(const lnt_state *state, lnt_state **out)
{
    if (!state) return LNT_ERR_ARGUMENT;
    if (!out) return lnt_fail(state->work.ctx, LNT_ERR_ARGUMENT, "out is NULL");
    lnt_status status = lnt_state_make(state->work.ctx, &state->work.p, state->room, out);
    if (status) return status;
    status = lnt_state_device(state)->states->fork((*out)->own, state->own);
    if (!status) return LNT_OK;
    lnt_state_destroy(*out);
    *out = NULL;
    return status;
}

/* Of the tensors that lnt_state_tensor shows. */
static int shown_part(int index)
{
    return index < LNT_STATE_PUBLIC ? index : LNT_STATE_WINDOW_K + index - LNT_STATE_PUBLIC;
}

static lnt_status check_sequence(const lnt_state *state, const char *name, int64_t sequence)
{
    if (sequence >= 0 && sequence < state->work.p.batch) return LNT_OK;
    return lnt_fail(state->work.ctx, LNT_ERR_ARGUMENT, "%s is %lld, must be 0 to %lld", name,
                    (long long)sequence, (long long)(state->work.p.batch - 1));
}

/* Whether `from` is on the device of the context. */
static lnt_status check_device(lnt_ctx *ctx, const char *what, const lnt_state *from)
{
    if (lnt_device_same(ctx, from->work.ctx)) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s: one state is on %s and the other on %s", what,
                    ctx->device->name, from->work.ctx->device->name);
}

lnt_status lnt_state_copy(lnt_state *to, int64_t to_sequence, lnt_state *from, int64_t from_sequence)
{
    if (!to) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = to->work.ctx;
    if (!from) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "from is NULL");
    if (to->kind->grows)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "copy: the sequences of a softmax cache share their room; fork it");
    lnt_status status = check_sequence(to, "to_sequence", to_sequence);
    if (!status) status = check_sequence(from, "from_sequence", from_sequence);
    if (!status) status = lnt_state_fits(ctx, "from", from, &to->work.p, from->work.p.batch);
    if (!status) status = check_device(ctx, "copy", from);
    if (status) return status;
    lnt_state_settle(to);
    lnt_state_settle(from);
    return lnt_state_device(to)->states->copy(to->own, to_sequence, from->own, from_sequence);
}

lnt_status lnt_state_select(lnt_state *state, const int64_t *index, int64_t count)
{
    if (!state) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = state->work.ctx;
    const int64_t batch = state->work.p.batch;
    if (!lnt_state_device(state)->states->select)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "select: on the %s a state runs all its sequences, in their order",
                        ctx->device->name);
    if (index && (count < 0 || count > batch))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "count is %lld, must be 0 to %lld", (long long)count,
                        (long long)batch);
    state->index = index;
    state->selected = index ? count : batch;
    return lnt_state_device(state)->states->select(state->own, index, state->selected);
}

lnt_status lnt_state_reserve(lnt_state *state, int64_t tokens)
{
    if (!state) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = state->work.ctx;
    if (tokens < 0 || tokens > LNT_MAX_EXTENT)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "tokens is %lld, must be 0 to 2^40",
                        (long long)tokens);
    const lnt_device_states *device = lnt_state_device(state)->states;
    return device->reserve ? device->reserve(state->own, tokens) : LNT_OK;
}

lnt_status lnt_state_reset(lnt_state *state, int64_t sequence)
{
    if (!state) return LNT_ERR_ARGUMENT;
    const int64_t batch = state->work.p.batch;
    if (sequence < -1 || sequence >= batch)
        return lnt_fail(state->work.ctx, LNT_ERR_ARGUMENT,
                        "sequence is %lld, must be 0 to %lld, or -1 for all", (long long)sequence,
                        (long long)(batch - 1));
    lnt_state_settle(state);
    return lnt_state_device(state)->states->reset(state->own, sequence);
}

/* ---- tokens in, answers out ------------------------------------------------------------------ */

static lnt_status check_tensor(const lnt_state *state, const char *name, const lnt_tensor *t,
                               int64_t heads, int64_t length, int64_t dim)
{
    lnt_ctx *ctx = state->work.ctx;
    const lnt_attn_desc *p = &state->work.p;
    const lnt_status status = lnt_tensor_expect(ctx, name, t, state->selected, heads, length, dim);
    if (status) return status;
    if (t->dtype != p->dtype)
        return lnt_fail(ctx, LNT_ERR_DTYPE, "%s: dtype is %s, the state's is %s", name,
                        lnt_dtype_name(t->dtype), lnt_dtype_name(p->dtype));
    return LNT_OK;
}

static lnt_status check_keys(const lnt_state *state, const lnt_tensor *k, const lnt_tensor *v)
{
    const lnt_attn_desc *p = &state->work.p;
    const lnt_status status = check_tensor(state, "k", k, p->kv_heads, -1, p->dim);
    return status ? status
                  : check_tensor(state, "v", v, p->kv_heads, k->shape[2], p->dim_value);
}

static lnt_status check_queries(const lnt_state *state, const lnt_tensor *q, const lnt_tensor *out)
{
    const lnt_attn_desc *p = &state->work.p;
    const lnt_status status = check_tensor(state, "q", q, p->heads, -1, p->dim);
    return status ? status : check_tensor(state, "out", out, p->heads, q->shape[2], p->dim_value);
}

/* out: what is written, NULL: nothing.  Neither it nor what is read may be the state's own. */
static lnt_status check_apart(const lnt_state *state, const lnt_tensor *q, const lnt_tensor *k,
                              const lnt_tensor *v, const lnt_tensor *out)
{
    lnt_ctx *ctx = state->work.ctx;
    const int shown = state->work.p.mechanism == LNT_HYBRID ? 4 : LNT_STATE_PUBLIC;
    lnt_named_tensor given[4];
    int count = 0;
    if (q) given[count++] = (lnt_named_tensor){ "q", q };
    if (k) given[count++] = (lnt_named_tensor){ "k", k };
    if (v) given[count++] = (lnt_named_tensor){ "v", v };
    lnt_status status =
        out ? lnt_tensor_expect_apart(ctx, (lnt_named_tensor){ "out", out }, given, count) : LNT_OK;
    if (out) given[count++] = (lnt_named_tensor){ "out", out };
    for (int i = 0; i < shown && !status; i++) {
        const lnt_tensor view = lnt_state_view(state, shown_part(i));
        const lnt_named_tensor own = { "the state", &view };
        for (int j = 0; j < count && !status; j++) status = lnt_tensor_expect_apart(ctx, given[j], &own, 1);
    }
    return status;
}

lnt_status lnt_state_append(lnt_state *state, const lnt_tensor *k, const lnt_tensor *v)
{
    if (!state) return LNT_ERR_ARGUMENT;
    lnt_status status = check_keys(state, k, v);
    if (!status) status = check_apart(state, NULL, k, v, NULL);
    return status ? status : lnt_state_device(state)->states->run(state->own, NULL, k, v, NULL);
}

lnt_status lnt_state_query(lnt_state *state, const lnt_tensor *q, const lnt_tensor *out)
{
    if (!state) return LNT_ERR_ARGUMENT;
    lnt_status status = check_queries(state, q, out);
    if (!status) status = check_apart(state, q, NULL, NULL, out);
    return status ? status : lnt_state_device(state)->states->run(state->own, q, NULL, NULL, out);
}

lnt_status lnt_state_step(lnt_state *state, const lnt_tensor *q, const lnt_tensor *k,
                          const lnt_tensor *v, const lnt_tensor *out)
{
    if (!state) return LNT_ERR_ARGUMENT;
    lnt_status status = check_keys(state, k, v);
    if (!status) status = check_queries(state, q, out);
    if (!status && q->shape[2] != k->shape[2])
        status = lnt_fail(state->work.ctx, LNT_ERR_SHAPE, "q: length is %lld, that of k is %lld",
                          (long long)q->shape[2], (long long)k->shape[2]);
    if (!status) status = check_apart(state, q, k, v, out);
    return status ? status : lnt_state_device(state)->states->run(state->own, q, k, v, out);
}

lnt_status lnt_state_remove(lnt_state *state, const lnt_tensor *k, const lnt_tensor *v)
{
    if (!state) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = state->work.ctx;
    const lnt_attn_desc *p = &state->work.p;
    if (state->kind->grows)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "remove: a softmax cache keeps tokens as they are; only a state that is a "
                        "sum can give tokens back");
    if (p->mechanism == LNT_HYBRID)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "remove: the tokens that would come back into the window of a hybrid state "
                        "are not known any more");
    if (!lnt_state_device(state)->states->remove) return lnt_device_lacks(ctx, "remove");
    for (int64_t h = 0; p->decay && h < p->kv_heads; h++)
        if (p->decay[h] < 1)
            return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                            "remove: with a decay of %g a token's share depends on its age; "
                            "decay must be 1",
                            p->decay[h]);
    lnt_status status = check_keys(state, k, v);
    if (!status) status = check_apart(state, NULL, k, v, NULL);
    return status ? status : lnt_state_device(state)->states->remove(state->own, k, v);
}

lnt_status lnt_state_merge(lnt_state *dst, lnt_state *src)
{
    if (!dst) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = dst->work.ctx;
    if (!src) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "src is NULL");
    if (dst == src) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "merge: dst and src are the same state");
    if (dst->work.p.mechanism == LNT_HYBRID)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "merge: in a hybrid state every token is near or far by where it stands; "
                        "append the tokens instead");
    lnt_status status =
        lnt_state_fits(ctx, "merge: src", src, &dst->work.p, dst->work.p.batch);
    if (!status) status = check_device(ctx, "merge", src);
    if (status) return status;
    return lnt_state_device(dst)->states->merge(dst->own, src->own);
}

/* ---- looking in ------------------------------------------------------------------------------ */

int64_t lnt_state_tokens(const lnt_state *state, int64_t sequence)
{
    if (!state || sequence < 0 || sequence >= state->work.p.batch) return 0;
    int64_t tokens;
    return lnt_state_device(state)->states->tokens(state->own, sequence, 1, &tokens) ? -1 : tokens;
}

size_t lnt_state_bytes(const lnt_state *state)
{
    return state ? lnt_state_device(state)->states->bytes(state->own) : 0;
}

lnt_status lnt_state_report(lnt_state *state, lnt_report *out)
{
    if (!state) return LNT_ERR_ARGUMENT;
    lnt_report own = { .size = sizeof own };
    lnt_status status =
        lnt_struct_check(state->work.ctx, LNT_STRUCT(lnt_report, nonpositive), "report", out);
    if (!status) status = lnt_state_device(state)->states->report(state->own, &own);
    if (!status) lnt_struct_give(&own, out);
    return status;
}

const char *lnt_state_algorithm(const lnt_state *state)
{
    return state ? lnt_state_device(state)->states->algorithm(state->own) : NULL;
}

lnt_status lnt_state_tensor(lnt_state *state, int index, const char **name, lnt_tensor *view)
{
    if (!state) return LNT_ERR_ARGUMENT;
    const int shown = state->work.p.mechanism == LNT_HYBRID ? 4 : LNT_STATE_PUBLIC;
    if (index < 0 || index >= shown)
        return lnt_fail(state->work.ctx, LNT_ERR_ARGUMENT, "index is %d, must be 0 to %d", index,
                        shown - 1);
    if (state->work.p.softmax.cache == LNT_CACHE_Q8)
        return lnt_fail(state->work.ctx, LNT_ERR_UNSUPPORTED,
                        "tensor: a cache of q8 is made of blocks, which have no dtype");
    const int i = shown_part(index);
    lnt_state_settle(state);
    if (name) *name = state->kind->names[i];
    if (view) *view = lnt_state_view(state, i);
    return LNT_OK;
}
