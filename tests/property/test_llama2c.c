/* test_llama2c.c - models of llama2.c: what is said of the tokenizer beside them, memory that runs out leaves
 * nothing behind, and a file that was cut or changed gives a model or one sentence. */
#include <string.h>
#include <unistd.h>

#include "linnet/model.h"
#include "llama2c_file.h"
#include "models.h"
#include "support.h"
#include "unit/io_support.h"

#define PATH "llama2c_test.bin"
#define TOKENIZER "tok_test.bin"

static void save(const buffer *file, size_t count) { put_file(PATH, file->data, count); }

static void save_tokenizer(void)
{
    buffer file = llama2c_tokenizer();
    put_file(TOKENIZER, file.data, file.used);
    buffer_free(&file);
}

static void its_text_begins_and_ends_with_the_token_between_texts(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    buffer file = llama2c_file(true, 1);
    lnt_model *model;
    lnt_model_info info = { .size = sizeof info };
    int32_t tokens[8];
    size_t count;
    save(&file, file.used);
    save_tokenizer();
    assert_ok(ctx, lnt_model_load(ctx, PATH, &model));
    assert_ok(ctx, lnt_model_describe(model, &info));
    assert_string_equal(info.tokenizer, "sentencepiece");
    assert_string_equal(info.storage, "f32");
    assert_int_equal(info.length, LLAMA2C_LENGTH);
    assert_int_equal(info.outputs, LLAMA2C_TOKENS);
    assert_ok(ctx, lnt_model_tokenize(model, "ab", 2, LNT_TEXT_FRAMED, tokens, 8, &count));
    assert_int_equal(count, 2);
    assert_int_equal(tokens[0], 1);
    assert_int_equal(tokens[1], LLAMA2C_TOKENS - 1); /* " ab" */
    assert_int_equal(lnt_model_ends(model, 1) && lnt_model_ends(model, 2), 1);
    assert_int_equal(lnt_model_ends(model, 0) || lnt_model_ends(model, 3), 0);
    lnt_model_destroy(model);
    buffer_free(&file);
    lnt_ctx_destroy(ctx);
}

static void memory_that_runs_out_leaves_nothing(void **state)
{
    (void)state;
    buffer file = llama2c_file(false, 2);
    save(&file, file.used);
    save_tokenizer();
    assert_true(model_load_without_memory(PATH) > 10);
    buffer_free(&file);
}

/* Loads what there is: a model, which then answers, or a sentence.  Gives whether it was a model. */
static bool try(lnt_ctx *ctx)
{
    lnt_model *model;
    const lnt_status status = lnt_model_load(ctx, PATH, &model);
    if (status) {
        assert_null(model);
        assert_true(strlen(lnt_ctx_error(ctx)) > 0);
        return false;
    }
    lnt_session *session;
    assert_ok(ctx, lnt_session_create(model, 1, &session));
    assert_ok(ctx, lnt_session_forward(session, (const int32_t[]){ 0 }, 1));
    lnt_session_destroy(session);
    lnt_model_destroy(model);
    return true;
}

/* The header is short: every byte of it takes every value.  With another size no file is a model. */
static void a_changed_header_is_a_model_or_a_sentence(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    buffer file = llama2c_file(false, 3);
    const int step = (int)budget(16, 1);
    int models = 0;
    remove(TOKENIZER);
    for (size_t at = 0; at < 28; at++) {
        const unsigned char was = file.data[at];
        for (int value = 0; value < 256; value += step) {
            file.data[at] = (unsigned char)value;
            save(&file, file.used);
            models += file.data[at] != was && try(ctx);
        }
        file.data[at] = was;
    }
    assert_int_equal(models, 0);
    save(&file, file.used);
    assert_true(try(ctx));
    buffer_put_u32(&file, 0);
    save(&file, file.used);
    assert_false(try(ctx));
    for (size_t cut = 1; cut < file.used - 4; cut += 97) {
        save(&file, cut);
        assert_false(try(ctx));
    }
    buffer_free(&file);
    lnt_ctx_destroy(ctx);
}

static int leave(void **state)
{
    unlink(PATH);
    unlink(TOKENIZER);
    return leave_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_text_begins_and_ends_with_the_token_between_texts),
        cmocka_unit_test(memory_that_runs_out_leaves_nothing),
        cmocka_unit_test(a_changed_header_is_a_model_or_a_sentence),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave);
}
