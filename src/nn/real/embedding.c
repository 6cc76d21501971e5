/* nn/real/embedding.c - y[i] = table[token i];  dtable[token i] += dy[i], in the order of the tokens.
 *
 * O(n width).  In backward each thread has its own columns, so no two write to one place. */
#include "nn/embedding.h"

#include <assert.h>
#include <string.h>

void lnt_embedding_forward(const lnt_ctx *ctx, const int32_t *tokens, const real *table, real *y,
                           size_t n, size_t width)
{
    const int threads = lnt_threads_for(ctx, (double)n * (double)width);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)n; i++)
        memcpy(y + (size_t)i * width, table + (size_t)tokens[i] * width, width * sizeof *y);
}

void lnt_embedding_unpack(const lnt_ctx *ctx, const int32_t *tokens, const lnt_weight *table, real *y,
                          size_t n)
{
    assert(sizeof *y == sizeof(float));
    const int threads = lnt_threads_for(ctx, (double)n * (double)table->in);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)n; i++)
        lnt_weight_row(table, (size_t)tokens[i], (float *)(void *)(y + (size_t)i * table->in));
}

void lnt_embedding_backward(const lnt_ctx *ctx, const int32_t *tokens, const real *dy, real *dtable,
                            size_t n, size_t width)
{
    const int64_t pieces = nn_pieces(width, LNT_NN_COLUMNS);
    const int threads = lnt_threads_for(ctx, (double)n * (double)width);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t piece = 0; piece < pieces; piece++) {
        const size_t c0 = (size_t)piece * LNT_NN_COLUMNS;
        const size_t count = nn_least(width - c0, LNT_NN_COLUMNS);
        for (size_t i = 0; i < n; i++) {
            real *to = dtable + (size_t)tokens[i] * width + c0;
            for (size_t c = 0; c < count; c++) to[c] += dy[i * width + c0 + c];
        }
    }
}
