/* attention/cur/real/cur_forms.c - the two forms of CUR attention.
 *
 *     flash    neither C nor R is ever there: R V, U, U^+ R V and the output alone, with the softmax fused
 *              into both passes over the sequence; scratch that does not depend on n
 *     stored   C and R in memory, as it is written down: 2 n M numbers for each head.  Backward reads R
 *              again instead of computing it twice
 *
 * O(n M (d + m) + M^3) time.  See docs/math/cur.md */
#include "attention/cur/cur_pass.h"

static void flash_forward(lnt_run *run) { lnt_cur_forward(run, false); }
static void flash_backward(lnt_run *run) { lnt_cur_backward(run, false); }
static size_t flash_shared(const lnt_attn_desc *p) { return lnt_cur_shared(p, false); }

static void stored_forward(lnt_run *run) { lnt_cur_forward(run, true); }
static void stored_backward(lnt_run *run) { lnt_cur_backward(run, true); }
static size_t stored_shared(const lnt_attn_desc *p) { return lnt_cur_shared(p, true); }

#define FORM(form, seconds)                                                             \
    const lnt_algo LNT_REAL_NAME(lnt_algo_cur_##form) = { .mechanism = LNT_CUR,         \
                                                          .name = "cur/" #form,         \
                                                          .rate = seconds,              \
                                                          .cost = lnt_cur_flops,        \
                                                          .tile = LNT_CUR_TILE_QUERIES, \
                                                          .shared = form##_shared,      \
                                                          .scratch = lnt_cur_scratch,   \
                                                          .kept = lnt_cur_kept,         \
                                                          .forward = form##_forward,    \
                                                          .backward = form##_backward }
FORM(flash, 5e-11);
FORM(stored, 6e-11);
