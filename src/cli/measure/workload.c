/* cli/measure/workload.c - random data for a measurement. */
#include "cli/measure/workload.h"

#include <math.h>

#include "cli/arrays/device.h"
#include "cli/arrays/tensors.h"
#include "cli/show/report.h"

static void make_positive(const lnt_tensor *t)
{
    const int64_t *s = t->shape;
    for (int64_t b = 0; b < s[0]; b++)
        for (int64_t h = 0; h < s[1]; h++)
            for (int64_t n = 0; n < s[2]; n++)
                for (int64_t d = 0; d < s[3]; d++)
                    lnt_tensor_set(t, b, h, n, d, fabs(lnt_tensor_get(t, b, h, n, d)));
}

/* Data for which the denominators are well above zero: otherwise an error would tell how hard the
 * problem is, not how well it is solved.  The random maps estimate a kernel of q - k and want short
 * vectors; the identity and the polynomial of taylor, which at odd degree is below zero for far
 * enough negative scores, want scores of one sign. */
static lnt_status fill(lnt_ctx *ctx, const lnt_attn_desc *desc, const workload *w)
{
    const lnt_mechanism far = desc->mechanism == LNT_HYBRID ? desc->hybrid.far : desc->mechanism;
    const bool linear = far == LNT_LINEAR, taylor = far == LNT_TAYLOR;
    const bool random = linear && (desc->linear.feature_map == LNT_MAP_FOURIER ||
                                   desc->linear.feature_map == LNT_MAP_POSITIVE);
    const double sigma = random ? 0.5 / sqrt((double)desc->dim) : 1;
    lnt_status status = lnt_tensor_fill_normal(ctx, &w->q, 4 * desc->seed, sigma);
    if (!status) status = lnt_tensor_fill_normal(ctx, &w->k, 4 * desc->seed + 1, sigma);
    if (!status) status = lnt_tensor_fill_normal(ctx, &w->v, 4 * desc->seed + 2, 1);
    if (!status && w->dout.data)
        status = lnt_tensor_fill_normal(ctx, &w->dout, 4 * desc->seed + 3, 1);
    if (!status && (taylor || (linear && desc->linear.feature_map == LNT_MAP_IDENTITY))) {
        make_positive(&w->q);
        make_positive(&w->k);
    }
    return status;
}

int workload_make(lnt_ctx *ctx, const lnt_attn_desc *desc, int64_t length, bool gradients,
                  workload *out)
{
    const int64_t b = desc->batch, h = desc->heads, kv = desc->kv_heads;
    const int64_t d = desc->dim, m = desc->dim_value, n = length;
    const lnt_dtype t = desc->dtype;
    *out = (workload){ .q.data = NULL };
    int status = tensor_make(&out->q, t, b, h, n, d);
    if (!status) status = tensor_make(&out->k, t, b, kv, n, d);
    if (!status) status = tensor_make(&out->v, t, b, kv, n, m);
    if (!status) status = tensor_make(&out->out, t, b, h, n, m);
    if (!status && gradients) status = tensor_make(&out->dout, t, b, h, n, m);
    if (!status && gradients) status = tensor_make(&out->dq, t, b, h, n, d);
    if (!status && gradients) status = tensor_make(&out->dk, t, b, kv, n, d);
    if (!status && gradients) status = tensor_make(&out->dv, t, b, kv, n, m);
    if (!status && fill(ctx, desc, out)) status = fail_ctx(ctx);
    if (status) workload_free(out);
    return status;
}

enum { TENSORS = 8 };

static lnt_tensor *tensor_of(workload *w, int i)
{
    lnt_tensor *const all[TENSORS] = { &w->q,    &w->k,  &w->v,  &w->out,
                                       &w->dout, &w->dq, &w->dk, &w->dv };
    return all[i];
}

void workload_free(workload *w)
{
    for (int i = 0; i < TENSORS; i++) tensor_free(tensor_of(w, i));
}

lnt_status workload_place(lnt_ctx *ctx, const workload *host, workload *there)
{
    workload from = *host;
    lnt_status status = LNT_OK;
    *there = (workload){ .q.data = NULL };
    for (int i = 0; i < TENSORS && !status; i++)
        status = device_place(ctx, tensor_of(&from, i), tensor_of(there, i));
    return status;
}

void workload_leave(lnt_ctx *ctx, workload *there)
{
    for (int i = 0; i < TENSORS; i++) device_leave(ctx, tensor_of(there, i));
}

lnt_attn_io workload_io(const workload *w)
{
    return (lnt_attn_io){
        .size = sizeof(lnt_attn_io), .q = w->q, .k = w->k, .v = w->v, .out = w->out
    };
}

lnt_attn_grads workload_grads(const workload *w)
{
    return (lnt_attn_grads){
        .size = sizeof(lnt_attn_grads), .dout = w->dout, .dq = w->dq, .dk = w->dk, .dv = w->dv
    };
}
