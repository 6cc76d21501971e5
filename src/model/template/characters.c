/* model/template/characters.c - see characters.h.  Linear in the bytes. */
#include "model/template/characters.h"

#include <stdint.h>
#include <string.h>

bool lnt_span_equal(lnt_span a, lnt_span b)
{
    return a.bytes == b.bytes && memcmp(a.text, b.text, a.bytes) == 0;
}

bool lnt_span_is(lnt_span span, const char *text)
{
    return lnt_span_equal(span, (lnt_span){ text, strlen(text) });
}

int lnt_span_compare(lnt_span a, lnt_span b)
{
    const int order = memcmp(a.text, b.text, a.bytes < b.bytes ? a.bytes : b.bytes);
    return order ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

size_t lnt_span_find(lnt_span in, lnt_span part, size_t from)
{
    if (from > in.bytes) return SIZE_MAX;
    const char *found = memmem(in.text + from, in.bytes - from, part.text, part.bytes);
    return found ? (size_t)(found - in.text) : SIZE_MAX;
}

size_t lnt_characters_bytes(const char *s, size_t left)
{
    const unsigned char c = (unsigned char)s[0];
    const size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (c < 0xc2 || c > 0xf4 || n > left) return 1;
    for (size_t i = 1; i < n; i++)
        if (((unsigned char)s[i] & 0xc0) != 0x80) return 1;
    const unsigned char d = (unsigned char)s[1];
    const bool overlong = (c == 0xe0 && d < 0xa0) || (c == 0xf0 && d < 0x90);
    const bool surrogate = c == 0xed && d > 0x9f, beyond = c == 0xf4 && d > 0x8f;
    return overlong || surrogate || beyond ? 1 : n;
}

uint32_t lnt_characters_code(const char *s, size_t left)
{
    const unsigned char c = (unsigned char)s[0];
    const size_t n = lnt_characters_bytes(s, left);
    if (n == 1) return c < 0x80 ? c : 0xdc00u + c;
    uint32_t code = c & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) code = code << 6 | ((unsigned char)s[i] & 0x3fu);
    return code;
}

size_t lnt_characters_put(uint32_t code, char to[4])
{
    static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    if (code < 0x80 || (code >= 0xdc80 && code <= 0xdcff)) {
        to[0] = (char)(code & 0xff);
        return 1;
    }
    const size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; code >>= 6) to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)(lead[n] | code);
    return n;
}

size_t lnt_characters_count(lnt_span span)
{
    size_t count = 0;
    for (size_t i = 0; i < span.bytes; count++) i += lnt_characters_bytes(span.text + i, span.bytes - i);
    return count;
}

size_t lnt_characters_skip(lnt_span span, size_t characters)
{
    size_t i = 0;
    while (characters-- && i < span.bytes) i += lnt_characters_bytes(span.text + i, span.bytes - i);
    return i;
}

size_t lnt_characters_last(lnt_span span)
{
    for (size_t n = span.bytes < 4 ? span.bytes : 4; n > 1; n--)
        if (lnt_characters_bytes(span.text + span.bytes - n, n) == n) return n;
    return 1;
}

/* ---- classes ------------------------------------------------------------------------------- */

bool lnt_characters_is_space(uint32_t code)
{
    return (code >= 9 && code <= 13) || (code >= 0x1c && code <= 0x20) || code == 0x85 || code == 0xa0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
           code == 0x202f || code == 0x205f || code == 0x3000;
}

/* Letters whose lower case comes right after the upper: even ones begin a pair, or odd ones. */
static bool in_pairs(uint32_t code, uint32_t *first)
{
    const bool even = (code >= 0x100 && code <= 0x12f) || (code >= 0x132 && code <= 0x137) ||
                      (code >= 0x14a && code <= 0x177) || (code >= 0x460 && code <= 0x481) ||
                      (code >= 0x48a && code <= 0x4bf) || (code >= 0x4d0 && code <= 0x52f);
    const bool odd = (code >= 0x139 && code <= 0x148) || (code >= 0x179 && code <= 0x17e) ||
                     (code >= 0x4c1 && code <= 0x4ce);
    *first = odd ? code - (code + 1) % 2 : code & ~1u;
    return even || odd;
}

/* Runs of letters: from, to of the lower case, and how far below it the upper case lies. */
static const struct {
    uint32_t from, to, down;
} runs[] = { { 'a', 'z', 32 },       { 0xe0, 0xf6, 32 },     { 0xf8, 0xfe, 32 },    { 0x3ac, 0x3ac, 38 },
             { 0x3ad, 0x3af, 37 },   { 0x3b1, 0x3c1, 32 },   { 0x3c3, 0x3cb, 32 },  { 0x3cc, 0x3cc, 64 },
             { 0x3cd, 0x3ce, 63 },   { 0x430, 0x44f, 32 },   { 0x450, 0x45f, 80 } };
enum { RUNS = sizeof runs / sizeof runs[0] };

uint32_t lnt_characters_upper(uint32_t code)
{
    uint32_t first;
    for (size_t i = 0; i < RUNS; i++)
        if (code >= runs[i].from && code <= runs[i].to) return code - runs[i].down;
    if (in_pairs(code, &first)) return first;
    return code == 0xff ? 0x178 : code == 0x3c2 ? 0x3a3 : code == 0xb5 ? 0x39c
           : code == 0x131 ? 'I' : code == 0x17f ? 'S' : code == 0x4cf ? 0x4c0 : code;
}

uint32_t lnt_characters_lower(uint32_t code)
{
    uint32_t first;
    for (size_t i = 0; i < RUNS; i++)
        if (code + runs[i].down >= runs[i].from && code + runs[i].down <= runs[i].to)
            return code + runs[i].down;
    if (in_pairs(code, &first)) return first + 1;
    return code == 0x178 ? 0xff : code == 0x4c0 ? 0x4cf : code;
}

bool lnt_characters_is_cased(uint32_t code)
{
    return code == 0xdf || code == 0xaa || code == 0xba || code == 0x138 || code == 0x149 ||
           lnt_characters_upper(code) != code || lnt_characters_lower(code) != code;
}

bool lnt_characters_is_printable(uint32_t code)
{
    if (code == ' ') return true;
    if (code < 0x20 || (code >= 0x7f && code <= 0xa0) || code == 0xad || lnt_characters_is_space(code))
        return false;
    return !((code >= 0x200b && code <= 0x200f) || (code >= 0x202a && code <= 0x202e) ||
             (code >= 0x2060 && code <= 0x206f) || (code >= 0xd800 && code <= 0xf8ff) || code == 0xfeff ||
             (code >= 0xfff0 && code <= 0xfffb) || code >= 0xe0000);
}

/* ---- strip --------------------------------------------------------------------------------- */

static bool in_set(const char *s, size_t bytes, lnt_span set)
{
    if (!set.text) return lnt_characters_is_space(lnt_characters_code(s, bytes));
    for (size_t i = 0, n; i < set.bytes; i += n) {
        n = lnt_characters_bytes(set.text + i, set.bytes - i);
        if (n == bytes && memcmp(set.text + i, s, n) == 0) return true;
    }
    return false;
}

lnt_span lnt_characters_strip(lnt_span span, lnt_span set, bool left, bool right)
{
    while (left && span.bytes) {
        const size_t n = lnt_characters_bytes(span.text, span.bytes);
        if (!in_set(span.text, n, set)) break;
        span.text += n;
        span.bytes -= n;
    }
    while (right && span.bytes) {
        const size_t n = lnt_characters_last(span);
        if (!in_set(span.text + span.bytes - n, n, set)) break;
        span.bytes -= n;
    }
    return span;
}

size_t lnt_characters_line(lnt_span span, size_t *end)
{
    for (size_t i = 0, n; i < span.bytes; i += n) {
        const uint32_t code = lnt_characters_code(span.text + i, span.bytes - i);
        n = lnt_characters_bytes(span.text + i, span.bytes - i);
        if ((code >= 10 && code <= 13) || (code >= 0x1c && code <= 0x1e) || code == 0x85 || code == 0x2028 ||
            code == 0x2029) {
            *end = code == 13 && i + 1 < span.bytes && span.text[i + 1] == 10 ? 2 : n;
            return i;
        }
    }
    *end = 0;
    return span.bytes;
}
