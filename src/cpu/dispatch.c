/* cpu/dispatch.c - from an ISA's index to its table of kernels; the order is core/isa.c's.
 *
 * What an ISA adds for products of whole numbers alone is in cpu/weight, what for tiles in cpu/tiles: here it
 * has the table of the one before it. */
#include <assert.h>

#include "cpu/kernels.h"

#if defined(__aarch64__)
#define ISAS(X) X(scalar) X(neon)
#define TABLES(X) ISAS(X) X(neon)
#elif defined(__x86_64__)
#define ISAS(X) X(scalar) X(avx2) X(avx512)
#define TABLES(X) ISAS(X) X(avx512) X(avx512)
#else
#define ISAS(X) X(scalar)
#define TABLES(X) ISAS(X)
#endif

#define DECLARE(isa)                                    \
    const lnt_kernels_f32 *lnt_##isa##_table_f32(void); \
    const lnt_kernels_f64 *lnt_##isa##_table_f64(void);
ISAS(DECLARE)

#define ONE(isa) +1
enum { COUNT = 0 TABLES(ONE) };

const lnt_kernels_f32 *lnt_kernels_get_f32(int isa)
{
#define GET(isa) lnt_##isa##_table_f32,
    static const lnt_kernels_f32 *(*const tables[])(void) = { TABLES(GET) };
#undef GET
    assert(isa >= 0 && isa < COUNT);
    return tables[isa]();
}

const lnt_kernels_f64 *lnt_kernels_get_f64(int isa)
{
#define GET(isa) lnt_##isa##_table_f64,
    static const lnt_kernels_f64 *(*const tables[])(void) = { TABLES(GET) };
#undef GET
    assert(isa >= 0 && isa < COUNT);
    return tables[isa]();
}
