/* bench/gpu/verdict.h - how many works were WRONG. */
#ifndef BENCH_GPU_VERDICT_H
#define BENCH_GPU_VERDICT_H

/* Counts what is not ok, and returns it. */
bool judge(bool ok);

int wrong_count();

#endif
