/* cli/study/drop_encoder.c - CUR in place of an encoder's softmax: how far the embeddings of texts go
 * astray.
 *
 *     cosine   of each embedding to softmax's, the mean
 *     rank     Spearman's correlation of the cosines between all pairs of texts with softmax's
 *
 * Three tables: by the words of a text; at --length words by choice of landmarks and inverse; there with a
 * pinned class token, and with landmarks of queries and keys chosen each by their own scores.  A variant
 * loads the model anew. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/study/drop_in.h"

enum { MOST_COUNTS = 4, LENGTHS = 5, KINDS = 7, DEFAULT_BATCH = 16, DEFAULT_WORDS = 128, ITERATIONS = 6 };
static const int64_t lengths[LENGTHS] = { 32, 64, 128, 256, 512 };
static const int64_t landmark_counts[MOST_COUNTS] = { 16, 32, 64, 128 };
static const int64_t iterations[KINDS] = { 1, 2, 4, 6, 8, -LNT_PINV_RIDGE, -LNT_PINV_TUNED };
static const lnt_select by_length[] = { LNT_SELECT_STEP, LNT_SELECT_MEAN };
enum { BY_LENGTH = sizeof by_length / sizeof by_length[0] };

typedef struct finding {
    double cosine, rank;
} finding;

typedef struct experiment {
    const options *o;
    lnt_ctx *ctx;
    int64_t batch, words, width;
    int64_t landmarks[MOST_COUNTS];
    int counts;
    drop_texts texts;
    float *exact, *found; /* [batch,width] */
    double *pairs;        /* two of [batch * batch] */
    int done, total;
} experiment;

/* ---- agreement ------------------------------------------------------------------------------ */

static double cosine_of(const float *a, const float *b, int64_t width)
{
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < width; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

typedef struct ranked {
    double value;
    int at;
} ranked;

static int by_value(const void *a, const void *b)
{
    const double x = ((const ranked *)a)->value, y = ((const ranked *)b)->value;
    return (x > y) - (x < y);
}

/* values [count] become their ranks, which equal ones share. */
static int rank_values(double *values, int count)
{
    ranked *list = calloc((size_t)count, sizeof *list);
    if (!list) return fail_memory((size_t)count * sizeof *list);
    for (int i = 0; i < count; i++) list[i] = (ranked){ values[i], i };
    qsort(list, (size_t)count, sizeof *list, by_value);
    for (int i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && list[end].value == list[i].value;) end++;
        for (int k = i; k < end; k++) values[list[k].at] = 0.5 * (i + end - 1);
    }
    free(list);
    return EXIT_OK;
}

static double correlation(const double *a, const double *b, int count)
{
    double ma = 0, mb = 0, ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < count; i++) ma += a[i] / count, mb += b[i] / count;
    for (int i = 0; i < count; i++) {
        ab += (a[i] - ma) * (b[i] - mb);
        aa += (a[i] - ma) * (a[i] - ma);
        bb += (b[i] - mb) * (b[i] - mb);
    }
    return ab / sqrt(aa * bb);
}

/* Cosines between all pairs of texts; gives their number. */
static int fill_pairs(const experiment *e, const float *vectors, double *out)
{
    int count = 0;
    for (int64_t a = 0; a < e->texts.count; a++)
        for (int64_t b = 0; b < a; b++)
            out[count++] = cosine_of(vectors + a * e->width, vectors + b * e->width, e->width);
    return count;
}

static int compare(const experiment *e, finding *out)
{
    double *of_exact = e->pairs, *of_found = e->pairs + e->batch * e->batch;
    const int count = fill_pairs(e, e->exact, of_exact);
    fill_pairs(e, e->found, of_found);
    int status = rank_values(of_exact, count);
    if (!status) status = rank_values(of_found, count);
    if (status) return status;
    out->rank = correlation(of_exact, of_found, count);
    out->cosine = 0;
    for (int64_t t = 0; t < e->texts.count; t++)
        out->cosine +=
            cosine_of(e->exact + t * e->width, e->found + t * e->width, e->width) / (double)e->texts.count;
    return EXIT_OK;
}

/* ---- variants ------------------------------------------------------------------------------- */

/* attention NULL: the model's own. */
static int embed(const experiment *e, const lnt_attn_desc *attention, float *vectors)
{
    lnt_model *model = NULL;
    int status = model_load_with(e->ctx, opt_text(e->o, OPT_MODEL), attention, &model);
    if (!status && lnt_model_embed(model, e->texts.tokens, e->texts.count, e->texts.longest,
                                     e->texts.lengths, vectors))
        status = fail_ctx(e->ctx);
    lnt_model_destroy(model);
    return status;
}

/* `inverse`: iterations, or less an lnt_pinv that has none. */
static lnt_attn_desc cur_of(const experiment *e, lnt_select select, int64_t landmarks, int64_t inverse)
{
    lnt_attn_desc desc;
    const lnt_status status = lnt_attn_desc_init(&desc, sizeof desc);
    (void)status; /* the library is of this tool's version: main has seen to it */
    desc.mechanism = LNT_CUR;
    desc.seed = e->o->value[OPT_SEED].seed;
    desc.cur.select = select;
    desc.cur.landmarks = landmarks;
    desc.cur.pinv = inverse > 0 ? LNT_PINV_ITERATE : (lnt_pinv)-inverse;
    desc.cur.pinv_iterations = inverse > 0 ? inverse : 0;
    return desc;
}

static void print_json(const experiment *e, int64_t words, const lnt_attn_desc *d, const finding *f)
{
    json line = study_line("drop-in");
    const bool iterates = d->cur.pinv == LNT_PINV_ITERATE;
    json_whole(&line, "words", words);
    json_whole(&line, "texts", e->texts.count);
    json_whole(&line, "tokens", e->texts.longest);
    json_text(&line, "select", lnt_select_name(d->cur.select));
    json_whole(&line, "landmarks", d->cur.landmarks);
    json_text(&line, "pinv", lnt_pinv_name(d->cur.pinv));
    if (iterates) json_whole(&line, "pinv_iterations", d->cur.pinv_iterations);
    json_whole(&line, "pinned", d->cur.pins);
    json_flag(&line, "separate_indices", d->cur.separate_indices != 0);
    json_real(&line, "cosine", f->cosine);
    json_real(&line, "rank", f->rank);
    json_end(&line);
}

static int measure(experiment *e, int64_t words, const lnt_attn_desc *attention, finding *out)
{
    progress("embedding", e->done++, e->total);
    int status = embed(e, attention, e->found);
    if (!status) status = compare(e, out);
    if (!status && opt_given(e->o, OPT_JSON)) print_json(e, words, attention, out);
    return status;
}

static int open_texts(experiment *e, int64_t words)
{
    lnt_model *model = NULL;
    free(e->texts.tokens);
    e->texts.tokens = NULL;
    int status = model_load(e->ctx, opt_text(e->o, OPT_MODEL), &model);
    if (!status) status = drop_texts_open(e->o, e->ctx, model, words, e->batch, &e->texts);
    lnt_model_destroy(model);
    return status ? status : embed(e, NULL, e->exact);
}

/* ---- tables --------------------------------------------------------------------------------- */

static void say(const experiment *e, const table *t, const char *title)
{
    if (opt_given(e->o, OPT_JSON)) return;
    progress_end();
    printf("%s\n\n", title);
    table_print(t, stdout);
    fputc('\n', stdout);
    fflush(stdout); /* the next one takes minutes */
}

static void put(table *t, const finding *f) { table_cell(t, "%.3f (%.2f)", f->cosine, f->rank); }

/* A table whose columns after the first ones are numbers of landmarks. */
static void begin_counts(const experiment *e, table *t, const char *first, const char *second)
{
    static char names[MOST_COUNTS][16];
    const char *headings[2 + MOST_COUNTS + 1] = { first, second };
    const int before = second ? 2 : 1;
    for (int m = 0; m < e->counts; m++) {
        snprintf(names[m], sizeof names[m], "M = %d", (int)e->landmarks[m]);
        headings[before + m] = names[m];
    }
    headings[before + e->counts] = NULL;
    table_begin(t, before, headings);
}

typedef struct curves {
    double words[LENGTHS], cosine[BY_LENGTH][MOST_COUNTS][LENGTHS], rank[BY_LENGTH][MOST_COUNTS][LENGTHS];
} curves;

static int table_lengths(experiment *e, curves *c)
{
    table t;
    int status = EXIT_OK;
    begin_counts(e, &t, "words", "select");
    for (int l = 0; l < LENGTHS && !status; l++) {
        c->words[l] = (double)lengths[l];
        status = open_texts(e, lengths[l]);
        for (int s = 0; s < BY_LENGTH && !status; s++) {
            table_row(&t);
            table_cell(&t, "%d", (int)lengths[l]);
            table_cell(&t, "%s", lnt_select_name(by_length[s]));
            for (int m = 0; m < e->counts && !status; m++) {
                const lnt_attn_desc desc = cur_of(e, by_length[s], e->landmarks[m], ITERATIONS);
                finding f = { NAN, NAN };
                status = measure(e, lengths[l], &desc, &f);
                put(&t, &f);
                c->cosine[s][m][l] = f.cosine, c->rank[s][m][l] = f.rank;
            }
        }
    }
    if (!status) say(e, &t, "By the length of a text, 6 iterations: cosine (rank correlation)");
    return status;
}

static bool chosen(const experiment *e, int select)
{
    return !opt_given(e->o, OPT_SELECT) || opt_whole(e->o, OPT_SELECT, 0) == select;
}

static int table_inverses(experiment *e, int64_t landmarks)
{
    static const char *const headings[] = { "select", "1", "2", "4", "6", "8", "ridge", "tuned", NULL };
    char title[96];
    table t;
    int status = EXIT_OK;
    table_begin(&t, 1, headings);
    for (int s = 0; lnt_select_name((lnt_select)s) && !status; s++) {
        if (!chosen(e, s)) continue;
        table_row(&t);
        table_cell(&t, "%s", lnt_select_name((lnt_select)s));
        for (int k = 0; k < KINDS && !status; k++) {
            const lnt_attn_desc desc = cur_of(e, (lnt_select)s, landmarks, iterations[k]);
            finding f = { NAN, NAN };
            status = measure(e, e->words, &desc, &f);
            put(&t, &f);
        }
    }
    snprintf(title, sizeof title, "%d words, M = %d, by iterations of the inverse", (int)e->words,
             (int)landmarks);
    if (!status) say(e, &t, title);
    return status;
}

static bool has_scores(int select)
{
    return select == LNT_SELECT_SUM || select == LNT_SELECT_ABS || select == LNT_SELECT_EMBED;
}

/* With the class token pinned, and with indices of queries and keys of their own, where a choice has them. */
static int table_choices(experiment *e)
{
    static const int64_t class_token = 0;
    char title[96];
    table t;
    int status = EXIT_OK;
    const int64_t inverse = opt_whole(e->o, OPT_PINV_ITERATIONS, ITERATIONS);
    begin_counts(e, &t, "select", "landmarks");
    for (int s = 0; lnt_select_name((lnt_select)s) && !status; s++)
        for (int kind = 0; kind < 4 && !status; kind++) {
            const bool pinned = kind % 2, separate = kind / 2;
            if (!chosen(e, s) || (separate && !has_scores(s)) || (pinned && s == LNT_SELECT_MEAN)) continue;
            table_row(&t);
            table_cell(&t, "%s", lnt_select_name((lnt_select)s));
            table_cell(&t, "%s%s", separate ? "separate" : "same", pinned ? ", class token pinned" : "");
            for (int m = 0; m < e->counts && !status; m++) {
                lnt_attn_desc desc = cur_of(e, (lnt_select)s, e->landmarks[m], inverse);
                finding f = { NAN, NAN };
                desc.cur.pin = pinned ? &class_token : NULL, desc.cur.pins = pinned;
                desc.cur.separate_indices = separate;
                status = measure(e, e->words, &desc, &f);
                put(&t, &f);
            }
        }
    snprintf(title, sizeof title, "%d words, %d iterations, by which landmarks", (int)e->words, (int)inverse);
    if (!status) say(e, &t, title);
    return status;
}

static int draw(const experiment *e, const curves *c)
{
    figure f = figure_begin(2, "cur in place of softmax, %d iterations, untrained", ITERATIONS);
    const panel_pair p =
        study_panels(&f, "Cosine to the embedding of softmax", "Rank correlation of all pairs",
                     (figure_axis){ "words", 2, FIGURE_PLAIN, "" });
    p.first->y = p.second->y = (figure_axis){ "", 0, FIGURE_PLAIN, "" };
    for (int s = 0; s < BY_LENGTH; s++)
        for (int m = 0; m < e->counts; m++)
            study_series(p, s ? FIGURE_DASHES : FIGURE_LINE, m, c->words, c->cosine[s][m], c->rank[s][m],
                         LENGTHS, "%s, M = %d", lnt_select_name(by_length[s]), (int)e->landmarks[m]);
    return study_draw(e->o, &f);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void begin(const options *o, lnt_ctx *ctx, const lnt_model_info *info, experiment *e)
{
    int selections = 0, scored = 0, means = 0;
    *e = (experiment){ .o = o,
                       .ctx = ctx,
                       .width = info->outputs,
                       .batch = opt_whole(o, OPT_BATCH, DEFAULT_BATCH),
                       .words = opt_whole(o, OPT_LENGTH, DEFAULT_WORDS),
                       .counts = MOST_COUNTS };
    memcpy(e->landmarks, landmark_counts, sizeof landmark_counts);
    if (opt_given(o, OPT_LANDMARKS)) e->counts = 1, e->landmarks[0] = opt_whole(o, OPT_LANDMARKS, 0);
    for (int s = 0; lnt_select_name((lnt_select)s); s++)
        if (chosen(e, s)) selections++, scored += has_scores(s), means += s == LNT_SELECT_MEAN;
    e->total = e->counts * (LENGTHS * BY_LENGTH + KINDS * selections + 2 * (selections + scored) - means);
}

int drop_encoder(const options *o, lnt_ctx *ctx, const lnt_model_info *info)
{
    experiment e;
    static curves c;
    begin(o, ctx, info, &e);
    if (e.batch < 3 || e.batch > DROP_TEXTS)
        return fail_usage("--batch: '%s' is not 3 to %d texts", opt_text(o, OPT_BATCH), DROP_TEXTS);
    if (e.words < 1 || e.words > DROP_WORDS)
        return fail_usage("--length: '%s' is not 1 to %d words", opt_text(o, OPT_LENGTH), DROP_WORDS);
    const size_t numbers = (size_t)(e.batch * e.width), pairs = 2 * (size_t)(e.batch * e.batch);
    e.exact = calloc(numbers, sizeof *e.exact);
    e.found = calloc(numbers, sizeof *e.found);
    e.pairs = calloc(pairs, sizeof *e.pairs);
    int status = e.exact && e.found && e.pairs ? EXIT_OK : fail_memory(2 * numbers * sizeof *e.exact);
    if (!status) status = table_lengths(&e, &c);
    if (!status) status = open_texts(&e, e.words);
    for (int m = 0; m < e.counts && !status; m++) status = table_inverses(&e, e.landmarks[m]);
    if (!status) status = table_choices(&e);
    progress_end();
    if (!status) status = draw(&e, &c);
    free(e.exact);
    free(e.found);
    free(e.pairs);
    free(e.texts.tokens);
    return status;
}
