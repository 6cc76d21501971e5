/* bench/gpu/family_backward_split.cc - gradients in the precision of f32: every width, lengths,
 * states; and of bf16 what has a state. */
#include "gpu/backward.h"
#include "gpu/dtype.h"
#include "gpu/families.h"
#include "gpu/forward.h"

/* ---- linear and softmax ---------------------------------------------------------------------- */

static void verify_linear_and_softmax(lnt_dtype dtype)
{
    const std::string type = std::string(name_of(dtype)) + " ";
    each_width(LNT_LINEAR, 571, dtype, type + "linear", verify_gradients);
    each_width(LNT_SOFTMAX, 277, dtype, type + "softmax", verify_gradients);
    lnt_attn_desc p = describe(LNT_SOFTMAX, 6, 20, 111, dtype);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.length_k = 333, p.scale = 1;
    verify_gradients(type + "softmax 20 -> 12, 6 heads on 2", p, true);
    verify_gradient_lengths(type + "softmax lengths, causal", p);
    p.causal = 0;
    verify_gradient_lengths(type + "softmax lengths, full", p);
    const double decay[2] = { 0.9, 0.999 };
    p = describe(LNT_LINEAR, 6, 20, 100, dtype);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.length_k = 711;
    verify_gradients(type + "linear 100 at the end of 711", p, false);
    p.decay = decay;
    verify_gradients(type + "linear 100 at the end of 711, decay", p, false);
    verify_gradient_lengths(type + "linear lengths, decay", p);
    p.length_q = 700, p.length_k = 700, p.batch = 1;
    verify_state_gradients(type + "linear, states before and after, decay", p);
    verify_gradients_in_parts(type + "linear in two parts, decay", p, 401);
    for (lnt_feature_map map : { LNT_MAP_RELU, LNT_MAP_EXP }) {
        p = describe(LNT_LINEAR, 2, 64, 300, dtype), p.linear.feature_map = map;
        verify_gradients(type + (map == LNT_MAP_RELU ? "linear relu" : "linear exp"), p, false);
    }
}

void verify_backward_split()
{
    verify_linear_and_softmax(LNT_F32);
    verify_linear_and_softmax(LNT_F16);
}

/* ---- taylor ---------------------------------------------------------------------------------- */

static void verify_widths(lnt_dtype dtype)
{
    const std::string type = std::string(name_of(dtype)) + " ";
    for (int64_t d : { 8, 16, 32, 64, 128 })
        for (int64_t terms = 1; terms <= 4; terms++) {
            lnt_attn_desc p = describe(LNT_TAYLOR, 2, d, d >= 64 ? 261 : 597, dtype);
            if (d == 128 && terms == 4) p.length_q = p.length_k = 140;
            p.scale /= terms == 2 ? 4 : 2; /* so that denominators stay away from 0 */
            p.taylor.terms = terms, p.causal = terms % 2 == (d > 16), p.algorithm = "state";
            const std::string name = type + "taylor d " + std::to_string(d) + " P " +
                                     std::to_string(terms) + (p.causal ? " causal" : " full");
            verify_gradients(name, p, terms == 3);
            p.algorithm = "direct", p.causal = !p.causal;
            verify_gradients(name, p, terms == 2);
        }
}

static void verify_taylor_in(lnt_dtype dtype)
{
    const std::string type = std::string(name_of(dtype)) + " ";
    verify_widths(dtype);
    lnt_attn_desc p = describe(LNT_TAYLOR, 6, 20, 611, dtype);
    p.kv_heads = 2, p.dim_value = 13, p.batch = 2, p.length_k = 711, p.algorithm = "state";
    p.scale /= 2;
    verify_gradients(type + "taylor 20 -> 13, 6 heads on 2, 611 at the end of 711", p, true);
    verify_gradient_lengths(type + "taylor lengths, causal", p);
    p.causal = 0;
    verify_gradient_lengths(type + "taylor lengths, full", p);
    for (int64_t terms = 5; terms <= 8; terms++) {
        p = describe(LNT_TAYLOR, 4, 9, 333, dtype), p.kv_heads = 2, p.taylor.terms = terms;
        p.algorithm = "state", p.causal = (int)(terms % 2);
        verify_gradients(type + "taylor d 9 P " + std::to_string(terms), p, false);
    }
    const double tau[4] = { 1.0, 2.5, 0.5, 4.0 };
    p = describe(LNT_TAYLOR, 4, 32, 500, dtype);
    p.taylor.terms = 3, p.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1,
    p.taylor.temperature = tau;
    p.taylor.output_norm = 1, p.algorithm = "state", p.kv_heads = 2;
    verify_gradients(type + "taylorshift, temperatures, output norm, causal", p, false);
    p.causal = 0, p.algorithm = "direct";
    verify_gradients(type + "taylorshift, temperatures, output norm, full", p, true);
}

void verify_backward_split_taylor()
{
    verify_taylor_in(LNT_F32);
    verify_taylor_in(LNT_F16);
}

/* ---- taylor in two parts, with the state between them ---------------------------------------- */

static void verify_parts(lnt_dtype dtype)
{
    const std::string type = std::string(name_of(dtype)) + " ";
    lnt_attn_desc p = describe(LNT_TAYLOR, 4, 16, 700, dtype);
    p.kv_heads = 2, p.algorithm = "state", p.scale /= 2;
    verify_gradients_in_parts(type + "taylor d 16 in two parts", p, 401);
    p = describe(LNT_TAYLOR, 2, 32, 600, dtype), p.taylor.terms = 3, p.algorithm = "state", p.scale /= 2;
    verify_gradients_in_parts(type + "taylor d 32 P 3 in two parts", p, 256);
    p.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1;
    verify_gradients_in_parts(type + "taylorshift d 32 in two parts", p, 300);
    p = describe(LNT_TAYLOR, 2, 8, 500, dtype), p.taylor.terms = 6, p.algorithm = "state", p.scale /= 2;
    verify_gradients_in_parts(type + "taylor d 8 P 6 in two parts", p, 77);
}

void verify_backward_parts()
{
    verify_parts(LNT_F32);
    verify_parts(LNT_BF16);
    lnt_attn_desc p = describe(LNT_TAYLOR, 2, 128, 261); /* what bf16 has no kernels for */
    p.taylor.terms = 3, p.algorithm = "state";
    verify_gradients("bf16 taylor d 128 P 3", p, true);
    p = describe(LNT_TAYLOR, 4, 9, 333), p.taylor.terms = 6, p.algorithm = "state";
    verify_gradients("bf16 taylor d 9 P 6", p, false);
}
