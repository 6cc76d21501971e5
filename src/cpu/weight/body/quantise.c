/* cpu/weight/body/quantise.c - activations as whole numbers of 15 bits, 32 to a scale:
 *
 *     scale = max |x| / 16319,   q = round(x / scale) = 128 high + low,   -64 <= low < 64
 *
 * so that what is off is 1/32638 of the largest at the most.  16319 is the largest that both bytes take. */
#include "cpu/weight/body/ops.h"

/* The bits of |x| are ordered as the numbers are, with infinity and NaN above all. */
static uint32_t largest_bits(const float *x)
{
    int32_t most = 0;
    for (int i = 0; i < LNT_PANEL_BLOCK; i++) {
        int32_t magnitude;
        memcpy(&magnitude, x + i, sizeof magnitude);
        magnitude &= 0x7fffffff;
        most = magnitude > most ? magnitude : most;
    }
    return (uint32_t)most;
}

static void place(int8_t *code, const int32_t *q)
{
#if LNT_PLANES
    for (int i = 0; i < LNT_PANEL_BLOCK; i++) {
        const int32_t high = (q[i] + 64) >> 7;
        code[i] = (int8_t)high;
        code[LNT_PANEL_BLOCK + i] = (int8_t)(q[i] - 128 * high);
    }
#else
    int16_t pairs[LNT_PANEL_BLOCK];
    for (int i = 0; i < LNT_PANEL_BLOCK; i += 4) {
        pairs[i] = (int16_t)q[i];
        pairs[i + 1] = (int16_t)q[i + 2];
        pairs[i + 2] = (int16_t)q[i + 1];
        pairs[i + 3] = (int16_t)q[i + 3];
    }
    memcpy(code, pairs, sizeof pairs);
#endif
}

static void quantise_block(lnt_quants *out, const float *x)
{
    const float most = lnt_bits_float(largest_bits(x)), least = 0x1p-100f; /* whose inverse is a float */
    const float scale = (most < least ? least : most) / 16319;
    const bool finite = most <= 0x1.fffffep127f;
    const float inverse = finite ? 1 / scale : 0, magic = 0x1.8p23f; /* rounds to a whole number */
    int32_t q[LNT_PANEL_BLOCK], sum[2] = { 0, 0 };
    for (int i = 0; i < LNT_PANEL_BLOCK; i++) {
        const float shifted = (finite ? x[i] : 0) * inverse + magic;
        memcpy(&q[i], &shifted, sizeof q[i]);
        q[i] -= 0x4b400000;
    }
    for (int i = 0; i < LNT_PANEL_BLOCK / 2; i++) {
        sum[0] += q[i];
        sum[1] += q[i + LNT_PANEL_BLOCK / 2];
    }
    place(out->code, q);
    out->scale = finite ? scale : NAN;
    for (int half = 0; half < 2; half++) {
        out->sum[half] = sum[half];
        out->total[half] = out->scale * (float)sum[half];
    }
    out->total[2] = out->scale * (float)(sum[0] + sum[1]);
}

void KERNEL(quantise)(lnt_quants *out, const float *x, size_t count)
{
    for (size_t i = 0; i < count; i += LNT_PANEL_BLOCK) quantise_block(out++, x + i);
}
