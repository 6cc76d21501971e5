/* cli/describe.c - see describe.h. */
#include "cli/describe.h"

#include "cli/table.h"

static bool has_terms(const lnt_attn_desc *d)
{
    return d->mechanism == LNT_TAYLOR || (d->mechanism == LNT_HYBRID && d->far == LNT_TAYLOR);
}

static void json_mechanism(json *line, const lnt_attn_desc *d)
{
    if (has_terms(d)) json_whole(line, "terms", d->terms);
    if (d->mechanism == LNT_CUR) json_whole(line, "landmarks", d->landmarks);
    if (d->mechanism != LNT_HYBRID) return;
    json_text(line, "far", lnt_mechanism_name(d->far));
    json_whole(line, "window", d->window);
    json_whole(line, "sink", d->sink);
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

void text_mechanism(const lnt_attn_desc *d, const char *before, char *text, size_t capacity)
{
    char terms[32] = "linear";
    text[0] = '\0';
    if (has_terms(d))
        snprintf(terms, sizeof terms, "%lld term%s", (long long)d->terms, plural(d->terms));
    if (d->mechanism == LNT_TAYLOR) snprintf(text, capacity, "%s%s", before, terms);
    if (d->mechanism == LNT_CUR)
        snprintf(text, capacity, "%s%lld landmark%s", before, (long long)d->landmarks,
                 plural(d->landmarks));
    if (d->mechanism == LNT_HYBRID)
        snprintf(text, capacity, "%s%lld near, %s", before,
                 (long long)(d->window + d->sink), terms);
}
