/* test_kernels.c - every kernel of cpu/kernels.def, on every ISA this CPU has and for both real
 * types, computes what the list says of it and touches nothing else; the checks are in kernels/. */
#include <stdio.h>

#include "../support/support.h"
#include "cpu/kernels.h"
#include "kernels/run.h"

enum { MAX_ISAS = 8 };

static const char *const names[] = {
#define K(name, result, arguments) #name,
#include "cpu/kernels.def"
#undef K
};

typedef struct job {
    void (*run)(int kernel, int isa);
    int kernel, isa;
    char name[64];
} job;

static void kernel_computes_its_formula_and_touches_nothing_else(void **state)
{
    const job *j = *state;
    j->run(j->kernel, j->isa);
}

static void lanes_divide_the_padding(void **state)
{
    (void)state;
    for (int isa = 0; lnt_isa_name(isa); isa++) {
        if (!lnt_isa_available(isa)) continue;
        const size_t lanes[] = { lnt_kernels_get_f32(isa)->lanes, lnt_kernels_get_f64(isa)->lanes };
        for (int i = 0; i < 2; i++)
            if (lanes[i] == 0 || LNT_PAD % lanes[i] != 0)
                fail_msg("%s: %zu lanes do not divide LNT_PAD = %d", lnt_isa_name(isa), lanes[i],
                         LNT_PAD);
    }
}

int main(void)
{
    static job jobs[KERNEL_COUNT * MAX_ISAS * 2];
    static struct CMUnitTest tests[COUNT_OF(jobs) + 1];
    int count = 0;
    for (int isa = 0; lnt_isa_name(isa); isa++) {
        if (!lnt_isa_available(isa)) continue;
        if (isa > 0 && lnt_kernels_get_f32(isa) == lnt_kernels_get_f32(isa - 1)) continue;
        assert_true(isa < MAX_ISAS);
        for (int kernel = 0; kernel < KERNEL_COUNT; kernel++)
            for (int wide = 0; wide < 2; wide++, count++) {
                job *j = &jobs[count];
                j->run = wide ? run_check_f64 : run_check_f32;
                j->kernel = kernel;
                j->isa = isa;
                snprintf(j->name, sizeof j->name, "%s, %s, %s", names[kernel], lnt_isa_name(isa),
                         wide ? "f64" : "f32");
                tests[count] = (struct CMUnitTest){
                    .name = j->name,
                    .test_func = kernel_computes_its_formula_and_touches_nothing_else,
                    .initial_state = j,
                };
            }
    }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(lanes_divide_the_padding);
    return _cmocka_run_group_tests("kernels", tests, (size_t)count, NULL, NULL);
}
