/* fuzz_npy.c - the input is a .npy file. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lnt_ctx *ctx = fuzz_context();
    lnt_array array;
    const lnt_status status = lnt_npy_read(ctx, fuzz_file(data, size), &array);
    fuzz_check(status);
    if (status == LNT_OK) {
        size_t bytes = array.dtype == LNT_F64 ? 8 : array.dtype == LNT_F32 ? 4 : 2;
        for (int i = 0; i < array.rank; i++) bytes *= (size_t)array.shape[i];
        fuzz_touch(array.data, bytes);
        lnt_array_free(ctx, &array);
    }
    return 0;
}
