/* train/sample.h - memory for batches, and a batch as the network sees it. */
#ifndef LNT_TRAIN_SAMPLE_H
#define LNT_TRAIN_SAMPLE_H

#include "model/network.h"
#include "task/task.h"

void lnt_sample_take(lnt_arena *arena, const lnt_config *config, size_t batch, size_t length,
                     lnt_sample *out);
/* `count` of its sequences, from `first` on; they stay where they are. */
lnt_sample lnt_sample_part(const lnt_sample *sample, const lnt_config *config, size_t first,
                           size_t count);
lnt_batch lnt_sample_batch(const lnt_sample *sample);

#endif
