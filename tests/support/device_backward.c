/* device_backward.c - see device_backward.h. */
#include "device_backward.h"

#include <unistd.h>

device_setup device_setup_new(lnt_ctx *ctx, setup *s)
{
    device_setup d = { .t = device_trial_new(ctx, &s->t), .dout = mirror_new(ctx, &s->dout) };
    for (int i = 0; i < 3; i++) d.grad[i] = mirror_new(ctx, &s->grad[i]);
    d.grads = (lnt_attn_grads){ .size = sizeof d.grads,
                                .dout = d.dout.t,
                                .dq = d.grad[0].t,
                                .dk = d.grad[1].t,
                                .dv = d.grad[2].t };
    if (!s->t.state) return d;
    d.t.io.state_in = device_state_from(ctx, host, s->c, s->t.state);
    d.t.io.state_out = d.state_out = device_state_from(ctx, host, s->c, s->state_out);
    d.grads.dstate_out = d.dstate_out = device_state_from(ctx, host, s->c, s->dstate_out);
    d.grads.dstate_in = d.dstate_in = device_state_from(ctx, host, s->c, s->dstate_in);
    return d;
}

void device_setup_free(lnt_ctx *ctx, device_setup *d)
{
    lnt_state_destroy((lnt_state *)(uintptr_t)d->t.io.state_in);
    lnt_state_destroy(d->state_out);
    lnt_state_destroy(d->dstate_out);
    lnt_state_destroy(d->dstate_in);
    mirror_free(ctx, &d->dout);
    for (int i = 0; i < 3; i++) mirror_free(ctx, &d->grad[i]);
    device_trial_free(ctx, &d->t);
}

void device_setup_read_states(const device_setup *d, setup *s)
{
    lnt_state *back;
    lnt_tensor view[2];
    assert_ok(device, lnt_state_save(d->dstate_in, "gradient.safetensors"));
    assert_ok(host, lnt_state_load(host, &s->c->desc, "gradient.safetensors", &back));
    unlink("gradient.safetensors");
    state_views(host, back, view);
    for (int i = 0; i < 2; i++) tensor_copy(&s->dx[3 + i], &view[i]);
    lnt_state_destroy(back);
}

void exact_open(exact_gradients *e, const setup *given)
{
    e->c = *given->c;
    e->c.desc.dtype = LNT_F64;
    e->s = setup_new(host, &e->c);
    setup_copy(&e->s, given);
    if (given->grads.dtemperature) e->s.grads.dtemperature = e->dtemperature;
    assert_true(run_backward(&e->s, -1));
}
