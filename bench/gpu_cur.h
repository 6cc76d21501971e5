/* bench/gpu_cur.h - CUR attention in double precision, whole matrices as docs/math/cur.md has them,
 * and problems of odd shapes held against it. */

struct matrix {
    size_t rows, columns;
    std::vector<double> x;
    matrix(size_t r, size_t c) : rows(r), columns(c), x(r * c) {}
    double &operator()(size_t i, size_t j) { return x[i * columns + j]; }
    double operator()(size_t i, size_t j) const { return x[i * columns + j]; }
};

static matrix product(const matrix &a, const matrix &b)
{
    matrix c(a.rows, b.columns);
    for (size_t i = 0; i < a.rows; i++)
        for (size_t k = 0; k < a.columns; k++)
            for (size_t j = 0; j < b.columns; j++) c(i, j) += a(i, k) * b(k, j);
    return c;
}

static matrix turned(const matrix &a)
{
    matrix b(a.columns, a.rows);
    for (size_t i = 0; i < a.rows; i++)
        for (size_t j = 0; j < a.columns; j++) b(j, i) = a(i, j);
    return b;
}

/* c - x */
static matrix from_diagonal(double c, matrix x)
{
    for (size_t i = 0; i < x.rows; i++)
        for (size_t j = 0; j < x.columns; j++) x(i, j) = (i == j ? c : 0) - x(i, j);
    return x;
}

static matrix softmax_of(const matrix &q, const matrix &k, double scale)
{
    matrix a = product(q, turned(k));
    for (size_t i = 0; i < a.rows; i++) {
        double top = -INFINITY, sum = 0;
        for (size_t j = 0; j < a.columns; j++) top = std::max(top, scale * a(i, j));
        for (size_t j = 0; j < a.columns; j++) sum += a(i, j) = exp(scale * a(i, j) - top);
        for (size_t j = 0; j < a.columns; j++) a(i, j) /= sum;
    }
    return a;
}

/* (U^T U + r)^-1 by elimination. */
static matrix ridge_inverse(const lnt_attn_desc &p, const matrix &u)
{
    matrix g = product(turned(u), u);
    const size_t n = g.rows;
    double square = 0;
    for (double e : u.x) square += e * e;
    matrix y(n, n);
    for (size_t i = 0; i < n; i++) g(i, i) += p.ridge * square, y(i, i) = 1;
    for (size_t i = 0; i < n; i++) {
        const double pivot = g(i, i);
        for (size_t j = 0; j < n; j++) g(i, j) /= pivot, y(i, j) /= pivot;
        for (size_t r = 0; r < n; r++) {
            const double times = r == i ? 0 : g(r, i);
            for (size_t j = 0; j < n && times != 0; j++)
                g(r, j) -= times * g(i, j), y(r, j) -= times * y(i, j);
        }
    }
    return y;
}

static matrix pseudo_inverse(const lnt_attn_desc &p, const matrix &u)
{
    if (p.pinv == LNT_PINV_RIDGE) return product(ridge_inverse(p, u), turned(u));
    double most = 0;
    for (size_t j = 0; j < u.columns; j++) {
        double sum = 0;
        for (size_t i = 0; i < u.rows; i++) sum += u(i, j);
        most = std::max(most, sum);
    }
    matrix z = turned(u);
    for (double &e : z.x) e /= most; /* the rows of softmax sum to 1 */
    for (int64_t k = 0; k < p.pinv_iterations; k++) {
        const matrix a = product(u, z);
        z = product(
            z, from_diagonal(13, product(a, from_diagonal(15, product(a, from_diagonal(7, a))))));
        for (double &e : z.x) e /= 4;
    }
    return z;
}

static matrix landmarks_of(const matrix &x, size_t M, bool mean)
{
    matrix y(M, x.columns);
    for (size_t l = 0; l < M; l++) {
        const size_t first = l * x.rows / M, end = mean ? (l + 1) * x.rows / M : first + 1;
        for (size_t i = first; i < end; i++)
            for (size_t e = 0; e < x.columns; e++) y(l, e) += x(i, e) / (double)(end - first);
    }
    return y;
}

static matrix cur_reference(const lnt_attn_desc &p, const matrix &q, const matrix &k,
                            const matrix &v)
{
    const size_t M = (size_t)p.landmarks;
    if (q.rows <= M || k.rows <= M) return product(softmax_of(q, k, p.scale), v);
    const matrix queries = landmarks_of(q, M, p.select == LNT_SELECT_MEAN),
                 keys = landmarks_of(k, M, p.select != LNT_SELECT_STEP);
    const matrix rows = product(softmax_of(queries, k, p.scale), v);
    const matrix inverse = pseudo_inverse(p, softmax_of(queries, keys, p.scale));
    matrix y = product(softmax_of(q, keys, p.scale), product(inverse, rows));
    for (size_t l = 0; l < M && !p.no_row_copy && p.select != LNT_SELECT_MEAN; l++)
        for (size_t c = 0; c < v.columns; c++) y(l * q.rows / M, c) = rows(l, c);
    return y;
}

/* Rows 0 ... n - 1 of a head. */
template <class T> static matrix matrix_of(const std::vector<T> &head, int64_t n, int64_t d)
{
    matrix x((size_t)n, (size_t)d);
    for (size_t i = 0; i < x.x.size(); i++) x.x[i] = (double)(float)head[i];
    return x;
}

template <class T>
static double cur_error(const problem_of<T> &x, int64_t b, int64_t h, int64_t nq, int64_t nk)
{
    const lnt_attn_desc &p = x.p;
    const int64_t kv = h * p.kv_heads / p.heads;
    const matrix y = cur_reference(
        p, matrix_of(x.head(x.q, p.heads, p.length_q, p.dim, b, h), nq, p.dim),
        matrix_of(x.head(x.k, p.kv_heads, p.length_k, p.dim, b, kv), nk, p.dim),
        matrix_of(x.head(x.v, p.kv_heads, p.length_k, p.dim_value, b, kv), nk, p.dim_value));
    const matrix got =
        matrix_of(x.head(x.out, p.heads, p.length_q, p.dim_value, b, h), nq, p.dim_value);
    double e = 0, n = 0;
    for (size_t i = 0; i < y.x.size(); i++)
        e += (got.x[i] - y.x[i]) * (got.x[i] - y.x[i]), n += y.x[i] * y.x[i];
    return n > 0 ? sqrt(e / n) : e;
}

static lnt_attn_desc describe_cur(int64_t heads, int64_t dim, int64_t n, int64_t landmarks)
{
    lnt_attn_desc p = describe(LNT_CUR, heads, dim, n);
    p.causal = 0, p.landmarks = landmarks, p.select = LNT_SELECT_STEP_MEAN, p.ridge = 1e-3;
    p.pinv_iterations = 6;
    return p;
}

template <class T> static void verify_one_cur(const char *name, const lnt_attn_desc &p, bool bnhd)
{
    if (!is_wanted(name)) return;
    problem_of<T> x(p, bnhd, 31);
    const bool clean = x.run_twice();
    double worst = 0;
    for (int64_t b = 0; b < p.batch; b++)
        for (int64_t h = 0; h < p.heads; h++)
            worst = std::max(worst, cur_error(x, b, h, p.length_q, p.length_k));
    report(name, worst, allowed_of<T>(), clean);
}

static void verify_cur_lengths()
{
    const char *name = "f32 cur lengths";
    if (!is_wanted(name)) return;
    lnt_attn_desc p = describe_cur(2, 16, 200, 24);
    p.batch = 4, p.length_k = 300;
    problem_of<float> x(p, false, 32);
    const int64_t lengths[2][4] = { { 200, 25, 24, 0 }, { 300, 290, 300, 20 } };
    int64_t *on_device;
    must(cudaMalloc((void **)&on_device, sizeof lengths), "allocating");
    must(cudaMemcpy(on_device, lengths, sizeof lengths, cudaMemcpyHostToDevice), "copying");
    x.io.lengths_q = on_device, x.io.lengths_k = on_device + 4;
    bool clean = x.run_twice();
    double worst = 0;
    for (int64_t b = 0; b < 4; b++) {
        worst = std::max(worst, cur_error(x, b, 1, lengths[0][b], lengths[1][b]));
        const auto y = x.head(x.out, 2, 200, 16, b, 1);
        for (int64_t i = lengths[0][b] * 16; i < 200 * 16; i++) clean = clean && y[(size_t)i] == 0;
    }
    report(name, worst, allowed_of<float>(), clean);
    cudaFree(on_device);
}

static void verify_cur()
{
    for (int64_t d : { 8, 16, 32, 64, 128 })
        for (lnt_select select : { LNT_SELECT_STEP, LNT_SELECT_MEAN, LNT_SELECT_STEP_MEAN }) {
            lnt_attn_desc p = describe_cur(2, d, 500, d == 32 ? 130 : 40);
            p.select = select,
            p.pinv = select == LNT_SELECT_STEP ? LNT_PINV_RIDGE : LNT_PINV_ITERATE;
            char name[64];
            snprintf(name, sizeof name, "f32 cur d %d, %s", (int)d,
                     select == LNT_SELECT_STEP   ? "step, ridge"
                     : select == LNT_SELECT_MEAN ? "mean"
                                                 : "step-mean");
            verify_one_cur<float>(name, p, d == 16);
        }
    lnt_attn_desc p = describe_cur(6, 20, 333, 33);
    p.kv_heads = 2, p.dim_value = 13, p.batch = 2, p.length_k = 1000;
    verify_one_cur<float>("f32 cur 20 -> 13, 6 heads on 2, 333 on 1000", p, true);
    verify_one_cur<__half>("f16 cur 20 -> 13, 6 heads on 2, 333 on 1000", p, false);
    verify_one_cur<__nv_bfloat16>("bf16 cur 20 -> 13, 6 heads on 2, 333 on 1000", p, true);
    p.length_q = 30;
    verify_one_cur<float>("f32 cur, fewer queries than landmarks", p, true);
    verify_cur_lengths();
}

/* The last 64 of 65,536 tokens cannot be held against whole matrices: a shorter problem is. */
template <class T> static void work_cur(const char *name, bool once)
{
    verify_one_cur<T>(name, describe_cur(2, 64, 2048, 64), false);
    lnt_attn_desc p = describe_cur(16, 64, 65536, 64);
    problem_of<T> x(p, false, 5);
    auto run = [&] { must(api->forward(x.plan, &x.io) == LNT_OK, "forward"); };
    run();
    must(cudaDeviceSynchronize(), "running");
    if (once) return;
    const double s = median_seconds(run, 11), n = 65536, M = 64, H = 16;
    const double flops = H * (2 * n * M * 2 * 128 + M * M * 256 + 24 * M * M * M);
    line(name, s, s * 1e9 / n, "ns/token", 0, flops, n * H * 256 * sizeof(T), 0, true,
         allowed_of<T>(), SPLIT_PRODUCTS);
}
