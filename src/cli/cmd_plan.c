/* cli/cmd_plan.c - `linnet plan`: what a problem will cost, before anything is computed. */
#include <math.h>
#include <string.h>

#include "cli/arrays/device.h"
#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/head_table.h"
#include "cli/measure/step.h"
#include "cli/paper.h"
#include "cli/request.h"
#include "cli/show/amount.h"
#include "cli/show/json.h"
#include "cli/show/report.h"
#include "cli/show/table.h"

typedef enum unit { COUNT, BYTES, SECONDS, TOKENS } unit;

/* One number of the plan: its JSON field and its line in the table. */
typedef struct figure {
    const char *field, *meaning;
    unit unit;
    double value;
    bool applies;
} figure;

enum { FIGURES = 18 };

/* What is planned, and what came of it. */
typedef struct planned {
    lnt_attn_desc desc;
    pass_kind pass;
    lnt_plan_info info;
    bool calibrated;
    figure figures[FIGURES];
} planned;

/* What softmax does for one token with a cache of n: 2 d + 2 m + 3 for each, in every head. */
static double cache_flops(const lnt_attn_desc *d)
{
    return (double)d->heads * (double)d->length_k * (2 * (double)(d->dim + d->dim_value) + 3);
}

static const char *crossover_meaning(const lnt_attn_desc *desc, bool calibrated)
{
    if (desc->mechanism == LNT_CUR)
        return calibrated ? "faster than softmax from length, measured here"
                          : "faster than softmax from length, by the rates built in";
    return calibrated ? "state form faster from length, measured here"
                      : "state form faster from length, by the rates built in";
}

/* Of a step only what one token costs: how a whole run would be done does not come into it. */
static void collect(planned *of)
{
    const lnt_attn_desc *desc = &of->desc;
    const lnt_plan_info *p = &of->info;
    const bool step = of->pass == PASS_STEP, whole = !step;
    const bool softmax = desc->mechanism == LNT_SOFTMAX, remembers = desc->mechanism != LNT_CUR;
    const bool sums = remembers && !softmax; /* has a state form */
    /* TaylorShift is three terms; its basis is not the symmetric one, so ours crosses sooner. */
    const bool shift = whole && desc->mechanism == LNT_TAYLOR && desc->taylor.terms == 3;
    const double d = (double)desc->dim;
    /* 0 also where no size_t holds it */
    const double bytes = p->state_bytes || p->state_elements == 0 ? (double)p->state_bytes : NAN;
    const figure all[FIGURES] = {
        { "chunk", "tokens per chunk or tile", TOKENS, (double)p->chunk, whole && p->chunk > 0 },
        { "seconds", "forward run, estimated", SECONDS, p->seconds, whole && p->seconds > 0 },
        { "flops", step ? "operations of a step, all sequences" : "operations, forward", COUNT,
          step ? step_flops(desc, p) : p->flops, true },
        { "bytes", "read and written by it", BYTES, step_bytes(desc, p), step },
        { "flops_backward", "operations, backward", COUNT, p->flops_backward,
          desc->backward != 0 },
        { "flops_direct", "operations, direct form", COUNT, p->flops_direct,
          whole },
        { "flops_state", "operations, state form", COUNT, p->flops_state,
          whole && sums },
        { "entries_direct", "numbers held by a head, direct form", COUNT, p->entries_direct,
          whole },
        { "entries_state", "numbers held by a head, state form", COUNT, p->entries_state,
          whole && sums },
        { "crossover_speed", crossover_meaning(desc, of->calibrated), TOKENS, p->crossover_speed,
          whole && p->crossover_speed > 0 },
        { "crossover_speed_paper", "  fewer operations, by the paper (N0)", TOKENS, paper_crossover_speed(d),
          shift },
        { "crossover_memory_paper", "  fewer numbers, by the paper (N1)", TOKENS, paper_crossover_memory(d),
          shift },
        { "flops_per_token", step ? "operations of one sequence" : "operations of one step", COUNT,
          p->flops_per_token, remembers },
        { "kv_cache_flops_per_token", "  of softmax with its cache, at this length", COUNT,
          cache_flops(desc), !softmax },
        { "state_elements", "numbers in the state of a sequence", COUNT, p->state_elements,
          remembers },
        { "kv_cache_elements", "  in the cache of softmax, at this length", COUNT,
          p->kv_cache_elements, true },
        { "state_bytes", "state, all sequences", BYTES, bytes, true },
        { "workspace_bytes", "scratch of the plan", BYTES, (double)p->workspace_bytes, whole },
    };
    for (int i = 0; i < FIGURES; i++) of->figures[i] = all[i];
}

static const char *algorithm_of(const planned *p)
{
    return p->pass == PASS_STEP ? step_algorithm(p->desc.mechanism) : p->info.algorithm;
}

static void print_json(const lnt_ctx *ctx, const planned *p)
{
    const lnt_attn_desc *d = &p->desc;
    json line = json_begin(stdout);
    json_problem(&line, d, algorithm_of(p), device_word(ctx), lnt_ctx_isa(ctx), lnt_ctx_threads(ctx));
    json_text(&line, "pass", option_choice(OPT_PASS, (int)p->pass));
    for (int i = 0; i < FIGURES; i++)
        if (p->figures[i].applies) json_real(&line, p->figures[i].field, p->figures[i].value);
    if (head_table_applies(d)) head_table_json(&line, d);
    json_end(&line);
}

static void print_text(lnt_ctx *ctx, const planned *p)
{
    const lnt_attn_desc *d = &p->desc;
    const bool step = p->pass == PASS_STEP;
    const char *const headings[] = { algorithm_of(p), "", NULL };
    table t;
    char text[TABLE_CELL];
    char kind[64];
    text_mechanism(d, " of ", kind, sizeof kind);
    printf("%s%s%s, %s, %lld x %lld heads (%lld of keys), %s%lld tokens, widths %lld and %lld\n",
           lnt_mechanism_name(d->mechanism), kind, d->causal ? ", causal" : "",
           lnt_dtype_name(d->dtype),
           (long long)d->batch, (long long)d->heads, (long long)d->kv_heads,
           step ? "a step after " : "", (long long)d->length_q, (long long)d->dim, (long long)d->dim_value);
    char where[320];
    printf("on %s %s\n\n", device_text(ctx, where, sizeof where), step ? "it runs" : "the choice is");
    table_begin(&t, 1, headings);
    for (int i = 0; i < FIGURES; i++) {
        const figure *f = &p->figures[i];
        const bool beside_none = d->mechanism == LNT_CUR && strncmp(f->field, "kv_cache", 8) == 0;
        if (!f->applies || beside_none) continue; /* cur has no state to set the cache beside */
        table_row(&t);
        table_cell(&t, "  %s", f->meaning);
        switch (f->unit) {
        case COUNT: table_cell(&t, "%s", text_count(f->value, text, sizeof text)); break;
        case BYTES: table_cell(&t, "%s", text_bytes(f->value, text, sizeof text)); break;
        case SECONDS: table_cell(&t, "%s", text_seconds(f->value, text, sizeof text)); break;
        case TOKENS: table_cell(&t, "%.0f", ceil(f->value)); break;
        }
    }
    table_print(&t, stdout);
    if (head_table_applies(d)) head_table_print(d, stdout);
}

static int show(const options *o, lnt_ctx *ctx, planned *p)
{
    int status = p->calibrated ? request_calibration(o, ctx) : EXIT_OK;
    if (!status) status = describe_plan(ctx, &p->desc, &p->info);
    if (status) return status;
    collect(p);
    if (opt_given(o, OPT_JSON)) print_json(ctx, p);
    else print_text(ctx, p);
    return EXIT_OK;
}

static int run(const options *o)
{
    requested r;
    if (opt_given(o, OPT_NO_CALIBRATE) && opt_given(o, OPT_CALIBRATION))
        return fail_usage("--calibration and --no-calibrate cannot both be given");
    int status = request_open(o, &r);
    if (!status) {
        planned p = { .desc = r.desc, .pass = (pass_kind)opt_whole(o, OPT_PASS, PASS_FORWARD) };
        p.calibrated = opt_given(o, OPT_CALIBRATION) ||
                       (!opt_given(o, OPT_NO_CALIBRATE) && p.pass != PASS_STEP); /* which has no choice */
        p.desc.backward = p.pass == PASS_BACKWARD;
        if (p.pass == PASS_STEP) p.desc.causal = 1;
        status = show(o, r.ctx, &p);
    }
    request_close(&r);
    return status;
}

const command cmd_plan = {
    .name = "plan",
    .bit = CMD_PLAN,
    .usage = "--mechanism M --heads H --dim D --length N [options]",
    .summary = "Show what a problem costs: algorithm, operations, memory, crossover lengths",
    .details = "\n"
               "The choice rests on a short measurement of this machine.  Operations and bytes are those\n"
               "of all heads and sequences unless they say otherwise.  A number beyond 64 bits is null.\n"
               "\n"
               "For taylor a second table (heads_table in JSON) splits heads * dim into other numbers of\n"
               "heads, with values as wide as keys.  With three terms the formulas of TaylorShift are\n"
               "added, with its crossovers N0 and N1 of one head.\n"
               "\n"
               "--pass step shows what one token costs that is added and read after --length others.\n"
               "'linnet bench --pass step' measures its time.\n",
    .run = run,
};
