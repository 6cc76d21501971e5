/* test_device_gradient_shapes.c - the gradients of every family of kernels on a GPU, in the manner of
 * test_device_shapes.c. */
#include "../support/shapes.h"

static const double two_decays[] = { 0.9, 0.999 };

static const char *type(lnt_dtype dtype) { return lnt_dtype_name(dtype); }

static const char *shape_of(const attn_case *c) { return c->desc.causal ? "causal" : "full"; }

/* Lengths, causal and not. */
static void each_lengths(const char *name, attn_case c)
{
    check_gradient_lengths(name_of("%s lengths, causal", name), c);
    c.desc.causal = 0;
    check_gradient_lengths(name_of("%s lengths, full", name), c);
}

static void each_map(const char *name, attn_case c)
{
    c.desc.linear.feature_map = LNT_MAP_RELU;
    check_gradients(name_of("%s relu", name), c, false);
    c.desc.linear.feature_map = LNT_MAP_EXP;
    check_gradients(name_of("%s exp", name), c, false);
}

/* ---- in the precision of f32 ----------------------------------------------------------------- */

static void f32_linear_and_softmax(lnt_dtype dtype)
{
    const char *t = type(dtype);
    check_widths(LNT_LINEAR, 571, dtype, name_of("%s linear", t), check_gradients);
    check_widths(LNT_SOFTMAX, 277, dtype, name_of("%s softmax", t), check_gradients);
    attn_case c = shape_make(LNT_SOFTMAX, 6, 20, 111, dtype);
    shape_share(&c, 2, 12);
    c.desc.length_k = 333;
    c.desc.scale = 1;
    check_gradients(name_of("%s softmax 20 -> 12, 6 heads on 2", t), c, true);
    each_lengths(name_of("%s softmax", t), c);
    c = shape_make(LNT_LINEAR, 6, 20, 100, dtype);
    shape_share(&c, 2, 12);
    c.desc.length_k = 711;
    check_gradients(name_of("%s linear 100 at the end of 711", t), c, false);
    c.desc.decay = two_decays;
    check_gradients(name_of("%s linear 100 at the end of 711, decay", t), c, false);
    check_gradient_lengths(name_of("%s linear lengths, decay", t), c);
    c.desc.length_q = c.desc.length_k = 700;
    c.desc.batch = 1;
    check_state_gradients(name_of("%s linear, states before and after, decay", t), c);
    check_gradient_parts(name_of("%s linear in two parts, decay", t), c, 401);
    each_map(name_of("%s linear", t), shape_make(LNT_LINEAR, 2, 64, 300, dtype));
}

static void f32(void **state)
{
    (void)state;
    if (!shapes_begin("f32")) return;
    f32_linear_and_softmax(LNT_F32);
    f32_linear_and_softmax(LNT_F16);
    shapes_end();
}

static void f32_taylor_widths(lnt_dtype dtype)
{
    static const int64_t widths[] = { 8, 16, 32, 64, 128 };
    for (int i = 0; i < COUNT_OF(widths) * 4; i++) {
        const int d = (int)widths[i / 4], terms = 1 + i % 4;
        const int tokens = d == 128 && terms == 4 ? 140 : d >= 64 ? 261 : 597;
        attn_case c = shape_make(LNT_TAYLOR, 2, d, tokens, dtype);
        c.desc.scale /= terms == 2 ? 4 : 2; /* so that denominators stay away from 0 */
        c.desc.taylor.terms = terms;
        c.desc.causal = terms % 2 == (d > 16);
        const char *name = name_of("%s taylor d %d P %d %s", type(dtype), d, terms, shape_of(&c));
        c.desc.algorithm = "state";
        check_gradients(name, c, terms == 3);
        c.desc.algorithm = "direct";
        c.desc.causal = !c.desc.causal;
        check_gradients(name, c, terms == 2);
    }
}

static void f32_taylor_in(lnt_dtype dtype)
{
    f32_taylor_widths(dtype);
    attn_case c = shape_make(LNT_TAYLOR, 6, 20, 611, dtype);
    shape_share(&c, 2, 13);
    c.desc.length_k = 711;
    c.desc.algorithm = "state";
    c.desc.scale /= 2;
    check_gradients(name_of("%s taylor 20 -> 13, 6 heads on 2, 611 at the end of 711", type(dtype)), c, true);
    check_gradient_lengths(name_of("%s taylor lengths, causal", type(dtype)), c);
    c.desc.causal = 0;
    check_gradient_lengths(name_of("%s taylor lengths, full", type(dtype)), c);
    for (int terms = 5; terms <= 8; terms++) {
        c = shape_make(LNT_TAYLOR, 4, 9, 333, dtype);
        c.desc.kv_heads = 2;
        c.desc.taylor.terms = terms;
        c.desc.algorithm = "state";
        c.desc.causal = terms % 2;
        check_gradients(name_of("%s taylor d 9 P %d", type(dtype), terms), c, false);
    }
    c = shape_make(LNT_TAYLOR, 4, 32, 500, dtype);
    shape_taylorshift(&c, 3, true);
    c.desc.algorithm = "state";
    c.desc.kv_heads = 2;
    check_gradients(name_of("%s taylorshift, temperatures, output norm, causal", type(dtype)), c, false);
    c.desc.causal = 0;
    c.desc.algorithm = "direct";
    check_gradients(name_of("%s taylorshift, temperatures, output norm, full", type(dtype)), c, true);
}

static void f32_taylor(void **state)
{
    (void)state;
    if (!shapes_begin("f32_taylor")) return;
    f32_taylor_in(LNT_F32);
    f32_taylor_in(LNT_F16);
    shapes_end();
}

/* ---- Taylor attention in two parts, with the state between them ------------------------------ */

static void parts_in(lnt_dtype dtype)
{
    attn_case c = shape_make(LNT_TAYLOR, 4, 16, 700, dtype);
    c.desc.kv_heads = 2;
    c.desc.algorithm = "state";
    c.desc.scale /= 2;
    check_gradient_parts(name_of("%s taylor d 16 in two parts", type(dtype)), c, 401);
    c = shape_make(LNT_TAYLOR, 2, 32, 600, dtype);
    c.desc.taylor.terms = 3;
    c.desc.algorithm = "state";
    c.desc.scale /= 2;
    check_gradient_parts(name_of("%s taylor d 32 P 3 in two parts", type(dtype)), c, 256);
    shape_taylorshift(&c, 3, false);
    check_gradient_parts(name_of("%s taylorshift d 32 in two parts", type(dtype)), c, 300);
    c = shape_make(LNT_TAYLOR, 2, 8, 500, dtype);
    c.desc.taylor.terms = 6;
    c.desc.algorithm = "state";
    c.desc.scale /= 2;
    check_gradient_parts(name_of("%s taylor d 8 P 6 in two parts", type(dtype)), c, 77);
}

static void parts(void **state)
{
    (void)state;
    if (!shapes_begin("parts")) return;
    parts_in(LNT_F32);
    parts_in(LNT_BF16);
    attn_case c = shape_make(LNT_TAYLOR, 2, 128, 261, LNT_BF16); /* what bf16 has no kernels for */
    c.desc.taylor.terms = 3;
    c.desc.algorithm = "state";
    check_gradients("bf16 taylor d 128 P 3", c, true);
    c = shape_make(LNT_TAYLOR, 4, 9, 333, LNT_BF16);
    c.desc.taylor.terms = 6;
    c.desc.algorithm = "state";
    check_gradients("bf16 taylor d 9 P 6", c, false);
    shapes_end();
}

/* ---- linear attention ------------------------------------------------------------------------ */

static void linear_options(void)
{
    attn_case c = shape_make(LNT_LINEAR, 4, 32, 300, LNT_BF16);
    c.desc.length_k = 400;
    c.desc.kv_heads = 2;
    each_lengths("linear", c);
    each_map("linear", shape_make(LNT_LINEAR, 2, 64, 300, LNT_BF16));
    c = shape_make(LNT_LINEAR, 2, 32, 700, LNT_BF16);
    check_state_gradients("linear, with states before and after", c);
    c.desc.kv_heads = 1;
    c.desc.decay = two_decays + 1;
    check_state_gradients("linear, with states before and after, decay", c);
    check_gradient_parts("linear in two parts, decay", c, 400);
}

static void linear(void **state)
{
    (void)state;
    if (!shapes_begin("linear")) return;
    check_widths(LNT_LINEAR, 571, LNT_BF16, "linear", check_gradients);
    attn_case c = shape_make(LNT_LINEAR, 3, 16, 1, LNT_BF16);
    c.desc.linear.eps = 1; /* with little of it y is v, and dq and dk are 0 */
    check_gradients("linear 1 token", c, false);
    c = shape_make(LNT_LINEAR, 6, 20, 411, LNT_BF16);
    shape_share(&c, 2, 12);
    check_gradients("linear 20 -> 12, 6 heads on 2, 411 tokens", c, true);
    c.desc.dim = 13;
    c.desc.dim_value = 29;
    check_gradients("linear 13 -> 29, 6 heads on 2, 411 tokens", c, true);
    c.desc.length_q = 100;
    c.desc.length_k = 711;
    check_gradients("linear 100 queries at the end of 711 keys", c, false);
    c.desc.causal = 0;
    check_gradients("linear 100 queries on 711 keys, full", c, false);
    c.desc.causal = 1;
    c.desc.decay = two_decays;
    check_gradients("linear with decay", c, false);
    check_gradient_lengths("linear lengths, decay", c);
    linear_options();
    shapes_end();
}

/* Odd numbers of tokens, widths, maps, layouts. */
static void boxes(void **state)
{
    (void)state;
    if (!shapes_begin("boxes")) return;
    static const int64_t tokens[] = { 2, 63, 64, 65, 257, 1100 };
    for (int i = 0; i < COUNT_OF(tokens); i++)
        check_gradients(name_of("linear boxes, %d tokens", (int)tokens[i]),
                        shape_make(LNT_LINEAR, 2, 64, tokens[i], LNT_BF16), tokens[i] % 2);
    attn_case c = shape_make(LNT_LINEAR, 3, 24, 411, LNT_BF16);
    shape_share(&c, 3, 48);
    check_gradients("linear boxes, 24 -> 48, 3 heads, batch 2", c, true);
    c.desc.dim = 64;
    c.desc.dim_value = 8;
    check_gradients("linear boxes, 64 -> 8, 3 heads, batch 2", c, false);
    each_map("linear boxes,", shape_make(LNT_LINEAR, 2, 48, 300, LNT_BF16));
    shapes_end();
}

/* ---- Taylor attention by tiles and by a state ------------------------------------------------ */

static void taylor_widths(void)
{
    static const int64_t widths[] = { 8, 16, 32, 64 };
    for (int i = 0; i < COUNT_OF(widths) * 8; i++) {
        const int d = (int)widths[i / 8], terms = 1 + i / 2 % 4;
        attn_case c = shape_make(LNT_TAYLOR, 2, d, d >= 64 ? 261 : 597, LNT_BF16);
        if (terms == 2) c.desc.scale /= 4; /* 1 + x: or denominators are near 0 */
        c.desc.taylor.terms = terms;
        c.desc.causal = i % 2;
        c.desc.algorithm = "state";
        check_gradients(name_of("taylor d %d P %d %s", d, terms, shape_of(&c)), c, terms == 3);
    }
}

static void taylor_shapes(void)
{
    attn_case c = shape_make(LNT_TAYLOR, 6, 20, 611, LNT_BF16);
    shape_share(&c, 2, 12);
    c.desc.algorithm = "state";
    c.desc.scale /= 2; /* P 4 is negative below -1.6: or one row of a denominator near 0 is most of dq, and
                        * bf16 weights alone, in double arithmetic, put it off by 2e-2 */
    check_gradients("taylor 20 -> 12, 6 heads on 2, 611 tokens", c, true);
    c.desc.length_q = 100;
    c.desc.length_k = 711;
    check_gradients("taylor 100 queries at the end of 711 keys", c, false);
    c.desc.causal = 0;
    check_gradients("taylor 100 queries on 711 keys, full", c, false);
    c.desc.causal = 1;
    c.desc.taylor.terms = 7;
    c.desc.algorithm = NULL;
    check_gradients("taylor P 7", c, false);
    check_gradients("taylor d 128", shape_make(LNT_TAYLOR, 2, 128, 211, LNT_BF16), false);
    check_gradients("taylor 2 tokens", shape_make(LNT_TAYLOR, 2, 16, 2, LNT_BF16), false);
}

static void taylor_options(void)
{
    attn_case c = shape_make(LNT_TAYLOR, 4, 32, 500, LNT_BF16);
    shape_taylorshift(&c, 3, true);
    c.desc.algorithm = "state";
    check_gradients("taylorshift, temperatures, output norm, causal", c, false);
    c.desc.causal = 0;
    check_gradients("taylorshift, temperatures, output norm, full", c, false);
    c.desc.algorithm = "direct";
    c.desc.kv_heads = 2;
    check_gradients("taylorshift, temperatures, output norm, full", c, true);
    c = shape_make(LNT_TAYLOR, 2, 16, 500, LNT_BF16);
    c.desc.length_k = 700;
    c.desc.algorithm = "state";
    each_lengths("taylor", c);
}

static void taylor_positive(void)
{
    static const int64_t widths[] = { 8, 16, 32, 64 };
    attn_case c = shape_make(LNT_TAYLOR, 8, 32, 256, LNT_BF16);
    c.desc.algorithm = "direct";
    check_gradients_of("taylor d 32, q and k above 0", c, false, true, 0);
    c = shape_make(LNT_TAYLOR, 1, 32, 4096, LNT_BF16);
    c.desc.algorithm = "state";
    check_gradients_of("taylor d 32, q and k above 0", c, false, true, 0);
    for (int i = 0; i < COUNT_OF(widths) * 2; i++) {
        const int d = (int)widths[i / 2];
        c = shape_make(LNT_TAYLOR, 2, d, d == 64 ? 700 : 1500, LNT_BF16);
        c.desc.algorithm = "state";
        c.desc.causal = i % 2;
        c.desc.taylor.terms = d == 16 ? 3 : 4;
        check_gradients_of(name_of("taylor d %d %s, q and k above 0", d, shape_of(&c)), c, true, true, 0);
    }
}

static void taylor(void **state)
{
    (void)state;
    if (!shapes_begin("taylor")) return;
    taylor_widths();
    taylor_shapes();
    taylor_options();
    taylor_positive();
    shapes_end();
}

/* ---- Taylor attention by pairs: segments, odd numbers of tokens, widths, lengths ------------- */

static attn_case pairs_case(int64_t heads, int64_t dim, int64_t tokens)
{
    attn_case c = shape_make(LNT_TAYLOR, heads, dim, tokens, LNT_BF16);
    c.desc.algorithm = "state:pairs";
    return c;
}

static void pairs_kept(void)
{
    attn_case c = pairs_case(3, 27, 1500);
    shape_share(&c, 3, 30);
    check_kept("taylor pairs after forward", c, 0);
    check_kept("taylor pairs after forward, mean 2", c, 2);
    shape_taylorshift(&c, 4, false);
    c.desc.taylor.output_norm = 1;
    check_kept("taylor pairs after forward, taylorshift, output norm, mean 1", c, 1);
    check_kept("taylor pairs after forward, one segment", pairs_case(2, 32, 900), 1);
    c = shape_make(LNT_TAYLOR, 4, 20, 700, LNT_BF16);
    c.desc.kv_heads = 2;
    c.desc.algorithm = "state";
    check_kept("taylor after forward, 4 heads on 2", c, 1);
}

static void pairs(void **state)
{
    (void)state;
    if (!shapes_begin("pairs")) return;
    static const int64_t tokens[] = { 2, 700, 1025, 2600 };
    for (int i = 0; i < COUNT_OF(tokens); i++)
        check_gradients(name_of("taylor pairs, %d tokens", (int)tokens[i]), pairs_case(2, 32, tokens[i]),
                        tokens[i] % 2);
    check_gradients_of("taylor pairs, q and k above 0", pairs_case(2, 32, 2600), false, true, 0);
    attn_case c = pairs_case(3, 27, 1500);
    shape_share(&c, 3, 30);
    check_gradients("taylor pairs 27 -> 30, 3 heads, batch 2", c, true);
    c = pairs_case(2, 32, 600);
    c.desc.length_k = 2300;
    check_gradients("taylor pairs, 600 queries at the end of 2300 keys", c, false);
    check_gradient_lengths("taylor pairs, lengths", c);
    c = pairs_case(2, 32, 2100);
    shape_taylorshift(&c, 4, false);
    c.desc.taylor.output_norm = 1;
    check_gradients("taylor pairs, taylorshift, output norm", c, false);
    check_gradients("taylor pairs, 40 heads", pairs_case(40, 32, 1100), false); /* several sets a block */
    c = pairs_case(4, 32, 1300);
    c.desc.kv_heads = 2;
    check_gradients("taylor pairs, 4 heads on 2: by tiles", c, true);
    pairs_kept();
    shapes_end();
}

/* ---- softmax --------------------------------------------------------------------------------- */

static void softmax(void **state)
{
    (void)state;
    if (!shapes_begin("softmax")) return;
    check_widths(LNT_SOFTMAX, 277, LNT_BF16, "softmax", check_gradients);
    attn_case c = shape_make(LNT_SOFTMAX, 6, 20, 111, LNT_BF16);
    shape_share(&c, 2, 12);
    c.desc.length_k = 333;
    c.desc.scale = 1;
    check_gradients("softmax 20 -> 12, 6 heads on 2, scale 1", c, true);
    each_lengths("softmax", c);
    shapes_end();
}

/* ---- values whose mean is not small beside their spread -------------------------------------- */

static void check_mean(const char *what, attn_case c, double mean)
{
    const bool positive = mean == 1 || mean == 16;
    check_gradients_of(name_of("taylor %s, mean %g%s", what, mean, positive ? ", q and k above 0" : ""), c,
                       positive, positive, mean);
}

static void mean_of(double mean)
{
    attn_case c = shape_make(LNT_TAYLOR, 2, 16, 512, LNT_BF16);
    c.desc.causal = 0;
    c.desc.algorithm = "state";
    check_mean("d 16 full", c, mean);
    c = shape_make(LNT_TAYLOR, 4, 16, 1500, LNT_BF16);
    c.desc.kv_heads = 2;
    c.desc.algorithm = "state";
    check_mean("d 16 causal, 4 heads on 2", c, mean);
    c = shape_make(LNT_TAYLOR, 1, 13, 2100, LNT_BF16);
    c.desc.dim_value = 10;
    c.desc.algorithm = "state";
    c.desc.causal = 0;
    c.desc.taylor.terms = 3;
    check_mean("13 -> 10 full, P 3", c, mean);
    c = shape_make(LNT_TAYLOR, 1, 32, 700, LNT_BF16);
    c.desc.causal = 0;
    c.desc.algorithm = "state";
    check_mean("d 32 full", c, mean);
    check_mean("pairs", pairs_case(2, 32, 2600), mean);
    c = shape_make(LNT_TAYLOR, 1, 64, 300, LNT_BF16);
    c.desc.causal = 0;
    c.desc.algorithm = "state";
    check_mean("d 64 full", c, mean);
}

static void mean(void **state)
{
    (void)state;
    if (!shapes_begin("mean")) return;
    static const double means[] = { 0.25, 1, 4, 16 };
    for (int i = 0; i < COUNT_OF(means); i++) mean_of(means[i]);
    attn_case c = shape_make(LNT_TAYLOR, 2, 32, 700, LNT_BF16);
    c.desc.causal = 0;
    c.desc.algorithm = "state";
    check_gradients_of("taylor d 32 full, mean 1", c, true, false, 1);
    c = shape_make(LNT_TAYLOR, 1, 16, 300, LNT_BF16);
    c.desc.algorithm = "direct";
    check_gradients_of("taylor d 16 direct, mean 4", c, true, false, 4);
    shapes_end();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32),    cmocka_unit_test(f32_taylor), cmocka_unit_test(parts),
        cmocka_unit_test(linear), cmocka_unit_test(boxes),      cmocka_unit_test(taylor),
        cmocka_unit_test(pairs),  cmocka_unit_test(softmax),    cmocka_unit_test(mean),
    };
    shapes_select(argc, argv);
    if (!device_open()) return DEVICE_MISSING;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close();
    return failed;
}
