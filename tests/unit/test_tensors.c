/* test_tensors.c - io/tensors: the same tensors are found in a GGUF file, in a .safetensors file and in a
 * directory of some, and what is not there is said. */
#include "io/tensors.h"

#include "gguf_file.h"
#include "io_support.h"

#define INDEX "d/model.safetensors.index.json"

static const float floats[6] = { 1, 2, 3, 4, 5, 6 };
static const uint16_t halves[2] = { 0x3c00, 0xc000 };
static const int64_t positions[2] = { 0, 1 };

static const lnt_st_entry all[] = {
    { .name = "w", .dtype = LNT_ST_F32, .rank = 2, .shape = { 2, 3 }, .data = floats,
      .bytes = sizeof floats },
    { .name = "a.bias", .dtype = LNT_ST_F16, .rank = 1, .shape = { 2 }, .data = halves,
      .bytes = sizeof halves },
    { .name = "ids", .dtype = LNT_ST_I64, .rank = 1, .shape = { 2 }, .data = positions,
      .bytes = sizeof positions },
};

static void put_text(const char *path, const char *text) { put_file(path, text, strlen(text)); }

static void hold(const lnt_tensors *t, const char *name, lnt_storage storage, int rank, const int64_t *shape,
                 const void *data, size_t bytes)
{
    const lnt_stored *s = lnt_tensors_find(t, name);
    assert_non_null(s);
    assert_string_equal(s->name, name);
    assert_int_equal(s->storage, storage);
    assert_int_equal(s->rank, rank);
    for (int i = 0; i < rank; i++) assert_int_equal(s->shape[i], shape[i]);
    assert_int_equal(s->bytes, bytes);
    assert_memory_equal(s->data, data, bytes);
    assert_int_equal((uintptr_t)s->data % (storage == LNT_STORAGE_F16 ? 2 : 4), 0);
}

/* The tensors of `all`, read from `path`. */
static void hold_all(lnt_ctx *ctx, const char *path, bool metadata)
{
    lnt_tensors t;
    const lnt_stored *found;
    assert_ok(ctx, lnt_tensors_open(ctx, path, &t));
    assert_int_equal(t.count, COUNT_OF(all));
    assert_null(t.gguf);
    assert_int_equal(t.safetensors != NULL, metadata);
    hold(&t, "w", LNT_STORAGE_F32, 2, all[0].shape, floats, sizeof floats);
    hold(&t, "a.bias", LNT_STORAGE_F16, 1, all[1].shape, halves, sizeof halves);
    hold(&t, "ids", LNT_STORAGES, 1, all[2].shape, positions, sizeof positions);
    assert_string_equal(lnt_tensors_find(&t, "ids")->type, "I64");
    for (size_t i = 1; i < t.count; i++) assert_true(strcmp(t.entries[i - 1].name, t.entries[i].name) < 0);
    assert_ok(ctx, lnt_tensors_need(ctx, &t, "w", &found));
    assert_ptr_equal(found, lnt_tensors_find(&t, "w"));
    assert_refused(ctx, lnt_tensors_need(ctx, &t, "v", &found), LNT_ERR_FORMAT, "there is no tensor 'v'");
    assert_refused(ctx, lnt_tensors_need(ctx, &t, "ids", &found), LNT_ERR_FORMAT, "tensor 'ids' is of I64");
    assert_null(lnt_tensors_find(&t, ""));
    lnt_tensors_close(ctx, &t);
    assert_null(t.entries);
}

static void safetensors_are_found(void **state)
{
    (void)state;
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    static const lnt_st_meta meta = { "linnet.config", "{}" };
    lnt_tensors t;
    assert_ok(ctx, lnt_safetensors_write(ctx, "t.bin", all, (size_t)COUNT_OF(all), &meta, 1));
    hold_all(ctx, "t.bin", true);
    assert_ok(ctx, lnt_tensors_open(ctx, "t.bin", &t));
    assert_string_equal(lnt_safetensors_meta(t.safetensors, "linnet.config"), "{}");
    assert_string_equal(t.path, "t.bin");
    lnt_tensors_close(ctx, &t);
    unlink("t.bin");
    assert_refused(ctx, lnt_tensors_open(ctx, "t.bin", &t), LNT_ERR_FILE, "'t.bin': No such file");
    put_text("t.bin", "PK");
    assert_refused(ctx, lnt_tensors_open(ctx, "t.bin", &t), LNT_ERR_FORMAT, "too few");
    unlink("t.bin");
    context_close_tracked(ctx, &track);
}

static void gguf_is_found(void **state)
{
    (void)state;
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    buffer file = gguf_file_sample();
    lnt_tensors t;
    int64_t blocks;
    put_file("t.bin", file.data, file.used);
    assert_ok(ctx, lnt_tensors_open(ctx, "t.bin", &t));
    assert_int_equal(t.count, 2);
    assert_null(t.safetensors);
    assert_ok(ctx, lnt_gguf_get_integer(ctx, t.gguf, "llama.block_count", &blocks));
    assert_int_equal(blocks, 30);
    assert_int_equal(lnt_tensors_find(&t, "blk.0.q")->storage, LNT_STORAGE_Q4_0);
    hold(&t, "norm", LNT_STORAGE_F32, 1, (const int64_t[]){ 4 }, floats, 16);
    lnt_tensors_close(ctx, &t);
    put_file("t.bin", file.data, file.used - 1);
    assert_refused(ctx, lnt_tensors_open(ctx, "t.bin", &t), LNT_ERR_FORMAT, "'t.bin': tensor");
    buffer_free(&file);
    gguf_file f;
    gguf_file_begin(&f);
    gguf_file_u32(&f, "split.count", 3);
    file = gguf_file_join(&f);
    put_file("t.bin", file.data, file.used);
    assert_refused(ctx, lnt_tensors_open(ctx, "t.bin", &t), LNT_ERR_FORMAT, "one of 3 parts of a model");
    gguf_file_free(&f);
    buffer_free(&file);
    unlink("t.bin");
    context_close_tracked(ctx, &track);
}

/* ---- directories --------------------------------------------------------------------------- */

static void write_shards(lnt_ctx *ctx)
{
    assert_ok(ctx, lnt_safetensors_write(ctx, "d/1.safetensors", all, 1, NULL, 0));
    assert_ok(ctx, lnt_safetensors_write(ctx, "d/2.safetensors", all + 1, 2, NULL, 0));
    put_text(INDEX, "{\"metadata\":{\"total_size\":44},\"weight_map\":{\"w\":\"1.safetensors\","
                    "\"ids\":\"2.safetensors\",\"a.bias\":\"2.safetensors\"}}");
}

static void remove_directory(void)
{
    unlink(INDEX);
    unlink("d/1.safetensors");
    unlink("d/2.safetensors");
    unlink("d/model.safetensors");
    assert_int_equal(rmdir("d"), 0);
}

static void directory_is_found(void **state)
{
    (void)state;
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    lnt_tensors t;
    assert_int_equal(mkdir("d", 0700), 0);
    assert_refused(ctx, lnt_tensors_open(ctx, "d", &t), LNT_ERR_FILE,
                   "'d': the directory has neither model.safetensors nor model.safetensors.index.json");
    write_shards(ctx);
    hold_all(ctx, "d", false);
    hold_all(ctx, "d/", false);
    assert_ok(ctx, lnt_safetensors_write(ctx, "d/model.safetensors", all, (size_t)COUNT_OF(all), NULL, 0));
    hold_all(ctx, "d", true);
    remove_directory();
    context_close_tracked(ctx, &track);
}

/* A tensor that several files have is taken from where the index has it, and what it does not name is
 * left. */
static void index_says_what_there_is(void **state)
{
    (void)state;
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    static const float others[6] = { 9, 9, 9, 9, 9, 9 };
    lnt_st_entry second[3] = { all[0], all[1], all[2] };
    lnt_tensors t;
    second[0].data = others;
    assert_int_equal(mkdir("d", 0700), 0);
    assert_ok(ctx, lnt_safetensors_write(ctx, "d/1.safetensors", all, 1, NULL, 0));
    assert_ok(ctx, lnt_safetensors_write(ctx, "d/2.safetensors", second, 3, NULL, 0));
    put_text(INDEX, "{\"weight_map\":{\"ids\":\"2.safetensors\",\"w\":\"1.safetensors\"}}");
    assert_ok(ctx, lnt_tensors_open(ctx, "d", &t));
    assert_int_equal(t.count, 2);
    hold(&t, "w", LNT_STORAGE_F32, 2, all[0].shape, floats, sizeof floats);
    assert_null(lnt_tensors_find(&t, "a.bias"));
    lnt_tensors_close(ctx, &t);
    remove_directory();
    context_close_tracked(ctx, &track);
}

static void index_that_lies_is_refused(void **state)
{
    (void)state;
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    static const struct {
        const char *index;
        lnt_status status;
        const char *word;
    } cases[] = {
        { "", LNT_ERR_FORMAT, "the file is empty" },
        { "{", LNT_ERR_FORMAT, "byte 1" },
        { "[]", LNT_ERR_FORMAT, "there is no object 'weight_map'" },
        { "{}", LNT_ERR_FORMAT, "there is no object 'weight_map'" },
        { "{\"weight_map\":[]}", LNT_ERR_FORMAT, "there is no object 'weight_map'" },
        { "{\"weight_map\":{\"w\":1}}", LNT_ERR_FORMAT, "the place of tensor 'w' must be" },
        { "{\"weight_map\":{\"w\":\"\"}}", LNT_ERR_FORMAT, "the place of tensor 'w' must be" },
        { "{\"weight_map\":{\"w\":\"..\"}}", LNT_ERR_FORMAT, "the name of a file in the same directory" },
        { "{\"weight_map\":{\"w\":\"../1.safetensors\"}}", LNT_ERR_FORMAT, "in the same directory" },
        { "{\"weight_map\":{\"w\":\"/etc/passwd\"}}", LNT_ERR_FORMAT, "in the same directory" },
        { "{\"weight_map\":{\"w\":\"3.safetensors\"}}", LNT_ERR_FILE, "'d/3.safetensors': No such file" },
        { "{\"weight_map\":{\"w\":\"model.safetensors.index.json\"}}", LNT_ERR_FORMAT,
          "no .safetensors file" },
        { "{\"weight_map\":{\"w\":\"2.safetensors\"}}", LNT_ERR_FORMAT,
          "'d': tensor 'w' is not in '2.safetensors', where the index has it" },
        { "{\"weight_map\":{\"w\":\"1.safetensors\",\"ids\":\"2.safetensors\",\"z\":\"2.safetensors\"}}",
          LNT_ERR_FORMAT, "tensor 'z' is not in '2.safetensors'" },
        { "{\"weight_map\":{\"w\":\"1.safetensors\",\"w\":\"1.safetensors\"}}", LNT_ERR_FORMAT,
          "same key twice" },
    };
    assert_int_equal(mkdir("d", 0700), 0);
    write_shards(ctx);
    for (int i = 0; i < COUNT_OF(cases); i++) {
        lnt_tensors t;
        put_text(INDEX, cases[i].index);
        assert_refused(ctx, lnt_tensors_open(ctx, "d", &t), cases[i].status, cases[i].word);
        assert_null(t.own);
    }
    remove_directory();
    context_close_tracked(ctx, &track);
}

/* Whichever allocation fails: a status, and nothing is lost. */
static void no_memory_is_said_and_nothing_is_lost(void **state)
{
    (void)state;
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    lnt_tensors t;
    assert_int_equal(mkdir("d", 0700), 0);
    write_shards(ctx);
    lnt_status status = LNT_ERR_MEMORY;
    for (int64_t n = 0; status; n++) {
        track.fail_at = track.calls + n;
        status = lnt_tensors_open(ctx, "d", &t);
        if (status) assert_int_equal(status, LNT_ERR_MEMORY);
        assert_true(n < 100);
    }
    track.fail_at = -1;
    lnt_tensors_close(ctx, &t);
    remove_directory();
    context_close_tracked(ctx, &track);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors_are_found),
        cmocka_unit_test(gguf_is_found),
        cmocka_unit_test(directory_is_found),
        cmocka_unit_test(index_says_what_there_is),
        cmocka_unit_test(index_that_lies_is_refused),
        cmocka_unit_test(no_memory_is_said_and_nothing_is_lost),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
