/* bench/gpu/verdict.cc - counts what is wrong. */
#include "gpu/verdict.h"

static int wrong;

bool judge(bool ok)
{
    if (!ok) wrong++;
    return ok;
}

int wrong_count() { return wrong; }
