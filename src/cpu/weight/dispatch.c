/* cpu/weight/dispatch.c - from an instruction set's index to its kernels; the order is core/isa.c's. */
#include <assert.h>

#include "cpu/weight/kernels.h"

#if defined(__aarch64__)
#define ISAS(X) X(scalar) X(neon) X(dotprod)
#elif defined(__x86_64__)
#define ISAS(X) X(scalar) X(avx2) X(avx512) X(vnni)
#else
#define ISAS(X) X(scalar)
#endif

#define DECLARE(isa) const lnt_weight_kernels *lnt_##isa##_weight_table_f32(void);
ISAS(DECLARE)

#define ONE(isa) +1
enum { COUNT = 0 ISAS(ONE) };

const lnt_weight_kernels *lnt_weight_kernels_get(int isa)
{
#define GET(isa) lnt_##isa##_weight_table_f32,
    static const lnt_weight_kernels *(*const tables[])(void) = { ISAS(GET) };
#undef GET
    assert(isa >= 0 && isa < COUNT);
    return tables[isa]();
}
