/* model/tokenizer/bpe.c - byte-pair encoding: by ranked merges, of bytes or of characters, and
 * SentencePiece's, by the scores of what two tokens spell together.
 *
 * A word begins as its bytes or characters, in a chain.  A heap holds every pair of neighbours that may
 * merge; the best is merged, and its new neighbours join the heap: O(n log n) in the bytes of the word.
 * SentencePiece's "word" may be a whole book.  Where no token has U+2581 behind another character, no merge
 * crosses the place before it; what is between such places is encoded alone: its heap fits the cache. */
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "model/tokenizer/inside.h"

#define END UINT32_MAX

/* ---- the merges ---------------------------------------------------------------------------------- */

lnt_status lnt_bpe_open(lnt_codec *codec, size_t count)
{
    lnt_bpe *b = &codec->bpe;
    if (count > UINT32_MAX / 4)
        return lnt_fail(codec->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": tokenizer: %zu merges, at most %u",
                        codec->path, count, UINT32_MAX / 4);
    b->pairs = 64;
    while (b->pairs < 2 * count) b->pairs *= 2;
    b->pair = lnt_pool_take(&codec->pool, b->pairs * sizeof *b->pair);
    if (!b->pair) return LNT_ERR_MEMORY;
    for (size_t i = 0; i < b->pairs; i++) b->pair[i].left = LNT_NO_TOKEN;
    return LNT_OK;
}

/* The pair's slot, or the free one where it would be. */
static lnt_pair *find_pair(const lnt_bpe *b, int32_t left, int32_t right)
{
    uint64_t key = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * UINT64_C(0x9E3779B97F4A7C15);
    key ^= key >> 29;
    key *= UINT64_C(0xBF58476D1CE4E5B9);
    size_t s = (size_t)(key >> 32) & (b->pairs - 1);
    while (b->pair[s].left != LNT_NO_TOKEN && (b->pair[s].left != left || b->pair[s].right != right))
        s = (s + 1) & (b->pairs - 1);
    return &b->pair[s];
}

static lnt_status refuse_merge(const lnt_codec *codec, size_t rank, lnt_text part)
{
    return lnt_fail(codec->ctx, LNT_ERR_FORMAT,
                    LNT_FILE_FMT ": tokenizer: merge %zu needs '%.*s', which is no token", codec->path, rank,
                    (int)(part.bytes < 60 ? part.bytes : 60), part.text);
}

/* left and right as the vocabulary has them. */
static lnt_status add_merge(lnt_codec *codec, size_t rank, lnt_text left, lnt_text right, char *joined)
{
    const lnt_vocab *v = &codec->vocab;
    const size_t skip = codec->bpe.prefix.bytes <= right.bytes ? codec->bpe.prefix.bytes : 0;
    const lnt_text both = { joined, left.bytes + right.bytes - skip };
    const int32_t l = lnt_vocab_find(v, left.text, left.bytes);
    const int32_t r = lnt_vocab_find(v, right.text, right.bytes);
    if (l == LNT_NO_TOKEN) return refuse_merge(codec, rank, left);
    if (r == LNT_NO_TOKEN) return refuse_merge(codec, rank, right);
    if (left.bytes) memcpy(joined, left.text, left.bytes);
    if (right.bytes > skip) memcpy(joined + left.bytes, right.text + skip, right.bytes - skip);
    const int32_t token = lnt_vocab_find(v, joined, both.bytes);
    if (token == LNT_NO_TOKEN) return refuse_merge(codec, rank, both);
    *find_pair(&codec->bpe, l, r) = (lnt_pair){ l, r, (uint32_t)rank, token }; /* of two, the later */
    return LNT_OK;
}

lnt_status lnt_bpe_merge(lnt_codec *codec, size_t rank, lnt_text left, lnt_text right)
{
    char few[512], *memory = few;
    const size_t both = left.bytes + right.bytes, room = 2 * both;
    if (room > sizeof few && !(memory = lnt_allocate(codec->ctx, room, "a merge"))) return LNT_ERR_MEMORY;
    char *joined = memory + both;
    if (codec->bpe.byte_level) { /* the vocabulary has bytes */
        lnt_byte_level_bytes(left, memory, &left.bytes);
        left.text = memory;
        lnt_byte_level_bytes(right, memory + left.bytes, &right.bytes);
        right.text = memory + left.bytes;
    }
    const lnt_status status = add_merge(codec, rank, left, right, joined);
    if (memory != few) lnt_release(codec->ctx, memory, room);
    return status;
}

lnt_status lnt_bpe_merge_line(lnt_codec *codec, size_t rank, lnt_text line)
{
    const char *space = line.bytes > 2 ? memchr(line.text + 1, ' ', line.bytes - 1) : NULL;
    if (!space || space + 1 == line.text + line.bytes)
        return lnt_fail(codec->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": tokenizer: merge %zu is '%.*s', must be two tokens", codec->path,
                        rank, (int)(line.bytes < 60 ? line.bytes : 60), line.bytes ? line.text : "");
    const size_t left = (size_t)(space - line.text);
    return lnt_bpe_merge(codec, rank, (lnt_text){ line.text, left },
                         (lnt_text){ space + 1, line.bytes - left - 1 });
}

lnt_status lnt_bpe_close_letters(lnt_codec *codec)
{
    for (int i = 0; i < 256; i++) {
        const char byte = (char)(unsigned char)i;
        codec->bpe.letter[i] = lnt_vocab_find(&codec->vocab, &byte, 1);
        if (i >= ' ' && i <= '~' && codec->bpe.letter[i] == LNT_NO_TOKEN && codec->unknown == LNT_NO_TOKEN)
            return lnt_fail(codec->ctx, LNT_ERR_FORMAT,
                            LNT_FILE_FMT
                            ": tokenizer: no token for the byte 0x%02X ('%c'), and none for what is unknown",
                            codec->path, (unsigned)i, i);
    }
    return LNT_OK;
}

static bool begins(lnt_text text, size_t at, lnt_text with)
{
    return text.bytes - at >= with.bytes && memcmp(text.text + at, with.text, with.bytes) == 0;
}

/* Where the mark is next behind another character, from `at` > 0 on; or the end. */
static size_t next_break(lnt_text text, size_t at, lnt_text mark)
{
    while (at < text.bytes) {
        const char *hit = memmem(text.text + at, text.bytes - at, mark.text, mark.bytes);
        if (!hit) return text.bytes;
        at = (size_t)(hit - text.text);
        if (at < mark.bytes || !begins(text, at - mark.bytes, mark)) return at;
        at += mark.bytes;
    }
    return text.bytes;
}

void lnt_bpe_find_mark(lnt_codec *codec, lnt_text mark)
{
    const lnt_vocab *v = &codec->vocab;
    const lnt_bpe *b = &codec->bpe;
    if (b->prefix.bytes || b->suffix.bytes) return;
    if (lnt_vocab_find(v, mark.text, mark.bytes) == LNT_NO_TOKEN) return;
    for (size_t i = 0; i < v->count; i++)
        if (next_break(v->token[i], 1, mark) < v->token[i].bytes) return;
    codec->bpe.mark = mark;
}

/* The bytes that are encoded alone, of those that are left. */
static size_t stretch(const lnt_codec *codec, const char *text, size_t bytes)
{
    const lnt_text mark = codec->bpe.mark;
    return mark.bytes ? next_break((lnt_text){ text, bytes }, 1, mark) : bytes;
}

/* ---- where a word begins ------------------------------------------------------------------------- */

static lnt_status put_symbol(lnt_ctx *ctx, lnt_scratch *s, int32_t token, size_t start, size_t bytes)
{
    const lnt_status status = lnt_grow(ctx, &s->symbol, &s->symbol_room, s->symbols + 1, sizeof *s->symbol);
    if (status) return status;
    const uint32_t i = (uint32_t)s->symbols++;
    s->symbol[i] = (lnt_symbol){ token, (uint32_t)start, (uint32_t)bytes, i ? i - 1 : END, END };
    if (i) s->symbol[i - 1].after = i;
    return LNT_OK;
}

/* A byte without a token is left out: trained vocabularies lack rare ones, and who trained left them out. */
static lnt_status put_bytes(lnt_ctx *ctx, const lnt_codec *codec, const char *word, size_t bytes,
                            lnt_scratch *s)
{
    lnt_status status = LNT_OK;
    for (size_t i = 0; !status && i < bytes; i++) {
        const int32_t known = codec->bpe.letter[(unsigned char)word[i]];
        const int32_t token = known == LNT_NO_TOKEN ? codec->unknown : known;
        if (token != LNT_NO_TOKEN) status = put_symbol(ctx, s, token, i, 1);
    }
    return status;
}

/* The token of a character, with what the model writes before or behind it. */
static lnt_status find_letter(lnt_ctx *ctx, const lnt_codec *codec, lnt_text c, bool first, bool last,
                              lnt_scratch *s, int32_t *token)
{
    const lnt_bpe *b = &codec->bpe;
    lnt_status status = LNT_OK;
    if ((b->prefix.bytes && !first) || (b->suffix.bytes && last)) {
        s->piece.count = 0;
        if (!first) status = lnt_chars_put(ctx, &s->piece, b->prefix.text, b->prefix.bytes);
        if (!status) status = lnt_chars_put(ctx, &s->piece, c.text, c.bytes);
        if (!status && last) status = lnt_chars_put(ctx, &s->piece, b->suffix.text, b->suffix.bytes);
        c = (lnt_text){ s->piece.text, s->piece.count };
    }
    *token = status ? LNT_NO_TOKEN : lnt_vocab_find(&codec->vocab, c.text, c.bytes);
    return status;
}

static bool has_bytes(const lnt_codec *codec, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (codec->vocab.byte[(unsigned char)text[i]] == LNT_NO_TOKEN) return false;
    return true;
}

/* A character that is no token becomes its bytes, or unknown, alone or with its neighbours, or nothing. */
static lnt_status put_letters(lnt_ctx *ctx, const lnt_codec *codec, const char *word, size_t bytes,
                              lnt_scratch *s)
{
    const int32_t unknown = codec->unknown;
    size_t lost = 0; /* bytes of an unknown that is not put yet, which end where the last character began */
    lnt_status status = LNT_OK;
    for (size_t i = 0, n; !status && i < bytes; i += n) {
        int32_t token;
        n = lnt_utf8_bytes(word + i);
        status = find_letter(ctx, codec, (lnt_text){ word + i, n }, i == 0, i + n == bytes, s, &token);
        if (status) break;
        const bool known = token != LNT_NO_TOKEN;
        if (!known && codec->bpe.byte_fallback && has_bytes(codec, word + i, n)) {
            for (size_t k = 0; !status && k < n; k++)
                status = put_symbol(ctx, s, codec->vocab.byte[(unsigned char)word[i + k]], i + k, 1);
            continue;
        }
        if (lost && (known || !codec->bpe.fuse_unknown)) {
            status = put_symbol(ctx, s, unknown, i - lost, lost);
            lost = 0;
        }
        if (known && !status) status = put_symbol(ctx, s, token, i, n);
        if (!known && unknown != LNT_NO_TOKEN) lost += n;
    }
    return !status && lost ? put_symbol(ctx, s, unknown, bytes - lost, lost) : status;
}

/* ---- merging ------------------------------------------------------------------------------------- */

static bool sooner(lnt_candidate_merge a, lnt_candidate_merge b)
{
    return a.order != b.order ? a.order < b.order : a.symbol < b.symbol;
}

static lnt_status push(lnt_ctx *ctx, lnt_scratch *s, lnt_candidate_merge c)
{
    const lnt_status status = lnt_grow(ctx, &s->heap, &s->heap_room, s->heaped + 1, sizeof *s->heap);
    if (status) return status;
    size_t i = s->heaped++;
    for (; i && sooner(c, s->heap[(i - 1) / 2]); i = (i - 1) / 2) s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = c;
    return LNT_OK;
}

static lnt_candidate_merge pop(lnt_scratch *s)
{
    const lnt_candidate_merge best = s->heap[0], last = s->heap[--s->heaped];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < s->heaped; i = child) {
        if (child + 1 < s->heaped && sooner(s->heap[child + 1], s->heap[child])) child++;
        if (!sooner(s->heap[child], last)) break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = last;
    return best;
}

/* Floats in the order of integers, the highest first. */
static uint32_t descending(double score)
{
    const float f = (float)score;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return ~(bits & 0x80000000u ? ~bits : bits | 0x80000000u);
}

/* What the symbol and the one after it would become; token LNT_NO_TOKEN: nothing. */
static lnt_candidate_merge merge_of(const lnt_codec *codec, const char *word, const lnt_scratch *s,
                                    uint32_t i)
{
    const lnt_symbol *left = &s->symbol[i], *right = &s->symbol[left->after];
    if (codec->kind == &lnt_codec_sentencepiece) {
        const int32_t token = lnt_vocab_find(&codec->vocab, word + left->start, left->bytes + right->bytes);
        return (lnt_candidate_merge){ token < 0 ? 0 : descending(codec->vocab.score[token]), i, token };
    }
    if (left->token < 0 || right->token < 0) return (lnt_candidate_merge){ 0, i, LNT_NO_TOKEN };
    const lnt_pair *p = find_pair(&codec->bpe, left->token, right->token);
    return (lnt_candidate_merge){ p->rank, i, p->left == LNT_NO_TOKEN ? LNT_NO_TOKEN : p->token };
}

static lnt_status consider(lnt_ctx *ctx, const lnt_codec *codec, const char *word, lnt_scratch *s, uint32_t i)
{
    if (i == END || s->symbol[i].after == END) return LNT_OK;
    const lnt_candidate_merge c = merge_of(codec, word, s, i);
    return c.token == LNT_NO_TOKEN ? LNT_OK : push(ctx, s, c);
}

static lnt_status merge_all(lnt_ctx *ctx, const lnt_codec *codec, const char *word, lnt_scratch *s)
{
    lnt_status status = LNT_OK;
    s->heaped = 0;
    for (uint32_t i = 0; !status && i < s->symbols; i++) status = consider(ctx, codec, word, s, i);
    while (!status && s->heaped) {
        const lnt_candidate_merge c = pop(s);
        lnt_symbol *left = &s->symbol[c.symbol];
        if (!left->bytes || left->after == END || merge_of(codec, word, s, c.symbol).token != c.token)
            continue; /* one of the two has been merged since */
        lnt_symbol *right = &s->symbol[left->after];
        left->token = c.token;
        left->bytes += right->bytes;
        left->after = right->after;
        right->bytes = 0;
        if (left->after != END) s->symbol[left->after].before = c.symbol;
        status = consider(ctx, codec, word, s, left->before);
        if (!status) status = consider(ctx, codec, word, s, c.symbol);
    }
    return status;
}

/* ---- the tokens ---------------------------------------------------------------------------------- */

static lnt_status check_length(lnt_ctx *ctx, size_t bytes)
{
    if (bytes < INT32_MAX) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_ARGUMENT, "tokenizer: a word of %zu bytes, at most %d", bytes,
                    INT32_MAX - 1);
}

static lnt_status encode_stretch(lnt_ctx *ctx, const lnt_codec *codec, const char *word, size_t bytes,
                                 lnt_scratch *s, lnt_tokens *out)
{
    s->symbols = 0;
    lnt_status status = check_length(ctx, bytes);
    if (!status && codec->bpe.byte_level) status = put_bytes(ctx, codec, word, bytes, s);
    else if (!status) status = put_letters(ctx, codec, word, bytes, s);
    if (!status) status = merge_all(ctx, codec, word, s);
    for (uint32_t i = 0; !status && i < s->symbols; i++)
        if (s->symbol[i].bytes) status = lnt_tokens_put(ctx, out, s->symbol[i].token);
    return status;
}

static lnt_status encode(lnt_ctx *ctx, const lnt_codec *codec, const char *word, size_t bytes, lnt_scratch *s,
                         lnt_tokens *out)
{
    const int32_t whole =
        codec->bpe.ignore_merges ? lnt_vocab_find(&codec->vocab, word, bytes) : LNT_NO_TOKEN;
    if (whole != LNT_NO_TOKEN) return lnt_tokens_put(ctx, out, whole);
    lnt_status status = LNT_OK;
    for (size_t at = 0, n; !status && at < bytes; at += n) {
        n = stretch(codec, word + at, bytes - at);
        status = encode_stretch(ctx, codec, word + at, n, s, out);
    }
    return status;
}

/* What no merge has made a token: its bytes, or unknown. */
static lnt_status put_unmerged(lnt_ctx *ctx, const lnt_codec *codec, lnt_text c, lnt_tokens *out)
{
    lnt_status status = LNT_OK;
    if (!has_bytes(codec, c.text, c.bytes)) {
        const int32_t unknown = codec->unknown;
        return unknown == LNT_NO_TOKEN ? LNT_OK : lnt_tokens_put(ctx, out, unknown);
    }
    for (size_t i = 0; !status && i < c.bytes; i++)
        status = lnt_tokens_put(ctx, out, codec->vocab.byte[(unsigned char)c.text[i]]);
    return status;
}

static lnt_status stretch_by_scores(lnt_ctx *ctx, const lnt_codec *codec, const char *word, size_t bytes,
                                    lnt_scratch *s, lnt_tokens *out)
{
    s->symbols = 0;
    lnt_status status = check_length(ctx, bytes);
    for (size_t i = 0, n; !status && i < bytes; i += n) {
        n = lnt_utf8_bytes(word + i);
        status = put_symbol(ctx, s, lnt_vocab_find(&codec->vocab, word + i, n), i, n);
    }
    if (!status) status = merge_all(ctx, codec, word, s);
    for (uint32_t i = 0; !status && i < s->symbols; i++) {
        const lnt_symbol *x = &s->symbol[i];
        if (x->bytes && x->token >= 0) status = lnt_tokens_put(ctx, out, x->token);
        else if (x->bytes) status = put_unmerged(ctx, codec, (lnt_text){ word + x->start, x->bytes }, out);
    }
    return status;
}

static lnt_status encode_by_scores(lnt_ctx *ctx, const lnt_codec *codec, const char *word, size_t bytes,
                                   lnt_scratch *s, lnt_tokens *out)
{
    lnt_status status = LNT_OK;
    for (size_t at = 0, n; !status && at < bytes; at += n) {
        n = stretch(codec, word + at, bytes - at);
        status = stretch_by_scores(ctx, codec, word + at, n, s, out);
    }
    return status;
}

const lnt_codec_kind lnt_codec_bpe = { .name = "bpe", .encode = encode };
const lnt_codec_kind lnt_codec_sentencepiece = { .name = "sentencepiece", .encode = encode_by_scores };
