/* cli/show/table.c - columns of text, as wide as their widest cell. */
#include "cli/show/table.h"

#include <assert.h>
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
