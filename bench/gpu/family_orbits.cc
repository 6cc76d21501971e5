/* bench/gpu/family_orbits.cc - the widths of orbits_basis.h: few tokens, odd ones, widths between,
 * heads that share, lengths; and heads enough to fill the machine. */
#include "gpu/dtype.h"
#include "gpu/families.h"
#include "gpu/forward.h"

static void verify_token_counts()
{
    for (int64_t d : { 8, 16, 32 })
        for (int64_t n : { 1, 15, 16, 17, 63, 65, 129, 257, 1009, 4099 }) {
            lnt_attn_desc p = describe(LNT_TAYLOR, 3, d, n);
            p.taylor.terms = d == 32 ? 3 : 4, p.algorithm = "state", p.causal = n != 257;
            if (n < 257) p.scale /= 4; /* few keys: so that denominators stay away from 0 */
            verify_forward("taylor d " + std::to_string(d) + ", " + std::to_string(n) + " tokens",
                           p, n % 2);
        }
}

static void verify_widths_between()
{
    const int64_t widths[][2] = {
        { 5, 7 }, { 8, 6 }, { 13, 16 }, { 16, 9 }, { 27, 32 }, { 24, 12 }
    };
    for (const auto &w : widths) {
        lnt_attn_desc p = describe(LNT_TAYLOR, 6, w[0], 777);
        p.dim_value = w[1], p.kv_heads = 2, p.batch = 2, p.taylor.terms = w[0] > 16 ? 3 : 4;
        p.algorithm = "state";
        const std::string name = "taylor " + std::to_string(w[0]) + " -> " + std::to_string(w[1]) +
                                 ", 6 heads on 2";
        verify_forward(name, p, true);
        p.length_q = 211, p.length_k = 1301;
        verify_forward(name + ", 211 at the end of 1301", p, false);
        p.causal = 0;
        verify_forward(name + ", 211 on 1301", p, true);
    }
}

/* Lengths, states and normalised rows of one width. */
static void verify_options(int64_t d)
{
    lnt_attn_desc p = describe(LNT_TAYLOR, 2, d, 900);
    p.length_k = 1200, p.algorithm = "state", p.taylor.terms = d == 32 ? 3 : 4;
    verify_lengths("taylor lengths, causal", p);
    p.causal = 0;
    verify_lengths("taylor lengths, full", p);
    p = describe(LNT_TAYLOR, 4, d, 1303), p.kv_heads = 2, p.state = 1;
    p.taylor.terms = d == 32 ? 3 : 4, p.algorithm = "state";
    verify_continued("taylor forward in two parts", p, 700);
    verify_steps("taylor 1290 tokens forward, 13 in steps", p, 1290, 1);
    p = describe(LNT_TAYLOR, 4, d, 1000);
    p.taylor.terms = 3, p.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT, p.scale = 1, p.algorithm = "state";
    verify_forward("taylorshift causal", p, false);
    p.taylor.terms = 4, p.kv_heads = 2;
    if (d < 32) verify_forward("taylorshift P 4 causal, 4 heads on 2", p, true);
    p.taylor.terms = 3, p.kv_heads = 4;
    p.causal = 0;
    verify_forward("taylorshift full", p, true);
}

/* Heads enough for the machine, so that a run of tokens is a whole head: a block of threads walks
 * several turns through it. */
static void verify_runs()
{
    for (int64_t share : { 1, 3 })
        for (int64_t d : { 8, 16 }) {
            lnt_attn_desc p = describe(LNT_TAYLOR, (d == 8 ? 132 : 66) * share, d, 2600);
            p.kv_heads = p.heads / share, p.algorithm = "state";
            if (d == 16) p.length_q = p.length_k = 700;
            const std::string name = "taylor runs, " + std::to_string(p.heads) + " heads of " +
                                     std::to_string(d) + " on " + std::to_string(p.kv_heads);
            verify_forward_within(allowed_for(p.dtype), name, p, share == 1, p.heads / 3 - 1);
        }
}

void verify_orbits()
{
    verify_token_counts();
    verify_widths_between();
    for (int64_t d : { 8, 16, 32 }) verify_options(d);
    verify_runs();
}
