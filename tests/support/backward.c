/* backward.c - see backward.h. */
#include "backward.h"

#include <math.h>

#include "plan/plan.h"

const char *const part_names[PARTS] = { "dq", "dk", "dv", "dstate s", "dstate z" };

/* Away from 0, where relu and elu1 have a kink. */
static void keep_off_zero(const lnt_tensor *t)
{
    for (int64_t i = 0; i < tensor_elements(t); i++) {
        const double x = tensor_at(t, i);
        if (fabs(x) < 0.05) tensor_put(t, i, x < 0 ? x - 0.05 : x + 0.05);
    }
}

void state_views(lnt_ctx *ctx, lnt_state *state, lnt_tensor view[2])
{
    const char *name;
    assert_ok(ctx, lnt_state_tensor(state, 0, &name, &view[0]));
    assert_ok(ctx, lnt_state_tensor(state, 1, &name, &view[1]));
}

static void open_states(setup *s, dice *d)
{
    lnt_tensor view[2];
    assert_ok(s->ctx, lnt_state_create(s->ctx, &s->c->desc, &s->state_out));
    assert_ok(s->ctx, lnt_state_create(s->ctx, &s->c->desc, &s->dstate_out));
    assert_ok(s->ctx, lnt_state_create(s->ctx, &s->c->desc, &s->dstate_in));
    state_views(s->ctx, s->dstate_out, view);
    for (int i = 0; i < 2; i++) draw_values(d, &view[i]);
    state_views(s->ctx, s->t.state, &s->x[3]);
    state_views(s->ctx, s->dstate_in, &s->dx[3]);
    s->t.io.state_out = s->state_out;
    s->grads.dstate_out = s->dstate_out;
    s->grads.dstate_in = s->dstate_in;
    s->parts = PARTS;
}

setup setup_new(lnt_ctx *ctx, const attn_case *c)
{
    setup s = { .ctx = ctx, .c = c, .t = trial_new(ctx, c), .parts = 3 };
    dice d = { c->seed + 1 };
    s.dout = block_new(c->desc.dtype, c->lay_out, c->desc.batch, c->desc.heads, c->desc.length_q,
                       case_dim_value(c));
    draw_values(&d, &s.dout.t);
    s.x[0] = s.t.q.t;
    s.x[1] = s.t.k.t;
    s.x[2] = s.t.v.t;
    for (int i = 0; i < 3; i++) {
        const int64_t *n = s.x[i].shape;
        keep_off_zero(&s.x[i]);
        s.grad[i] = block_new(c->desc.dtype, c->lay_out, n[0], n[1], n[2], n[3]);
        s.dx[i] = s.grad[i].t;
    }
    s.grads = (lnt_attn_grads){ .size = sizeof s.grads, .dout = s.dout.t, .dq = s.dx[0],
                                .dk = s.dx[1], .dv = s.dx[2] };
    if (s.t.state) open_states(&s, &d);
    return s;
}

void setup_free(setup *s)
{
    trial_free(&s->t);
    block_free(&s->dout);
    for (int i = 0; i < 3; i++) block_free(&s->grad[i]);
    lnt_state_destroy(s->state_out);
    lnt_state_destroy(s->dstate_out);
    lnt_state_destroy(s->dstate_in);
}

void setup_copy(const setup *to, const setup *from)
{
    lnt_tensor mine[2], given[2];
    for (int p = 0; p < from->parts; p++) tensor_copy(&to->x[p], &from->x[p]);
    tensor_copy(&to->dout.t, &from->dout.t);
    if (!from->dstate_out) return;
    state_views(to->ctx, to->dstate_out, mine);
    state_views(from->ctx, from->dstate_out, given);
    for (int i = 0; i < 2; i++) tensor_copy(&mine[i], &given[i]);
}

static bool run(setup *s, int algorithm, bool keeping)
{
    const char *name = lnt_algorithm_name(algorithm);
    lnt_plan *plan = case_plan(s->ctx, s->c, algorithm);
    if (!plan) return false;
    for (int i = 0; i < 3; i++) tensor_fill(&s->dx[i], 1e6); /* to be overwritten, not added to */
    lnt_attn_io io = s->t.io;
    io.kept_bytes = plan_kept_bytes(plan);
    block kept = { .memory = NULL };
    if (keeping)
        kept = block_new(LNT_F32, LAYOUT_BHND, 1, 1, 1, (int64_t)((io.kept_bytes + 3) / sizeof(float)));
    io.kept = kept.t.data;
    lnt_status status = lnt_plan_forward(plan, &io);
    if (!status) status = lnt_plan_backward(plan, &io, &s->grads);
    if (status) case_print(s->c, name, s->ctx);
    expect_true(s->c, name, s->ctx, "more was kept than promised", !keeping || block_guard_intact(&kept));
    block_free(&kept);
    assert_ok(s->ctx, status);
    for (int i = 0; i < 3; i++)
        expect_true(s->c, name, s->ctx, "something beside the gradients was written",
                    block_guard_intact(&s->grad[i]));
    lnt_plan_destroy(plan);
    return true;
}

bool run_backward(setup *s, int algorithm) { return run(s, algorithm, false); }

bool run_backward_kept(setup *s, int algorithm) { return run(s, algorithm, true); }

double gradient_error(const lnt_tensor *got, const lnt_tensor *want)
{
    error_sum e = { 0 };
    for (int64_t i = 0; i < tensor_elements(want); i++)
        error_add(&e, tensor_at(got, i), tensor_at(want, i));
    e.reference = pow(sqrt(e.reference) + 1, 2);
    return error_value(&e);
}

/* ---- forms --------------------------------------------------------------------------------- */

/* Kind k of cur: each way to choose landmarks, to invert U and to activate is met. */
static void form_cur(attn_case *c, int k, int64_t n)
{
    static const lnt_select select[FORM_CURS] = { LNT_SELECT_STEP,   LNT_SELECT_ABS,
                                             LNT_SELECT_MEAN,   LNT_SELECT_STEP_MEAN,
                                             LNT_SELECT_RANDOM, LNT_SELECT_SUM,
                                             LNT_SELECT_KMEANS };
    c->desc.cur.landmarks = n < 10 ? 2 : 6; /* fewer than some sequences, and more than others */
    c->desc.cur.select = select[k];
    c->desc.cur.separate_indices = k == 5;
    c->desc.cur.copy_rows = k != 1;
    c->desc.cur.pinv = k % 3 == 0 ? LNT_PINV_ITERATE : k == 4 ? LNT_PINV_ITERATE : LNT_PINV_RIDGE;
    if (k == 2 || k > 4) c->desc.cur.pinv = LNT_PINV_TUNED;
    c->desc.cur.pinv_iterations = k == 4 ? 1 : 4;
    c->desc.cur.pinv_init = k == 4 ? LNT_PINV_PAPER1 : LNT_PINV_NORMS;
    c->desc.cur.ridge = 0.01;
    c->desc.cur.activation = k >= 3 && k < 6 ? LNT_ACTIVATION_LAPLACE : LNT_ACTIVATION_SOFTMAX;
    if (k != 0) return;
    c->pin[0] = 1;
    c->desc.cur.pin = c->pin;
    c->desc.cur.pins = 1;
}

/* Kind k of hybrid: a window of one token, of less than a chunk, of more than a chunk, of more than the
 * sequence; sinks, none to some of several chunks; either mechanism for the far keys. */
static void form_hybrid(attn_case *c, int k, int64_t n)
{
    static const int64_t window[FORM_HYBRIDS] = { 2, 1, 3, 70, 5, 300, 64 };
    static const int64_t sink[FORM_HYBRIDS] = { 0, 1, 0, 2, 66, 0, 3 };
    c->desc.hybrid.window = n < 10 && k != 5 ? 1 + k % 2 : window[k];
    c->desc.hybrid.sink = n < 10 ? k == 1 : sink[k];
    c->desc.hybrid.far = k == 2 || k == 4 ? LNT_LINEAR : LNT_TAYLOR;
    c->desc.linear.feature_map = k == 2 ? LNT_MAP_ELU1 : LNT_MAP_POSITIVE;
    c->desc.linear.features = 16;
    c->desc.taylor.terms = k == 3 ? 4 : 3;
    if (k > 0 && k != 2 && k != 5) case_set_decay(c, 0.8);
    if (k != 1) return;
    for (int i = 0; i < MAX_HEADS * 128; i++) c->center[i] = 0.01 * (i % 17) - 0.07;
    c->desc.taylor.center = c->center;
}

/* Kind k of softmax: each option, then all of them; more queries than keys, where these begin together. */
static void form_scores(attn_case *c, int k, int64_t n)
{
    const bool all = k >= 5;
    if (k == 0 || all) c->desc.softmax.window = n < 10 ? 2 : 29;
    if (k == 1 || all) c->desc.softmax.cap = 0.8;
    for (int h = 0; h < MAX_HEADS; h++) c->slopes[h] = 0.2 - 0.3 * h;
    if (k == 2 || all) c->desc.softmax.slopes = c->slopes;
    c->desc.softmax.align_begin = k == 3 || k == 6;
    if (k == 3) c->desc.length_k = n - 1;
    if (k >= 4)
        c->mask = (mask_form){ .given = true, .kind = (lnt_mask_kind)(k % 2), .dtype = LNT_F64,
                               .alike = k - 4 };
}

static lnt_mechanism form_mechanism(int map)
{
    if (map == FORM_MAPS) return LNT_HYBRID;
    return map == 0 ? LNT_SOFTMAX : map < FORM_TAYLOR ? LNT_LINEAR : map < FORM_CUR ? LNT_TAYLOR : LNT_CUR;
}

bool gradient_form(attn_case *c, int f, int64_t n, int64_t d, int64_t m)
{
    const bool scores = f >= FORM_SCORES, hybrid = f >= FORM_HYBRID && !scores;
    const int map = hybrid ? FORM_MAPS : scores ? 0 : f % FORM_MAPS;
    const int shape = hybrid   ? (f - FORM_HYBRID) / FORM_HYBRIDS
                      : scores ? (f - FORM_SCORES) / FORM_SCORE_KINDS
                               : f / FORM_MAPS % FORM_SHAPES;
    const int kind = hybrid ? 1 : scores ? shape % 2 : f / FORM_MAPS / FORM_SHAPES;
    const bool causal = kind > 0, decay = kind == 2;
    const bool linear = form_mechanism(map) == LNT_LINEAR;
    if (!linear && decay) return false;
    if ((map == 0 || map >= FORM_CUR) && shape == 4) return false;
    if (map >= FORM_CUR && causal != hybrid) return false;
    const int64_t nk = shape != 1 ? n : causal ? n + 2 : n - 1;
    *c = case_make(form_mechanism(map), 2, 1, n, nk, d, m);
    c->desc.dtype = LNT_F64;
    c->desc.backward = 1;
    c->desc.causal = causal;
    c->seed = (uint64_t)f + 1;
    c->lay_q = c->lay_k = c->lay_v = c->lay_out = (layout)(f % LAYOUT_OUTPUTS);
    if (linear) {
        c->desc.linear.feature_map = (lnt_feature_map)(map - 1);
        c->desc.linear.features = 16;
        c->desc.linear.eps = 0.25; /* keeps the fifth derivative of 1 / den small, relu's too */
    } else if (shape == 1) {
        c->desc.scale = 0.7;
    }
    if (scores) form_scores(c, (f - FORM_SCORES) % FORM_SCORE_KINDS, n);
    if (hybrid) form_hybrid(c, (f - FORM_HYBRID) % FORM_HYBRIDS, n);
    else if (map >= FORM_CUR) form_cur(c, map - FORM_CUR, n);
    if (map == FORM_TAYLOR && f / FORM_MAPS % 2) {
        c->desc.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT;
        c->desc.taylor.output_norm = 1;
        c->desc.taylor.terms = 3;
    }
    if (decay) case_set_decay(c, 0.8);
    dice roll = { (uint64_t)f };
    if (shape == 2) {
        c->desc.batch = 2;
        case_random_lengths(&roll, c);
    }
    if (shape == 3) case_random_packing(&roll, c);
    if (shape == 4) c->state_tokens = 3;
    return true;
}
