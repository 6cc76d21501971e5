/* cuda/kernels.cuh - the launches, one file each; plan.cu strings them together.
 *
 * Shapes: B batch, H heads, K kv heads, n tokens, d and m the widths of keys and values, D and M
 * those rounded up to 8, to W = 8 X (a width that is compiled), N8 = X + 1 column tiles of 8: the
 * values, and a last one whose first column is 1, so that denominators come with the numerators. */
#ifndef LNT_CUDA_KERNELS_CUH
#define LNT_CUDA_KERNELS_CUH

#include "cuda/basis.h"
#include "cuda/device.cuh"
#include "cuda/orbit.h"
#include "cuda/pairs.h"

namespace lnt
{

/* The widths compiled, in blocks of 8. */
inline int width_for(int dim, int dim_value)
{
    const int most = dim > dim_value ? dim : dim_value;
    for (int x = 1; x <= 16; x *= 2)
        if (most <= 8 * x) return x;
    return 0;
}

/* ---- bulk.cu --------------------------------------------------------------------------------- */

/* Whether the device runs what is compiled for warpgroups alone: one of 9.0 may have been given code
 * for others, where the launches that need them do nothing. */
bool warpgroups_are_compiled();

/* ---- pack.cu --------------------------------------------------------------------------------- */

/* Keys and values in blocks of 32 tokens, bf16; see pack.cu for the order in a block.  Tokens past
 * the length are 0. */
struct pack_args {
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
cudaError_t pack_run(const pack_args &a, cudaStream_t stream);

/* ---- center.cu ------------------------------------------------------------------------------- */

/* Of each head's values the mean of every column, where that is more than chance, rounded so that
 * what is left of a value is mostly exact in bf16; else 0. */
struct center_args {
    view v;
    int64_t length;
    const int64_t *lengths; /* [B] on the device, or NULL */
    int batch, heads;       /* kv heads */
    int dim_value, value8;
    float *parts;  /* center_parts() of them */
    float *center; /* [B heads][8 value8] */
};
int64_t center_parts(int64_t heads, int64_t length, int value8); /* heads: B K */
cudaError_t center_run(const center_args &a, cudaStream_t stream);

/* ---- taylor_build.cu ------------------------------------------------------------------------- */

struct build_args {
    const char *rows, *values; /* packed */
    int64_t blocks;            /* of 32 tokens in the arrays, and in a segment */
    int64_t segment_blocks;
    int segments, heads;     /* heads: B K */
    const build_task *tasks; /* made with build_blocks(width) */
    int task_count, tile_count, dim8, width;
    float *sums; /* [B K][segments][tiles][N8][lane][4] */
};
int build_blocks(int width);
cudaError_t build_run(const build_args &a, cudaStream_t stream);

/* ---- taylor_scan.cu -------------------------------------------------------------------------- */

struct scan_args {
    const float *sums; /* of build, segments 0 ... segments - 1 */
    int segments;
    int prefixes; /* how many exclusive sums are kept; 1 and total: the sum of all */
    int total;
    int heads, tile_count, width, dim8;
    const float *factor; /* [tiles * 16] */
    char *state; /* [B K][prefixes][tiles - 1][N8][2][8][8] bf16, times factor: product.cuh */
    float *mean; /* [B K][prefixes][W + 8]: degree 0, times its factor */
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
cudaError_t scan_run(const scan_args &a, cudaStream_t stream);

/* ---- read.cu --------------------------------------------------------------------------------- */

enum read_mode { READ_TAYLOR = 0, READ_TAYLOR_ANY = 1, READ_SOFTMAX = 2 };

struct read_args {
    view q, out;
    int64_t length_q, length_k;
    const int64_t *lengths_q, *lengths_k; /* [B] on the device, or NULL */
    int batch, heads, kv_heads;
    int dim, dim_value, dim8, width;
    const char *keys, *values; /* packed; blocks of 32 tokens */
    int64_t blocks;
    int mode, causal;
    int direct;         /* keys past the prefix are read one by one */
    int64_t segment;    /* tokens between prefixes */
    int prefixes;       /* 0: no state */
    int first_is_empty; /* prefix 0 holds nothing */
    int remembers;      /* a state came before the first key, which a row without keys reads too */
    const char *state;
    const float *mean;
    const float *center; /* what was taken from the values, pack_args; NULL: nothing */
    int tile_count, terms;
    float coefficient[32]; /* a_p scale^p; softmax: [0] = scale */
    int normalize, output_norm;
    const float *temperature; /* [H] on the device, or NULL */
    float eps;
    float *inverse; /* [B H][length_q]: 1 / denominator, 0 where there is none; NULL: not wanted */
    unsigned long long *nonpositive;
};
struct read_units {
    int count;
    uint32_t list[MOST_UNITS];
};
cudaError_t read_run(const read_args &a, const read_units &units, cudaStream_t stream);

/* ---- pair_build.cu, pair_read.cu ------------------------------------------------------------- */

/* The states before all segments but the first, from keys and values packed with `grouped`. */
struct pair_args {
    const char *rows, *values;
    int64_t blocks, segment_blocks; /* of 32 tokens in the arrays, and in a segment */
    int segments;                   /* that are summed */
    int prefixes;                   /* states that are kept */
    int heads, kv_heads;            /* heads: B K */
    int64_t length;
    const int64_t *lengths; /* [B] on the device, or NULL */
    const float *factor;    /* pair_tables */
    const int32_t *place;
    float constant; /* a_0 */
    char *state;    /* [B K][prefixes] PAIR_STATE_BYTES: [part][tile], product.cuh */
    float *linear;  /* [B K][prefixes][part][136] */
    float *mean;    /* [B K][prefixes][40]: degree 0 */
    char *aside;    /* [B K][part] PAIR_ASIDE_BYTES */
    int64_t count;
    int dim_value;
    const float *s_in, *z_in; /* [B K][D][m], [B K][D]; NULL: none */
    float *s_out, *z_out;
    /* Queries in place of keys, for the backward pass: the states after each segment, of values
     * times scale[].x with scale[].y in place of the ones.  Or NULL. */
    const float2 *scale; /* [B K][blocks * 32] */
};
cudaError_t pair_build_run(const pair_args &a, cudaStream_t stream);
cudaError_t pair_read_run(const read_args &a, const float *linear, int processors,
                          cudaStream_t stream);

/* ---- orbit_sum.cu, orbit_read.cu, orbit_pass.cu ---------------------------------------------- */

/* Taylor attention of few monomials (orbit.h), from q, k, v as they are to y. */
struct orbit_args {
    view q, k, v, out;
    int64_t length_q, length_k;
    const int64_t *lengths_q, *lengths_k; /* [B] on the device, or NULL */
    int batch, heads, kv_heads;
    int dim, dim_value, width, terms; /* width: orbit_width() */
    int causal, normalize, output_norm;
    float coefficient[4];     /* a_p scale^p */
    const float *temperature; /* [H] on the device, or NULL */
    int64_t segment;          /* tokens, a multiple of 128 */
    int segments;             /* of the keys */
    int summed;               /* of them: those that a state after them is wanted of */
    int walk;                 /* segments that orbit_pass.cu or orbit_relay.cu walk through */
    int relay;                /* by orbit_relay.cu */
    /* [B K][segments][orbit][block][column of (v, 1)][8], then the state before each; and [B
     * K][...] after the last. */
    float *sums, *total;
    const int32_t *place;
    int64_t count;
    const float *s_in, *z_in; /* [B K][D][m], [B K][D]; NULL: none */
    float *s_out, *z_out;
    unsigned long long *nonpositive;
};
int64_t orbit_numbers(int width, int terms); /* floats of a state */
bool orbit_is_alone(int width, int terms);   /* one warp holds all of it */
cudaError_t orbit_sum_run(const orbit_args &a, cudaStream_t stream);
cudaError_t orbit_read_run(const orbit_args &a, cudaStream_t stream);
cudaError_t orbit_pass_run(const orbit_args &a, cudaStream_t stream);  /* causal, width 1 */
cudaError_t orbit_relay_run(const orbit_args &a, cudaStream_t stream); /* causal, width 2, P = 4 */

/* ---- linear.cu ------------------------------------------------------------------------------- */

struct linear_args {
    view q, k, v, out;
    int64_t length_q, length_k;
    const int64_t *lengths_q, *lengths_k; /* [B] on the device, or NULL */
    int batch, heads, kv_heads;
    int dim, dim_value, width;
    int map, causal;
    float eps;
    const float *decay; /* [K] or NULL */
    int64_t segment;    /* tokens, a multiple of 64 */
    int segments;       /* of the keys */
    float *sums;        /* [B K][segments][W][W + 8], column W is z; then the state before each */
    float *total;       /* [B K][W][W + 8]: after the last */
    const float *s_in, *z_in; /* [B K][d][m], [B K][d]; NULL: none */
    float *s_out, *z_out;
    unsigned long long *nonpositive;
};
cudaError_t linear_run(const linear_args &a, cudaStream_t stream);

/* ---- linear_pass.cu -------------------------------------------------------------------------- */

/* The same in one pass, causal and without decay, d and m up to 64, where the device has what it
 * takes.  blocks: multiprocessors.  False: the layout of the tensors is not one that it reads;
 * nothing was done. */
size_t linear_pass_workspace(int64_t heads);
bool linear_pass_run(const linear_args &l, int blocks, char *workspace, cudaStream_t stream,
                     cudaError_t *error);

/* ---- linear_backward.cu ---------------------------------------------------------------------- */

/* Of linear_args, out, s_out and z_out are not used. */
struct linear_back_args : linear_args {
    view dout, dq, dk, dv;
    int query_segments;   /* causal: as many as segments */
    float *gradient_sums; /* [B K][query_segments] as sums; then the state after each.  Here, in
                           * sums and totals, a state has W + 1 rows: linear_backward.cuh */
    float *gradient_total;
    float2 *rows;                 /* [B H][length_q]: 1 / den, -(dout.n) / den^2 */
    const float *ds_out, *dz_out; /* gradient of the state after the last key; NULL: none */
    float *ds_in, *dz_in;         /* of that before the first */
};
cudaError_t linear_back_run(const linear_back_args &a, cudaStream_t stream);

/* ---- linear_gradient.cu ---------------------------------------------------------------------- */

/* The same where it is causal without decay, states or lengths, with as many keys as queries and a
 * key head for each, d and m up to 64, and the device has what it takes.  False: it is not so;
 * nothing was done. */
size_t linear_gradient_workspace(int64_t heads, int64_t length); /* heads: B H */
bool linear_gradient_run(const linear_back_args &a, char *workspace, cudaStream_t stream,
                         cudaError_t *error);

/* ---- backward.cu ----------------------------------------------------------------------------- */

/* Rows past the lengths, and queries that see no key, of a gradient [B,heads,length,dim]: 0. */
struct gaps_args {
    view x;
    int64_t length, dim;
    int heads, batch;
    const int64_t *lengths, *lengths_k; /* lengths_k: causal queries, else NULL */
};
cudaError_t gaps_run(const gaps_args &a, cudaStream_t stream);

/* ---- back_rows.cu ---------------------------------------------------------------------------- */

/* What every query gives the backward pass, at its place among the packed tokens: 1 / den and
 * h = -(dout.y) / den; softmax: log2 of the sum of e^score, and -(dout.y).  Places without a query:
 * 0 and 0, softmax infinity and 0. */
struct back_scaled_args {
    const float2 *rows; /* [B H][blocks * 32] */
    const char *douts;  /* packed values */
    char *scaled;       /* likewise: dout / den, row W = h */
    int64_t blocks;
    int heads, width; /* heads: B H */
    int fold;         /* as two bf16 each, 2 W rows, row 2 W = h */
};
cudaError_t back_scaled_run(const back_scaled_args &a, cudaStream_t stream);

/* The matrices of basis_slopes(), of z as a state's last column: tiles as those of a state, without
 * the last column, of each number the first of two bf16, then tiles of the second; at the end the
 * numbers that x does not multiply, f32. */
struct slopes_args {
    const char *state; /* of scan_args */
    const uint32_t *entries;
    char *slopes;
    int states, width, tiles; /* tiles: basis_slope_tiles() */
    int64_t numbers;          /* bf16 of a state */
    int left;                 /* from the first part of z to the second */
    const float *linear;      /* degree 1 in f32, `linear_numbers` a state; NULL: in the state */
    int linear_numbers;
};
int64_t slopes_bytes(int width, int tiles); /* of a state */
cudaError_t slopes_run(const slopes_args &a, cudaStream_t stream);

/* From the gradients of normalised rows, f32, to those of the rows: (g - u (u.g)) t / |x| with
 * u = x / |x|; and that of the temperature t, sum of u.g over the rows of a head. */
struct back_normal_args {
    view x, dx;
    const float *gradient; /* [B heads][length][dim] */
    float *along;          /* [B heads][length]: u.g */
    const float *temperature;
    float *dtemperature; /* [heads], or NULL */
    int64_t length;
    const int64_t *lengths;
    int batch, heads, dim;
};
cudaError_t back_normal_run(const back_normal_args &a, cudaStream_t stream);

/* ---- back.cu, back_kernel.cuh ------------------------------------------------------------ */

enum back_side {
    BACK_ROWS = 0, /* what back_scaled_args says of rows, from all keys one by one; with states, of
                    * the keys of the segment, the sums of w and of w dout.v */
    BACK_QUERIES = 1, /* dq */
    BACK_KEYS = 2     /* dk, dv */
};

/* With states queries meet the keys of their segment once, and only then know den and h; where two
 * sums of gradients are too many for the registers, BACK_ROWS comes first. */
__host__ __device__ constexpr bool back_twice(int width) { return width > 4; }
enum { BACK_STATE_WIDTH = 8 }; /* blocks of 8 elements that a state may be read with */

/* The side whose gradients are made, its tokens in packed order, against the other, which is read
 * as a state and token by token. */
struct back_args {
    int mode, causal;                  /* read_mode */
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
    const float *linear; /* pair_back.cu: degree 1 of pair_args, whose states `state` then are */
    const char *slopes;  /* of slopes_args */
    int64_t slope_bytes;
    int slope_tiles;
    int tile_count, terms;
    float coefficient[32]; /* as read_args */
    float2 *rows; /* with states, queries turn sums into what back_scaled_args says of rows */
    view dx, dv;
    float *gradient; /* [B heads][length][dim] in place of dx, or NULL */
};
cudaError_t back_run(const back_args &a, int side, const read_units &units, cudaStream_t stream);
/* pair_back.cu; processors: of the device */
cudaError_t pair_back_run(const back_args &a, int side, int processors, cudaStream_t stream);

/* ---- step.cu --------------------------------------------------------------------------------- */

enum { STEP_SPLITS = 128 };

struct step_args {
    view q, k, v, out; /* q, out [B,H,tokens,.]; k, v [B,K,tokens,.] */
    int batch, heads, kv_heads, tokens;
    int dim, dim_value;
    int64_t count;        /* D */
    float *s, *z;         /* [slots][K][D][m], [slots][K][D] */
    const int64_t *slots; /* [B] on the device: the state of each sequence; NULL: its own */
    const int64_t *seen;  /* [slots]: tokens before; NULL where output_norm is 0 */
    int taylor, terms;
    const uint64_t *index; /* [D] and [D]: basis_table */
    const float *factor;
    int map;            /* linear: lnt_feature_map */
    const float *decay; /* [K] or NULL */
    int normalize, output_norm;
    const float *temperature;
    float eps;
    int append, answer; /* adds the tokens; reads with the queries */
    int splits;         /* blocks of threads a state */
    float *partial;     /* step_workspace */
    unsigned *arrived;  /* [B K], 0 between calls */
    unsigned long long *nonpositive;
};
/* Tokens one by one; the state is read and written once for each group of them. */
cudaError_t step_run(const step_args &a, cudaStream_t stream);
int step_splits(int heads, int64_t count, int dim_value, int multiprocessors);
size_t step_workspace(int heads, int splits, int dim_value); /* bytes of partial; heads: B K */

} // namespace lnt
#endif
