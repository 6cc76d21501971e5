/* cuda/cur_plan.cu - plans and runs of cur.h. */
#include "cuda/cur.h"
#include "cuda/plan.h"

namespace lnt
{

lnt_status cur_supported(lnt_cuda_device *device, const lnt_attn_desc *p)
{
    const lnt_status no = LNT_ERR_UNSUPPORTED;
    if (p->causal) return fail(device, no, "cuda: cur is not causal");
    if (p->cur.select != LNT_SELECT_STEP && p->cur.select != LNT_SELECT_MEAN &&
        p->cur.select != LNT_SELECT_STEP_MEAN)
        return fail(device, no, "cuda: cur with select step, mean and step-mean is offered");
    if (p->cur.pins) return fail(device, no, "cuda: cur with tokens that are pinned is not offered");
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
    const int64_t tiles = (p->cur.landmarks + SPLIT_ROWS - 1) / SPLIT_ROWS * p->batch * p->heads;
    const int64_t want = 4 * (int64_t)plan->device->properties.multiProcessorCount / tiles,
                  most = (p->length_k + 511) / 512;
    const int64_t parts = want < most ? want : most;
    return parts > 1 ? (int)parts : 1;
}

void cur_lay_out(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    const int64_t heads = p->batch * p->heads, kv_heads = p->batch * p->kv_heads, M = p->cur.landmarks;
    const int64_t row = split_columns((int)p->dim_value);
    plan->parts = parts_for(plan);
    auto floats = [&](int64_t numbers) {
        return take(&plan->at.bytes, (size_t)numbers * sizeof(float));
    };
    plan->at.cur.queries = floats(heads * M * p->dim);
    plan->at.cur.keys = floats(split_key_numbers(kv_heads, M, (int)p->dim));
    plan->at.cur.values = floats(split_value_numbers(heads, M, (int)p->dim_value));
    plan->at.cur.rows = floats(heads * M * row);
    plan->at.cur.partial = floats(heads * plan->parts * M * row);
    plan->at.cur.matrices = take(
        &plan->at.bytes, (size_t)(heads * cur_numbers((int)M, (int)p->dim_value)) * sizeof(double));
}

/* The landmark queries over all keys, in parts. */
static split_args first_pass(const lnt_cuda_plan *plan, const cur_args &a)
{
    split_args s = a.split;
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
    a.query_means = p->cur.select == LNT_SELECT_MEAN, a.key_means = p->cur.select != LNT_SELECT_STEP;
    a.ridged = p->cur.pinv == LNT_PINV_RIDGE, a.iterations = (int)p->cur.pinv_iterations;
    a.by_both = p->cur.pinv_init == LNT_PINV_NORMS, a.scale = p->scale, a.ridge = p->cur.ridge;
    a.split = split_args_of(plan, io);
    a.split.landmarks = (int)p->cur.landmarks;
    a.split.land_keys = a.keys, a.split.land_values = a.values;
    if (p->cur.copy_rows && !a.query_means) a.split.land_rows = a.rows;
    a.split.partial = (float *)(work + at->cur.partial);
    if (!a.split.batch || !a.split.length_q) return LNT_OK;
    const bool any = a.split.length_q > p->cur.landmarks && a.split.length_k > p->cur.landmarks;
    const split_args rows = first_pass(plan, a);
    cudaError_t e = a.split.length_k ? split_pack_run(a.split, stream) : cudaSuccess;
    if (e == cudaSuccess && any) e = cur_load_run(a, stream);
    if (e == cudaSuccess && any) e = split_read_run(rows, stream);
    /* Which divides what that one summed. */
    a.split.parts = rows.parts;
    if (e == cudaSuccess && any) e = cur_solve_run(a, stream);
    a.split.parts = 0;
    if (e == cudaSuccess) e = split_read_run(a.split, stream);
    return check(plan->device, e, "forward");
}

} // namespace lnt
