/* cuda/orbits/orbits_relay.cuh - what both kinds of warps of orbits_relay.cu know: shared memory,
 * barriers, the run. */
#ifndef LNT_CUDA_ORBITS_RELAY_CUH
#define LNT_CUDA_ORBITS_RELAY_CUH

#include "cuda/common/bulk.cuh"
#include "cuda/orbits/orbits_answer.cuh"

namespace lnt
{

typedef orbits_shape<2, 4, 8> relay_shape;

/* Keys turned over, 16 tokens at a time: 8 tokens of each element, and again, then the next 8; then
 * ones, where a factor of a monomial is none. */
enum { RELAY_HALF = 2 * 16 * 16, RELAY_ONES = 2 * RELAY_HALF, RELAY_TURNED = RELAY_ONES + 16 };

enum {
    RELAY_BLOCKS = 2,
    RELAY_KEEPERS = 256, /* threads */
    RELAY_READERS = 256, /* threads that answer */
    RELAY_STAGES = 3,    /* chunks of keys and values in shared memory */
    RELAY_OWN = 4,       /* orbits of a warp, one of orbits_fours; a block's first is degree 0 */
    RELAY_SIXTEENS = 31, /* the others, at most */
    RELAY_CHUNK = 128,
    RELAY_PART = 40 * 128 /* bytes: 10 numbers of each thread of a warpgroup */
};

/* Barriers: of the keepers alone; of them and either warpgroup that answers, a chunk's state is
 * there; it is used up (two each, in turns). */
enum {
    RELAY_ALONE = 1,
    RELAY_THERE = 2,
    RELAY_USED = 6,
    RELAY_BOTH = RELAY_KEEPERS + RELAY_READERS / 2
};
enum { RELAY_MAIL = 0, RELAY_BARRIERS = 2 }; /* in shared memory: the other block's part is there */

/* Values, as products take them: 8 columns of all tokens of a chunk, then the next 8, then ones. */
struct relay_values : relay_shape {
    static constexpr int LD = 16, PLANE = RELAY_CHUNK * 16;
};

struct relay_memory {
    using S = relay_shape;
    static constexpr int ROWS = RELAY_CHUNK * S::LD, VALUES = RELAY_STAGES * ROWS,
                         VALUE_ROWS = (S::X + 1) * relay_values::PLANE,
                         TURNED = VALUES + RELAY_STAGES * VALUE_ROWS,
                         QUERIES = TURNED + (RELAY_CHUNK / 16 * RELAY_TURNED + 127) / 128 * 128,
                         QUERY_ROWS = 16 * S::LD, /* of a warp */
        STATE = QUERIES + 2 * 8 * QUERY_ROWS, STATE_BYTES = RELAY_SIXTEENS * S::N8 * 256,
                         PARTS = STATE + 2 * STATE_BYTES, MEAN = PARTS + 2 * RELAY_PART,
                         BARRIERS = MEAN + 2 * S::MEAN_BYTES, BYTES = BARRIERS + 8 * RELAY_BARRIERS;
};

#if LNT_WARPGROUPS

__device__ __forceinline__ uint32_t relay_barrier(const char *shared, int number)
{
    return shared_address(shared + relay_memory::BARRIERS) + 8 * number;
}

struct relay_run {
    int64_t begin, end, segment;
    int chunks, group;
    __device__ __forceinline__ relay_run(const orbits_args &a, const orbits_sequence &n)
    {
        segment = (int64_t)(blockIdx.x / RELAY_BLOCKS) * a.walk, group = a.heads / a.kv_heads;
        /* Positions are those of the keys; the query of position p is row p - past. */
        begin = segment * a.segment;
        end = min(begin + a.walk * a.segment, max(n.keys, a.length_q + n.past));
        chunks = end > begin ? (int)((end - begin + RELAY_CHUNK - 1) / RELAY_CHUNK) : 0;
        chunks = __shfl_sync(~0u, chunks, 0); /* or the compiler thinks that lanes differ */
    }
};

#endif

} // namespace lnt

#endif
