/* bench/gpu/family_backward_linear.cc - gradients of linear attention: by tiles, and what
 * cuda/linear/linear_boxes.cu takes. */
#include "gpu/backward.h"
#include "gpu/families.h"
#include "gpu/forward.h"

static void verify_options()
{
    const double decay[2] = { 0.9, 0.999 };
    lnt_attn_desc p = describe(LNT_LINEAR, 4, 32, 300);
    p.length_k = 400, p.kv_heads = 2;
    verify_gradient_lengths("linear lengths, causal", p);
    p.causal = 0;
    verify_gradient_lengths("linear lengths, full", p);
    for (lnt_feature_map map : { LNT_MAP_RELU, LNT_MAP_EXP }) {
        p = describe(LNT_LINEAR, 2, 64, 300), p.linear.feature_map = map;
        verify_gradients(map == LNT_MAP_RELU ? "linear relu" : "linear exp", p, false);
    }
    p = describe(LNT_LINEAR, 2, 32, 700);
    verify_state_gradients("linear, with states before and after", p);
    p.kv_heads = 1, p.decay = decay + 1;
    verify_state_gradients("linear, with states before and after, decay", p);
    verify_gradients_in_parts("linear in two parts, decay", p, 400);
}

void verify_backward_linear()
{
    each_width(LNT_LINEAR, 571, LNT_BF16, "linear", verify_gradients);
    lnt_attn_desc p = describe(LNT_LINEAR, 3, 16, 1);
    p.linear.eps = 1; /* with little of it y is v, and dq and dk are 0 */
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
    verify_options();
}

/* Odd numbers of tokens, widths, maps, layouts. */
void verify_backward_boxes()
{
    for (int64_t n : { 2, 63, 64, 65, 257, 1100 })
        verify_gradients("linear boxes, " + std::to_string(n) + " tokens",
                         describe(LNT_LINEAR, 2, 64, n), n % 2);
    lnt_attn_desc p = describe(LNT_LINEAR, 3, 24, 411);
    p.dim_value = 48, p.batch = 2;
    verify_gradients("linear boxes, 24 -> 48, 3 heads, batch 2", p, true);
    p.dim = 64, p.dim_value = 8;
    verify_gradients("linear boxes, 64 -> 8, 3 heads, batch 2", p, false);
    for (lnt_feature_map map : { LNT_MAP_RELU, LNT_MAP_EXP }) {
        p = describe(LNT_LINEAR, 2, 48, 300), p.linear.feature_map = map;
        verify_gradients(map == LNT_MAP_RELU ? "linear boxes, relu" : "linear boxes, exp", p,
                         false);
    }
}
