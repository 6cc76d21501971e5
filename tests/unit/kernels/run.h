/* run.h - the checks as the test program sees them. */
#ifndef LNT_TESTS_KERNEL_RUN_H
#define LNT_TESTS_KERNEL_RUN_H

#define K(name, result, arguments) +1
enum {
    KERNEL_COUNT = 0
#include "cpu/kernels.def"
};
#undef K

/* Checks kernel number `kernel` of the list on an ISA that this CPU has. */
void run_check_f32(int kernel, int isa);
void run_check_f64(int kernel, int isa);

#endif
