/* cli/study/generation.c - time and memory per generated token by the number of tokens before it, with a
 * state of fixed size and with the KV cache of softmax.
 *
 * Tokens before a point are read in chunks, like a prompt.  Around the point tokens are sampled one by one
 * and timed in blocks, because a state may do the work of several tokens at once.  Every point has a
 * session of its own, and the sessions take turns, so that other load on the machine affects all alike.
 * The cache is large, so one session goes from point to point, up to CACHE_MOST tokens; its prefill grows
 * with the square. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/clock.h"
#include "cli/measure/order.h"
#include "cli/model.h"
#include "cli/show/amount.h"
#include "cli/show/plot.h"
#include "cli/study/study.h"

enum { MAX_FORMS = 3, MAX_POINTS = 16, FIRST = 1000, DEFAULT_TOKENS = 100000, CACHE_MOST = 32768 };
enum { BLOCK = 64, BLOCKS = 8, WINDOW = BLOCK * BLOCKS, PIECE = 4096 }; /* tokens drawn; read at once */
enum { LEAST_TOKENS = 2 * WINDOW };

typedef struct form {
    const char *mechanism;
    lnt_model *model;
    lnt_session *session[MAX_POINTS]; /* one for each point, of the cache the first alone */
    double seconds[MAX_POINTS]; /* a token; NaN: not measured */
    double bytes[MAX_POINTS];
} form;

typedef struct experiment {
    lnt_ctx *ctx;
    lnt_model_info info;
    form form[MAX_FORMS]; /* the last is softmax */
    int forms, points;
    double point[MAX_POINTS]; /* tokens before */
    lnt_sampling sampling;
} experiment;

static bool cached(const form *f) { return strcmp(f->mechanism, "softmax") == 0; }

/* ---- measuring ------------------------------------------------------------------------------ */

/* Reads tokens until half a window before a point. */
static int read_until(const experiment *j, const form *f, lnt_session *session, int at)
{
    static int32_t tokens[PIECE];
    const int64_t count = (int64_t)j->point[at] - WINDOW / 2;
    while (lnt_session_tokens(session) < count) {
        const int64_t done = lnt_session_tokens(session), left = count - done;
        const int64_t n = left < PIECE ? left : PIECE;
        progress(f->mechanism, (int)(done / 1000), (int)(j->point[j->points - 1] / 1000));
        for (int64_t i = 0; i < n; i++)
            tokens[i] = (int32_t)((uint64_t)(done + i) * 2654435761u / 65536 %
                                  (uint64_t)j->info.inputs);
        if (lnt_session_forward(session, tokens, n)) return fail_ctx(j->ctx);
    }
    return EXIT_OK;
}

/* Draws BLOCK tokens; the time of one. */
static int draw_block(const experiment *j, lnt_session *session, double *seconds)
{
    const double start = now_seconds();
    for (int i = 0; i < BLOCK; i++) {
        int32_t token;
        if (lnt_session_sample(session, &j->sampling, &token) || lnt_session_forward(session, &token, 1))
            return fail_ctx(j->ctx);
    }
    *seconds = (now_seconds() - start) / BLOCK;
    return EXIT_OK;
}

/* Keys and values of the tokens before a point; what is allocated for them may be twice as much. */
static double cache_bytes(const lnt_session *session, double tokens)
{
    return lnt_session_cache_bytes(session) / (double)lnt_session_tokens(session) * tokens;
}

static int measure_cache(const experiment *j, form *f)
{
    double block[BLOCKS];
    int status = EXIT_OK;
    for (int at = 0; at < j->points && !status; at++) {
        f->seconds[at] = f->bytes[at] = NAN;
        if (j->point[at] > CACHE_MOST) continue;
        status = read_until(j, f, f->session[0], at);
        for (int b = 0; b < BLOCKS && !status; b++) status = draw_block(j, f->session[0], &block[b]);
        f->seconds[at] = median_of(block, BLOCKS);
        f->bytes[at] = cache_bytes(f->session[0], j->point[at]);
    }
    return status;
}

/* How many times as long a token takes as at the first point: the middle of what that is turn by turn.  A
 * machine that becomes slower half way meets both points of a turn; the middles of their times it would
 * part. */
static double growth_of(const double block[BLOCKS], const double first[BLOCKS])
{
    double ratio[BLOCKS];
    for (int b = 0; b < BLOCKS; b++) ratio[b] = block[b] / first[b];
    return median_of(ratio, BLOCKS);
}

static int measure_states(const experiment *j, form *forms, int count)
{
    static double block[MAX_FORMS][MAX_POINTS][BLOCKS];
    int status = EXIT_OK;
    for (int f = 0; f < count; f++)
        for (int at = 0; at < j->points && !status; at++)
            status = read_until(j, &forms[f], forms[f].session[at], at);
    for (int b = 0; b < BLOCKS; b++)
        for (int at = 0; at < j->points; at++)
            for (int f = 0; f < count && !status; f++)
                status = draw_block(j, forms[f].session[at], &block[f][at][b]);
    for (int f = 0; f < count; f++) {
        double sorted[BLOCKS];
        memcpy(sorted, block[f][0], sizeof sorted);
        const double first = median_of(sorted, BLOCKS);
        for (int at = 0; at < j->points; at++) {
            forms[f].seconds[at] = first * growth_of(block[f][at], block[f][0]);
            forms[f].bytes[at] = (double)lnt_session_bytes(forms[f].session[at]);
        }
    }
    return status;
}

static int measure_all(experiment *j)
{
    const int last = j->forms - 1;
    int status = measure_states(j, j->form, last);
    if (!status) status = measure_cache(j, &j->form[last]);
    progress_end();
    return status;
}

/* ---- showing -------------------------------------------------------------------------------- */

/* The last point that softmax was measured at. */
static int last_cached(const experiment *j)
{
    int at = j->points - 1;
    while (at > 0 && isnan(j->form[j->forms - 1].seconds[at])) at--;
    return at;
}

static void print_json(const experiment *j)
{
    for (int i = 0; i < j->points; i++)
        for (int f = 0; f < j->forms; f++) {
            const form *own = &j->form[f];
            if (isnan(own->seconds[i])) continue;
            json line = study_line("generation");
            json_text(&line, "mechanism", own->mechanism);
            json_whole(&line, "parameters", j->info.parameters);
            json_whole(&line, "layers", j->info.layers);
            json_whole(&line, "threads", lnt_ctx_threads(j->ctx));
            json_whole(&line, "tokens", (int64_t)j->point[i]);
            json_real(&line, "ns_per_token", 1e9 * own->seconds[i]);
            json_real(&line, "bytes", own->bytes[i]);
            json_real(&line, "ratio_to_first", own->seconds[i] / own->seconds[0]);
            json_end(&line);
        }
}

static void print_table(const experiment *j)
{
    const char *headings[2 * MAX_FORMS + 2] = { "tokens" };
    table t;
    for (int f = 0; f < j->forms; f++) headings[1 + f] = j->form[f].mechanism;
    for (int f = 0; f < j->forms; f++) headings[1 + j->forms + f] = j->form[f].mechanism;
    table_begin(&t, 0, headings);
    for (int i = 0; i < j->points; i++) {
        table_row(&t);
        table_cell(&t, "%.0f", j->point[i]);
        for (int f = 0; f < j->forms; f++)
            study_cell(&t, j->form[f].seconds[i], text_seconds);
        for (int f = 0; f < j->forms; f++)
            study_cell(&t, j->form[f].bytes[i], text_bytes);
    }
    table_print(&t, stdout);
    printf("\nLeft the time of a token with so many before it, right what is remembered of them; "
           "%lld layer%s,\n%lld parameters, one sequence.\n\n",
           (long long)j->info.layers, plural(j->info.layers), (long long)j->info.parameters);
}

/* As far as softmax goes. */
static void print_chart(const experiment *j)
{
    static const char marks[MAX_FORMS] = { 'o', '+', '*' };
    static const char *const marks_utf8[MAX_FORMS] = { "○", "▲", "●" };
    static const int colors[MAX_FORMS] = { 6, 2, 1 };
    plot_series series[MAX_FORMS];
    for (int f = 0; f < j->forms; f++) {
        const int look = cached(&j->form[f]) ? MAX_FORMS - 1 : f;
        series[f] = (plot_series){ j->form[f].mechanism, j->form[f].seconds, marks[look],
                                   marks_utf8[look], colors[look] };
    }
    const plot p = { .title = "time of a token", .x_title = "tokens before it", .x = j->point,
                     .points = last_cached(j) + 1, .series = series, .count = j->forms,
                     .label = text_seconds };
    plot_print(&p, stdout);
    fputc('\n', stdout);
}

static void print_sentences(const experiment *j)
{
    const int last = j->points - 1, at = last_cached(j);
    const form *softmax = &j->form[j->forms - 1];
    for (int f = 0; f < j->forms && !cached(&j->form[f]); f++) {
        const form *own = &j->form[f];
        printf("%s: a token after %.0f others takes %.3f times the time of one after %.0f;\n"
               "softmax with its cache takes %.2f times as long at %.0f tokens.\n",
               own->mechanism, j->point[last], own->seconds[last] / own->seconds[0], j->point[0],
               softmax->seconds[at] / own->seconds[at], j->point[at]);
    }
}

static int draw_figure(const options *o, const experiment *j)
{
    figure f = figure_begin(2, "Generating: %lld layer%s, %lld parameters, one sequence",
                            (long long)j->info.layers, plural(j->info.layers),
                            (long long)j->info.parameters);
    const panel_pair p = study_panels(&f, "Time of a token", "What is remembered",
                                      (figure_axis){ "tokens before", 10, FIGURE_PREFIXED, "" });
    p.first->y = (figure_axis){ "time of a token", 10, FIGURE_PREFIXED, "s" };
    p.second->y = (figure_axis){ "bytes", 10, FIGURE_PREFIXED, "B" };
    for (int i = j->forms - 1; i >= 0; i--) {
        const form *own = &j->form[i];
        study_series(p, FIGURE_LINE, i, j->point, own->seconds, own->bytes, j->points, "%s%s",
                     own->mechanism, cached(own) ? ", with its cache" : "");
    }
    return study_draw(o, &f);
}

/* ---- the study ------------------------------------------------------------------------------ */

/* 1000, 2000, 5000, 10,000 ... and the cache's end and the last, in order. */
static void choose_points(experiment *j, int64_t tokens)
{
    static const double steps[] = { 2, 2.5, 2 };
    double n = FIRST + WINDOW <= tokens ? FIRST : (double)tokens / 2;
    for (int i = 0; n + WINDOW <= (double)tokens && j->points < MAX_POINTS - 2; i++) {
        const double next = n * steps[i % 3];
        j->point[j->points++] = n;
        if (n < CACHE_MOST && next > CACHE_MOST && tokens > CACHE_MOST)
            j->point[j->points++] = CACHE_MOST;
        n = next;
    }
    j->point[j->points++] = (double)tokens;
}

static int add_form(experiment *j, const lnt_model *model, const char *mechanism)
{
    form *f = &j->form[j->forms++];
    f->mechanism = mechanism;
    if (lnt_model_convert(model, mechanism, &f->model)) return fail_ctx(j->ctx);
    for (int at = 0; at < (cached(f) ? 1 : j->points); at++)
        if (lnt_session_create(f->model, 1, &f->session[at])) return fail_ctx(j->ctx);
    return EXIT_OK;
}

/* A model of one's own beside softmax; a random one under what there is to choose from. */
static int open_forms(const options *o, const lnt_model *model, experiment *j)
{
    const bool given = opt_given(o, OPT_MODEL), softmax = !strcmp(j->info.mechanism, "softmax");
    int status = EXIT_OK;
    if (given && !softmax) status = add_form(j, model, j->info.mechanism);
    if (!given || softmax) status = add_form(j, model, "linear");
    if (!status && (!given || softmax)) status = add_form(j, model, "taylor");
    return status ? status : add_form(j, model, "softmax");
}

static int run(const options *o, lnt_ctx *ctx)
{
    const int64_t tokens = opt_whole(o, OPT_TOKENS, DEFAULT_TOKENS);
    experiment j = { .ctx = ctx,
                  .sampling = { .size = sizeof j.sampling, .temperature = 1, .top_p = 1,
                                .seed = o->value[OPT_SEED].seed } };
    lnt_model *model = NULL;
    if (tokens < LEAST_TOKENS)
        return fail_usage("--tokens: '%lld' is too few for --study generation, at least %d are "
                          "needed", (long long)tokens, LEAST_TOKENS);
    int status = model_open(o, ctx, "text", NULL, &model, &j.info);
    choose_points(&j, tokens);
    if (!status) status = open_forms(o, model, &j);
    if (!status) status = measure_all(&j);
    if (!status && opt_given(o, OPT_JSON)) {
        print_json(&j);
    } else if (!status) {
        print_table(&j);
        print_chart(&j);
        print_sentences(&j);
    }
    if (!status) status = draw_figure(o, &j);
    for (int f = 0; f < j.forms; f++) {
        for (int at = 0; at < j.points; at++) lnt_session_destroy(j.form[f].session[at]);
        lnt_model_destroy(j.form[f].model);
    }
    lnt_model_destroy(model);
    return status;
}

const study study_generation = {
    .name = "generation",
    .summary = "time per token and memory by tokens before it, with a state and with a cache",
    .takes = { [OPT_MODEL] = true, [OPT_CONFIG] = true, [OPT_TOKENS] = true, [OPT_SEED] = true },
    .draws = true,
    .run = run,
};
