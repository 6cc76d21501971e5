/* bench/gpu_backward_cases.h - the backward pass on small problems of odd shapes. */
#include "gpu_backward.h"

static void verify_linear_gradients()
{
    each_width("linear", LNT_LINEAR, 571, verify_gradients<>);
    lnt_attn_desc p = describe(LNT_LINEAR, 3, 16, 1);
    p.eps = 1; /* with little of it y is v, and dq and dk are 0 */
    verify_gradients("linear 1 token", p, false);
    p = describe(LNT_LINEAR, 6, 20, 411);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2;
    verify_gradients("linear 20 -> 12, 6 heads on 2, 411 tokens", p, true);
    p.dim = 13, p.dim_value = 29;
    verify_gradients("linear 13 -> 29, 6 heads on 2, 411 tokens", p, true);
    p.length_q = 100, p.length_k = 711;
    verify_gradients("linear 100 queries at the end of 711 keys", p, false);
    p.causal = 0;
    verify_gradients("linear 100 queries on 711 keys, full", p, false);
    p.causal = 1;
    const double decay[2] = { 0.9, 0.999 };
    p.decay = decay;
    verify_gradients("linear with decay", p, false);
    verify_gradient_lengths("linear lengths, decay", p);
    p = describe(LNT_LINEAR, 4, 32, 300), p.length_k = 400, p.kv_heads = 2;
    verify_gradient_lengths("linear lengths, causal", p);
    p.causal = 0;
    verify_gradient_lengths("linear lengths, full", p);
    for (int map = LNT_MAP_RELU; map <= LNT_MAP_EXP; map++) {
        p = describe(LNT_LINEAR, 2, 64, 300), p.feature_map = (lnt_feature_map)map;
        verify_gradients(map == LNT_MAP_RELU ? "linear relu" : "linear exp", p, false);
    }
    p = describe(LNT_LINEAR, 2, 32, 700);
    verify_state_gradients("linear, with states before and after", p);
    p.kv_heads = 1, p.decay = decay + 1;
    verify_state_gradients("linear, with states before and after, decay", p);
    verify_gradients_in_parts("linear in two parts, decay", p, 400);
}

static void verify_taylor_gradients()
{
    char name[96];
    for (int64_t d : { 8, 16, 32, 64 })
        for (int64_t terms = 1; terms <= 4; terms++)
            for (int causal = 0; causal < 2; causal++) {
                lnt_attn_desc p = describe(LNT_TAYLOR, 2, d, d >= 64 ? 261 : 597);
                if (terms == 2) p.scale /= 4; /* 1 + x: or denominators are near 0 */
                p.terms = terms, p.causal = causal, p.algorithm = "state";
                snprintf(name, sizeof name, "taylor d %d P %d %s", (int)d, (int)terms,
                         causal ? "causal" : "full");
                verify_gradients(name, p, terms == 3);
            }
    lnt_attn_desc p = describe(LNT_TAYLOR, 6, 20, 611);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.algorithm = "state";
    p.scale /= 2; /* P 4 is negative below -1.6: or one row of a denominator near 0 is most of dq,
                   * and bf16 weights alone, in double arithmetic, put it off by 2e-2 */
    verify_gradients("taylor 20 -> 12, 6 heads on 2, 611 tokens", p, true);
    p.length_q = 100, p.length_k = 711;
    verify_gradients("taylor 100 queries at the end of 711 keys", p, false);
    p.causal = 0;
    verify_gradients("taylor 100 queries on 711 keys, full", p, false);
    p.causal = 1, p.terms = 7, p.algorithm = NULL;
    verify_gradients("taylor P 7", p, false);
    p = describe(LNT_TAYLOR, 2, 128, 211);
    verify_gradients("taylor d 128", p, false);
    p = describe(LNT_TAYLOR, 2, 16, 2);
    verify_gradients("taylor 2 tokens", p, false);
    const double tau[4] = { 1.0, 2.5, 0.5, 4.0 };
    lnt_attn_desc t = describe(LNT_TAYLOR, 4, 32, 500);
    t.terms = 3, t.normalize = LNT_NORMALIZE_TAYLORSHIFT, t.scale = 1, t.temperature = tau;
    t.output_norm = 1, t.algorithm = "state";
    verify_gradients("taylorshift, temperatures, output norm, causal", t, false);
    t.causal = 0;
    verify_gradients("taylorshift, temperatures, output norm, full", t, false);
    t.algorithm = "direct", t.kv_heads = 2;
    verify_gradients("taylorshift, temperatures, output norm, full", t, true);
    p = describe(LNT_TAYLOR, 2, 16, 500), p.length_k = 700, p.algorithm = "state";
    verify_gradient_lengths("taylor lengths, causal", p);
    p.causal = 0;
    verify_gradient_lengths("taylor lengths, full", p);
    p = describe(LNT_TAYLOR, 8, 32, 256), p.algorithm = "direct";
    verify_gradients_of("taylor d 32, q and k above 0", p, false, true);
    p = describe(LNT_TAYLOR, 1, 32, 4096), p.algorithm = "state";
    verify_gradients_of("taylor d 32, q and k above 0", p, false, true);
    for (int64_t d : { 8, 16, 32, 64 })
        for (int causal = 0; causal < 2; causal++) {
            p = describe(LNT_TAYLOR, 2, d, d == 64 ? 700 : 1500), p.algorithm = "state";
            p.causal = causal, p.terms = d == 16 ? 3 : 4;
            snprintf(name, sizeof name, "taylor d %d %s, q and k above 0", (int)d,
                     causal ? "causal" : "full");
            verify_gradients_of(name, p, true, true);
        }
}

/* Values whose mean is not small beside their spread: center.cu. */
static void verify_mean_gradients()
{
    for (float mean : { 0.25f, 1.0f, 4.0f, 16.0f }) {
        const bool above = mean == 1 || mean == 16;
        auto verify = [&](const char *what, const lnt_attn_desc &p) {
            char name[96];
            snprintf(name, sizeof name, "taylor %s, mean %g%s", what, (double)mean,
                     above ? ", q and k above 0" : "");
            verify_gradients_of(name, p, above, above, mean);
        };
        lnt_attn_desc p = describe(LNT_TAYLOR, 2, 16, 512);
        p.causal = 0, p.algorithm = "state";
        verify("d 16 full", p);
        p = describe(LNT_TAYLOR, 4, 16, 1500), p.kv_heads = 2, p.algorithm = "state";
        verify("d 16 causal, 4 heads on 2", p);
        p = describe(LNT_TAYLOR, 1, 13, 2100), p.dim_value = 10, p.algorithm = "state";
        p.causal = 0, p.terms = 3;
        verify("13 -> 10 full, P 3", p);
        p = describe(LNT_TAYLOR, 1, 32, 700), p.causal = 0, p.algorithm = "state";
        verify("d 32 full", p);
        p = describe(LNT_TAYLOR, 2, 32, 2600), p.algorithm = "pairs";
        verify("pairs", p);
        p = describe(LNT_TAYLOR, 1, 64, 300), p.causal = 0, p.algorithm = "state";
        verify("d 64 full", p);
    }
    lnt_attn_desc p = describe(LNT_TAYLOR, 2, 32, 700);
    p.causal = 0, p.algorithm = "state";
    verify_gradients_of("taylor d 32 full, mean 1", p, true, false, 1);
    p = describe(LNT_TAYLOR, 1, 16, 300), p.algorithm = "direct";
    verify_gradients_of("taylor d 16 direct, mean 4", p, true, false, 4);
}

/* What pair_back.cu takes: segments, odd numbers of tokens, widths, lengths. */
static void verify_pair_gradients()
{
    for (int64_t n : { 2, 700, 1025, 2600 }) {
        lnt_attn_desc p = describe(LNT_TAYLOR, 2, 32, n);
        p.algorithm = "pairs";
        verify_gradients(("taylor pairs, " + std::to_string(n) + " tokens").c_str(), p, n % 2);
    }
    lnt_attn_desc p = describe(LNT_TAYLOR, 2, 32, 2600);
    p.algorithm = "pairs";
    verify_gradients_of("taylor pairs, q and k above 0", p, false, true);
    p = describe(LNT_TAYLOR, 3, 27, 1500), p.dim_value = 30, p.batch = 2, p.algorithm = "pairs";
    verify_gradients("taylor pairs 27 -> 30, 3 heads, batch 2", p, true);
    p = describe(LNT_TAYLOR, 2, 32, 600), p.length_k = 2300, p.algorithm = "pairs";
    verify_gradients("taylor pairs, 600 queries at the end of 2300 keys", p, false);
    verify_gradient_lengths("taylor pairs, lengths", p);
    p = describe(LNT_TAYLOR, 2, 32, 2100), p.algorithm = "pairs";
    p.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1, p.output_norm = 1;
    verify_gradients("taylor pairs, taylorshift, output norm", p, false);
    p = describe(LNT_TAYLOR, 40, 32, 1100), p.algorithm = "pairs"; /* several sets a block */
    verify_gradients("taylor pairs, 40 heads", p, false);
    p = describe(LNT_TAYLOR, 4, 32, 1300), p.kv_heads = 2, p.algorithm = "pairs";
    verify_gradients("taylor pairs, 4 heads on 2: by tiles", p, true);
    p = describe(LNT_TAYLOR, 3, 27, 1500), p.dim_value = 30, p.batch = 2, p.algorithm = "pairs";
    for (float mean : { 0.0f, 2.0f })
        verify_after_forward(mean > 0 ? "taylor pairs after forward, mean 2"
                                      : "taylor pairs after forward", p, mean);
    p.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1, p.output_norm = 1;
    verify_after_forward("taylor pairs after forward, taylorshift, output norm, mean 1", p, 1);
    p = describe(LNT_TAYLOR, 2, 32, 900), p.algorithm = "pairs";
    verify_after_forward("taylor pairs after forward, one segment", p, 1);
    p = describe(LNT_TAYLOR, 4, 20, 700), p.kv_heads = 2, p.algorithm = "state";
    verify_after_forward("taylor after forward, 4 heads on 2", p, 1);
}

static void verify_softmax_gradients()
{
    each_width("softmax", LNT_SOFTMAX, 277, verify_gradients<>);
    lnt_attn_desc p = describe(LNT_SOFTMAX, 6, 20, 111);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.length_k = 333, p.scale = 1;
    verify_gradients("softmax 20 -> 12, 6 heads on 2, scale 1", p, true);
    verify_gradient_lengths("softmax lengths, causal", p);
    p.causal = 0;
    verify_gradient_lengths("softmax lengths, full", p);
}

/* What linear_gradient.cu takes: odd numbers of tokens, widths, maps, layouts. */
static void verify_gradient_boxes()
{
    for (int64_t n : { 2, 63, 64, 65, 257, 1100 })
        verify_gradients(("linear boxes, " + std::to_string(n) + " tokens").c_str(),
                         describe(LNT_LINEAR, 2, 64, n), n % 2);
    lnt_attn_desc p = describe(LNT_LINEAR, 3, 24, 411);
    p.dim_value = 48, p.batch = 2;
    verify_gradients("linear boxes, 24 -> 48, 3 heads, batch 2", p, true);
    p.dim = 64, p.dim_value = 8;
    verify_gradients("linear boxes, 64 -> 8, 3 heads, batch 2", p, false);
    for (int map = LNT_MAP_RELU; map <= LNT_MAP_EXP; map++) {
        p = describe(LNT_LINEAR, 2, 48, 300), p.feature_map = (lnt_feature_map)map;
        verify_gradients(map == LNT_MAP_RELU ? "linear boxes, relu" : "linear boxes, exp", p,
                         false);
    }
}

/* In the precision of f32: every width, lengths, states; and of bf16 what has a state. */
template <class T> static void verify_split_gradients(const char *type)
{
    auto named = [&](const char *name) { return std::string(type) + " " + name; };
    each_width(named("linear").c_str(), LNT_LINEAR, 571, verify_gradients<T>);
    each_width(named("softmax").c_str(), LNT_SOFTMAX, 277, verify_gradients<T>);
    lnt_attn_desc p = describe(LNT_SOFTMAX, 6, 20, 111);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.length_k = 333, p.scale = 1;
    verify_gradients<T>(named("softmax 20 -> 12, 6 heads on 2").c_str(), p, true);
    verify_gradient_lengths<T>(named("softmax lengths, causal").c_str(), p);
    p.causal = 0;
    verify_gradient_lengths<T>(named("softmax lengths, full").c_str(), p);
    const double decay[2] = { 0.9, 0.999 };
    p = describe(LNT_LINEAR, 6, 20, 100);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.length_k = 711;
    verify_gradients<T>(named("linear 100 at the end of 711").c_str(), p, false);
    p.decay = decay;
    verify_gradients<T>(named("linear 100 at the end of 711, decay").c_str(), p, false);
    verify_gradient_lengths<T>(named("linear lengths, decay").c_str(), p);
    p.length_q = 700, p.length_k = 700, p.batch = 1;
    verify_state_gradients<T>(named("linear, states before and after, decay").c_str(), p);
    verify_gradients_in_parts<T>(named("linear in two parts, decay").c_str(), p, 401);
    for (int map = LNT_MAP_RELU; map <= LNT_MAP_EXP; map++) {
        p = describe(LNT_LINEAR, 2, 64, 300), p.feature_map = (lnt_feature_map)map;
        verify_gradients<T>(named(map == LNT_MAP_RELU ? "linear relu" : "linear exp").c_str(), p,
                            false);
    }
}

template <class T> static void verify_split_taylor_gradients(const char *type)
{
    auto named = [&](const char *name) { return std::string(type) + " " + name; };
    char name[96];
    for (int64_t d : { 8, 16, 32, 64, 128 })
        for (int64_t terms = 1; terms <= 4; terms++) {
            lnt_attn_desc p = describe(LNT_TAYLOR, 2, d, d >= 64 ? 261 : 597);
            if (d == 128 && terms == 4) p.length_q = p.length_k = 140;
            p.scale /= terms == 2 ? 4 : 2; /* so that denominators stay away from 0 */
            p.terms = terms, p.causal = terms % 2 == (d > 16), p.algorithm = "state";
            snprintf(name, sizeof name, "%s taylor d %d P %d %s", type, (int)d, (int)terms,
                     p.causal ? "causal" : "full");
            verify_gradients<T>(name, p, terms == 3);
            p.algorithm = "direct", p.causal = !p.causal;
            verify_gradients<T>(name, p, terms == 2);
        }
    lnt_attn_desc p = describe(LNT_TAYLOR, 6, 20, 611);
    p.kv_heads = 2, p.dim_value = 13, p.batch = 2, p.length_k = 711, p.algorithm = "state";
    p.scale /= 2;
    verify_gradients<T>(named("taylor 20 -> 13, 6 heads on 2, 611 at the end of 711").c_str(), p,
                        true);
    verify_gradient_lengths<T>(named("taylor lengths, causal").c_str(), p);
    p.causal = 0;
    verify_gradient_lengths<T>(named("taylor lengths, full").c_str(), p);
    for (int64_t terms = 5; terms <= 8; terms++) {
        p = describe(LNT_TAYLOR, 4, 9, 333), p.kv_heads = 2, p.terms = terms;
        p.algorithm = "state", p.causal = terms % 2;
        snprintf(name, sizeof name, "%s taylor d 9 P %d", type, (int)terms);
        verify_gradients<T>(name, p, false);
    }
    const double tau[4] = { 1.0, 2.5, 0.5, 4.0 };
    p = describe(LNT_TAYLOR, 4, 32, 500);
    p.terms = 3, p.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1, p.temperature = tau;
    p.output_norm = 1, p.algorithm = "state", p.kv_heads = 2;
    verify_gradients<T>(named("taylorshift, temperatures, output norm, causal").c_str(), p, false);
    p.causal = 0, p.algorithm = "direct";
    verify_gradients<T>(named("taylorshift, temperatures, output norm, full").c_str(), p, true);
}

/* In two parts, with the state between them. */
template <class T> static void verify_taylor_gradients_in_parts(const char *type)
{
    auto named = [&](const char *name) { return std::string(type) + " " + name; };
    lnt_attn_desc p = describe(LNT_TAYLOR, 4, 16, 700);
    p.kv_heads = 2, p.algorithm = "state", p.scale /= 2;
    verify_gradients_in_parts<T>(named("taylor d 16 in two parts").c_str(), p, 401);
    p = describe(LNT_TAYLOR, 2, 32, 600), p.terms = 3, p.algorithm = "state", p.scale /= 2;
    verify_gradients_in_parts<T>(named("taylor d 32 P 3 in two parts").c_str(), p, 256);
    p.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1;
    verify_gradients_in_parts<T>(named("taylorshift d 32 in two parts").c_str(), p, 300);
    p = describe(LNT_TAYLOR, 2, 8, 500), p.terms = 6, p.algorithm = "state", p.scale /= 2;
    verify_gradients_in_parts<T>(named("taylor d 8 P 6 in two parts").c_str(), p, 77);
}

static void verify_backward(const std::function<bool(const char *)> &wanted)
{
    if (wanted("backward_split")) {
        verify_split_gradients<float>("f32");
        verify_split_gradients<__half>("f16");
    }
    if (wanted("backward_split_taylor")) {
        verify_split_taylor_gradients<float>("f32");
        verify_split_taylor_gradients<__half>("f16");
    }
    if (wanted("backward_parts")) {
        verify_taylor_gradients_in_parts<float>("f32");
        verify_taylor_gradients_in_parts<__nv_bfloat16>("bf16");
        lnt_attn_desc p = describe(LNT_TAYLOR, 2, 128, 261); /* what bf16 has no kernels for */
        p.terms = 3, p.algorithm = "state";
        verify_gradients("bf16 taylor d 128 P 3", p, true);
        p = describe(LNT_TAYLOR, 4, 9, 333), p.terms = 6, p.algorithm = "state";
        verify_gradients("bf16 taylor d 9 P 6", p, false);
    }
    if (wanted("backward_linear")) verify_linear_gradients();
    if (wanted("backward_boxes")) verify_gradient_boxes();
    if (wanted("backward_taylor")) verify_taylor_gradients();
    if (wanted("backward_pairs")) verify_pair_gradients();
    if (wanted("backward_softmax")) verify_softmax_gradients();
    if (wanted("backward_mean")) verify_mean_gradients();
}
