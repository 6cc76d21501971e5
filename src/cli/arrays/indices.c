/* cli/arrays/indices.c - the landmark tokens of cur as an array to write. */
#include "cli/arrays/indices.h"

#include <stdlib.h>

#include "cli/show/report.h"

/* The tokens of every head, one after the other; *count is how many a head has of each kind. */
static int read_heads(lnt_ctx *ctx, lnt_plan *plan, const lnt_attn_desc *desc, const operands *in,
                      int64_t *token, double *out, int64_t *count)
{
    const lnt_attn_io io = { .size = sizeof io, .q = in->q.view, .k = in->k.view, .v = in->v.view };
    const int64_t H = desc->heads;
    *count = 0;
    for (int64_t bh = 0; bh < desc->batch * H; bh++) {
        if (lnt_plan_landmarks(plan, &io, bh / H, bh % H, token, token + desc->cur.landmarks, count))
            return fail_ctx(ctx);
        for (int64_t i = 0; i < 2 * *count; i++) *out++ = (double)token[i];
    }
    return EXIT_OK;
}

int indices_read(lnt_ctx *ctx, lnt_plan *plan, const lnt_attn_desc *desc, const operands *in,
                 lnt_array *out)
{
    const size_t of_head = 2 * (size_t)desc->cur.landmarks;
    const size_t total = (size_t)(desc->batch * desc->heads) * of_head + 1;
    int64_t count = 0, *token = calloc(of_head, sizeof *token);
    double *all = calloc(total, sizeof *all);
    const int status = token && all ? read_heads(ctx, plan, desc, in, token, all, &count)
                                    : fail_memory(total * sizeof *all);
    free(token);
    *out = (lnt_array){ .data = all, .dtype = LNT_F64, .rank = 4,
                        .shape = { desc->batch, desc->heads, 2, count } };
    return status;
}
