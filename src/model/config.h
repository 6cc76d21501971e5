/* model/config.h - the configuration of a model, from JSON and back. */
#ifndef LNT_MODEL_CONFIG_H
#define LNT_MODEL_CONFIG_H

#include "io/json.h"
#include "model/image/pixels.h"
#include "nn/block.h"
#include "nn/rotary.h"

typedef enum lnt_model_kind {
    LNT_DECODER = 0, /* causal: every token is predicted from those before it */
    LNT_ENCODER = 1  /* every token sees all */
} lnt_model_kind;

typedef enum lnt_position {
    LNT_POSITION_NONE = 0,
    LNT_POSITION_LEARNED = 1,
    LNT_POSITION_SINUSOIDAL = 2,
    LNT_POSITION_ROTARY = 3
} lnt_position;

typedef enum lnt_place {
    LNT_PLACE_PRE = 0,  /* norms before the branches, */
    LNT_PLACE_POST = 1, /* after the sums, */
    LNT_PLACE_BOTH = 2  /* or before the branches and after them */
} lnt_place;

typedef enum lnt_embedding {
    LNT_EMBEDDING_TABLE = 0, /* a vector for each token, or a dense layer over features */
    LNT_EMBEDDING_CNN = 1    /* the same, then three convolutions over neighbours */
} lnt_embedding;

typedef enum lnt_model_input { LNT_INPUT_TOKENS = 0, LNT_INPUT_FEATURES = 1 } lnt_model_input;

typedef enum lnt_model_output {
    LNT_OUTPUT_TOKENS = 0,   /* the next token, at every token */
    LNT_OUTPUT_LOGISTICS = 1, /* the next pixel: 30 numbers of a mixture, at every token */
    LNT_OUTPUT_CLASS = 2,    /* one of `outputs` for the whole sequence */
    LNT_OUTPUT_FRAMES = 3,   /* one of `outputs` at every token, the first a blank */
    LNT_OUTPUT_VECTOR = 4    /* what the blocks made of the sequence, or of each token: `outputs` is dim */
} lnt_model_output;

/* What stands for a whole sequence. */
typedef enum lnt_pooling {
    LNT_POOL_MEAN = 0,
    LNT_POOL_FIRST = 1, /* its first token, */
    LNT_POOL_LAST = 2,  /* or its last */
    LNT_POOL_NONE = 3   /* nothing: every token is given */
} lnt_pooling;

enum { LNT_CONFIG_TERMS = 32, LNT_CONFIG_DECAYS = 64, LNT_CONFIG_PINS = 64, LNT_CONFIG_TEXT = 16384 };
enum { LNT_CONFIG_KINDS = 4, LNT_CONFIG_LAYERS = 1024 }; /* of attention in one network; layers at most */

/* Another attention than that of the model, for some of its layers: what lnt_config has of it, again. */
typedef struct lnt_attention_kind {
    uint64_t layers[LNT_CONFIG_LAYERS / 64]; /* a bit each: */
    int64_t every, offset;                   /* offset, offset + every, ...; every 0: as they were listed */
    lnt_attn_desc attention;
    double coefficients[LNT_CONFIG_TERMS];
    int64_t coefficient_count;
    double decay[LNT_CONFIG_DECAYS];
    int64_t decay_count;
    int64_t pin[LNT_CONFIG_PINS];
    int64_t pin_count;
    int learned_temperature;
    lnt_rotary rotary;
} lnt_attention_kind;

typedef struct lnt_config {
    int kind;
    int64_t dim, layers, heads, kv_heads, head_dim, ff;
    int64_t length; /* tokens of a sequence in training; learned positions end there */
    int activation, norm, post, position, embedding, tied;
    int64_t averages; /* MEGA: moving averages in a channel; 0: a plain transformer */
    int64_t values;   /* MEGA: width of the values of all heads; 0: twice dim */
    int distance_bias; /* MEGA: a learned bias of scores by distance, up to length */
    int bias;       /* LNT_BIAS_...; negative: as models of its norm have it */
    double epsilon; /* of the norms */
    lnt_rotary rotary;
    int parallel, qk_norm, embedding_norm;
    int64_t image, patch, channels; /* the side of square images, and of the patches that they are cut into */
    int64_t class_tokens;           /* learned, before those of the image; of two the last is distilled */
    lnt_image_form pixels;          /* what an image becomes before that */
    int pooler, distilled;          /* a dense layer and tanh over what is pooled; the mean of two heads */
    int pooling, normalise; /* normalise: vectors have length 1 */
    double embedding_scale, logit_cap; /* 0: no cap */
    double dropout, drop_path;
    int input, output;       /* these are the task's to set */
    int64_t inputs, outputs; /* words in and out, or features, or classes */
    lnt_attn_desc attention; /* mechanism and its options; `coefficients` is set when it is used */
    double coefficients[LNT_CONFIG_TERMS];
    int64_t coefficient_count;
    double decay[LNT_CONFIG_DECAYS]; /* [kv_heads], or none */
    int64_t decay_count;
    int64_t pin[LNT_CONFIG_PINS]; /* of cur */
    int64_t pin_count;
    int learned_temperature;
    lnt_attention_kind kinds[LNT_CONFIG_KINDS - 1]; /* 1, 2, ...; 0 is what is above */
    int64_t kind_count;
} lnt_config;

lnt_status lnt_config_default(lnt_ctx *ctx, lnt_config *out);
/* Over what is in *config already; section "model" of the file. */
lnt_status lnt_config_read(lnt_ctx *ctx, const char *path, const lnt_json_node *object,
                           lnt_config *config);
/* Fills in derived values and refuses impossible ones. */
lnt_status lnt_config_resolve(lnt_ctx *ctx, const char *path, lnt_config *config);
/* Refuses options of attention that its mechanism does not take. */
lnt_status lnt_config_check_applies(lnt_ctx *ctx, const char *path, const lnt_config *config);
/* Refuses a config that differs from `wanted`; both are resolved. */
lnt_status lnt_config_check_same(lnt_ctx *ctx, const char *path, const lnt_config *said,
                             const lnt_config *wanted);
/* Replaces the mechanism of every layer; options that it does not take return to their defaults. */
lnt_status lnt_config_set_mechanism(lnt_ctx *ctx, const char *mechanism, lnt_config *config);
/* Puts the mechanism, scale and options of `with` in place of those of every layer, before the config is
 * resolved; its arrays are copied, or refused with a sentence.  A scale that is NaN leaves the model's. */
lnt_status lnt_config_set_attention(lnt_ctx *ctx, const lnt_attn_desc *with, lnt_config *config);
void lnt_config_write(lnt_json_text *out, const lnt_config *config);

/* Next tokens come out, or pixels. */
static inline bool lnt_config_generates(const lnt_config *c)
{
    return c->output == LNT_OUTPUT_TOKENS || c->output == LNT_OUTPUT_LOGISTICS;
}

/* Images go in, as patches. */
static inline bool lnt_config_sees(const lnt_config *c) { return c->image > 0; }

/* One row comes out for a whole sequence. */
static inline bool lnt_config_pools(const lnt_config *c)
{
    return c->output == LNT_OUTPUT_CLASS || (c->output == LNT_OUTPUT_VECTOR && c->pooling != LNT_POOL_NONE);
}

unsigned lnt_config_bias(const lnt_config *config); /* LNT_BIAS_..., which the network has */
/* The kind of a layer's attention, 0 .. kind_count; the rest is by kinds. */
size_t lnt_config_kind(const lnt_config *config, size_t layer);
lnt_block_shape lnt_config_block(const lnt_config *config, size_t kind);
bool lnt_config_normalises(const lnt_config *config, size_t kind); /* queries and keys, by taylorshift */
const lnt_rotary *lnt_config_rotary(const lnt_config *config, size_t kind);
/* Points into config. */
lnt_attn_desc lnt_config_attention(const lnt_config *config, size_t kind);

#endif
