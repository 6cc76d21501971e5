/* cli/show/figure.c - a figure, drawn by gnuplot into an SVG file.
 *
 * gnuplot reads the script from a temporary file and writes to a temporary beside the target, which replaces
 * the target when gnuplot has succeeded.  There is no shell and no quoting. */
#include "cli/show/figure.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/output_file.h"

enum { PANEL_WIDTH = 460, PANEL_HEIGHT = 300, LEGEND_HEIGHT = 12, TITLE_HEIGHT = 40 };
enum { PALETTE = 8, MOST_MARKERS = 24 };

/* Okabe and Ito's colours, grey in place of the yellow; each goes with a point of its own shape. */
static const char *const palette[PALETTE] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                              "#e69f00", "#56b4e9", "#000000", "#999999" };
static const int shapes[PALETTE] = { 7, 5, 9, 13, 11, 6, 4, 8 };

const char *figure_color(int index) { return palette[index % PALETTE]; }

/* ---- what to draw --------------------------------------------------------------------------- */

figure figure_begin(int columns, const char *format, ...)
{
    figure f = { .columns = columns };
    va_list args;
    va_start(args, format);
    vsnprintf(f.title, FIGURE_TEXT, format, args);
    va_end(args);
    return f;
}

figure_panel *figure_add(figure *f, const char *format, ...)
{
    assert(f->panels < FIGURE_PANELS);
    figure_panel *p = &f->panel[f->panels++];
    va_list args;
    va_start(args, format);
    vsnprintf(p->title, FIGURE_TEXT, format, args);
    va_end(args);
    return p;
}

void figure_series(figure_panel *p, figure_style style, int color, const double *x, const double *y,
                   int count, const char *format, ...)
{
    assert(p->curves < FIGURE_SERIES);
    figure_curve *c = &p->curve[p->curves++];
    *c = (figure_curve){ .style = style, .color = color % PALETTE, .x = x, .y = y, .count = count };
    va_list args;
    va_start(args, format);
    vsnprintf(c->name, FIGURE_TEXT, format, args);
    va_end(args);
}

void figure_mark(figure_panel *p, double x, const char *format, ...)
{
    assert(p->marks < FIGURE_MARKS);
    va_list args;
    va_start(args, format);
    vsnprintf(p->mark[p->marks].label, FIGURE_TEXT, format, args);
    va_end(args);
    p->mark[p->marks++].x = x;
}

/* ---- the script ----------------------------------------------------------------------------- */

/* 'text', in which only the quote itself means something, and the end of the line: after it gnuplot
 * would read on, and names of folders, which may have one, stand here. */
static void put_text(FILE *to, const char *text)
{
    fputc('\'', to);
    for (; *text; text++) {
        const char shown = (unsigned char)*text < ' ' ? '?' : *text;
        fputs(shown == '\'' ? "''" : (const char[]){ shown, '\0' }, to);
    }
    fputc('\'', to);
}

static void put_axis(FILE *to, char name, const figure_axis *a)
{
    fprintf(to, "set %clabel ", name);
    put_text(to, a->title);
    if (name == 'x') fputs(".\"\\n\" offset 0,0.5", to); /* a line between it and the legend */
    fputs(" noenhanced\n", to);
    if (a->base) fprintf(to, "set logscale %c %d\n", name, a->base);
    else fprintf(to, "unset logscale %c\n", name);
    fprintf(to, "set %ctics %s\n", name, /* bytes are not cut into thousandths */
            !strcmp(a->unit ? a->unit : "", "B") ? "add ('0.1 B' 0.1, '0.01 B' 0.01)" : "autofreq");
    fprintf(to, "set format %c ", name);
    switch (a->numbers) {
    case FIGURE_PLAIN: fputs("'%g'\n", to); break;
    case FIGURE_PREFIXED: fprintf(to, "'%%.0s%s%%c%s'\n", *a->unit ? " " : "", a->unit); break;
    case FIGURE_POWERS: fputs("'10^{%L}'\n", to); break;
    }
}

static bool drawable(const figure_panel *p, double x, double y)
{
    return isfinite(x) && isfinite(y) && (x > 0 || !p->x.base) && (y > 0 || !p->y.base);
}

static int put_points(FILE *to, const figure_panel *p, int number)
{
    const figure_curve *c = &p->curve[number];
    int drawn = 0;
    fprintf(to, "$points%d << END\n", number);
    for (int i = 0; i < c->count; i++)
        if (drawable(p, c->x[i], c->y[i]))
            drawn += fprintf(to, "%.9g %.9g\n", c->x[i], c->y[i]) > 0;
    fputs("END\n", to);
    return drawn;
}

/* Of a line with so many above it: wide enough to be seen where one covers it. */
static double line_width(int above) { return fmin(2 + 0.7 * above, 4); }

static void put_style(FILE *to, const figure_panel *p, int number)
{
    const figure_curve *c = &p->curve[number];
    const char *color = figure_color(c->color);
    switch (c->style) {
    case FIGURE_LINE:
        if (c->count > MOST_MARKERS)
            fprintf(to, "using 1:2 with lines lw %.1f lc rgb '%s'", line_width(p->curves - 1 - number),
                    color);
        else
            fprintf(to, "using 1:2 with linespoints lw 2 pt %d ps 0.6 lc rgb '%s'",
                    shapes[c->color], color);
        break;
    case FIGURE_DASHES:
        fprintf(to, "using 1:2 with lines lw 1.5 dt 2 lc rgb '%s'", color);
        break;
    case FIGURE_POINTS:
        fprintf(to, "using 1:2 with points pt %d ps 0.4 lc rgb '%s'", shapes[c->color], color);
        break;
    case FIGURE_STEPS:
        fprintf(to, "using 1:2 with histeps lw 2 lc rgb '%s'", color);
        break;
    }
}

/* Labels of marks stand below one another, so that close ones do not meet. */
static void put_marks(FILE *to, const figure_panel *p)
{
    for (int i = 0; i < p->marks; i++) {
        const double x = p->mark[i].x;
        fprintf(to, "set arrow from %.9g, graph 0 to %.9g, graph 1 ", x, x);
        fputs("nohead lw 1 dt 3 lc rgb '#555555'\nset label ", to);
        put_text(to, p->mark[i].label);
        fprintf(to, " at %.9g, graph %.2f ", x, 0.97 - 0.07 * i);
        fputs("offset character -0.4, 0 right font ',11' noenhanced\n", to);
    }
}

/* Curves that have a name. */
static int named(const figure_panel *p)
{
    int count = 0;
    for (int i = 0; i < p->curves; i++) count += *p->curve[i].name != '\0';
    return count;
}

static void put_panel(FILE *to, const figure_panel *p)
{
    int shown = 0;
    fputs("unset arrow\nunset label\nset title ", to);
    put_text(to, p->title);
    fprintf(to, " noenhanced\nset key maxrows %d\n", (named(p) + 1) / 2);
    put_axis(to, 'x', &p->x);
    put_axis(to, 'y', &p->y);
    put_marks(to, p);
    bool drawn[FIGURE_SERIES];
    for (int i = 0; i < p->curves; i++) drawn[i] = put_points(to, p, i) > 0;
    for (int i = 0; i < p->curves; i++) {
        if (!drawn[i]) continue; /* gnuplot refuses a series without points */
        fprintf(to, "%s $points%d ", shown++ ? ", \\\n    " : "plot", i);
        put_style(to, p, i);
        if (!*p->curve[i].name) {
            fputs(" notitle", to);
            continue;
        }
        fputs(" title ", to);
        put_text(to, p->curve[i].name);
        fputs(" noenhanced", to);
    }
    fputs(shown ? "\n" : "set multiplot next\n", to);
}

static void put_script(FILE *to, const figure *f)
{
    const int rows = (f->panels + f->columns - 1) / f->columns;
    int most = 0; /* entries in a legend, which stand in two columns or so */
    for (int i = 0; i < f->panels; i++)
        if (named(&f->panel[i]) > most) most = named(&f->panel[i]);
    fprintf(to,
            "set encoding utf8\nset micro\n"
            "set terminal svg size %d,%d dynamic enhanced font 'sans-serif,13' "
            "background '#ffffff'\n"
            "set border 3 lc rgb '#444444'\nset tics nomirror out scale 0.6,0 font ',11'\n"
            "set grid ytics lt 1 lw 0.6 lc rgb '#dddddd'\n"
            "set autoscale xfix\nset key below Left reverse samplen 1.5 spacing 1.1 font ',11'\n"
            "set multiplot layout %d,%d title ",
            PANEL_WIDTH * f->columns, (PANEL_HEIGHT + LEGEND_HEIGHT * most) * rows + TITLE_HEIGHT,
            rows, f->columns);
    put_text(to, f->title);
    fputs(" noenhanced font ',16'\n", to);
    for (int i = 0; i < f->panels; i++) put_panel(to, &f->panel[i]);
    fputs("unset multiplot\n", to);
}

/* ---- gnuplot -------------------------------------------------------------------------------- */

/* 0 if it ended well, ENOENT if there is none, else another number. */
static int run_gnuplot(int script, int out)
{
    char *arguments[] = { "gnuplot", NULL };
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status;
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    error = posix_spawn_file_actions_adddup2(&actions, script, STDIN_FILENO);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (!error)
        error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (!error) error = posix_spawnp(&child, "gnuplot", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error) return error;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EIO;
}

/* Copies a line without what SVG takes for granted. */
static void put_line(FILE *to, const char *line)
{
    static const char plain[] = " stroke-linecap=\"butt\" stroke-linejoin=\"miter\"";
    const char *at = strstr(line, plain);
    if (at) fwrite(line, 1, (size_t)(at - line), to);
    fputs(at ? at + sizeof plain - 1 : line, to);
}

/* Copies what gnuplot wrote, a third of which are groups with nothing in them. */
static void put_drawn(FILE *from, FILE *to)
{
    char *line = NULL, *group = NULL;
    size_t room = 0;
    while (getline(&line, &room, from) >= 0) {
        const bool empty = group && !strcmp(line, "</g>\n");
        if (group && !empty) put_line(to, group);
        free(group);
        group = strncmp(line, "<g fill=", 8) ? NULL : strdup(line);
        if (!empty && !group) put_line(to, line);
    }
    free(group);
    free(line);
}

/* Draws into the open temporary. */
static int draw(const figure *f, FILE *out)
{
    FILE *script = tmpfile(), *drawn = tmpfile();
    int error = script && drawn ? 0 : errno;
    if (!error) {
        put_script(script, f);
        error = fflush(script) == 0 && !ferror(script) ? 0 : EIO;
        rewind(script);
    }
    if (!error) error = run_gnuplot(fileno(script), fileno(drawn));
    if (!error) {
        rewind(drawn);
        put_drawn(drawn, out);
    }
    if (script) fclose(script);
    if (drawn) fclose(drawn);
    return error;
}

int figure_write(const figure *f, const char *path)
{
    output_file at;
    const int status = output_file_open(path, &at);
    if (status) return status;
    const int failure = draw(f, at.file);
    if (!failure) return output_file_commit(&at);
    output_file_abandon(&at);
    if (failure == ENOENT) {
        note("'%s' is not drawn: gnuplot is not installed (the package gnuplot-nox)", path);
        return EXIT_OK;
    }
    return fail("'%s' is not drawn: gnuplot failed: %s", path,
                failure == EIO ? "it ended with an error" : strerror(failure));
}
