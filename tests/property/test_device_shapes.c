/* test_device_shapes.c - forward, steps and states of every family of kernels on a GPU, in shapes that
 * reach their corners: widths between, few tokens and odd ones, heads that share, lengths, parts, and forms
 * of an algorithm that a planner would not choose.  Where there is no GPU this says so and exits with 77; it
 * also runs upon the fake plug-in, a few of its problems. */
#include "../support/shapes.h"

static const double two_decays[] = { 0.9, 0.999 };

static const char *type(lnt_dtype dtype) { return lnt_dtype_name(dtype); }

/* ---- steps ----------------------------------------------------------------------------------- */

static void step(void **state)
{
    (void)state;
    if (!shapes_begin("step")) return;
    attn_case c = shape_make(LNT_TAYLOR, 4, 8, 24, LNT_BF16);
    c.desc.taylor.terms = 8;
    check_steps("step taylor d 8 P 8, one at a time", c, 0, 1);
    check_steps("step taylor d 64 P 4, 7 at a time", shape_make(LNT_TAYLOR, 4, 64, 9, LNT_BF16), 0, 7);
    c = shape_make(LNT_TAYLOR, 6, 20, 40, LNT_BF16);
    c.desc.kv_heads = 2;
    c.desc.dim_value = 13;
    check_steps("step taylor 20 -> 13, 6 heads on 2", c, 0, 1);
    c = shape_make(LNT_TAYLOR, 10, 16, 700, LNT_BF16);
    c.desc.kv_heads = 1;
    c.desc.algorithm = "state";
    check_steps("taylor 680 tokens forward, 20 in steps, 10 heads on 1", c, 680, 1);
    c = shape_make(LNT_LINEAR, 4, 64, 700, LNT_BF16);
    check_steps("linear 650 tokens forward, 50 in steps of 4", c, 650, 4);
    c = shape_make(LNT_LINEAR, 4, 24, 60, LNT_BF16);
    c.desc.kv_heads = 2;
    c.desc.decay = two_decays;
    check_steps("step linear with decay, 4 heads on 2", c, 0, 1);
    c = shape_make(LNT_TAYLOR, 2, 8, 6, LNT_BF16);
    check_slots("states in slots 3 and 1, forked, reset, forked back", c);
    shapes_end();
}

/* ---- Taylor attention by a state ------------------------------------------------------------- */

static void taylor_lengths(attn_case c)
{
    check_lengths("taylor lengths, causal", c, 0);
    c.desc.causal = 0;
    check_lengths("taylor lengths, full", c, 0);
}

static void taylor(void **state)
{
    (void)state;
    if (!shapes_begin("taylor")) return;
    static const int64_t widths[] = { 8, 16, 32, 64, 128 };
    for (int i = 0; i < COUNT_OF(widths) * 8; i++) {
        const int d = (int)widths[i / 8], terms = 1 + i / 2 % 4, causal = i % 2;
        attn_case c = shape_make(LNT_TAYLOR, 2, d, d >= 64 ? 700 : 1500, LNT_BF16);
        if (terms == 2) c.desc.scale /= 4; /* 1 + x: so that denominators stay away from 0 */
        c.desc.taylor.terms = terms;
        c.desc.causal = causal;
        c.desc.algorithm = "state";
        check_forward(name_of("taylor d %d P %d%s", d, terms, causal ? " causal" : " full"), c, terms == 3);
    }
    attn_case c = shape_make(LNT_TAYLOR, 6, 20, 1111, LNT_BF16);
    shape_share(&c, 2, 12);
    c.desc.algorithm = "state";
    check_forward("taylor 20 -> 12, 6 heads on 2, 1111 tokens", c, true);
    c.desc.length_q = 300;
    c.desc.length_k = 1811;
    check_forward("taylor 300 queries at the end of 1811 keys", c, false);
    c.desc.causal = 0;
    check_forward("taylor 300 queries on 1811 keys, full", c, false);
    c.desc.causal = 1;
    c.desc.taylor.terms = 7;
    c.desc.algorithm = NULL;
    check_forward("taylor P 7", c, false);
    check_forward("taylor 1 token", shape_make(LNT_TAYLOR, 3, 16, 1, LNT_BF16), false);
    c = shape_make(LNT_TAYLOR, 4, 32, 1000, LNT_BF16);
    shape_taylorshift(&c, 3, true);
    c.desc.algorithm = "state";
    check_forward("taylorshift, temperatures, output norm, causal", c, false);
    c.desc.causal = 0;
    check_forward("taylorshift, temperatures, output norm, full", c, false);
    c = shape_make(LNT_TAYLOR, 2, 16, 900, LNT_BF16);
    c.desc.length_k = 1200;
    c.desc.algorithm = "state";
    taylor_lengths(c);
    shapes_end();
}

/* ---- Taylor attention by orbits -------------------------------------------------------------- */

static void orbits_of_few_tokens(void)
{
    static const int64_t tokens[] = { 1, 15, 16, 17, 63, 65, 129, 257, 1009, 4099 };
    for (int64_t d = 8; d <= 32; d *= 2)
        for (int i = 0; i < COUNT_OF(tokens); i++) {
            const int64_t n = tokens[i];
            attn_case c = shape_make(LNT_TAYLOR, 3, d, n, LNT_BF16);
            c.desc.taylor.terms = d == 32 ? 3 : 4;
            c.desc.algorithm = "state";
            c.desc.causal = n != 257;
            if (n < 257) c.desc.scale /= 4; /* few keys: so that denominators stay away from 0 */
            check_forward(name_of("taylor d %d, %d tokens", (int)d, (int)n), c, n % 2);
        }
}

static void orbits_of_widths_between(void)
{
    static const int64_t widths[][2] = { { 5, 7 }, { 8, 6 }, { 13, 16 }, { 16, 9 }, { 27, 32 }, { 24, 12 } };
    for (int i = 0; i < COUNT_OF(widths); i++) {
        const int d = (int)widths[i][0], m = (int)widths[i][1];
        attn_case c = shape_make(LNT_TAYLOR, 6, d, 777, LNT_BF16);
        shape_share(&c, 2, m);
        c.desc.taylor.terms = d > 16 ? 3 : 4;
        c.desc.algorithm = "state";
        check_forward(name_of("taylor %d -> %d, 6 heads on 2", d, m), c, true);
        c.desc.length_q = 211;
        c.desc.length_k = 1301;
        check_forward(name_of("taylor %d -> %d, 6 heads on 2, 211 at the end of 1301", d, m), c, false);
        c.desc.causal = 0;
        check_forward(name_of("taylor %d -> %d, 6 heads on 2, 211 on 1301", d, m), c, true);
    }
}

/* Lengths, states and normalised rows of one width. */
static void orbits_with_options(int64_t d)
{
    attn_case c = shape_make(LNT_TAYLOR, 2, d, 900, LNT_BF16);
    c.desc.length_k = 1200;
    c.desc.algorithm = "state";
    c.desc.taylor.terms = d == 32 ? 3 : 4;
    taylor_lengths(c);
    c = shape_make(LNT_TAYLOR, 4, d, 1303, LNT_BF16);
    c.desc.kv_heads = 2;
    c.desc.taylor.terms = d == 32 ? 3 : 4;
    c.desc.algorithm = "state";
    check_parts("taylor forward in two parts", c, 700);
    check_steps("taylor 1290 tokens forward, 13 in steps", c, 1290, 1);
    c = shape_make(LNT_TAYLOR, 4, d, 1000, LNT_BF16);
    shape_taylorshift(&c, 3, false);
    c.desc.algorithm = "state";
    check_forward("taylorshift causal", c, false);
    c.desc.causal = 0;
    check_forward("taylorshift full", c, true);
    c.desc.causal = 1;
    c.desc.taylor.terms = 4;
    c.desc.kv_heads = 2;
    if (d < 32) check_forward("taylorshift P 4 causal, 4 heads on 2", c, true);
}

/* Heads enough for the machine, so that a run of tokens is a whole head: a block of threads walks several
 * turns through it. */
static void orbits_of_many_heads(void)
{
    for (int i = 0; i < 4; i++) {
        const int64_t share = i < 2 ? 1 : 3, d = i % 2 ? 16 : 8;
        attn_case c = shape_make(LNT_TAYLOR, (d == 8 ? 132 : 66) * share, d, d == 8 ? 2600 : 700, LNT_BF16);
        c.desc.kv_heads = c.desc.heads / share;
        c.desc.algorithm = "state";
        check_forward(name_of("taylor runs, %d heads of %d on %d", (int)c.desc.heads, (int)d,
                              (int)c.desc.kv_heads), c, share == 1);
    }
}

static void orbits(void **state)
{
    (void)state;
    if (!shapes_begin("orbits")) return;
    orbits_of_few_tokens();
    orbits_of_widths_between();
    for (int64_t d = 8; d <= 32; d *= 2) orbits_with_options(d);
    orbits_of_many_heads();
    shapes_end();
}

/* ---- Taylor attention by pairs, however few the heads ---------------------------------------- */

static attn_case pairs_case(int64_t heads, int64_t dim, int64_t tokens)
{
    attn_case c = shape_make(LNT_TAYLOR, heads, dim, tokens, LNT_BF16);
    c.desc.algorithm = "state:pairs";
    return c;
}

static void pairs(void **state)
{
    (void)state;
    if (!shapes_begin("pairs")) return;
    static const int64_t tokens[] = { 1, 63, 127, 129, 191, 193, 1023, 1025, 2100, 4099, 70001 };
    for (int i = 0; i < COUNT_OF(tokens); i++)
        check_forward(name_of("taylor pairs %d tokens", (int)tokens[i]), pairs_case(2, 32, tokens[i]),
                      tokens[i] % 4 == 1);
    attn_case c = pairs_case(6, 27, 2222);
    shape_share(&c, 2, 13);
    check_forward("taylor pairs 27 -> 13, 6 heads on 2, 2222 tokens", c, true);
    c.desc.length_q = 300;
    c.desc.length_k = 2811;
    check_forward("taylor pairs 300 queries at the end of 2811 keys", c, false);
    check_forward("taylor 40 heads of 32", shape_make(LNT_TAYLOR, 40, 32, 1303, LNT_BF16), true);
    c = pairs_case(4, 32, 2000);
    shape_taylorshift(&c, 4, true);
    check_forward("taylor pairs normalised, temperatures, output norm", c, false);
    c = pairs_case(2, 32, 2900);
    c.desc.length_k = 3200;
    check_lengths("taylor pairs lengths", c, 0);
    check_lengths("taylor pairs lengths, more queries than keys", c, 33);
    c = pairs_case(4, 32, 3303);
    c.desc.kv_heads = 2;
    check_parts("taylor pairs in two parts", c, 1700);
    check_parts("taylor pairs in many parts", c, 300);
    check_steps("taylor pairs 3290 tokens forward, 13 in steps", c, 3290, 1);
    c = pairs_case(2, 30, 1500);
    c.desc.dim_value = 7;
    check_parts("taylor pairs 30 -> 7 in two parts", c, 1025);
    shapes_end();
}

/* ---- linear attention ------------------------------------------------------------------------ */

static void each_map(const char *name, attn_case c)
{
    c.desc.linear.feature_map = LNT_MAP_RELU;
    check_forward(name_of("%s relu", name), c, false);
    c.desc.linear.feature_map = LNT_MAP_EXP;
    check_forward(name_of("%s exp", name), c, false);
}

static void linear(void **state)
{
    (void)state;
    if (!shapes_begin("linear")) return;
    check_widths(LNT_LINEAR, 1500, LNT_BF16, "linear", check_forward);
    attn_case c = shape_make(LNT_LINEAR, 6, 20, 1111, LNT_BF16);
    shape_share(&c, 2, 12);
    check_forward("linear 20 -> 12, 6 heads on 2, 1111 tokens", c, true);
    c.desc.length_q = 300;
    c.desc.length_k = 1811;
    check_forward("linear 300 queries at the end of 1811 keys", c, false);
    c.desc.decay = two_decays;
    check_forward("linear with decay", c, false);
    c = shape_make(LNT_LINEAR, 2, 16, 900, LNT_BF16);
    c.desc.length_k = 1200;
    check_lengths("linear lengths, causal", c, 0);
    each_map("linear", shape_make(LNT_LINEAR, 2, 64, 500, LNT_BF16));
    shapes_end();
}

/* In one pass over k and v, or more: widths, odd numbers of tokens, heads that share. */
static void linear_form(const char *algorithm, const char *word)
{
    static const int64_t tokens[] = { 1, 15, 63, 64, 65, 255, 257, 1500, 50021 }, heads[] = { 1, 24, 150 };
    attn_case c;
    for (int i = 0; i < COUNT_OF(tokens); i++) {
        c = shape_make(LNT_LINEAR, 3, 64, tokens[i], LNT_BF16);
        c.desc.algorithm = algorithm;
        check_forward(name_of("linear %s %d tokens", word, (int)tokens[i]), c, tokens[i] % 2);
    }
    for (int i = 0; i < COUNT_OF(heads); i++) {
        c = shape_make(LNT_LINEAR, heads[i], 32, heads[i] == 24 ? 8003 : 600, LNT_BF16);
        c.desc.algorithm = algorithm;
        check_forward(name_of("linear %s %d heads", word, (int)heads[i]), c, true);
    }
    c = shape_make(LNT_LINEAR, 6, 24, 1111, LNT_BF16);
    shape_share(&c, 2, 40);
    c.desc.algorithm = algorithm;
    check_forward(name_of("linear %s 24 -> 40, 6 heads on 2", word), c, true);
    c.desc.dim = 56;
    c.desc.dim_value = 8;
    c.desc.length_q = 300;
    c.desc.length_k = 1811;
    check_forward(name_of("linear %s 56 -> 8, 300 queries at the end of 1811 keys", word), c, false);
    c = shape_make(LNT_LINEAR, 2, 48, 700, LNT_BF16);
    c.desc.algorithm = algorithm;
    each_map(name_of("linear %s", word), c);
    c = shape_make(LNT_LINEAR, 2, 64, 900, LNT_BF16);
    c.desc.length_k = 1200;
    c.desc.algorithm = algorithm;
    check_lengths(name_of("linear %s lengths", word), c, 0);
    check_lengths(name_of("linear %s lengths, more queries than keys", word), c, 33);
    c = shape_make(LNT_LINEAR, 4, 64, 1303, LNT_BF16);
    c.desc.kv_heads = 2;
    c.desc.algorithm = algorithm;
    check_parts(name_of("linear %s in two parts", word), c, 700);
    check_steps(name_of("linear %s 1290 tokens forward, 13 in steps", word), c, 1290, 1);
}

static void passes(void **state)
{
    (void)state;
    if (!shapes_begin("passes")) return;
    linear_form("chunked:passes", "passes");
    linear_form("chunked:pass", "pass");
    shapes_end();
}

/* ---- softmax --------------------------------------------------------------------------------- */

static void softmax(void **state)
{
    (void)state;
    if (!shapes_begin("softmax")) return;
    check_widths(LNT_SOFTMAX, 777, LNT_BF16, "softmax", check_forward);
    attn_case c = shape_make(LNT_SOFTMAX, 6, 20, 111, LNT_BF16);
    shape_share(&c, 2, 12);
    c.desc.length_k = 333;
    c.desc.scale = 3;
    check_forward("softmax 20 -> 12, 6 heads on 2, scale 3", c, true);
    check_lengths("softmax lengths, causal", c, 0);
    shapes_end();
}

/* ---- in the precision of f32 ----------------------------------------------------------------- */

static void f32_taylor_shapes(void)
{
    static const int64_t widths[] = { 8, 16, 32, 64, 128 }, tokens[] = { 1, 31, 32, 33, 127, 129, 257, 4099 };
    for (int i = 0; i < COUNT_OF(widths) * 4; i++) {
        const int d = (int)widths[i / 4], terms = 1 + i % 4;
        attn_case c = shape_make(LNT_TAYLOR, 2, d, d >= 64 ? 300 : 700, LNT_F32);
        if (terms == 2) c.desc.scale /= 4; /* 1 + x: so that denominators stay away from 0 */
        c.desc.taylor.terms = terms;
        c.desc.causal = terms % 2 == (d > 16);
        const char *name = name_of("f32 taylor d %d P %d%s", d, terms, c.desc.causal ? " causal" : " full");
        c.desc.algorithm = "state";
        check_forward(name, c, terms == 3);
        c.desc.algorithm = "direct";
        c.desc.causal = !c.desc.causal;
        check_forward(name, c, terms == 2);
    }
    for (int i = 0; i < COUNT_OF(tokens); i++) {
        attn_case c = shape_make(LNT_TAYLOR, 3, 8, tokens[i], LNT_F32);
        c.desc.scale /= 4;
        c.desc.algorithm = "state";
        c.desc.causal = tokens[i] != 257;
        check_forward(name_of("f32 taylor, %d tokens", (int)tokens[i]), c, tokens[i] % 2);
    }
}

static void f32_taylor_options(void)
{
    attn_case c = shape_make(LNT_TAYLOR, 6, 20, 777, LNT_F32);
    shape_share(&c, 2, 13);
    c.desc.length_k = 1301;
    c.desc.algorithm = "state";
    c.desc.scale /= 2;
    check_forward("f32 taylor 20 -> 13, 6 heads on 2, 777 at the end of 1301", c, true);
    c.desc.dtype = LNT_F16;
    check_forward("f16 taylor 20 -> 13, 6 heads on 2", c, false);
    c.desc.dtype = LNT_F32;
    check_lengths("f32 taylor lengths, causal", c, 0);
    c.desc.causal = 0;
    check_lengths("f32 taylor lengths, full", c, 0);
    c = shape_make(LNT_TAYLOR, 4, 32, 1000, LNT_F32);
    shape_taylorshift(&c, 3, true);
    c.desc.algorithm = "state";
    check_forward("f32 taylorshift, temperatures, output norm, causal", c, false);
    c.desc.causal = 0;
    check_forward("f32 taylorshift, temperatures, output norm, full", c, true);
    c = shape_make(LNT_TAYLOR, 4, 16, 1303, LNT_F32);
    c.desc.kv_heads = 2;
    c.desc.scale /= 2;
    check_parts("f32 taylor forward in two parts", c, 700);
    check_steps("f32 taylor 1290 tokens forward, 13 in steps", c, 1290, 1);
}

/* More terms than bf16 has kernels of its own for. */
static void many_terms(lnt_dtype dtype)
{
    static const int64_t widths[] = { 4, 8, 13, 16 };
    for (int i = 0; i < COUNT_OF(widths) * 4; i++) {
        const int d = (int)widths[i / 4], terms = 5 + i % 4;
        attn_case c = shape_make(LNT_TAYLOR, 4, d, d > 8 ? 300 : 900, dtype);
        c.desc.kv_heads = 2;
        c.desc.taylor.terms = terms;
        c.desc.causal = d != 13;
        c.desc.algorithm = "state";
        check_forward(name_of("%s taylor d %d P %d", type(dtype), d, terms), c, terms % 2);
        if (d != 8) continue;
        check_parts(name_of("%s taylor d %d P %d, two parts", type(dtype), d, terms), c, 500);
        check_steps(name_of("%s taylor d %d P %d, then steps", type(dtype), d, terms), c, 890, 1);
    }
}

static void f32_others(lnt_dtype dtype)
{
    check_widths(LNT_LINEAR, 777, dtype, name_of("%s linear", type(dtype)), check_forward);
    check_widths(LNT_SOFTMAX, 777, dtype, name_of("%s softmax", type(dtype)), check_forward);
    attn_case c = shape_make(LNT_LINEAR, 6, 20, 300, dtype);
    shape_share(&c, 2, 12);
    c.desc.length_k = 1811;
    check_forward(name_of("%s linear 20 -> 12, 300 at the end of 1811", type(dtype)), c, true);
    check_lengths(name_of("%s linear lengths", type(dtype)), c, 0);
    c.desc.decay = two_decays;
    check_forward(name_of("%s linear with decay", type(dtype)), c, false);
    c.desc.length_q = c.desc.length_k = 1303;
    check_parts(name_of("%s linear with decay, two parts", type(dtype)), c, 700);
    check_steps(name_of("%s linear with decay, then steps", type(dtype)), c, 1290, 1);
    each_map(name_of("%s linear", type(dtype)), shape_make(LNT_LINEAR, 2, 64, 500, dtype));
    c = shape_make(LNT_SOFTMAX, 6, 20, 111, dtype);
    shape_share(&c, 2, 12);
    c.desc.length_k = 333;
    c.desc.scale = 3;
    check_forward(name_of("%s softmax 20 -> 12, 6 heads on 2, scale 3", type(dtype)), c, true);
    check_lengths(name_of("%s softmax lengths", type(dtype)), c, 0);
}

static void f32(void **state)
{
    (void)state;
    if (!shapes_begin("f32")) return;
    f32_taylor_shapes();
    f32_taylor_options();
    many_terms(LNT_F32);
    many_terms(LNT_BF16);
    f32_others(LNT_F32);
    f32_others(LNT_F16);
    shapes_end();
}

/* ---- cur ------------------------------------------------------------------------------------- */

static attn_case cur_shape(lnt_dtype dtype, int64_t heads, int64_t dim, int64_t tokens, int64_t landmarks)
{
    attn_case c = shape_make(LNT_CUR, heads, dim, tokens, dtype);
    c.desc.causal = 0;
    c.desc.cur.landmarks = landmarks;
    c.desc.cur.select = LNT_SELECT_STEP_MEAN;
    c.desc.cur.ridge = 1e-3;
    c.desc.cur.pinv_iterations = 6;
    return c;
}

static void cur_widths(void)
{
    static const int64_t widths[] = { 8, 16, 32, 64, 128 };
    static const struct {
        lnt_select select;
        lnt_pinv pinv;
        const char *name;
    } ways[] = { { LNT_SELECT_STEP, LNT_PINV_RIDGE, "step, ridge" },
                 { LNT_SELECT_MEAN, LNT_PINV_ITERATE, "mean" },
                 { LNT_SELECT_STEP_MEAN, LNT_PINV_ITERATE, "step-mean" } };
    for (int i = 0; i < COUNT_OF(widths); i++)
        for (int w = 0; w < COUNT_OF(ways); w++) {
            attn_case c = cur_shape(LNT_F32, 2, widths[i], 500, widths[i] == 32 ? 130 : 40);
            c.desc.cur.select = ways[w].select;
            c.desc.cur.pinv = ways[w].pinv;
            check_forward(name_of("f32 cur d %d, %s", (int)widths[i], ways[w].name), c, widths[i] == 16);
        }
}

static void cur(void **state)
{
    (void)state;
    if (!shapes_begin("cur")) return;
    cur_widths();
    attn_case c = cur_shape(LNT_F32, 6, 20, 333, 33);
    shape_share(&c, 2, 13);
    c.desc.length_k = 1000;
    check_forward("f32 cur 20 -> 13, 6 heads on 2, 333 on 1000", c, true);
    c.desc.dtype = LNT_F16;
    check_forward("f16 cur 20 -> 13, 6 heads on 2, 333 on 1000", c, false);
    c.desc.dtype = LNT_BF16;
    check_forward("bf16 cur 20 -> 13, 6 heads on 2, 333 on 1000", c, true);
    c.desc.dtype = LNT_F32;
    c.desc.length_q = 30;
    check_forward("f32 cur, fewer queries than landmarks", c, true);
    static const int64_t lengths_q[] = { 200, 25, 24, 0 }, lengths_k[] = { 300, 290, 300, 20 };
    c = cur_shape(LNT_F32, 2, 16, 200, 24);
    c.desc.batch = COUNT_OF(lengths_q);
    c.desc.length_k = 300;
    c.with_lengths = true;
    for (int b = 0; b < COUNT_OF(lengths_q); b++) {
        c.lengths_q[b] = lengths_q[b];
        c.lengths_k[b] = lengths_k[b];
    }
    check_forward("f32 cur lengths", c, false);
    check_forward("f32 cur 16 x 64, 2048 tokens", cur_shape(LNT_F32, 2, 64, 2048, 64), false);
    check_forward("bf16 cur 16 x 64, 2048 tokens", cur_shape(LNT_BF16, 2, 64, 2048, 64), false);
    shapes_end();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step),   cmocka_unit_test(taylor),  cmocka_unit_test(orbits),
        cmocka_unit_test(pairs),  cmocka_unit_test(linear),  cmocka_unit_test(passes),
        cmocka_unit_test(softmax), cmocka_unit_test(f32),    cmocka_unit_test(cur),
    };
    shapes_select(argc, argv);
    if (!device_open()) return DEVICE_MISSING;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close();
    return failed;
}
