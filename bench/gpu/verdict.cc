/* bench/gpu/verdict.cc - counts what is wrong and prints a line about each problem. */
#include "gpu/verdict.h"

#include <cstdio>

static int wrong;

bool judge(bool ok)
{
    if (!ok) wrong++;
    return ok;
}

int wrong_count() { return wrong; }

void report(const std::string &name, double error, double allowed, bool clean)
{
    const bool ok = judge(clean && error <= allowed);
    printf("%-58s error %.2e  %s%s\n", name.c_str(), error, ok ? "ok" : "WRONG",
           clean ? "" : " (unsteady or unwritten)");
    fflush(stdout);
}

void report_claim(const std::string &name, const char *claim, bool ok)
{
    printf("%-58s %s: %s\n", name.c_str(), claim, judge(ok) ? "ok" : "WRONG");
    fflush(stdout);
}
