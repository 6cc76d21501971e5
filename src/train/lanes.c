/* train/lanes.c - see lanes.h. */
#include "train/lanes.h"

#include <omp.h>

enum {
    LEAST = 256, /* tokens in a lane, beside whose products it is little to clear its sum and to add it */
    SLICE = 512, /* tokens in a slice, the same beside reading and writing that sum */
    SUMS = 1 << 25 /* numbers in the sums of all lanes, at most */
};

#ifdef LNT_CBLAS
enum { FEWEST = 0, MOST = 1 }; /* the threads are the other library's, which has a product at a time */
#else
enum { FEWEST = 8, MOST = 64 }; /* fewer would leave threads without work */
#endif

static bool worth(size_t count, size_t batch, size_t tokens, size_t least, size_t size)
{
    return count <= MOST && count <= batch && count * least <= tokens && size <= SUMS / count;
}

/* As many as are done sooner: each on a thread of its own, or one after another on all threads, which
 * then meet at every layer of every slice. */
static size_t workers_of(const lnt_lanes *lanes, const lnt_model *model)
{
    const double flop = 2e-11, meetings = 8e-4; /* seconds, about: of a thread, and of a layer */
    const size_t threads = (size_t)model->ctx->threads, count = lanes->count;
    const size_t workers = threads < count ? threads : count;
    const double tokens = (double)lanes->batch * (double)model->config.length;
    const double work = 6 * flop * (double)model->layout.size * tokens;
    const double slices = (double)lanes->batch / (double)lanes->slice;
    const double apart = work * (double)((count + workers - 1) / workers) / (double)count;
    const double together = work / (double)threads + slices * (double)model->config.layers * meetings;
    return count == 1 || together < apart ? 1 : workers;
}

lnt_lanes lnt_lanes_cut(const lnt_model *model, size_t batch)
{
    const size_t length = (size_t)model->config.length, size = model->layout.size;
    lnt_lanes lanes = { .batch = batch, .count = 1, .slice = batch };
    if (FEWEST && worth(FEWEST, batch, batch * length, LEAST, size)) {
        lanes.count = FEWEST;
        while (worth(2 * lanes.count, batch, batch * length, SLICE, size)) lanes.count *= 2;
        const size_t most = (batch + lanes.count - 1) / lanes.count;
        lanes.slice = length < SLICE ? nn_least(SLICE / length, most) : 1;
    }
    lanes.workers = workers_of(&lanes, model);
    return lanes;
}

size_t lnt_lane_begin(const lnt_lanes *lanes, size_t lane)
{
    return lane * lanes->batch / lanes->count;
}

void lnt_lanes_each(const lnt_lanes *lanes, lnt_worker *workers,
                    void (*work)(lnt_worker *worker, size_t lane, void *arg), void *arg)
{
    if (lanes->workers == 1) { /* outside a team, for those within would be made anew each time */
        for (size_t lane = 0; lane < lanes->count; lane++) work(workers, lane, arg);
        return;
    }
#pragma omp parallel for schedule(dynamic) num_threads((int)lanes->workers)
    for (int64_t lane = 0; lane < (int64_t)lanes->count; lane++)
        work(workers + omp_get_thread_num(), (size_t)lane, arg);
}
