/* shapes_inside.h - what shapes.c and shapes_backward.c share. */
#ifndef LNT_TESTS_SHAPES_INSIDE_H
#define LNT_TESTS_SHAPES_INSIDE_H

#include "shapes.h"

bool shapes_want(const char *name, const attn_case *c);
void shapes_verdict(const char *name, const char *algorithm, const char *errors, bool good, bool clean);
uint64_t shape_seed(const char *name);
double shape_allowed(const attn_case *c);
void shape_lay(attn_case *c, bool interleaved);
void shape_fill(const char *name, const trial *t);
lnt_plan *shape_plan(lnt_ctx *ctx, const attn_case *c, const char **algorithm);
lnt_attn_io shape_rows(const device_trial *d, int64_t first, int64_t count);
lnt_state *shape_state(attn_case c);

#endif
