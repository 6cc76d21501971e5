/* cli/study/drop_encoder.c - CUR in place of an encoder's softmax: how far the vectors of texts go astray.
 *
 * At --length words every choice of landmarks x M x inverse x class token pinned or not x the same landmarks
 * for queries and keys or not, where a choice has them: a pass each.  Of them the paper's figures 5, 6 and 7
 * in drop_grid.c.  Then layer by layer (drop_layers.c), and unless --length is given, over texts of 32 to
 * 512 words. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/study/drop_grid.h"

enum { DEFAULT_BATCH = 8, DEFAULT_WORDS = 128 };
static const int64_t lengths[DROP_LENGTHS] = { 32, 64, 128, 256, 512 };
static const int64_t landmark_counts[DROP_COUNTS] = { 16, 32, 64, 128 };
static const int64_t inverses[DROP_INVERSES] = { 1, 2, 4, 6, 8, -LNT_PINV_RIDGE, -LNT_PINV_TUNED };

/* ---- passes --------------------------------------------------------------------------------- */

lnt_attn_desc drop_cur(const drop_run *r, lnt_select select, int64_t landmarks, int64_t inverse)
{
    lnt_attn_desc desc;
    const lnt_status status = lnt_attn_desc_init(&desc, sizeof desc);
    (void)status; /* the library is of this tool's version: main has seen to it */
    desc.mechanism = LNT_CUR;
    desc.seed = r->o->value[OPT_SEED].seed;
    desc.cur.select = select;
    desc.cur.landmarks = landmarks;
    desc.cur.pinv = inverse > 0 ? LNT_PINV_ITERATE : (lnt_pinv)-inverse;
    desc.cur.pinv_iterations = inverse > 0 ? inverse : 0;
    return desc;
}

const char *drop_inverse_name(int64_t inverse, char text[16])
{
    if (inverse < 0) return lnt_pinv_name((lnt_pinv)-inverse);
    snprintf(text, 16, "%d iteration%s", (int)inverse, inverse == 1 ? "" : "s");
    return text;
}

int drop_measure(drop_run *r, const lnt_attn_desc *attention, int64_t first, int64_t end, drop_finding *out)
{
    progress("embedding", r->done++, r->total);
    int status = drop_swap_embed(&r->swap, attention, first, end, r->found);
    if (!status) status = drop_agreement(r->exact, r->found, r->texts.count, r->width, out);
    out->difference = drop_swap_difference(&r->swap);
    return status;
}

static void print_json(const drop_run *r, const lnt_attn_desc *d, const drop_finding *f)
{
    json line = study_line("drop-in");
    json_whole(&line, "words", r->words);
    json_whole(&line, "texts", r->texts.count);
    json_whole(&line, "tokens", r->texts.longest);
    json_text(&line, "select", lnt_select_name(d->cur.select));
    json_whole(&line, "landmarks", d->cur.landmarks);
    json_text(&line, "pinv", lnt_pinv_name(d->cur.pinv));
    if (d->cur.pinv == LNT_PINV_ITERATE) json_whole(&line, "iterations", d->cur.pinv_iterations);
    json_whole(&line, "pinned", d->cur.pins);
    json_flag(&line, "separate_indices", d->cur.separate_indices != 0);
    json_real(&line, "cosine", f->cosine);
    json_real(&line, "rank", f->rank);
    json_real(&line, "difference", f->difference);
    json_end(&line);
}

static int measure(drop_run *r, const lnt_attn_desc *attention, drop_finding *out)
{
    const int status = drop_measure(r, attention, 0, -1, out);
    if (!status && opt_given(r->o, OPT_JSON)) print_json(r, attention, out);
    return status;
}

void drop_say(const drop_run *r, const table *t, const char *format, ...)
{
    va_list args;
    if (opt_given(r->o, OPT_JSON)) return;
    progress_end();
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    fputs("\n\n", stdout);
    table_print(t, stdout);
    fputc('\n', stdout);
    fflush(stdout); /* the next one takes minutes */
}

/* Texts of so many words, and the vectors of the model as it is. */
static int open_texts(drop_run *r, int64_t words)
{
    free(r->texts.tokens);
    r->words = words;
    const int status = drop_texts_open(r->o, r->ctx, r->swap.model, words, r->batch, &r->texts);
    return status ? status : drop_swap_exact(&r->swap, &r->texts, r->exact);
}

/* ---- every choice at one length ------------------------------------------------------------- */

static bool pins(int select) { return select != LNT_SELECT_MEAN; }

static bool separates(int select)
{
    return select == LNT_SELECT_SUM || select == LNT_SELECT_ABS || select == LNT_SELECT_EMBED ||
           select == LNT_SELECT_RANDOM;
}

static bool exists(const drop_grid *g, int select, int pinned, int separate)
{
    return g->chosen[select] && (!pinned || pins(select)) && (!separate || separates(select));
}

static int fill_grid(drop_grid *g)
{
    static const int64_t class_token = 0;
    int status = EXIT_OK;
    for (int i = 0; i < DROP_CELLS && !status; i++) {
        const drop_cell c = drop_cell_at(i);
        g->cell[i] = (drop_finding){ NAN, NAN, NAN };
        if (c.count >= g->counts || c.inverse >= g->inverses || !exists(g, c.select, c.pinned, c.separate))
            continue;
        lnt_attn_desc desc =
            drop_cur(&g->run, (lnt_select)c.select, g->landmarks[c.count], g->inverse[c.inverse]);
        desc.cur.pin = c.pinned ? &class_token : NULL, desc.cur.pins = c.pinned;
        desc.cur.separate_indices = c.separate;
        status = measure(&g->run, &desc, &g->cell[i]);
    }
    return status;
}

static int fill_lengths(drop_grid *g)
{
    int status = EXIT_OK;
    for (int l = 0; l < DROP_LENGTHS && !status; l++) {
        g->words[l] = (double)lengths[l];
        status = open_texts(&g->run, lengths[l]);
        for (int s = 0; s < DROP_SELECTS && !status; s++)
            for (int m = 0; m < g->counts && !status && g->chosen[s]; m++) {
                const lnt_attn_desc desc =
                    drop_cur(&g->run, (lnt_select)s, g->landmarks[m], g->inverse[g->shown]);
                status = measure(&g->run, &desc, &g->by_length[s][m][l]);
            }
    }
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static int choose_inverses(const options *o, drop_grid *g)
{
    const int64_t count = opt_whole(o, OPT_PINV_ITERATIONS, 0);
    const int64_t pinv = opt_whole(o, OPT_PINV, count ? LNT_PINV_ITERATE : -1);
    if (count && pinv != LNT_PINV_ITERATE)
        return fail_usage("--pinv-iterations is for --pinv iterate, not %s", lnt_pinv_name((lnt_pinv)pinv));
    if (count) g->inverse[g->inverses++] = count;
    for (int k = 0; k < DROP_INVERSES && !count; k++) {
        const lnt_pinv kind = inverses[k] > 0 ? LNT_PINV_ITERATE : (lnt_pinv)-inverses[k];
        if (pinv < 0 || (int64_t)kind == pinv) g->inverse[g->inverses++] = inverses[k];
    }
    g->shown = g->inverses - 1;
    return EXIT_OK;
}

static int begin(const options *o, lnt_ctx *ctx, const lnt_model_info *info, drop_grid *g)
{
    drop_run *r = &g->run;
    *r = (drop_run){ .o = o,
                     .ctx = ctx,
                     .width = info->outputs,
                     .batch = opt_whole(o, OPT_BATCH, DEFAULT_BATCH),
                     .words = opt_whole(o, OPT_LENGTH, DEFAULT_WORDS) };
    if (r->batch < 3 || r->batch > DROP_TEXTS)
        return fail_usage("--batch: '%s' is not 3 to %d texts", opt_text(o, OPT_BATCH), DROP_TEXTS);
    if (r->words < 1 || r->words > DROP_WORDS)
        return fail_usage("--length: '%s' is not 1 to %d words", opt_text(o, OPT_LENGTH), DROP_WORDS);
    g->counts = opt_given(o, OPT_LANDMARKS) ? 1 : DROP_COUNTS;
    for (int m = 0; m < g->counts; m++)
        g->landmarks[m] = opt_whole(o, OPT_LANDMARKS, landmark_counts[m]);
    int kinds = 0, selects = 0;
    for (int s = 0; s < DROP_SELECTS; s++) {
        g->chosen[s] = opt_whole(o, OPT_SELECT, s) == s;
        selects += g->chosen[s];
        for (int k = 0; k < 4; k++) kinds += exists(g, s, k % 2, k / 2);
    }
    const int status = choose_inverses(o, g);
    const int of_lengths = opt_given(o, OPT_LENGTH) ? 0 : DROP_LENGTHS * selects;
    r->total = g->counts * (g->inverses * kinds + of_lengths) + drop_layer_passes(info->layers);
    return status;
}

static int run(drop_grid *g)
{
    drop_run *r = &g->run;
    const int64_t words = r->words;
    const size_t numbers = (size_t)(r->batch * r->width);
    const int64_t few = g->landmarks[g->counts > 1 ? 1 : 0];
    r->exact = calloc(numbers, sizeof *r->exact);
    r->found = calloc(numbers, sizeof *r->found);
    int status = r->exact && r->found ? EXIT_OK : fail_memory(2 * numbers * sizeof *r->exact);
    if (!status) status = drop_swap_open(r->o, r->ctx, &r->swap);
    if (!status) status = open_texts(r, words);
    if (!status) status = fill_grid(g);
    if (!status) status = drop_grid_tables(g);
    if (!status)
        status = drop_layers(r, (lnt_select)opt_whole(r->o, OPT_SELECT, LNT_SELECT_STEP_MEAN), few,
                             g->inverse[g->shown]);
    if (!status && !opt_given(r->o, OPT_LENGTH)) status = fill_lengths(g);
    progress_end();
    if (!status && !opt_given(r->o, OPT_LENGTH)) drop_length_table(g);
    return status ? status : drop_grid_draw(g, words);
}

int drop_encoder(const options *o, lnt_ctx *ctx, const lnt_model_info *info)
{
    drop_grid *g = calloc(1, sizeof *g);
    if (!g) return fail_memory(sizeof *g);
    int status = begin(o, ctx, info, g);
    if (!status) status = run(g);
    drop_swap_close(&g->run.swap);
    free(g->run.exact);
    free(g->run.found);
    free(g->run.texts.tokens);
    free(g);
    return status;
}
