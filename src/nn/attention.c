/* nn/attention.c - any mechanism of the library as a layer: views of q, k and v for a plan, or for a
 * state where tokens come one after another.  Nothing is copied but queries that have a temperature. */
#include "nn/attention.h"

#include "core/threads.h"
#include "plan/plan.h"

typedef struct parts {
    lnt_tensor q, k, v;
} parts;

static parts split(const lnt_attention *a, const real *qkv, size_t batch, size_t length)
{
    const size_t width = lnt_attention_width(a), H = a->heads, K = a->kv_heads, d = a->dim;
    return (parts){ .q = nn_heads(qkv, width, H, d, batch, length),
                    .k = nn_heads(qkv + H * d, width, K, d, batch, length),
                    .v = nn_heads(qkv + (H + K) * d, width, K, d, batch, length) };
}

static lnt_status tune_plan(const lnt_attention *a, const real *temperature)
{
    if (!lnt_attention_tunes_plan(a)) return LNT_OK;
    for (size_t h = 0; h < a->heads; h++) a->temperature[h] = (double)temperature[h];
    return lnt_plan_set_temperature(a->plan, a->temperature);
}

/* a->tuned = q times the temperature of its head. */
static void tune_queries(const lnt_attention *a, const real *qkv, const real *temperature, size_t n)
{
    const size_t width = lnt_attention_width(a), H = a->heads, d = a->dim;
    const int threads = lnt_threads_for(a->ctx, (double)(n * H * d));
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)(n * H); i++) {
        const size_t t = (size_t)i / H, h = (size_t)i % H;
        const real *q = qkv + t * width + h * d;
        real *to = a->tuned + (size_t)i * d;
        for (size_t c = 0; c < d; c++) to[c] = temperature[h] * q[c];
    }
}

/* dq, of tuned queries so far, becomes that of q, and dtemperature is added to; a head's sum is one
 * thread's, so that the bits are those of any number of threads. */
static void tune_back(const lnt_attention *a, const real *qkv, const real *temperature, real *dqkv,
                      real *dtemperature, size_t n)
{
    const size_t width = lnt_attention_width(a), d = a->dim;
    const int threads = lnt_threads_for(a->ctx, (double)(n * a->heads * d));
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t h = 0; h < (int64_t)a->heads; h++) {
        double sum = 0;
        for (size_t t = 0; t < n; t++) {
            const size_t at = t * width + (size_t)h * d;
            for (size_t c = at; c < at + d; c++) {
                sum += (double)(qkv[c] * dqkv[c]);
                dqkv[c] *= temperature[h];
            }
        }
        dtemperature[h] += (real)sum;
    }
}

static lnt_attn_io make_io(const lnt_attention *a, const real *qkv, const real *temperature,
                           const int64_t *lengths, const real *out, size_t batch, size_t length)
{
    parts p = split(a, qkv, batch, length);
    if (lnt_attention_tunes_queries(a)) {
        tune_queries(a, qkv, temperature, batch * length);
        p.q = nn_heads(a->tuned, a->heads * a->dim, a->heads, a->dim, batch, length);
    }
    return (lnt_attn_io){ .size = sizeof(lnt_attn_io), .q = p.q, .k = p.k, .v = p.v,
                          .out = nn_heads(out, a->heads * a->dim, a->heads, a->dim, batch, length),
                          .lengths_q = lengths, .lengths_k = lengths };
}

lnt_status lnt_attention_forward(const lnt_attention *a, const real *qkv, const real *temperature,
                                 const int64_t *lengths, real *out, void *notes, size_t batch,
                                 size_t length)
{
    const lnt_attn_io io = make_io(a, qkv, temperature, lengths, out, batch, length);
    if (a->state) return lnt_state_step(a->state, &io.q, &io.k, &io.v, &io.out);
    const lnt_status status = tune_plan(a, temperature);
    return status ? status : lnt_plan_forward_keeping(a->plan, &io, notes);
}

lnt_status lnt_attention_backward(const lnt_attention *a, const real *qkv, const real *temperature,
                                  const int64_t *lengths, const real *out, const void *notes,
                                  const real *dout, real *dqkv, real *dtemperature, size_t batch,
                                  size_t length)
{
    const lnt_attn_io io = make_io(a, qkv, temperature, lengths, out, batch, length);
    const parts d = split(a, dqkv, batch, length);
    const lnt_attn_grads grads = {
        .size = sizeof grads,
        .dout = nn_heads(dout, a->heads * a->dim, a->heads, a->dim, batch, length),
        .dq = d.q, .dk = d.k, .dv = d.v,
        .dtemperature = lnt_attention_tunes_plan(a) ? a->dtemperature : NULL
    };
    lnt_status status = tune_plan(a, temperature);
    if (!status) status = lnt_plan_backward_kept(a->plan, &io, &grads, notes);
    for (size_t h = 0; !status && lnt_attention_tunes_plan(a) && h < a->heads; h++)
        dtemperature[h] += (real)a->dtemperature[h];
    if (!status && lnt_attention_tunes_queries(a))
        tune_back(a, qkv, temperature, dqkv, dtemperature, batch * length);
    return status;
}
