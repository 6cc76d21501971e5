/* bench/gpu/family_backward_softmax.cc - gradients of softmax: widths, heads that share,
 * lengths. */
#include "gpu/backward.h"
#include "gpu/families.h"
#include "gpu/forward.h"

void verify_backward_softmax()
{
    each_width(LNT_SOFTMAX, 277, LNT_BF16, "softmax", verify_gradients);
    lnt_attn_desc p = describe(LNT_SOFTMAX, 6, 20, 111);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.length_k = 333, p.scale = 1;
    verify_gradients("softmax 20 -> 12, 6 heads on 2, scale 1", p, true);
    verify_gradient_lengths("softmax lengths, causal", p);
    p.causal = 0;
    verify_gradient_lengths("softmax lengths, full", p);
}
