/* cli/study/drop_grid.c - see drop_grid.h.
 *
 *     figure 5   by the number of landmarks, with and without the class token pinned
 *     figure 6   by the inverse, the same landmarks for queries and keys or each their own
 *     figure 7   what agrees, by how far attention is from softmax's */
#include "cli/study/drop_grid.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { GROUPS = 5 };

static const drop_finding *at(const drop_grid *g, drop_cell c) { return &g->cell[drop_cell_index(c)]; }

static void put(table *t, const drop_finding *f)
{
    if (isnan(f->cosine)) table_cell(t, "-");
    else table_cell(t, "%.3f (%.2f)", f->cosine, f->rank);
}

/* A table whose columns after `before` are numbers of landmarks. */
static void begin_counts(const drop_grid *g, table *t, int before, const char *const *first)
{
    char names[DROP_COUNTS][16];
    const char *headings[2 + DROP_COUNTS + 1] = { NULL };
    for (int i = 0; i < before; i++) headings[i] = first[i];
    for (int m = 0; m < g->counts; m++) {
        snprintf(names[m], sizeof names[m], "M = %d", (int)g->landmarks[m]);
        headings[before + m] = names[m];
    }
    table_begin(t, before, headings);
}

static void table_of_counts(const drop_grid *g, int inverse)
{
    static const char *const first[] = { "select", "class token" };
    char text[16];
    table t;
    begin_counts(g, &t, 2, first);
    for (int i = 0; i < 2 * DROP_SELECTS; i++) {
        const int s = i / 2, pinned = i % 2;
        if (!g->chosen[s] || (pinned && s == LNT_SELECT_MEAN)) continue;
        table_row(&t);
        table_cell(&t, "%s", lnt_select_name((lnt_select)s));
        table_cell(&t, pinned ? "pinned" : "as chosen");
        for (int m = 0; m < g->counts; m++)
            put(&t, at(g, (drop_cell){ s, m, inverse, pinned, 0 }));
    }
    drop_say(&g->run, &t, "%d words, %s, by the number of landmarks (figure 5): cosine (rank correlation)",
             (int)g->run.words, drop_inverse_name(g->inverse[inverse], text));
}

static void table_of_inverses(const drop_grid *g, int count)
{
    char names[DROP_INVERSES][16];
    const char *headings[2 + DROP_INVERSES + 1] = { "select", "landmarks" };
    table t;
    for (int k = 0; k < g->inverses; k++) {
        snprintf(names[k], sizeof names[k], "%d", (int)g->inverse[k]);
        headings[2 + k] = g->inverse[k] > 0 ? names[k] : lnt_pinv_name((lnt_pinv)-g->inverse[k]);
    }
    table_begin(&t, 2, headings);
    for (int i = 0; i < 2 * DROP_SELECTS; i++) {
        const int s = i / 2, separate = i % 2, pinned = s != LNT_SELECT_MEAN;
        if (isnan(at(g, (drop_cell){ s, count, 0, pinned, separate })->cosine)) continue;
        table_row(&t);
        table_cell(&t, "%s", lnt_select_name((lnt_select)s));
        table_cell(&t, separate ? "separate" : "same");
        for (int k = 0; k < g->inverses; k++)
            put(&t, at(g, (drop_cell){ s, count, k, pinned, separate }));
    }
    drop_say(&g->run, &t, "%d words, M = %d, class token pinned, by the inverse (figure 6)",
             (int)g->run.words, (int)g->landmarks[count]);
}

/* ---- by the difference of attention ---------------------------------------------------------- */

static int by_difference(const void *a, const void *b)
{
    const double x = ((const drop_finding *)a)->difference, y = ((const drop_finding *)b)->difference;
    return (x > y) - (x < y);
}

/* The cells there are, sorted; the caller frees them. */
static drop_finding *sort_cells(const drop_grid *g, int *count)
{
    drop_finding *all = malloc(sizeof g->cell);
    *count = 0;
    for (int i = 0; i < DROP_CELLS && all; i++)
        if (!isnan(g->cell[i].cosine)) all[(*count)++] = g->cell[i];
    if (all) qsort(all, (size_t)*count, sizeof *all, by_difference);
    return all;
}

static int correlate(const drop_finding *all, int count, double *out)
{
    double *x = malloc(2 * (size_t)count * sizeof *x);
    if (!x) return fail_memory(2 * (size_t)count * sizeof *x);
    for (int i = 0; i < count; i++) x[i] = all[i].difference, x[count + i] = all[i].cosine;
    const int status = drop_rank_correlation(x, x + count, count, out);
    free(x);
    return status;
}

static int table_of_differences(const drop_grid *g)
{
    static const char *const headings[] = { "difference", "variants", "cosine", "from", "to", NULL };
    table t;
    int count;
    double correlation = NAN;
    char text[64] = "";
    drop_finding *all = sort_cells(g, &count);
    if (!all) return fail_memory(sizeof g->cell);
    const int status = correlate(all, count, &correlation);
    table_begin(&t, 1, headings);
    const int groups = count < GROUPS ? count : GROUPS;
    for (int k = 0; k < groups; k++) {
        const int first = k * count / groups, end = (k + 1) * count / groups;
        double sum = 0, least = 1, most = -1;
        for (int i = first; i < end; i++) {
            sum += all[i].cosine / (end - first);
            least = fmin(least, all[i].cosine), most = fmax(most, all[i].cosine);
        }
        table_row(&t);
        table_cell(&t, "%.3g to %.3g", all[first].difference, all[end - 1].difference);
        table_cell(&t, "%d", end - first);
        table_cell(&t, "%.3f", sum);
        table_cell(&t, "%.3f", least);
        table_cell(&t, "%.3f", most);
    }
    free(all);
    if (count > 2) snprintf(text, sizeof text, "; rank correlation with the cosine %.2f", correlation);
    drop_say(&g->run, &t,
             "%d words, all variants by how far attention is from softmax's, the mean of magnitudes "
             "(figure 7)%s",
             (int)g->run.words, text);
    return status;
}

int drop_grid_tables(const drop_grid *g)
{
    for (int k = 0; k < g->inverses; k++)
        if (g->inverse[k] == 4 || k == g->shown) table_of_counts(g, k);
    for (int m = 0; m < g->counts; m++) table_of_inverses(g, m);
    return table_of_differences(g);
}

void drop_length_table(const drop_grid *g)
{
    static const char *const first[] = { "words", "select" };
    char text[16];
    table t;
    begin_counts(g, &t, 2, first);
    for (int l = 0; l < DROP_LENGTHS; l++)
        for (int s = 0; s < DROP_SELECTS; s++) {
            if (!g->chosen[s]) continue;
            table_row(&t);
            table_cell(&t, "%d", (int)g->words[l]);
            table_cell(&t, "%s", lnt_select_name((lnt_select)s));
            for (int m = 0; m < g->counts; m++) put(&t, &g->by_length[s][m][l]);
        }
    drop_say(&g->run, &t, "By the length of a text, %s: cosine (rank correlation)",
             drop_inverse_name(g->inverse[g->shown], text));
}

/* ---- the picture ---------------------------------------------------------------------------- */

/* Points of the curves, which the figure does not copy. */
typedef struct picture {
    double counts[DROP_COUNTS], of_counts[DROP_SELECTS][2][DROP_COUNTS];
    double iterations[DROP_INVERSES], of_iterations[DROP_SELECTS][2][DROP_INVERSES];
    double difference[DROP_INVERSES][DROP_SELECTS], cosine[DROP_INVERSES][DROP_SELECTS];
} picture;

static void draw_counts(const drop_grid *g, picture *p, figure *f)
{
    char text[16];
    figure_panel *panel = figure_add(f, "By landmarks, %s; dashed: class token not pinned",
                                     drop_inverse_name(g->inverse[g->shown], text));
    panel->x = (figure_axis){ "landmarks", 2, FIGURE_PLAIN, "" };
    panel->y = (figure_axis){ "cosine", 0, FIGURE_PLAIN, "" };
    for (int m = 0; m < g->counts; m++) p->counts[m] = (double)g->landmarks[m];
    for (int s = 0; s < DROP_SELECTS; s++) {
        if (!g->chosen[s]) continue;
        for (int i = 0; i < 2; i++)
            for (int m = 0; m < g->counts; m++)
                p->of_counts[s][i][m] = at(g, (drop_cell){ s, m, g->shown, i, 0 })->cosine;
        const int solid = s != LNT_SELECT_MEAN;
        figure_series(panel, FIGURE_LINE, s, p->counts, p->of_counts[s][solid], g->counts, "%s",
                      lnt_select_name((lnt_select)s));
        if (solid) figure_series(panel, FIGURE_DASHES, s, p->counts, p->of_counts[s][0], g->counts, "%s", "");
    }
}

static void draw_iterations(const drop_grid *g, picture *p, figure *f)
{
    const int m = g->counts > 1 ? 1 : 0;
    int count = 0;
    while (count < g->inverses && g->inverse[count] > 0) count++;
    figure_panel *panel =
        figure_add(f, "By iterations, M = %d; dashed: separate indices", (int)g->landmarks[m]);
    panel->x = (figure_axis){ "iterations of the inverse", 0, FIGURE_PLAIN, "" };
    panel->y = (figure_axis){ "cosine", 0, FIGURE_PLAIN, "" };
    for (int k = 0; k < count; k++) p->iterations[k] = (double)g->inverse[k];
    for (int s = 0; s < DROP_SELECTS; s++) {
        if (!g->chosen[s]) continue;
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < count; k++)
                p->of_iterations[s][i][k] = at(g, (drop_cell){ s, m, k, s != LNT_SELECT_MEAN, i })->cosine;
        figure_series(panel, FIGURE_LINE, s, p->iterations, p->of_iterations[s][0], count, "%s",
                      lnt_select_name((lnt_select)s));
        if (count && !isnan(p->of_iterations[s][1][0]))
            figure_series(panel, FIGURE_DASHES, s, p->iterations, p->of_iterations[s][1], count, "%s", "");
    }
}

static void draw_differences(const drop_grid *g, picture *p, figure *f)
{
    char text[16];
    const int m = g->counts > 1 ? 1 : 0;
    figure_panel *panel =
        figure_add(f, "By how far attention is from softmax's, M = %d", (int)g->landmarks[m]);
    panel->x = (figure_axis){ "mean magnitude of the difference", 0, FIGURE_PLAIN, "" };
    panel->y = (figure_axis){ "cosine", 0, FIGURE_PLAIN, "" };
    for (int k = 0; k < g->inverses; k++) {
        int count = 0;
        for (int s = 0; s < DROP_SELECTS; s++) {
            const drop_finding *c = at(g, (drop_cell){ s, m, k, s != LNT_SELECT_MEAN, 0 });
            p->difference[k][count] = c->difference, p->cosine[k][count++] = c->cosine;
        }
        figure_series(panel, FIGURE_POINTS, k, p->difference[k], p->cosine[k], count, "%s",
                      drop_inverse_name(g->inverse[k], text));
    }
}

int drop_grid_draw(const drop_grid *g, int64_t words)
{
    if (!opt_given(g->run.o, OPT_SVG)) return EXIT_OK;
    picture *p = calloc(1, sizeof *p);
    if (!p) return fail_memory(sizeof *p);
    figure f =
        figure_begin(3, "cur in place of softmax, untrained: cosine to its vectors, %d words", (int)words);
    draw_counts(g, p, &f);
    draw_iterations(g, p, &f);
    draw_differences(g, p, &f);
    const int status = study_draw(g->run.o, &f);
    free(p);
    return status;
}
