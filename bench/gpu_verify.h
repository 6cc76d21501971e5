/* bench/gpu_verify.h - small problems of odd shapes, every row of every head. */

static std::vector<int64_t> all_rows(int64_t n)
{
    std::vector<int64_t> rows((size_t)n);
    for (int64_t i = 0; i < n; i++) rows[(size_t)i] = i;
    return rows;
}

static std::vector<int64_t> some_rows(int64_t n, int count)
{
    std::vector<int64_t> rows = { 0, 1, n / 2, n - 1 };
    for (int i = 4; i < count; i++) /* from the first to the last, as many in each doubling */
        rows.push_back(std::min(n - 1, (int64_t)pow((double)n, (i - 3.0) / (count - 3.0))));
    return rows;
}

/* The relative error that a dtype is held to; of bf16 and f16 the rounding of the result is most.
 */
template <class T> static double allowed_of()
{
    return dtype_of(T()) == LNT_BF16 ? 3e-3 : dtype_of(T()) == LNT_F16 ? 4e-4 : 2e-5;
}

/* Every row, or where there are many tokens some of them; of every head, or of each `step`th. */
template <class T = __nv_bfloat16>
static void verify_forward(const char *name, const lnt_attn_desc &p, bool bnhd,
                           double allowed = allowed_of<T>(), int64_t step = 1)
{
    static uint64_t seed = 100;
    const uint64_t own = seed++;
    if (!is_wanted(name)) return;
    problem_of<T> x(p, bnhd, own);
    const bool clean = x.run_twice();
    const auto rows = p.length_q < 5000 ? all_rows(p.length_q) : some_rows(p.length_q, 24);
    double sum = 0;
    int64_t heads = 0;
    for (int64_t b = 0; b < p.batch; b++)
        for (int64_t h = 0; h < p.heads; h += step, heads++) {
            const double e = x.check(rows, b, h, p.length_q, p.length_k);
            sum += e * e;
        }
    const std::string full = std::string(name) + " [" + x.info.algorithm + "]";
    report(full.c_str(), sqrt(sum / (double)heads), allowed, clean);
}

/* Every width that kernels are compiled for, causal and full: verify(name, problem, layout). */
template <class F>
static void each_width(const char *mechanism, lnt_mechanism m, int64_t tokens, const F &verify)
{
    for (int64_t d : { 8, 16, 32, 64, 128 })
        for (int causal = 0; causal < 2; causal++) {
            lnt_attn_desc p = describe(m, 2, d, tokens);
            p.causal = causal;
            char name[96];
            snprintf(name, sizeof name, "%s d %d %s", mechanism, (int)d,
                     causal ? "causal" : "full");
            verify(name, p, causal);
        }
}

/* Lengths of three sequences: full, shorter, and one of 5 keys without queries, or with more. */
struct three_lengths {
    int64_t q[3], k[3], *device;
    explicit three_lengths(const lnt_attn_desc &p, int64_t more = 0)
        : q{ p.length_q, p.length_q / 2, more }, k{ p.length_k, p.length_k - 7 - p.length_q / 2, 5 }
    {
        must(cudaMalloc((void **)&device, sizeof q + sizeof k), "allocating");
        must(cudaMemcpy(device, q, sizeof q, cudaMemcpyHostToDevice), "copying");
        must(cudaMemcpy(device + 3, k, sizeof k, cudaMemcpyHostToDevice), "copying");
    }
    ~three_lengths() { cudaFree(device); }
    three_lengths(const three_lengths &) = delete;
};

template <class T = __nv_bfloat16>
static void verify_lengths(lnt_attn_desc p, const char *name, int64_t more = 0)
{
    if (!is_wanted(name)) return;
    p.batch = 3;
    problem_of<T> x(p, false, 77);
    const three_lengths n(p, more);
    x.io.lengths_q = n.device, x.io.lengths_k = n.device + 3;
    bool clean = x.run_twice();
    double worst = 0;
    for (int64_t b = 0; b < 3; b++) {
        if (n.q[b]) worst = std::max(worst, x.check(all_rows(n.q[b]), b, 0, n.q[b], n.k[b]));
        const auto y = x.head(x.out, p.heads, p.length_q, p.dim_value, b, 0);
        for (int64_t i = n.q[b] * p.dim_value; i < p.length_q * p.dim_value; i++)
            clean = clean && (float)y[(size_t)i] == 0;
    }
    report(name, worst, allowed_of<T>(), clean);
}

struct state_memory {
    lnt_cuda_states states = {};
    template <class T> state_memory(const problem_of<T> &x, int64_t slots)
    {
        const size_t rows = (size_t)(slots * x.p.kv_heads * x.info.features),
                     m = (size_t)x.p.dim_value;
        states.slots = slots;
        must(cudaMalloc((void **)&states.s, rows * m * sizeof(float)), "allocating");
        must(cudaMalloc((void **)&states.z, rows * sizeof(float)), "allocating");
        must(cudaMalloc((void **)&states.tokens, (size_t)slots * sizeof(int64_t)), "allocating");
        must(cudaMemset(states.s, 0, rows * m * sizeof(float)), "clearing");
        must(cudaMemset(states.z, 0, rows * sizeof(float)), "clearing");
        must(cudaMemset(states.tokens, 0, (size_t)slots * sizeof(int64_t)), "clearing");
    }
    ~state_memory()
    {
        cudaFree(states.s);
        cudaFree(states.z);
        cudaFree(states.tokens);
    }
};

static lnt_tensor rows_of(lnt_tensor t, int64_t first, int64_t n)
{
    t.data = (char *)t.data + first * t.stride[2] * (t.dtype == LNT_F32 ? 4 : 2);
    t.shape[2] = n;
    return t;
}

/* The first `before` tokens through forward, the rest through steps of `at_once` tokens. */
template <class T = __nv_bfloat16>
static void verify_steps(const char *name, const lnt_attn_desc &p, int64_t before, int64_t at_once)
{
    if (!is_wanted(name)) return;
    problem_of<T> x(p, false, 55);
    state_memory memory(x, p.batch + 1);
    must(cudaMemset(x.out.data, 0xff, x.out.count * sizeof(T)), "poisoning");
    lnt_cuda_io io = x.io;
    if (before) {
        io.q = rows_of(x.io.q, 0, before), io.k = rows_of(x.io.k, 0, before);
        io.v = rows_of(x.io.v, 0, before), io.out = rows_of(x.io.out, 0, before);
        io.state_in = io.state_out = &memory.states;
        must(api->forward(x.plan, &io) == LNT_OK, "forward");
        must(cudaDeviceSynchronize(), "running");
    }
    for (int64_t i = before; i < p.length_q; i += at_once) {
        const int64_t n = std::min(at_once, p.length_q - i);
        io.q = rows_of(x.io.q, i, n), io.k = rows_of(x.io.k, i, n);
        io.v = rows_of(x.io.v, i, n), io.out = rows_of(x.io.out, i, n);
        must(api->step(x.plan, &io, &memory.states, LNT_CUDA_APPEND | LNT_CUDA_QUERY) == LNT_OK,
             "step");
    }
    must(cudaDeviceSynchronize(), "running");
    double worst = 0;
    for (int64_t h = 0; h < p.heads; h++)
        worst = std::max(worst, x.check(all_rows(p.length_q), 0, h, p.length_q, p.length_k));
    int64_t tokens = -1;
    must(cudaMemcpy(&tokens, memory.states.tokens, sizeof tokens, cudaMemcpyDeviceToHost),
         "copying");
    const double allowed = allowed_of<T>();
    report(name, worst, before ? allowed : allowed / 1.2, tokens == p.length_q);
}

/* Slots in any order, forked and forgotten. */
static void verify_pool()
{
    const char *name = "states in slots 3 and 1, forked, reset, forked back";
    if (!is_wanted(name)) return;
    lnt_attn_desc p = describe(LNT_TAYLOR, 2, 8, 6);
    p.batch = 2;
    problem x(p, false, 91);
    state_memory memory(x, 5);
    const int64_t index[2] = { 3, 1 };
    int64_t *on_device;
    must(cudaMalloc((void **)&on_device, sizeof index), "allocating");
    must(cudaMemcpy(on_device, index, sizeof index, cudaMemcpyHostToDevice), "copying");
    memory.states.index = on_device;
    lnt_cuda_io io = x.io;
    auto go = [&](int64_t i) {
        io.q = rows_of(x.io.q, i, 1), io.k = rows_of(x.io.k, i, 1);
        io.v = rows_of(x.io.v, i, 1), io.out = rows_of(x.io.out, i, 1);
        must(api->step(x.plan, &io, &memory.states, LNT_CUDA_APPEND | LNT_CUDA_QUERY) == LNT_OK,
             "step");
    };
    for (int64_t i = 0; i < 3; i++) go(i);
    must(api->state_fork(x.plan, &memory.states, 3, 4, NULL) == LNT_OK, "fork");
    must(api->state_reset(x.plan, &memory.states, 3, NULL) == LNT_OK, "reset");
    must(api->state_fork(x.plan, &memory.states, 4, 3, NULL) == LNT_OK, "fork");
    for (int64_t i = 3; i < 6; i++) go(i);
    must(cudaDeviceSynchronize(), "running");
    double worst = 0;
    for (int64_t b = 0; b < 2; b++)
        for (int64_t h = 0; h < 2; h++) worst = std::max(worst, x.check(all_rows(6), b, h, 6, 6));
    report(name, worst, 2.5e-3, true);
    cudaFree(on_device);
}

static void verify_taylor()
{
    for (int64_t d : { 8, 16, 32, 64, 128 })
        for (int64_t terms = 1; terms <= 4; terms++)
            for (int causal = 0; causal < 2; causal++) {
                lnt_attn_desc p = describe(LNT_TAYLOR, 2, d, d >= 64 ? 700 : 1500);
                if (terms == 2) p.scale /= 4; /* 1 + x: so that denominators stay away from 0 */
                p.terms = terms, p.causal = causal, p.algorithm = "state";
                char name[96];
                snprintf(name, sizeof name, "taylor d %d P %d %s", (int)d, (int)terms,
                         causal ? "causal" : "full");
                verify_forward(name, p, terms == 3);
            }
    lnt_attn_desc p = describe(LNT_TAYLOR, 6, 20, 1111);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.algorithm = "state";
    verify_forward("taylor 20 -> 12, 6 heads on 2, 1111 tokens", p, true);
    p.length_q = 300, p.length_k = 1811;
    verify_forward("taylor 300 queries at the end of 1811 keys", p, false);
    p.causal = 0;
    verify_forward("taylor 300 queries on 1811 keys, full", p, false);
    p.causal = 1, p.terms = 7, p.algorithm = NULL;
    verify_forward("taylor P 7", p, false);
    lnt_attn_desc one = describe(LNT_TAYLOR, 3, 16, 1);
    verify_forward("taylor 1 token", one, false);
    const double tau[4] = { 1.0, 2.5, 0.5, 4.0 };
    lnt_attn_desc t = describe(LNT_TAYLOR, 4, 32, 1000);
    t.terms = 3, t.normalize = LNT_NORMALIZE_TAYLORSHIFT, t.scale = 1, t.temperature = tau;
    t.output_norm = 1, t.algorithm = "state";
    verify_forward("taylorshift, temperatures, output norm, causal", t, false);
    t.causal = 0;
    verify_forward("taylorshift, temperatures, output norm, full", t, false);
    p = describe(LNT_TAYLOR, 2, 16, 900), p.length_k = 1200, p.algorithm = "state";
    verify_lengths(p, "taylor lengths, causal");
    p.causal = 0;
    verify_lengths(p, "taylor lengths, full");
}

/* The first half through forward, the second through another that begins with its state. */
template <class T = __nv_bfloat16>
static void verify_continued(const char *name, const lnt_attn_desc &p, int64_t half)
{
    if (!is_wanted(name)) return;
    problem_of<T> x(p, false, 66);
    state_memory memory(x, p.batch);
    must(cudaMemset(x.out.data, 0xff, x.out.count * sizeof(T)), "poisoning");
    lnt_cuda_io io = x.io;
    io.state_out = &memory.states;
    for (int64_t i = 0; i < p.length_q; i += half) {
        const int64_t n = std::min(half, p.length_q - i);
        io.q = rows_of(x.io.q, i, n), io.k = rows_of(x.io.k, i, n);
        io.v = rows_of(x.io.v, i, n), io.out = rows_of(x.io.out, i, n);
        must(api->forward(x.plan, &io) == LNT_OK, "forward");
        io.state_in = &memory.states;
    }
    must(cudaDeviceSynchronize(), "running");
    double worst = 0;
    for (int64_t h = 0; h < p.heads; h++)
        worst = std::max(worst, x.check(all_rows(p.length_q), 0, h, p.length_q, p.length_k));
    report(name, worst, allowed_of<T>(), true);
}

/* The widths of orbit.h: few tokens, odd ones, widths between, heads that share, lengths. */
static void verify_orbits()
{
    const int64_t tokens[] = { 1, 15, 16, 17, 63, 65, 129, 257, 1009, 4099 };
    for (int64_t d : { 8, 16, 32 })
        for (int64_t n : tokens) {
            lnt_attn_desc p = describe(LNT_TAYLOR, 3, d, n);
            p.terms = d == 32 ? 3 : 4, p.algorithm = "state", p.causal = n != 257;
            if (n < 257) p.scale /= 4; /* few keys: so that denominators stay away from 0 */
            char name[96];
            snprintf(name, sizeof name, "taylor d %d, %d tokens", (int)d, (int)n);
            verify_forward(name, p, n % 2);
        }
    const int64_t widths[][2] = {
        { 5, 7 }, { 8, 6 }, { 13, 16 }, { 16, 9 }, { 27, 32 }, { 24, 12 }
    };
    for (const auto &w : widths) {
        lnt_attn_desc p = describe(LNT_TAYLOR, 6, w[0], 777);
        p.dim_value = w[1], p.kv_heads = 2, p.batch = 2, p.terms = w[0] > 16 ? 3 : 4;
        p.algorithm = "state";
        char name[96];
        snprintf(name, sizeof name, "taylor %d -> %d, 6 heads on 2", (int)w[0], (int)w[1]);
        verify_forward(name, p, true);
        p.length_q = 211, p.length_k = 1301;
        verify_forward((std::string(name) + ", 211 at the end of 1301").c_str(), p, false);
        p.causal = 0;
        verify_forward((std::string(name) + ", 211 on 1301").c_str(), p, true);
    }
    for (int64_t d : { 8, 16, 32 }) {
        lnt_attn_desc p = describe(LNT_TAYLOR, 2, d, 900);
        p.length_k = 1200, p.algorithm = "state", p.terms = d == 32 ? 3 : 4;
        verify_lengths(p, "taylor lengths, causal");
        p.causal = 0;
        verify_lengths(p, "taylor lengths, full");
        p = describe(LNT_TAYLOR, 4, d, 1303), p.kv_heads = 2, p.state = 1;
        p.terms = d == 32 ? 3 : 4, p.algorithm = "state";
        verify_continued("taylor forward in two parts", p, 700);
        verify_steps("taylor 1290 tokens forward, 13 in steps", p, 1290, 1);
        p = describe(LNT_TAYLOR, 4, d, 1000);
        p.terms = 3, p.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1, p.algorithm = "state";
        verify_forward("taylorshift causal", p, false);
        p.terms = 4, p.kv_heads = 2;
        if (d < 32) verify_forward("taylorshift P 4 causal, 4 heads on 2", p, true);
        p.terms = 3, p.kv_heads = 4;
        p.causal = 0;
        verify_forward("taylorshift full", p, true);
    }
}

/* Heads enough for the machine, so that a run of tokens is a whole head: a block of threads walks
 * several turns through it. */
static void verify_runs()
{
    for (int64_t share : { 1, 3 })
        for (int64_t d : { 8, 16 }) {
            lnt_attn_desc p = describe(LNT_TAYLOR, (d == 8 ? 132 : 66) * share, d, 2600);
            p.kv_heads = p.heads / share, p.algorithm = "state";
            if (d == 16) p.length_q = p.length_k = 700;
            char name[96];
            snprintf(name, sizeof name, "taylor runs, %d heads of %d on %d", (int)p.heads, (int)d,
                     (int)p.kv_heads);
            verify_forward(name, p, share == 1, allowed_of<__nv_bfloat16>(), p.heads / 3 - 1);
        }
}

/* States of pairs.h, however few the heads: segments begun, full and beyond; widths between. */
static void verify_pairs()
{
    for (int64_t n : { 1, 63, 127, 129, 191, 193, 1023, 1025, 2100, 4099, 70001 }) {
        lnt_attn_desc p = describe(LNT_TAYLOR, 2, 32, n);
        p.algorithm = "pairs";
        verify_forward(("taylor pairs " + std::to_string(n) + " tokens").c_str(), p, n % 4 == 1);
    }
    lnt_attn_desc p = describe(LNT_TAYLOR, 6, 27, 2222);
    p.kv_heads = 2, p.dim_value = 13, p.batch = 2, p.algorithm = "pairs";
    verify_forward("taylor pairs 27 -> 13, 6 heads on 2, 2222 tokens", p, true);
    p.length_q = 300, p.length_k = 2811;
    verify_forward("taylor pairs 300 queries at the end of 2811 keys", p, false);
    p = describe(LNT_TAYLOR, 40, 32, 1303);
    verify_forward("taylor 40 heads of 32", p, true);
    const double tau[4] = { 1.0, 2.5, 0.5, 4.0 };
    p = describe(LNT_TAYLOR, 4, 32, 2000);
    p.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1, p.temperature = tau, p.output_norm = 1;
    p.algorithm = "pairs";
    verify_forward("taylor pairs normalised, temperatures, output norm", p, false);
    p = describe(LNT_TAYLOR, 2, 32, 2900), p.length_k = 3200, p.algorithm = "pairs";
    verify_lengths(p, "taylor pairs lengths");
    verify_lengths(p, "taylor pairs lengths, more queries than keys", 33);
    p = describe(LNT_TAYLOR, 4, 32, 3303), p.kv_heads = 2, p.state = 1, p.algorithm = "pairs";
    verify_continued("taylor pairs in two parts", p, 1700);
    verify_continued("taylor pairs in many parts", p, 300);
    verify_steps("taylor pairs 3290 tokens forward, 13 in steps", p, 3290, 1);
    p = describe(LNT_TAYLOR, 2, 30, 1500), p.dim_value = 7, p.state = 1, p.algorithm = "pairs";
    verify_continued("taylor pairs 30 -> 7 in two parts", p, 1025);
}

/* One pass and more of them over k and v: widths, odd numbers of tokens, heads that share. */
static void verify_linear_as(const char *algorithm)
{
    auto name_of = [&](const char *what) {
        return std::string("linear ") + algorithm + " " + what;
    };
    auto forward = [&](lnt_attn_desc p, const std::string &what, bool bnhd) {
        p.algorithm = algorithm;
        verify_forward(name_of(what.c_str()).c_str(), p, bnhd);
    };
    for (int64_t n : { 1, 15, 63, 64, 65, 255, 257, 1500, 50021 })
        forward(describe(LNT_LINEAR, 3, 64, n), std::to_string(n) + " tokens", n % 2);
    for (int64_t heads : { 1, 24, 150 })
        forward(describe(LNT_LINEAR, heads, 32, heads == 24 ? 8003 : 600),
                std::to_string(heads) + " heads", true);
    lnt_attn_desc p = describe(LNT_LINEAR, 6, 24, 1111);
    p.kv_heads = 2, p.dim_value = 40, p.batch = 2;
    forward(p, "24 -> 40, 6 heads on 2", true);
    p.dim = 56, p.dim_value = 8, p.length_q = 300, p.length_k = 1811;
    forward(p, "56 -> 8, 300 queries at the end of 1811 keys", false);
    for (int map = LNT_MAP_RELU; map <= LNT_MAP_EXP; map++) {
        p = describe(LNT_LINEAR, 2, 48, 700), p.feature_map = (lnt_feature_map)map;
        forward(p, map == LNT_MAP_RELU ? "relu" : "exp", false);
    }
    p = describe(LNT_LINEAR, 2, 64, 900), p.length_k = 1200, p.algorithm = algorithm;
    verify_lengths(p, name_of("lengths").c_str());
    verify_lengths(p, name_of("lengths, more queries than keys").c_str(), 33);
    p = describe(LNT_LINEAR, 4, 64, 1303), p.kv_heads = 2, p.state = 1, p.algorithm = algorithm;
    verify_continued(name_of("in two parts").c_str(), p, 700);
    verify_steps(name_of("1290 tokens forward, 13 in steps").c_str(), p, 1290, 1);
}

static void verify_linear()
{
    auto forward = [](const char *name, const lnt_attn_desc &p, bool bnhd) {
        verify_forward(name, p, bnhd);
    };
    each_width("linear", LNT_LINEAR, 1500, forward);
    lnt_attn_desc p = describe(LNT_LINEAR, 6, 20, 1111);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2;
    verify_forward("linear 20 -> 12, 6 heads on 2, 1111 tokens", p, true);
    p.length_q = 300, p.length_k = 1811;
    verify_forward("linear 300 queries at the end of 1811 keys", p, false);
    const double decay[2] = { 0.9, 0.999 };
    p.decay = decay;
    verify_forward("linear with decay", p, false, 4e-3);
    p = describe(LNT_LINEAR, 2, 16, 900), p.length_k = 1200;
    verify_lengths(p, "linear lengths, causal");
    for (int map = LNT_MAP_RELU; map <= LNT_MAP_EXP; map++) {
        p = describe(LNT_LINEAR, 2, 64, 500), p.feature_map = (lnt_feature_map)map;
        verify_forward(map == LNT_MAP_RELU ? "linear relu" : "linear exp", p, false);
    }
}

static void verify_softmax()
{
    auto forward = [](const char *name, const lnt_attn_desc &p, bool bnhd) {
        verify_forward(name, p, bnhd);
    };
    each_width("softmax", LNT_SOFTMAX, 777, forward);
    lnt_attn_desc p = describe(LNT_SOFTMAX, 6, 20, 111);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.length_k = 333, p.scale = 3;
    verify_forward("softmax 20 -> 12, 6 heads on 2, scale 3", p, true);
    verify_lengths(p, "softmax lengths, causal");
}

/* split.h: widths, few tokens and many, heads that share, lengths, states; and of bf16 what it does
 * of that type. */
static void verify_split_taylor()
{
    char name[96];
    for (int64_t d : { 8, 16, 32, 64, 128 })
        for (int64_t terms = 1; terms <= 4; terms++) {
            lnt_attn_desc p = describe(LNT_TAYLOR, 2, d, d >= 64 ? 300 : 700);
            if (terms == 2) p.scale /= 4; /* 1 + x: so that denominators stay away from 0 */
            p.terms = terms, p.causal = terms % 2 == (d > 16), p.algorithm = "state";
            snprintf(name, sizeof name, "f32 taylor d %d P %d %s", (int)d, (int)terms,
                     p.causal ? "causal" : "full");
            verify_forward<float>(name, p, terms == 3);
            p.algorithm = "direct", p.causal = !p.causal;
            verify_forward<float>(name, p, terms == 2);
        }
    for (int64_t n : { 1, 31, 32, 33, 127, 129, 257, 4099 }) {
        lnt_attn_desc p = describe(LNT_TAYLOR, 3, 8, n);
        p.scale /= 4, p.algorithm = "state", p.causal = n != 257;
        snprintf(name, sizeof name, "f32 taylor, %d tokens", (int)n);
        verify_forward<float>(name, p, n % 2);
    }
    lnt_attn_desc p = describe(LNT_TAYLOR, 6, 20, 777);
    p.kv_heads = 2, p.dim_value = 13, p.batch = 2, p.length_k = 1301, p.algorithm = "state";
    p.scale /= 2;
    verify_forward<float>("f32 taylor 20 -> 13, 6 heads on 2, 777 at the end of 1301", p, true);
    verify_forward<__half>("f16 taylor 20 -> 13, 6 heads on 2", p, false);
    verify_lengths<float>(p, "f32 taylor lengths, causal");
    p.causal = 0;
    verify_lengths<float>(p, "f32 taylor lengths, full");
    const double tau[4] = { 1.0, 2.5, 0.5, 4.0 };
    p = describe(LNT_TAYLOR, 4, 32, 1000);
    p.terms = 3, p.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1, p.temperature = tau;
    p.output_norm = 1, p.algorithm = "state";
    verify_forward<float>("f32 taylorshift, temperatures, output norm, causal", p, false);
    p.causal = 0;
    verify_forward<float>("f32 taylorshift, temperatures, output norm, full", p, true);
    p = describe(LNT_TAYLOR, 4, 16, 1303), p.kv_heads = 2, p.state = 1, p.scale /= 2;
    verify_continued<float>("f32 taylor forward in two parts", p, 700);
    verify_steps<float>("f32 taylor 1290 tokens forward, 13 in steps", p, 1290, 1);
}

template <class T> static void verify_split_terms(const char *type)
{
    for (int64_t d : { 4, 8, 13, 16 })
        for (int64_t terms = 5; terms <= 8; terms++) {
            lnt_attn_desc p = describe(LNT_TAYLOR, 4, d, d > 8 ? 300 : 900);
            p.kv_heads = 2, p.terms = terms, p.causal = d != 13, p.algorithm = "state";
            char name[96];
            snprintf(name, sizeof name, "%s taylor d %d P %d", type, (int)d, (int)terms);
            verify_forward<T>(name, p, terms % 2);
            p.state = 1, p.causal = 1;
            if (d == 8) verify_continued<T>((std::string(name) + ", two parts").c_str(), p, 500);
            if (d == 8) verify_steps<T>((std::string(name) + ", then steps").c_str(), p, 890, 1);
        }
}

template <class T> static void verify_split_others(const char *type)
{
    auto named = [&](const char *name) { return std::string(type) + " " + name; };
    auto forward = [](const char *name, const lnt_attn_desc &p, bool bnhd) {
        verify_forward<T>(name, p, bnhd);
    };
    each_width(named("linear").c_str(), LNT_LINEAR, 777, forward);
    each_width(named("softmax").c_str(), LNT_SOFTMAX, 777, forward);
    lnt_attn_desc p = describe(LNT_LINEAR, 6, 20, 300);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.length_k = 1811;
    verify_forward<T>(named("linear 20 -> 12, 300 at the end of 1811").c_str(), p, true);
    verify_lengths<T>(p, named("linear lengths").c_str());
    const double decay[2] = { 0.9, 0.999 };
    p.decay = decay;
    verify_forward<T>(named("linear with decay").c_str(), p, false);
    p.length_q = p.length_k = 1303, p.state = 1;
    verify_continued<T>(named("linear with decay, two parts").c_str(), p, 700);
    verify_steps<T>(named("linear with decay, then steps").c_str(), p, 1290, 1);
    for (int map = LNT_MAP_RELU; map <= LNT_MAP_EXP; map++) {
        p = describe(LNT_LINEAR, 2, 64, 500), p.feature_map = (lnt_feature_map)map;
        verify_forward<T>(named(map == LNT_MAP_RELU ? "linear relu" : "linear exp").c_str(), p, 0);
    }
    p = describe(LNT_SOFTMAX, 6, 20, 111);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.length_k = 333, p.scale = 3;
    verify_forward<T>(named("softmax 20 -> 12, 6 heads on 2, scale 3").c_str(), p, true);
    verify_lengths<T>(p, named("softmax lengths").c_str());
}

static void verify_split()
{
    verify_split_taylor();
    verify_split_terms<float>("f32");
    verify_split_terms<__nv_bfloat16>("bf16");
    verify_split_others<float>("f32");
    verify_split_others<__half>("f16");
}

static void verify_all_steps()
{
    lnt_attn_desc p = describe(LNT_TAYLOR, 4, 8, 24);
    p.terms = 8;
    verify_steps("step taylor d 8 P 8, one at a time", p, 0, 1);
    p.terms = 4, p.dim = 64, p.dim_value = 64, p.scale = 0.125, p.length_q = p.length_k = 9;
    verify_steps("step taylor d 64 P 4, 7 at a time", p, 0, 7);
    p = describe(LNT_TAYLOR, 6, 20, 40);
    p.kv_heads = 2, p.dim_value = 13;
    verify_steps("step taylor 20 -> 13, 6 heads on 2", p, 0, 1);
    p = describe(LNT_TAYLOR, 10, 16, 700);
    p.kv_heads = 1, p.algorithm = "state", p.state = 1;
    verify_steps("taylor 680 tokens forward, 20 in steps, 10 heads on 1", p, 680, 1);
    p = describe(LNT_LINEAR, 4, 64, 700);
    verify_steps("linear 650 tokens forward, 50 in steps of 4", p, 650, 4);
    const double decay[2] = { 0.9, 0.999 };
    p = describe(LNT_LINEAR, 4, 24, 60), p.kv_heads = 2, p.decay = decay;
    verify_steps("step linear with decay, 4 heads on 2", p, 0, 1);
    verify_pool();
}

static void verify_backward(const std::function<bool(const char *)> &wanted);
static void verify_cur();
static void verify_streams();

/* All families, or those named. */
static void verify_all(const std::vector<std::string> &names)
{
    auto wanted = [&](const char *family) {
        return names.empty() || std::find(names.begin(), names.end(), family) != names.end();
    };
    if (wanted("step")) verify_all_steps();
    if (wanted("taylor")) verify_taylor();
    if (wanted("orbits")) verify_orbits(), verify_runs();
    if (wanted("pairs")) verify_pairs();
    if (wanted("linear")) verify_linear();
    if (wanted("passes")) verify_linear_as("passes"), verify_linear_as("pass");
    if (wanted("softmax")) verify_softmax();
    if (wanted("split")) verify_split();
    if (wanted("cur")) verify_cur();
    if (wanted("streams")) verify_streams();
    verify_backward(wanted);
}
