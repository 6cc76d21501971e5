/* support.h - what the test programs share: a generator, guarded tensors in every layout, errors
 * as numbers, and a context whose allocator counts and can be told to fail. */
#ifndef LNT_TESTS_SUPPORT_H
#define LNT_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "linnet.h"

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof(array)[0]))

/* LINNET_TEST_BUDGET: how much of the random part to run.  small is for emulators and checkers. */
int budget(int small, int full);

/* Ends a test that needs what is not here, and says so.  The program then exits with 77, which ctest and
 * tools/test.sh count as skipped, unless another of its tests fails: all test programs end by this macro. */
#define skip_because(...) support_skip(__FILE__, __LINE__, __VA_ARGS__)
void support_skip(const char *file, int line, const char *format, ...);
int support_verdict(int failed);
#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, set_up, tear_down) \
    support_verdict(_cmocka_run_group_tests(#tests, tests, COUNT_OF(tests), set_up, tear_down))

/* ---- a generator of the tests' own, so that the library's is not trusted with its own test --- */

typedef struct dice {
    uint64_t state;
} dice;

uint64_t dice_next(dice *d);
int64_t dice_range(dice *d, int64_t low, int64_t high); /* both ends included */
double dice_uniform(dice *d);                           /* [0, 1) */
double dice_normal(dice *d);
#define DICE_PICK(d, array) ((array)[dice_range((d), 0, COUNT_OF(array) - 1)])

/* ---- tensors ------------------------------------------------------------------------------- */

typedef enum layout {
    LAYOUT_BHND,
    LAYOUT_BNHD,
    LAYOUT_TRANSPOSED, /* [B,H,d,N]: the stride of dim is not 1 */
    LAYOUT_REVERSED,   /* every stride negative */
    LAYOUT_WINDOW,     /* inside a larger array, with gaps along every axis */
    LAYOUT_OUTPUTS,    /* the layouts up to here give every element its own place */
    LAYOUT_BROADCAST = LAYOUT_OUTPUTS, /* batch and heads share one matrix: stride 0 */
    LAYOUT_REPEATED,                   /* all tokens are one vector: stride 0 */
    LAYOUT_COUNT
} layout;

/* A tensor in memory filled with a pattern, which tells whether anything beside it was written. */
typedef struct block {
    lnt_tensor t;
    unsigned char *memory;
    size_t bytes;
} block;

block block_new(lnt_dtype dtype, layout kind, int64_t batch, int64_t heads, int64_t length,
                int64_t dim);
void block_free(block *b);
/* True if every byte outside the view still holds the pattern. */
bool block_guard_intact(const block *b);
bool block_same_bits(const block *a, const block *b);

/* Element i in row-major order, whatever the strides. */
int64_t tensor_elements(const lnt_tensor *t);
double tensor_at(const lnt_tensor *t, int64_t i);
void tensor_put(const lnt_tensor *t, int64_t i, double x);
void tensor_fill(const lnt_tensor *t, double x);
void tensor_copy(const lnt_tensor *to, const lnt_tensor *from); /* rounds to the dtype of `to` */
block block_copy(const lnt_tensor *from);                       /* in f64 */
/* Rows first .. first+count-1: a view. */
lnt_tensor tensor_rows(const lnt_tensor *t, int64_t first, int64_t count);
/* Batch index b alone: a view. */
lnt_tensor tensor_batch(const lnt_tensor *t, int64_t b);

/* ---- errors -------------------------------------------------------------------------------- */

/* ||a - b|| / ||b|| in double; if b is 0, ||a||.  Anything not finite in a counts as infinite. */
typedef struct error_sum {
    double difference, reference;
    bool bad;
} error_sum;

void error_add(error_sum *e, double a, double b);
double error_value(const error_sum *e);
double tensor_error(const lnt_tensor *a, const lnt_tensor *b);

/* ---- contexts ------------------------------------------------------------------------------ */

typedef struct tracker {
    int64_t calls;       /* allocations asked for */
    int64_t live;        /* blocks not given back */
    size_t live_bytes;
    size_t peak_bytes;   /* the most that was live at once */
    size_t total_bytes;  /* of all allocations so far */
    int64_t fail_at;     /* the call with this number (from 0) fails, and all after; -1: none */
    int64_t wrong_sizes; /* blocks given back with a size they were not allocated with */
} tracker;

/* threads 0 and isa NULL: the defaults.  Memory comes filled with NaN.  Fails the test if there is
 * no context.  It is on the device that LINNET_TEST_DEVICE names, if that has the host's memory. */
lnt_ctx *context_new(int threads, const char *isa);
lnt_ctx *context_tracked(tracker *t, int threads, const char *isa);
/* Destroys the context and holds that nothing is left. */
void context_close_tracked(lnt_ctx *ctx, tracker *t);

/* Fails with the context's sentence unless the status is LNT_OK. */
#define assert_ok(ctx, call) support_assert_ok((ctx), (call), #call, __FILE__, __LINE__)
void support_assert_ok(lnt_ctx *ctx, lnt_status status, const char *call, const char *file,
                       int line);

/* Holds that the call failed with `status` and that the sentence contains `word`. */
#define assert_refused(ctx, call, status, word)                                                  \
    support_assert_refused((ctx), (call), (status), (word), #call, __FILE__, __LINE__)
void support_assert_refused(lnt_ctx *ctx, lnt_status got, lnt_status want, const char *word,
                            const char *call, const char *file, int line);

#endif
