/* nn/tiles.c - c[m,n] (+)= a[m,k] b[k,n] by tiles of bf16 numbers.
 *
 * c is cut into blocks.  A thread packs what its block needs of b, a slab of k at a time, which stays in the
 * second cache; then a panel of 32 rows of a, which stays in the first while all of b passes by.  To pack a
 * number costs as much as LEFT or RIGHT multiply-adds. */
#include "nn/tiles.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/threads.h"

enum {
    SIDE = LNT_TILES_SIDE,
    COLUMNS = 512, /* of c in a block, at most */
    DEPTH = 288,   /* of k in a slab, at most, of two planes; twice that of one */
    LEFT = 48,
    RIGHT = 96,
    TURNS = 4, /* blocks that a thread takes, at most */
    /* Rows that pay for packing weights of one plane, and of two (docs/log/tuning.md). */
    LEAST_OF_ONE = 32,
    LEAST_OF_TWO = 64
};

typedef struct job {
    const lnt_ctx *ctx;
    const lnt_tile_kernels *ker;
    float *c;
    size_t ldc;
    lnt_matrix_f32 a, b;
    size_t m, n, k;
    bool accumulate;
    int left, right;             /* planes */
    size_t rows, columns, depth; /* of a block */
} job;

/* What a thread packs into. */
typedef struct room {
    _Alignas(LNT_ALIGN) uint16_t right[2 * DEPTH * COLUMNS];
    _Alignas(LNT_ALIGN) uint16_t left[2 * DEPTH * SIDE];
    _Alignas(LNT_ALIGN) float some[2 * DEPTH * SIDE];
} room;

static size_t divided_up(size_t count, size_t by) { return (count + by - 1) / by; }

/* Columns j0 .. of a slab of b, at most SIDE of them, others 0. */
static void pack_right(const job *t, room *own, uint16_t *to, size_t k0, size_t depth, size_t j0,
                       size_t columns)
{
    const kernels *ker = nn_kernels(t->ctx);
    const float *from = t->b.packed ? NULL : t->b.at + k0 * t->b.row + j0 * t->b.col;
    size_t ld = SIDE;
    if (!from) {
        if (columns < SIDE) memset(own->some, 0, depth * SIDE * sizeof *own->some);
        lnt_weight_unpack(t->ctx, t->b.packed, j0, columns, k0, depth, own->some, SIDE);
        from = own->some;
    } else if (t->b.col != 1) {
        ker->load_columns(own->some, SIDE, from, LNT_F32, (int64_t)t->b.col, 1, columns, depth, 1);
        from = own->some;
    } else if (columns < SIDE) {
        ker->load_rows(own->some, SIDE, from, LNT_F32, (int64_t)t->b.row, 1, depth, columns, 1);
        from = own->some;
    } else
        ld = t->b.row;
    t->ker->pack_right(to, from, ld, depth, t->right);
}

/* Rows i0 .. of a slab of a, at most SIDE of them. */
static void pack_left(const job *t, room *own, size_t i0, size_t rows, size_t k0, size_t depth)
{
    const float *from = t->a.at + i0 * t->a.row + k0 * t->a.col;
    size_t ld = t->a.row;
    if (t->a.col != 1) {
        ld = lnt_round_up(depth, SIDE);
        nn_kernels(t->ctx)->load_columns(own->some, ld, from, LNT_F32, (int64_t)t->a.col, 1, depth, rows, 1);
        from = own->some;
    }
    t->ker->pack_left(own->left, from, ld, rows, depth, t->left);
}

/* c [rows,columns] (+)= the panel times 32 columns of the slab, by way of a copy where it is less. */
static void multiply_tile(const job *t, float *c, const room *own, const uint16_t *right, size_t rows,
                          size_t columns, size_t steps, bool accumulate)
{
    _Alignas(LNT_ALIGN) float edge[SIDE * SIDE];
    if (rows == SIDE && columns == SIDE) {
        t->ker->multiply(c, t->ldc, own->left, right, steps, t->left, t->right, accumulate);
        return;
    }
    if (accumulate) {
        memset(edge, 0, sizeof edge);
        for (size_t i = 0; i < rows; i++) memcpy(edge + i * SIDE, c + i * t->ldc, columns * sizeof *c);
    }
    t->ker->multiply(edge, SIDE, own->left, right, steps, t->left, t->right, accumulate);
    for (size_t i = 0; i < rows; i++) memcpy(c + i * t->ldc, edge + i * SIDE, columns * sizeof *c);
}

static void block(const job *t, room *own, size_t i0, size_t j0)
{
    const size_t rows = nn_least(t->m - i0, t->rows), columns = nn_least(t->n - j0, t->columns);
    for (size_t k0 = 0; k0 < t->k; k0 += t->depth) {
        const size_t depth = nn_least(t->k - k0, t->depth), steps = divided_up(depth, SIDE);
        const size_t stripe = steps * (size_t)t->right * LNT_TILES_PLANE;
        for (size_t j = 0; j < columns; j += SIDE)
            pack_right(t, own, own->right + j / SIDE * stripe, k0, depth, j0 + j,
                       nn_least(columns - j, SIDE));
        for (size_t i = 0; i < rows; i += SIDE) {
            const size_t high = nn_least(rows - i, SIDE);
            pack_left(t, own, i0 + i, high, k0, depth);
            for (size_t j = 0; j < columns; j += SIDE)
                multiply_tile(t, t->c + (i0 + i) * t->ldc + j0 + j, own, own->right + j / SIDE * stripe, high,
                              nn_least(columns - j, SIDE), steps, t->accumulate || k0 > 0);
        }
    }
}

/* Of blocks that give each thread 1 to TURNS of them, tall to wide, those with which the thread that has most
 * to do is done first. */
static void choose_blocks(job *t, size_t threads)
{
    double least = HUGE_VAL;
    for (size_t units = threads; units <= TURNS * threads; units += threads)
        for (size_t across = divided_up(t->n, COLUMNS), last = across * units; across <= last; across *= 2) {
            const size_t rows = lnt_round_up(divided_up(t->m, divided_up(units, across)), SIDE);
            const size_t columns = lnt_round_up(divided_up(t->n, across), SIDE);
            const size_t blocks = divided_up(t->m, rows) * divided_up(t->n, columns);
            const double cost = (double)divided_up(blocks, threads) *
                                ((double)(rows * columns) + (double)(LEFT * rows + RIGHT * columns));
            if (!(cost < least)) continue;
            least = cost;
            t->rows = rows;
            t->columns = columns;
        }
}

/* Whether one plane has all that the weights have. */
static bool is_bf16(const lnt_weight *w)
{
    bool all = w != NULL;
    for (size_t p = 0; all && p < w->part_count; p++) all = w->parts[p].form.kind == LNT_FORM_BF16;
    return all;
}

size_t lnt_tiles_least(const lnt_weight *w) { return is_bf16(w) ? LEAST_OF_ONE : LEAST_OF_TWO; }

void lnt_tiles_multiply(const lnt_ctx *ctx, const lnt_tile_kernels *ker, float *c, size_t ldc,
                        lnt_matrix_f32 a, lnt_matrix_f32 b, size_t m, size_t n, size_t k, bool accumulate,
                        bool exact)
{
    job t = { .ctx = ctx, .ker = ker, .c = c, .ldc = ldc, .a = a, .b = b, .m = m, .n = n, .k = k,
              .accumulate = accumulate, .left = exact ? 2 : 1,
              .right = exact && !is_bf16(b.packed) ? 2 : 1 };
    assert(m > 0 && n > 0);
    if (k == 0) {
        for (size_t i = 0; !accumulate && i < m; i++) memset(c + i * ldc, 0, n * sizeof *c);
        return;
    }
    t.depth = lnt_round_up(divided_up(k, divided_up(k, t.left == 1 ? 2 * DEPTH : DEPTH)), SIDE);
    const int threads = lnt_threads_for(ctx, 2 * (double)m * (double)n * (double)k);
    choose_blocks(&t, (size_t)threads);
    const int64_t down = nn_pieces(m, t.rows), across = nn_pieces(n, t.columns);
#pragma omp parallel num_threads(threads)
    {
        room own;
        ker->begin();
#pragma omp for schedule(dynamic)
        for (int64_t unit = 0; unit < down * across; unit++)
            block(&t, &own, (size_t)(unit / across) * t.rows, (size_t)(unit % across) * t.columns);
        ker->end();
    }
}
