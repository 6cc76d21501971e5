/* model/import/pooling.c - see pooling.h. */
#include "model/import/pooling.h"

#include <stdio.h>
#include <string.h>

static bool says(const lnt_json_node *object, const char *key)
{
    const lnt_json_node *node = lnt_json_member(object, key);
    return node && node->type == LNT_JSON_TRUE;
}

static const char *text_in(const lnt_json_node *object, const char *key)
{
    const lnt_json_node *node = lnt_json_member(object, key);
    return node && node->type == LNT_JSON_STRING ? node->text : "";
}

/* {"pooling_mode_mean_tokens":true, ...}: exactly one that is known. */
static void read_modes(lnt_source *s, const char *folder, lnt_config *c)
{
    char name[128];
    lnt_json json;
    snprintf(name, sizeof name, "%.100s/config.json", folder);
    s->status = lnt_source_json(s->ctx, s->path, name, &json);
    if (s->status) return;
    const bool mean = says(json.root, "pooling_mode_mean_tokens"),
               first = says(json.root, "pooling_mode_cls_token");
    const bool last = says(json.root, "pooling_mode_lasttoken");
    const bool other = says(json.root, "pooling_mode_max_tokens") ||
                       says(json.root, "pooling_mode_mean_sqrt_len_tokens") ||
                       says(json.root, "pooling_mode_weightedmean_tokens");
    if (mean + first + last != 1 || other)
        lnt_source_refuse(
            s, "%s says no pooling that is known: the mean of the tokens, the first or the last", name);
    c->pooling = first ? LNT_POOL_FIRST : last ? LNT_POOL_LAST : LNT_POOL_MEAN;
    lnt_json_free(s->ctx, &json);
}

static void read_module(lnt_source *s, const lnt_json_node *module, lnt_config *c)
{
    const char *const type = text_in(module, "type");
    const char *const dot = strrchr(type, '.'), *const kind = dot ? dot + 1 : type;
    if (strcmp(kind, "Pooling") == 0)
        read_modes(s, text_in(module, "path"), c);
    else if (strcmp(kind, "Normalize") == 0)
        c->normalise = 1;
    else if (strcmp(kind, "Transformer") != 0)
        lnt_source_refuse(s, "modules.json has a '%.60s'; known are Transformer, Pooling and Normalize",
                          type);
}

static void read_directory(lnt_source *s, lnt_config *c)
{
    lnt_json json;
    s->status = lnt_source_json(s->ctx, s->path, "modules.json", &json);
    for (const lnt_json_node *m = json.root ? json.root->child : NULL; m && !s->status; m = m->next)
        read_module(s, m, c);
    lnt_json_free(s->ctx, &json);
}

int64_t lnt_pooling_length(lnt_source *s, const lnt_config *c)
{
    lnt_json json = { 0 };
    if (!s->status && s->kind == LNT_SOURCE_DIRECTORY)
        s->status = lnt_source_json(s->ctx, s->path, "sentence_bert_config.json", &json);
    const lnt_json_node *most = json.root ? lnt_json_member(json.root, "max_seq_length") : NULL;
    const bool shorter =
        most && most->type == LNT_JSON_INTEGER && most->integer > 0 && most->integer < c->length;
    const int64_t length = shorter ? most->integer : c->length;
    lnt_json_free(s->ctx, &json);
    return length;
}

void lnt_pooling_read(lnt_source *s, lnt_config *c)
{
    static const int known[] = { LNT_POOL_NONE, LNT_POOL_MEAN, LNT_POOL_FIRST, LNT_POOL_LAST };
    if (s->status) return;
    c->pooling = LNT_POOL_MEAN;
    if (!lnt_source_is_gguf(s)) {
        read_directory(s, c);
        return;
    }
    const int64_t type = lnt_source_whole_or(s, "pooling_type", NULL, 1);
    if (type < 0 || type > 3)
        lnt_source_refuse(s, "pooling_type is %lld, known are 0 to 3", (long long)type);
    else
        c->pooling = known[type];
}
