/* model/tokenizer/llama2c.c - a codec from the tokenizer of llama2.c: SentencePiece's merging by scores, with
 * spaces as they are.  A file is an int of no use, then a float, an int and as many bytes for each token; 1
 * and 2 begin and end a text, and the 256 tokens of bytes, where they are, are spelled <0x00> and on. */
#include <string.h>

#include "io/file.h"
#include "model/tokenizer/inside.h"

enum { LENGTH_MOST = 1 << 16 };

static lnt_status read_token(lnt_file_reader *file, lnt_codec *codec, size_t token, lnt_chars *text)
{
    struct {
        float score;
        int32_t bytes;
    } head;
    lnt_status status = lnt_file_read(file, &head, sizeof head);
    if (status) return status;
    if (head.bytes < 0 || head.bytes > LENGTH_MOST || (uint64_t)head.bytes > file->size - file->offset)
        return lnt_fail(codec->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": tokenizer: token %zu has %d bytes, must be 0 to %d", codec->path,
                        token, head.bytes, LENGTH_MOST);
    status = lnt_grow(codec->ctx, &text->text, &text->room, (size_t)head.bytes + 1, 1);
    if (!status) status = lnt_file_read(file, text->text, (size_t)head.bytes);
    if (!status) status = lnt_vocab_set(&codec->vocab, (int64_t)token, text->text, (size_t)head.bytes);
    if (!status) codec->vocab.score[token] = (double)head.score;
    return status;
}

static lnt_status read_tokens(lnt_file_reader *file, lnt_codec *codec, size_t count)
{
    int32_t longest;
    lnt_chars text = { 0 };
    lnt_status status = lnt_file_read(file, &longest, sizeof longest);
    if (!status && count > (file->size - file->offset) / 8)
        status = lnt_fail(codec->ctx, LNT_ERR_FORMAT,
                          LNT_FILE_FMT ": tokenizer: %llu bytes are too few for %zu tokens", codec->path,
                          (unsigned long long)file->size, count);
    if (!status) status = lnt_vocab_open(&codec->pool, codec->path, count, &codec->vocab);
    for (size_t i = 0; !status && i < count; i++) status = read_token(file, codec, i, &text);
    lnt_chars_free(codec->ctx, &text);
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

lnt_status lnt_codec_open_llama2c(lnt_ctx *ctx, const char *path, size_t count, lnt_codec **out)
{
    lnt_file_reader file;
    lnt_codec *codec;
    *out = NULL;
    lnt_status status = lnt_file_open(ctx, path, &file);
    if (status) return status;
    status = lnt_codec_begin(ctx, path, &codec);
    if (!status) status = read_tokens(&file, codec, count);
    if (!status) status = set_up(codec);
    lnt_file_close(&file);
    if (status) lnt_codec_close(codec);
    else *out = codec;
    return status;
}
