/* model/import/arch.h - an architecture: from the names and shapes of others to a config and a layout of
 * ours.
 *
 * Adding one is a file that exports one `const lnt_arch`, and its line in the list of arch.c.  `configure`
 * reads the extents; the rules say which tensors a parameter is made of.  What a file has of optional
 * parameters, biases say, is seen by the rules' tensors, not asked for. */
#ifndef LNT_MODEL_IMPORT_ARCH_H
#define LNT_MODEL_IMPORT_ARCH_H

#include "model/import/source.h"
#include "model/layout.h"

/* What is done to tensors on their way. */
typedef enum lnt_turn {
    LNT_TURN_NONE = 0,
    LNT_TURN_COLUMNS,  /* a matrix is stored [in,out]; others are [out,in] */
    LNT_TURN_HEADS,    /* rows are q, k and v of one head after the other */
    LNT_TURN_PLUS_ONE, /* 1 is to be added */
    LNT_TURN_FIRST_ROW, /* its first row is added to every row */
    LNT_TURN_FLAT /* its axes, however many, are taken for those of the matrix, in their order */
} lnt_turn;

enum { LNT_RULE_NAMES = 3, LNT_RULE_BLOCK = 1 << 16 };

/* A parameter is made of tensors one below the other.  The first rule of a parameter whose tensors are all
 * there holds; a rule of LNT_TURN_FIRST_ROW holds beside it. */
typedef struct lnt_rule {
    int param; /* LNT_PARAM_..., or LNT_RULE_BLOCK + LNT_BLOCK_... */
    lnt_turn turn;
    const char *name[LNT_RULE_NAMES]; /* %d: the block; the first NULL: the end of the rules */
} lnt_rule;

typedef struct lnt_arch {
    const char *const *gguf;    /* names in general.architecture; NULL ends them */
    const char *const *classes; /* in config.json */
    const char *prefix;         /* names in a directory may have it before them: "model." */
    const lnt_rule *rules;      /* of a directory */
    const char *const *ignored; /* tensors of a directory that say nothing new: the ends of their names */
    void (*configure)(lnt_source *s, const struct lnt_arch *arch, lnt_config *config);
} lnt_arch;

extern const lnt_arch lnt_arch_llama, lnt_arch_gemma, lnt_arch_gpt2, lnt_arch_neox, lnt_arch_bert,
    lnt_arch_vit, lnt_arch_deit;

/* The one of a source; NULL, and s->status, where it is not known. */
const lnt_arch *lnt_arch_find(lnt_source *s);
/* The rules for its files: its own, or those of every GGUF file. */
const lnt_rule *lnt_arch_rules(const lnt_source *s, const lnt_arch *arch);
extern const lnt_rule lnt_gguf_rules[];

/* The tensor of a rule's name in block l; NULL if absent. */
const lnt_stored *lnt_arch_tensor(const lnt_source *s, const lnt_arch *arch, const char *name, size_t l);
/* The first rule of a parameter whose tensors are there for block 0, or NULL. */
const lnt_rule *lnt_arch_rule(const lnt_source *s, const lnt_arch *arch, int param);
static inline bool lnt_arch_has(const lnt_source *s, const lnt_arch *arch, int param)
{
    return lnt_arch_rule(s, arch, param) != NULL;
}

enum {
    LNT_ARCH_WIDTH = 1 << 16,
    LNT_ARCH_LAYERS = 1024,
    LNT_ARCH_HEADS = 4096,
    LNT_ARCH_HEAD = 4096,
    LNT_ARCH_LENGTH = 1 << 24
};

/* Width, layers, heads and feed-forward layer, by the names that most have; */
void lnt_arch_widths(lnt_source *s, lnt_config *config);
/* these and the length. */
void lnt_arch_extents(lnt_source *s, lnt_config *config);
/* Refuses more layers than there are tensors, before anything is made for each. */
void lnt_arch_check_layers(lnt_source *s, int64_t layers);
/* Refuses a directory whose config.json says another word; where it says none, all is well. */
void lnt_arch_expect_word(lnt_source *s, const char *key, const char *word);
/* LNT_BIAS_..., which the file has. */
int lnt_arch_biases(const lnt_source *s, const lnt_arch *arch);
/* What all have that read tokens: the tokens as the embedding has rows, tied, and which biases there are. */
void lnt_arch_common(lnt_source *s, const lnt_arch *arch, lnt_config *config);

#endif
