/* nn/weight.h - a matrix of a model's file, kept in the format that the file has it in, and products with it.
 *
 * [out,in], as files have it: the product is y = x w^T.  The numbers are repacked once, into panels that the
 * kernels read from end to end (cpu/weight/panel.h), in the memory of the matrix: the data may go afterwards.
 * No product makes floats of more than it works on.
 *
 * A product of few rows is of whole numbers: activations are rounded to 15 bits of the largest of each 32,
 * which adds 3e-5 to the relative error of a product.  One of many rows, and any with f16, bf16 and f32, is
 * of floats.  Activations that are not finite make what they go into not finite. */
#ifndef LNT_NN_WEIGHT_H
#define LNT_NN_WEIGHT_H

#include "core/context.h"
#include "cpu/weight/panel.h"
#include "io/storage.h"

enum { LNT_WEIGHT_PARTS = 4 }; /* queries, keys and values are one matrix, and so are gate and up */

/* Rows of a matrix to be, of one storage. */
typedef struct lnt_weight_part {
    lnt_storage storage;
    const void *data; /* [rows,in]; transposed: [in,rows], of f32, f16 and bf16 alone */
    size_t rows;
    const uint32_t *order; /* [rows]: row i is row order[i] of data; NULL: as they stand */
    bool transposed;
} lnt_weight_part;

/* Rows that follow each other in one form. */
typedef struct lnt_weight_rows {
    lnt_storage storage;
    lnt_form form;
    size_t first, count;
    size_t panel_bytes;
    char *panels;
} lnt_weight_rows;

typedef struct lnt_weight {
    size_t in, out;
    size_t part_count;
    lnt_weight_rows parts[LNT_WEIGHT_PARTS];
    void *memory;
    size_t bytes; /* of the memory */
    bool lent;    /* it is another's */
} lnt_weight;

/* Number i of an array in which those that are not packed have no memory, or NULL. */
static inline const lnt_weight *lnt_weight_at(const lnt_weight *all, size_t i)
{
    return all && all[i].memory ? all + i : NULL;
}

/* Bytes that the matrix will take, whole lines of the cache; SIZE_MAX: they do not fit. */
size_t lnt_weight_bytes(const lnt_weight_part *parts, size_t count, size_t in);

/* Repacks 1 to LNT_WEIGHT_PARTS parts, one below the other, on all threads of the context.  `name` is for the
 * sentence where `in` is not a whole number of the storage's blocks, or memory runs out.  memory: of so many
 * bytes as above, aligned to LNT_ALIGN, which outlives the matrix; NULL: of its own. */
lnt_status lnt_weight_open(lnt_ctx *ctx, const char *name, const lnt_weight_part *parts, size_t count,
                           size_t in, void *memory, lnt_weight *out);
/* The same matrix, in memory of its own. */
lnt_status lnt_weight_copy(lnt_ctx *ctx, const char *name, const lnt_weight *from, lnt_weight *out);
void lnt_weight_close(lnt_ctx *ctx, lnt_weight *w);

/* to [in] = a row, to the bits that lnt_storage_unpack gives. */
void lnt_weight_row(const lnt_weight *w, size_t row, float *to);

/* Bytes of a row of `in` numbers, which are whole blocks, as files have it. */
static inline size_t lnt_weight_row_bytes(lnt_storage storage, size_t in)
{
    return in / lnt_storage_numbers(storage) * lnt_storage_bytes(storage);
}

/* Row `row` of part p as the file had it: the lnt_weight_row_bytes that lnt_weight_open read. */
void lnt_weight_store(const lnt_weight *w, size_t p, size_t row, void *to);

/* to [depth,rows], rows of it ld apart, = numbers k0 .. of the rows row0 .., transposed, to the same bits; k0
 * is a multiple of 32, and so is depth, unless it goes to the end. */
void lnt_weight_unpack(const lnt_ctx *ctx, const lnt_weight *w, size_t row0, size_t rows, size_t k0,
                       size_t depth, float *to, size_t ld);

/* Rows of activations up to which lnt_weight_multiply is the faster way. */
size_t lnt_weight_few(const lnt_ctx *ctx, const lnt_weight *w);

/* y [m,out], rows ldy apart, = x [m,in] w^T, rows ldx apart; added to y if `accumulate`. */
void lnt_weight_multiply(const lnt_ctx *ctx, const lnt_weight *w, const float *x, size_t ldx, float *y,
                         size_t ldy, size_t m, bool accumulate);

#endif
