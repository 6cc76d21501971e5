/* cli/study/training.c - the speed of a training step beside that of its dense products alone, which are
 * the least that a step can take. */
#include <math.h>

#include "cli/clock.h"
#include "cli/measure/order.h"
#include "cli/show/amount.h"
#include "cli/show/report.h"
#include "cli/study/study.h"
#include "train/products.h"

enum { ROUNDS = 9, MECHANISMS = 8 };
static const double BUDGET = 5; /* seconds a mechanism, or three rounds */

typedef struct speed {
    const char *mechanism;
    int64_t parameters, tokens; /* tokens: of a step, without padding, in the mean */
    double step;                /* seconds, medians */
    double products, cut;       /* the products alone: of the whole batch, and cut up as in the step */
    double all;                 /* of the whole batch, and attention's own operations as fast as those */
} speed;

/* Steps and products by turns, so that whatever else the machine does meets both. */
static int time_trainer(lnt_ctx *ctx, lnt_trainer *trainer, speed *out)
{
    double step[ROUNDS], products[ROUNDS], cut[ROUNDS];
    lnt_trainer_info info = { .size = sizeof info };
    lnt_step_report report = { .size = sizeof report };
    if (lnt_trainer_describe(trainer, &info) || lnt_trainer_step(trainer, &report))
        return fail_ctx(ctx);
    const double begin = now_seconds();
    int64_t tokens = 0;
    int done = 0;
    while (done < ROUNDS && (done < 3 || now_seconds() - begin < BUDGET)) {
        const double start = now_seconds();
        if (lnt_trainer_step(trainer, &report)) return fail_ctx(ctx);
        step[done] = now_seconds() - start;
        tokens += report.tokens;
        if (lnt_trainer_time_products(trainer, &products[done], &cut[done])) return fail_ctx(ctx);
        progress(out->mechanism, ++done, ROUNDS);
    }
    progress_end();
    out->parameters = info.parameters;
    out->tokens = tokens / done;
    out->step = median_of(step, (size_t)done);
    out->products = median_of(products, (size_t)done);
    out->cut = median_of(cut, (size_t)done);
    out->all = out->products *
               (1 + lnt_trainer_attention_flops(trainer) / lnt_trainer_product_flops(trainer));
    return EXIT_OK;
}

static int measure_one(const options *o, lnt_ctx *ctx, const char *mechanism, bool asked,
                       speed *out)
{
    const uint64_t seed = o->value[OPT_SEED].seed;
    const lnt_train_request request = { .size = sizeof request,
                                        .task = opt_given(o, OPT_TASK) ? opt_text(o, OPT_TASK)
                                                                       : "copy",
                                        .config = opt_text(o, OPT_CONFIG),
                                        .data = opt_text(o, OPT_DATA),
                                        .mechanism = mechanism,
                                        .seed = opt_given(o, OPT_SEED) ? &seed : NULL };
    lnt_trainer *trainer;
    *out = (speed){ .mechanism = mechanism, .step = NAN };
    if (lnt_trainer_create(ctx, &request, &trainer)) {
        if (asked) return fail_ctx(ctx);
        note("%s is left out: %s", mechanism, lnt_ctx_error(ctx));
        return EXIT_OK;
    }
    const int status = time_trainer(ctx, trainer, out);
    lnt_trainer_destroy(trainer);
    return status;
}

static void print_json(const speed *found, int count)
{
    for (int i = 0; i < count; i++) {
        const speed *s = &found[i];
        json line = study_line("training");
        json_text(&line, "mechanism", s->mechanism);
        json_whole(&line, "parameters", s->parameters);
        json_whole(&line, "tokens", s->tokens);
        json_real(&line, "seconds", s->step);
        json_real(&line, "products_seconds", s->products);
        json_real(&line, "tokens_per_second", (double)s->tokens / s->step);
        json_real(&line, "products_tokens_per_second", (double)s->tokens / s->products);
        json_real(&line, "ratio", s->step / s->products);
        json_real(&line, "all_products_seconds", s->all);
        json_real(&line, "all_ratio", s->step / s->all);
        json_real(&line, "cut_products_seconds", s->cut);
        json_real(&line, "cut_ratio", s->step / s->cut);
        json_end(&line);
    }
}

static void print_table(const speed *found, int count)
{
    static const char *const headings[] = { "mechanism", "parameters", "tokens/s",
                                            "products alone", "step / products", "with attention's",
                                            "cut up", "step / cut up", NULL };
    table t;
    table_begin(&t, 1, headings);
    for (int i = 0; i < count; i++) {
        const speed *s = &found[i];
        table_row(&t);
        table_cell(&t, "%s", s->mechanism);
        study_cell(&t, (double)s->parameters, text_count);
        study_cell(&t, (double)s->tokens / s->step, text_count);
        study_cell(&t, (double)s->tokens / s->products, text_count);
        table_cell(&t, "%.2f", s->step / s->products);
        if (isnan(s->all)) table_cell(&t, "-");
        else table_cell(&t, "%.2f", s->step / s->all);
        study_cell(&t, (double)s->tokens / s->cut, text_count);
        table_cell(&t, "%.2f", s->step / s->cut);
    }
    table_print(&t, stdout);
    printf("\nA step is forward, backward and the optimiser; the products are those of its dense\n"
           "layers, by the same routine, without attention or anything else: a whole batch at a\n"
           "time, all threads on one product, sequences padded to the model's length, and cut up,\n"
           "as the step has them, each thread with sequences of its own and padding to the\n"
           "longest of them.  With attention's: the former and attention's own operations, by the\n"
           "formulas of docs/math, as if they went as fast.  Padding is not counted as tokens.\n");
}

static int run(const options *o, lnt_ctx *ctx)
{
    speed found[MECHANISMS];
    int count = 0, status = EXIT_OK;
    if (opt_given(o, OPT_MECHANISM)) {
        const lnt_mechanism asked = (lnt_mechanism)opt_whole(o, OPT_MECHANISM, 0);
        status = measure_one(o, ctx, lnt_mechanism_name(asked), true, &found[count++]);
    }
    for (int m = 0; !opt_given(o, OPT_MECHANISM) && !status && count < MECHANISMS; m++) {
        const char *name = lnt_mechanism_name((lnt_mechanism)m);
        if (!name) break;
        status = measure_one(o, ctx, name, m == 0, &found[count]);
        if (isfinite(found[count].step)) count++;
    }
    if (status) return status;
    if (opt_given(o, OPT_JSON)) print_json(found, count);
    else print_table(found, count);
    return EXIT_OK;
}

const study study_training = {
    .name = "training",
    .summary = "speed of a training step, and of its dense products alone",
    .takes = { [OPT_TASK] = true, [OPT_CONFIG] = true, [OPT_DATA] = true, [OPT_MECHANISM] = true,
               [OPT_SEED] = true },
    .run = run,
};
