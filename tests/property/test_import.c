/* test_import.c - models that others trained: any split of a text gives the same answer, memory that runs out
 * leaves nothing behind, and a file that was cut or changed gives a model or one sentence. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "linnet/model.h"
#include "llama_file.h"
#include "models.h"
#include "support.h"
#include "unit/io_support.h"

#define PATH "import_test.gguf"

static void save(const buffer *file, size_t count) { put_file(PATH, file->data, count); }

static const int32_t text[] = { 40, 41, 258, 7, 0, 263, 100, 31, 32, 33, 8, 9 };
enum { TOKENS = sizeof text / sizeof text[0] };

/* Logits after every token, in calls of so many tokens. */
static void run(lnt_ctx *ctx, const lnt_model *model, int64_t each, float *logits)
{
    lnt_session *session;
    assert_ok(ctx, lnt_session_create(model, 1, &session));
    for (int64_t at = 0; at < TOKENS; at += each) {
        const int64_t n = TOKENS - at < each ? TOKENS - at : each;
        assert_ok(ctx, lnt_session_forward_all(session, text + at, n, n, logits + at * LLAMA_TOKENS));
    }
    lnt_session_destroy(session);
}

static double distance(const float *a, const float *b, size_t count)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        error += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(error / size);
}

/* One token goes by whole numbers where weights are packed in codes, many by floats. */
static void any_split_of_a_text_gives_the_same_logits(void **state)
{
    (void)state;
    static const lnt_storage storages[] = { LNT_STORAGE_F32, LNT_STORAGE_F16, LNT_STORAGE_BF16,
                                            LNT_STORAGE_Q8_0 };
    lnt_ctx *ctx = context_new(2, NULL);
    float whole[TOKENS * LLAMA_TOKENS], split[TOKENS * LLAMA_TOKENS];
    for (size_t s = 0; s < 4; s++) {
        buffer file = llama_file(storages[s], 7 + s);
        lnt_model *model;
        lnt_model_info info = { .size = sizeof info };
        save(&file, file.used);
        assert_ok(ctx, lnt_model_load(ctx, PATH, &model));
        assert_ok(ctx, lnt_model_describe(model, &info));
        assert_string_equal(info.architecture, "llama");
        assert_string_equal(info.storage, lnt_storage_name(storages[s]));
        run(ctx, model, TOKENS, whole);
        for (int64_t each = 1; each < TOKENS; each += 4) {
            run(ctx, model, each, split);
            assert_true(distance(split, whole, TOKENS * LLAMA_TOKENS) < 3e-4);
        }
        lnt_model_destroy(model);
        buffer_free(&file);
    }
    lnt_ctx_destroy(ctx);
}

/* A model in f32 and the same, rounded to f16 as its file has it, are as near as the rounding. */
static void storages_of_the_same_numbers_agree(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    float exact[TOKENS * LLAMA_TOKENS], rounded[TOKENS * LLAMA_TOKENS];
    for (int s = 0; s < 2; s++) {
        buffer file = llama_file(s ? LNT_STORAGE_F16 : LNT_STORAGE_F32, 3);
        lnt_model *model;
        save(&file, file.used);
        assert_ok(ctx, lnt_model_load(ctx, PATH, &model));
        run(ctx, model, TOKENS, s ? rounded : exact);
        lnt_model_destroy(model);
        buffer_free(&file);
    }
    const double error = distance(rounded, exact, TOKENS * LLAMA_TOKENS);
    assert_true(error > 1e-7 && error < 5e-3);
    lnt_ctx_destroy(ctx);
}

static void text_goes_through_the_tokenizer_and_back(void **state)
{
    (void)state;
    static const char said[] = "hello in\xc3\xa9r\n \xf0\x9f\x99\x82";
    lnt_ctx *ctx = context_new(1, NULL);
    buffer file = llama_file(LNT_STORAGE_F32, 1);
    lnt_model *model;
    lnt_stream *stream;
    int32_t tokens[64];
    size_t count, used = 0;
    char back[64];
    save(&file, file.used);
    assert_ok(ctx, lnt_model_load(ctx, PATH, &model));
    assert_ok(ctx, lnt_model_tokenize(model, said, strlen(said), LNT_TEXT_PLAIN, tokens, 64, &count));
    assert_true(count < strlen(said));
    assert_int_equal(tokens[0], 259); /* "hello" */
    assert_ok(ctx, lnt_stream_create(model, &stream));
    for (size_t i = 0; i <= count; i++) {
        const char *piece;
        size_t bytes;
        assert_ok(ctx, i < count ? lnt_stream_put(stream, tokens[i], &piece, &bytes)
                                 : lnt_stream_end(stream, &piece, &bytes));
        assert_true(used + bytes < sizeof back);
        memcpy(back + used, piece, bytes);
        used += bytes;
    }
    back[used] = '\0';
    assert_string_equal(back, said);
    assert_int_equal(lnt_model_ends(model, LLAMA_TOKENS - 1), 1);
    assert_int_equal(lnt_model_ends(model, 5), 0);
    lnt_stream_destroy(stream);
    lnt_model_destroy(model);
    buffer_free(&file);
    lnt_ctx_destroy(ctx);
}

static void memory_that_runs_out_leaves_nothing(void **state)
{
    (void)state;
    buffer file = llama_file(LNT_STORAGE_Q8_0, 2);
    save(&file, file.used);
    assert_true(model_load_without_memory(PATH) > 20);
    buffer_free(&file);
}

/* Loads what there is: a model, which then answers, or a sentence. */
static void try(lnt_ctx *ctx)
{
    lnt_model *model;
    const lnt_status status = lnt_model_load(ctx, PATH, &model);
    if (status) {
        assert_null(model);
        assert_true(strlen(lnt_ctx_error(ctx)) > 0);
        return;
    }
    lnt_session *session;
    assert_ok(ctx, lnt_session_create(model, 1, &session));
    const lnt_status answered = lnt_session_forward(session, (const int32_t[]){ 0 }, 1);
    assert_true(answered == LNT_OK || strlen(lnt_ctx_error(ctx)) > 0);
    lnt_session_destroy(session);
    lnt_model_destroy(model);
}

static void changed_and_cut_files_are_models_or_a_sentence(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    buffer file = llama_file(LNT_STORAGE_Q8_0, 5);
    const size_t head = file.used < 9000 ? file.used : 9000, step = (size_t)budget(97, 13);
    for (size_t at = 0; at < head; at += step) {
        const unsigned char was = file.data[at];
        for (int change = 0; change < 3; change++) {
            file.data[at] = change == 0 ? (unsigned char)~was : change == 1 ? 0 : 0xff;
            save(&file, file.used);
            try(ctx);
        }
        file.data[at] = was;
        save(&file, at + 1);
        try(ctx);
    }
    buffer_free(&file);
    lnt_ctx_destroy(ctx);
}

static int leave(void **state)
{
    unlink(PATH);
    return leave_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_split_of_a_text_gives_the_same_logits),
        cmocka_unit_test(storages_of_the_same_numbers_agree),
        cmocka_unit_test(text_goes_through_the_tokenizer_and_back),
        cmocka_unit_test(memory_that_runs_out_leaves_nothing),
        cmocka_unit_test(changed_and_cut_files_are_models_or_a_sentence),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave);
}
