/* core/isa.h - the instruction sets we build kernels for, and which of them this CPU runs. */
#ifndef LNT_CORE_ISA_H
#define LNT_CORE_ISA_H

#include "core/context.h"

/* Resolves a name (NULL: the best available) to an index for lnt_isa_name. */
lnt_status lnt_isa_choose(lnt_ctx *ctx, const char *name, int *index);

#endif
