/* cli/study/drop_swap.c - a model, loaded once, whose attention gives way to another's, layer by layer.
 *
 * A pass runs as always; after each layer's attention the other one runs on the same q, k, v, and where it
 * takes its place, its answer goes on.  So softmax and the other are both known wherever they are compared:
 * on what a layer gets (error), and beside the layer's answer in the model as it is (magnitudes).  A pass
 * costs one of the model and the other attention. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/study/drop_in.h"

/* The tensors of a layer lie without gaps, [batch,length,heads width]. */
static size_t numbers_of(const lnt_tensor *t)
{
    return (size_t)(t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3]);
}

/* The model as it is. */
static lnt_status keep(void *user, int64_t layer, const lnt_attn_desc *problem, const lnt_attn_io *io)
{
    drop_swap *s = user;
    const size_t numbers = numbers_of(&io->out), bytes = numbers * sizeof(float);
    assert(layer < DROP_LAYERS);
    if (!s->kept[layer]) s->kept[layer] = malloc(bytes);
    if (!s->own) s->own = malloc(bytes);
    if (!s->kept[layer] || !s->own) return s->lacking = bytes, LNT_ERR_MEMORY;
    memcpy(s->kept[layer], io->out.data, bytes);
    s->numbers = numbers;
    s->heads = problem->heads;
    if (layer >= s->layers) s->layers = layer + 1;
    return LNT_OK;
}

/* A plan of the other attention for this model's heads. */
static lnt_status plan_other(drop_swap *s, const lnt_attn_desc *problem)
{
    lnt_attn_desc desc = *s->attention;
    desc.batch = s->texts->count;
    desc.length_q = desc.length_k = s->texts->longest;
    desc.heads = problem->heads, desc.kv_heads = problem->kv_heads;
    desc.dim = problem->dim, desc.dim_value = problem->dim_value;
    desc.scale = problem->scale;
    desc.dtype = LNT_F32;
    return lnt_plan_create(s->ctx, &desc, &s->plan);
}

static void compare(drop_swap *s, int64_t layer, const float *exact, const float *other)
{
    double apart = 0, size = 0;
    for (size_t i = 0; i < s->numbers; i++) {
        const double difference = (double)other[i] - (double)exact[i];
        apart += difference * difference;
        size += (double)exact[i] * (double)exact[i];
    }
    s->error[layer] = sqrt(apart / size);
}

/* Padding is 0 on both sides, and is not counted. */
static void add_magnitudes(drop_swap *s, const float *kept, const float *out)
{
    double tokens = 0;
    for (size_t i = 0; i < s->numbers; i++) s->magnitudes += fabs((double)out[i] - (double)kept[i]);
    for (int64_t t = 0; t < s->texts->count; t++) tokens += (double)s->texts->lengths[t];
    s->count += tokens * (double)s->numbers / (double)(s->texts->count * s->texts->longest);
}

static const float *row_of(const lnt_tensor *t, int64_t h, int64_t i)
{
    return (const float *)t->data + h * t->stride[1] + i * t->stride[2];
}

/* U of head h of the first text, u [n,n]: softmax of the landmarks' scores. */
static void fill_u(const lnt_attn_desc *problem, const lnt_attn_io *io, int64_t h, const int64_t *queries,
                   const int64_t *keys, int64_t n, double *u)
{
    const int64_t kv = h * problem->kv_heads / problem->heads;
    for (int64_t i = 0; i < n; i++) {
        double most = -INFINITY, sum = 0, *row = u + i * n;
        for (int64_t j = 0; j < n; j++) {
            const float *q = row_of(&io->q, h, queries[i]), *k = row_of(&io->k, kv, keys[j]);
            row[j] = 0;
            for (int64_t c = 0; c < problem->dim; c++) row[j] += (double)q[c] * (double)k[c];
            row[j] *= problem->scale;
            most = fmax(most, row[j]);
        }
        for (int64_t j = 0; j < n; j++) sum += row[j] = exp(row[j] - most);
        for (int64_t j = 0; j < n; j++) row[j] /= sum;
    }
}

static lnt_status find_spectrum(drop_swap *s, int64_t layer, const lnt_attn_desc *problem,
                                const lnt_attn_io *io)
{
    const int64_t n = s->attention->cur.landmarks;
    int64_t *tokens = malloc(2 * (size_t)n * sizeof *tokens), count;
    double *u = malloc((size_t)(n * n) * sizeof *u);
    lnt_status status = tokens && u ? LNT_OK : LNT_ERR_MEMORY;
    if (status) s->lacking = (size_t)(n * n) * sizeof *u;
    for (int64_t h = 0; h < problem->heads && !status; h++) {
        double *out = s->spectrum + (layer * problem->heads + h) * n;
        for (int64_t i = 0; i < n; i++) out[i] = NAN; /* where all tokens are landmarks */
        status = lnt_plan_landmarks(s->plan, io, 0, h, tokens, tokens + n, &count);
        if (status || count != n) continue;
        fill_u(problem, io, h, tokens, tokens + n, n, u);
        drop_singular_values(u, n, out);
    }
    free(tokens);
    free(u);
    return status;
}

static lnt_status replace(void *user, int64_t layer, const lnt_attn_desc *problem, const lnt_attn_io *io)
{
    drop_swap *s = user;
    lnt_attn_io other = *io;
    lnt_status status = s->plan ? LNT_OK : plan_other(s, problem);
    other.out.data = s->own;
    other.kept = NULL, other.kept_bytes = 0;
    if (!status) status = lnt_plan_forward(s->plan, &other);
    if (status) return status;
    compare(s, layer, io->out.data, s->own);
    if (layer >= s->first && layer < s->end) memcpy(io->out.data, s->own, s->numbers * sizeof *s->own);
    add_magnitudes(s, s->kept[layer], io->out.data);
    return s->spectrum ? find_spectrum(s, layer, problem, &other) : LNT_OK;
}

static int embed(drop_swap *s, lnt_watch *watch, float *vectors)
{
    lnt_model_watch(s->model, watch, s);
    const drop_texts *t = s->texts;
    const lnt_status status =
        lnt_model_embed(s->model, t->tokens, t->count, t->longest, t->lengths, vectors);
    if (s->lacking) return fail_memory(s->lacking);
    return status ? fail_ctx(s->ctx) : EXIT_OK;
}

static void forget(drop_swap *s)
{
    for (int64_t l = 0; l < DROP_LAYERS; l++) {
        free(s->kept[l]);
        s->kept[l] = NULL;
    }
    free(s->own);
    s->own = NULL;
    s->layers = 0;
}

int drop_swap_open(const options *o, lnt_ctx *ctx, drop_swap *out)
{
    lnt_model_info info = { .size = sizeof info };
    *out = (drop_swap){ .ctx = ctx };
    const int status = model_load(ctx, opt_text(o, OPT_MODEL), &out->model);
    if (status) return status;
    if (lnt_model_describe(out->model, &info)) return fail_ctx(ctx);
    return info.layers <= DROP_LAYERS
               ? EXIT_OK
               : fail("'%s': it has %lld layers, the study takes up to %d", opt_text(o, OPT_MODEL),
                      (long long)info.layers, DROP_LAYERS);
}

void drop_swap_close(drop_swap *s)
{
    forget(s);
    lnt_model_destroy(s->model);
}

int drop_swap_exact(drop_swap *s, const drop_texts *texts, float *vectors)
{
    forget(s);
    s->texts = texts;
    return embed(s, keep, vectors);
}

int drop_swap_embed(drop_swap *s, const lnt_attn_desc *attention, int64_t first, int64_t end, float *vectors)
{
    s->attention = attention;
    s->first = first, s->end = end < 0 ? s->layers : end;
    s->magnitudes = s->count = 0;
    const int status = embed(s, replace, vectors);
    lnt_plan_destroy(s->plan);
    s->plan = NULL;
    return status;
}

double drop_swap_difference(const drop_swap *s) { return s->magnitudes / s->count; }
