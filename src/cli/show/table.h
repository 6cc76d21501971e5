/* cli/show/table.h - columns of text, as wide as their widest cell. */
#ifndef LNT_CLI_SHOW_TABLE_H
#define LNT_CLI_SHOW_TABLE_H

#include <stdio.h>

enum { TABLE_COLUMNS = 12, TABLE_ROWS = 256, TABLE_CELL = 64 };

typedef struct table {
    int columns, rows; /* row 0 holds the headings */
    int lefts;         /* the first `lefts` columns are flush left, the others right */
    char cell[TABLE_ROWS][TABLE_COLUMNS][TABLE_CELL];
} table;

/* headings ends with NULL.  Then per row: table_row, and table_cell for each column. */
void table_begin(table *t, int lefts, const char *const *headings);
void table_row(table *t);
void table_cell(table *t, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
void table_print(const table *t, FILE *to);

#endif
