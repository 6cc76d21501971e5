/* cli/model.c - see model.h. */
#include "cli/model.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "cli/output_file.h"
#include "cli/request.h"
#include "cli/show/report.h"

/* The path itself, or for the directory of a run that of the model in it, put into `inside`. */
static const char *file_of(const char *path, char inside[PATH_MAX])
{
    struct stat at;
    if (stat(path, &at) || !S_ISDIR(at.st_mode)) return path;
    const bool foreign = snprintf(inside, PATH_MAX, "%s/config.json", path) < PATH_MAX && !stat(inside, &at);
    if (foreign) return path; /* as Hugging Face lays a model out: the library reads the directory */
    return snprintf(inside, PATH_MAX, "%s/model.safetensors", path) < PATH_MAX ? inside : path;
}

static void show(void *user, double share)
{
    (void)user;
    progress("loading", (int)(100 * share), 100);
}

static int load(lnt_ctx *ctx, const char *path, const lnt_attn_desc *attention, const char *tokenizer,
                lnt_model **out)
{
    const lnt_model_options with = {
        .size = sizeof with, .attention = attention, .progress = show, .tokenizer = tokenizer
    };
    *out = NULL;
    const lnt_status status = lnt_model_load_with(ctx, path, &with, out);
    progress_end();
    return status ? fail_ctx(ctx) : EXIT_OK;
}

int model_load_with(lnt_ctx *ctx, const char *path, const lnt_attn_desc *attention, lnt_model **out)
{
    return load(ctx, path, attention, NULL, out);
}

int model_load(lnt_ctx *ctx, const char *path, lnt_model **out)
{
    return model_load_with(ctx, path, NULL, out);
}

int model_load_own(const options *o, lnt_ctx *ctx, const char *path, lnt_model **out)
{
    return load(ctx, path, NULL, opt_text(o, OPT_TOKENIZER), out);
}

int model_load_as(const options *o, lnt_ctx *ctx, const char *path, lnt_model **out)
{
    lnt_attn_desc attention;
    double fitted[MAX_TERMS];
    *out = NULL;
    int status = request_attention(o, &attention);
    if (!status) status = request_fit(o, ctx, 1, &attention, fitted);
    if (status) return status;
    return load(ctx, path, opt_given(o, OPT_MECHANISM) ? &attention : NULL, opt_text(o, OPT_TOKENIZER), out);
}

bool model_is_file(const char *path, const char *file)
{
    char inside[PATH_MAX];
    return same_file(file_of(path, inside), file);
}

int model_session(const options *o, const lnt_ctx *ctx, const lnt_model *model, int64_t batch,
                  lnt_session **out)
{
    const lnt_session_options with = {
        .size = sizeof with, .cache = (lnt_cache)opt_whole(o, OPT_SESSION_CACHE, LNT_CACHE_SAME)
    };
    return lnt_session_create_with(model, batch, &with, out) ? fail_ctx(ctx) : EXIT_OK;
}

const char *cache_numbers(lnt_cache cache)
{
    return cache == LNT_CACHE_SAME ? lnt_dtype_name(LNT_F32) : lnt_cache_name(cache);
}

int model_open(const options *o, lnt_ctx *ctx, const char *task, const char *text,
                 lnt_model **out, lnt_model_info *info)
{
    const char *file = opt_text(o, OPT_MODEL);
    const lnt_model_request request = { .size = sizeof request, .task = task, .text = text,
                                        .config = opt_text(o, OPT_CONFIG),
                                        .seed = o->value[OPT_SEED].seed };
    *out = NULL;
    *info = (lnt_model_info){ .size = sizeof *info };
    if (file && request.config) return fail_usage("--model has its own config; leave out --config");
    int status;
    if (file) status = model_load(ctx, file, out);
    else status = lnt_model_create(ctx, &request, out) ? fail_ctx(ctx) : EXIT_OK;
    if (status) return status;
    if (lnt_model_describe(*out, info)) return fail_ctx(ctx);
    if (!info->generates)
        return fail("'%s': task %s has an encoder, which does not generate", file, info->task);
    return EXIT_OK;
}
