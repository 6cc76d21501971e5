/* model/layout.h - the parameters of a model: their names, shapes and offsets in one array. */
#ifndef LNT_MODEL_LAYOUT_H
#define LNT_MODEL_LAYOUT_H

#include "model/config.h"

/* Those outside the blocks. */
enum {
    LNT_PARAM_EMBED,      /* [inputs,dim] */
    LNT_PARAM_EMBED_BIAS, /* of features */
    LNT_PARAM_CONV,       /* three of [3,dim,dim], each followed by its bias */
    LNT_PARAM_CONV_LAST = LNT_PARAM_CONV + 5,
    LNT_PARAM_POSITION, /* [length,dim] */
    LNT_PARAM_NORM_GAIN,
    LNT_PARAM_NORM_BIAS,
    LNT_PARAM_HEAD, /* [dim,outputs]; tied: none */
    LNT_PARAM_HEAD_BIAS,
    LNT_PARAM_DRAWN, /* those from here on begin as constants */
    LNT_PARAM_EMBED_NORM_GAIN = LNT_PARAM_DRAWN,
    LNT_PARAM_EMBED_NORM_BIAS,
    LNT_PARAM_CLASS, /* [class_tokens,dim] */
    LNT_PARAM_POOLER, /* [dim,dim]; drawn, as the next head */
    LNT_PARAM_POOLER_BIAS,
    LNT_PARAM_HEAD2, /* of the distilled token, shaped as the other */
    LNT_PARAM_HEAD2_BIAS,
    LNT_PARAM_OUTER
};

enum { LNT_PARAM_NAME = 48 };

typedef struct lnt_layout_entry {
    char name[LNT_PARAM_NAME]; /* "blocks.3.qkv.weight" */
    lnt_param param;
    size_t offset, count; /* in the array; count 0: there is none */
    uint64_t stream;      /* of random numbers, that it begins with */
} lnt_layout_entry;

typedef struct lnt_layout {
    lnt_layout_entry *entries; /* the outer ones, then LNT_BLOCK_PARAMS for each block */
    size_t entry_count;
    size_t size;       /* numbers in the array, padding between parameters included */
    size_t parameters; /* numbers that are learned */
} lnt_layout;

lnt_status lnt_layout_open(lnt_ctx *ctx, const lnt_config *config, lnt_layout *out);
/* Whether parameter i may be packed weights (nn/weight.h) in the place of numbers in the array. */
bool lnt_layout_packs(size_t i);
/* Takes the numbers of parameter i out of the array, before there is one; its name and shape stay. */
void lnt_layout_leave_out(lnt_layout *layout, size_t i);
void lnt_layout_close(lnt_ctx *ctx, lnt_layout *layout);

/* Parameter i of a block. */
static inline size_t lnt_layout_block(size_t layer, int i)
{
    return LNT_PARAM_OUTER + layer * LNT_BLOCK_PARAMS + (size_t)i;
}

/* Fills an array of layout->size numbers as a new model begins. */
void lnt_layout_init(const lnt_layout *layout, uint64_t seed, float *weights);

#endif
