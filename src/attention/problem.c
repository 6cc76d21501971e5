/* attention/problem.c - defaults and checks: past this file, a problem is known to make sense. */
#include "attention/problem.h"

#include <math.h>

#include "attention/linear/feature.h"
#include "attention/options.h"
#include "attention/taylor/basis.h"
#include "core/dtype.h"
#include "core/struct.h"

#define DESC LNT_STRUCT(lnt_attn_desc, dim_value)

static const lnt_option_rules *const rules[] = { [LNT_SOFTMAX] = &lnt_softmax_rules,
                                                 [LNT_LINEAR] = &lnt_linear_rules,
                                                 [LNT_TAYLOR] = &lnt_taylor_rules,
                                                 [LNT_CUR] = &lnt_cur_rules,
                                                 [LNT_HYBRID] = &lnt_hybrid_rules };
enum { MECHANISMS = sizeof rules / sizeof rules[0] };

lnt_status lnt_attn_desc_init(lnt_attn_desc *desc, size_t size)
{
    const lnt_attn_desc all = { .size = sizeof all,
                                .dtype = LNT_F32,
                                .batch = 1,
                                .heads = 1,
                                .length_k = -1,
                                .scale = NAN,
                                .linear.eps = 1e-6,
                                .cur = { .select = LNT_SELECT_STEP, .copy_rows = 1, .ridge = 1e-5 },
                                .hybrid.far = LNT_TAYLOR };
    if (!desc) return LNT_ERR_ARGUMENT;
    desc->size = size;
    const lnt_status status = lnt_struct_check(NULL, DESC, "desc", desc);
    if (!status) lnt_struct_give(&all, desc);
    return status;
}

static lnt_status check_shape(lnt_ctx *ctx, const lnt_attn_desc *p)
{
    const struct {
        const char *name;
        int64_t value, least;
    } extents[] = { { "batch", p->batch, 0 },       { "heads", p->heads, 0 },
                    { "kv_heads", p->kv_heads, 0 }, { "length_q", p->length_q, 0 },
                    { "length_k", p->length_k, 0 }, { "dim", p->dim, 1 },
                    { "dim_value", p->dim_value, 1 } };
    for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++) {
        const lnt_status status =
            lnt_options_check_extent(ctx, extents[i].name, extents[i].value, extents[i].least);
        if (status) return status;
    }
    if (p->heads ? p->kv_heads == 0 || p->heads % p->kv_heads != 0 : p->kv_heads != 0)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "kv_heads is %lld, must divide heads, which is %lld",
                        (long long)p->kv_heads, (long long)p->heads);
    const bool begin = p->mechanism == LNT_SOFTMAX && p->softmax.align_begin;
    if (p->causal && p->length_q > p->length_k && !begin)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "causal: length_q is %lld, must be at most length_k, which is %lld",
                        (long long)p->length_q, (long long)p->length_k);
    return LNT_OK;
}

static lnt_status check_compensated(lnt_ctx *ctx, const lnt_attn_desc *p)
{
    if (!p->compensated || p->mechanism == LNT_LINEAR || p->mechanism == LNT_TAYLOR) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                    "%s has no compensated: only the sums of linear and taylor keep what rounding loses",
                    lnt_mechanism_name(p->mechanism));
}

/* Of the mechanism of p; the arrays of others are not looked at. */
static lnt_status resolve_options(lnt_ctx *ctx, lnt_attn_desc *p)
{
    const lnt_option_rules *own = rules[p->mechanism];
    const lnt_status status = p->mechanism == LNT_SOFTMAX ? LNT_OK : lnt_softmax_refuse(ctx, p);
    if (status) return status;
    for (unsigned i = 0; i < MECHANISMS; i++)
        if (rules[i] != own && rules[i]->drop && !(own->takes >> i & 1)) rules[i]->drop(p);
    return own->resolve ? own->resolve(ctx, p) : LNT_OK;
}

/* What a release to come puts there would be lost. */
static lnt_status check_reserved(lnt_ctx *ctx, const lnt_attn_desc *p)
{
    const struct {
        const char *name;
        const int64_t *words;
    } rooms[] = { { "linear", p->linear.reserved }, { "taylor", p->taylor.reserved },
                  { "cur", p->cur.reserved }, { "hybrid", p->hybrid.reserved },
                  { "softmax", p->softmax.reserved } };
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++)
        for (int word = 0; word < 4; word++)
            if (rooms[i].words[word])
                return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s.reserved[%d] is %lld, must be 0", rooms[i].name,
                                word, (long long)rooms[i].words[word]);
    return LNT_OK;
}

lnt_status lnt_problem_resolve(lnt_ctx *ctx, const lnt_attn_desc *desc, lnt_attn_desc *out)
{
    lnt_status status = lnt_attn_desc_init(out, sizeof *out);
    if (!status) status = lnt_struct_take(ctx, DESC, "desc", desc, out);
    if (!status) status = check_reserved(ctx, out);
    if (!status) status = lnt_options_check_mechanism(ctx, out->mechanism);
    if (status) return status;
    if (!lnt_dtype_size(out->dtype))
        return lnt_fail(ctx, LNT_ERR_DTYPE, "dtype is %d, must be f32, f16, bf16 or f64",
                        (int)out->dtype);
    if (out->kv_heads == 0) out->kv_heads = out->heads;
    if (out->length_k == -1) out->length_k = out->length_q;
    if (out->dim_value == 0) out->dim_value = out->dim;
    status = check_shape(ctx, out);
    if (!status) status = check_compensated(ctx, out);
    if (status) return status;
    out->state = out->state != 0;
    out->compensated = out->compensated != 0;
    status = resolve_options(ctx, out);
    if (status) return status;
    if (isnan(out->scale)) out->scale = 1 / sqrt((double)out->dim);
    if (!lnt_options_is_number(out, out->scale))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "scale is %g, must be %g to %g", out->scale,
                        -lnt_options_largest(out), lnt_options_largest(out));
    return LNT_OK;
}

/* Of phi of linear attention. */
static int64_t feature_width(const lnt_attn_desc *p)
{
    return lnt_feature_is_random(p->linear.feature_map) ? p->linear.features : p->dim;
}

int64_t lnt_score_width(const lnt_attn_desc *p)
{
    return p->mechanism == LNT_LINEAR ? feature_width(p) : p->dim;
}

int64_t lnt_problem_width(const lnt_attn_desc *p)
{
    const lnt_mechanism sums = lnt_problem_sums(p);
    if (sums != LNT_TAYLOR) return sums == LNT_LINEAR ? feature_width(p) : p->dim;
    const int64_t size = lnt_basis_size(p->dim, p->taylor.terms);
    return size < 0 ? INT64_MAX : size; /* no memory holds that: refused when it is asked for */
}

bool lnt_problem_countable(const lnt_attn_desc *p) { return lnt_problem_width(p) != INT64_MAX; }
