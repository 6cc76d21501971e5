/* tests/unit/test_header_cxx.cc - linnet.h as the first include of a C++ program: it compiles, the
 * functions link by their C names, and a plan runs. */
#include "linnet.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <vector>

static_assert(std::is_standard_layout<lnt_attn_desc>::value, "desc crosses the C ABI");
static_assert(std::is_standard_layout<lnt_attn_io>::value, "io crosses the C ABI");
static_assert(std::is_trivially_copyable<lnt_tensor>::value, "a view is copied freely");

static bool failed(lnt_status status, const char *call, lnt_ctx *ctx)
{
    if (status == LNT_OK) return false;
    std::printf("%s: %s: %s\n", call, lnt_status_name(status), ctx ? lnt_ctx_error(ctx) : "");
    return true;
}

/* With every value 1, any weights average to 1. */
static bool ones_average_to_one(lnt_ctx *ctx)
{
    std::vector<float> q(5 * 4, 0.25f), v(5 * 4, 1.0f), y(5 * 4, -1.0f);
    lnt_attn_desc desc;
    lnt_plan *plan = nullptr;
    if (failed(lnt_attn_desc_init(&desc, sizeof desc), "lnt_attn_desc_init", ctx)) return false;
    desc.mechanism = LNT_SOFTMAX;
    desc.length_q = 5;
    desc.dim = 4;
    desc.causal = 1;
    if (failed(lnt_plan_create(ctx, &desc, &plan), "lnt_plan_create", ctx)) return false;
    lnt_attn_io io = {};
    io.size = sizeof io;
    io.q = io.k = lnt_tensor_bhnd(q.data(), LNT_F32, 1, 1, 5, 4);
    io.v = lnt_tensor_bhnd(v.data(), LNT_F32, 1, 1, 5, 4);
    io.out = lnt_tensor_bhnd(y.data(), LNT_F32, 1, 1, 5, 4);
    bool good = !failed(lnt_plan_forward(plan, &io), "lnt_plan_forward", ctx);
    for (float x : y)
        if (!(std::fabs(x - 1.0f) < 1e-6f)) good = false;
    if (!good) std::printf("ones did not average to one\n");
    lnt_plan_destroy(plan);
    return good;
}

int main()
{
    lnt_ctx *ctx = nullptr;
    bool good = std::strcmp(lnt_version(), LNT_VERSION_STRING) == 0;
    if (failed(lnt_ctx_create(nullptr, &ctx), "lnt_ctx_create", nullptr)) return 1;
    good = ones_average_to_one(ctx) && good;
    lnt_ctx_destroy(ctx);
    return good ? 0 : 1;
}
