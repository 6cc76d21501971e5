/* llama2c_file.c - see llama2c_file.h. */
#include "llama2c_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/rng.h"

static void put_numbers(buffer *to, size_t count, double around, double spread, uint64_t *seed)
{
    const lnt_rng rng = lnt_rng_make(++*seed);
    for (size_t i = 0; i < count; i++) {
        const float x = (float)(around + spread * lnt_rng_normal(rng, i));
        buffer_put(to, &x, sizeof x);
    }
}

/* cos, then sin, of position times 10000^(-2i/head). */
static void put_turns(buffer *to)
{
    enum { HEAD = LLAMA2C_DIM / LLAMA2C_HEADS };
    for (int part = 0; part < 2; part++)
        for (int position = 0; position < LLAMA2C_LENGTH; position++)
            for (int i = 0; i < HEAD / 2; i++) {
                const double angle = position * pow(10000, -2.0 * i / HEAD);
                const float turn = (float)(part ? sin(angle) : cos(angle));
                buffer_put(to, &turn, sizeof turn);
            }
}

buffer llama2c_file(bool separate, uint64_t seed)
{
    enum { D = LLAMA2C_DIM, L = LLAMA2C_LAYERS, KV = D / LLAMA2C_HEADS * LLAMA2C_KV_HEADS };
    static const int32_t header[] = {
        D, LLAMA2C_FEED, L, LLAMA2C_HEADS, LLAMA2C_KV_HEADS, LLAMA2C_TOKENS, LLAMA2C_LENGTH
    };
    buffer b = { 0 };
    for (size_t i = 0; i < 7; i++)
        buffer_put_u32(&b, (uint32_t)(i == 5 && separate ? -header[i] : header[i]));
    put_numbers(&b, LLAMA2C_TOKENS * D, 0, 0.3, &seed);
    put_numbers(&b, L * D, 1, 0.1, &seed);
    put_numbers(&b, L * (D * D + 2 * KV * D + D * D), 0, 0.3, &seed);
    put_numbers(&b, L * D, 1, 0.1, &seed);
    put_numbers(&b, L * 3 * D * LLAMA2C_FEED, 0, 0.3, &seed);
    put_numbers(&b, D, 1, 0.1, &seed);
    put_turns(&b);
    if (separate) put_numbers(&b, LLAMA2C_TOKENS * D, 0, 0.3, &seed);
    return b;
}

static void put_token(buffer *to, float score, const char *text)
{
    buffer_put(to, &score, sizeof score);
    buffer_put_u32(to, (uint32_t)strlen(text));
    buffer_put(to, text, strlen(text));
}

buffer llama2c_tokenizer(void)
{
    static const char *const more[] = { " ", "a", "b", "ab", " ab" };
    buffer b = { 0 };
    char text[16];
    buffer_put_u32(&b, 6); /* the longest */
    put_token(&b, 0, "<unk>");
    put_token(&b, 0, "\n<s>\n");
    put_token(&b, 0, "\n</s>\n");
    for (int i = 0; i < 256; i++) {
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)i);
        put_token(&b, 0, text);
    }
    for (int i = 0; i < 5; i++) put_token(&b, (float)-i, more[i]);
    return b;
}
