/* model/import/llama.c - Llama and those made like it (SmolLM, Mistral, Qwen 2 and 3, Phi 3): RMSNorm before
 * each branch, rotary positions, SwiGLU; Qwen 2 has biases at queries, keys and values, Qwen 3 norms there,
 * and Phi 3 has these in one matrix, and gate and up too. */
#include <string.h>

#include "model/import/arch.h"
#include "model/import/rope.h"

#define BLOCK(name) LNT_RULE_BLOCK + LNT_BLOCK_##name
#define LAYER "layers.%d."

static const lnt_rule rules[] = {
    { LNT_PARAM_EMBED, 0, { "embed_tokens.weight" } },
    { LNT_PARAM_NORM_GAIN, 0, { "norm.weight" } },
    { LNT_PARAM_HEAD, 0, { "lm_head.weight" } },
    { BLOCK(NORM1_GAIN), 0, { LAYER "input_layernorm.weight" } },
    { BLOCK(QKV),
      0,
      { LAYER "self_attn.q_proj.weight", LAYER "self_attn.k_proj.weight", LAYER "self_attn.v_proj.weight" } },
    { BLOCK(QKV), 0, { LAYER "self_attn.qkv_proj.weight" } },
    { BLOCK(QKV_BIAS),
      0,
      { LAYER "self_attn.q_proj.bias", LAYER "self_attn.k_proj.bias", LAYER "self_attn.v_proj.bias" } },
    { BLOCK(Q_NORM), 0, { LAYER "self_attn.q_norm.weight" } },
    { BLOCK(K_NORM), 0, { LAYER "self_attn.k_norm.weight" } },
    { BLOCK(OUT), 0, { LAYER "self_attn.o_proj.weight" } },
    { BLOCK(OUT_BIAS), 0, { LAYER "self_attn.o_proj.bias" } },
    { BLOCK(NORM2_GAIN), 0, { LAYER "post_attention_layernorm.weight" } },
    { BLOCK(UP), 0, { LAYER "mlp.gate_proj.weight", LAYER "mlp.up_proj.weight" } },
    { BLOCK(UP), 0, { LAYER "mlp.gate_up_proj.weight" } },
    { BLOCK(UP_BIAS), 0, { LAYER "mlp.gate_proj.bias", LAYER "mlp.up_proj.bias" } },
    { BLOCK(DOWN), 0, { LAYER "mlp.down_proj.weight" } },
    { BLOCK(DOWN_BIAS), 0, { LAYER "mlp.down_proj.bias" } },
    { 0 },
};

/* Qwen's files name a window that is not used unless they say so. */
static void read_window(lnt_source *s, lnt_config *c)
{
    const bool named = strncmp(s->name, "Qwen", 4) == 0;
    const int64_t window =
        lnt_source_whole_in(s, "attention.sliding_window", "sliding_window", 0, 0, LNT_ARCH_LENGTH);
    if (!lnt_source_flag_or(s, NULL, "use_sliding_window", !named)) return;
    if (named) lnt_source_refuse(s, "a window in some of its layers (use_sliding_window) is not known");
    c->attention.hybrid.window = window; /* of softmax: config_shape.c */
}

static void configure(lnt_source *s, const lnt_arch *arch, lnt_config *c)
{
    c->kind = LNT_DECODER;
    lnt_arch_extents(s, c);
    c->norm = LNT_NORM_RMS;
    c->epsilon = lnt_source_real_or(s, "attention.layer_norm_rms_epsilon", "rms_norm_eps", 1e-6);
    c->activation = LNT_ACT_SWIGLU;
    lnt_arch_expect_word(s, "hidden_act", "silu");
    /* GGUF files of llama have the rows of q and k turned, so that pairs stand side by side; llama2.c's were
     * never turned. */
    lnt_rope_read(s, s->kind == LNT_SOURCE_LLAMA2C || strcmp(s->name, "llama") == 0, c);
    read_window(s, c);
    lnt_arch_common(s, arch, c);
    c->qk_norm = lnt_arch_has(s, arch, BLOCK(Q_NORM));
}

static const char *const gguf[] = { "llama", "qwen2", "qwen3", "mistral", "phi3", NULL };
static const char *const classes[] = { "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM",
                                       "Qwen3ForCausalLM", "Phi3ForCausalLM", "LlamaModel", NULL };
static const char *const ignored[] = { "rotary_emb.inv_freq", NULL };

const lnt_arch lnt_arch_llama = { .gguf = gguf,
                                  .classes = classes,
                                  .prefix = "model.",
                                  .rules = rules,
                                  .ignored = ignored,
                                  .configure = configure };
