/* cli/study/images.c - Linear transformers, tables 1, 4 and 5: images per second of one network, generated
 * pixel by pixel with softmax that recomputes the whole prefix, softmax with a KV cache, linear and taylor.
 *
 * Before a method is timed, its logits along an image are compared with those of one pass over the image.
 * All images of a batch are generated together; every pixel is sampled and fed back. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/clock.h"
#include "cli/model.h"
#include "cli/show/amount.h"
#include "cli/study/study.h"

enum { METHODS = 4, MAX_BATCHES = 2, MOST_SIDE = 64, DEFAULT_BATCH = 4, MOST_BATCH = 1024 };
static const double BUDGET = 0.5, MOST_DIFFERENCE = 1e-4; /* seconds; relative */

/* A network of a size that trains in an hour or two on two cores. */
static const char small_model[] = "{\"model\":{\"dim\":128,\"layers\":4,\"heads\":8}}";

static const struct {
    const char *name, *mechanism;
    bool again;   /* the whole prefix for each pixel */
    double paper; /* images a second of table 4; NaN: not in it */
} methods[METHODS] = {
    { "softmax, all again", "softmax", true, 0.45 },
    { "softmax, cache", "softmax", false, 7.56 },
    { "linear", "linear", false, 142.8 },
    { "taylor", "taylor", false, NAN },
};

typedef struct finding {
    double seconds;    /* of all images of the batch */
    double bytes;      /* remembered of one image at its last pixel */
    double difference; /* of the logits from the whole pass, relative, at the worst pixel */
    double row[MOST_SIDE]; /* seconds of a pixel, by row */
} finding;

typedef struct experiment {
    lnt_ctx *ctx;
    lnt_model *model[METHODS];
    lnt_model_info info;
    lnt_sampling sampling;
    int64_t side, pixels;
    int64_t batch[MAX_BATCHES];
    int batches;
    int32_t *images; /* [most of a batch,pixels], what is drawn */
    int32_t *prefix; /* the same room */
    float *logits;   /* [most of a batch,pixels,outputs] */
    float *last;     /* [most of a batch,outputs] */
    finding found[MAX_BATCHES][METHODS];
} experiment;

static void fill_start(const experiment *g, int64_t batch, int32_t *tokens)
{
    for (int64_t b = 0; b < batch; b++) tokens[b] = (int32_t)g->info.inputs - 1;
}

/* ---- drawing -------------------------------------------------------------------------------- */

/* The token before pixel p of each image, as the first p + 1 tokens of it. */
static void copy_prefix(const experiment *g, int64_t batch, int64_t p)
{
    for (int64_t b = 0; b < batch; b++) {
        fill_start(g, 1, g->prefix + b * (p + 1));
        memcpy(g->prefix + b * (p + 1) + 1, g->images + b * g->pixels,
               (size_t)p * sizeof *g->prefix);
    }
}

static lnt_status next_again(const experiment *g, int method, int64_t batch, int64_t p, int32_t *next)
{
    const int64_t outputs = g->info.outputs;
    copy_prefix(g, batch, p);
    const lnt_status status =
        lnt_model_forward(g->model[method], g->prefix, batch, p + 1, NULL, g->logits);
    if (status) return status;
    for (int64_t b = 0; b < batch; b++)
        memcpy(g->last + b * outputs, g->logits + (b * (p + 1) + p) * outputs,
               (size_t)outputs * sizeof *g->last);
    return lnt_model_sample(g->model[method], g->last, batch, p + 1, &g->sampling, next);
}

/* next [batch]: the pixels before, then those that were drawn. */
static lnt_status next_stepping(const experiment *g, lnt_session *session, int32_t *next)
{
    const lnt_status status = lnt_session_forward(session, next, 1);
    return status ? status : lnt_session_sample(session, &g->sampling, next);
}

/* session NULL: all again. */
static lnt_status draw_images(const experiment *g, int method, int64_t batch, lnt_session *session,
                              finding *out)
{
    int32_t next[MOST_BATCH];
    lnt_status status = LNT_OK;
    fill_start(g, batch, next);
    for (int64_t r = 0; r < g->side && !status; r++) {
        progress(methods[method].name, (int)r, (int)g->side);
        const double start = now_seconds();
        for (int64_t p = r * g->side; p < (r + 1) * g->side && !status; p++) {
            status = session ? next_stepping(g, session, next) : next_again(g, method, batch, p, next);
            for (int64_t b = 0; b < batch; b++) g->images[b * g->pixels + p] = next[b];
        }
        out->row[r] = (now_seconds() - start) / (double)g->side;
    }
    progress_end();
    return status;
}

/* ---- measuring ------------------------------------------------------------------------------ */

static double relative_difference(const float *a, const float *b, int64_t count)
{
    double off = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        const double x = (double)a[i], y = (double)b[i];
        off += (x - y) * (x - y);
        size += y * y;
    }
    return sqrt(off / size);
}

static lnt_status compare_steps(const experiment *g, lnt_session *session, finding *out)
{
    for (int64_t p = 0; p < g->pixels; p++) {
        const lnt_status status = lnt_session_forward(session, g->prefix + p, 1);
        if (status) return status;
        const double off = relative_difference(
            lnt_session_logits(session), g->logits + p * g->info.outputs, g->info.outputs);
        if (off > out->difference || isnan(off)) out->difference = off; /* NaN stays */
    }
    return LNT_OK;
}

/* Along an image of any pixels: what a session says of the next against one pass over all. */
static int verify(const experiment *g, int method, finding *out)
{
    lnt_session *session = NULL;
    for (int64_t p = 0; p < g->pixels; p++) g->images[p] = (int32_t)(p * 37 % 256);
    copy_prefix(g, 1, g->pixels - 1);
    lnt_status status =
        lnt_model_forward(g->model[method], g->prefix, 1, g->pixels, NULL, g->logits);
    if (!status) status = lnt_session_create(g->model[method], 1, &session);
    if (!status) status = compare_steps(g, session, out);
    lnt_session_destroy(session);
    if (status) return fail_ctx(g->ctx);
    if (!(out->difference <= MOST_DIFFERENCE))
        return fail("%s: step by step the logits are %.1e away from those of the whole image, more "
                    "than %g", methods[method].mechanism, out->difference, MOST_DIFFERENCE);
    return EXIT_OK;
}

/* Draws the batch once more; keeps the shortest time. */
static lnt_status time_once(const experiment *g, int method, int64_t batch, finding *out)
{
    finding now = { 0 };
    lnt_session *session = NULL;
    lnt_status status = methods[method].again
                            ? LNT_OK
                            : lnt_session_create(g->model[method], batch, &session);
    const double start = now_seconds();
    if (!status) status = draw_images(g, method, batch, session, &now);
    const double seconds = now_seconds() - start;
    for (int64_t r = 0; r < g->side; r++) out->row[r] = fmin(out->row[r], now.row[r]);
    out->seconds = fmin(out->seconds, seconds);
    const bool cached = strcmp(methods[method].mechanism, "softmax") == 0; /* it has room for more */
    out->bytes = (cached ? lnt_session_cache_bytes(session) : (double)lnt_session_bytes(session)) /
                 (double)batch;
    lnt_session_destroy(session);
    return status;
}

/* The first pass over whole images makes room for all that follow. */
static lnt_status warm_up(const experiment *g, int method, int64_t batch)
{
    if (!methods[method].again) return LNT_OK;
    memset(g->images, 0, (size_t)(batch * g->pixels) * sizeof *g->images);
    copy_prefix(g, batch, g->pixels - 1);
    return lnt_model_forward(g->model[method], g->prefix, batch, g->pixels, NULL, g->logits);
}

static int measure_method(experiment *g, int method, int at)
{
    finding *f = &g->found[at][method];
    const int64_t batch = g->batch[at];
    *f = (finding){ .seconds = INFINITY };
    for (int64_t r = 0; r < g->side; r++) f->row[r] = INFINITY;
    int status = verify(g, method, f);
    if (!status && warm_up(g, method, batch)) status = fail_ctx(g->ctx);
    const double start = now_seconds();
    do {
        if (!status && time_once(g, method, batch, f)) status = fail_ctx(g->ctx);
    } while (!status && now_seconds() - start < BUDGET);
    return status;
}

/* ---- showing -------------------------------------------------------------------------------- */

static double images_a_second(const experiment *g, int at, int method)
{
    return (double)g->batch[at] / g->found[at][method].seconds;
}

static double ratio(const experiment *g, int at, int method)
{
    return images_a_second(g, at, method) / images_a_second(g, at, 0);
}

static void print_json(const experiment *g)
{
    for (int at = 0; at < g->batches; at++)
        for (int m = 0; m < METHODS; m++) {
            const finding *f = &g->found[at][m];
            json line = study_line("images");
            json_text(&line, "method", methods[m].name);
            json_text(&line, "mechanism", methods[m].mechanism);
            json_whole(&line, "parameters", g->info.parameters);
            json_whole(&line, "layers", g->info.layers);
            json_whole(&line, "pixels", g->pixels);
            json_whole(&line, "batch", g->batch[at]);
            json_whole(&line, "threads", lnt_ctx_threads(g->ctx));
            json_real(&line, "seconds", f->seconds);
            json_real(&line, "images_per_second", images_a_second(g, at, m));
            json_real(&line, "ratio", ratio(g, at, m));
            json_real(&line, "state_bytes_per_image", methods[m].again ? 0 : f->bytes);
            json_real(&line, "difference", f->difference);
            json_real(&line, "paper_images_per_second", methods[m].paper);
            json_real(&line, "paper_ratio", methods[m].paper / methods[0].paper);
            json_end(&line);
        }
}

static void print_table(const experiment *g)
{
    static const char *const headings[] = { "method", "batch", "time", "images/s", "ratio", "state",
                                            "difference", "paper: images/s", "ratio", NULL };
    table t;
    char text[TABLE_CELL];
    table_begin(&t, 1, headings);
    for (int at = 0; at < g->batches; at++)
        for (int m = 0; m < METHODS; m++) {
            const finding *f = &g->found[at][m];
            table_row(&t);
            table_cell(&t, "%s", methods[m].name);
            table_cell(&t, "%lld", (long long)g->batch[at]);
            study_cell(&t, f->seconds, text_seconds);
            table_cell(&t, "%.3g", images_a_second(g, at, m));
            table_cell(&t, "%.4g x", ratio(g, at, m));
            table_cell(&t, "%s", methods[m].again ? "-" : text_bytes(f->bytes, text, sizeof text));
            table_cell(&t, "%.1e", f->difference);
            table_cell(&t, isnan(methods[m].paper) ? "-" : "%g", methods[m].paper);
            table_cell(&t, isnan(methods[m].paper) ? "-" : "%.3g x",
                       methods[m].paper / methods[0].paper);
        }
    table_print(&t, stdout);
    printf("\n%lld x %lld pixels, %lld layer%s, %lld parameters, drawn pixel by pixel, a batch at "
           "once.\nTime: of the batch.  State: of one image at its last pixel.  Difference: of "
           "the logits,\nstep by step, from those of a whole pass at the worst pixel, relative.  "
           "Paper: table 4, 8 layers\nof width 256, on a GPU.\n",
           (long long)g->side, (long long)g->side, (long long)g->info.layers,
           plural(g->info.layers), (long long)g->info.parameters);
}

static int draw_figure(const options *o, const experiment *g)
{
    static double pixel[MOST_SIDE];
    figure f = figure_begin(g->batches, "Drawing images of %lld × %lld pixels, %lld layer%s",
                            (long long)g->side, (long long)g->side, (long long)g->info.layers,
                            plural(g->info.layers));
    for (int64_t r = 0; r < g->side; r++) pixel[r] = ((double)r + 0.5) * (double)g->side;
    for (int at = 0; at < g->batches; at++) {
        figure_panel *p = figure_add(&f, "%lld at once", (long long)g->batch[at]);
        p->x = (figure_axis){ "pixel", 0, FIGURE_PLAIN, "" };
        p->y = (figure_axis){ "time a pixel", 10, FIGURE_PREFIXED, "s" };
        for (int m = 0; m < METHODS; m++)
            figure_series(p, FIGURE_LINE, m, pixel, g->found[at][m].row, (int)g->side, "%s",
                          methods[m].name);
    }
    return study_draw(o, &f);
}

/* ---- the study ------------------------------------------------------------------------------ */

static int open_experiment(const options *o, lnt_ctx *ctx, lnt_model *model, experiment *g)
{
    const int64_t batch = opt_whole(o, OPT_BATCH, DEFAULT_BATCH);
    g->ctx = ctx;
    g->sampling = (lnt_sampling){ .size = sizeof g->sampling, .temperature = 1, .top_p = 1,
                                  .seed = o->value[OPT_SEED].seed };
    g->pixels = g->info.length;
    g->side = (int64_t)lround(sqrt((double)g->pixels));
    if (strcmp(g->info.task, "mnist") != 0 || g->side * g->side != g->pixels || g->side > MOST_SIDE)
        return fail("'%s': the model of task %s draws no images of at most %d x %d pixels",
                    opt_given(o, OPT_MODEL) ? opt_text(o, OPT_MODEL) : "", g->info.task, MOST_SIDE,
                    MOST_SIDE);
    if (batch > MOST_BATCH)
        return fail_usage("--batch: '%lld' is too large for --study images, at most %d is allowed",
                          (long long)batch, MOST_BATCH);
    if (!opt_given(o, OPT_BATCH)) g->batch[g->batches++] = 1;
    g->batch[g->batches++] = batch;
    const size_t all = (size_t)(batch * g->pixels), outputs = (size_t)g->info.outputs;
    g->images = malloc(all * sizeof *g->images);
    g->prefix = malloc(all * sizeof *g->prefix);
    g->logits = malloc(all * outputs * sizeof *g->logits);
    g->last = malloc((size_t)batch * outputs * sizeof *g->last);
    if (!g->images || !g->prefix || !g->logits || !g->last)
        return fail_memory(all * outputs * sizeof *g->logits);
    for (int m = 0; m < METHODS; m++)
        if (lnt_model_convert(model, methods[m].mechanism, &g->model[m])) return fail_ctx(ctx);
    return EXIT_OK;
}

static void close_experiment(experiment *g)
{
    for (int m = 0; m < METHODS; m++) lnt_model_destroy(g->model[m]);
    free(g->images);
    free(g->prefix);
    free(g->logits);
    free(g->last);
}

static int run(const options *o, lnt_ctx *ctx)
{
    experiment g = { 0 };
    lnt_model *model;
    int status = model_open(o, ctx, "mnist", small_model, &model, &g.info);
    if (!status) status = open_experiment(o, ctx, model, &g);
    for (int at = 0; at < g.batches && !status; at++)
        for (int m = 0; m < METHODS && !status; m++) status = measure_method(&g, m, at);
    if (!status && opt_given(o, OPT_JSON)) print_json(&g);
    else if (!status) print_table(&g);
    if (!status) status = draw_figure(o, &g);
    close_experiment(&g);
    lnt_model_destroy(model);
    return status;
}

const study study_images = {
    .name = "images",
    .summary = "images per second of softmax, linear and taylor (Linear, tables 1, 4, 5)",
    .takes = { [OPT_MODEL] = true, [OPT_CONFIG] = true, [OPT_BATCH] = true, [OPT_SEED] = true },
    .draws = true,
    .run = run,
};
