/* cli/show/plot.c - a chart in the terminal, logarithmic on both axes: a power law is a straight line. */
#include "cli/show/plot.h"

#include <math.h>
#include <string.h>

#include "cli/show/report.h"

enum { WIDTH = 58, ROWS_PER_DECADE = 3, MAX_HEIGHT = 40, LABEL = 9, BLANK = 0,
       SEVERAL = 127 };

typedef struct canvas {
    int bottom, height; /* the decade of the lowest row; rows */
    /* BLANK, series + 1 for a point, SEVERAL for those of more than one, -(series + 1) for the line
     * between points */
    signed char cell[MAX_HEIGHT][WIDTH];
    bool meet; /* somewhere */
} canvas;

static const plot_series several = { .name = "several", .mark = '&', .mark_utf8 = "✱", .color = 7 };

static int column_of(const plot *p, double x)
{
    const double first = log(p->x[0]), last = log(p->x[p->points - 1]);
    return last > first ? (int)lround((log(x) - first) / (last - first) * (WIDTH - 1)) : 0;
}

static int row_of(const canvas *c, double y)
{
    const int up = (int)lround((log10(y) - c->bottom) * ROWS_PER_DECADE);
    return up < 0 ? c->height - 1 : up >= c->height ? 0 : c->height - 1 - up;
}

/* Whole decades that hold every value. */
static void fit(const plot *p, canvas *c)
{
    double low = INFINITY, high = -INFINITY;
    for (int s = 0; s < p->count; s++)
        for (int i = 0; i < p->points; i++) {
            low = fmin(low, log10(p->series[s].y[i]));
            high = fmax(high, log10(p->series[s].y[i]));
        }
    c->bottom = (int)floor(low);
    const int decades = (int)fmax(ceil(high) - floor(low), 1);
    c->height = decades * ROWS_PER_DECADE + 1;
    if (c->height > MAX_HEIGHT) c->height = MAX_HEIGHT;
}

/* A line from point to point, then the points themselves on top. */
static void draw(const plot *p, canvas *c)
{
    for (int s = 0; s < p->count; s++) {
        const double *y = p->series[s].y;
        for (int i = 0; i + 1 < p->points; i++) {
            const int from = column_of(p, p->x[i]), to = column_of(p, p->x[i + 1]);
            for (int x = from + 1; x < to; x++) {
                const double part = (double)(x - from) / (double)(to - from);
                const double between = exp((1 - part) * log(y[i]) + part * log(y[i + 1]));
                signed char *cell = &c->cell[row_of(c, between)][x];
                if (*cell == BLANK) *cell = (signed char)(-1 - s);
            }
        }
    }
    for (int s = 0; s < p->count; s++)
        for (int i = 0; i < p->points; i++) {
            signed char *cell = &c->cell[row_of(c, p->series[s].y[i])][column_of(p, p->x[i])];
            const bool taken = *cell > BLANK && *cell != 1 + s;
            c->meet |= taken;
            *cell = (signed char)(taken ? SEVERAL : 1 + s);
        }
}

static void put_mark(const plot_series *s, const char *mark, FILE *to)
{
    if (use_color()) fprintf(to, "\033[3%dm%s\033[0m", s->color, mark);
    else fputs(mark, to);
}

static void put_row(const plot *p, const canvas *c, int row, FILE *to)
{
    const bool utf8 = use_utf8();
    const int up = c->height - 1 - row;
    char label[32] = "";
    if (up % ROWS_PER_DECADE == 0)
        p->label(pow(10, c->bottom + up / ROWS_PER_DECADE), label, sizeof label);
    fprintf(to, "%*s %s", LABEL, label, utf8 ? (*label ? "┤" : "│") : (*label ? "+" : "|"));
    for (int x = 0; x < WIDTH; x++) {
        const int cell = c->cell[row][x];
        const plot_series *s = cell == SEVERAL ? &several
                                               : &p->series[(cell < 0 ? -cell : cell) - (cell != BLANK)];
        const char mark[2] = { s->mark, '\0' };
        if (cell == BLANK) fputc(' ', to);
        else if (cell < 0) put_mark(s, utf8 ? "·" : ".", to);
        else put_mark(s, utf8 ? s->mark_utf8 : mark, to);
    }
    fputc('\n', to);
}

/* Numbers under their points; one that would run into the last is left out. */
static void put_x_axis(const plot *p, FILE *to)
{
    char line[WIDTH + 16];
    memset(line, ' ', sizeof line);
    int used = 0;
    for (int i = 0; i < p->points; i++) {
        char text[16];
        const int length = snprintf(text, sizeof text, "%.0f", p->x[i]);
        const int at = column_of(p, p->x[i]) - (i ? length / 2 : 0);
        if (at < used || at + length > (int)sizeof line - 1) continue;
        memcpy(line + at, text, (size_t)length);
        used = at + length + 1;
    }
    line[used] = '\0';
    fprintf(to, "%*s %s", LABEL, "", use_utf8() ? "└" : "+");
    for (int x = 0; x < WIDTH; x++) fputs(use_utf8() ? "─" : "-", to);
    fprintf(to, "\n%*s  %s %s\n", LABEL, "", line, p->x_title);
}

void plot_print(const plot *p, FILE *to)
{
    canvas c = { .height = 0 };
    fit(p, &c);
    draw(p, &c);
    fprintf(to, "%s  (", p->title);
    for (int s = 0; s < p->count + c.meet; s++) {
        const plot_series *one = s < p->count ? &p->series[s] : &several;
        const char mark[2] = { one->mark, '\0' };
        if (s) fputs("   ", to);
        put_mark(one, use_utf8() ? one->mark_utf8 : mark, to);
        fprintf(to, " %s", one->name);
    }
    fputs(")\n", to);
    for (int row = 0; row < c.height; row++) put_row(p, &c, row, to);
    put_x_axis(p, to);
}
