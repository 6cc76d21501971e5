/* cuda/common/bulk.cu - whether what compute capability 9.0 has was compiled, and tensors as its copy
 * engine wants them described. */
#include "cuda/common/bulk.cuh"
#include "cuda/common/common.h"

namespace lnt
{

/* Is never launched: how many threads it may be launched with says what was compiled. */
__global__ void __launch_bounds__(LNT_WARPGROUPS ? 128 : 32) bulk_warpgroups_kernel() {}

bool warpgroups_are_compiled()
{
    cudaFuncAttributes at;
    return cudaFuncGetAttributes(&at, (const void *)bulk_warpgroups_kernel) == cudaSuccess &&
           at.maxThreadsPerBlock == 128;
}

typedef CUresult (*encode_function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                    const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                    const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                    CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* The driver's; NULL where it has none. */
static encode_function find_encode()
{
    void *function = NULL;
    cudaDriverEntryPointQueryResult found;
    const cudaError_t e = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                           12000, cudaEnableDefault, &found);
    if (e != cudaSuccess || found != cudaDriverEntryPointSuccess) return NULL;
    return (encode_function)function;
}

bool bulk_describe(CUtensorMap *map, const view &x, int64_t batch, int64_t heads, int64_t length,
                   int64_t width, int rows)
{
    static const encode_function encode = find_encode();
    if (!encode || x.dtype != LNT_BF16 || x.stride[3] != 1 || ((uintptr_t)x.data & 15))
        return false;
    const int64_t size[4] = { width, length, heads, batch };
    const int64_t stride[3] = { x.stride[2], x.stride[1], x.stride[0] };
    cuuint64_t sizes[4], strides[3];
    for (int i = 0; i < 4; i++) {
        if (size[i] < 1 || size[i] > INT32_MAX) return false;
        sizes[i] = (cuuint64_t)size[i];
    }
    for (int i = 0; i < 3; i++) {
        const int64_t all = i ? (int64_t)strides[i - 1] * size[i] : (width * 2 + 15) / 16 * 16;
        const int64_t bytes = size[i + 1] == 1 ? all : stride[i] * 2; /* of one, any will do */
        if (bytes <= 0 || bytes % 16) return false;
        strides[i] = (cuuint64_t)bytes;
    }
    const cuuint32_t box[4] = { BOX_WIDTH, (cuuint32_t)rows, 1, 1 }, step[4] = { 1, 1, 1, 1 };
    return encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, x.data, sizes, strides, box, step,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

} // namespace lnt
