/* bench/gpu_backward.h - the backward pass: small problems of odd shapes, every gradient of every
 * head against double precision, and the works of docs/gpu.md. */
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

/* above: q and k above 0, so that scores are of one sign and sums of what is of both cancel. */
template <class T = __nv_bfloat16>
static void verify_gradients_of(const char *name, lnt_attn_desc p, bool bnhd, bool above)
{
    static uint64_t seed = 300;
    p.backward = 1, seed++;
    if (std::string(name).find(like) == std::string::npos) return;
    problem_of<T> x(p, bnhd, seed - 1);
    gradients_of<T> g(x, seed);
    if (above)
        for (buffer_of<T> *b : { &x.q, &x.k }) positive_kernel<<<1024, 256>>>(b->data, b->count);
    const bool clean = g.run_twice();
    gradient_errors e;
    for (int64_t b = 0; b < p.batch; b++)
        for (int64_t kv = 0; kv < p.kv_heads; kv++) e.add(g, b, kv, p.length_q, p.length_k);
    e.finish(g);
    const std::string full = std::string(name) + " [" + x.info.algorithm + "]";
    report_gradients<T>(full.c_str(), e, clean);
}

template <class T = __nv_bfloat16>
static void verify_gradients(const char *name, lnt_attn_desc p, bool bnhd)
{
    verify_gradients_of<T>(name, p, bnhd, false);
}

template <class T = __nv_bfloat16>
static void verify_gradient_lengths(const char *name, lnt_attn_desc p)
{
    if (std::string(name).find(like) == std::string::npos) return;
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

static void verify_linear_gradients()
{
    each_width("linear", LNT_LINEAR, 571, verify_gradients<>);
    lnt_attn_desc p = describe(LNT_LINEAR, 3, 16, 1);
    p.eps = 1; /* with little of it y is v, and dq and dk are 0 */
    verify_gradients("linear 1 token", p, false);
    p = describe(LNT_LINEAR, 6, 20, 411);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2;
    verify_gradients("linear 20 -> 12, 6 heads on 2, 411 tokens", p, true);
    p.dim = 13, p.dim_value = 29;
    verify_gradients("linear 13 -> 29, 6 heads on 2, 411 tokens", p, true);
    p.length_q = 100, p.length_k = 711;
    verify_gradients("linear 100 queries at the end of 711 keys", p, false);
    p.causal = 0;
    verify_gradients("linear 100 queries on 711 keys, full", p, false);
    p.causal = 1;
    const double decay[2] = { 0.9, 0.999 };
    p.decay = decay;
    verify_gradients("linear with decay", p, false);
    verify_gradient_lengths("linear lengths, decay", p);
    p = describe(LNT_LINEAR, 4, 32, 300), p.length_k = 400, p.kv_heads = 2;
    verify_gradient_lengths("linear lengths, causal", p);
    p.causal = 0;
    verify_gradient_lengths("linear lengths, full", p);
    for (int map = LNT_MAP_RELU; map <= LNT_MAP_EXP; map++) {
        p = describe(LNT_LINEAR, 2, 64, 300), p.feature_map = (lnt_feature_map)map;
        verify_gradients(map == LNT_MAP_RELU ? "linear relu" : "linear exp", p, false);
    }
    p = describe(LNT_LINEAR, 2, 32, 700);
    verify_state_gradients("linear, with states before and after", p);
    p.kv_heads = 1, p.decay = decay + 1;
    verify_state_gradients("linear, with states before and after, decay", p);
    verify_gradients_in_parts("linear in two parts, decay", p, 400);
}

static void verify_taylor_gradients()
{
    char name[96];
    for (int64_t d : { 8, 16, 32, 64 })
        for (int64_t terms = 1; terms <= 4; terms++)
            for (int causal = 0; causal < 2; causal++) {
                lnt_attn_desc p = describe(LNT_TAYLOR, 2, d, d >= 64 ? 261 : 597);
                if (terms == 2) p.scale /= 4; /* 1 + x: or denominators are near 0 */
                p.terms = terms, p.causal = causal, p.algorithm = "state";
                snprintf(name, sizeof name, "taylor d %d P %d %s", (int)d, (int)terms,
                         causal ? "causal" : "full");
                verify_gradients(name, p, terms == 3);
            }
    lnt_attn_desc p = describe(LNT_TAYLOR, 6, 20, 611);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.algorithm = "state";
    p.scale /= 2; /* P 4 is negative below -1.6: or one row of a denominator near 0 is most of dq,
                   * and bf16 weights alone, in double arithmetic, put it off by 2e-2 */
    verify_gradients("taylor 20 -> 12, 6 heads on 2, 611 tokens", p, true);
    p.length_q = 100, p.length_k = 711;
    verify_gradients("taylor 100 queries at the end of 711 keys", p, false);
    p.causal = 0;
    verify_gradients("taylor 100 queries on 711 keys, full", p, false);
    p.causal = 1, p.terms = 7, p.algorithm = NULL;
    verify_gradients("taylor P 7", p, false);
    p = describe(LNT_TAYLOR, 2, 128, 211);
    verify_gradients("taylor d 128", p, false);
    p = describe(LNT_TAYLOR, 2, 16, 2);
    verify_gradients("taylor 2 tokens", p, false);
    const double tau[4] = { 1.0, 2.5, 0.5, 4.0 };
    lnt_attn_desc t = describe(LNT_TAYLOR, 4, 32, 500);
    t.terms = 3, t.normalize = LNT_NORMALIZE_TAYLORSHIFT, t.scale = 1, t.temperature = tau;
    t.output_norm = 1, t.algorithm = "state";
    verify_gradients("taylorshift, temperatures, output norm, causal", t, false);
    t.causal = 0;
    verify_gradients("taylorshift, temperatures, output norm, full", t, false);
    t.algorithm = "direct", t.kv_heads = 2;
    verify_gradients("taylorshift, temperatures, output norm, full", t, true);
    p = describe(LNT_TAYLOR, 2, 16, 500), p.length_k = 700, p.algorithm = "state";
    verify_gradient_lengths("taylor lengths, causal", p);
    p.causal = 0;
    verify_gradient_lengths("taylor lengths, full", p);
    p = describe(LNT_TAYLOR, 8, 32, 256), p.algorithm = "direct";
    verify_gradients_of("taylor d 32, q and k above 0", p, false, true);
    p = describe(LNT_TAYLOR, 1, 32, 4096), p.algorithm = "state";
    verify_gradients_of("taylor d 32, q and k above 0", p, false, true);
    for (int64_t d : { 8, 16, 32, 64 })
        for (int causal = 0; causal < 2; causal++) {
            p = describe(LNT_TAYLOR, 2, d, d == 64 ? 700 : 1500), p.algorithm = "state";
            p.causal = causal, p.terms = d == 16 ? 3 : 4;
            snprintf(name, sizeof name, "taylor d %d %s, q and k above 0", (int)d,
                     causal ? "causal" : "full");
            verify_gradients_of(name, p, true, true);
        }
}

/* What pair_back.cu takes: segments, odd numbers of tokens, widths, lengths. */
static void verify_pair_gradients()
{
    for (int64_t n : { 2, 700, 1025, 2600 }) {
        lnt_attn_desc p = describe(LNT_TAYLOR, 2, 32, n);
        p.algorithm = "pairs";
        verify_gradients(("taylor pairs, " + std::to_string(n) + " tokens").c_str(), p, n % 2);
    }
    lnt_attn_desc p = describe(LNT_TAYLOR, 2, 32, 2600);
    p.algorithm = "pairs";
    verify_gradients_of("taylor pairs, q and k above 0", p, false, true);
    p = describe(LNT_TAYLOR, 3, 27, 1500), p.dim_value = 30, p.batch = 2, p.algorithm = "pairs";
    verify_gradients("taylor pairs 27 -> 30, 3 heads, batch 2", p, true);
    p = describe(LNT_TAYLOR, 2, 32, 600), p.length_k = 2300, p.algorithm = "pairs";
    verify_gradients("taylor pairs, 600 queries at the end of 2300 keys", p, false);
    verify_gradient_lengths("taylor pairs, lengths", p);
    p = describe(LNT_TAYLOR, 2, 32, 2100), p.algorithm = "pairs";
    p.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1, p.output_norm = 1;
    verify_gradients("taylor pairs, taylorshift, output norm", p, false);
    p = describe(LNT_TAYLOR, 4, 32, 1300), p.kv_heads = 2, p.algorithm = "pairs";
    verify_gradients("taylor pairs, 4 heads on 2: by tiles", p, true);
}

static void verify_softmax_gradients()
{
    each_width("softmax", LNT_SOFTMAX, 277, verify_gradients<>);
    lnt_attn_desc p = describe(LNT_SOFTMAX, 6, 20, 111);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.length_k = 333, p.scale = 1;
    verify_gradients("softmax 20 -> 12, 6 heads on 2, scale 1", p, true);
    verify_gradient_lengths("softmax lengths, causal", p);
    p.causal = 0;
    verify_gradient_lengths("softmax lengths, full", p);
}

/* What linear_gradient.cu takes: odd numbers of tokens, widths, maps, layouts. */
static void verify_gradient_boxes()
{
    for (int64_t n : { 2, 63, 64, 65, 257, 1100 })
        verify_gradients(("linear boxes, " + std::to_string(n) + " tokens").c_str(),
                         describe(LNT_LINEAR, 2, 64, n), n % 2);
    lnt_attn_desc p = describe(LNT_LINEAR, 3, 24, 411);
    p.dim_value = 48, p.batch = 2;
    verify_gradients("linear boxes, 24 -> 48, 3 heads, batch 2", p, true);
    p.dim = 64, p.dim_value = 8;
    verify_gradients("linear boxes, 64 -> 8, 3 heads, batch 2", p, false);
    for (int map = LNT_MAP_RELU; map <= LNT_MAP_EXP; map++) {
        p = describe(LNT_LINEAR, 2, 48, 300), p.feature_map = (lnt_feature_map)map;
        verify_gradients(map == LNT_MAP_RELU ? "linear boxes, relu" : "linear boxes, exp", p,
                         false);
    }
}

/* In the precision of f32: every width, lengths, states; and of bf16 what has a state. */
template <class T> static void verify_split_gradients(const char *type)
{
    auto named = [&](const char *name) { return std::string(type) + " " + name; };
    each_width(named("linear").c_str(), LNT_LINEAR, 571, verify_gradients<T>);
    each_width(named("softmax").c_str(), LNT_SOFTMAX, 277, verify_gradients<T>);
    lnt_attn_desc p = describe(LNT_SOFTMAX, 6, 20, 111);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.length_k = 333, p.scale = 1;
    verify_gradients<T>(named("softmax 20 -> 12, 6 heads on 2").c_str(), p, true);
    verify_gradient_lengths<T>(named("softmax lengths, causal").c_str(), p);
    p.causal = 0;
    verify_gradient_lengths<T>(named("softmax lengths, full").c_str(), p);
    const double decay[2] = { 0.9, 0.999 };
    p = describe(LNT_LINEAR, 6, 20, 100);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.length_k = 711;
    verify_gradients<T>(named("linear 100 at the end of 711").c_str(), p, false);
    p.decay = decay;
    verify_gradients<T>(named("linear 100 at the end of 711, decay").c_str(), p, false);
    verify_gradient_lengths<T>(named("linear lengths, decay").c_str(), p);
    p.length_q = 700, p.length_k = 700, p.batch = 1;
    verify_state_gradients<T>(named("linear, states before and after, decay").c_str(), p);
    verify_gradients_in_parts<T>(named("linear in two parts, decay").c_str(), p, 401);
    for (int map = LNT_MAP_RELU; map <= LNT_MAP_EXP; map++) {
        p = describe(LNT_LINEAR, 2, 64, 300), p.feature_map = (lnt_feature_map)map;
        verify_gradients<T>(named(map == LNT_MAP_RELU ? "linear relu" : "linear exp").c_str(), p,
                            false);
    }
}

template <class T> static void verify_split_taylor_gradients(const char *type)
{
    auto named = [&](const char *name) { return std::string(type) + " " + name; };
    char name[96];
    for (int64_t d : { 8, 16, 32, 64, 128 })
        for (int64_t terms = 1; terms <= 4; terms++) {
            lnt_attn_desc p = describe(LNT_TAYLOR, 2, d, d >= 64 ? 261 : 597);
            if (d == 128 && terms == 4) p.length_q = p.length_k = 140;
            p.scale /= terms == 2 ? 4 : 2; /* so that denominators stay away from 0 */
            p.terms = terms, p.causal = terms % 2 == (d > 16), p.algorithm = "state";
            snprintf(name, sizeof name, "%s taylor d %d P %d %s", type, (int)d, (int)terms,
                     p.causal ? "causal" : "full");
            verify_gradients<T>(name, p, terms == 3);
            p.algorithm = "direct", p.causal = !p.causal;
            verify_gradients<T>(name, p, terms == 2);
        }
    lnt_attn_desc p = describe(LNT_TAYLOR, 6, 20, 611);
    p.kv_heads = 2, p.dim_value = 13, p.batch = 2, p.length_k = 711, p.algorithm = "state";
    p.scale /= 2;
    verify_gradients<T>(named("taylor 20 -> 13, 6 heads on 2, 611 at the end of 711").c_str(), p,
                        true);
    verify_gradient_lengths<T>(named("taylor lengths, causal").c_str(), p);
    p.causal = 0;
    verify_gradient_lengths<T>(named("taylor lengths, full").c_str(), p);
    for (int64_t terms = 5; terms <= 8; terms++) {
        p = describe(LNT_TAYLOR, 4, 9, 333), p.kv_heads = 2, p.terms = terms;
        p.algorithm = "state", p.causal = terms % 2;
        snprintf(name, sizeof name, "%s taylor d 9 P %d", type, (int)terms);
        verify_gradients<T>(name, p, false);
    }
    const double tau[4] = { 1.0, 2.5, 0.5, 4.0 };
    p = describe(LNT_TAYLOR, 4, 32, 500);
    p.terms = 3, p.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1, p.temperature = tau;
    p.output_norm = 1, p.algorithm = "state", p.kv_heads = 2;
    verify_gradients<T>(named("taylorshift, temperatures, output norm, causal").c_str(), p, false);
    p.causal = 0, p.algorithm = "direct";
    verify_gradients<T>(named("taylorshift, temperatures, output norm, full").c_str(), p, true);
}

/* In two parts, with the state between them. */
template <class T> static void verify_taylor_gradients_in_parts(const char *type)
{
    auto named = [&](const char *name) { return std::string(type) + " " + name; };
    lnt_attn_desc p = describe(LNT_TAYLOR, 4, 16, 700);
    p.kv_heads = 2, p.algorithm = "state", p.scale /= 2;
    verify_gradients_in_parts<T>(named("taylor d 16 in two parts").c_str(), p, 401);
    p = describe(LNT_TAYLOR, 2, 32, 600), p.terms = 3, p.algorithm = "state", p.scale /= 2;
    verify_gradients_in_parts<T>(named("taylor d 32 P 3 in two parts").c_str(), p, 256);
    p.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1;
    verify_gradients_in_parts<T>(named("taylorshift d 32 in two parts").c_str(), p, 300);
    p = describe(LNT_TAYLOR, 2, 8, 500), p.terms = 6, p.algorithm = "state", p.scale /= 2;
    verify_gradients_in_parts<T>(named("taylor d 8 P 6 in two parts").c_str(), p, 77);
}

static void verify_backward(const std::function<bool(const char *)> &wanted)
{
    if (wanted("backward_split")) {
        verify_split_gradients<float>("f32");
        verify_split_gradients<__half>("f16");
    }
    if (wanted("backward_split_taylor")) {
        verify_split_taylor_gradients<float>("f32");
        verify_split_taylor_gradients<__half>("f16");
    }
    if (wanted("backward_parts")) {
        verify_taylor_gradients_in_parts<float>("f32");
        verify_taylor_gradients_in_parts<__nv_bfloat16>("bf16");
        lnt_attn_desc p = describe(LNT_TAYLOR, 2, 128, 261); /* what bf16 has no kernels for */
        p.terms = 3, p.algorithm = "state";
        verify_gradients("bf16 taylor d 128 P 3", p, true);
        p = describe(LNT_TAYLOR, 4, 9, 333), p.terms = 6, p.algorithm = "state";
        verify_gradients("bf16 taylor d 9 P 6", p, false);
    }
    if (wanted("backward_linear")) verify_linear_gradients();
    if (wanted("backward_boxes")) verify_gradient_boxes();
    if (wanted("backward_taylor")) verify_taylor_gradients();
    if (wanted("backward_pairs")) verify_pair_gradients();
    if (wanted("backward_softmax")) verify_softmax_gradients();
}

/* ---- works ----------------------------------------------------------------------------------- */

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

/* Forward and backward; target is in ms, or, where times_forward is not 0, in forward times. */
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
    const double s = median_seconds([&] { forward(), backward(); }, 11);
    const double n = (double)p.length_q, all = n * (double)p.heads;
    const double bytes = all * (double)(5 * p.dim + 6 * p.dim_value) * sizeof(T);
    double flops = 3.5 * state_flops(p) * n;
    if (p.mechanism == LNT_SOFTMAX)
        flops = n * n / (p.causal ? 2 : 1) * 7 * (double)(p.dim + p.dim_value) * (double)p.heads;
    if (times_forward > 0) target = times_forward * f * 1e3;
    printf("    forward %.3f ms, backward %.3f ms = %.2f forward\n", f * 1e3, b * 1e3, b / f);
    line(name, s, s * 1e3, "ms", target, flops, bytes, error, clean, allowed_of<T>(),
         sizeof(T) == 4 ? SPLIT_PRODUCTS : 1);
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
