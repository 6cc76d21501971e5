/* cli/answer.c - see answer.h.
 *
 * The template writes the whole conversation each time; the session has read its beginning, and is fed the
 * rest.  The token that ends an answer is not fed: the template writes it. */
#include "cli/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/clock.h"
#include "cli/show/report.h"
#include "cli/stop.h"
#include "cli/writer.h"

enum { PORTION = 512 }; /* tokens between two looks at Ctrl-C, and for each move of the bar */

int chat_restart(chat *c)
{
    const lnt_session_options as_before = { .size = sizeof as_before,
                                            .cache = lnt_session_cache(c->g.session) };
    lnt_session *session;
    if (lnt_session_create_with(c->g.model, 1, &as_before, &session)) return fail_ctx(c->g.ctx);
    lnt_session_destroy(c->g.session);
    c->g.session = session;
    c->g.broken = false;
    conversation_unread(&c->talk);
    return EXIT_OK;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* The conversation from byte `from` of its text on. */
static int tokenize(chat *c, size_t from, int32_t **tokens, size_t *count)
{
    const lnt_model *m = c->g.model;
    const lnt_message *all = c->talk.message;
    const size_t messages = c->talk.count;
    *tokens = NULL;
    if (lnt_model_chat_tokenize(m, all, messages, 1, from, NULL, 0, count)) return fail_ctx(c->g.ctx);
    *tokens = malloc((*count + 1) * sizeof **tokens);
    if (!*tokens) return fail_memory((*count + 1) * sizeof **tokens);
    if (lnt_model_chat_tokenize(m, all, messages, 1, from, *tokens, *count, count)) return fail_ctx(c->g.ctx);
    return EXIT_OK;
}

/* As long as nobody asks to stop.  Nothing is fed of what does not fit. */
static int feed(chat *c, const int32_t *tokens, size_t count)
{
    generation *g = &c->g;
    const double before = now_seconds();
    const int64_t room = lnt_session_room(g->session);
    int status = EXIT_OK;
    if ((int64_t)count > room)
        return fail("the message has %zu tokens, and %lld of the model's %lld positions are left", count,
                    (long long)room, (long long)g->info.length);
    for (size_t at = 0; at < count && !status && !stop_asked(); at += PORTION) {
        const size_t portion = count - at < PORTION ? count - at : PORTION;
        if (count > PORTION) progress("prompt", (int)(at / PORTION), (int)(count / PORTION));
        g->broken = lnt_session_forward(g->session, tokens + at, (int64_t)portion) != LNT_OK;
        if (g->broken) status = fail_ctx(g->ctx);
        else g->prompt_tokens += (int64_t)portion;
    }
    progress_end();
    g->prompt_seconds = now_seconds() - before;
    const int64_t all = lnt_session_tokens(g->session);
    if (all > g->info.length && !c->told_long) {
        note("the conversation has %lld tokens, and the model was trained on no more than %lld at once",
             (long long)all, (long long)g->info.length);
        c->told_long = true;
    }
    return status;
}

static int keep_fed(chat *c, const char *text, size_t bytes)
{
    c->talk.fed.used = 0;
    c->talk.answer = bytes;
    return text_buffer_add(&c->talk.fed, text, bytes);
}

/* What the template makes of the conversation, from where the session has read it. */
static int read_text(chat *c, const char *text, size_t bytes)
{
    const char *rest = conversation_rest(&c->talk, text, bytes);
    int32_t *tokens = NULL;
    size_t count = 0;
    int status = EXIT_OK;
    if (!rest) {
        if (!c->told_again)
            note("what was said before reads otherwise now, so the model reads it again from the beginning");
        c->told_again = true;
        status = chat_restart(c);
        rest = text;
    }
    if (!status) status = tokenize(c, (size_t)(rest - text), &tokens, &count);
    const int64_t before = lnt_session_tokens(c->g.session);
    if (!status) status = feed(c, tokens, count);
    free(tokens);
    const bool whole = !status && c->g.prompt_tokens == (int64_t)count;
    if (whole) return keep_fed(c, text, bytes);
    const bool begun = lnt_session_tokens(c->g.session) != before || c->g.broken;
    const int restarted = begun ? chat_restart(c) : EXIT_OK;
    return status ? status : restarted;
}

static int read_messages(chat *c)
{
    const lnt_model *m = c->g.model;
    char *text;
    size_t bytes;
    if (lnt_model_chat(m, c->talk.message, c->talk.count, 1, &text, &bytes)) return fail_ctx(c->g.ctx);
    const int status = read_text(c, text, bytes);
    lnt_text_free(m, text, bytes);
    return status;
}

/* ---- answering ----------------------------------------------------------------------------- */

static int feed_token(generation *g, int32_t token)
{
    const double before = now_seconds();
    g->broken = lnt_session_forward(g->session, &token, 1) != LNT_OK;
    g->seconds += now_seconds() - before;
    return g->broken ? fail_ctx(g->ctx) : EXIT_OK;
}

/* The token that completes a text of --stop is not read, so that the next message goes on from what is before
 * it, where the text began in that token.  If the one before it gave no text, it may have begun a character
 * that this one ends: then both are read. */
static int write_tokens(chat *c, writer *w)
{
    generation *g = &c->g;
    bool whole = true;
    size_t read = SIZE_MAX; /* bytes, where the last token is not read */
    int status = EXIT_OK;
    while (g->written < c->most && !w->stops.found && !stop_asked() && !status) {
        int32_t token;
        status = generation_next(g, false, &token);
        if (status || lnt_model_ends(g->model, token)) break;
        if (lnt_session_room(g->session) == 0) {
            note("the answer ends here: the model has learned %lld positions", (long long)g->info.length);
            break;
        }
        const size_t before = w->all->used;
        status = writer_put(w, token);
        if (w->stops.found && whole) {
            read = before;
            break;
        }
        if (!status) status = feed_token(g, token);
        whole = w->all->used > before;
    }
    const int ended = g->broken ? EXIT_OK : writer_end(w);
    if (read < w->all->used) w->all->used = read;
    return status ? status : ended;
}

static void count(chat *c)
{
    c->prompt_tokens += c->g.prompt_tokens;
    c->prompt_seconds += c->g.prompt_seconds;
    c->tokens += c->g.written;
    c->seconds += c->g.seconds;
}

/* A message ends at a NUL, which a model may well write: SUB stands for it, here and in what was read. */
static void replace_nul(text_buffer *b)
{
    for (size_t i = 0; i < b->used; i++)
        if (!b->text[i]) b->text[i] = '\x1a';
}

static int write_answer(chat *c)
{
    const bool as_json = opt_given(c->g.o, OPT_JSON);
    writer w;
    writer_open(&w, &c->g, !as_json, true);
    w.all = &c->talk.fed;
    int status = write_tokens(c, &w);
    const char *text = w.kept.used ? w.kept.text : "";
    if (as_json && !status) generation_json(&c->g, text, w.kept.used);
    else if (!as_json) fputc('\n', stdout);
    fflush(stdout);
    if (!status && c->g.written == c->most && !w.stops.found && isatty(STDERR_FILENO))
        note("the answer is cut after %lld tokens; --tokens N allows more", (long long)c->most);
    replace_nul(&w.kept);
    replace_nul(&c->talk.fed);
    const int added = conversation_add(&c->talk, "assistant", text);
    writer_close(&w);
    if (c->g.broken) {
        const int restarted = chat_restart(c);
        if (!status) status = restarted;
    }
    return status ? status : added;
}

int answer_write(chat *c)
{
    generation *g = &c->g;
    g->written = g->prompt_tokens = 0;
    g->seconds = g->prompt_seconds = 0;
    int status = read_messages(c);
    const bool read = !status && c->talk.fed.used && !stop_asked();
    if (read) status = write_answer(c);
    else conversation_drop_last(&c->talk);
    if (!read && !status) note("stopped before the answer: the message is taken back");
    count(c);
    return status;
}
