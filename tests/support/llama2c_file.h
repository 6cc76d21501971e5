/* llama2c_file.h - a small model of llama2.c in memory, and a tokenizer for it. */
#ifndef LNT_TESTS_LLAMA2C_FILE_H
#define LNT_TESTS_LLAMA2C_FILE_H

#include "gguf_file.h"

enum {
    LLAMA2C_DIM = 16,
    LLAMA2C_FEED = 24,
    LLAMA2C_LAYERS = 2,
    LLAMA2C_HEADS = 4,
    LLAMA2C_KV_HEADS = 2,
    LLAMA2C_TOKENS = 264,
    LLAMA2C_LENGTH = 8
};

/* Random weights by seed; with `separate` a matrix of its own gives the logits. */
buffer llama2c_file(bool separate, uint64_t seed);

/* Of LLAMA2C_TOKENS tokens: three that frame, those of 256 bytes, " ", "a", "b", "ab" and " ab". */
buffer llama2c_tokenizer(void);

#endif
