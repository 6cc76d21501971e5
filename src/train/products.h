/* train/products.h - what a step of training is held against, for `linnet bench --study training` alone. */
#ifndef LNT_TRAIN_PRODUCTS_H
#define LNT_TRAIN_PRODUCTS_H

#include "linnet/model.h"

/* Useful operations of a step whose sequences are all as long as the model: of the products of dense
 * layers, and of attention by the formulas of docs/math; NaN: not counted (distance_bias, laplace). */
double lnt_trainer_product_flops(const lnt_trainer *trainer);
double lnt_trainer_attention_flops(const lnt_trainer *trainer);

/* How long the products of dense layers in one step take without the rest of it, by the same routine.
 * whole: a batch at a time, all threads on one product, all sequences padded to the model's length; cut: as
 * the last step had them, threads on parts of the batch of their own where it is large enough, sequences
 * padded to those beside them.  In seconds.  Changes nothing that a step reads. */
LNT_MUST_CHECK lnt_status lnt_trainer_time_products(lnt_trainer *trainer, double *whole, double *cut);

#endif
