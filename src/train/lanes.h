/* train/lanes.h - divides a batch among threads from the first layer to the last and back, so that they
 * need not wait for each other at every layer.
 *
 * A *lane* is a part of the batch's sequences with a gradient sum of its own; the lanes' sums are added in
 * order.  The sequences of a lane pass through the network one *slice* (micro-batch) at a time.  A slice is
 * small enough that a layer finds the output of the layer before it in the cache, and is padded to its
 * longest sequence. Sequences are sorted by length, the longest first, so there is little padding.  All
 * this follows from the model and the batch alone, so the bits are the same for any number of threads.  A
 * *worker* is the network and memory that lanes use one after another. */
#ifndef LNT_TRAIN_LANES_H
#define LNT_TRAIN_LANES_H

#include "model/model.h"
#include "train/loss.h"
#include "train/sample.h"

enum { LNT_LANES_MOST = 64 };

typedef struct lnt_lanes {
    size_t batch;   /* sequences */
    size_t count;   /* number of lanes; 1: the batch as a whole */
    size_t slice;   /* most sequences in a slice */
    size_t enough;  /* tokens from which a slice takes no sequence that needs much padding */
    size_t workers; /* one per thread; a single lane has one, which uses all threads */
} lnt_lanes;

typedef struct lnt_worker {
    lnt_ctx ctx; /* that of the trainer, with the threads of this worker and an error message of its own */
    lnt_network network; /* of a slice */
    lnt_sample part;     /* the slice */
    lnt_loss_scratch scratch;
    lnt_status status; /* of the lanes so far */
} lnt_worker;

lnt_lanes lnt_lanes_cut(const lnt_model *model, size_t batch);

/* begin [count + 1]: the first sequence of each lane, then the number of sequences.  All lanes cost about the
 * same, so a lane of long sequences has fewer.  None is empty. */
void lnt_lanes_share(const lnt_lanes *lanes, const lnt_example *order, size_t *begin);

/* Some sequences of a lane, for a worker. */
typedef struct lnt_slice {
    lnt_worker *worker;
    size_t lane, first, count; /* first: in the order */
    bool opens;                /* it is the first of its lane */
} lnt_slice;

/* Calls work for every slice of the sequences in this order: the slices of a lane one after another, lanes in
 * parallel. */
void lnt_lanes_each(const lnt_lanes *lanes, const lnt_example *order, lnt_worker *workers,
                    void (*work)(const lnt_slice *slice, void *arg), void *arg);

#endif
