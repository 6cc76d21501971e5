/* model/import/bert.c - BERT and MiniLM: learned positions, LayerNorm after each sum, exact GELU.  The
 * tokens' type is always the first.  What a text's vector is, the files of sentence-transformers say
 * (pooling.c). */
#include "model/import/arch.h"
#include "model/import/pooling.h"

#define BLOCK(name) LNT_RULE_BLOCK + LNT_BLOCK_##name
#define LAYER "encoder.layer.%d."

static const lnt_rule rules[] = {
    { LNT_PARAM_EMBED, 0, { "embeddings.word_embeddings.weight" } },
    { LNT_PARAM_POSITION, 0, { "embeddings.position_embeddings.weight" } },
    { LNT_PARAM_POSITION, LNT_TURN_FIRST_ROW, { "embeddings.token_type_embeddings.weight" } },
    { LNT_PARAM_EMBED_NORM_GAIN, 0, { "embeddings.LayerNorm.weight" } },
    { LNT_PARAM_EMBED_NORM_BIAS, 0, { "embeddings.LayerNorm.bias" } },
    { BLOCK(QKV),
      0,
      { LAYER "attention.self.query.weight", LAYER "attention.self.key.weight",
        LAYER "attention.self.value.weight" } },
    { BLOCK(QKV_BIAS),
      0,
      { LAYER "attention.self.query.bias", LAYER "attention.self.key.bias",
        LAYER "attention.self.value.bias" } },
    { BLOCK(OUT), 0, { LAYER "attention.output.dense.weight" } },
    { BLOCK(OUT_BIAS), 0, { LAYER "attention.output.dense.bias" } },
    { BLOCK(NORM1_GAIN), 0, { LAYER "attention.output.LayerNorm.weight" } },
    { BLOCK(NORM1_BIAS), 0, { LAYER "attention.output.LayerNorm.bias" } },
    { BLOCK(UP), 0, { LAYER "intermediate.dense.weight" } },
    { BLOCK(UP_BIAS), 0, { LAYER "intermediate.dense.bias" } },
    { BLOCK(DOWN), 0, { LAYER "output.dense.weight" } },
    { BLOCK(DOWN_BIAS), 0, { LAYER "output.dense.bias" } },
    { BLOCK(NORM2_GAIN), 0, { LAYER "output.LayerNorm.weight" } },
    { BLOCK(NORM2_BIAS), 0, { LAYER "output.LayerNorm.bias" } },
    { 0 },
};

static void configure(lnt_source *s, const lnt_arch *arch, lnt_config *c)
{
    c->kind = LNT_ENCODER;
    lnt_arch_extents(s, c);
    c->epsilon = lnt_source_real_or(s, "attention.layer_norm_epsilon", "layer_norm_eps", 1e-12);
    c->activation = LNT_ACT_GELU_ERF;
    lnt_arch_expect_word(s, "hidden_act", "gelu");
    lnt_arch_expect_word(s, "position_embedding_type", "absolute");
    c->position = LNT_POSITION_LEARNED;
    c->post = LNT_PLACE_POST;
    c->embedding_norm = 1;
    lnt_arch_common(s, arch, c);
    c->output = LNT_OUTPUT_VECTOR;
    c->outputs = c->dim;
    lnt_pooling_read(s, c);
}

static const char *const gguf[] = { "bert", NULL };
static const char *const classes[] = { "BertModel", "BertForMaskedLM", NULL };
/* Heads that no vector of a text comes from. */
static const char *const ignored[] = { "embeddings.position_ids",
                                       "pooler.dense.weight",
                                       "pooler.dense.bias",
                                       "predictions.bias",
                                       "predictions.transform.dense.weight",
                                       "predictions.transform.dense.bias",
                                       "predictions.transform.LayerNorm.weight",
                                       "predictions.transform.LayerNorm.bias",
                                       "predictions.decoder.weight",
                                       "predictions.decoder.bias",
                                       NULL };

const lnt_arch lnt_arch_bert = { .gguf = gguf,
                                 .classes = classes,
                                 .prefix = "bert.",
                                 .rules = rules,
                                 .ignored = ignored,
                                 .configure = configure };
