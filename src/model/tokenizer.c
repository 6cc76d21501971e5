/* model/tokenizer.c - see tokenizer.h.
 *
 * Encoding applies, within each word, the earliest learned merge until none is left. */
#include "model/tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "io/file.h"

enum { WORD_MOST = 64 }; /* longer words are cut */

const char *lnt_tokenizer_word(int index)
{
    static const char *const words[] = { "none", "bytes", "bpe" };
    return index >= 0 && index < 3 ? words[index] : NULL;
}

/* ---- opening ------------------------------------------------------------------------------- */

static size_t hash(const lnt_tokenizer *t, int32_t left, int32_t right)
{
    const uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (t->slots - 1);
}

/* The merge of a pair, or -1. */
static int64_t find(const lnt_tokenizer *t, int32_t left, int32_t right)
{
    for (size_t s = hash(t, left, right); t->slot[s]; s = (s + 1) & (t->slots - 1)) {
        const lnt_merge *m = &t->merge[t->slot[s] - 1];
        if (m->left == left && m->right == right) return t->slot[s] - 1;
    }
    return -1;
}

static void insert(lnt_tokenizer *t, size_t index)
{
    size_t s = hash(t, t->merge[index].left, t->merge[index].right);
    while (t->slot[s]) s = (s + 1) & (t->slots - 1);
    t->slot[s] = (uint32_t)index + 1;
}

static size_t token_bytes(const lnt_tokenizer *t, int32_t token)
{
    return t->start[token + 1] - t->start[token];
}

/* Lengths first, then the bytes. */
static lnt_status spell(lnt_ctx *ctx, lnt_tokenizer *t)
{
    for (size_t i = 0; i < LNT_BYTE_TOKENS; i++) t->start[i] = i;
    t->start[LNT_BYTE_TOKENS] = LNT_BYTE_TOKENS;
    for (size_t i = 0; i < t->merges; i++) {
        const size_t token = LNT_BYTE_TOKENS + i;
        t->start[token + 1] = t->start[token] + token_bytes(t, t->merge[i].left) +
                              token_bytes(t, t->merge[i].right);
        if (t->start[token + 1] - t->start[token] > WORD_MOST)
            return lnt_fail(ctx, LNT_ERR_FORMAT, "tokenizer: token %zu is longer than %d bytes",
                            token, WORD_MOST);
    }
    t->bytes_room = t->start[LNT_BYTE_TOKENS + t->merges];
    t->bytes = lnt_allocate(ctx, t->bytes_room, "the tokens' bytes");
    if (!t->bytes) return LNT_ERR_MEMORY;
    for (size_t i = 0; i < LNT_BYTE_TOKENS; i++) t->bytes[i] = (char)(unsigned char)i;
    for (size_t i = 0; i < t->merges; i++) {
        const int32_t left = t->merge[i].left, right = t->merge[i].right;
        char *to = t->bytes + t->start[LNT_BYTE_TOKENS + i];
        memcpy(to, t->bytes + t->start[left], token_bytes(t, left));
        memcpy(to + token_bytes(t, left), t->bytes + t->start[right], token_bytes(t, right));
    }
    return LNT_OK;
}

static lnt_status check_merges(lnt_ctx *ctx, const lnt_tokenizer *t)
{
    for (size_t i = 0; i < t->merges; i++) {
        const int32_t most = LNT_BYTE_TOKENS + (int32_t)i, l = t->merge[i].left;
        const int32_t r = t->merge[i].right;
        if (l < 0 || r < 0 || l >= most || r >= most)
            return lnt_fail(ctx, LNT_ERR_FORMAT,
                            "tokenizer: merge %zu joins %d and %d, must be tokens below %d", i, l, r,
                            most);
    }
    return LNT_OK;
}

lnt_status lnt_tokenizer_open(lnt_ctx *ctx, lnt_tokenizer_kind kind, const lnt_merge *merge,
                              size_t merges, lnt_tokenizer *out)
{
    *out = (lnt_tokenizer){ 0 };
    if (kind == LNT_TOKENS_NONE) return LNT_OK;
    *out = (lnt_tokenizer){ .kind = kind, .merges = merges, .room = merges, .slots = 64 };
    if (merges > LNT_TOKENIZER_MOST - LNT_BYTE_TOKENS)
        return lnt_fail(ctx, LNT_ERR_FORMAT, "tokenizer: %zu merges, at most %d", merges,
                        LNT_TOKENIZER_MOST - LNT_BYTE_TOKENS);
    while (out->slots < 2 * merges) out->slots *= 2;
    const size_t tokens = LNT_BYTE_TOKENS + merges + 1;
    out->merge = lnt_allocate(ctx, merges * sizeof *merge, "the merges");
    out->start = lnt_allocate(ctx, tokens * sizeof *out->start, "the tokens");
    out->slot = lnt_allocate(ctx, out->slots * sizeof *out->slot, "the merges' table");
    lnt_status status = LNT_ERR_MEMORY;
    if (out->merge && out->start && out->slot) {
        if (merges) memcpy(out->merge, merge, merges * sizeof *merge);
        memset(out->slot, 0, out->slots * sizeof *out->slot);
        status = check_merges(ctx, out);
    }
    if (!status) status = spell(ctx, out);
    for (size_t i = 0; !status && i < merges; i++) insert(out, i);
    if (status) lnt_tokenizer_close(ctx, out);
    return status;
}

void lnt_tokenizer_close(lnt_ctx *ctx, lnt_tokenizer *t)
{
    lnt_release(ctx, t->merge, t->room * sizeof *t->merge);
    lnt_release(ctx, t->start, (LNT_BYTE_TOKENS + t->merges + 1) * sizeof *t->start);
    lnt_release(ctx, t->slot, t->slots * sizeof *t->slot);
    lnt_release(ctx, t->bytes, t->bytes_room);
    *t = (lnt_tokenizer){ 0 };
}

/* ---- text ---------------------------------------------------------------------------------- */

typedef enum letter_class { LETTER, DIGIT, SPACE, OTHER } letter_class;

static letter_class class_of(char c)
{
    const unsigned char u = (unsigned char)c;
    if ((u >= 'a' && u <= 'z') || (u >= 'A' && u <= 'Z') || u >= 0x80) return LETTER;
    if (u >= '0' && u <= '9') return DIGIT;
    return u == ' ' || u == '\n' || u == '\t' || u == '\r' ? SPACE : OTHER;
}

size_t lnt_tokenizer_word_length(const char *text, size_t bytes)
{
    if (!bytes) return 0;
    const bool lead = text[0] == ' ' && bytes > 1 && class_of(text[1]) == LETTER;
    const letter_class kind = lead ? LETTER : class_of(text[0]);
    size_t n = lead ? 2 : 1;
    while (n < bytes && n < WORD_MOST && class_of(text[n]) == kind) {
        /* a space before a letter belongs to that word */
        if (kind == SPACE && text[n] == ' ' && n + 1 < bytes && class_of(text[n + 1]) == LETTER)
            break;
        n++;
    }
    return n;
}

static size_t encode_word(const lnt_tokenizer *t, const char *text, size_t bytes, int32_t *tokens)
{
    size_t n = bytes;
    for (size_t i = 0; i < n; i++) tokens[i] = (unsigned char)text[i];
    while (n > 1) {
        int64_t best = INT64_MAX;
        size_t where = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const int64_t m = find(t, tokens[i], tokens[i + 1]);
            if (m >= 0 && m < best) {
                best = m;
                where = i;
            }
        }
        if (best == INT64_MAX) break;
        tokens[where] = LNT_BYTE_TOKENS + (int32_t)best;
        memmove(tokens + where + 1, tokens + where + 2, (n - where - 2) * sizeof *tokens);
        n--;
    }
    return n;
}

size_t lnt_tokenizer_encode(const lnt_tokenizer *t, const char *text, size_t bytes, int32_t *tokens)
{
    size_t count = 0;
    while (bytes) {
        const size_t word = lnt_tokenizer_word_length(text, bytes);
        count += encode_word(t, text, word, tokens + count);
        text += word;
        bytes -= word;
    }
    return count;
}

const char *lnt_tokenizer_decode(const lnt_tokenizer *t, int32_t token, size_t *bytes)
{
    *bytes = token_bytes(t, token);
    return t->bytes + t->start[token];
}

/* ---- JSON ---------------------------------------------------------------------------------- */

void lnt_tokenizer_write(lnt_json_text *out, const lnt_tokenizer *t)
{
    lnt_json_put(out, "{\"kind\":");
    lnt_json_put_string(out, lnt_tokenizer_word((int)t->kind));
    lnt_json_put(out, ",\"merges\":[");
    for (size_t i = 0; i < t->merges; i++) {
        char text[40];
        snprintf(text, sizeof text, "%s%d,%d", i ? "," : "", t->merge[i].left, t->merge[i].right);
        lnt_json_put(out, text);
    }
    lnt_json_put(out, "]}");
}

static lnt_status read_merges(lnt_ctx *ctx, const char *path, const lnt_json_node *list,
                              lnt_merge *out)
{
    size_t i = 0;
    for (const lnt_json_node *n = list->child; n; n = n->next, i++) {
        if (n->type != LNT_JSON_INTEGER || n->integer < 0 || n->integer > LNT_TOKENIZER_MOST)
            return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": tokenizer: a merge is no token",
                            path);
        if (i % 2) out[i / 2].right = (int32_t)n->integer;
        else out[i / 2].left = (int32_t)n->integer;
    }
    return LNT_OK;
}

lnt_status lnt_tokenizer_read(lnt_ctx *ctx, const char *path, const char *text, lnt_tokenizer *out)
{
    lnt_json json;
    *out = (lnt_tokenizer){ 0 };
    lnt_status status = lnt_json_parse(ctx, path, "tokenizer", text, strlen(text), &json);
    if (status) return status;
    const lnt_json_node *kind = lnt_json_member(json.root, "kind");
    const lnt_json_node *list = lnt_json_member(json.root, "merges");
    int index = 0;
    while (kind && kind->type == LNT_JSON_STRING && lnt_tokenizer_word(index) &&
           strcmp(lnt_tokenizer_word(index), kind->text) != 0)
        index++;
    const bool good = kind && kind->type == LNT_JSON_STRING && lnt_tokenizer_word(index) && list &&
                      list->type == LNT_JSON_ARRAY && list->count % 2 == 0;
    lnt_merge *merge = NULL;
    const size_t bytes = good ? list->count / 2 * sizeof *merge : 0;
    if (!good) status = lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": is no tokenizer", path);
    if (good && !(merge = lnt_allocate(ctx, bytes, "the merges"))) status = LNT_ERR_MEMORY;
    if (!status) status = read_merges(ctx, path, list, merge);
    if (!status)
        status = lnt_tokenizer_open(ctx, (lnt_tokenizer_kind)index, merge, list->count / 2, out);
    lnt_release(ctx, merge, bytes);
    lnt_json_free(ctx, &json);
    return status;
}
