/* cli/show/figure.h - a picture: panels of series over linear or logarithmic axes, drawn by gnuplot into
 * an SVG file.
 *
 *     figure f = figure_begin(2, "time and memory");
 *     figure_panel *p = figure_add(&f, "time");
 *     p->x = (figure_axis){ "tokens", 10, FIGURE_PREFIXED, "" };
 *     figure_series(p, FIGURE_LINE, 0, lengths, seconds, count, "%s", "softmax");
 *     status = figure_write(&f, "time.svg");
 *
 * Points stay with the caller until the figure is written. */
#ifndef LNT_CLI_SHOW_FIGURE_H
#define LNT_CLI_SHOW_FIGURE_H

#include "cli/show/report.h"

enum { FIGURE_PANELS = 4, FIGURE_SERIES = 16, FIGURE_MARKS = 4, FIGURE_TEXT = 96 };

typedef enum figure_numbers {
    FIGURE_PLAIN,    /* 0.25 */
    FIGURE_PREFIXED, /* 16k, 250 µs: a prefix and the unit */
    FIGURE_POWERS    /* a power of ten */
} figure_numbers;

typedef struct figure_axis {
    const char *title;
    int base; /* of a logarithmic axis, which leaves out points not above zero; 0: linear */
    figure_numbers numbers;
    const char *unit; /* with FIGURE_PREFIXED; may be "" */
} figure_axis;

typedef enum figure_style {
    FIGURE_LINE,   /* points joined by a line; without marks where there are many */
    FIGURE_DASHES, /* a dashed line: something to compare with */
    FIGURE_POINTS, /* points alone */
    FIGURE_STEPS   /* a histogram's outline, with x the middle of a bin */
} figure_style;

typedef struct figure_curve {
    char name[FIGURE_TEXT]; /* "": it is not in the legend */
    figure_style style;
    int color; /* of figure_color */
    const double *x, *y;
    int count;
} figure_curve;

typedef struct figure_panel {
    char title[FIGURE_TEXT];
    figure_axis x, y;
    figure_curve curve[FIGURE_SERIES];
    int curves;
    struct {
        double x;
        char label[FIGURE_TEXT];
    } mark[FIGURE_MARKS]; /* vertical lines */
    int marks;
} figure_panel;

typedef struct figure {
    char title[FIGURE_TEXT];
    int columns; /* panels in a row */
    figure_panel panel[FIGURE_PANELS];
    int panels;
} figure;

figure figure_begin(int columns, const char *format, ...) PRINTF_LIKE(2, 3);
figure_panel *figure_add(figure *f, const char *format, ...) PRINTF_LIKE(2, 3);
void figure_series(figure_panel *p, figure_style style, int color, const double *x, const double *y,
                   int count, const char *format, ...) PRINTF_LIKE(7, 8);
void figure_mark(figure_panel *p, double x, const char *format, ...) PRINTF_LIKE(3, 4);

/* "#rrggbb" of a palette that colour-blind people tell apart; index 0, 1, 2 ... */
const char *figure_color(int index);

/* The file appears whole or not at all.  Without gnuplot a sentence says so and EXIT_OK is given:
 * the numbers are in the table. */
int figure_write(const figure *f, const char *path);

#endif
