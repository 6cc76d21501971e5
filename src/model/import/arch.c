/* model/import/arch.c - the list of architectures, and what they share; see arch.h. */
#include "model/import/arch.h"

#include <stdio.h>
#include <string.h>

static const lnt_arch *const list[] = { &lnt_arch_llama, &lnt_arch_gemma, &lnt_arch_gpt2, &lnt_arch_neox,
                                        &lnt_arch_bert,  &lnt_arch_vit,   &lnt_arch_deit };
enum { COUNT = sizeof list / sizeof list[0] };

static bool is_among(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(name, *names) == 0) return true;
    return false;
}

const lnt_arch *lnt_arch_find(lnt_source *s)
{
    const bool gguf = lnt_source_is_gguf(s);
    char known[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < COUNT; i++) {
        const char *const *names = gguf ? list[i]->gguf : list[i]->classes;
        if (is_among(s->name, names)) return list[i];
        for (; *names && used < sizeof known; names++)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", *names);
    }
    s->status =
        lnt_fail(s->ctx, LNT_ERR_UNSUPPORTED,
                 LNT_FILE_FMT ": the architecture '%s' is not known; known are %s", s->path, s->name, known);
    return NULL;
}

#define BLOCK(name) LNT_RULE_BLOCK + LNT_BLOCK_##name

/* GGUF files of every architecture use these names. */
const lnt_rule lnt_gguf_rules[] = {
    { LNT_PARAM_EMBED, 0, { "token_embd.weight" } },
    { LNT_PARAM_EMBED_NORM_GAIN, 0, { "token_embd_norm.weight" } },
    { LNT_PARAM_EMBED_NORM_BIAS, 0, { "token_embd_norm.bias" } },
    { LNT_PARAM_POSITION, 0, { "position_embd.weight" } },
    { LNT_PARAM_POSITION, LNT_TURN_FIRST_ROW, { "token_types.weight" } },
    { LNT_PARAM_NORM_GAIN, 0, { "output_norm.weight" } },
    { LNT_PARAM_NORM_BIAS, 0, { "output_norm.bias" } },
    { LNT_PARAM_HEAD, 0, { "output.weight" } },
    { LNT_PARAM_HEAD_BIAS, 0, { "output.bias" } },
    { BLOCK(NORM1_GAIN), 0, { "blk.%d.attn_norm.weight" } },
    { BLOCK(NORM1_GAIN), 0, { "blk.%d.attn_output_norm.weight" } },
    { BLOCK(NORM1_BIAS), 0, { "blk.%d.attn_norm.bias" } },
    { BLOCK(NORM1_BIAS), 0, { "blk.%d.attn_output_norm.bias" } },
    { BLOCK(QKV), 0, { "blk.%d.attn_q.weight", "blk.%d.attn_k.weight", "blk.%d.attn_v.weight" } },
    { BLOCK(QKV), 0, { "blk.%d.attn_qkv.weight" } },
    { BLOCK(QKV_BIAS), 0, { "blk.%d.attn_q.bias", "blk.%d.attn_k.bias", "blk.%d.attn_v.bias" } },
    { BLOCK(QKV_BIAS), 0, { "blk.%d.attn_qkv.bias" } },
    { BLOCK(Q_NORM), 0, { "blk.%d.attn_q_norm.weight" } },
    { BLOCK(K_NORM), 0, { "blk.%d.attn_k_norm.weight" } },
    { BLOCK(OUT), 0, { "blk.%d.attn_output.weight" } },
    { BLOCK(OUT_BIAS), 0, { "blk.%d.attn_output.bias" } },
    { BLOCK(AFTER1_GAIN), 0, { "blk.%d.post_attention_norm.weight" } },
    { BLOCK(AFTER2_GAIN), 0, { "blk.%d.post_ffw_norm.weight" } },
    { BLOCK(NORM2_GAIN), 0, { "blk.%d.ffn_norm.weight" } },
    { BLOCK(NORM2_GAIN), 0, { "blk.%d.layer_output_norm.weight" } },
    { BLOCK(NORM2_BIAS), 0, { "blk.%d.ffn_norm.bias" } },
    { BLOCK(NORM2_BIAS), 0, { "blk.%d.layer_output_norm.bias" } },
    { BLOCK(UP), 0, { "blk.%d.ffn_gate.weight", "blk.%d.ffn_up.weight" } },
    { BLOCK(UP), 0, { "blk.%d.ffn_up.weight" } },
    { BLOCK(UP_BIAS), 0, { "blk.%d.ffn_gate.bias", "blk.%d.ffn_up.bias" } },
    { BLOCK(UP_BIAS), 0, { "blk.%d.ffn_up.bias" } },
    { BLOCK(DOWN), 0, { "blk.%d.ffn_down.weight" } },
    { BLOCK(DOWN_BIAS), 0, { "blk.%d.ffn_down.bias" } },
    { 0 },
};

const lnt_rule *lnt_arch_rules(const lnt_source *s, const lnt_arch *arch)
{
    return lnt_source_is_gguf(s) ? lnt_gguf_rules : arch->rules;
}

const lnt_stored *lnt_arch_tensor(const lnt_source *s, const lnt_arch *arch, const char *name, size_t l)
{
    char full[128];
    const char *const prefix = lnt_source_is_gguf(s) || !arch->prefix ? "" : arch->prefix;
    const char *place = strstr(name, "%d");
    const int before = place ? (int)(place - name) : (int)strlen(name);
    int used = snprintf(full, sizeof full, "%s%.*s", prefix, before, name);
    if (place) snprintf(full + used, sizeof full - (size_t)used, "%zu%s", l, place + 2);
    const lnt_stored *found = lnt_tensors_find(&s->tensors, full);
    return found || !*prefix ? found : lnt_tensors_find(&s->tensors, full + strlen(prefix));
}

static bool is_there(const lnt_source *s, const lnt_arch *arch, const lnt_rule *rule)
{
    for (int i = 0; i < LNT_RULE_NAMES && rule->name[i]; i++)
        if (!lnt_arch_tensor(s, arch, rule->name[i], 0)) return false;
    return true;
}

const lnt_rule *lnt_arch_rule(const lnt_source *s, const lnt_arch *arch, int param)
{
    for (const lnt_rule *r = lnt_arch_rules(s, arch); r->name[0]; r++)
        if (r->param == param && r->turn != LNT_TURN_FIRST_ROW && is_there(s, arch, r)) return r;
    return NULL;
}

int lnt_arch_biases(const lnt_source *s, const lnt_arch *arch)
{
    static const struct {
        int bit, param;
    } each[] = { { LNT_BIAS_NORM, BLOCK(NORM1_BIAS) },
                 { LNT_BIAS_QKV, BLOCK(QKV_BIAS) },
                 { LNT_BIAS_OUT, BLOCK(OUT_BIAS) },
                 { LNT_BIAS_FEED, BLOCK(DOWN_BIAS) },
                 { LNT_BIAS_HEAD, LNT_PARAM_HEAD_BIAS } };
    int bits = 0;
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++)
        if (lnt_arch_has(s, arch, each[i].param)) bits |= each[i].bit;
    return bits;
}

void lnt_arch_check_layers(lnt_source *s, int64_t layers)
{
    if ((size_t)layers > s->tensors.count)
        lnt_source_refuse(s, "it has %lld layers, and the file %zu tensors", (long long)layers,
                          s->tensors.count);
}

void lnt_arch_widths(lnt_source *s, lnt_config *c)
{
    c->dim = lnt_source_whole(s, "embedding_length", "hidden_size", 1, LNT_ARCH_WIDTH);
    c->layers = lnt_source_whole(s, "block_count", "num_hidden_layers", 1, LNT_ARCH_LAYERS);
    c->heads = lnt_source_whole(s, "attention.head_count", "num_attention_heads", 1, LNT_ARCH_HEADS);
    c->kv_heads =
        lnt_source_whole_in(s, "attention.head_count_kv", "num_key_value_heads", c->heads, 1, LNT_ARCH_HEADS);
    c->head_dim =
        lnt_source_whole_in(s, "attention.key_length", "head_dim", c->dim / c->heads, 1, LNT_ARCH_HEAD);
    c->ff = lnt_source_whole(s, "feed_forward_length", "intermediate_size", 1, 4 * LNT_ARCH_WIDTH);
    lnt_arch_check_layers(s, c->layers);
    if (lnt_source_whole_or(s, "attention.value_length", NULL, c->head_dim) != c->head_dim)
        lnt_source_refuse(s, "its values are not as wide as its keys");
}

void lnt_arch_extents(lnt_source *s, lnt_config *c)
{
    lnt_arch_widths(s, c);
    c->length = lnt_source_whole(s, "context_length", "max_position_embeddings", 1, LNT_ARCH_LENGTH);
}

void lnt_arch_expect_word(lnt_source *s, const char *key, const char *word)
{
    if (!lnt_source_has(s, NULL, key)) return;
    const lnt_source_text said = lnt_source_text_of(s, NULL, key);
    if (!lnt_source_text_is(said, word))
        lnt_source_refuse(s, "%s is '%.*s', known is '%s'", key, (int)said.bytes, said.text, word);
}

void lnt_arch_common(lnt_source *s, const lnt_arch *arch, lnt_config *c)
{
    const lnt_rule *embed = lnt_arch_rule(s, arch, LNT_PARAM_EMBED);
    const lnt_stored *tokens = embed ? lnt_arch_tensor(s, arch, embed->name[0], 0) : NULL;
    if (s->status) return;
    if (!tokens || tokens->rank != 2) {
        s->status =
            lnt_fail(s->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": it has no matrix that embeds tokens", s->path);
        return;
    }
    c->input = LNT_INPUT_TOKENS;
    c->inputs = tokens->shape[0];
    c->bias = lnt_arch_biases(s, arch);
    if (c->kind != LNT_DECODER) return;
    c->output = LNT_OUTPUT_TOKENS;
    c->outputs = c->inputs;
    c->tied =
        !lnt_arch_has(s, arch, LNT_PARAM_HEAD) || lnt_source_flag_or(s, NULL, "tie_word_embeddings", false);
}
