/* io/crc64.h - CRC-64/XZ (polynomial of ECMA-182, reflected), eight bytes at a time.
 *
 * It detects any change within 64 consecutive bits, so any changed byte.  The table is computed for each
 * file, in microseconds, because the library keeps no mutable globals. */
#ifndef LNT_IO_CRC64_H
#define LNT_IO_CRC64_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct lnt_crc64 {
    uint64_t value;
    uint64_t table[8][256]; /* [k][b]: byte b followed by k zero bytes */
} lnt_crc64;

static inline void lnt_crc64_init(lnt_crc64 *crc)
{
    crc->value = ~UINT64_C(0);
    for (unsigned b = 0; b < 256; b++) {
        uint64_t r = b;
        for (int bit = 0; bit < 8; bit++)
            r = r >> 1 ^ (r & 1 ? UINT64_C(0xc96c5795d7870f42) : 0);
        crc->table[0][b] = r;
    }
    for (int k = 1; k < 8; k++)
        for (unsigned b = 0; b < 256; b++) {
            const uint64_t r = crc->table[k - 1][b];
            crc->table[k][b] = r >> 8 ^ crc->table[0][r & 0xff];
        }
}

static inline void lnt_crc64_add(lnt_crc64 *crc, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t value = crc->value;
    for (; bytes >= 8; p += 8, bytes -= 8) {
        uint64_t word, next = 0;
        memcpy(&word, p, sizeof word); /* little-endian */
        word ^= value;
        for (int k = 0; k < 8; k++) next ^= crc->table[7 - k][word >> (8 * k) & 0xff];
        value = next;
    }
    for (; bytes; p++, bytes--) value = value >> 8 ^ crc->table[0][(value ^ *p) & 0xff];
    crc->value = value;
}

static inline uint64_t lnt_crc64_finish(const lnt_crc64 *crc) { return ~crc->value; }

#endif
