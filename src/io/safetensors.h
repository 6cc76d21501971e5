/* io/safetensors.h - named arrays in a .safetensors file.
 *
 *     8 bytes   N, little-endian, at most 100,000,000
 *     N bytes   JSON: {"__metadata__":{key:value}, name:{"dtype","shape","data_offsets"} ...}
 *     the rest  the arrays, row-major and little-endian, without gap or overlap
 *
 * Files that we write carry a checksum in two metadata keys, both or neither.  "linnet.checksum.kind" is
 * always "crc64-xz".  "linnet.checksum" is sixteen lower-case hexadecimal digits: the CRC-64/XZ of the
 * whole file with these digits taken as '0'.  So every changed byte is detected.  Files of other tools
 * have neither key and are read without a check. */
#ifndef LNT_IO_SAFETENSORS_H
#define LNT_IO_SAFETENSORS_H

#include "io/json.h"
#include "io/map.h"

enum {
    LNT_ST_MAX_RANK = 8,
    LNT_ST_MAX_COUNT = 60000 /* arrays, and metadata, in a file we write: what we can read again */
};

typedef enum lnt_st_dtype {
    LNT_ST_F32, LNT_ST_F64, LNT_ST_F16, LNT_ST_BF16,
    LNT_ST_I64, LNT_ST_I32, LNT_ST_I16, LNT_ST_I8,
    LNT_ST_U64, LNT_ST_U32, LNT_ST_U16, LNT_ST_U8,
    LNT_ST_BOOL,
    LNT_ST_DTYPES
} lnt_st_dtype;

const char *lnt_st_dtype_name(lnt_st_dtype dtype); /* "F32" */
size_t lnt_st_dtype_size(lnt_st_dtype dtype);      /* of an element, in bytes */

typedef struct lnt_st_entry {
    const char *name;
    lnt_st_dtype dtype;
    int rank;
    int64_t shape[LNT_ST_MAX_RANK];
    const void *data; /* row-major, aligned to its element */
    size_t bytes;
} lnt_st_entry;

typedef struct lnt_st_meta {
    const char *key, *value;
} lnt_st_meta;

/* Written whole or not at all.  Names and keys are UTF-8, each once, and none of those above. */
LNT_PRIVATE_API lnt_status lnt_safetensors_write(lnt_ctx *ctx, const char *path, const lnt_st_entry *entries,
                                                 size_t entry_count, const lnt_st_meta *meta,
                                                 size_t meta_count);

/* The same where the data of some arrays, whose data is NULL, are made while the file is written.  For each
 * of them make(user, i, sink) puts the bytes of array i, all of them, by lnt_st_put; the arrays come in
 * the order of the file.  A device or a pipe is refused: the checksum, which stands before the data, is put
 * there at the end.  No more than `make` holds is in memory. */
typedef struct lnt_st_sink lnt_st_sink;
typedef lnt_status (*lnt_st_make)(void *user, size_t index, lnt_st_sink *sink);

LNT_PRIVATE_API lnt_status lnt_st_put(lnt_st_sink *sink, const void *data, size_t bytes);
LNT_PRIVATE_API lnt_status lnt_safetensors_write_made(lnt_ctx *ctx, const char *path,
                                                      const lnt_st_entry *entries, size_t entry_count,
                                                      const lnt_st_meta *meta, size_t meta_count,
                                                      lnt_st_make make, void *user);

/* A file that was read; everything in it lives until lnt_safetensors_free. */
typedef struct lnt_safetensors {
    lnt_st_entry *entries; /* in the order of their data */
    size_t entry_count;
    lnt_st_meta *meta; /* the checksum left out */
    size_t meta_count;
    /* private */
    lnt_json header; /* names, keys and values point into it */
    lnt_map map;     /* empty: the file is not mapped */
    void *copy;      /* of the data; NULL: they are where the file is */
    size_t copy_bytes, entry_room, meta_room;
} lnt_safetensors;

/* LNT_ERR_FORMAT for a file that is not what it should be in any way, LNT_ERR_FILE for one that
 * cannot be read.  On failure out is zeroed. */
LNT_PRIVATE_API lnt_status lnt_safetensors_read(lnt_ctx *ctx, const char *path, lnt_safetensors *out);

/* The same with the arrays left in the file, which is mapped (io/map.h).  Those of a file whose header has
 * an odd length are copied, because they would not be aligned.  A file with a checksum is read once to
 * check it, about half a second a gigabyte; a file without one costs its header alone. */
LNT_PRIVATE_API lnt_status lnt_safetensors_map(lnt_ctx *ctx, const char *path, lnt_safetensors *out);
/* The same of a file that is in memory, which must outlive out; `path` names it in sentences. */
lnt_status lnt_safetensors_parse(lnt_ctx *ctx, const char *path, const void *file, size_t bytes,
                                 lnt_safetensors *out);

LNT_PRIVATE_API void lnt_safetensors_free(lnt_ctx *ctx, lnt_safetensors *st);

/* NULL if absent. */
LNT_PRIVATE_API const lnt_st_entry *lnt_safetensors_find(const lnt_safetensors *st, const char *name);
LNT_PRIVATE_API const char *lnt_safetensors_meta(const lnt_safetensors *st, const char *key);

#endif
