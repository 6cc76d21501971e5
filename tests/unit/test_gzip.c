/* test_gzip.c - task/content: what gzip has packed is unpacked, in blocks of every kind, or, where
 * there is no zlib, refused. */
#include "task/content.h"

#include "io_support.h"

/* "hello hello hello hello\n" as gzip writes it: a block with fixed codes. */
static const unsigned char gzipped[] = { 0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03,
                                         0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x57, 0xc8, 0x40, 0x27, 0xb9,
                                         0x00, 0x00, 0x88, 0x59, 0x0b, 0x18, 0x00, 0x00, 0x00 };

#ifdef LNT_ZLIB

/* "abc" and "defg", two blocks that are stored as they are. */
static const unsigned char stored[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x00, 0x03, 0x00, 0xfc, 0xff, 0x61,
    0x62, 0x63, 0x01, 0x04, 0x00, 0xfb, 0xff, 0x64, 0x65, 0x66, 0x67, 0xa6, 0x6a, 0x2a, 0x31, 0x07,
    0x00, 0x00, 0x00,
};

enum { LETTERS = 240 };

/* The letters that spell() gives: a block with codes of its own. */
static const unsigned char coded[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x15, 0x8f, 0x41, 0x0a, 0x44, 0x31,
    0x0c, 0x42, 0xcf, 0x2a, 0x54, 0xa8, 0xf0, 0x49, 0x20, 0x71, 0xee, 0x3f, 0x16, 0x4a, 0x17, 0xd1,
    0xe8, 0x0b, 0x49, 0x43, 0x3b, 0x1f, 0xdd, 0x00, 0xba, 0x55, 0xeb, 0x6e, 0x63, 0x71, 0x6e, 0xa1,
    0x51, 0xbd, 0x0d, 0x0d, 0x48, 0x08, 0xa5, 0x91, 0xed, 0x8c, 0x58, 0x57, 0xee, 0xec, 0xb0, 0x84,
    0x13, 0xcd, 0xcf, 0xac, 0xa5, 0x2d, 0x18, 0xe3, 0xc9, 0x5f, 0xab, 0xee, 0x6a, 0xd8, 0x25, 0xed,
    0x3e, 0x41, 0x02, 0x3d, 0xdf, 0xa2, 0xe3, 0xf4, 0xcd, 0xa6, 0xcd, 0xf6, 0xd6, 0x4c, 0xb2, 0x52,
    0xcc, 0xf4, 0x8f, 0x9b, 0xc0, 0x5d, 0x30, 0x3e, 0x27, 0x80, 0x77, 0x4f, 0x66, 0xe9, 0x28, 0xde,
    0x24, 0xf4, 0x53, 0x5e, 0x96, 0x03, 0x71, 0xf3, 0x86, 0x01, 0xa7, 0x82, 0x5d, 0xd9, 0xb4, 0x02,
    0xe8, 0x7d, 0x28, 0x61, 0x48, 0x4c, 0x3a, 0x9c, 0x03, 0xfc, 0xfd, 0xfe, 0xf9, 0x0e, 0xd2, 0x3a,
    0xf0, 0x00, 0x00, 0x00,
};

static void spell(char *text)
{
    for (int i = 0; i < LETTERS; i++) text[i] = "etaoinshrdlu"[(i * i / 7 + i / 5) % (3 + i % 10)];
    text[LETTERS] = 0;
}

static void check(lnt_ctx *ctx, const unsigned char *packed, size_t bytes, const char *expected)
{
    lnt_content content;
    unsigned char broken[sizeof coded];
    assert_true(bytes <= sizeof broken);
    put_file("packed.gz", packed, bytes);
    assert_ok(ctx, lnt_content_read(ctx, "packed.gz", &content));
    assert_int_equal(content.bytes, strlen(expected));
    assert_string_equal(content.data, expected);
    lnt_content_free(ctx, &content);
    for (size_t i = 10; i < bytes; i++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(broken, packed, bytes);
            broken[i] = (unsigned char)(broken[i] ^ 1 << bit);
            put_file("packed.gz", broken, bytes);
            if (lnt_content_read(ctx, "packed.gz", &content) != LNT_OK) {
                assert_null(content.data);
                continue;
            }
            assert_string_equal(content.data, expected); /* a bit that fills a byte up says nothing */
            assert_true(i < bytes - 8);                  /* but every one of the sums behind does */
            lnt_content_free(ctx, &content);
        }
    for (size_t n = 18; n < bytes; n++) {
        put_file("packed.gz", packed, n);
        assert_true(lnt_content_read(ctx, "packed.gz", &content) != LNT_OK);
    }
    remove("packed.gz");
}

static void gzip_is_unpacked_and_nothing_broken_passes_for_it(void **state)
{
    (void)state;
    char text[LETTERS + 1];
    lnt_ctx *ctx = context_new(1, NULL);
    spell(text);
    check(ctx, gzipped, sizeof gzipped, "hello hello hello hello\n");
    check(ctx, stored, sizeof stored, "abcdefg");
    check(ctx, coded, sizeof coded, text);
    lnt_ctx_destroy(ctx);
}

/* As `cat a.gz b.gz` makes them. */
static void members_of_a_file_are_unpacked_one_after_another(void **state)
{
    (void)state;
    enum { KINDS = 3, MOST = 2 };
    char letters[LETTERS + 1], expected[MOST * LETTERS + 1];
    unsigned char packed[MOST * sizeof coded + 1];
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_content content;
    spell(letters);
    const unsigned char *const member[KINDS] = { gzipped, stored, coded };
    const size_t bytes[KINDS] = { sizeof gzipped, sizeof stored, sizeof coded };
    const char *const text[KINDS] = { "hello hello hello hello\n", "abcdefg", letters };
    for (int which = 0; which < KINDS * KINDS; which++) {
        size_t used = 0, before_last = 0;
        expected[0] = '\0';
        for (int i = 0, left = which; i < MOST; i++, left /= KINDS) {
            memcpy(packed + used, member[left % KINDS], bytes[left % KINDS]);
            strcat(expected, text[left % KINDS]);
            before_last = used;
            used += bytes[left % KINDS];
        }
        put_file("packed.gz", packed, used);
        assert_ok(ctx, lnt_content_read(ctx, "packed.gz", &content));
        assert_int_equal(content.bytes, strlen(expected));
        assert_string_equal(content.data, expected);
        lnt_content_free(ctx, &content);
        packed[used] = 0;
        for (size_t n = before_last + 1; n <= used + 1; n += n + 1 == used ? 2 : 1) {
            put_file("packed.gz", packed, n);
            assert_refused(ctx, lnt_content_read(ctx, "packed.gz", &content), LNT_ERR_FORMAT, "gzip");
        }
    }
    remove("packed.gz");
    lnt_ctx_destroy(ctx);
}

#else
static void without_zlib_a_gzip_file_is_refused_and_another_read(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_content content;
    put_file("packed.gz", gzipped, sizeof gzipped);
    assert_refused(ctx, lnt_content_read(ctx, "packed.gz", &content), LNT_ERR_UNSUPPORTED, "zlib1g-dev");
    assert_null(content.data);
    put_file("packed.gz", "plain", 5);
    assert_ok(ctx, lnt_content_read(ctx, "packed.gz", &content));
    assert_string_equal(content.data, "plain");
    lnt_content_free(ctx, &content);
    remove("packed.gz");
    lnt_ctx_destroy(ctx);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef LNT_ZLIB
        cmocka_unit_test(gzip_is_unpacked_and_nothing_broken_passes_for_it),
        cmocka_unit_test(members_of_a_file_are_unpacked_one_after_another),
#else
        cmocka_unit_test(without_zlib_a_gzip_file_is_refused_and_another_read),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
