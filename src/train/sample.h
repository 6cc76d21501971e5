/* train/sample.h - batches, and parts of them with sequences of similar length, as the network takes them. */
#ifndef LNT_TRAIN_SAMPLE_H
#define LNT_TRAIN_SAMPLE_H

#include "model/network.h"
#include "task/task.h"

void lnt_sample_take(lnt_arena *arena, const lnt_config *config, size_t batch, size_t length,
                     lnt_sample *out);

/* A sequence of a batch. */
typedef struct lnt_example {
    size_t length, index;
} lnt_example;

/* order [batch]: by length, the longest first; equal lengths in the order of the batch. */
void lnt_sample_order(const lnt_sample *sample, lnt_example *order);
/* Copies `count` sequences in the order given to out, padded to the longest of them. */
void lnt_sample_gather(const lnt_sample *sample, const lnt_config *config, const lnt_example *order,
                       size_t count, lnt_sample *out);
lnt_batch lnt_sample_batch(const lnt_sample *sample);

#endif
