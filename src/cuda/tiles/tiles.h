/* cuda/tiles/tiles.h - Taylor attention by tiles of monomials, its direct form, and softmax: launches. */
#ifndef LNT_CUDA_TILES_H
#define LNT_CUDA_TILES_H

#include "cuda/common/common.h"
#include "cuda/tiles/tiles_basis.h"

namespace lnt
{

/* ---- tiles_pack.cu --------------------------------------------------------------------------- */

/* Keys and values in blocks of 32 tokens, bf16; see tiles_pack.cu for the order in a block.  Tokens past
 * the length are 0. */
struct tiles_pack_args {
    view k, v;
    char *rows, *keys, *values; /* rows for states, keys for reading one by one; NULL: not wanted */
    int64_t length, blocks;     /* tokens; 32-token blocks of the arrays */
    const int64_t *lengths;     /* [B] on the device, or NULL */
    int batch, heads;           /* kv heads */
    int dim, dim_value, dim8, value8;
    int normalize;       /* k / |k| */
    int grouped;         /* rows have their tokens in the order of the values */
    const float *center; /* [B heads][8 value8]: taken from the values; NULL: nothing */
    /* Queries in place of keys, for the backward pass. */
    const float *temperature; /* [heads], times what is normalised; NULL: 1 */
    int aligned;              /* row i stands at the place of the last key it sees */
    int64_t length_keys;
    const int64_t *lengths_keys;
};
cudaError_t tiles_pack_run(const tiles_pack_args &a, cudaStream_t stream);

/* ---- tiles_center.cu ------------------------------------------------------------------------- */

/* Of each head's values the mean of every column, where that is more than chance, rounded so that
 * what is left of a value is mostly exact in bf16; else 0. */
struct tiles_center_args {
    view v;
    int64_t length;
    const int64_t *lengths; /* [B] on the device, or NULL */
    int batch, heads;       /* kv heads */
    int dim_value, value8;
    float *parts;  /* center_parts() of them */
    float *center; /* [B heads][8 value8] */
};
int64_t tiles_center_parts(int64_t heads, int64_t length, int value8); /* heads: B K */
cudaError_t tiles_center_run(const tiles_center_args &a, cudaStream_t stream);

/* ---- tiles_sum.cu ---------------------------------------------------------------------------- */

struct tiles_sum_args {
    const char *rows, *values; /* packed */
    int64_t blocks;            /* of 32 tokens in the arrays, and in a segment */
    int64_t segment_blocks;
    int segments, heads;    /* heads: B K */
    const tile_task *tasks; /* made with tiles_sum_blocks(width) */
    int task_count, tile_count, dim8, width;
    float *sums; /* [B K][segments][tiles][N8][lane][4] */
};
int tiles_sum_blocks(int width);
cudaError_t tiles_sum_run(const tiles_sum_args &a, cudaStream_t stream);

/* ---- tiles_scan.cu --------------------------------------------------------------------------- */

struct tiles_scan_args {
    const float *sums; /* of tiles_sum.cu, segments 0 ... segments - 1 */
    int segments;
    int prefixes; /* how many exclusive sums are kept; 1 and total: the sum of all */
    int total;
    int heads, tile_count, width, dim8;
    const float *factor; /* [tiles * 16] */
    char *state;         /* [B K][prefixes][tiles - 1][N8][2][8][8] bf16, times factor: product.cuh */
    float *mean;         /* [B K][prefixes][W + 8]: degree 0, times its factor */
    /* The library's states, S [D,m] and z [D] for each of B K; NULL: none. */
    const int32_t *place;
    int64_t count;
    int dim_value;
    int reverse; /* the sums after each segment; of `group` heads of sums side by side together */
    int group;
    int fold; /* sums of 2 W + 8 columns: the first W of the state are sums of two W apart */
    const float *s_in, *z_in;
    float *s_out, *z_out;
};
cudaError_t tiles_scan_run(const tiles_scan_args &a, cudaStream_t stream);

/* ---- tiles_answer.cu ------------------------------------------------------------------------- */

enum tiles_mode { TILES_TAYLOR = 0, TILES_TAYLOR_ANY = 1, TILES_SOFTMAX = 2 };

struct tiles_answer_args : attention_args {
    int dim8;
    const char *keys, *values; /* packed; blocks of 32 tokens */
    int64_t blocks;
    int mode;
    int direct;         /* keys past the prefix are read one by one */
    int prefixes;       /* 0: no state */
    int first_is_empty; /* prefix 0 holds nothing */
    int remembers;      /* a state came before the first key, which a row without keys reads too */
    const char *state;
    const float *mean;
    const float *center; /* what was taken from the values, tiles_pack_args; NULL: nothing */
    int tile_count;
    float *inverse; /* [B H][length_q]: 1 / denominator, 0 where there is none; NULL: not wanted */
};
struct tiles_units {
    int count;
    uint32_t list[MOST_UNITS];
};
cudaError_t tiles_answer_run(const tiles_answer_args &a, const tiles_units &units, cudaStream_t stream);

/* ---- tiles_backward_rows.cu ------------------------------------------------------------------ */

/* What every query gives the backward pass, at its place among the packed tokens: 1 / den and
 * h = -(dout.y) / den; softmax: log2 of the sum of e^score, and -(dout.y).  Places without a query:
 * 0 and 0, softmax infinity and 0. */
struct tiles_scaled_args {
    const float2 *rows; /* [B H][blocks * 32] */
    const char *douts;  /* packed values */
    char *scaled;       /* likewise: dout / den, row W = h */
    int64_t blocks;
    int heads, width; /* heads: B H */
    int fold;         /* as two bf16 each, 2 W rows, row 2 W = h */
};
cudaError_t tiles_scaled_run(const tiles_scaled_args &a, cudaStream_t stream);

/* The matrices of tiles_basis_slopes(), of z as a state's last column: tiles as those of a state, without
 * the last column, of each number the first of two bf16, then tiles of the second; at the end the
 * numbers that x does not multiply, f32. */
struct tiles_slopes_args {
    const char *state; /* of tiles_scan_args */
    const uint32_t *entries;
    char *slopes;
    int states, width, tiles; /* tiles: tiles_slope_count() */
    int64_t numbers;          /* bf16 of a state */
    int left;                 /* from the first part of z to the second */
    const float *linear;      /* degree 1 in f32, `linear_numbers` a state; NULL: in the state */
    int linear_numbers;
};
int64_t tiles_slopes_bytes(int width, int tiles); /* of a state */
cudaError_t tiles_slopes_run(const tiles_slopes_args &a, cudaStream_t stream);

/* ---- tiles_backward.cu, tiles_backward.cuh -------------------------------------------- */

enum backward_side {
    /* What tiles_scaled_args says of rows, from all keys one by one; with states, of the keys of the segment,
     * the sums of w and of w dout.v. */
    BACKWARD_ROWS = 0,
    BACKWARD_QUERIES = 1, /* dq */
    BACKWARD_KEYS = 2     /* dk, dv */
};

/* With states queries meet the keys of their segment once, and only then know den and h; where two
 * sums of gradients are too many for the registers, BACKWARD_ROWS comes first. */
__host__ __device__ constexpr bool backward_twice(int width) { return width > 4; }

/* The side whose gradients are made, its tokens in packed order, against the other, which is read
 * as a state and token by token.  Of attention_args what the kernels read, in this order: with another, the
 * compiler gives pairs_backward_kernel other registers, and queries had other bits from run to run
 * (docs/log/gpu-tuning.md). */
struct tiles_backward_args {
    int mode, causal;                  /* tiles_mode */
    const char *own_keys, *own_values; /* packed: q and dout, or k and v */
    const char *other_keys, *other_values;
    int64_t own_blocks, other_blocks; /* of 32 tokens in the arrays, a head */
    int64_t length_q, length_k;
    const int64_t *lengths_q, *lengths_k; /* [B] on the device, or NULL */
    int batch, heads, kv_heads;
    int dim, dim_value, dim8, width;
    int output_norm;
    int direct; /* the other side is read token by token, causal up to the segment's end */
    int64_t segment;
    int prefixes, edge; /* 0: no state; edge: the segment whose state is empty, or -1 */
    const char *state;
    const float *mean;
    const float *linear; /* pairs_backward.cu: degree 1 of pairs_args, whose states `state` then are */
    const char *slopes;  /* of tiles_slopes_args */
    int64_t slope_bytes;
    int slope_tiles, tile_count, terms;
    float coefficient[32];
    float2 *rows; /* with states, queries turn sums into what tiles_scaled_args says of rows */
    view dx, dv;
    float *gradient; /* [B heads][length][dim] in place of dx, or NULL */
};
cudaError_t tiles_backward_run(const tiles_backward_args &a, int side, const tiles_units &units,
                               cudaStream_t stream);

} // namespace lnt
#endif
