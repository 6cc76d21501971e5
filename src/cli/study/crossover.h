/* cli/study/crossover.h - the study that `linnet demo` shows. */
#ifndef LNT_CLI_STUDY_CROSSOVER_H
#define LNT_CLI_STUDY_CROSSOVER_H

#include "cli/options.h"
#include "linnet.h"

/* Measures, prints a table or JSON, draws into the terminal too if `charts`, and into --svg. */
int crossover_show(const options *o, lnt_ctx *ctx, bool charts);

#endif
