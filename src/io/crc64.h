/* io/crc64.h - CRC-64/XZ (polynomial of ECMA-182, reflected), eight bytes at a time.
 *
 * It detects any change within 64 consecutive bits, so any changed byte.  A step waits for the one before
 * it, so long data go in four streams side by side: a CRC is a remainder of polynomials, and what follows
 * multiplies it by a power of x.  The table is computed for each file, in microseconds, because the
 * library keeps no mutable globals. */
#ifndef LNT_IO_CRC64_H
#define LNT_IO_CRC64_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LNT_CRC64_POLYNOMIAL UINT64_C(0xc96c5795d7870f42)
#define LNT_CRC64_ONE (UINT64_C(1) << 63) /* reflected: the highest bit is x^0 */

enum { LNT_CRC64_STREAM = 1 << 15 }; /* bytes of each of the four */

typedef struct lnt_crc64 {
    uint64_t value;
    uint64_t table[8][256]; /* [k][b]: byte b followed by k zero bytes */
} lnt_crc64;

/* a b modulo the polynomial */
static inline uint64_t lnt_crc64_multiply(uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    for (; a; a <<= 1) {
        product ^= a & LNT_CRC64_ONE ? b : 0;
        b = b >> 1 ^ (b & 1 ? LNT_CRC64_POLYNOMIAL : 0);
    }
    return product;
}

static inline void lnt_crc64_init(lnt_crc64 *crc)
{
    crc->value = ~UINT64_C(0);
    for (unsigned b = 0; b < 256; b++) {
        uint64_t r = b;
        for (int bit = 0; bit < 8; bit++)
            r = r >> 1 ^ (r & 1 ? LNT_CRC64_POLYNOMIAL : 0);
        crc->table[0][b] = r;
    }
    for (int k = 1; k < 8; k++)
        for (unsigned b = 0; b < 256; b++) {
            const uint64_t r = crc->table[k - 1][b];
            crc->table[k][b] = r >> 8 ^ crc->table[0][r & 0xff];
        }
}

/* The value after the eight bytes at p. */
static inline uint64_t lnt_crc64_word(const lnt_crc64 *crc, uint64_t value, const unsigned char *p)
{
    const uint64_t(*t)[256] = crc->table;
    uint64_t word;
    memcpy(&word, p, sizeof word); /* little-endian */
    word ^= value;
    return t[7][word & 0xff] ^ t[6][word >> 8 & 0xff] ^ t[5][word >> 16 & 0xff] ^ t[4][word >> 24 & 0xff] ^
           t[3][word >> 32 & 0xff] ^ t[2][word >> 40 & 0xff] ^ t[1][word >> 48 & 0xff] ^ t[0][word >> 56];
}

/* The value after four streams at p; shift is x to the power of the bits of a stream. */
static inline uint64_t lnt_crc64_streams(const lnt_crc64 *crc, const unsigned char *p, uint64_t shift)
{
    uint64_t v[4] = { crc->value };
    for (size_t i = 0; i < LNT_CRC64_STREAM; i += 8)
        for (size_t k = 0; k < 4; k++) v[k] = lnt_crc64_word(crc, v[k], p + k * LNT_CRC64_STREAM + i);
    for (int k = 1; k < 4; k++) v[k] ^= lnt_crc64_multiply(v[k - 1], shift);
    return v[3];
}

static inline void lnt_crc64_add(lnt_crc64 *crc, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    const size_t four = 4 * (size_t)LNT_CRC64_STREAM;
    uint64_t shift = LNT_CRC64_ONE >> 1; /* x, to be squared */
    for (int bits = 1; bits < 8 * LNT_CRC64_STREAM && bytes >= four; bits *= 2)
        shift = lnt_crc64_multiply(shift, shift);
    for (; bytes >= four; p += four, bytes -= four) crc->value = lnt_crc64_streams(crc, p, shift);
    uint64_t value = crc->value;
    for (; bytes >= 8; p += 8, bytes -= 8) value = lnt_crc64_word(crc, value, p);
    for (; bytes; p++, bytes--) value = value >> 8 ^ crc->table[0][(value ^ *p) & 0xff];
    crc->value = value;
}

/* x to the power of the bits of so many bytes: the value after A and then B is the one after A times that of
 * B's bytes, plus the one after B alone, begun at 0. */
static inline uint64_t lnt_crc64_shift(size_t bytes)
{
    uint64_t power = LNT_CRC64_ONE, square = LNT_CRC64_ONE >> 8; /* x^8 */
    for (; bytes; bytes /= 2, square = lnt_crc64_multiply(square, square))
        if (bytes & 1) power = lnt_crc64_multiply(power, square);
    return power;
}

static inline uint64_t lnt_crc64_finish(const lnt_crc64 *crc) { return ~crc->value; }

#endif
