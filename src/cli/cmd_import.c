/* cli/cmd_import.c - `linnet import`: one Linnet file of any model, and what turning its weights costs. */
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/clock.h"
#include "cli/commands.h"
#include "cli/model.h"
#include "cli/output_file.h"
#include "cli/request.h"
#include "cli/show/amount.h"
#include "cli/show/json.h"
#include "cli/show/report.h"
#include "cli/stale_files.h"

typedef struct job {
    const options *o;
    const char *from, *to;
    lnt_weights weights;
    lnt_ctx *ctx;
    lnt_model *model;
    lnt_model_info info;
    lnt_save_report report;
    double seconds;
} job;

/* Of the file to be written. */
static const char *folder_of(const char *file, char own[PATH_MAX])
{
    if (strlen(file) >= PATH_MAX) return ".";
    strcpy(own, file);
    return dirname(own);
}

/* Whether the file would lie in the directory that is the model. */
static bool lies_in(const char *file, const char *model)
{
    char folder[PATH_MAX];
    struct stat at;
    return stat(model, &at) == 0 && S_ISDIR(at.st_mode) && same_file(folder_of(file, folder), model);
}

static int check_paths(const job *j)
{
    static const char *const none[] = { NULL };
    char folder[PATH_MAX];
    struct stat at;
    if (!j->to) return fail_usage("-o FILE.safetensors must be given");
    if (model_is_file(j->from, j->to)) return fail("'%s' is the model itself; name another file", j->to);
    if (lies_in(j->to, j->from))
        return fail("'%s' would lie among the files of the model; name one outside of '%s'", j->to, j->from);
    if (stat(j->to, &at) == 0 && !S_ISREG(at.st_mode))
        return fail("cannot write '%s': it is not a regular file", j->to);
    stale_files_remove(folder_of(j->to, folder), none); /* one that was killed may have left gigabytes */
    return output_file_check(j->to);
}

static void show(void *user, double share)
{
    (void)user;
    progress("import", (int)(share * 1000), 1000);
}

static int import(job *j)
{
    const double before = now_seconds();
    const lnt_save_options with = {
        .size = sizeof with, .weights = j->weights, .progress = show, .report = &j->report
    };
    int status = model_load_as(j->o, j->ctx, j->from, &j->model);
    if (!status && lnt_model_describe(j->model, &j->info)) status = fail_ctx(j->ctx);
    const lnt_status saved = status ? LNT_OK : lnt_model_save_with(j->model, j->to, &with);
    progress_end();
    if (saved) return fail_ctx(j->ctx);
    j->seconds = now_seconds() - before;
    return status;
}

/* ---- what was done --------------------------------------------------------------------------- */

static void tell_json(const job *j)
{
    const lnt_save_report *r = &j->report;
    json line = json_begin(stdout);
    json_text(&line, "architecture", j->info.architecture);
    json_whole(&line, "parameters", j->info.parameters);
    json_text(&line, "weights", option_choice(OPT_WEIGHTS, (int)j->weights));
    json list = json_list(&line, "storage");
    for (int64_t i = 0; i < r->storages; i++) {
        json item = json_item(&list);
        json_text(&item, "name", r->storage[i].name);
        json_whole(&item, "bytes", r->storage[i].bytes);
        json_item_end(&item);
    }
    json_list_end(&list);
    json_whole(&line, "file_bytes", r->file_bytes);
    json_whole(&line, "matrices", r->matrices);
    json_whole(&line, "turned", r->turned);
    json_real(&line, "relative_error", r->error);
    json_text(&line, "worst", r->worst);
    json_real(&line, "worst_relative_error", r->worst_error);
    json_real(&line, "seconds", j->seconds);
    json_end(&line);
}

/* What is said of the weights' error: a model's own comes of it, and of its layers. */
static const char *verdict(double error)
{
    if (error < 1e-6) return "as good as none";
    return error < 0.02 ? "small: seldom seen in what a model says"
                        : "not small: measure what it does to the model";
}

static void tell_error(const job *j)
{
    const lnt_save_report *r = &j->report;
    printf("turned     %lld of %lld matrices; relative error %.2g", (long long)r->turned,
           (long long)r->matrices, r->error);
    if (r->worst[0]) printf(", at most %.2g (%s)", r->worst_error, r->worst);
    printf(": %s\n", verdict(r->error));
    if (r->error < 1e-6) return;
    const bool says = j->info.generates || j->info.classifies;
    printf("           compare on your own data: linnet %s MODEL %s %s, with '%s' and with '%s'\n",
           says ? "eval" : "embed", says ? "--data" : "--file", j->info.image ? "IMAGES" : "TEXT", j->from,
           j->to);
}

static void tell(const job *j)
{
    char text[32];
    const lnt_save_report *r = &j->report;
    printf("model      %s, %s parameters\n", j->info.architecture[0] ? j->info.architecture : j->info.task,
           text_count((double)j->info.parameters, text, sizeof text));
    for (int64_t i = 0; i < r->storages; i++)
        printf("%s%s %s", i ? ", " : "weights    ", r->storage[i].name,
               text_bytes((double)r->storage[i].bytes, text, sizeof text));
    printf("\nfile       %s, %s\n", j->to, text_bytes((double)r->file_bytes, text, sizeof text));
    if (r->turned) tell_error(j);
}

static int run(const options *o)
{
    job j = { .o = o,
              .from = o->operand[0],
              .to = opt_text(o, OPT_OUTPUT),
              .weights = (lnt_weights)opt_whole(o, OPT_WEIGHTS, LNT_WEIGHTS_KEEP),
              .info = { .size = sizeof j.info },
              .report = { .size = sizeof j.report } };
    int status = check_paths(&j);
    if (!status) status = request_context(o, 0, &j.ctx);
    if (!status) status = import(&j);
    if (!status && opt_given(o, OPT_JSON))
        tell_json(&j);
    else if (!status)
        tell(&j);
    lnt_model_destroy(j.model);
    lnt_ctx_destroy(j.ctx);
    return status;
}

const command cmd_import = {
    .name = "import",
    .bit = CMD_IMPORT,
    .usage = "MODEL -o OUT.safetensors [options]",
    .summary = "Make one Linnet file of any model",
    .details =
        "\n"
        "MODEL is a GGUF file, a directory as Hugging Face lays it out, a file of llama2.c, a\n"
        ".safetensors file of Linnet, or the directory of a run.  The file has everything: config,\n"
        "tokenizer, chat template, weights.\n"
        "\n"
        "--weights says what becomes of the matrices:\n"
        "  keep  what they are; the file answers to the same bits as MODEL\n"
        "  f32, bf16\n"
        "  q8    blocks of 32 with a scale (q8_0, 8.5 bits a number)\n"
        "  q4    blocks of 32 with a scale and a minimum (q4_1, 5 bits); those that read and write\n"
        "        tokens as with q8\n"
        "A matrix whose rows are no whole blocks stays what it is.\n",
    .operands = 1,
    .run = run,
};
