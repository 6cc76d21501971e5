/* cli/cmd_bench.c - `linnet bench`: verifies, then times one problem or the whole suite. */
#include <string.h>

#include "cli/arrays/device.h"
#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/measure/measure.h"
#include "cli/request.h"
#include "cli/show/amount.h"
#include "cli/show/json.h"
#include "cli/show/report.h"
#include "cli/show/table.h"
#include "cli/study/study.h"

typedef struct suite_line {
    lnt_mechanism mechanism;
    pass_kind pass;
    int64_t batch, heads, dim, length;
    const char *algorithm; /* NULL: the planner's choice */
    bool shift;            /* TaylorShift, which is not causal, as cur; all others are */
    int64_t terms;         /* of taylor without shift; 0: the default */
} suite_line;

/* The figures this project promises; each is measured with all threads and then with one. */
static const suite_line cpu_suite[] = {
    { LNT_SOFTMAX, PASS_FORWARD, 1, 4, 64, 4096, NULL, false, 0 },
    { LNT_SOFTMAX, PASS_BACKWARD, 1, 4, 64, 4096, NULL, false, 0 },
    { LNT_SOFTMAX, PASS_STEP, 1, 4, 64, 4096, NULL, false, 0 },
    { LNT_LINEAR, PASS_FORWARD, 1, 8, 64, 16384, NULL, false, 0 },
    { LNT_LINEAR, PASS_BACKWARD, 1, 8, 64, 16384, NULL, false, 0 },
    { LNT_LINEAR, PASS_STEP, 16, 8, 64, 16384, NULL, false, 0 },
    { LNT_LINEAR, PASS_STEP, 1, 8, 64, 16384, NULL, false, 0 },
    { LNT_TAYLOR, PASS_FORWARD, 1, 8, 16, 16384, "taylor/state", false, 0 },
    { LNT_TAYLOR, PASS_BACKWARD, 1, 8, 16, 16384, "taylor/state", false, 0 },
    { LNT_TAYLOR, PASS_FORWARD, 1, 4, 32, 8192, "taylor/state", false, 0 },
    { LNT_TAYLOR, PASS_BACKWARD, 1, 4, 32, 8192, "taylor/state", false, 0 },
    { LNT_TAYLOR, PASS_FORWARD, 1, 4, 32, 16384, "taylor/state", true, 0 },
    { LNT_TAYLOR, PASS_STEP, 1, 16, 32, 4096, NULL, false, 0 },
    { LNT_CUR, PASS_FORWARD, 1, 8, 64, 4096, "cur/flash", false, 0 },
    { LNT_CUR, PASS_BACKWARD, 1, 8, 64, 4096, "cur/flash", false, 0 },
    { LNT_HYBRID, PASS_FORWARD, 1, 8, 32, 8192, "hybrid/chunked", false, 0 },
    { LNT_HYBRID, PASS_BACKWARD, 1, 8, 32, 8192, "hybrid/chunked", false, 0 },
    { LNT_HYBRID, PASS_STEP, 1, 8, 32, 8192, NULL, false, 0 },
};

/* Those it promises for a GPU, in bf16. */
static const suite_line gpu_suite[] = {
    { LNT_TAYLOR, PASS_STEP, 1, 1024, 8, 4096, NULL, false, 8 },
    { LNT_TAYLOR, PASS_STEP, 1, 16, 64, 4096, NULL, false, 4 },
    { LNT_TAYLOR, PASS_STEP, 1, 32, 32, 4096, NULL, false, 4 },
    { LNT_TAYLOR, PASS_STEP, 1, 64, 16, 4096, NULL, false, 4 },
    { LNT_TAYLOR, PASS_FORWARD, 1, 64, 16, 65536, "taylor/state", true, 0 },
    { LNT_TAYLOR, PASS_FORWARD, 1, 32, 32, 65536, "taylor/state", true, 0 },
    { LNT_TAYLOR, PASS_FORWARD, 1, 16, 64, 65536, "taylor/state", true, 0 },
    { LNT_TAYLOR, PASS_FORWARD, 1, 128, 8, 65536, "taylor/state", false, 4 },
    { LNT_TAYLOR, PASS_FORWARD, 1, 64, 16, 65536, "taylor/state", false, 4 },
    { LNT_TAYLOR, PASS_FORWARD, 1, 32, 32, 65536, "taylor/state", false, 4 },
    { LNT_TAYLOR, PASS_FORWARD, 1, 16, 64, 262144, "taylor/state", false, 4 },
    { LNT_LINEAR, PASS_FORWARD, 1, 16, 64, 1048576, NULL, false, 0 },
    { LNT_SOFTMAX, PASS_FORWARD, 1, 16, 64, 65536, NULL, false, 0 },
    { LNT_LINEAR, PASS_BACKWARD, 1, 16, 64, 65536, NULL, false, 0 },
    { LNT_TAYLOR, PASS_BACKWARD, 1, 32, 32, 65536, "taylor/state", false, 4 },
};

enum {
    CPU_SUITE = sizeof cpu_suite / sizeof cpu_suite[0],
    GPU_SUITE = sizeof gpu_suite / sizeof gpu_suite[0],
    SUITE_SIZE = (int)CPU_SUITE > (int)GPU_SUITE ? (int)CPU_SUITE : (int)GPU_SUITE
};

static void print_json(const measurement *m)
{
    const lnt_attn_desc *d = &m->desc;
    json line = json_begin(stdout);
    json_problem(&line, d, m->algorithm, m->device, m->isa, m->threads);
    json_text(&line, "pass", option_choice(OPT_PASS, (int)m->pass));
    json_real(&line, "seconds", m->seconds);
    json_real(&line, "ns_per_token", m->ns_per_token);
    json_real(&line, "gflops", m->gflops);
    json_real(&line, "peak_gflops", m->peak_gflops);
    json_real(&line, "fraction_of_peak", m->gflops / m->peak_gflops);
    json_real(&line, "gbytes_per_second", m->gbytes);
    json_real(&line, "peak_gbytes_per_second", m->peak_gbytes);
    json_real(&line, "fraction_of_bandwidth", m->gbytes / m->peak_gbytes);
    json_real(&line, "relative_error", m->relative_error);
    json_end(&line);
    fflush(stdout); /* a line as soon as it is known */
}

static void begin_table(table *t)
{
    static const char *const headings[] = { "algorithm", "pass",    "problem", "threads",
                                            "time",      "a token", "GFLOP/s", "of peak",
                                            "GB/s",      "of peak", "error",   NULL };
    table_begin(t, 3, headings);
}

static void add_row(table *t, const measurement *m)
{
    const lnt_attn_desc *d = &m->desc;
    char text[TABLE_CELL];
    table_row(t);
    table_cell(t, "%s", m->algorithm);
    table_cell(t, "%s", option_choice(OPT_PASS, (int)m->pass));
    char batch[32] = "", kind[64] = "";
    if (d->batch != 1) snprintf(batch, sizeof batch, "%lld x ", (long long)d->batch);
    text_mechanism(d, ", ", kind, sizeof kind);
    table_cell(t, "%s%s%lld x %lld%s, %lld tokens, %s", d->causal ? "causal " : "", batch,
               (long long)d->heads, (long long)d->dim, kind, (long long)d->length_q,
               lnt_dtype_name(d->dtype));
    if (m->apart) table_cell(t, "%s", m->device);
    else table_cell(t, "%d", m->threads);
    table_cell(t, "%s", text_seconds(m->seconds, text, sizeof text));
    table_cell(t, "%s", d->length_q ? text_seconds(1e-9 * m->ns_per_token, text, sizeof text) : "-");
    table_cell(t, "%.1f", m->gflops);
    table_cell(t, "%.2f", m->gflops / m->peak_gflops);
    table_cell(t, "%.1f", m->gbytes);
    table_cell(t, "%.2f", m->gbytes / m->peak_gbytes);
    table_cell(t, "%.1e", m->relative_error);
}

static void print_explanation(void)
{
    fputs("\n'of peak': of the multiply-adds, and of the memory traffic, that this machine reached "
          "in the same run\nat a footprint of the same size.  'error': relative, against the "
          "definition in double.\n", stdout);
}

static int bench_one(const options *o)
{
    requested r;
    measurement m;
    table t;
    int status = request_open(o, &r);
    if (!status && opt_given(o, OPT_CALIBRATION)) status = request_calibration(o, r.ctx);
    if (!status)
        status = measure(r.ctx, &r.desc, (pass_kind)opt_whole(o, OPT_PASS, PASS_FORWARD), &m);
    if (!status && opt_given(o, OPT_JSON)) {
        print_json(&m);
    } else if (!status) {
        begin_table(&t);
        add_row(&t, &m);
        table_print(&t, stdout);
        print_explanation();
    }
    request_close(&r);
    return status;
}

static void suite_problem(const suite_line *line, bool gpu, lnt_attn_desc *desc)
{
    desc->mechanism = line->mechanism;
    desc->dtype = gpu ? LNT_BF16 : LNT_F32;
    desc->batch = line->batch;
    desc->heads = desc->kv_heads = line->heads;
    desc->dim = desc->dim_value = line->dim;
    desc->length_q = desc->length_k = line->length;
    desc->causal = !line->shift && desc->mechanism != LNT_CUR;
    desc->cur.landmarks = DEFAULT_LANDMARKS;
    desc->hybrid.window = DEFAULT_WINDOW;
    const bool safe = line->shift || desc->mechanism == LNT_HYBRID;
    desc->taylor.terms = safe ? DEFAULT_SAFE_TERMS : line->terms ? line->terms : DEFAULT_TERMS;
    if (line->shift) desc->taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT;
    desc->algorithm = line->algorithm;
}

static int measure_suite(lnt_ctx *const *ctx, int contexts, bool as_json,
                         measurement out[SUITE_SIZE][2])
{
    const bool gpu = device_is_apart(ctx[0]);
    const int size = gpu ? GPU_SUITE : CPU_SUITE;
    int status = EXIT_OK;
    for (int i = 0; i < size && !status; i++) {
        const suite_line *line = gpu ? &gpu_suite[i] : &cpu_suite[i];
        for (int c = 0; c < contexts && !status; c++) {
            lnt_attn_desc desc;
            char what[64];
            status = request_defaults(&desc);
            if (status) return status;
            suite_problem(line, gpu, &desc);
            snprintf(what, sizeof what, "%s %s", lnt_mechanism_name(desc.mechanism),
                     option_choice(OPT_PASS, (int)line->pass));
            progress(what, i * contexts + c, size * contexts);
            status = measure(ctx[c], &desc, line->pass, &out[i][c]);
            progress_end();
            if (!status && as_json) print_json(&out[i][c]);
        }
    }
    return status;
}

static void print_suite(measurement found[SUITE_SIZE][2], int size, int contexts)
{
    table t;
    begin_table(&t);
    if (contexts > 1) table_cell(&t, "vs 1 thread");
    for (int i = 0; i < size; i++) {
        add_row(&t, &found[i][0]);
        if (contexts < 2) continue;
        table_cell(&t, "%.2f x", found[i][1].seconds / found[i][0].seconds);
        add_row(&t, &found[i][1]);
    }
    table_print(&t, stdout);
    print_explanation();
}

static int bench_suite(const options *o)
{
    lnt_ctx *ctx[2] = { NULL, NULL };
    measurement found[SUITE_SIZE][2];
    int status = request_context(o, 0, &ctx[0]);
    if (status) return status;
    const bool gpu = device_is_apart(ctx[0]);
    const int contexts = !gpu && lnt_ctx_threads(ctx[0]) > 1 ? 2 : 1;
    if (contexts > 1) status = request_context(o, 1, &ctx[1]);
    if (!status) status = measure_suite(ctx, contexts, opt_given(o, OPT_JSON), found);
    if (!status && !opt_given(o, OPT_JSON))
        print_suite(found, gpu ? GPU_SUITE : CPU_SUITE, contexts);
    lnt_ctx_destroy(ctx[0]);
    lnt_ctx_destroy(ctx[1]);
    return status;
}

static int run(const options *o)
{
    if (opt_given(o, OPT_STUDY)) return study_run(o);
    static const option_id of_studies[] = { OPT_SVG,  OPT_TASK,   OPT_MODEL,   OPT_CONFIG,
                                            OPT_DATA, OPT_TOKENS, OPTION_COUNT };
    const option_id of_study = options_first_of(o, of_studies);
    if (of_study != OPTION_COUNT)
        return fail_usage("%s needs --study; see 'linnet bench --help' for those there are",
                          option_name(of_study));
    if (opt_given(o, OPT_MECHANISM)) return bench_one(o);
    const option_id problem = options_first_problem(o);
    if (problem != OPTION_COUNT)
        return fail_usage("%s needs --mechanism; without one the whole suite is run",
                          option_name(problem));
    return bench_suite(o);
}

const command cmd_bench = {
    .name = "bench",
    .bit = CMD_BENCH,
    .usage = "[--mechanism M [options] | --study NAME [options]]",
    .summary = "Verify a pass against the definition, then time it; without options: the suite",
    .details = "\n"
               "Each figure stands beside the peak that this machine reaches in the same run.  A wrong\n"
               "result is an error and is not timed.  A step adds and reads one token after --length\n"
               "others.\n"
               "\n"
               "A study repeats an experiment of a paper.  It prints a table, or JSON with --json, and\n"
               "draws a figure with --svg.  docs/benchmarks.md has the results.\n",
    .more = study_help,
    .run = run,
};
