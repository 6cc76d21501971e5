/* bench/gpu/family_backward_mean.cc - gradients where the mean of the values is not small beside
 * their spread: cuda/tiles/tiles_center.cu. */
#include <cstdio>

#include "gpu/backward.h"
#include "gpu/families.h"
#include "gpu/problem.h"

static void verify_mean(float mean)
{
    const bool positive = mean == 1 || mean == 16;
    auto verify = [&](const char *what, const lnt_attn_desc &p) {
        char name[96];
        snprintf(name, sizeof name, "taylor %s, mean %g%s", what, (double)mean,
                 positive ? ", q and k above 0" : "");
        verify_gradients_of(name, p, positive, positive, mean);
    };
    lnt_attn_desc p = describe(LNT_TAYLOR, 2, 16, 512);
    p.causal = 0, p.algorithm = "state";
    verify("d 16 full", p);
    p = describe(LNT_TAYLOR, 4, 16, 1500), p.kv_heads = 2, p.algorithm = "state";
    verify("d 16 causal, 4 heads on 2", p);
    p = describe(LNT_TAYLOR, 1, 13, 2100), p.dim_value = 10, p.algorithm = "state";
    p.causal = 0, p.taylor.terms = 3;
    verify("13 -> 10 full, P 3", p);
    p = describe(LNT_TAYLOR, 1, 32, 700), p.causal = 0, p.algorithm = "state";
    verify("d 32 full", p);
    p = describe(LNT_TAYLOR, 2, 32, 2600), p.algorithm = "state:pairs";
    verify("pairs", p);
    p = describe(LNT_TAYLOR, 1, 64, 300), p.causal = 0, p.algorithm = "state";
    verify("d 64 full", p);
}

void verify_backward_mean()
{
    for (float mean : { 0.25f, 1.0f, 4.0f, 16.0f }) verify_mean(mean);
    lnt_attn_desc p = describe(LNT_TAYLOR, 2, 32, 700);
    p.causal = 0, p.algorithm = "state";
    verify_gradients_of("taylor d 32 full, mean 1", p, true, false, 1);
    p = describe(LNT_TAYLOR, 1, 16, 300), p.algorithm = "direct";
    verify_gradients_of("taylor d 16 direct, mean 4", p, true, false, 4);
}
