/* cli/cmd_attend.c - `linnet attend`: Y = attention(Q, K, V), from files to a file.
 *
 * There are two ways.  A plan takes whole sequences, or chunks with the state handed on if an algorithm is
 * forced.  A state takes the sequences as a stream: --chunk works like that, and softmax can continue a state
 * only like that, because plans do not take its cache. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/arrays/compare.h"
#include "cli/arrays/device.h"
#include "cli/arrays/indices.h"
#include "cli/arrays/mask.h"
#include "cli/arrays/operands.h"
#include "cli/arrays/tensors.h"
#include "cli/clock.h"
#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/output_file.h"
#include "cli/request.h"
#include "cli/show/amount.h"
#include "cli/show/json.h"
#include "cli/show/report.h"

typedef struct job {
    const options *o;
    lnt_ctx *ctx;
    lnt_attn_desc desc;
    double *per_head, *center, fitted[MAX_TERMS];
    operands in;
    lnt_tensor out, result; /* in the dtype computed in; in that of Q, if another */
    lnt_tensor q, k, v, y;  /* in.q, in.k, in.v and out, where they are computed */
    lnt_state *state;       /* NULL: none is needed */
    lnt_plan_info info;
    char algorithm[96];
    double seconds;
    int64_t nonpositive, divergent, unfinite; /* rows, pseudo-inverses, rows */
    double rank;
    lnt_array mask_array;
    lnt_mask mask;      /* data NULL: none */
    lnt_array indices;  /* cur: [B,H,2,M], of queries and of keys; data NULL: not wanted */
    comparison against; /* with --compare */
} job;

static bool has_state(const options *o)
{
    return opt_given(o, OPT_STATE_IN) || opt_given(o, OPT_STATE_OUT);
}

static int check_usage(const options *o, const lnt_attn_desc *desc)
{
    const char *output = opt_text(o, OPT_OUTPUT);
    if (opt_given(o, OPT_COMPARE) && opt_given(o, OPT_STATE_IN))
        return fail_usage("--compare cannot be used with --state-in: softmax needs the keys "
                          "themselves, and a state has only their sums");
    if (!output && !opt_given(o, OPT_STATE_OUT) && !opt_given(o, OPT_INDICES_OUT) &&
        !opt_given(o, OPT_COMPARE))
        return fail_usage("%s is missing: say where the result goes", option_name(OPT_OUTPUT));
    static const option_id beside[] = { OPT_STATE_OUT, OPT_INDICES_OUT };
    for (int i = 0; i < 2; i++) {
        const char *path = opt_text(o, beside[i]);
        if (path && output && same_file(output, path))
            return fail_usage("--output and %s are the same file, '%s'", option_name(beside[i]), output);
        for (int j = 0; path && j < 3; j++)
            if (same_file(o->operand[j], path))
                return fail_usage("%s: '%s' is one of Q, K and V", option_name(beside[i]), path);
    }
    static const option_id whole[] = { OPT_MASK, OPT_ALIGN, OPTION_COUNT }; /* sequences, not streams */
    const option_id of_whole = options_first_of(o, whole);
    if (of_whole != OPTION_COUNT && (opt_given(o, OPT_CHUNK) || has_state(o) || opt_given(o, OPT_COMPARE)))
        return fail_usage("%s cannot be used with --chunk, --state-in, --state-out or --compare",
                          option_name(of_whole));
    if (opt_given(o, OPT_CHUNK) && !desc->causal)
        return fail_usage("--chunk needs --causal: a stream is read in the order of its tokens");
    if (desc->mechanism == LNT_SOFTMAX && desc->algorithm &&
        (opt_given(o, OPT_CHUNK) || has_state(o)))
        return fail_usage("--algorithm cannot be chosen with --chunk, --state-in or --state-out: "
                          "softmax then goes through its cache");
    return EXIT_OK;
}

/* ---- running ------------------------------------------------------------------------------- */

/* Fills info for the whole problem.  Tokens of a state that a query meets one by one are keys of it:
 * all of softmax, those that are near of hybrid, whose far ones are summed already. */
static int describe(job *j)
{
    lnt_attn_desc whole = j->desc;
    const bool softmax = whole.mechanism == LNT_SOFTMAX, hybrid = whole.mechanism == LNT_HYBRID;
    const int64_t before = j->state && (softmax || hybrid) ? lnt_state_tokens(j->state, 0) : 0;
    whole.length_k += before;
    whole.state = j->state && !softmax;
    int status = describe_plan(j->ctx, &whole, &j->info);
    if (!status && hybrid && before) {
        lnt_plan_info summed;
        whole.length_q = 0;
        whole.length_k = before;
        status = describe_plan(j->ctx, &whole, &summed);
        if (!status) j->info.flops -= summed.flops;
    }
    return status;
}

static int open_state(job *j)
{
    const char *path = opt_text(j->o, OPT_STATE_IN);
    if (!has_state(j->o) && !opt_given(j->o, OPT_CHUNK)) return EXIT_OK;
    const lnt_status status = path ? lnt_state_load(j->ctx, &j->desc, path, &j->state)
                                   : lnt_state_create(j->ctx, &j->desc, &j->state);
    return status ? fail_ctx(j->ctx) : EXIT_OK;
}

/* Whole, or `piece` tokens at a time with the state handed on. */
static lnt_status forward_pieces(job *j, lnt_plan *plan, int64_t piece)
{
    const bool whole = !opt_given(j->o, OPT_CHUNK);
    int64_t at = 0;
    do {
        const int64_t left = j->desc.length_q - at, n = left < piece ? left : piece;
        lnt_attn_io io = { .size = sizeof io, .state_in = j->state, .state_out = j->state,
                           .mask = j->mask };
        io.q = tensor_rows(&j->q, at, n);
        io.k = whole ? j->k : tensor_rows(&j->k, at, n);
        io.v = whole ? j->v : tensor_rows(&j->v, at, n);
        io.out = tensor_rows(&j->y, at, n);
        const lnt_status status = lnt_plan_forward(plan, &io);
        if (status) return status;
        at += n;
    } while (at < j->desc.length_q);
    return lnt_ctx_synchronize(j->ctx);
}

static int run_plan(job *j)
{
    lnt_attn_desc desc = j->desc;
    lnt_plan *plan;
    const int64_t piece = opt_whole(j->o, OPT_CHUNK, desc.length_q);
    if (piece < desc.length_q) desc.length_q = desc.length_k = piece;
    desc.state = j->state != NULL;
    if (lnt_plan_create(j->ctx, &desc, &plan)) return fail_ctx(j->ctx);
    const double start = now_seconds();
    lnt_status status = forward_pieces(j, plan, piece);
    j->seconds = now_seconds() - start;
    lnt_plan_info info = { .size = sizeof info };
    lnt_report report = { .size = sizeof report };
    if (!status) status = lnt_plan_report(plan, &report);
    if (!status) status = lnt_plan_describe(plan, &info);
    if (!status) snprintf(j->algorithm, sizeof j->algorithm, "%s", info.algorithm);
    j->nonpositive = report.nonpositive;
    j->divergent = report.divergent;
    j->rank = report.rank;
    int failed = status ? fail_ctx(j->ctx) : EXIT_OK;
    if (!failed && opt_given(j->o, OPT_INDICES_OUT))
        failed = indices_read(j->ctx, plan, &j->desc, &j->in, &j->indices);
    lnt_plan_destroy(plan);
    return failed;
}

/* The algorithms that ran: a last piece that is shorter may have taken another. */
static void note_algorithm(job *j)
{
    const char *name = lnt_state_algorithm(j->state);
    const size_t used = strlen(j->algorithm);
    if (!name || strstr(j->algorithm, name)) return;
    snprintf(j->algorithm + used, sizeof j->algorithm - used, "%s%s", used ? " + " : "", name);
}

/* Causal: keys before the first query are only remembered, the rest goes token by token. */
static lnt_status stream_causal(job *j)
{
    const lnt_tensor *q = &j->q, *k = &j->k, *v = &j->v;
    const int64_t n_q = j->desc.length_q, before = j->desc.length_k - n_q;
    const int64_t piece = opt_whole(j->o, OPT_CHUNK, n_q);
    const lnt_tensor first_k = tensor_rows(k, 0, before), first_v = tensor_rows(v, 0, before);
    lnt_status status = before ? lnt_state_append(j->state, &first_k, &first_v) : LNT_OK;
    int64_t at = 0;
    do { /* once even where there is nothing to read */
        const int64_t n = n_q - at < piece ? n_q - at : piece;
        const lnt_tensor qs = tensor_rows(q, at, n), ks = tensor_rows(k, before + at, n);
        const lnt_tensor vs = tensor_rows(v, before + at, n), outs = tensor_rows(&j->y, at, n);
        if (!status) status = lnt_state_step(j->state, &qs, &ks, &vs, &outs);
        note_algorithm(j);
        at += n;
    } while (at < n_q && !status);
    return status;
}

static int run_state(job *j)
{
    const int64_t tokens = lnt_state_tokens(j->state, 0);
    lnt_report report = { .size = sizeof report };
    if (lnt_state_reserve(j->state, tokens + j->desc.length_k)) return fail_ctx(j->ctx);
    const double start = now_seconds();
    lnt_status status;
    if (j->desc.causal) {
        status = stream_causal(j);
    } else { /* no order among these tokens: every query sees them all, and those before */
        status = lnt_state_append(j->state, &j->k, &j->v);
        if (!status) status = lnt_state_query(j->state, &j->q, &j->y);
        note_algorithm(j);
    }
    if (!status) status = lnt_ctx_synchronize(j->ctx);
    j->seconds = now_seconds() - start;
    if (!status) status = lnt_state_report(j->state, &report);
    j->nonpositive = report.nonpositive;
    return status ? fail_ctx(j->ctx) : EXIT_OK;
}

static int compute(job *j)
{
    if (!j->state) return run_plan(j);
    const bool plannable = j->desc.mechanism != LNT_SOFTMAX;
    const bool streamed = opt_given(j->o, OPT_CHUNK) && !j->desc.algorithm;
    return plannable && !streamed ? run_plan(j) : run_state(j);
}

/* There and back, where that is another memory. */
static int run_job(job *j)
{
    const lnt_tensor *const host[] = { &j->in.q.view, &j->in.k.view, &j->in.v.view, &j->out };
    lnt_tensor *const there[] = { &j->q, &j->k, &j->v, &j->y };
    int status = EXIT_OK;
    for (int i = 0; i < 4 && !status; i++)
        if (device_place(j->ctx, host[i], there[i])) status = fail_ctx(j->ctx);
    if (!status) status = compute(j);
    if (!status && device_fetch(j->ctx, &j->y, &j->out)) status = fail_ctx(j->ctx);
    for (int i = 0; i < 4; i++) device_leave(j->ctx, there[i]);
    return status;
}

/* Exact softmax is computed on the CPU, in double. */
static int run_comparison(job *j)
{
    lnt_ctx *ctx;
    int status = request_host(j->o, 0, &ctx);
    if (status) return status;
    status = compare_softmax(ctx, &j->desc, &j->in, &j->out, j->nonpositive, &j->against);
    lnt_ctx_destroy(ctx);
    return status;
}

/* ---- results ------------------------------------------------------------------------------- */

static int write_output(void *of)
{
    job *j = of;
    const char *path = opt_text(j->o, OPT_OUTPUT);
    const lnt_array *q = &j->in.q.array;
    lnt_array y = { .data = j->out.data, .dtype = q->dtype, .rank = q->rank };
    if (!path) return EXIT_OK;
    if (j->out.dtype != q->dtype) {
        const int64_t *s = j->out.shape;
        const int status = tensor_make(&j->result, q->dtype, s[0], s[1], s[2], s[3]);
        if (status) return status;
        tensor_convert(&j->out, &j->result);
        y.data = j->result.data;
    }
    for (int i = 0; i < q->rank; i++) y.shape[i] = q->shape[i];
    y.shape[q->rank - 1] = j->desc.dim_value;
    return lnt_npy_write(j->ctx, path, &y) ? fail_ctx(j->ctx) : EXIT_OK;
}

static int write_state(void *of, const char *path)
{
    const job *j = of;
    return lnt_state_save(j->state, path) ? fail_ctx(j->ctx) : EXIT_OK;
}

static int write_indices(void *of, const char *path)
{
    const job *j = of;
    return lnt_npy_write(j->ctx, path, &j->indices) ? fail_ctx(j->ctx) : EXIT_OK;
}

static int write_results(job *j)
{
    const char *state_path = opt_text(j->o, OPT_STATE_OUT);
    if (j->indices.data)
        return output_file_pair(j, write_output, write_indices, opt_text(j->o, OPT_INDICES_OUT));
    if (!state_path) return write_output(j);
    if (opt_given(j->o, OPT_OUTPUT))
        return output_file_pair(j, write_output, write_state, state_path);
    return write_state(j, state_path);
}

/* Of the state that ran, or that would; NaN: no size_t holds it. */
static double state_bytes(const job *j)
{
    if (j->state) return (double)lnt_state_bytes(j->state);
    const bool known = j->info.state_bytes || j->info.state_elements == 0 || j->desc.batch == 0;
    return known ? (double)j->info.state_bytes : NAN;
}

static void print_text(const job *j)
{
    const lnt_attn_desc *d = &j->desc;
    char where[320];
    printf("%s%s, %s, on %s\n", j->algorithm, d->causal ? ", causal" : "",
           lnt_dtype_name(d->dtype), device_text(j->ctx, where, sizeof where));
    printf("%lld x %lld heads (%lld of keys), %lld queries, %lld keys, widths %lld and %lld\n",
           (long long)d->batch, (long long)d->heads, (long long)d->kv_heads,
           (long long)d->length_q, (long long)d->length_k, (long long)d->dim,
           (long long)d->dim_value);
    printf("%.4g ms, %.4g GFLOP/s", 1e3 * j->seconds,
           j->seconds > 0 ? 1e-9 * j->info.flops / j->seconds : 0.0);
    if (isnan(state_bytes(j))) printf("; a state would be too large to count");
    else if (j->state) printf(", state of %.0f bytes", state_bytes(j));
    else if (state_bytes(j) > 0) printf("; a state would have %.0f bytes", state_bytes(j));
    putchar('\n');
    if (j->nonpositive)
        printf("%lld row%s had a denominator that was not above zero, or too large for a number\n",
               (long long)j->nonpositive, plural(j->nonpositive));
    if (j->unfinite)
        printf("%lld row%s not finite\n", (long long)j->unfinite, j->unfinite == 1 ? " is" : "s are");
    if (d->mechanism == LNT_CUR && j->rank > 0)
        printf("%lld landmark%s, of rank %.1f or more\n", (long long)d->cur.landmarks,
               plural(d->cur.landmarks), j->rank);
    if (j->divergent)
        printf("%lld pseudo-inverse%s diverged and %s started again from the norms\n",
               (long long)j->divergent, plural(j->divergent), j->divergent == 1 ? "was" : "were");
    if (opt_given(j->o, OPT_COMPARE)) comparison_print(d, &j->against);
    static const option_id written[] = { OPT_OUTPUT, OPT_INDICES_OUT, OPT_STATE_OUT };
    for (int i = 0; i < 3; i++)
        if (opt_given(j->o, written[i])) printf("wrote %s\n", opt_text(j->o, written[i]));
}

static void print_results(const job *j)
{
    if (!opt_given(j->o, OPT_JSON)) {
        print_text(j);
        return;
    }
    json line = json_begin(stdout);
    json_text(&line, "mechanism", lnt_mechanism_name(j->desc.mechanism));
    json_text(&line, "algorithm", j->algorithm);
    json_text(&line, "device", device_word(j->ctx));
    json_text(&line, "isa", lnt_ctx_isa(j->ctx));
    json_whole(&line, "threads", lnt_ctx_threads(j->ctx));
    json_real(&line, "seconds", j->seconds);
    json_real(&line, "flops", j->info.flops);
    json_real(&line, "state_bytes", state_bytes(j));
    json_whole(&line, "nonpositive_denominators", j->nonpositive);
    json_whole(&line, "rows_not_finite", j->unfinite);
    if (j->desc.mechanism == LNT_CUR) {
        json_whole(&line, "landmarks", j->desc.cur.landmarks);
        json_whole(&line, "pinv_divergences", j->divergent);
        json_real(&line, "pinv_rank", j->rank);
    }
    if (opt_given(j->o, OPT_COMPARE)) comparison_json(&line, &j->desc, &j->against);
    json_end(&line);
}

static int check_stream(const job *j)
{
    if (!opt_given(j->o, OPT_CHUNK) || j->desc.length_q == j->desc.length_k) return EXIT_OK;
    return fail("--chunk needs as many queries as keys, '%s' has %lld and '%s' has %lld",
                j->in.q.path, (long long)j->desc.length_q, j->in.k.path,
                (long long)j->desc.length_k);
}

static int attend(job *j)
{
    int status = operands_read(j->ctx, j->o, &j->in);
    if (!status) status = operands_shape(&j->in, j->o, &j->desc);
    if (!status) status = check_stream(j);
    if (!status) status = request_pins(&j->desc);
    if (!status) status = request_per_head(j->o, &j->desc, &j->per_head);
    if (!status) status = request_center(j->o, j->ctx, &j->desc, &j->center);
    const char *mask = opt_text(j->o, OPT_MASK);
    if (!status && mask) status = mask_read(j->ctx, mask, &j->desc, &j->mask_array, &j->mask);
    if (status) return status;
    const lnt_attn_desc *d = &j->desc;
    if (!opt_given(j->o, OPT_DTYPE)) j->desc.dtype = j->in.q.array.dtype;
    status = operands_convert(&j->in, d->dtype);
    if (!status && j->o->fit)
        status = request_fit(j->o, j->ctx, operands_sigma(&j->in, d), &j->desc, j->fitted);
    if (!status)
        status = tensor_make(&j->out, d->dtype, d->batch, d->heads, d->length_q, d->dim_value);
    if (!status) status = open_state(j);
    if (!status) status = describe(j);
    if (!status) status = run_job(j);
    if (!status) j->unfinite = tensor_unfinite_rows(&j->out);
    if (!status && opt_given(j->o, OPT_COMPARE)) status = run_comparison(j);
    if (!status) status = write_results(j);
    if (!status) print_results(j);
    return status;
}

static int run(const options *o)
{
    job j = { .o = o };
    int status = request_mechanism(o, &j.desc);
    if (!status) status = check_usage(o, &j.desc);
    if (!status) status = request_context(o, 0, &j.ctx);
    if (!status && opt_given(o, OPT_CALIBRATION)) status = request_calibration(o, j.ctx);
    if (!status) status = attend(&j);
    lnt_state_destroy(j.state);
    tensor_free(&j.result);
    tensor_free(&j.out);
    free(j.indices.data);
    if (j.ctx) operands_free(j.ctx, &j.in);
    lnt_array_free(j.ctx, &j.mask_array);
    free(j.per_head);
    free(j.center);
    lnt_ctx_destroy(j.ctx);
    return status;
}

const command cmd_attend = {
    .name = "attend",
    .bit = CMD_ATTEND,
    .usage = "Q.npy K.npy V.npy -o Y.npy --mechanism M [options]",
    .summary = "Compute Y = attention(Q, K, V) of .npy arrays",
    .details = "\n"
               "Arrays are [N,d], [H,N,d] or [B,H,N,d], of type f16, f32 or f64.  The number of heads and\n"
               "the widths come from the arrays; options that name them are only checked.  K and V may\n"
               "have fewer heads than Q: each then serves several.  Y has the type of Q.\n"
               "\n"
               "A state file continues a sequence.  With --causal the keys follow the tokens of\n"
               "--state-in.  Without it every query sees those tokens and all of K.  -o may be left out\n"
               "with --state-out or --compare.\n"
               "\n"
               "--mask is an array that broadcasts over [B,H,N_q,N_k], as in NumPy: booleans, false hides a\n"
               "key, or numbers, which are added to the scores, and -inf hides a key.\n"
               "\n"
               "--compare softmax computes exact softmax of the same Q, K, V in double and prints the\n"
               "error, over all and by position, and the range of the scores.  The scale is 1/sqrt(dim),\n"
               "or --scale for both; --cap and --alibi are kept, --window is not.  A result can be trusted\n"
               "below 1 % of relative error and is rough below 5 %.  It cannot be trusted above that, or\n"
               "where a denominator was not above zero or overflowed.  The time grows with the square of\n"
               "N.\n",
    .operands = 3,
    .run = run,
};
