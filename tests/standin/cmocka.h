/* cmocka.h - as much of cmocka as tests/support, tests/property/test_device*.c and
 * tests/unit/test_kernels.c use, for machines with a GPU where it is not installed and nothing can be
 * (bench/gpu_tests.sh).  Elsewhere the tests are built with cmocka itself. */
#ifndef LNT_TESTS_STANDIN_CMOCKA_H
#define LNT_TESTS_STANDIN_CMOCKA_H

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test_func)(void **state);
    void *initial_state;
};

#define cmocka_unit_test(test) { #test, test, NULL }

/* One for the whole program, though every file includes this: weak, so that the linker joins them. */
__attribute__((weak)) jmp_buf standin_end_of_test;

#define print_error(...) fprintf(stderr, __VA_ARGS__)
#define print_message(...) printf(__VA_ARGS__)
#define standin_fail(file, line, ...) \
    (fprintf(stderr, "%s:%d: ", file, line), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), \
     longjmp(standin_end_of_test, 1))
#define fail_msg(...) standin_fail(__FILE__, __LINE__, __VA_ARGS__)
#define _skip(file, line) longjmp(standin_end_of_test, 2)
#define _fail(file, line) standin_fail(file, line, "failed")
#define fail() _fail(__FILE__, __LINE__)
#define assert_true(x) ((x) ? (void)0 : fail_msg("%s is not true", #x))
#define assert_false(x) assert_true(!(x))
#define assert_non_null(x) assert_true((x) != NULL)
#define assert_int_equal(a, b) standin_whole((intmax_t)(a), (intmax_t)(b), __FILE__, __LINE__)
#define assert_string_equal(a, b) standin_text((a), (b), __FILE__, __LINE__)

static inline void standin_whole(intmax_t a, intmax_t b, const char *file, int line)
{
    if (a != b) standin_fail(file, line, "%jd is not %jd", a, b);
}

static inline void standin_text(const char *a, const char *b, const char *file, int line)
{
    if (strcmp(a, b) != 0) standin_fail(file, line, "'%s' is not '%s'", a, b);
}

/* How many tests failed. */
static inline int standin_run(const struct CMUnitTest *tests, size_t count)
{
    static volatile size_t i;
    static volatile int failed;
    for (i = 0; i < count; i++) {
        printf("%s\n", tests[i].name);
        fflush(stdout);
        void *state = tests[i].initial_state;
        switch (setjmp(standin_end_of_test)) {
        case 0: tests[i].test_func(&state); break;
        case 1:
            failed++;
            fprintf(stderr, "FAILED: %s\n", tests[i].name);
        }
    }
    printf("%zu tests, %d failed\n", count, failed);
    return failed;
}

#define _cmocka_run_group_tests(name, tests, count, set_up, tear_down) standin_run(tests, count)

#endif
