/* cli/arrays/tensors.h - creates, slices, converts and frees the tensors that the tool owns. */
#ifndef LNT_CLI_ARRAYS_TENSORS_H
#define LNT_CLI_ARRAYS_TENSORS_H

#include "linnet.h"

/* Zeros, contiguous.  EXIT_OK, or one sentence and EXIT_FAILED. */
int tensor_make(lnt_tensor *out, lnt_dtype dtype, int64_t batch, int64_t heads, int64_t length,
                int64_t dim);
void tensor_free(lnt_tensor *tensor); /* a zeroed one is fine */

/* Rows at .. at+count-1 of every head: a view. */
lnt_tensor tensor_rows(const lnt_tensor *tensor, int64_t at, int64_t count);

/* to = from, element by element, rounded to the dtype of `to`; same shapes. */
void tensor_convert(const lnt_tensor *from, const lnt_tensor *to);

int64_t tensor_elements(const lnt_tensor *tensor);
/* How many rows have a number that is not finite. */
int64_t tensor_unfinite_rows(const lnt_tensor *tensor);
double tensor_bytes(const lnt_tensor *tensor);

#endif
