/* attention/pinv.c - the pseudo-inverse of the M x M matrix U of CUR attention.
 *
 *     iterate   Z <- Z (13 - A (15 - A (7 - A))) / 4,  A = U Z,  from Z = U^T / c
 *     ridge     Z = (U^T U + r)^-1 U^T,  r = ridge |U|_F^2, by Cholesky
 *
 * c is |U|_1 |U|_inf (norms) or |U|_1 (paper1).  An eigenvalue x of A becomes
 * 1 - (1-x)^3 (1 - x/4): from 0 to about 3 it goes to 1, from above 4 it runs away.  So it diverged
 * if an A that is iterated on has |A|_F above 4 sqrt(M), or the last one a trace beyond 4 M.
 * 8 M^3 operations an iteration as it is written, half of that as it is done, and three times that
 * with the way back; ridge 3 M^3.  See docs/math/cur.md */
#include "attention/pinv.h"

#include <math.h>
#include <string.h>

enum { FORWARD_TEMPORARIES = 5, BLOCK = 8 };

lnt_pinv_work lnt_pinv_take(lnt_arena *arena, const lnt_attn_desc *p, int isa)
{
    const size_t M = (size_t)p->landmarks, ld = lnt_pinv_ld(p);
    lnt_pinv_work w = { .ker = lnt_kernels_get_f64(isa),
                        .M = M,
                        .ld = ld,
                        .kind = p->pinv,
                        .init = p->pinv_init,
                        .iterations = p->pinv_iterations,
                        .ridge = p->ridge };
    w.temporaries = p->backward ? LNT_PINV_TEMPORARIES : FORWARD_TEMPORARIES;
    for (int i = 0; i < w.temporaries; i++) w.t[i] = lnt_arena_take(arena, M * ld, sizeof *w.t[i]);
    return w;
}

/* ---- matrices -------------------------------------------------------------------------------- */

static size_t width(const lnt_pinv_work *w) { return lnt_round_up(w->M, w->ker->lanes); }

static void clear(const lnt_pinv_work *w, double *x) { memset(x, 0, w->M * w->ld * sizeof *x); }

static void copy(const lnt_pinv_work *w, double *to, const double *from)
{
    memcpy(to, from, w->M * w->ld * sizeof *to);
}

/* c = a b, or added to it */
static void multiply(const lnt_pinv_work *w, double *c, const double *a, const double *b, int add)
{
    w->ker->gemm_nn(c, w->ld, a, w->ld, b, w->ld, w->M, width(w), w->M, add);
}

/* c = a^T b */
static void multiply_tn(const lnt_pinv_work *w, double *c, const double *a, const double *b)
{
    w->ker->gemm_tn(c, w->ld, a, w->ld, b, w->ld, w->M, width(w), w->M, 0);
}

static void transpose(const lnt_pinv_work *w, double *to, const double *from)
{
    w->ker->load_columns(to, w->ld, from, LNT_F64, (int64_t)w->ld, 1, w->M, w->M, 1);
}

/* What is right of the diagonal becomes what is below it, to the last bit: a matrix is read as its
 * transpose, and how they differ would grow. */
static void mirror(const lnt_pinv_work *w, double *c)
{
    const size_t M = w->M, ld = w->ld;
    for (size_t i0 = 0; i0 < M; i0 += BLOCK) {
        const size_t rows = M - i0 < BLOCK ? M - i0 : BLOCK;
        w->ker->store_columns(c + i0, LNT_F64, (int64_t)ld, 1, c + i0 * ld, ld, i0, rows);
        for (size_t i = i0; i < i0 + rows; i++)
            for (size_t j = i0; j < i; j++) c[j * ld + i] = c[i * ld + j];
    }
}

/* The lower triangle of a^T b, or of what it adds to c, with whole blocks on the diagonal. */
static void multiply_lower(const lnt_pinv_work *w, double *c, const double *a, const double *b,
                           int add)
{
    const size_t M = w->M, ld = w->ld;
    for (size_t i = 0; i < M; i += BLOCK) {
        const size_t rows = M - i < BLOCK ? M - i : BLOCK;
        w->ker->gemm_tn(c + i * ld, ld, a + i, ld, b, ld, rows,
                        lnt_round_up(i + rows, w->ker->lanes), M, add);
    }
}

/* c = a^T b where that is symmetric */
static void multiply_symmetric(const lnt_pinv_work *w, double *c, const double *a, const double *b)
{
    multiply_lower(w, c, a, b, 0);
    mirror(w, c);
}

/* c = da b + a db where that is symmetric, as da and a are: how a product of a and b changes */
static void multiply_change(const lnt_pinv_work *w, double *c, const double *a, const double *da,
                            const double *b, const double *db)
{
    multiply_lower(w, c, da, b, 0);
    multiply_lower(w, c, a, db, 1);
    mirror(w, c);
}

/* c = a b^T; t is overwritten */
static void multiply_nt(const lnt_pinv_work *w, double *c, const double *a, const double *b,
                        double *t)
{
    transpose(w, t, b);
    multiply(w, c, a, t, 0);
}

static void scale(const lnt_pinv_work *w, double *x, double factor)
{
    w->ker->scale(x, factor, w->M * w->ld);
}

static void add_times(const lnt_pinv_work *w, double *y, double factor, const double *x)
{
    w->ker->axpy(y, factor, x, w->M * w->ld);
}

/* The largest sum of magnitudes of a column (one) and of a row (inf), and which they are. */
typedef struct norms {
    double one, inf;
    size_t column, row;
} norms;

/* Overwrites t[0]. */
static norms norms_of(const lnt_pinv_work *w, const double *u)
{
    norms n = { -1, -1, 0, 0 };
    double *columns = w->t[0];
    for (size_t j = 0; j < w->M; j++) columns[j] = 0;
    for (size_t i = 0; i < w->M; i++) {
        double row = 0;
        for (size_t j = 0; j < w->M; j++) columns[j] += fabs(u[i * w->ld + j]);
        for (size_t j = 0; j < w->M; j++) row += fabs(u[i * w->ld + j]);
        if (row > n.inf) n.inf = row, n.row = i;
    }
    for (size_t j = 0; j < w->M; j++)
        if (columns[j] > n.one) n.one = columns[j], n.column = j;
    return n;
}

/* Adds what the gradients of both norms give to du. */
static void add_norms_back(const lnt_pinv_work *w, const double *u, const norms *n, double done,
                           double dinf, double *du)
{
    for (size_t k = 0; k < w->M; k++) {
        const size_t in_column = k * w->ld + n->column, in_row = n->row * w->ld + k;
        du[in_column] += u[in_column] < 0 ? -done : done;
        du[in_row] += u[in_row] < 0 ? -dinf : dinf;
    }
}

static double trace_of_product(const lnt_pinv_work *w, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < w->M; i++)
        for (size_t j = 0; j < w->M; j++) sum += a[i * w->ld + j] * b[j * w->ld + i];
    return sum;
}

/* ---- iterations ------------------------------------------------------------------------------ */

static double start_divisor(const norms *n, bool safe)
{
    const double c = safe ? n->one * n->inf : n->one;
    return c > 0 ? c : 1; /* U = 0: so is Z */
}

static bool is_bounded(const lnt_pinv_work *w, const double *a)
{
    const double square = w->ker->dot(a, a, w->M * w->ld);
    return square <= 16 * (double)w->M; /* false for NaN */
}

/* e = (-15 a + 7 s - t) / 4, which may be t */
static void weigh_powers(const lnt_pinv_work *w, double *e, const double *a, const double *s,
                         const double *t)
{
    const double factors[] = { -15. / 4, 7. / 4, -1. / 4 };
    const double *const powers[] = { a, s, t };
    w->ker->combine(e, factors, powers, 3, w->M * w->ld);
}

/* e = (13 - 15 a + 7 s - t) / 4 */
static void polynomial(const lnt_pinv_work *w, double *e, const double *a, const double *s,
                       const double *t)
{
    weigh_powers(w, e, a, s, t);
    for (size_t i = 0; i < w->M; i++) e[i * w->ld + i] += 13. / 4;
}

static void swap(double **a, double **b)
{
    double *kept = *a;
    *a = *b;
    *b = kept;
}

/* How e changes with a, of which s is the square; overwrites ds with how that changes. */
static void polynomial_change(const lnt_pinv_work *w, double *de, const double *a, const double *da,
                              const double *s, double *ds)
{
    multiply_change(w, ds, a, da, a, da);
    multiply_change(w, de, s, ds, a, da);
    weigh_powers(w, de, da, ds, de);
}

/* da = (u dz + (u dz)^T) / 2c, what dz asks of P; overwrites x and t. */
static void start_change(const lnt_pinv_work *w, double *da, const double *u, const double *dz,
                         double c, double *x, double *t)
{
    multiply(w, x, u, dz, 0);
    transpose(w, t, x);
    w->ker->combine(da, (const double[]){ 0.5 / c, 0.5 / c }, (const double *const[]){ x, t }, 2,
                    w->M * w->ld);
}

/* x <- x e, and how that changes if de is not NULL; t is a spare. */
static void advance(const lnt_pinv_work *w, double **x, double **dx, const double *e,
                    const double *de, double **t)
{
    if (de) {
        multiply_change(w, *t, *x, *dx, e, de);
        swap(dx, t);
    }
    multiply_symmetric(w, *t, *x, e);
    swap(x, t);
}

/* What iterations end with. */
typedef struct iterated {
    norms n;
    bool safe; /* c is the product of both norms */
    double c;
    double *p, *dp; /* Z = U^T P / c; the gradient of the first A, if asked for */
    double *spare[2];
    double rank;
    bool diverged;
} iterated;

/* Every matrix here but U and Z is a polynomial of the first A = U U^T / c: symmetric, and in a
 * product the order does not matter.  With E = (13 - 15 A + 7 A^2 - A^3) / 4 of each iteration,
 * A <- A E and P <- P E; at the end Z = U^T P / c.
 *
 * The way back runs in the same direction.  The derivative of P by A is its own adjoint, as that of
 * every function of a symmetric matrix: the gradient of A is how P changes if A changes by the
 * gradient of P.  dz, if not NULL, asks for that. */
static iterated iterate(const lnt_pinv_work *w, const double *u, const double *dz, bool safe)
{
    const norms n = norms_of(w, u);
    const double c = start_divisor(&n, safe);
    double *a = w->t[0], *p = w->t[1], *e = w->t[2], *s = w->t[3], *t = w->t[4];
    double *da = w->t[5], *dp = w->t[6], *de = dz ? w->t[7] : NULL;
    for (int i = 0; i < w->temporaries && w->M < w->ld; i++) clear(w, w->t[i]);
    if (dz) start_change(w, da, u, dz, c, s, t);
    transpose(w, t, u);
    multiply_symmetric(w, a, t, t);
    scale(w, a, 1 / c);
    bool bounded = true;
    for (int64_t k = 0; k < w->iterations && bounded; k++) {
        if (k > 0) advance(w, &a, &da, e, de, &t);
        bounded = is_bounded(w, a);
        multiply_symmetric(w, s, a, a);
        multiply_symmetric(w, t, s, a);
        polynomial(w, e, a, s, t);
        if (dz) polynomial_change(w, de, a, da, s, t);
        if (k > 0) advance(w, &p, &dp, e, de, &s);
        else copy(w, p, e);
        if (dz && k == 0) copy(w, dp, de);
    }
    const double rank = w->ker->dot(a, e, w->M * w->ld); /* the trace of what would be the next a */
    return (iterated){ .n = n, .safe = safe, .c = c, .p = p, .dp = dp, .spare = { s, t },
                       .rank = rank, .diverged = !(bounded && fabs(rank) <= 4 * (double)w->M) };
}

/* The same, from the safe start if it diverges from the one asked for; and z. */
static iterated iterate_safely(const lnt_pinv_work *w, const double *u, const double *dz, double *z)
{
    iterated r = iterate(w, u, dz, w->init == LNT_PINV_NORMS);
    if (r.diverged && !r.safe) {
        r = iterate(w, u, dz, true);
        r.diverged = true;
    }
    clear(w, z);
    multiply_tn(w, z, u, r.p);
    scale(w, z, 1 / r.c);
    return r;
}

static lnt_pinv_report iterate_forward(const lnt_pinv_work *w, const double *u, double *z)
{
    const iterated r = iterate_safely(w, u, NULL, z);
    return (lnt_pinv_report){ .rank = r.rank, .diverged = r.diverged };
}

/* du = P dz^T / c + 2 dA U / c, and what c gives to the norms it is made of. */
static lnt_pinv_report iterate_backward(const lnt_pinv_work *w, const double *u, double *z,
                                        const double *dz, double *du)
{
    const iterated r = iterate_safely(w, u, dz, z);
    const size_t size = w->M * w->ld;
    double *through_a = r.spare[0];
    multiply_nt(w, du, r.p, dz, r.spare[1]);
    multiply(w, through_a, r.dp, u, 0);
    const double dc = -(w->ker->dot(du, u, size) + w->ker->dot(through_a, u, size)) / (r.c * r.c);
    add_times(w, du, 2, through_a);
    scale(w, du, 1 / r.c);
    add_norms_back(w, u, &r.n, r.safe ? dc * r.n.inf : dc, r.safe ? dc * r.n.one : 0, du);
    return (lnt_pinv_report){ .rank = r.rank, .diverged = r.diverged };
}

/* ---- ridge ----------------------------------------------------------------------------------- */

/* The lower triangle of g becomes its Cholesky factor. */
static void factorise(const lnt_pinv_work *w, double *g)
{
    for (size_t i = 0; i < w->M; i++)
        for (size_t j = 0; j <= i; j++) {
            const double *row = g + i * w->ld, *other = g + j * w->ld;
            const double rest = row[j] - w->ker->dot(row, other, j);
            g[i * w->ld + j] = i == j ? sqrt(rest) : rest / other[j];
        }
}

/* x [M, ld] becomes g^-1 x, for lower = -L and upper = -L^T of the factor L of g: row after row by L,
 * then, from the last one on, by L^T.  What blocks of rows that are done give is a product. */
static void solve(const lnt_pinv_work *w, const double *lower, const double *upper, double *x)
{
    const size_t M = w->M, ld = w->ld;
    for (size_t i0 = 0, end; i0 < M; i0 = end) {
        end = M - i0 < BLOCK ? M : i0 + BLOCK;
        w->ker->gemm_nn(x + i0 * ld, ld, lower + i0 * ld, ld, x, ld, end - i0, width(w), i0, 1);
        for (size_t i = i0; i < end; i++) {
            w->ker->add_rows(x + i * ld, lower + i * ld + i0, x + i0 * ld, ld, i - i0, M);
            w->ker->scale(x + i * ld, -1 / lower[i * ld + i], M);
        }
    }
    for (size_t end = M, i0; end > 0; end = i0) {
        i0 = (end - 1) / BLOCK * BLOCK;
        w->ker->gemm_nn(x + i0 * ld, ld, upper + i0 * ld + end, ld, x + end * ld, ld, end - i0,
                        width(w), M - end, 1);
        for (size_t i = end; i-- > i0;) {
            w->ker->add_rows(x + i * ld, upper + i * ld + i + 1, x + (i + 1) * ld, ld, end - i - 1,
                             M);
            w->ker->scale(x + i * ld, -1 / lower[i * ld + i], M);
        }
    }
}

static lnt_pinv_report ridge_forward(const lnt_pinv_work *w, const double *u, double *z)
{
    double *g = w->t[0], *upper = w->t[1]; /* both stay there for the way back */
    const double square = w->ker->dot(u, u, w->M * w->ld);
    const double ridge = square > 0 ? w->ridge * square : 1;
    clear(w, g);
    multiply_tn(w, g, u, u);
    for (size_t i = 0; i < w->M; i++) g[i * w->ld + i] += ridge;
    factorise(w, g);
    scale(w, g, -1);
    transpose(w, upper, g);
    transpose(w, z, u);
    solve(w, g, upper, z);
    const double rank = trace_of_product(w, u, z);
    return (lnt_pinv_report){ .rank = rank, .diverged = !isfinite(rank) };
}

static lnt_pinv_report ridge_backward(const lnt_pinv_work *w, const double *u, double *z, double *dz,
                                      double *du)
{
    const lnt_pinv_report report = ridge_forward(w, u, z);
    double *turned = w->t[2], *dg = w->t[3];
    clear(w, dg);
    solve(w, w->t[0], w->t[1], dz);
    transpose(w, turned, dz);
    add_times(w, du, 1, turned);
    multiply_nt(w, dg, dz, z, turned);
    scale(w, dg, -1);
    double dridge = 0;
    for (size_t i = 0; i < w->M; i++) dridge += dg[i * w->ld + i];
    transpose(w, turned, dg);
    add_times(w, dg, 1, turned);
    multiply(w, du, u, dg, 1);
    add_times(w, du, 2 * w->ridge * dridge, u);
    return report;
}

/* ---- either ---------------------------------------------------------------------------------- */

lnt_pinv_report lnt_pinv_forward(const lnt_pinv_work *w, const double *u, double *z)
{
    return w->kind == LNT_PINV_RIDGE ? ridge_forward(w, u, z) : iterate_forward(w, u, z);
}

lnt_pinv_report lnt_pinv_backward(const lnt_pinv_work *w, const double *u, double *z, double *dz,
                                  double *du)
{
    clear(w, du);
    return w->kind == LNT_PINV_RIDGE ? ridge_backward(w, u, z, dz, du)
                                     : iterate_backward(w, u, z, dz, du);
}
