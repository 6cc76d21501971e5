/* device.c - see device.h. */
#include "device.h"

#include <math.h>
#include <stdio.h>

lnt_ctx *host, *device;
const lnt_dtype device_dtypes[DEVICE_DTYPES] = { LNT_BF16, LNT_F32, LNT_F16 };

bool device_open(void)
{
    const char *why = "";
    device = device_context(&why);
    if (!device) {
        printf("SKIPPED: no GPU: %s\n", why);
        return false;
    }
    host = context_new(0, NULL);
    return true;
}

void device_close(void)
{
    lnt_ctx_destroy(host);
    lnt_ctx_destroy(device);
}

/* Tensor cores take operands of bf16: mapped queries and keys, or weights, and the state are rounded
 * before the result is.  Where a few values cancel, their mean keeps a large part of that: one case of
 * few value columns is held to 2^-5 (two columns of 137 random values reach 2e-2 with these roundings),
 * any other to 2^-7, and all cases of a test together to the 3e-3 that the device promises. */
double device_bound(const lnt_attn_desc *desc)
{
    if (desc->dtype == LNT_F32) return 2e-5;
    if (desc->dtype != LNT_BF16) return forward_bound(desc);
    const int64_t columns = desc->dim_value ? desc->dim_value : desc->dim;
    return columns < 8 ? 0x1p-5 : 0x1p-7;
}

static const double together_bound = 3e-3;
static struct {
    double difference, reference; /* sums of squares, of the cases in bf16 since the last verdict */
} together;

void device_add(const lnt_attn_desc *desc, const lnt_tensor *out, double error)
{
    double square = 0;
    if (desc->dtype != LNT_BF16) return;
    for (int64_t i = 0; i < tensor_elements(out); i++)
        square += tensor_at(out, i) * tensor_at(out, i);
    together.difference += error * error * square;
    together.reference += square;
}

void device_judge(void)
{
    const double error = sqrt(together.difference / together.reference);
    const bool good = error <= together_bound;
    together.difference = together.reference = 0;
    print_message("all cases in bf16 together: relative error %.2e\n", error);
    if (!good) fail_msg("all cases together: error %.3g, allowed %.3g", error, together_bound);
}

void device_layouts(attn_case *c, int i)
{
    c->lay_out = (layout)(i % LAYOUT_OUTPUTS);
    c->lay_q = (layout)(i / LAYOUT_OUTPUTS);
    c->lay_k = (layout)((i + i / LAYOUT_OUTPUTS) % LAYOUT_COUNT);
    c->lay_v = (layout)((i + 3) % LAYOUT_COUNT);
}

attn_case device_smaller(const attn_case *c, int64_t n)
{
    attn_case less = *c;
    less.desc.length_q = n;
    less.desc.length_k = n + n % 3;
    less.desc.batch = 1 + n % 3;
    return less;
}

lnt_state *device_state(const attn_case *c)
{
    lnt_state *s = NULL;
    const lnt_status status = lnt_state_create(device, &c->desc, &s);
    if (status != LNT_ERR_UNSUPPORTED) assert_ok(device, status);
    return s;
}

bool device_form(attn_case *c, int form, int64_t tokens, lnt_dtype dtype)
{
    stream_form(c, form, tokens, dtype);
    c->desc.causal = 1;
    const bool random = c->desc.mechanism == LNT_LINEAR && c->desc.linear.feature_map > LNT_MAP_IDENTITY;
    return device_offers(c->desc.mechanism) && c->desc.mechanism != LNT_SOFTMAX &&
           !c->desc.compensated && !random;
}
