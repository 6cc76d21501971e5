/* bench/weights.c - products with packed weights, format by format, on one thread: of one row, against the
 * speed at which memory is read, and of many, against the peak of multiply-adds.  Each is checked.  Time is
 * the thread's own, the best of several runs, so that other programs disturb it little.
 *
 *     cc -O3 -march=native -std=c11 -D_GNU_SOURCE -fopenmp -Iinclude -Isrc bench/weights.c -o build/weights \
 *         build/liblinnet-model.a build/liblinnet.a -lm -lz -ldl && LINNET_ISA=vnni build/weights */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nn/tiles.h"

enum { RUNS = 9, IN = 768, TALL = 100000, OUT = 1536, MANY = 1024 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *room(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!memory) exit(fprintf(stderr, "no room for %zu bytes\n", bytes));
    memset(memory, 0, bytes);
    return memory;
}

/* GB/s of plain reading. */
static double measured_read(void)
{
    const size_t count = (size_t)1 << 25;
    uint32_t *memory = room(count * sizeof *memory), sum[64] = { 0 }, all = 0;
    double least = HUGE_VAL;
    for (size_t i = 0; i < count; i++) memory[i] = (uint32_t)i;
    for (int run = 0; run < RUNS; run++) {
        const double begin = now();
        for (size_t i = 0; i < count; i += 64)
            for (size_t j = 0; j < 64; j++) sum[j] += memory[i + j];
        least = fmin(least, now() - begin);
    }
    for (int j = 0; j < 64; j++) all += sum[j];
    free(memory);
    return 4e-9 * (double)count / least + (all == 1 ? 1e-9 : 0);
}

static double measured_peak(const lnt_ctx *ctx)
{
    const lnt_kernels_f32 *ker = lnt_kernels_get_f32(ctx->isa);
    const size_t rounds = 1000000;
    double least = HUGE_VAL;
    for (int run = 0; run < RUNS; run++) {
        const double begin = now();
        volatile float sum = ker->peak_fma(rounds, 1e-30f);
        (void)sum;
        least = fmin(least, now() - begin);
    }
    return 1e-9 * ker->fma_flops * (double)rounds / least;
}

/* GFLOP/s of tiles of bf16; 0: there are none. */
static double measured_tiles(const lnt_ctx *ctx)
{
    const lnt_tile_kernels *ker = lnt_tile_kernels_get(ctx->isa);
    double most = 0;
    for (int run = 0; run < RUNS && ker; run++) {
        const double begin = now(), products = ker->peak(100000);
        most = fmax(most, 2e-9 * products / (now() - begin));
    }
    return most;
}

/* Bytes whose halves and floats are all ordinary numbers. */
static lnt_weight random_weight(lnt_ctx *ctx, lnt_storage storage, size_t rows)
{
    const size_t bytes = rows * IN / lnt_storage_numbers(storage) * lnt_storage_bytes(storage);
    unsigned char *data = room(bytes);
    lnt_weight w;
    for (size_t i = 0; i < bytes; i++) data[i] = (unsigned char)(0x20 + (i * 2654435761u >> 13) % 0x18);
    const lnt_weight_part part = { storage, data, rows, NULL, false };
    if (lnt_weight_open(ctx, "the weights", &part, 1, IN, NULL, &w))
        exit(fprintf(stderr, "%s\n", lnt_ctx_error(ctx)));
    free(data);
    return w;
}

/* The largest error of a row's first numbers, in parts of what its products are in size. */
static double worst(const lnt_weight *w, const float *x, const float *y)
{
    float row[IN];
    double most = 0;
    for (size_t r = 0; r < 100; r++) {
        double sum = 0, size = 0;
        lnt_weight_row(w, r, row);
        for (size_t k = 0; k < IN; k++) {
            sum += (double)x[k] * (double)row[k];
            size += fabs((double)x[k] * (double)row[k]);
        }
        most = fmax(most, fabs((double)y[r] - sum) / size);
    }
    return most;
}

/* Seconds of one product of m rows. */
static double seconds(const lnt_ctx *ctx, const lnt_weight *w, const float *x, float *y, size_t m)
{
    const lnt_matrix packed = { .packed = w };
    double least = HUGE_VAL;
    for (int run = 0; run < RUNS; run++) {
        const double begin = now();
        lnt_product_f32(ctx, y, w->out, nn_rows(x, IN), packed, m, w->out, IN, false);
        least = fmin(least, now() - begin);
    }
    const double error = worst(w, x, y);
    if (!(error < 1e-4)) exit(fprintf(stderr, "wrong by %g\n", error));
    return least;
}

int main(void)
{
    const lnt_ctx_options options = { .size = sizeof options, .threads = 1 };
    lnt_ctx *ctx;
    if (lnt_ctx_create(&options, &ctx)) return 1;
    const double read = measured_read(), peak = measured_peak(ctx), tiles = measured_tiles(ctx);
    float *x = room(MANY * IN * sizeof *x), *y = room((size_t)MANY * OUT * sizeof *y);
    for (size_t i = 0; i < MANY * IN; i++) x[i] = sinf((float)i);
    printf("%s: reads %.1f GB/s, multiplies and adds %.0f GFLOP/s\n", lnt_ctx_isa(ctx), read, peak);
    if (tiles > 0) printf("tiles of bf16 multiply and add %.0f GFLOP/s\n", tiles);
    printf("format  one row: GB/s  of reading  %d rows: GFLOP/s  of the peak\n", MANY);
    for (int storage = 0; storage < LNT_STORAGES; storage++) {
        lnt_weight tall = random_weight(ctx, (lnt_storage)storage, TALL);
        const double speed = 1e-9 * (double)tall.bytes / seconds(ctx, &tall, x, y, 1);
        lnt_weight_close(ctx, &tall);
        lnt_weight wide = random_weight(ctx, (lnt_storage)storage, OUT);
        const double flops = 2e-9 * MANY * IN * OUT / seconds(ctx, &wide, x, y, MANY);
        lnt_weight_close(ctx, &wide);
        printf("%-6s  %13.1f  %10.2f  %18.0f  %11.2f\n", lnt_storage_name((lnt_storage)storage), speed,
               speed / read, flops, flops / peak);
    }
    free(x), free(y);
    lnt_ctx_destroy(ctx);
    return 0;
}
