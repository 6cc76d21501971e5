/* bench/gpu/stream_work.cc - forward, backward and steps as runs that a stream can be given. */
#include "gpu/stream_work.h"

#include "gpu/device.h"

std::vector<char> run_now(const stream_work &work)
{
    work.prepare();
    must(work.run(NULL), work.name.c_str());
    must(cudaDeviceSynchronize(), "running");
    return work.out();
}

stream_problem::stream_problem(const std::string &name_, const lnt_attn_desc &p, uint64_t seed)
    : name(name_), x(p, false, seed), g(x, seed + 1), memory(x, 1)
{
}

stream_work stream_problem::forward()
{
    return { name + " forward",
             [this](cudaStream_t stream) {
                 x.io.stream = stream;
                 return api->forward(x.plan, &x.io);
             },
             [this] { x.out.poison(); },
             [this] { return x.out.bits(x.out.count); } };
}

stream_work stream_problem::backward()
{
    return { name + " backward",
             [this](cudaStream_t stream) {
                 x.io.stream = stream;
                 return api->backward(x.plan, &x.io, &g.grads);
             },
             [this] { g.poison(); },
             [this] { return g.bits(); } };
}

stream_work stream_problem::steps()
{
    return { name + " three steps",
             [this](cudaStream_t stream) {
                 lnt_cuda_io io = x.io;
                 io.stream = stream;
                 lnt_status status = LNT_OK;
                 for (int64_t i = 0; i < 3 && !status; i++)
                     status = x.step(io, memory.states, i, 1);
                 return status;
             },
             [this] {
                 x.out.poison();
                 must(api->state_reset(x.plan, &memory.states, 0, NULL), "forgetting");
             },
             [this] { return x.out.bits(x.out.count); } };
}

own_stream::own_stream() { must(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "stream"); }

own_stream::~own_stream() { cudaStreamDestroy(s); }
