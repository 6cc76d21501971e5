/* model/session.c - generation with a state for each layer in place of a KV cache.  A prompt runs in
 * chunks, then tokens one by one.  A token costs the same however many came before. */
#include "model/session.h"

#include <math.h>
#include <string.h>

#include "attention/state/state.h"
#include "core/dtype.h"
#include "core/overlap.h"
#include "core/rng.h"
#include "core/struct.h"
#include "io/json.h"
#include "nn/logistics.h"

static size_t choices(const lnt_model *model)
{
    return model->config.output == LNT_OUTPUT_LOGISTICS ? LNT_LOGISTICS_VALUES
                                                        : (size_t)model->config.outputs;
}

/* What lnt_state_create takes for layer l; temperature [heads] is filled where it is learned. */
static lnt_attn_desc layer_desc(const lnt_session *s, size_t l, double *temperature)
{
    const lnt_model *m = s->model;
    const size_t kind = lnt_config_kind(&m->config, l);
    lnt_attn_desc desc = lnt_config_attention(&m->config, kind);
    const lnt_layout_entry *e =
        &m->layout.entries[lnt_layout_block(l, LNT_BLOCK_TEMPERATURE)];
    desc.batch = (int64_t)s->batch;
    desc.length_q = (int64_t)s->length;
    if (desc.mechanism == LNT_SOFTMAX) desc.softmax.cache = s->cache;
    if (!e->count || !lnt_config_normalises(&m->config, kind)) return desc;
    for (size_t h = 0; h < e->count; h++) temperature[h] = (double)m->weights[e->offset + h];
    desc.taylor.temperature = temperature;
    return desc;
}

static lnt_status open_states(lnt_session *s)
{
    lnt_ctx *ctx = s->model->ctx;
    const size_t heads = (size_t)s->model->config.heads;
    double *temperature = lnt_allocate(ctx, heads * sizeof *temperature, "temperatures");
    lnt_status status = temperature ? LNT_OK : LNT_ERR_MEMORY;
    for (size_t l = 0; !status && l < (size_t)s->model->config.layers; l++) {
        const lnt_attn_desc desc = layer_desc(s, l, temperature);
        status = lnt_state_create(ctx, &desc, &s->states[l]);
    }
    lnt_release(ctx, temperature, heads * sizeof *temperature);
    return status;
}

static lnt_status open_memory(lnt_session *s)
{
    const lnt_model *m = s->model;
    const size_t layers = (size_t)m->config.layers, many = choices(m);
    s->states = lnt_allocate(m->ctx, layers * sizeof *s->states, "the states");
    if (!s->states) return LNT_ERR_MEMORY;
    for (size_t l = 0; l < layers; l++) s->states[l] = NULL;
    s->logits = lnt_allocate(m->ctx, s->batch * (size_t)m->config.outputs * sizeof *s->logits,
                             "the logits");
    s->chunk = lnt_allocate(m->ctx, s->batch * s->length * sizeof *s->chunk, "a chunk");
    s->scores = lnt_allocate(m->ctx, many * sizeof *s->scores, "the scores");
    s->candidates = lnt_allocate(m->ctx, many * sizeof *s->candidates, "the candidates");
    if (!s->logits || !s->chunk || !s->scores || !s->candidates) return LNT_ERR_MEMORY;
    return lnt_recent_open(m->ctx, s->batch, &s->recent);
}

static size_t length_of(int64_t batch)
{
    const int64_t each = LNT_SESSION_TOKENS / batch;
    return (size_t)(each > LNT_SESSION_EACH ? each : LNT_SESSION_EACH);
}

static bool has_softmax(const lnt_config *c)
{
    for (size_t l = 0; l < (size_t)c->layers; l++)
        if (lnt_config_attention(c, lnt_config_kind(c, l)).mechanism == LNT_SOFTMAX) return true;
    return false;
}

static lnt_status take_options(const lnt_model *model, const lnt_session_options *given,
                               lnt_session_options *own)
{
    lnt_ctx *ctx = model->ctx;
    *own = (lnt_session_options){ .size = sizeof *own };
    const lnt_status status =
        given ? lnt_struct_take(ctx, LNT_STRUCT(lnt_session_options, cache), "options", given, own) : LNT_OK;
    if (status) return status;
    if (own->reserved)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "options.reserved is %d, must be 0", own->reserved);
    if (!lnt_cache_name(own->cache))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "cache is %d, must be same, f16, bf16 or q8", (int)own->cache);
    if (own->cache != LNT_CACHE_SAME && !has_softmax(&model->config))
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "cache is %s, must be same: no layer of the model is softmax, so there is none",
                        lnt_cache_name(own->cache));
    return LNT_OK;
}

lnt_status lnt_session_create(const lnt_model *model, int64_t batch, lnt_session **out)
{
    return lnt_session_create_with(model, batch, NULL, out);
}

lnt_status lnt_session_create_with(const lnt_model *model, int64_t batch, const lnt_session_options *options,
                                   lnt_session **out)
{
    if (!model) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = model->ctx;
    lnt_session_options own;
    if (!out) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "out is NULL");
    *out = NULL;
    if (!lnt_config_generates(&model->config))
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "model: task %s has an encoder, which does not "
                                                  "generate", model->task);
    if (batch < 1 || batch > 1 << 20)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "batch is %lld, must be 1 to %d", (long long)batch,
                        1 << 20);
    lnt_status status = take_options(model, options, &own);
    if (status) return status;
    lnt_session *s = lnt_allocate(ctx, sizeof *s, "the session");
    if (!s) return LNT_ERR_MEMORY;
    *s = (lnt_session){
        .model = model, .batch = (size_t)batch, .length = length_of(batch), .cache = own.cache
    };
    status = open_memory(s);
    if (!status) status = open_states(s);
    if (!status)
        status = lnt_network_open(ctx, &model->config, &model->layout, s->batch, s->length,
                                  false, s->states, &s->network);
    s->network.bf16 = model->bf16;
    s->network.packed = model->packed;
    if (status) {
        lnt_session_destroy(s);
        return status;
    }
    *out = s;
    return LNT_OK;
}

void lnt_session_destroy(lnt_session *s)
{
    if (!s) return;
    const lnt_model *m = s->model;
    const size_t layers = (size_t)m->config.layers, many = choices(m);
    lnt_network_close(&s->network);
    for (size_t l = 0; s->states && l < layers; l++) lnt_state_destroy(s->states[l]);
    lnt_release(m->ctx, s->states, layers * sizeof *s->states);
    lnt_release(m->ctx, s->logits, s->batch * (size_t)m->config.outputs * sizeof *s->logits);
    lnt_release(m->ctx, s->chunk, s->batch * s->length * sizeof *s->chunk);
    lnt_release(m->ctx, s->scores, many * sizeof *s->scores);
    lnt_release(m->ctx, s->candidates, many * sizeof *s->candidates);
    lnt_recent_close(m->ctx, &s->recent);
    if (s->note) lnt_release(m->ctx, s->note, strlen(s->note) + 1);
    lnt_release(m->ctx, s, sizeof *s);
}

/* ---- going on ------------------------------------------------------------------------------ */

/* Beyond which no number counts the tokens of all sequences. */
static int64_t countable(const lnt_session *s) { return INT64_MAX / (int64_t)s->batch - s->tokens; }

int64_t lnt_session_room(const lnt_session *s)
{
    if (!s) return 0;
    const lnt_config *c = &s->model->config;
    return c->position == LNT_POSITION_LEARNED ? c->length - s->tokens : countable(s);
}

static lnt_status check_feed(const lnt_session *s, const int32_t *tokens, int64_t count)
{
    const lnt_config *c = &s->model->config;
    lnt_ctx *ctx = s->model->ctx;
    if (count < 0 || (count && !tokens))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "count is %lld, must be 0 or more, with tokens",
                        (long long)count);
    if (count > countable(s))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "count is %lld, and such a number of tokens is not",
                        (long long)count);
    if (count > lnt_session_room(s))
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "the model has learned %lld positions and cannot go beyond them",
                        (long long)c->length);
    for (int64_t i = 0; i < count * (int64_t)s->batch; i++)
        if (tokens[i] < 0 || tokens[i] >= c->inputs)
            return lnt_fail(ctx, LNT_ERR_ARGUMENT, "token %lld is %d, must be 0 to %lld",
                            (long long)i, tokens[i], (long long)c->inputs - 1);
    return LNT_OK;
}

/* Before any layer sees a token: that memory is short must not leave some layers ahead of others. */
static lnt_status make_room(lnt_session *s, int64_t count)
{
    lnt_status status = LNT_OK;
    for (int64_t l = 0; !status && l < s->model->config.layers; l++)
        status = lnt_state_make_room(s->states[l], count);
    return status;
}

lnt_status lnt_session_begin(lnt_session *s, const int32_t *tokens, int64_t count)
{
    const lnt_status status = check_feed(s, tokens, count);
    return status ? status : make_room(s, count);
}

lnt_status lnt_session_chunk(lnt_session *s, const int32_t *tokens, int64_t count, int64_t at,
                             bool headless, size_t *taken)
{
    const int64_t left = count - at, most = (int64_t)s->length, n = left < most ? left : most;
    for (size_t b = 0; b < s->batch; b++)
        memcpy(s->chunk + b * (size_t)n, tokens + (int64_t)b * count + at, (size_t)n * sizeof *tokens);
    const lnt_batch in = { .batch = s->batch, .length = (size_t)n, .tokens = s->chunk,
                           .first = s->tokens, .headless = headless };
    const lnt_status status =
        lnt_network_forward(&s->network, s->model->weights, &in, false, lnt_rng_make(0));
    if (!status) {
        s->tokens += n;
        lnt_recent_add(&s->recent, s->chunk, (size_t)n);
    }
    *taken = (size_t)n;
    return status;
}

lnt_status lnt_session_forward(lnt_session *s, const int32_t *tokens, int64_t count)
{
    if (!s) return LNT_ERR_ARGUMENT;
    lnt_status status = lnt_session_begin(s, tokens, count);
    for (int64_t at = 0; !status && at < count;) {
        size_t n;
        status = lnt_session_chunk(s, tokens, count, at, at + (int64_t)s->length < count, &n);
        at += (int64_t)n;
    }
    if (!status && count)
        memcpy(s->logits, s->network.logits,
               s->batch * (size_t)s->model->config.outputs * sizeof *s->logits);
    return status;
}

const float *lnt_session_logits(const lnt_session *s)
{
    return s && s->tokens ? s->logits : NULL;
}

/* The logits of one sequence, or what stands for them. */
static void score(const lnt_model *model, const float *logits, double *scores)
{
    if (model->config.output != LNT_OUTPUT_LOGISTICS) {
        for (int64_t i = 0; i < model->config.outputs; i++) scores[i] = (double)logits[i];
        return;
    }
    lnt_logistics_probability(logits, scores);
    for (size_t i = 0; i < LNT_LOGISTICS_VALUES; i++) scores[i] = log(scores[i]);
}

/* A draw: scores and candidates [choices]; recent: of what was fed, NULL: nothing. */
typedef struct drawing {
    const lnt_model *model;
    const lnt_sampling *how;
    const lnt_recent *recent;
    double *scores;
    lnt_candidate *candidates;
} drawing;

static void penalise(const drawing *d, size_t b)
{
    int32_t last[LNT_RECENT_TOKENS];
    if (!d->recent || d->how->repetition_penalty == 1) return;
    const size_t count = lnt_recent_last(d->recent, b, (size_t)d->how->penalty_tokens, last);
    lnt_sampler_penalise(d->how->repetition_penalty, last, count, d->scores, choices(d->model));
}

/* logits [batch,outputs]. */
static void draw(const drawing *d, const float *logits, size_t batch, int64_t length, int32_t *tokens)
{
    const lnt_rng rng = lnt_rng_make(d->how->seed);
    for (size_t b = 0; b < batch; b++) {
        score(d->model, logits + b * (size_t)d->model->config.outputs, d->scores);
        penalise(d, b);
        const double u = lnt_rng_uniform(lnt_rng_split(rng, b), (uint64_t)length);
        tokens[b] = lnt_sampler_draw(d->how, d->scores, choices(d->model), u, d->candidates);
    }
}

static bool are_finite(const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

lnt_status lnt_session_sample(const lnt_session *s, const lnt_sampling *sampling, int32_t *tokens)
{
    if (!s) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = s->model->ctx;
    lnt_sampling how;
    const lnt_status status = lnt_sampling_take(ctx, sampling, &how);
    if (status) return status;
    if (!tokens) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "tokens is NULL");
    if (!s->tokens)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "session: nothing was fed yet to go on from");
    if (!are_finite(s->logits, s->batch * (size_t)s->model->config.outputs))
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        "session: the model's answer is not finite; its weights or the state are damaged");
    const drawing d = { s->model, &how, &s->recent, s->scores, s->candidates };
    draw(&d, s->logits, s->batch, s->tokens, tokens);
    return LNT_OK;
}

lnt_status lnt_model_sample(const lnt_model *model, const float *logits, int64_t batch,
                            int64_t length, const lnt_sampling *sampling, int32_t *tokens)
{
    if (!model) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = model->ctx;
    lnt_sampling how;
    lnt_status status = lnt_sampling_take(ctx, sampling, &how);
    if (status) return status;
    if (!lnt_config_generates(&model->config))
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "model: task %s has an encoder, which does not "
                                                  "generate", model->task);
    if (!logits || !tokens || batch < 1 || length < 1)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "logits and tokens must be given, batch and length be at least 1");
    if (how.repetition_penalty != 1)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "sampling: repetition_penalty is %g, must be 0 or 1 (none) without a session",
                        how.repetition_penalty);
    const size_t bytes = (size_t)batch * (size_t)model->config.outputs * sizeof *logits;
    status = lnt_expect_apart(ctx, "tokens", tokens, (size_t)batch * sizeof *tokens, "logits", logits, bytes);
    if (status) return status;
    if (!are_finite(logits, (size_t)batch * (size_t)model->config.outputs))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "logits: not all are finite");
    const size_t many = choices(model);
    double *scores = lnt_allocate(ctx, many * sizeof *scores, "the scores");
    lnt_candidate *candidates = lnt_allocate(ctx, many * sizeof *candidates, "the candidates");
    const drawing d = { model, &how, NULL, scores, candidates };
    if (scores && candidates) draw(&d, logits, (size_t)batch, length, tokens);
    else status = LNT_ERR_MEMORY;
    lnt_release(ctx, scores, many * sizeof *scores);
    lnt_release(ctx, candidates, many * sizeof *candidates);
    return status;
}

lnt_status lnt_session_set_note(lnt_session *s, const char *text)
{
    if (!s) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = s->model->ctx;
    char *copy = NULL;
    if (text && !lnt_json_is_utf8(text))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "text: a note must be UTF-8, and this one is not");
    if (text && *text) {
        copy = lnt_allocate(ctx, strlen(text) + 1, "a note");
        if (!copy) return LNT_ERR_MEMORY;
        memcpy(copy, text, strlen(text) + 1);
    }
    if (s->note) lnt_release(ctx, s->note, strlen(s->note) + 1);
    s->note = copy;
    return LNT_OK;
}

const char *lnt_session_note(const lnt_session *s) { return s && s->note ? s->note : ""; }

int64_t lnt_session_tokens(const lnt_session *s) { return s ? s->tokens : 0; }
int64_t lnt_session_batch(const lnt_session *s) { return s ? (int64_t)s->batch : 0; }

size_t lnt_session_bytes(const lnt_session *s)
{
    size_t sum = 0;
    for (int64_t l = 0; s && l < s->model->config.layers; l++) sum += lnt_state_bytes(s->states[l]);
    return sum;
}

lnt_cache lnt_session_cache(const lnt_session *s) { return s ? s->cache : LNT_CACHE_SAME; }

/* Of one key or value of so many numbers. */
static size_t row_bytes(lnt_cache cache, size_t width)
{
    switch (cache) {
    case LNT_CACHE_F16:
    case LNT_CACHE_BF16: return width * sizeof(uint16_t);
    case LNT_CACHE_Q8: return (width + LNT_Q8_NUMBERS - 1) / LNT_Q8_NUMBERS * sizeof(lnt_q8_block);
    case LNT_CACHE_SAME: break;
    }
    return width * sizeof(float);
}

double lnt_session_cache_bytes(const lnt_session *s)
{
    if (!s) return 0;
    const lnt_config *c = &s->model->config;
    return 2.0 * (double)row_bytes(s->cache, (size_t)c->head_dim) * (double)(c->layers * c->kv_heads) *
           (double)s->batch * (double)s->tokens;
}
