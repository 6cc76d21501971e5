/* shapes_backward.c - the gradients of shapes.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device_backward.h"
#include "shapes_inside.h"

typedef struct back_problem {
    attn_case c;
    setup s;
    device_setup d;
    const char *algorithm;
    lnt_plan *plan;
    double dtemperature[MAX_HEADS];
} back_problem;

static void back_open(back_problem *p, const char *name, const attn_case *c, bool interleaved)
{
    p->c = *c;
    p->c.desc.backward = 1;
    shape_lay(&p->c, interleaved);
    p->s = setup_new(host, &p->c);
    shape_fill(name, &p->s.t);
    assert_ok(host, lnt_tensor_fill_normal(host, &p->s.dout.t, shape_seed(name) + 3, 1));
    if (c->desc.taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT) p->s.grads.dtemperature = p->dtemperature;
    p->plan = NULL;
}

/* Once the numbers of p->s are what they should be. */
static void back_begin(back_problem *p)
{
    p->d = device_setup_new(device, &p->s);
    p->d.grads.dtemperature = p->s.grads.dtemperature;
    p->plan = shape_plan(device, &p->c, &p->algorithm);
}

static void back_close(back_problem *p)
{
    lnt_plan_destroy(p->plan);
    device_setup_free(device, &p->d);
    setup_free(&p->s);
}

/* run(p) into poisoned gradients; what it wrote is read. */
static bool back_run(back_problem *p, void (*run)(back_problem *, int64_t), int64_t argument)
{
    bool clean = true;
    for (int i = 0; i < 3; i++) {
        tensor_fill(&p->s.dx[i], NAN);
        assert_ok(device, lnt_device_write(device, p->d.grad[i].memory, p->s.grad[i].memory,
                                           p->s.grad[i].bytes));
    }
    run(p, argument);
    for (int i = 0; i < 3; i++) {
        mirror_read(device, &p->d.grad[i]);
        clean = clean && block_guard_intact(&p->s.grad[i]);
    }
    return clean;
}

typedef struct gradients {
    block x[3];
} gradients;

static gradients gradients_copy(const back_problem *p)
{
    gradients g;
    for (int i = 0; i < 3; i++) g.x[i] = block_copy(&p->s.dx[i]);
    return g;
}

/* Whether p has the same now; frees g. */
static bool gradients_same(gradients g, const back_problem *p)
{
    bool same = true;
    for (int i = 0; i < 3; i++) {
        for (int64_t e = 0; e < tensor_elements(&g.x[i].t); e++)
            same = same && tensor_at(&g.x[i].t, e) == tensor_at(&p->s.dx[i], e);
        block_free(&g.x[i]);
    }
    return same;
}

static bool back_twice(back_problem *p, void (*run)(back_problem *, int64_t), int64_t argument)
{
    const bool first = back_run(p, run, argument);
    const gradients g = gradients_copy(p);
    const bool second = back_run(p, run, argument);
    return gradients_same(g, p) && first && second;
}

/* Past the lengths of its sequence every row is 0. */
static bool rest_is_zero(const attn_case *c, const lnt_tensor *t, const int64_t *lengths)
{
    for (int64_t b = 0; b < t->shape[0] && c->with_lengths; b++)
        for (int64_t h = 0; h < t->shape[1]; h++)
            for (int64_t i = lengths[b]; i < t->shape[2]; i++)
                for (int64_t j = 0; j < t->shape[3]; j++)
                    if (lnt_tensor_get(t, b, h, i, j) != 0) return false;
    return true;
}

/* Normalised rows are rounded to bf16 before they are attended with: that is in the gradients of all of
 * them too, where the rest of the backward pass is held to 3e-3. */
static double back_allowed(const attn_case *c)
{
    const bool rounds_rows = c->desc.taylor.normalize && c->desc.dtype == LNT_BF16;
    return rounds_rows ? 6e-3 : shape_allowed(c);
}

/* A temperature's gradient is a sum of terms of both signs. */
static double tau_allowed(const attn_case *c)
{
    return c->desc.dtype == LNT_BF16 ? 0x1p-6 : shape_allowed(c);
}

/* Against those of the CPU in double.  A temperature's is relative to 1 where it is less. */
static void back_judge(const char *name, back_problem *p, bool clean)
{
    exact_gradients exact;
    char text[160];
    double worst = 0, tau = 0;
    int length = 0;
    static const char *const labels[PARTS] = { "dq", "dk", "dv", "ds", "dz" };
    exact_open(&exact, &p->s);
    for (int i = 0; i < p->s.parts; i++) {
        const double e = tensor_error(&p->s.dx[i], &exact.s.dx[i]);
        worst = fmax(worst, isfinite(e) ? e : INFINITY);
        length += snprintf(text + length, sizeof text - (size_t)length, "%s%s %.2e", i ? " " : "",
                           labels[i], e);
    }
    for (int64_t h = 0; h < p->c.desc.heads && p->d.grads.dtemperature; h++)
        tau = fmax(tau, fabs(p->dtemperature[h] - exact.dtemperature[h]) / (fabs(exact.dtemperature[h]) + 1));
    if (p->d.grads.dtemperature) snprintf(text + length, sizeof text - (size_t)length, " dtau %.2e", tau);
    for (int i = 0; i < 3; i++)
        clean = rest_is_zero(&p->c, &p->s.dx[i], i ? p->c.lengths_k : p->c.lengths_q) && clean;
    const bool good = worst <= back_allowed(&p->c) && tau <= tau_allowed(&p->c);
    shapes_verdict(name, p->algorithm, text, good, clean);
    setup_free(&exact.s);
}

static void backward(back_problem *p, int64_t unused)
{
    (void)unused;
    assert_ok(device, lnt_plan_backward(p->plan, &p->d.t.io, &p->d.grads));
}

static void add_mean(const lnt_tensor *v, double mean)
{
    for (int64_t i = 0; i < tensor_elements(v) && mean != 0; i++)
        tensor_put(v, i, tensor_at(v, i) + (i % 2 ? -mean : mean));
}

static void make_positive(const lnt_tensor *t)
{
    for (int64_t i = 0; i < tensor_elements(t); i++) tensor_put(t, i, fabs(tensor_at(t, i)));
}

void check_gradients_of(const char *name, attn_case c, bool interleaved, bool positive, double mean)
{
    back_problem p;
    if (!shapes_want(name, &c)) return;
    back_open(&p, name, &c, interleaved);
    if (positive) make_positive(&p.s.t.q.t);
    if (positive) make_positive(&p.s.t.k.t);
    add_mean(&p.s.t.v.t, mean);
    back_begin(&p);
    const bool clean = back_twice(&p, backward, 0);
    back_judge(name, &p, clean);
    back_close(&p);
}

void check_gradients(const char *name, attn_case c, bool interleaved)
{
    check_gradients_of(name, c, interleaved, false, 0);
}

void check_gradient_lengths(const char *name, attn_case c)
{
    shape_lengths(&c, 0);
    check_gradients(name, c, true);
}

/* Tokens first ... first + count - 1 of a problem go back. */
static void backward_rows(back_problem *p, int64_t first, int64_t count, lnt_state *in, lnt_state *din,
                          lnt_state *dout)
{
    lnt_attn_io io = shape_rows(&p->d.t, first, count);
    lnt_attn_grads grads = { .size = sizeof grads, .dstate_in = din, .dstate_out = dout };
    grads.dout = tensor_rows(&p->d.dout.t, first, count);
    grads.dq = tensor_rows(&p->d.grad[0].t, first, count);
    grads.dk = tensor_rows(&p->d.grad[1].t, first, count);
    grads.dv = tensor_rows(&p->d.grad[2].t, first, count);
    io.state_in = in;
    assert_ok(device, lnt_plan_backward(p->plan, &io, &grads));
}

static void backward_in_parts(back_problem *p, int64_t half)
{
    lnt_state *between = shape_state(p->c), *gradient = shape_state(p->c);
    lnt_attn_io prefix = shape_rows(&p->d.t, 0, half);
    prefix.state_out = between;
    assert_ok(device, lnt_plan_forward(p->plan, &prefix));
    backward_rows(p, half, p->c.desc.length_q - half, between, gradient, NULL);
    backward_rows(p, 0, half, NULL, NULL, gradient);
    lnt_state_destroy(between);
    lnt_state_destroy(gradient);
}

void check_gradient_parts(const char *name, attn_case c, int64_t half)
{
    back_problem p;
    if (!shapes_want(name, &c)) return;
    c.desc.state = 1;
    back_open(&p, name, &c, false);
    p.s.grads.dtemperature = NULL; /* a run gives its own part's alone */
    back_begin(&p);
    const bool clean = back_twice(&p, backward_in_parts, half);
    back_judge(name, &p, clean);
    back_close(&p);
}

void check_state_gradients(const char *name, attn_case c)
{
    back_problem p;
    if (!shapes_want(name, &c)) return;
    c.desc.state = 1;
    c.state_tokens = c.desc.length_q;
    back_open(&p, name, &c, false);
    back_begin(&p);
    const bool clean = back_twice(&p, backward, 0);
    device_setup_read_states(&p.d, &p.s);
    back_judge(name, &p, clean);
    back_close(&p);
}

static void forward_and_backward(back_problem *p, int64_t keeping)
{
    lnt_attn_io *io = &p->d.t.io;
    io->kept_bytes = plan_kept_bytes(p->plan);
    io->kept = NULL;
    if (keeping) assert_ok(device, lnt_device_allocate(device, io->kept_bytes, &io->kept));
    assert_ok(device, lnt_plan_forward(p->plan, io));
    backward(p, 0);
    lnt_device_release(device, io->kept, io->kept_bytes);
}

void check_kept(const char *name, attn_case c, double mean)
{
    back_problem p;
    if (!shapes_want(name, &c)) return;
    back_open(&p, name, &c, true);
    add_mean(&p.s.t.v.t, mean);
    back_begin(&p);
    bool clean = back_run(&p, forward_and_backward, 1);
    const gradients kept = gradients_copy(&p);
    clean = back_run(&p, forward_and_backward, 0) && clean;
    clean = gradients_same(kept, &p) && clean;
    back_judge(name, &p, clean);
    back_close(&p);
}
