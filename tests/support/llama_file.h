/* llama_file.h - a small Llama as a GGUF file in memory: one block and a byte-level vocabulary of 264 tokens,
 * the last of them the special token <|end|>, which its chat template puts behind each "role:content". */
#ifndef LNT_TESTS_LLAMA_FILE_H
#define LNT_TESTS_LLAMA_FILE_H

#include "gguf_file.h"

enum { LLAMA_TOKENS = 264, LLAMA_DIM = 32, LLAMA_FEED = 64, LLAMA_HEADS = 2, LLAMA_KV_HEADS = 1 };

/* Its matrices in f32, f16, bf16 or q8_0, random by seed; its norms in f32. */
buffer llama_file(lnt_storage storage, uint64_t seed);

#endif
