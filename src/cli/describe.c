/* cli/describe.c - see describe.h. */
#include "cli/describe.h"

#include "cli/show/amount.h"
#include "cli/show/report.h"

int describe_plan(lnt_ctx *ctx, const lnt_attn_desc *desc, lnt_plan_info *out)
{
    *out = (lnt_plan_info){ .size = sizeof *out };
    return lnt_plan_predict(ctx, desc, out) ? fail_ctx(ctx) : EXIT_OK;
}

static bool has_terms(const lnt_attn_desc *d)
{
    return d->mechanism == LNT_TAYLOR || (d->mechanism == LNT_HYBRID && d->hybrid.far == LNT_TAYLOR);
}

static bool has_map(const lnt_attn_desc *d)
{
    return d->mechanism == LNT_LINEAR || (d->mechanism == LNT_HYBRID && d->hybrid.far == LNT_LINEAR);
}

static void json_mechanism(json *line, const lnt_attn_desc *d)
{
    if (d->softmax.cache) json_text(line, "cache", lnt_cache_name(d->softmax.cache));
    if (has_map(d)) json_text(line, "feature_map", lnt_feature_map_name(d->linear.feature_map));
    if (has_terms(d)) json_whole(line, "terms", d->taylor.terms);
    if (d->mechanism == LNT_TAYLOR) json_text(line, "normalize", lnt_normalize_name(d->taylor.normalize));
    if (d->mechanism == LNT_CUR) {
        json_whole(line, "landmarks", d->cur.landmarks);
        json_text(line, "select", lnt_select_name(d->cur.select));
        json_text(line, "pinv", lnt_pinv_name(d->cur.pinv));
    }
    if (d->mechanism == LNT_SOFTMAX && d->softmax.window) json_whole(line, "window", d->softmax.window);
    if (d->mechanism == LNT_SOFTMAX && d->softmax.cap > 0) json_real(line, "cap", d->softmax.cap);
    if (d->mechanism == LNT_SOFTMAX && d->softmax.slopes) json_flag(line, "alibi", true);
    if (d->mechanism != LNT_HYBRID) return;
    json_text(line, "far", lnt_mechanism_name(d->hybrid.far));
    json_whole(line, "window", d->hybrid.window);
    json_whole(line, "sink", d->hybrid.sink);
}

void json_problem(json *line, const lnt_attn_desc *d, const char *algorithm, const char *device,
                  const char *isa, int threads)
{
    json_text(line, "mechanism", lnt_mechanism_name(d->mechanism));
    json_text(line, "algorithm", algorithm);
    json_text(line, "device", device);
    json_text(line, "isa", isa);
    json_whole(line, "threads", threads);
    json_text(line, "dtype", lnt_dtype_name(d->dtype));
    json_whole(line, "batch", d->batch);
    json_whole(line, "heads", d->heads);
    json_whole(line, "kv_heads", d->kv_heads);
    json_whole(line, "dim", d->dim);
    json_whole(line, "dim_value", d->dim_value);
    json_mechanism(line, d);
    json_whole(line, "length", d->length_q);
    json_flag(line, "causal", d->causal != 0);
}

/* What differs from the default, after a comma; "": it is that. */
static const char *differing(bool differs, const char *name, char out[32])
{
    snprintf(out, 32, "%s%s", differs ? ", " : "", differs ? name : "");
    return out;
}

static void text_softmax(const lnt_attn_desc *d, const char *before, char *text, size_t capacity)
{
    size_t used = 0;
    if (d->softmax.window)
        used = (size_t)snprintf(text, capacity, "%swindow of %lld", before, (long long)d->softmax.window);
    if (d->softmax.cache && used < capacity)
        snprintf(text + used, capacity - used, "%scache %s", used ? ", " : before,
                 lnt_cache_name(d->softmax.cache));
}

void text_mechanism(const lnt_attn_desc *d, const char *before, char *text, size_t capacity)
{
    char terms[32] = "linear", first[32], second[32];
    const bool map = d->linear.feature_map != LNT_MAP_ELU1;
    text[0] = '\0';
    if (has_terms(d))
        snprintf(terms, sizeof terms, "%lld term%s", (long long)d->taylor.terms, plural(d->taylor.terms));
    if (d->mechanism == LNT_SOFTMAX) text_softmax(d, before, text, capacity);
    if (d->mechanism == LNT_LINEAR && map)
        snprintf(text, capacity, "%smap %s", before, lnt_feature_map_name(d->linear.feature_map));
    if (d->mechanism == LNT_TAYLOR)
        snprintf(text, capacity, "%s%s%s", before, terms,
                 differing(d->taylor.normalize != LNT_NORMALIZE_NONE,
                           lnt_normalize_name(d->taylor.normalize), first));
    if (d->mechanism == LNT_CUR)
        snprintf(text, capacity, "%s%lld landmark%s%s%s", before, (long long)d->cur.landmarks,
                 plural(d->cur.landmarks),
                 differing(d->cur.select != LNT_SELECT_STEP, lnt_select_name(d->cur.select), first),
                 differing(d->cur.pinv != LNT_PINV_ITERATE, lnt_pinv_name(d->cur.pinv), second));
    if (d->mechanism == LNT_HYBRID)
        snprintf(text, capacity, "%s%lld near, %s%s", before,
                 (long long)(d->hybrid.window + d->hybrid.sink), terms,
                 differing(has_map(d) && map, lnt_feature_map_name(d->linear.feature_map), first));
}
