/* nn/block.h - a residual block: attention, then a feed-forward layer. */
#ifndef LNT_NN_BLOCK_H
#define LNT_NN_BLOCK_H

#include "core/arena.h"
#include "nn/activation.h"
#include "nn/attention.h"
#include "nn/mega.h"
#include "nn/norm.h"
#include "nn/param.h"
#include "nn/pass.h"
#include "nn/qk_norm.h"
#include "nn/weight.h"

enum {
    LNT_BLOCK_NORM1_GAIN, LNT_BLOCK_NORM1_BIAS,
    LNT_BLOCK_QKV, LNT_BLOCK_QKV_BIAS, LNT_BLOCK_TEMPERATURE, LNT_BLOCK_OUT, LNT_BLOCK_OUT_BIAS,
    LNT_BLOCK_NORM2_GAIN, LNT_BLOCK_NORM2_BIAS,
    LNT_BLOCK_UP, LNT_BLOCK_UP_BIAS, LNT_BLOCK_DOWN, LNT_BLOCK_DOWN_BIAS,
    LNT_BLOCK_MEGA, /* the first of them */
    LNT_BLOCK_DRAWN = LNT_BLOCK_MEGA + LNT_MEGA_PARAMS, /* those from here on begin as constants */
    LNT_BLOCK_Q_NORM = LNT_BLOCK_DRAWN, LNT_BLOCK_K_NORM,
    LNT_BLOCK_AFTER1_GAIN, LNT_BLOCK_AFTER1_BIAS, LNT_BLOCK_AFTER2_GAIN, LNT_BLOCK_AFTER2_BIAS,
    LNT_BLOCK_PARAMS
};

/* What a network may add to: its norms, the products that give queries, keys and values, the one after
 * attention, those of the feed-forward layer, and the head. */
enum {
    LNT_BIAS_NORM = 1, LNT_BIAS_QKV = 2, LNT_BIAS_OUT = 4, LNT_BIAS_FEED = 8, LNT_BIAS_HEAD = 16,
    LNT_BIAS_ALL = 31
};

typedef struct lnt_block_shape {
    size_t dim, heads, kv_heads, head_dim, ff;
    size_t depth; /* blocks in the network: what begins smaller, the deeper it is */
    lnt_act activation;
    lnt_norm_kind norm;
    double epsilon; /* of the norms */
    unsigned bias;  /* LNT_BIAS_...: what has one */
    bool post;        /* norms after the sums, else before the branches */
    bool after;       /* norms after the branches, too */
    bool parallel;    /* both branches see what comes in */
    bool qk_norm;     /* of every head of queries and keys */
    bool rotary;      /* positions turn queries and keys, */
    size_t half;      /* as lnt_rotary_rotate has it */
    bool temperature; /* learned, one per head */
    double dropout, drop_path;
    size_t averages; /* in a channel: gated attention of MEGA is the first branch; 0: it is not */
    size_t values;   /* of all heads, with averages */
    lnt_full_shape full; /* with averages; heads and widths follow from the rest */
} lnt_block_shape;

lnt_mega_shape lnt_block_mega(const lnt_block_shape *shape);

/* Parameter i; its name is NULL where the block has none. */
lnt_param lnt_block_param(const lnt_block_shape *shape, int i);

#define lnt_block LNT_REAL_NAME(lnt_block)
#define lnt_block_kept LNT_REAL_NAME(lnt_block_kept)
#define lnt_block_scratch LNT_REAL_NAME(lnt_block_scratch)
#define lnt_block_take_kept LNT_REAL_NAME(lnt_block_take_kept)
#define lnt_block_take_scratch LNT_REAL_NAME(lnt_block_take_scratch)
#define lnt_block_forward LNT_REAL_NAME(lnt_block_forward)
#define lnt_block_backward LNT_REAL_NAME(lnt_block_backward)

/* What forward keeps for backward. */
typedef struct lnt_block_kept {
    real *first;          /* [n,dim]: norm1(x), or x + the first branch before its norm */
    real *stat1, *stat2;  /* [n,2] */
    real *bare, *stat_qk; /* qk_norm: [n,heads + kv_heads,head_dim] and [.., 2] */
    real *branch1, *branch2, *stat3, *stat4; /* after: [n,dim] before the norms, and [n,2] */
    real *qkv, *mixed;    /* [n,width], [n,heads head_dim]: what attention reads and gives */
    void *attention;      /* [attention->kept bytes]: what attention leaves to its backward */
    real *middle;         /* [n,dim]: after the first branch */
    real *second;         /* as first, of the second branch */
    real *up, *hidden;    /* [n,ff inputs], [n,ff] */
    real *out;            /* [n,dim] */
    lnt_mega_kept mega;
} lnt_block_kept;

typedef struct lnt_block_scratch {
    real *dim;         /* [n,dim] */
    real *aside, *whole; /* [n,dim]: after, parallel */
    real *wide, *half; /* [n, the widest], [n, the widest that attention and activation give] */
    lnt_mega_scratch mega;
} lnt_block_scratch;

void lnt_block_take_kept(lnt_arena *arena, const lnt_block_shape *shape, const lnt_attention *attention,
                    size_t n, lnt_block_kept *out);
void lnt_block_take_scratch(lnt_arena *arena, const lnt_block_shape *shape, size_t batch, size_t length,
                    size_t threads, lnt_block_scratch *out);

/* A block as one pass goes through it: what it is, its parameters, and its memory. */
typedef struct lnt_block {
    const lnt_block_shape *shape;
    const lnt_attention *attention; /* the temperature is among w */
    real *const *w;                 /* [LNT_BLOCK_PARAMS] */
    const lnt_block_kept *kept;
    const uint16_t *const *bf16;    /* w again, for few tokens; NULL, or any of them: not there */
    const lnt_weight *packed;       /* [LNT_BLOCK_PARAMS], in the place of w; as above, or without memory */
    real *const *g; /* shaped as w, added to; this and scratch are for backward alone */
    const lnt_block_scratch *scratch;
} lnt_block;

/* x [n,dim], which may be kept->out where no backward follows. */
lnt_status lnt_block_forward(const lnt_pass *pass, const lnt_block *block, const real *x);
/* grad [n,dim] comes in as that of kept->out and goes out as that of x. */
lnt_status lnt_block_backward(const lnt_pass *pass, const lnt_block *block, const real *x, real *grad);

#endif
