/* bench/gpu/family_taylor.cc - Taylor attention by a state: widths, terms, shapes, options. */
#include "gpu/families.h"
#include "gpu/forward.h"

static void verify_widths()
{
    for (int64_t d : { 8, 16, 32, 64, 128 })
        for (int64_t terms = 1; terms <= 4; terms++)
            for (int causal = 0; causal < 2; causal++) {
                lnt_attn_desc p = describe(LNT_TAYLOR, 2, d, d >= 64 ? 700 : 1500);
                if (terms == 2) p.scale /= 4; /* 1 + x: so that denominators stay away from 0 */
                p.taylor.terms = terms, p.causal = causal, p.algorithm = "state";
                verify_forward("taylor d " + std::to_string(d) + " P " + std::to_string(terms) +
                                   (causal ? " causal" : " full"),
                               p, terms == 3);
            }
}

void verify_taylor()
{
    verify_widths();
    lnt_attn_desc p = describe(LNT_TAYLOR, 6, 20, 1111);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.algorithm = "state";
    verify_forward("taylor 20 -> 12, 6 heads on 2, 1111 tokens", p, true);
    p.length_q = 300, p.length_k = 1811;
    verify_forward("taylor 300 queries at the end of 1811 keys", p, false);
    p.causal = 0;
    verify_forward("taylor 300 queries on 1811 keys, full", p, false);
    p.causal = 1, p.taylor.terms = 7, p.algorithm = NULL;
    verify_forward("taylor P 7", p, false);
    verify_forward("taylor 1 token", describe(LNT_TAYLOR, 3, 16, 1), false);
    const double tau[4] = { 1.0, 2.5, 0.5, 4.0 };
    p = describe(LNT_TAYLOR, 4, 32, 1000);
    p.taylor.terms = 3, p.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1,
    p.taylor.temperature = tau;
    p.taylor.output_norm = 1, p.algorithm = "state";
    verify_forward("taylorshift, temperatures, output norm, causal", p, false);
    p.causal = 0;
    verify_forward("taylorshift, temperatures, output norm, full", p, false);
    p = describe(LNT_TAYLOR, 2, 16, 900), p.length_k = 1200, p.algorithm = "state";
    verify_lengths("taylor lengths, causal", p);
    p.causal = 0;
    verify_lengths("taylor lengths, full", p);
}
