/* test_model.c - models over every causal mechanism: steps equal the whole, later tokens do not reach
 * earlier ones, files give back what went in, any number of threads gives the same bits, and one
 * mechanism can take the place of another. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/session.h"
#include "support.h"

enum { VOCABULARY = 19, LENGTH = 150 };

static const char *const configs[] = {
    "{\"dim\":24,\"layers\":2,\"heads\":3,\"length\":150}",
    ("{\"dim\":32,\"layers\":2,\"heads\":4,\"kv_heads\":2,\"position\":\"rotary\",\"norm\":\"rms\","
     "\"activation\":\"swiglu\",\"ff\":40,\"tied\":true}"),
    "{\"dim\":16,\"layers\":3,\"heads\":2,\"position\":\"sinusoidal\",\"norm_place\":\"post\"}",
};

static lnt_model *make(lnt_ctx *ctx, const char *text, lnt_mechanism mechanism, int shift)
{
    lnt_config config;
    lnt_json json;
    lnt_tokenizer tokenizer = { 0 };
    lnt_model *model;
    assert_ok(ctx, lnt_config_default(ctx, &config));
    config.inputs = config.outputs = VOCABULARY;
    config.attention.mechanism = mechanism;
    config.attention.terms = 3;
    if (shift && mechanism == LNT_TAYLOR) config.attention.normalize = LNT_NORMALIZE_TAYLORSHIFT;
    config.learned_temperature = shift;
    assert_ok(ctx, lnt_json_parse(ctx, "test", NULL, text, strlen(text), &json));
    assert_ok(ctx, lnt_config_read(ctx, "test", json.root, &config));
    assert_ok(ctx, lnt_config_resolve(ctx, "test", &config));
    lnt_json_free(ctx, &json);
    assert_ok(ctx, lnt_tokenizer_open(ctx, LNT_TOKENS_NONE, NULL, 0, &tokenizer));
    assert_ok(ctx, lnt_model_make(ctx, &config, "test", &tokenizer, 7, &model));
    for (size_t i = 0; i < model->layout.entry_count; i++) { /* temperatures that differ */
        const lnt_layout_entry *e = &model->layout.entries[i];
        if (strstr(e->name, "temperature"))
            for (size_t j = 0; j < e->count; j++) model->weights[e->offset + j] = 1 + (float)j / 4;
    }
    return model;
}

static void fill_tokens(int32_t *tokens, int count, uint64_t seed)
{
    dice d = { seed };
    for (int i = 0; i < count; i++) tokens[i] = (int32_t)dice_range(&d, 0, VOCABULARY - 1);
}

static double difference(const float *a, const float *b, size_t count)
{
    error_sum e = { 0 };
    for (size_t i = 0; i < count; i++) error_add(&e, (double)a[i], (double)b[i]);
    return error_value(&e);
}

/* cur sees whole sequences: test_training.c has it. */
static bool generates(int mechanism) { return mechanism != LNT_CUR; }

/* For each mechanism that generates, and each config. */
static void walk(void (*check)(lnt_ctx *ctx, lnt_model *model))
{
    lnt_ctx *ctx = context_new(2, NULL);
    for (int m = 0; lnt_mechanism_name((lnt_mechanism)m); m++)
        for (int i = 0; generates(m) && i < COUNT_OF(configs); i++) {
            lnt_model *model = make(ctx, configs[i], (lnt_mechanism)m, i == 0);
            check(ctx, model);
            lnt_model_destroy(model);
        }
    lnt_ctx_destroy(ctx);
}

static void check_steps(lnt_ctx *ctx, lnt_model *model)
{
    enum { SEQUENCES = 4, PROMPT = LNT_SESSION_EACH + 12 }; /* a whole chunk and a part of one */
    static int32_t tokens[SEQUENCES * LENGTH], first[SEQUENCES * PROMPT];
    static float whole[SEQUENCES * LENGTH * VOCABULARY];
    lnt_session *session;
    fill_tokens(tokens, SEQUENCES * LENGTH, 3);
    assert_ok(ctx, lnt_model_forward(model, tokens, SEQUENCES, LENGTH, NULL, whole));
    assert_ok(ctx, lnt_session_create(model, SEQUENCES, &session));
    assert_null(lnt_session_logits(session));
    assert_int_equal(session->length, LNT_SESSION_EACH);
    for (int b = 0; b < SEQUENCES; b++)
        memcpy(first + b * PROMPT, tokens + b * LENGTH, PROMPT * sizeof *first);
    assert_ok(ctx, lnt_session_feed(session, first, PROMPT));
    for (int t = PROMPT; t <= LENGTH; t++) {
        int32_t next[SEQUENCES];
        for (int b = 0; b < SEQUENCES; b++) {
            const float *want = whole + (b * LENGTH + t - 1) * VOCABULARY;
            const double off = difference(lnt_session_logits(session) + b * VOCABULARY, want,
                                          VOCABULARY);
            if (!(off < 1e-4)) fail_msg("%s: token %d is off by %g", model->text, t, off);
            next[b] = t < LENGTH ? tokens[b * LENGTH + t] : 0;
        }
        if (t < LENGTH) assert_ok(ctx, lnt_session_feed(session, next, 1));
    }
    assert_int_equal(lnt_session_tokens(session), LENGTH);
    lnt_session_destroy(session);
}

static void a_prompt_and_steps_give_what_the_whole_sequence_gives(void **state)
{
    (void)state;
    walk(check_steps);
}

static void few_sequences_are_read_in_long_chunks_and_many_in_short_ones(void **state)
{
    (void)state;
    static const struct {
        int64_t batch;
        size_t length;
    } cases[] = { { 1, LNT_SESSION_TOKENS }, { 2, LNT_SESSION_TOKENS / 2 }, { 600, LNT_SESSION_EACH } };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = make(ctx, configs[2], LNT_LINEAR, 0);
    for (int i = 0; i < COUNT_OF(cases); i++) {
        lnt_session *session;
        assert_ok(ctx, lnt_session_create(model, cases[i].batch, &session));
        assert_int_equal(session->length, cases[i].length);
        lnt_session_destroy(session);
    }
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
}

static void check_causal(lnt_ctx *ctx, lnt_model *model)
{
    enum { N = 70, AT = 40 };
    int32_t tokens[N];
    static float before[N * VOCABULARY], after[N * VOCABULARY];
    fill_tokens(tokens, N, 5);
    assert_ok(ctx, lnt_model_forward(model, tokens, 1, N, NULL, before));
    tokens[AT] = (tokens[AT] + 1) % VOCABULARY;
    assert_ok(ctx, lnt_model_forward(model, tokens, 1, N, NULL, after));
    assert_true(difference(after, before, AT * VOCABULARY) < 1e-6);
    assert_true(difference(after + AT * VOCABULARY, before + AT * VOCABULARY, VOCABULARY) > 1e-4);
}

static void later_tokens_do_not_reach_earlier_ones(void **state)
{
    (void)state;
    walk(check_causal);
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
    walk(check_file);
    remove("model.safetensors");
}

/* Weights, and what is remembered, as a file that is whole may have them. */
static void numbers_that_are_none_are_refused(void **state)
{
    (void)state;
    const lnt_sampling sampling = { sizeof sampling, 1, 5, 0.9, 11 };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = make(ctx, configs[0], LNT_LINEAR, 0), *again;
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
    assert_refused(ctx, lnt_session_feed(two, tokens, INT64_MAX), LNT_ERR_ARGUMENT, "count is");
    assert_ok(ctx, lnt_session_feed(two, tokens, 2));
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
    walk(check_rounded_file);
    remove("model.safetensors");
}

static void check_session_file(lnt_ctx *ctx, lnt_model *model)
{
    const lnt_sampling sampling = { sizeof sampling, 1, 5, 0.9, 11 };
    int32_t tokens[30], next, same;
    lnt_session *session, *again;
    fill_tokens(tokens, 30, 8);
    assert_ok(ctx, lnt_session_create(model, 1, &session));
    assert_refused(ctx, lnt_session_save(session, "s.safetensors"), LNT_ERR_ARGUMENT, "nothing");
    assert_ok(ctx, lnt_session_feed(session, tokens, 30));
    assert_ok(ctx, lnt_session_save(session, "s.safetensors"));
    assert_ok(ctx, lnt_session_load(model, "s.safetensors", &again));
    assert_int_equal(lnt_session_tokens(again), 30);
    assert_int_equal(lnt_session_batch(again), 1);
    for (int i = 0; i < 20; i++) {
        assert_ok(ctx, lnt_session_sample(session, &sampling, &next));
        assert_ok(ctx, lnt_session_sample(again, &sampling, &same));
        assert_int_equal(next, same);
        assert_ok(ctx, lnt_session_feed(session, &next, 1));
        assert_ok(ctx, lnt_session_feed(again, &next, 1));
        assert_true(difference(lnt_session_logits(again), lnt_session_logits(session),
                               VOCABULARY) < 1e-4);
    }
    lnt_session_destroy(session);
    lnt_session_destroy(again);
}

static void a_saved_session_goes_on_where_it_was(void **state)
{
    (void)state;
    walk(check_session_file);
    remove("s.safetensors");
}

static void a_session_of_another_model_is_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *one = make(ctx, configs[1], LNT_LINEAR, 0), *two = make(ctx, configs[1], LNT_TAYLOR, 0);
    lnt_model *none;
    lnt_session *session;
    const int32_t token = 1;
    assert_ok(ctx, lnt_session_create(one, 1, &session));
    assert_ok(ctx, lnt_session_feed(session, &token, 1));
    assert_ok(ctx, lnt_session_save(session, "other.safetensors"));
    lnt_session_destroy(session);
    assert_refused(ctx, lnt_session_load(two, "other.safetensors", &session), LNT_ERR_FORMAT,
                   "another config");
    one->weights[3] += 1;
    assert_refused(ctx, lnt_session_load(one, "other.safetensors", &session), LNT_ERR_FORMAT,
                   "other weights");
    assert_refused(ctx, lnt_model_load(ctx, "other.safetensors", &none), LNT_ERR_FORMAT,
                   "is not a model");
    remove("other.safetensors");
    assert_null(none);
    lnt_model_destroy(one);
    lnt_model_destroy(two);
    lnt_ctx_destroy(ctx);
}

/* Like the session file at "s.safetensors", but with these logits and nothing else in it. */
static void save_logits_alone(lnt_ctx *ctx, int64_t rows, int64_t columns, const float *logits)
{
    lnt_safetensors st;
    assert_ok(ctx, lnt_safetensors_read(ctx, "s.safetensors", &st));
    const lnt_st_entry entry = { .name = "logits", .rank = 2, .shape = { rows, columns },
                                 .data = logits,
                                 .bytes = (size_t)(rows * columns) * sizeof *logits };
    assert_ok(ctx, lnt_safetensors_write(ctx, "few.safetensors", &entry, 1, st.meta, st.meta_count));
    lnt_safetensors_free(ctx, &st);
}

static void a_session_file_gets_room_only_for_what_it_holds(void **state)
{
    (void)state;
    enum { MANY = 2000 };
    static const float logits[MANY * VOCABULARY];
    static const int32_t tokens[3];
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    lnt_model *model = make(ctx, configs[1], LNT_TAYLOR, 0);
    lnt_session *session, *again;
    assert_ok(ctx, lnt_session_create(model, 3, &session));
    assert_ok(ctx, lnt_session_feed(session, tokens, 1));
    assert_ok(ctx, lnt_session_save(session, "s.safetensors"));
    assert_ok(ctx, lnt_session_load(model, "s.safetensors", &again));
    assert_int_equal(lnt_session_batch(again), 3);
    assert_int_equal(lnt_session_tokens(again), 1);
    assert_memory_equal(lnt_session_logits(again), lnt_session_logits(session),
                        3 * VOCABULARY * sizeof *logits);
    lnt_session_destroy(again);
    lnt_session_destroy(session);
    for (int64_t columns = 0; columns <= VOCABULARY; columns += VOCABULARY) {
        save_logits_alone(ctx, MANY, columns, logits);
        const size_t before = track.total_bytes;
        assert_refused(ctx, lnt_session_load(model, "few.safetensors", &again), LNT_ERR_FORMAT,
                       columns ? "tensor 'layers.0" : "tensor 'logits'");
        assert_null(again);
        assert_true(track.total_bytes - before < 4000000);
    }
    save_logits_alone(ctx, 0, VOCABULARY, NULL);
    assert_refused(ctx, lnt_session_load(model, "few.safetensors", &again), LNT_ERR_FORMAT,
                   "is not a session");
    remove("s.safetensors");
    remove("few.safetensors");
    lnt_model_destroy(model);
    context_close_tracked(ctx, &track);
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
    (void)state;
    static int32_t tokens[2 * LENGTH];
    static float first[2 * LENGTH * VOCABULARY], other[2 * LENGTH * VOCABULARY];
    fill_tokens(tokens, 2 * LENGTH, 9);
    for (int m = 0; lnt_mechanism_name((lnt_mechanism)m); m++)
        for (int threads = 1; generates(m) && threads <= 3; threads++) {
            lnt_ctx *ctx = context_new(threads, NULL);
            lnt_model *model = make(ctx, configs[1], (lnt_mechanism)m, 0);
            assert_ok(ctx, lnt_model_forward(model, tokens, 2, LENGTH, NULL,
                                             threads == 1 ? first : other));
            if (threads > 1) assert_memory_equal(first, other, sizeof first);
            lnt_model_destroy(model);
            lnt_ctx_destroy(ctx);
        }
}

static void the_state_of_a_session_does_not_grow(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int m = LNT_LINEAR; m <= LNT_TAYLOR; m++) {
        lnt_model *model = make(ctx, configs[1], (lnt_mechanism)m, 0);
        lnt_session *session;
        int32_t tokens[1000];
        fill_tokens(tokens, 1000, 2);
        assert_ok(ctx, lnt_session_create(model, 1, &session));
        assert_ok(ctx, lnt_session_feed(session, tokens, 10));
        const size_t bytes = lnt_session_bytes(session);
        const double cache = lnt_session_cache_bytes(session);
        assert_ok(ctx, lnt_session_feed(session, tokens, 990));
        assert_true(bytes > 0 && lnt_session_bytes(session) == bytes);
        assert_true(lnt_session_cache_bytes(session) == 100 * cache);
        assert_true(cache == 2.0 * 4 * 2 * 16 * 10); /* k, v; f32; layers; kv heads * 8; tokens */
        lnt_session_destroy(session);
        lnt_model_destroy(model);
    }
    lnt_ctx_destroy(ctx);
}

static void wrong_tokens_and_too_many_positions_are_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = make(ctx, configs[0], LNT_LINEAR, 0);
    lnt_session *session;
    const int32_t bad = VOCABULARY;
    int32_t many[LENGTH + 1] = { 0 };
    float logits[VOCABULARY];
    assert_ok(ctx, lnt_session_create(model, 1, &session));
    assert_refused(ctx, lnt_session_feed(session, &bad, 1), LNT_ERR_ARGUMENT, "token 0 is 19");
    assert_refused(ctx, lnt_model_forward(model, &bad, 1, 1, NULL, logits), LNT_ERR_ARGUMENT,
                   "token 0 is 19");
    assert_refused(ctx, lnt_session_feed(session, many, LENGTH + 1), LNT_ERR_UNSUPPORTED,
                   "learned 150 positions");
    lnt_session_destroy(session);
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
}

static void every_changed_byte_of_a_model_is_noticed(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = make(ctx, configs[2], LNT_LINEAR, 0), *again;
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
        lnt_model *model = make(ctx, configs[2], LNT_TAYLOR, 0);
        lnt_session *session = NULL;
        t.fail_at = t.calls + fail_at;
        lnt_status status = lnt_session_create(model, 1, &session);
        if (!status) status = lnt_session_feed(session, tokens, 4);
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

static void a_feed_that_fails_leaves_the_session_as_it_was(void **state)
{
    (void)state;
    enum { PROMPT = 100, MORE = 300 };
    int32_t tokens[PROMPT + MORE];
    bool done = false;
    fill_tokens(tokens, PROMPT + MORE, 4);
    for (int64_t fail_at = 0; !done; fail_at++) {
        tracker t;
        lnt_ctx *ctx = context_tracked(&t, 1, NULL);
        lnt_model *model = make(ctx, configs[2], LNT_SOFTMAX, 0); /* whose cache grows */
        lnt_session *session, *other;
        assert_ok(ctx, lnt_session_create(model, 1, &session));
        assert_ok(ctx, lnt_session_create(model, 1, &other));
        assert_ok(ctx, lnt_session_feed(session, tokens, PROMPT));
        t.fail_at = t.calls + fail_at;
        const lnt_status status = lnt_session_feed(session, tokens + PROMPT, MORE);
        assert_true(status == LNT_OK || status == LNT_ERR_MEMORY);
        done = status == LNT_OK;
        t.fail_at = -1;
        assert_int_equal(lnt_session_tokens(session), done ? PROMPT + MORE : PROMPT);
        if (!done) assert_ok(ctx, lnt_session_feed(session, tokens + PROMPT, MORE));
        assert_ok(ctx, lnt_session_feed(other, tokens, PROMPT));
        assert_ok(ctx, lnt_session_feed(other, tokens + PROMPT, MORE));
        assert_memory_equal(lnt_session_logits(session), lnt_session_logits(other),
                            VOCABULARY * sizeof(float));
        lnt_session_destroy(session);
        lnt_session_destroy(other);
        lnt_model_destroy(model);
        context_close_tracked(ctx, &t);
    }
}

static void check_convert(lnt_ctx *ctx, lnt_model *model)
{
    for (int m = 0; lnt_mechanism_name((lnt_mechanism)m); m++) {
        if (!generates(m)) continue;
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
    walk(check_convert);
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = make(ctx, configs[0], LNT_LINEAR, 0), *none;
    assert_refused(ctx, lnt_model_convert(model, "lstm", &none), LNT_ERR_ARGUMENT,
                   "mechanism 'lstm' is not known");
    assert_refused(ctx, lnt_model_convert(model, "cur", &none), LNT_ERR_ARGUMENT, "whole sequences");
    assert_null(none);
    lnt_model_destroy(model);
    model = make(ctx, "{\"dim\":16,\"heads\":2,\"attention\":{\"decay\":[0.5]}}", LNT_LINEAR, 0);
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

static void a_draw_from_the_whole_is_that_of_a_session(void **state)
{
    (void)state;
    enum { N = 20 };
    const lnt_sampling sampling = { sizeof sampling, 1, 0, 1, 5 };
    const lnt_sampling wrong = { sizeof wrong, -1, 0, 1, 5 };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = make(ctx, configs[1], LNT_SOFTMAX, 0);
    lnt_session *session;
    int32_t tokens[2 * N], one[2], other[2];
    static float logits[2 * N * VOCABULARY];
    int distinct = 0;
    fill_tokens(tokens, 2 * N, 12);
    assert_ok(ctx, lnt_session_create(model, 2, &session));
    assert_ok(ctx, lnt_session_feed(session, tokens, N));
    assert_ok(ctx, lnt_model_forward(model, tokens, 2, N, NULL, logits));
    memcpy(logits, logits + (N - 1) * VOCABULARY, VOCABULARY * sizeof *logits);
    memcpy(logits + VOCABULARY, logits + (2 * N - 1) * VOCABULARY, VOCABULARY * sizeof *logits);
    for (int64_t seed = 0; seed < 30; seed++) {
        lnt_sampling s = sampling;
        s.seed = (uint64_t)seed;
        assert_ok(ctx, lnt_session_sample(session, &s, one));
        assert_ok(ctx, lnt_model_sample(model, logits, 2, N, &s, other));
        assert_memory_equal(one, other, sizeof one);
        distinct += one[0] != one[1];
    }
    assert_true(distinct > 10);
    assert_refused(ctx, lnt_model_sample(model, logits, 2, 0, &sampling, other), LNT_ERR_ARGUMENT,
                   "length be at least 1");
    assert_refused(ctx, lnt_model_sample(model, logits, 2, N, &wrong, other), LNT_ERR_ARGUMENT,
                   "temperature is -1");
    lnt_session_destroy(session);
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
    assert_true(lnt_config_attention(&model->config).scale == 1.0 / 90);
    assert_ok(ctx, lnt_model_convert(model, "taylor", &other));
    assert_true(isnan(lnt_config_attention(&other->config).scale));
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
    assert_ok(ctx, lnt_model_evaluate(model, &request, &report));
    assert_int_equal(report.targets, 99);
    lnt_model_destroy(model);
    assert_ok(ctx, create(ctx, "copy", NULL, &model));
    assert_int_equal(model->config.inputs, 11);
    lnt_model_destroy(model);
    assert_ok(ctx, create(ctx, "speech", NULL, &model));
    assert_true(model->config.outputs == 11 && model->config.kind == LNT_ENCODER);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_and_steps_give_what_the_whole_sequence_gives),
        cmocka_unit_test(few_sequences_are_read_in_long_chunks_and_many_in_short_ones),
        cmocka_unit_test(later_tokens_do_not_reach_earlier_ones),
        cmocka_unit_test(a_saved_model_is_the_same_model),
        cmocka_unit_test(numbers_that_are_none_are_refused),
        cmocka_unit_test(a_model_saved_as_bf16_is_rounded_once),
        cmocka_unit_test(a_saved_session_goes_on_where_it_was),
        cmocka_unit_test(a_session_of_another_model_is_refused),
        cmocka_unit_test(a_session_file_gets_room_only_for_what_it_holds),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(the_state_of_a_session_does_not_grow),
        cmocka_unit_test(wrong_tokens_and_too_many_positions_are_refused),
        cmocka_unit_test(every_changed_byte_of_a_model_is_noticed),
        cmocka_unit_test(no_allocation_fails_without_a_trace),
        cmocka_unit_test(a_feed_that_fails_leaves_the_session_as_it_was),
        cmocka_unit_test(a_model_under_another_mechanism_has_the_same_weights),
        cmocka_unit_test(a_draw_from_the_whole_is_that_of_a_session),
        cmocka_unit_test(a_model_begins_without_data),
        cmocka_unit_test(a_default_does_not_outlive_its_mechanism),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
