/* cuda/host/plan_orbits.cu - plans and runs of orbits.h. */
#include "cuda/host/plan.h"

namespace lnt
{

/* Enough segments for the machine to be full a few times; the states of few are little to write and
 * read beside q, k, v and y. */
static int64_t segment_of(const lnt_cuda_plan *plan)
{
    const bool alone = orbits_is_alone(plan->orbits.width, (int)plan->p.taylor.terms);
    const int64_t teams = (alone ? 16 : 4) * (int64_t)plan->device->limits.processors;
    const int64_t n = plan->p.length_k * plan->p.batch * plan->p.kv_heads / teams;
    int64_t segment = 256;
    while (segment < n && segment < 8192) segment *= 2;
    return segment;
}

/* Segments that one block (orbits_walk.cu) or two (orbits_relay.cu) walk through.  A block has a
 * multiprocessor to itself: few runs leave some idle at the end, many must be summed before they
 * can begin. */
static int walk_of(const lnt_cuda_plan *plan)
{
    const bool relay = plan->orbits.relay, narrow = plan->orbits.width == 1;
    const int64_t segments = pieces(plan->p.length_k, plan->segment);
    if ((!narrow && !relay) || !plan->p.causal || segments < 1) return 1;
    const int64_t heads = plan->p.batch * plan->p.kv_heads,
                  walkers = plan->device->limits.processors / (relay ? 2 : 1);
    const double summing = narrow ? 0.4 : 0.7; /* of walking, about */
    int64_t best = segments;
    double least = 0;
    for (int64_t walk = segments; walk >= 1; walk--) {
        const int64_t runs = (segments + walk - 1) / walk, rounds = (runs * heads + walkers - 1) / walkers;
        const double cost =
            (double)(rounds * walk) + summing * (double)((runs - 1) * walk * heads) / (double)walkers;
        if (walk == segments || cost < least) best = walk, least = cost;
    }
    return (int)best;
}

static cudaError_t cut(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    orbits_plan *own = &plan->orbits;
    own->width = orbits_width((int)p->dim, (int)p->dim_value, (int)p->taylor.terms);
    plan->segment = segment_of(plan);
    plan->segments = pieces(p->length_k + (p->causal ? p->length_q : 0), plan->segment);
    own->relay = own->width == 2 && p->taylor.terms == 4 && plan->device->limits.warpgroups;
    own->walk = walk_of(plan);
    return upload(plan, &own->place, orbits_places(own->width, (int)p->dim, (int)p->taylor.terms));
}

static void lay_out(lnt_cuda_plan *plan)
{
    const lnt_attn_desc *p = &plan->p;
    const int64_t heads = p->batch * p->kv_heads,
                  state = orbits_numbers(plan->orbits.width, (int)p->taylor.terms);
    plan->orbits.sums = take_floats(&plan->bytes, heads * plan->segments * state);
    plan->orbits.total = take_floats(&plan->bytes, heads * state);
}

static cudaError_t forward(lnt_cuda_plan *plan, const lnt_cuda_io *io, cudaStream_t stream)
{
    const orbits_plan *own = &plan->orbits;
    char *work = (char *)io->workspace;
    orbits_args a = {};
    (attention_args &)a = attention_of(plan, io);
    a.width = own->width, a.walk = own->walk, a.relay = own->relay;
    a.summed = a.causal && !io->state_out && a.segments ? (a.segments - 1) / a.walk * a.walk : a.segments;
    a.sums = (float *)(work + own->sums), a.total = (float *)(work + own->total);
    a.place = own->place;
    cudaError_t e = a.batch ? orbits_sum_run(a, stream) : cudaSuccess;
    if (e == cudaSuccess && a.batch && a.length_q) e = orbits_answer_run(a, stream);
    return e;
}

const family orbits_family = { cut, lay_out, NULL, forward, NULL };

} // namespace lnt
