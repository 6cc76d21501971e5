/* cli/train_log.c - see train_log.h.  A run that resumes from a checkpoint drops the lines of later steps,
 * which it will write again. */
#include "cli/train_log.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/measure/resident.h"
#include "cli/output_file.h"
#include "cli/show/json.h"
#include "cli/show/report.h"
#include "cli/show/svg.h"

static int add_point(log_curve *c, double step, double loss)
{
    if (c->count == c->room) {
        const int room = c->room ? 2 * c->room : 1024;
        double *steps = realloc(c->step, (size_t)room * sizeof *steps);
        if (steps) c->step = steps;
        double *losses = realloc(c->loss, (size_t)room * sizeof *losses);
        if (losses) c->loss = losses;
        if (!steps || !losses) return fail_memory((size_t)room * sizeof *losses);
        c->room = room;
    }
    c->step[c->count] = step;
    c->loss[c->count++] = loss;
    return EXIT_OK;
}

/* The number after "key": in a line of ours; out stays as it is where there is none. */
static bool number_of(const char *line, const char *key, double *out)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(line, quoted);
    char *end;
    if (!at) return false;
    at += strlen(quoted);
    const double value = strtod(at, &end);
    if (end == at) return false;
    *out = value;
    return true;
}

/* A pipe that nobody is at the other end of would be waited for without end. */
static int refuse_special(const char *verb, const char *path)
{
    struct stat st;
    if (stat(path, &st) || S_ISREG(st.st_mode)) return EXIT_OK;
    return fail("cannot %s '%s': it is not a regular file", verb, path);
}

/* Keeps what belongs to steps up to the last. */
static int copy_lines(train_log *log, FILE *from, FILE *to, int64_t last_step)
{
    char line[1024];
    double step, loss;
    int status = EXIT_OK;
    while (!status && fgets(line, sizeof line, from)) {
        if (!number_of(line, "step", &step) || step > (double)last_step || !strchr(line, '\n'))
            continue;
        fputs(line, to);
        if (number_of(line, "loss", &loss)) status = add_point(&log->train, step, loss);
        else if (number_of(line, "test_loss", &loss)) status = add_point(&log->test, step, loss);
    }
    return status;
}

static int keep_earlier(train_log *log, int64_t last_step)
{
    output_file at;
    FILE *from = fopen(log->path, "r");
    if (!from) return EXIT_OK; /* lost, or never written: begin anew */
    int status = output_file_open(log->path, &at);
    if (!status) {
        status = copy_lines(log, from, at.file, last_step);
        if (status) output_file_abandon(&at);
        else status = output_file_commit(&at);
    }
    fclose(from);
    return status;
}

int log_open(train_log *log, const char *path, int64_t last_step, bool echo)
{
    *log = (train_log){ .path = path, .echo = echo };
    int status = refuse_special("write", path);
    if (!status && last_step > 0) status = keep_earlier(log, last_step);
    if (status) return status;
    log->file = fopen(path, last_step > 0 ? "a" : "w");
    return log->file ? EXIT_OK : fail("cannot write '%s': %s", path, strerror(errno));
}

static void put_step(FILE *to, const lnt_step_report *r, double seconds)
{
    json line = json_begin(to);
    json_whole(&line, "step", r->step);
    json_real(&line, "loss", r->loss);
    json_real(&line, "bits", r->bits);
    json_real(&line, "accuracy", r->accuracy);
    json_real(&line, "error_rate", r->error_rate);
    json_real(&line, "rate", r->rate);
    json_real(&line, "gradient", r->gradient);
    json_whole(&line, "tokens", r->tokens);
    json_real(&line, "seconds", seconds);
    json_end(&line);
}

static void put_test(FILE *to, int64_t step, const lnt_score_report *s)
{
    json line = json_begin(to);
    json_whole(&line, "step", step);
    json_real(&line, "test_loss", s->loss);
    json_real(&line, "test_bits", s->bits);
    json_text(&line, "unit", s->unit);
    json_real(&line, "test_accuracy", s->accuracy);
    json_real(&line, "test_error_rate", s->error_rate);
    json_whole(&line, "test_targets", s->targets);
    json_whole(&line, "peak_bytes", resident_peak());
    json_end(&line);
}

static int flushed(const train_log *log)
{
    if (fflush(log->file) == 0) return EXIT_OK;
    return fail("cannot write '%s': %s", log->path, strerror(errno));
}

int log_step(train_log *log, const lnt_step_report *report, double seconds)
{
    put_step(log->file, report, seconds);
    if (log->echo) put_step(stdout, report, seconds);
    const int status = flushed(log);
    return status ? status : add_point(&log->train, (double)report->step, report->loss);
}

int log_test(train_log *log, int64_t step, const lnt_score_report *score)
{
    put_test(log->file, step, score);
    if (log->echo) put_test(stdout, step, score);
    const int status = flushed(log);
    return status ? status : add_point(&log->test, (double)step, score->loss);
}

bool log_has_test(const train_log *log, int64_t step)
{
    const log_curve *test = &log->test;
    return test->count && test->step[test->count - 1] == (double)step;
}

int log_draw(const train_log *log, const char *path, const char *title)
{
    const svg_curve curves[] = {
        { "training", log->train.step, log->train.loss, log->train.count },
        { "test", log->test.step, log->test.loss, log->test.count },
    };
    return svg_write(path, title, "step", "loss", curves, 2);
}

void log_close(train_log *log)
{
    if (log->file) fclose(log->file);
    free(log->train.step);
    free(log->train.loss);
    free(log->test.step);
    free(log->test.loss);
}

static void summarise_line(const char *line, log_summary *s, double *tokens, double *seconds)
{
    double value;
    if (number_of(line, "tokens", &value)) *tokens += value;
    if (number_of(line, "seconds", &value)) *seconds += value;
    number_of(line, "test_loss", &s->loss);
    number_of(line, "test_bits", &s->bits);
    number_of(line, "test_accuracy", &s->accuracy);
    number_of(line, "test_error_rate", &s->error_rate);
    number_of(line, "peak_bytes", &s->peak_bytes);
}

int log_read(const char *path, log_summary *out)
{
    char line[1024];
    double step, loss, tokens = 0, seconds = 0;
    *out = (log_summary){ .steps = NAN, .loss = NAN, .bits = NAN, .accuracy = NAN,
                          .error_rate = NAN, .peak_bytes = NAN };
    int status = refuse_special("read", path);
    if (status) return status;
    FILE *from = fopen(path, "r");
    if (!from) return fail("cannot read '%s': %s", path, strerror(errno));
    while (!status && fgets(line, sizeof line, from)) {
        if (!number_of(line, "step", &step)) continue;
        out->steps = step;
        summarise_line(line, out, &tokens, &seconds);
        if (number_of(line, "loss", &loss)) status = add_point(&out->train, step, loss);
    }
    out->tokens_per_second = tokens / seconds;
    fclose(from);
    if (!status && !out->train.count) status = fail("'%s' is not the log of a run", path);
    if (status) log_forget(out);
    return status;
}

void log_forget(log_summary *summary)
{
    free(summary->train.step);
    free(summary->train.loss);
    summary->train = (log_curve){ 0 };
}
