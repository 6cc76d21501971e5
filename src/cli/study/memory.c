/* cli/study/memory.c - the memory of Taylor attention in state form over a long sequence, as the operating
 * system counts it.  The resident set may grow by no more than inputs, outputs, the state and a fixed
 * allowance.
 *
 * Lengths ascend, so the peak so far belongs to the last run. */
#include <stdio.h>

#include "cli/arrays/tensors.h"
#include "cli/clock.h"
#include "cli/measure/resident.h"
#include "cli/measure/workload.h"
#include "cli/show/amount.h"
#include "cli/study/study.h"

enum { LENGTHS = 3, LONGEST = 1000000, HEADS = 1, DIM = 16 };
static const double ALLOWANCE = 64e6; /* bytes beside inputs, outputs and state */

typedef struct footprint {
    double length;
    double vectors, state; /* bytes: q, k, v and the output; the state */
    double peak;           /* bytes that the process grew by */
    double seconds;
} footprint;

static int run_once(lnt_ctx *ctx, const lnt_attn_desc *desc, const workload *w, footprint *out)
{
    lnt_plan *plan;
    lnt_plan_info info = { .size = sizeof info };
    const lnt_attn_io io = workload_io(w);
    if (lnt_plan_create(ctx, desc, &plan)) return fail_ctx(ctx);
    const double start = now_seconds();
    lnt_status status = lnt_plan_describe(plan, &info);
    if (!status) status = lnt_plan_forward(plan, &io);
    out->seconds = now_seconds() - start;
    out->state = (double)info.state_bytes;
    lnt_plan_destroy(plan);
    return status ? fail_ctx(ctx) : EXIT_OK;
}

static int measure_length(lnt_ctx *ctx, const lnt_attn_desc *desc, int64_t before, footprint *out)
{
    workload w;
    *out = (footprint){ .length = (double)desc->length_q };
    int status = workload_make(ctx, desc, desc->length_q, false, &w);
    if (status) return status;
    out->vectors = tensor_bytes(&w.q) + tensor_bytes(&w.k) + tensor_bytes(&w.v) +
                   tensor_bytes(&w.out);
    status = run_once(ctx, desc, &w, out);
    out->peak = (double)(resident_peak() - before);
    workload_free(&w);
    return status;
}

static void print_json(const lnt_attn_desc *d, const footprint *f)
{
    json line = study_line("memory");
    json_text(&line, "algorithm", d->algorithm);
    json_whole(&line, "heads", d->heads);
    json_whole(&line, "dim", d->dim);
    json_whole(&line, "terms", d->taylor.terms);
    json_real(&line, "length", f->length);
    json_real(&line, "input_output_bytes", f->vectors);
    json_real(&line, "state_bytes", f->state);
    json_real(&line, "peak_bytes", f->peak);
    json_real(&line, "beyond_bytes", f->peak - f->vectors - f->state);
    json_real(&line, "seconds", f->seconds);
    json_end(&line);
}

static void print_table(const lnt_attn_desc *d, const footprint *all)
{
    static const char *const headings[] = { "tokens", "inputs and output", "state", "peak",
                                            "beyond both", "time", NULL };
    table t;
    table_begin(&t, 0, headings);
    for (int i = 0; i < LENGTHS; i++) {
        const double beyond = all[i].peak - all[i].vectors - all[i].state;
        table_row(&t);
        table_cell(&t, "%.0f", all[i].length);
        study_cell(&t, all[i].vectors, text_bytes);
        study_cell(&t, all[i].state, text_bytes);
        study_cell(&t, all[i].peak, text_bytes);
        study_cell(&t, beyond > 0 ? beyond : 0, text_bytes);
        study_cell(&t, all[i].seconds, text_seconds);
    }
    table_print(&t, stdout);
    printf("\n%s, causal, %lld x %lld, %lld terms.  'peak': what the process grew by, as the "
           "system sees it.\n",
           d->algorithm, (long long)d->heads, (long long)d->dim, (long long)d->taylor.terms);
}

static int run(const options *o, lnt_ctx *ctx)
{
    footprint found[LENGTHS];
    lnt_attn_desc desc;
    const int64_t last = opt_whole(o, OPT_LENGTH, LONGEST);
    int status = study_problem(LNT_TAYLOR, opt_whole(o, OPT_HEADS, HEADS),
                               opt_whole(o, OPT_DIM, DIM), last, &desc);
    desc.algorithm = "taylor/state";
    desc.taylor.terms = opt_whole(o, OPT_TERMS, DEFAULT_TERMS);
    const int64_t before = resident_now();
    for (int i = 0; i < LENGTHS && !status; i++) {
        desc.length_q = desc.length_k = i == 2 ? last : i == 1 ? last / 10 : last / 100;
        progress("taylor/state", i, LENGTHS);
        status = measure_length(ctx, &desc, before, &found[i]);
        progress_end();
        if (!status && opt_given(o, OPT_JSON)) print_json(&desc, &found[i]);
    }
    if (status) return status;
    if (!opt_given(o, OPT_JSON)) print_table(&desc, found);
    const footprint *f = &found[LENGTHS - 1];
    if (f->peak <= f->vectors + f->state + ALLOWANCE) return EXIT_OK;
    return fail("the peak is %.0f bytes over inputs, outputs and state, %.0f are allowed",
                f->peak - f->vectors - f->state, ALLOWANCE);
}

const study study_memory = {
    .name = "memory",
    .summary = "peak memory of taylor/state up to a million tokens, as the system sees it",
    .takes = { [OPT_LENGTH] = true, [OPT_HEADS] = true, [OPT_DIM] = true, [OPT_TERMS] = true },
    .run = run,
};
