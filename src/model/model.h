/* model/model.h - the internals of a model. */
#ifndef LNT_MODEL_MODEL_H
#define LNT_MODEL_MODEL_H

#include "io/safetensors.h"
#include "linnet/model.h"
#include "model/labels.h"
#include "model/network.h"
#include "model/tokenizer/codec.h"

enum { LNT_TASK_NAME = 32, LNT_TASK_TEXT = 512, LNT_MODEL_NAME = 64, LNT_MODEL_ENDS = 8 };

struct lnt_model {
    lnt_ctx *ctx;
    lnt_config config; /* resolved */
    lnt_layout layout;
    float *weights; /* [layout.size] */
    uint16_t *bf16; /* the same again, or NULL: lnt_model_keep_bf16 */
    lnt_weight *packed; /* [layout.entry_count]: the matrices, which are then not in weights; or NULL */
    char *pool;         /* what they are in, as far as it reaches; NULL: each in its own */
    size_t pool_bytes, pool_used;
    lnt_tokenizer tokenizer;
    /* Of a model that others trained. */
    char architecture[LNT_MODEL_NAME]; /* "": it is our own */
    lnt_storage storage;               /* of most of its matrices */
    int64_t text_length;               /* tokens of a text that an encoder reads at the most */
    lnt_codec *codec;                  /* NULL: it has none */
    lnt_codec_file codec_file;
    char *chat_template;               /* NULL: it has none */
    size_t chat_template_bytes;
    int32_t end[LNT_MODEL_ENDS]; /* tokens with which it ends what it says */
    size_t end_count;
    lnt_labels labels; /* of a classifier's classes */
    char task[LNT_TASK_NAME];
    char task_options[LNT_TASK_TEXT]; /* JSON, the task's own */
    char text[LNT_CONFIG_TEXT]; /* the config as JSON */
    lnt_watcher watcher; /* of lnt_model_forward */
    lnt_network network; /* of lnt_model_forward; grows with the shapes it is given */
};

/* A model whose weights are still to be filled.  The tokenizer becomes the model's, also on failure.  With
 * `packed` its matrices are not among them: each comes by lnt_model_pack, and the model does not learn. */
lnt_status lnt_model_open(lnt_ctx *ctx, const lnt_config *config, const char *task,
                          lnt_tokenizer *tokenizer, bool packed, lnt_model **out);
/* Outputs, or tokens, and inputs of parameter i, which is a matrix. */
void lnt_model_extents(const lnt_config *config, const lnt_layout_entry *e, size_t i, size_t *out,
                       size_t *in);
/* Room for matrices of so many bytes together: large pages hold it, which a matrix alone is too small for. */
lnt_status lnt_model_reserve(lnt_model *model, size_t bytes);
/* Parameter i of the layout, which lnt_layout_packs, from parts whose rows are its outputs, or its tokens. */
lnt_status lnt_model_pack(lnt_model *model, size_t i, const lnt_weight_part *parts, size_t count);
/* ... and a model whose weights begin from seed. */
lnt_status lnt_model_make(lnt_ctx *ctx, const lnt_config *config, const char *task,
                          lnt_tokenizer *tokenizer, uint64_t seed, lnt_model **out);

/* For a model that generates and does not learn: if bf16 represents every matrix exactly, as after reading
 * a bf16 file, also stores the weights as bf16.  Generating a token is bound by reading the weights, and
 * these are half as many bytes for the same result.  On failure the model is destroyed and set to NULL. */
lnt_status lnt_model_keep_bf16(lnt_model **model);

/* Its network runs `batch` sequences of `length` tokens, if it did not before. */
lnt_status lnt_model_make_room(lnt_model *model, size_t batch, size_t length);

/* An array beside the weights, of the same layout, under its own prefix. */
typedef struct lnt_model_array {
    const char *prefix; /* "adam.m." */
    float *data;
} lnt_model_array;

/* Whether the weights in a model's file can be of it. */
lnt_status lnt_model_check_dtype(lnt_ctx *ctx, lnt_dtype dtype);

/* The model with arrays and metadata beside it: a checkpoint.  Each at most LNT_MODEL_EXTRA. */
enum { LNT_MODEL_EXTRA = 4 };
lnt_status lnt_model_write(const lnt_model *model, const char *path, lnt_dtype dtype,
                           const lnt_model_array *arrays, size_t array_count,
                           const lnt_st_meta *meta, size_t meta_count);
/* What files of every kind have in their metadata: the config, resolved, with `attention` in place of its own
 * (NULL: its own), and Linnet's own tokenizer, which the caller closes. */
typedef struct lnt_model_head {
    lnt_config config;
    const char *task, *task_options; /* into st */
    lnt_tokenizer tokenizer;
} lnt_model_head;
lnt_status lnt_model_read_head(lnt_ctx *ctx, const char *path, const lnt_safetensors *st,
                               const lnt_attn_desc *attention, lnt_model_head *out);

/* From a file in memory; `path` is for sentences.  attention: in place of its own, or NULL. */
lnt_status lnt_model_read(lnt_ctx *ctx, const char *path, const lnt_safetensors *st,
                          const lnt_attn_desc *attention, lnt_model **out);
/* An array that lnt_model_write wrote, into its data. */
lnt_status lnt_model_read_array(const lnt_model *model, const char *path, const lnt_safetensors *st,
                                const lnt_model_array *array);

#endif
