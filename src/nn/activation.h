/* nn/activation.h - the activations ReLU, GELU, SiLU and sigmoid, and what is gated by one of them. */
#ifndef LNT_NN_ACTIVATION_H
#define LNT_NN_ACTIVATION_H

#include "nn/layer.h"

typedef enum lnt_act {
    LNT_ACT_RELU = 0,
    LNT_ACT_GELU = 1,   /* x s(1.5958 (x + 0.044715 x^3)), s the logistic function */
    LNT_ACT_SILU = 2,   /* x s(x) */
    LNT_ACT_SWIGLU = 3, /* silu(gate) up, of pairs [gate, up] */
    LNT_ACT_GELU_ERF = 4, /* x P(x), P the distribution of a normal number: GELU exactly */
    LNT_ACT_GEGLU = 5,  /* gelu(gate) up */
    LNT_ACT_GEGLU_ERF = 6,
    LNT_ACT_SIGMOID = 7 /* s(x) */
} lnt_act;

#define lnt_act_forward LNT_REAL_NAME(lnt_act_forward)
#define lnt_act_backward LNT_REAL_NAME(lnt_act_backward)

/* Numbers an activation takes for each that it gives. */
static inline size_t lnt_act_inputs(lnt_act kind)
{
    return kind == LNT_ACT_SWIGLU || kind == LNT_ACT_GEGLU || kind == LNT_ACT_GEGLU_ERF ? 2 : 1;
}

/* y [n,width]; x [n,width], for a gate [n,2 width]: all of gate, then all of up.  y may be x, except
 * for gates. */
void lnt_act_forward(const lnt_ctx *ctx, lnt_act kind, const real *x, real *y, size_t n,
                     size_t width);
/* y as forward gave it (gates: not used).  dx, shaped as x, overwritten; may be dy, except for
 * gates. */
void lnt_act_backward(const lnt_ctx *ctx, lnt_act kind, const real *x, const real *y, const real *dy,
                      real *dx, size_t n, size_t width);

#endif
