/* tests/unit/test_cuda_forms.cc - which kernels the GPU plug-in takes for a problem, by what a device has:
 * decided by a function of the problem and of the device's limits, which needs neither. */
#include <cstdio>
#include <cstring>

#include "cuda/host/choose.h"

using lnt::limits;

/* Compute capability 9.0, 8.0 and 8.6: multiprocessors, shared memory of a block, warpgroups. */
static const limits nine = { 132, 232448, true }, eight = { 108, 166912, false },
                    small = { 84, 101376, false };

static int wrong;

static lnt_attn_desc problem(lnt_mechanism m, int64_t heads, int64_t dim, int64_t length)
{
    lnt_attn_desc p = {};
    p.size = sizeof p, p.mechanism = m, p.dtype = LNT_BF16;
    p.batch = 1, p.heads = p.kv_heads = heads, p.dim = p.dim_value = dim;
    p.length_q = p.length_k = length, p.causal = m != LNT_CUR, p.scale = 1;
    p.taylor.terms = 4, p.cur.landmarks = 64, p.cur.select = LNT_SELECT_STEP;
    return p;
}

/* "taylor/state:orbits", and after a space the form of the backward pass; or the sentence. */
static std::string chosen(const lnt_attn_desc &p, const limits &device)
{
    lnt::choice c;
    std::string sentence;
    if (!lnt::choose(&p, device, &c, &sentence)) return sentence;
    const std::string name = std::string(c.algorithm) + ":" + lnt::form_name(c.forward);
    return p.backward ? name + " " + lnt::form_name(c.backward) : name;
}

static void expect(const lnt_attn_desc &p, const limits &device, const char *want)
{
    const std::string got = chosen(p, device);
    if (got.find(want) != std::string::npos) return;
    std::printf("mechanism %d, %lld x %lld, %zu bytes: %s, expected %s\n", (int)p.mechanism,
                (long long)p.heads, (long long)p.dim, device.shared, got.c_str(), want);
    wrong++;
}

static void the_fastest_form_that_fits_is_taken()
{
    lnt_attn_desc p = problem(LNT_TAYLOR, 32, 32, 100000);
    expect(p, nine, "taylor/state:pairs");
    expect(p, eight, "taylor/state:tiles");
    p.heads = p.kv_heads = 4;
    expect(p, nine, "taylor/state:tiles");
    expect(problem(LNT_TAYLOR, 4, 16, 100000), nine, "taylor/state:orbits");
    expect(problem(LNT_TAYLOR, 4, 64, 300), nine, "taylor/direct:bf16");
    expect(problem(LNT_LINEAR, 16, 64, 100000), nine, "linear/chunked:pass");
    expect(problem(LNT_LINEAR, 16, 64, 100000), eight, "linear/chunked:passes");
    p = problem(LNT_CUR, 4, 64, 1000);
    expect(p, nine, "cur/flash:f32");
    p.mechanism = LNT_SOFTMAX, p.dtype = LNT_F16;
    expect(p, nine, "softmax/tiled:f32");
}

static void gradients_have_a_form_of_their_own()
{
    lnt_attn_desc p = problem(LNT_TAYLOR, 32, 32, 100000);
    p.backward = 1;
    expect(p, nine, "taylor/state:pairs pairs");
    p.kv_heads = 16;
    expect(p, nine, "taylor/state:pairs tiles");
    p.state = 1;
    expect(p, nine, "taylor/state:pairs f32");
    p = problem(LNT_TAYLOR, 4, 16, 100000), p.backward = 1;
    expect(p, nine, "taylor/state:orbits tiles");
    p = problem(LNT_TAYLOR, 4, 128, 1000000), p.backward = 1, p.algorithm = "state";
    expect(p, nine, "taylor/state:tiles f32");
}

/* 163 KB of shared memory on 8.0, 99 on 8.6: what asks for more is not left to a launch. */
static void what_would_not_launch_is_not_planned()
{
    lnt_attn_desc p = problem(LNT_SOFTMAX, 8, 128, 1000);
    expect(p, nine, "softmax/tiled:bf16");
    expect(p, eight, "softmax/tiled:f32");
    expect(p, small, "more shared memory than the 99 KB of this device");
    p.dim = p.dim_value = 64;
    expect(p, eight, "softmax/tiled:bf16");
    expect(p, small, "softmax/tiled:f32");
    p = problem(LNT_LINEAR, 8, 128, 1000);
    expect(p, eight, "linear/chunked:passes");
    expect(p, small, "linear/chunked with dim 128 and dim_value 128 needs more shared memory");
    p.backward = 1;
    expect(p, nine, "linear/chunked:passes passes");
    expect(p, eight, "linear/chunked:passes f32");
    p = problem(LNT_TAYLOR, 8, 128, 1000000);
    expect(p, nine, "taylor/state:tiles");
    expect(p, eight, "taylor/state:f32");
    p = problem(LNT_TAYLOR, 8, 32, 1000000), p.taylor.terms = 3;
    expect(p, eight, "taylor/state:orbits");
    expect(p, small, "taylor/state:f32");
}

static void a_form_that_is_asked_for_is_taken_or_refused()
{
    lnt_attn_desc p = problem(LNT_TAYLOR, 2, 32, 100);
    p.algorithm = "taylor/state:pairs";
    expect(p, nine, "taylor/state:pairs");
    expect(p, eight, "taylor/state:pairs does not take this problem here; tiles, f32 would");
    p.algorithm = "state:f32";
    expect(p, nine, "taylor/state:f32");
    p.algorithm = "taylor/direct";
    expect(p, nine, "taylor/direct:bf16");
    p.algorithm = "taylor/state:squares";
    expect(p, nine, "taylor/state:squares does not take this problem here; pairs, tiles, f32 would");
    p = problem(LNT_LINEAR, 1, 16, 100), p.algorithm = "chunked:pass";
    expect(p, nine, "linear/chunked:pass");
    expect(p, eight, "linear/chunked:pass does not take this problem here; passes, f32 would");
}

int main()
{
    the_fastest_form_that_fits_is_taken();
    gradients_have_a_form_of_their_own();
    what_would_not_launch_is_not_planned();
    a_form_that_is_asked_for_is_taken_or_refused();
    return wrong > 0;
}
