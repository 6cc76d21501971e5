/* cli/arrays/trust.h - says whether an approximation of softmax can be trusted on the data it was compared
 * on. */
#ifndef LNT_CLI_ARRAYS_TRUST_H
#define LNT_CLI_ARRAYS_TRUST_H

#include "cli/arrays/compare.h"

/* One sentence: the verdict, and what it rests on. */
void trust_sentence(const lnt_attn_desc *desc, const comparison *c, int64_t nonpositive, char *text,
                    size_t capacity);

#endif
