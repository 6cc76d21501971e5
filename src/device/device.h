/* device/device.h - what a device is: one table of functions over its memory, its plans and its states.
 *
 * A context has one device, the CPU as it is made.  src/plan and src/attention/state check what a caller
 * gives and keep what is the same everywhere (the problem, its choice of algorithm); all else they ask of
 * the table, and never which device it is of.  The CPU's is lnt_device_cpu (src/plan/cpu_device.c), whose
 * plans and states are those of src/attention; a plug-in's is in plugin_device.c.
 *
 * Arguments of all functions are checked.  partial, landmarks, select and remove may be NULL: they are not
 * offered, and the caller is told so.  So may those that say what NULL means.  All others must be there. */
#ifndef LNT_DEVICE_DEVICE_H
#define LNT_DEVICE_DEVICE_H

#include "core/context.h"

/* What a device has of a plan and of a state; each device knows what is in its own. */
typedef struct lnt_device_plan lnt_device_plan;
typedef struct lnt_device_state lnt_device_state;

/* A run, and what the device has of the states in io and grads; NULL where those are. */
typedef struct lnt_device_run {
    const lnt_attn_io *io;
    const lnt_attn_grads *grads; /* backward; else NULL */
    int64_t sequences;
    lnt_device_state *state_in, *state_out, *dstate_out, *dstate_in;
} lnt_device_run;

/* A problem of one sequence that fills the device, to time an algorithm with. */
typedef struct lnt_calibration {
    int64_t heads, tokens, dim;
} lnt_calibration;

/* Plans.  open puts what later calls need, the context too, into *out.  p is resolved and outlives the plan;
 * algorithm: what the planner wants, or NULL; info, which comes zeroed: what it became, its chunk and its
 * bytes.  The CPU keeps its part in `whole`. */
typedef struct lnt_device_plans {
    lnt_status (*predict)(lnt_ctx *ctx, const lnt_attn_desc *p, const char *algorithm, lnt_plan_info *info);
    lnt_status (*open)(lnt_ctx *ctx, const lnt_attn_desc *p, const char *algorithm, lnt_plan *whole,
                       lnt_device_plan **out, lnt_plan_info *info);
    void (*close)(lnt_device_plan *plan); /* NULL: nothing is to be closed */
    lnt_status (*set_temperature)(lnt_device_plan *plan, const double *temperature); /* NULL: it reads p */
    lnt_status (*report)(lnt_device_plan *plan, lnt_report *out); /* zeroed */
    lnt_status (*forward)(lnt_device_plan *plan, const lnt_device_run *run);
    lnt_status (*backward)(lnt_device_plan *plan, const lnt_device_run *run);
    lnt_status (*partial)(lnt_device_plan *plan, const lnt_device_run *run, const lnt_partial *partial);
    lnt_status (*landmarks)(lnt_device_plan *plan, const lnt_device_run *run, int64_t s, int64_t h,
                            int64_t *queries, int64_t *keys, int64_t *count);
} lnt_device_plans;

/* States.  p and `whole` as for a plan; room: tokens, where it grows. */
typedef struct lnt_device_states {
    lnt_status (*open)(lnt_ctx *ctx, const lnt_attn_desc *p, int64_t room, lnt_state *whole,
                       lnt_device_state **out);
    void (*close)(lnt_device_state *state);
    lnt_status (*fork)(lnt_device_state *to, const lnt_device_state *from); /* `to` is just open */
    lnt_status (*copy)(lnt_device_state *to, int64_t to_sequence, const lnt_device_state *from,
                       int64_t from_sequence);
    lnt_status (*select)(lnt_device_state *state, const int64_t *index, int64_t count);
    lnt_status (*reset)(lnt_device_state *state, int64_t sequence); /* -1: all */
    lnt_status (*reserve)(lnt_device_state *state, int64_t tokens); /* NULL: they are of fixed size */
    /* Appends, queries or steps: k and v NULL: nothing is added; q and out NULL: nothing is read. */
    lnt_status (*run)(lnt_device_state *state, const lnt_tensor *q, const lnt_tensor *k,
                      const lnt_tensor *v, const lnt_tensor *out);
    lnt_status (*remove)(lnt_device_state *state, const lnt_tensor *k, const lnt_tensor *v);
    lnt_status (*merge)(lnt_device_state *dst, const lnt_device_state *src);
    lnt_tensor (*tensor)(const lnt_device_state *state, int i); /* of no rows: it has no tensor i */
    size_t (*bytes)(const lnt_device_state *state);
    /* The first rows of every head of tensor i, without gaps, in the library's order and scale. */
    lnt_status (*pack)(const lnt_device_state *state, int i, int64_t rows, void *packed);
    lnt_status (*unpack)(lnt_device_state *state, int i, int64_t rows, const void *packed);
    lnt_status (*tokens)(const lnt_device_state *state, int64_t first, int64_t count, int64_t *out);
    lnt_status (*set_tokens)(lnt_device_state *state, const int64_t *tokens); /* [batch] */
    lnt_status (*report)(lnt_device_state *state, lnt_report *out); /* zeroed */
    const char *(*algorithm)(const lnt_device_state *state); /* that ran last; NULL: none */
} lnt_device_states;

typedef struct lnt_device_ops {
    /* Its memory is the host's: arrays of a run may be looked into, and tensors need not be copied. */
    bool host_memory;
    lnt_status (*describe)(lnt_ctx *ctx, lnt_device_info *info); /* comes zeroed but for size */
    lnt_status (*measure_flops)(lnt_ctx *ctx, lnt_dtype dtype, double *gflops);
    lnt_status (*measure_bandwidth)(lnt_ctx *ctx, size_t bytes, double *gbytes_per_second);

    /* Memory, and the context's stream.  What is copied is there when write and read return. */
    lnt_status (*allocate)(lnt_ctx *ctx, size_t bytes, void **out);
    void (*release)(lnt_ctx *ctx, void *memory, size_t bytes);
    lnt_status (*write)(lnt_ctx *ctx, void *to, const void *from, size_t bytes);
    lnt_status (*read)(lnt_ctx *ctx, void *to, const void *from, size_t bytes);
    lnt_status (*synchronize)(lnt_ctx *ctx); /* NULL: a run has ended when it returns */

    /* Planning.  rated: the rates built into the algorithms are of this device; else only what was
     * calibrated is known, and where that is nothing the device chooses.  Every dtype with a calibration
     * is timed; rate_dtype: which of them tells of p, by an algorithm with a state or without. */
    bool rated;
    lnt_status (*calibration)(lnt_ctx *ctx, lnt_dtype dtype, lnt_calibration *out); /* no heads: none */
    lnt_dtype (*rate_dtype)(const lnt_attn_desc *p, bool by_state);

    const lnt_device_plans *plans;
    const lnt_device_states *states;
    /* Layers follow: one more table, of their passes forward and backward, when a device has them. */
} lnt_device_ops;

struct lnt_device {
    const lnt_device_ops *ops;
    char name[16]; /* "cpu", "cuda:0" */
};

static inline const lnt_device_ops *lnt_device_of(const lnt_ctx *ctx) { return ctx->device->ops; }

/* The sentence and the status where the device does not offer `what`. */
lnt_status lnt_device_lacks(lnt_ctx *ctx, const char *what);

/* Whether what is made from one context can be used with what is made from the other. */
bool lnt_device_same(const lnt_ctx *a, const lnt_ctx *b);

#endif
