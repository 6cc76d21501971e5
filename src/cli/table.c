/* cli/table.c - columns of text, as wide as their widest cell. */
#include "cli/table.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>

void table_begin(table *t, int lefts, const char *const *headings)
{
    *t = (table){ .lefts = lefts };
    for (int i = 0; headings[i]; i++) table_cell(t, "%s", headings[i]);
}

void table_row(table *t)
{
    assert(t->rows + 1 < TABLE_ROWS);
    t->rows++;
    t->columns = 0;
}

void table_cell(table *t, const char *format, ...)
{
    va_list args;
    assert(t->columns < TABLE_COLUMNS);
    char *text = t->cell[t->rows][t->columns++];
    va_start(args, format);
    vsnprintf(text, TABLE_CELL, format, args);
    va_end(args);
    for (; *text; text++) /* a name may hold what a terminal would obey */
        if ((unsigned char)*text < ' ') *text = '?';
}

/* Characters, not bytes: UTF-8 continuation bytes take no column. */
static int width(const char *text)
{
    int count = 0;
    for (; *text; text++) count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

void table_print(const table *t, FILE *to)
{
    int widest[TABLE_COLUMNS] = { 0 }, last = 0;
    for (int r = 0; r <= t->rows; r++)
        for (int c = 0; c < TABLE_COLUMNS; c++) {
            const int w = width(t->cell[r][c]);
            if (w > widest[c]) widest[c] = w;
            if (w && c > last) last = c;
        }
    for (int r = 0; r <= t->rows; r++)
        for (int c = 0; c <= last; c++) {
            const char *text = t->cell[r][c];
            const int pad = widest[c] - width(text);
            const int after = c < t->lefts && c < last ? pad : 0;
            fprintf(to, "%s%*s%s%*s%s", c ? "  " : "", c < t->lefts ? 0 : pad, "", text, after, "",
                    c == last ? "\n" : "");
        }
}

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
