/* bench/gpu/works.cc - the list of works, in the order of docs/gpu.md, with their targets. */
#include "gpu/works.h"

#include <cstring>

#include "gpu/problem.h"
#include "gpu/table.h"
#include "gpu/work.h"

namespace
{

/* Which works are wanted, and how often they run. */
struct wish {
    const std::vector<std::string> &names;
    bool once;

    bool has(const char *name) const
    {
        for (const std::string &n : names)
            if (strncmp(name, n.c_str(), n.size()) == 0) return true;
        return names.empty();
    }
};

} // namespace

static lnt_attn_desc describe_taylorshift(int64_t d, int64_t n, lnt_dtype dtype)
{
    lnt_attn_desc p = describe(LNT_TAYLOR, 1024 / d, d, n, dtype);
    p.taylor.terms = 3, p.causal = 0, p.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1;
    return p;
}

static void time_steps(const wish &wanted)
{
    auto decode = [&](const char *name, lnt_attn_desc p, int64_t terms, double target) {
        p.taylor.terms = terms;
        if (wanted.has(name)) work_step(name, p, target, wanted.once);
    };
    decode("step taylor P 8 1024 x 8", describe(LNT_TAYLOR, 1024, 8, 1), 8, 0.16);
    decode("step taylor P 4 16 x 64", describe(LNT_TAYLOR, 16, 64, 1), 4, 0.13);
    decode("step taylor P 4 32 x 32", describe(LNT_TAYLOR, 32, 32, 1), 4, 0.025);
    decode("step taylor P 4 64 x 16", describe(LNT_TAYLOR, 64, 16, 1), 4, 0.010);
    auto context = [&](const char *name, const lnt_attn_desc &p) {
        if (wanted.has(name) && !wanted.once) work_context(name, p);
    };
    context("context taylor P 4 32 x 32", describe(LNT_TAYLOR, 32, 32, 1));
    context("context taylor P 4 64 x 16", describe(LNT_TAYLOR, 64, 16, 1));
    context("context linear 16 x 64", describe(LNT_LINEAR, 16, 64, 1));
}

static void time_forward(const wish &wanted)
{
    auto forward = [&](const char *name, const lnt_attn_desc &p, double target, bool ms = false) {
        if (wanted.has(name)) work_forward(name, p, target, ms, wanted.once);
    };
    forward("taylorshift full 64 x 16", describe_taylorshift(16, 65536, LNT_BF16), 8);
    forward("taylorshift full 32 x 32", describe_taylorshift(32, 65536, LNT_BF16), 12);
    forward("taylorshift full 16 x 64", describe_taylorshift(64, 65536, LNT_BF16), 36);
    forward("taylor P 4 causal 128 x 8", describe(LNT_TAYLOR, 128, 8, 65536), 8);
    forward("taylor P 4 causal 64 x 16", describe(LNT_TAYLOR, 64, 16, 65536), 22);
    forward("taylor P 4 causal 32 x 32", describe(LNT_TAYLOR, 32, 32, 65536), 93);
    forward("taylor P 4 causal 16 x 64", describe(LNT_TAYLOR, 16, 64, 262144), 600);
    forward("linear causal 16 x 64, 1M tokens", describe(LNT_LINEAR, 16, 64, 1048576), 3.0, true);
    forward("linear causal 32 x 32, 1M tokens", describe(LNT_LINEAR, 32, 32, 1048576), 0, true);
    forward("softmax causal 16 x 64", describe(LNT_SOFTMAX, 16, 64, 65536), 0);
}

/* In the precision of f32. */
static void time_split(const wish &wanted)
{
    auto forward = [&](const char *name, const lnt_attn_desc &p, bool ms = false) {
        if (wanted.has(name)) work_forward(name, p, 0, ms, wanted.once);
    };
    auto f32 = [](lnt_mechanism m, int64_t heads, int64_t dim, int64_t n) {
        return describe(m, heads, dim, n, LNT_F32);
    };
    forward("f32 taylorshift full 64 x 16", describe_taylorshift(16, 65536, LNT_F32));
    forward("f32 taylorshift full 32 x 32", describe_taylorshift(32, 65536, LNT_F32));
    forward("f32 taylorshift full 16 x 64", describe_taylorshift(64, 65536, LNT_F32));
    forward("f32 taylor P 4 causal 128 x 8", f32(LNT_TAYLOR, 128, 8, 65536));
    forward("f32 taylor P 4 causal 64 x 16", f32(LNT_TAYLOR, 64, 16, 65536));
    forward("f32 taylor P 4 causal 32 x 32", f32(LNT_TAYLOR, 32, 32, 65536));
    forward("f32 taylor P 4 causal 16 x 64", f32(LNT_TAYLOR, 16, 64, 65536));
    forward("f32 linear causal 16 x 64, 1M tokens", f32(LNT_LINEAR, 16, 64, 1048576), true);
    forward("f32 softmax causal 16 x 64", f32(LNT_SOFTMAX, 16, 64, 16384));
    lnt_attn_desc p = describe(LNT_TAYLOR, 128, 8, 65536);
    p.taylor.terms = 8, p.algorithm = "state";
    forward("taylor P 8 causal 128 x 8", p);
    p = describe(LNT_TAYLOR, 64, 16, 65536), p.taylor.terms = 6, p.algorithm = "state";
    forward("taylor P 6 causal 64 x 16", p);
    if (wanted.has("f32 cur 16 x 64")) work_cur("f32 cur 16 x 64", LNT_F32, wanted.once);
    if (wanted.has("cur 16 x 64")) work_cur("cur 16 x 64", LNT_BF16, wanted.once);
}

static void time_backward(const wish &wanted)
{
    auto both = [&](const char *name, const lnt_attn_desc &p, double target = 0, double times = 0) {
        if (wanted.has(name)) work_backward(name, p, target, times, wanted.once);
    };
    both("backward linear causal 16 x 64", describe(LNT_LINEAR, 16, 64, 65536), 1.2);
    both("backward linear causal 32 x 32", describe(LNT_LINEAR, 32, 32, 65536));
    lnt_attn_desc full = describe(LNT_LINEAR, 16, 64, 65536);
    full.causal = 0;
    both("backward linear full 16 x 64", full);
    both("backward taylor P 4 causal 32 x 32", describe(LNT_TAYLOR, 32, 32, 65536), 0, 4);
    both("backward taylor P 4 causal 64 x 16", describe(LNT_TAYLOR, 64, 16, 65536));
    both("backward taylor P 4 causal 16 x 64", describe(LNT_TAYLOR, 16, 64, 65536));
    both("backward taylorshift full 32 x 32", describe_taylorshift(32, 65536, LNT_BF16));
    both("backward softmax causal 16 x 64", describe(LNT_SOFTMAX, 16, 64, 16384));
    auto f32 = [&](const char *name, lnt_attn_desc p) {
        p.dtype = LNT_F32;
        both(name, p);
    };
    f32("f32 backward linear causal 16 x 64", describe(LNT_LINEAR, 16, 64, 65536));
    f32("f32 backward taylor P 4 causal 32 x 32", describe(LNT_TAYLOR, 32, 32, 16384));
    f32("f32 backward taylor P 4 causal 64 x 16", describe(LNT_TAYLOR, 64, 16, 16384));
    f32("f32 backward taylorshift full 32 x 32", describe_taylorshift(32, 16384, LNT_F32));
    f32("f32 backward softmax causal 16 x 64", describe(LNT_SOFTMAX, 16, 64, 16384));
}

void time_works(const std::vector<std::string> &names, bool once)
{
    begin_table(once);
    const wish wanted = { names, once };
    time_steps(wanted);
    time_forward(wanted);
    time_split(wanted);
    time_backward(wanted);
}
