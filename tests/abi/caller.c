/* caller.c - a program compiled with the headers of the first release of this soname and run with the present
 * library: it asks for much and checks what it gets by hand. */
#include <stdio.h>
#include <stdlib.h>

#include "linnet.h"
#include "linnet/model.h"

static lnt_ctx *ctx;

#define MUST(call)                                                                            \
    do {                                                                                      \
        if ((call) != LNT_OK) {                                                               \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, lnt_ctx_error(ctx));        \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

#define HOLDS(claim)                                                                          \
    do {                                                                                      \
        if (!(claim)) {                                                                       \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #claim);                       \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

static int near(double a, double b) { return a - b < 1e-5 && b - a < 1e-5; }

enum { H = 2, N = 4, D = 4, ALL = H * N * D };

static lnt_tensor view(float *data, int64_t length)
{
    return lnt_tensor_bhnd(data, LNT_F32, 1, H, length, D);
}

static void fill(float *x, uint64_t seed)
{
    const lnt_tensor t = view(x, N);
    MUST(lnt_tensor_fill_normal(ctx, &t, seed, 1));
}

static lnt_attn_desc describe(lnt_mechanism mechanism)
{
    lnt_attn_desc desc;
    MUST(lnt_attn_desc_init(&desc, sizeof desc));
    desc.mechanism = mechanism;
    desc.heads = H;
    desc.length_q = N;
    desc.dim = D;
    desc.causal = mechanism != LNT_CUR;
    desc.backward = 1;
    desc.cur.landmarks = 2;
    desc.linear.feature_map = LNT_MAP_RELU;
    desc.linear.eps = 1e-3;
    desc.taylor.terms = 3;
    desc.hybrid.window = 2;
    return desc;
}

/* A plan against the oracle, and its gradient against a difference. */
static void run_plan(lnt_mechanism mechanism)
{
    float q[ALL], k[ALL], v[ALL], out[ALL], dout[ALL], dq[ALL], dk[ALL], dv[ALL];
    lnt_plan *plan;
    const lnt_attn_desc desc = describe(mechanism);
    lnt_plan_info info = { .size = sizeof info };
    const lnt_attn_io io = { .size = sizeof io, .q = view(q, N), .k = view(k, N), .v = view(v, N),
                             .out = view(out, N) };
    const lnt_attn_grads grads = { .size = sizeof grads, .dout = view(dout, N), .dq = view(dq, N),
                                   .dk = view(dk, N), .dv = view(dv, N) };
    fill(q, 1), fill(k, 2), fill(v, 3), fill(dout, 4);
    MUST(lnt_plan_create(ctx, &desc, &plan));
    MUST(lnt_plan_describe(plan, &info));
    HOLDS(info.size == sizeof info && info.algorithm && info.flops > 0);
    MUST(lnt_plan_forward(plan, &io));
    MUST(lnt_plan_backward(plan, &io, &grads));
    for (int64_t i = 0; i < N; i++) {
        double row[D];
        MUST(lnt_reference_row(ctx, &desc, &io, 0, 1, i, row));
        for (int64_t c = 0; c < D; c++) HOLDS(near(lnt_tensor_get(&io.out, 0, 1, i, c), row[c]));
    }
    double sum = 0; /* y is linear in v: dv.v = dout.y */
    for (int i = 0; i < ALL; i++) sum += (double)(dv[i] * v[i]) - (double)(dout[i] * out[i]);
    HOLDS(near(sum / ALL, 0));
    lnt_plan_destroy(plan);
}

/* Token by token, and from a file, as all at once. */
static void run_state(lnt_mechanism mechanism)
{
    float q[ALL], k[ALL], v[ALL], all[ALL], one[H * D];
    const lnt_attn_desc desc = describe(mechanism);
    lnt_state *state, *fork;
    const lnt_tensor Q = view(q, N), K = view(k, N), V = view(v, N), Y = view(all, N), last = view(one, 1);
    fill(q, 1), fill(k, 2), fill(v, 3);
    MUST(lnt_state_create(ctx, &desc, &state));
    MUST(lnt_state_step(state, &Q, &K, &V, &Y));
    HOLDS(lnt_state_tokens(state, 0) == N && lnt_state_bytes(state) > 0);
    MUST(lnt_state_save(state, "caller.safetensors"));
    MUST(lnt_state_load(ctx, &desc, "caller.safetensors", &fork));
    lnt_tensor final = Q;
    final.shape[2] = 1;
    final.data = q + (N - 1) * D;
    MUST(lnt_state_query(fork, &final, &last));
    for (int64_t h = 0; h < H; h++)
        for (int64_t c = 0; c < D; c++)
            HOLDS(near(lnt_tensor_get(&last, 0, h, 0, c), lnt_tensor_get(&Y, 0, h, N - 1, c)));
    MUST(lnt_state_reset(fork, -1));
    HOLDS(lnt_state_tokens(fork, 0) == 0);
    lnt_state_destroy(fork);
    lnt_state_destroy(state);
    remove("caller.safetensors");
}

/* Half of the keys each, added and divided. */
static void run_partial(void)
{
    float q[ALL], k[ALL], v[ALL], num[2][ALL], den[2][H * N], max[2][H * N], out[ALL];
    lnt_attn_desc desc = describe(LNT_SOFTMAX);
    lnt_plan *plan;
    lnt_partial part[2];
    desc.causal = desc.backward = 0;
    fill(q, 1), fill(k, 2), fill(v, 3);
    MUST(lnt_plan_create(ctx, &desc, &plan));
    lnt_attn_io io = { .size = sizeof io, .q = view(q, N), .k = view(k, N), .v = view(v, N),
                       .out = view(out, N) };
    for (int i = 0; i < 2; i++) {
        lnt_attn_io half = io;
        part[i] = (lnt_partial){ .size = sizeof part[i], .num = view(num[i], N),
                                 .den = lnt_tensor_bhnd(den[i], LNT_F32, 1, H, N, 1),
                                 .max = lnt_tensor_bhnd(max[i], LNT_F32, 1, H, N, 1) };
        half.k.shape[2] = half.v.shape[2] = N / 2;
        half.k.data = k + i * N / 2 * D;
        half.v.data = v + i * N / 2 * D;
        MUST(lnt_plan_partial(plan, &half, &part[i]));
    }
    MUST(lnt_plan_forward(plan, &io));
    MUST(lnt_partial_merge(ctx, &part[0], &part[1]));
    MUST(lnt_partial_finish(ctx, &part[0], 0, &part[0].num));
    for (int i = 0; i < ALL; i++) HOLDS(near((double)num[0][i], (double)out[i]));
    lnt_plan_destroy(plan);
}

static void run_model(void)
{
    lnt_model *model;
    lnt_session *session;
    lnt_model_info info = { .size = sizeof info };
    const lnt_model_request request = { .size = sizeof request, .task = "copy", .seed = 7,
        .text = "{\"model\":{\"dim\":8,\"layers\":1,\"heads\":1,\"length\":9}}" };
    const lnt_sampling sampling = { .size = sizeof sampling, .temperature = 1, .top_p = 1, .seed = 3 };
    int32_t token = 1;
    MUST(lnt_model_create(ctx, &request, &model));
    MUST(lnt_model_describe(model, &info));
    HOLDS(info.generates == 1 && info.layers == 1 && info.length == 9);
    MUST(lnt_session_create(model, 1, &session));
    MUST(lnt_session_forward(session, &token, 1));
    MUST(lnt_session_sample(session, &sampling, &token));
    HOLDS(token >= 0 && token < info.outputs && lnt_session_tokens(session) == 1);
    lnt_session_destroy(session);
    lnt_model_destroy(model);
}

int main(void)
{
    const lnt_ctx_options options = { .size = sizeof options, .threads = 1 };
    if (lnt_ctx_create(&options, &ctx)) return 1;
    lnt_device_info device = { .size = sizeof device };
    MUST(lnt_device_describe(ctx, &device));
    HOLDS(device.name[0]);
    for (int m = LNT_SOFTMAX; m <= LNT_HYBRID; m++) run_plan((lnt_mechanism)m);
    run_state(LNT_SOFTMAX), run_state(LNT_LINEAR), run_state(LNT_TAYLOR), run_state(LNT_HYBRID);
    run_partial();
    run_model();
    lnt_ctx_destroy(ctx);
    return 0;
}
