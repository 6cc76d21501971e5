/* model/import/gpt2.c - GPT-2: learned positions, LayerNorm before each branch, GELU in its tanh form; the
 * matrices of a directory are stored [in,out]. */
#include "model/import/arch.h"

#define BLOCK(name) LNT_RULE_BLOCK + LNT_BLOCK_##name

static const lnt_rule rules[] = {
    { LNT_PARAM_EMBED, 0, { "wte.weight" } },
    { LNT_PARAM_POSITION, 0, { "wpe.weight" } },
    { LNT_PARAM_NORM_GAIN, 0, { "ln_f.weight" } },
    { LNT_PARAM_NORM_BIAS, 0, { "ln_f.bias" } },
    { LNT_PARAM_HEAD, 0, { "lm_head.weight" } },
    { BLOCK(NORM1_GAIN), 0, { "h.%d.ln_1.weight" } },
    { BLOCK(NORM1_BIAS), 0, { "h.%d.ln_1.bias" } },
    { BLOCK(QKV), LNT_TURN_COLUMNS, { "h.%d.attn.c_attn.weight" } },
    { BLOCK(QKV_BIAS), 0, { "h.%d.attn.c_attn.bias" } },
    { BLOCK(OUT), LNT_TURN_COLUMNS, { "h.%d.attn.c_proj.weight" } },
    { BLOCK(OUT_BIAS), 0, { "h.%d.attn.c_proj.bias" } },
    { BLOCK(NORM2_GAIN), 0, { "h.%d.ln_2.weight" } },
    { BLOCK(NORM2_BIAS), 0, { "h.%d.ln_2.bias" } },
    { BLOCK(UP), LNT_TURN_COLUMNS, { "h.%d.mlp.c_fc.weight" } },
    { BLOCK(UP_BIAS), 0, { "h.%d.mlp.c_fc.bias" } },
    { BLOCK(DOWN), LNT_TURN_COLUMNS, { "h.%d.mlp.c_proj.weight" } },
    { BLOCK(DOWN_BIAS), 0, { "h.%d.mlp.c_proj.bias" } },
    { 0 },
};

static void configure(lnt_source *s, const lnt_arch *arch, lnt_config *c)
{
    c->kind = LNT_DECODER;
    c->dim = lnt_source_whole(s, "embedding_length", "n_embd", 1, LNT_ARCH_WIDTH);
    c->layers = lnt_source_whole(s, "block_count", "n_layer", 1, LNT_ARCH_LAYERS);
    lnt_arch_check_layers(s, c->layers);
    c->heads = lnt_source_whole(s, "attention.head_count", "n_head", 1, LNT_ARCH_HEADS);
    c->length = lnt_source_whole(s, "context_length", "n_positions", 1, LNT_ARCH_LENGTH);
    c->ff = lnt_source_whole_in(s, "feed_forward_length", "n_inner", 4 * c->dim, 1, 4 * LNT_ARCH_WIDTH);
    c->epsilon = lnt_source_real_or(s, "attention.layer_norm_epsilon", "layer_norm_epsilon", 1e-5);
    c->activation = LNT_ACT_GELU;
    c->position = LNT_POSITION_LEARNED;
    lnt_arch_expect_word(s, "activation_function", "gelu_new");
    lnt_arch_common(s, arch, c);
}

static const char *const gguf[] = { "gpt2", NULL };
static const char *const classes[] = { "GPT2LMHeadModel", "GPT2Model", NULL };
static const char *const ignored[] = { ".attn.bias", ".attn.masked_bias", NULL }; /* causal masks */

const lnt_arch lnt_arch_gpt2 = { .gguf = gguf,
                                 .classes = classes,
                                 .prefix = "transformer.",
                                 .rules = rules,
                                 .ignored = ignored,
                                 .configure = configure };
