/* cuda/host/plan.h - a device and a plan, inside; and the table of functions that every family of kernels
 * fills (choose.h says which families a problem may go to). */
#ifndef LNT_CUDA_PLAN_H
#define LNT_CUDA_PLAN_H

#include <string>
#include <vector>

#include "cuda/common/monomials.h"
#include "cuda/f32/f32.h"
#include "cuda/host/choose.h"
#include "cuda/linear/linear.h"
#include "cuda/orbits/orbits.h"
#include "cuda/pairs/pairs.h"
#include "cuda/state/state.h"
#include "cuda/tiles/tiles.h"
#include "device/plugin.h"

struct lnt_cuda_device {
    int ordinal;
    cudaDeviceProp properties;
    lnt::limits limits;
    std::string sentence;
};

namespace lnt
{

/* Sets the sentence. */
lnt_status fail(lnt_cuda_device *device, lnt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
lnt_status check(lnt_cuda_device *device, cudaError_t error, const char *doing);

lnt_status measure_flops(lnt_cuda_device *device, lnt_dtype dtype, double *gflops);
lnt_status measure_bandwidth(lnt_cuda_device *device, size_t bytes, double *gbytes_per_second);

lnt_status plan_create(lnt_cuda_device *device, const lnt_attn_desc *desc, lnt_cuda_plan **out);
void plan_destroy(lnt_cuda_plan *plan);
lnt_status plan_describe(const lnt_cuda_plan *plan, lnt_cuda_plan_info *info);
lnt_status plan_forward(lnt_cuda_plan *plan, const lnt_cuda_io *io);
lnt_status plan_backward(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_grads *grads);
lnt_status plan_step(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_states *states, int what);
lnt_status state_reset(lnt_cuda_plan *plan, const lnt_cuda_states *states, int64_t slot, void *stream);
lnt_status state_fork(lnt_cuda_plan *plan, const lnt_cuda_states *states, int64_t from, int64_t to,
                      void *stream);
lnt_status plan_nonpositive(lnt_cuda_plan *plan, void *stream, int64_t *out);
lnt_status plan_set_temperature(lnt_cuda_plan *plan, const double *temperature, void *stream);

/* ---- families -------------------------------------------------------------------------------- */

/* What a family of kernels does with a plan. */
struct family {
    cudaError_t (*cut)(lnt_cuda_plan *plan);       /* its tables, and how long segments are */
    void (*lay_out)(lnt_cuda_plan *plan);          /* the workspace, from plan->bytes on */
    void (*lay_out_backward)(lnt_cuda_plan *plan); /* likewise from plan->backward_bytes on */
    cudaError_t (*forward)(lnt_cuda_plan *plan, const lnt_cuda_io *io, cudaStream_t stream);
    cudaError_t (*backward)(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_grads *grads,
                            cudaStream_t stream);
};
extern const family pairs_family, orbits_family, tiles_family, bf16_family, linear_family, f32_family,
    cur_family;

/* How the states of tiles and of pairs are made and read (plan_tiles.cu, plan_tiles_backward.cu). */
struct packed_states;

/* bf16, tiles and pairs: keys and values are packed first. */
struct tiles_plan {
    const packed_states *states; /* NULL: the direct form, and softmax */
    int dim8, prefixes, tile_count, task_count;
    int64_t blocks;
    tiles_units units;
    tile_task *tasks;
    float *factor;
    int32_t *place;
    uint32_t *slopes; /* tiles_basis_slopes() */
    struct {
        size_t rows, keys, values, sums, state, linear, mean;
    } at; /* where the parts of a workspace begin, in bytes */
    struct {
        size_t q_rows, q_keys, douts, rows, scaled, slopes, gradient_sums, center, center_parts;
    } back;
    /* Of what forward made packed keys and values and states that backward can use; workspace NULL: the
     * workspace has none. */
    struct {
        lnt_tensor k, v;
        const int64_t *lengths_k;
        void *workspace;
    } left;
};

struct orbits_plan {
    int width; /* orbits_width() */
    int walk, relay;
    int32_t *place;
    size_t sums, total;
};

struct linear_plan {
    bool one_pass, by_boxes; /* by_boxes: gradients upon boxes of tokens */
    size_t sums, total;
    struct {
        size_t sums, total, gradient_sums, gradient_total, rows, boxes;
    } back;
};

struct f32_plan {
    uint64_t *table;
    size_t keys, values, sums;
    struct {
        size_t q_keys, douts, rows, y, inverse, counter, gradient_sums;
    } back;
};

/* Beside an f32_plan. */
struct cur_plan {
    int parts; /* that the keys are read in */
    size_t queries, keys, values, rows, partial, matrices;
};

} // namespace lnt

struct lnt_cuda_plan {
    lnt_cuda_device *device;
    lnt_attn_desc p; /* resolved; its arrays are gone */
    lnt::choice chosen;
    const lnt::family *family;
    lnt_cuda_plan *forward_plan; /* runs forward, where its form is not that of backward; or NULL */
    int width;
    int64_t segment, count; /* count: D */
    int segments;           /* most that a run needs */
    double coefficient[32]; /* a_p scale^p */
    size_t bytes, backward_bytes;
    struct {
        size_t gradient, along;
    } normal; /* of the workspace of backward: normalised rows */
    lnt::tiles_plan tiles;
    lnt::orbits_plan orbits;
    lnt::linear_plan linear;
    lnt::f32_plan f32;
    lnt::cur_plan cur;
    /* On the device; tables has all that is to be freed. */
    std::vector<void *> tables;
    uint64_t *index; /* monomials_table */
    float *feature_factor, *decay, *log_decay, *temperature;
    unsigned *arrived;
    unsigned long long *nonpositive;
    int splits; /* of a step */
};

namespace lnt
{

/* ---- what families share --------------------------------------------------------------------- */

view view_of(const lnt_tensor &t);
/* What every launch of a run is told. */
attention_args attention_of(const lnt_cuda_plan *plan, const lnt_cuda_io *io);
inline int pieces(int64_t n, int64_t segment) { return (int)((n + segment - 1) / segment); }
inline bool normalizes(const lnt_attn_desc *p)
{
    return p->mechanism == LNT_TAYLOR && p->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT;
}

/* Takes bytes of a workspace; where they begin. */
inline size_t take(size_t *total, size_t bytes)
{
    const size_t at = *total;
    *total += (bytes + 255) / 256 * 256;
    return at;
}
inline size_t take_floats(size_t *total, int64_t numbers)
{
    return take(total, (size_t)numbers * sizeof(float));
}
/* What normalized_run needs. */
void normal_lay_out(lnt_cuda_plan *plan);
/* dq or dk of taylorshift, from the gradient of the normalised rows; and of the temperatures. */
cudaError_t normalized_run(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_grads *grads, bool keys,
                           cudaStream_t stream);

/* Copies a table to the device; the plan frees it. */
cudaError_t upload_bytes(lnt_cuda_plan *plan, void **to, const void *from, size_t bytes);
template <class T> cudaError_t upload(lnt_cuda_plan *plan, T **to, const T *from, size_t count)
{
    return upload_bytes(plan, (void **)to, from, count * sizeof(T));
}
template <class T> cudaError_t upload(lnt_cuda_plan *plan, T **to, const std::vector<T> &from)
{
    return upload(plan, to, from.data(), from.size());
}

/* plan_f32.cu, for cur */
cudaError_t f32_cut(lnt_cuda_plan *plan);
void f32_lay_out(lnt_cuda_plan *plan);
f32_args f32_args_of(lnt_cuda_plan *plan, const lnt_cuda_io *io);

} // namespace lnt
#endif
