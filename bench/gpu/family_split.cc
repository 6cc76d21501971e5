/* bench/gpu/family_split.cc - the precision of f32, cuda/f32/f32.h: widths, few tokens and many,
 * heads that share, lengths, states; and of bf16 what it does of that type. */
#include "gpu/dtype.h"
#include "gpu/families.h"
#include "gpu/forward.h"

static void verify_taylor_shapes()
{
    for (int64_t d : { 8, 16, 32, 64, 128 })
        for (int64_t terms = 1; terms <= 4; terms++) {
            lnt_attn_desc p = describe(LNT_TAYLOR, 2, d, d >= 64 ? 300 : 700, LNT_F32);
            if (terms == 2) p.scale /= 4; /* 1 + x: so that denominators stay away from 0 */
            p.taylor.terms = terms, p.causal = terms % 2 == (d > 16), p.algorithm = "state";
            const std::string name = "f32 taylor d " + std::to_string(d) + " P " +
                                     std::to_string(terms) + (p.causal ? " causal" : " full");
            verify_forward(name, p, terms == 3);
            p.algorithm = "direct", p.causal = !p.causal;
            verify_forward(name, p, terms == 2);
        }
    for (int64_t n : { 1, 31, 32, 33, 127, 129, 257, 4099 }) {
        lnt_attn_desc p = describe(LNT_TAYLOR, 3, 8, n, LNT_F32);
        p.scale /= 4, p.algorithm = "state", p.causal = n != 257;
        verify_forward("f32 taylor, " + std::to_string(n) + " tokens", p, n % 2);
    }
}

static void verify_taylor_options()
{
    lnt_attn_desc p = describe(LNT_TAYLOR, 6, 20, 777, LNT_F32);
    p.kv_heads = 2, p.dim_value = 13, p.batch = 2, p.length_k = 1301, p.algorithm = "state";
    p.scale /= 2;
    verify_forward("f32 taylor 20 -> 13, 6 heads on 2, 777 at the end of 1301", p, true);
    p.dtype = LNT_F16;
    verify_forward("f16 taylor 20 -> 13, 6 heads on 2", p, false);
    p.dtype = LNT_F32;
    verify_lengths("f32 taylor lengths, causal", p);
    p.causal = 0;
    verify_lengths("f32 taylor lengths, full", p);
    const double tau[4] = { 1.0, 2.5, 0.5, 4.0 };
    p = describe(LNT_TAYLOR, 4, 32, 1000, LNT_F32);
    p.taylor.terms = 3, p.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1,
    p.taylor.temperature = tau;
    p.taylor.output_norm = 1, p.algorithm = "state";
    verify_forward("f32 taylorshift, temperatures, output norm, causal", p, false);
    p.causal = 0;
    verify_forward("f32 taylorshift, temperatures, output norm, full", p, true);
    p = describe(LNT_TAYLOR, 4, 16, 1303, LNT_F32), p.kv_heads = 2, p.state = 1, p.scale /= 2;
    verify_continued("f32 taylor forward in two parts", p, 700);
    verify_steps("f32 taylor 1290 tokens forward, 13 in steps", p, 1290, 1);
}

/* More terms than bf16 has kernels of its own for. */
static void verify_many_terms(lnt_dtype dtype)
{
    const std::string type = std::string(name_of(dtype)) + " ";
    for (int64_t d : { 4, 8, 13, 16 })
        for (int64_t terms = 5; terms <= 8; terms++) {
            lnt_attn_desc p = describe(LNT_TAYLOR, 4, d, d > 8 ? 300 : 900, dtype);
            p.kv_heads = 2, p.taylor.terms = terms, p.causal = d != 13, p.algorithm = "state";
            const std::string name = type + "taylor d " + std::to_string(d) + " P " +
                                     std::to_string(terms);
            verify_forward(name, p, terms % 2);
            p.state = 1, p.causal = 1;
            if (d == 8) verify_continued(name + ", two parts", p, 500);
            if (d == 8) verify_steps(name + ", then steps", p, 890, 1);
        }
}

/* Linear and softmax. */
static void verify_others(lnt_dtype dtype)
{
    const std::string type = std::string(name_of(dtype)) + " ";
    each_width(LNT_LINEAR, 777, dtype, type + "linear", verify_forward);
    each_width(LNT_SOFTMAX, 777, dtype, type + "softmax", verify_forward);
    lnt_attn_desc p = describe(LNT_LINEAR, 6, 20, 300, dtype);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.length_k = 1811;
    verify_forward(type + "linear 20 -> 12, 300 at the end of 1811", p, true);
    verify_lengths(type + "linear lengths", p);
    const double decay[2] = { 0.9, 0.999 };
    p.decay = decay;
    verify_forward(type + "linear with decay", p, false);
    p.length_q = p.length_k = 1303, p.state = 1;
    verify_continued(type + "linear with decay, two parts", p, 700);
    verify_steps(type + "linear with decay, then steps", p, 1290, 1);
    for (lnt_feature_map map : { LNT_MAP_RELU, LNT_MAP_EXP }) {
        p = describe(LNT_LINEAR, 2, 64, 500, dtype), p.linear.feature_map = map;
        verify_forward(type + (map == LNT_MAP_RELU ? "linear relu" : "linear exp"), p, false);
    }
    p = describe(LNT_SOFTMAX, 6, 20, 111, dtype);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.length_k = 333, p.scale = 3;
    verify_forward(type + "softmax 20 -> 12, 6 heads on 2, scale 3", p, true);
    verify_lengths(type + "softmax lengths", p);
}

void verify_split()
{
    verify_taylor_shapes();
    verify_taylor_options();
    verify_many_terms(LNT_F32);
    verify_many_terms(LNT_BF16);
    verify_others(LNT_F32);
    verify_others(LNT_F16);
}
