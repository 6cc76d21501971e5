/* cuda/host/plan.cu - from a descriptor to a plan: its tables, its workspace, and what it tells. */
#include "cuda/host/plan.h"

#include <math.h>

#include <new>

namespace lnt
{

static void coefficients(lnt_cuda_plan *plan)
{
    double a = 1, power = 1;
    for (int t = 0; t < plan->p.taylor.terms && t < 32; t++) {
        plan->coefficient[t] = (plan->p.taylor.coefficients ? plan->p.taylor.coefficients[t] : a) * power;
        a /= t + 1, power *= plan->p.scale;
    }
}

/* ---- tables ---------------------------------------------------------------------------------- */

cudaError_t upload_bytes(lnt_cuda_plan *plan, void **to, const void *from, size_t bytes)
{
    const cudaError_t e = cudaMalloc(to, bytes ? bytes : 1);
    if (e != cudaSuccess) return e;
    plan->tables.push_back(*to);
    if (!bytes) return cudaSuccess;
    return from ? cudaMemcpy(*to, from, bytes, cudaMemcpyHostToDevice) : cudaMemset(*to, 0, bytes);
}

static cudaError_t upload_floats(lnt_cuda_plan *plan, float **to, const double *from, int64_t count)
{
    return from ? upload(plan, to, std::vector<float>(from, from + count)) : cudaSuccess;
}

/* The features of a state in the library's order; of linear there is one for each element. */
static cudaError_t upload_features(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    if (p->mechanism == LNT_LINEAR) plan->count = p->dim;
    if (p->mechanism != LNT_TAYLOR || !has_table(p)) return cudaSuccess;
    std::vector<uint64_t> index;
    std::vector<float> factor;
    monomials_table((int)p->dim, (int)p->taylor.terms, plan->coefficient, index, factor);
    plan->count = (int64_t)index.size();
    const cudaError_t e = upload(plan, &plan->index, index);
    return e == cudaSuccess ? upload(plan, &plan->feature_factor, factor) : e;
}

/* log2 of the decay: of a decay near 1 f32 has too few digits to raise it to a high power. */
static cudaError_t upload_decay(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    if (p->mechanism != LNT_LINEAR || !p->decay) return cudaSuccess;
    std::vector<float> logs;
    for (int64_t h = 0; h < p->kv_heads; h++) logs.push_back((float)fmax(log2(p->decay[h]), -1e4));
    const cudaError_t e = upload_floats(plan, &plan->decay, p->decay, p->kv_heads);
    return e == cudaSuccess ? upload(plan, &plan->log_decay, logs) : e;
}

static cudaError_t upload_tables(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    cudaError_t e = upload_decay(plan);
    if (e == cudaSuccess) e = upload_floats(plan, &plan->temperature, p->taylor.temperature, p->heads);
    if (e == cudaSuccess) e = upload_features(plan);
    if (e == cudaSuccess) e = upload<unsigned>(plan, &plan->arrived, NULL, (size_t)(p->batch * p->kv_heads));
    if (e == cudaSuccess) e = upload<unsigned long long>(plan, &plan->nonpositive, NULL, 1);
    return e == cudaSuccess ? plan->family->cut(plan) : e;
}

/* ---- create ---------------------------------------------------------------------------------- */

static const family *family_of(const lnt_attn_desc *p, form f)
{
    static const family *const families[FORMS] = { &pairs_family, &orbits_family, &tiles_family,
                                                   &bf16_family,  &linear_family, &linear_family,
                                                   &f32_family };
    return p->mechanism == LNT_CUR ? &cur_family : families[f];
}

/* A step needs nothing else of the workspace. */
static void lay_out_step(lnt_cuda_plan *plan)
{
    const int heads = (int)(plan->p.batch * plan->p.kv_heads), m = (int)plan->p.dim_value;
    if (!plan->count) return;
    plan->splits = state_step_splits(heads, plan->count, m, plan->device->limits.processors);
    const size_t bytes = state_step_workspace(heads, plan->splits, m);
    if (plan->bytes < bytes) plan->bytes = bytes;
}

static lnt_status make(lnt_cuda_plan *plan)
{
    plan->width = width_of(&plan->p);
    coefficients(plan);
    const lnt_status status = check(plan->device, upload_tables(plan), "filling the tables of a plan");
    if (status) return status;
    plan->family->lay_out(plan);
    lay_out_step(plan);
    plan->backward_bytes = 0;
    if (plan->p.backward) plan->family->lay_out_backward(plan);
    if (plan->forward_plan && plan->forward_plan->bytes > plan->bytes)
        plan->bytes = plan->forward_plan->bytes;
    return LNT_OK;
}

static lnt_status create(lnt_cuda_device *device, const lnt_attn_desc *desc, const choice &chosen,
                         lnt_cuda_plan **out)
{
    lnt_cuda_plan *plan = new (std::nothrow) lnt_cuda_plan();
    if (!plan) return fail(device, LNT_ERR_MEMORY, "cuda: no memory for a plan");
    plan->device = device, plan->p = *desc, plan->chosen = chosen;
    const family *forward = family_of(desc, chosen.forward);
    plan->family = desc->backward ? family_of(desc, chosen.backward) : forward;
    lnt_status status = LNT_OK;
    if (plan->family != forward) {
        lnt_attn_desc alone = *desc;
        alone.backward = 0;
        status = create(device, &alone, chosen, &plan->forward_plan);
    }
    if (!status) status = make(plan);
    if (status)
        plan_destroy(plan);
    else
        *out = plan;
    return status;
}

lnt_status plan_create(lnt_cuda_device *device, const lnt_attn_desc *desc, lnt_cuda_plan **out)
{
    choice chosen;
    *out = NULL;
    if (!choose(desc, device->limits, &chosen, &device->sentence)) return LNT_ERR_UNSUPPORTED;
    return create(device, desc, chosen, out);
}

void plan_destroy(lnt_cuda_plan *plan)
{
    if (!plan) return;
    plan_destroy(plan->forward_plan);
    for (void *table : plan->tables) cudaFree(table);
    delete plan;
}

lnt_status plan_describe(const lnt_cuda_plan *plan, lnt_cuda_plan_info *info)
{
    info->algorithm = plan->chosen.algorithm;
    info->form = form_name(plan->chosen.forward);
    info->form_backward = plan->p.backward ? form_name(plan->chosen.backward) : "";
    info->workspace_bytes = plan->bytes;
    info->segment = plan->segment;
    info->features = plan->count;
    info->state_bytes =
        (size_t)plan->p.kv_heads * (size_t)plan->count * (size_t)(plan->p.dim_value + 1) * sizeof(float);
    info->backward_bytes = plan->backward_bytes;
    info->leaves = plan->p.backward && plan->chosen.backward == FORM_PAIRS;
    return LNT_OK;
}

} // namespace lnt
