/* test_softmax.c - softmax as others' models use it: the cases of ONNX's operator Attention made anew, and
 * what its options promise beyond the numbers. */
#include <math.h>
#include <string.h>

#include "../support/case.h"

/* ---- the cases of ONNX's Attention ----------------------------------------------------------- */

enum {
    ROWS = 1,      /* [B,N,H d] in memory */
    CAUSAL = 2,    /* query i sees the keys up to i, and those of the past */
    GROUPS = 4,    /* 9 heads share 3 of keys */
    WIDE = 8,      /* values wider than keys */
    SCALED = 16,
    CAPPED = 32,
    PAST = 64,     /* 12 keys come before */
    MASK = 128,    /* [4, n_k], the same for all; else */
    MASK_B = 256,  /* [B,1,4,n_k] */
    MASK_BH = 512, /* [B,H,4,n_k] */
    KEEP = 1024,   /* bytes */
    HALF = 2048,   /* f16 */
    PADDED = 4096, /* lengths of keys */
    SMALL = 8192   /* one head, a small cap, keys that are hidden have huge values */
};

static const struct {
    const char *name; /* as ONNX has it */
    int is;
} cases[] = {
    { "3d", ROWS },
    { "3d_attn_mask", ROWS | MASK },
    { "3d_causal", ROWS | CAUSAL },
    { "3d_diff_heads_sizes", ROWS | WIDE },
    { "3d_diff_heads_sizes_attn_mask", ROWS | WIDE | MASK },
    { "3d_diff_heads_sizes_causal", ROWS | WIDE | CAUSAL },
    { "3d_diff_heads_sizes_scaled", ROWS | WIDE | SCALED },
    { "3d_diff_heads_sizes_softcap", ROWS | WIDE | CAPPED },
    { "3d_diff_heads_with_past_and_present", ROWS | WIDE | PAST | MASK },
    { "3d_gqa", ROWS | GROUPS },
    { "3d_gqa_attn_mask", ROWS | GROUPS | MASK },
    { "3d_gqa_causal", ROWS | GROUPS | CAUSAL },
    { "3d_gqa_scaled", ROWS | GROUPS | SCALED },
    { "3d_gqa_softcap", ROWS | GROUPS | CAPPED },
    { "3d_gqa_with_past_and_present", ROWS | GROUPS | PAST | MASK },
    { "3d_scaled", ROWS | SCALED },
    { "3d_softcap", ROWS | CAPPED },
    { "3d_transpose_verification", ROWS },
    { "3d_with_past_and_present", ROWS | PAST | MASK },
    { "3d_with_past_and_present_qk_matmul", ROWS | PAST | MASK },
    { "3d_with_past_and_present_qk_matmul_bias", ROWS | PAST | MASK },
    { "3d_with_past_and_present_qk_matmul_softcap", ROWS | PAST | MASK | CAPPED },
    { "3d_with_past_and_present_qk_matmul_softmax", ROWS | PAST | MASK },
    { "4d", 0 },
    { "4d_attn_mask", MASK },
    { "4d_attn_mask_3d", MASK_B },
    { "4d_attn_mask_3d_causal", MASK_B | CAUSAL },
    { "4d_attn_mask_4d", MASK_BH },
    { "4d_attn_mask_4d_causal", MASK_BH | CAUSAL },
    { "4d_attn_mask_bool", MASK | KEEP },
    { "4d_attn_mask_bool_4d", MASK_BH | KEEP },
    { "4d_causal", CAUSAL },
    { "4d_diff_heads_mask4d_padded_kv", WIDE | MASK_BH | PADDED },
    { "4d_diff_heads_sizes", WIDE },
    { "4d_diff_heads_sizes_attn_mask", WIDE | MASK },
    { "4d_diff_heads_sizes_causal", WIDE | CAUSAL },
    { "4d_diff_heads_sizes_scaled", WIDE | SCALED },
    { "4d_diff_heads_sizes_softcap", WIDE | CAPPED },
    { "4d_diff_heads_with_past_and_present", WIDE | PAST | MASK },
    { "4d_diff_heads_with_past_and_present_mask3d", WIDE | PAST | MASK_B },
    { "4d_diff_heads_with_past_and_present_mask4d", WIDE | PAST | MASK_BH },
    { "4d_fp16", HALF },
    { "4d_gqa", GROUPS },
    { "4d_gqa_attn_mask", GROUPS | MASK },
    { "4d_gqa_causal", GROUPS | CAUSAL },
    { "4d_gqa_scaled", GROUPS | SCALED },
    { "4d_gqa_softcap", GROUPS | CAPPED },
    { "4d_gqa_with_past_and_present", GROUPS | PAST | MASK },
    { "4d_gqa_with_past_and_present_fp16", GROUPS | PAST | MASK | HALF },
    { "4d_scaled", SCALED },
    { "4d_softcap", CAPPED },
    { "4d_softcap_neginf_mask", MASK | CAPPED },
    { "4d_softcap_neginf_mask_poison", MASK | CAPPED | SMALL },
    { "4d_with_past_and_present", PAST | MASK },
    { "4d_with_past_and_present_qk_matmul", PAST | MASK },
    { "4d_with_past_and_present_qk_matmul_bias", PAST | MASK },
    { "4d_with_past_and_present_qk_matmul_bias_3d_mask", PAST | MASK_B },
    { "4d_with_past_and_present_qk_matmul_bias_3d_mask_causal", PAST | MASK_B | CAUSAL },
    { "4d_with_past_and_present_qk_matmul_bias_4d_mask", PAST | MASK_BH },
    { "4d_with_past_and_present_qk_matmul_bias_4d_mask_causal", PAST | MASK_BH | CAUSAL },
    { "4d_with_qk_matmul", 0 },
    { "4d_with_qk_matmul_bias", MASK },
    { "4d_with_qk_matmul_softcap", MASK | CAPPED },
    { "4d_with_qk_matmul_softmax", MASK },
};

static attn_case made_anew(int number, int is)
{
    const int64_t keys = is & PAST ? (is & CAUSAL ? 16 : 18) : 6;
    const bool masked = is & (MASK | MASK_B | MASK_BH);
    attn_case c = case_make(LNT_SOFTMAX, is & GROUPS ? 9 : is & SMALL ? 1 : 3, is & SMALL ? 1 : 3, 4, keys, 8,
                            is & WIDE ? 10 : 8);
    c.seed = (uint64_t)number + 1;
    c.desc.batch = is & SMALL ? 1 : 2;
    c.desc.dtype = is & HALF ? LNT_F16 : LNT_F32;
    c.desc.causal = (is & CAUSAL) != 0;
    c.desc.softmax.align_begin = c.desc.causal && !(is & PAST);
    if (is & SCALED) c.desc.scale = 0.01;
    if (is & CAPPED) c.desc.softmax.cap = is & SMALL ? 0.5 : 2;
    if (is & ROWS) c.lay_q = c.lay_k = c.lay_v = c.lay_out = LAYOUT_BNHD;
    c.mask = (mask_form){ .given = masked, .kind = is & KEEP ? LNT_MASK_KEEP : LNT_MASK_ADD,
                          .dtype = c.desc.dtype, .alike = is & MASK ? 3 : is & MASK_B ? 2 : 0 };
    c.with_lengths = is & PADDED;
    for (int b = 0; b < 2; b++) c.lengths_q[b] = 4, c.lengths_k[b] = 3 + b;
    return c;
}

/* Values of keys that every query is masked from. */
static void poison_hidden(const trial *t)
{
    for (int64_t j = 0; j < t->k.t.shape[2]; j++) {
        for (int64_t i = 0; i < t->q.t.shape[2]; i++)
            tensor_put(&t->mask.numbers.t, i * t->k.t.shape[2] + j, j % 2 ? -(double)INFINITY : 0.5);
        for (int64_t d = 0; d < t->v.t.shape[3] && j % 2; d++) lnt_tensor_set(&t->v.t, 0, 0, j, d, 1e30);
    }
}

static void the_cases_of_onnx_attention_match_the_oracle(void **state)
{
    (void)state;
    assert_int_equal(COUNT_OF(cases), 64);
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; i < COUNT_OF(cases); i++) {
            if (lnt_algorithm_mechanism(a) != LNT_SOFTMAX) continue;
            const attn_case c = made_anew(i, cases[i].is);
            lnt_plan *plan = case_plan(ctx, &c, a);
            assert_non_null(plan);
            trial t = trial_new(ctx, &c);
            if (cases[i].is & SMALL) poison_hidden(&t);
            case_forward(ctx, &c, lnt_algorithm_name(a), plan, &t.io);
            expect_below(&c, lnt_algorithm_name(a), ctx, cases[i].name, oracle_error(ctx, &c.desc, &t.io, 4),
                         forward_bound(&c.desc));
            assert_int_equal(plan_nonpositive(plan), 0);
            trial_free(&t);
            lnt_plan_destroy(plan);
        }
    lnt_ctx_destroy(ctx);
}

/* ---- what is seen ---------------------------------------------------------------------------- */

static double largest(const lnt_tensor *t)
{
    double most = 0;
    for (int64_t i = 0; i < tensor_elements(t); i++) most = fmax(most, fabs(tensor_at(t, i)));
    return most;
}

/* The definition by hand, once: the oracle is not asked. */
static void a_window_a_cap_slopes_and_a_mask_are_as_linnet_h_says(void **state)
{
    (void)state;
    enum { N = 5 };
    static const double slope[] = { 0.25 };
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c = case_make(LNT_SOFTMAX, 1, 1, N, N, 1, 1);
    c.desc.dtype = LNT_F64;
    c.desc.causal = 1;
    c.desc.softmax = (lnt_softmax_options){ .window = 3, .cap = 2, .slopes = slope };
    trial t = trial_new(ctx, &c);
    double add[N * N];
    for (int i = 0; i < N * N; i++) add[i] = i % 4 == 1 ? -(double)INFINITY : 0.1 * i;
    t.io.mask = lnt_mask_contiguous(add, LNT_MASK_ADD, LNT_F64, 1, 1, N, N);
    for (int64_t i = 0; i < N; i++) {
        double num = 0, den = 0, y;
        for (int64_t j = i > 1 ? i - 2 : 0; j <= i; j++) {
            const double x = tensor_at(&t.q.t, i) * tensor_at(&t.k.t, j);
            const double w = exp(2 * tanh(x / 2) - 0.25 * (double)(i - j) + add[i * N + j]);
            num += w * tensor_at(&t.v.t, j);
            den += w;
        }
        assert_ok(ctx, lnt_reference_row(ctx, &c.desc, &t.io, 0, 0, i, &y));
        assert_true(fabs(y - (den > 0 ? num / den : 0)) < 1e-14);
    }
    trial_free(&t);
    lnt_ctx_destroy(ctx);
}

static void a_query_that_is_masked_from_every_key_gives_zeros_and_no_gradient(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int kind = 0; kind < 2; kind++) {
            attn_case c = case_make(LNT_SOFTMAX, 2, 1, 70, 90, 9, 4);
            if (lnt_algorithm_mechanism(a) != LNT_SOFTMAX) continue;
            c.desc.backward = 1;
            trial t = trial_new(ctx, &c);
            unsigned char keep[70] = { 0 };
            float add[70];
            for (int i = 0; i < 70; i++) keep[i] = i % 3 != 0, add[i] = keep[i] ? 0 : -INFINITY;
            t.io.mask = kind ? lnt_mask_contiguous(add, LNT_MASK_ADD, LNT_F32, 1, 1, 70, 1)
                             : lnt_mask_contiguous(keep, LNT_MASK_KEEP, LNT_F32, 1, 1, 70, 1);
            block dout = block_new(LNT_F32, LAYOUT_BHND, 1, 2, 70, 4);
            block dq = block_new(LNT_F32, LAYOUT_BHND, 1, 2, 70, 9);
            block dk = block_new(LNT_F32, LAYOUT_BHND, 1, 1, 90, 9);
            block dv = block_new(LNT_F32, LAYOUT_BHND, 1, 1, 90, 4);
            tensor_fill(&dout.t, 1);
            const lnt_attn_grads grads = { .size = sizeof grads, .dout = dout.t, .dq = dq.t, .dk = dk.t,
                                           .dv = dv.t };
            lnt_plan *plan = case_plan(ctx, &c, a);
            case_forward(ctx, &c, lnt_algorithm_name(a), plan, &t.io);
            assert_ok(ctx, lnt_plan_backward(plan, &t.io, &grads));
            for (int64_t i = 0; i < 70; i++) {
                const lnt_tensor y = tensor_rows(&t.out.t, i, 1), g = tensor_rows(&dq.t, i, 1);
                expect_true(&c, lnt_algorithm_name(a), ctx, "a masked row is not 0",
                            (largest(&y) == 0) == !keep[i] && isfinite(largest(&g)));
                expect_true(&c, lnt_algorithm_name(a), ctx, "a masked row has a gradient",
                            keep[i] || largest(&g) == 0);
            }
            assert_true(isfinite(largest(&dk.t)) && isfinite(largest(&dv.t)) && largest(&dv.t) > 0);
            assert_int_equal(plan_nonpositive(plan), 0);
            lnt_plan_destroy(plan);
            block_free(&dout), block_free(&dq), block_free(&dk), block_free(&dv);
            trial_free(&t);
        }
    lnt_ctx_destroy(ctx);
}

/* A value that is no number reaches what is computed with it, be its weight 0. */
static void keys_outside_the_window_are_not_touched(void **state)
{
    (void)state;
    enum { N = 600, W = 40, TILES = 192 }; /* no tile is that wide */
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int causal = 0; causal < 2; causal++) {
            attn_case c = case_make(LNT_SOFTMAX, 1, 1, N, N, 16, 16);
            if (lnt_algorithm_mechanism(a) != LNT_SOFTMAX) continue;
            c.desc.causal = causal;
            c.desc.softmax.window = W;
            lnt_plan *plan = case_plan(ctx, &c, a);
            trial t = trial_new(ctx, &c);
            const int64_t bad = N / 2;
            for (int64_t d = 0; d < 16; d++) lnt_tensor_set(&t.v.t, 0, 0, bad, d, (double)NAN);
            case_forward(ctx, &c, lnt_algorithm_name(a), plan, &t.io);
            for (int64_t i = 0; i < N; i++) {
                const bool near = i >= bad - TILES && i < bad + TILES;
                expect_true(&c, lnt_algorithm_name(a), ctx, "a key far from the window was read",
                            near || isfinite(lnt_tensor_get(&t.out.t, 0, 0, i, 0)));
            }
            expect_true(&c, lnt_algorithm_name(a), ctx, "a key in the window was not read",
                        isnan(lnt_tensor_get(&t.out.t, 0, 0, bad + W - 1, 0)));
            trial_free(&t);
            lnt_plan_destroy(plan);
        }
    lnt_ctx_destroy(ctx);
}

static lnt_plan_info predict(lnt_ctx *ctx, const lnt_attn_desc *desc)
{
    lnt_plan_info info = { .size = sizeof info };
    assert_ok(ctx, lnt_plan_predict(ctx, desc, &info));
    return info;
}

/* Pairs of a query and a key that it sees, counted one by one. */
static void flops_count_the_pairs_that_are_seen(void **state)
{
    (void)state;
    static const int64_t windows[] = { 0, 1, 5, 20, 100 };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < 4 * COUNT_OF(windows); i++) {
        attn_case c = case_make(LNT_SOFTMAX, 2, 1, 17, i & 1 ? 30 : 17, 8, 8);
        c.desc.causal = i & 1;
        c.desc.softmax.align_begin = (i & 2) != 0;
        c.desc.softmax.window = windows[i / 4];
        const int64_t nk = c.desc.length_k, window = c.desc.softmax.window;
        int64_t pairs = 0;
        for (int64_t q = 0; q < 17; q++)
            for (int64_t k = 0; k < nk; k++) {
                const int64_t away = q + (i & 2 ? 0 : nk - 17) - k;
                pairs += !(c.desc.causal && away < 0) && (!window || (away < window && away > -window));
            }
        assert_true(predict(ctx, &c.desc).flops == (double)(2 * pairs * (2 * (8 + 8) + 3)));
    }
    attn_case c = case_make(LNT_SOFTMAX, 1, 1, 1 << 20, 1 << 20, 64, 64);
    c.desc.causal = 1;
    c.desc.softmax.window = 1024;
    assert_true(predict(ctx, &c.desc).flops < 259.0 * 1024 * (1 << 20));
    lnt_ctx_destroy(ctx);
}

/* ---- states ---------------------------------------------------------------------------------- */

static void a_cache_with_a_window_stops_growing(void **state)
{
    (void)state;
    enum { W = 100 };
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c = case_make(LNT_SOFTMAX, 2, 1, 1000, 1000, 8, 8);
    c.desc.causal = 1;
    c.desc.softmax.window = W;
    trial t = trial_new(ctx, &c);
    lnt_state *s;
    lnt_tensor k;
    size_t bytes = 0;
    c.desc.length_q = c.desc.length_k = 0;
    assert_ok(ctx, lnt_state_create(ctx, &c.desc, &s));
    for (int64_t n = 0, count = 1; n + count <= 1000; n += count, count = 1 + n % 150) {
        const lnt_tensor q = tensor_rows(&t.q.t, n, count), ks = tensor_rows(&t.k.t, n, count);
        const lnt_tensor v = tensor_rows(&t.v.t, n, count), y = tensor_rows(&t.out.t, n, count);
        assert_ok(ctx, lnt_state_step(s, &q, &ks, &v, &y));
        if (n > 2 * W && !bytes) bytes = lnt_state_bytes(s);
        if (bytes) assert_true(lnt_state_bytes(s) == bytes);
    }
    assert_true(bytes > 0 && bytes < (size_t)(2 * W) * 16 * sizeof(float));
    assert_ok(ctx, lnt_state_tensor(s, 0, NULL, &k));
    const int64_t last = lnt_state_tokens(s, 0) - 1;
    for (int64_t r = 0; r < W; r++) /* the oldest first */
        assert_true(lnt_tensor_get(&k, 0, 0, r, 3) == lnt_tensor_get(&t.k.t, 0, 0, last - (W - 1) + r, 3));
    lnt_state_destroy(s);
    trial_free(&t);
    lnt_ctx_destroy(ctx);
}

static void a_state_refuses_queries_that_begin_with_the_keys(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c = case_make(LNT_SOFTMAX, 1, 1, 4, 4, 4, 4);
    lnt_state *s;
    c.desc.softmax.align_begin = 1;
    assert_refused(ctx, lnt_state_create(ctx, &c.desc, &s), LNT_ERR_ARGUMENT, "align_begin");
    lnt_ctx_destroy(ctx);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void the_other_mechanisms_refuse_each_option(void **state)
{
    (void)state;
    static const double slope[] = { 1 };
    static const lnt_softmax_options options[] = { { .window = 4 }, { .cap = 4 }, { .slopes = slope },
                                                   { .align_begin = 1 } };
    static const char *const names[] = { "softmax.window", "softmax.cap", "softmax.slopes",
                                         "softmax.align_begin" };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int m = LNT_LINEAR; m <= LNT_HYBRID; m++) {
        attn_case c = case_make((lnt_mechanism)m, 1, 1, 9, 9, 4, 4);
        lnt_plan *plan;
        for (int i = 0; i < COUNT_OF(options); i++) {
            c.desc.softmax = options[i];
            assert_refused(ctx, lnt_plan_create(ctx, &c.desc, &plan), LNT_ERR_UNSUPPORTED, names[i]);
        }
        c.desc.softmax = (lnt_softmax_options){ .window = 0 };
        plan = case_plan(ctx, &c, -1);
        c.mask = (mask_form){ .given = true };
        trial t = trial_new(ctx, &c);
        assert_refused(ctx, lnt_plan_forward(plan, &t.io), LNT_ERR_UNSUPPORTED, "mask");
        trial_free(&t);
        lnt_plan_destroy(plan);
    }
    lnt_ctx_destroy(ctx);
}

static void options_out_of_range_are_refused_by_name(void **state)
{
    (void)state;
    static const double slope[] = { (double)INFINITY };
    static const lnt_softmax_options options[] = {
        { .window = -1 }, { .window = INT64_MAX }, { .cap = -1 }, { .cap = (double)NAN }, { .cap = 1e39 },
        { .cap = 1e-39 }, { .slopes = slope }, { .reserved = { 0, 1 } }
    };
    static const char *const names[] = { "window", "window", "cap", "cap", "cap", "cap", "slope",
                                         "softmax.reserved[1]" };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(options); i++) {
        attn_case c = case_make(LNT_SOFTMAX, 1, 1, 4, 4, 4, 4);
        lnt_plan *plan;
        c.desc.softmax = options[i];
        assert_refused(ctx, lnt_plan_create(ctx, &c.desc, &plan), LNT_ERR_ARGUMENT, names[i]);
    }
    lnt_ctx_destroy(ctx);
}

static void masks_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    attn_case c = case_make(LNT_SOFTMAX, 2, 1, 3, 5, 4, 4);
    c.mask = (mask_form){ .given = true };
    lnt_plan *plan = case_plan(ctx, &c, -1);
    trial t = trial_new(ctx, &c);
    static const char *const axis[] = { "batch", "heads", "length of q", "length of k" };
    for (int i = 0; i < 4; i++) {
        lnt_attn_io io = t.io;
        io.mask.shape[i]++;
        assert_refused(ctx, lnt_plan_forward(plan, &io), LNT_ERR_SHAPE, axis[i]);
        io.mask.shape[i] = -1;
        assert_refused(ctx, lnt_plan_forward(plan, &io), LNT_ERR_SHAPE, "extent");
        io = t.io;
        io.mask.stride[i] = INT64_MIN;
        if (io.mask.shape[i] > 1) assert_refused(ctx, lnt_plan_forward(plan, &io), LNT_ERR_SHAPE, "mask");
    }
    lnt_attn_io io = t.io;
    io.mask.kind = (lnt_mask_kind)7;
    assert_refused(ctx, lnt_plan_forward(plan, &io), LNT_ERR_ARGUMENT, "kind is 7");
    io = t.io;
    io.mask.dtype = (lnt_dtype)7;
    assert_refused(ctx, lnt_plan_forward(plan, &io), LNT_ERR_DTYPE, "mask");
    for (int kind = 0; kind < 2; kind++) { /* in the room of the output */
        io = t.io;
        io.mask = lnt_mask_contiguous(t.out.t.data, (lnt_mask_kind)kind, LNT_F32, 1, 1, 3, 5);
        assert_refused(ctx, lnt_plan_forward(plan, &io), LNT_ERR_ARGUMENT, "overlaps mask");
    }
    trial_free(&t);
    lnt_plan_destroy(plan);
    lnt_ctx_destroy(ctx);
}

static void partials_need_no_distances(void **state)
{
    (void)state;
    static const double slope[] = { 1 };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < 2; i++) {
        attn_case c = case_make(LNT_SOFTMAX, 1, 1, 3, 3, 4, 4);
        if (i) c.desc.softmax.slopes = slope;
        else c.desc.softmax.window = 2;
        lnt_plan *plan = case_plan(ctx, &c, -1);
        trial t = trial_new(ctx, &c);
        float num[12], den[3], max[3];
        const lnt_partial p = { .size = sizeof p, .num = lnt_tensor_bhnd(num, LNT_F32, 1, 1, 3, 4),
                                .den = lnt_tensor_bhnd(den, LNT_F32, 1, 1, 3, 1),
                                .max = lnt_tensor_bhnd(max, LNT_F32, 1, 1, 3, 1) };
        assert_refused(ctx, lnt_plan_partial(plan, &t.io, &p), LNT_ERR_UNSUPPORTED, i ? "slopes" : "window");
        trial_free(&t);
        lnt_plan_destroy(plan);
    }
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cases_of_onnx_attention_match_the_oracle),
        cmocka_unit_test(a_window_a_cap_slopes_and_a_mask_are_as_linnet_h_says),
        cmocka_unit_test(a_query_that_is_masked_from_every_key_gives_zeros_and_no_gradient),
        cmocka_unit_test(keys_outside_the_window_are_not_touched),
        cmocka_unit_test(flops_count_the_pairs_that_are_seen),
        cmocka_unit_test(a_cache_with_a_window_stops_growing),
        cmocka_unit_test(a_state_refuses_queries_that_begin_with_the_keys),
        cmocka_unit_test(the_other_mechanisms_refuse_each_option),
        cmocka_unit_test(options_out_of_range_are_refused_by_name),
        cmocka_unit_test(masks_that_do_not_fit_are_refused),
        cmocka_unit_test(partials_need_no_distances),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
