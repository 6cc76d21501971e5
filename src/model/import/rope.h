/* model/import/rope.h - rotary positions, as others describe them. */
#ifndef LNT_MODEL_IMPORT_ROPE_H
#define LNT_MODEL_IMPORT_ROPE_H

#include "model/config.h"
#include "model/import/source.h"

/* Base, width, scaling; adjacent: the pairs are (2i, 2i + 1), else (i, i + width / 2). */
void lnt_rope_read(lnt_source *s, bool adjacent, lnt_config *config);

#endif
