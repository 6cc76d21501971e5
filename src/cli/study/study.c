/* cli/study/study.c - the table of studies and what they share. */
#include "cli/study/study.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "cli/request.h"
#include "cli/show/picture.h"

static const study *const studies[] = { &study_recovery, &study_sizes,   &study_taylorshift,
                                        &study_costs,    &study_packing, &study_heads,
                                        &study_context,  &study_memory,  &study_accumulation,
                                        &study_crossover, &study_cur,     &study_drop_in,
                                        &study_training, &study_learning, &study_images,
                                        &study_generation };
enum { STUDIES = sizeof studies / sizeof studies[0] };

const char *study_name(int index) { return index < STUDIES ? studies[index]->name : NULL; }

void study_help(FILE *to)
{
    fputs("\nstudies:\n", to);
    for (int i = 0; i < STUDIES; i++)
        fprintf(to, "  %-14s%s\n", studies[i]->name, studies[i]->summary);
}

int study_run(const options *o)
{
    const study *s = studies[opt_whole(o, OPT_STUDY, 0)];
    const option_id other = options_first_other(o, s->takes);
    lnt_ctx *ctx = NULL;
    if (other != OPTION_COUNT)
        return fail_usage("%s does not apply to --study %s", option_name(other), s->name);
    if (opt_given(o, OPT_SVG) && !s->draws)
        return fail_usage("--svg does not apply to --study %s, which is a table", s->name);
    if (opt_whole(o, OPT_DEVICE, DEVICE_CPU) != DEVICE_CPU)
        return fail_usage("--device %s does not apply to --study, which runs on the cpu",
                          opt_text(o, OPT_DEVICE));
    int status = picture_check(o, OPT_SVG, ".svg");
    if (!status) status = request_context(o, 0, &ctx);
    if (!status) status = s->run(o, ctx);
    lnt_ctx_destroy(ctx);
    return status;
}

int study_problem(lnt_mechanism mechanism, int64_t heads, int64_t dim, int64_t length,
                  lnt_attn_desc *out)
{
    const int status = request_defaults(out);
    if (status) return status;
    out->mechanism = mechanism;
    out->heads = out->kv_heads = heads;
    out->dim = out->dim_value = dim;
    out->length_q = out->length_k = length;
    out->causal = 1;
    out->taylor.terms = DEFAULT_TERMS;
    return EXIT_OK;
}

double study_crossing(const double *x, const double *first, const double *second, int count)
{
    int at; /* from here on the second is below */
    while (count > 0 && !(isfinite(first[count - 1]) && isfinite(second[count - 1]))) count--;
    for (at = count; at > 0 && second[at - 1] <= first[at - 1]; at--) continue;
    if (at == count) return NAN;
    if (at == 0) return x[0];
    const double before = log(second[at - 1] / first[at - 1]), after = log(second[at] / first[at]);
    const double part = before / (before - after);
    return exp((1 - part) * log(x[at - 1]) + part * log(x[at]));
}

void study_cell(table *t, double value, const char *(*text_of)(double, char *, size_t))
{
    char text[TABLE_CELL];
    table_cell(t, "%s", isfinite(value) ? text_of(value, text, sizeof text) : "-");
}

json study_line(const char *name)
{
    json line = json_begin(stdout);
    json_text(&line, "study", name);
    return line;
}

panel_pair study_panels(figure *f, const char *first, const char *second, figure_axis x)
{
    const panel_pair p = { figure_add(f, "%s", first), figure_add(f, "%s", second) };
    p.first->x = p.second->x = x;
    return p;
}

void study_series(panel_pair panels, figure_style style, int color, const double *x, const double *first,
                  const double *second, int count, const char *format, ...)
{
    char name[FIGURE_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    figure_series(panels.first, style, color, x, first, count, "%s", name);
    figure_series(panels.second, style, color, x, second, count, "%s", name);
}

int study_draw(const options *o, const figure *f)
{
    return opt_given(o, OPT_SVG) ? figure_write(f, opt_text(o, OPT_SVG)) : EXIT_OK;
}
