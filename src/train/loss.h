/* train/loss.h - the loss of a batch, of the kind that fits the output of the model. */
#ifndef LNT_TRAIN_LOSS_H
#define LNT_TRAIN_LOSS_H

#include "model/network.h"
#include "task/task.h"

/* Sums over some batches. */
typedef struct lnt_score {
    double loss;    /* nats */
    double targets; /* that counted; frames: utterances, those with too few frames left out */
    double hits;    /* where the likeliest was right */
    double units;   /* bytes or pixels the targets stand for */
    double edits, words; /* frames: edit distance to the labels, and their number */
} lnt_score;

/* Scratch of lnt_loss for a batch. */
typedef struct lnt_loss_scratch {
    double *loss;        /* [rows] */
    unsigned char *hit;  /* [rows] */
    double *lattice;     /* [batch,lattice_size]: frames */
    size_t lattice_size;
    int32_t *read;       /* [batch,length]: frames */
} lnt_loss_scratch;

void lnt_loss_take_scratch(lnt_arena *arena, const lnt_config *config, size_t batch, size_t length,
                   lnt_loss_scratch *out);

/* What a target weighs in the mean over a batch. */
double lnt_loss_weight(const lnt_config *config, const lnt_sample *batch);

/* Adds a batch, or part of one, to score, except its units; it subtracts the units of utterances that do not
 * count.  With `gradient`, net->logits becomes the gradient of weight times the sum of the losses. */
void lnt_loss(lnt_network *net, const lnt_sample *sample, bool gradient, double weight,
              const lnt_loss_scratch *scratch, lnt_score *score);

void lnt_score_add(lnt_score *score, const lnt_score *more);

#endif
