/* model/import/labels.c - see labels.h. */
#include "model/import/labels.h"

#include <stdlib.h>
#include <string.h>

/* The class that a key names; SIZE_MAX: none. */
static size_t class_of(const char *key, size_t classes)
{
    char *end;
    if (*key < '0' || *key > '9') return SIZE_MAX;
    const unsigned long long i = strtoull(key, &end, 10);
    return *end || i >= classes ? SIZE_MAX : (size_t)i;
}

lnt_status lnt_labels_read(lnt_source *s, const lnt_config *config, lnt_labels *out)
{
    const lnt_json_node *list = lnt_source_is_gguf(s) ? NULL : lnt_json_member(s->config.root, "id2label");
    const size_t classes = (size_t)config->outputs;
    size_t bytes = 0, used = 0;
    *out = (lnt_labels){ 0 };
    if (config->output != LNT_OUTPUT_CLASS || !list || list->type != LNT_JSON_OBJECT) return LNT_OK;
    for (const lnt_json_node *n = list->child; n; n = n->next)
        if (n->type == LNT_JSON_STRING) bytes += strlen(n->text) + 1;
    if (!bytes) return LNT_OK;
    const lnt_status status = lnt_labels_open(s->ctx, classes, bytes, out);
    for (const lnt_json_node *n = list->child; !status && n; n = n->next) {
        const size_t i = class_of(n->key, classes);
        if (n->type != LNT_JSON_STRING || i == SIZE_MAX || out->at[i] != SIZE_MAX) continue;
        out->at[i] = used;
        memcpy(out->text + used, n->text, strlen(n->text) + 1);
        used += strlen(n->text) + 1;
    }
    return status;
}
