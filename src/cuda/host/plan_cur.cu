/* cuda/host/plan_cur.cu - plans and runs of cur.h. */
#include "cuda/cur/cur.h"
#include "cuda/host/plan.h"

namespace lnt
{

lnt_status cur_supported(lnt_cuda_device *device, const lnt_attn_desc *p)
{
    const lnt_status no = LNT_ERR_UNSUPPORTED;
    if (p->causal) return fail(device, no, "cuda: cur is not causal");
    if (p->cur.select != LNT_SELECT_STEP && p->cur.select != LNT_SELECT_MEAN &&
        p->cur.select != LNT_SELECT_STEP_MEAN)
        return fail(device, no, "cuda: cur with select step, mean and step-mean is offered");
    if (p->cur.pins)
        return fail(device, no, "cuda: cur with tokens that are pinned is not offered");
    if (p->cur.activation != LNT_ACTIVATION_SOFTMAX)
        return fail(device, no, "cuda: cur with activation softmax is offered");
    if (p->cur.landmarks > CUR_LANDMARKS)
        return fail(device, no, "cuda: cur with %lld landmarks, up to %d are offered",
                    (long long)p->cur.landmarks, (int)CUR_LANDMARKS);
    if (p->batch * p->heads > 65535)
        return fail(device, no,
                    "cuda: cur with batch %lld times heads %lld, up to 65535 are offered",
                    (long long)p->batch, (long long)p->heads);
    return LNT_OK;
}

/* Parts of the keys: enough of them to fill the machine with landmark queries. */
static int parts_for(const lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    const int64_t tiles = (p->cur.landmarks + F32_ROWS - 1) / F32_ROWS * p->batch * p->heads;
    const int64_t want = 4 * (int64_t)plan->device->properties.multiProcessorCount / tiles,
                  most = (p->length_k + 511) / 512;
    const int64_t parts = want < most ? want : most;
    return parts > 1 ? (int)parts : 1;
}

void cur_lay_out(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    const int64_t heads = p->batch * p->heads, kv_heads = p->batch * p->kv_heads,
                  M = p->cur.landmarks;
    const int64_t row = f32_columns((int)p->dim_value);
    plan->parts = parts_for(plan);
    auto floats = [&](int64_t numbers) {
        return take(&plan->at.bytes, (size_t)numbers * sizeof(float));
    };
    plan->at.cur.queries = floats(heads * M * p->dim);
    plan->at.cur.keys = floats(f32_key_numbers(kv_heads, M, (int)p->dim));
    plan->at.cur.values = floats(f32_value_numbers(heads, M, (int)p->dim_value));
    plan->at.cur.rows = floats(heads * M * row);
    plan->at.cur.partial = floats(heads * plan->parts * M * row);
    plan->at.cur.matrices = take(
        &plan->at.bytes, (size_t)(heads * cur_numbers((int)M, (int)p->dim_value)) * sizeof(double));
}

/* The landmark queries over all keys, in parts. */
static f32_args first_pass(const lnt_cuda_plan *plan, const cur_args &a)
{
    f32_args s = a.f32;
    const int64_t M = s.landmarks;
    s.q = { a.queries, LNT_F32, { s.heads * M * s.dim, M * s.dim, s.dim, 1 } };
    s.length_q = M, s.lengths_q = NULL;
    s.land_keys = NULL, s.parts = plan->parts;
    return s;
}

lnt_status cur_forward(lnt_cuda_plan *plan, const lnt_cuda_io *io, cudaStream_t stream)
{
    const lnt_attn_desc *p = &plan->p;
    const lnt_cuda_layout *at = &plan->at;
    char *work = (char *)io->workspace;
    cur_args a = {};
    a.queries = (float *)(work + at->cur.queries), a.keys = (float *)(work + at->cur.keys);
    a.values = (float *)(work + at->cur.values), a.rows = (float *)(work + at->cur.rows);
    a.matrices = (double *)(work + at->cur.matrices);
    a.query_means = p->cur.select == LNT_SELECT_MEAN,
    a.key_means = p->cur.select != LNT_SELECT_STEP;
    a.ridged = p->cur.pinv == LNT_PINV_RIDGE, a.iterations = (int)p->cur.pinv_iterations;
    a.by_both = p->cur.pinv_init == LNT_PINV_NORMS, a.scale = p->scale, a.ridge = p->cur.ridge;
    a.f32 = f32_args_of(plan, io);
    a.f32.landmarks = (int)p->cur.landmarks;
    a.f32.land_keys = a.keys, a.f32.land_values = a.values;
    if (p->cur.copy_rows && !a.query_means) a.f32.land_rows = a.rows;
    a.f32.partial = (float *)(work + at->cur.partial);
    if (!a.f32.batch || !a.f32.length_q) return LNT_OK;
    const bool any = a.f32.length_q > p->cur.landmarks && a.f32.length_k > p->cur.landmarks;
    const f32_args rows = first_pass(plan, a);
    cudaError_t e = a.f32.length_k ? f32_pack_run(a.f32, stream) : cudaSuccess;
    if (e == cudaSuccess && any) e = cur_load_run(a, stream);
    if (e == cudaSuccess && any) e = f32_answer_run(rows, stream);
    /* Which divides what that one summed. */
    a.f32.parts = rows.parts;
    if (e == cudaSuccess && any) e = cur_solve_run(a, stream);
    a.f32.parts = 0;
    if (e == cudaSuccess) e = f32_answer_run(a.f32, stream);
    return check(plan->device, e, "forward");
}

} // namespace lnt
