/* test_session.c - sessions over every causal mechanism: steps equal the whole, a saved one goes on where it
 * was, what is remembered does not grow, and what is refused leaves it as it was. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../support/models.h"
#include "model/session.h"

static void check_steps(lnt_ctx *ctx, lnt_model *model)
{
    enum { SEQUENCES = 4, PROMPT = LNT_SESSION_EACH + 12 }; /* a whole chunk and a part of one */
    static int32_t tokens[SEQUENCES * LENGTH], first[SEQUENCES * PROMPT];
    static float whole[SEQUENCES * LENGTH * VOCABULARY];
    lnt_session *session;
    model_fill_tokens(tokens, SEQUENCES * LENGTH, 3);
    assert_ok(ctx, lnt_model_forward(model, tokens, SEQUENCES, LENGTH, NULL, whole));
    assert_ok(ctx, lnt_session_create(model, SEQUENCES, &session));
    assert_null(lnt_session_logits(session));
    assert_int_equal(session->length, LNT_SESSION_EACH);
    for (int b = 0; b < SEQUENCES; b++)
        memcpy(first + b * PROMPT, tokens + b * LENGTH, PROMPT * sizeof *first);
    assert_ok(ctx, lnt_session_forward(session, first, PROMPT));
    for (int t = PROMPT; t <= LENGTH; t++) {
        int32_t next[SEQUENCES];
        for (int b = 0; b < SEQUENCES; b++) {
            const float *want = whole + (b * LENGTH + t - 1) * VOCABULARY;
            const double off = model_difference(lnt_session_logits(session) + b * VOCABULARY, want,
                                          VOCABULARY);
            if (!(off < 1e-4)) fail_msg("%s: token %d is off by %g", model->text, t, off);
            next[b] = t < LENGTH ? tokens[b * LENGTH + t] : 0;
        }
        if (t < LENGTH) assert_ok(ctx, lnt_session_forward(session, next, 1));
    }
    assert_int_equal(lnt_session_tokens(session), LENGTH);
    lnt_session_destroy(session);
}

static void a_prompt_and_steps_give_what_the_whole_sequence_gives(void **state)
{
    (void)state;
    model_walk(check_steps);
}

/* Fed in two calls, the second longer than a chunk. */
static void check_all_logits(lnt_ctx *ctx, lnt_model *model)
{
    enum { SEQUENCES = 4, BEFORE = 5, COUNT = LNT_SESSION_EACH + 9, LAST = COUNT - 3, ALL = BEFORE + COUNT };
    static int32_t tokens[SEQUENCES * ALL], first[SEQUENCES * BEFORE], then[SEQUENCES * COUNT];
    static float whole[SEQUENCES * ALL * VOCABULARY], all[SEQUENCES * LAST * VOCABULARY];
    static double nats[SEQUENCES * COUNT], begin[SEQUENCES * BEFORE];
    lnt_session *session, *scored;
    model_fill_tokens(tokens, SEQUENCES * ALL, 4);
    assert_ok(ctx, lnt_model_forward(model, tokens, SEQUENCES, ALL, NULL, whole));
    for (int b = 0; b < SEQUENCES; b++) {
        memcpy(first + b * BEFORE, tokens + b * ALL, BEFORE * sizeof *first);
        memcpy(then + b * COUNT, tokens + b * ALL + BEFORE, COUNT * sizeof *then);
    }
    assert_ok(ctx, lnt_session_create(model, SEQUENCES, &session));
    assert_ok(ctx, lnt_session_forward(session, first, BEFORE));
    assert_ok(ctx, lnt_session_forward_all(session, then, COUNT, LAST, all));
    assert_ok(ctx, lnt_session_create(model, SEQUENCES, &scored));
    assert_ok(ctx, lnt_session_score(scored, first, BEFORE, begin));
    assert_ok(ctx, lnt_session_score(scored, then, COUNT, nats));
    assert_int_equal(lnt_session_tokens(scored), ALL);
    for (int b = 0; b < SEQUENCES; b++) {
        const float *end = whole + ((b + 1) * ALL - 1) * VOCABULARY;
        assert_true(model_difference(all + b * LAST * VOCABULARY, end - (LAST - 1) * VOCABULARY,
                                     LAST * VOCABULARY) < 1e-4);
        assert_true(model_difference(lnt_session_logits(session) + b * VOCABULARY, end, VOCABULARY) < 1e-4);
        assert_true(model_difference(lnt_session_logits(scored) + b * VOCABULARY, end, VOCABULARY) < 1e-4);
        assert_true(begin[b * BEFORE] == 0);
        for (int t = 1; t < ALL; t++) {
            const float *x = whole + (b * ALL + t - 1) * VOCABULARY;
            double sum = 0;
            for (int c = 0; c < VOCABULARY; c++) sum += exp((double)x[c]);
            const double want = log(sum) - (double)x[tokens[b * ALL + t]];
            const double got = t < BEFORE ? begin[b * BEFORE + t] : nats[b * COUNT + t - BEFORE];
            assert_true(fabs(got - want) < 1e-3);
        }
    }
    assert_refused(ctx, lnt_session_forward_all(session, then, 3, 4, all), LNT_ERR_ARGUMENT, "last is 4");
    assert_refused(ctx, lnt_session_score(session, then, 3, NULL), LNT_ERR_ARGUMENT, "nats is NULL");
    lnt_session_destroy(session);
    lnt_session_destroy(scored);
}

static void every_token_has_logits_and_a_score(void **state)
{
    (void)state;
    model_walk(check_all_logits);
}

static void few_sequences_are_read_in_long_chunks_and_many_in_short_ones(void **state)
{
    (void)state;
    static const struct {
        int64_t batch;
        size_t length;
    } cases[] = { { 1, LNT_SESSION_TOKENS }, { 2, LNT_SESSION_TOKENS / 2 }, { 600, LNT_SESSION_EACH } };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = model_make(ctx, model_configs[2], LNT_LINEAR, 0);
    for (int i = 0; i < COUNT_OF(cases); i++) {
        lnt_session *session;
        assert_ok(ctx, lnt_session_create(model, cases[i].batch, &session));
        assert_int_equal(session->length, cases[i].length);
        lnt_session_destroy(session);
    }
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
}

/* Five tokens one by one, and the logits of the last. */
static void steps_of(lnt_ctx *ctx, lnt_session *session, float *logits)
{
    int32_t tokens[5];
    model_fill_tokens(tokens, 5, 21);
    for (int t = 0; t < 5; t++) assert_ok(ctx, lnt_session_forward(session, tokens + t, 1));
    memcpy(logits, lnt_session_logits(session), VOCABULARY * sizeof *logits);
    lnt_session_destroy(session);
}

static void check_bf16(lnt_ctx *ctx, lnt_model *model)
{
    float want[VOCABULARY], got[VOCABULARY];
    lnt_model *wide, *half, *other;
    lnt_session *session;
    assert_ok(ctx, lnt_model_save(model, "wide.safetensors", LNT_F32));
    assert_ok(ctx, lnt_model_save(model, "half.safetensors", LNT_BF16));
    assert_ok(ctx, lnt_model_load(ctx, "wide.safetensors", &wide));
    assert_ok(ctx, lnt_model_load(ctx, "half.safetensors", &half));
    assert_null(wide->bf16);
    assert_non_null(half->bf16);
    assert_ok(ctx, lnt_session_create(half, 1, &session));
    session->network.bf16 = NULL;
    steps_of(ctx, session, want);
    assert_ok(ctx, lnt_session_create(half, 1, &session));
    steps_of(ctx, session, got);
    assert_memory_equal(want, got, sizeof want);
    memset(half->bf16, 0, half->layout.size * sizeof *half->bf16); /* it was these that were read */
    assert_ok(ctx, lnt_session_create(half, 1, &session));
    steps_of(ctx, session, got);
    assert_memory_not_equal(want, got, sizeof want);
    assert_ok(ctx, lnt_model_convert(half, "linear", &other));
    assert_non_null(other->bf16);
    lnt_model_destroy(other);
    lnt_model_destroy(wide);
    lnt_model_destroy(half);
}

static void weights_of_a_bf16_file_are_read_as_such_for_the_same_answer(void **state)
{
    (void)state;
    model_walk(check_bf16);
}

static void check_session_file(lnt_ctx *ctx, lnt_model *model)
{
    const lnt_sampling sampling = { .size = sizeof sampling, .temperature = 1, .top_k = 5, .top_p = 0.9,
                                    .seed = 11 };
    int32_t tokens[30], next, same;
    lnt_session *session, *again;
    model_fill_tokens(tokens, 30, 8);
    assert_ok(ctx, lnt_session_create(model, 1, &session));
    assert_refused(ctx, lnt_session_save(session, "s.safetensors"), LNT_ERR_ARGUMENT, "nothing");
    assert_ok(ctx, lnt_session_forward(session, tokens, 30));
    assert_ok(ctx, lnt_session_save(session, "s.safetensors"));
    assert_ok(ctx, lnt_session_load(model, "s.safetensors", &again));
    assert_int_equal(lnt_session_tokens(again), 30);
    assert_int_equal(lnt_session_batch(again), 1);
    for (int i = 0; i < 20; i++) {
        assert_ok(ctx, lnt_session_sample(session, &sampling, &next));
        assert_ok(ctx, lnt_session_sample(again, &sampling, &same));
        assert_int_equal(next, same);
        assert_ok(ctx, lnt_session_forward(session, &next, 1));
        assert_ok(ctx, lnt_session_forward(again, &next, 1));
        assert_true(model_difference(lnt_session_logits(again), lnt_session_logits(session),
                               VOCABULARY) < 1e-4);
    }
    lnt_session_destroy(session);
    lnt_session_destroy(again);
}

/* Softmax in one layer, with a cache; fixed states in others. */
static void layers_may_remember_in_different_ways(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    static const char config[] =
        "{\"dim\":24,\"layers\":4,\"heads\":3,\"length\":150,\"position\":\"rotary\",\"kinds\":["
        "{\"layers\":[1],\"attention\":{\"mechanism\":\"linear\"},\"rotary\":{\"off\":true}},"
        "{\"every\":2,\"offset\":2,\"attention\":{\"mechanism\":\"hybrid\",\"window\":8,\"sink\":2}}]}";
    lnt_model *model = model_make(ctx, config, LNT_SOFTMAX, 0);
    check_steps(ctx, model);
    check_all_logits(ctx, model);
    check_session_file(ctx, model);
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
}

static void a_saved_session_goes_on_where_it_was(void **state)
{
    (void)state;
    model_walk(check_session_file);
    remove("s.safetensors");
}

static void a_saved_session_keeps_its_note_and_its_last_tokens(void **state)
{
    (void)state;
    enum { N = 30 };
    const lnt_sampling greedy = { .size = sizeof greedy, .top_p = 1, .repetition_penalty = 50 };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = model_make(ctx, model_configs[1], LNT_LINEAR, 0);
    lnt_session *session, *again;
    int32_t tokens[2 * N], one[2], other[2];
    model_fill_tokens(tokens, 2 * N, 12);
    assert_ok(ctx, lnt_session_create(model, 2, &session));
    assert_ok(ctx, lnt_session_forward(session, tokens, N));
    assert_string_equal(lnt_session_note(session), "");
    assert_ok(ctx, lnt_session_set_note(session, "first"));
    assert_ok(ctx, lnt_session_set_note(session, "a \"note\"\nof two lines, \xc3\xa9"));
    assert_refused(ctx, lnt_session_set_note(session, "\xff"), LNT_ERR_ARGUMENT, "must be UTF-8");
    assert_ok(ctx, lnt_session_save(session, "n.safetensors"));
    assert_ok(ctx, lnt_session_load(model, "n.safetensors", &again));
    assert_string_equal(lnt_session_note(again), lnt_session_note(session));
    for (int i = 0; i < N; i++) {
        assert_ok(ctx, lnt_session_sample(session, &greedy, one));
        assert_ok(ctx, lnt_session_sample(again, &greedy, other));
        assert_memory_equal(one, other, sizeof one);
        assert_ok(ctx, lnt_session_forward(session, one, 1));
        assert_ok(ctx, lnt_session_forward(again, other, 1));
    }
    assert_ok(ctx, lnt_session_set_note(again, NULL));
    assert_string_equal(lnt_session_note(again), "");
    remove("n.safetensors");
    lnt_session_destroy(session);
    lnt_session_destroy(again);
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
}

static void a_session_of_another_model_is_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *one = model_make(ctx, model_configs[1], LNT_LINEAR, 0);
    lnt_model *two = model_make(ctx, model_configs[1], LNT_TAYLOR, 0);
    lnt_model *none;
    lnt_session *session;
    const int32_t token = 1;
    assert_ok(ctx, lnt_session_create(one, 1, &session));
    assert_ok(ctx, lnt_session_forward(session, &token, 1));
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
    lnt_model *model = model_make(ctx, model_configs[1], LNT_TAYLOR, 0);
    lnt_session *session, *again;
    assert_ok(ctx, lnt_session_create(model, 3, &session));
    assert_ok(ctx, lnt_session_forward(session, tokens, 1));
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

static void the_state_of_a_session_does_not_grow(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int m = LNT_LINEAR; m <= LNT_TAYLOR; m++) {
        lnt_model *model = model_make(ctx, model_configs[1], (lnt_mechanism)m, 0);
        lnt_session *session;
        int32_t tokens[1000];
        model_fill_tokens(tokens, 1000, 2);
        assert_ok(ctx, lnt_session_create(model, 1, &session));
        assert_ok(ctx, lnt_session_forward(session, tokens, 10));
        const size_t bytes = lnt_session_bytes(session);
        const double cache = lnt_session_cache_bytes(session);
        assert_ok(ctx, lnt_session_forward(session, tokens, 990));
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
    lnt_model *model = model_make(ctx, model_configs[0], LNT_LINEAR, 0);
    lnt_session *session;
    const int32_t bad = VOCABULARY;
    int32_t many[LENGTH + 1] = { 0 };
    float logits[VOCABULARY];
    assert_ok(ctx, lnt_session_create(model, 1, &session));
    assert_refused(ctx, lnt_session_forward(session, &bad, 1), LNT_ERR_ARGUMENT, "token 0 is 19");
    assert_refused(ctx, lnt_model_forward(model, &bad, 1, 1, NULL, logits), LNT_ERR_ARGUMENT,
                   "token 0 is 19");
    assert_refused(ctx, lnt_session_forward(session, many, LENGTH + 1), LNT_ERR_UNSUPPORTED,
                   "learned 150 positions");
    lnt_session_destroy(session);
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
}

static void a_feed_that_fails_leaves_the_session_as_it_was(void **state)
{
    (void)state;
    enum { PROMPT = 100, MORE = 300 };
    int32_t tokens[PROMPT + MORE];
    bool done = false;
    model_fill_tokens(tokens, PROMPT + MORE, 4);
    for (int64_t fail_at = 0; !done; fail_at++) {
        tracker t;
        lnt_ctx *ctx = context_tracked(&t, 1, NULL);
        lnt_model *model = model_make(ctx, model_configs[2], LNT_SOFTMAX, 0); /* whose cache grows */
        lnt_session *session, *other;
        assert_ok(ctx, lnt_session_create(model, 1, &session));
        assert_ok(ctx, lnt_session_create(model, 1, &other));
        assert_ok(ctx, lnt_session_forward(session, tokens, PROMPT));
        t.fail_at = t.calls + fail_at;
        const lnt_status status = lnt_session_forward(session, tokens + PROMPT, MORE);
        assert_true(status == LNT_OK || status == LNT_ERR_MEMORY);
        done = status == LNT_OK;
        t.fail_at = -1;
        assert_int_equal(lnt_session_tokens(session), done ? PROMPT + MORE : PROMPT);
        if (!done) assert_ok(ctx, lnt_session_forward(session, tokens + PROMPT, MORE));
        assert_ok(ctx, lnt_session_forward(other, tokens, PROMPT));
        assert_ok(ctx, lnt_session_forward(other, tokens + PROMPT, MORE));
        assert_memory_equal(lnt_session_logits(session), lnt_session_logits(other),
                            VOCABULARY * sizeof(float));
        lnt_session_destroy(session);
        lnt_session_destroy(other);
        lnt_model_destroy(model);
        context_close_tracked(ctx, &t);
    }
}

static void a_draw_from_the_whole_is_that_of_a_session(void **state)
{
    (void)state;
    enum { N = 20 };
    const lnt_sampling sampling = { .size = sizeof sampling, .temperature = 1, .top_p = 1, .seed = 5 };
    const lnt_sampling wrong = { .size = sizeof wrong, .temperature = -1, .top_p = 1, .seed = 5 };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = model_make(ctx, model_configs[1], LNT_SOFTMAX, 0);
    lnt_session *session;
    int32_t tokens[2 * N], one[2], other[2];
    static float logits[2 * N * VOCABULARY];
    int distinct = 0;
    model_fill_tokens(tokens, 2 * N, 12);
    assert_ok(ctx, lnt_session_create(model, 2, &session));
    assert_ok(ctx, lnt_session_forward(session, tokens, N));
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
    lnt_sampling penalty = sampling;
    penalty.repetition_penalty = 1.2;
    assert_refused(ctx, lnt_model_sample(model, logits, 2, N, &penalty, other), LNT_ERR_ARGUMENT,
                   "without a session");
    lnt_session_destroy(session);
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
}

/* Of each sequence its own, and the last `tokens` alone. */
static void a_penalty_lowers_what_a_session_was_fed(void **state)
{
    (void)state;
    enum { N = 300 };
    const int64_t spans[] = { 1, 7, 0 };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = model_make(ctx, model_configs[1], LNT_SOFTMAX, 0);
    lnt_session *session;
    int32_t tokens[2 * N], one[2];
    model_fill_tokens(tokens, 2 * N, 12);
    assert_ok(ctx, lnt_session_create(model, 2, &session));
    assert_ok(ctx, lnt_session_forward(session, tokens, N));
    for (int i = 0; i < COUNT_OF(spans); i++) {
        const int64_t span = spans[i] ? spans[i] : 256;
        const lnt_sampling greedy = { .size = sizeof greedy, .top_p = 1, .repetition_penalty = 50,
                                      .penalty_tokens = spans[i] };
        assert_ok(ctx, lnt_session_sample(session, &greedy, one));
        for (int b = 0; b < 2; b++) {
            double x[VOCABULARY];
            bool seen[VOCABULARY] = { 0 };
            int best = 0;
            for (int64_t t = N - span; t < N; t++) seen[tokens[b * N + t]] = true;
            for (int v = 0; v < VOCABULARY; v++) {
                x[v] = (double)lnt_session_logits(session)[b * VOCABULARY + v];
                if (seen[v]) x[v] = x[v] > 0 ? x[v] / 50 : x[v] * 50;
                if (x[v] > x[best]) best = v;
            }
            assert_int_equal(one[b], best);
        }
    }
    lnt_session_destroy(session);
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_and_steps_give_what_the_whole_sequence_gives),
        cmocka_unit_test(every_token_has_logits_and_a_score),
        cmocka_unit_test(layers_may_remember_in_different_ways),
        cmocka_unit_test(few_sequences_are_read_in_long_chunks_and_many_in_short_ones),
        cmocka_unit_test(weights_of_a_bf16_file_are_read_as_such_for_the_same_answer),
        cmocka_unit_test(a_penalty_lowers_what_a_session_was_fed),
        cmocka_unit_test(a_saved_session_goes_on_where_it_was),
        cmocka_unit_test(a_saved_session_keeps_its_note_and_its_last_tokens),
        cmocka_unit_test(a_session_of_another_model_is_refused),
        cmocka_unit_test(a_session_file_gets_room_only_for_what_it_holds),
        cmocka_unit_test(the_state_of_a_session_does_not_grow),
        cmocka_unit_test(wrong_tokens_and_too_many_positions_are_refused),
        cmocka_unit_test(a_feed_that_fails_leaves_the_session_as_it_was),
        cmocka_unit_test(a_draw_from_the_whole_is_that_of_a_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
