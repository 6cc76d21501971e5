/* bench/gpu/family_cur.cc - CUR attention: widths, landmarks, shapes, dtypes, lengths. */
#include <algorithm>

#include "gpu/cur.h"
#include "gpu/dtype.h"
#include "gpu/families.h"
#include "gpu/lengths.h"
#include "gpu/selection.h"
#include "gpu/verdict.h"

static void verify_widths()
{
    for (int64_t d : { 8, 16, 32, 64, 128 })
        for (lnt_select select : { LNT_SELECT_STEP, LNT_SELECT_MEAN, LNT_SELECT_STEP_MEAN }) {
            lnt_attn_desc p = describe_cur(LNT_F32, 2, d, 500, d == 32 ? 130 : 40);
            p.cur.select = select;
            p.cur.pinv = select == LNT_SELECT_STEP ? LNT_PINV_RIDGE : LNT_PINV_ITERATE;
            verify_cur_problem("f32 cur d " + std::to_string(d) +
                                   (select == LNT_SELECT_STEP   ? ", step, ridge"
                                    : select == LNT_SELECT_MEAN ? ", mean"
                                                                : ", step-mean"),
                               p, d == 16);
        }
}

static void verify_cur_lengths()
{
    const char *name = "f32 cur lengths";
    if (!is_wanted(name)) return;
    lnt_attn_desc p = describe_cur(LNT_F32, 2, 16, 200, 24);
    p.batch = 4, p.length_k = 300;
    problem x(p, false, 32);
    const lengths n({ 200, 25, 24, 0 }, { 300, 290, 300, 20 });
    n.give(x.io);
    bool clean = x.run_twice();
    double worst = 0;
    for (int64_t b = 0; b < 4; b++) {
        worst = std::max(worst, cur_error(x, b, 1, n.q[(size_t)b], n.k[(size_t)b]));
        clean = clean && rest_is_zero(x, b, 1, n.q[(size_t)b]);
    }
    report(name, worst, allowed_for(p.dtype), clean);
}

void verify_cur()
{
    verify_widths();
    lnt_attn_desc p = describe_cur(LNT_F32, 6, 20, 333, 33);
    p.kv_heads = 2, p.dim_value = 13, p.batch = 2, p.length_k = 1000;
    verify_cur_problem("f32 cur 20 -> 13, 6 heads on 2, 333 on 1000", p, true);
    p.dtype = LNT_F16;
    verify_cur_problem("f16 cur 20 -> 13, 6 heads on 2, 333 on 1000", p, false);
    p.dtype = LNT_BF16;
    verify_cur_problem("bf16 cur 20 -> 13, 6 heads on 2, 333 on 1000", p, true);
    p.dtype = LNT_F32, p.length_q = 30;
    verify_cur_problem("f32 cur, fewer queries than landmarks", p, true);
    verify_cur_lengths();
}
