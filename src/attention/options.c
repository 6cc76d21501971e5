/* attention/options.c - the names of mechanisms, and the checks that the options of several share. */
#include "attention/options.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *lnt_options_word(const char *const *words, int i)
{
    if (i < 0) return NULL;
    for (; i > 0 && *words; i--) words++;
    return *words;
}

lnt_status lnt_options_check_word(lnt_ctx *ctx, const char *name, const char *const *words, int i)
{
    char known[160] = "";
    if (lnt_options_word(words, i)) return LNT_OK;
    for (const char *const *word = words; *word; word++) {
        const size_t used = strlen(known);
        const char *before = word == words ? "" : word[1] ? ", " : " or ";
        snprintf(known + used, sizeof known - used, "%s%s", before, *word);
    }
    return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s is %d, must be %s", name, i, known);
}

static const char *const mechanisms[] = { "softmax", "linear", "taylor", "cur", "hybrid", NULL };

const char *lnt_mechanism_name(lnt_mechanism mechanism)
{
    return lnt_options_word(mechanisms, (int)mechanism);
}

lnt_status lnt_options_check_mechanism(lnt_ctx *ctx, lnt_mechanism mechanism)
{
    return lnt_options_check_word(ctx, "mechanism", mechanisms, (int)mechanism);
}

double lnt_options_largest(const lnt_attn_desc *p) { return p->dtype == LNT_F64 ? DBL_MAX : FLT_MAX; }

bool lnt_options_is_number(const lnt_attn_desc *p, double x) { return fabs(x) <= lnt_options_largest(p); }

lnt_status lnt_options_check_extent(lnt_ctx *ctx, const char *name, int64_t value, int64_t least)
{
    if (value >= least && value <= LNT_MAX_EXTENT) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s is %lld, must be %lld to 2^40", name,
                    (long long)value, (long long)least);
}

lnt_status lnt_options_check_decay(lnt_ctx *ctx, const lnt_attn_desc *p)
{
    for (int64_t h = 0; p->decay && h < p->kv_heads; h++)
        if (!(p->decay[h] > 0 && p->decay[h] <= 1))
            return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                            "decay of kv head %lld is %g, must be above 0 and at most 1",
                            (long long)h, p->decay[h]);
    return LNT_OK;
}
