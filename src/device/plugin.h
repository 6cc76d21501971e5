/* device/plugin.h - the GPU as a plug-in: a library, liblinnet-cuda.so, that the core opens at run
 * time and asks for one table of functions.  Plain C and no CUDA in it, so that the core compiles
 * anywhere.
 *
 * Tensors are the views of linnet.h over device memory.  Work goes to the caller's stream (a
 * cudaStream_t, NULL: the default one) and returns before it is done.  Running a plan allocates
 * nothing, waits for nothing and may be captured into a graph: scratch comes from the caller, as
 * large as the plan says; a plan's run counter is its own, so one plan runs on one stream at a
 * time.  The same input on the same device gives the same bits.  Whichever device is the thread's current
 * one may be so before a call, and is after it. */
#ifndef LNT_DEVICE_PLUGIN_H
#define LNT_DEVICE_PLUGIN_H

#include "linnet.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LNT_CUDA_ABI 8
#define LNT_CUDA_LIBRARY "liblinnet-cuda.so"
#define LNT_CUDA_SYMBOL "lnt_cuda_plugin"

typedef struct lnt_cuda_device lnt_cuda_device;
typedef struct lnt_cuda_plan lnt_cuda_plan;

typedef struct lnt_cuda_info {
    size_t size; /* sizeof(lnt_cuda_info), set by the caller */
    char name[256];
    int major, minor; /* compute capability */
    int multiprocessors;
    size_t memory_bytes, l2_bytes;
    int driver, runtime; /* CUDA versions, 1000 major + 10 minor */
} lnt_cuda_info;

typedef struct lnt_cuda_plan_info {
    size_t size;            /* sizeof(lnt_cuda_plan_info), set by the caller */
    const char *algorithm;  /* "taylor/state"; lives as long as the library */
    /* Which kernels: "pairs"; of the backward pass, "" where there is none.  The descriptor's algorithm may
     * ask for forward's: "taylor/state:pairs". */
    const char *form, *form_backward;
    size_t workspace_bytes; /* for forward and step */
    int64_t segment;        /* tokens between states */
    int64_t features;       /* D: rows of a state; 0: the mechanism keeps none of fixed size */
    size_t state_bytes;     /* of one sequence, all kv heads: 4 K D (m + 1) */
    size_t backward_bytes;  /* workspace for backward; 0: the plan has no backward pass */
    int leaves;             /* 1: forward leaves in its workspace what backward may use: after_forward */
} lnt_cuda_plan_info;

/* States of fixed size on the device, f32, in the order of the library: s [slots][K][D][m],
 * z [slots][K][D].  A sequence of a batch may use any slot.  With taylorshift the sums are over
 * keys of length 1, where the library's are over those times d^(1/4). */
typedef struct lnt_cuda_states {
    float *s, *z;
    int64_t slots;
    const int64_t
        *index; /* [batch] on the device: slot of each sequence, all different; NULL: 0, 1 ... */
    int64_t
        *tokens; /* [slots] on the device: seen so far; NULL: not counted (output_norm needs it) */
} lnt_cuda_states;

typedef struct lnt_cuda_io {
    size_t size; /* sizeof(lnt_cuda_io) */
    lnt_tensor q, k, v, out;
    const int64_t *lengths_q, *lengths_k; /* [batch] on the device; NULL: full */
    /* Forward of taylor and linear: tokens before the first key, and those up to the last; slot b
     * for sequence b, index is not used.  May be the same. */
    const lnt_cuda_states *state_in, *state_out;
    void *workspace;
    size_t workspace_bytes;
    void *stream;
} lnt_cuda_io;

/* dout in; dq, dk, dv out, overwritten.  Backward does not use io->out and io->state_out; the
 * gradient of the loss with respect to that state comes in, that with respect to io->state_in goes
 * out, slot b for sequence b (linear, and taylor by a state; NULL: none).  With taylorshift those
 * of degree t are divided by d^(t/2), so that what makes the library's of a state makes it of
 * these. */
typedef struct lnt_cuda_grads {
    size_t size; /* sizeof(lnt_cuda_grads) */
    lnt_tensor dout, dq, dk, dv;
    const lnt_cuda_states *dstate_out, *dstate_in;
    /* [heads] on the device, overwritten; taylorshift only; NULL: not wanted */
    float *dtemperature;
    /* 1: the plan's last run was forward in this workspace, over k, v and lengths that have not
     * changed since: what it made of them may be used again */
    int after_forward;
} lnt_cuda_grads;

/* What a step does with its tokens. */
enum { LNT_CUDA_APPEND = 1, LNT_CUDA_QUERY = 2 };

/* A struct that passes between the two, and its size where this was compiled: a struct that grew without
 * LNT_CUDA_ABI being raised is refused by either side, not misread. */
typedef struct lnt_cuda_struct {
    const char *name;
    size_t size;
} lnt_cuda_struct;

enum { LNT_CUDA_STRUCTS = 8 };

typedef struct lnt_cuda_api {
    int abi;
    const lnt_cuda_struct *structs; /* [LNT_CUDA_STRUCTS] */
    /* structs: the caller's; sentence [capacity]: why not. */
    lnt_status (*open)(int ordinal, const lnt_cuda_struct *structs, lnt_cuda_device **out, char *sentence,
                       size_t capacity);
    void (*close)(lnt_cuda_device *device);
    const char *(*error)(const lnt_cuda_device *device); /* about the last failure; "" */
    lnt_status (*describe)(lnt_cuda_device *device, lnt_cuda_info *info);

    /* Tensor-core products of bf16, or fused multiply-adds of f32, of numbers that stay on the
     * multiprocessor; GFLOP/s. */
    lnt_status (*measure_flops)(lnt_cuda_device *device, lnt_dtype dtype, double *gflops);
    /* GB/s, read + written, of a copy of `bytes`. */
    lnt_status (*measure_bandwidth)(lnt_cuda_device *device, size_t bytes,
                                    double *gbytes_per_second);

    /* For tools that have no CUDA of their own. */
    lnt_status (*allocate)(lnt_cuda_device *device, size_t bytes, void **out);
    void (*release)(lnt_cuda_device *device, void *memory);
    lnt_status (*copy_in)(lnt_cuda_device *device, void *to, const void *from, size_t bytes,
                          void *stream);
    lnt_status (*copy_out)(lnt_cuda_device *device, void *to, const void *from, size_t bytes,
                           void *stream);
    lnt_status (*clear)(lnt_cuda_device *device, void *memory, size_t bytes, void *stream);
    lnt_status (*synchronize)(lnt_cuda_device *device, void *stream);

    /* desc as lnt_attn_desc_init and its comments have it; the arrays in it are the host's. */
    lnt_status (*plan_create)(lnt_cuda_device *device, const lnt_attn_desc *desc,
                              lnt_cuda_plan **out);
    void (*plan_destroy)(lnt_cuda_plan *plan);
    lnt_status (*plan_describe)(const lnt_cuda_plan *plan, lnt_cuda_plan_info *info);
    lnt_status (*forward)(lnt_cuda_plan *plan, const lnt_cuda_io *io);
    /* desc.backward must have been 1; io's workspace is of backward_bytes.  NULL: not offered. */
    lnt_status (*backward)(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_grads *grads);
    /* Each sequence's tokens, one after the other: appended, then read with q; `what` of the two.
     */
    lnt_status (*step)(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_states *states,
                       int what);
    /* Forgets a slot; copies one to another. */
    lnt_status (*state_reset)(lnt_cuda_plan *plan, const lnt_cuda_states *states, int64_t slot,
                              void *stream);
    lnt_status (*state_fork)(lnt_cuda_plan *plan, const lnt_cuda_states *states, int64_t from,
                             int64_t to, void *stream);
    /* Rows since the plan was made whose denominator was not above zero.  Waits for the stream. */
    lnt_status (*nonpositive)(lnt_cuda_plan *plan, void *stream, int64_t *out);
    /* From the device to the device; does not wait. */
    lnt_status (*copy)(lnt_cuda_device *device, void *to, const void *from, size_t bytes,
                       void *stream);
    /* Runs after it on the stream take temperature [heads], of the host, which is read at once; the
     * plan was made with one.  Does not wait. */
    lnt_status (*set_temperature)(lnt_cuda_plan *plan, const double *temperature, void *stream);
} lnt_cuda_api;

static const lnt_cuda_struct lnt_cuda_structs[LNT_CUDA_STRUCTS] = {
    { "lnt_cuda_api", sizeof(lnt_cuda_api) },
    { "lnt_attn_desc", sizeof(lnt_attn_desc) },
    { "lnt_tensor", sizeof(lnt_tensor) },
    { "lnt_cuda_info", sizeof(lnt_cuda_info) },
    { "lnt_cuda_plan_info", sizeof(lnt_cuda_plan_info) },
    { "lnt_cuda_states", sizeof(lnt_cuda_states) },
    { "lnt_cuda_io", sizeof(lnt_cuda_io) },
    { "lnt_cuda_grads", sizeof(lnt_cuda_grads) }
};

/* The first of this side's structs that the other side has in another size; -1: none. */
static inline int lnt_cuda_misfit(const lnt_cuda_struct *theirs)
{
    for (int i = 0; i < LNT_CUDA_STRUCTS; i++)
        if (theirs[i].size != lnt_cuda_structs[i].size) return i;
    return -1;
}

/* The table, or NULL where this library speaks another version. */
LNT_API const lnt_cuda_api *lnt_cuda_plugin(int abi);
typedef const lnt_cuda_api *(*lnt_cuda_plugin_function)(int abi);

#ifdef __cplusplus
}
#endif
#endif
