/* model/network_parts.h - what the sources of a network share. */
#ifndef LNT_MODEL_NETWORK_PARTS_H
#define LNT_MODEL_NETWORK_PARTS_H

#include "model/network.h"

#define lnt_network_head LNT_REAL_NAME(lnt_network_head)
#define lnt_network_head_back LNT_REAL_NAME(lnt_network_head_back)

/* Parameter i in weights, or in gradients, which forward has not (NULL). */
static inline real *at(const lnt_network *net, const real *weights, size_t i)
{
    const lnt_layout_entry *e = &net->layout->entries[i];
    return weights && e->count ? (real *)(uintptr_t)weights + e->offset : NULL;
}

/* The same of the weights in bf16. */
static inline const uint16_t *at_bf16(const lnt_network *net, size_t i)
{
    return net->bf16 ? net->bf16 + net->layout->entries[i].offset : NULL;
}

/* From net->top to net->logits, unless the batch is headless. */
void lnt_network_head(lnt_network *net, const real *w, const lnt_batch *in);
/* From net->logits, which hold a gradient, to net->grad. */
void lnt_network_head_back(lnt_network *net, const real *w, real *g, const lnt_batch *in);

#endif
