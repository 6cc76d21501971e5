/* cli/show/svg.c - curves with axes and ticks as .svg, linear on both axes.
 *
 * The loss curve of training is drawn here, because users may not have gnuplot, which draws the studies
 * (figure.c). */
#include "cli/show/svg.h"

#include <math.h>
#include <stdio.h>

#include "cli/output_file.h"
#include "cli/show/figure.h"

enum { WIDTH = 720, HEIGHT = 440, LEFT = 70, RIGHT = 20, TOP = 40, BOTTOM = 50, TICKS = 5 };

typedef struct range {
    double least, most;
} range;

static void widen(range *r, double value)
{
    if (!isfinite(value)) return;
    r->least = value < r->least ? value : r->least;
    r->most = value > r->most ? value : r->most;
}

/* A step of 1, 2 or 5 times a power of ten that gives about TICKS. */
static double tick_of(range r)
{
    const double rough = (r.most - r.least) / TICKS, power = pow(10, floor(log10(rough)));
    const double part = rough / power;
    return power * (part > 5 ? 10 : part > 2 ? 5 : part > 1 ? 2 : 1);
}

static double place_x(range r, double x)
{
    return LEFT + (x - r.least) / (r.most - r.least) * (WIDTH - LEFT - RIGHT);
}

static double place_y(range r, double y)
{
    return HEIGHT - BOTTOM - (y - r.least) / (r.most - r.least) * (HEIGHT - TOP - BOTTOM);
}

static void put_axes(FILE *to, range x, range y, const char *x_title, const char *y_title)
{
    const double x_tick = tick_of(x), y_tick = tick_of(y);
    for (double v = ceil(x.least / x_tick) * x_tick; v <= x.most; v += x_tick)
        fprintf(to, "<path d='M%.1f %d V%d' stroke='#ddd'/><text x='%.1f' y='%d' "
                    "text-anchor='middle'>%g</text>\n",
                place_x(x, v), TOP, HEIGHT - BOTTOM, place_x(x, v), HEIGHT - BOTTOM + 18, v);
    for (double v = ceil(y.least / y_tick) * y_tick; v <= y.most; v += y_tick)
        fprintf(to, "<path d='M%d %.1f H%d' stroke='#ddd'/><text x='%d' y='%.1f' "
                    "text-anchor='end'>%g</text>\n",
                LEFT, place_y(y, v), WIDTH - RIGHT, LEFT - 8, place_y(y, v) + 4, v);
    fprintf(to, "<text x='%d' y='%d' text-anchor='middle'>%s</text>\n", (LEFT + WIDTH - RIGHT) / 2,
            HEIGHT - 12, x_title);
    fprintf(to, "<text transform='translate(18 %d) rotate(-90)' text-anchor='middle'>%s</text>\n",
            (TOP + HEIGHT - BOTTOM) / 2, y_title);
}

static void put_point(FILE *to, const svg_curve *c, int i, range x, range y)
{
    fprintf(to, "%.1f,%.1f ", place_x(x, c->x[i]), place_y(y, c->y[i]));
}

/* Of the points from `first` on that stand in half a pixel's width the lowest and the highest: all that is
 * seen of them, however many steps a run has.  Gives the first point after them. */
static int put_column(FILE *to, const svg_curve *c, int first, range x, range y)
{
    const double column = floor(2 * place_x(x, c->x[first]));
    int i = first, low = -1, high = -1;
    do {
        if (!isfinite(c->y[i])) continue;
        if (low < 0 || c->y[i] < c->y[low]) low = i;
        if (high < 0 || c->y[i] > c->y[high]) high = i;
    } while (++i < c->points && floor(2 * place_x(x, c->x[i])) == column);
    if (low >= 0) put_point(to, c, low < high ? low : high, x, y);
    if (low != high) put_point(to, c, low < high ? high : low, x, y);
    return i;
}

static void put_curve(FILE *to, const svg_curve *c, int index, range x, range y)
{
    fprintf(to, "<polyline fill='none' stroke-width='1.5' stroke='%s' points='",
            figure_color(index));
    for (int i = 0; i < c->points; i = put_column(to, c, i, x, y)) {}
    fputs("'/>\n", to);
    if (c->points == 1 && isfinite(c->y[0])) /* a line of one point is not seen */
        fprintf(to, "<circle r='3' fill='%s' cx='%.1f' cy='%.1f'/>\n", figure_color(index),
                place_x(x, c->x[0]), place_y(y, c->y[0]));
    fprintf(to, "<text x='%d' y='%d' fill='%s' text-anchor='end'>%s</text>\n",
            WIDTH - RIGHT - 8, TOP + 16 + 18 * index, figure_color(index), c->name);
}

static void put_all(FILE *to, const char *title, const char *x_title, const char *y_title,
                    const svg_curve *curves, int count)
{
    range x = { HUGE_VAL, -HUGE_VAL }, y = x;
    for (int c = 0; c < count; c++)
        for (int i = 0; i < curves[c].points; i++) {
            widen(&x, curves[c].x[i]);
            widen(&y, curves[c].y[i]);
        }
    if (!(x.least <= x.most)) x = (range){ 0, 1 };
    if (!(y.least <= y.most)) y = (range){ 0, 1 };
    if (x.least == x.most) x.most = x.least + 1;
    if (y.least > 0) y.least = 0;
    if (y.least == y.most) y.most = y.least + 1;
    fprintf(to, "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
                "font-family='sans-serif' font-size='12'>\n<rect width='100%%' height='100%%' "
                "fill='white'/>\n<text x='%d' y='24' font-size='15'>%s</text>\n",
            WIDTH, HEIGHT, LEFT, title);
    put_axes(to, x, y, x_title, y_title);
    for (int c = 0; c < count; c++) put_curve(to, &curves[c], c, x, y);
    fputs("</svg>\n", to);
}

int svg_write(const char *path, const char *title, const char *x_title, const char *y_title,
              const svg_curve *curves, int count)
{
    output_file at;
    const int status = output_file_open(path, &at);
    if (status) return status;
    put_all(at.file, title, x_title, y_title, curves, count);
    return output_file_commit(&at);
}
