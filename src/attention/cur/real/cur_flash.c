/* attention/cur/real/cur_flash.c - CUR attention in which neither C nor R is ever there: R V, U, U^+ R V and
 * the output alone, with the softmax fused into both passes over the sequence.
 *
 * O(n M (d + m) + M^3) time; scratch that does not depend on n.  See docs/math/cur.md */
#include "attention/cur/cur_pass.h"

static void forward(lnt_run *run) { lnt_cur_forward(run, false); }
static void backward(lnt_run *run) { lnt_cur_backward(run, false); }
static size_t shared(const lnt_attn_desc *p) { return lnt_cur_shared(p, false); }

const lnt_algo LNT_REAL_NAME(lnt_algo_cur_flash) = { .mechanism = LNT_CUR,
                                                     .name = "cur/flash",
                                                     .rate = 5e-11,
                                                     .cost = lnt_cur_flops,
                                                     .tile = LNT_CUR_TILE_QUERIES,
                                                     .shared = shared,
                                                     .scratch = lnt_cur_scratch,
                                                     .kept = lnt_cur_kept,
                                                     .forward = forward,
                                                     .backward = backward };
