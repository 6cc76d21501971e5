/* mirror.h - tensors of the tests on a device: the same bytes, gaps and all, and back. */
#ifndef LNT_TESTS_MIRROR_H
#define LNT_TESTS_MIRROR_H

#include "case.h"

typedef struct mirror {
    block *host;
    void *memory;
    lnt_tensor t; /* the host's view, on the device */
} mirror;

mirror mirror_new(lnt_ctx *device, block *host);
void mirror_read(lnt_ctx *device, const mirror *m); /* back into the host's block */
void mirror_free(lnt_ctx *device, mirror *m);

/* A trial on the device.  The lengths of the trial are copied too, its state is not. */
typedef struct device_trial {
    mirror q, k, v, out;
    int64_t *lengths; /* on the device; NULL: none */
    size_t lengths_bytes;
    lnt_attn_io io;
} device_trial;

device_trial device_trial_new(lnt_ctx *device, trial *t);
void device_trial_free(lnt_ctx *device, device_trial *t);

/* Mechanisms that a device has. */
bool device_offers(lnt_mechanism mechanism);
/* What a device does not offer is left out of the case. */
void case_for_device(attn_case *c);
/* The same tokens remembered on the device, by way of a file; NULL where it has no such state. */
lnt_state *device_state_from(lnt_ctx *device, lnt_ctx *host, const attn_case *c,
                             lnt_state *state);

/* A context on the device that LINNET_TEST_DEVICE names ("cuda"); NULL where there is none, and
 * *sentence says why.  One that has the memory of the host is not for these tests either. */
lnt_ctx *device_context(const char **sentence);

#endif
