/* cuda/host/plan.h - a device and a plan, inside. */
#ifndef LNT_CUDA_PLAN_H
#define LNT_CUDA_PLAN_H

#include <string>

#include "cuda/common/monomials.h"
#include "cuda/f32/f32.h"
#include "cuda/linear/linear.h"
#include "cuda/orbits/orbits.h"
#include "cuda/pairs/pairs.h"
#include "cuda/state/state.h"
#include "cuda/tiles/tiles.h"
#include "device/plugin.h"

struct lnt_cuda_device {
    int ordinal;
    cudaDeviceProp properties;
    bool has_warpgroups; /* and was given the code for them */
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
lnt_status plan_step(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_states *states,
                     int what);
lnt_status state_reset(lnt_cuda_plan *plan, const lnt_cuda_states *states, int64_t slot,
                       void *stream);
lnt_status state_fork(lnt_cuda_plan *plan, const lnt_cuda_states *states, int64_t from, int64_t to,
                      void *stream);
lnt_status plan_nonpositive(lnt_cuda_plan *plan, void *stream, int64_t *out);
lnt_status plan_set_temperature(lnt_cuda_plan *plan, const double *temperature, void *stream);

/* What run.cu and backward.cu share. */
view view_of(const lnt_tensor &t);
lnt_status fits(lnt_cuda_plan *plan, const char *name, const lnt_tensor &t, int64_t heads,
                int64_t length, int64_t dim);
lnt_status check_inputs(lnt_cuda_plan *plan, const lnt_cuda_io *io, size_t workspace_bytes);
tiles_pack_args pack_of(lnt_cuda_plan *plan, const lnt_cuda_io *io, int64_t blocks);
tiles_answer_args answer_of(lnt_cuda_plan *plan, const lnt_cuda_io *io, int64_t blocks);
cudaError_t make_states(lnt_cuda_plan *plan, const lnt_cuda_io *io, int64_t blocks,
                        tiles_answer_args *read, cudaStream_t stream);
/* made: the states are there already. */
cudaError_t make_pairs(lnt_cuda_plan *plan, const lnt_cuda_io *io, int64_t blocks, bool made,
                       tiles_answer_args *read, cudaStream_t stream);
/* Keys, and values without their mean where states are made of them; *center: that mean, or NULL. */
cudaError_t pack_for_gradients(lnt_cuda_plan *plan, const lnt_cuda_io *io, int64_t blocks,
                               const float **center, cudaStream_t stream);
/* Takes bytes of a workspace; where they begin. */
size_t take(size_t *total, size_t bytes);
void backward_lay_out(lnt_cuda_plan *plan);
/* dq or dk of taylorshift, from the gradient of the normalised rows; and of the temperatures. */
cudaError_t normalized_run(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_grads *grads,
                           bool keys, cudaStream_t stream);

/* ---- plan_f32.cu: the precision of f32 ----------------------------------------------------- */

bool f32_is_for(const lnt_attn_desc *p, bool by_state);
void f32_cut(lnt_cuda_plan *plan);
void f32_lay_out(lnt_cuda_plan *plan);
f32_args f32_args_of(lnt_cuda_plan *plan, const lnt_cuda_io *io);
lnt_status f32_forward(lnt_cuda_plan *plan, const lnt_cuda_io *io, cudaStream_t stream);
void f32_backward_lay_out(lnt_cuda_plan *plan);
cudaError_t f32_backward(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_grads *grads,
                         cudaStream_t stream);

/* ---- plan_cur.cu ----------------------------------------------------------------------------- */

lnt_status cur_supported(lnt_cuda_device *device, const lnt_attn_desc *p);
void cur_lay_out(lnt_cuda_plan *plan);
lnt_status cur_forward(lnt_cuda_plan *plan, const lnt_cuda_io *io, cudaStream_t stream);

} // namespace lnt

/* Where the parts of a workspace begin, in bytes. */
struct lnt_cuda_layout {
    size_t rows, keys, values, sums, state, linear, mean, partial, bytes;
    struct {
        size_t queries, keys, values, rows, partial, matrices;
    } cur;
};

/* Of the workspace of a backward run. */
struct lnt_cuda_backward_layout {
    size_t sums, total, gradient_sums, gradient_total, rows, boxes; /* linear */
    /* Others: after all that forward takes. */
    size_t q_rows, q_keys, douts, scaled, slopes, center, center_parts;
    size_t y, inverse, gradient, along, counter;
    size_t bytes;
};

/* Of what forward made packed keys and values and states that backward can use; workspace NULL: the
 * workspace has none. */
struct lnt_cuda_left {
    lnt_tensor k, v;
    const int64_t *lengths_k;
    void *workspace;
};

struct lnt_cuda_plan {
    lnt_cuda_device *device;
    lnt_attn_desc p; /* resolved; its arrays are gone */
    int width, dim8;
    bool by_state; /* taylor: with a state; else the direct form */
    bool f32;      /* by f32.h */
    bool pass;     /* linear: in one pass */
    bool by_boxes; /* linear: gradients upon boxes of tokens */
    int orbits;    /* orbits_width(): the state is one of orbits_basis.h; 0: of tiles_basis.h */
    bool pairs;    /* the state is one of pairs_basis.h */
    /* Runs forward, where that is faster by orbits or pairs and the backward pass needs tiles_basis.h; or
     * NULL. */
    lnt_cuda_plan *forward_plan;
    int64_t segment, blocks;
    int segments, prefixes; /* most that a run needs */
    int walk;               /* orbits_args */
    bool relay;
    int parts; /* cur: that the keys are read in */
    int splits;
    int64_t count, padded;  /* D, and what is multiplied */
    double coefficient[32]; /* a_p scale^p */
    lnt_cuda_layout at;
    lnt_cuda_backward_layout backward;
    lnt_cuda_left left;
    int tile_count, task_count;
    lnt::tiles_units units;
    /* On the device. */
    lnt::tile_task *tasks;
    float *factor, *step_factor, *decay, *log_decay, *temperature;
    int32_t *place;
    uint32_t *slopes; /* tiles_basis_slopes() */
    uint64_t *step_index, *f32_table;
    unsigned *arrived;
    unsigned long long *nonpositive;
};
#endif
