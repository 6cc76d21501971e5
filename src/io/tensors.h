/* io/tensors.h - the tensors of a model, by name, whatever holds them: a GGUF file, a .safetensors file,
 * or a directory as Hugging Face lays it out.
 *
 * A directory has model.safetensors, or model.safetensors.index.json, whose "weight_map" says for each
 * tensor in which file of the same directory it is.  A file is told by its content, not by its name.  All
 * are mapped (io/map.h): opening reads names and shapes alone, and checks that every tensor lies inside
 * its file.  The one exception is a .safetensors file with Linnet's checksum, all of which is read to
 * check it. */
#ifndef LNT_IO_TENSORS_H
#define LNT_IO_TENSORS_H

#include "io/gguf.h"
#include "io/safetensors.h"
#include "io/stored.h"

typedef struct lnt_tensors {
    const lnt_stored *entries; /* by name, in the order of strcmp */
    size_t count;
    /* What has the metadata: of a GGUF file, or of one .safetensors file, also one in a directory; else
     * NULL. */
    const lnt_gguf *gguf;
    const lnt_safetensors *safetensors;
    const char *path; /* a copy of what was given */
    void *own;        /* private */
} lnt_tensors;

/* LNT_ERR_FILE for what cannot be read, LNT_ERR_FORMAT for what is not what it should be.  On failure out
 * is zeroed.  Everything in out, and what the entries point to, lives until lnt_tensors_close. */
LNT_PRIVATE_API lnt_status lnt_tensors_open(lnt_ctx *ctx, const char *path, lnt_tensors *out);
LNT_PRIVATE_API void lnt_tensors_close(lnt_ctx *ctx, lnt_tensors *tensors); /* a zeroed one is fine */

/* NULL if absent. */
LNT_PRIVATE_API const lnt_stored *lnt_tensors_find(const lnt_tensors *tensors, const char *name);

/* The same for a tensor that must be there, in numbers that a layer computes with; else LNT_ERR_FORMAT. */
lnt_status lnt_tensors_need(lnt_ctx *ctx, const lnt_tensors *tensors, const char *name,
                            const lnt_stored **out);

#endif
