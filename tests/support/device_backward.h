/* device_backward.h - a case of backward.h on the device, and what the CPU finds for it in double. */
#ifndef LNT_TESTS_DEVICE_BACKWARD_H
#define LNT_TESTS_DEVICE_BACKWARD_H

#include "backward.h"
#include "device.h"

typedef struct device_setup {
    device_trial t;
    mirror dout, grad[3];
    lnt_state *state_out, *dstate_out, *dstate_in;
    lnt_attn_grads grads;
} device_setup;

device_setup device_setup_new(lnt_ctx *ctx, setup *s);
void device_setup_free(lnt_ctx *ctx, device_setup *d);
/* The gradients of the state, back into the views of s. */
void device_setup_read_states(const device_setup *d, setup *s);

/* What the CPU finds in double for the inputs of a case, as its dtype rounds them. */
typedef struct exact_gradients {
    attn_case c;
    setup s;
    double dtemperature[MAX_HEADS];
} exact_gradients;

void exact_open(exact_gradients *e, const setup *given);

#endif
