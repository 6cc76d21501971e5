/* test_callers.c - what linnet.h promises of threads: contexts are independent, and the hooks of an allocator
 * are called by the thread that calls the library, whatever threads the work is spread over. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "../support/case.h"
#include "linnet/model.h"

enum { CALLERS = 3, N = 65, D = 8 };

typedef struct caller {
    pthread_t self;
    int64_t foreign; /* calls of a hook from another thread */
    float out[2 * N * D], last[2 * D];
    lnt_status status;
    bool trains;
} caller;

static void *allocate(void *user, size_t bytes, size_t alignment)
{
    caller *c = user;
    c->foreign += !pthread_equal(c->self, pthread_self());
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void release(void *user, void *memory, size_t bytes)
{
    caller *c = user;
    (void)bytes;
    c->foreign += !pthread_equal(c->self, pthread_self());
    free(memory);
}

static lnt_status attend(lnt_ctx *ctx, caller *c, lnt_mechanism mechanism)
{
    static const int64_t heads = 2;
    float *x = malloc(3 * sizeof c->out);
    if (!x) return LNT_ERR_MEMORY;
    lnt_tensor t[5];
    for (int i = 0; i < 3; i++)
        t[i] = lnt_tensor_bhnd(x + i * 2 * N * D, LNT_F32, 1, heads, N, D);
    t[3] = lnt_tensor_bhnd(c->out, LNT_F32, 1, heads, N, D);
    t[4] = lnt_tensor_bhnd(c->last, LNT_F32, 1, heads, 1, D);
    lnt_attn_desc desc;
    lnt_plan *plan = NULL;
    lnt_state *state = NULL;
    lnt_status status = lnt_attn_desc_init(&desc, sizeof desc);
    for (int i = 0; i < 3 && !status; i++) status = lnt_tensor_fill_normal(ctx, &t[i], (uint64_t)i, 1);
    desc.mechanism = mechanism;
    desc.heads = heads;
    desc.length_q = N;
    desc.dim = D;
    desc.causal = 1;
    const lnt_attn_io io = { .size = sizeof io, .q = t[0], .k = t[1], .v = t[2], .out = t[3] };
    if (!status) status = lnt_plan_create(ctx, &desc, &plan);
    if (!status) status = lnt_plan_forward(plan, &io);
    if (!status) status = lnt_state_create(ctx, &desc, &state);
    if (!status) status = lnt_state_append(state, &t[1], &t[2]);
    const lnt_tensor final = tensor_rows(&t[0], N - 1, 1);
    if (!status) status = lnt_state_query(state, &final, &t[4]);
    lnt_state_destroy(state);
    lnt_plan_destroy(plan);
    free(x);
    return status;
}

/* Long enough that its sequences go through in lanes, side by side. */
static lnt_status train(lnt_ctx *ctx)
{
    lnt_trainer *trainer;
    lnt_step_report report = { .size = sizeof report };
    const lnt_train_request request = { .size = sizeof request, .task = "copy", .config = "callers.json" };
    lnt_status status = lnt_trainer_create(ctx, &request, &trainer);
    if (status) return status;
    for (int i = 0; i < 2 && !status; i++) status = lnt_trainer_step(trainer, &report);
    lnt_trainer_destroy(trainer);
    return status;
}

static void *run(void *argument)
{
    caller *c = argument;
    lnt_ctx *ctx;
    c->self = pthread_self();
    const lnt_ctx_options options = { .size = sizeof options, .threads = 3,
                                      .allocator = { allocate, release, c } };
    c->status = lnt_ctx_create(&options, &ctx);
    if (c->status) return NULL;
    for (int m = LNT_SOFTMAX; m <= LNT_HYBRID && !c->status; m++)
        if (m != LNT_CUR) c->status = attend(ctx, c, (lnt_mechanism)m);
    if (!c->status && c->trains) c->status = train(ctx);
    lnt_ctx_destroy(ctx);
    return NULL;
}

static void contexts_in_threads_of_their_own_do_not_meet(void **state)
{
    (void)state;
    static caller alone, callers[CALLERS];
    pthread_t threads[CALLERS];
    run(&alone);
    assert_int_equal(alone.status, LNT_OK);
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, &callers[i]), 0);
    for (int i = 0; i < CALLERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < CALLERS; i++) {
        assert_int_equal(callers[i].status, LNT_OK);
        assert_int_equal(callers[i].foreign, 0);
        assert_memory_equal(callers[i].out, alone.out, sizeof alone.out);
        assert_memory_equal(callers[i].last, alone.last, sizeof alone.last);
    }
}

static void training_calls_an_allocator_from_the_thread_that_trains(void **state)
{
    (void)state;
    static caller c = { .trains = true };
    FILE *file = fopen("callers.json", "w");
    assert_non_null(file);
    fputs("{\"model\":{\"dim\":16,\"layers\":1,\"heads\":2,\"length\":129},\"train\":{\"batch\":32}}", file);
    fclose(file);
    run(&c);
    remove("callers.json");
    assert_int_equal(c.status, LNT_OK);
    assert_int_equal(c.foreign, 0);
}

/* One context goes from thread to thread, as long as they take turns. */
static void *step(void *argument)
{
    lnt_state *state = argument;
    float x[4] = { 1, 2, 3, 4 }, y[4];
    const lnt_tensor in = lnt_tensor_bhnd(x, LNT_F32, 1, 1, 1, 4);
    const lnt_tensor out = lnt_tensor_bhnd(y, LNT_F32, 1, 1, 1, 4);
    return lnt_state_step(state, &in, &in, &in, &out) ? state : NULL;
}

static void threads_may_take_turns_with_a_state(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    const attn_case c = case_make(LNT_LINEAR, 1, 1, 1, 1, 4, 4);
    lnt_state *s;
    assert_ok(ctx, lnt_state_create(ctx, &c.desc, &s));
    for (int i = 0; i < CALLERS; i++) {
        pthread_t thread;
        void *failed;
        assert_int_equal(pthread_create(&thread, NULL, step, s), 0);
        assert_int_equal(pthread_join(thread, &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(lnt_state_tokens(s, 0), CALLERS);
    lnt_state_destroy(s);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_in_threads_of_their_own_do_not_meet),
        cmocka_unit_test(training_calls_an_allocator_from_the_thread_that_trains),
        cmocka_unit_test(threads_may_take_turns_with_a_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
