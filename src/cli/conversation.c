/* cli/conversation.c - see conversation.h.
 *
 * The note is a line that names the form, then parts: a line "NAME BYTES", so many bytes, and a line end.
 * The first two are what the session has read by the template and of the answer, the others messages. */
#include "cli/conversation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show/report.h"

#define FORM "linnet conversation 1\n"
static const char *const roles[] = { "system", "user", "assistant" };
enum { ROLES = sizeof roles / sizeof roles[0], MOST_MESSAGES = 1 << 20 };

static bool is_system(const lnt_message *m) { return strcmp(m->role, roles[0]) == 0; }

static void free_content(lnt_message *m) { free((void *)(uintptr_t)m->content); }

int conversation_add(conversation *c, const char *role, const char *content)
{
    const size_t bytes = strlen(content) + 1, room = (c->count + 1) * sizeof *c->message;
    char *copy = malloc(bytes);
    lnt_message *grown = copy ? realloc(c->message, room) : NULL;
    if (!grown) {
        free(copy);
        return fail_memory(bytes + room);
    }
    memcpy(copy, content, bytes);
    c->message = grown;
    c->message[c->count++] = (lnt_message){ .role = role, .content = copy };
    return EXIT_OK;
}

void conversation_drop_last(conversation *c)
{
    if (c->count) free_content(&c->message[--c->count]);
}

int conversation_set_system(conversation *c, const char *content)
{
    const bool had = c->count && is_system(c->message);
    if (*content) {
        const int status = conversation_add(c, roles[0], content);
        if (status) return status;
        const lnt_message added = c->message[c->count - 1];
        memmove(c->message + 1, c->message, (c->count - 1) * sizeof *c->message);
        c->message[0] = added;
    }
    if (had) {
        const size_t old = *content ? 1 : 0;
        free_content(&c->message[old]);
        c->count--;
        memmove(c->message + old, c->message + old + 1, (c->count - old) * sizeof *c->message);
    }
    return EXIT_OK;
}

void conversation_unread(conversation *c) { c->fed.used = c->answer = 0; }

void conversation_forget(conversation *c)
{
    while (c->count && !is_system(&c->message[c->count - 1])) conversation_drop_last(c);
    conversation_unread(c);
}

void conversation_close(conversation *c)
{
    while (c->count) conversation_drop_last(c);
    free(c->message);
    free(c->fed.text);
    *c = (conversation){ 0 };
}

/* ---- the note ------------------------------------------------------------------------------ */

static int put_part(text_buffer *out, const char *name, const char *text, size_t bytes)
{
    char line[64];
    const int width = snprintf(line, sizeof line, "%s %zu\n", name, bytes);
    int status = text_buffer_add(out, line, (size_t)width);
    if (!status && bytes) status = text_buffer_add(out, text, bytes);
    return status ? status : text_buffer_add(out, "\n", 1);
}

int conversation_note(const conversation *c, text_buffer *out)
{
    const char *fed = c->fed.used ? c->fed.text : "";
    int status = text_buffer_add(out, FORM, strlen(FORM));
    if (!status) status = put_part(out, "read", fed, c->answer);
    if (!status) status = put_part(out, "answer", fed + c->answer, c->fed.used - c->answer);
    for (size_t i = 0; i < c->count && !status; i++)
        status = put_part(out, c->message[i].role, c->message[i].content, strlen(c->message[i].content));
    return status;
}

/* The part at *at: moves it on; false: it is not one. */
static bool take_part(const char **at, char name[16], const char **text, size_t *bytes)
{
    const char *line = *at, *space = strchr(line, ' ');
    if (!space || space == line || space - line >= 16) return false;
    memcpy(name, line, (size_t)(space - line));
    name[space - line] = '\0';
    char *end;
    const unsigned long long count = strtoull(space + 1, &end, 10);
    if (end == space + 1 || *end != '\n' || strnlen(end + 1, count) < count || end[1 + count] != '\n')
        return false;
    *text = end + 1;
    *bytes = (size_t)count;
    *at = *text + count + 1;
    return true;
}

static const char *role_of(const char *name)
{
    for (size_t i = 0; i < ROLES; i++)
        if (strcmp(name, roles[i]) == 0) return roles[i];
    return NULL;
}

static bool read_parts(conversation *c, const char *at)
{
    char name[16];
    const char *text;
    size_t bytes;
    if (!take_part(&at, name, &text, &bytes) || strcmp(name, "read") != 0) return false;
    c->answer = bytes;
    if (text_buffer_add(&c->fed, text, bytes)) return false;
    if (!take_part(&at, name, &text, &bytes) || strcmp(name, "answer") != 0) return false;
    if (text_buffer_add(&c->fed, text, bytes)) return false;
    while (*at) {
        const char *role = take_part(&at, name, &text, &bytes) ? role_of(name) : NULL;
        char *content = role && c->count < MOST_MESSAGES ? strndup(text, bytes) : NULL;
        const bool added = content && !conversation_add(c, role, content);
        free(content);
        if (!added) return false;
    }
    return true;
}

bool conversation_read(conversation *c, const char *note)
{
    conversation read = { 0 };
    const bool good = strncmp(note, FORM, strlen(FORM)) == 0 && read_parts(&read, note + strlen(FORM));
    if (good) conversation_close(c);
    else conversation_close(&read);
    if (good) *c = read;
    return good;
}

/* ---- what is left to read ------------------------------------------------------------------ */

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

const char *conversation_rest(const conversation *c, const char *text, size_t bytes)
{
    const char *fed = c->fed.text, *end = text + bytes;
    if (!c->fed.used) return text;
    if (bytes < c->answer || memcmp(text, fed, c->answer) != 0) return NULL;
    const char *a = fed + c->answer, *a_end = fed + c->fed.used, *at = text + c->answer;
    if (a < a_end) {
        while (a < a_end && is_space(*a)) a++;
        while (at < end && is_space(*at)) at++;
    }
    const char *word_end = a_end;
    while (word_end > a && is_space(word_end[-1])) word_end--;
    const size_t said = (size_t)(word_end - a);
    if ((size_t)(end - at) < said || memcmp(at, a, said) != 0) return NULL;
    at += said;
    for (a = word_end; a < a_end && at < end && *a == *at; a++) at++; /* the space after it that is there */
    return at;
}
