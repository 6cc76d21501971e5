/* bench/gpu/family_linear.cc - linear attention: as the planner runs it, and by one pass and by
 * more of them over k and v, each forced. */
#include "gpu/families.h"
#include "gpu/forward.h"

void verify_linear()
{
    each_width(LNT_LINEAR, 1500, LNT_BF16, "linear", verify_forward);
    lnt_attn_desc p = describe(LNT_LINEAR, 6, 20, 1111);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2;
    verify_forward("linear 20 -> 12, 6 heads on 2, 1111 tokens", p, true);
    p.length_q = 300, p.length_k = 1811;
    verify_forward("linear 300 queries at the end of 1811 keys", p, false);
    const double decay[2] = { 0.9, 0.999 };
    p.decay = decay;
    verify_forward_within(4e-3, "linear with decay", p, false);
    p = describe(LNT_LINEAR, 2, 16, 900), p.length_k = 1200;
    verify_lengths("linear lengths, causal", p);
    for (lnt_feature_map map : { LNT_MAP_RELU, LNT_MAP_EXP }) {
        p = describe(LNT_LINEAR, 2, 64, 500), p.linear.feature_map = map;
        verify_forward(map == LNT_MAP_RELU ? "linear relu" : "linear exp", p, false);
    }
}

/* Widths, odd numbers of tokens, heads that share. */
static void verify_passes_as(const std::string &name, const char *algorithm)
{
    auto forward = [&](lnt_attn_desc p, const std::string &what, bool interleaved) {
        p.algorithm = algorithm;
        verify_forward(name + what, p, interleaved);
    };
    for (int64_t n : { 1, 15, 63, 64, 65, 255, 257, 1500, 50021 })
        forward(describe(LNT_LINEAR, 3, 64, n), std::to_string(n) + " tokens", n % 2);
    for (int64_t heads : { 1, 24, 150 })
        forward(describe(LNT_LINEAR, heads, 32, heads == 24 ? 8003 : 600),
                std::to_string(heads) + " heads", true);
    lnt_attn_desc p = describe(LNT_LINEAR, 6, 24, 1111);
    p.kv_heads = 2, p.dim_value = 40, p.batch = 2;
    forward(p, "24 -> 40, 6 heads on 2", true);
    p.dim = 56, p.dim_value = 8, p.length_q = 300, p.length_k = 1811;
    forward(p, "56 -> 8, 300 queries at the end of 1811 keys", false);
    for (lnt_feature_map map : { LNT_MAP_RELU, LNT_MAP_EXP }) {
        p = describe(LNT_LINEAR, 2, 48, 700), p.linear.feature_map = map;
        forward(p, map == LNT_MAP_RELU ? "relu" : "exp", false);
    }
    p = describe(LNT_LINEAR, 2, 64, 900), p.length_k = 1200, p.algorithm = algorithm;
    verify_lengths(name + "lengths", p);
    verify_lengths(name + "lengths, more queries than keys", p, 33);
    p = describe(LNT_LINEAR, 4, 64, 1303), p.kv_heads = 2, p.state = 1, p.algorithm = algorithm;
    verify_continued(name + "in two parts", p, 700);
    verify_steps(name + "1290 tokens forward, 13 in steps", p, 1290, 1);
}

void verify_passes()
{
    verify_passes_as("linear passes ", "chunked:passes");
    verify_passes_as("linear pass ", "chunked:pass");
}
