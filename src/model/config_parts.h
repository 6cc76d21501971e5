/* model/config_parts.h - what the sources of a config share. */
#ifndef LNT_MODEL_CONFIG_PARTS_H
#define LNT_MODEL_CONFIG_PARTS_H

#include "model/config.h"
#include "model/fields.h"

/* Of lnt_config, as of the attention of the whole model. */
extern const lnt_field lnt_attention_fields[]; /* .only: the mechanisms that take it */
extern const lnt_field lnt_rotary_fields[];

/* The config as if kind k were that of all layers, and back. */
lnt_config lnt_config_view(const lnt_config *config, size_t k);
void lnt_config_take_kind(const lnt_config *view, lnt_attention_kind *kind);
bool lnt_config_has_layer(const lnt_attention_kind *kind, size_t layer);

/* The mechanism of the model's own attention; options that it does not take become those of plain. */
void lnt_config_put_mechanism(lnt_config *config, lnt_mechanism mechanism, const lnt_config *plain);

lnt_status lnt_config_read_kinds(lnt_ctx *ctx, const char *path, const lnt_json_node *list,
                                 lnt_config *config);
lnt_status lnt_config_check_same_kinds(lnt_ctx *ctx, const char *path, const lnt_config *said,
                                       const lnt_config *wanted);
void lnt_config_write_kind(lnt_json_text *out, const lnt_config *config, const lnt_config *plain, size_t k);

bool lnt_config_is_full(const lnt_config *config); /* exact attention of MEGA, nn/full.h */
unsigned lnt_config_usual_bias(const lnt_config *config); /* LNT_BIAS_..., of models with its norm */

#endif
