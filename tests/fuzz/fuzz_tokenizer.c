/* fuzz_tokenizer.c - the input is a tokenizer and a text: a tokenizer that opens encodes the text, and
 * decodes what it gave.
 *
 * The first byte says which: 'j' a tokenizer.json, 'l' the file of llama2.c, 'g' a GGUF file, 't' a sound
 * tokenizer of llama2.c, through which every text must come back.  The second is half the number of tokens of
 * 'l', the third how many bytes at the end are the text. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "io/json.h"
#include "llama2c_file.h"
#include "model/import/vocabulary.h"

static void need(bool holds)
{
    if (!holds) abort();
}

/* Piece by piece as at once, and every token one of the codec's. */
static void decode(lnt_ctx *ctx, const lnt_codec *codec, const lnt_tokens *tokens)
{
    lnt_detokenizer *pieces;
    lnt_text piece;
    char *whole;
    size_t bytes, used = 0;
    need(lnt_codec_decode(ctx, codec, tokens->token, tokens->count, false, &whole, &bytes) == LNT_OK);
    need(strlen(whole) <= bytes);
    need(lnt_detokenizer_open(ctx, codec, false, &pieces) == LNT_OK);
    for (size_t i = 0; i <= tokens->count; i++) {
        need((i < tokens->count ? lnt_detokenizer_put(pieces, tokens->token[i], &piece)
                                : lnt_detokenizer_end(pieces, &piece)) == LNT_OK);
        need(piece.bytes <= bytes - used && memcmp(whole + used, piece.text, piece.bytes) == 0);
        used += piece.bytes;
    }
    need(used == bytes);
    lnt_detokenizer_close(pieces);
    lnt_release(ctx, whole, bytes + 1);
}

static void use(lnt_ctx *ctx, const lnt_codec *codec, const char *text, size_t bytes)
{
    for (unsigned flags = 0; flags < 4; flags++) {
        lnt_tokens tokens = { 0 };
        const lnt_status status = lnt_codec_encode(ctx, codec, text, bytes, flags, &tokens);
        fuzz_check(status);
        for (size_t i = 0; i < tokens.count; i++)
            need(tokens.token[i] >= 0 && (size_t)tokens.token[i] < lnt_codec_count(codec));
        if (!status) decode(ctx, codec, &tokens);
        lnt_tokens_free(ctx, &tokens);
    }
    for (size_t i = 0; i < lnt_codec_count(codec) && i < 64; i++) {
        const lnt_text spelling = lnt_codec_spelling(codec, (int32_t)i);
        fuzz_touch(spelling.text, spelling.bytes);
    }
}

/* The vocabulary of a GGUF file, as a model has it. */
static lnt_status open_gguf(lnt_ctx *ctx, const uint8_t *data, size_t size, lnt_codec **out)
{
    lnt_source s = { .ctx = ctx, .kind = LNT_SOURCE_GGUF, .path = fuzz_file(data, size), .name = "llama" };
    lnt_codec_file kept = { 0 };
    *out = NULL;
    lnt_status status = lnt_tensors_open(ctx, s.path, &s.tensors);
    if (!status && s.tensors.gguf) status = lnt_vocabulary_open(&s, NULL, out, &kept);
    lnt_codec_file_free(ctx, &kept);
    if (!status && !s.tensors.gguf) status = lnt_fail(ctx, LNT_ERR_FORMAT, "no GGUF file");
    lnt_source_close(&s);
    return status;
}

/* The text of the tokens of a text; lnt_release(ctx, text, bytes + 1) releases it. */
static char *there_and_back(lnt_ctx *ctx, const lnt_codec *codec, const char *text, size_t bytes,
                            size_t *count)
{
    lnt_tokens tokens = { 0 };
    char *back;
    need(lnt_codec_encode(ctx, codec, text, bytes, LNT_ENCODE_VERBATIM, &tokens) == LNT_OK);
    need(lnt_codec_decode(ctx, codec, tokens.token, tokens.count, true, &back, count) == LNT_OK);
    lnt_tokens_free(ctx, &tokens);
    return back;
}

/* What is UTF-8 comes back as it was; what is not is UTF-8 then. */
static void expect_back(lnt_ctx *ctx, const char *text, size_t bytes)
{
    buffer file = llama2c_tokenizer();
    lnt_codec *codec;
    size_t once, twice;
    need(lnt_codec_open_llama2c(ctx, fuzz_file(file.data, file.used), LLAMA2C_TOKENS, &codec) == LNT_OK);
    char *first = there_and_back(ctx, codec, text, bytes, &once);
    char *second = there_and_back(ctx, codec, first, once, &twice);
    need(once == twice && memcmp(first, second, once) == 0);
    char sound[256] = "";
    memcpy(sound, text, bytes); /* 255 at the most */
    if (strlen(sound) == bytes && lnt_json_is_utf8(sound))
        need(once == bytes && memcmp(first, text, bytes) == 0);
    lnt_release(ctx, first, once + 1);
    lnt_release(ctx, second, twice + 1);
    lnt_codec_close(codec);
    buffer_free(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { HEAD = 3 };
    lnt_ctx *ctx = fuzz_context();
    lnt_codec *codec = NULL;
    if (size < HEAD) return 0;
    const size_t bytes = data[2] < size - HEAD ? data[2] : size - HEAD, file = size - HEAD - bytes;
    const char *text = (const char *)data + size - bytes;
    lnt_status status = LNT_OK;
    if (data[0] == 'j')
        status = lnt_codec_open_json(ctx, "fuzz.json", (const char *)data + HEAD, file, &codec);
    else if (data[0] == 'l')
        status = lnt_codec_open_llama2c(ctx, fuzz_file(data + HEAD, file), data[1] * 2u, &codec);
    else if (data[0] == 'g')
        status = open_gguf(ctx, data + HEAD, file, &codec);
    else if (data[0] == 't')
        expect_back(ctx, text, bytes);
    fuzz_check(status);
    if (codec) use(ctx, codec, text, bytes);
    lnt_codec_close(codec);
    return 0;
}
