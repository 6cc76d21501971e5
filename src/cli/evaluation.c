/* cli/evaluation.c - see evaluation.h.  A text is cut into segments of so many tokens; in each, every token
 * but the first is foretold from those before it in the segment.  Perplexity is e^loss, loss the mean in
 * nats. */
#include "cli/evaluation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/clock.h"
#include "cli/model.h"
#include "cli/show/amount.h"
#include "cli/show/json.h"
#include "cli/show/report.h"
#include "cli/text_input.h"

enum { LENGTH = 2048, EIGHTHS = 8 };

typedef struct sums {
    double nats, of_eighth[EIGHTHS];
    int64_t tokens, in_eighth[EIGHTHS], bytes, segments;
    double seconds;
} sums;

/* ---- a text -------------------------------------------------------------------------------- */

/* Bytes of text that tokens 1 .. count-1 add. */
static int count_bytes(const lnt_ctx *ctx, lnt_stream *stream, const int32_t *tokens, int64_t count,
                       int64_t *sum)
{
    const char *text;
    size_t bytes;
    for (int64_t i = 0; i < count; i++) {
        if (lnt_stream_put(stream, tokens[i], &text, &bytes)) return fail_ctx(ctx);
        *sum += i ? (int64_t)bytes : 0;
    }
    if (lnt_stream_end(stream, &text, &bytes)) return fail_ctx(ctx);
    *sum += (int64_t)bytes;
    return EXIT_OK;
}

static int add_segment(const options *o, const lnt_ctx *ctx, const lnt_model *model, const int32_t *tokens,
                       int64_t count, double *nats, sums *s)
{
    lnt_session *session;
    int status = model_session(o, ctx, model, 1, &session);
    if (status) return status;
    if (lnt_session_score(session, tokens, count, nats)) status = fail_ctx(ctx);
    lnt_session_destroy(session);
    for (int64_t i = 1; !status && i < count; i++) {
        const int64_t eighth = EIGHTHS * i / count;
        s->nats += nats[i];
        s->of_eighth[eighth] += nats[i];
        s->in_eighth[eighth]++;
    }
    s->tokens += count - 1;
    s->segments++;
    return status;
}

/* A last segment of fewer than two tokens has nothing to foretell. */
static int add_all(const options *o, const lnt_ctx *ctx, const lnt_model *model, const int32_t *tokens,
                   int64_t count, int64_t length, sums *s)
{
    const int64_t whole = (count + length - 1) / length, wanted = opt_whole(o, OPT_BATCHES, whole);
    const int64_t segments = wanted < whole ? wanted : whole;
    lnt_stream *stream = NULL;
    double *nats = malloc((size_t)length * sizeof *nats);
    int status = nats ? EXIT_OK : fail_memory((size_t)length * sizeof *nats);
    if (!status && lnt_stream_create(model, &stream)) status = fail_ctx(ctx);
    for (int64_t i = 0; !status && i < segments; i++) {
        const int32_t *at = tokens + i * length;
        const int64_t n = count - i * length < length ? count - i * length : length;
        progress("segments", (int)i, (int)segments);
        if (n < 2) continue;
        status = add_segment(o, ctx, model, at, n, nats, s);
        if (!status) status = count_bytes(ctx, stream, at, n, &s->bytes);
    }
    progress_end();
    lnt_stream_destroy(stream);
    free(nats);
    return status;
}

static double loss_of(const sums *s) { return s->nats / (double)s->tokens; }

/* Of e^(loss - loss with its own mechanism). */
static const char *verdict(double ratio)
{
    return ratio <= 1.01   ? "as good as its own"
           : ratio <= 1.05 ? "nearly as good as its own"
           : ratio <= 1.5  ? "it loses much"
                           : "not to be used before the model is tuned for it";
}

static void tell_json(const options *o, const lnt_model_info *info, int64_t length, const sums *s,
                      const lnt_model_info *own_info, const sums *own, const double each[EIGHTHS])
{
    const lnt_cache cache = (lnt_cache)opt_whole(o, OPT_SESSION_CACHE, LNT_CACHE_SAME);
    json line = json_begin(stdout);
    json_text(&line, "architecture", info->architecture);
    json_text(&line, "mechanism", info->mechanism);
    json_text(&line, "weights", info->storage);
    if (strcmp(info->mechanism, "softmax") == 0) json_text(&line, "cache", cache_numbers(cache));
    json_whole(&line, "parameters", info->parameters);
    json_real(&line, "loss", loss_of(s));
    json_real(&line, "perplexity", exp(loss_of(s)));
    json_real(&line, "bits_per_byte", s->nats / M_LN2 / (double)s->bytes);
    json_whole(&line, "tokens", s->tokens);
    json_whole(&line, "length", length);
    json_whole(&line, "segments", s->segments);
    json_reals(&line, "by_eighth", each, EIGHTHS);
    json_real(&line, "seconds", s->seconds);
    if (own) {
        json_text(&line, "own_mechanism", own_info->mechanism);
        json_real(&line, "own_perplexity", exp(loss_of(own)));
        json_real(&line, "perplexity_ratio", exp(loss_of(s) - loss_of(own)));
        json_real(&line, "own_seconds", own->seconds);
    }
    json_end(&line);
}

/* own: with the model's own mechanism; NULL: that is the one measured. */
static void tell(const options *o, const lnt_model_info *info, int64_t length, const sums *s,
                 const lnt_model_info *own_info, const sums *own)
{
    const bool softmax = strcmp(info->mechanism, "softmax") == 0;
    double each[EIGHTHS];
    char text[32];
    for (int i = 0; i < EIGHTHS; i++) each[i] = s->of_eighth[i] / (double)s->in_eighth[i];
    if (opt_given(o, OPT_JSON)) {
        tell_json(o, info, length, s, own_info, own, each);
        return;
    }
    printf("%s, %s, %s parameters in %s", info->architecture, info->mechanism,
           text_count((double)info->parameters, text, sizeof text), info->storage);
    if (softmax)
        printf(", a cache in %s",
               cache_numbers((lnt_cache)opt_whole(o, OPT_SESSION_CACHE, LNT_CACHE_SAME)));
    printf("\nperplexity     %.4g, loss %.4f nats a token\n", exp(loss_of(s)), loss_of(s));
    printf("bits per byte  %.4f\n", s->nats / M_LN2 / (double)s->bytes);
    printf("over           %lld tokens in %lld segment%s of %lld, %.3g s\n", (long long)s->tokens,
           (long long)s->segments, s->segments == 1 ? "" : "s", (long long)length, s->seconds);
    printf("loss by eighths of a segment ");
    for (int i = 0; i < EIGHTHS; i++) printf(" %.3f", each[i]);
    putchar('\n');
    if (!own) return;
    const double ratio = exp(loss_of(s) - loss_of(own));
    printf("its own %s  perplexity %.4g, %.3g s; %s has %.4g times that: %s\n", own_info->mechanism,
           exp(loss_of(own)), own->seconds, info->mechanism, ratio, verdict(ratio));
}

static int score(const options *o, const lnt_ctx *ctx, const lnt_model *model, const int32_t *tokens,
                 size_t count, int64_t length, sums *s)
{
    const double before = now_seconds();
    const int status = add_all(o, ctx, model, tokens, (int64_t)count, length, s);
    s->seconds = now_seconds() - before;
    return status;
}

/* The same tokens by the model as it was trained. */
static int score_own(const options *o, lnt_ctx *ctx, const int32_t *tokens, size_t count, int64_t length,
                     lnt_model_info *info, sums *s)
{
    lnt_model *model;
    int status = model_load_own(o, ctx, o->operand[0], &model);
    if (!status && lnt_model_describe(model, info)) status = fail_ctx(ctx);
    if (!status) status = score(o, ctx, model, tokens, count, length, s);
    lnt_model_destroy(model);
    return status;
}

int evaluation_text(const options *o, lnt_ctx *ctx, const lnt_model *model, const lnt_model_info *info)
{
    const int64_t most = info->length < LENGTH ? info->length : LENGTH,
                  length = opt_whole(o, OPT_LENGTH, most);
    const bool replaced = opt_given(o, OPT_MECHANISM);
    const char *path = opt_text(o, OPT_DATA);
    lnt_model_info own_info = { .size = sizeof own_info };
    text_buffer text = { 0 };
    int32_t *tokens = NULL;
    size_t count = 0;
    sums s = { 0 }, own = { 0 };
    if (!info->generates)
        return fail("'%s': is an encoder, which foretells no text; see 'linnet embed'", o->operand[0]);
    if (!path) return fail_usage("--data must name a text, or --token-ids an array");
    if (length < EIGHTHS)
        return fail_usage("--length is %lld, must be at least %d", (long long)length, EIGHTHS);
    int status = text_buffer_read(&text, path);
    if (!status && !text.used) status = fail("'%s' is empty", path);
    if (!status)
        status = text_input_tokens(ctx, model, text.text, text.used, LNT_TEXT_PLAIN, &tokens, &count);
    if (!status && count < 2 * EIGHTHS)
        status = fail("'%s': has %zu tokens, must have %d", path, count, 2 * EIGHTHS);
    if (!status) status = score(o, ctx, model, tokens, count, length, &s);
    if (!status && replaced) status = score_own(o, ctx, tokens, count, length, &own_info, &own);
    if (!status) tell(o, info, length, &s, &own_info, replaced ? &own : NULL);
    free(tokens);
    free(text.text);
    return status;
}

/* ---- logits -------------------------------------------------------------------------------- */

/* tokens [batch,count] to logits [batch,last,outputs], a sequence after the other. */
static int fill(const options *o, const lnt_ctx *ctx, const lnt_model *model, const int32_t *tokens,
                int64_t batch, int64_t count, int64_t last, int64_t outputs, float *logits)
{
    int status = EXIT_OK;
    for (int64_t b = 0; !status && b < batch; b++) {
        lnt_session *session;
        status = model_session(o, ctx, model, 1, &session);
        if (status) return status;
        if (lnt_session_forward_all(session, tokens + b * count, count, last, logits + b * last * outputs))
            status = fail_ctx(ctx);
        lnt_session_destroy(session);
    }
    return status;
}

int evaluation_logits(const options *o, lnt_ctx *ctx, const lnt_model *model, const lnt_model_info *info)
{
    const char *to = opt_text(o, OPT_LOGITS);
    int32_t *tokens;
    int64_t shape[4];
    int rank;
    if (!to) return fail_usage("--token-ids needs --logits");
    if (!info->generates)
        return fail("'%s': is an encoder, which has no logits; see 'linnet embed'", o->operand[0]);
    if (lnt_npy_read_tokens(ctx, opt_text(o, OPT_TOKEN_IDS), &tokens, &rank, shape)) return fail_ctx(ctx);
    const int64_t batch = rank == 2 ? shape[0] : 1, count = rank ? shape[rank - 1] : 0;
    const int64_t last = opt_whole(o, OPT_LAST, count);
    lnt_array out = { .dtype = LNT_F32, .rank = rank + 1, .shape = { batch, last, info->outputs } };
    if (rank == 1) out.shape[0] = last, out.shape[1] = info->outputs;
    const size_t bytes = (size_t)batch * (size_t)last * (size_t)info->outputs * sizeof(float);
    int status = EXIT_OK;
    if (rank < 1 || rank > 2 || count < 1 || batch < 1)
        status = fail("'%s': must be [n] or [B,n], with tokens", opt_text(o, OPT_TOKEN_IDS));
    else if (last > count)
        status =
            fail_usage("--last is %lld, the sequences have %lld tokens", (long long)last, (long long)count);
    if (!status && !(out.data = malloc(bytes))) status = fail_memory(bytes);
    if (!status) status = fill(o, ctx, model, tokens, batch, count, last, info->outputs, out.data);
    if (!status && lnt_npy_write(ctx, to, &out)) status = fail_ctx(ctx);
    free(out.data);
    lnt_tokens_release(ctx, tokens, rank, shape);
    return status;
}
