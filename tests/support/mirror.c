/* mirror.c - see mirror.h. */
#include "mirror.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

mirror mirror_new(lnt_ctx *device, block *host)
{
    mirror m = { .host = host, .t = host->t };
    assert_ok(device, lnt_device_allocate(device, host->bytes, &m.memory));
    assert_ok(device, lnt_device_write(device, m.memory, host->memory, host->bytes));
    if (host->t.data)
        m.t.data = (char *)m.memory + ((char *)host->t.data - (char *)host->memory);
    return m;
}

void mirror_read(lnt_ctx *device, const mirror *m)
{
    assert_ok(device, lnt_device_read(device, m->host->memory, m->memory, m->host->bytes));
}

void mirror_free(lnt_ctx *device, mirror *m)
{
    lnt_device_release(device, m->memory, m->host->bytes);
    m->memory = NULL;
}

device_trial device_trial_new(lnt_ctx *device, trial *t)
{
    device_trial d = { .q = mirror_new(device, &t->q),
                       .k = mirror_new(device, &t->k),
                       .v = mirror_new(device, &t->v),
                       .out = mirror_new(device, &t->out) };
    d.io = (lnt_attn_io){ .size = sizeof d.io, .q = d.q.t, .k = d.k.t, .v = d.v.t, .out = d.out.t };
    if (!t->io.lengths_q) return d;
    const size_t each = (size_t)t->io.q.shape[0] * sizeof *d.lengths;
    void *memory;
    d.lengths_bytes = 2 * each;
    assert_ok(device, lnt_device_allocate(device, d.lengths_bytes, &memory));
    d.lengths = memory;
    d.io.lengths_q = d.lengths;
    d.io.lengths_k = d.lengths + t->io.q.shape[0];
    assert_ok(device, lnt_device_write(device, memory, t->io.lengths_q, each));
    assert_ok(device, lnt_device_write(device, (char *)memory + each, t->io.lengths_k, each));
    return d;
}

void device_trial_free(lnt_ctx *device, device_trial *t)
{
    mirror_free(device, &t->q);
    mirror_free(device, &t->k);
    mirror_free(device, &t->v);
    mirror_free(device, &t->out);
    lnt_device_release(device, t->lengths, t->lengths_bytes);
}

bool device_offers(lnt_mechanism mechanism)
{
    return mechanism != LNT_HYBRID;
}

void case_for_device(attn_case *c)
{
    c->sequences = 0;
    c->mask.given = false;
    c->desc.softmax = (lnt_softmax_options){ .window = 0 };
    if (c->desc.causal && c->desc.length_q > case_length_k(c)) c->desc.length_k = c->desc.length_q;
    /* Lengths may have been drawn where the first tokens stood together. */
    for (int b = 0; c->desc.causal && b < MAX_SEQUENCES; b++)
        if (c->lengths_q[b] > c->lengths_k[b]) c->lengths_q[b] = c->lengths_k[b];
    c->desc.compensated = 0;
    c->desc.taylor.center = NULL;
    c->desc.taylor.center_mean = 0;
    if (c->desc.batch == 0) c->desc.batch = 2;
    if (c->desc.linear.feature_map > LNT_MAP_IDENTITY) c->desc.linear.feature_map = LNT_MAP_ELU1;
    const lnt_select select = c->desc.cur.select;
    if (select != LNT_SELECT_MEAN && select != LNT_SELECT_STEP_MEAN)
        c->desc.cur.select = LNT_SELECT_STEP;
    c->desc.cur.pins = 0;
    c->desc.cur.activation = LNT_ACTIVATION_SOFTMAX;
}

lnt_state *device_state_from(lnt_ctx *device, lnt_ctx *host, const attn_case *c,
                             lnt_state *state)
{
    lnt_state *moved = NULL;
    assert_ok(host, lnt_state_save(state, "moved.safetensors"));
    const lnt_status status = lnt_state_load(device, &c->desc, "moved.safetensors", &moved);
    unlink("moved.safetensors");
    if (status != LNT_ERR_UNSUPPORTED) assert_ok(device, status);
    return moved;
}

lnt_ctx *device_context(const char **sentence)
{
    static char why[512];
    const char *name = getenv("LINNET_TEST_DEVICE");
    lnt_device_info info = { .size = sizeof info };
    lnt_ctx *ctx = context_new(2, NULL);
    const bool there = lnt_ctx_set_device(ctx, name && *name ? name : "cuda") == LNT_OK &&
                       lnt_device_describe(ctx, &info) == LNT_OK;
    if (there && !info.host_memory) return ctx;
    if (there) snprintf(why, sizeof why, "%s has the host's memory: all other tests run on it", name);
    else snprintf(why, sizeof why, "%s", lnt_ctx_error(ctx));
    *sentence = why;
    lnt_ctx_destroy(ctx);
    return NULL;
}
