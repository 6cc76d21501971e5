/* cli/study/study.h - the experiments of the papers, `linnet bench --study NAME`: one file each, one table
 * of all. */
#ifndef LNT_CLI_STUDY_STUDY_H
#define LNT_CLI_STUDY_STUDY_H

#include "cli/options.h"
#include "cli/show/figure.h"
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
    study_cur, study_training, study_learning, study_images, study_generation;

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

/* The text of a value, or a dash for one that was not measured; text [TABLE_CELL]. */
const char *study_text(double value, const char *(*text_of)(double, char *, size_t), char *text);

/* The picture, if --svg asks for one. */
int study_draw(const options *o, const figure *f);

#endif
