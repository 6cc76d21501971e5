/* io/gguf.h - GGUF files, versions 2 and 3, little-endian, read in place through a map.
 *
 *     "GGUF"  u32 version  u64 tensors  u64 keys
 *     keys     { string key, u32 type, value } ...           string = u64 bytes, the bytes
 *     tensors  { string name, u32 rank, u64 extent[rank], u32 type, u64 offset } ...
 *     data     at the next multiple of general.alignment (32 where it is absent); offsets count from here
 *
 * Extents begin with the contiguous one; here they are turned round, row-major.  Every count, length and
 * offset is checked against the size of the file before it is used, and what is allocated is less than 8
 * bytes for a byte of the file.  A token list stays in the map: opening costs one walk over the metadata.
 * */
#ifndef LNT_IO_GGUF_H
#define LNT_IO_GGUF_H

#include "io/map.h"
#include "io/stored.h"

enum {
    LNT_GGUF_MAX_RANK = 4,
    LNT_GGUF_MAX_DEPTH = 4,      /* of arrays in arrays */
    LNT_GGUF_MAX_COUNT = 1 << 20 /* of keys, and of tensors */
};

typedef enum lnt_gguf_type { /* the numbers of the format */
    LNT_GGUF_U8, LNT_GGUF_I8, LNT_GGUF_U16, LNT_GGUF_I16, LNT_GGUF_U32, LNT_GGUF_I32, LNT_GGUF_F32,
    LNT_GGUF_BOOL, LNT_GGUF_STRING, LNT_GGUF_ARRAY, LNT_GGUF_U64, LNT_GGUF_I64, LNT_GGUF_F64,
    LNT_GGUF_TYPES
} lnt_gguf_type;

typedef struct lnt_gguf_string { /* in the map, without NUL; in a value, any bytes */
    const char *text;
    size_t bytes;
} lnt_gguf_string;

typedef struct lnt_gguf_value {
    lnt_gguf_type type;
    const unsigned char *data; /* of a string or array: what follows type and count; without alignment */
    size_t bytes;
    lnt_gguf_type element; /* of an array */
    size_t count;          /* of elements of an array */
} lnt_gguf_value;

typedef struct lnt_gguf_key {
    lnt_gguf_string name;
    lnt_gguf_value value;
} lnt_gguf_key;

typedef struct lnt_gguf {
    lnt_stored *tensors; /* by name, in the order of strcmp */
    size_t tensor_count;
    lnt_gguf_key *keys; /* in the order of lnt_gguf_compare */
    size_t key_count;
    /* private */
    const char *path;
    lnt_map map; /* empty: the file was in memory */
    char *names; /* of tensors, each with a NUL */
    size_t tensor_room, names_bytes;
} lnt_gguf;

/* LNT_ERR_FORMAT and a sentence for a file that is not what it should be; path must outlive out.  On
 * failure out is zeroed. */
lnt_status lnt_gguf_open(lnt_ctx *ctx, const char *path, lnt_gguf *out);
/* The same of a file that is in memory, which must outlive out; `path` names it in sentences. */
LNT_PRIVATE_API lnt_status lnt_gguf_parse(lnt_ctx *ctx, const char *path, const void *file, size_t bytes,
                          lnt_gguf *out);
LNT_PRIVATE_API void lnt_gguf_close(lnt_ctx *ctx, lnt_gguf *gguf); /* a zeroed one is fine */

/* ---- metadata ------------------------------------------------------------------------------ */

/* NULL if absent. */
LNT_PRIVATE_API const lnt_gguf_value *lnt_gguf_find(const lnt_gguf *gguf, const char *key);

/* The value of a key: LNT_ERR_FORMAT, with a sentence, where the key is absent or its value is of another
 * type. */
LNT_PRIVATE_API lnt_status lnt_gguf_get_string(lnt_ctx *ctx, const lnt_gguf *gguf, const char *key,
                               lnt_gguf_string *out);
LNT_PRIVATE_API lnt_status lnt_gguf_get_integer(lnt_ctx *ctx, const lnt_gguf *gguf, const char *key,
                                int64_t *out); /* of any width that fits */
LNT_PRIVATE_API lnt_status lnt_gguf_get_real(lnt_ctx *ctx, const lnt_gguf *gguf, const char *key,
                             double *out); /* or an integer */
LNT_PRIVATE_API lnt_status lnt_gguf_get_bool(lnt_ctx *ctx, const lnt_gguf *gguf, const char *key, bool *out);
/* An array of strings, of integers, or of numbers (of integers too): element is LNT_GGUF_STRING, _I64 or
 * _F64. */
LNT_PRIVATE_API lnt_status lnt_gguf_get_array(lnt_ctx *ctx, const lnt_gguf *gguf, const char *key,
                              lnt_gguf_type element, lnt_gguf_value *out);

/* Element i < count of an array of numbers. */
LNT_PRIVATE_API int64_t lnt_gguf_integer_at(const lnt_gguf_value *array, size_t i);
LNT_PRIVATE_API double lnt_gguf_real_at(const lnt_gguf_value *array, size_t i);

/* The strings of an array one after the other, without an allocation:
 *
 *     lnt_gguf_value rest = array;
 *     for (lnt_gguf_string s; lnt_gguf_next_string(&rest, &s);) ...
 */
LNT_PRIVATE_API bool lnt_gguf_next_string(lnt_gguf_value *rest, lnt_gguf_string *out);

/* ---- of gguf.c and gguf_values.c ----------------------------------------------------------- */

size_t lnt_gguf_size(lnt_gguf_type type); /* bytes of a number; 0: a string or an array */
int lnt_gguf_compare(lnt_gguf_string a, lnt_gguf_string b); /* by their bytes, the shorter first */

#endif
