/* cuda/host/temperature.cu - other temperatures for a plan that has some. */
#include <algorithm>

#include "cuda/host/plan.h"

namespace lnt
{

/* Of so many heads at a time: they travel as an argument of the launch, so that nothing waits and a
 * graph keeps them. */
enum { TEMPERATURES = 512 };

struct temperatures {
    int count;
    float list[TEMPERATURES];
};

__global__ void temperature_set_kernel(float *to, const __grid_constant__ temperatures from)
{
    for (int h = (int)threadIdx.x; h < from.count; h += (int)blockDim.x) to[h] = from.list[h];
}

lnt_status plan_set_temperature(lnt_cuda_plan *plan, const double *temperature, void *stream)
{
    if (!plan->temperature)
        return fail(plan->device, LNT_ERR_ARGUMENT, "cuda: temperature: the plan was made without one");
    for (int64_t first = 0; first < plan->p.heads; first += TEMPERATURES) {
        temperatures some;
        some.count = (int)std::min(plan->p.heads - first, (int64_t)TEMPERATURES);
        for (int h = 0; h < some.count; h++) some.list[h] = (float)temperature[first + h];
        temperature_set_kernel<<<1, 128, 0, (cudaStream_t)stream>>>(plan->temperature + first, some);
    }
    const lnt_status s = check(plan->device, cudaGetLastError(), "setting temperatures");
    return s || !plan->forward_plan ? s : plan_set_temperature(plan->forward_plan, temperature, stream);
}

} // namespace lnt
