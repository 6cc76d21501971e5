/* shapes.h - problems of odd shapes on a device, each with a name and numbers of its own, every row held
 * against the CPU in double, and rows of that against lnt_reference_row.
 *
 *     test_device_shapes [TEST ...] [like=TEXT ...]
 *
 * runs the tests named, or all; of them the problems whose names have one of the texts, or all.  A line a
 * problem is printed.  LINNET_TEST_BUDGET=small takes one in eleven, and none that is long. */
#ifndef LNT_TESTS_SHAPES_H
#define LNT_TESTS_SHAPES_H

#include "device.h"

/* Reads the words of the command line. */
void shapes_select(int argc, char **argv);
/* Whether the test is wanted; begins its count of what is wrong. */
bool shapes_begin(const char *test);
/* Fails where a problem since then was wrong, or where nothing ran that should have. */
void shapes_end(void);

/* Says whether the claim about a problem holds. */
void shapes_claim(const char *name, const char *claim, bool good);

/* Causal, of one sequence, keys and values of one width, the scale told; taylor has 4 terms. */
attn_case shape_make(lnt_mechanism mechanism, int64_t heads, int64_t dim, int64_t tokens, lnt_dtype dtype);
/* `kv_heads` for all heads, values of width m, two sequences. */
void shape_share(attn_case *c, int64_t kv_heads, int64_t m);
/* Terms, rows of length 1; with temperatures and the output's norm. */
void shape_taylorshift(attn_case *c, int64_t terms, bool options);
/* The lengths of two, of three sequences: full, shorter, and one of 5 keys with `more` queries. */
void shape_lengths(attn_case *c, int64_t more);

/* A name, as printf has it; in a buffer of its own until the eighth call after. */
const char *name_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Each draws normal numbers, and does nothing where the name is not wanted.  interleaved: the heads of a
 * token lie side by side. */

/* Every row of every head; the same bits twice. */
void check_forward(const char *name, attn_case c, bool interleaved);
/* ... in three sequences of different lengths. */
void check_lengths(const char *name, attn_case c, int64_t more);
/* `part` tokens at a time through a plan, which each time begins with the state it left. */
void check_parts(const char *name, attn_case c, int64_t part);
/* The first `before` tokens through a plan, the rest through steps of `at_once`. */
void check_steps(const char *name, attn_case c, int64_t before, int64_t at_once);
/* Two sequences in slots of a pool, copied away, forgotten and copied back. */
void check_slots(const char *name, attn_case c);

/* Every gradient; the same bits twice. */
void check_gradients(const char *name, attn_case c, bool interleaved);
/* ... of other numbers.  positive: q and k above 0, so that sums cancel.  mean: of the values, in their
 * spreads. */
void check_gradients_of(const char *name, attn_case c, bool interleaved, bool positive, double mean);
void check_gradient_lengths(const char *name, attn_case c);
/* In two parts: the second begins with the state that the first left, and goes back first. */
void check_gradient_parts(const char *name, attn_case c, int64_t half);
/* With a state before the keys, and a gradient of the one after. */
void check_state_gradients(const char *name, attn_case c);
/* What forward leaves for backward: the same bits as without it. */
void check_kept(const char *name, attn_case c, double mean);

/* Every width that kernels are compiled for, causal and full. */
void check_widths(lnt_mechanism mechanism, int64_t tokens, lnt_dtype dtype, const char *name,
                  void (*check)(const char *, attn_case, bool));

#endif
