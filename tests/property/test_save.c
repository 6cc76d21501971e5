/* test_save.c - a model that was saved is the model: packed matrices to the bit, tokenizer and all; turned
 * into other storage they are what the report says; a file that lies is refused with one sentence. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/dtype.h"
#include "linnet/model.h"
#include "llama_file.h"
#include "models.h"
#include "support.h"
#include "unit/io_support.h"

#define GGUF "save_test.gguf"
#define PATH "save_test.safetensors"
#define AGAIN "save_again.safetensors"

/* ---- models of random blocks ------------------------------------------------------------------- */

static const char *const configs[] = {
    ("{\"dim\":256,\"layers\":2,\"heads\":4,\"kv_heads\":2,\"position\":\"rotary\",\"norm\":\"rms\","
     "\"activation\":\"swiglu\",\"ff\":256,\"tied\":true}"),
    "{\"dim\":256,\"layers\":1,\"heads\":2,\"length\":40,\"ff\":512}",
};

/* Bytes of a block at which f16 scales stand. */
static const struct {
    int count, at[2];
} halves[LNT_STORAGES] = {
    [LNT_STORAGE_Q8_0] = { 1, { 0 } },    [LNT_STORAGE_Q4_0] = { 1, { 0 } },
    [LNT_STORAGE_Q4_1] = { 2, { 0, 2 } }, [LNT_STORAGE_Q5_0] = { 1, { 0 } },
    [LNT_STORAGE_Q5_1] = { 2, { 0, 2 } }, [LNT_STORAGE_Q2_K] = { 2, { 80, 82 } },
    [LNT_STORAGE_Q3_K] = { 1, { 108 } },  [LNT_STORAGE_Q4_K] = { 2, { 0, 2 } },
    [LNT_STORAGE_Q5_K] = { 2, { 0, 2 } }, [LNT_STORAGE_Q6_K] = { 1, { 208 } },
};

static void put_half(unsigned char *to, uint16_t half) { memcpy(to, &half, sizeof half); }

static unsigned char *random_rows(dice *d, lnt_storage storage, size_t count)
{
    const size_t size = lnt_storage_bytes(storage), blocks = count / lnt_storage_numbers(storage);
    unsigned char *data = malloc(blocks * size);
    assert_non_null(data);
    for (size_t i = 0; i < blocks * size; i++) data[i] = (unsigned char)dice_next(d);
    for (size_t b = 0; b < blocks; b++) {
        unsigned char *to = data + b * size;
        const float x = (float)(0.1 * dice_normal(d));
        if (storage == LNT_STORAGE_F32) memcpy(to, &x, sizeof x);
        if (storage == LNT_STORAGE_BF16) put_half(to, lnt_float_to_bf16(x));
        if (storage == LNT_STORAGE_F16) put_half(to, lnt_float_to_f16(x));
        for (int i = 0; i < halves[storage].count; i++)
            put_half(to + halves[storage].at[i], lnt_float_to_f16((float)(0.001 * dice_normal(d))));
    }
    return data;
}

/* Matrix i, of two storages one below the other. */
static void give(dice *d, lnt_model *model, size_t i)
{
    lnt_weight_part parts[2];
    unsigned char *data[2];
    size_t out, in;
    lnt_model_extents(&model->config, &model->layout.entries[i], i, &out, &in);
    for (int p = 0; p < 2; p++) {
        const lnt_storage storage = (lnt_storage)dice_range(d, 0, LNT_STORAGES - 1);
        const size_t rows = p ? out - out / 3 : out / 3;
        data[p] = random_rows(d, storage, rows * in);
        parts[p] = (lnt_weight_part){ .storage = storage, .data = data[p], .rows = rows };
    }
    assert_ok(model->ctx, lnt_model_pack(model, i, parts, 2));
    free(data[0]), free(data[1]);
}

static lnt_model *random_model(lnt_ctx *ctx, const char *config, dice *d)
{
    lnt_model *packed, *plain = model_make(ctx, config, LNT_SOFTMAX, 0);
    lnt_tokenizer tokenizer = { 0 };
    assert_ok(ctx, lnt_model_open(ctx, &plain->config, "copy", &tokenizer, true, &packed));
    for (size_t i = 0; i < packed->layout.entry_count; i++) {
        const lnt_layout_entry *from = &plain->layout.entries[i], *to = &packed->layout.entries[i];
        if (from->count && lnt_layout_packs(i))
            give(d, packed, i);
        else if (from->count)
            memcpy(packed->weights + to->offset, plain->weights + from->offset, from->count * sizeof(float));
    }
    lnt_model_destroy(plain);
    return packed;
}

/* ---- the same answers ---------------------------------------------------------------------------- */

enum { TOKENS = 24 };

static void expect_same_bits(lnt_ctx *ctx, lnt_model *a, lnt_model *b)
{
    lnt_model_info info = { .size = sizeof info }, other = { .size = sizeof other };
    assert_ok(ctx, lnt_model_describe(a, &info));
    assert_ok(ctx, lnt_model_describe(b, &other));
    assert_string_equal(info.config, other.config);
    assert_string_equal(info.task, other.task);
    assert_string_equal(info.tokenizer, other.tokenizer);
    assert_string_equal(info.architecture, other.architecture);
    assert_int_equal(info.parameters, other.parameters);
    assert_int_equal(info.length, other.length);
    assert_int_equal(info.chats, other.chats);
    const size_t count = TOKENS * (size_t)info.outputs;
    float *want = malloc(count * sizeof *want), *got = malloc(count * sizeof *got);
    int32_t tokens[TOKENS];
    assert_true(want && got);
    for (int t = 0; t < TOKENS; t++) tokens[t] = (int32_t)((t * 7 + 3) % info.inputs);
    for (int64_t n = 1; n <= TOKENS; n += TOKENS - 1) {
        assert_ok(ctx, lnt_model_forward(a, tokens, 1, n, NULL, want));
        assert_ok(ctx, lnt_model_forward(b, tokens, 1, n, NULL, got));
        assert_memory_equal(got, want, (size_t)n * (size_t)info.outputs * sizeof *want);
    }
    free(want), free(got);
}

static void expect_same_file(const char *a, const char *b)
{
    size_t count, other;
    unsigned char *x = get_file(a, &count), *y = get_file(b, &other);
    assert_int_equal(count, other);
    assert_memory_equal(x, y, count);
    free(x), free(y);
}

static void packed_models_come_back_to_the_bit(void **state)
{
    (void)state;
    dice d = { 1 };
    lnt_ctx *ctx = context_new(2, NULL);
    for (int i = 0; i < COUNT_OF(configs) * budget(2, 8); i++) {
        lnt_model *model = random_model(ctx, configs[i % COUNT_OF(configs)], &d), *back;
        assert_ok(ctx, lnt_model_save_with(model, PATH, NULL));
        assert_ok(ctx, lnt_model_load(ctx, PATH, &back));
        expect_same_bits(ctx, model, back);
        assert_ok(ctx, lnt_model_save_with(back, AGAIN, NULL));
        expect_same_file(PATH, AGAIN);
        lnt_model_destroy(back);
        lnt_model_destroy(model);
    }
    lnt_ctx_destroy(ctx);
}

static lnt_model *load_llama(lnt_ctx *ctx, lnt_storage storage)
{
    buffer file = llama_file(storage, 11);
    lnt_model *model;
    put_file(GGUF, file.data, file.used);
    assert_ok(ctx, lnt_model_load(ctx, GGUF, &model));
    buffer_free(&file);
    return model;
}

static void expect_same_text(lnt_ctx *ctx, const lnt_model *a, const lnt_model *b)
{
    static const char said[] = "hello in\xc3\xa9r <|end|>\n \xf0\x9f\x99\x82\xff";
    int32_t want[64], got[64];
    size_t count, other;
    for (unsigned flags = 0; flags < 4; flags++) {
        assert_ok(ctx, lnt_model_tokenize(a, said, strlen(said), flags, want, 64, &count));
        assert_ok(ctx, lnt_model_tokenize(b, said, strlen(said), flags, got, 64, &other));
        assert_int_equal(count, other);
        assert_memory_equal(want, got, count * sizeof *want);
    }
    for (int32_t t = 0; t < LLAMA_TOKENS; t++) assert_int_equal(lnt_model_ends(a, t), lnt_model_ends(b, t));
}

static void models_of_others_bring_tokenizer_and_ends(void **state)
{
    (void)state;
    static const lnt_storage storages[] = { LNT_STORAGE_F32, LNT_STORAGE_F16, LNT_STORAGE_BF16,
                                            LNT_STORAGE_Q8_0 };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int s = 0; s < COUNT_OF(storages); s++) {
        lnt_model *model = load_llama(ctx, storages[s]), *back;
        lnt_model_info info = { .size = sizeof info };
        assert_ok(ctx, lnt_model_save_with(model, PATH, NULL));
        assert_int_equal(unlink(GGUF), 0);
        assert_ok(ctx, lnt_model_load(ctx, PATH, &back));
        assert_ok(ctx, lnt_model_describe(back, &info));
        assert_string_equal(info.storage, lnt_storage_name(storages[s]));
        expect_same_bits(ctx, model, back);
        expect_same_text(ctx, model, back);
        lnt_model_destroy(back);
        lnt_model_destroy(model);
    }
    lnt_ctx_destroy(ctx);
}

/* ---- turned ---------------------------------------------------------------------------------------- */

static bool same_storage(const lnt_weight *a, const lnt_weight *b)
{
    bool same = a->part_count == b->part_count;
    for (size_t p = 0; same && p < a->part_count; p++) same = a->parts[p].storage == b->parts[p].storage;
    return same;
}

/* The relative change of all matrices that are in another storage now. */
static double change_of(const lnt_model *a, const lnt_model *b)
{
    double wrong = 0, all = 0;
    for (size_t i = 0; i < a->layout.entry_count; i++) {
        const lnt_weight *x = &a->packed[i], *y = &b->packed[i];
        if (!a->layout.entries[i].param.name || !lnt_layout_packs(i) || same_storage(x, y)) continue;
        float *row = malloc(x->in * sizeof *row), *other = malloc(x->in * sizeof *other);
        assert_true(row && other && x->in == y->in && x->out == y->out);
        for (size_t r = 0; r < x->out; r++) {
            lnt_weight_row(x, r, row);
            lnt_weight_row(y, r, other);
            for (size_t k = 0; k < x->in; k++) {
                wrong += ((double)other[k] - (double)row[k]) * ((double)other[k] - (double)row[k]);
                all += (double)row[k] * (double)row[k];
            }
        }
        free(row), free(other);
    }
    return all > 0 ? sqrt(wrong / all) : 0;
}

static void turned_weights_are_as_near_as_the_report_says(void **state)
{
    (void)state;
    static const struct {
        lnt_weights weights;
        double most;
        const char *storage;
    } ways[] = { { LNT_WEIGHTS_F32, 0, "f32" },
                 { LNT_WEIGHTS_BF16, 0.003, "bf16" },
                 { LNT_WEIGHTS_Q8, 0.01, "q8_0" },
                 { LNT_WEIGHTS_Q4, 0.1, "q4_1" } };
    dice d = { 4 };
    lnt_ctx *ctx = context_new(2, NULL);
    for (int c = 0; c < COUNT_OF(configs); c++) {
        lnt_model *model = random_model(ctx, configs[c], &d), *back;
        for (int w = 0; w < COUNT_OF(ways); w++) {
            lnt_save_report report = { .size = sizeof report };
            const lnt_save_options with = { .size = sizeof with,
                                            .weights = ways[w].weights,
                                            .report = &report };
            lnt_model_info info = { .size = sizeof info };
            size_t count;
            assert_ok(ctx, lnt_model_save_with(model, PATH, &with));
            assert_ok(ctx, lnt_model_load(ctx, PATH, &back));
            assert_ok(ctx, lnt_model_describe(back, &info));
            assert_string_equal(info.storage, ways[w].storage);
            free(get_file(PATH, &count));
            assert_int_equal(report.file_bytes, count);
            const double change = change_of(model, back);
            assert_true(change <= ways[w].most);
            assert_true(fabs(report.error - change) <= 1e-3 * change);
            assert_true(report.worst_error >= report.error * (1 - 1e-9) && report.turned <= report.matrices);
            assert_int_equal(report.worst[0] != 0, change > 0);
            lnt_model_destroy(back);
        }
        lnt_model_destroy(model);
    }
    lnt_ctx_destroy(ctx);
}

/* Our own, which learn: by keep and f32 they stay files that do, in blocks they answer nearly as before. */
static void our_own_models_go_into_blocks(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < MODEL_CONFIGS; i++) {
        lnt_model *model = model_make(ctx, model_configs[i], LNT_LINEAR, 0), *back;
        float want[TOKENS * VOCABULARY], got[TOKENS * VOCABULARY];
        int32_t tokens[TOKENS];
        model_fill_tokens(tokens, TOKENS, 3);
        for (int w = LNT_WEIGHTS_KEEP; w <= LNT_WEIGHTS_Q4; w++) {
            lnt_save_report report = { .size = sizeof report };
            const lnt_save_options with = { .size = sizeof with,
                                            .weights = (lnt_weights)w,
                                            .report = &report };
            assert_ok(ctx, lnt_model_save_with(model, PATH, &with));
            assert_ok(ctx, lnt_model_load(ctx, PATH, &back));
            assert_int_equal(back->packed != NULL, w >= LNT_WEIGHTS_Q8);
            if (w <= LNT_WEIGHTS_F32)
                assert_memory_equal(back->weights, model->weights, model->layout.size * sizeof(float));
            assert_ok(ctx, lnt_model_forward(model, tokens, 1, TOKENS, NULL, want));
            assert_ok(ctx, lnt_model_forward(back, tokens, 1, TOKENS, NULL, got));
            assert_true(model_difference(got, want, TOKENS * VOCABULARY) <
                        (w == LNT_WEIGHTS_Q4 ? 0.3 : 0.03));
            assert_true(report.error < (w == LNT_WEIGHTS_Q4 ? 0.1 : 0.01));
            lnt_model_destroy(back);
        }
        lnt_model_destroy(model);
    }
    lnt_ctx_destroy(ctx);
}

/* ---- what goes wrong --------------------------------------------------------------------------------- */

static void what_cannot_be_saved_is_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = load_llama(ctx, LNT_STORAGE_F32);
    lnt_save_options with = { .size = sizeof with, .weights = (lnt_weights)5 };
    assert_refused(ctx, lnt_model_save_with(model, PATH, &with), LNT_ERR_ARGUMENT, "options.weights is 5");
    with.weights = LNT_WEIGHTS_Q8;
    assert_refused(ctx, lnt_model_save_with(model, NULL, &with), LNT_ERR_ARGUMENT, "path");
    assert_refused(ctx, lnt_model_save_with(model, "/dev/null", &with), LNT_ERR_FILE, "not a regular file");
    assert_refused(ctx, lnt_model_save_with(model, "none/x.safetensors", &with), LNT_ERR_FILE, "none/x");
    assert_int_equal(lnt_model_save_with(NULL, PATH, &with), LNT_ERR_ARGUMENT);
    with.size = 3;
    assert_refused(ctx, lnt_model_save_with(model, PATH, &with), LNT_ERR_ARGUMENT, "size");
    with.size = sizeof with;
    const float bad = INFINITY;
    ((float *)(void *)model->packed[LNT_PARAM_EMBED].parts[0].panels)[5] = bad;
    assert_refused(ctx, lnt_model_save_with(model, PATH, &with), LNT_ERR_FORMAT, "embed.weight has numbers");
    assert_int_equal(access(PATH, F_OK), -1);
    lnt_model_destroy(model);
    unlink(GGUF);
    assert_int_equal(count_files(), 0);
    lnt_ctx_destroy(ctx);
}

static void memory_that_runs_out_leaves_nothing(void **state)
{
    (void)state;
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    lnt_model *model = load_llama(ctx, LNT_STORAGE_F16), *back;
    const lnt_save_options with = { .size = sizeof with, .weights = LNT_WEIGHTS_Q4 };
    for (int what = 0; what < 2; what++) { /* saving, loading */
        const int64_t before = track.live;
        int64_t calls = 0;
        for (lnt_status status = LNT_ERR_MEMORY; status; calls++) {
            back = NULL;
            track.calls = 0;
            track.fail_at = calls;
            status = what ? lnt_model_load(ctx, PATH, &back) : lnt_model_save_with(model, PATH, &with);
            track.fail_at = -1;
            lnt_model_destroy(back);
            if (status) assert_int_equal(status, LNT_ERR_MEMORY);
            if (status) assert_null(back);
            assert_int_equal(track.live, before);
            assert_int_equal(access(PATH, F_OK) == 0, what || !status);
        }
        assert_true(calls > 8);
    }
    lnt_model_destroy(model);
    unlink(PATH), unlink(GGUF);
    context_close_tracked(ctx, &track);
}

/* ---- files that lie ------------------------------------------------------------------------------------ */

/* The saved file with text `from` in its header replaced by one of the same length, and without checksum. */
static void lie(const char *from, const char *to)
{
    size_t count;
    unsigned char *data = get_file(PATH, &count);
    for (unsigned char *at = data; (at = memmem(at, count - (size_t)(at - data), "linnet.checksum", 15));)
        *at = 'L';
    unsigned char *at = memmem(data, count, from, strlen(from));
    if (!at) fail_msg("'%s' is not in the file", from);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
    put_file(AGAIN, data, count);
    free(data);
}

static void a_file_that_lies_is_refused_with_a_sentence(void **state)
{
    (void)state;
    /* The text in the header; metadata are JSON in a JSON string. */
    static const struct {
        const char *from, *to, *says;
    } lies[] = {
        { "[\\\"q8_0\\\",264,32]", "[\\\"q9_9\\\",264,32]", "said to be in 'q9_9'" },
        { "[\\\"q8_0\\\",264,32]", "[\\\"q4_0\\\",264,32]", "rows of other bytes" },
        { "[\\\"q8_0\\\",264,32]", "[\\\"q6_k\\\",264,32]", "rows of other bytes" },
        { "[\\\"q8_0\\\",264,32]", "[\\\"q8_0\\\",265,32]", "another shape" },
        { "[\\\"q8_0\\\",264,32]", "[\\\"q8_0\\\",264,64]", "another shape" },
        { "[\\\"q8_0\\\",264,32]", "[\\\"bf16\\\",264,32]", "said to be in 'bf16'" },
        { "[\\\"q8_0\\\",264,32]", "[\\\"q8_0\\\",[4],32]", "another shape" },
        { "[\\\"q8_0\\\",264,32]", "[\\\"q8_0\\\",264,-2]", "another shape" },
        { "[\\\"q8_0\\\",264,32]", "{\\\"q8_0\\\":264   }", "does not say" },
        { "\\\"embed.weight\\\":", "\\\"other.weight\\\":", "does not say" },
        { "\"shape\":[264,34]", "\"shape\":[132,68]", "another shape" },
        { "\"shape\":[264,34]", "\"shape\":[8976  ]", "must have two extents" },
        { "\"dtype\":\"U8\",\"shape\":[264,34]", "\"dtype\":\"I8\",\"shape\":[264,34]", "must be of F32" },
        { "\"blocks.0.out.weight\":", "\"blocks.9.out.weight\":", "has no tensor 'blocks.0.out.weight'" },
        { "\"norm.gain\":", "\"morn.gain\":", "has no tensor 'norm.gain'" },
        { "\\\"architecture\\\":", "\\\"architectura\\\":", "origin" },
        { "\\\"text_length\\\":64", "\\\"text_length\\\":65", "origin" },
        { "\\\"ends\\\":[263", "\\\"ends\\\":[264", "origin" },
        { "\"tokenizer.gguf\"", "\"tokenizer.fgug\"", "is not known" },
        { "linnet model 2", "linnet model 3", "not a model of linnet" },
    };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = load_llama(ctx, LNT_STORAGE_Q8_0), *back;
    assert_ok(ctx, lnt_model_save_with(model, PATH, NULL));
    for (int i = 0; i < COUNT_OF(lies); i++) {
        lie(lies[i].from, lies[i].to);
        const lnt_status status = lnt_model_load(ctx, AGAIN, &back);
        if (!status || !strstr(lnt_ctx_error(ctx), lies[i].says))
            fail_msg("%s as %s: status %d, '%s' and not '%s'", lies[i].from, lies[i].to, (int)status,
                     lnt_ctx_error(ctx), lies[i].says);
        assert_null(back);
    }
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
}

static void changed_and_cut_files_are_models_or_a_sentence(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = load_llama(ctx, LNT_STORAGE_Q8_0), *back;
    size_t count;
    assert_ok(ctx, lnt_model_save_with(model, PATH, NULL));
    lie("linnet model 2", "linnet model 2");
    unsigned char *data = get_file(AGAIN, &count);
    for (size_t at = 0; at < count; at += at < 6000 ? (size_t)budget(41, 7) : (size_t)budget(997, 97)) {
        const unsigned char was = data[at];
        for (int change = 0; change < 3; change++) {
            data[at] = change == 0 ? (unsigned char)~was : change == 1 ? 0 : 0xff;
            put_file(AGAIN, data, count);
            const lnt_status status = lnt_model_load(ctx, AGAIN, &back);
            assert_int_equal(status == LNT_OK, back != NULL);
            if (status) assert_true(strlen(lnt_ctx_error(ctx)) > 0);
            lnt_model_destroy(back);
        }
        data[at] = was;
        put_file(AGAIN, data, at);
        assert_true(lnt_model_load(ctx, AGAIN, &back) != LNT_OK);
    }
    free(data);
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
}

static int clear(void **state)
{
    (void)state;
    unlink(GGUF), unlink(PATH), unlink(AGAIN);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(packed_models_come_back_to_the_bit, clear),
        cmocka_unit_test_teardown(models_of_others_bring_tokenizer_and_ends, clear),
        cmocka_unit_test_teardown(turned_weights_are_as_near_as_the_report_says, clear),
        cmocka_unit_test_teardown(our_own_models_go_into_blocks, clear),
        cmocka_unit_test_teardown(what_cannot_be_saved_is_refused, clear),
        cmocka_unit_test_teardown(memory_that_runs_out_leaves_nothing, clear),
        cmocka_unit_test_teardown(a_file_that_lies_is_refused_with_a_sentence, clear),
        cmocka_unit_test_teardown(changed_and_cut_files_are_models_or_a_sentence, clear),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
