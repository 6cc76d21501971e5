/* device.h - what the tests of a device share: its context beside one of the CPU, how near its answers
 * must be to the oracle's, and states and cases that it has. */
#ifndef LNT_TESTS_DEVICE_H
#define LNT_TESTS_DEVICE_H

#include "mirror.h"
#include "stream.h"

extern lnt_ctx *host, *device;

enum { DEVICE_DTYPES = 3, DEVICE_MISSING = 77 };
extern const lnt_dtype device_dtypes[DEVICE_DTYPES];

/* False where there is no device, which is said: main then gives DEVICE_MISSING. */
bool device_open(void);
void device_close(void);

/* How far off one case may be. */
double device_bound(const lnt_attn_desc *desc);
/* Adds the error of `out` to those of all cases in bf16 since the last verdict; judges them. */
void device_add(const lnt_attn_desc *desc, const lnt_tensor *out, double error);
void device_judge(void);

/* Way i of LAYOUT_COUNT * LAYOUT_OUTPUTS to lay out q, k, v and what is written. */
void device_layouts(attn_case *c, int i);

/* The case with n queries, about as many keys, and up to 3 sequences. */
attn_case device_smaller(const attn_case *c, int64_t n);

/* A state of the case on the device, or NULL where it has none of the kind. */
lnt_state *device_state(const attn_case *c);
/* Form f of stream.h, with what the device does not offer left out; false: nothing is left. */
bool device_form(attn_case *c, int form, int64_t tokens, lnt_dtype dtype);

#endif
