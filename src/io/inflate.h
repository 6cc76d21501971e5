/* io/inflate.h - DEFLATE, unpacked. */
#ifndef LNT_IO_INFLATE_H
#define LNT_IO_INFLATE_H

#include <stdbool.h>
#include <stddef.h>

/* Whether `in` is one DEFLATE stream (RFC 1951) of exactly out_bytes.  Reads and writes nothing beyond
 * either. */
bool lnt_inflate(const unsigned char *in, size_t in_bytes, unsigned char *out, size_t out_bytes);

#endif
