/* cuda/host/plan_cur.cu - plans and runs of cur.h. */
#include "cuda/cur/cur.h"
#include "cuda/host/plan.h"

namespace lnt
{

/* Parts of the keys: enough of them to fill the machine with landmark queries. */
static int parts_for(const lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    const int64_t tiles = (p->cur.landmarks + F32_ROWS - 1) / F32_ROWS * p->batch * p->heads;
    const int64_t want = 4 * (int64_t)plan->device->limits.processors / tiles,
                  most = (p->length_k + 511) / 512;
    const int64_t parts = want < most ? want : most;
    return parts > 1 ? (int)parts : 1;
}

static void lay_out(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    const int64_t heads = p->batch * p->heads, kv_heads = p->batch * p->kv_heads, M = p->cur.landmarks,
                  row = f32_columns((int)p->dim_value);
    cur_plan *own = &plan->cur;
    size_t *bytes = &plan->bytes;
    f32_lay_out(plan);
    own->parts = parts_for(plan);
    own->queries = take_floats(bytes, heads * M * p->dim);
    own->keys = take_floats(bytes, f32_key_numbers(kv_heads, M, (int)p->dim));
    own->values = take_floats(bytes, f32_value_numbers(heads, M, (int)p->dim_value));
    own->rows = take_floats(bytes, heads * M * row);
    own->partial = take_floats(bytes, heads * own->parts * M * row);
    own->matrices = take(bytes, (size_t)(heads * cur_numbers((int)M, (int)p->dim_value)) * sizeof(double));
}

/* The landmark queries over all keys, in parts. */
static f32_args first_pass(const lnt_cuda_plan *plan, const cur_args &a)
{
    f32_args s = a.f32;
    const int64_t M = s.landmarks;
    s.q = { a.queries, LNT_F32, { s.heads * M * s.dim, M * s.dim, s.dim, 1 } };
    s.length_q = M, s.lengths_q = NULL;
    s.land_keys = NULL, s.parts = plan->cur.parts;
    return s;
}

static cudaError_t forward(lnt_cuda_plan *plan, const lnt_cuda_io *io, cudaStream_t stream)
{
    const lnt_attn_desc *p = &plan->p;
    const cur_plan *at = &plan->cur;
    char *work = (char *)io->workspace;
    cur_args a = {};
    a.queries = (float *)(work + at->queries), a.keys = (float *)(work + at->keys);
    a.values = (float *)(work + at->values), a.rows = (float *)(work + at->rows);
    a.matrices = (double *)(work + at->matrices);
    a.query_means = p->cur.select == LNT_SELECT_MEAN, a.key_means = p->cur.select != LNT_SELECT_STEP;
    a.ridged = p->cur.pinv == LNT_PINV_RIDGE, a.iterations = (int)p->cur.pinv_iterations;
    a.by_both = p->cur.pinv_init == LNT_PINV_NORMS, a.scale = p->scale, a.ridge = p->cur.ridge;
    a.f32 = f32_args_of(plan, io);
    a.f32.landmarks = (int)p->cur.landmarks;
    a.f32.land_keys = a.keys, a.f32.land_values = a.values;
    if (p->cur.copy_rows && !a.query_means) a.f32.land_rows = a.rows;
    a.f32.partial = (float *)(work + at->partial);
    if (!a.f32.batch || !a.f32.length_q) return cudaSuccess;
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
    return e;
}

const family cur_family = { f32_cut, lay_out, NULL, forward, NULL };

} // namespace lnt
