/* cli/study/study.h - the experiments of the papers, `linnet bench --study NAME`: one file each, one table
 * of all. */
#ifndef LNT_CLI_STUDY_STUDY_H
#define LNT_CLI_STUDY_STUDY_H

#include "cli/options.h"
#include "cli/show/figure.h"
#include "cli/show/json.h"
#include "cli/show/table.h"
#include "linnet.h"

typedef struct study {
    const char *name;
    const char *summary; /* a line of the help */
    bool takes[OPTION_COUNT]; /* the options that shape it */
    bool draws;               /* takes --svg */
    int (*run)(const options *o, lnt_ctx *ctx);
} study;

extern const study study_recovery, study_sizes, study_crossover, study_taylorshift, study_costs,
    study_packing, study_heads, study_context, study_memory, study_accumulation,
    study_cur, study_drop_in, study_training, study_learning, study_images, study_generation;

const char *study_name(int index); /* NULL past the last */
void study_help(FILE *to);         /* a line on each */

/* The study of --study.  EXIT_OK, or one sentence and another status. */
int study_run(const options *o);

/* ---- what they share ------------------------------------------------------------------------ */

/* A causal problem of one sequence, f32, as many heads of keys as of queries. */
int study_problem(lnt_mechanism mechanism, int64_t heads, int64_t dim, int64_t length,
                  lnt_attn_desc *out);

/* Where the second of two curves over x [count] gets below the first and stays there, straight in
 * logarithms between two points; NaN: nowhere.  Points that are not finite end the curves. */
double study_crossing(const double *x, const double *first, const double *second, int count);

/* A cell with the text of a value, or a dash for one that was not measured. */
void study_cell(table *t, double value, const char *(*text_of)(double, char *, size_t));

/* A line of JSON on standard output that begins with the name of the study. */
json study_line(const char *name);

/* Two panels that share their x axis, such as time and memory, and the same series in both. */
typedef struct panel_pair {
    figure_panel *first, *second;
} panel_pair;

panel_pair study_panels(figure *f, const char *first, const char *second, figure_axis x);
void study_series(panel_pair panels, figure_style style, int color, const double *x, const double *first,
                  const double *second, int count, const char *format, ...) PRINTF_LIKE(8, 9);

/* The picture, if --svg asks for one. */
int study_draw(const options *o, const figure *f);

#endif
