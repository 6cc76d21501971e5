/* model/tokenizer/byte_level.c - GPT-2's alphabet, which spells each byte as a character that can be seen:
 * those that can stand for themselves, the others for U+0100 and on, in order. */
#include "model/tokenizer/inside.h"

/* The byte that a character stands for, or -1. */
static int byte_of(uint32_t code)
{
    if ((code >= 33 && code <= 126) || (code >= 161 && code <= 172) || (code >= 174 && code <= 255))
        return (int)code;
    if (code < 256 || code > 256 + 67) return -1;
    const int n = (int)code - 256; /* of those that cannot be seen: 0 to 32, 127 to 160, 173 */
    return n < 33 ? n : n < 67 ? 127 + n - 33 : 173;
}

bool lnt_byte_level_bytes(lnt_text text, char *to, size_t *bytes)
{
    *bytes = 0;
    for (size_t i = 0; i < text.bytes;) {
        uint32_t code;
        const int n = lnt_utf8_take(text.text + i, text.bytes - i, &code);
        const int byte = n > 0 ? byte_of(code) : -1;
        if (byte < 0) {
            for (size_t k = 0; k < text.bytes; k++) to[k] = text.text[k];
            *bytes = text.bytes;
            return false;
        }
        to[(*bytes)++] = (char)(unsigned char)byte;
        i += (size_t)n;
    }
    return true;
}

lnt_status lnt_byte_level_set(lnt_vocab *v, int64_t token, lnt_text spelling, bool found)
{
    char *bytes = lnt_pool_take(v->pool, spelling.bytes + 1);
    size_t count;
    if (!bytes) return LNT_ERR_MEMORY;
    const bool all = lnt_byte_level_bytes(spelling, bytes, &count);
    const lnt_status status = lnt_vocab_set(v, token, bytes, count);
    return !status && all && found ? lnt_vocab_index(v, (int32_t)token, false) : status;
}
