/* model/import/rope.c - see rope.h.  config.json has "rope_theta" and "rope_scaling", or both in
 * "rope_parameters"; GGUF has keys, and for Llama 3 a tensor of what each pair's frequency is divided by. */
#include "model/import/rope.h"

#include <stdio.h>
#include <string.h>

#define MOST_LENGTH 0x1p30

/* A key of whichever object config.json has. */
static double scaling_real(lnt_source *s, const char *gguf, const char *key, double otherwise)
{
    char name[64];
    const bool old = lnt_source_has(s, NULL, "rope_scaling");
    snprintf(name, sizeof name, "%s.%s", old ? "rope_scaling" : "rope_parameters", key);
    return lnt_source_real_or(s, gguf, name, otherwise);
}

static lnt_source_text scaling_kind(lnt_source *s)
{
    static const char *const keys[] = { "rope_scaling.rope_type", "rope_scaling.type",
                                        "rope_parameters.rope_type" };
    for (size_t i = 0; i < 3; i++)
        if (lnt_source_has(s, "rope.scaling.type", keys[i]))
            return lnt_source_text_of(s, "rope.scaling.type", keys[i]);
    return (lnt_source_text){ "none", 4 };
}

static void read_scaling(lnt_source *s, lnt_rotary *r, int64_t length)
{
    static const struct {
        const char *word;
        int scaling;
    } known[] = { { "none", LNT_ROTARY_NONE },
                  { "default", LNT_ROTARY_NONE },
                  { "linear", LNT_ROTARY_LINEAR },
                  { "llama3", LNT_ROTARY_LLAMA3 },
                  { "yarn", LNT_ROTARY_YARN } };
    const lnt_source_text kind = scaling_kind(s);
    size_t i = 0;
    while (i < sizeof known / sizeof known[0] && !lnt_source_text_is(kind, known[i].word)) i++;
    if (i == sizeof known / sizeof known[0]) {
        lnt_source_refuse(s, "its positions are scaled by '%.*s'; known are linear, llama3 and yarn",
                          (int)kind.bytes, kind.text);
        return;
    }
    r->scaling = known[i].scaling;
    r->factor = scaling_real(s, "rope.scaling.factor", "factor", 1);
    r->low_freq_factor = scaling_real(s, NULL, "low_freq_factor", 1);
    r->high_freq_factor = scaling_real(s, NULL, "high_freq_factor", 4);
    r->beta_fast = scaling_real(s, "rope.scaling.yarn_beta_fast", "beta_fast", 32);
    r->beta_slow = scaling_real(s, "rope.scaling.yarn_beta_slow", "beta_slow", 1);
    r->magnitude = scaling_real(s, NULL, "attention_factor", 0);
    const double original = scaling_real(s, "rope.scaling.original_context_length",
                                         "original_max_position_embeddings", (double)length);
    if (!(original >= 1 && original <= MOST_LENGTH))
        lnt_source_refuse(s, "it was first trained on %g tokens", original);
    else
        r->original_length = (int64_t)original;
    if (r->scaling && !(r->factor > 0)) lnt_source_refuse(s, "the factor of its positions is %g", r->factor);
}

static void read_divisors(lnt_source *s, lnt_rotary *r, int64_t pairs)
{
    const lnt_stored *t = lnt_tensors_find(&s->tensors, "rope_freqs.weight");
    if (!t || s->status) return;
    if (t->storage != LNT_STORAGE_F32 || t->rank != 1 || t->shape[0] != pairs ||
        pairs > LNT_ROTARY_DIVISORS) {
        lnt_source_refuse(s, "rope_freqs.weight must be f32 [%lld]", (long long)pairs);
        return;
    }
    float divisor[LNT_ROTARY_DIVISORS];
    lnt_storage_unpack(t->storage, t->data, divisor, (size_t)pairs);
    r->divisor_count = pairs;
    for (int64_t i = 0; i < pairs; i++) {
        r->divisors[i] = (double)divisor[i];
        if (!(divisor[i] > 0 && isfinite(divisor[i])))
            lnt_source_refuse(s, "rope_freqs.weight[%lld] is %g", (long long)i, (double)divisor[i]);
    }
}

void lnt_rope_read(lnt_source *s, bool adjacent, lnt_config *c)
{
    lnt_rotary *r = &c->rotary;
    const double nested = lnt_source_real_or(s, NULL, "rope_parameters.partial_rotary_factor", 1);
    const double part = lnt_source_real_or(s, NULL, "partial_rotary_factor",
                                           lnt_source_real_or(s, NULL, "rotary_pct", nested));
    const double base = lnt_source_real_or(s, NULL, "rotary_emb_base", 10000);
    if (!(part > 0 && part <= 1)) lnt_source_refuse(s, "%g of each head turns by position", part);
    if (s->status) return;
    c->position = LNT_POSITION_ROTARY;
    r->base = lnt_source_real_or(s, "rope.freq_base", "rope_theta",
                                 lnt_source_real_or(s, NULL, "rope_parameters.rope_theta", base));
    r->halves = !adjacent;
    r->dims = lnt_source_whole_or(s, "rope.dimension_count", NULL, (int64_t)(part * (double)c->head_dim));
    read_scaling(s, r, c->length);
    if (s->status) return;
    if (r->dims < 2 || r->dims > c->head_dim || r->dims % 2) {
        lnt_source_refuse(s, "%lld of the %lld numbers of a head turn by position", (long long)r->dims,
                          (long long)c->head_dim);
        return;
    }
    if (!(r->base > 1)) lnt_source_refuse(s, "the base of its positions is %g", r->base);
    read_divisors(s, r, r->dims / 2);
}
