/* io/inflate.c - DEFLATE (RFC 1951): blocks of literals and of copies from what came before, in
 * canonical Huffman codes that are read bit by bit.  Nothing of the input is trusted. */
#include "io/inflate.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { LENGTHS = 288, DISTANCES = 30, CODES = 19, MOST_BITS = 15, END = 256 };

typedef struct stream {
    const unsigned char *in;
    size_t in_bytes, at;
    uint32_t bits; /* read ahead */
    int count;
    unsigned char *out;
    size_t out_bytes, used;
    bool broken, full; /* full: and broken, for that */
} stream;

/* A canonical code: how many words of each length, and the symbols in order. */
typedef struct huffman {
    uint16_t count[MOST_BITS + 1], symbol[LENGTHS];
} huffman;

static uint32_t take(stream *s, int count)
{
    while (s->count < count) {
        if (s->at == s->in_bytes) {
            s->broken = true;
            return 0;
        }
        s->bits |= (uint32_t)s->in[s->at++] << s->count;
        s->count += 8;
    }
    const uint32_t value = s->bits & ((UINT32_C(1) << count) - 1);
    s->bits >>= count;
    s->count -= count;
    return value;
}

/* False if more words are asked for than there are. */
static bool make_code(huffman *h, const uint8_t *length, int symbols)
{
    uint16_t offset[MOST_BITS + 1] = { 0 };
    int left = 1;
    memset(h->count, 0, sizeof h->count);
    for (int i = 0; i < symbols; i++) h->count[length[i]]++;
    for (int bits = 1; bits <= MOST_BITS; bits++) {
        left = 2 * left - h->count[bits];
        if (left < 0) return false;
        if (bits < MOST_BITS) offset[bits + 1] = (uint16_t)(offset[bits] + h->count[bits]);
    }
    for (int i = 0; i < symbols; i++)
        if (length[i]) h->symbol[offset[length[i]]++] = (uint16_t)i;
    return true;
}

static int decode(stream *s, const huffman *h)
{
    int code = 0, first = 0, index = 0;
    for (int bits = 1; bits <= MOST_BITS && !s->broken; bits++) {
        code |= (int)take(s, 1);
        const int count = h->count[bits];
        if (code - count < first) return h->symbol[index + (code - first)];
        index += count;
        first = (first + count) << 1;
        code <<= 1;
    }
    s->broken = true;
    return END;
}

static void put(stream *s, unsigned char byte)
{
    if (s->used == s->out_bytes) s->broken = s->full = true;
    else s->out[s->used++] = byte;
}

static void copy(stream *s, size_t length, size_t distance)
{
    if (distance > s->used) {
        s->broken = true;
        return;
    }
    while (length-- && !s->broken) put(s, s->out[s->used - distance]);
}

static void coded_block(stream *s, const huffman *literals, const huffman *distances)
{
    static const uint16_t base[] = { 3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                     31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258 };
    static const uint8_t extra[] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                     2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0 };
    while (!s->broken) {
        const int symbol = decode(s, literals);
        if (symbol == END) return;
        if (symbol < END) {
            put(s, (unsigned char)symbol);
            continue;
        }
        const int which = symbol - END - 1;
        if (which >= (int)sizeof extra) break;
        const size_t length = (size_t)base[which] + take(s, extra[which]);
        const int far = decode(s, distances);
        if (far >= DISTANCES) break;
        const int more = far < 4 ? 0 : far / 2 - 1;
        const size_t from = far < 4 ? (size_t)far + 1
                                    : 1 + ((size_t)(2 + (far & 1)) << more) + take(s, more);
        copy(s, length, from);
    }
    s->broken = true;
}

static void fixed_block(stream *s)
{
    huffman literals, distances;
    uint8_t length[LENGTHS];
    for (int i = 0; i < LENGTHS; i++) length[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    make_code(&literals, length, LENGTHS);
    memset(length, 5, DISTANCES);
    make_code(&distances, length, DISTANCES);
    coded_block(s, &literals, &distances);
}

/* The lengths of both codes, themselves in a code. */
static bool read_lengths(stream *s, const huffman *h, uint8_t *length, int wanted)
{
    int at = 0;
    while (at < wanted && !s->broken) {
        const int symbol = decode(s, h);
        uint8_t value = 0;
        int times = 1;
        if (symbol < 16) value = (uint8_t)symbol;
        else if (symbol == 16 && at) {
            value = length[at - 1];
            times = 3 + (int)take(s, 2);
        } else if (symbol == 17) times = 3 + (int)take(s, 3);
        else if (symbol == 18) times = 11 + (int)take(s, 7);
        else return false;
        if (at + times > wanted) return false;
        while (times--) length[at++] = value;
    }
    return !s->broken;
}

static void dynamic_block(stream *s)
{
    static const uint8_t order[CODES] = { 16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                          11, 4,  12, 3, 13, 2, 14, 1, 15 };
    huffman literals, distances, codes;
    uint8_t length[LENGTHS + 32] = { 0 };
    const int many = (int)take(s, 5) + 257, far = (int)take(s, 5) + 1, used = (int)take(s, 4) + 4;
    for (int i = 0; i < used; i++) length[order[i]] = (uint8_t)take(s, 3);
    bool good = many <= 286 && far <= DISTANCES && make_code(&codes, length, CODES);
    memset(length, 0, sizeof length);
    good = good && read_lengths(s, &codes, length, many + far) && length[END] &&
           make_code(&literals, length, many) && make_code(&distances, length + many, far);
    if (good) coded_block(s, &literals, &distances);
    else s->broken = true;
}

static void stored_block(stream *s)
{
    s->bits = 0; /* to the next whole byte: what is read ahead is less than one */
    s->count = 0;
    const uint32_t length = take(s, 16), check = take(s, 16);
    if (length != (check ^ 0xffff) || length > s->in_bytes - s->at) s->broken = true;
    for (uint32_t i = 0; i < length && !s->broken; i++) put(s, s->in[s->at++]);
}

lnt_inflated lnt_inflate(const unsigned char *in, size_t in_bytes, unsigned char *out, size_t out_bytes,
                         size_t *read, size_t *made)
{
    stream s = { .in = in, .in_bytes = in_bytes, .out = out, .out_bytes = out_bytes };
    bool last = false;
    while (!last && !s.broken) {
        last = take(&s, 1);
        switch (take(&s, 2)) {
        case 0: stored_block(&s); break;
        case 1: fixed_block(&s); break;
        case 2: dynamic_block(&s); break;
        default: s.broken = true;
        }
    }
    *read = s.at;
    *made = s.used;
    return s.full ? LNT_INFLATE_FULL : s.broken ? LNT_INFLATE_BROKEN : LNT_INFLATE_DONE;
}
