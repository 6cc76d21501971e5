/* io/inflate.h - DEFLATE, unpacked. */
#ifndef LNT_IO_INFLATE_H
#define LNT_IO_INFLATE_H

#include <stddef.h>

typedef enum lnt_inflated {
    LNT_INFLATE_DONE = 0,
    LNT_INFLATE_BROKEN = 1,
    LNT_INFLATE_FULL = 2 /* there is more than out_bytes */
} lnt_inflated;

/* The DEFLATE stream (RFC 1951) that `in` begins with; how much of both it takes goes to *read and *made.
 * Reads and writes nothing beyond either. */
lnt_inflated lnt_inflate(const unsigned char *in, size_t in_bytes, unsigned char *out, size_t out_bytes,
                         size_t *read, size_t *made);

#endif
