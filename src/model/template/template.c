/* model/template/template.c - opens, renders and closes a template; what a rendering may use.
 *
 * Both the tree and the values of a rendering lie in pools, given back at once. */
#include "model/template/template.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "model/template/parser.h"
#include "model/template/render.h"

enum {
    TEMPLATE_MOST = 4 << 20, /* bytes of a template */
    NODE_BYTES = 1024,       /* of tree for each byte of template, at most */
    MEMORY_LEAST = 64 << 20,
    MEMORY_PER_BYTE = 256, /* of a rendering: this, and so much for each byte it is given */
    STEPS_LEAST = 10000000,
    STEPS_PER_BYTE = 100
};

struct lnt_template {
    lnt_ctx *ctx;
    lnt_template_pool pool;
    lnt_span source;
    lnt_node *first;
    char where[200];
};

/* ---- what a rendering spends --------------------------------------------------------------- */

bool lnt_render_fail(lnt_render *r, const char *format, ...)
{
    char what[300];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    return lnt_template_fail(&r->pool, r->source, r->at, "%s", what);
}

bool lnt_render_spend(lnt_render *r, size_t work)
{
    if (work > r->most_steps - r->steps) {
        r->steps = r->most_steps;
        return lnt_render_fail(r, "works longer than %zu steps", r->most_steps);
    }
    r->steps += work;
    return true;
}

bool lnt_render_enter(lnt_render *r)
{
    return ++r->depth <= LNT_RENDER_MAX_DEPTH ||
           lnt_render_fail(r, "runs deeper than %d levels", LNT_RENDER_MAX_DEPTH);
}

bool lnt_render_put(lnt_render *r, lnt_buffer *to, const char *text, size_t bytes)
{
    if (bytes > to->room - to->bytes) {
        const size_t room = (to->bytes + bytes) * 2 + 64;
        char *grown = lnt_template_pool_take(&r->pool, room, 1);
        if (!grown) return false;
        if (to->bytes) memcpy(grown, to->text, to->bytes);
        to->text = grown;
        to->room = room;
    }
    if (bytes) memcpy(to->text + to->bytes, text, bytes);
    to->bytes += bytes;
    return lnt_render_spend(r, bytes / 64);
}

/* ---- what a template sees ------------------------------------------------------------------ */

static bool from_json(lnt_render *r, const lnt_json_node *node, lnt_value *out)
{
    lnt_value *item = NULL;
    size_t i = 0;
    switch (node->type) {
    case LNT_JSON_NULL: *out = lnt_value_none(); return true;
    case LNT_JSON_FALSE:
    case LNT_JSON_TRUE: *out = lnt_value_bool(node->type == LNT_JSON_TRUE); return true;
    case LNT_JSON_INTEGER: *out = lnt_value_integer(node->integer); return true;
    case LNT_JSON_REAL: *out = lnt_value_real(node->real); return true;
    case LNT_JSON_STRING: *out = lnt_value_text((lnt_span){ node->text, strlen(node->text) }); return true;
    case LNT_JSON_ARRAY:
        if (!(item = lnt_template_pool_take(&r->pool, node->count, sizeof *item))) return false;
        for (const lnt_json_node *child = node->child; child; child = child->next)
            if (!from_json(r, child, &item[i++])) return false;
        return lnt_value_list(r, LNT_LIST, item, node->count, out);
    default: /* keys of an object differ: nothing is searched */
        if (!lnt_value_dict(r, node->count, out)) return false;
        for (const lnt_json_node *child = node->child; child; child = child->next) {
            lnt_pair *pair = &out->is.dict->pair[out->is.dict->count++];
            pair->key = lnt_value_text((lnt_span){ child->key, strlen(child->key) });
            if (!from_json(r, child, &pair->value)) return false;
        }
        return true;
    }
}

static bool put_text(lnt_render *r, lnt_dict *dict, const char *key, const char *text, size_t bytes)
{
    const lnt_value value = text ? lnt_value_text((lnt_span){ text, bytes }) : lnt_value_none();
    return lnt_value_put(r, dict, lnt_value_text((lnt_span){ key, strlen(key) }), value);
}

/* The fields of an object, as names of a scope or keys of a dict. */
static bool put_more(lnt_render *r, const lnt_json_node *object, lnt_scope *scope, lnt_dict *dict)
{
    if (!object) return true;
    if (object->type != LNT_JSON_OBJECT)
        return lnt_render_fail(r, "what is given beside the messages is no JSON object");
    for (const lnt_json_node *child = object->child; child; child = child->next) {
        lnt_value value;
        const lnt_span key = { child->key, strlen(child->key) };
        if (!from_json(r, child, &value)) return false;
        if (!(scope ? lnt_scope_set(r, scope, key, value)
                    : lnt_value_put(r, dict, lnt_value_text(key), value)))
            return false;
    }
    return true;
}

static bool put_messages(lnt_render *r, const lnt_chat_message *message, size_t count)
{
    lnt_value *item = lnt_template_pool_take(&r->pool, count, sizeof *item), list;
    if (!item) return false;
    for (size_t i = 0; i < count; i++) {
        if (!lnt_value_dict(r, 2, &item[i])) return false;
        lnt_dict *dict = item[i].is.dict;
        if (!put_text(r, dict, "role", message[i].role, message[i].role ? strlen(message[i].role) : 0) ||
            !put_text(r, dict, "content", message[i].content, message[i].content_bytes) ||
            !put_more(r, message[i].more, NULL, dict))
            return false;
    }
    return lnt_value_list(r, LNT_LIST, item, count, &list) &&
           lnt_scope_set(r, r->scope, LNT_SPAN("messages"), list);
}

static bool put_names(lnt_render *r, const lnt_template_options *o)
{
    const struct {
        lnt_span name;
        const char *text;
    } tokens[] = { { LNT_SPAN("bos_token"), o->bos_token }, { LNT_SPAN("eos_token"), o->eos_token },
                   { LNT_SPAN("pad_token"), o->pad_token }, { LNT_SPAN("unk_token"), o->unk_token } };
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
        if (tokens[i].text &&
            !lnt_scope_set(r, r->scope, tokens[i].name,
                           lnt_value_text((lnt_span){ tokens[i].text, strlen(tokens[i].text) })))
            return false;
    return lnt_scope_set(r, r->scope, LNT_SPAN("tools"), lnt_value_none()) &&
           lnt_scope_set(r, r->scope, LNT_SPAN("documents"), lnt_value_none()) &&
           lnt_scope_set(r, r->scope, LNT_SPAN("add_generation_prompt"),
                         lnt_value_bool(o->add_generation_prompt)) &&
           put_more(r, o->variables, r->scope, NULL);
}

/* Bytes that JSON holds, about. */
static size_t json_bytes(const lnt_json_node *node)
{
    size_t bytes = node ? 8 : 0;
    if (node && node->key) bytes += strlen(node->key);
    if (node && node->type == LNT_JSON_STRING) bytes += strlen(node->text);
    for (const lnt_json_node *child = node ? node->child : NULL; child; child = child->next)
        bytes += json_bytes(child);
    return bytes;
}

/* ---- the three calls ----------------------------------------------------------------------- */

lnt_status lnt_template_open(lnt_ctx *ctx, const char *where, const char *text, size_t bytes,
                             lnt_template **out)
{
    *out = NULL;
    if (bytes > TEMPLATE_MOST)
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_TEMPLATE_FMT ": %zu bytes, at most %d", where,
                        bytes, TEMPLATE_MOST);
    lnt_template *t = lnt_allocate(ctx, sizeof *t, "a chat template");
    if (!t) return LNT_ERR_MEMORY;
    *t = (lnt_template){ .ctx = ctx };
    snprintf(t->where, sizeof t->where, "%s", where);
    t->pool = (lnt_template_pool){ .ctx = ctx, .where = t->where, .most = (bytes + 64) * NODE_BYTES };
    lnt_parser parser = { 0 };
    lnt_status status = LNT_ERR_FORMAT;
    if (lnt_lexer_open(&t->pool, text, bytes, &parser.lexer) &&
        lnt_parse_template(&parser, &t->first))
        status = LNT_OK;
    else if (t->pool.refused) status = LNT_ERR_MEMORY;
    t->source = parser.lexer.source;
    if (status) lnt_template_close(t);
    else *out = t;
    return status;
}

void lnt_template_close(lnt_template *t)
{
    if (!t) return;
    lnt_template_pool_close(&t->pool);
    lnt_release(t->ctx, t, sizeof *t);
}

static lnt_status copy_text(lnt_ctx *ctx, const lnt_buffer *from, char **text, size_t *bytes)
{
    *text = lnt_allocate(ctx, from->bytes + 1, "the text of a chat");
    if (!*text) return LNT_ERR_MEMORY;
    if (from->bytes) memcpy(*text, from->text, from->bytes);
    (*text)[from->bytes] = 0;
    *bytes = from->bytes;
    return LNT_OK;
}

lnt_status lnt_template_render(const lnt_template *t, const lnt_chat_message *messages, size_t count,
                               const lnt_template_options *options, char **text, size_t *bytes)
{
    *text = NULL;
    *bytes = 0;
    size_t given = t->source.bytes + json_bytes(options->variables);
    for (size_t i = 0; i < count; i++) given += 64 + messages[i].content_bytes + json_bytes(messages[i].more);
    lnt_render r = { .source = t->source,
                     .options = options,
                     .most_steps = STEPS_LEAST + given * STEPS_PER_BYTE };
    r.pool = (lnt_template_pool){ .ctx = t->ctx, .where = t->where,
                                  .most = MEMORY_LEAST + given * MEMORY_PER_BYTE };
    r.scope = lnt_scope_new(&r, NULL);
    lnt_status status = LNT_ERR_FORMAT;
    if (r.scope && put_names(&r, options) && put_messages(&r, messages, count) &&
        lnt_statement_run(&r, t->first))
        status = copy_text(t->ctx, &r.out, text, bytes);
    else if (r.pool.refused)
        status = LNT_ERR_MEMORY;
    lnt_template_pool_close(&r.pool);
    return status;
}
