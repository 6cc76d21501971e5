/* test_json.c - io/json: what RFC 8259 allows is read as it means, everything else is refused. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "io/number.h"

#include "io_support.h"

/* From a copy without a byte to spare, so that a checker sees a read past the end. */
static lnt_status parse(lnt_ctx *ctx, const char *source, size_t length, lnt_json *out)
{
    char *copy = malloc(length ? length : 1);
    assert_non_null(copy);
    memcpy(copy, source, length);
    const lnt_status status = lnt_json_parse(ctx, "f", NULL, copy, length, out);
    free(copy);
    return status;
}

static lnt_json parse_ok(lnt_ctx *ctx, const char *source)
{
    lnt_json json;
    assert_ok(ctx, parse(ctx, source, strlen(source), &json));
    return json;
}

static void document_becomes_a_tree_in_order(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    lnt_json json = parse_ok(ctx, " { \"a\" : [1, -2 ,\n[ ], {}],\t\"b\":\"x\", "
                                  "\"c\":null,\r\"\":true } ");
    const lnt_json_node *root = json.root, *a = root->child;
    assert_int_equal(root->type, LNT_JSON_OBJECT);
    assert_int_equal(root->count, 4);
    assert_int_equal(root->offset, 1);
    assert_null(root->key);
    assert_string_equal(a->key, "a");
    assert_int_equal(a->type, LNT_JSON_ARRAY);
    assert_int_equal(a->count, 4);
    assert_int_equal(a->child->integer, 1);
    assert_null(a->child->key);
    assert_int_equal(a->child->next->integer, -2);
    assert_int_equal(a->child->next->next->type, LNT_JSON_ARRAY);
    assert_int_equal(a->child->next->next->count, 0);
    assert_int_equal(a->child->next->next->next->type, LNT_JSON_OBJECT);
    assert_null(a->child->next->next->next->next);
    assert_string_equal(a->next->key, "b");
    assert_string_equal(a->next->text, "x");
    assert_int_equal(a->next->next->type, LNT_JSON_NULL);
    assert_ptr_equal(lnt_json_member(root, ""), a->next->next->next);
    assert_int_equal(lnt_json_member(root, "")->type, LNT_JSON_TRUE);
    assert_null(lnt_json_member(root, "d"));
    assert_null(lnt_json_member(a, "a"));
    lnt_json_free(ctx, &json);
    assert_null(json.root);
    context_close_tracked(ctx, &t);
}

static void scalar_is_a_document(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    static const struct {
        const char *text;
        lnt_json_type type;
        int64_t integer;
    } cases[] = {
        { "0", LNT_JSON_INTEGER, 0 },
        { "-0", LNT_JSON_INTEGER, 0 },
        { "9223372036854775807", LNT_JSON_INTEGER, INT64_MAX },
        { "-9223372036854775808", LNT_JSON_INTEGER, INT64_MIN },
        { "false", LNT_JSON_FALSE, 0 },
        { "true", LNT_JSON_TRUE, 0 },
        { "null", LNT_JSON_NULL, 0 },
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        lnt_json json = parse_ok(ctx, cases[i].text);
        assert_int_equal(json.root->type, cases[i].type);
        assert_true(json.root->integer == cases[i].integer);
        lnt_json_free(ctx, &json);
    }
    lnt_ctx_destroy(ctx);
}

static void number_that_is_no_64_bit_integer_is_not_taken_for_one(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    static const char *const cases[] = { "9223372036854775808",
                                         "-9223372036854775809",
                                         "18446744073709551616",
                                         "1000000000000000000000000000000000000000000",
                                         "1.0",
                                         "1e0",
                                         "-0.5E-10",
                                         "10.25e+3" };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        lnt_json json = parse_ok(ctx, cases[i]);
        assert_int_equal(json.root->type, LNT_JSON_REAL);
        lnt_json_free(ctx, &json);
    }
    lnt_ctx_destroy(ctx);
}

static void a_number_is_the_double_nearest_to_it(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    static const char *const cases[] = {
        "0", "-0.0", "42", "0.001", "1e-4", "-2.5E+3", "1e22", "123.456", "0e999", "1e999",
        "3.14159265358979323846", "1e-300", "4.9406564584124654e-324", "1e-310",
        "123456789012345678901234567890", "9007199254740993", "0.0012300001108087606",
        "2.2250738585072011e-308",
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        lnt_json json = parse_ok(ctx, cases[i]);
        assert_true(json.root->real == strtod(cases[i], NULL));
        lnt_json_free(ctx, &json);
    }
    lnt_ctx_destroy(ctx);
}

/* A locale with a comma is made here, for none need be installed. */
static bool speak_with_commas(void)
{
    FILE *source = fopen("comma.source", "w");
    assert_non_null(source);
    fputs("LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n", source);
    fclose(source);
    setenv("LOCPATH", ".", 1);
    const int made = system("localedef -c --no-archive -i comma.source ./comma >/dev/null 2>&1");
    const bool spoken = made != -1 && setlocale(LC_NUMERIC, "comma");
    assert_int_equal(system("rm -rf comma comma.source"), 0);
    return spoken;
}

static void numbers_have_a_point_whatever_the_locale(void **state)
{
    (void)state;
    if (!speak_with_commas()) skip_because("localedef makes no locale with a comma");
    lnt_ctx *ctx = context_new(1, NULL);
    char text[LNT_NUMBER_TEXT];
    lnt_number_write(-0.5, 17, text);
    assert_string_equal(text, "-0.5");
    lnt_json json = parse_ok(ctx, "[0.5, 1.25e2]");
    assert_true(json.root->child->real == 0.5 && json.root->child->next->real == 125);
    lnt_json_free(ctx, &json);
    snprintf(text, sizeof text, "%g", 0.5);
    assert_string_equal(text, "0,5"); /* the program's locale is as it was */
    setlocale(LC_NUMERIC, "C");
    lnt_ctx_destroy(ctx);
}

static void string_is_decoded_to_utf8(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    static const char *const cases[][2] = {
        { "\"\"", "" },
        { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t" },
        { "\"a\\u0041\\u00e9\\u20AC\\ud83d\\ude00z\"", "aA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z" },
        { "\"\\u0001\\u007f\\u0080\\u07ff\\u0800\\uffff\"",
          "\x01\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf" },
        { "\"\\ud800\\udc00\\udbff\\udfff\"", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf" },
        { "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \x7f\"",
          "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \x7f" },
        { "\"{[,]}:\"", "{[,]}:" },
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        lnt_json json = parse_ok(ctx, cases[i][0]);
        assert_int_equal(json.root->type, LNT_JSON_STRING);
        assert_string_equal(json.root->text, cases[i][1]);
        lnt_json_free(ctx, &json);
    }
    lnt_ctx_destroy(ctx);
}

static void what_is_not_json_is_refused(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    static const char *const cases[][2] = {
        { "", "expected a value" },
        { "  ", "expected a value" },
        { "nul", "expected a value" },
        { "nulL", "expected a value" },
        { "NaN", "expected a value" },
        { "Infinity", "expected a value" },
        { "'a'", "expected a value" },
        { "+1", "expected a value" },
        { ".5", "expected a value" },
        { "\xef\xbb\xbf{}", "expected a value" },
        { "-", "expected a digit" },
        { "1.", "expected a digit" },
        { "1e", "expected a digit" },
        { "1e+", "expected a digit" },
        { "01", "begins with 0" },
        { "-00", "begins with 0" },
        { "1 2", "more text" },
        { "{} x", "more text" },
        { "{}}", "more text" },
        { "[1,2", "expected ',' or ']'" },
        { "[1 2]", "expected ',' or ']'" },
        { "[1}", "expected ',' or ']'" },
        { "[1,]", "expected a value" },
        { "[,1]", "expected a value" },
        { "{\"a\":1]", "expected ',' or '}'" },
        { "{\"a\":1,}", "expected a string" },
        { "{,}", "expected a string" },
        { "{a:1}", "expected a string" },
        { "{1:1}", "expected a string" },
        { "{\"a\" 1}", "expected ':'" },
        { "{\"a\"}", "expected ':'" },
        { "{\"a\":}", "expected a value" },
        { "{\"a\":1,\"a\":2}", "same key twice" },
        { "{\"b\":0,\"a\":1,\"c\":0,\"\\u0061\":2}", "same key twice" },
        { "[{\"x\":{\"a\":1,\"a\":1}}]", "same key twice" },
        { "\"", "without an end" },
        { "\"abc", "without an end" },
        { "\"abc\\\"", "without an end" },
        { "\"\\", "unknown escape" },
        { "\"\\x41\"", "unknown escape" },
        { "\"\\U0041\"", "unknown escape" },
        { "\"\\u12\"", "four hexadecimal" },
        { "\"\\u12g4\"", "four hexadecimal" },
        { "\"\\u", "four hexadecimal" },
        { "\"\\u0000\"", "u0000" },
        { "\"\\ud800\"", "surrogate" },
        { "\"\\ud800\\n\"", "surrogate" },
        { "\"\\ud800\\ud800\"", "surrogate" },
        { "\"\\udc00\\ud800\"", "surrogate" },
        { "\"a\nb\"", "control character" },
        { "\"\x1f\"", "control character" },
        { "\"\x80\"", "not UTF-8" },
        { "\"\xc1\x81\"", "not UTF-8" },
        { "\"\xc3\"", "not UTF-8" },
        { "\"\xc3", "not UTF-8" },
        { "\"\xe0\x9f\xbf\"", "not UTF-8" },
        { "\"\xed\xa0\x80\"", "not UTF-8" },
        { "\"\xf0\x8f\xbf\xbf\"", "not UTF-8" },
        { "\"\xf4\x90\x80\x80\"", "not UTF-8" },
        { "\"\xf5\x80\x80\x80\"", "not UTF-8" },
        { "\"\xff\"", "not UTF-8" },
        { "// x\n1", "expected a value" },
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        lnt_json json;
        assert_refused(ctx, parse(ctx, cases[i][0], strlen(cases[i][0]), &json), LNT_ERR_FORMAT,
                       cases[i][1]);
        assert_null(json.root);
    }
    context_close_tracked(ctx, &t);
}

static void nul_byte_is_refused_wherever_it_stands(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    static const char text[] = "{\"a\":[1,true,\"x\\n\"]}";
    for (size_t i = 0; i <= strlen(text); i++) {
        char with[sizeof text];
        lnt_json json;
        memcpy(with, text, i);
        with[i] = 0;
        memcpy(with + i + 1, text + i, strlen(text) - i);
        assert_int_equal(parse(ctx, with, sizeof with, &json), LNT_ERR_FORMAT);
    }
    lnt_ctx_destroy(ctx);
}

static void document_cut_short_is_refused_at_every_length(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    static const char text[] =
        "{\"a\\n\":[1.5e3,{\"\\ud83d\\ude00\":null},-7,\"\xe2\x82\xac\"],\"b\":true}";
    lnt_json json = parse_ok(ctx, text);
    lnt_json_free(ctx, &json);
    for (size_t n = 0; n < strlen(text); n++)
        assert_int_equal(parse(ctx, text, n, &json), LNT_ERR_FORMAT);
    lnt_ctx_destroy(ctx);
}

static void changed_byte_is_read_or_refused_but_never_worse(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    static const char text[] = "{\"a\\n\":[1.5e3,{\"\\ud83d\\ude00\":null},-7,\"\xe2\x82\xac\"]}";
    int read = 0, refused = 0;
    for (size_t at = 0; at < strlen(text); at++)
        for (int byte = 0; byte < 256; byte++) {
            char changed[sizeof text];
            lnt_json json;
            memcpy(changed, text, sizeof text);
            changed[at] = (char)byte;
            const lnt_status status = parse(ctx, changed, strlen(text), &json);
            assert_true(status == LNT_OK || status == LNT_ERR_FORMAT);
            read += status == LNT_OK;
            refused += status == LNT_ERR_FORMAT;
            lnt_json_free(ctx, &json);
        }
    assert_true(read > 0 && refused > 0);
    context_close_tracked(ctx, &t);
}

static void depth_is_limited(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    enum { HUGE_DEPTH = LNT_JSON_MAX_NODES - 1 };
    static char text[HUGE_DEPTH];
    lnt_json json;
    memset(text, '[', sizeof text);
    assert_refused(ctx, parse(ctx, text, sizeof text, &json), LNT_ERR_FORMAT, "too deep");
    memset(text + LNT_JSON_MAX_DEPTH, ']', LNT_JSON_MAX_DEPTH);
    assert_ok(ctx, parse(ctx, text, (size_t)2 * LNT_JSON_MAX_DEPTH, &json));
    lnt_json_free(ctx, &json);
    memset(text, '[', LNT_JSON_MAX_DEPTH + 1);
    memset(text + LNT_JSON_MAX_DEPTH + 1, ']', LNT_JSON_MAX_DEPTH + 1);
    assert_refused(ctx, parse(ctx, text, 2 * (LNT_JSON_MAX_DEPTH + 1), &json), LNT_ERR_FORMAT,
                   "too deep");
    lnt_ctx_destroy(ctx);
}

static void size_is_limited_before_memory_is_asked_for(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    lnt_json json;
    const int64_t calls = t.calls;
    assert_refused(ctx, lnt_json_parse(ctx, "f", NULL, "", (size_t)LNT_JSON_MAX_BYTES + 1, &json),
                   LNT_ERR_FORMAT, "100000001 bytes, at most 100000000");
    static char text[2 * LNT_JSON_MAX_NODES + 1];
    text[0] = '[';
    for (size_t i = 1; i < sizeof text; i += 2) memcpy(text + i, "0,", 2);
    assert_refused(ctx, lnt_json_parse(ctx, "f", NULL, text, sizeof text, &json), LNT_ERR_FORMAT,
                   "values, at most 4194304");
    assert_int_equal(t.calls, calls);
    context_close_tracked(ctx, &t);
}

/* A quote taken for the end of its string would hide what follows from the count of nodes. */
static void values_after_an_escaped_quote_have_room(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    enum { VALUES = 1000 };
    char text[16 + 8 * VALUES] = "[\"\\\"\"";
    for (int i = 0; i < VALUES; i++) sprintf(text + strlen(text), ",%d", i);
    strcat(text, "]");
    lnt_json json = parse_ok(ctx, text);
    const lnt_json_node *node = json.root->child;
    assert_string_equal(node->text, "\"");
    for (int i = 0; i < VALUES; i++) {
        node = node->next;
        assert_int_equal(node->integer, i);
    }
    lnt_json_free(ctx, &json);
    lnt_ctx_destroy(ctx);
}

static void many_keys_take_no_quadratic_time(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    enum { KEYS = 200000, ROOM = 16 };
    char *text = malloc((size_t)KEYS * ROOM);
    assert_non_null(text);
    size_t n = 0;
    for (int i = 0; i < KEYS; i++)
        n += (size_t)sprintf(text + n, "%c\"%07d\":0", i ? ',' : '{', i);
    text[n++] = '}';
    lnt_json json;
    alarm(60); /* squared, this would be hours under a checker */
    assert_ok(ctx, lnt_json_parse(ctx, "f", NULL, text, n, &json));
    alarm(0);
    assert_int_equal(json.root->count, KEYS);
    lnt_json_free(ctx, &json);
    memcpy(text + n - 11, "0000000", 7); /* the last key becomes the first */
    assert_refused(ctx, lnt_json_parse(ctx, "f", NULL, text, n, &json), LNT_ERR_FORMAT, "same key");
    free(text);
    lnt_ctx_destroy(ctx);
}

static void want_of_memory_is_reported(void **state)
{
    (void)state;
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    lnt_json json;
    t.fail_at = t.calls;
    assert_int_equal(parse(ctx, "{}", 2, &json), LNT_ERR_MEMORY);
    assert_null(json.root);
    context_close_tracked(ctx, &t);
}

static void every_string_written_is_read_back(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    char all[160] = { 0 };
    for (int i = 1; i < 128; i++) all[i - 1] = (char)i;
    memcpy(all + 127, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9);
    lnt_json_text counted = { 0 };
    lnt_json_put_string(&counted, all);
    char *text = malloc(counted.used);
    lnt_json_text filled = { .text = text, .capacity = counted.used };
    lnt_json_put_string(&filled, all);
    assert_int_equal(filled.used, counted.used);
    lnt_json json;
    assert_ok(ctx, parse(ctx, text, filled.used, &json));
    assert_string_equal(json.root->text, all);
    lnt_json_free(ctx, &json);
    free(text);
    lnt_ctx_destroy(ctx);
}

static void text_is_cut_at_the_capacity_and_counted_beyond(void **state)
{
    (void)state;
    char room[8] = "........";
    lnt_json_text out = { .text = room, .capacity = 5 };
    lnt_json_put(&out, "[");
    lnt_json_put_string(&out, "a\"\x01");
    assert_int_equal(out.used, 1 + 1 + 1 + 2 + 6 + 1);
    assert_memory_equal(room, "[\"a\\\"...", 8);
}

static void utf8_is_told_from_what_is_not(void **state)
{
    (void)state;
    assert_true(lnt_json_is_utf8(""));
    assert_true(lnt_json_is_utf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"));
    assert_false(lnt_json_is_utf8("a\xc3"));
    assert_false(lnt_json_is_utf8("\xe2\x82"));
    assert_false(lnt_json_is_utf8("\xed\xa0\x80"));
    assert_false(lnt_json_is_utf8("\x80"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(document_becomes_a_tree_in_order),
        cmocka_unit_test(scalar_is_a_document),
        cmocka_unit_test(number_that_is_no_64_bit_integer_is_not_taken_for_one),
        cmocka_unit_test(a_number_is_the_double_nearest_to_it),
        cmocka_unit_test(numbers_have_a_point_whatever_the_locale),
        cmocka_unit_test(string_is_decoded_to_utf8),
        cmocka_unit_test(what_is_not_json_is_refused),
        cmocka_unit_test(nul_byte_is_refused_wherever_it_stands),
        cmocka_unit_test(document_cut_short_is_refused_at_every_length),
        cmocka_unit_test(changed_byte_is_read_or_refused_but_never_worse),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(size_is_limited_before_memory_is_asked_for),
        cmocka_unit_test(values_after_an_escaped_quote_have_room),
        cmocka_unit_test(many_keys_take_no_quadratic_time),
        cmocka_unit_test(want_of_memory_is_reported),
        cmocka_unit_test(every_string_written_is_read_back),
        cmocka_unit_test(text_is_cut_at_the_capacity_and_counted_beyond),
        cmocka_unit_test(utf8_is_told_from_what_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
