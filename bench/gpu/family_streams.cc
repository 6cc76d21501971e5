/* bench/gpu/family_streams.cc - what a run owes the stream it was given: it may be captured into a
 * graph and replayed, waits for nothing, runs beside another stream's, and tells what a launch
 * failed of. */
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "gpu/device.h"
#include "gpu/dtype.h"
#include "gpu/families.h"
#include "gpu/stream_work.h"
#include "gpu/verdict.h"

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Captured, then replayed twice over other numbers than it was captured with. */
static void verify_graph(const stream_work &work, const std::function<void()> &change)
{
    own_stream stream;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    run_now(work); /* kernels are loaded */
    must(cudaStreamBeginCapture(stream.s, cudaStreamCaptureModeGlobal), "capture");
    must(work.run(stream.s), work.name.c_str());
    must(cudaStreamEndCapture(stream.s, &graph), "capture");
    must(cudaGraphInstantiate(&ready, graph, 0), "graph");
    change();
    const std::vector<char> expected = run_now(work);
    bool same = true;
    for (int turn = 0; turn < 2; turn++) {
        work.prepare();
        must(cudaDeviceSynchronize(), "preparing");
        must(cudaGraphLaunch(ready, stream.s), "graph");
        must(cudaStreamSynchronize(stream.s), "running a graph");
        same = same && work.out() == expected;
    }
    report_claim(work.name, "a graph gives the same bits", same);
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
}

/* ---- streams --------------------------------------------------------------------------------- */

namespace
{

/* An event that is not there until open() is called; or, so that a run that waits for it ends,
 * until ten seconds have passed. */
struct gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_open = false, late = false;
    own_stream stream;
    cudaEvent_t event;

    gate()
    {
        must(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
        must(cudaLaunchHostFunc(stream.s, wait, this), "a function of the host");
        must(cudaEventRecord(event, stream.s), "event");
    }
    ~gate()
    {
        open();
        must(cudaStreamSynchronize(stream.s), "a gate");
        cudaEventDestroy(event);
    }
    void open()
    {
        const std::lock_guard<std::mutex> lock(mutex);
        is_open = true;
        changed.notify_all();
    }
    static void CUDART_CB wait(void *own)
    {
        gate *g = (gate *)own;
        std::unique_lock<std::mutex> lock(g->mutex);
        g->late = !g->changed.wait_for(lock, std::chrono::seconds(10), [&] { return g->is_open; });
    }
};

} // namespace

/* Two streams wait behind a gate; runs given to them come back before it opens, and are right after
 * it has. */
static void verify_beside(const stream_work &a, const stream_work &b)
{
    own_stream stream[2];
    const stream_work *const work[2] = { &a, &b };
    std::vector<char> expected[2];
    for (int i = 0; i < 2; i++) expected[i] = run_now(*work[i]);
    for (int i = 0; i < 2; i++) work[i]->prepare();
    must(cudaDeviceSynchronize(), "preparing");
    bool waited = false;
    {
        gate g;
        for (own_stream &s : stream) must(cudaStreamWaitEvent(s.s, g.event, 0), "waiting");
        for (int i = 0; i < 2; i++) must(work[i]->run(stream[i].s), work[i]->name.c_str());
        for (own_stream &s : stream) waited = waited || cudaStreamQuery(s.s) != cudaErrorNotReady;
        g.open();
        for (own_stream &s : stream) must(cudaStreamSynchronize(s.s), "running");
        waited = waited || g.late;
    }
    bool same = true;
    for (int i = 0; i < 2; i++) same = same && work[i]->out() == expected[i];
    report_claim(a.name + ", " + b.name, "two streams, no run waits", !waited);
    report_claim(a.name + ", " + b.name, "two streams, the same bits", same);
}

/* ---- launches that fail ---------------------------------------------------------------------- */

/* Into a capture that is no longer valid, where any launch fails; and all is well afterwards. */
static void verify_launch_error(const stream_work &work)
{
    own_stream stream;
    cudaGraph_t graph = nullptr;
    const std::vector<char> expected = run_now(work);
    must(cudaStreamBeginCapture(stream.s, cudaStreamCaptureModeRelaxed), "capture");
    cudaStreamQuery(stream.s); /* not allowed: the capture is lost */
    cudaGetLastError();
    const lnt_status status = work.run(stream.s);
    const std::string sentence = api->error(device);
    cudaStreamEndCapture(stream.s, &graph);
    cudaGetLastError();
    const bool told = status != LNT_OK && sentence.find("captur") != std::string::npos;
    report_claim(work.name, told ? sentence.c_str() : "a failed launch is told",
                 told && run_now(work) == expected);
}

/* ---- all ------------------------------------------------------------------------------------- */

typedef std::vector<std::unique_ptr<stream_problem>> stream_problems;

/* One of each way to run. */
static stream_problems problems_in(lnt_dtype dtype)
{
    struct {
        const char *name;
        lnt_mechanism mechanism;
        int64_t dim;
        const char *algorithm;
    } const kinds[] = { { "taylor/state 16", LNT_TAYLOR, 16, "state" },
                        { "taylor/state 32", LNT_TAYLOR, 32, "state" },
                        { "taylor/pairs 32", LNT_TAYLOR, 32, dtype == LNT_BF16 ? "state:pairs" : "state" },
                        { "taylor/direct 32", LNT_TAYLOR, 32, "direct" },
                        { "linear 64", LNT_LINEAR, 64, NULL },
                        { "softmax 64", LNT_SOFTMAX, 64, NULL } };
    stream_problems all;
    for (const auto &k : kinds) {
        lnt_attn_desc p = describe(k.mechanism, 4, k.dim, 700, dtype);
        p.kv_heads = 2, p.algorithm = k.algorithm, p.backward = 1;
        const std::string name = std::string(name_of(dtype)) + " " + k.name;
        all.emplace_back(new stream_problem(name, p, 400 + 3 * all.size()));
    }
    return all;
}

static void verify_streams_in(lnt_dtype dtype)
{
    const stream_problems all = problems_in(dtype);
    for (const auto &s : all) {
        std::vector<stream_work> works = { s->forward(), s->backward() };
        if (s->x.info.features) works.push_back(s->steps());
        for (const stream_work &w : works) {
            uint64_t seed = 900;
            verify_graph(w, [&] { s->x.q.fill(seed++), s->x.v.fill(seed++); });
            verify_launch_error(w);
        }
    }
    for (size_t i = 0; i < all.size(); i++) {
        stream_problem &one = *all[i], &other = *all[(i + 1) % all.size()];
        verify_beside(one.forward(), other.forward());
        verify_beside(one.backward(), other.backward());
        if (one.x.info.features) verify_beside(one.steps(), other.forward());
    }
}

void verify_streams()
{
    verify_streams_in(LNT_BF16);
    verify_streams_in(LNT_F32);
}
