/* models.h - small models for tests. */
#ifndef LNT_TESTS_MODELS_H
#define LNT_TESTS_MODELS_H

#include "model/model.h"
#include "support.h"

enum { VOCABULARY = 19, LENGTH = 150, MODEL_CONFIGS = 3 };

extern const char *const model_configs[MODEL_CONFIGS];

/* With `shift`, temperatures that are learned, and taylor as TaylorShift has it. */
lnt_model *model_make(lnt_ctx *ctx, const char *config, lnt_mechanism mechanism, int shift);
void model_fill_tokens(int32_t *tokens, int count, uint64_t seed);
double model_difference(const float *a, const float *b, size_t count);

/* Loads the file with every allocation failing in turn: nothing is left.  How many there were. */
int64_t model_load_without_memory(const char *path);

/* cur sees whole sequences: test_training.c has it. */
bool model_generates(int mechanism);
/* For each mechanism that generates, and each config. */
void model_walk(void (*check)(lnt_ctx *ctx, lnt_model *model));

#endif
