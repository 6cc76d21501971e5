/* test_device_streams.c - what a run owes the stream it was given: it may be captured into a graph and
 * replayed, waits for nothing, runs beside another stream's, and tells what a launch failed of.  It calls
 * CUDA itself, so it is built where the plug-in is.  Where there is no GPU this says so and exits with 77. */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../support/device_backward.h"
#include "../support/shapes.h"

static void must(cudaError_t error, const char *what)
{
    if (error != cudaSuccess) fail_msg("%s: %s", what, cudaGetErrorString(error));
}

/* ---- runs, and what they write --------------------------------------------------------------- */

enum { FORWARD, BACKWARD, STEPS };
static const char *const words[] = { "forward", "backward", "three steps" };

typedef struct problem {
    const char *name;
    attn_case c;
    setup s;
    device_setup d;
    lnt_plan *plan;
    lnt_state *state; /* NULL: the mechanism has none of fixed size */
} problem;

static void problem_open(problem *p, const char *name, attn_case c)
{
    c.desc.kv_heads = 2;
    c.desc.backward = 1;
    p->name = name;
    p->c = c;
    p->s = setup_new(host, &p->c);
    p->d = device_setup_new(device, &p->s);
    p->state = NULL;
    assert_ok(device, lnt_plan_create(device, &c.desc, &p->plan));
    c.desc.algorithm = NULL;
    if (c.desc.mechanism != LNT_SOFTMAX) assert_ok(device, lnt_state_create(device, &c.desc, &p->state));
}

static void problem_close(problem *p)
{
    lnt_state_destroy(p->state);
    lnt_plan_destroy(p->plan);
    device_setup_free(device, &p->d);
    setup_free(&p->s);
}

static lnt_status run(problem *p, int kind, cudaStream_t stream)
{
    lnt_status status = lnt_ctx_set_stream(device, stream);
    assert_ok(device, status);
    if (kind == FORWARD) status = lnt_plan_forward(p->plan, &p->d.t.io);
    if (kind == BACKWARD) status = lnt_plan_backward(p->plan, &p->d.t.io, &p->d.grads);
    for (int64_t i = 0; i < 3 && kind == STEPS && !status; i++) {
        const lnt_tensor q = tensor_rows(&p->d.t.q.t, i, 1), k = tensor_rows(&p->d.t.k.t, i, 1);
        const lnt_tensor v = tensor_rows(&p->d.t.v.t, i, 1), out = tensor_rows(&p->d.t.out.t, i, 1);
        status = lnt_state_step(p->state, &q, &k, &v, &out);
    }
    return status;
}

static void use_default_stream(void) { assert_ok(device, lnt_ctx_set_stream(device, NULL)); }

/* What the run writes: one block, or the three gradients. */
static int written(const problem *p, int kind, const mirror *all[3])
{
    for (int i = 0; i < 3; i++) all[i] = kind == BACKWARD ? &p->d.grad[i] : &p->d.t.out;
    return kind == BACKWARD ? 3 : 1;
}

/* Poisons that, and forgets the state. */
static void prepare(problem *p, int kind)
{
    const mirror *all[3];
    use_default_stream();
    for (int i = written(p, kind, all) - 1; i >= 0; i--) {
        const block *b = all[i]->host;
        memset(b->memory, 0xff, b->bytes);
        assert_ok(device, lnt_device_write(device, all[i]->memory, b->memory, b->bytes));
    }
    if (kind == STEPS) assert_ok(device, lnt_state_reset(p->state, -1));
    assert_ok(device, lnt_ctx_synchronize(device));
}

typedef struct bits {
    unsigned char *data;
    size_t count;
} bits;

static bits read_bits(const problem *p, int kind)
{
    const mirror *all[3];
    bits b = { 0 };
    use_default_stream();
    for (int i = written(p, kind, all) - 1; i >= 0; i--) {
        mirror_read(device, all[i]);
        b.data = realloc(b.data, b.count + all[i]->host->bytes);
        assert_non_null(b.data);
        memcpy(b.data + b.count, all[i]->host->memory, all[i]->host->bytes);
        b.count += all[i]->host->bytes;
    }
    return b;
}

/* Whether the run has written these; the new ones are freed. */
static bool has_bits(const problem *p, int kind, const bits *expected)
{
    const bits now = read_bits(p, kind);
    const bool same = now.count == expected->count && !memcmp(now.data, expected->data, now.count);
    free(now.data);
    return same;
}

static bits run_now(problem *p, int kind)
{
    prepare(p, kind);
    assert_ok(device, run(p, kind, NULL));
    return read_bits(p, kind);
}

static cudaStream_t own_stream(void) /* that does not wait for the default one */
{
    cudaStream_t s;
    must(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "a stream");
    return s;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void draw_again(problem *p)
{
    static uint64_t seed = 900;
    assert_ok(host, lnt_tensor_fill_normal(host, &p->s.t.q.t, seed++, 1));
    assert_ok(host, lnt_tensor_fill_normal(host, &p->s.t.v.t, seed++, 1));
    assert_ok(device, lnt_device_write(device, p->d.t.q.memory, p->s.t.q.memory, p->s.t.q.bytes));
    assert_ok(device, lnt_device_write(device, p->d.t.v.memory, p->s.t.v.memory, p->s.t.v.bytes));
}

/* Captured, then replayed twice over other numbers than it was captured with. */
static void check_graph(problem *p, int kind)
{
    cudaStream_t stream = own_stream();
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    bool same = true;
    free(run_now(p, kind).data); /* kernels are loaded */
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
    assert_ok(device, run(p, kind, stream));
    must(cudaStreamEndCapture(stream, &graph), "capture");
    must(cudaGraphInstantiateWithFlags(&ready, graph, 0), "graph");
    draw_again(p);
    const bits expected = run_now(p, kind);
    for (int turn = 0; turn < 2; turn++) {
        prepare(p, kind);
        must(cudaGraphLaunch(ready, stream), "graph");
        must(cudaStreamSynchronize(stream), "running a graph");
        same = has_bits(p, kind, &expected) && same;
    }
    shapes_claim(name_of("%s %s", p->name, words[kind]), "a graph gives the same bits", same);
    free(expected.data);
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
}

/* ---- launches that fail ---------------------------------------------------------------------- */

/* Into a capture that is no longer valid, where any launch fails; and all is well afterwards. */
static void check_launch_error(problem *p, int kind)
{
    cudaStream_t stream = own_stream();
    cudaGraph_t graph = NULL;
    const bits expected = run_now(p, kind);
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "capture");
    cudaStreamQuery(stream); /* not allowed: the capture is lost */
    cudaGetLastError();
    const lnt_status status = run(p, kind, stream);
    const char *sentence = name_of("%s", lnt_ctx_error(device));
    cudaStreamEndCapture(stream, &graph);
    cudaGetLastError();
    const bool told = status != LNT_OK && strstr(sentence, "captur");
    prepare(p, kind);
    assert_ok(device, run(p, kind, NULL));
    shapes_claim(name_of("%s %s", p->name, words[kind]), told ? sentence : "a failed launch is told",
                 told && has_bits(p, kind, &expected));
    free(expected.data);
    cudaStreamDestroy(stream);
}

/* ---- streams side by side -------------------------------------------------------------------- */

/* A stream whose event is not there until the gate opens; or, so that a run that waits for it ends, until
 * ten seconds have passed. */
typedef struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_open, late;
    cudaStream_t stream;
    cudaEvent_t event;
} gate;

static void CUDART_CB wait_at(void *own)
{
    gate *g = own;
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 10;
    pthread_mutex_lock(&g->mutex);
    while (!g->is_open && !g->late) g->late = pthread_cond_timedwait(&g->changed, &g->mutex, &end) != 0;
    pthread_mutex_unlock(&g->mutex);
}

static void gate_close(gate *g)
{
    *g = (gate){ .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
    g->stream = own_stream();
    must(cudaEventCreateWithFlags(&g->event, cudaEventDisableTiming), "event");
    must(cudaLaunchHostFunc(g->stream, wait_at, g), "a function of the host");
    must(cudaEventRecord(g->event, g->stream), "event");
}

static void gate_open(gate *g)
{
    pthread_mutex_lock(&g->mutex);
    g->is_open = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mutex);
}

static void gate_end(gate *g)
{
    must(cudaStreamSynchronize(g->stream), "a gate");
    cudaEventDestroy(g->event);
    cudaStreamDestroy(g->stream);
}

/* Two streams wait at a gate; runs given to them come back before it opens, and are right after it has. */
static void check_beside(problem *a, problem *b, int kind, int other_kind)
{
    problem *const both[2] = { a, b };
    const int kinds[2] = { kind, other_kind };
    cudaStream_t stream[2];
    bits expected[2];
    gate g;
    bool waited = false, same = true;
    for (int i = 0; i < 2; i++) expected[i] = run_now(both[i], kinds[i]);
    for (int i = 0; i < 2; i++) prepare(both[i], kinds[i]);
    gate_close(&g);
    for (int i = 0; i < 2; i++) {
        stream[i] = own_stream();
        must(cudaStreamWaitEvent(stream[i], g.event, 0), "waiting");
    }
    for (int i = 0; i < 2; i++) assert_ok(device, run(both[i], kinds[i], stream[i]));
    for (int i = 0; i < 2; i++) waited = waited || cudaStreamQuery(stream[i]) != cudaErrorNotReady;
    gate_open(&g);
    for (int i = 0; i < 2; i++) must(cudaStreamSynchronize(stream[i]), "running");
    waited = waited || g.late;
    gate_end(&g);
    for (int i = 0; i < 2; i++) {
        same = has_bits(both[i], kinds[i], &expected[i]) && same;
        free(expected[i].data);
        cudaStreamDestroy(stream[i]);
    }
    const char *name = name_of("%s %s, %s %s", a->name, words[kind], b->name, words[other_kind]);
    shapes_claim(name, "two streams, no run waits", !waited);
    shapes_claim(name, "two streams, the same bits", same);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* One of each way to run. */
enum { WAYS = 6 };

static int open_problems(problem p[WAYS], lnt_dtype dtype)
{
    static const struct {
        const char *names[2]; /* in bf16, in f32 */
        lnt_mechanism mechanism;
        int64_t dim;
        const char *algorithm;
    } ways[WAYS] = { { { "bf16 taylor/state 16", "f32 taylor/state 16" }, LNT_TAYLOR, 16, "state" },
                     { { "bf16 taylor/state 32", "f32 taylor/state 32" }, LNT_TAYLOR, 32, "state" },
                     { { "bf16 taylor/direct 32", "f32 taylor/direct 32" }, LNT_TAYLOR, 32, "direct" },
                     { { "bf16 linear 64", "f32 linear 64" }, LNT_LINEAR, 64, NULL },
                     { { "bf16 softmax 64", "f32 softmax 64" }, LNT_SOFTMAX, 64, NULL },
                     { { "bf16 taylor/state:pairs 32", NULL }, LNT_TAYLOR, 32, "state:pairs" } };
    int count = 0;
    for (int i = 0; i < WAYS; i++) {
        const char *name = ways[i].names[dtype == LNT_F32];
        if (!name) continue;
        attn_case c = shape_make(ways[i].mechanism, 4, ways[i].dim, 700, dtype);
        c.desc.algorithm = ways[i].algorithm;
        problem_open(&p[count++], name, c);
    }
    return count;
}

static void runs_keep_what_they_owe_a_stream(lnt_dtype dtype)
{
    problem p[WAYS];
    const int count = open_problems(p, dtype);
    for (int i = 0; i < count; i++)
        for (int kind = FORWARD; kind <= (p[i].state ? STEPS : BACKWARD); kind++) {
            check_graph(&p[i], kind);
            check_launch_error(&p[i], kind);
        }
    for (int i = 0; i < count; i++) {
        problem *other = &p[(i + 1) % count];
        check_beside(&p[i], other, FORWARD, FORWARD);
        check_beside(&p[i], other, BACKWARD, BACKWARD);
        if (p[i].state) check_beside(&p[i], other, STEPS, FORWARD);
    }
    use_default_stream();
    for (int i = 0; i < count; i++) problem_close(&p[i]);
    shapes_end();
}

static void in_bf16(void **state)
{
    (void)state;
    if (shapes_begin("in_bf16")) runs_keep_what_they_owe_a_stream(LNT_BF16);
}

static void in_f32(void **state)
{
    (void)state;
    if (shapes_begin("in_f32")) runs_keep_what_they_owe_a_stream(LNT_F32);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(in_bf16), cmocka_unit_test(in_f32) };
    shapes_select(argc, argv);
    if (!device_open()) return DEVICE_MISSING;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close();
    return failed;
}
