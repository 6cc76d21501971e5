/* cpu/weight/dispatch.c - from an instruction set's index to its kernels; the order is core/isa.c's. */
#include <assert.h>

#include "cpu/weight/kernels.h"

#if defined(__aarch64__)
#define ISAS(X) X(scalar) X(neon) X(dotprod)
#define TABLES(X) ISAS(X)
#elif defined(__x86_64__)
#define ISAS(X) X(scalar) X(avx2) X(avx512) X(vnni)
#define TABLES(X) ISAS(X) X(vnni) /* for few rows amx has what vnni has; for many see cpu/tiles */
#else
#define ISAS(X) X(scalar)
#define TABLES(X) ISAS(X)
#endif

#define DECLARE(isa) const lnt_weight_kernels *lnt_##isa##_weight_table_f32(void);
ISAS(DECLARE)

#define ONE(isa) +1
enum { COUNT = 0 TABLES(ONE) };

const lnt_weight_kernels *lnt_weight_kernels_get(int isa)
{
#define GET(isa) lnt_##isa##_weight_table_f32,
    static const lnt_weight_kernels *(*const tables[])(void) = { TABLES(GET) };
#undef GET
    assert(isa >= 0 && isa < COUNT);
    return tables[isa]();
}
