/* shapes.c - see shapes.h. */
#include "shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shapes_inside.h"

/* ---- what is wanted, and what was wrong ------------------------------------------------------ */

enum { MAX_WORDS = 16, SAMPLE = 11, LONG = 5000 };

static struct {
    const char *tests[MAX_WORDS], *parts[MAX_WORDS];
    int tests_count, parts_count;
    int seen, ran, wrong; /* of the test that runs */
} chosen;

void shapes_select(int argc, char **argv)
{
    for (int i = 1; i < argc && i < MAX_WORDS; i++) {
        if (!strncmp(argv[i], "like=", 5))
            chosen.parts[chosen.parts_count++] = argv[i] + 5;
        else
            chosen.tests[chosen.tests_count++] = argv[i];
    }
}

bool shapes_begin(const char *test)
{
    chosen.seen = chosen.ran = chosen.wrong = 0;
    for (int i = 0; i < chosen.tests_count; i++)
        if (!strcmp(chosen.tests[i], test)) return true;
    return chosen.tests_count == 0;
}

void shapes_end(void)
{
    if (chosen.wrong) fail_msg("%d of %d problems are wrong; they say so above", chosen.wrong, chosen.ran);
    if (!chosen.ran && !chosen.parts_count) fail_msg("no problem ran");
}

bool shapes_want(const char *name, const attn_case *c)
{
    bool named = false;
    for (int i = 0; i < chosen.parts_count; i++) named = named || strstr(name, chosen.parts[i]);
    if (chosen.parts_count && !named) return false;
    const bool sampled = chosen.seen++ % budget(SAMPLE, 1) == 0;
    if (!named && (!sampled || (c->desc.length_q > LONG && budget(1, 0)))) return false;
    chosen.ran++;
    return true;
}

/* clean: everything was written, nothing beside it, and the same bits every time. */
void shapes_verdict(const char *name, const char *algorithm, const char *errors, bool good, bool clean)
{
    char whole[160];
    snprintf(whole, sizeof whole, algorithm ? "%s [%s]" : "%s", name, algorithm);
    if (!good || !clean) chosen.wrong++;
    printf("%-58s %s  %s%s\n", whole, errors, good && clean ? "ok" : "WRONG",
           clean ? "" : " (unsteady or unwritten)");
    fflush(stdout);
}

static void verdict_of(const char *name, const char *algorithm, double error, double allowed, bool clean)
{
    char text[40];
    snprintf(text, sizeof text, "error %.2e", error);
    shapes_verdict(name, algorithm, text, error <= allowed, clean);
}

void shapes_claim(const char *name, const char *claim, bool good)
{
    chosen.ran++;
    shapes_verdict(name, NULL, claim, good, true);
}

/* ---- problems -------------------------------------------------------------------------------- */

const char *name_of(const char *format, ...)
{
    static char names[8][128];
    static int next;
    char *name = names[next++ % 8];
    va_list list;
    va_start(list, format);
    vsnprintf(name, sizeof names[0], format, list);
    va_end(list);
    return name;
}

attn_case shape_make(lnt_mechanism mechanism, int64_t heads, int64_t dim, int64_t tokens, lnt_dtype dtype)
{
    attn_case c = case_make(mechanism, heads, heads, tokens, tokens, dim, dim);
    c.desc.dtype = dtype;
    c.desc.causal = 1;
    c.desc.scale = 1 / sqrt((double)dim);
    c.desc.taylor.terms = 4;
    return c;
}

void shape_share(attn_case *c, int64_t kv_heads, int64_t m)
{
    c->desc.kv_heads = kv_heads;
    c->desc.dim_value = m;
    c->desc.batch = 2;
}

void shape_taylorshift(attn_case *c, int64_t terms, bool options)
{
    static const double temperatures[] = { 1.0, 2.5, 0.5, 4.0 };
    c->desc.taylor.terms = terms;
    c->desc.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT;
    c->desc.scale = 1;
    c->desc.taylor.temperature = options ? temperatures : NULL;
    c->desc.taylor.output_norm = options;
}

void shape_lengths(attn_case *c, int64_t more)
{
    const int64_t nq = c->desc.length_q, nk = case_length_k(c);
    const int64_t q[] = { nq, nq / 2, more }, k[] = { nk, nk - 7 - nq / 2, 5 };
    c->desc.batch = COUNT_OF(q);
    c->with_lengths = true;
    memcpy(c->lengths_q, q, sizeof q);
    memcpy(c->lengths_k, k, sizeof k);
}

/* Of its own for every name, so that problems do not depend on which others run. */
uint64_t shape_seed(const char *name)
{
    uint64_t seed = 0xcbf29ce484222325u;
    for (; *name; name++) seed = (seed ^ (unsigned char)*name) * 0x100000001b3u;
    return seed;
}

/* With decay few keys count, and their roundings to bf16 do not average out. */
double shape_allowed(const attn_case *c)
{
    switch (c->desc.dtype) {
    case LNT_F32: return 2e-5;
    case LNT_F16: return 4e-4;
    default: return c->desc.decay ? 4e-3 : 3e-3;
    }
}

void shape_lay(attn_case *c, bool interleaved)
{
    c->lay_q = c->lay_k = c->lay_v = c->lay_out = interleaved ? LAYOUT_BNHD : LAYOUT_BHND;
}

void shape_fill(const char *name, const trial *t)
{
    const uint64_t seed = shape_seed(name);
    assert_ok(host, lnt_tensor_fill_normal(host, &t->q.t, seed, 1));
    assert_ok(host, lnt_tensor_fill_normal(host, &t->k.t, seed + 1, 1));
    assert_ok(host, lnt_tensor_fill_normal(host, &t->v.t, seed + 2, 1));
}

static bool is_fake(void)
{
    lnt_device_info info = { .size = sizeof info };
    assert_ok(device, lnt_device_describe(device, &info));
    return strcmp(info.name, "no GPU at all") == 0;
}

/* The plan of the case with the algorithm it names.  The fake plug-in has one form of each. */
lnt_plan *shape_plan(lnt_ctx *ctx, const attn_case *c, const char **algorithm)
{
    lnt_plan *plan;
    lnt_plan_info info = { .size = sizeof info };
    lnt_attn_desc desc = c->desc;
    char whole[32];
    if (desc.algorithm && strchr(desc.algorithm, ':') && is_fake()) {
        snprintf(whole, sizeof whole, "%.*s", (int)strcspn(desc.algorithm, ":"), desc.algorithm);
        desc.algorithm = whole;
    }
    const lnt_status status = lnt_plan_create(ctx, &desc, &plan);
    if (status) case_print(c, desc.algorithm, ctx);
    assert_ok(ctx, status);
    assert_ok(ctx, lnt_plan_describe(plan, &info));
    *algorithm = *info.form ? name_of("%s:%s", info.algorithm, info.form) : info.algorithm;
    return plan;
}

/* ---- forward --------------------------------------------------------------------------------- */

typedef struct problem {
    attn_case c, exact; /* on the device, and in double on the CPU */
    trial t, want;
    device_trial d;
    const char *algorithm;
    lnt_plan *plan; /* NULL until it is needed */
} problem;

static void problem_open(problem *p, const char *name, const attn_case *c, bool interleaved)
{
    p->c = *c;
    shape_lay(&p->c, interleaved);
    p->t = trial_new(host, &p->c);
    shape_fill(name, &p->t);
    tensor_fill(&p->t.out.t, NAN);
    p->d = device_trial_new(device, &p->t);
    p->plan = NULL;
    p->algorithm = NULL;
}

static void problem_close(problem *p)
{
    lnt_plan_destroy(p->plan);
    device_trial_free(device, &p->d);
    trial_free(&p->t);
}

/* Queries that see no key, of a sequence that has more queries than keys: their answers are 0. */
static int64_t blind_rows(const attn_case *c, int64_t b)
{
    const int64_t more = c->with_lengths && c->desc.causal ? c->lengths_q[b] - c->lengths_k[b] : 0;
    return more > 0 ? more : 0;
}

/* Answers in double for the numbers that the device has, queries that see no key left out; some rows by the
 * definition. */
static void answer(problem *p)
{
    p->exact = p->c;
    p->exact.desc.dtype = LNT_F64;
    p->exact.desc.state = 0;
    p->exact.desc.algorithm = NULL;
    p->want = trial_new(host, &p->exact);
    tensor_copy(&p->want.k.t, &p->t.k.t);
    tensor_copy(&p->want.v.t, &p->t.v.t);
    for (int64_t b = 0; b < p->c.desc.batch; b++) {
        const int64_t blind = blind_rows(&p->c, b), seeing = p->c.desc.length_q - blind;
        const lnt_tensor from = tensor_batch(&p->t.q.t, b), to = tensor_batch(&p->want.q.t, b);
        const lnt_tensor last = tensor_rows(&from, blind, seeing), first = tensor_rows(&to, 0, seeing);
        tensor_copy(&first, &last);
        p->exact.lengths_q[b] -= p->c.with_lengths ? blind : 0;
    }
    p->want.io.lengths_q = p->c.with_lengths ? p->exact.lengths_q : NULL;
    lnt_plan *plan = case_plan(host, &p->exact, -1);
    case_forward(host, &p->exact, "the CPU", plan, &p->want.io);
    lnt_plan_destroy(plan);
    expect_below(&p->exact, "the CPU", host, "the CPU in double against the definition",
                 oracle_error(host, &p->exact.desc, &p->want.io, 2), forward_bound(&p->exact.desc));
}

/* Of head h of sequence b: the root mean square over its rows of |y - ref| / |ref|.  Rows past the length of
 * the sequence, and those that see no key, are 0. */
static double head_error(const problem *p, int64_t b, int64_t h, bool *clean)
{
    const int64_t n = p->c.desc.length_q, m = case_dim_value(&p->c), blind = blind_rows(&p->c, b);
    const int64_t rows = p->c.with_lengths ? p->c.lengths_q[b] : n;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const bool answered = i >= blind && i < rows;
        error_sum row = { 0 };
        for (int64_t j = 0; j < m; j++)
            error_add(&row, lnt_tensor_get(&p->t.out.t, b, h, i, j),
                      answered ? lnt_tensor_get(&p->want.out.t, b, h, i - blind, j) : 0);
        const double e = error_value(&row);
        if (answered) sum += e * e;
        if (!answered && e != 0) *clean = false;
    }
    if (!isfinite(sum)) return INFINITY;
    return rows > blind ? sqrt(sum / (double)(rows - blind)) : 0;
}

/* The root mean square over all heads. */
static double whole_error(problem *p, bool *clean)
{
    const lnt_attn_desc *a = &p->c.desc;
    double sum = 0;
    answer(p);
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t h = 0; h < a->heads; h++) {
            const double e = head_error(p, b, h, clean);
            sum += e * e;
        }
    trial_free(&p->want);
    return sqrt(sum / (double)(a->batch * a->heads));
}

static bool run_twice(problem *p)
{
    block first = { 0 };
    bool clean = true;
    p->plan = shape_plan(device, &p->c, &p->algorithm);
    for (int turn = 0; turn < 2; turn++) {
        tensor_fill(&p->t.out.t, NAN);
        assert_ok(device, lnt_device_write(device, p->d.out.memory, p->t.out.memory, p->t.out.bytes));
        assert_ok(device, lnt_plan_forward(p->plan, &p->d.io));
        mirror_read(device, &p->d.out);
        clean = clean && block_guard_intact(&p->t.out);
        if (turn == 0)
            first = block_copy(&p->t.out.t);
        else
            for (int64_t i = 0; i < tensor_elements(&first.t); i++)
                clean = clean && tensor_at(&first.t, i) == tensor_at(&p->t.out.t, i);
    }
    block_free(&first);
    return clean;
}

void check_forward(const char *name, attn_case c, bool interleaved)
{
    problem p;
    if (!shapes_want(name, &c)) return;
    problem_open(&p, name, &c, interleaved);
    bool clean = run_twice(&p);
    const double error = whole_error(&p, &clean);
    verdict_of(name, p.algorithm, error, shape_allowed(&c), clean);
    problem_close(&p);
}

void check_lengths(const char *name, attn_case c, int64_t more)
{
    shape_lengths(&c, more);
    check_forward(name, c, false);
}

/* ---- states ---------------------------------------------------------------------------------- */

lnt_attn_io shape_rows(const device_trial *d, int64_t first, int64_t count)
{
    lnt_attn_io io = { .size = sizeof io };
    io.q = tensor_rows(&d->q.t, first, count);
    io.k = tensor_rows(&d->k.t, first, count);
    io.v = tensor_rows(&d->v.t, first, count);
    io.out = tensor_rows(&d->out.t, first, count);
    return io;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

lnt_state *shape_state(attn_case c)
{
    lnt_state *s;
    c.desc.algorithm = NULL;
    assert_ok(device, lnt_state_create(device, &c.desc, &s));
    return s;
}

/* Tokens first ... end - 1 through a plan, `part` at a time. */
static void run_parts(problem *p, lnt_state *s, int64_t end, int64_t part)
{
    if (end > 0 && !p->plan) p->plan = shape_plan(device, &p->c, &p->algorithm);
    for (int64_t i = 0; i < end; i += part) {
        lnt_attn_io io = shape_rows(&p->d, i, least(part, end - i));
        io.state_in = i ? s : NULL;
        io.state_out = s;
        assert_ok(device, lnt_plan_forward(p->plan, &io));
    }
}

static void step(lnt_state *s, const device_trial *d, int64_t first, int64_t count)
{
    const lnt_attn_io io = shape_rows(d, first, count);
    assert_ok(device, lnt_state_step(s, &io.q, &io.k, &io.v, &io.out));
}

void check_parts(const char *name, attn_case c, int64_t part)
{
    problem p;
    if (!shapes_want(name, &c)) return;
    c.desc.state = 1;
    problem_open(&p, name, &c, false);
    lnt_state *s = shape_state(c);
    run_parts(&p, s, c.desc.length_q, part);
    mirror_read(device, &p.d.out);
    bool clean = lnt_state_tokens(s, 0) == c.desc.length_q && block_guard_intact(&p.t.out);
    const double error = whole_error(&p, &clean);
    verdict_of(name, p.algorithm, error, shape_allowed(&c), clean);
    lnt_state_destroy(s);
    problem_close(&p);
}

void check_steps(const char *name, attn_case c, int64_t before, int64_t at_once)
{
    problem p;
    const int64_t n = c.desc.length_q;
    if (!shapes_want(name, &c)) return;
    c.desc.state = 1;
    problem_open(&p, name, &c, false);
    lnt_state *s = shape_state(c);
    run_parts(&p, s, before, before);
    for (int64_t i = before; i < n; i += at_once) step(s, &p.d, i, least(at_once, n - i));
    mirror_read(device, &p.d.out);
    bool clean = lnt_state_tokens(s, 0) == n && block_guard_intact(&p.t.out);
    const double error = whole_error(&p, &clean);
    verdict_of(name, NULL, error, before ? shape_allowed(&c) : shape_allowed(&c) / 1.2, clean);
    lnt_state_destroy(s);
    problem_close(&p);
}

void check_slots(const char *name, attn_case c)
{
    static const int64_t index[] = { 3, 1 };
    problem p;
    void *selected;
    if (!shapes_want(name, &c)) return;
    c.desc.batch = COUNT_OF(index);
    problem_open(&p, name, &c, false);
    c.desc.batch = 5;
    lnt_state *pool = shape_state(c);
    assert_ok(device, lnt_device_allocate(device, sizeof index, &selected));
    assert_ok(device, lnt_device_write(device, selected, index, sizeof index));
    assert_ok(device, lnt_state_select(pool, selected, COUNT_OF(index)));
    for (int64_t i = 0; i < c.desc.length_q; i++) {
        if (i == c.desc.length_q / 2) {
            assert_ok(device, lnt_state_copy(pool, 4, pool, 3));
            assert_ok(device, lnt_state_reset(pool, 3));
            assert_ok(device, lnt_state_copy(pool, 3, pool, 4));
        }
        step(pool, &p.d, i, 1);
    }
    mirror_read(device, &p.d.out);
    bool clean = true;
    const double error = whole_error(&p, &clean);
    verdict_of(name, NULL, error, shape_allowed(&c) / 1.2, clean);
    lnt_device_release(device, selected, sizeof index);
    lnt_state_destroy(pool);
    problem_close(&p);
}

/* ---- widths ---------------------------------------------------------------------------------- */

void check_widths(lnt_mechanism mechanism, int64_t tokens, lnt_dtype dtype, const char *name,
                  void (*check)(const char *, attn_case, bool))
{
    static const int64_t widths[] = { 8, 16, 32, 64, 128 };
    char own[32];
    snprintf(own, sizeof own, "%s", name); /* which is name_of's, perhaps */
    for (int i = 0; i < 2 * COUNT_OF(widths); i++) {
        attn_case c = shape_make(mechanism, 2, widths[i / 2], tokens, dtype);
        c.desc.causal = i % 2;
        check(name_of("%s d %d%s", own, (int)widths[i / 2], i % 2 ? " causal" : " full"), c, i % 2);
    }
}
