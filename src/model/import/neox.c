/* model/import/neox.c - GPT-NeoX and Pythia: LayerNorm, rotary positions over a part of each head, exact
 * GELU, both branches read the same sum; queries, keys and values of a head stand together. */
#include "model/import/arch.h"
#include "model/import/rope.h"

#define BLOCK(name) LNT_RULE_BLOCK + LNT_BLOCK_##name
#define LAYER "layers.%d."

static const lnt_rule rules[] = {
    { LNT_PARAM_EMBED, 0, { "embed_in.weight" } },
    { LNT_PARAM_NORM_GAIN, 0, { "final_layer_norm.weight" } },
    { LNT_PARAM_NORM_BIAS, 0, { "final_layer_norm.bias" } },
    { LNT_PARAM_HEAD, 0, { "embed_out.weight" } },
    { BLOCK(NORM1_GAIN), 0, { LAYER "input_layernorm.weight" } },
    { BLOCK(NORM1_BIAS), 0, { LAYER "input_layernorm.bias" } },
    { BLOCK(QKV), LNT_TURN_HEADS, { LAYER "attention.query_key_value.weight" } },
    { BLOCK(QKV_BIAS), LNT_TURN_HEADS, { LAYER "attention.query_key_value.bias" } },
    { BLOCK(OUT), 0, { LAYER "attention.dense.weight" } },
    { BLOCK(OUT_BIAS), 0, { LAYER "attention.dense.bias" } },
    { BLOCK(NORM2_GAIN), 0, { LAYER "post_attention_layernorm.weight" } },
    { BLOCK(NORM2_BIAS), 0, { LAYER "post_attention_layernorm.bias" } },
    { BLOCK(UP), 0, { LAYER "mlp.dense_h_to_4h.weight" } },
    { BLOCK(UP_BIAS), 0, { LAYER "mlp.dense_h_to_4h.bias" } },
    { BLOCK(DOWN), 0, { LAYER "mlp.dense_4h_to_h.weight" } },
    { BLOCK(DOWN_BIAS), 0, { LAYER "mlp.dense_4h_to_h.bias" } },
    { 0 },
};

static void configure(lnt_source *s, const lnt_arch *arch, lnt_config *c)
{
    c->kind = LNT_DECODER;
    lnt_arch_extents(s, c);
    c->epsilon = lnt_source_real_or(s, "attention.layer_norm_epsilon", "layer_norm_eps", 1e-5);
    c->activation = LNT_ACT_GELU_ERF;
    lnt_arch_expect_word(s, "hidden_act", "gelu");
    c->parallel = lnt_source_flag_or(s, "use_parallel_residual", "use_parallel_residual", true);
    lnt_rope_read(s, false, c);
    lnt_arch_common(s, arch, c);
}

static const char *const gguf[] = { "gptneox", NULL };
static const char *const classes[] = { "GPTNeoXForCausalLM", "GPTNeoXModel", NULL };
static const char *const ignored[] = { "attention.bias", "attention.masked_bias", "rotary_emb.inv_freq",
                                       NULL };

const lnt_arch lnt_arch_neox = { .gguf = gguf,
                                 .classes = classes,
                                 .prefix = "gpt_neox.",
                                 .rules = rules,
                                 .ignored = ignored,
                                 .configure = configure };
