/* model/real/head.c - the end of a network, forward and backward: what stands for a sequence, and the
 * logits of that, or of each token.
 *
 * That is the mean of the tokens, the first or the last; a pooler makes tanh(x w + b) of it.  A head gives
 * logits x w + b, which may be capped; of two heads, one reads the first token and one the second, and logits
 * are the mean of both.  A model of vectors has no head. */
#include <math.h>
#include <string.h>

#include "model/network_parts.h"
#include "nn/dense.h"

/* ---- forward ------------------------------------------------------------------------------- */

static size_t length_of(const lnt_batch *in, size_t b)
{
    return in->lengths ? (size_t)in->lengths[b] : in->length;
}

/* The tokens first .. end-1 whose mean stands for sequence b. */
static void pooled_tokens(const lnt_network *net, const lnt_batch *in, size_t b, size_t *first, size_t *end)
{
    const size_t length = length_of(in, b);
    const int pooling = net->states ? LNT_POOL_LAST : net->config->pooling;
    *first = pooling == LNT_POOL_LAST && length ? length - 1 : 0;
    *end = pooling == LNT_POOL_FIRST && length ? 1 : length;
}

static lnt_dense pooler_layer(const lnt_network *net, const real *w, const real *g)
{
    const size_t dim = (size_t)net->config->dim;
    return (lnt_dense){ .in = dim, .out = dim,
                        .w = at(net, w, LNT_PARAM_POOLER), .b = at(net, w, LNT_PARAM_POOLER_BIAS),
                        .packed = lnt_weight_at(net->packed, LNT_PARAM_POOLER),
                        .dw = at(net, g, LNT_PARAM_POOLER), .db = at(net, g, LNT_PARAM_POOLER_BIAS) };
}

/* A dense layer and tanh over what was pooled. */
static void bend(lnt_network *net, const real *w, size_t rows)
{
    const lnt_dense layer = pooler_layer(net, w, NULL);
    const size_t count = rows * layer.in;
    memcpy(net->unbent, net->pooled, count * sizeof *net->pooled);
    lnt_dense_forward(net->ctx, &layer, net->unbent, net->pooled, rows);
    for (size_t i = 0; i < count; i++) net->pooled[i] = (real)tanh((double)net->pooled[i]);
}

/* What the second head reads: the second token. */
static void pool_second(lnt_network *net, const lnt_batch *in)
{
    const size_t dim = (size_t)net->config->dim;
    for (size_t b = 0; b < in->batch; b++)
        memcpy(net->pooled + (in->batch + b) * dim, net->top + (b * in->length + 1) * dim,
               dim * sizeof *net->pooled);
}

/* What the head reads of each sequence, where that is one vector. */
static void pool(lnt_network *net, const lnt_batch *in)
{
    const size_t dim = (size_t)net->config->dim;
    for (size_t b = 0; b < in->batch; b++) {
        const real *x = net->top + b * in->length * dim;
        real *y = net->pooled + b * dim;
        size_t first, end;
        pooled_tokens(net, in, b, &first, &end);
        if (end - first == 1) {
            memcpy(y, x + first * dim, dim * sizeof *y);
            continue;
        }
        memset(y, 0, dim * sizeof *y);
        for (size_t t = first; t < end; t++)
            for (size_t i = 0; i < dim; i++) y[i] += x[t * dim + i];
        for (size_t i = 0; end && i < dim; i++) y[i] /= (real)(end - first);
    }
}

/* The head's input, and its matrix [dim,outputs]: tied, the embedding seen the other way. */
static const real *head_input(const lnt_network *net)
{
    const bool one = net->states || lnt_config_pools(net->config);
    return one ? net->pooled : net->top;
}

static lnt_matrix head_matrix(const lnt_network *net, const real *w, size_t head)
{
    const bool tied = net->config->tied;
    const size_t of = tied ? LNT_PARAM_EMBED : head;
    const size_t row = (size_t)(tied ? net->config->dim : net->config->outputs);
    lnt_matrix m = { at(net, w, of), row, 1, at_bf16(net, of), NULL };
    if (tied) m = nn_transposed(m);
    m.packed = lnt_weight_at(net->packed, of);
    return m;
}

/* cap tanh(x / cap) of each logit; slopes (NULL: not wanted) get 1 - tanh^2. */
static void cap_logits(const lnt_network *net, real *logits, real *slopes, size_t count)
{
    const double cap = net->config->logit_cap;
    const int threads = lnt_threads_for(net->ctx, 40 * (double)count);
    if (!(cap > 0)) return;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)count; i++) {
        const double bent = tanh((double)logits[i] / cap);
        logits[i] = (real)(cap * bent);
        if (slopes) slopes[i] = (real)(1 - bent * bent);
    }
}

/* head: LNT_PARAM_HEAD or LNT_PARAM_HEAD2. */
static void fill_logits(const lnt_network *net, const real *w, size_t head, const real *x, size_t rows,
                        real *logits, real *slopes)
{
    const size_t dim = (size_t)net->config->dim, outputs = (size_t)net->config->outputs;
    lnt_product_biased(net->ctx, logits, outputs, nn_rows(x, dim), head_matrix(net, w, head),
                       at(net, w, head + 1), rows, outputs, dim);
    cap_logits(net, logits, slopes, rows * outputs);
}

/* The mean of the logits of both heads. */
static void fill_means(const lnt_network *net, const real *w, size_t rows)
{
    const size_t outputs = (size_t)net->config->outputs;
    const real *second = net->pooled + rows * (size_t)net->config->dim;
    fill_logits(net, w, LNT_PARAM_HEAD, net->pooled, rows, net->logits, NULL);
    fill_logits(net, w, LNT_PARAM_HEAD2, second, rows, net->second, NULL);
    for (size_t i = 0; i < rows * outputs; i++) net->logits[i] = (net->logits[i] + net->second[i]) / 2;
}

void lnt_network_logits(const lnt_network *net, const real *w, const real *x, size_t rows, real *logits)
{
    fill_logits(net, w, LNT_PARAM_HEAD, x, rows, logits, NULL);
}

static real length_of_vector(const lnt_network *net, const real *x)
{
    const size_t dim = (size_t)net->config->dim;
    return (real)fmax(sqrt((double)nn_kernels(net->ctx)->dot(x, x, dim)), 1e-12);
}

/* Vectors take the place of logits. */
static void fill_vectors(lnt_network *net, size_t rows)
{
    const size_t dim = (size_t)net->config->dim;
    memcpy(net->logits, head_input(net), rows * dim * sizeof *net->logits);
    for (size_t i = 0; net->config->normalise && i < rows; i++) {
        real *y = net->logits + i * dim;
        nn_kernels(net->ctx)->scale(y, 1 / length_of_vector(net, y), dim);
    }
}

void lnt_network_head(lnt_network *net, const real *w, const lnt_batch *in)
{
    const size_t rows = lnt_network_rows(net, in);
    if (in->headless) return;
    if (head_input(net) == net->pooled) pool(net, in);
    if (net->second) pool_second(net, in);
    if (net->unbent) bend(net, w, rows);
    if (net->config->output == LNT_OUTPUT_VECTOR) fill_vectors(net, rows);
    else if (net->second) fill_means(net, w, rows);
    else fill_logits(net, w, LNT_PARAM_HEAD, head_input(net), rows, net->logits, net->slopes);
}

/* ---- backward ------------------------------------------------------------------------------ */

/* The gradient of what stands for a sequence, to the tokens it is made of. */
static void spread(const lnt_network *net, const lnt_batch *in)
{
    const size_t dim = (size_t)net->config->dim;
    for (size_t b = 0; b < in->batch; b++) {
        size_t first, end;
        pooled_tokens(net, in, b, &first, &end);
        for (size_t t = 0; t < in->length; t++)
            for (size_t i = 0; i < dim; i++)
                net->grad[(b * in->length + t) * dim + i] =
                    t >= first && t < end ? net->dpooled[b * dim + i] / (real)(end - first) : 0;
        if (net->second)
            memcpy(net->grad + (b * in->length + 1) * dim, net->dpooled + (in->batch + b) * dim,
                   dim * sizeof *net->grad);
    }
}

/* dx from dy in net->logits: of y = x / |x|, dx = (dy - y (y.dy)) / |x|. */
static void vectors_back(const lnt_network *net, real *dx, size_t rows)
{
    const size_t dim = (size_t)net->config->dim;
    memcpy(dx, net->logits, rows * dim * sizeof *dx);
    for (size_t i = 0; net->config->normalise && i < rows; i++) {
        const real *x = head_input(net) + i * dim;
        const real r = 1 / length_of_vector(net, x);
        const real along = r * r * nn_kernels(net->ctx)->dot(x, net->logits + i * dim, dim);
        for (size_t c = 0; c < dim; c++) dx[i * dim + c] = r * (net->logits[i * dim + c] - along * x[c]);
    }
}

/* dx from the gradient of logits, and what the parameters of a head get of it. */
static void logits_back(lnt_network *net, const real *w, real *g, size_t head, const real *x, real *dx,
                        size_t rows)
{
    const size_t dim = (size_t)net->config->dim, outputs = (size_t)net->config->outputs;
    lnt_product(net->ctx, dx, dim, nn_rows(net->logits, outputs), nn_transposed(head_matrix(net, w, head)),
                rows, dim, outputs, false);
    if (net->config->tied)
        lnt_product(net->ctx, at(net, g, LNT_PARAM_EMBED), dim,
                    nn_transposed(nn_rows(net->logits, outputs)), nn_rows(x, dim), outputs, dim,
                    rows, true);
    else
        lnt_product(net->ctx, at(net, g, head), outputs, nn_transposed(nn_rows(x, dim)),
                    nn_rows(net->logits, outputs), dim, outputs, rows, true);
    real *bias = at(net, g, head + 1);
    if (bias) lnt_columns_sum(net->ctx, bias, net->logits, rows, outputs);
}

/* From net->logits to dx, of what the heads read. */
static void heads_back(lnt_network *net, const real *w, real *g, real *dx, size_t rows)
{
    const size_t dim = (size_t)net->config->dim, count = rows * (size_t)net->config->outputs;
    for (size_t i = 0; net->slopes && i < count; i++) net->logits[i] *= net->slopes[i];
    for (size_t i = 0; net->second && i < count; i++) net->logits[i] /= 2;
    logits_back(net, w, g, LNT_PARAM_HEAD, head_input(net), dx, rows);
    if (net->second)
        logits_back(net, w, g, LNT_PARAM_HEAD2, net->pooled + rows * dim, dx + rows * dim, rows);
}

/* From net->dpooled, in its place. */
static void unbend(lnt_network *net, const real *w, real *g, size_t rows)
{
    const lnt_dense layer = pooler_layer(net, w, g);
    real *bent = net->pooled; /* its gradient takes its place */
    for (size_t i = 0; i < rows * layer.in; i++) bent[i] = net->dpooled[i] * (1 - bent[i] * bent[i]);
    lnt_dense_backward(net->ctx, &layer, net->unbent, bent, net->dpooled, rows);
}

void lnt_network_head_back(lnt_network *net, const real *w, real *g, const lnt_batch *in)
{
    const size_t rows = lnt_network_rows(net, in);
    const bool pooled = head_input(net) == net->pooled;
    real *dx = pooled ? net->dpooled : net->grad;
    if (net->config->output == LNT_OUTPUT_VECTOR) vectors_back(net, dx, rows);
    else heads_back(net, w, g, dx, rows);
    if (net->unbent) unbend(net, w, g, rows);
    if (pooled) spread(net, in);
}
