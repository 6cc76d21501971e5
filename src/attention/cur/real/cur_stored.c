/* attention/cur/real/cur_stored.c - CUR attention with C and R in memory, as it is written down.
 *
 * O(n M (d + m) + M^3) time and 2 n M numbers for each head.  Backward reads R again instead of
 * computing it twice.  See docs/math/cur.md */
#include "attention/cur/cur_pass.h"

static void forward(lnt_run *run) { lnt_cur_forward(run, true); }
static void backward(lnt_run *run) { lnt_cur_backward(run, true); }
static size_t shared(const lnt_attn_desc *p) { return lnt_cur_shared(p, true); }

const lnt_algo LNT_REAL_NAME(lnt_algo_cur_stored) = { .mechanism = LNT_CUR,
                                                      .name = "cur/stored",
                                                      .rate = 6e-11,
                                                      .cost = lnt_cur_flops,
                                                      .tile = LNT_CUR_TILE_QUERIES,
                                                      .shared = shared,
                                                      .scratch = lnt_cur_scratch,
                                                      .kept = lnt_cur_kept,
                                                      .forward = forward,
                                                      .backward = backward };
