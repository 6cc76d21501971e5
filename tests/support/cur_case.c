/* cur_case.c - see cur_case.h. */
#include "cur_case.h"

attn_case cur_case(int64_t n)
{
    attn_case c = case_make(LNT_CUR, 4, 2, n, n, D, V);
    c.desc.cur.landmarks = M;
    return c;
}

void cur_forward(lnt_ctx *ctx, const attn_case *c, const char *algorithm, const trial *t)
{
    lnt_attn_desc desc = c->desc;
    lnt_plan *plan;
    desc.algorithm = algorithm;
    assert_ok(ctx, lnt_plan_create(ctx, &desc, &plan));
    assert_ok(ctx, lnt_plan_forward(plan, &t->io));
    lnt_plan_destroy(plan);
}

int64_t cur_landmarks(lnt_ctx *ctx, const attn_case *c, const trial *t, int64_t s, int64_t h,
                      int64_t *queries, int64_t *keys)
{
    lnt_plan *plan;
    int64_t count = -1;
    assert_ok(ctx, lnt_plan_create(ctx, &c->desc, &plan));
    assert_ok(ctx, lnt_plan_landmarks(plan, &t->io, s, h, queries, keys, &count));
    lnt_plan_destroy(plan);
    return count;
}
