/* model/tokenizer/unigram.c - the most likely way to spell a word with tokens: of all ways, the one whose
 * scores (logarithms of probabilities) have the largest sum, by Viterbi.
 *
 * From each character on, the tokens that begin there are found by narrowing a range of the sorted vocabulary
 * byte by byte: O(n L log V) for n bytes and tokens of at most L. */
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer/inside.h"

static const double unknown_penalty = 10; /* below the lowest score, as SentencePiece has it */
#define NOWHERE UINT32_MAX

static int by_bytes(const void *a, const void *b, void *vocab)
{
    const lnt_vocab *v = vocab;
    const lnt_text x = v->token[*(const int32_t *)a], y = v->token[*(const int32_t *)b];
    const int order = memcmp(x.text, y.text, x.bytes < y.bytes ? x.bytes : y.bytes);
    return order ? order : (x.bytes > y.bytes) - (x.bytes < y.bytes);
}

lnt_status lnt_unigram_open(lnt_codec *codec)
{
    lnt_unigram *u = &codec->unigram;
    lnt_vocab *v = &codec->vocab;
    u->order = lnt_pool_take(&codec->pool, v->count * sizeof *u->order);
    if (!u->order) return LNT_ERR_MEMORY;
    for (size_t i = 0; i < v->count; i++) {
        if (!v->token[i].bytes || lnt_vocab_find(v, v->token[i].text, v->token[i].bytes) != (int32_t)i)
            continue;
        if (!u->known || v->score[i] < u->lowest) u->lowest = v->score[i];
        u->order[u->known++] = (int32_t)i;
    }
    qsort_r(u->order, u->known, sizeof *u->order, by_bytes, v);
    for (size_t c = 0, i = 0; c < 257; c++) {
        while (i < u->known && (unsigned char)v->token[u->order[i]].text[0] < c) i++;
        u->first[c] = i;
    }
    return LNT_OK;
}

/* Within [low, high), whose tokens agree in their first `depth` bytes: those that go on with byte c; the
 * token that ends at depth, if there is one, is the first and goes on with none. */
static void narrow(const lnt_codec *codec, size_t *low, size_t *high, size_t depth, unsigned char c)
{
    const lnt_unigram *u = &codec->unigram;
    size_t bound[2];
    for (int upper = 0; upper < 2; upper++) {
        size_t a = *low, b = *high;
        while (a < b) {
            const size_t middle = a + (b - a) / 2;
            const lnt_text t = codec->vocab.token[u->order[middle]];
            const int here = t.bytes > depth ? (unsigned char)t.text[depth] : -1;
            if (here < c + upper) a = middle + 1;
            else b = middle;
        }
        bound[upper] = a;
    }
    *low = bound[0];
    *high = bound[1];
}

static void reach(lnt_best_path *to, double score, size_t start, int32_t token)
{
    if (to->start == NOWHERE || score > to->score) *to = (lnt_best_path){ score, (uint32_t)start, token };
}

/* Extends the best path that ends at `at` by every token that begins there. */
static void extend(const lnt_codec *codec, const char *word, size_t bytes, size_t at, lnt_best_path *path)
{
    const lnt_unigram *u = &codec->unigram;
    const double here = at ? path[at].score : 0;
    const size_t character = lnt_utf8_bytes(word + at);
    bool single = false;
    size_t low = u->first[(unsigned char)word[at]], high = u->first[(unsigned char)word[at] + 1];
    for (size_t depth = 1; low < high; depth++) {
        const int32_t token = u->order[low];
        if (codec->vocab.token[token].bytes == depth) {
            reach(&path[at + depth], here + codec->vocab.score[token], at, token);
            if (depth == character) single = true;
        }
        if (at + depth == bytes) break;
        narrow(codec, &low, &high, depth, (unsigned char)word[at + depth]);
    }
    if (!single)
        reach(&path[at + character], here + (u->lowest - unknown_penalty), at, codec->unknown);
}

/* One stretch of the best path: a token, or what is unknown. */
static lnt_status put_stretch(lnt_ctx *ctx, const lnt_codec *codec, const char *text, size_t bytes,
                              lnt_tokens *out)
{
    const int32_t token = lnt_vocab_find(&codec->vocab, text, bytes);
    if (token != LNT_NO_TOKEN) return lnt_tokens_put(ctx, out, token);
    bool all = codec->unigram.byte_fallback;
    for (size_t i = 0; all && i < bytes; i++) all = codec->vocab.byte[(unsigned char)text[i]] != LNT_NO_TOKEN;
    if (all) {
        lnt_status status = LNT_OK;
        for (size_t i = 0; !status && i < bytes; i++)
            status = lnt_tokens_put(ctx, out, codec->vocab.byte[(unsigned char)text[i]]);
        return status;
    }
    const int32_t unknown = codec->unknown;
    if (unknown != LNT_NO_TOKEN) return lnt_tokens_put(ctx, out, unknown);
    return lnt_fail(ctx, LNT_ERR_FORMAT, "tokenizer: no token for '%.*s', and none for what is unknown",
                    (int)(bytes < 40 ? bytes : 40), text);
}

static lnt_status encode(lnt_ctx *ctx, const lnt_codec *codec, const char *word, size_t bytes, lnt_scratch *s,
                         lnt_tokens *out)
{
    if (bytes >= NOWHERE - 1)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "tokenizer: a word of %zu bytes, at most %u", bytes,
                        NOWHERE - 2);
    lnt_status status = lnt_grow(ctx, &s->path, &s->path_room, bytes + 1, sizeof *s->path);
    if (status) return status;
    lnt_best_path *path = s->path;
    for (size_t i = 0; i <= bytes; i++) path[i] = (lnt_best_path){ .start = NOWHERE };
    for (size_t i = 0; i < bytes; i += lnt_utf8_bytes(word + i)) extend(codec, word, bytes, i, path);

    /* Back from the end; what is unknown joins what is unknown beside it.  Then forward, by the ends kept in
     * `token`'s place. */
    const int32_t unknown = codec->unknown;
    uint32_t next = NOWHERE;
    for (size_t end = bytes; end > 0;) {
        size_t start = path[end].start;
        while (unknown != LNT_NO_TOKEN && path[end].token == unknown && start > 0 &&
               path[start].token == unknown)
            start = path[start].start;
        path[end].token = (int32_t)next; /* where the stretch after this one ends */
        next = (uint32_t)end;
        path[end].start = (uint32_t)start;
        end = start;
    }
    while (!status && next != NOWHERE) {
        const lnt_best_path p = path[next];
        status = put_stretch(ctx, codec, word + p.start, next - p.start, out);
        next = (uint32_t)p.token;
    }
    return status;
}

const lnt_codec_kind lnt_codec_unigram = { .name = "unigram", .encode = encode };
