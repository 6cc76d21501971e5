/* test_packed.c - a model whose matrices are packed as a file had them answers as the model of the same
 * numbers in f32 does: whole sequences, token by token, and with another mechanism. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/dtype.h"
#include "models.h"

static const char *const configs[] = {
    ("{\"dim\":64,\"layers\":2,\"heads\":4,\"kv_heads\":2,\"position\":\"rotary\",\"norm\":\"rms\","
     "\"activation\":\"swiglu\",\"ff\":96,\"tied\":true}"),
    "{\"dim\":32,\"layers\":2,\"heads\":2,\"length\":40}",
};

static const lnt_storage storages[] = { LNT_STORAGE_F32,  LNT_STORAGE_F16,  LNT_STORAGE_BF16,
                                        LNT_STORAGE_Q8_0, LNT_STORAGE_Q4_0, LNT_STORAGE_Q4_1 };

/* Numbers near 0 in a storage of blocks of at most 32, the scales of which come first. */
static unsigned char *random_data(dice *d, lnt_storage storage, size_t count)
{
    const size_t numbers = lnt_storage_numbers(storage), size = lnt_storage_bytes(storage);
    unsigned char *data = malloc(count / numbers * size);
    assert_non_null(data);
    for (size_t i = 0; i < count / numbers * size; i++) data[i] = (unsigned char)dice_next(d);
    for (size_t b = 0; b < count / numbers; b++) {
        const float x = (float)(0.2 * dice_normal(d));
        const uint16_t half = lnt_float_to_f16(x / (numbers > 1 ? 16 : 1)), less = lnt_float_to_f16(-x / 2);
        const uint16_t bf16 = lnt_float_to_bf16(x);
        memcpy(data + b * size, storage == LNT_STORAGE_BF16 ? &bf16 : &half, sizeof half);
        if (storage == LNT_STORAGE_F32) memcpy(data + b * size, &x, sizeof x);
        if (storage == LNT_STORAGE_Q4_1) memcpy(data + b * size + 2, &less, sizeof less);
    }
    return data;
}

/* Gives parameter i of packed, [rows,in], and of plain, transposed unless it is a table. */
static void give(dice *d, lnt_model *plain, lnt_model *packed, size_t i, bool table)
{
    const lnt_layout_entry *e = &plain->layout.entries[i];
    const size_t in = e->param.shape[table ? 1 : 0], rows = e->param.shape[table ? 0 : 1], first = rows / 3;
    lnt_weight_part parts[2];
    unsigned char *data[2];
    float *numbers = malloc(rows * in * sizeof *numbers), *to = plain->weights + e->offset;
    assert_non_null(numbers);
    for (int p = 0; p < 2; p++) {
        const lnt_storage storage = DICE_PICK(d, storages);
        const size_t count = p ? rows - first : first;
        data[p] = random_data(d, storage, count * in);
        lnt_storage_unpack(storage, data[p], numbers + (p ? first * in : 0), count * in);
        parts[p] = (lnt_weight_part){ .storage = storage, .data = data[p], .rows = count };
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < in; k++) to[table ? r * in + k : k * rows + r] = numbers[r * in + k];
    assert_ok(packed->ctx, lnt_model_pack(packed, i, parts, 2));
    free(numbers), free(data[0]), free(data[1]);
}

/* A model of the numbers of `plain`, whose matrices become random ones. */
static lnt_model *pack(lnt_ctx *ctx, lnt_model *plain, dice *d)
{
    lnt_model *packed;
    lnt_tokenizer tokenizer = { 0 };
    assert_ok(ctx, lnt_tokenizer_open(ctx, LNT_TOKENS_NONE, NULL, 0, &tokenizer));
    assert_ok(ctx, lnt_model_open(ctx, &plain->config, "test", &tokenizer, true, &packed));
    for (size_t i = 0; i < plain->layout.entry_count; i++) {
        const lnt_layout_entry *from = &plain->layout.entries[i], *to = &packed->layout.entries[i];
        if (!from->count) continue;
        if (lnt_layout_packs(i)) give(d, plain, packed, i, i == LNT_PARAM_EMBED);
        else memcpy(packed->weights + to->offset, plain->weights + from->offset, from->count * sizeof(float));
        assert_true(lnt_layout_packs(i) ? to->count == 0 : to->count == from->count);
    }
    return packed;
}

static void expect_same_answers(lnt_ctx *ctx, lnt_model *plain, lnt_model *packed)
{
    enum { TOKENS = 40, SHORT = 3 };
    static float want[TOKENS * VOCABULARY], got[TOKENS * VOCABULARY];
    int32_t tokens[TOKENS];
    lnt_session *sessions[2];
    model_fill_tokens(tokens, TOKENS, 5);
    for (int64_t count = SHORT; count <= TOKENS; count += TOKENS - SHORT) {
        assert_ok(ctx, lnt_model_forward(plain, tokens, 1, count, NULL, want));
        assert_ok(ctx, lnt_model_forward(packed, tokens, 1, count, NULL, got));
        const double error = model_difference(got, want, (size_t)count * VOCABULARY);
        if (!(error < 1e-3)) fail_msg("%d tokens at once are %g off", (int)count, error);
    }
    assert_ok(ctx, lnt_session_create(plain, 1, &sessions[0]));
    assert_ok(ctx, lnt_session_create(packed, 1, &sessions[1]));
    for (int t = 0; t < 6; t++) {
        for (int s = 0; s < 2; s++) assert_ok(ctx, lnt_session_forward(sessions[s], tokens + t, 1));
        const double error =
            model_difference(lnt_session_logits(sessions[1]), lnt_session_logits(sessions[0]), VOCABULARY);
        if (!(error < 1e-3)) fail_msg("token %d is %g off", t, error);
    }
    lnt_session_destroy(sessions[0]);
    lnt_session_destroy(sessions[1]);
}

static void packed_models_answer_as_those_of_the_same_numbers(void **state)
{
    (void)state;
    dice d = { 1 };
    lnt_ctx *ctx = context_new(2, NULL);
    for (int i = 0; i < COUNT_OF(configs) * budget(1, 4); i++) {
        lnt_model *plain = model_make(ctx, configs[i % COUNT_OF(configs)], LNT_SOFTMAX, 0);
        lnt_model *packed = pack(ctx, plain, &d), *other[2];
        expect_same_answers(ctx, plain, packed);
        assert_ok(ctx, lnt_model_convert(plain, "linear", &other[0]));
        assert_ok(ctx, lnt_model_convert(packed, "linear", &other[1]));
        expect_same_answers(ctx, other[0], other[1]);
        lnt_model *const all[] = { plain, packed, other[0], other[1] };
        for (int m = 0; m < COUNT_OF(all); m++) lnt_model_destroy(all[m]);
    }
    lnt_ctx_destroy(ctx);
}

static void what_packed_models_cannot_do_is_refused(void **state)
{
    (void)state;
    dice d = { 2 };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *plain = model_make(ctx, configs[0], LNT_SOFTMAX, 0), *packed = pack(ctx, plain, &d);
    const lnt_weight_part part = { .storage = LNT_STORAGE_F32, .data = plain->weights, .rows = 18 };
    lnt_trainer *trainer;
    assert_ok(ctx, lnt_model_save(packed, "packed.safetensors", LNT_F32));
    assert_refused(ctx, lnt_trainer_resume(ctx, "packed.safetensors", NULL, 0, &trainer), LNT_ERR_FORMAT,
                   "is not a checkpoint");
    assert_refused(ctx, lnt_model_pack(packed, LNT_PARAM_EMBED, &part, 1), LNT_ERR_SHAPE,
                   "embed.weight has 18 rows, must have 19");
    lnt_model_destroy(packed);
    lnt_model_destroy(plain);
    assert_int_equal(unlink("packed.safetensors"), 0);
    lnt_ctx_destroy(ctx);
}

/* A session goes on with the weights it was saved with alone. */
static void sessions_know_the_packed_weights_they_were_saved_with(void **state)
{
    (void)state;
    dice d = { 3 };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *plain = model_make(ctx, configs[0], LNT_SOFTMAX, 0);
    lnt_model *one = pack(ctx, plain, &d), *two = pack(ctx, plain, &d);
    lnt_session *session;
    const int32_t token = 3;
    assert_ok(ctx, lnt_session_create(one, 1, &session));
    assert_ok(ctx, lnt_session_forward(session, &token, 1));
    assert_ok(ctx, lnt_session_save(session, "session.safetensors"));
    lnt_session_destroy(session);
    assert_ok(ctx, lnt_session_load(one, "session.safetensors", &session));
    lnt_session_destroy(session);
    assert_refused(ctx, lnt_session_load(two, "session.safetensors", &session), LNT_ERR_FORMAT, "weights");
    lnt_model_destroy(one);
    lnt_model_destroy(two);
    lnt_model_destroy(plain);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_models_answer_as_those_of_the_same_numbers),
        cmocka_unit_test(what_packed_models_cannot_do_is_refused),
        cmocka_unit_test(sessions_know_the_packed_weights_they_were_saved_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
