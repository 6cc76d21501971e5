/* test_gguf.c - io/gguf: what was put into a file is read back, and what lies is refused in one sentence.
 * */
#include "io/gguf.h"

#include "core/dtype.h"
#include "gguf_file.h"
#include "io_support.h"

#define PATH "t.gguf"
#define assert_bad(ctx, call, word) assert_refused(ctx, call, LNT_ERR_FORMAT, word)

enum { MAX_KEYS = 12, MAX_TENSORS = 12, MAX_ELEMENTS = 9, MAX_DATA = 4096 };

typedef struct known_key {
    char name[16];
    lnt_gguf_type type, element;
    buffer value; /* of the value, or of the elements of an array */
    uint64_t count;
} known_key;

typedef struct known_tensor {
    char name[16];
    lnt_storage storage;
    int rank;
    int64_t shape[LNT_GGUF_MAX_RANK];
    buffer data;
} known_tensor;

/* Names that sort in another order than they are made in. */
static void make_name(dice *d, int index, char out[16])
{
    const int length = snprintf(out, 16, "%c%d", (int)dice_range(d, 'a', 'z'), index);
    for (int i = length; i < length + (int)dice_range(d, 0, 3); i++) out[i] = '.', out[i + 1] = 0;
}

static void put_random(dice *d, lnt_gguf_type type, int depth, buffer *out)
{
    const lnt_gguf_type leaf = (lnt_gguf_type)dice_range(d, LNT_GGUF_U8, LNT_GGUF_STRING);
    unsigned char random[16];
    for (int i = 0; i < COUNT_OF(random); i++) random[i] = (unsigned char)dice_next(d);
    if (type == LNT_GGUF_BOOL) random[0] &= 1;
    if (type == LNT_GGUF_STRING) {
        buffer_put_string(out, (const char *)random, (size_t)dice_range(d, 0, COUNT_OF(random)));
    } else if (type == LNT_GGUF_ARRAY) {
        const int count = (int)dice_range(d, 0, 3);
        const bool deeper = depth < LNT_GGUF_MAX_DEPTH - 1 && dice_range(d, 0, 1);
        buffer_put_u32(out, (uint32_t)(deeper ? LNT_GGUF_ARRAY : leaf));
        buffer_put_u64(out, (uint64_t)count);
        for (int i = 0; i < count; i++) put_random(d, deeper ? LNT_GGUF_ARRAY : leaf, depth + 1, out);
    } else {
        buffer_put(out, random, lnt_gguf_size(type));
    }
}

static void make_key(dice *d, int index, gguf_file *f, known_key *k)
{
    *k = (known_key){ .type = (lnt_gguf_type)dice_range(d, 0, LNT_GGUF_TYPES - 1) };
    make_name(d, index, k->name);
    if (k->type != LNT_GGUF_ARRAY) {
        put_random(d, k->type, 0, &k->value);
        gguf_file_key(f, k->name, k->type, k->value.data, k->value.used);
        return;
    }
    k->element = (lnt_gguf_type)dice_range(d, 0, LNT_GGUF_TYPES - 1);
    k->count = (uint64_t)dice_range(d, 0, MAX_ELEMENTS);
    for (uint64_t i = 0; i < k->count; i++) put_random(d, k->element, 1, &k->value);
    gguf_file_array(f, k->name, k->element, k->count, &k->value);
}

static void make_tensor(dice *d, int index, gguf_file *f, known_tensor *t)
{
    *t = (known_tensor){ .storage = (lnt_storage)dice_range(d, 0, LNT_STORAGES - 1) };
    t->rank = (int)dice_range(d, lnt_storage_numbers(t->storage) > 1, LNT_GGUF_MAX_RANK);
    make_name(d, index, t->name);
    size_t count = 1;
    for (int i = 0; i < t->rank; i++) {
        t->shape[i] = dice_range(d, 1, 3);
        if (i == t->rank - 1) t->shape[i] *= (int64_t)lnt_storage_numbers(t->storage);
        count *= (size_t)t->shape[i];
    }
    count = count / lnt_storage_numbers(t->storage) * lnt_storage_bytes(t->storage);
    for (size_t i = 0; i < count; i++) {
        const unsigned char byte = (unsigned char)dice_next(d);
        buffer_put(&t->data, &byte, 1);
    }
    gguf_file_tensor(f, t->name, t->storage, t->rank, t->shape, t->data.data, count);
}

static void hold_key(const lnt_gguf *g, const known_key *k)
{
    const lnt_gguf_value *value = lnt_gguf_find(g, k->name);
    assert_non_null(value);
    assert_int_equal(value->type, k->type);
    const size_t prefix = k->type == LNT_GGUF_STRING ? 8 : 0; /* the length, which is in value->bytes */
    assert_int_equal(value->bytes, k->value.used - prefix);
    if (value->bytes) assert_memory_equal(value->data, k->value.data + prefix, value->bytes);
    if (k->type != LNT_GGUF_ARRAY) return;
    assert_int_equal(value->element, k->element);
    assert_int_equal(value->count, k->count);
}

static void hold_tensor(const lnt_gguf *g, const known_tensor *t)
{
    for (size_t i = 0; i < g->tensor_count; i++) {
        const lnt_stored *found = &g->tensors[i];
        if (strcmp(found->name, t->name) != 0) continue;
        assert_int_equal(found->storage, t->storage);
        assert_string_equal(found->type, lnt_storage_name(t->storage));
        assert_int_equal(found->rank, t->rank);
        for (int r = 0; r < t->rank; r++) assert_int_equal(found->shape[r], t->shape[r]);
        assert_int_equal(found->bytes, t->data.used);
        assert_memory_equal(found->data, t->data.data, t->data.used);
        return;
    }
    fail_msg("tensor '%s' is not there", t->name);
}

static void what_was_put_in_is_read_back(void **state)
{
    (void)state;
    dice d = { 3 };
    for (int round = 0; round < budget(50, 400); round++) {
        tracker track;
        lnt_ctx *ctx = context_tracked(&track, 1, NULL);
        gguf_file f;
        known_key keys[MAX_KEYS];
        known_tensor tensors[MAX_TENSORS];
        const int n = (int)dice_range(&d, 0, MAX_KEYS), m = (int)dice_range(&d, 0, MAX_TENSORS);
        gguf_file_begin(&f);
        f.version = (uint32_t)dice_range(&d, 2, 3);
        if (dice_range(&d, 0, 1)) {
            f.alignment = (size_t)8 << dice_range(&d, 0, 4);
            gguf_file_u32(&f, "general.alignment", (uint32_t)f.alignment);
        }
        for (int i = 0; i < n; i++) make_key(&d, i, &f, &keys[i]);
        for (int i = 0; i < m; i++) make_tensor(&d, i, &f, &tensors[i]);
        buffer file = gguf_file_join(&f);
        void *memory = exact_copy(file.data, file.used);
        lnt_gguf g;
        assert_ok(ctx, lnt_gguf_parse(ctx, PATH, memory, file.used, &g));
        assert_int_equal(g.key_count, f.key_count);
        assert_int_equal(g.tensor_count, m);
        for (int i = 0; i < n; i++) hold_key(&g, &keys[i]);
        for (int i = 0; i < m; i++) hold_tensor(&g, &tensors[i]);
        gguf_file_walk(&g);
        lnt_gguf_close(ctx, &g);
        for (int i = 0; i < n; i++) buffer_free(&keys[i].value);
        for (int i = 0; i < m; i++) buffer_free(&tensors[i].data);
        free(memory);
        buffer_free(&file);
        gguf_file_free(&f);
        context_close_tracked(ctx, &track);
    }
}

static void values_are_read_as_what_they_are(void **state)
{
    (void)state;
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    buffer file = gguf_file_sample();
    lnt_gguf g;
    lnt_gguf_string s;
    lnt_gguf_value array;
    int64_t integer;
    double real;
    bool flag;
    assert_ok(ctx, lnt_gguf_parse(ctx, PATH, file.data, file.used, &g));
    assert_ok(ctx, lnt_gguf_get_string(ctx, &g, "general.architecture", &s));
    assert_true(s.bytes == 5 && memcmp(s.text, "llama", 5) == 0);
    assert_ok(ctx, lnt_gguf_get_integer(ctx, &g, "llama.block_count", &integer));
    assert_int_equal(integer, 30);
    assert_ok(ctx, lnt_gguf_get_integer(ctx, &g, "small", &integer));
    assert_int_equal(integer, -3);
    assert_ok(ctx, lnt_gguf_get_real(ctx, &g, "small", &real));
    assert_true(real == -3);
    assert_ok(ctx, lnt_gguf_get_real(ctx, &g, "wide", &real));
    assert_true(real == 0.1);
    assert_ok(ctx, lnt_gguf_get_real(ctx, &g, "big", &real));
    assert_true(real == 0x1p63);
    assert_ok(ctx, lnt_gguf_get_bool(ctx, &g, "yes", &flag));
    assert_true(flag);
    assert_ok(ctx, lnt_gguf_get_array(ctx, &g, "scores", LNT_GGUF_F64, &array));
    assert_true(array.count == 3 && lnt_gguf_real_at(&array, 0) == 1.5 && lnt_gguf_real_at(&array, 1) == -2);
    assert_ok(ctx, lnt_gguf_get_array(ctx, &g, "types", LNT_GGUF_I64, &array));
    assert_true(lnt_gguf_integer_at(&array, 1) == -1 && lnt_gguf_integer_at(&array, 2) == 1 << 30);
    assert_ok(ctx, lnt_gguf_get_array(ctx, &g, "types", LNT_GGUF_F64, &array));
    assert_true(lnt_gguf_real_at(&array, 0) == 7);
    assert_ok(ctx, lnt_gguf_get_array(ctx, &g, "tokens", LNT_GGUF_STRING, &array));
    assert_true(lnt_gguf_next_string(&array, &s) && s.bytes == 1 && *s.text == 'a');
    assert_true(lnt_gguf_next_string(&array, &s) && s.bytes == 0);
    assert_true(lnt_gguf_next_string(&array, &s) && s.bytes == 3 && memcmp(s.text, "b\0c", 3) == 0);
    assert_false(lnt_gguf_next_string(&array, &s));
    lnt_gguf_close(ctx, &g);
    buffer_free(&file);
    context_close_tracked(ctx, &track);
}

static void wrong_type_is_said(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    buffer file = gguf_file_sample();
    lnt_gguf g;
    lnt_gguf_string s;
    lnt_gguf_value array;
    int64_t integer;
    double real;
    bool flag;
    assert_ok(ctx, lnt_gguf_parse(ctx, PATH, file.data, file.used, &g));
    assert_null(lnt_gguf_find(&g, "general"));
    assert_bad(ctx, lnt_gguf_get_string(ctx, &g, "general", &s),
               "'t.gguf': key 'general' is missing");
    assert_bad(ctx, lnt_gguf_get_string(ctx, &g, "small", &s),
               "key 'small' is an integer, must be a string");
    assert_bad(ctx, lnt_gguf_get_integer(ctx, &g, "wide", &integer),
               "is a real number, must be an integer");
    assert_bad(ctx, lnt_gguf_get_integer(ctx, &g, "yes", &integer),
               "is a boolean, must be an integer");
    assert_bad(ctx, lnt_gguf_get_integer(ctx, &g, "big", &integer),
               "must be one below 2^63");
    assert_bad(ctx, lnt_gguf_get_real(ctx, &g, "tokens", &real),
               "is an array, must be a number");
    assert_bad(ctx, lnt_gguf_get_bool(ctx, &g, "small", &flag),
               "must be a boolean");
    assert_bad(ctx, lnt_gguf_get_array(ctx, &g, "yes", LNT_GGUF_F64, &array),
               "must be an array of numbers");
    assert_bad(ctx, lnt_gguf_get_array(ctx, &g, "scores", LNT_GGUF_I64, &array),
               "each is a real number, must be an array of integers");
    assert_bad(ctx, lnt_gguf_get_array(ctx, &g, "types", LNT_GGUF_STRING, &array),
               "array of strings");
    assert_bad(ctx, lnt_gguf_get_array(ctx, &g, "nested", LNT_GGUF_F64, &array),
               "each is an array");
    lnt_gguf_close(ctx, &g);
    buffer_free(&file);
    lnt_ctx_destroy(ctx);
}

static void file_is_read_through_a_map(void **state)
{
    (void)state;
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    buffer file = gguf_file_sample();
    lnt_gguf g;
    float x[32];
    put_file(PATH, file.data, file.used);
    assert_ok(ctx, lnt_gguf_open(ctx, PATH, &g));
    assert_int_equal(g.tensor_count, 2);
    assert_string_equal(g.tensors[0].name, "blk.0.q");
    lnt_storage_unpack(g.tensors[0].storage, g.tensors[0].data, x, 32);
    assert_true(x[0] == 0 && x[16] == 1 && x[1] == -8);
    assert_int_equal((uintptr_t)g.tensors[1].data % 32, 0);
    lnt_gguf_close(ctx, &g);
    assert_null(g.map.data);
    unlink(PATH);
    assert_refused(ctx, lnt_gguf_open(ctx, PATH, &g), LNT_ERR_FILE, "No such file");
    assert_null(g.tensors);
    buffer_free(&file);
    context_close_tracked(ctx, &track);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_in_is_read_back),
        cmocka_unit_test(values_are_read_as_what_they_are),
        cmocka_unit_test(wrong_type_is_said),
        cmocka_unit_test(file_is_read_through_a_map),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
