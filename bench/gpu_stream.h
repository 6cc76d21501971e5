/* bench/gpu_stream.h - what a run owes the stream it was given: it may be captured into a graph and
 * replayed, waits for nothing, runs beside another stream's, and tells what a launch failed of. */
#include <chrono>
#include <condition_variable>
#include <mutex>

/* A run whose results can be compared: `out` is what it writes. */
struct stream_work {
    std::string name;
    std::function<lnt_status(cudaStream_t)> run;
    std::function<void()> prepare; /* poisons what is written, and forgets the state */
    std::function<std::vector<char>()> out;
};

template <class T> static void add_bytes(std::vector<char> &to, const buffer_of<T> &x)
{
    const auto host = x.host(0, x.count);
    to.insert(to.end(), (const char *)host.data(), (const char *)(host.data() + host.size()));
}

/* Forward, backward and, where there are states, three steps. */
template <class T> struct stream_problem {
    problem_of<T> x;
    gradients_of<T> g;
    state_memory memory;
    std::string name;

    stream_problem(const char *name_, const lnt_attn_desc &p, uint64_t seed)
        : x(p, false, seed), g(x, seed + 1), memory(x, 1), name(name_)
    {
    }

    stream_work forward()
    {
        return { name + " forward",
                 [this](cudaStream_t stream) {
                     x.io.stream = stream;
                     return api->forward(x.plan, &x.io);
                 },
                 [this] {
                     must(cudaMemset(x.out.data, 0xff, x.out.count * sizeof(T)), "poisoning");
                 },
                 [this] {
                     std::vector<char> bytes;
                     add_bytes(bytes, x.out);
                     return bytes;
                 } };
    }

    stream_work backward()
    {
        return { name + " backward",
                 [this](cudaStream_t stream) {
                     x.io.stream = stream;
                     return api->backward(x.plan, &x.io, &g.grads);
                 },
                 [this] { g.poison(); },
                 [this] {
                     std::vector<char> bytes;
                     for (buffer_of<T> *b : { &g.dq, &g.dk, &g.dv }) add_bytes(bytes, *b);
                     return bytes;
                 } };
    }

    stream_work steps()
    {
        stream_work work = forward();
        work.name = name + " three steps";
        work.run = [this](cudaStream_t stream) {
            lnt_status s = LNT_OK;
            for (int64_t i = 0; i < 3 && !s; i++) {
                lnt_cuda_io io = x.io;
                io.stream = stream;
                io.q = rows_of(x.io.q, i, 1), io.k = rows_of(x.io.k, i, 1);
                io.v = rows_of(x.io.v, i, 1), io.out = rows_of(x.io.out, i, 1);
                s = api->step(x.plan, &io, &memory.states, LNT_CUDA_APPEND | LNT_CUDA_QUERY);
            }
            return s;
        };
        const auto poison = work.prepare;
        work.prepare = [this, poison] {
            poison();
            must(api->state_reset(x.plan, &memory.states, 0, NULL) == LNT_OK, "forgetting");
        };
        return work;
    }
};

static std::vector<char> run_now(const stream_work &work)
{
    work.prepare();
    must(work.run(NULL) == LNT_OK, work.name.c_str());
    must(cudaDeviceSynchronize(), "running");
    return work.out();
}

static void report_stream(const std::string &name, const char *what, bool ok)
{
    if (!ok) failures++;
    printf("%-58s %s: %s\n", name.c_str(), what, ok ? "ok" : "WRONG");
    fflush(stdout);
}

struct own_stream {
    cudaStream_t s;
    own_stream() { must(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "stream"); }
    ~own_stream() { cudaStreamDestroy(s); }
    own_stream(const own_stream &) = delete;
};

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Captured, then replayed twice over other numbers than it was captured with. */
static void verify_graph(const stream_work &work, const std::function<void()> &change)
{
    own_stream stream;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    run_now(work); /* kernels are loaded */
    must(cudaStreamBeginCapture(stream.s, cudaStreamCaptureModeGlobal), "capture");
    must(work.run(stream.s) == LNT_OK, work.name.c_str());
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
    report_stream(work.name, "a graph gives the same bits", same);
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
}

/* ---- streams --------------------------------------------------------------------------------- */

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
        for (int i = 0; i < 2; i++)
            must(work[i]->run(stream[i].s) == LNT_OK, work[i]->name.c_str());
        for (own_stream &s : stream) waited = waited || cudaStreamQuery(s.s) != cudaErrorNotReady;
        g.open();
        for (own_stream &s : stream) must(cudaStreamSynchronize(s.s), "running");
        waited = waited || g.late;
    }
    bool same = true;
    for (int i = 0; i < 2; i++) same = same && work[i]->out() == expected[i];
    report_stream(a.name + ", " + b.name, "two streams, no run waits", !waited);
    report_stream(a.name + ", " + b.name, "two streams, the same bits", same);
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
    report_stream(work.name, told ? sentence.c_str() : "a failed launch is told",
                  told && run_now(work) == expected);
}

/* ---- all ------------------------------------------------------------------------------------- */

template <class T> static void verify_streams_of(const char *type)
{
    struct {
        const char *name;
        lnt_mechanism mechanism;
        int64_t dim;
        const char *algorithm;
    } const kinds[] = { { "taylor/state 16", LNT_TAYLOR, 16, "state" },
                        { "taylor/state 32", LNT_TAYLOR, 32, "state" },
                        { "taylor/pairs 32", LNT_TAYLOR, 32, "pairs" },
                        { "taylor/direct 32", LNT_TAYLOR, 32, "direct" },
                        { "linear 64", LNT_LINEAR, 64, NULL },
                        { "softmax 64", LNT_SOFTMAX, 64, NULL } };
    std::vector<std::unique_ptr<stream_problem<T>>> all;
    for (const auto &k : kinds) {
        lnt_attn_desc p = describe(k.mechanism, 4, k.dim, 700);
        p.kv_heads = 2, p.algorithm = k.algorithm, p.backward = 1;
        const std::string name = std::string(type) + " " + k.name;
        all.emplace_back(new stream_problem<T>(name.c_str(), p, 400 + 3 * all.size()));
    }
    for (auto &s : all) {
        std::vector<stream_work> works = { s->forward(), s->backward() };
        if (s->x.info.features) works.push_back(s->steps());
        for (const stream_work &w : works) {
            uint64_t seed = 900;
            verify_graph(w, [&] { s->x.q.fill(seed++), s->x.v.fill(seed++); });
            verify_launch_error(w);
        }
    }
    for (size_t i = 0; i < all.size(); i++) {
        stream_problem<T> &one = *all[i], &other = *all[(i + 1) % all.size()];
        verify_beside(one.forward(), other.forward());
        verify_beside(one.backward(), other.backward());
        if (one.x.info.features) verify_beside(one.steps(), other.forward());
    }
}

static void verify_streams()
{
    verify_streams_of<__nv_bfloat16>("bf16");
    verify_streams_of<float>("f32");
}
