/* cli/cmd_train.c - `linnet train`: trains a model on a task.  A directory receives the model, a checkpoint
 * to resume from, the log and the loss curve. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "cli/clock.h"
#include "cli/commands.h"
#include "cli/output_file.h"
#include "cli/request.h"
#include "cli/show/amount.h"
#include "cli/show/report.h"
#include "cli/stale_files.h"
#include "cli/stop.h"
#include "cli/train_log.h"

enum { NAME = 32 };
static const char LOG[] = "log.jsonl", CURVE[] = "loss.svg";

typedef struct run {
    const options *o;
    lnt_ctx *ctx;
    lnt_trainer *trainer;
    lnt_trainer_info info;
    char checkpoint[PATH_MAX], model[PATH_MAX], log_path[PATH_MAX], curve[PATH_MAX];
    train_log log;
    int lock; /* on the directory; -1: not yet */
    double tokens, seconds; /* trained in this run */
    lnt_score_report last;  /* on the test; size 0: none yet */
} run;

static void join(char out[PATH_MAX], const char *directory, const char *name)
{
    snprintf(out, PATH_MAX, "%.*s/%s", PATH_MAX - NAME, directory, name);
}

static int refuse_checkpoint(const run *r)
{
    struct stat st;
    if (opt_given(r->o, OPT_RESUME) || stat(r->checkpoint, &st)) return EXIT_OK;
    return fail("'%s' holds a checkpoint; --resume goes on from it, or choose another --out",
                opt_text(r->o, OPT_OUT));
}

/* Until the process ends. */
static int lock_directory(run *r)
{
    const char *out = opt_text(r->o, OPT_OUT);
    if (r->lock < 0) r->lock = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->lock >= 0 && flock(r->lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return fail("--out: another run trains in '%s'", out);
    return EXIT_OK;
}

/* Names the files, and refuses a directory that cannot be meant before anything is read.  A run that goes on
 * has it to itself before it reads the checkpoint, which another might still replace. */
static int choose_directory(run *r)
{
    const char *out = opt_text(r->o, OPT_OUT);
    struct stat st;
    if (strlen(out) >= PATH_MAX - NAME) return fail("--out: the path is too long");
    if (stat(out, &st) == 0 && !S_ISDIR(st.st_mode))
        return fail("--out: '%s' is not a directory", out);
    join(r->checkpoint, out, "checkpoint.safetensors");
    join(r->model, out, "model.safetensors");
    join(r->log_path, out, LOG);
    join(r->curve, out, CURVE);
    return opt_given(r->o, OPT_RESUME) ? lock_directory(r) : refuse_checkpoint(r);
}

/* That what would only be written after many steps can be. */
static int check_places(const run *r)
{
    const char *const written[] = { r->checkpoint, r->model, r->curve };
    int status = EXIT_OK;
    for (int i = 0; !status && i < 3; i++) status = output_file_check(written[i]);
    return status;
}

/* Once the config is accepted: one that is refused leaves no directory behind.  What a run that was
 * killed had begun to write goes. */
static int make_directory(run *r)
{
    static const char *const written[] = { LOG, CURVE, NULL };
    const char *out = opt_text(r->o, OPT_OUT);
    struct stat st;
    if (mkdir(out, 0777) && (errno != EEXIST || stat(out, &st) || !S_ISDIR(st.st_mode)))
        return fail("cannot make '%s': %s", out, strerror(errno));
    int status = lock_directory(r);
    if (!status) stale_files_remove(out, written);
    if (!status) status = refuse_checkpoint(r); /* of one that came and went while this one read its data */
    return status ? status : check_places(r);
}

static lnt_status set_dtype(const run *r)
{
    if (!opt_given(r->o, OPT_MODEL_DTYPE)) return LNT_OK;
    return lnt_trainer_set_dtype(r->trainer, opt_whole(r->o, OPT_MODEL_DTYPE, 0) ? LNT_BF16 : LNT_F32);
}

static int open_trainer(run *r)
{
    const options *o = r->o;
    const uint64_t seed = o->value[OPT_SEED].seed;
    const lnt_train_request request = {
        .size = sizeof request,
        .task = opt_text(o, OPT_TASK),
        .config = opt_text(o, OPT_CONFIG),
        .data = opt_text(o, OPT_DATA),
        .mechanism = opt_given(o, OPT_MECHANISM)
                         ? lnt_mechanism_name((lnt_mechanism)opt_whole(o, OPT_MECHANISM, 0))
                         : NULL,
        .steps = opt_whole(o, OPT_STEPS, 0),
        .seed = opt_given(o, OPT_SEED) ? &seed : NULL
    };
    const lnt_status status =
        opt_given(o, OPT_RESUME)
            ? lnt_trainer_resume(r->ctx, r->checkpoint, request.data, request.steps, &r->trainer)
            : lnt_trainer_create(r->ctx, &request, &r->trainer);
    r->info.size = sizeof r->info;
    if (!status && opt_given(o, OPT_RESUME) && lnt_trainer_expect(r->trainer, &request))
        return fail("cannot change with --resume: %s; say the run's whole command again, or nothing of it",
                    lnt_ctx_error(r->ctx));
    if (status || lnt_trainer_describe(r->trainer, &r->info) || set_dtype(r)) return fail_ctx(r->ctx);
    return EXIT_OK;
}

static void show_progress(const run *r, const lnt_step_report *report)
{
    char what[96], speed[32];
    const double each = r->seconds / (double)(report->step - r->info.step);
    const int left = (int)fmin((double)(r->info.steps - report->step) * each, 1e9);
    text_count(r->tokens / r->seconds, speed, sizeof speed);
    snprintf(what, sizeof what, "loss %.4f  %s tokens/s  %d:%02d:%02d left", report->loss,
             speed, left / 3600, left / 60 % 60, left % 60);
    progress(what, (int)report->step, (int)r->info.steps);
}

static int test(run *r, int64_t step)
{
    if (!r->info.tests) return EXIT_OK;
    r->last.size = sizeof r->last;
    if (lnt_trainer_evaluate(r->trainer, r->info.eval_batches, &r->last)) return fail_ctx(r->ctx);
    const int status = log_test(&r->log, step, &r->last);
    return status ? status : log_draw(&r->log, r->curve, r->info.task);
}

/* The checkpoint first: a model file without its checkpoint is worth less than the other way. */
static int save(const run *r)
{
    if (lnt_trainer_save(r->trainer, r->checkpoint) ||
        lnt_model_save(lnt_trainer_model(r->trainer), r->model, lnt_trainer_dtype(r->trainer)))
        return fail_ctx(r->ctx);
    return log_draw(&r->log, r->curve, r->info.task);
}

static bool is_due(int64_t every, int64_t step, int64_t steps)
{
    return step == steps || (every && step % every == 0);
}

/* A run that is over: killed before its model, perhaps, or stopped where it was now told to end. */
static int end(run *r)
{
    const int status = log_has_test(&r->log, r->info.step) ? EXIT_OK : test(r, r->info.step);
    return status ? status : save(r);
}

static int train(run *r)
{
    int status = EXIT_OK;
    if (r->info.step >= r->info.steps) return end(r);
    stop_upon_signals();
    for (int64_t step = r->info.step + 1; step <= r->info.steps && !status; step++) {
        lnt_step_report report = { .size = sizeof report };
        const double before = now_seconds();
        if (lnt_trainer_step(r->trainer, &report)) return fail_ctx(r->ctx);
        const double seconds = now_seconds() - before;
        r->seconds += seconds;
        r->tokens += (double)report.tokens;
        show_progress(r, &report);
        status = log_step(&r->log, &report, seconds);
        const bool stop = stop_asked() && step < r->info.steps;
        /* The test first: a run that is killed and goes on has tested what it saved. */
        if (!status && is_due(r->info.eval_every, step, r->info.steps)) status = test(r, step);
        if (!status && (stop || is_due(r->info.save_every, step, r->info.steps))) status = save(r);
        if (!status && stop) {
            progress_end();
            const char *data = opt_text(r->o, OPT_DATA);
            return fail("stopped after step %lld of %lld; --resume --out '%s'%s%s%s goes on from there",
                        (long long)step, (long long)r->info.steps, opt_text(r->o, OPT_OUT),
                        data ? " --data '" : "", data ? data : "", data ? "'" : "");
        }
    }
    progress_end();
    return status;
}

static void print_summary(const run *r)
{
    char text[32];
    printf("%s, %s parameters, %lld steps", r->info.task,
           text_count((double)r->info.parameters, text, sizeof text), (long long)r->info.steps);
    if (r->seconds > 0)
        printf(", %s tokens/s", text_count(r->tokens / r->seconds, text, sizeof text));
    fputc('\n', stdout);
    if (r->last.size) {
        printf("test loss %.4f, %.4f bits per %s", r->last.loss, r->last.bits, r->last.unit);
        if (!isnan(r->last.accuracy)) printf(", accuracy %.2f %%", 100 * r->last.accuracy);
        if (!isnan(r->last.error_rate)) printf(", error rate %.2f %%", 100 * r->last.error_rate);
        fputc('\n', stdout);
    }
    printf("%s\n", r->model);
}

static int check(const options *o)
{
    if (!opt_given(o, OPT_OUT)) return fail_usage("--out is missing: where the model goes");
    if (!opt_given(o, OPT_TASK) && !opt_given(o, OPT_RESUME))
        return fail_usage("--task is missing: what to learn");
    return EXIT_OK;
}

static int run_train(const options *o)
{
    run r = { .o = o, .lock = -1 };
    int status = check(o);
    if (!status) status = request_context(o, 0, &r.ctx);
    if (!status) status = choose_directory(&r);
    if (!status) status = open_trainer(&r);
    if (!status) status = make_directory(&r);
    if (!status)
        status = log_open(&r.log, r.log_path, r.info.step, opt_given(o, OPT_JSON));
    if (!status) status = train(&r);
    if (!status && !opt_given(o, OPT_JSON)) print_summary(&r);
    log_close(&r.log);
    lnt_trainer_destroy(r.trainer);
    lnt_ctx_destroy(r.ctx);
    return status;
}

static void help_tasks(FILE *to)
{
    fputs("\ntasks:\n", to);
    for (int i = 0; lnt_task_name(i); i++) {
        fprintf(to, "  %-13s%s\n", lnt_task_name(i), lnt_task_summary(i));
        if (lnt_task_data(i)) fprintf(to, "  %-13s--data: %s\n", "", lnt_task_data(i));
    }
}

const command cmd_train = {
    .name = "train",
    .bit = CMD_TRAIN,
    .usage = "--task NAME --out DIR [--config FILE.json] [--data PATH] [options]",
    .summary = "Train a transformer on a task",
    .details = "\n"
               "DIR gets model.safetensors, checkpoint.safetensors, log.jsonl and loss.svg.  --resume\n"
               "continues a stopped run to the same bits; it needs --out DIR and the same --data.  All\n"
               "other settings are read from DIR; only --steps and --dtype may change.  On a CPU with AMX\n"
               "the config may have \"train\": {\"compute\": \"bf16\"}: products with rounded factors.\n",
    .more = help_tasks,
    .run = run_train,
};
