/* fake.c - a plug-in without a GPU: the table of device/plugin.h over the library's own CPU plans and
 * states, so that all that stands between a caller and a plug-in is tested where there is no device.
 *
 * Its memory is at addresses that fault when the host follows them, as a GPU's would. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/taylor/basis.h"
#include "attention/state/state.h"
#include "core/tensor.h"
#include "device/plugin.h"
#include "plan/plan.h"

struct lnt_cuda_device {
    lnt_ctx *ctx;
    char sentence[600];
};

struct lnt_cuda_plan {
    lnt_cuda_device *device;
    lnt_attn_desc p;
    lnt_plan *plan;
    lnt_state *own; /* one sequence, for its problem; NULL: the mechanism has none */
    int64_t nonpositive;
    const char *algorithm;
};

/* Of the workspace, which is only filled. */
enum { FORWARD_BYTES = 640, BACKWARD_BYTES = 1280, FORWARD_LEAVES = 0x7f };

/* ---- memory ---------------------------------------------------------------------------------- */

static const uintptr_t away = (uintptr_t)1 << 50; /* past what a process can address */

static void *to_device(void *p) { return (void *)((uintptr_t)p + away); }
static void *to_host(const void *p) { return p ? (void *)((uintptr_t)p - away) : NULL; }

static lnt_status told(lnt_cuda_device *d, lnt_status status)
{
    if (status) snprintf(d->sentence, sizeof d->sentence, "fake: %s", lnt_ctx_error(d->ctx));
    return status;
}

static lnt_status refuse(lnt_cuda_device *d, const char *sentence)
{
    snprintf(d->sentence, sizeof d->sentence, "fake: %s", sentence);
    return LNT_ERR_UNSUPPORTED;
}

/* A stream on which everything fails, as launches may. */
static const uintptr_t bad_stream = 13;

static lnt_status use_stream(lnt_cuda_device *d, const void *stream)
{
    return (uintptr_t)stream == bad_stream ? refuse(d, "a launch failed on stream 13") : LNT_OK;
}

static lnt_status allocate(lnt_cuda_device *d, size_t bytes, void **out)
{
    (void)d;
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) return LNT_ERR_MEMORY;
    memset(memory, 0xff, bytes); /* NaN */
    *out = to_device(memory);
    return LNT_OK;
}

static void release(lnt_cuda_device *d, void *memory)
{
    (void)d;
    free(to_host(memory));
}

static lnt_status copy_in(lnt_cuda_device *d, void *to, const void *from, size_t bytes, void *stream)
{
    memcpy(to_host(to), from, bytes);
    return use_stream(d, stream);
}

static lnt_status copy_out(lnt_cuda_device *d, void *to, const void *from, size_t bytes,
                           void *stream)
{
    memcpy(to, to_host(from), bytes);
    return use_stream(d, stream);
}

static lnt_status copy(lnt_cuda_device *d, void *to, const void *from, size_t bytes, void *stream)
{
    memmove(to_host(to), to_host(from), bytes);
    return use_stream(d, stream);
}

static lnt_status clear(lnt_cuda_device *d, void *memory, size_t bytes, void *stream)
{
    memset(to_host(memory), 0, bytes);
    return use_stream(d, stream);
}

static lnt_status synchronize(lnt_cuda_device *d, void *stream) { return use_stream(d, stream); }

/* ---- device ---------------------------------------------------------------------------------- */

static lnt_status open_fake(int ordinal, const lnt_cuda_struct *structs, lnt_cuda_device **out,
                            char *sentence, size_t capacity)
{
    *out = NULL;
    if (lnt_cuda_misfit(structs) >= 0) {
        snprintf(sentence, capacity, "the library has another %s",
                 lnt_cuda_structs[lnt_cuda_misfit(structs)].name);
        return LNT_ERR_UNSUPPORTED;
    }
    if (ordinal != 0) {
        snprintf(sentence, capacity, "there is no device %d", ordinal);
        return LNT_ERR_UNSUPPORTED;
    }
    lnt_cuda_device *d = calloc(1, sizeof *d);
    const lnt_ctx_options options = { .size = sizeof options, .threads = 2 };
    if (!d || lnt_ctx_create(&options, &d->ctx)) {
        free(d);
        return LNT_ERR_MEMORY;
    }
    *out = d;
    return LNT_OK;
}

static void close_fake(lnt_cuda_device *d)
{
    lnt_ctx_destroy(d->ctx);
    free(d);
}

static const char *error(const lnt_cuda_device *d) { return d->sentence; }

static lnt_status describe(lnt_cuda_device *d, lnt_cuda_info *info)
{
    (void)d;
    *info = (lnt_cuda_info){ .size = sizeof *info, .name = "no GPU at all", .major = 8 };
    return LNT_OK;
}

static lnt_status measure_flops(lnt_cuda_device *d, lnt_dtype dtype, double *gflops)
{
    return told(d, lnt_measure_flops(d->ctx, dtype, gflops));
}

/* Of fewer bytes than would fill a GPU: it is none. */
static lnt_status measure_bandwidth(lnt_cuda_device *d, size_t bytes, double *gbytes)
{
    const size_t enough = 1 << 20;
    return told(d, lnt_measure_bandwidth(d->ctx, bytes < enough ? bytes : enough, gbytes));
}

/* ---- plans ----------------------------------------------------------------------------------- */

static const char *algorithm_for(const lnt_attn_desc *p)
{
    if (p->mechanism == LNT_SOFTMAX) return "softmax/tiled";
    if (p->mechanism == LNT_LINEAR) return "linear/chunked";
    if (p->mechanism == LNT_CUR) return "cur/flash";
    const bool stateless = p->taylor.terms > 4 && p->dim > 16;
    return stateless || (p->algorithm && strstr(p->algorithm, "direct")) ? "taylor/direct"
                                                                         : "taylor/state";
}

static void plan_destroy(lnt_cuda_plan *plan)
{
    lnt_plan_destroy(plan->plan);
    lnt_state_destroy(plan->own);
    free(plan);
}

static lnt_status plan_create(lnt_cuda_device *d, const lnt_attn_desc *desc, lnt_cuda_plan **out)
{
    *out = NULL;
    if (desc->mechanism == LNT_HYBRID) return refuse(d, "hybrid is not offered");
    if (desc->taylor.center || desc->taylor.center_mean) return refuse(d, "centred keys are not offered");
    if (desc->compensated) return refuse(d, "compensated sums are not offered");
    if (desc->backward && desc->mechanism == LNT_CUR) return refuse(d, "cur has no backward");
    if (desc->dtype == LNT_F64) return refuse(d, "f64 is not offered");
    const char *form = desc->algorithm ? strchr(desc->algorithm, ':') : NULL;
    if (form && strcmp(form, ":plain") != 0) return refuse(d, "no such form here; plain would do");
    if (desc->mechanism == LNT_LINEAR && desc->linear.feature_map > LNT_MAP_IDENTITY)
        return refuse(d, "random maps are not offered");
    lnt_cuda_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return LNT_ERR_MEMORY;
    plan->device = d;
    plan->p = *desc;
    plan->algorithm = algorithm_for(desc);
    lnt_attn_desc p = *desc;
    p.algorithm = plan->algorithm;
    lnt_status status = told(d, lnt_plan_create(d->ctx, &p, &plan->plan));
    p.batch = 1;
    if (!status && (desc->mechanism == LNT_LINEAR || desc->mechanism == LNT_TAYLOR))
        status = told(d, lnt_state_make(d->ctx, &p, 0, &plan->own));
    if (status) {
        plan_destroy(plan);
        return status;
    }
    *out = plan;
    return LNT_OK;
}

static int64_t features(const lnt_cuda_plan *plan)
{
    return plan->own ? lnt_problem_width(&plan->own->work.p) : 0;
}

static lnt_status plan_describe(const lnt_cuda_plan *plan, lnt_cuda_plan_info *info)
{
    const size_t numbers = (size_t)(plan->p.kv_heads * features(plan) * (plan->p.dim_value + 1));
    *info = (lnt_cuda_plan_info){ .size = sizeof *info,
                                  .algorithm = plan->algorithm,
                                  .form = "plain",
                                  .form_backward = plan->p.backward ? "plain" : "",
                                  .workspace_bytes = FORWARD_BYTES,
                                  .backward_bytes = plan->p.backward ? BACKWARD_BYTES : 0,
                                  .leaves = plan->p.backward,
                                  .segment = 128,
                                  .features = features(plan),
                                  .state_bytes = numbers * sizeof(float) };
    return LNT_OK;
}

static lnt_status nonpositive(lnt_cuda_plan *plan, void *stream, int64_t *out)
{
    *out = plan->nonpositive;
    return use_stream(plan->device, stream);
}

static lnt_status set_temperature(lnt_cuda_plan *plan, const double *temperature, void *stream)
{
    const lnt_status status = use_stream(plan->device, stream);
    return status ? status : told(plan->device, lnt_plan_set_temperature(plan->plan, temperature));
}

/* ---- states ---------------------------------------------------------------------------------- */

static int64_t slot_of(const lnt_cuda_states *states, int64_t b)
{
    const int64_t *index = to_host(states->index);
    return index ? index[b] : b;
}

/* Of monomial f; 0 where features are none. */
static double degree_of(const lnt_cuda_plan *plan, int64_t f)
{
    const lnt_attn_desc *p = &plan->own->work.p;
    int64_t degree = 0;
    while (p->mechanism == LNT_TAYLOR && f >= lnt_basis_size(p->dim, degree + 1)) degree++;
    return (double)degree;
}

/* Numbers between a state of the library and slots of the plug-in. */
static void exchange(lnt_cuda_plan *plan, lnt_state *state, const lnt_cuda_states *slots, bool in)
{
    const int64_t K = plan->p.kv_heads, D = features(plan), m = plan->p.dim_value;
    float *s = to_host(slots->s), *z = to_host(slots->z);
    int64_t *tokens = to_host(slots->tokens);
    if (!in) lnt_state_settle(state);
    const double root = sqrt(lnt_taylor_score_factor(&state->work.p));
    for (int64_t b = 0; b < state->work.p.batch; b++) {
        const int64_t slot = slot_of(slots, b);
        if (in) state->tokens[b] = tokens[slot];
        else tokens[slot] = state->tokens[b];
        for (int64_t h = 0; h < K; h++) {
            float *to_z = (void *)lnt_tensor_row(&state->tensor[LNT_STATE_Z], b, h, 0);
            float *from_z = z + (slot * K + h) * D;
            for (int64_t f = 0; f < D; f++) {
                /* keys of length 1 there, those times d^(1/4) here */
                const float up = (float)pow(root, degree_of(plan, f));
                if (in) to_z[f] = from_z[f] * up;
                else from_z[f] = to_z[f] / up;
                float *to_s = (void *)lnt_tensor_row(&state->tensor[LNT_STATE_S], b, h, f);
                float *from_s = s + ((slot * K + h) * D + f) * m;
                for (int64_t c = 0; c < m; c++) {
                    if (in) to_s[c] = from_s[c] * up;
                    else from_s[c] = to_s[c] / up;
                }
            }
        }
    }
}

static lnt_status make_state(lnt_cuda_plan *plan, int64_t batch, lnt_state **out)
{
    lnt_attn_desc p = plan->own->work.p;
    p.batch = batch;
    return told(plan->device, lnt_state_make(plan->device->ctx, &p, 0, out));
}

static lnt_tensor host_view(lnt_tensor t)
{
    t.data = to_host(t.data);
    return t;
}

static lnt_status use_workspace(lnt_cuda_plan *plan, const lnt_cuda_io *io, size_t bytes, int filling)
{
    if (io->workspace_bytes < bytes) return refuse(plan->device, "the workspace is too small");
    memset(to_host(io->workspace), filling, bytes);
    return use_stream(plan->device, io->stream);
}

static lnt_attn_io host_io(const lnt_cuda_io *io)
{
    return (lnt_attn_io){ .size = sizeof(lnt_attn_io),
                          .q = host_view(io->q),
                          .k = host_view(io->k),
                          .v = host_view(io->v),
                          .out = host_view(io->out),
                          .lengths_q = to_host(io->lengths_q),
                          .lengths_k = to_host(io->lengths_k) };
}

/* A state of the library like those of the slots, with their numbers if `in`; NULL for none. */
static lnt_status host_state(lnt_cuda_plan *plan, int64_t batch, const lnt_cuda_states *slots,
                             bool in, lnt_state **out)
{
    *out = NULL;
    if (!slots) return LNT_OK;
    const lnt_status status = make_state(plan, batch, out);
    if (!status && in) exchange(plan, *out, slots, true);
    return status;
}

static lnt_status forward(lnt_cuda_plan *plan, const lnt_cuda_io *io)
{
    lnt_attn_io run = host_io(io);
    lnt_state *in = NULL, *out = NULL;
    lnt_status status = use_workspace(plan, io, FORWARD_BYTES, FORWARD_LEAVES);
    if (!status) status = host_state(plan, io->k.shape[0], io->state_in, true, &in);
    if (!status) status = host_state(plan, io->k.shape[0], io->state_out, false, &out);
    run.state_in = in;
    run.state_out = out;
    if (!status) status = told(plan->device, lnt_plan_forward(plan->plan, &run));
    if (!status && out) exchange(plan, out, io->state_out, false);
    lnt_report report = { .size = sizeof report };
    if (!status) status = told(plan->device, lnt_plan_report(plan->plan, &report));
    plan->nonpositive += report.nonpositive;
    lnt_state_destroy(in);
    lnt_state_destroy(out);
    return status;
}

/* The library's gradient of the temperatures is in double, the plug-in's is not. */
static lnt_status run_backward(lnt_cuda_plan *plan, const lnt_attn_io *run, lnt_attn_grads *given,
                               float *dtemperature)
{
    const size_t heads = (size_t)plan->p.heads;
    double *wide = calloc(heads, sizeof *wide);
    if (!wide) return LNT_ERR_MEMORY;
    if (dtemperature) given->dtemperature = wide;
    const lnt_status status = told(plan->device, lnt_plan_backward(plan->plan, run, given));
    for (size_t h = 0; h < heads && dtemperature; h++) dtemperature[h] = (float)wide[h];
    free(wide);
    return status;
}

static lnt_status backward(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_grads *grads)
{
    const int64_t batch = io->k.shape[0];
    lnt_attn_io run = host_io(io);
    lnt_attn_grads given = { .size = sizeof given,
                             .dout = host_view(grads->dout),
                             .dq = host_view(grads->dq),
                             .dk = host_view(grads->dk),
                             .dv = host_view(grads->dv) };
    lnt_state *in = NULL, *after = NULL, *before = NULL;
    const unsigned char *left = to_host(io->workspace); /* by forward, where after_forward says so */
    lnt_status status = LNT_OK;
    if (grads->after_forward && (left[0] != FORWARD_LEAVES || left[FORWARD_BYTES - 1] != FORWARD_LEAVES))
        status = refuse(plan->device, "after_forward, but forward has not run in this workspace");
    if (!status) status = use_workspace(plan, io, BACKWARD_BYTES, 0x3f);
    if (!status) status = host_state(plan, batch, io->state_in, true, &in);
    if (!status) status = host_state(plan, batch, grads->dstate_out, true, &after);
    if (!status) status = host_state(plan, batch, grads->dstate_in, false, &before);
    run.out.data = NULL; /* backward does not use it */
    run.state_in = in;
    given.dstate_out = after;
    given.dstate_in = before;
    if (!status) status = run_backward(plan, &run, &given, to_host(grads->dtemperature));
    if (!status && before) exchange(plan, before, grads->dstate_in, false);
    lnt_state_destroy(in);
    lnt_state_destroy(after);
    lnt_state_destroy(before);
    return status;
}

static lnt_status step(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_states *slots,
                       int what)
{
    const bool adds = what & LNT_CUDA_APPEND, reads = what & LNT_CUDA_QUERY;
    const lnt_tensor q = host_view(io->q), k = host_view(io->k), v = host_view(io->v),
                     out = host_view(io->out);
    lnt_state *state;
    lnt_status status = use_stream(plan->device, io->stream);
    if (!status) status = make_state(plan, adds ? k.shape[0] : q.shape[0], &state);
    if (status) return status;
    exchange(plan, state, slots, true);
    if (adds && reads) status = lnt_state_step(state, &q, &k, &v, &out);
    else if (adds) status = lnt_state_append(state, &k, &v);
    else status = lnt_state_query(state, &q, &out);
    status = told(plan->device, status);
    if (!status && adds) exchange(plan, state, slots, false);
    lnt_report report = { .size = sizeof report };
    if (!status) status = told(plan->device, lnt_state_report(state, &report));
    plan->nonpositive += report.nonpositive;
    lnt_state_destroy(state);
    return status;
}

static lnt_status state_reset(lnt_cuda_plan *plan, const lnt_cuda_states *slots, int64_t slot,
                              void *stream)
{
    const size_t rows = (size_t)(plan->p.kv_heads * features(plan)), m = (size_t)plan->p.dim_value;
    memset((float *)to_host(slots->s) + (size_t)slot * rows * m, 0, rows * m * sizeof(float));
    memset((float *)to_host(slots->z) + (size_t)slot * rows, 0, rows * sizeof(float));
    ((int64_t *)to_host(slots->tokens))[slot] = 0;
    return use_stream(plan->device, stream);
}

static const lnt_cuda_api table = {
    .abi = LNT_CUDA_ABI,
    .structs = lnt_cuda_structs,
    .open = open_fake,
    .close = close_fake,
    .error = error,
    .describe = describe,
    .measure_flops = measure_flops,
    .measure_bandwidth = measure_bandwidth,
    .allocate = allocate,
    .release = release,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .clear = clear,
    .synchronize = synchronize,
    .plan_create = plan_create,
    .plan_destroy = plan_destroy,
    .plan_describe = plan_describe,
    .forward = forward,
    .backward = backward,
    .step = step,
    .state_reset = state_reset,
    .nonpositive = nonpositive,
    .copy = copy,
    .set_temperature = set_temperature,
};

const lnt_cuda_api *lnt_cuda_plugin(int abi) { return abi == LNT_CUDA_ABI ? &table : NULL; }
