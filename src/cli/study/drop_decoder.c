/* cli/study/drop_decoder.c - windows, sinks and far fields in place of a decoder's softmax: its loss upon a
 * text.
 *
 * The text's first tokens, --batch segments of --length, each from an empty session; the loss is the mean
 * over all tokens but the first of each.  A window alone is a hybrid whose far keys weigh nothing.  A
 * variant loads the model anew. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/study/drop_in.h"

enum { WINDOWS = 3, FARS = 4, VARIANTS = 1 + WINDOWS * FARS, DEFAULT_LENGTH = 2048, LONGEST = 1 << 20 };
static const int64_t windows[WINDOWS] = { 128, 256, 512 };
static const char *const fars[FARS] = { "window alone", "4 sinks", "4 sinks, linear", "4 sinks, taylor" };

typedef struct experiment {
    const options *o;
    lnt_ctx *ctx;
    int64_t segments, length;
    int32_t *tokens; /* [segments,length] */
    double *nats;    /* [length] */
    double loss[VARIANTS];
} experiment;

static lnt_attn_desc hybrid_of(int64_t window, int far)
{
    static const double nothing[] = { 0 };
    lnt_attn_desc desc;
    const lnt_status status = lnt_attn_desc_init(&desc, sizeof desc);
    (void)status; /* the library is of this tool's version: main has seen to it */
    desc.mechanism = LNT_HYBRID;
    desc.hybrid.window = window;
    desc.hybrid.sink = far ? 4 : 0;
    desc.hybrid.far = far == 2 ? LNT_LINEAR : LNT_TAYLOR;
    desc.taylor.terms = far == 3 ? DEFAULT_SAFE_TERMS : far == 2 ? 0 : 1;
    if (far < 2) desc.taylor.coefficients = nothing;
    return desc;
}

static int score(const experiment *e, lnt_model *model, double *loss)
{
    double sum = 0;
    int status = EXIT_OK;
    for (int64_t s = 0; s < e->segments && !status; s++) {
        lnt_session *session = NULL;
        if (lnt_session_create(model, 1, &session) ||
            lnt_session_score(session, e->tokens + s * e->length, e->length, e->nats))
            status = fail_ctx(e->ctx);
        lnt_session_destroy(session);
        for (int64_t i = 1; i < e->length && !status; i++) sum += e->nats[i];
    }
    *loss = sum / (double)(e->segments * (e->length - 1));
    return status;
}

/* Variant 0 is the model as it is. */
static int measure(experiment *e, int variant)
{
    lnt_model *model = NULL;
    lnt_attn_desc desc;
    if (variant) desc = hybrid_of(windows[(variant - 1) / FARS], (variant - 1) % FARS);
    progress("reading", variant, VARIANTS);
    int status = model_load_with(e->ctx, opt_text(e->o, OPT_MODEL), variant ? &desc : NULL, &model);
    if (!status) status = score(e, model, &e->loss[variant]);
    lnt_model_destroy(model);
    return status;
}

static void print_json(const experiment *e)
{
    for (int v = 0; v < VARIANTS; v++) {
        json line = study_line("drop-in");
        json_text(&line, "mechanism", v ? "hybrid" : "as it is");
        if (v) json_whole(&line, "window", windows[(v - 1) / FARS]);
        if (v) json_text(&line, "beside", fars[(v - 1) % FARS]);
        json_whole(&line, "length", e->length);
        json_whole(&line, "segments", e->segments);
        json_real(&line, "loss", e->loss[v]);
        json_real(&line, "perplexity", exp(e->loss[v]));
        json_end(&line);
    }
}

static void print_table(const experiment *e)
{
    static const char *const headings[] = { "", "window", "loss", "perplexity", "of its own", NULL };
    table t;
    table_begin(&t, 1, headings);
    for (int v = 0; v < VARIANTS; v++) {
        table_row(&t);
        table_cell(&t, "%s", v ? fars[(v - 1) % FARS] : "as it is");
        if (v) table_cell(&t, "%d", (int)windows[(v - 1) / FARS]);
        else table_cell(&t, "-");
        table_cell(&t, "%.4f", e->loss[v]);
        table_cell(&t, "%.2f", exp(e->loss[v]));
        table_cell(&t, "%.3f", exp(e->loss[v] - e->loss[0]));
    }
    table_print(&t, stdout);
    printf("\n%d segments of %d tokens; loss in nats a token.\n", (int)e->segments, (int)e->length);
}

static int draw(const experiment *e)
{
    double x[WINDOWS], y[FARS][WINDOWS], own[WINDOWS];
    figure f = figure_begin(1, "In place of a decoder's softmax, untrained");
    figure_panel *p = figure_add(&f, "Loss over %d tokens", (int)e->length);
    p->x = (figure_axis){ "window", 2, FIGURE_PLAIN, "" };
    p->y = (figure_axis){ "nats a token", 0, FIGURE_PLAIN, "" };
    for (int w = 0; w < WINDOWS; w++) {
        x[w] = (double)windows[w], own[w] = e->loss[0];
        for (int k = 0; k < FARS; k++) y[k][w] = e->loss[1 + w * FARS + k];
    }
    figure_series(p, FIGURE_DASHES, FARS, x, own, WINDOWS, "as it is");
    for (int k = 0; k < FARS; k++) figure_series(p, FIGURE_LINE, k, x, y[k], WINDOWS, "%s", fars[k]);
    return study_draw(e->o, &f);
}

static int read_tokens(experiment *e)
{
    lnt_model *model = NULL;
    int status = model_load(e->ctx, opt_text(e->o, OPT_MODEL), &model);
    if (!status) status = drop_stream_open(e->o, e->ctx, model, e->segments * e->length, &e->tokens);
    lnt_model_destroy(model);
    return status;
}

int drop_decoder(const options *o, lnt_ctx *ctx, const lnt_model_info *info)
{
    const int64_t most = info->length < DEFAULT_LENGTH ? info->length : DEFAULT_LENGTH;
    experiment e = { .o = o, .ctx = ctx, .segments = opt_whole(o, OPT_BATCH, 1),
                     .length = opt_whole(o, OPT_LENGTH, most) };
    static const option_id of_encoders[] = { OPT_LANDMARKS, OPT_SELECT, OPT_PINV, OPT_PINV_ITERATIONS,
                                             OPTION_COUNT };
    const option_id foreign = options_first_of(o, of_encoders);
    if (foreign != OPTION_COUNT)
        return fail_usage("%s is for models that are encoders", option_name(foreign));
    if (e.length < 2 || e.length > LONGEST)
        return fail_usage("--length: '%s' is not 2 to %d tokens", opt_text(o, OPT_LENGTH), LONGEST);
    if (e.segments > LONGEST)
        return fail_usage("--batch: '%s' is above %d segments", opt_text(o, OPT_BATCH), LONGEST);
    e.nats = calloc((size_t)e.length, sizeof *e.nats);
    int status = e.nats ? read_tokens(&e) : fail_memory((size_t)e.length * sizeof *e.nats);
    for (int v = 0; v < VARIANTS && !status; v++) status = measure(&e, v);
    progress_end();
    if (!status && opt_given(o, OPT_JSON)) print_json(&e);
    else if (!status) print_table(&e);
    if (!status) status = draw(&e);
    free(e.tokens);
    free(e.nats);
    return status;
}
