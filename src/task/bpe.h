/* task/bpe.h - learns byte-pair merges. */
#ifndef LNT_TASK_BPE_H
#define LNT_TASK_BPE_H

#include "model/tokenizer.h"

/* Up to `wanted` merges, fewer where no pair comes twice, of the words of text (see
 * lnt_tokenizer_word_length); merge [wanted]. */
lnt_status lnt_bpe_learn(lnt_ctx *ctx, const char *text, size_t bytes, size_t wanted,
                         lnt_merge *merge, size_t *merges);

#endif
