/* bench/gpu/family_pairs.cc - states of cuda/pairs/pairs_basis.h, however few the heads: segments begun, full
 * and beyond; widths between. */
#include "gpu/families.h"
#include "gpu/forward.h"

static void verify_states()
{
    lnt_attn_desc p = describe(LNT_TAYLOR, 4, 32, 3303);
    p.kv_heads = 2, p.state = 1, p.algorithm = "state:pairs";
    verify_continued("taylor pairs in two parts", p, 1700);
    verify_continued("taylor pairs in many parts", p, 300);
    verify_steps("taylor pairs 3290 tokens forward, 13 in steps", p, 3290, 1);
    p = describe(LNT_TAYLOR, 2, 30, 1500), p.dim_value = 7, p.state = 1, p.algorithm = "state:pairs";
    verify_continued("taylor pairs 30 -> 7 in two parts", p, 1025);
}

void verify_pairs()
{
    for (int64_t n : { 1, 63, 127, 129, 191, 193, 1023, 1025, 2100, 4099, 70001 }) {
        lnt_attn_desc p = describe(LNT_TAYLOR, 2, 32, n);
        p.algorithm = "state:pairs";
        verify_forward("taylor pairs " + std::to_string(n) + " tokens", p, n % 4 == 1);
    }
    lnt_attn_desc p = describe(LNT_TAYLOR, 6, 27, 2222);
    p.kv_heads = 2, p.dim_value = 13, p.batch = 2, p.algorithm = "state:pairs";
    verify_forward("taylor pairs 27 -> 13, 6 heads on 2, 2222 tokens", p, true);
    p.length_q = 300, p.length_k = 2811;
    verify_forward("taylor pairs 300 queries at the end of 2811 keys", p, false);
    verify_forward("taylor 40 heads of 32", describe(LNT_TAYLOR, 40, 32, 1303), true);
    const double tau[4] = { 1.0, 2.5, 0.5, 4.0 };
    p = describe(LNT_TAYLOR, 4, 32, 2000);
    p.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1, p.taylor.temperature = tau,
    p.taylor.output_norm = 1;
    p.algorithm = "state:pairs";
    verify_forward("taylor pairs normalised, temperatures, output norm", p, false);
    p = describe(LNT_TAYLOR, 2, 32, 2900), p.length_k = 3200, p.algorithm = "state:pairs";
    verify_lengths("taylor pairs lengths", p);
    verify_lengths("taylor pairs lengths, more queries than keys", p, 33);
    verify_states();
}
