/* io/stored.h - a tensor as a file of a model stores it: where it is, and how to read it. */
#ifndef LNT_IO_STORED_H
#define LNT_IO_STORED_H

#include "io/storage.h"

enum { LNT_STORED_MAX_RANK = 8 };

typedef struct lnt_stored {
    const char *name;
    const char *type; /* "q4_1", "F32", "I64": as the file calls it */
    /* LNT_STORAGES: numbers that no layer computes with, as positions in int64 or masks of booleans. */
    lnt_storage storage;
    int rank;                           /* 0: one number */
    int64_t shape[LNT_STORED_MAX_RANK]; /* row-major: the last is contiguous */
    const void *data; /* in the file; aligned to a number where it is no block */
    size_t bytes;
} lnt_stored;

#endif
