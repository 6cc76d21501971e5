/* model/tokenizer/words.c - see words.h.
 *
 * Each cut goes once over the words so far, so that the time is linear in the text for each. */
#include "model/tokenizer/words.h"

#include <string.h>

void lnt_words_free(lnt_ctx *ctx, lnt_words *w)
{
    lnt_chars_free(ctx, &w->text);
    lnt_chars_free(ctx, &w->next_text);
    lnt_release(ctx, w->word, w->room * sizeof *w->word);
    lnt_release(ctx, w->next, w->next_room * sizeof *w->next);
    *w = (lnt_words){ 0 };
}

static lnt_status put_word(lnt_ctx *ctx, lnt_words *w, lnt_word word)
{
    if (!word.bytes) return LNT_OK;
    const lnt_status status = lnt_grow(ctx, &w->next, &w->next_room, w->next_count + 1, sizeof *w->next);
    if (!status) w->next[w->next_count++] = word;
    return status;
}

static void swap_words(lnt_words *w)
{
    lnt_word *word = w->word;
    const size_t room = w->room;
    w->word = w->next, w->room = w->next_room, w->count = w->next_count;
    w->next = word, w->next_room = room, w->next_count = 0;
}

static void swap_text(lnt_words *w)
{
    const lnt_chars text = w->text;
    w->text = w->next_text;
    w->next_text = text;
    w->next_text.count = 0;
}

/* ---- splits -------------------------------------------------------------------------------------- */

/* One word being split: its parts come in order, found or not, and are joined as the behaviour says. */
typedef struct splitting {
    lnt_ctx *ctx;
    lnt_words *w;
    const lnt_cut *cut;
    lnt_word whole;
    lnt_word open; /* not yet put, since what follows may join it */
    bool is_open, last_found;
} splitting;

static lnt_status close_part(splitting *s)
{
    const lnt_status status = s->is_open ? put_word(s->ctx, s->w, s->open) : LNT_OK;
    s->is_open = false;
    return status;
}

/* The part [start, end) of the word. */
static lnt_status put_part(splitting *s, size_t start, size_t end, bool found)
{
    if (s->cut->invert) found = !found;
    const bool before = s->last_found;
    s->last_found = found;
    if (s->cut->behaviour == LNT_CUT_REMOVED && found) return LNT_OK;
    const bool joins =
        s->is_open && ((s->cut->behaviour == LNT_CUT_CONTIGUOUS && found == before) ||
                       (s->cut->behaviour == LNT_CUT_MERGED_WITH_PREVIOUS && found && !before) ||
                       (s->cut->behaviour == LNT_CUT_MERGED_WITH_NEXT && before && !found));
    if (joins) {
        s->open.bytes += end - start;
        return LNT_OK;
    }
    const lnt_status status = close_part(s);
    s->open = (lnt_word){ s->whole.start + start, end - start, s->whole.first && start == 0 };
    s->is_open = true;
    return status;
}

/* Where it is found from `at` on, or bytes. */
static size_t find_literal(const char *text, size_t bytes, lnt_text literal, size_t at)
{
    const char *hit = memmem(text + at, bytes - at, literal.text, literal.bytes);
    return hit ? (size_t)(hit - text) : bytes;
}

static lnt_status split_word(splitting *s, lnt_search *search)
{
    const char *text = s->w->text.text + s->whole.start;
    const size_t bytes = s->whole.bytes;
    size_t at = 0, start, end;
    lnt_status status = LNT_OK;
    if (s->cut->regex) lnt_search_on(search, text, bytes);
    s->is_open = s->last_found = false;
    for (bool found = true; !status && found;) {
        if (s->cut->regex) {
            status = lnt_search_next(search, &start, &end, &found);
        } else {
            start = find_literal(text, bytes, s->cut->literal, at);
            end = start + s->cut->literal.bytes;
            found = start < bytes;
        }
        if (status || !found) break;
        if (start > at) status = put_part(s, at, start, false);
        if (!status) status = put_part(s, start, end, true);
        at = end;
    }
    if (!status && at < bytes) status = put_part(s, at, bytes, false);
    return status ? status : close_part(s);
}

static lnt_status split(lnt_ctx *ctx, const lnt_cut *cut, lnt_words *w)
{
    lnt_search search = { 0 };
    lnt_status status = cut->regex ? lnt_search_open(ctx, cut->regex, &search) : LNT_OK;
    for (size_t i = 0; !status && i < w->count; i++) {
        splitting s = { .ctx = ctx, .w = w, .cut = cut, .whole = w->word[i] };
        status = split_word(&s, &search);
    }
    if (cut->regex) lnt_search_close(&search);
    if (!status) swap_words(w);
    return status;
}

/* ---- cuts that change the text ------------------------------------------------------------------- */

static bool begins(const char *text, size_t bytes, lnt_text with)
{
    return bytes >= with.bytes && memcmp(text, with.text, with.bytes) == 0;
}

static lnt_status prefix_spaces(lnt_ctx *ctx, lnt_words *w)
{
    lnt_status status = LNT_OK;
    for (size_t i = 0; !status && i < w->count; i++) {
        const char *text = w->text.text + w->word[i].start;
        const size_t start = w->next_text.count;
        if (*text != ' ') status = lnt_chars_put(ctx, &w->next_text, " ", 1);
        if (!status) status = lnt_chars_put(ctx, &w->next_text, text, w->word[i].bytes);
        if (!status)
            status = put_word(ctx, w, (lnt_word){ start, w->next_text.count - start, w->word[i].first });
    }
    if (status) return status;
    swap_text(w);
    swap_words(w);
    return LNT_OK;
}

/* A word of which each space is written as the mark, to next_text. */
static lnt_status put_marked(lnt_ctx *ctx, const lnt_cut *cut, lnt_word word, lnt_words *w)
{
    const char *text = w->text.text + word.start;
    const bool marked = *text == ' ' || begins(text, word.bytes, cut->literal);
    const bool wanted = cut->scheme == LNT_PREPEND_ALWAYS || (cut->scheme == LNT_PREPEND_FIRST && word.first);
    lnt_status status =
        wanted && !marked ? lnt_chars_put(ctx, &w->next_text, cut->literal.text, cut->literal.bytes) : LNT_OK;
    for (size_t i = 0; !status && i < word.bytes;) {
        const char *space = memchr(text + i, ' ', word.bytes - i);
        const size_t plain = space ? (size_t)(space - text) - i : word.bytes - i;
        status = lnt_chars_put(ctx, &w->next_text, text + i, plain);
        if (!status && space)
            status = lnt_chars_put(ctx, &w->next_text, cut->literal.text, cut->literal.bytes);
        i += plain + (space != NULL);
    }
    return status;
}

static lnt_status mark_spaces(lnt_ctx *ctx, const lnt_cut *cut, lnt_words *w)
{
    lnt_status status = LNT_OK;
    for (size_t i = 0; !status && i < w->count; i++) {
        const size_t start = w->next_text.count;
        status = put_marked(ctx, cut, w->word[i], w);
        if (!status)
            status = put_word(ctx, w, (lnt_word){ start, w->next_text.count - start, w->word[i].first });
    }
    if (status) return status;
    swap_text(w);
    swap_words(w);
    const lnt_cut at_marks = { .literal = cut->literal, .behaviour = LNT_CUT_MERGED_WITH_NEXT };
    return cut->apart ? split(ctx, &at_marks, w) : LNT_OK;
}

lnt_status lnt_words_cut(lnt_ctx *ctx, const lnt_cut *cut, size_t cuts, bool first, lnt_words *w)
{
    w->next_count = 0;
    w->next_text.count = 0;
    w->text.most = w->next_text.most = lnt_chars_most(w->text.count);
    lnt_status status = put_word(ctx, w, (lnt_word){ 0, w->text.count, first });
    if (!status) swap_words(w);
    for (size_t i = 0; !status && i < cuts && w->count; i++) {
        if (cut[i].kind == LNT_CUT_SPLIT) status = split(ctx, &cut[i], w);
        else if (cut[i].kind == LNT_CUT_PREFIX) status = prefix_spaces(ctx, w);
        else status = mark_spaces(ctx, &cut[i], w);
    }
    w->text.most = w->next_text.most = 0;
    return status;
}
