/* bench/gpu_works.h - the works of docs/gpu.md: picked rows verified, then the median of many runs.
 */

/* Seconds of run(), median. */
static double median_seconds(const std::function<void()> &run, int repeats)
{
    cudaEvent_t a, b;
    must(cudaEventCreate(&a), "event");
    must(cudaEventCreate(&b), "event");
    std::vector<float> times((size_t)repeats);
    for (int i = 0; i < 2; i++) run();
    for (float &t : times) {
        must(cudaEventRecord(a), "event");
        run();
        must(cudaEventRecord(b), "event");
        must(cudaEventSynchronize(b), "running");
        must(cudaEventElapsedTime(&t, a, b), "event");
    }
    cudaEventDestroy(a);
    cudaEventDestroy(b);
    std::sort(times.begin(), times.end());
    return times[times.size() / 2] * 1e-3;
}

static double peak_flops, peak_bytes; /* a second */

/* A line of the table.  unit is what `value` and `target` (0: there is none) are in; flops and
 * bytes the least the work takes; products: those of bf16 that one of its products takes the time
 * of.
 */
static void line(const char *name, double seconds, double value, const char *unit, double target,
                 double flops, double bytes, double error, bool clean, double allowed = 3e-3,
                 double products = 1)
{
    const double by_flops = flops * products / peak_flops, by_bytes = bytes / peak_bytes;
    const double least = std::max(by_flops, by_bytes);
    const bool ok = clean && error <= allowed;
    if (!ok) failures++;
    printf(
        "%-40s %10.3f %-8s target %8.3f %-6s floor %5.2f of time (%s)  %6.1f TFLOP/s %7.1f GB/s  "
        "error %.1e %s\n",
        name, value, unit, target,
        target <= 0       ? "none"
        : value <= target ? "met"
                          : "missed",
        least / seconds, by_flops > by_bytes ? "flops" : "bytes", flops / seconds / 1e12,
        bytes / seconds / 1e9, error, ok ? "" : "WRONG");
    fflush(stdout);
}

static double state_flops(const lnt_attn_desc &p)
{
    const double d = (double)p.dim, m = (double)p.dim_value, P = (double)p.terms;
    double features = 1;
    for (int t = 1; t < p.terms; t++) features = features * (d + t) / t;
    if (p.mechanism == LNT_LINEAR) return (4 * d * m + 3 * d) * (double)p.heads;
    return (4 * m + 2 * (P * d + 1) / (d + 1) + 2) * features * (double)p.heads;
}

enum { SPLIT_PRODUCTS = 6 }; /* three of tf32, which has half the rate of bf16 */

template <class T>
static void work_forward(const char *name, const lnt_attn_desc &p, double target, bool in_ms,
                         bool once)
{
    problem_of<T> x(p, false, 5);
    if (once) {
        must(api->forward(x.plan, &x.io) == LNT_OK, "forward");
        must(cudaDeviceSynchronize(), "running");
        return;
    }
    const bool clean = x.run_twice();
    const double e0 = x.check(some_rows(p.length_q, 24), 0, 0, p.length_q, p.length_k),
                 e1 = x.check(some_rows(p.length_q, 24), 0, p.heads - 1, p.length_q, p.length_k);
    const double s =
        median_seconds([&] { must(api->forward(x.plan, &x.io) == LNT_OK, "forward"); }, 11);
    const double n = (double)p.length_q;
    double flops = state_flops(p) * n;
    if (p.mechanism == LNT_SOFTMAX)
        flops = n * n / (p.causal ? 2 : 1) * 2 * (double)(p.dim + p.dim_value) * (double)p.heads;
    const double bytes = n * (double)p.heads * (double)(2 * p.dim + 2 * p.dim_value) * sizeof(T);
    const bool split = sizeof(T) == 4 || (p.mechanism == LNT_TAYLOR && p.terms > 4);
    line(name, s, in_ms ? s * 1e3 : s * 1e9 / n, in_ms ? "ms" : "ns/token", target, flops, bytes,
         std::max(e0, e1), clean, allowed_of<T>(), split ? SPLIT_PRODUCTS : 1);
}

/* Token i of x, one step. */
static void step_token(problem &x, const lnt_cuda_states &states, int64_t i, cudaStream_t stream)
{
    lnt_cuda_io io = x.io;
    io.stream = stream;
    io.q = rows_of(x.io.q, i, 1), io.k = rows_of(x.io.k, i, 1);
    io.v = rows_of(x.io.v, i, 1), io.out = rows_of(x.io.out, i, 1);
    must(api->step(x.plan, &io, &states, LNT_CUDA_APPEND | LNT_CUDA_QUERY) == LNT_OK, "step");
}

/* Seconds of one of 16 steps in a graph, so that the launches' own time is not in it. */
static double step_seconds(problem &x, lnt_cuda_states states)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    states.tokens = nullptr; /* one kernel a step */
    must(cudaStreamCreate(&stream), "stream");
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
    for (int64_t i = 0; i < 16; i++) step_token(x, states, i, stream);
    must(cudaStreamEndCapture(stream, &graph), "capture");
    must(cudaGraphInstantiate(&ready, graph, 0), "graph");
    const double s = median_seconds([&] { must(cudaGraphLaunch(ready, NULL), "graph"); }, 21) / 16;
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    return s;
}

static void work_step(const char *name, lnt_attn_desc p, double target, bool once)
{
    p.length_q = p.length_k = 16;
    problem x(p, false, 9);
    state_memory memory(x, 1);
    for (int64_t i = 0; i < (once ? 1 : 16); i++) step_token(x, memory.states, i, NULL);
    must(cudaDeviceSynchronize(), "running");
    if (once) return;
    const double error = x.check(all_rows(16), 0, p.heads - 1, 16, 16);
    const double s = step_seconds(x, memory.states);
    const double D = (double)x.info.features, m = (double)p.dim_value, H = (double)p.heads;
    line(name, s, s * 1e3, "ms", target, 4 * D * m * H, 8 * D * (m + 1) * H, error, true);
}

/* Steps after so many tokens, which the state holds: fed by forward, 50,000 at a time.  Seconds of
 * a step; *error is that of 16 of them, of one head. */
static double step_after(lnt_attn_desc p, int64_t tokens, double *error)
{
    const int64_t at_once = std::min<int64_t>(tokens, 50000), d = p.dim, m = p.dim_value;
    p.length_q = p.length_k = at_once, p.state = 1;
    problem x(p, false, 70);
    state_memory memory(x, 1);
    std::vector<__nv_bfloat16> k, v;
    auto remember = [&](int64_t n) {
        const auto hk = x.head(x.k, p.heads, at_once, d, 0, 0),
                   hv = x.head(x.v, p.heads, at_once, m, 0, 0);
        k.insert(k.end(), hk.begin(), hk.begin() + n * d);
        v.insert(v.end(), hv.begin(), hv.begin() + n * m);
    };
    x.io.state_out = &memory.states;
    for (int64_t i = 0; i < tokens; i += at_once) {
        x.k.fill((uint64_t)i + 1001), x.v.fill((uint64_t)i + 1002);
        must(api->forward(x.plan, &x.io) == LNT_OK, "forward");
        x.io.state_in = &memory.states;
        remember(at_once);
    }
    x.k.fill(31), x.v.fill(32);
    remember(16);
    for (int64_t i = 0; i < 16; i++) step_token(x, memory.states, i, NULL);
    int64_t held = 0;
    must(cudaMemcpy(&held, memory.states.tokens, sizeof held, cudaMemcpyDeviceToHost), "copying");
    must(held == tokens + 16, "the state does not hold all tokens");
    const auto q = x.head(x.q, p.heads, at_once, d, 0, 0),
               y = x.head(x.out, p.heads, at_once, m, 0, 0);
    const reference ref = { p, q.data(), k.data(), v.data(), 16, tokens + 16, 0 };
    double each[16], sum = 0;
    std::vector<std::thread> threads;
    for (int64_t i = 0; i < 16; i++)
        threads.emplace_back([&, i] {
            std::vector<double> want((size_t)m);
            double off = 0, size = 0;
            ref.row(i, want.data());
            for (int64_t c = 0; c < m; c++) {
                const double e = reference::at(y.data(), i * m + c) - want[(size_t)c];
                off += e * e, size += want[(size_t)c] * want[(size_t)c];
            }
            each[i] = off / size;
        });
    for (std::thread &t : threads) t.join();
    for (double e : each) sum += e / 16;
    *error = sqrt(sum);
    return step_seconds(x, memory.states);
}

/* A step costs the same after 1000 tokens and after a million. */
static void work_context(const char *name, const lnt_attn_desc &p)
{
    double error[2];
    const double few = step_after(p, 1000, &error[0]), many = step_after(p, 1000000, &error[1]);
    const bool ok = many < 1.1 * few && std::max(error[0], error[1]) <= 3e-3;
    if (!ok) failures++;
    printf("%-40s after 1000 tokens %.4f ms, after 1,000,000 %.4f ms: ratio %.3f  error %.1e %.1e "
           "%s\n",
           name, few * 1e3, many * 1e3, many / few, error[0], error[1], ok ? "" : "WRONG");
    fflush(stdout);
}

static void time_backward(const std::function<bool(const char *)> &wanted, bool once);
template <class T> static void work_cur(const char *name, bool once);

/* In the precision of f32. */
static void time_split(const std::function<bool(const char *)> &wanted, bool once)
{
    auto forward = [&](const char *name, const lnt_attn_desc &p, bool ms = false) {
        if (wanted(name)) work_forward<float>(name, p, 0, ms, once);
    };
    for (int64_t d : { 16, 32, 64 }) {
        lnt_attn_desc p = describe(LNT_TAYLOR, 1024 / d, d, 65536);
        p.terms = 3, p.causal = 0, p.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1;
        char name[64];
        snprintf(name, sizeof name, "f32 taylorshift full %d x %d", (int)(1024 / d), (int)d);
        forward(name, p);
    }
    forward("f32 taylor P 4 causal 128 x 8", describe(LNT_TAYLOR, 128, 8, 65536));
    forward("f32 taylor P 4 causal 64 x 16", describe(LNT_TAYLOR, 64, 16, 65536));
    forward("f32 taylor P 4 causal 32 x 32", describe(LNT_TAYLOR, 32, 32, 65536));
    forward("f32 taylor P 4 causal 16 x 64", describe(LNT_TAYLOR, 16, 64, 65536));
    forward("f32 linear causal 16 x 64, 1M tokens", describe(LNT_LINEAR, 16, 64, 1048576), true);
    forward("f32 softmax causal 16 x 64", describe(LNT_SOFTMAX, 16, 64, 16384));
    lnt_attn_desc p = describe(LNT_TAYLOR, 128, 8, 65536);
    p.terms = 8, p.algorithm = "state";
    if (wanted("taylor P 8 causal 128 x 8"))
        work_forward<__nv_bfloat16>("taylor P 8 causal 128 x 8", p, 0, false, once);
    p = describe(LNT_TAYLOR, 64, 16, 65536), p.terms = 6, p.algorithm = "state";
    if (wanted("taylor P 6 causal 64 x 16"))
        work_forward<__nv_bfloat16>("taylor P 6 causal 64 x 16", p, 0, false, once);
    if (wanted("f32 cur 16 x 64")) work_cur<float>("f32 cur 16 x 64", once);
    if (wanted("cur 16 x 64")) work_cur<__nv_bfloat16>("cur 16 x 64", once);
}

static void time_all(const std::vector<std::string> &names, bool once)
{
    lnt_cuda_info info = {};
    info.size = sizeof info;
    must(api->describe(device, &info) == LNT_OK, "describing");
    double gflops = 0, gbytes = 0, f32 = 0;
    if (!once) {
        must(api->measure_flops(device, LNT_BF16, &gflops) == LNT_OK, "measuring");
        must(api->measure_flops(device, LNT_F32, &f32) == LNT_OK, "measuring");
        must(api->measure_bandwidth(device, (size_t)4 << 30, &gbytes) == LNT_OK, "measuring");
    }
    peak_flops = gflops * 1e9, peak_bytes = gbytes * 1e9;
    printf(
        "%s, %d multiprocessors; products of bf16 %.1f TFLOP/s, f32 %.1f TFLOP/s, copy %.0f GB/s\n",
        info.name, info.multiprocessors, gflops / 1e3, f32 / 1e3, gbytes);
    auto wanted = [&](const char *name) {
        for (const std::string &n : names)
            if (strncmp(name, n.c_str(), n.size()) == 0) return true;
        return names.empty();
    };
    auto forward = [&](const char *name, const lnt_attn_desc &p, double target, bool ms = false) {
        if (wanted(name)) work_forward<__nv_bfloat16>(name, p, target, ms, once);
    };
    auto decode = [&](const char *name, lnt_attn_desc p, int64_t terms, double target) {
        p.terms = terms;
        if (wanted(name)) work_step(name, p, target, once);
    };
    decode("step taylor P 8 1024 x 8", describe(LNT_TAYLOR, 1024, 8, 1), 8, 0.16);
    decode("step taylor P 4 16 x 64", describe(LNT_TAYLOR, 16, 64, 1), 4, 0.13);
    decode("step taylor P 4 32 x 32", describe(LNT_TAYLOR, 32, 32, 1), 4, 0.025);
    decode("step taylor P 4 64 x 16", describe(LNT_TAYLOR, 64, 16, 1), 4, 0.010);
    auto context = [&](const char *name, const lnt_attn_desc &p) {
        if (wanted(name) && !once) work_context(name, p);
    };
    context("context taylor P 4 32 x 32", describe(LNT_TAYLOR, 32, 32, 1));
    context("context taylor P 4 64 x 16", describe(LNT_TAYLOR, 64, 16, 1));
    context("context linear 16 x 64", describe(LNT_LINEAR, 16, 64, 1));
    for (int64_t d : { 16, 32, 64 }) {
        lnt_attn_desc p = describe(LNT_TAYLOR, 1024 / d, d, 65536);
        p.terms = 3, p.causal = 0, p.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1;
        char name[64];
        snprintf(name, sizeof name, "taylorshift full %d x %d", (int)(1024 / d), (int)d);
        forward(name, p, d == 16 ? 8 : d == 32 ? 12 : 36);
    }
    forward("taylor P 4 causal 128 x 8", describe(LNT_TAYLOR, 128, 8, 65536), 8);
    forward("taylor P 4 causal 64 x 16", describe(LNT_TAYLOR, 64, 16, 65536), 22);
    forward("taylor P 4 causal 32 x 32", describe(LNT_TAYLOR, 32, 32, 65536), 93);
    forward("taylor P 4 causal 16 x 64", describe(LNT_TAYLOR, 16, 64, 262144), 600);
    forward("linear causal 16 x 64, 1M tokens", describe(LNT_LINEAR, 16, 64, 1048576), 3.0, true);
    forward("linear causal 32 x 32, 1M tokens", describe(LNT_LINEAR, 32, 32, 1048576), 0, true);
    forward("softmax causal 16 x 64", describe(LNT_SOFTMAX, 16, 64, 65536), 0);
    time_split(wanted, once);
    time_backward(wanted, once);
}
