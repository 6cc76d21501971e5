/* bench/gpu.cu - the GPU plug-in: verifies, then times.
 *
 *     gpu PLUGIN.so [verify] [time] [once] [like=TEXT ...] [NAME ...]
 *
 * verify: small problems of odd shapes, every row against double precision on the host.  time: the
 * works of docs/gpu.md, rows picked out of each against double precision, then the median of many
 * runs by events.  once: one run of each, for a profiler.  like=TEXT: verifies only problems whose
 * names have one of them.  NAME: only works that begin so; of verify, the families step, taylor,
 * orbits, pairs, linear, passes, softmax, split, cur, streams, backward_linear, backward_boxes,
 * backward_taylor, backward_pairs, backward_softmax, backward_mean, backward_split,
 * backward_split_taylor, backward_parts. */
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "cuda/plugin.h"
#include "gpu_reference.h"

static const lnt_cuda_api *api;
static lnt_cuda_device *device;
static int failures;
static std::vector<std::string> like; /* parts of the names of the problems wanted */

static bool is_wanted(const std::string &name)
{
    for (const std::string &part : like)
        if (name.find(part) != std::string::npos) return true;
    return like.empty();
}

static void must(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "gpu: %s: %s, %s\n", what, device ? api->error(device) : "",
            cudaGetErrorString(cudaGetLastError()));
    exit(1);
}

static void must(cudaError_t e, const char *what) { must(e == cudaSuccess, what); }

/* ---- data ------------------------------------------------------------------------------------ */

__device__ static uint32_t mix(uint64_t x)
{
    x ^= x >> 33, x *= 0xff51afd7ed558ccdull, x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53ull;
    return (uint32_t)((x ^ x >> 33) >> 32);
}

template <class T> __global__ static void normal_kernel(T *x, size_t n, uint64_t seed)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const float u = ((float)mix(2 * i + seed * 0x9e3779b97f4a7c15ull) + 0.5f) * 0x1p-32f;
        const float w = (float)mix(2 * i + 1 + seed * 0x9e3779b97f4a7c15ull) * 0x1p-32f;
        x[i] = (T)(sqrtf(-2 * logf(u)) * cospif(2 * w));
    }
}

template <class T> __global__ static void nan_kernel(const T *x, size_t n, unsigned *found)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        if (!isfinite((float)x[i])) *found = 1;
}

template <class T> __global__ static void positive_kernel(T *x, size_t n)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        x[i] = (T)fabsf((float)x[i]);
}

/* Plus `mean`, of every other element minus. */
template <class T> __global__ static void mean_kernel(T *x, size_t n, float mean)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        x[i] = (T)((float)x[i] + (i % 2 ? -mean : mean));
}

/* One head of x [n][heads][d] as [n][d]. */
template <class T>
__global__ static void gather_kernel(T *to, const T *from, size_t n, size_t stride, size_t d)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n * d; i += step)
        to[i] = from[i / d * stride + i % d];
}

template <class T> struct buffer_of {
    T *data = nullptr;
    size_t count;
    explicit buffer_of(size_t n) : count(n)
    {
        must(cudaMalloc((void **)&data, (n ? n : 1) * sizeof *data), "allocating");
    }
    ~buffer_of() { cudaFree(data); }
    buffer_of(const buffer_of &) = delete;
    void fill(uint64_t seed) { normal_kernel<<<1024, 256>>>(data, count, seed); }
    std::vector<T> host(size_t at, size_t n) const
    {
        std::vector<T> x(n);
        must(cudaMemcpy(x.data(), data + at, n * sizeof *data, cudaMemcpyDeviceToHost), "copying");
        return x;
    }
};
typedef buffer_of<__nv_bfloat16> buffer;

static lnt_dtype dtype_of(__nv_bfloat16) { return LNT_BF16; }
static lnt_dtype dtype_of(__half) { return LNT_F16; }
static lnt_dtype dtype_of(float) { return LNT_F32; }

/* ---- one problem ----------------------------------------------------------------------------- */

template <class T> struct problem_of {
    lnt_attn_desc p;
    bool bnhd;
    buffer_of<T> q, k, v, out;
    lnt_cuda_plan *plan = nullptr;
    lnt_cuda_plan_info info = {};
    lnt_cuda_io io = {};
    void *workspace = nullptr;

    static size_t numbers(int64_t a, int64_t b, int64_t c, int64_t d)
    {
        return (size_t)(a * b * c * d);
    }

    lnt_tensor view(buffer_of<T> &x, int64_t heads, int64_t n, int64_t d) const
    {
        lnt_tensor t = { x.data, p.dtype, { p.batch, heads, n, d }, {} };
        t.stride[3] = 1, t.stride[2] = bnhd ? heads * d : d, t.stride[1] = bnhd ? d : n * d;
        t.stride[0] = heads * n * d;
        return t;
    }

    problem_of(const lnt_attn_desc &desc, bool interleaved, uint64_t seed)
        : p(desc), bnhd(interleaved), q(numbers(p.batch, p.heads, p.length_q, p.dim)),
          k(numbers(p.batch, p.kv_heads, p.length_k, p.dim)),
          v(numbers(p.batch, p.kv_heads, p.length_k, p.dim_value)),
          out(numbers(p.batch, p.heads, p.length_q, p.dim_value))
    {
        p.dtype = dtype_of(T());
        q.fill(3 * seed), k.fill(3 * seed + 1), v.fill(3 * seed + 2);
        must(api->plan_create(device, &p, &plan) == LNT_OK, "making a plan");
        info.size = sizeof info;
        must(api->plan_describe(plan, &info) == LNT_OK, "describing a plan");
        const size_t bytes = std::max(info.workspace_bytes, info.backward_bytes);
        must(api->allocate(device, bytes, &workspace) == LNT_OK, "allocating");
        must(cudaMemset(workspace, 0xff, bytes), "filling");
        io.size = sizeof io;
        io.q = view(q, p.heads, p.length_q, p.dim), io.k = view(k, p.kv_heads, p.length_k, p.dim);
        io.v = view(v, p.kv_heads, p.length_k, p.dim_value);
        io.out = view(out, p.heads, p.length_q, p.dim_value);
        io.workspace = workspace, io.workspace_bytes = bytes;
    }
    ~problem_of()
    {
        api->plan_destroy(plan);
        api->release(device, workspace);
    }

    /* One head of x as [n, d] on the host. */
    std::vector<T> head(const buffer_of<T> &x, int64_t heads, int64_t n, int64_t d, int64_t b,
                        int64_t h) const
    {
        if (!bnhd) return x.host((size_t)((b * heads + h) * n * d), (size_t)(n * d));
        buffer_of<T> y((size_t)(n * d));
        gather_kernel<<<1024, 256>>>(y.data, x.data + b * heads * n * d + h * d, (size_t)n,
                                     (size_t)(heads * d), (size_t)d);
        return y.host(0, y.count);
    }

    /* Root mean square over rows of |y - ref| / |ref|, of head h of sequence b. */
    double check(const std::vector<int64_t> &rows, int64_t b, int64_t h, int64_t nq,
                 int64_t nk) const
    {
        const int64_t kv = h * p.kv_heads / p.heads;
        const auto hq = head(q, p.heads, p.length_q, p.dim, b, h),
                   hk = head(k, p.kv_heads, p.length_k, p.dim, b, kv),
                   hv = head(v, p.kv_heads, p.length_k, p.dim_value, b, kv),
                   hy = head(out, p.heads, p.length_q, p.dim_value, b, h);
        const reference_of<T> ref = { p, hq.data(), hk.data(), hv.data(), nq, nk, h };
        std::vector<double> error(rows.size());
        std::vector<std::thread> threads;
        const size_t parts =
            std::min<size_t>(16, std::max(1u, std::thread::hardware_concurrency()));
        for (size_t t = 0; t < parts; t++)
            threads.emplace_back([&, t] {
                std::vector<double> y((size_t)p.dim_value);
                for (size_t r = t; r < rows.size(); r += parts) {
                    ref.row(rows[r], y.data());
                    double e = 0, n = 0;
                    for (int64_t c = 0; c < p.dim_value; c++) {
                        const double d =
                            ref.at(hy.data(), rows[r] * p.dim_value + c) - y[(size_t)c];
                        e += d * d, n += y[(size_t)c] * y[(size_t)c];
                    }
                    error[r] = n > 0 ? e / n : e;
                }
            });
        for (std::thread &t : threads) t.join();
        double sum = 0;
        for (double e : error) sum += e;
        return sqrt(sum / (double)error.size());
    }

    /* Runs into poisoned memory, twice: everything written, the same bits. */
    bool run_twice()
    {
        std::vector<T> first;
        unsigned *found, bad = 0;
        must(cudaMalloc((void **)&found, sizeof *found), "allocating");
        must(cudaMemset(found, 0, sizeof *found), "clearing");
        bool same = true;
        for (int turn = 0; turn < 2; turn++) {
            must(cudaMemset(out.data, 0xff, out.count * sizeof *out.data), "poisoning");
            must(api->forward(plan, &io) == LNT_OK, "forward");
            nan_kernel<<<1024, 256>>>(out.data, out.count, found);
            must(cudaDeviceSynchronize(), "running");
            const size_t n = std::min<size_t>(out.count, 1 << 26);
            if (!turn)
                first = out.host(0, n);
            else
                same = memcmp(first.data(), out.host(0, n).data(), n * sizeof first[0]) == 0;
        }
        must(cudaMemcpy(&bad, found, sizeof bad, cudaMemcpyDeviceToHost), "copying");
        cudaFree(found);
        return same && !bad;
    }
};
typedef problem_of<__nv_bfloat16> problem;

static lnt_attn_desc describe(lnt_mechanism m, int64_t heads, int64_t dim, int64_t n)
{
    lnt_attn_desc p = {};
    p.size = sizeof p, p.mechanism = m, p.dtype = LNT_BF16;
    p.batch = 1, p.heads = p.kv_heads = heads, p.length_q = p.length_k = n;
    p.dim = p.dim_value = dim, p.scale = 1 / sqrt((double)dim), p.eps = 1e-6, p.terms = 4,
    p.causal = 1;
    return p;
}

static void report(const char *name, double error, double allowed, bool clean)
{
    const bool ok = clean && error <= allowed;
    if (!ok) failures++;
    printf("%-58s error %.2e  %s%s\n", name, error, ok ? "ok" : "WRONG",
           clean ? "" : " (unsteady or unwritten)");
    fflush(stdout);
}

#include "gpu_verify.h"
#include "gpu_works.h"

#include "gpu_backward_cases.h" /* these use both */
#include "gpu_backward_works.h"
#include "gpu_cur.h"
#include "gpu_stream.h"

int main(int argc, char **argv)
{
    if (argc < 2)
        return fprintf(stderr, "usage: gpu PLUGIN.so [verify] [time] [once] [steady] [NAME ...]\n"), 2;
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) return fprintf(stderr, "gpu: %s\n", dlerror()), 1;
    const auto ask = (lnt_cuda_plugin_function)dlsym(library, LNT_CUDA_SYMBOL);
    api = ask ? ask(LNT_CUDA_ABI) : NULL;
    char sentence[256] = "not a plug-in of this version";
    if (!api || api->open(0, &device, sentence, sizeof sentence))
        return fprintf(stderr, "gpu: %s\n", sentence), 1;
    bool verifies = false, times = false, once = false, repeats = false;
    std::vector<std::string> names;
    for (int i = 2; i < argc; i++) {
        const std::string word = argv[i];
        if (word == "verify")
            verifies = true;
        else if (word == "time")
            times = true;
        else if (word == "once")
            once = true;
        else if (word == "steady")
            repeats = true;
        else if (word.rfind("like=", 0) == 0)
            like.push_back(word.substr(5));
        else
            names.push_back(word);
    }
    if (verifies) verify_all(names);
    if (times || once) time_all(names, once);
    for (int64_t tokens : { 65536, 65000, 40000, 131072 })
        if (repeats) verify_steady(tokens);
    printf(failures ? "%d WRONG\n" : "all right\n", failures);
    return failures ? 1 : 0;
}
