/* cli/study/learning.c - compares training runs: the result, speed and memory of each, and their losses in
 * one figure.  A run is a directory that `linnet train --out` filled. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/show/amount.h"
#include "cli/study/study.h"
#include "cli/train_log.h"

enum { NAME = 64, POINTS = 200 };

typedef struct trained {
    char name[NAME];
    log_summary log;
    double step[POINTS], loss[POINTS]; /* of the curve, thinned out */
    int points;
} trained;

typedef struct runs {
    trained run[FIGURE_SERIES];
    int count;
} runs;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const trained *)a)->name, ((const trained *)b)->name);
}

/* Means over neighbours: a batch says little, and a picture has few columns. */
static void thin_out(trained *t)
{
    const int count = t->log.train.count, each = (count + POINTS - 1) / POINTS;
    for (int at = 0; at < count; at += each) {
        const int end = at + each < count ? at + each : count;
        double sum = 0;
        for (int i = at; i < end; i++) sum += t->log.train.loss[i];
        t->step[t->points] = t->log.train.step[end - 1];
        t->loss[t->points++] = sum / (end - at);
    }
}

static int add_run(runs *s, const char *folder, const char *name)
{
    char path[PATH_MAX];
    if (name[0] == '.' || strlen(folder) + strlen(name) + sizeof "//log.jsonl" > sizeof path)
        return EXIT_OK;
    snprintf(path, sizeof path, "%s/%s/log.jsonl", folder, name);
    if (access(path, F_OK)) return EXIT_OK; /* something else lies there */
    if (s->count == FIGURE_SERIES)
        return fail("'%s' has more than %d runs: too many for one picture", folder, FIGURE_SERIES);
    trained *t = &s->run[s->count];
    snprintf(t->name, sizeof t->name, "%s", name);
    const int status = log_read(path, &t->log);
    if (status) return status;
    thin_out(t);
    s->count++;
    return EXIT_OK;
}

static int read_runs(const char *folder, runs *s)
{
    DIR *at = opendir(folder);
    int status = EXIT_OK;
    if (!at) return fail("--data: cannot read '%s': %s", folder, strerror(errno));
    for (const struct dirent *e; !status && (e = readdir(at));) status = add_run(s, folder, e->d_name);
    closedir(at);
    if (!status && !s->count)
        status = fail("--data: '%s' has no run in it: no folder with a log.jsonl", folder);
    qsort(s->run, (size_t)s->count, sizeof s->run[0], by_name);
    return status;
}

static void print_json(const runs *s)
{
    for (int i = 0; i < s->count; i++) {
        const log_summary *l = &s->run[i].log;
        json line = study_line("learning");
        json_text(&line, "run", s->run[i].name);
        json_real(&line, "steps", l->steps);
        json_real(&line, "loss", l->loss);
        json_real(&line, "bits", l->bits);
        json_real(&line, "accuracy", l->accuracy);
        json_real(&line, "error_rate", l->error_rate);
        json_real(&line, "tokens_per_second", l->tokens_per_second);
        json_real(&line, "peak_bytes", l->peak_bytes);
        json_end(&line);
    }
}

static const char *text_loss(double value, char *text, size_t capacity)
{
    snprintf(text, capacity, "%.4f", value);
    return text;
}

static const char *text_percent(double value, char *text, size_t capacity)
{
    snprintf(text, capacity, "%.2f %%", 100 * value);
    return text;
}

static void print_table(const runs *s)
{
    static const char *const headings[] = { "run", "steps", "test loss", "bits", "accuracy",
                                            "error rate", "tokens/s", "memory", NULL };
    table t;
    table_begin(&t, 1, headings);
    for (int i = 0; i < s->count; i++) {
        const log_summary *l = &s->run[i].log;
        table_row(&t);
        table_cell(&t, "%s", s->run[i].name);
        table_cell(&t, "%.0f", l->steps);
        study_cell(&t, l->loss, text_loss);
        study_cell(&t, l->bits, text_loss);
        study_cell(&t, l->accuracy, text_percent);
        study_cell(&t, l->error_rate, text_percent);
        study_cell(&t, l->tokens_per_second, text_count);
        study_cell(&t, l->peak_bytes, text_bytes);
    }
    table_print(&t, stdout);
    printf("\nThe last test of each run, in nats a target and bits a unit of the task; the memory is the\n"
           "most its process held.\n");
}

/* Whether losses reach over so much that only logarithms show the small ones. */
static bool is_wide(const runs *s)
{
    double least = HUGE_VAL, most = 0;
    for (int i = 0; i < s->count; i++)
        for (int j = 0; j < s->run[i].points; j++) {
            least = fmin(least, s->run[i].loss[j]);
            most = fmax(most, s->run[i].loss[j]);
        }
    return most > 20 * least;
}

static int draw(const options *o, const runs *s)
{
    figure f = figure_begin(1, "Learning");
    figure_panel *p = figure_add(&f, "Loss in training");
    p->x = (figure_axis){ "steps", 0, FIGURE_PLAIN, "" };
    p->y = (figure_axis){ "nats a target", is_wide(s) ? 10 : 0, FIGURE_PLAIN, "" };
    for (int i = 0; i < s->count; i++) {
        const trained *t = &s->run[i];
        figure_series(p, FIGURE_LINE, i, t->step, t->loss, t->points, "%s", t->name);
    }
    return study_draw(o, &f);
}

static int run(const options *o, lnt_ctx *ctx)
{
    (void)ctx;
    if (!opt_given(o, OPT_DATA))
        return fail_usage("--data is missing: the directory in which the runs are");
    runs *s = calloc(1, sizeof *s);
    if (!s) return fail_memory(sizeof *s);
    int status = read_runs(opt_text(o, OPT_DATA), s);
    if (!status && opt_given(o, OPT_JSON)) print_json(s);
    else if (!status) print_table(s);
    if (!status) status = draw(o, s);
    for (int i = 0; i < s->count; i++) log_forget(&s->run[i].log);
    free(s);
    return status;
}

const study study_learning = {
    .name = "learning",
    .summary = "results of training runs side by side; --data names their directory",
    .takes = { [OPT_DATA] = true },
    .draws = true,
    .run = run,
};
