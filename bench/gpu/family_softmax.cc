/* bench/gpu/family_softmax.cc - softmax: widths, heads that share, large scores, lengths. */
#include "gpu/families.h"
#include "gpu/forward.h"

void verify_softmax()
{
    each_width(LNT_SOFTMAX, 777, LNT_BF16, "softmax", verify_forward);
    lnt_attn_desc p = describe(LNT_SOFTMAX, 6, 20, 111);
    p.kv_heads = 2, p.dim_value = 12, p.batch = 2, p.length_k = 333, p.scale = 3;
    verify_forward("softmax 20 -> 12, 6 heads on 2, scale 3", p, true);
    verify_lengths("softmax lengths, causal", p);
}
