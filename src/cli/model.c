/* cli/model.c - see model.h. */
#include "cli/model.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "cli/output_file.h"
#include "cli/show/report.h"

/* The path itself, or for a directory that of the model in it, put into `inside`. */
static const char *file_of(const char *path, char inside[PATH_MAX])
{
    struct stat at;
    if (stat(path, &at) || !S_ISDIR(at.st_mode)) return path;
    return snprintf(inside, PATH_MAX, "%s/model.safetensors", path) < PATH_MAX ? inside : path;
}

int model_load(lnt_ctx *ctx, const char *path, lnt_model **out)
{
    *out = NULL;
    return lnt_model_load(ctx, path, out) ? fail_ctx(ctx) : EXIT_OK;
}

bool model_is_file(const char *path, const char *file)
{
    char inside[PATH_MAX];
    return same_file(file_of(path, inside), file);
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
