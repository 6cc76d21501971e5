/* test_words.c - how texts are normalised and cut into words, beside what Hugging Face's tokenizers make of
 * them. */
#include "model/tokenizer/inside.h"

#include "codec_support.h"

#ifdef LNT_PCRE2

/* What the codec's pre-tokenizer makes of text, with '|' between. */
static void assert_words(lnt_ctx *ctx, const lnt_codec *c, const char *text, const char *want)
{
    lnt_words w = { 0 };
    page got = { 0 };
    page_put(&got, "");
    assert_ok(ctx, lnt_chars_put(ctx, &w.text, text, strlen(text)));
    assert_ok(ctx, lnt_words_cut(ctx, c->cut, c->cuts, true, &w));
    for (size_t i = 0; i < w.count; i++) {
        if (i) page_put(&got, "|");
        page_bytes(&got, w.text.text + w.word[i].start, w.word[i].bytes);
    }
    assert_string_equal(got.text, want);
    free(got.text);
    lnt_words_free(ctx, &w);
}

static lnt_codec *open_with(lnt_ctx *ctx, const char *pre)
{
    page p = { 0 };
    page_put(&p, "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"vocab\":{\"u\":0},\"merges\":[]},\"pre_"
                 "tokenizer\":");
    page_put(&p, pre);
    page_put(&p, "}");
    return open_page(ctx, p);
}

static void the_ways_that_gguf_names_cut_words_as_their_models_do(void **state)
{
    (void)state;
    static const char text[] = "I've 1234 cats,  DON'T\n\n  go! \xc3\xa9\xe4\xb8\xad\xc2\xbd\xe3\x80\x80x\n";
    static const struct {
        const char *pre, *words;
    } ways[] = {
        { "gpt-2",
          "I|'ve| 1234| cats|,| | DON|'|T|\n\n | go|!| \xc3\xa9\xe4\xb8\xad|\xc2\xbd|\xe3\x80\x80|x|\n" },
        { "llama-bpe",
          "I|'ve| |123|4| cats|,| | DON|'T|\n\n| | go|!| \xc3\xa9\xe4\xb8\xad|\xc2\xbd|\xe3\x80\x80x|\n" },
        { "qwen2",
          "I|'ve| |1|2|3|4| cats|,| | DON|'T|\n\n| | go|!| \xc3\xa9\xe4\xb8\xad|\xc2\xbd|\xe3\x80\x80x|\n" },
        { "smollm",
          "I|'ve| |1|2|3|4| cats|,| | DON|'|T|\n\n | go|!| \xc3\xa9\xe4\xb8\xad|\xc2\xbd|\xe3\x80\x80|x|\n" },
        { "",
          "I|'|ve| |123|4| cats|,| | DON|'|T|\n\n | go|!| \xc3\xa9\xe4\xb8\xad|\xc2\xbd|\xe3\x80\x80|x|\n" },
    };
    lnt_ctx *ctx = context_new(1, NULL);
    page spelled[256] = { { 0 } };
    lnt_text token[256];
    lnt_chars spelling[256] = { { 0 } };
    for (int b = 0; b < 256; b++) { /* the alphabet, by way of its escapes */
        page_letter(&spelled[b], b);
        const uint32_t code = (uint32_t)strtoul(spelled[b].text + 2, NULL, 16);
        assert_ok(ctx, lnt_chars_put_code(ctx, &spelling[b], code));
        token[b] = (lnt_text){ spelling[b].text, spelling[b].count };
    }
    for (int i = 0; i < COUNT_OF(ways); i++) {
        const lnt_vocabulary v = { .path = "t.gguf",
                                   .model = { "gpt2", 4 },
                                   .pre = { ways[i].pre, strlen(ways[i].pre) },
                                   .count = 256,
                                   .token = token,
                                   .bos = 0,
                                   .eos = -1,
                                   .unknown = -1,
                                   .separator = -1,
                                   .padding = -1,
                                   .classify = -1,
                                   .mask = -1 };
        lnt_codec *c;
        assert_ok(ctx, lnt_codec_open_vocabulary(ctx, &v, &c));
        assert_words(ctx, c, text, ways[i].words);
        lnt_codec_close(c);
    }
    for (int b = 0; b < 256; b++) {
        free(spelled[b].text);
        lnt_chars_free(ctx, &spelling[b]);
    }
    lnt_ctx_destroy(ctx);
}

static void each_behaviour_cuts_as_its_name_says(void **state)
{
    (void)state;
    static const struct {
        const char *behaviour, *words, *inverted;
    } cases[] = { { "Removed", "a|b|c.|d", "-|-|-|-" },
                  { "Isolated", "a|-|b|-|-|c.|-|d", "a|-|b|-|-|c.|-|d" },
                  { "MergedWithPrevious", "a-|b-|-|c.-|d", "a|-b|-|-c.|-d" },
                  { "MergedWithNext", "a|-b|-|-c.|-d", "a-|b-|-|c.-|d" },
                  { "Contiguous", "a|-|b|--|c.|-|d", "a|-|b|--|c.|-|d" } };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < 4 * COUNT_OF(cases); i++) {
        char pre[200];
        const bool invert = i % 2, regex = i / 2 % 2;
        snprintf(pre, sizeof pre,
                 "{\"type\":\"Split\",\"pattern\":{\"%s\":\"-\"},\"behavior\":\"%s\",\"invert\":%s}",
                 regex ? "Regex" : "String", cases[i / 4].behaviour, invert ? "true" : "false");
        lnt_codec *c = open_with(ctx, pre);
        assert_words(ctx, c, "a-b--c.-d", invert ? cases[i / 4].inverted : cases[i / 4].words);
        lnt_codec_close(c);
    }
    lnt_ctx_destroy(ctx);
}

static void pre_tokenizers_cut_as_hugging_face_does(void **state)
{
    (void)state;
    static const char text[] = " The caf\xc3\xa9,  can't\xc2\xa0stop_2 \xd9\xa1";
    static const struct {
        const char *pre, *words;
    } cases[] = {
        { "{\"type\":\"Whitespace\"}", "The|caf\xc3\xa9|,|can|'|t|stop_2|\xd9\xa1" },
        { "{\"type\":\"WhitespaceSplit\"}", "The|caf\xc3\xa9,|can't|stop_2|\xd9\xa1" },
        { "{\"type\":\"Digits\",\"individual_digits\":false}",
          " The caf\xc3\xa9,  can't\xc2\xa0stop_|2| |\xd9\xa1" },
        { "{\"type\":\"Punctuation\"}", " The caf\xc3\xa9|,|  can|'|t\xc2\xa0stop|_|2 \xd9\xa1" },
        { "{\"type\":\"BertPreTokenizer\"}", "The|caf\xc3\xa9|,|can|'|t|stop|_|2|\xd9\xa1" },
        { "{\"type\":\"CharDelimiterSplit\",\"delimiter\":\",\"}",
          " The caf\xc3\xa9|  can't\xc2\xa0stop_2 \xd9\xa1" },
        { "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"never\",\"split\":false}",
          "_The_caf\xc3\xa9,__can't\xc2\xa0stop_2_\xd9\xa1" },
        { "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"},{\"type\":\"Metaspace\","
          "\"replacement\":\"#\",\"prepend_scheme\":\"always\"}]}",
          "#The|#caf\xc3\xa9,|#can't|#stop_2|#\xd9\xa1" },
    };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(cases); i++) {
        lnt_codec *c = open_with(ctx, cases[i].pre);
        assert_words(ctx, c, text, cases[i].words);
        lnt_codec_close(c);
    }
    lnt_ctx_destroy(ctx);
}

static void metaspace_begins_the_first_word_alone_where_it_says_so(void **state)
{
    (void)state;
    static const char pre[] = "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\"}";
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_codec *c = open_with(ctx, pre);
    lnt_words w = { 0 };
    assert_words(ctx, c, "a b", "_a|_b");
    assert_ok(ctx, lnt_chars_put(ctx, &w.text, "a b", 3));
    assert_ok(ctx, lnt_words_cut(ctx, c->cut, c->cuts, false, &w));
    assert_true(w.count == 2 && w.word[0].bytes == 1);
    lnt_words_free(ctx, &w);
    lnt_codec_close(c);
    lnt_ctx_destroy(ctx);
}

static void a_pattern_that_goes_on_for_ever_is_an_error_of_the_text(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_codec *c =
        open_with(ctx, "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a|aa)+$\"},\"behavior\":\"Isolated\"}");
    lnt_tokens tokens = { 0 };
    char text[200];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = 'b';
    assert_refused(ctx, lnt_codec_encode(ctx, c, text, sizeof text, 0, &tokens), LNT_ERR_FORMAT,
                   "gave up at byte 0");
    assert_int_equal(tokens.count, 0);
    lnt_tokens_free(ctx, &tokens);
    lnt_codec_close(c);
    lnt_ctx_destroy(ctx);
}

#define WORDS                                                                     \
    cmocka_unit_test(the_ways_that_gguf_names_cut_words_as_their_models_do),       \
        cmocka_unit_test(each_behaviour_cuts_as_its_name_says),                    \
        cmocka_unit_test(pre_tokenizers_cut_as_hugging_face_does),                 \
        cmocka_unit_test(metaspace_begins_the_first_word_alone_where_it_says_so), \
        cmocka_unit_test(a_pattern_that_goes_on_for_ever_is_an_error_of_the_text),

#else

static void regular_expressions_are_refused_with_the_package(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_regex *regex;
    assert_refused(ctx, lnt_regex_open(ctx, "t.json", (lnt_text){ "a", 1 }, &regex), LNT_ERR_UNSUPPORTED,
                   "install libpcre2-dev");
    assert_null(regex);
    lnt_ctx_destroy(ctx);
}

#define WORDS cmocka_unit_test(regular_expressions_are_refused_with_the_package),

#endif

#ifdef LNT_UTF8PROC

static void assert_normal(lnt_ctx *ctx, const lnt_normal *step, size_t steps, const char *text,
                          const char *want)
{
    lnt_chars got = { 0 }, spare = { 0 };
    assert_ok(ctx, lnt_chars_put(ctx, &got, text, strlen(text)));
    assert_ok(ctx, lnt_normalise(ctx, step, steps, &got, &spare));
    assert_int_equal(got.count, strlen(want));
    assert_memory_equal(got.text, want, got.count);
    lnt_chars_free(ctx, &got);
    lnt_chars_free(ctx, &spare);
}

static void normalizers_write_what_they_should(void **state)
{
    (void)state;
    static const struct {
        lnt_normal step;
        const char *text, *want;
    } cases[] = {
        { { .kind = LNT_NORMAL_FORM, .form = LNT_NFC },
          "e\xcc\x81"
          "a\xcc\xa3\xcc\x82\xe1\x84\x80\xe1\x85\xa1",
          "\xc3\xa9\xe1\xba\xad\xea\xb0\x80" },
        { { .kind = LNT_NORMAL_FORM, .form = LNT_NFD },
          "\xe1\xbb\x99\xea\xb0\x80",
          "o\xcc\xa3\xcc\x82\xe1\x84\x80\xe1\x85\xa1" },
        { { .kind = LNT_NORMAL_FORM, .form = LNT_NFD }, "a\xcc\x82\xcc\xa3", "a\xcc\xa3\xcc\x82" },
        { { .kind = LNT_NORMAL_FORM, .form = LNT_NFKC },
          "\xef\xac\x81\xe2\x91\xa0\xe2\x84\xab",
          "fi1\xc3\x85" },
        { { .kind = LNT_NORMAL_FORM, .form = LNT_NFKD }, "\xef\xac\x81\xc3\x85", "fiA\xcc\x8a" },
        { { .kind = LNT_NORMAL_LOWER },
          "\xc4\xb0"
          "AB\xc3\x89\xce\xa3",
          "i\xcc\x87"
          "ab\xc3\xa9\xcf\x83" },
        { { .kind = LNT_NORMAL_MARKS }, "e\xcc\x81\xe0\xa4\x83", "e" },
        { { .kind = LNT_NORMAL_STRIP, .left = true, .right = true }, " \xe3\x80\x80 a b\xc2\xa0\n", "a b" },
        { { .kind = LNT_NORMAL_STRIP, .right = true }, " \n", "" },
        { { .kind = LNT_NORMAL_REPLACE, .from = { "ab", 2 }, .to = { "-", 1 } }, "abcabb", "-c-b" },
        { { .kind = LNT_NORMAL_PREPEND, .to = { "_", 1 } }, "a", "_a" },
        { { .kind = LNT_NORMAL_PREPEND, .to = { "_", 1 } }, "", "" },
    };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(cases); i++)
        assert_normal(ctx, &cases[i].step, 1, cases[i].text, cases[i].want);
    const lnt_normal bert[] = { { .kind = LNT_NORMAL_CLEAN }, { .kind = LNT_NORMAL_CHINESE },
                                { .kind = LNT_NORMAL_ACCENTS }, { .kind = LNT_NORMAL_LOWER } };
    assert_normal(ctx, bert, 4, "\xe4\xb8\xad\x01\tCaf\xc3\x89\xe2\x80\x8b\xc2\x85x\xe3\x80\x80",
                  " \xe4\xb8\xad  cafex ");
    lnt_ctx_destroy(ctx);
}

/* A hundred thousand marks on one letter, in the worst order. */
static void marks_without_end_are_sorted_in_time(void **state)
{
    (void)state;
    enum { MARKS = 100000 };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_chars text = { 0 }, out = { 0 };
    assert_ok(ctx, lnt_chars_put(ctx, &text, "a", 1));
    for (int i = 0; i < MARKS; i++)
        assert_ok(ctx, lnt_chars_put(ctx, &text, i < MARKS / 2 ? "\xcc\x82" : "\xcc\xa3", 2));
    assert_ok(ctx, lnt_unicode_normalise(ctx, LNT_NFD, text.text, text.count, &out));
    assert_int_equal(out.count, text.count);
    assert_memory_equal(out.text, "a\xcc\xa3", 3);
    assert_memory_equal(out.text + out.count - 2, "\xcc\x82", 2);
    lnt_chars_free(ctx, &text);
    lnt_chars_free(ctx, &out);
    lnt_ctx_destroy(ctx);
}

#define FORMS                                                                                                \
    cmocka_unit_test(normalizers_write_what_they_should),                                                    \
        cmocka_unit_test(marks_without_end_are_sorted_in_time),

#else

static void unicode_is_refused_with_the_package(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    assert_refused(ctx, lnt_unicode_check(ctx, "t.json"), LNT_ERR_UNSUPPORTED, "install libutf8proc-dev");
    lnt_ctx_destroy(ctx);
}

#define FORMS cmocka_unit_test(unicode_is_refused_with_the_package),

#endif

static void what_is_not_utf8_is_replaced_as_others_do(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = { { "a\xff" "b", "a\xef\xbf\xbd" "b" },
                  { "\xe4\xb8", "\xef\xbf\xbd" },
                  { "\xe4\xb8\xe4\xb8\xad", "\xef\xbf\xbd\xe4\xb8\xad" },
                  { "\xf0\x9f\x98z", "\xef\xbf\xbdz" },
                  { "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd" },
                  { "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
                  { "\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" } };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(cases); i++) {
        lnt_chars out = { 0 };
        assert_ok(ctx, lnt_utf8_repair(ctx, &out, cases[i].text, strlen(cases[i].text)));
        assert_int_equal(out.count, strlen(cases[i].want));
        assert_memory_equal(out.text, cases[i].want, out.count);
        lnt_chars_free(ctx, &out);
    }
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = { WORDS FORMS cmocka_unit_test(
        what_is_not_utf8_is_replaced_as_others_do) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
