/* bench/gpu/verdict.h - right or WRONG: a line about each problem, and how many were wrong. */
#ifndef BENCH_GPU_VERDICT_H
#define BENCH_GPU_VERDICT_H

#include <string>

/* clean: everything was written, and the same bits every time. */
void report(const std::string &name, double error, double allowed, bool clean);

/* What has no error in numbers. */
void report_claim(const std::string &name, const char *claim, bool ok);

/* For lines of another form: counts what is not ok, and returns it. */
bool judge(bool ok);

int wrong_count();

#endif
