/* nn/real/dropout.c - y = x m / (1 - rate), m 0 or 1.
 *
 * m comes from a counter-based generator, number by number, so backward, a resumed run and any number of
 * threads can draw it again without storing it. */
#include "nn/dropout.h"

void lnt_dropout(const lnt_ctx *ctx, lnt_rng rng, double rate, real *x, size_t count)
{
    if (rate <= 0) return;
    const kernels *ker = nn_kernels(ctx);
    const real keep = (real)(1 / (1 - rate));
    const uint32_t below = (uint32_t)(rate * 0x1p32);
    const int threads = lnt_threads_for(ctx, 20 * (double)count);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t piece = 0; piece < nn_pieces(count, LNT_NN_BLOCK); piece++) {
        uint32_t words[LNT_NN_BLOCK];
        const size_t first = (size_t)piece * LNT_NN_BLOCK, most = nn_least(count - first, LNT_NN_BLOCK);
        ker->random_words(words, rng.key, rng.domain, first / 4, (most + 3) / 4);
        ker->drop(x + first, words, below, keep, most);
    }
}

void lnt_drop_path(const lnt_ctx *ctx, lnt_rng rng, double rate, real *x, size_t batch, size_t size)
{
    if (rate <= 0) return;
    const real keep = (real)(1 / (1 - rate));
    const int threads = lnt_threads_for(ctx, (double)batch * (double)size);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t b = 0; b < (int64_t)batch; b++) {
        const real factor = lnt_rng_uniform(rng, (uint64_t)b) < rate ? 0 : keep;
        real *row = x + (size_t)b * size;
        for (size_t i = 0; i < size; i++) row[i] = factor > 0 ? row[i] * factor : 0;
    }
}
