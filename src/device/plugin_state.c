/* device/plugin_state.c - states of a plug-in: S [B,K,D,m] and z [B,K,D] in its memory, in the library's
 * order and without padding, so that copies of whole sequences are all it takes to move them.  The
 * plug-in appends and reads; it also counts the tokens, since which sequence of a pool a run adds to
 * may be known on the device alone. */
#include <math.h>
#include <string.h>

#include "device/plugin_device.h"

enum { S, Z, TENSORS };

static lnt_plugin_state *own(const lnt_device_state *state)
{
    return (lnt_plugin_state *)(uintptr_t)state;
}

static size_t token_bytes(const lnt_plugin_state *o) { return (size_t)o->p->batch * sizeof *o->seen; }

/* ---- life ------------------------------------------------------------------------------------ */

static lnt_status allocate_tensor(lnt_plugin_state *o, int i)
{
    const lnt_attn_desc *p = o->p;
    lnt_ctx *ctx = o->plan.ctx;
    const int64_t D = o->plan.info.features, rows = i == S ? D : 1, columns = i == S ? p->dim_value : D;
    o->tensor[i] = lnt_tensor_bhnd(NULL, LNT_F32, p->batch, p->kv_heads, rows, columns);
    size_t all;
    if (!lnt_size_product((size_t)p->batch, (size_t)p->kv_heads, (size_t)rows, &all) ||
        !lnt_size_product(all, (size_t)columns, sizeof(float), &o->bytes[i]))
        return lnt_fail(ctx, LNT_ERR_MEMORY, "state: its size exceeds the address space");
    return lnt_device_allocate(ctx, o->bytes[i], &o->tensor[i].data);
}

static lnt_status open_plan(lnt_ctx *ctx, const lnt_attn_desc *p, lnt_plugin_plan *out)
{
    lnt_attn_desc step = *p;
    step.state = 1;
    step.length_q = step.length_k = 0; /* a step brings its own lengths */
    const lnt_status status = lnt_plugin_plan_make(ctx, &step, NULL, out);
    if (status || out->info.features) return status;
    return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "state: %s keeps none of %lld terms with a dim of %lld",
                    ctx->device->name, (long long)p->taylor.terms, (long long)p->dim);
}

static lnt_status clear_state(lnt_plugin_state *o)
{
    lnt_ctx *ctx = o->plan.ctx;
    const lnt_plugin *d = lnt_plugin_of(ctx);
    void *const memory[] = { o->seen, o->tensor[S].data, o->tensor[Z].data };
    const size_t bytes[] = { token_bytes(o), o->bytes[S], o->bytes[Z] };
    lnt_status status = LNT_OK;
    for (int i = 0; i < 3 && !status; i++)
        if (bytes[i])
            status = lnt_plugin_told(ctx, d->api->clear(d->handle, memory[i], bytes[i], ctx->stream));
    return status;
}

static void close_state(lnt_device_state *state)
{
    lnt_plugin_state *o = own(state);
    lnt_ctx *ctx = o->plan.ctx;
    lnt_device_release(ctx, o->seen, token_bytes(o));
    for (int i = 0; i < TENSORS; i++) lnt_device_release(ctx, o->tensor[i].data, o->bytes[i]);
    lnt_plugin_plan_end(&o->plan);
    lnt_release(ctx, o, sizeof *o);
}

static lnt_status open_state(lnt_ctx *ctx, const lnt_attn_desc *p, int64_t room, lnt_state *whole,
                             lnt_device_state **out)
{
    (void)room;
    (void)whole;
    if (p->mechanism != LNT_LINEAR && p->mechanism != LNT_TAYLOR)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "state: %s has one on the cpu only, not on %s",
                        lnt_mechanism_name(p->mechanism), ctx->device->name);
    lnt_plugin_state *o = lnt_allocate(ctx, sizeof *o, "the state");
    if (!o) return LNT_ERR_MEMORY;
    *o = (lnt_plugin_state){ .plan.ctx = ctx, .p = p, .selected = p->batch };
    *out = (lnt_device_state *)(void *)o;
    void *seen = NULL;
    lnt_status status = open_plan(ctx, p, &o->plan);
    for (int i = 0; i < TENSORS && !status; i++) status = allocate_tensor(o, i);
    if (!status) status = lnt_device_allocate(ctx, token_bytes(o), &seen);
    o->seen = seen;
    if (!status) status = clear_state(o);
    if (status) close_state(*out);
    return status;
}

static lnt_status reset(lnt_device_state *state, int64_t sequence)
{
    lnt_plugin_state *o = own(state);
    lnt_ctx *ctx = o->plan.ctx;
    if (sequence < 0) return clear_state(o);
    const lnt_cuda_states slots = lnt_plugin_slots(state);
    return lnt_plugin_told(ctx, lnt_plugin_of(ctx)->api->state_reset(o->plan.plan, &slots, sequence,
                                                                     ctx->stream));
}

/* ---- tokens in, answers out ------------------------------------------------------------------ */

lnt_cuda_states lnt_plugin_slots(const lnt_device_state *state)
{
    const lnt_plugin_state *o = own(state);
    return (lnt_cuda_states){ .s = o->tensor[S].data,
                              .z = o->tensor[Z].data,
                              .slots = o->p->batch,
                              .tokens = o->seen };
}

static lnt_status select_slots(lnt_device_state *state, const int64_t *index, int64_t count)
{
    own(state)->index = index;
    own(state)->selected = count;
    return LNT_OK;
}

static lnt_status run(lnt_device_state *state, const lnt_tensor *q, const lnt_tensor *k,
                      const lnt_tensor *v, const lnt_tensor *out)
{
    lnt_plugin_state *o = own(state);
    lnt_cuda_states slots = lnt_plugin_slots(state);
    lnt_cuda_io io = lnt_plugin_plan_io(&o->plan);
    slots.index = o->index;
    if (k) {
        io.k = *k;
        io.v = *v;
    }
    if (q) {
        io.q = *q;
        io.out = *out;
    }
    o->algorithm = o->p->mechanism == LNT_TAYLOR ? "taylor/recurrent" : "linear/recurrent";
    if (!o->selected || !o->p->heads) return LNT_OK;
    const int what = (k ? LNT_CUDA_APPEND : 0) | (q ? LNT_CUDA_QUERY : 0);
    lnt_ctx *ctx = o->plan.ctx;
    return lnt_plugin_told(ctx, lnt_plugin_of(ctx)->api->step(o->plan.plan, &io, &slots, what));
}

static const char *algorithm(const lnt_device_state *state) { return own(state)->algorithm; }

static lnt_status report(lnt_device_state *state, lnt_report *out)
{
    return lnt_plugin_plan_report(&own(state)->plan, out);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static lnt_status copy_bytes(lnt_ctx *ctx, void *to, const void *from, size_t bytes)
{
    const lnt_plugin *d = lnt_plugin_of(ctx);
    return bytes ? lnt_plugin_told(ctx, d->api->copy(d->handle, to, from, bytes, ctx->stream)) : LNT_OK;
}

/* `count` sequences, from the one of `from` on. */
static lnt_status copy_sequences(lnt_plugin_state *to, int64_t to_sequence, const lnt_plugin_state *from,
                                 int64_t from_sequence, int64_t count)
{
    lnt_ctx *ctx = to->plan.ctx;
    lnt_status status = copy_bytes(ctx, to->seen + to_sequence, from->seen + from_sequence,
                                   (size_t)count * sizeof *to->seen);
    for (int i = 0; i < TENSORS && !status && count; i++) {
        const size_t share = to->bytes[i] / (size_t)to->p->batch;
        status = copy_bytes(ctx, (char *)to->tensor[i].data + (size_t)to_sequence * share,
                            (char *)from->tensor[i].data + (size_t)from_sequence * share,
                            (size_t)count * share);
    }
    return status;
}

static lnt_status fork_state(lnt_device_state *to, const lnt_device_state *from)
{
    return copy_sequences(own(to), 0, own(from), 0, own(to)->p->batch);
}

static lnt_status copy(lnt_device_state *to, int64_t to_sequence, const lnt_device_state *from,
                       int64_t from_sequence)
{
    return copy_sequences(own(to), to_sequence, own(from), from_sequence, 1);
}

static lnt_tensor tensor(const lnt_device_state *state, int i)
{
    return i < TENSORS ? own(state)->tensor[i] : (lnt_tensor){ .dtype = LNT_F32 };
}

static size_t bytes(const lnt_device_state *state) { return own(state)->bytes[S] + own(state)->bytes[Z]; }

static lnt_status tokens(const lnt_device_state *state, int64_t first, int64_t count, int64_t *out)
{
    const lnt_plugin_state *o = own(state);
    return lnt_device_read(o->plan.ctx, out, o->seen + first, (size_t)count * sizeof *out);
}

static lnt_status set_tokens(lnt_device_state *state, const int64_t *counts)
{
    const lnt_plugin_state *o = own(state);
    return lnt_device_write(o->plan.ctx, o->seen, counts, token_bytes(o));
}

/* ---- out, in and together -------------------------------------------------------------------- */

/* With taylorshift the library's sums are over keys times r = d^(1/4), the plug-in's over keys of length
 * 1: rows of degree t, of which there are (d + t - 1 over t), differ by r^t. */
static void rescale(const lnt_plugin_state *o, int i, float *packed, bool out)
{
    const lnt_attn_desc *p = o->p;
    if (p->mechanism != LNT_TAYLOR || p->taylor.normalize != LNT_NORMALIZE_TAYLORSHIFT) return;
    const double r = sqrt(sqrt((double)p->dim));
    const int64_t each = i == S ? p->dim_value : 1;
    for (int64_t head = 0; head < p->batch * p->kv_heads; head++)
        for (int64_t t = 0, rows = 1; t < p->taylor.terms; rows = rows * (p->dim + t) / (t + 1), t++) {
            const float factor = (float)pow(r, (double)(out ? t : -t));
            for (int64_t n = rows * each; n > 0; n--) *packed++ *= factor;
        }
}

static lnt_status pack(const lnt_device_state *state, int i, int64_t rows, void *packed)
{
    const lnt_plugin_state *o = own(state);
    (void)rows; /* all: it does not grow */
    const lnt_status status = lnt_device_read(o->plan.ctx, packed, o->tensor[i].data, o->bytes[i]);
    if (!status) rescale(o, i, packed, true);
    return status;
}

static lnt_status unpack(lnt_device_state *state, int i, int64_t rows, const void *packed)
{
    lnt_plugin_state *o = own(state);
    lnt_ctx *ctx = o->plan.ctx;
    (void)rows;
    void *scaled = lnt_allocate(ctx, o->bytes[i], "a copy of the state");
    if (!scaled) return LNT_ERR_MEMORY;
    memcpy(scaled, packed, o->bytes[i]);
    rescale(o, i, scaled, false);
    const lnt_status status = lnt_device_write(ctx, o->tensor[i].data, scaled, o->bytes[i]);
    lnt_release(ctx, scaled, o->bytes[i]);
    return status;
}

/* dst = aged dst + src in the host's memory: seldom done, and the plug-in has nothing to do it with.
 * src_tokens [batch]. */
static lnt_status merge_tensor(lnt_plugin_state *dst, const lnt_plugin_state *src, int i,
                               const int64_t *src_tokens)
{
    const lnt_attn_desc *p = dst->p;
    lnt_ctx *ctx = dst->plan.ctx;
    const size_t all = dst->bytes[i], heads = (size_t)(p->batch * p->kv_heads);
    float *sum = lnt_allocate(ctx, 2 * all, "merging states");
    if (!sum) return LNT_ERR_MEMORY;
    float *const added = sum + all / sizeof *sum;
    lnt_status status = lnt_device_read(ctx, sum, dst->tensor[i].data, all);
    if (!status) status = lnt_device_read(ctx, added, src->tensor[i].data, all);
    const size_t each = heads ? all / sizeof *sum / heads : 0;
    for (size_t h = 0; h < heads && !status; h++) {
        const double decay = p->decay ? p->decay[h % (size_t)p->kv_heads] : 1;
        const float aged = (float)pow(decay, (double)src_tokens[h / (size_t)p->kv_heads]);
        for (size_t n = h * each; n < (h + 1) * each; n++) {
            sum[n] *= aged;
            sum[n] += added[n];
        }
    }
    if (!status) status = lnt_device_write(ctx, dst->tensor[i].data, sum, all);
    lnt_release(ctx, sum, 2 * all);
    return status;
}

static lnt_status merge(lnt_device_state *dst, const lnt_device_state *src)
{
    const int64_t batch = own(dst)->p->batch;
    lnt_ctx *ctx = own(dst)->plan.ctx;
    const size_t counted = 2 * token_bytes(own(dst)); /* those of dst, then those of src */
    int64_t *counts = lnt_allocate(ctx, counted, "merging states");
    if (!counts) return LNT_ERR_MEMORY;
    lnt_status status = tokens(dst, 0, batch, counts);
    if (!status) status = tokens(src, 0, batch, counts + batch);
    for (int i = 0; i < TENSORS && !status; i++)
        status = merge_tensor(own(dst), own(src), i, counts + batch);
    for (int64_t b = 0; b < batch; b++) counts[b] += counts[batch + b];
    if (!status) status = set_tokens(dst, counts);
    lnt_release(ctx, counts, counted);
    return status;
}

const lnt_device_states lnt_plugin_states = { .open = open_state,
                                              .close = close_state,
                                              .fork = fork_state,
                                              .copy = copy,
                                              .select = select_slots,
                                              .reset = reset,
                                              .run = run,
                                              .merge = merge,
                                              .tensor = tensor,
                                              .bytes = bytes,
                                              .pack = pack,
                                              .unpack = unpack,
                                              .tokens = tokens,
                                              .set_tokens = set_tokens,
                                              .report = report,
                                              .algorithm = algorithm };
