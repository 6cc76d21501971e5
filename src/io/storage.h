/* io/storage.h - how the files of models store numbers: as they are, or in blocks of 2 to 8 bits that
 * share a scale.
 *
 * The blocks are those of GGUF, along the contiguous axis of a tensor: a row is a whole number of them.
 * Their layouts are in storage.c.  All are little-endian. */
#ifndef LNT_IO_STORAGE_H
#define LNT_IO_STORAGE_H

#include "core/context.h"

typedef enum lnt_storage {
    LNT_STORAGE_F32, LNT_STORAGE_F16, LNT_STORAGE_BF16,
    /* in blocks of 32 numbers */
    LNT_STORAGE_Q8_0, LNT_STORAGE_Q4_0, LNT_STORAGE_Q4_1, LNT_STORAGE_Q5_0, LNT_STORAGE_Q5_1,
    /* of 256 */
    LNT_STORAGE_Q2_K, LNT_STORAGE_Q3_K, LNT_STORAGE_Q4_K, LNT_STORAGE_Q5_K, LNT_STORAGE_Q6_K,
    LNT_STORAGES
} lnt_storage;

LNT_PRIVATE_API const char *lnt_storage_name(lnt_storage storage); /* "q4_1" */
LNT_PRIVATE_API size_t lnt_storage_numbers(lnt_storage storage);   /* of a block: 1, 32 or 256 */
LNT_PRIVATE_API size_t lnt_storage_bytes(lnt_storage storage);     /* of a block */

/* to [count] = the numbers of whole blocks, exactly as the format defines them, rounded once to f32. count
 * is a multiple of lnt_storage_numbers; from needs no alignment. */
LNT_PRIVATE_API void lnt_storage_unpack(lnt_storage storage, const void *from, float *to, size_t count);

#endif
