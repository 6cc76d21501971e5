/* test_model.c - models over every causal mechanism: later tokens do not reach earlier ones, files give back
 * what went in, any number of threads gives the same bits, and one mechanism can take the place of
 * another. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../support/models.h"

static void check_causal(lnt_ctx *ctx, lnt_model *model)
{
    enum { N = 70, AT = 40 };
    int32_t tokens[N];
    static float before[N * VOCABULARY], after[N * VOCABULARY];
    model_fill_tokens(tokens, N, 5);
    assert_ok(ctx, lnt_model_forward(model, tokens, 1, N, NULL, before));
    tokens[AT] = (tokens[AT] + 1) % VOCABULARY;
    assert_ok(ctx, lnt_model_forward(model, tokens, 1, N, NULL, after));
    assert_true(model_difference(after, before, AT * VOCABULARY) < 1e-6);
    assert_true(model_difference(after + AT * VOCABULARY, before + AT * VOCABULARY, VOCABULARY) > 1e-4);
}

static void later_tokens_do_not_reach_earlier_ones(void **state)
{
    (void)state;
    model_walk(check_causal);
}

static void check_file(lnt_ctx *ctx, lnt_model *model)
{
    lnt_model *again;
    assert_ok(ctx, lnt_model_save(model, "model.safetensors", LNT_F32));
    assert_ok(ctx, lnt_model_load(ctx, "model.safetensors", &again));
    assert_string_equal(model->text, again->text);
    assert_memory_equal(model->weights, again->weights, model->layout.size * sizeof(float));
    lnt_model_destroy(again);
}

static void a_saved_model_is_the_same_model(void **state)
{
    (void)state;
    model_walk(check_file);
    remove("model.safetensors");
}

/* Weights, and what is remembered, as a file that is whole may have them. */
static void numbers_that_are_none_are_refused(void **state)
{
    (void)state;
    const lnt_sampling sampling = { .size = sizeof sampling, .temperature = 1, .top_k = 5, .top_p = 0.9,
                                    .seed = 11 };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = model_make(ctx, model_configs[0], LNT_LINEAR, 0), *again;
    int32_t tokens[4] = { 1, 2, 3, 0 };
    lnt_session *two;
    const float before = model->weights[0];
    model->weights[0] = NAN;
    assert_ok(ctx, lnt_model_save(model, "nan.safetensors", LNT_F32));
    assert_refused(ctx, lnt_model_load(ctx, "nan.safetensors", &again), LNT_ERR_FORMAT, "not finite");
    assert_null(again);
    model->weights[0] = before;
    assert_ok(ctx, lnt_session_create(model, 2, &two));
    assert_int_equal(lnt_session_batch(two), 2);
    assert_refused(ctx, lnt_session_forward(two, tokens, INT64_MAX), LNT_ERR_ARGUMENT, "count is");
    assert_ok(ctx, lnt_session_forward(two, tokens, 2));
    ((float *)(uintptr_t)lnt_session_logits(two))[0] = INFINITY;
    assert_refused(ctx, lnt_session_sample(two, &sampling, tokens), LNT_ERR_FORMAT, "not finite");
    assert_refused(ctx, lnt_model_sample(model, lnt_session_logits(two), 2, 2, &sampling, tokens),
                   LNT_ERR_ARGUMENT, "not all are finite");
    assert_refused(ctx, lnt_model_forward(model, tokens, INT64_MAX / 2, 4, NULL, &model->weights[0]),
                   LNT_ERR_SHAPE, "too large");
    lnt_session_destroy(two);
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
    remove("nan.safetensors");
}

static void check_rounded_file(lnt_ctx *ctx, lnt_model *model)
{
    lnt_model *again, *twice;
    assert_ok(ctx, lnt_model_save(model, "model.safetensors", LNT_BF16));
    assert_ok(ctx, lnt_model_load(ctx, "model.safetensors", &again));
    for (size_t i = 0; i < model->layout.size; i++)
        assert_true(fabsf(again->weights[i] - model->weights[i]) <=
                    fabsf(model->weights[i]) / 256);
    assert_ok(ctx, lnt_model_save(again, "model.safetensors", LNT_BF16));
    assert_ok(ctx, lnt_model_load(ctx, "model.safetensors", &twice));
    assert_memory_equal(again->weights, twice->weights, model->layout.size * sizeof(float));
    assert_refused(ctx, lnt_model_save(model, "model.safetensors", LNT_F64), LNT_ERR_DTYPE, "f64");
    lnt_model_destroy(twice);
    lnt_model_destroy(again);
}

static void a_model_saved_as_bf16_is_rounded_once(void **state)
{
    (void)state;
    model_walk(check_rounded_file);
    remove("model.safetensors");
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
    (void)state;
    static int32_t tokens[2 * LENGTH];
    static float first[2 * LENGTH * VOCABULARY], other[2 * LENGTH * VOCABULARY];
    model_fill_tokens(tokens, 2 * LENGTH, 9);
    for (int m = 0; lnt_mechanism_name((lnt_mechanism)m); m++)
        for (int threads = 1; model_generates(m) && threads <= 3; threads++) {
            lnt_ctx *ctx = context_new(threads, NULL);
            lnt_model *model = model_make(ctx, model_configs[1], (lnt_mechanism)m, 0);
            assert_ok(ctx, lnt_model_forward(model, tokens, 2, LENGTH, NULL,
                                             threads == 1 ? first : other));
            if (threads > 1) assert_memory_equal(first, other, sizeof first);
            lnt_model_destroy(model);
            lnt_ctx_destroy(ctx);
        }
}

static void every_changed_byte_of_a_model_is_noticed(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = model_make(ctx, model_configs[2], LNT_LINEAR, 0), *again;
    assert_ok(ctx, lnt_model_save(model, "flip.safetensors", LNT_F32));
    FILE *file = fopen("flip.safetensors", "r+b");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    const long size = ftell(file), step = size / budget(40, 300) + 1;
    for (long at = 0; at < size; at += step) {
        fseek(file, at, SEEK_SET);
        const int byte = fgetc(file);
        fseek(file, at, SEEK_SET);
        fputc(byte ^ 1, file);
        fflush(file);
        assert_true(lnt_model_load(ctx, "flip.safetensors", &again) != LNT_OK);
        assert_null(again);
        fseek(file, at, SEEK_SET);
        fputc(byte, file);
    }
    fclose(file);
    assert_ok(ctx, lnt_model_load(ctx, "flip.safetensors", &again));
    lnt_model_destroy(again);
    lnt_model_destroy(model);
    remove("flip.safetensors");
    lnt_ctx_destroy(ctx);
}

static void no_allocation_fails_without_a_trace(void **state)
{
    (void)state;
    const int32_t tokens[4] = { 1, 2, 3, 4 };
    bool done = false;
    for (int64_t fail_at = 0; !done; fail_at++) {
        tracker t;
        lnt_ctx *ctx = context_tracked(&t, 1, NULL);
        lnt_model *model = model_make(ctx, model_configs[2], LNT_TAYLOR, 0);
        lnt_session *session = NULL;
        t.fail_at = t.calls + fail_at;
        lnt_status status = lnt_session_create(model, 1, &session);
        if (!status) status = lnt_session_forward(session, tokens, 4);
        if (!status) status = lnt_session_save(session, "memory.safetensors");
        assert_true(status == LNT_OK || status == LNT_ERR_MEMORY);
        done = status == LNT_OK;
        t.fail_at = -1;
        lnt_session_destroy(session);
        lnt_model_destroy(model);
        context_close_tracked(ctx, &t);
    }
    remove("memory.safetensors");
}

static void check_convert(lnt_ctx *ctx, lnt_model *model)
{
    for (int m = 0; lnt_mechanism_name((lnt_mechanism)m); m++) {
        if (!model_generates(m)) continue;
        lnt_model *other;
        assert_ok(ctx, lnt_model_convert(model, lnt_mechanism_name((lnt_mechanism)m), &other));
        assert_int_equal(other->config.attention.mechanism, m);
        for (size_t i = 0; i < other->layout.entry_count; i++) {
            const lnt_layout_entry *a = &model->layout.entries[i], *b = &other->layout.entries[i];
            if (a->count == b->count)
                assert_memory_equal(model->weights + a->offset, other->weights + b->offset,
                                    a->count * sizeof(float));
            else
                assert_true(b->count == 0 && strstr(a->name, "temperature"));
        }
        if (m == (int)model->config.attention.mechanism)
            assert_string_equal(other->text, model->text);
        check_causal(ctx, other);
        lnt_model_destroy(other);
    }
}

static void a_model_under_another_mechanism_has_the_same_weights(void **state)
{
    (void)state;
    model_walk(check_convert);
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = model_make(ctx, model_configs[0], LNT_LINEAR, 0), *none;
    assert_refused(ctx, lnt_model_convert(model, "lstm", &none), LNT_ERR_ARGUMENT,
                   "mechanism 'lstm' is not known");
    assert_refused(ctx, lnt_model_convert(model, "cur", &none), LNT_ERR_ARGUMENT, "whole sequences");
    assert_null(none);
    lnt_model_destroy(model);
    model = model_make(ctx, "{\"dim\":16,\"heads\":2,\"attention\":{\"decay\":[0.5]}}", LNT_LINEAR, 0);
    assert_int_equal(model->config.decay_count, 2);
    assert_ok(ctx, lnt_model_convert(model, "hybrid", &none));
    assert_int_equal(none->config.decay_count, 2);
    lnt_model_destroy(none);
    assert_ok(ctx, lnt_model_convert(model, "taylor", &none)); /* which takes none */
    assert_int_equal(none->config.decay_count, 0);
    lnt_model_destroy(none);
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
}

static lnt_status create(lnt_ctx *ctx, const char *task, const char *text, lnt_model **out)
{
    const lnt_model_request request = { .size = sizeof request, .task = task, .text = text,
                                        .seed = 3 };
    return lnt_model_create(ctx, &request, out);
}

static void write_letters(const char *path, int count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < count; i++) fputc('a' + i % 26, file);
    fclose(file);
}

/* The scale of Laplace's weights is theirs alone. */
static void a_default_does_not_outlive_its_mechanism(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model, *other;
    assert_ok(ctx, create(ctx, "listops", "{\"model\":{\"dim\":16,\"layers\":1,\"heads\":2,\"averages\":2,"
                                          "\"attention\":{\"activation\":\"laplace\"}},\"task\":{"
                                          "\"shortest\":10,\"longest\":90}}", &model));
    assert_true(lnt_config_attention(&model->config, 0).scale == 1.0 / 90);
    assert_ok(ctx, lnt_model_convert(model, "taylor", &other));
    assert_true(isnan(lnt_config_attention(&other->config, 0).scale));
    lnt_model_destroy(model);
    lnt_model_destroy(other);
    lnt_ctx_destroy(ctx);
}

static void a_model_begins_without_data(void **state)
{
    (void)state;
    tracker track = { .fail_at = -1 };
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    lnt_model *model;
    int32_t tokens[3];
    float logits[3 * 11];
    const lnt_sampling sampling = { .size = sizeof sampling, .temperature = 1, .top_p = 1 };
    size_t count;
    const lnt_eval_request request = { .size = sizeof request, .data = "blank.txt" };
    lnt_score_report report = { .size = sizeof report };
    write_letters("blank.txt", 100);
    assert_ok(ctx, create(ctx, "mnist", "{\"model\":{\"dim\":16,\"layers\":1},"
                                        "\"task\":{\"shrink\":2}}", &model));
    assert_int_equal(model->config.length, 14 * 14);
    assert_int_equal(model->config.outputs, 30);
    assert_ok(ctx, lnt_model_save(model, "blank.safetensors", LNT_F32));
    lnt_model_destroy(model);
    assert_ok(ctx, lnt_model_load(ctx, "blank.safetensors", &model));
    lnt_model_destroy(model);
    assert_ok(ctx, create(ctx, "text", "{\"task\":{\"tokenizer\":\"bpe\"}}", &model));
    assert_int_equal(model->config.inputs, 1024);
    assert_refused(ctx, lnt_model_encode(model, "abc", 3, tokens, &count), LNT_ERR_UNSUPPORTED,
                   "none was learned");
    assert_refused(ctx, lnt_model_evaluate(model, &request, &report), LNT_ERR_UNSUPPORTED,
                   "the model has no tokenizer; bpe learns it");
    lnt_model_destroy(model);
    assert_ok(ctx, create(ctx, "text", "{\"model\":{\"dim\":8,\"layers\":1,\"heads\":2}}", &model));
    assert_ok(ctx, lnt_model_encode(model, "abc", 3, tokens, &count));
    assert_true(count == 3 && tokens[0] == 'a' && tokens[2] == 'c');
    assert_refused(ctx, lnt_model_encode(model, NULL, 3, tokens, &count), LNT_ERR_ARGUMENT, "NULL");
    assert_refused(ctx, lnt_model_encode(model, "abc", 3, NULL, &count), LNT_ERR_ARGUMENT, "NULL");
    assert_refused(ctx, lnt_model_encode(model, "abc", 3, tokens, NULL), LNT_ERR_ARGUMENT, "NULL");
    assert_ok(ctx, lnt_model_evaluate(model, &request, &report));
    assert_int_equal(report.targets, 99);
    lnt_model_destroy(model);
    assert_ok(ctx, create(ctx, "copy", NULL, &model));
    assert_int_equal(model->config.inputs, 11);
    lnt_model_destroy(model);
    assert_ok(ctx, create(ctx, "speech", NULL, &model));
    assert_true(model->config.outputs == 11 && model->config.kind == LNT_ENCODER);
    assert_refused(ctx, lnt_model_forward(model, tokens, 1, 3, NULL, logits), LNT_ERR_UNSUPPORTED,
                   "reads features, not tokens");
    assert_refused(ctx, lnt_model_sample(model, logits, 1, 1, &sampling, tokens), LNT_ERR_UNSUPPORTED,
                   "task speech has an encoder");
    lnt_model_destroy(model);
    assert_refused(ctx, create(ctx, "mnist", "{\"modle\":{}}", &model), LNT_ERR_ARGUMENT, "modle");
    assert_refused(ctx, create(ctx, "copy", "{\"model\":{\"attention\":{\"terms\":3}}}", &model),
                   LNT_ERR_ARGUMENT, "'text': model.attention.terms does not apply to mechanism softmax");
    assert_refused(ctx, create(ctx, "knit", NULL, &model), LNT_ERR_ARGUMENT, "'knit'");
    assert_null(model);
    remove("blank.safetensors");
    remove("blank.txt");
    context_close_tracked(ctx, &track);
}

/* All ten components are of one value and narrow. */
static void pixels_are_drawn_from_their_mixture(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model;
    float logits[30] = { 0 };
    int seen[256] = { 0 };
    for (int k = 0; k < 10; k++) {
        logits[10 + k] = 2 * 200 / 255.0f - 1;
        logits[20 + k] = -5.5f; /* about one value wide */
    }
    assert_ok(ctx, create(ctx, "mnist", "{\"model\":{\"dim\":16,\"layers\":1},"
                                        "\"task\":{\"shrink\":2}}", &model));
    for (uint64_t seed = 0; seed < 200; seed++) {
        const lnt_sampling sampling = { .size = sizeof sampling, .temperature = 1, .top_p = 1, .seed = seed };
        int32_t pixel;
        assert_ok(ctx, lnt_model_sample(model, logits, 1, 1, &sampling, &pixel));
        assert_in_range(pixel, 200 - 10, 200 + 10);
        seen[pixel]++;
    }
    assert_true(seen[200] > seen[198] && seen[200] > seen[202] && seen[199] && seen[201]);
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
}

static void an_evaluation_takes_16_examples_at_a_time_unless_told(void **state)
{
    (void)state;
    static const int64_t batches[] = { 0, 16, 15 };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model;
    lnt_score_report report[3];
    assert_ok(ctx, create(ctx, "copy", "{\"model\":{\"dim\":8,\"layers\":1,\"heads\":2,\"length\":9}}",
                          &model));
    for (int i = 0; i < 3; i++) {
        const lnt_eval_request request = { .size = sizeof request, .batch = batches[i], .batches = 2 };
        report[i] = (lnt_score_report){ .size = sizeof report[i] };
        assert_ok(ctx, lnt_model_evaluate(model, &request, &report[i]));
    }
    assert_true(report[0].loss == report[1].loss && report[0].targets == report[1].targets);
    assert_true(report[0].loss != report[2].loss);
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
}

static void examples_are_what_should_have_been_written(void **state)
{
    (void)state;
    enum { EACH = 8, COUNT = 2, GUARD = 77 };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model;
    int32_t tokens[COUNT * EACH + EACH];
    write_letters("examples.txt", 4000);
    assert_ok(ctx, create(ctx, "text", "{\"model\":{\"dim\":8,\"layers\":1,\"heads\":2,\"length\":8}}",
                          &model));
    for (int i = 0; i < COUNT_OF(tokens); i++) tokens[i] = GUARD;
    assert_ok(ctx, lnt_model_examples(model, "examples.txt", 3, COUNT, tokens));
    for (int i = 1; i < COUNT * EACH; i++)
        assert_int_equal(tokens[i], 'a' + (tokens[i - 1] - 'a' + 1) % 26);
    for (int i = COUNT * EACH; i < COUNT_OF(tokens); i++) assert_int_equal(tokens[i], GUARD);
    assert_refused(ctx, lnt_model_examples(model, "examples.txt", 4000, 1, tokens), LNT_ERR_ARGUMENT,
                   "for testing");
    assert_refused(ctx, lnt_model_examples(model, "examples.txt", 0, 0, tokens), LNT_ERR_ARGUMENT,
                   "count 1 or more");
    lnt_model_destroy(model);
    remove("examples.txt");
    lnt_ctx_destroy(ctx);
}

/* A file that is whole, of 1 layer, and says that it is 16 times as wide. */
static void a_model_that_claims_weights_it_does_not_hold_gets_no_room(void **state)
{
    (void)state;
    static const char path[] = "claims.safetensors";
    char config[LNT_CONFIG_TEXT + 16];
    tracker track = { .fail_at = -1 };
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    lnt_safetensors st;
    lnt_model *model;
    assert_ok(ctx, create(ctx, "copy", "{\"model\":{\"dim\":8,\"layers\":1,\"heads\":2,\"ff\":4096}}",
                          &model));
    const char *const ff = strstr(model->text, "\"ff\":4096");
    assert_non_null(ff);
    snprintf(config, sizeof config, "%.*s\"ff\":65536%s", (int)(ff - model->text), model->text,
             ff + strlen("\"ff\":4096"));
    assert_ok(ctx, lnt_model_save(model, path, LNT_F32));
    lnt_model_destroy(model);
    assert_ok(ctx, lnt_safetensors_read(ctx, path, &st));
    for (size_t i = 0; i < st.meta_count; i++)
        if (!strcmp(st.meta[i].key, "config")) st.meta[i].value = config;
    assert_ok(ctx, lnt_safetensors_write(ctx, path, st.entries, st.entry_count, st.meta, st.meta_count));
    lnt_safetensors_free(ctx, &st);
    track.peak_bytes = track.live_bytes;
    assert_refused(ctx, lnt_model_load(ctx, path, &model), LNT_ERR_FORMAT, "another shape");
    assert_null(model);
    assert_true(track.peak_bytes < 1 << 20); /* the file is a third of that; the weights would be 4 MB */
    remove(path);
    context_close_tracked(ctx, &track);
}

/* A model, a session or a trainer that could not be made is NULL. */
static void a_call_without_its_object_is_refused(void **state)
{
    (void)state;
    const lnt_sampling sampling = { .size = sizeof sampling, .temperature = 1, .top_p = 1 };
    const lnt_eval_request request = { .size = sizeof request };
    const lnt_train_request train = { .size = sizeof train };
    lnt_model_info model = { .size = sizeof model };
    lnt_trainer_info trainer = { .size = sizeof trainer };
    lnt_step_report step = { .size = sizeof step };
    lnt_score_report report = { .size = sizeof report };
    lnt_model *made_model;
    lnt_session *session;
    int32_t token = 0;
    float number = 0;
    const char *text;
    size_t bytes;
    const lnt_status answers[] = {
        lnt_model_save(NULL, "x", LNT_F32), lnt_model_describe(NULL, &model),
        lnt_model_convert(NULL, "linear", &made_model),
        lnt_model_forward(NULL, &token, 1, 1, NULL, &number), lnt_model_encode(NULL, "x", 1, &token, &bytes),
        lnt_model_decode(NULL, 0, &text, &bytes), lnt_model_sample(NULL, &number, 1, 1, &sampling, &token),
        lnt_model_examples(NULL, NULL, 0, 1, &token), lnt_model_evaluate(NULL, &request, &report),
        lnt_session_create(NULL, 1, &session), lnt_session_forward(NULL, &token, 1),
        lnt_session_sample(NULL, &sampling, &token), lnt_session_save(NULL, "x"),
        lnt_session_load(NULL, "x", &session), lnt_trainer_save(NULL, "x"),
        lnt_trainer_describe(NULL, &trainer), lnt_trainer_step(NULL, &step),
        lnt_trainer_evaluate(NULL, 1, &report), lnt_trainer_expect(NULL, &train),
        lnt_trainer_set_dtype(NULL, LNT_F32),
    };
    for (int i = 0; i < COUNT_OF(answers); i++)
        if (answers[i] != LNT_ERR_ARGUMENT) fail_msg("call %d gives status %d", i, (int)answers[i]);
    assert_true(!lnt_session_logits(NULL) && lnt_session_tokens(NULL) == 0 && lnt_session_room(NULL) == 0 &&
                lnt_session_batch(NULL) == 0 && lnt_session_bytes(NULL) == 0 &&
                lnt_session_cache_bytes(NULL) == 0);
    assert_true(!lnt_trainer_model(NULL) && lnt_trainer_dtype(NULL) == LNT_F32);
    lnt_model_destroy(NULL);
    lnt_session_destroy(NULL);
    lnt_trainer_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_tokens_do_not_reach_earlier_ones),
        cmocka_unit_test(a_saved_model_is_the_same_model),
        cmocka_unit_test(numbers_that_are_none_are_refused),
        cmocka_unit_test(a_model_saved_as_bf16_is_rounded_once),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(every_changed_byte_of_a_model_is_noticed),
        cmocka_unit_test(no_allocation_fails_without_a_trace),
        cmocka_unit_test(a_model_under_another_mechanism_has_the_same_weights),
        cmocka_unit_test(a_model_begins_without_data),
        cmocka_unit_test(a_model_that_claims_weights_it_does_not_hold_gets_no_room),
        cmocka_unit_test(examples_are_what_should_have_been_written),
        cmocka_unit_test(pixels_are_drawn_from_their_mixture),
        cmocka_unit_test(an_evaluation_takes_16_examples_at_a_time_unless_told),
        cmocka_unit_test(a_default_does_not_outlive_its_mechanism),
        cmocka_unit_test(a_call_without_its_object_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
