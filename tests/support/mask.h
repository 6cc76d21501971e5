/* mask.h - masks and the other options of softmax, drawn for a case. */
#ifndef LNT_TESTS_MASK_H
#define LNT_TESTS_MASK_H

#include "support.h"

/* How a case is masked; `alike`: bit i is set where extent i of the mask is 1. */
typedef struct mask_form {
    bool given;
    lnt_mask_kind kind;
    lnt_dtype dtype;
    layout lay; /* of numbers */
    int alike;
} mask_form;

mask_form mask_form_random(dice *d);

/* A mask of these extents, some rows of which hide every key. */
typedef struct mask_data {
    block numbers;
    unsigned char *bytes;
    lnt_mask mask; /* data NULL: none */
} mask_data;

mask_data mask_new(dice *d, const mask_form *form, int64_t batch, int64_t heads, int64_t length_q,
                   int64_t length_k);
void mask_free(mask_data *m);

/* Columns first .. first+count-1: a view. */
lnt_mask mask_columns(const lnt_mask *mask, int64_t first, int64_t count);

#endif
