/* model/config_kinds.c - kinds of attention: what layers have in place of the model's own, from JSON and
 * back.
 *
 * A kind begins as the attention of the model, under the mechanism that it names; only what is other than
 * that is written. */
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "model/config_parts.h"

static const lnt_field kind_fields[] = {
    { .key = "layers", .kind = LNT_FIELD_LIST },
    LNT_WHOLE_FIELD(lnt_attention_kind, every, 1, LNT_CONFIG_LAYERS),
    LNT_WHOLE_FIELD(lnt_attention_kind, offset, 0, LNT_CONFIG_LAYERS - 1),
    { .key = "attention", .kind = LNT_FIELD_OBJECT },
    { .key = "rotary", .kind = LNT_FIELD_OBJECT },
    { .key = NULL },
};

/* The config as if kind k were that of all layers, and back. */
lnt_config lnt_config_view(const lnt_config *c, size_t k)
{
    lnt_config view = *c;
    if (k == 0) return view;
    const lnt_attention_kind *kind = &c->kinds[k - 1];
    view.attention = kind->attention;
    memcpy(view.coefficients, kind->coefficients, sizeof view.coefficients);
    view.coefficient_count = kind->coefficient_count;
    memcpy(view.decay, kind->decay, sizeof view.decay);
    view.decay_count = kind->decay_count;
    memcpy(view.pin, kind->pin, sizeof view.pin);
    view.pin_count = kind->pin_count;
    view.learned_temperature = kind->learned_temperature;
    view.rotary = kind->rotary;
    return view;
}

void lnt_config_take_kind(const lnt_config *view, lnt_attention_kind *kind)
{
    kind->attention = view->attention;
    memcpy(kind->coefficients, view->coefficients, sizeof kind->coefficients);
    kind->coefficient_count = view->coefficient_count;
    memcpy(kind->decay, view->decay, sizeof kind->decay);
    kind->decay_count = view->decay_count;
    memcpy(kind->pin, view->pin, sizeof kind->pin);
    kind->pin_count = view->pin_count;
    kind->learned_temperature = view->learned_temperature;
    kind->rotary = view->rotary;
}

bool lnt_config_has_layer(const lnt_attention_kind *kind, size_t layer)
{
    return kind->layers[layer / 64] >> layer % 64 & 1;
}

size_t lnt_config_kind(const lnt_config *c, size_t layer)
{
    for (size_t k = (size_t)c->kind_count; k > 0; k--)
        if (lnt_config_has_layer(&c->kinds[k - 1], layer)) return k;
    return 0;
}

/* What a kind begins from: the attention of the model, under the mechanism that the kind names. */
static lnt_config begin_kind(const lnt_config *config, const lnt_config *plain,
                             const lnt_json_node *attention)
{
    lnt_config view = *config;
    const lnt_json_node *named = attention ? lnt_json_member(attention, "mechanism") : NULL;
    for (int i = 0; named && named->type == LNT_JSON_STRING && lnt_mechanism_name((lnt_mechanism)i); i++)
        if (!strcmp(lnt_mechanism_name((lnt_mechanism)i), named->text))
            lnt_config_put_mechanism(&view, (lnt_mechanism)i, plain);
    return view;
}

static lnt_status read_layers(lnt_ctx *ctx, const char *path, const char *section,
                              const lnt_json_node *list, lnt_attention_kind *kind)
{
    for (const lnt_json_node *c = list->child; c; c = c->next) {
        if (c->type != LNT_JSON_INTEGER || c->integer < 0 || c->integer >= LNT_CONFIG_LAYERS)
            return lnt_fail(ctx, LNT_ERR_FORMAT,
                            LNT_FILE_FMT ": %s.layers must be a list of layers, the first being 0", path,
                            section);
        kind->layers[c->integer / 64] |= UINT64_C(1) << c->integer % 64;
    }
    return LNT_OK;
}

static lnt_status read_kind(lnt_ctx *ctx, const char *path, const lnt_json_node *node,
                            const lnt_config *config, const lnt_config *plain, int64_t index,
                            lnt_attention_kind *kind)
{
    char section[32], inner[48];
    snprintf(section, sizeof section, "model.kinds[%d]", (int)index);
    *kind = (lnt_attention_kind){ 0 };
    lnt_status status = lnt_fields_read(ctx, path, section, node, kind_fields, kind);
    if (status) return status;
    const lnt_json_node *attention = lnt_json_member(node, "attention");
    const lnt_json_node *rotary = lnt_json_member(node, "rotary"), *layers = lnt_json_member(node, "layers");
    if (!layers == !kind->every)
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": %s needs layers or every, and not both", path,
                        section);
    if (layers) status = read_layers(ctx, path, section, layers, kind);
    lnt_config view = begin_kind(config, plain, attention);
    snprintf(inner, sizeof inner, "%s.attention", section);
    if (!status) status = lnt_fields_read(ctx, path, inner, attention, lnt_attention_fields, &view);
    snprintf(inner, sizeof inner, "%s.rotary", section);
    if (!status) status = lnt_fields_read(ctx, path, inner, rotary, lnt_rotary_fields, &view);
    lnt_config_take_kind(&view, kind);
    return status;
}

lnt_status lnt_config_read_kinds(lnt_ctx *ctx, const char *path, const lnt_json_node *list,
                                 lnt_config *config)
{
    lnt_config plain;
    lnt_status status = lnt_config_default(ctx, &plain);
    if (!status && list->count >= LNT_CONFIG_KINDS)
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": model.kinds has more than %d kinds of attention",
                        path, LNT_CONFIG_KINDS - 1);
    config->kind_count = 0;
    for (const lnt_json_node *c = list->child; !status && c; c = c->next) {
        const int64_t i = config->kind_count;
        status = read_kind(ctx, path, c, config, &plain, i, &config->kinds[i]);
        config->kind_count++;
    }
    return status;
}

lnt_status lnt_config_check_same_kinds(lnt_ctx *ctx, const char *path, const lnt_config *said,
                                   const lnt_config *wanted)
{
    bool same = said->kind_count == wanted->kind_count;
    for (size_t k = 1; same && k <= (size_t)said->kind_count; k++) {
        const lnt_config a = lnt_config_view(said, k), b = lnt_config_view(wanted, k);
        same = lnt_fields_same(lnt_attention_fields, &a, &b) && lnt_fields_same(lnt_rotary_fields, &a, &b) &&
               !memcmp(said->kinds[k - 1].layers, wanted->kinds[k - 1].layers, sizeof said->kinds->layers);
    }
    if (same) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": model.kinds must be as they were", path);
}

static void write_layers(lnt_json_text *out, const lnt_attention_kind *kind)
{
    char text[64];
    bool first = true;
    snprintf(text, sizeof text, "{\"every\":%d,\"offset\":%d", (int)kind->every, (int)kind->offset);
    lnt_json_put(out, kind->every ? text : "{\"layers\":[");
    for (size_t l = 0; !kind->every && l < LNT_CONFIG_LAYERS; l++) {
        if (!lnt_config_has_layer(kind, l)) continue;
        snprintf(text, sizeof text, "%s%zu", first ? "" : ",", l);
        lnt_json_put(out, text);
        first = false;
    }
    if (!kind->every) lnt_json_put(out, "]");
}

/* What is other than in what the kind begins from when it is read. */
void lnt_config_write_kind(lnt_json_text *out, const lnt_config *config, const lnt_config *plain, size_t k)
{
    const lnt_config view = lnt_config_view(config, k);
    lnt_config begin = *config;
    lnt_config_put_mechanism(&begin, view.attention.mechanism, plain);
    begin.attention.mechanism = config->attention.mechanism; /* the word itself is written */
    write_layers(out, &config->kinds[k - 1]);
    lnt_json_put(out, ",\"attention\":");
    lnt_fields_write_changes(out, lnt_attention_fields, &view, &begin);
    lnt_json_put(out, ",\"rotary\":");
    lnt_fields_write_changes(out, lnt_rotary_fields, &view, &begin);
    lnt_json_put(out, "}");
}
