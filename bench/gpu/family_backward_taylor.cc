/* bench/gpu/family_backward_taylor.cc - gradients of Taylor attention by tiles and by a state:
 * widths, terms, shapes, options, and numbers of one sign. */
#include "gpu/backward.h"
#include "gpu/families.h"
#include "gpu/problem.h"

static void verify_widths()
{
    for (int64_t d : { 8, 16, 32, 64 })
        for (int64_t terms = 1; terms <= 4; terms++)
            for (int causal = 0; causal < 2; causal++) {
                lnt_attn_desc p = describe(LNT_TAYLOR, 2, d, d >= 64 ? 261 : 597);
                if (terms == 2) p.scale /= 4; /* 1 + x: or denominators are near 0 */
                p.taylor.terms = terms, p.causal = causal, p.algorithm = "state";
                verify_gradients("taylor d " + std::to_string(d) + " P " + std::to_string(terms) +
                                     (causal ? " causal" : " full"),
                                 p, terms == 3);
            }
}

static void verify_shapes()
{
    lnt_attn_desc p = describe(LNT_TAYLOR, 6, 20, 611);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.algorithm = "state";
    p.scale /= 2; /* P 4 is negative below -1.6: or one row of a denominator near 0 is most of dq,
                   * and bf16 weights alone, in double arithmetic, put it off by 2e-2 */
    verify_gradients("taylor 20 -> 12, 6 heads on 2, 611 tokens", p, true);
    p.length_q = 100, p.length_k = 711;
    verify_gradients("taylor 100 queries at the end of 711 keys", p, false);
    p.causal = 0;
    verify_gradients("taylor 100 queries on 711 keys, full", p, false);
    p.causal = 1, p.taylor.terms = 7, p.algorithm = NULL;
    verify_gradients("taylor P 7", p, false);
    verify_gradients("taylor d 128", describe(LNT_TAYLOR, 2, 128, 211), false);
    verify_gradients("taylor 2 tokens", describe(LNT_TAYLOR, 2, 16, 2), false);
}

static void verify_options()
{
    const double tau[4] = { 1.0, 2.5, 0.5, 4.0 };
    lnt_attn_desc p = describe(LNT_TAYLOR, 4, 32, 500);
    p.taylor.terms = 3, p.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1,
    p.taylor.temperature = tau;
    p.taylor.output_norm = 1, p.algorithm = "state";
    verify_gradients("taylorshift, temperatures, output norm, causal", p, false);
    p.causal = 0;
    verify_gradients("taylorshift, temperatures, output norm, full", p, false);
    p.algorithm = "direct", p.kv_heads = 2;
    verify_gradients("taylorshift, temperatures, output norm, full", p, true);
    p = describe(LNT_TAYLOR, 2, 16, 500), p.length_k = 700, p.algorithm = "state";
    verify_gradient_lengths("taylor lengths, causal", p);
    p.causal = 0;
    verify_gradient_lengths("taylor lengths, full", p);
}

static void verify_positive()
{
    lnt_attn_desc p = describe(LNT_TAYLOR, 8, 32, 256);
    p.algorithm = "direct";
    verify_gradients_of("taylor d 32, q and k above 0", p, false, true);
    p = describe(LNT_TAYLOR, 1, 32, 4096), p.algorithm = "state";
    verify_gradients_of("taylor d 32, q and k above 0", p, false, true);
    for (int64_t d : { 8, 16, 32, 64 })
        for (int causal = 0; causal < 2; causal++) {
            p = describe(LNT_TAYLOR, 2, d, d == 64 ? 700 : 1500), p.algorithm = "state";
            p.causal = causal, p.taylor.terms = d == 16 ? 3 : 4;
            verify_gradients_of("taylor d " + std::to_string(d) + (causal ? " causal" : " full") +
                                    ", q and k above 0",
                                p, true, true);
        }
}

void verify_backward_taylor()
{
    verify_widths();
    verify_shapes();
    verify_options();
    verify_positive();
}
