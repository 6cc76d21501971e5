/* cli/show/svg.h - curves as an .svg picture, without gnuplot. */
#ifndef LNT_CLI_SHOW_SVG_H
#define LNT_CLI_SHOW_SVG_H

typedef struct svg_curve {
    const char *name;
    const double *x, *y; /* [points], x ascending */
    int points;
} svg_curve;

/* Written whole or not at all; EXIT_OK, or says one sentence. */
int svg_write(const char *path, const char *title, const char *x_title, const char *y_title,
              const svg_curve *curves, int count);

#endif
