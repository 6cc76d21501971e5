/* test_training.c - training: the same bits for any number of threads and after an interruption, a
 * loss that falls, checkpoints that notice damage, and sentences about what cannot be. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/tiles/tiles.h"
#include "model/model.h"
#include "support.h"
#include "train/products.h"
#include "train/trainer.h"

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static const char small[] =
    "{\"model\":{\"dim\":32,\"layers\":2,\"heads\":4,\"length\":24,\"dropout\":0.1,\"drop_path\":"
    "0.1},\"train\":{\"steps\":12,\"batch\":6,\"accumulate\":2,\"rate\":0.003,\"warmup\":3},"
    "\"task\":{\"symbols\":5}}";

/* For cur, which sees whole sequences. */
static const char lists[] =
    "{\"model\":{\"dim\":32,\"layers\":2,\"heads\":4,\"dropout\":0.1,\"attention\":{"
    "\"landmarks\":6,\"select\":\"abs\",\"pinv\":\"ridge\"}},\"train\":{\"steps\":12,"
    "\"batch\":6,\"accumulate\":2,\"warmup\":3},"
    "\"task\":{\"shortest\":8,\"longest\":24,\"depth\":3}}";

static lnt_train_request request_of(const char *task, const char *config)
{
    return (lnt_train_request){ .size = sizeof(lnt_train_request), .task = task, .config = config };
}

static lnt_trainer *start(lnt_ctx *ctx, const char *mechanism)
{
    lnt_trainer *t;
    const bool whole = !strcmp(mechanism, lnt_mechanism_name(LNT_CUR));
    lnt_train_request r = request_of(whole ? "listops" : "copy", whole ? "lists.json" : "small.json");
    r.mechanism = mechanism;
    assert_ok(ctx, lnt_trainer_create(ctx, &r, &t));
    return t;
}

static lnt_step_report run(lnt_ctx *ctx, lnt_trainer *t, int steps)
{
    lnt_step_report report = { .size = sizeof report };
    for (int i = 0; i < steps; i++) assert_ok(ctx, lnt_trainer_step(t, &report));
    return report;
}

static void assert_same_weights(const lnt_trainer *a, const lnt_trainer *b)
{
    const lnt_model *x = lnt_trainer_model(a), *y = lnt_trainer_model(b);
    assert_int_equal(x->layout.size, y->layout.size);
    assert_memory_equal(x->weights, y->weights, x->layout.size * sizeof(float));
}

static void any_number_of_threads_trains_to_the_same_bits(void **state)
{
    (void)state;
    write_text("small.json", small);
    write_text("lists.json", lists);
    for (int m = 0; lnt_mechanism_name((lnt_mechanism)m); m++) {
        lnt_ctx *one = context_new(1, NULL), *three = context_new(3, NULL);
        lnt_trainer *a = start(one, lnt_mechanism_name((lnt_mechanism)m));
        lnt_trainer *b = start(three, lnt_mechanism_name((lnt_mechanism)m));
        const lnt_step_report x = run(one, a, 5), y = run(three, b, 5);
        assert_true(x.loss == y.loss && x.gradient == y.gradient);
        assert_same_weights(a, b);
        lnt_trainer_destroy(a);
        lnt_trainer_destroy(b);
        lnt_ctx_destroy(one);
        lnt_ctx_destroy(three);
    }
}

/* The same config, with "compute" as given. */
static lnt_status computing(lnt_ctx *ctx, const char *compute, lnt_trainer **out)
{
    char text[600];
    snprintf(text, sizeof text,
             "{\"model\":{\"dim\":48,\"layers\":2,\"heads\":4,\"length\":40},\"train\":{\"steps\":60,"
             "\"batch\":8,\"rate\":0.003,\"warmup\":5,\"compute\":\"%s\"},\"task\":{\"symbols\":5}}",
             compute);
    write_text("compute.json", text);
    const lnt_train_request r = request_of("copy", "compute.json");
    return lnt_trainer_create(ctx, &r, out);
}

/* The length of the gradients' difference, in parts of that of y. */
static double gradients_apart(const lnt_trainer *x, const lnt_trainer *y)
{
    double apart = 0, size = 0;
    for (size_t i = 0; i < lnt_trainer_model(x)->layout.size; i++) {
        const double a = (double)x->grads[i], b = (double)y->grads[i];
        apart += (a - b) * (a - b);
        size += b * b;
    }
    return sqrt(apart / size);
}

static void training_in_bf16_follows_f32_or_is_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL), *one = context_new(1, NULL);
    lnt_trainer *exact, *rounded, *again;
    if (!lnt_tile_kernels_get(ctx->isa)) {
        assert_refused(ctx, computing(ctx, "bf16", &rounded), LNT_ERR_UNSUPPORTED,
                       "train.compute is bf16, which needs AMX");
        lnt_ctx_destroy(ctx), lnt_ctx_destroy(one);
        return;
    }
    assert_ok(ctx, computing(ctx, "f32", &exact));
    assert_ok(ctx, computing(ctx, "bf16", &rounded));
    assert_ok(one, computing(one, "bf16", &again));
    for (int step = 0; step < 60; step++) {
        const lnt_step_report x = run(ctx, exact, 1), y = run(ctx, rounded, 1), z = run(one, again, 1);
        if (step == 0) {
            const double apart = gradients_apart(rounded, exact);
            if (!(apart > 1e-4 && apart < 0.02)) fail_msg("gradients are %g apart", apart);
        }
        if (!(fabs(y.loss / x.loss - 1) < 0.05))
            fail_msg("step %d: the loss is %g, of f32 %g", step, y.loss, x.loss);
        assert_true(y.loss == z.loss && y.gradient == z.gradient);
    }
    assert_same_weights(rounded, again);
    lnt_trainer_destroy(exact), lnt_trainer_destroy(rounded), lnt_trainer_destroy(again);
    lnt_ctx_destroy(ctx), lnt_ctx_destroy(one);
}

static void a_run_that_was_interrupted_ends_with_the_same_bits(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    lnt_trainer *whole = start(ctx, "linear"), *first = start(ctx, "linear"), *second;
    run(ctx, whole, 9);
    run(ctx, first, 4);
    assert_ok(ctx, lnt_trainer_save(first, "checkpoint.safetensors"));
    run(ctx, first, 2); /* lost when the run is killed */
    lnt_trainer_destroy(first);
    assert_ok(ctx, lnt_trainer_resume(ctx, "checkpoint.safetensors", NULL, 0, &second));
    lnt_trainer_info info = { .size = sizeof info };
    assert_ok(ctx, lnt_trainer_describe(second, &info));
    assert_true(info.step == 4 && info.steps == 12);
    run(ctx, second, 5);
    assert_same_weights(whole, second);
    lnt_trainer_destroy(whole);
    lnt_trainer_destroy(second);
    lnt_ctx_destroy(ctx);
}

static void a_checkpoint_remembers_the_dtype_of_the_model(void **state)
{
    (void)state;
    static const lnt_dtype dtypes[] = { LNT_BF16, LNT_F32 };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_trainer *t = start(ctx, "linear");
    assert_true(lnt_trainer_dtype(t) == LNT_F32);
    for (int i = 0; i < COUNT_OF(dtypes); i++) {
        assert_ok(ctx, lnt_trainer_set_dtype(t, dtypes[i]));
        assert_refused(ctx, lnt_trainer_set_dtype(t, LNT_F64), LNT_ERR_DTYPE, "is f64, must be f32 or bf16");
        assert_ok(ctx, lnt_trainer_save(t, "checkpoint.safetensors"));
        lnt_trainer_destroy(t);
        assert_ok(ctx, lnt_trainer_resume(ctx, "checkpoint.safetensors", NULL, 0, &t));
        assert_true(lnt_trainer_dtype(t) == dtypes[i]);
    }
    lnt_trainer_destroy(t);
    lnt_ctx_destroy(ctx);
}

static void a_checkpoint_after_more_steps_than_can_be_is_refused(void **state)
{
    (void)state;
    static const char *const steps[] = { "1000000001", "9223372036854775807", "-1" };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_trainer *t = start(ctx, "linear");
    lnt_safetensors st;
    assert_ok(ctx, lnt_trainer_save(t, "checkpoint.safetensors"));
    lnt_trainer_destroy(t);
    assert_ok(ctx, lnt_safetensors_read(ctx, "checkpoint.safetensors", &st));
    for (int i = 0; i < COUNT_OF(steps); i++) {
        for (size_t m = 0; m < st.meta_count; m++)
            if (!strcmp(st.meta[m].key, "step")) st.meta[m].value = steps[i];
        assert_ok(ctx, lnt_safetensors_write(ctx, "checkpoint.safetensors", st.entries, st.entry_count,
                                             st.meta, st.meta_count));
        assert_refused(ctx, lnt_trainer_resume(ctx, "checkpoint.safetensors", NULL, 0, &t),
                       LNT_ERR_FORMAT, "'checkpoint.safetensors': is not a checkpoint");
        assert_null(t);
    }
    lnt_safetensors_free(ctx, &st);
    lnt_ctx_destroy(ctx);
}

static void a_run_is_known_by_the_request_that_began_it(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    write_text("small.json", small);
    write_text("lists.json", lists);
    for (int m = 0; lnt_mechanism_name((lnt_mechanism)m); m++) {
        const char *mechanism = lnt_mechanism_name((lnt_mechanism)m);
        const uint64_t seeds[] = { 1, 2 };
        lnt_train_request r = m == LNT_CUR ? request_of("listops", "lists.json")
                                           : request_of("copy", "small.json");
        lnt_trainer *first = start(ctx, mechanism), *t;
        assert_ok(ctx, lnt_trainer_save(first, "checkpoint.safetensors"));
        lnt_trainer_destroy(first);
        assert_ok(ctx, lnt_trainer_resume(ctx, "checkpoint.safetensors", NULL, 0, &t));
        r.mechanism = mechanism;
        r.seed = &seeds[0];
        r.steps = 12;
        assert_ok(ctx, lnt_trainer_expect(t, &r));
        assert_ok(ctx, lnt_trainer_expect(t, &(lnt_train_request){ .size = sizeof r }));
        r.seed = &seeds[1];
        assert_refused(ctx, lnt_trainer_expect(t, &r), LNT_ERR_ARGUMENT, "seed is 2, must be 1");
        r.seed = NULL;
        r.steps = 13;
        assert_refused(ctx, lnt_trainer_expect(t, &r), LNT_ERR_ARGUMENT, "steps is 13, must be 12");
        r.size--;
        assert_refused(ctx, lnt_trainer_expect(t, &r), LNT_ERR_ARGUMENT,
                       "train request: size of lnt_train_request is");
        lnt_trainer_destroy(t);
    }
    lnt_ctx_destroy(ctx);
}

static void timing_the_products_changes_nothing_that_a_step_reads(void **state)
{
    (void)state;
    write_text("small.json", small);
    write_text("lists.json", lists);
    static const lnt_mechanism mechanisms[] = { LNT_SOFTMAX, LNT_CUR };
    for (int m = 0; m < COUNT_OF(mechanisms); m++) {
        lnt_ctx *ctx = context_new(2, NULL);
        lnt_trainer *a = start(ctx, lnt_mechanism_name(mechanisms[m]));
        lnt_trainer *b = start(ctx, lnt_mechanism_name(mechanisms[m]));
        for (int i = 0; i < 3; i++) {
            double whole = -1, cut = -1;
            assert_ok(ctx, lnt_trainer_time_products(a, &whole, &cut));
            assert_true(whole > 0 && cut > 0);
            run(ctx, a, 1);
            run(ctx, b, 1);
        }
        assert_same_weights(a, b);
        lnt_trainer_destroy(a);
        lnt_trainer_destroy(b);
        lnt_ctx_destroy(ctx);
    }
}

/* Of a text of one letter every batch is the same, and so is the loss, unless something is left out by
 * chance: that is another part of the network at every step. */
static void each_step_drops_something_else(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(0, NULL);
    static const char *const rates[] = { "\"dropout\":0", "\"dropout\":0.3", "\"drop_path\":0.3" };
    char text[2001] = "", config[256];
    memset(text, 'a', sizeof text - 1);
    write_text("letter.txt", text);
    for (int i = 0; i < COUNT_OF(rates); i++) {
        snprintf(config, sizeof config,
                 "{\"model\":{\"dim\":16,\"layers\":2,\"heads\":2,\"length\":8,%s},\"train\":"
                 "{\"steps\":8,\"batch\":4,\"rate\":1e-30}}",
                 rates[i]);
        write_text("letter.json", config);
        lnt_train_request r = request_of("text", "letter.json");
        r.data = "letter.txt";
        lnt_trainer *t;
        assert_ok(ctx, lnt_trainer_create(ctx, &r, &t));
        const double first = run(ctx, t, 1).loss;
        int others = 0;
        for (int step = 1; step < 8; step++) others += run(ctx, t, 1).loss != first;
        if (i == 0) assert_int_equal(others, 0);
        else assert_in_range(others, 3, 7); /* the same path may be dropped again */
        lnt_trainer_destroy(t);
    }
    lnt_ctx_destroy(ctx);
}

static void the_loss_falls_and_the_test_shows_it(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL); /* a small model: more threads would mostly wait */
    write_text("fall.json", "{\"model\":{\"dim\":32,\"layers\":2,\"heads\":4,\"length\":16},\"train\":"
                            "{\"steps\":300,\"batch\":32,\"rate\":0.003,\"optimizer\":\"adamw\","
                            "\"schedule\":\"constant\"},\"task\":{\"symbols\":4}}");
    lnt_train_request r = request_of("copy", "fall.json");
    lnt_trainer *t;
    lnt_score_report before = { .size = sizeof before }, after = before;
    assert_ok(ctx, lnt_trainer_create(ctx, &r, &t));
    assert_ok(ctx, lnt_trainer_evaluate(t, 4, &before));
    assert_true(before.loss > 1.2 && before.accuracy < 0.5); /* log 5 = 1.6 */
    run(ctx, t, budget(150, 300));
    assert_ok(ctx, lnt_trainer_evaluate(t, 4, &after));
    if (!(after.loss < 0.7 * before.loss))
        fail_msg("the loss went from %g to %g", before.loss, after.loss);
    assert_string_equal(after.unit, "token");
    lnt_trainer_destroy(t);
    remove("fall.json");
    lnt_ctx_destroy(ctx);
}

static void every_optimizer_learns(void **state)
{
    (void)state;
    static const char *const names[] = { "adamw", "radam", "lamb" };
    lnt_ctx *ctx = context_new(0, NULL);
    for (int i = 0; i < 3; i++) {
        char config[400];
        snprintf(config, sizeof config,
                 "{\"model\":{\"dim\":16,\"layers\":1,\"heads\":2,\"length\":8},\"train\":{\"steps\":"
                 "60,\"batch\":16,\"rate\":%s,\"optimizer\":\"%s\",\"schedule\":\"constant\"},"
                 "\"task\":{\"symbols\":2}}", i == 2 ? "0.02" : "0.01", names[i]);
        write_text("optimizer.json", config);
        lnt_train_request r = request_of("copy", "optimizer.json");
        lnt_trainer *t;
        assert_ok(ctx, lnt_trainer_create(ctx, &r, &t));
        const double before = run(ctx, t, 1).loss, after = run(ctx, t, 59).loss;
        if (!(after < 0.9 * before)) fail_msg("%s: from %g to %g", names[i], before, after);
        lnt_trainer_destroy(t);
    }
    remove("optimizer.json");
    lnt_ctx_destroy(ctx);
}

/* A bias begins at 0.  Steps that agree take it as often the rate away, those of RAdam later. */
static void a_bias_leaves_its_zero(void **state)
{
    (void)state;
    static const char *const names[] = { "adamw", "radam", "lamb" };
    lnt_ctx *ctx = context_new(0, NULL);
    for (int i = 0; i < 3; i++) {
        char config[300];
        snprintf(config, sizeof config,
                 "{\"model\":{\"dim\":16,\"layers\":1,\"heads\":2,\"length\":8},\"train\":{\"batch\":64,"
                 "\"rate\":0.001,\"warmup\":0,\"optimizer\":\"%s\",\"schedule\":\"constant\"},"
                 "\"task\":{\"symbols\":2}}", names[i]);
        write_text("bias.json", config);
        const lnt_train_request r = request_of("copy", "bias.json");
        lnt_trainer *t;
        assert_ok(ctx, lnt_trainer_create(ctx, &r, &t));
        run(ctx, t, 40);
        const lnt_model *model = lnt_trainer_model(t);
        int biases = 0;
        for (size_t e = 0; e < model->layout.entry_count; e++) {
            const lnt_layout_entry *at = &model->layout.entries[e];
            if (!at->count || strcmp(at->name + strlen(at->name) - 4, "bias")) continue;
            const float *w = model->weights + at->offset;
            double most = 0;
            for (size_t j = 0; j < at->count; j++)
                if (fabs((double)w[j]) > most) most = fabs((double)w[j]);
            if (most < 0.003) fail_msg("%s: %s is no larger than %g", names[i], at->name, most);
            biases++;
        }
        assert_int_equal(biases, 8);
        lnt_trainer_destroy(t);
    }
    remove("bias.json");
    lnt_ctx_destroy(ctx);
}

/* Behind a norm of large gain the logits are large, and so is their matrix's gradient. */
static void a_gradient_whose_squares_are_beyond_f32_is_refused_unless_clipped(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int clip = 0; clip < 2; clip++) {
        char config[200];
        snprintf(config, sizeof config, "{\"model\":{\"dim\":16,\"layers\":1,\"heads\":2,\"length\":8},"
                                        "\"train\":{\"batch\":4,\"clip\":%d}}", clip);
        write_text("steep.json", config);
        const lnt_train_request r = request_of("copy", "steep.json");
        lnt_trainer *t;
        assert_ok(ctx, lnt_trainer_create(ctx, &r, &t));
        const lnt_model *model = lnt_trainer_model(t);
        for (size_t e = 0; e < model->layout.entry_count; e++) {
            const lnt_layout_entry *at = &model->layout.entries[e];
            for (size_t j = 0; j < at->count && !strcmp(at->name, "norm.gain"); j++)
                model->weights[at->offset + j] = 1e22f;
        }
        lnt_step_report report = { .size = sizeof report };
        if (clip) {
            assert_ok(ctx, lnt_trainer_step(t, &report));
            assert_true(report.gradient > 1.8e19 && isfinite(report.gradient));
        } else {
            assert_refused(ctx, lnt_trainer_step(t, &report), LNT_ERR_ARGUMENT,
                           " long, must be at most 1.84467e+19; try to clip it");
        }
        lnt_trainer_destroy(t);
    }
    remove("steep.json");
    lnt_ctx_destroy(ctx);
}

/* One step with a decay and one without differ by rate x decay of a matrix, and of nothing else. */
static void decay_shrinks_matrices_alone(void **state)
{
    (void)state;
    enum { SIZE = 1 << 16 };
    static float first[SIZE];
    static const char format[] = "{\"model\":{\"dim\":16,\"layers\":1,\"heads\":2,\"length\":16},"
                                 "\"train\":{\"optimizer\":\"adamw\",\"schedule\":\"constant\","
                                 "\"rate\":0.01,\"warmup\":0,\"decay\":%s}}";
    lnt_ctx *ctx = context_new(1, NULL);
    const lnt_model *model[2];
    lnt_trainer *trainer[2];
    int matrices = 0, vectors = 0;
    for (int i = 0; i < 2; i++) {
        char text[sizeof format + 8];
        snprintf(text, sizeof text, format, i ? "0.5" : "0");
        write_text("decay.json", text);
        const lnt_train_request r = request_of("copy", "decay.json");
        assert_ok(ctx, lnt_trainer_create(ctx, &r, &trainer[i]));
        model[i] = lnt_trainer_model(trainer[i]);
        assert_true(model[i]->layout.size <= SIZE);
        memcpy(first, model[i]->weights, model[i]->layout.size * sizeof *first);
        run(ctx, trainer[i], 1);
    }
    for (size_t e = 0; e < model[0]->layout.entry_count; e++) {
        const lnt_layout_entry *at = &model[0]->layout.entries[e];
        const bool matrix = at->count && at->param.rank > 1;
        matrices += matrix, vectors += at->count && !matrix;
        for (size_t i = at->offset; i < at->offset + at->count; i++) {
            const double less = (double)model[0]->weights[i] - (double)model[1]->weights[i];
            const double expected = matrix ? 0.01 * 0.5 * (double)first[i] : 0;
            if (fabs(less - expected) > 1e-6)
                fail_msg("%s: decay took %g, expected %g", at->name, less, expected);
        }
    }
    assert_true(matrices >= 6 && vectors >= 6);
    for (int i = 0; i < 2; i++) lnt_trainer_destroy(trainer[i]);
    lnt_ctx_destroy(ctx);
}

/* A test of a text, or of the end of one, does not mind that there is too little to train on. */
static void a_test_needs_no_text_to_train_on(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    char text[901];
    memset(text, 'a', sizeof text - 1);
    text[900] = '\0';
    write_text("long.txt", text);
    text[90] = '\0';
    write_text("short.txt", text);
    write_text("half.json", "{\"model\":{\"dim\":16,\"layers\":1,\"heads\":2,\"length\":100},\"task\":"
                            "{\"held_out\":0.5}}");
    lnt_train_request r = request_of("text", "half.json");
    lnt_trainer *t;
    lnt_score_report report = { .size = sizeof report };
    lnt_eval_request eval = { .size = sizeof eval, .data = "short.txt" };
    r.data = "short.txt";
    assert_refused(ctx, lnt_trainer_create(ctx, &r, &t), LNT_ERR_FORMAT,
                   "has 45 tokens to train on, must have at least 101");
    lnt_train_request plain = request_of("text", NULL);
    plain.data = "short.txt"; /* a file is wrong here too */
    assert_refused(ctx, lnt_trainer_create(ctx, &plain, &t), LNT_ERR_FORMAT, "tokens to train on");
    r.data = "long.txt";
    assert_ok(ctx, lnt_trainer_create(ctx, &r, &t));
    assert_refused(ctx, lnt_trainer_evaluate(t, -1, &report), LNT_ERR_ARGUMENT, "batches is -1");
    assert_ok(ctx, lnt_model_save(lnt_trainer_model(t), "half.safetensors", LNT_F32));
    lnt_trainer_destroy(t);
    lnt_model *model;
    assert_ok(ctx, lnt_model_load(ctx, "half.safetensors", &model));
    for (eval.held_out = 0; eval.held_out < 2; eval.held_out++) {
        assert_ok(ctx, lnt_model_evaluate(model, &eval, &report));
        assert_int_equal(report.targets, eval.held_out ? 44 : 89);
    }
    lnt_model_destroy(model);
    remove("half.safetensors");
    remove("half.json");
    remove("long.txt");
    remove("short.txt");
    lnt_ctx_destroy(ctx);
}

static void a_trained_model_evaluates_as_its_trainer_did(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    FILE *file = fopen("text.txt", "wb");
    assert_non_null(file);
    for (int i = 0; i < 3000; i++) fputc("the cat sat. "[i % 13], file);
    fclose(file);
    write_text("text.json", "{\"model\":{\"dim\":16,\"layers\":1,\"heads\":2,\"length\":32},\"train\":"
                            "{\"steps\":5,\"batch\":4},\"task\":{\"tokenizer\":\"bpe\",\"vocabulary\":"
                            "260,\"held_out\":0.2}}");
    lnt_train_request r = request_of("text", "text.json");
    lnt_trainer *t;
    r.data = "text.txt";
    assert_ok(ctx, lnt_trainer_create(ctx, &r, &t));
    run(ctx, t, 5);
    lnt_score_report one = { .size = sizeof one }, two = one;
    assert_ok(ctx, lnt_trainer_evaluate(t, 0, &one));
    assert_ok(ctx, lnt_model_save(lnt_trainer_model(t), "text.safetensors", LNT_F32));
    lnt_trainer_destroy(t);
    lnt_model *model;
    assert_ok(ctx, lnt_model_load(ctx, "text.safetensors", &model));
    const lnt_eval_request eval = { .size = sizeof eval, .data = "text.txt", .batch = 4,
                                    .held_out = 1 };
    assert_ok(ctx, lnt_model_evaluate(model, &eval, &two));
    assert_true(one.loss == two.loss && one.targets == two.targets && one.bits == two.bits);
    assert_string_equal(two.unit, "byte");
    /* merged bytes count as bytes: fewer targets than bytes, so fewer bits a byte than a token */
    assert_true(two.bits < two.loss / log(2));
    lnt_model_destroy(model);
    remove("text.txt");
    remove("text.json");
    remove("text.safetensors");
    lnt_ctx_destroy(ctx);
}

static void training_allocates_nothing_in_a_step(void **state)
{
    (void)state;
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 2, NULL);
    for (int m = 0; lnt_mechanism_name((lnt_mechanism)m); m++) {
        lnt_trainer *t = start(ctx, lnt_mechanism_name((lnt_mechanism)m));
        const int64_t calls = track.calls;
        run(ctx, t, 2);
        assert_int_equal(track.calls, calls);
        lnt_trainer_destroy(t);
    }
    context_close_tracked(ctx, &track);
}

static void no_allocation_fails_without_a_trace(void **state)
{
    (void)state;
    bool done = false;
    for (int64_t fail_at = 0; !done; fail_at++) {
        tracker track;
        lnt_ctx *ctx = context_tracked(&track, 1, NULL);
        lnt_trainer *t = NULL;
        const lnt_train_request r = request_of("copy", "small.json");
        track.fail_at = track.calls + fail_at;
        lnt_status status = lnt_trainer_create(ctx, &r, &t);
        if (!status) status = lnt_trainer_save(t, "memory.safetensors");
        assert_true(status == LNT_OK || status == LNT_ERR_MEMORY);
        lnt_trainer_destroy(t);
        t = NULL;
        if (!status) status = lnt_trainer_resume(ctx, "memory.safetensors", NULL, 0, &t);
        assert_true(status == LNT_OK || status == LNT_ERR_MEMORY);
        done = status == LNT_OK;
        track.fail_at = -1;
        lnt_trainer_destroy(t);
        context_close_tracked(ctx, &track);
    }
    remove("memory.safetensors");
}

static void what_cannot_be_is_refused_in_a_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *config, *word;
    } cases[] = {
        { "{\"modle\":{}}", "the config has an unknown key 'modle'; it takes model, train, task" },
        { "{\"model\":{\"dim\":30,\"heads\":7}}", "must be a multiple of heads" },
        { "{\"train\":{\"rate\":\"fast\"}}", "train.rate must be a number" },
        { "{\"train\":{\"optimizer\":\"sgd\"}}", "must be one of adamw, radam, lamb" },
        { "{\"train\":{\"batch\":0}}", "train.batch is 0, must be 1 to 65536" },
        { "{\"task\":{\"depth\":3}}", "task has an unknown key 'depth'; it takes symbols" },
        { "{\"model\":{\"kind\":\"encoder\"}}", "kind must be decoder" },
        { "{\"model\":{\"attention\":{\"mechanism\":\"cur\"}}}", "mechanism cur sees whole sequences" },
        { "{", "'bad.json', byte 1: " },
        { "{\"model\":{\"inputs\":5}}", "model.inputs is 5, task copy has 11; leave it out" },
        { "{\"model\":{\"output\":\"class\"}}", "model.output is not that of task copy" },
    };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_trainer *t;
    for (int i = 0; i < COUNT_OF(cases); i++) {
        const lnt_train_request r = request_of("copy", "bad.json");
        write_text("bad.json", cases[i].config);
        assert_refused(ctx, lnt_trainer_create(ctx, &r, &t), LNT_ERR_FORMAT, cases[i].word);
        assert_null(t);
    }
    remove("bad.json");
    const lnt_train_request unknown = request_of("chess", NULL);
    assert_refused(ctx, lnt_trainer_create(ctx, &unknown, &t), LNT_ERR_ARGUMENT,
                   "task 'chess' is not one of copy, text");
    const uint64_t seed = UINT64_C(1) << 63;
    lnt_train_request many = request_of("copy", NULL);
    many.steps = INT64_C(1000000001);
    assert_refused(ctx, lnt_trainer_create(ctx, &many, &t), LNT_ERR_ARGUMENT, "steps is 1000000001");
    assert_refused(ctx, lnt_trainer_resume(ctx, "any", NULL, many.steps, &t), LNT_ERR_ARGUMENT,
                   "to 1000000000");
    many.steps = 1;
    many.seed = &seed;
    assert_refused(ctx, lnt_trainer_create(ctx, &many, &t), LNT_ERR_ARGUMENT, "seed is 9223372036");
    write_text("huge.json", "{\"model\":{\"dim\":65536,\"layers\":1024,\"heads\":1}}");
    const lnt_train_request huge = request_of("copy", "huge.json");
    assert_refused(ctx, lnt_trainer_create(ctx, &huge, &t), LNT_ERR_MEMORY, "memory");
    remove("huge.json");
    lnt_ctx_destroy(ctx);
}

static int clean(void **state)
{
    (void)state;
    remove("small.json");
    remove("lists.json");
    remove("decay.json");
    remove("checkpoint.safetensors");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads_trains_to_the_same_bits),
        cmocka_unit_test(training_in_bf16_follows_f32_or_is_refused),
        cmocka_unit_test(a_run_that_was_interrupted_ends_with_the_same_bits),
        cmocka_unit_test(a_checkpoint_remembers_the_dtype_of_the_model),
        cmocka_unit_test(a_checkpoint_after_more_steps_than_can_be_is_refused),
        cmocka_unit_test(a_run_is_known_by_the_request_that_began_it),
        cmocka_unit_test(timing_the_products_changes_nothing_that_a_step_reads),
        cmocka_unit_test(each_step_drops_something_else),
        cmocka_unit_test(the_loss_falls_and_the_test_shows_it),
        cmocka_unit_test(every_optimizer_learns),
        cmocka_unit_test(a_bias_leaves_its_zero),
        cmocka_unit_test(a_gradient_whose_squares_are_beyond_f32_is_refused_unless_clipped),
        cmocka_unit_test(decay_shrinks_matrices_alone),
        cmocka_unit_test(a_test_needs_no_text_to_train_on),
        cmocka_unit_test(a_trained_model_evaluates_as_its_trainer_did),
        cmocka_unit_test(training_allocates_nothing_in_a_step),
        cmocka_unit_test(no_allocation_fails_without_a_trace),
        cmocka_unit_test(what_cannot_be_is_refused_in_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, clean);
}
