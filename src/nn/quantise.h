/* nn/quantise.h - numbers as the blocks of files: the other way than lnt_storage_unpack. */
#ifndef LNT_NN_QUANTISE_H
#define LNT_NN_QUANTISE_H

#include "io/storage.h"

/* to = count numbers in f32, bf16, q8_0 or q4_1; count is a multiple of lnt_storage_numbers.  false: a number
 * is not finite, or is too large for the f16 scale of its block. */
bool lnt_quantise(lnt_storage storage, const float *from, void *to, size_t count);

#endif
