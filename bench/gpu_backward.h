/* bench/gpu_backward.h - one backward pass, every gradient of every head held against double. */
#include <random>

#include "gpu_gradient.h"

template <class T> struct gradients_of {
    problem_of<T> &x;
    buffer_of<T> dout, dq, dk, dv;
    float *dtemperature = nullptr;
    lnt_cuda_grads grads = {};
    gradients_of(problem_of<T> &problem_, uint64_t seed)
        : x(problem_), dout(x.out.count), dq(x.q.count), dk(x.k.count), dv(x.v.count)
    {
        const lnt_attn_desc &p = x.p;
        dout.fill(seed * 7 + 3);
        grads.size = sizeof grads;
        grads.dout = x.view(dout, p.heads, p.length_q, p.dim_value);
        grads.dq = x.view(dq, p.heads, p.length_q, p.dim);
        grads.dk = x.view(dk, p.kv_heads, p.length_k, p.dim);
        grads.dv = x.view(dv, p.kv_heads, p.length_k, p.dim_value);
        must(cudaMalloc((void **)&dtemperature, (size_t)p.heads * sizeof(float)), "allocating");
        if (p.normalize == LNT_NORMALIZE_TAYLORSHIFT) grads.dtemperature = dtemperature;
    }
    ~gradients_of() { cudaFree(dtemperature); }

    void poison()
    {
        for (buffer_of<T> *b : { &dq, &dk, &dv })
            must(cudaMemset(b->data, 0xff, b->count * sizeof *b->data), "poisoning");
    }

    bool run_twice()
    {
        return run_twice([&] { must(api->backward(x.plan, &x.io, &grads) == LNT_OK, "backward"); });
    }

    /* Into poisoned memory, twice: everything written, the same bits. */
    bool run_twice(const std::function<void()> &run)
    {
        std::vector<T> first[3];
        buffer_of<T> *all[3] = { &dq, &dk, &dv };
        bool clean = true;
        for (int turn = 0; turn < 2; turn++) {
            poison();
            run();
            must(cudaDeviceSynchronize(), "running backward");
            for (int i = 0; i < 3; i++) {
                const size_t n = std::min<size_t>(all[i]->count, 1 << 26);
                auto now = all[i]->host(0, n);
                for (const T &e : now) clean = clean && isfinite((float)e);
                if (turn)
                    clean = clean && !memcmp(now.data(), first[i].data(), n * sizeof now[0]);
                else
                    first[i] = now;
            }
        }
        return clean;
    }
};

/* |a - b|^2 and |b|^2, summed. */
struct squares {
    double error = 0, size = 0;
    template <class T> void add(const std::vector<T> &a, const std::vector<double> &b)
    {
        for (size_t i = 0; i < b.size(); i++) {
            const double e = (double)(float)a[i] - b[i];
            error += e * e, size += b[i] * b[i];
        }
    }
    double relative() const { return size > 0 ? sqrt(error / size) : sqrt(error); }
};

/* The errors of dq, dk, dv and of the temperatures over a whole problem. */
struct gradient_errors {
    squares q, k, v, tau, state;
    bool rest = true; /* rows past the lengths are 0 */

    template <class T>
    void add(const gradients_of<T> &g, int64_t b, int64_t kv, int64_t nq, int64_t nk)
    {
        gradient_reference<T> ref(g.x.p, nq, nk);
        add(g, b, kv, nq, ref);
    }
    template <class T>
    void add(const gradients_of<T> &g, int64_t b, int64_t kv, int64_t nq,
             gradient_reference<T> &ref)
    {
        const problem_of<T> &x = g.x;
        const lnt_attn_desc &p = x.p;
        const int64_t group = p.heads / p.kv_heads;
        const auto k8 = x.head(x.k, p.kv_heads, p.length_k, p.dim, b, kv),
                   v8 = x.head(x.v, p.kv_heads, p.length_k, p.dim_value, b, kv);
        for (int64_t h = kv * group; h < (kv + 1) * group; h++) {
            const auto q8 = x.head(x.q, p.heads, p.length_q, p.dim, b, h),
                       d8 = x.head(g.dout, p.heads, p.length_q, p.dim_value, b, h);
            ref.add(q8.data(), k8.data(), v8.data(), d8.data(), h, all_rows(nq));
            take(q, x.head(g.dq, p.heads, p.length_q, p.dim, b, h), ref.dq.back());
        }
        take(k, x.head(g.dk, p.kv_heads, p.length_k, p.dim, b, kv), ref.dk);
        take(v, x.head(g.dv, p.kv_heads, p.length_k, p.dim_value, b, kv), ref.dv);
        if (temperature.empty()) temperature.resize((size_t)p.heads);
        for (int64_t h = 0; h < group; h++) {
            temperature[(size_t)(kv * group + h)] += ref.dtemperature[(size_t)h];
            tau.size += ref.along[(size_t)h];
        }
    }
    template <class T> void finish(const gradients_of<T> &g)
    {
        if (!g.grads.dtemperature) {
            tau = {};
            return;
        }
        std::vector<float> got(temperature.size());
        must(cudaMemcpy(got.data(), g.dtemperature, got.size() * sizeof(float),
                        cudaMemcpyDeviceToHost),
             "copying");
        for (size_t h = 0; h < got.size(); h++) {
            const double e = got[h] - temperature[h]; /* relative to the terms: they may cancel */
            tau.error += e * e;
        }
    }
    double worst() const
    {
        return std::max(std::max(std::max(q.relative(), k.relative()), v.relative()),
                        std::max(tau.relative(), state.relative()));
    }

  private:
    std::vector<double> temperature;
    template <class T>
    void take(squares &s, const std::vector<T> &got, const std::vector<double> &want)
    {
        s.add(got, want);
        for (size_t i = want.size(); i < got.size(); i++) rest = rest && (float)got[i] == 0;
    }
};

template <class T>
static void report_gradients(const char *name, const gradient_errors &e, bool clean)
{
    const bool ok = clean && e.rest && e.worst() <= allowed_of<T>();
    if (!ok) failures++;
    printf("%-58s dq %.2e dk %.2e dv %.2e", name, e.q.relative(), e.k.relative(), e.v.relative());
    if (e.tau.size > 0) printf(" dtau %.2e", e.tau.relative());
    if (e.state.size > 0) printf(" dstate %.2e", e.state.relative());
    printf("  %s%s%s\n", ok ? "ok" : "WRONG", clean ? "" : " (unsteady or unwritten)",
           e.rest ? "" : " (rows past the length)");
    fflush(stdout);
}

/* above: q and k above 0, so that scores are of one sign and sums of what is of both cancel.  mean:
 * of the values, in their spreads. */
template <class T = __nv_bfloat16>
static void verify_gradients_of(const char *name, lnt_attn_desc p, bool bnhd, bool above,
                                float mean = 0)
{
    static uint64_t seed = 300;
    p.backward = 1, seed++;
    if (!is_wanted(name)) return;
    problem_of<T> x(p, bnhd, seed - 1);
    gradients_of<T> g(x, seed);
    if (above)
        for (buffer_of<T> *b : { &x.q, &x.k }) positive_kernel<<<1024, 256>>>(b->data, b->count);
    if (mean != 0) mean_kernel<<<1024, 256>>>(x.v.data, x.v.count, mean);
    const bool clean = g.run_twice();
    gradient_errors e;
    for (int64_t b = 0; b < p.batch; b++)
        for (int64_t kv = 0; kv < p.kv_heads; kv++) e.add(g, b, kv, p.length_q, p.length_k);
    e.finish(g);
    const std::string full = std::string(name) + " [" + x.info.algorithm + "]";
    report_gradients<T>(full.c_str(), e, clean);
}

/* What forward leaves for backward: forward is right, the gradients have the bits that they have
 * without it, and keys elsewhere than where forward read them are not taken for the same. */
template <class T = __nv_bfloat16>
static void verify_after_forward(const char *name, lnt_attn_desc p, float mean)
{
    static uint64_t seed = 500;
    p.backward = 1, seed++;
    if (!is_wanted(name)) return;
    problem_of<T> x(p, true, seed), other(p, true, seed + 1000);
    gradients_of<T> g(x, seed);
    mean_kernel<<<1024, 256>>>(x.v.data, x.v.count, mean);
    const auto backward = [&] { must(api->backward(x.plan, &x.io, &g.grads) == LNT_OK, "backward"); };
    const auto bits = [&] {
        must(cudaDeviceSynchronize(), "running");
        std::vector<T> all;
        for (buffer_of<T> *b : { &g.dq, &g.dk, &g.dv }) {
            const auto some = b->host(0, b->count);
            all.insert(all.end(), some.begin(), some.end());
        }
        return all;
    };
    const auto same = [](const std::vector<T> &a, const std::vector<T> &b) {
        return !memcmp(a.data(), b.data(), a.size() * sizeof a[0]);
    };
    bool clean = x.run_twice();
    double sum = 0;
    for (int64_t b = 0; b < p.batch; b++)
        for (int64_t h = 0; h < p.heads; h++) {
            const double e = x.check(all_rows(p.length_q), b, h, p.length_q, p.length_k);
            sum += e * e;
        }
    g.grads.after_forward = 1, g.poison(), backward();
    const auto after = bits();
    g.grads.after_forward = 0, g.poison(), backward();
    clean = clean && same(after, bits());
    lnt_cuda_io elsewhere = x.io;
    elsewhere.k = other.io.k, elsewhere.v = other.io.v;
    must(api->forward(x.plan, &elsewhere) == LNT_OK, "forward");
    g.grads.after_forward = 1, g.poison(), backward();
    clean = clean && same(after, bits());
    g.poison(), backward(); /* whose states are gone */
    clean = clean && same(after, bits());
    report(name, sqrt(sum / (double)(p.batch * p.heads)), allowed_of<T>(), clean);
}

template <class T = __nv_bfloat16>
static void verify_gradients(const char *name, lnt_attn_desc p, bool bnhd)
{
    verify_gradients_of<T>(name, p, bnhd, false);
}

template <class T = __nv_bfloat16>
static void verify_gradient_lengths(const char *name, lnt_attn_desc p)
{
    if (!is_wanted(name)) return;
    p.batch = 3, p.backward = 1;
    problem_of<T> x(p, true, 177);
    gradients_of<T> g(x, 178);
    const three_lengths n(p);
    x.io.lengths_q = n.device, x.io.lengths_k = n.device + 3;
    const bool clean = g.run_twice();
    gradient_errors e;
    for (int64_t b = 0; b < 3; b++)
        for (int64_t kv = 0; kv < p.kv_heads; kv++) e.add(g, b, kv, n.q[b], n.k[b]);
    e.finish(g);
    report_gradients<T>(name, e, clean);
}

/* In two parts: the second begins with the state that the first left, and goes back first; the
 * gradient of that state is where the first part's begins. */
template <class T = __nv_bfloat16>
static void verify_gradients_in_parts(const char *name, lnt_attn_desc p, int64_t half)
{
    if (!is_wanted(name)) return;
    p.backward = 1, p.state = 1;
    problem_of<T> x(p, false, 191);
    gradients_of<T> g(x, 192);
    state_memory between(x, p.batch), gradient(x, p.batch);
    auto part = [&](int64_t first, int64_t n, lnt_cuda_io *io, lnt_cuda_grads *grads) {
        *io = x.io, *grads = g.grads;
        io->q = rows_of(io->q, first, n), io->k = rows_of(io->k, first, n);
        io->v = rows_of(io->v, first, n), io->out = rows_of(io->out, first, n);
        grads->dout = rows_of(grads->dout, first, n), grads->dq = rows_of(grads->dq, first, n);
        grads->dk = rows_of(grads->dk, first, n), grads->dv = rows_of(grads->dv, first, n);
        grads->dtemperature = nullptr; /* a run gives its own part's alone */
    };
    const bool clean = g.run_twice([&] {
        lnt_cuda_io io;
        lnt_cuda_grads grads;
        part(0, half, &io, &grads);
        io.state_out = &between.states;
        must(api->forward(x.plan, &io) == LNT_OK, "forward");
        part(half, p.length_q - half, &io, &grads);
        io.state_in = &between.states, grads.dstate_in = &gradient.states;
        must(api->backward(x.plan, &io, &grads) == LNT_OK, "backward");
        part(0, half, &io, &grads);
        grads.dstate_out = &gradient.states;
        must(api->backward(x.plan, &io, &grads) == LNT_OK, "backward");
    });
    g.grads.dtemperature = nullptr;
    gradient_errors e;
    for (int64_t b = 0; b < p.batch; b++)
        for (int64_t kv = 0; kv < p.kv_heads; kv++) e.add(g, b, kv, p.length_q, p.length_k);
    e.finish(g);
    report_gradients<T>(name, e, clean);
}

/* A head's numbers of a state, as gradient_reference has them. */
template <class T>
static std::vector<double> state_of(const problem_of<T> &x, const lnt_cuda_states &from, int64_t kv)
{
    const size_t d = (size_t)x.info.features, m = (size_t)x.p.dim_value;
    std::vector<float> s(d * m), z(d);
    must(cudaMemcpy(s.data(), from.s + (size_t)kv * d * m, d * m * 4, cudaMemcpyDeviceToHost),
         "copying");
    must(cudaMemcpy(z.data(), from.z + (size_t)kv * d, d * 4, cudaMemcpyDeviceToHost), "copying");
    std::vector<double> all;
    for (size_t f = 0; f < d; f++) {
        all.insert(all.end(), s.begin() + (long)(f * m), s.begin() + (long)((f + 1) * m));
        all.push_back(z[f]);
    }
    return all;
}

/* Random numbers that give the keys about as much as the queries do. */
template <class T> static void fill_state(const problem_of<T> &x, const lnt_cuda_states &to)
{
    const size_t rows = (size_t)(x.p.kv_heads * x.info.features), m = (size_t)x.p.dim_value;
    std::mt19937 dice(4);
    std::normal_distribution<float> normal(0, 1.0f / (float)x.p.length_k);
    std::vector<float> numbers(rows * m + rows);
    for (float &e : numbers) e = normal(dice);
    must(cudaMemcpy(to.s, numbers.data(), rows * m * 4, cudaMemcpyHostToDevice), "copying");
    must(cudaMemcpy(to.z, numbers.data() + rows * m, rows * 4, cudaMemcpyHostToDevice), "copying");
}

/* With a state before the keys, that of forward over them, and a gradient of the one after. */
template <class T = __nv_bfloat16>
static void verify_state_gradients(const char *name, lnt_attn_desc p)
{
    if (!is_wanted(name)) return;
    p.backward = 1, p.state = 1;
    problem_of<T> x(p, false, 211);
    gradients_of<T> g(x, 212);
    state_memory before(x, 1), after(x, 1), found(x, 1);
    fill_state(x, after.states);
    x.io.state_out = &before.states;
    must(api->forward(x.plan, &x.io) == LNT_OK, "forward");
    x.io.state_out = nullptr, x.io.state_in = &before.states;
    g.grads.dstate_out = &after.states, g.grads.dstate_in = &found.states;
    const bool clean = g.run_twice();
    gradient_errors e;
    for (int64_t kv = 0; kv < p.kv_heads; kv++) {
        gradient_reference<T> ref(p, p.length_q, p.length_k);
        ref.state = state_of(x, before.states, kv), ref.dstate_out = state_of(x, after.states, kv);
        e.add(g, 0, kv, p.length_q, ref);
        const std::vector<double> got = state_of(x, found.states, kv);
        for (size_t f = 0; f < got.size(); f++) {
            const double off = got[f] - ref.dstate_in[f];
            e.state.error += off * off, e.state.size += ref.dstate_in[f] * ref.dstate_in[f];
        }
    }
    e.finish(g);
    report_gradients<T>(name, e, clean);
}
