/* bench/gpu/family_backward_pairs.cc - gradients that cuda/pairs/pairs_backward.cu takes: segments, odd
 * numbers of tokens, widths, lengths, and what forward left for them. */
#include "gpu/backward.h"
#include "gpu/families.h"
#include "gpu/problem.h"

static void verify_left_by_forward()
{
    lnt_attn_desc p = describe(LNT_TAYLOR, 3, 27, 1500);
    p.dim_value = 30, p.batch = 2, p.algorithm = "state:pairs";
    verify_after_forward("taylor pairs after forward", p, 0);
    verify_after_forward("taylor pairs after forward, mean 2", p, 2);
    p.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1, p.taylor.output_norm = 1;
    verify_after_forward("taylor pairs after forward, taylorshift, output norm, mean 1", p, 1);
    p = describe(LNT_TAYLOR, 2, 32, 900), p.algorithm = "state:pairs";
    verify_after_forward("taylor pairs after forward, one segment", p, 1);
    p = describe(LNT_TAYLOR, 4, 20, 700), p.kv_heads = 2, p.algorithm = "state";
    verify_after_forward("taylor after forward, 4 heads on 2", p, 1);
}

void verify_backward_pairs()
{
    for (int64_t n : { 2, 700, 1025, 2600 }) {
        lnt_attn_desc p = describe(LNT_TAYLOR, 2, 32, n);
        p.algorithm = "state:pairs";
        verify_gradients("taylor pairs, " + std::to_string(n) + " tokens", p, n % 2);
    }
    lnt_attn_desc p = describe(LNT_TAYLOR, 2, 32, 2600);
    p.algorithm = "state:pairs";
    verify_gradients_of("taylor pairs, q and k above 0", p, false, true);
    p = describe(LNT_TAYLOR, 3, 27, 1500), p.dim_value = 30, p.batch = 2, p.algorithm = "state:pairs";
    verify_gradients("taylor pairs 27 -> 30, 3 heads, batch 2", p, true);
    p = describe(LNT_TAYLOR, 2, 32, 600), p.length_k = 2300, p.algorithm = "state:pairs";
    verify_gradients("taylor pairs, 600 queries at the end of 2300 keys", p, false);
    verify_gradient_lengths("taylor pairs, lengths", p);
    p = describe(LNT_TAYLOR, 2, 32, 2100), p.algorithm = "state:pairs";
    p.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1, p.taylor.output_norm = 1;
    verify_gradients("taylor pairs, taylorshift, output norm", p, false);
    p = describe(LNT_TAYLOR, 40, 32, 1100), p.algorithm = "state:pairs"; /* several sets a block */
    verify_gradients("taylor pairs, 40 heads", p, false);
    p = describe(LNT_TAYLOR, 4, 32, 1300), p.kv_heads = 2, p.algorithm = "state:pairs";
    verify_gradients("taylor pairs, 4 heads on 2: by tiles", p, true);
    verify_left_by_forward();
}
