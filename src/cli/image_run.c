/* cli/image_run.c - see image_run.h. */
#include "cli/image_run.h"

#include <stdlib.h>

#include "cli/clock.h"
#include "cli/show/report.h"

/* What a few images take. */
typedef struct room {
    float *pixels, *logits, *vectors;
    size_t each; /* pixels of an image */
} room;

static int read_pixels(image_run *run, const room *r, size_t first, size_t count)
{
    const double before = now_seconds();
    for (size_t i = 0; i < count; i++)
        if (lnt_model_read_image(run->model, run->list->path[first + i], r->pixels + i * r->each))
            return fail_ctx(run->ctx);
    run->read += now_seconds() - before;
    return EXIT_OK;
}

static int run_some(image_run *run, const room *r, size_t first, size_t count)
{
    int status = read_pixels(run, r, first, count);
    if (status) return status;
    const double before = now_seconds();
    if (lnt_model_forward_images(run->model, r->pixels, (int64_t)count, r->logits, r->vectors))
        return fail_ctx(run->ctx);
    run->ran += now_seconds() - before;
    return run->take(run->user, first, count, r->logits, r->vectors);
}

int image_run_all(image_run *run)
{
    const lnt_model_info *info = run->info;
    const size_t all = run->list->count, most = (size_t)run->batch < all ? (size_t)run->batch : all;
    const size_t bytes = most * sizeof(float), side = (size_t)info->image;
    room r = { .each = (size_t)info->channels * side * side };
    r.pixels = malloc(bytes * r.each);
    r.vectors = malloc(bytes * (size_t)info->dim);
    if (info->classifies) r.logits = malloc(bytes * (size_t)info->outputs);
    int status = EXIT_OK;
    if (!r.pixels || !r.vectors || (info->classifies && !r.logits))
        status = fail_memory(bytes * (r.each + (size_t)info->dim + (size_t)info->outputs));
    for (size_t first = 0; !status && first < all; first += most) {
        progress("images", (int)first, (int)all);
        status = run_some(run, &r, first, all - first < most ? all - first : most);
    }
    progress_end();
    free(r.pixels);
    free(r.logits);
    free(r.vectors);
    return status;
}
