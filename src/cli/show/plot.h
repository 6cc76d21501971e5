/* cli/show/plot.h - a chart in the terminal, logarithmic on both axes. */
#ifndef LNT_CLI_SHOW_PLOT_H
#define LNT_CLI_SHOW_PLOT_H

#include <stddef.h>
#include <stdio.h>

typedef struct plot_series {
    const char *name;
    const double *y; /* [points], above zero */
    char mark;
    const char *mark_utf8;
    int color; /* of the terminal's eight: 1 red ... 6 cyan */
} plot_series;

typedef struct plot {
    const char *title, *x_title;
    const double *x; /* [points], ascending, above zero */
    int points;
    const plot_series *series;
    int count;
    /* Text of a value on the y axis. */
    const char *(*label)(double value, char *text, size_t capacity);
} plot;

void plot_print(const plot *p, FILE *to);

#endif
