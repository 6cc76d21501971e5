/* model/labels.c - see labels.h. */
#include "model/labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

lnt_status lnt_labels_open(lnt_ctx *ctx, size_t count, size_t bytes, lnt_labels *out)
{
    *out = (lnt_labels){ .count = count, .bytes = bytes };
    if (!count) return LNT_OK;
    out->at = lnt_allocate(ctx, count * sizeof *out->at, "the names of classes");
    out->text = lnt_allocate(ctx, bytes, "the names of classes");
    if (!out->at || !out->text) {
        lnt_labels_close(ctx, out);
        return LNT_ERR_MEMORY;
    }
    memset(out->at, 0xff, count * sizeof *out->at);
    return LNT_OK;
}

lnt_status lnt_labels_copy(lnt_ctx *ctx, const lnt_labels *from, lnt_labels *out)
{
    const lnt_status status = lnt_labels_open(ctx, from->count, from->bytes, out);
    if (status || !from->count) return status;
    memcpy(out->at, from->at, from->count * sizeof *out->at);
    memcpy(out->text, from->text, from->bytes);
    return LNT_OK;
}

void lnt_labels_close(lnt_ctx *ctx, lnt_labels *labels)
{
    lnt_release(ctx, labels->at, labels->count * sizeof *labels->at);
    lnt_release(ctx, labels->text, labels->bytes);
    *labels = (lnt_labels){ 0 };
}

const char *lnt_labels_name(const lnt_labels *labels, size_t i)
{
    return i < labels->count && labels->at[i] != SIZE_MAX ? labels->text + labels->at[i] : NULL;
}

/* The class that a key names; SIZE_MAX: none. */
static size_t class_of(const char *key, size_t classes)
{
    char *end;
    if (*key < '0' || *key > '9') return SIZE_MAX;
    const unsigned long long i = strtoull(key, &end, 10);
    return *end || i >= classes ? SIZE_MAX : (size_t)i;
}

lnt_status lnt_labels_read(lnt_ctx *ctx, const lnt_json_node *object, size_t count, lnt_labels *out)
{
    size_t bytes = 0, used = 0;
    *out = (lnt_labels){ 0 };
    if (!object || object->type != LNT_JSON_OBJECT) return LNT_OK;
    for (const lnt_json_node *n = object->child; n; n = n->next)
        if (n->type == LNT_JSON_STRING) bytes += strlen(n->text) + 1;
    if (!bytes) return LNT_OK;
    const lnt_status status = lnt_labels_open(ctx, count, bytes, out);
    for (const lnt_json_node *n = object->child; !status && n; n = n->next) {
        const size_t i = class_of(n->key, count);
        if (n->type != LNT_JSON_STRING || i == SIZE_MAX || out->at[i] != SIZE_MAX) continue;
        out->at[i] = used;
        memcpy(out->text + used, n->text, strlen(n->text) + 1);
        used += strlen(n->text) + 1;
    }
    return status;
}

void lnt_labels_write(lnt_json_text *out, const lnt_labels *labels)
{
    bool first = true;
    lnt_json_put(out, "{");
    for (size_t i = 0; i < labels->count; i++) {
        const char *name = lnt_labels_name(labels, i);
        char number[32];
        if (!name) continue;
        snprintf(number, sizeof number, "%s\"%zu\":", first ? "" : ",", i);
        lnt_json_put(out, number);
        lnt_json_put_string(out, name);
        first = false;
    }
    lnt_json_put(out, "}");
}
