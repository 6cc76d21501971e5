/* bench/gpu/steady.h - the same bits, run after run. */
#ifndef BENCH_GPU_STEADY_H
#define BENCH_GPU_STEADY_H

#include <cstdint>

/* Whether a hundred runs over so many tokens, into poisoned memory, give the same gradients by
 * pairs. */
void verify_steady(int64_t tokens);

#endif
