/* test_desc.c - every field of a descriptor and of an io that is out of range is refused, with a
 * sentence that names it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/case.h"

/* A descriptor that is fine. */
static lnt_attn_desc good(lnt_mechanism mechanism)
{
    attn_case c = case_make(mechanism, 4, 2, 8, 8, 4, 3);
    return c.desc;
}

/* Holds that a plan, a state and the oracle refuse it alike, and that none is made. */
static void expect_refused(lnt_ctx *ctx, const lnt_attn_desc *desc, lnt_status status,
                           const char *word)
{
    lnt_plan *plan = (lnt_plan *)&plan;
    lnt_state *memory = (lnt_state *)&memory;
    double y[3];
    const lnt_attn_io io = { .size = sizeof io };
    assert_refused(ctx, lnt_plan_create(ctx, desc, &plan), status, word);
    assert_null(plan);
    assert_refused(ctx, lnt_state_create(ctx, desc, &memory), status, word);
    assert_null(memory);
    assert_refused(ctx, lnt_reference_row(ctx, desc, &io, 0, 0, 0, y), status, word);
}

static void the_defaults_are_those_of_the_header(void **state)
{
    (void)state;
    lnt_attn_desc d;
    assert_int_equal(lnt_attn_desc_init(&d, sizeof d - 1), LNT_ERR_ARGUMENT);
    assert_int_equal(lnt_attn_desc_init(NULL, sizeof d), LNT_ERR_ARGUMENT);
    memset(&d, 0xff, sizeof d);
    assert_int_equal(lnt_attn_desc_init(&d, sizeof d), LNT_OK);
    assert_int_equal(d.size, sizeof d);
    assert_int_equal(d.mechanism, LNT_SOFTMAX);
    assert_int_equal(d.dtype, LNT_F32);
    assert_int_equal(d.batch, 1);
    assert_int_equal(d.heads, 1);
    assert_int_equal(d.kv_heads, 0);
    assert_int_equal(d.length_q, 0);
    assert_int_equal(d.length_k, -1);
    assert_int_equal(d.dim_value, 0);
    assert_int_equal(d.causal, 0);
    assert_int_equal(d.backward, 0);
    assert_null(d.algorithm);
    assert_true(isnan(d.scale));
    assert_int_equal(d.linear.feature_map, LNT_MAP_ELU1);
    assert_int_equal(d.linear.features, 0);
    assert_true(d.linear.eps == 1e-6);
    assert_null(d.decay);
    assert_int_equal(d.cur.select, LNT_SELECT_STEP);
    assert_int_equal(d.cur.landmarks, 0);
    assert_int_equal(d.cur.pinv, LNT_PINV_ITERATE);
    assert_int_equal(d.cur.pinv_iterations, 0);
    assert_int_equal(d.cur.pinv_init, LNT_PINV_NORMS);
    assert_true(d.cur.ridge == 1e-5);
    assert_null(d.cur.pin);
    assert_int_equal(d.cur.pins, 0);
}

static void every_integer_out_of_range_is_named(void **state)
{
    (void)state;
    static const struct {
        size_t offset;
        int64_t value;
        const char *word;
    } bad[] = {
        { offsetof(lnt_attn_desc, batch), -1, "batch is -1" },
        { offsetof(lnt_attn_desc, batch), INT64_MAX, "batch is 9223372036854775807" },
        { offsetof(lnt_attn_desc, heads), -2, "heads is -2" },
        { offsetof(lnt_attn_desc, kv_heads), 3, "kv_heads is 3" },
        { offsetof(lnt_attn_desc, kv_heads), 8, "kv_heads is 8" },
        { offsetof(lnt_attn_desc, kv_heads), -1, "kv_heads is -1" },
        { offsetof(lnt_attn_desc, length_q), -1, "length_q is -1" },
        { offsetof(lnt_attn_desc, length_k), -2, "length_k is -2" },
        { offsetof(lnt_attn_desc, dim), 0, "dim is 0" },
        { offsetof(lnt_attn_desc, dim), -5, "dim is -5" },
        { offsetof(lnt_attn_desc, dim), INT64_MAX, "dim is 9223372036854775807" },
        { offsetof(lnt_attn_desc, dim_value), -1, "dim_value is -1" },
        { offsetof(lnt_attn_desc, linear.features), -2, "features is -2" },
        { offsetof(lnt_attn_desc, linear.features), 7, "features is 7" },
    };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(bad); i++) {
        lnt_attn_desc d = good(LNT_LINEAR);
        d.linear.feature_map = LNT_MAP_FOURIER; /* where `features` counts */
        memcpy((char *)&d + bad[i].offset, &bad[i].value, sizeof bad[i].value);
        expect_refused(ctx, &d, LNT_ERR_ARGUMENT, bad[i].word);
    }
    lnt_ctx_destroy(ctx);
}

static void every_real_out_of_range_is_named(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_attn_desc d = good(LNT_SOFTMAX);
    d.scale = INFINITY;
    expect_refused(ctx, &d, LNT_ERR_ARGUMENT, "scale");
    d.scale = -INFINITY;
    expect_refused(ctx, &d, LNT_ERR_ARGUMENT, "scale");
    const double bad_eps[] = { -1e-9, NAN, INFINITY };
    for (int i = 0; i < COUNT_OF(bad_eps); i++) {
        d = good(LNT_LINEAR);
        d.linear.eps = bad_eps[i];
        expect_refused(ctx, &d, LNT_ERR_ARGUMENT, "eps is");
    }
    const double bad_decay[] = { 0, -0.5, 1.0000001, NAN, INFINITY };
    for (int i = 0; i < COUNT_OF(bad_decay); i++) {
        const double decay[] = { 0.5, bad_decay[i] };
        d = good(LNT_LINEAR);
        d.causal = 1;
        d.decay = decay;
        expect_refused(ctx, &d, LNT_ERR_ARGUMENT, "decay of kv head 1");
    }
    lnt_ctx_destroy(ctx);
}

static void what_only_a_double_holds_is_refused_but_for_f64(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    static const char *const names[] = { "scale is", "eps is", "coefficient 2 is",
                                         "temperature of head 3 is",
                                         "center: number 1 of kv head 1 is" };
    for (int dtype = LNT_F32; dtype <= LNT_F64; dtype++)
        for (int i = 0; i < COUNT_OF(names); i++) {
            const double huge = i == 1 ? 1e39 : -1e39;
            double coefficients[] = { 1, 1, 1 }, temperature[] = { 1, 1, 1, 1 }, center[8] = { 0 };
            lnt_attn_desc d = good(i == 1 ? LNT_LINEAR : LNT_TAYLOR);
            char says[80];
            lnt_plan *plan;
            d.dtype = (lnt_dtype)dtype;
            d.taylor.terms = 3;
            if (i == 0) d.scale = huge;
            if (i == 1) d.linear.eps = huge;
            if (i == 2) d.taylor.coefficients = coefficients, coefficients[2] = huge;
            if (i == 3) d.taylor.temperature = temperature, temperature[3] = huge;
            if (i == 3) d.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT;
            if (i == 4) d.taylor.center = center, center[5] = huge;
            if (dtype == LNT_F64) {
                assert_ok(ctx, lnt_plan_create(ctx, &d, &plan));
                lnt_plan_destroy(plan);
                continue;
            }
            snprintf(says, sizeof says, "%s %g, must be %s to 3.40282e+38", names[i], huge,
                     i == 1 ? "0" : "-3.40282e+38");
            expect_refused(ctx, &d, LNT_ERR_ARGUMENT, says);
        }
    lnt_ctx_destroy(ctx);
}

static void every_wrong_center_is_named(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_attn_desc d = good(LNT_TAYLOR);
    double *center = calloc((size_t)(2 * d.dim), sizeof *center); /* two kv heads */
    assert_non_null(center);
    d.taylor.center = center;
    d.taylor.center_mean = 1;
    expect_refused(ctx, &d, LNT_ERR_ARGUMENT, "center and center_mean");
    d.taylor.center = NULL;
    d.causal = 1;
    expect_refused(ctx, &d, LNT_ERR_ARGUMENT, "not with causal");
    d.causal = 0;
    d.state = 1;
    expect_refused(ctx, &d, LNT_ERR_ARGUMENT, "not with a state");
    d.state = 0;
    d.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT;
    expect_refused(ctx, &d, LNT_ERR_ARGUMENT, "normalize must be none");
    d = good(LNT_TAYLOR);
    d.taylor.center = center;
    center[d.dim + 1] = NAN;
    expect_refused(ctx, &d, LNT_ERR_ARGUMENT, "number 1 of kv head 1 is");
    free(center);
    lnt_state *s;
    d = good(LNT_TAYLOR);
    d.taylor.center_mean = 1;
    assert_refused(ctx, lnt_state_create(ctx, &d, &s), LNT_ERR_ARGUMENT, "center_mean");
    lnt_ctx_destroy(ctx);
}

static void every_unknown_choice_is_named(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_attn_desc d = good(LNT_LINEAR);
    d.mechanism = (lnt_mechanism)77;
    expect_refused(ctx, &d, LNT_ERR_ARGUMENT, "mechanism is 77");
    d = good(LNT_LINEAR);
    d.dtype = (lnt_dtype)9;
    expect_refused(ctx, &d, LNT_ERR_DTYPE, "dtype is 9");
    d = good(LNT_LINEAR);
    d.linear.feature_map = (lnt_feature_map)77;
    expect_refused(ctx, &d, LNT_ERR_ARGUMENT, "feature_map is 77");
    assert_null(lnt_feature_map_name((lnt_feature_map)(LAST_MAP + 1))); /* else case.h misses one */
    d = good(LNT_CUR);
    d.cur.pinv = (lnt_pinv)-1;
    expect_refused(ctx, &d, LNT_ERR_ARGUMENT, "pinv is -1, must be iterate, ridge or tuned");
    d = good(LNT_LINEAR);
    d.size--;
    expect_refused(ctx, &d, LNT_ERR_ARGUMENT, "size");
    expect_refused(ctx, NULL, LNT_ERR_ARGUMENT, "desc is NULL");
    double gflops;
    assert_refused(ctx, lnt_measure_flops(ctx, (lnt_dtype)7, &gflops), LNT_ERR_DTYPE, "dtype is 7");

    lnt_plan *plan;
    d = good(LNT_LINEAR);
    d.algorithm = "linear/magic";
    assert_refused(ctx, lnt_plan_create(ctx, &d, &plan), LNT_ERR_ARGUMENT, "linear/magic");
    d.algorithm = "";
    assert_refused(ctx, lnt_plan_create(ctx, &d, &plan), LNT_ERR_ARGUMENT, "algorithm");
    for (int a = 0; lnt_algorithm_name(a); a++) { /* one of another mechanism */
        d = good(lnt_algorithm_mechanism(a) == LNT_LINEAR ? LNT_SOFTMAX : LNT_LINEAR);
        d.algorithm = lnt_algorithm_name(a);
        assert_refused(ctx, lnt_plan_create(ctx, &d, &plan), LNT_ERR_ARGUMENT, d.algorithm);
        assert_null(plan);
    }
    lnt_ctx_destroy(ctx);
}

static void a_name_without_its_mechanism_is_enough(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    int made = 0;
    for (int a = 0; lnt_algorithm_name(a); a++) {
        lnt_attn_desc d = good(lnt_algorithm_mechanism(a));
        d.causal = 1;
        d.algorithm = strchr(lnt_algorithm_name(a), '/') + 1;
        lnt_plan *plan;
        const lnt_status status = lnt_plan_create(ctx, &d, &plan);
        if (status == LNT_ERR_UNSUPPORTED) continue;
        assert_ok(ctx, status);
        lnt_plan_info info = { .size = sizeof info };
        assert_ok(ctx, lnt_plan_describe(plan, &info));
        assert_string_equal(info.algorithm, lnt_algorithm_name(a));
        info.size--;
        assert_refused(ctx, lnt_plan_describe(plan, &info), LNT_ERR_ARGUMENT, "size");
        assert_refused(ctx, lnt_plan_describe(plan, NULL), LNT_ERR_ARGUMENT, "info is NULL");
        lnt_plan_destroy(plan);
        made++;
    }
    assert_true(made > 1);
    lnt_ctx_destroy(ctx);
}

static void combinations_that_mean_nothing_are_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_plan *plan;
    lnt_attn_desc d = good(LNT_SOFTMAX);
    d.causal = 1;
    d.length_q = 9;
    assert_refused(ctx, lnt_plan_create(ctx, &d, &plan), LNT_ERR_ARGUMENT, "length_q is 9");
    const double decay[] = { 0.5, 0.5 };
    d = good(LNT_LINEAR);
    d.decay = decay;
    const lnt_status status = lnt_plan_create(ctx, &d, &plan);
    assert_true(status == LNT_ERR_ARGUMENT || status == LNT_ERR_UNSUPPORTED);
    assert_refused(ctx, status, status, "decay");
    assert_null(plan);
    assert_int_equal(lnt_plan_create(NULL, &d, &plan), LNT_ERR_ARGUMENT);
    assert_refused(ctx, lnt_plan_create(ctx, &d, NULL), LNT_ERR_ARGUMENT, "out");
    lnt_ctx_destroy(ctx);
}

/* What is asked for and not done must not look done. */
static void compensated_sums_are_refused_where_there_are_none(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    static const char *const words[] = { "softmax has no compensated", NULL, NULL,
                                         "cur has no compensated", "hybrid has no compensated" };
    for (int i = 0; i < COUNT_OF(words); i++) {
        lnt_attn_desc d = good((lnt_mechanism)i);
        lnt_plan *plan;
        d.compensated = 1;
        if (words[i]) {
            expect_refused(ctx, &d, LNT_ERR_UNSUPPORTED, words[i]);
        } else {
            assert_ok(ctx, lnt_plan_create(ctx, &d, &plan));
            lnt_plan_destroy(plan);
        }
    }
    lnt_ctx_destroy(ctx);
}

/* ---- one run ------------------------------------------------------------------------------- */

typedef struct harness {
    lnt_ctx *ctx;
    attn_case c;
    lnt_plan *plan;
    trial t;
} harness;

static void expect_io_refused(harness *x, const lnt_attn_io *io, lnt_status status,
                              const char *word)
{
    assert_refused(x->ctx, lnt_plan_forward(x->plan, io), status, word);
    expect_true(&x->c, NULL, x->ctx, "a refused run wrote", block_guard_intact(&x->t.out));
    for (int64_t i = 0; i < tensor_elements(&x->t.out.t); i++)
        assert_true(tensor_at(&x->t.out.t, i) == 55);
}

static void harness_open(harness *x, lnt_mechanism mechanism)
{
    x->ctx = context_new(1, NULL);
    x->c = case_make(mechanism, 4, 2, 8, 8, 4, 3);
    x->c.desc.batch = 2;
    x->c.desc.causal = 1;
    x->plan = case_plan(x->ctx, &x->c, -1);
    x->t = trial_new(x->ctx, &x->c);
    tensor_fill(&x->t.out.t, 55);
}

static void harness_close(harness *x)
{
    trial_free(&x->t);
    lnt_plan_destroy(x->plan);
    lnt_ctx_destroy(x->ctx);
}

static void every_tensor_that_does_not_fit_is_named(void **state)
{
    (void)state;
    harness x;
    harness_open(&x, LNT_LINEAR);
    static const char *const names[] = { "q", "k", "v", "out" };
    for (int i = 0; i < 4; i++)
        for (int axis = 0; axis < 4; axis++) {
            lnt_attn_io io = x.t.io;
            lnt_tensor *const all[] = { &io.q, &io.k, &io.v, &io.out };
            if (i == 0 && axis == 0) continue; /* q's batch is what the others are held against */
            if (i < 2 && axis == 2) continue;  /* lengths of q and k are free */
            all[i]->shape[axis]--;
            expect_io_refused(&x, &io, LNT_ERR_SHAPE, names[i]);
            io = x.t.io;
            all[i]->dtype = LNT_BF16;
            expect_io_refused(&x, &io, LNT_ERR_DTYPE, names[i]);
            io = x.t.io;
            all[i]->data = NULL;
            expect_io_refused(&x, &io, LNT_ERR_ARGUMENT, names[i]);
        }
    lnt_attn_io io = x.t.io;
    void *small = calloc(1, sizeof(size_t)); /* of another version: a checker sees a read beyond it */
    assert_non_null(small);
    memset(small, 1, 1);
    expect_io_refused(&x, small, LNT_ERR_ARGUMENT, "size of lnt_attn_io is 1, must be");
    free(small);
    expect_io_refused(&x, NULL, LNT_ERR_ARGUMENT, "io");
    io = x.t.io;
    io.q.shape[0] = io.k.shape[0] = io.v.shape[0] = io.out.shape[0] = 3;
    expect_io_refused(&x, &io, LNT_ERR_SHAPE, "batch");
    io = x.t.io;
    io.k.shape[2] = io.v.shape[2] = 9;
    expect_io_refused(&x, &io, LNT_ERR_SHAPE, "length of k is 9");
    io = x.t.io;
    io.k.shape[2] = io.v.shape[2] = 7;
    expect_io_refused(&x, &io, LNT_ERR_SHAPE, "causal");
    harness_close(&x);
}

static void every_length_out_of_range_is_named(void **state)
{
    (void)state;
    harness x;
    harness_open(&x, LNT_SOFTMAX);
    const int64_t fine[] = { 3, 4 }, negative[] = { 3, -1 }, more[] = { 9, 4 }, fewer[] = { 3, 3 };
    lnt_attn_io io = x.t.io;
    io.lengths_q = negative;
    io.lengths_k = fine;
    expect_io_refused(&x, &io, LNT_ERR_ARGUMENT, "lengths_q[1] is -1");
    io.lengths_q = fine;
    io.lengths_k = more;
    expect_io_refused(&x, &io, LNT_ERR_ARGUMENT, "lengths_k[0] is 9");
    io.lengths_k = fewer; /* causal: 4 queries, 3 keys */
    expect_io_refused(&x, &io, LNT_ERR_SHAPE, "sequence 1");
    harness_close(&x);
}

static void every_packing_out_of_range_is_named(void **state)
{
    (void)state;
    harness x;
    harness_open(&x, LNT_SOFTMAX);
    const int64_t fine[] = { 0, 3, 8 }, back[] = { 0, 3, 2 }, over[] = { 0, 3, 9 },
                  under[] = { -1, 3, 8 }, fewer[] = { 0, 2, 8 };
    lnt_attn_io io = x.t.io;
    io.sequences = 2;
    io.cu_seqlens_q = io.cu_seqlens_k = fine;
    expect_io_refused(&x, &io, LNT_ERR_SHAPE, "batch is 2");
    io.q.shape[0] = io.k.shape[0] = io.v.shape[0] = io.out.shape[0] = 1;
    io.cu_seqlens_q = back;
    expect_io_refused(&x, &io, LNT_ERR_ARGUMENT, "cu_seqlens_q[2] is 2");
    io.cu_seqlens_q = over;
    expect_io_refused(&x, &io, LNT_ERR_ARGUMENT, "cu_seqlens_q[2] is 9");
    io.cu_seqlens_q = under;
    expect_io_refused(&x, &io, LNT_ERR_ARGUMENT, "cu_seqlens_q[0] is -1");
    io.cu_seqlens_q = NULL;
    expect_io_refused(&x, &io, LNT_ERR_ARGUMENT, "cu_seqlens_q");
    io.cu_seqlens_q = fine;
    io.cu_seqlens_k = fewer; /* causal: 3 queries, 2 keys */
    expect_io_refused(&x, &io, LNT_ERR_SHAPE, "sequence 0");
    io.cu_seqlens_k = fine;
    io.lengths_q = fine;
    expect_io_refused(&x, &io, LNT_ERR_ARGUMENT, "lengths");
    io.lengths_q = NULL;
    io.sequences = -1;
    expect_io_refused(&x, &io, LNT_ERR_ARGUMENT, "sequences is -1");
    harness_close(&x);
}

static void a_state_that_does_not_fit_is_named(void **state)
{
    (void)state;
    for (int mechanism = 0; mechanism < 2; mechanism++) {
        harness x;
        harness_open(&x, (lnt_mechanism)mechanism);
        lnt_attn_desc other = x.c.desc;
        if (mechanism == LNT_LINEAR) other.dim_value++; /* softmax runs take no state at all */
        lnt_state *s;
        assert_ok(x.ctx, lnt_state_create(x.ctx, &other, &s));
        lnt_attn_io io = x.t.io;
        io.state_in = s;
        lnt_status status = lnt_plan_forward(x.plan, &io);
        assert_true(status != LNT_OK);
        expect_io_refused(&x, &io, status, "state_in");
        io.state_in = NULL;
        io.state_out = s;
        status = lnt_plan_forward(x.plan, &io);
        assert_true(status != LNT_OK);
        expect_io_refused(&x, &io, status, "state_out");
        lnt_state_destroy(s);
        harness_close(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_are_those_of_the_header),
        cmocka_unit_test(every_integer_out_of_range_is_named),
        cmocka_unit_test(every_real_out_of_range_is_named),
        cmocka_unit_test(what_only_a_double_holds_is_refused_but_for_f64),
        cmocka_unit_test(every_wrong_center_is_named),
        cmocka_unit_test(every_unknown_choice_is_named),
        cmocka_unit_test(a_name_without_its_mechanism_is_enough),
        cmocka_unit_test(combinations_that_mean_nothing_are_refused),
        cmocka_unit_test(compensated_sums_are_refused_where_there_are_none),
        cmocka_unit_test(every_tensor_that_does_not_fit_is_named),
        cmocka_unit_test(every_length_out_of_range_is_named),
        cmocka_unit_test(every_packing_out_of_range_is_named),
        cmocka_unit_test(a_state_that_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
