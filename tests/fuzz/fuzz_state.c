/* fuzz_state.c - the input is the file of a state, or the file of a calibration. */
#include "fuzz.h"
#include "linnet.h"

/* What the seed is a state of (seeds.c). */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lnt_ctx *ctx = fuzz_context();
    const char *path = fuzz_file(data, size);
    lnt_attn_desc desc;
    lnt_state *state;
    fuzz_check(lnt_attn_desc_init(&desc, sizeof desc));
    desc.mechanism = LNT_LINEAR;
    desc.causal = 1;
    desc.length_q = 4;
    desc.dim = 2;
    const lnt_status status = lnt_state_load(ctx, &desc, path, &state);
    fuzz_check(status);
    if (status == LNT_OK) lnt_state_destroy(state);
    fuzz_check(lnt_calibration_load(ctx, path));
    return 0;
}
