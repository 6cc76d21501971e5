/* bench/gpu_backward_works.h - forward and backward together, the works of docs/gpu.md. */
/* dq of the first rows and some others, and dk and dv of the last keys, of one head: each row
 * relative to itself, as forward's are, for the first are the longest by far. */
template <class T> static double check_some(const gradients_of<T> &g, int64_t h)
{
    const problem_of<T> &x = g.x;
    const lnt_attn_desc &p = x.p;
    const int64_t n = p.length_q, d = p.dim, m = p.dim_value, last = 12;
    const auto q8 = x.head(x.q, p.heads, n, d, 0, h), k8 = x.head(x.k, p.heads, n, d, 0, h),
               v8 = x.head(x.v, p.heads, n, m, 0, h), d8 = x.head(g.dout, p.heads, n, m, 0, h),
               dq8 = x.head(g.dq, p.heads, n, d, 0, h), dk8 = x.head(g.dk, p.heads, n, d, 0, h),
               dv8 = x.head(g.dv, p.heads, n, m, 0, h);
    std::vector<int64_t> rows = some_rows(n, 20);
    for (int64_t i = 0; i < 64; i++) rows.push_back(i);
    for (int64_t i = n - last; i < n; i++) rows.push_back(i);
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    gradient_reference<T> ref(p, n, n);
    ref.add(q8.data(), k8.data(), v8.data(), d8.data(), h, rows);
    squares q, k, v;
    auto compare = [](squares &s, const std::vector<T> &got, const std::vector<double> &want,
                      int64_t row, int64_t width) {
        squares one;
        one.add(std::vector<T>(got.begin() + row * width, got.begin() + (row + 1) * width),
                { want.begin() + row * width, want.begin() + (row + 1) * width });
        s.error += one.error / one.size, s.size += 1;
    };
    for (int64_t i : rows) /* causal, the first sees one key, and its gradient is 0 */
        if (i || !p.causal) compare(q, dq8, ref.dq[0], i, d);
    if (p.causal)
        for (int64_t j = n - last; j < n; j++)
            compare(k, dk8, ref.dk, j, d), compare(v, dv8, ref.dv, j, m);
    printf("    picked rows of head %d: dq %.2e dk %.2e dv %.2e\n", (int)h, q.relative(),
           k.relative(), v.relative());
    return std::max(q.relative(), std::max(k.relative(), v.relative()));
}

/* Forward and backward of what it left; target is in ms, or, where times_forward is not 0, in
 * forward times. */
template <class T = __nv_bfloat16>
static void work_backward(const char *name, lnt_attn_desc p, double target, double times_forward,
                          bool once)
{
    p.backward = 1;
    problem_of<T> x(p, false, 5);
    gradients_of<T> g(x, 6);
    auto forward = [&] { must(api->forward(x.plan, &x.io) == LNT_OK, "forward"); };
    auto backward = [&] { must(api->backward(x.plan, &x.io, &g.grads) == LNT_OK, "backward"); };
    if (once) {
        backward();
        must(cudaDeviceSynchronize(), "running");
        return;
    }
    const bool clean = g.run_twice();
    const double error = std::max(check_some(g, 0), check_some(g, p.heads - 1));
    const double f = median_seconds(forward, 11), b = median_seconds(backward, 11);
    g.grads.after_forward = 1;
    const double s = median_seconds([&] { forward(), backward(); }, 11);
    const double n = (double)p.length_q, all = n * (double)p.heads;
    const double bytes = all * (double)(5 * p.dim + 6 * p.dim_value) * sizeof(T);
    double flops = 3.5 * state_flops(p) * n;
    if (p.mechanism == LNT_SOFTMAX)
        flops = n * n / (p.causal ? 2 : 1) * 7 * (double)(p.dim + p.dim_value) * (double)p.heads;
    if (times_forward > 0) target = times_forward * f * 1e3;
    printf("    forward %.3f ms, backward alone %.3f ms = %.2f forward, after forward %.3f ms\n",
           f * 1e3, b * 1e3, b / f, (s - f) * 1e3);
    line(name, s, s * 1e3, "ms", target, flops, bytes, error, clean, allowed_of<T>(),
         sizeof(T) == 4 ? SPLIT_PRODUCTS : 1);
}

__global__ static void differ_kernel(const uint32_t *a, const uint32_t *b, size_t n,
                                     unsigned long long *count)
{
    unsigned long long own = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        own += a[i] != b[i];
    if (own) atomicAdd(count, own);
}

/* Whether run after run, into poisoned memory, gives the same gradients by pairs, to the bit. */
static void verify_steady(int64_t tokens)
{
    constexpr int runs = 100;
    lnt_attn_desc p = describe(LNT_TAYLOR, 32, 32, tokens);
    p.backward = 1;
    problem_of<__nv_bfloat16> x(p, false, 5);
    gradients_of<__nv_bfloat16> g(x, 6);
    using buffer = buffer_of<__nv_bfloat16>;
    buffer *all[3] = { &g.dq, &g.dk, &g.dv };
    buffer first[3] = { buffer(g.dq.count), buffer(g.dk.count), buffer(g.dv.count) };
    unsigned long long *count;
    must(cudaMallocManaged((void **)&count, sizeof *count), "allocating");
    int others = 0;
    for (int run = 0; run <= runs; run++) {
        g.poison(), *count = 0;
        must(api->backward(x.plan, &x.io, &g.grads) == LNT_OK, "backward");
        for (int i = 0; i < 3; i++) {
            const size_t bytes = all[i]->count * sizeof(__nv_bfloat16);
            if (run == 0)
                must(cudaMemcpy(first[i].data, all[i]->data, bytes, cudaMemcpyDeviceToDevice),
                     "copying");
            else
                differ_kernel<<<1024, 256>>>((const uint32_t *)first[i].data,
                                             (const uint32_t *)all[i]->data, bytes / 4, count);
        }
        must(cudaDeviceSynchronize(), "running backward");
        others += *count > 0;
    }
    cudaFree(count);
    if (others) failures++;
    printf("%lld tokens: %d of %d runs gave other bits than the first\n", (long long)tokens, others,
           runs);
}

static void time_backward(const std::function<bool(const char *)> &wanted, bool once)
{
    auto both = [&](const char *name, const lnt_attn_desc &p, double target, double times = 0) {
        if (wanted(name)) work_backward(name, p, target, times, once);
    };
    both("backward linear causal 16 x 64", describe(LNT_LINEAR, 16, 64, 65536), 1.2);
    both("backward linear causal 32 x 32", describe(LNT_LINEAR, 32, 32, 65536), 0);
    lnt_attn_desc p = describe(LNT_LINEAR, 16, 64, 65536);
    p.causal = 0;
    both("backward linear full 16 x 64", p, 0);
    both("backward taylor P 4 causal 32 x 32", describe(LNT_TAYLOR, 32, 32, 65536), 0, 4);
    both("backward taylor P 4 causal 64 x 16", describe(LNT_TAYLOR, 64, 16, 65536), 0);
    both("backward taylor P 4 causal 16 x 64", describe(LNT_TAYLOR, 16, 64, 65536), 0);
    p = describe(LNT_TAYLOR, 32, 32, 65536);
    p.terms = 3, p.causal = 0, p.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1;
    both("backward taylorshift full 32 x 32", p, 0);
    both("backward softmax causal 16 x 64", describe(LNT_SOFTMAX, 16, 64, 16384), 0);
    auto split = [&](const char *name, const lnt_attn_desc &q) {
        if (wanted(name)) work_backward<float>(name, q, 0, 0, once);
    };
    split("f32 backward linear causal 16 x 64", describe(LNT_LINEAR, 16, 64, 65536));
    split("f32 backward taylor P 4 causal 32 x 32", describe(LNT_TAYLOR, 32, 32, 16384));
    split("f32 backward taylor P 4 causal 64 x 16", describe(LNT_TAYLOR, 64, 16, 16384));
    p.length_q = p.length_k = 16384;
    split("f32 backward taylorshift full 32 x 32", p);
    split("f32 backward softmax causal 16 x 64", describe(LNT_SOFTMAX, 16, 64, 16384));
}
