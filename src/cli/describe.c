/* cli/describe.c - see describe.h. */
#include "cli/describe.h"

static bool has_terms(const lnt_attn_desc *d)
{
    return d->mechanism == LNT_TAYLOR || (d->mechanism == LNT_HYBRID && d->far == LNT_TAYLOR);
}

void json_mechanism(json *line, const lnt_attn_desc *d)
{
    if (has_terms(d)) json_whole(line, "terms", d->terms);
    if (d->mechanism == LNT_CUR) json_whole(line, "landmarks", d->landmarks);
    if (d->mechanism != LNT_HYBRID) return;
    json_text(line, "far", lnt_mechanism_name(d->far));
    json_whole(line, "window", d->window);
    json_whole(line, "sink", d->sink);
}

static const char *plural(int64_t count) { return count == 1 ? "" : "s"; }

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
