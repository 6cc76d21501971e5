/* cli/subject.c - see subject.h. */
#include "cli/subject.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "cli/report.h"

int subject_load(lnt_ctx *ctx, const char *path, lnt_model **out)
{
    char inside[PATH_MAX];
    struct stat at;
    *out = NULL;
    if (stat(path, &at) == 0 && S_ISDIR(at.st_mode)) {
        const int length = snprintf(inside, sizeof inside, "%s/model.safetensors", path);
        if ((size_t)length < sizeof inside) path = inside;
    }
    return lnt_model_load(ctx, path, out) ? fail_ctx(ctx) : EXIT_OK;
}

int subject_open(const options *o, lnt_ctx *ctx, const char *task, const char *text,
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
    if (file) status = subject_load(ctx, file, out);
    else status = lnt_model_create(ctx, &request, out) ? fail_ctx(ctx) : EXIT_OK;
    if (status) return status;
    if (lnt_model_describe(*out, info)) return fail_ctx(ctx);
    if (!info->generates)
        return fail("'%s': task %s has an encoder, which does not generate", file, info->task);
    return EXIT_OK;
}
