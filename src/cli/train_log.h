/* cli/train_log.h - the log of a training run, one JSON object per line, and its losses for the curve.  It
 * is written during a run or read after it. */
#ifndef LNT_CLI_TRAIN_LOG_H
#define LNT_CLI_TRAIN_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "linnet/model.h"

typedef struct log_curve {
    double *step, *loss;
    int count, room;
} log_curve;

typedef struct train_log {
    const char *path;
    FILE *file;
    bool echo; /* the lines on standard output too */
    log_curve train, test;
} train_log;

/* Each gives EXIT_OK, or says one sentence and gives another exit status. */

/* A new file, or with last_step > 0 what an earlier run wrote up to that step. */
int log_open(train_log *log, const char *path, int64_t last_step, bool echo);
int log_step(train_log *log, const lnt_step_report *report, double seconds);
int log_test(train_log *log, int64_t step, const lnt_score_report *score);
bool log_has_test(const train_log *log, int64_t step); /* as its last */
int log_draw(const train_log *log, const char *path, const char *title);
void log_close(train_log *log);

/* What the log of a run tells of it; NaN where it does not. */
typedef struct log_summary {
    double steps, tokens_per_second;
    double loss, bits, accuracy, error_rate, peak_bytes; /* by the last test */
    log_curve train;
} log_summary;

int log_read(const char *path, log_summary *out);
void log_forget(log_summary *summary);

#endif
