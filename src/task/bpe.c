/* task/bpe.c - byte-pair encoding (Gage 1994; Sennrich et al. 2016): the most frequent pair of neighbours
 * becomes a token, repeatedly.
 *
 * The text is counted once as a list of its different words.  A hash table counts each pair; a merge
 * changes the counts only around the places of the merged pair.  O(words) per merge. */
#include "task/bpe.h"

#include <string.h>

typedef struct word {
    size_t first, length; /* in symbols */
    size_t start, bytes;  /* in the text */
    int64_t count;        /* 0: a free slot */
} word;

typedef struct pair {
    lnt_merge of;
    int64_t count;
    bool used;
} pair;

typedef struct learner {
    lnt_ctx *ctx;
    const char *text;
    word *words; /* [slots], a hash table at first, then packed */
    size_t slots, word_count;
    int32_t *symbols; /* of all words, one after another */
    size_t symbol_room;
    pair *pairs; /* [pair_slots], a hash table */
    size_t pair_slots, pair_count;
} learner;

/* ---- words --------------------------------------------------------------------------------- */

static uint64_t hash_bytes(const char *s, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 29;
}

static void count_word(learner *l, size_t start, size_t bytes)
{
    size_t s = (size_t)hash_bytes(l->text + start, bytes) & (l->slots - 1);
    for (;; s = (s + 1) & (l->slots - 1)) {
        word *w = &l->words[s];
        if (w->count && (w->bytes != bytes || memcmp(l->text + w->start, l->text + start, bytes)))
            continue;
        if (!w->count) {
            *w = (word){ .start = start, .bytes = bytes };
            l->word_count++;
        }
        w->count++;
        return;
    }
}

static lnt_status grow_words(learner *l)
{
    const size_t slots = 2 * l->slots;
    word *old = l->words, *fresh = lnt_allocate(l->ctx, slots * sizeof *fresh, "the words");
    if (!fresh) return LNT_ERR_MEMORY;
    memset(fresh, 0, slots * sizeof *fresh);
    for (size_t i = 0; i < l->slots; i++) {
        if (!old[i].count) continue;
        size_t s = (size_t)hash_bytes(l->text + old[i].start, old[i].bytes) & (slots - 1);
        while (fresh[s].count) s = (s + 1) & (slots - 1);
        fresh[s] = old[i];
    }
    lnt_release(l->ctx, old, l->slots * sizeof *old);
    l->words = fresh;
    l->slots = slots;
    return LNT_OK;
}

static lnt_status count_words(learner *l, size_t bytes)
{
    lnt_status status = LNT_OK;
    for (size_t at = 0; at < bytes && !status;) {
        const size_t length = lnt_tokenizer_word_length(l->text + at, bytes - at);
        count_word(l, at, length);
        at += length;
        if (2 * l->word_count > l->slots) status = grow_words(l);
    }
    return status;
}

/* Packs the words to the front and spells them as bytes. */
static lnt_status spell_words(learner *l)
{
    size_t count = 0;
    for (size_t i = 0; i < l->slots; i++) {
        if (!l->words[i].count) continue;
        l->words[count] = l->words[i];
        l->words[count].first = l->symbol_room;
        l->words[count].length = l->words[count].bytes;
        l->symbol_room += l->words[count++].bytes;
    }
    l->symbols = lnt_allocate(l->ctx, l->symbol_room * sizeof *l->symbols, "the words' letters");
    if (!l->symbols) return LNT_ERR_MEMORY;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < l->words[i].bytes; j++)
            l->symbols[l->words[i].first + j] = (unsigned char)l->text[l->words[i].start + j];
    return LNT_OK;
}

/* ---- pairs --------------------------------------------------------------------------------- */

static pair *find_pair(learner *l, int32_t left, int32_t right)
{
    const uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t s = (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 24) & (l->pair_slots - 1);
    while (l->pairs[s].used && (l->pairs[s].of.left != left || l->pairs[s].of.right != right))
        s = (s + 1) & (l->pair_slots - 1);
    return &l->pairs[s];
}

/* Pairs are never taken out: one that no longer comes has count 0. */
static void add_pair(learner *l, int32_t left, int32_t right, int64_t count)
{
    pair *p = find_pair(l, left, right);
    if (!p->used) {
        *p = (pair){ .of = { left, right }, .used = true };
        l->pair_count++;
    }
    p->count += count;
}

static lnt_status grow_pairs(learner *l)
{
    pair *old = l->pairs;
    const size_t slots = l->pair_slots;
    l->pairs = lnt_allocate(l->ctx, 2 * slots * sizeof *old, "the pairs");
    if (!l->pairs) {
        l->pairs = old;
        return LNT_ERR_MEMORY;
    }
    l->pair_slots = 2 * slots;
    memset(l->pairs, 0, l->pair_slots * sizeof *old);
    for (size_t i = 0; i < slots; i++)
        if (old[i].used) *find_pair(l, old[i].of.left, old[i].of.right) = old[i];
    lnt_release(l->ctx, old, slots * sizeof *old);
    return LNT_OK;
}

static void count_pairs(learner *l, const word *w, int64_t sign)
{
    const int32_t *s = l->symbols + w->first;
    for (size_t i = 0; i + 1 < w->length; i++) add_pair(l, s[i], s[i + 1], sign * w->count);
}

/* The pair that comes most; of equals the one of the lowest tokens. */
static const pair *best_pair(const learner *l)
{
    const pair *best = NULL;
    for (size_t i = 0; i < l->pair_slots; i++) {
        const pair *p = &l->pairs[i];
        if (!p->used || p->count < 2) continue;
        const bool better =
            !best || p->count > best->count ||
            (p->count == best->count &&
             (p->of.left < best->of.left ||
              (p->of.left == best->of.left && p->of.right < best->of.right)));
        if (better) best = p;
    }
    return best;
}

static bool holds(const int32_t *s, size_t length, lnt_merge m)
{
    for (size_t i = 0; i + 1 < length; i++)
        if (s[i] == m.left && s[i + 1] == m.right) return true;
    return false;
}

static lnt_status merge_everywhere(learner *l, lnt_merge m, int32_t token)
{
    lnt_status status = LNT_OK;
    for (size_t i = 0; i < l->word_count && !status; i++) {
        word *w = &l->words[i];
        int32_t *s = l->symbols + w->first;
        if (!holds(s, w->length, m)) continue;
        count_pairs(l, w, -1);
        size_t to = 0;
        for (size_t from = 0; from < w->length; to++) {
            const bool both = from + 1 < w->length && s[from] == m.left && s[from + 1] == m.right;
            s[to] = both ? token : s[from];
            from += both ? 2 : 1;
        }
        w->length = to;
        count_pairs(l, w, 1);
        if (2 * l->pair_count > l->pair_slots) status = grow_pairs(l);
    }
    return status;
}

static lnt_status learn(learner *l, size_t bytes, size_t wanted, lnt_merge *merge, size_t *merges)
{
    lnt_status status = count_words(l, bytes);
    if (!status) status = spell_words(l);
    for (size_t i = 0; !status && i < l->word_count; i++) {
        count_pairs(l, &l->words[i], 1);
        if (2 * l->pair_count + 128 > l->pair_slots) status = grow_pairs(l);
    }
    while (!status && *merges < wanted) {
        const pair *best = best_pair(l);
        if (!best) break;
        merge[*merges] = best->of;
        status = merge_everywhere(l, merge[*merges], LNT_BYTE_TOKENS + (int32_t)*merges);
        ++*merges;
    }
    return status;
}

lnt_status lnt_bpe_learn(lnt_ctx *ctx, const char *text, size_t bytes, size_t wanted,
                         lnt_merge *merge, size_t *merges)
{
    learner l = { .ctx = ctx, .text = text, .slots = 1 << 12, .pair_slots = 1 << 12 };
    *merges = 0;
    l.words = lnt_allocate(ctx, l.slots * sizeof *l.words, "the words");
    l.pairs = lnt_allocate(ctx, l.pair_slots * sizeof *l.pairs, "the pairs");
    lnt_status status = LNT_ERR_MEMORY;
    if (l.words && l.pairs) {
        memset(l.words, 0, l.slots * sizeof *l.words);
        memset(l.pairs, 0, l.pair_slots * sizeof *l.pairs);
        status = learn(&l, bytes, wanted, merge, merges);
    }
    lnt_release(ctx, l.words, l.slots * sizeof *l.words);
    lnt_release(ctx, l.pairs, l.pair_slots * sizeof *l.pairs);
    lnt_release(ctx, l.symbols, l.symbol_room * sizeof *l.symbols);
    return status;
}
