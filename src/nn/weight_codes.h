/* nn/weight_codes.h - the blocks of storage, taken apart: what lnt_weight packs. */
#ifndef LNT_NN_WEIGHT_CODES_H
#define LNT_NN_WEIGHT_CODES_H

#include "cpu/weight/panel.h"
#include "io/storage.h"

lnt_form lnt_form_of(lnt_storage storage);

/* 32 numbers of a row. */
typedef struct lnt_codes {
    uint8_t u[LNT_PANEL_BLOCK];
    uint16_t d, m;    /* f16: of the block, or of the 256 that it is in */
    int8_t a[2], b[2]; /* nested: of each 16, or the first of both */
} lnt_codes;

/* Those from number k of a row on, a multiple of 32. */
lnt_codes lnt_codes_of(lnt_storage storage, const uint8_t *row, size_t k);

/* The other way, into a row that was 0 before: after all its numbers it is the row that was taken apart. */
void lnt_codes_put(lnt_storage storage, uint8_t *row, size_t k, const lnt_codes *c);

#endif
