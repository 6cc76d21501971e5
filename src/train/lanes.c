/* train/lanes.c - see lanes.h. */
#include "train/lanes.h"

#include <omp.h>

enum {
    LEAST = 256, /* tokens in a lane, beside whose products it is little to clear its sum and to add it */
    SLICE = 512, /* tokens in a slice, and in a lane where there are enough */
    FEWEST = 16, /* lanes: fewer would leave threads without work that a single layer has for them */
    ENOUGH = 512, /* tokens in a slice that all threads share, for their work */
    PADDING = 16, /* one in so many tokens may be */
    SUMS = 1 << 24 /* numbers in all sums, at most: wide layers are large enough for threads to share */
};

lnt_lanes lnt_lanes_cut(const lnt_model *model, size_t batch)
{
    const size_t length = (size_t)model->config.length, tokens = batch * length;
    const size_t threads = (size_t)model->ctx->threads;
    size_t count = tokens / SLICE > FEWEST ? nn_least(tokens / SLICE, LNT_LANES_MOST) : FEWEST;
    count = nn_least(nn_least(count, batch), SUMS / model->layout.size);
    count -= count % FEWEST; /* as many to one thread as to another */
#ifdef LNT_CBLAS
    count = 0; /* the threads are that library's, which takes one product at a time */
#endif
    if (count == 0 || count * LEAST > tokens)
        return (lnt_lanes){ .batch = batch, .count = 1, .slice = batch, .enough = ENOUGH,
                            .workers = 1 };
    const size_t most = batch - count + 1; /* in a lane */
    return (lnt_lanes){ .batch = batch, .count = count,
                        .slice = length < SLICE ? nn_least(SLICE / length, most) : 1,
                        .enough = SLICE, .workers = nn_least(threads, count) };
}

/* A short sequence costs more than its tokens, for it makes short products and is padded. */
static size_t cost_of(const lnt_example *order, size_t i)
{
    return order[i].length + order[0].length / 4 + 1;
}

void lnt_lanes_share(const lnt_lanes *lanes, const lnt_example *order, size_t *begin)
{
    size_t total = 0, at = 0, before = 0; /* before: the cost of those before `at` */
    for (size_t i = 0; i < lanes->batch; i++) total += cost_of(order, i);
    for (size_t lane = 0; lane <= lanes->count; lane++) {
        const size_t least = lane > 0 ? begin[lane - 1] + 1 : 0;
        for (; at < lanes->batch; at++) {
            const size_t with = before + cost_of(order, at);
            if (at >= least && with * lanes->count > lane * total) break;
            before = with;
        }
        begin[lane] = at;
    }
}

typedef void slice_work(const lnt_slice *slice, void *arg);

/* How many of `left` sequences make a slice: where there are tokens enough, no more than go with little
 * padding. */
static size_t slice_of(const lnt_lanes *lanes, const lnt_example *order, size_t left)
{
    const size_t most = nn_least(lanes->slice, left), longest = order[0].length;
    size_t count = 0, tokens = 0;
    while (count < most) {
        const size_t with = tokens + order[count].length, padded = (count + 1) * longest;
        if (count * longest >= lanes->enough && (padded - with) * PADDING > padded) break;
        tokens = with;
        count++;
    }
    return count;
}

static void run_lane(const lnt_lanes *lanes, const lnt_example *order, const size_t *begin,
                     lnt_worker *worker, size_t lane, slice_work *work, void *arg)
{
    for (size_t at = begin[lane], end = begin[lane + 1], count; at < end; at += count) {
        count = slice_of(lanes, order + at, end - at);
        work(&(lnt_slice){ worker, lane, at, count, at == begin[lane] }, arg);
    }
}

void lnt_lanes_each(const lnt_lanes *lanes, const lnt_example *order, lnt_worker *workers,
                    slice_work *work, void *arg)
{
    size_t begin[LNT_LANES_MOST + 1];
    lnt_lanes_share(lanes, order, begin);
    if (lanes->workers == 1) { /* outside a team, for those within would be made anew each time */
        for (size_t lane = 0; lane < lanes->count; lane++)
            run_lane(lanes, order, begin, workers, lane, work, arg);
        return;
    }
#pragma omp parallel for schedule(dynamic) num_threads((int)lanes->workers)
    for (int64_t lane = 0; lane < (int64_t)lanes->count; lane++)
        run_lane(lanes, order, begin, workers + omp_get_thread_num(), (size_t)lane, work, arg);
}
