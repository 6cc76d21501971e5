/* bench/gpu/dtype.cc - what the program knows of a dtype.  The library is not linked. */
#include "gpu/dtype.h"

size_t bytes_of(lnt_dtype dtype) { return dtype == LNT_F32 ? 4 : 2; }

const char *name_of(lnt_dtype dtype)
{
    return dtype == LNT_BF16 ? "bf16" : dtype == LNT_F16 ? "f16" : "f32";
}

double allowed_for(lnt_dtype dtype)
{
    return dtype == LNT_BF16 ? 3e-3 : dtype == LNT_F16 ? 4e-4 : 2e-5;
}
