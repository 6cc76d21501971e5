/* model/import/vit.c - ViT and DeiT: an image is cut into square patches, each a token by one dense layer,
 * which others write as a convolution whose stride is its kernel.  Learned class tokens stand before them,
 * one in ViT, two in DeiT; positions are learned, norms stand before the branches, GELU is exact.  A
 * classifier reads the first token; DeiT's with a teacher is the mean of two, of which the second reads the
 * second.  A model without classes gives the first token, through a pooler where it has one. */
#include <string.h>

#include "model/import/arch.h"
#include "model/import/preprocessor.h"

#define BLOCK(name) LNT_RULE_BLOCK + LNT_BLOCK_##name
#define LAYER "encoder.layer.%d."

static const lnt_rule rules[] = {
    { LNT_PARAM_EMBED, LNT_TURN_FLAT, { "embeddings.patch_embeddings.projection.weight" } },
    { LNT_PARAM_EMBED_BIAS, 0, { "embeddings.patch_embeddings.projection.bias" } },
    { LNT_PARAM_CLASS, LNT_TURN_FLAT, { "embeddings.cls_token", "embeddings.distillation_token" } },
    { LNT_PARAM_CLASS, LNT_TURN_FLAT, { "embeddings.cls_token" } },
    { LNT_PARAM_POSITION, LNT_TURN_FLAT, { "embeddings.position_embeddings" } },
    { LNT_PARAM_NORM_GAIN, 0, { "layernorm.weight" } },
    { LNT_PARAM_NORM_BIAS, 0, { "layernorm.bias" } },
    { LNT_PARAM_POOLER, 0, { "pooler.dense.weight" } },
    { LNT_PARAM_POOLER_BIAS, 0, { "pooler.dense.bias" } },
    { LNT_PARAM_HEAD, 0, { "classifier.weight" } },
    { LNT_PARAM_HEAD, 0, { "cls_classifier.weight" } },
    { LNT_PARAM_HEAD_BIAS, 0, { "classifier.bias" } },
    { LNT_PARAM_HEAD_BIAS, 0, { "cls_classifier.bias" } },
    { LNT_PARAM_HEAD2, 0, { "distillation_classifier.weight" } },
    { LNT_PARAM_HEAD2_BIAS, 0, { "distillation_classifier.bias" } },
    { BLOCK(NORM1_GAIN), 0, { LAYER "layernorm_before.weight" } },
    { BLOCK(NORM1_BIAS), 0, { LAYER "layernorm_before.bias" } },
    { BLOCK(QKV),
      0,
      { LAYER "attention.attention.query.weight", LAYER "attention.attention.key.weight",
        LAYER "attention.attention.value.weight" } },
    { BLOCK(QKV_BIAS),
      0,
      { LAYER "attention.attention.query.bias", LAYER "attention.attention.key.bias",
        LAYER "attention.attention.value.bias" } },
    { BLOCK(OUT), 0, { LAYER "attention.output.dense.weight" } },
    { BLOCK(OUT_BIAS), 0, { LAYER "attention.output.dense.bias" } },
    { BLOCK(NORM2_GAIN), 0, { LAYER "layernorm_after.weight" } },
    { BLOCK(NORM2_BIAS), 0, { LAYER "layernorm_after.bias" } },
    { BLOCK(UP), 0, { LAYER "intermediate.dense.weight" } },
    { BLOCK(UP_BIAS), 0, { LAYER "intermediate.dense.bias" } },
    { BLOCK(DOWN), 0, { LAYER "output.dense.weight" } },
    { BLOCK(DOWN_BIAS), 0, { LAYER "output.dense.bias" } },
    { 0 },
};

enum { SIDE = 1 << 14, CHANNELS = 16, CLASSES = 1 << 24 };

/* The tensor of a parameter that is outside the blocks. */
static const lnt_stored *tensor(const lnt_source *s, const lnt_arch *arch, int param)
{
    const lnt_rule *rule = lnt_arch_rule(s, arch, param);
    return rule ? lnt_arch_tensor(s, arch, rule->name[0], 0) : NULL;
}

/* [dim, channels, patch, patch]: one dense layer over a patch, whose numbers are in that order. */
static void check_projection(lnt_source *s, const lnt_arch *arch, const lnt_config *c)
{
    const lnt_stored *t = tensor(s, arch, LNT_PARAM_EMBED);
    const int64_t wanted[4] = { c->dim, c->channels, c->patch, c->patch };
    if (s->status) return;
    if (!t)
        s->status =
            lnt_fail(s->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": it has no layer that embeds patches", s->path);
    else if (t->rank != 4 || memcmp(t->shape, wanted, sizeof wanted) != 0)
        s->status = lnt_fail(
            s->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": tensor '%.80s' must be [%lld,%lld,%lld,%lld]", s->path,
            t->name, (long long)wanted[0], (long long)wanted[1], (long long)wanted[2], (long long)wanted[3]);
}

/* How images are cut, and what stands before their patches. */
static void read_image(lnt_source *s, const lnt_arch *arch, lnt_config *c)
{
    c->image = lnt_source_whole(s, NULL, "image_size", 1, SIDE);
    c->patch = lnt_source_whole(s, NULL, "patch_size", 1, SIDE);
    c->channels = lnt_source_whole_in(s, NULL, "num_channels", 3, 1, CHANNELS);
    check_projection(s, arch, c);
    const lnt_rule *before = lnt_arch_rule(s, arch, LNT_PARAM_CLASS);
    c->class_tokens = before ? 1 + (before->name[1] != NULL) : 0;
    c->input = LNT_INPUT_FEATURES;
    c->inputs = c->channels * c->patch * c->patch;
    c->length = c->class_tokens + (c->image / c->patch) * (c->image / c->patch);
}

static void read_head(lnt_source *s, const lnt_arch *arch, lnt_config *c)
{
    const lnt_stored *head = tensor(s, arch, LNT_PARAM_HEAD);
    c->pooling = LNT_POOL_FIRST;
    c->output = head ? LNT_OUTPUT_CLASS : LNT_OUTPUT_VECTOR;
    c->outputs = head ? head->shape[0] : c->dim;
    c->distilled = lnt_arch_has(s, arch, LNT_PARAM_HEAD2);
    c->pooler = !head && lnt_arch_has(s, arch, LNT_PARAM_POOLER);
    if (head && (head->rank != 2 || c->outputs < 1 || c->outputs > CLASSES))
        s->status =
            lnt_fail(s->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": tensor '%.80s' is no head of 1 to %d classes",
                     s->path, head->name, CLASSES);
    if (c->pooler) lnt_arch_expect_word(s, "pooler_act", "tanh");
}

static void configure(lnt_source *s, const lnt_arch *arch, lnt_config *c)
{
    c->kind = LNT_ENCODER;
    lnt_arch_widths(s, c);
    c->epsilon = lnt_source_real_or(s, NULL, "layer_norm_eps", 1e-12);
    c->activation = LNT_ACT_GELU_ERF;
    lnt_arch_expect_word(s, "hidden_act", "gelu");
    c->position = LNT_POSITION_LEARNED;
    c->bias = lnt_arch_biases(s, arch);
    read_image(s, arch, c);
    if (!s->status) read_head(s, arch, c);
    lnt_preprocessor_read(s, &c->pixels);
}

static const char *const none[] = { NULL };
static const char *const vit[] = { "ViTForImageClassification", "ViTModel", "vit", NULL };
static const char *const deit[] = { "DeiTForImageClassification", "DeiTForImageClassificationWithTeacher",
                                    "DeiTModel", "deit", NULL };
/* What stands for patches that training hides. */
static const char *const ignored[] = { "embeddings.mask_token", NULL };

const lnt_arch lnt_arch_vit = {
    .gguf = none, .classes = vit, .prefix = "vit.", .rules = rules, .ignored = ignored, .configure = configure
};
const lnt_arch lnt_arch_deit = { .gguf = none,
                                 .classes = deit,
                                 .prefix = "deit.",
                                 .rules = rules,
                                 .ignored = ignored,
                                 .configure = configure };
