/* cli/show/amount.c - see amount.h. */
#include "cli/show/amount.h"

#include <math.h>
#include <stdio.h>

typedef struct prefix {
    double size;
    const char *name;
} prefix;

/* The largest prefix that leaves at least 1 before the point. */
static const char *text_prefixed(double value, const prefix *prefixes, const char *unit, char *text,
                                 size_t capacity)
{
    const prefix *p = prefixes;
    if (!isfinite(value)) {
        snprintf(text, capacity, "too large");
        return text;
    }
    while (p[1].name && value < p->size) p++;
    const double scaled = value / p->size;
    const int decimals = scaled >= 99.95 ? 0 : scaled >= 9.995 ? 1 : 2;
    if (scaled >= 1e4) snprintf(text, capacity, "%.2e%s%s", value, *unit ? " " : "", unit);
    else snprintf(text, capacity, "%.*f %s%s", decimals, scaled, p->name, unit);
    return text;
}

const char *text_seconds(double seconds, char *text, size_t capacity)
{
    static const prefix prefixes[] = { { 1, "" },     { 1e-3, "m" }, { 1e-6, "u" },
                                       { 1e-9, "n" }, { 0, NULL } };
    return text_prefixed(seconds, prefixes, "s", text, capacity);
}

static const prefix large[] = { { 1e15, "P" }, { 1e12, "T" }, { 1e9, "G" }, { 1e6, "M" },
                                { 1e3, "k" },  { 1, "" },     { 0, NULL } };

const char *text_bytes(double bytes, char *text, size_t capacity)
{
    return text_prefixed(bytes, large, "B", text, capacity);
}

const char *plural(int64_t count) { return count == 1 ? "" : "s"; }

const char *text_count(double count, char *text, size_t capacity)
{
    if (!(count < 1000)) return text_prefixed(count, large, "", text, capacity);
    snprintf(text, capacity, "%.4g", count);
    return text;
}
