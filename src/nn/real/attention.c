/* nn/real/attention.c - any mechanism of the library as a layer: views of q, k and v for a plan, or for a
 * state if tokens follow earlier ones.  Only queries with a learned temperature are copied. */
#include "nn/attention.h"

#include "core/threads.h"
#include "plan/plan.h"

typedef struct parts {
    lnt_tensor q, k, v;
} parts;

static parts split(const lnt_pass *pass, const lnt_attention *a, const real *qkv)
{
    const size_t width = lnt_attention_width(a), H = a->heads, K = a->kv_heads, d = a->dim;
    return (parts){ .q = nn_heads(pass, qkv, width, H, d),
                    .k = nn_heads(pass, qkv + H * d, width, K, d),
                    .v = nn_heads(pass, qkv + (H + K) * d, width, K, d) };
}

/* The heads of what attention gives, or of its queries alone. */
static lnt_tensor mixed(const lnt_pass *pass, const lnt_attention *a, const real *x)
{
    return nn_heads(pass, x, a->heads * a->dim, a->heads, a->dim);
}

static lnt_status tune_plan(const lnt_attention *a)
{
    if (!lnt_attention_tunes_plan(a)) return LNT_OK;
    for (size_t h = 0; h < a->heads; h++) a->plan_temperature[h] = (double)a->temperature[h];
    return lnt_plan_set_temperature(a->plan, a->plan_temperature);
}

/* a->tuned = q times the temperature of its head. */
static void tune_queries(const lnt_pass *pass, const lnt_attention *a, const real *qkv)
{
    const real *temperature = a->temperature;
    const size_t width = lnt_attention_width(a), n = nn_tokens(pass), H = a->heads, d = a->dim;
    const int threads = lnt_threads_for(pass->ctx, (double)(n * H * d));
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
static void tune_back(const lnt_pass *pass, const lnt_attention *a, const real *qkv, real *dqkv)
{
    const real *temperature = a->temperature;
    const size_t width = lnt_attention_width(a), n = nn_tokens(pass), d = a->dim;
    const int threads = lnt_threads_for(pass->ctx, (double)(n * a->heads * d));
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
        a->dtemperature[h] += (real)sum;
    }
}

static lnt_attn_io make_io(const lnt_pass *pass, const lnt_attention *a, const real *qkv,
                           const real *out, const void *kept)
{
    parts p = split(pass, a, qkv);
    if (lnt_attention_tunes_queries(a)) {
        tune_queries(pass, a, qkv);
        p.q = mixed(pass, a, a->tuned);
    }
    return (lnt_attn_io){ .size = sizeof(lnt_attn_io), .q = p.q, .k = p.k, .v = p.v,
                          .out = mixed(pass, a, out),
                          .lengths_q = pass->lengths, .lengths_k = pass->lengths,
                          .kept = (void *)(uintptr_t)kept, .kept_bytes = a->kept };
}

lnt_status lnt_attention_forward(const lnt_pass *pass, const lnt_attention *a, const real *qkv,
                                 real *out, void *kept)
{
    const lnt_attn_io io = make_io(pass, a, qkv, out, kept);
    if (a->state) return lnt_state_step(a->state, &io.q, &io.k, &io.v, &io.out);
    const lnt_watcher *w = &a->watcher;
    lnt_status status = tune_plan(a);
    if (!status) status = lnt_plan_forward(a->plan, &io);
    if (!status && w->watch) status = w->watch(w->user, w->layer, &a->plan->work.p, &io);
    return status;
}

lnt_status lnt_attention_backward(const lnt_pass *pass, const lnt_attention *a, const real *qkv,
                                  const real *out, const void *kept, const real *dout, real *dqkv)
{
    const lnt_attn_io io = make_io(pass, a, qkv, out, kept);
    const parts d = split(pass, a, dqkv);
    const lnt_attn_grads grads = {
        .size = sizeof grads,
        .dout = mixed(pass, a, dout),
        .dq = d.q, .dk = d.k, .dv = d.v,
        .dtemperature = lnt_attention_tunes_plan(a) ? a->plan_dtemperature : NULL
    };
    lnt_status status = tune_plan(a);
    if (!status) status = lnt_plan_backward(a->plan, &io, &grads);
    for (size_t h = 0; !status && lnt_attention_tunes_plan(a) && h < a->heads; h++)
        a->dtemperature[h] += (real)a->plan_dtemperature[h];
    if (!status && lnt_attention_tunes_queries(a)) tune_back(pass, a, qkv, dqkv);
    return status;
}
