/* cli/study/drop_layers.c - CUR layer by layer: why errors are what they are, and what each costs.
 *
 *     U        singular values of the landmarks' matrix of `step`: how many are above a tenth of the largest,
 *              the mean over heads, and the least by the largest, the geometric mean; of the first text
 *     errors   |y - s| / |s| upon the q, k, v of the model as it is, by the inverse
 *     alone    the cosine of the vectors where CUR has this layer's place alone
 *     from it  ... in this layer and all after it
 *
 * Passes: one for U, one an inverse, two a layer. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/study/drop_in.h"

enum { INVERSES = 4, FOR_U = 4 };
static const int64_t inverses[INVERSES] = { 4, 6, -LNT_PINV_RIDGE, -LNT_PINV_TUNED };

typedef struct layer {
    double above, least, error[INVERSES];
    drop_finding alone, from;
} layer;

int drop_layer_passes(int64_t layers) { return 1 + INVERSES + 2 * (int)layers; }

/* values [heads,n], each row from the largest on. */
static void sum_up(const double *values, int64_t heads, int64_t n, layer *out)
{
    double above = 0, logs = 0;
    for (int64_t h = 0; h < heads; h++) {
        const double *row = values + h * n;
        for (int64_t i = 0; i < n; i++) above += row[i] > 0.1 * row[0];
        logs += log(row[n - 1] / row[0]);
    }
    out->above = isnan(logs) ? NAN : above / (double)heads;
    out->least = exp(logs / (double)heads);
}

static int find_spectra(drop_run *r, int64_t landmarks, layer *layers)
{
    drop_swap *s = &r->swap;
    const size_t numbers = (size_t)(s->layers * s->heads * landmarks);
    const lnt_attn_desc step = drop_cur(r, LNT_SELECT_STEP, landmarks, FOR_U);
    drop_finding none;
    s->spectrum = calloc(numbers, sizeof *s->spectrum);
    if (!s->spectrum) return fail_memory(numbers * sizeof *s->spectrum);
    const int status = drop_measure(r, &step, 0, 0, &none);
    for (int64_t l = 0; l < s->layers && !status; l++)
        sum_up(s->spectrum + l * s->heads * landmarks, s->heads, landmarks, &layers[l]);
    free(s->spectrum);
    s->spectrum = NULL;
    return status;
}

static int find(drop_run *r, lnt_select select, int64_t landmarks, int64_t inverse, layer *layers)
{
    const drop_swap *s = &r->swap;
    const lnt_attn_desc shown = drop_cur(r, select, landmarks, inverse);
    drop_finding none;
    int status = find_spectra(r, landmarks, layers);
    for (int k = 0; k < INVERSES && !status; k++) {
        const lnt_attn_desc desc = drop_cur(r, select, landmarks, inverses[k]);
        status = drop_measure(r, &desc, 0, 0, &none);
        for (int64_t l = 0; l < s->layers; l++) layers[l].error[k] = s->error[l];
    }
    for (int64_t l = 0; l < s->layers && !status; l++) {
        status = drop_measure(r, &shown, l, l + 1, &layers[l].alone);
        if (!status) status = drop_measure(r, &shown, l, -1, &layers[l].from);
    }
    return status;
}

static void print_json(const drop_run *r, lnt_select select, int64_t landmarks, const char *inverse,
                       const layer *layers)
{
    for (int64_t l = 0; l < r->swap.layers; l++) {
        json line = study_line("drop-in");
        json_whole(&line, "layer", l);
        json_whole(&line, "words", r->words);
        json_text(&line, "select", lnt_select_name(select));
        json_whole(&line, "landmarks", landmarks);
        json_real(&line, "above_a_tenth", layers[l].above);
        json_real(&line, "least", layers[l].least);
        json_reals(&line, "errors", layers[l].error, INVERSES);
        json_text(&line, "inverse", inverse);
        json_real(&line, "alone", layers[l].alone.cosine);
        json_real(&line, "from", layers[l].from.cosine);
        json_end(&line);
    }
}

static void put(table *t, const char *format, double value)
{
    char text[TABLE_CELL];
    snprintf(text, sizeof text, "%.*f", format[0] - '0', value);
    if (format[1] == 'e') snprintf(text, sizeof text, "%.0e", value);
    table_cell(t, "%s", isfinite(value) ? text : "-");
}

static void print_table(const drop_run *r, lnt_select select, int64_t landmarks, const char *inverse,
                        const layer *layers)
{
    static const char *const headings[] = { "layer", "U > 0.1", "least", "4",     "6",
                                            "ridge", "tuned",   "alone", "from it", NULL };
    table t;
    table_begin(&t, 1, headings);
    for (int64_t l = 0; l < r->swap.layers; l++) {
        table_row(&t);
        table_cell(&t, "%d", (int)l);
        put(&t, "1", layers[l].above);
        put(&t, "0e", layers[l].least);
        for (int k = 0; k < INVERSES; k++) put(&t, "3", layers[l].error[k]);
        put(&t, "3", layers[l].alone.cosine);
        put(&t, "3", layers[l].from.cosine);
    }
    drop_say(r, &t,
             "%d words, M = %d, by layer: U of step; %s's error by its inverse; the cosine where it (%s) has "
             "the place of this layer alone, and of it and all after it",
             (int)r->words, (int)landmarks, lnt_select_name(select), inverse);
}

int drop_layers(drop_run *r, lnt_select select, int64_t landmarks, int64_t inverse)
{
    char text[16];
    const char *name = drop_inverse_name(inverse, text);
    layer *layers = calloc(DROP_LAYERS, sizeof *layers);
    if (!layers) return fail_memory(DROP_LAYERS * sizeof *layers);
    const int status = find(r, select, landmarks, inverse, layers);
    if (!status && opt_given(r->o, OPT_JSON)) print_json(r, select, landmarks, name, layers);
    if (!status) print_table(r, select, landmarks, name, layers);
    free(layers);
    return status;
}
