/* cli/cmd_eval.c - `linnet eval`: evaluates a model on data. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/classification.h"
#include "cli/clock.h"
#include "cli/commands.h"
#include "cli/evaluation.h"
#include "cli/model.h"
#include "cli/request.h"
#include "cli/show/amount.h"
#include "cli/show/json.h"
#include "cli/show/report.h"

static void print_json(const lnt_model_info *info, const lnt_score_report *s, double seconds)
{
    json line = json_begin(stdout);
    json_text(&line, "task", info->task);
    json_text(&line, "mechanism", info->mechanism);
    json_whole(&line, "parameters", info->parameters);
    json_whole(&line, "targets", s->targets);
    json_real(&line, "loss", s->loss);
    json_real(&line, "bits", s->bits);
    json_text(&line, "unit", s->unit);
    json_real(&line, "accuracy", s->accuracy);
    json_real(&line, "error_rate", s->error_rate);
    json_real(&line, "seconds", seconds);
    json_end(&line);
}

static void print_text(const lnt_model_info *info, const lnt_score_report *s)
{
    char text[32];
    printf("%s, %s, %s parameters, %lld targets\n", info->task, info->mechanism,
           text_count((double)info->parameters, text, sizeof text), (long long)s->targets);
    printf("loss        %.4f nats a target\n", s->loss);
    printf("bits        %.4f per %s\n", s->bits, s->unit);
    if (!isnan(s->accuracy)) printf("accuracy    %.2f %%\n", 100 * s->accuracy);
    if (!isnan(s->error_rate)) printf("error rate  %.2f %%\n", 100 * s->error_rate);
}

static int evaluate(const options *o, lnt_ctx *ctx, lnt_model *model)
{
    lnt_model_info info = { .size = sizeof info };
    lnt_score_report score = { .size = sizeof score };
    const lnt_eval_request request = { .size = sizeof request,
                                       .data = opt_text(o, OPT_DATA),
                                       .batch = opt_whole(o, OPT_BATCH, 0),
                                       .batches = opt_whole(o, OPT_BATCHES, 0),
                                       .held_out = opt_given(o, OPT_HELD_OUT),
                                       .seed = o->value[OPT_SEED].seed };
    const double before = now_seconds();
    if (lnt_model_describe(model, &info)) return fail_ctx(ctx);
    if (request.held_out && strcmp(info.task, "text") != 0)
        return fail_usage("--held-out is for models of text; this one is of task %s", info.task);
    if (opt_given(o, OPT_SESSION_CACHE))
        return fail_usage("--cache is for models that others trained, and for --token-ids");
    if (lnt_model_evaluate(model, &request, &score)) return fail_ctx(ctx);
    if (opt_given(o, OPT_JSON)) print_json(&info, &score, now_seconds() - before);
    else print_text(&info, &score);
    return EXIT_OK;
}

/* Of others' models texts or images alone, without a task; logits of any. */
static int choose(const options *o, lnt_ctx *ctx, lnt_model *model)
{
    lnt_model_info info = { .size = sizeof info };
    if (lnt_model_describe(model, &info)) return fail_ctx(ctx);
    if (info.image) return classification(o, ctx, model, &info);
    if (opt_given(o, OPT_TOKEN_IDS)) return evaluation_logits(o, ctx, model, &info);
    if (opt_given(o, OPT_LOGITS)) return fail_usage("--logits needs --token-ids");
    if (info.architecture[0]) return evaluation_text(o, ctx, model, &info);
    return evaluate(o, ctx, model);
}

static int run(const options *o)
{
    lnt_ctx *ctx;
    lnt_model *model = NULL;
    int status = request_context(o, 0, &ctx);
    if (status) return status;
    status = model_load_as(o, ctx, o->operand[0], &model);
    if (!status) status = choose(o, ctx, model);
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
    return status;
}

const command cmd_eval = {
    .name = "eval",
    .bit = CMD_EVAL,
    .usage = "MODEL [--data PATH] [options]",
    .summary = "Evaluate a model on data of its task, on a text, or on images",
    .details = "\n"
               "MODEL is a .safetensors file of Linnet, the directory of a run, a GGUF file, a directory\n"
               "as Hugging Face lays it out, or a file of llama2.c.  Of a text all is used unless\n"
               "--held-out is given, of images the test images.  For a model that others trained, --data\n"
               "is a text file, cut into segments of --length tokens; --batches says how many are used.\n"
               "With --mechanism the text is read twice, the second time as the model was trained, and\n"
               "the last line says what the other mechanism costs.\n"
               "--token-ids runs the model over tokens and saves the logits after each.\n"
               "For a classifier of images (ViT, DeiT) --data is a PNG or JPEG file, a text that names an\n"
               "image a line, or a directory of images: the likeliest classes of each are printed.  Where\n"
               "it has a directory for each class, named by its label or its number, it prints how often\n"
               "the model is right.  --logits saves the logits of images.\n",
    .operands = 1,
    .run = run,
};
