/* model/import/llama2c.h - models of llama2.c: a header of seven ints, then f32.
 *
 *     dim  hidden  layers  heads  kv_heads  vocabulary  length      int32; vocabulary < 0: with a classifier
 *     token embedding   [vocabulary,dim]                            which gives the logits where there is no
 *     norms before attention [layers,dim]                          classifier
 *     wq  wk  wv  wo    [layers,...], each a matrix [out,in] a layer
 *     norms before the feed-forward layer [layers,dim]
 *     w1  w2  w3        [layers,...]: gate, down, up
 *     last norm         [dim]
 *     cos, sin          [length,head/2] each: the turns of positions, base 10000
 *     classifier        [vocabulary,dim], where the header says so
 *
 * There is no magic number.  A file is one of these if its name ends in .bin, the header is plausible, the
 * size is exactly that of header and tensors, and the turns of the first two positions are those of base
 * 10000.  The tensors get Hugging Face's names and the header becomes a config.json, so that the rules of
 * `llama` do the rest; pairs of rotary positions stand side by side.  Opening costs O(layers), whatever the
 * size: the file is mapped. */
#ifndef LNT_MODEL_IMPORT_LLAMA2C_H
#define LNT_MODEL_IMPORT_LLAMA2C_H

#include <limits.h>

#include "io/map.h"
#include "io/stored.h"

enum { LNT_LLAMA2C_CONFIG = 512 };

typedef struct lnt_llama2c {
    lnt_stored *tensors; /* by name, in the order of strcmp */
    size_t count;
    char config[LNT_LLAMA2C_CONFIG]; /* JSON, in the words of Hugging Face's config.json */
    char path[PATH_MAX];             /* of the file, also where its folder was given */
    /* private */
    lnt_map map; /* empty: the file was in memory */
    char (*names)[48];
} lnt_llama2c;

/* Whether path is named as a file of llama2.c, or is a folder with such a file and no model of another
 * kind. */
bool lnt_llama2c_takes(const char *path);

/* The file, or the only model of the folder.  On failure nothing is open. */
lnt_status lnt_llama2c_open(lnt_ctx *ctx, const char *path, lnt_llama2c *out);
/* The same of a file that is in memory, aligned to a float, which must outlive out. */
lnt_status lnt_llama2c_parse(lnt_ctx *ctx, const char *path, const void *file, size_t bytes,
                             lnt_llama2c *out);
void lnt_llama2c_close(lnt_ctx *ctx, lnt_llama2c *file); /* a zeroed one is fine */

/* The tokenizer beside the model at `path`: tokenizer.bin, or the only tok*.bin; *out is "" where there is
 * none. */
lnt_status lnt_llama2c_tokenizer(lnt_ctx *ctx, const char *path, char out[PATH_MAX]);

#endif
