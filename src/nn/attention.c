/* nn/attention.c - any mechanism of the library as a layer: views of q, k and v for a plan, or for a
 * state where tokens come one after another.  Nothing is copied. */
#include "nn/attention.h"

#include "plan/plan.h"

/* `heads` heads of the tokens in x, from head `first` on. */
static lnt_tensor view(const real *x, size_t width, size_t first, size_t heads, size_t dim,
                       size_t batch, size_t length)
{
    return (lnt_tensor){ .data = (real *)(uintptr_t)(x + first * dim),
                         .dtype = LNT_NN_DTYPE,
                         .shape = { (int64_t)batch, (int64_t)heads, (int64_t)length, (int64_t)dim },
                         .stride = { (int64_t)(length * width), (int64_t)dim, (int64_t)width, 1 } };
}

typedef struct parts {
    lnt_tensor q, k, v;
} parts;

static parts split(const lnt_attention *a, const real *qkv, size_t batch, size_t length)
{
    const size_t width = lnt_attention_width(a), H = a->heads, K = a->kv_heads, d = a->dim;
    return (parts){ .q = view(qkv, width, 0, H, d, batch, length),
                    .k = view(qkv, width, H, K, d, batch, length),
                    .v = view(qkv, width, H + K, K, d, batch, length) };
}

static lnt_status tune(const lnt_attention *a, const real *temperature)
{
    if (!a->learned) return LNT_OK;
    for (size_t h = 0; h < a->heads; h++) a->temperature[h] = (double)temperature[h];
    return lnt_plan_set_temperature(a->plan, a->temperature);
}

static lnt_attn_io make_io(const lnt_attention *a, const real *qkv, const int64_t *lengths,
                           const real *out, size_t batch, size_t length)
{
    const parts p = split(a, qkv, batch, length);
    return (lnt_attn_io){ .size = sizeof(lnt_attn_io), .q = p.q, .k = p.k, .v = p.v,
                          .out = view(out, a->heads * a->dim, 0, a->heads, a->dim, batch, length),
                          .lengths_q = lengths, .lengths_k = lengths };
}

lnt_status lnt_attention_forward(const lnt_attention *a, const real *qkv, const real *temperature,
                                 const int64_t *lengths, real *out, void *notes, size_t batch,
                                 size_t length)
{
    const lnt_attn_io io = make_io(a, qkv, lengths, out, batch, length);
    if (a->state) return lnt_state_step(a->state, &io.q, &io.k, &io.v, &io.out);
    const lnt_status status = tune(a, temperature);
    return status ? status : lnt_plan_forward_keeping(a->plan, &io, notes);
}

lnt_status lnt_attention_backward(const lnt_attention *a, const real *qkv, const real *temperature,
                                  const int64_t *lengths, const real *out, const void *notes,
                                  const real *dout, real *dqkv, real *dtemperature, size_t batch,
                                  size_t length)
{
    const lnt_attn_io io = make_io(a, qkv, lengths, out, batch, length);
    const parts d = split(a, dqkv, batch, length);
    const lnt_attn_grads grads = {
        .size = sizeof grads,
        .dout = view(dout, a->heads * a->dim, 0, a->heads, a->dim, batch, length),
        .dq = d.q, .dk = d.k, .dv = d.v,
        .dtemperature = a->learned ? a->dtemperature : NULL
    };
    lnt_status status = tune(a, temperature);
    if (!status) status = lnt_plan_backward_kept(a->plan, &io, &grads, notes);
    for (size_t h = 0; !status && a->learned && h < a->heads; h++)
        dtemperature[h] += (real)a->dtemperature[h];
    return status;
}
