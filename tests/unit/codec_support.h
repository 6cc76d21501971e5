/* codec_support.h - what the tests of tokenizers share: small tokenizers in JSON, and texts of dice. */
#ifndef LNT_TESTS_CODEC_SUPPORT_H
#define LNT_TESTS_CODEC_SUPPORT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer/inside.h"
#include "support.h"

/* Begins a test of a tokenizer that cuts by regular expressions. */
static inline void needs_regex(void)
{
#ifndef LNT_PCRE2
    skip_because("built without PCRE2 (libpcre2-dev), which cuts the words of these tokenizers");
#endif
}

/* Text that grows; its memory is malloc's. */
typedef struct page {
    char *text;
    size_t bytes, room;
} page;

static inline void page_bytes(page *p, const char *text, size_t bytes)
{
    while (p->bytes + bytes + 1 > p->room) {
        p->room = p->room ? 2 * p->room : 256;
        p->text = realloc(p->text, p->room);
        assert_non_null(p->text);
    }
    memcpy(p->text + p->bytes, text, bytes);
    p->bytes += bytes;
    p->text[p->bytes] = '\0';
}

static inline void page_put(page *p, const char *text) { page_bytes(p, text, strlen(text)); }

/* The character that stands for a byte in GPT-2's alphabet, as JSON writes it. */
static inline void page_letter(page *p, int byte)
{
    char text[16];
    int code = byte, hidden = 0;
    for (int b = 0; b <= byte; b++) {
        const bool seen = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (!seen) hidden++;
        if (!seen && b == byte) code = 0x100 + hidden - 1;
    }
    snprintf(text, sizeof text, "\\u%04x", (unsigned)code);
    page_put(p, text);
}

/* A byte-level tokenizer: token b is the byte b, 256 + i what merge i makes; `rest` are further members of
 * the root, each after a comma; merges "a b" with letters as they are, ended by NULL. */
static inline page byte_level_json(const char *const *merge, const char *model, const char *pre,
                                   const char *rest)
{
    page p = { 0 };
    char number[32];
    page_put(&p, "{\"model\":{\"type\":\"BPE\",");
    page_put(&p, model);
    page_put(&p, "\"vocab\":{");
    for (int b = 0; b < 256; b++) {
        page_put(&p, b ? ",\"" : "\"");
        page_letter(&p, b);
        snprintf(number, sizeof number, "\":%d", b);
        page_put(&p, number);
    }
    for (int i = 0; merge[i]; i++) {
        const char *space = strchr(merge[i], ' ');
        page_put(&p, ",\"");
        page_bytes(&p, merge[i], (size_t)(space - merge[i]));
        page_put(&p, space + 1);
        snprintf(number, sizeof number, "\":%d", 256 + i);
        page_put(&p, number);
    }
    page_put(&p, "},\"merges\":[");
    for (int i = 0; merge[i]; i++) {
        page_put(&p, i ? ",\"" : "\"");
        page_put(&p, merge[i]);
        page_put(&p, "\"");
    }
    page_put(&p, "]},\"pre_tokenizer\":");
    page_put(&p, pre);
    page_put(&p, ",\"decoder\":{\"type\":\"ByteLevel\"}");
    page_put(&p, rest);
    page_put(&p, "}");
    return p;
}

static inline lnt_codec *open_text(lnt_ctx *ctx, const char *json)
{
    lnt_codec *codec = NULL;
    assert_ok(ctx, lnt_codec_open_json(ctx, "t.json", json, strlen(json), &codec));
    return codec;
}

static inline lnt_codec *open_page(lnt_ctx *ctx, page p)
{
    lnt_codec *codec = open_text(ctx, p.text);
    free(p.text);
    return codec;
}

/* text encodes to the numbers written in `want`, "1 2 3". */
#define assert_tokens(ctx, codec, text, flags, want) \
    assert_tokens_of((ctx), (codec), (text), strlen(text), (flags), (want), __FILE__, __LINE__)
static inline void assert_tokens_of(lnt_ctx *ctx, const lnt_codec *codec, const char *text, size_t bytes,
                                    unsigned flags, const char *want, const char *file, int line)
{
    lnt_tokens tokens = { 0 };
    page got = { 0 };
    char number[16];
    support_assert_ok(ctx, lnt_codec_encode(ctx, codec, text, bytes, flags, &tokens), "encode", file, line);
    page_put(&got, "");
    for (size_t i = 0; i < tokens.count; i++) {
        snprintf(number, sizeof number, "%s%d", i ? " " : "", tokens.token[i]);
        page_put(&got, number);
    }
    _assert_string_equal(got.text, want, file, line);
    free(got.text);
    lnt_tokens_free(ctx, &tokens);
}

/* tokens decode to `want`. */
static inline void assert_text(lnt_ctx *ctx, const lnt_codec *codec, const int32_t *tokens, size_t count,
                               bool skip, const char *want)
{
    char *text;
    size_t bytes;
    assert_ok(ctx, lnt_codec_decode(ctx, codec, tokens, count, skip, &text, &bytes));
    assert_int_equal(bytes, strlen(text));
    assert_string_equal(text, want);
    lnt_release(ctx, text, bytes + 1);
}

/* A text of dice: of letters, spaces, digits, signs and characters of two to four bytes, some of them broken.
 */
static inline page dice_text(dice *d, int characters, bool broken)
{
    static const char *const parts[] = { "a",
                                         "b",
                                         "e",
                                         "t",
                                         "h",
                                         " ",
                                         " ",
                                         "  ",
                                         "\n",
                                         "1",
                                         "23",
                                         ".",
                                         "'s",
                                         "\xc3\xa9",
                                         "e\xcc\x81",
                                         "\xe4\xb8\xad",
                                         "\xd8\xb9",
                                         "\xf0\x9f\x98\x80",
                                         "\xe2\x80\x8d",
                                         "\t",
                                         "<",
                                         "|",
                                         "\xc2\xa0",
                                         "\x01" };
    static const char *const shards[] = { "\xff", "\xe4\xb8", "\xf0\x9f\x98",
                                          "\x80", "\xc0\xaf", "\xed\xa0\x80" };
    page p = { 0 };
    page_put(&p, "");
    for (int i = 0; i < characters; i++)
        page_put(&p, broken && dice_range(d, 0, 5) == 0 ? DICE_PICK(d, shards) : DICE_PICK(d, parts));
    return p;
}

#endif
