/* model/tokenizer/llama2c.c - a codec from the tokenizer of llama2.c: SentencePiece's merging by scores, with
 * spaces as they are.  A file is an int of no use, then a float, an int and as many bytes for each token; 1
 * and 2 begin and end a text, and the 256 tokens of bytes, where they are, are spelled <0x00> and on. */
#include <string.h>

#include "io/file.h"
#include "io/map.h"
#include "model/tokenizer/inside.h"

enum { LENGTH_MOST = 1 << 16 };

/* Where reading is. */
typedef struct cursor {
    const char *data;
    size_t bytes, at;
} cursor;

typedef struct entry {
    float score;
    int32_t bytes;
} entry;

static bool next(cursor *c, entry *e, const char **text)
{
    if (c->bytes - c->at < sizeof *e) return false;
    memcpy(e, c->data + c->at, sizeof *e);
    c->at += sizeof *e;
    if (e->bytes < 0 || e->bytes > LENGTH_MOST || (size_t)e->bytes > c->bytes - c->at) return false;
    *text = c->data + c->at;
    c->at += (size_t)e->bytes;
    return true;
}

static size_t count_all(cursor c)
{
    entry e;
    const char *text;
    size_t count = 0;
    while (c.at < c.bytes && next(&c, &e, &text)) count++;
    return count;
}

static lnt_status read_tokens(cursor *c, lnt_codec *codec, size_t count)
{
    entry e;
    const char *text;
    if (c->bytes < c->at || count > (c->bytes - c->at) / sizeof e)
        return lnt_fail(codec->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": tokenizer: %zu bytes are too few for %zu tokens", codec->path,
                        c->bytes, count);
    lnt_status status = lnt_vocab_open(&codec->pool, codec->path, count, &codec->vocab);
    for (size_t i = 0; !status && i < count; i++) {
        if (!next(c, &e, &text))
            return lnt_fail(codec->ctx, LNT_ERR_FORMAT,
                            LNT_FILE_FMT ": tokenizer: token %zu is cut off, or its length is not 0 to %d",
                            codec->path, i, LENGTH_MOST);
        status = lnt_vocab_set(&codec->vocab, (int64_t)i, text, (size_t)e.bytes);
        if (!status) codec->vocab.score[i] = (double)e.score;
    }
    if (!status && c->at != c->bytes)
        status = lnt_fail(codec->ctx, LNT_ERR_FORMAT,
                          LNT_FILE_FMT ": tokenizer: %zu bytes are left after its %zu tokens: it is another "
                                       "model's",
                          codec->path, c->bytes - c->at, count);
    return status ? status : lnt_codec_index_all(codec, false);
}

/* A space before every text, and none of the first in what is read back. */
static lnt_status set_up(lnt_codec *codec)
{
    const lnt_text space = { " ", 1 };
    codec->kind = &lnt_codec_sentencepiece;
    lnt_bpe_find_mark(codec, space);
    codec->normal = lnt_pool_take(&codec->pool, sizeof *codec->normal);
    codec->spell = lnt_pool_take(&codec->pool, 2 * sizeof *codec->spell);
    codec->before = lnt_pool_take(&codec->pool, sizeof *codec->before);
    if (!codec->normal || !codec->spell || !codec->before) return LNT_ERR_MEMORY;
    codec->normal[codec->normals++] = (lnt_normal){ .kind = LNT_NORMAL_PREPEND, .to = space };
    codec->spell[codec->spells++].kind = LNT_SPELL_BYTES;
    codec->spell[codec->spells++] = (lnt_spell){ .kind = LNT_SPELL_WHOLE_STRIP, .from = space, .start = 1 };
    lnt_codec_set_role(codec, LNT_ROLE_UNKNOWN, 0);
    lnt_codec_set_role(codec, LNT_ROLE_BOS, 1);
    lnt_codec_set_role(codec, LNT_ROLE_EOS, 2);
    codec->unknown = codec->role[LNT_ROLE_UNKNOWN];
    for (size_t i = 0; i < 3 && i < codec->vocab.count; i++) codec->vocab.special[i] = true;
    if (codec->role[LNT_ROLE_BOS] != LNT_NO_TOKEN)
        codec->before[codec->befores++] = codec->role[LNT_ROLE_BOS];
    return LNT_OK;
}

lnt_status lnt_codec_parse_llama2c(lnt_ctx *ctx, const char *path, const char *data, size_t bytes,
                                   size_t count, lnt_codec **out)
{
    cursor c = { data, bytes, sizeof(int32_t) };
    lnt_codec *codec;
    *out = NULL;
    lnt_status status = lnt_codec_begin(ctx, path, &codec);
    if (status) return status;
    status = read_tokens(&c, codec, count == LNT_ALL_TOKENS ? count_all(c) : count);
    if (!status) status = set_up(codec);
    if (status) lnt_codec_close(codec);
    else *out = codec;
    return status;
}

lnt_status lnt_codec_open_llama2c(lnt_ctx *ctx, const char *path, size_t count, lnt_codec **out)
{
    lnt_map map;
    *out = NULL;
    lnt_status status = lnt_map_open(ctx, path, &map);
    if (status) return status;
    status = lnt_codec_parse_llama2c(ctx, path, (const char *)map.data, map.bytes, count, out);
    lnt_map_close(&map);
    return status;
}
