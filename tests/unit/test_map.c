/* test_map.c - io/map: a regular file is there as it is; anything else is refused. */
#include "io/map.h"

#include "io_support.h"

#define PATH "t.bin"

static void file_is_there_as_it_is(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    enum { BYTES = 20000 }; /* pages, and a part of one */
    static unsigned char bytes[BYTES];
    lnt_map map;
    dice d = { 5 };
    for (int i = 0; i < BYTES; i++) bytes[i] = (unsigned char)dice_next(&d);
    put_file(PATH, bytes, BYTES);
    assert_ok(ctx, lnt_map_open(ctx, PATH, &map));
    assert_int_equal(map.bytes, BYTES);
    assert_memory_equal(map.data, bytes, BYTES);
    for (int advice = LNT_MAP_SOON; advice <= LNT_MAP_NO_LONGER; advice++) {
        lnt_map_advise(map.data + 5000, 10001, (lnt_map_advice)advice);
        lnt_map_advise(map.data + map.bytes, 0, (lnt_map_advice)advice);
        assert_memory_equal(map.data, bytes, BYTES);
    }
    lnt_map_close(&map);
    assert_null(map.data);
    lnt_map_close(&map);
    unlink(PATH);
    lnt_ctx_destroy(ctx);
}

static void file_that_is_replaced_stays_as_it_was(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_map map;
    put_file(PATH, "before", 6);
    assert_ok(ctx, lnt_map_open(ctx, PATH, &map));
    put_file("other.bin", "after", 5);
    assert_int_equal(rename("other.bin", PATH), 0);
    assert_true(map.bytes == 6 && memcmp(map.data, "before", 6) == 0);
    lnt_map_close(&map);
    assert_ok(ctx, lnt_map_open(ctx, PATH, &map));
    assert_true(map.bytes == 5 && memcmp(map.data, "after", 5) == 0);
    lnt_map_close(&map);
    unlink(PATH);
    lnt_ctx_destroy(ctx);
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_map map = { .bytes = 1 };
    assert_refused(ctx, lnt_map_open(ctx, "absent", &map), LNT_ERR_FILE, "'absent': No such file");
    assert_int_equal(map.bytes, 0);
    assert_refused(ctx, lnt_map_open(ctx, ".", &map), LNT_ERR_FILE, "Is a directory");
    assert_refused(ctx, lnt_map_open(ctx, "/dev/zero", &map), LNT_ERR_FILE, "not a regular file");
    assert_int_equal(mkfifo(PATH, 0600), 0);
    assert_refused(ctx, lnt_map_open(ctx, PATH, &map), LNT_ERR_FILE, "not a regular file");
    unlink(PATH);
    put_file(PATH, "", 0);
    assert_refused(ctx, lnt_map_open(ctx, PATH, &map), LNT_ERR_FORMAT, "'t.bin': the file is empty");
    unlink(PATH);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_is_there_as_it_is),
        cmocka_unit_test(file_that_is_replaced_stays_as_it_was),
        cmocka_unit_test(what_is_no_file_is_refused),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
