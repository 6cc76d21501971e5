/* attention/taylor/real/taylor_chunk.c - the steps of Taylor attention in chunks; see taylor_chunk.h.
 *
 * Monomials are made a block at a time, one token a column, each from its prefix by one multiply,
 * and used while they are in cache. */
#include "attention/taylor/taylor_chunk.h"

#include <omp.h>
#include <string.h>

static void take_backward(lnt_arena *arena, taylor_scratch *s)
{
    s->dn = take(arena, s->heads * TOKENS, s->mp);
    s->dnt = take(arena, s->heads * s->m, TOKENS);
    s->dden = take(arena, s->heads, TOKENS);
    s->dx = take(arena, TOKENS, TOKENS);
    s->dt = take(arena, s->heads * s->d, TOKENS);
    s->vt = take(arena, s->m, TOKENS);
    s->dv = take(arena, TOKENS, s->mp);
    s->q = take(arena, TOKENS, s->dp);
    s->dk = take(arena, TOKENS, s->dp);
    s->up = take(arena, 1, TOKENS);
    s->next = take(arena, 1, TOKENS);
    s->grad = (head_sums){ .s = take(arena, s->F, s->mp), .z = take(arena, 1, pad(s->F)) };
}

taylor_scratch lnt_taylor_take(lnt_arena *arena, const lnt_attn_desc *p)
{
    const size_t group = lnt_problem_group(p);
    taylor_scratch s = { .d = (size_t)p->dim,
                         .m = (size_t)p->dim_value,
                         .F = (size_t)lnt_problem_width(p),
                         .heads = group,
                         .terms = (size_t)p->taylor.terms };
    s.dp = pad(s.d);
    s.mp = pad(s.m);
    s.kt = take(arena, s.d, TOKENS);
    s.qt = take(arena, group * s.d, TOKENS);
    s.k_own = take(arena, TOKENS, s.dp);
    s.v_own = take(arena, TOKENS, s.mp);
    s.x = take(arena, TOKENS, TOKENS);
    s.o = take(arena, group * TOKENS, s.mp);
    s.den = take(arena, group, TOKENS);
    s.phi = take(arena, BLOCK + s.d, TOKENS);
    s.prefix = take(arena, s.terms + 1, TOKENS);
    s.steps = lnt_arena_take(arena, BLOCK * s.terms, sizeof *s.steps);
    s.added_z = take(arena, 1, BLOCK + s.d);
    s.added_s = take(arena, p->compensated ? BLOCK + s.d : 0, s.mp);
    s.ones = take(arena, 1, TOKENS);
    s.inverse = take(arena, 1, TOKENS);
    s.mean = lnt_arena_take(arena, p->taylor.center_mean ? s.d : 0, sizeof *s.mean);
    if (p->backward) take_backward(arena, &s);
    return s;
}

void lnt_taylor_prepare(const lnt_attn_desc *p, taylor_scratch *s)
{
    lnt_taylor_coefficients(p, s->a);
    for (size_t i = 0; i < TOKENS; i++) s->ones[i] = 1;
    s->first = lnt_taylor_part(s, 0, 1);
    s->end = s->F;
}

taylor_scratch lnt_taylor_open_in(lnt_arena *arena, const head_job *job)
{
    taylor_scratch s = lnt_taylor_take(arena, job->run->p);
    lnt_taylor_prepare(job->run->p, &s);
    return s;
}

taylor_scratch lnt_taylor_open(const head_job *job)
{
    const lnt_run *run = job->run;
    lnt_arena arena = run_arena(run, omp_get_thread_num());
    taylor_scratch s = lnt_taylor_open_in(&arena, job);
    if (run->p->state != LNT_STATE_ALWAYS) s.sums = lnt_sums_take(&arena, run->p);
    return s;
}

size_t lnt_taylor_scratch(const lnt_attn_desc *p)
{
    lnt_arena counting = { 0 };
    lnt_taylor_take(&counting, p);
    if (p->state != LNT_STATE_ALWAYS) lnt_sums_take(&counting, p);
    return lnt_arena_counted(&counting);
}

/* ---- monomials ------------------------------------------------------------------------------- */

bool lnt_taylor_at_end(const taylor_scratch *s, const cursor *c) { return c->feature >= s->end; }

static void advance(const taylor_scratch *s, cursor *c)
{
    c->feature += (size_t)lnt_basis_length(&c->run);
    if (!lnt_basis_next(&c->run)) c->run = lnt_basis_begin((int64_t)s->d, c->run.degree + 1);
}

cursor lnt_taylor_part(const taylor_scratch *s, size_t part, size_t parts)
{
    cursor c = { .run = lnt_basis_begin((int64_t)s->d, 0), .feature = 0 };
    while (c.feature < s->F * part / parts) advance(s, &c); /* whole runs only */
    return c;
}

size_t lnt_taylor_skip(const taylor_scratch *s, cursor *c)
{
    const size_t from = c->feature;
    while (!lnt_taylor_at_end(s, c) && c->feature - from < BLOCK) advance(s, c);
    return c->feature - from;
}

/* What index t of a prefix, which stands at its end so often, multiplies the number of orderings by; the
 * last one also by p, as an index does that is new. */
static real ordering_factor(int p, int t, int repeats)
{
    return (real)(t + 1 < p ? t : t * p) / (real)repeats;
}

/* prefix[t] = the product of the first t indices of the run, from the first one that changed on; of
 * a query times a_p and the number of orderings. */
static void update_prefix(const kernels *ker, taylor_scratch *s, const lnt_basis_run *run,
                          int changed, const real *xt, size_t lanes, bool query)
{
    if (changed == 0)
        for (size_t i = 0; i < lanes; i++) s->prefix[i] = query ? s->a[run->degree] : 1;
    for (int t = changed + 1; t < run->degree; t++) {
        real *to = s->prefix + t * TOKENS;
        ker->multiply_rows(to, TOKENS, xt + (size_t)run->prefix[t - 1] * TOKENS, TOKENS,
                           to - TOKENS, 1, lanes);
        if (query) ker->scale(to, ordering_factor(run->degree, t, lnt_basis_repeats(run, t)), lanes);
    }
}

/* The run begins with the last index of its prefix once more: fewer orderings than the others. */
static real first_factor(int repeats) { return 1 / (real)(repeats + 1); }

/* The steps of a run above degree 0, from the first index that changed on; how many they are.  All of them
 * where the run is the `first` of a block. */
static size_t list_run(const taylor_scratch *s, const lnt_basis_run *run, bool first,
                       lnt_monomial_step *step)
{
    const int p = run->degree, changed = first ? 0 : run->changed;
    int repeats = 0;
    lnt_monomial_step *const begin = step;
    if (changed == 0) *step++ = (lnt_monomial_step){ .factor = (double)s->a[p] };
    for (int level = changed + 1; level < p; level++) {
        const int64_t index = run->prefix[level - 1];
        repeats = first ? lnt_basis_repeats(run, level) : lnt_basis_new_repeats(run, level);
        *step++ = (lnt_monomial_step){ .level = (uint32_t)level,
                                       .index = (uint32_t)index,
                                       .factor = (double)ordering_factor(p, level, repeats) };
    }
    step[-1].first = (uint32_t)run->first;
    step[-1].length = (uint32_t)lnt_basis_length(run);
    step[-1].first_factor = (double)first_factor(repeats);
    return (size_t)(step - begin);
}

size_t lnt_taylor_list(taylor_scratch *s, cursor *c)
{
    size_t made = 0;
    s->begins = c->run.degree == 0;
    s->steps_listed = 0;
    while (!lnt_taylor_at_end(s, c) && made < BLOCK) {
        if (c->run.degree)
            s->steps_listed += list_run(s, &c->run, !s->steps_listed, s->steps + s->steps_listed);
        made += (size_t)lnt_basis_length(&c->run);
        advance(s, c);
    }
    return made;
}

void lnt_taylor_make(const kernels *ker, taylor_scratch *s, const real *xt, size_t lanes, bool query)
{
    real *phi = s->phi;
    if (s->begins) {
        for (size_t i = 0; i < lanes; i++) phi[i] = query ? s->a[0] : 1;
        phi += TOKENS;
    }
    ker->monomials(phi, s->prefix, xt, TOKENS, s->steps, s->steps_listed, lanes, query);
}

/* Back through one run and its prefix: prefix[t] = prefix[t-1] x_i factor. */
static void run_grad(const kernels *ker, taylor_scratch *s, const lnt_basis_run *run, real *dphi,
                     const real *xt, real *dxt, size_t lanes, bool query)
{
    const int p = run->degree;
    if (p == 0) return; /* a constant */
    if (query && p > 1) ker->scale(dphi, first_factor(lnt_basis_repeats(run, p - 1)), lanes);
    memset(s->up, 0, lanes * sizeof(real));
    ker->multiply_rows_back(dxt + (size_t)run->first * TOKENS, s->up, dphi,
                            xt + (size_t)run->first * TOKENS, TOKENS, s->prefix + (p - 1) * TOKENS,
                            (size_t)lnt_basis_length(run), lanes);
    for (int t = p - 1; t >= 1; t--) {
        const size_t i = (size_t)run->prefix[t - 1] * TOKENS;
        if (query) ker->scale(s->up, ordering_factor(p, t, lnt_basis_repeats(run, t)), lanes);
        memset(s->next, 0, lanes * sizeof(real));
        ker->multiply_rows_back(dxt + i, s->next, s->up, xt + i, TOKENS,
                                s->prefix + (t - 1) * TOKENS, 1, lanes);
        real *swap = s->up;
        s->up = s->next;
        s->next = swap;
    }
}

void lnt_taylor_block_grad(const kernels *ker, taylor_scratch *s, cursor c, size_t made,
                           const real *xt, real *dxt, size_t lanes, bool query)
{
    size_t done = 0;
    for (int changed = 0; done < made; changed = c.run.changed) {
        update_prefix(ker, s, &c.run, changed, xt, lanes, query);
        run_grad(ker, s, &c.run, s->phi + done * TOKENS, xt, dxt, lanes, query);
        done += (size_t)lnt_basis_length(&c.run);
        advance(s, &c);
    }
}

/* ---- a chunk --------------------------------------------------------------------------------- */

void lnt_taylor_load_keys(const head_job *job, taylor_scratch *s, int64_t t, size_t n)
{
    const lnt_run *run = job->run;
    const int64_t row = job->seq.k0 + t, b = job->seq.b;
    lnt_taylor_columns(run, false, s->center, b, job->kvh, row, n, s->kt, TOKENS);
    s->ldk = s->dp;
    s->ldv = s->mp;
    s->k = lnt_taylor_key_rows(run, b, job->kvh, row, n, s->kt, TOKENS, s->k_own, &s->ldk);
    if (run->sign > 0) {
        s->v = read_rows(job->ker, s->v_own, &s->ldv, &run->io->v, b, job->kvh, row, n);
        return;
    }
    load_rows(job->ker, s->v_own, s->mp, &run->io->v, b, job->kvh, row, n, run->sign);
    s->v = s->v_own;
}

void lnt_taylor_load_queries(const head_job *job, taylor_scratch *s, int64_t t, size_t n)
{
    const lnt_run *run = job->run;
    for (size_t g = 0; g < s->heads; g++)
        lnt_taylor_columns(run, true, NULL, job->seq.b, head_of(job, s, g), job->seq.q0 + t, n,
                           s->qt + g * s->d * TOKENS, TOKENS);
    memset(s->o, 0, s->heads * TOKENS * s->mp * sizeof(real));
    memset(s->den, 0, s->heads * TOKENS * sizeof(real));
}

int64_t lnt_taylor_finish(const head_job *job, taylor_scratch *s, int64_t t, size_t n)
{
    int64_t nonpositive = 0;
    for (size_t g = 0; g < s->heads; g++)
        nonpositive += lnt_tile_finish(job->run, queries_of(job, s, g, t, n),
                                       s->o + g * TOKENS * s->mp, s->den + g * TOKENS, NULL,
                                       s->inverse);
    return nonpositive;
}

void lnt_taylor_scores(const head_job *job, taylor_scratch *s, size_t g, size_t n)
{
    job->ker->gemm_nn(s->x, TOKENS, s->k, s->ldk, s->qt + g * s->d * TOKENS, TOKENS, n,
                      lnt_round_up(n, job->ker->lanes), s->d, 0);
}

void lnt_taylor_read_within(const head_job *job, taylor_scratch *s, size_t n)
{
    const kernels *ker = job->ker;
    const size_t lanes = lnt_round_up(n, ker->lanes), wide = lnt_round_up(s->m, ker->lanes);
    for (size_t g = 0; g < s->heads; g++) {
        lnt_taylor_scores(job, s, g, n);
        for (size_t j = 0; j < n; j++) {
            real *row = s->x + j * TOKENS;
            ker->polynomial(row, row, s->a, s->terms, lanes);
            for (size_t i = 0; i < j; i++) row[i] = 0;
        }
        ker->gemm_nn(s->den + g * TOKENS, TOKENS, s->ones, n, s->x, TOKENS, 1, lanes, n, 1);
        ker->gemm_tn(s->o + g * TOKENS * s->mp, s->mp, s->x, TOKENS, s->v, s->ldv, n, wide, n, 1);
    }
}

/* Rows from `feature` on of S and z += the `made` monomials in phi times the values, and their sums. */
static void add_keys(const head_job *job, taylor_scratch *s, size_t feature, size_t made, size_t keys)
{
    const kernels *ker = job->ker;
    const size_t wide = lnt_round_up(s->m, ker->lanes), at = feature * s->mp;
    ker->gemv(s->added_z, s->phi, TOKENS, s->ones, made, keys);
    if (!s->sums.low_s) {
        ker->gemm_nn(s->sums.s + at, s->mp, s->phi, TOKENS, s->v, s->ldv, made, wide, keys, 1);
        ker->axpy(s->sums.z + feature, (real)job->run->sign, s->added_z, made);
        return;
    }
    ker->gemm_nn(s->added_s, wide, s->phi, TOKENS, s->v, s->ldv, made, wide, keys, 0);
    ker->add_compensated(s->sums.s + at, s->sums.low_s + at, s->mp, s->added_s, wide, made, s->m);
    if (job->run->sign < 0) ker->scale(s->added_z, -1, made);
    ker->add_compensated(s->sums.z + feature, s->sums.low_z + feature, made, s->added_z, made, 1, made);
}

void lnt_taylor_walk(const head_job *job, taylor_scratch *s, size_t queries, size_t keys)
{
    const kernels *ker = job->ker;
    const size_t wide = lnt_round_up(s->m, ker->lanes);
    const size_t q_lanes = lnt_round_up(queries, ker->lanes);
    for (cursor c = s->first, next = c; !lnt_taylor_at_end(s, &c); c = next) {
        real *rows = s->sums.s + c.feature * s->mp, *z = s->sums.z + c.feature;
        const size_t made = lnt_taylor_list(s, &next);
        for (size_t g = 0; queries && g < s->heads; g++) {
            lnt_taylor_make(ker, s, s->qt + g * s->d * TOKENS, q_lanes, true);
            ker->gemm_tn(s->o + g * TOKENS * s->mp, s->mp, s->phi, TOKENS, rows, s->mp, queries,
                         wide, made, 1);
            ker->gemm_nn(s->den + g * TOKENS, TOKENS, z, made, s->phi, TOKENS, 1, q_lanes, made, 1);
        }
        if (!keys) continue;
        lnt_taylor_make(ker, s, s->kt, lnt_round_up(keys, ker->lanes), false);
        add_keys(job, s, c.feature, made, keys);
    }
}

void lnt_taylor_add_alone(const head_job *job, taylor_scratch *s)
{
    const int64_t alone = keys_alone(job);
    for (int64_t t = 0; t < alone; t += TOKENS) {
        const size_t n = chunk_tokens(alone - t);
        lnt_taylor_load_keys(job, s, t, n);
        lnt_taylor_walk(job, s, 0, n);
    }
}
