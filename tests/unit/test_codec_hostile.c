/* test_codec_hostile.c - files of tokenizers that are broken, lie, or are not known, and memory that runs
 * out. */
#include "model/tokenizer/codec.h"

#include "codec_support.h"

#define MODEL(vocab, merges)                                                                                 \
    "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"vocab\":{\"u\":0" vocab "},\"merges\":[" merges "]}"
#define BERT "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"u\",\"vocab\":{\"u\":0}}"

static void a_broken_file_is_refused_by_one_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        lnt_status status;
        const char *word;
    } cases[] = {
        { "", LNT_ERR_FORMAT, "expected a value" },
        { "[]", LNT_ERR_FORMAT, "no model with a vocab" },
        { "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}}}", LNT_ERR_UNSUPPORTED,
          "'WordLevel' is not known" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":[]}}", LNT_ERR_FORMAT, "not that of its model" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}", LNT_ERR_FORMAT, "it has no tokens" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-5},\"merges\":[]}}", LNT_ERR_FORMAT,
          "it has no tokens" },
        { MODEL(",\"a\":-5", "") "}", LNT_ERR_FORMAT, "token number -5, must be 0 to 0" },
        { MODEL(",\"a\":9000000000000000000", "") "}", LNT_ERR_FORMAT, "has the number 9000000000000000000" },
        { MODEL(",\"a\":0", "") "}", LNT_ERR_FORMAT, "two tokens have the number 0" },
        { MODEL(",\"a\":\"1\"", "") "}", LNT_ERR_FORMAT, "number is no integer" },
        { MODEL(",\"a\":1", "\"a b\"") "}", LNT_ERR_FORMAT, "merge 0 needs 'b', which is no token" },
        { MODEL(",\"a\":1,\"b\":2", "[\"a\",\"b\"]") "}", LNT_ERR_FORMAT,
          "merge 0 needs 'ab', which is no token" },
        { MODEL(",\"a\":1", "\"a\"") "}", LNT_ERR_FORMAT, "must be two tokens" },
        { MODEL(",\"a\":1", "7") "}", LNT_ERR_FORMAT, "no pair of tokens" },
        { "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"x\",\"vocab\":{\"u\":0},\"merges\":[]}}",
          LNT_ERR_FORMAT, "unk_token" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"u\":0}}}", LNT_ERR_FORMAT, "without a list of merges" },
        { "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"u\":0}}}", LNT_ERR_FORMAT,
          "WordPiece without a token" },
        { "{\"model\":{\"type\":\"Unigram\",\"unk_id\":5,\"vocab\":[[\"u\",0]]}}", LNT_ERR_FORMAT, "unk_id" },
        { "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"u\"]]}}", LNT_ERR_FORMAT,
          "pair of text and score" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"pre_tokenizer\":{\"type\":"
          "\"ByteLevel\","
          "\"add_prefix_space\":false,\"use_regex\":false}}",
          LNT_ERR_FORMAT, "no token for the byte 0x20" },
        { MODEL("", "") ",\"normalizer\":{\"type\":\"Nmt\"}}", LNT_ERR_UNSUPPORTED, "normalizer 'Nmt'" },
        { MODEL("", "") ",\"normalizer\":{}}", LNT_ERR_FORMAT, "normalizer must be an object with a type" },
        { MODEL("", "") ",\"normalizer\":{\"type\":\"Sequence\"}}", LNT_ERR_FORMAT, "must have a list" },
        { MODEL("", "") ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"}}}",
          LNT_ERR_FORMAT, "not empty" },
        { MODEL("", "") ",\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}}", LNT_ERR_UNSUPPORTED,
          "pre_tokenizer 'UnicodeScripts'" },
        { MODEL("", "") ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":"
                        "\"Sideways\"}}",
          LNT_ERR_UNSUPPORTED, "behavior 'Sideways'" },
        { BERT ",\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"use_regex\":false}}", LNT_ERR_FORMAT,
          "the model is not BPE" },
        { MODEL("", "") ",\"decoder\":{\"type\":\"CTC\"}}", LNT_ERR_UNSUPPORTED, "decoder 'CTC'" },
        { MODEL("", "") ",\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":"
                        "\"ByteFallback\"}]}}",
          LNT_ERR_FORMAT, "behind ByteFallback or Fuse" },
        { MODEL("", "") ",\"post_processor\":{\"type\":\"Magic\"}}", LNT_ERR_UNSUPPORTED,
          "post_processor 'Magic'" },
        { MODEL("",
                "") ",\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"x\",7],\"cls\":[\"y\",0]}}",
          LNT_ERR_FORMAT, "a token that is none" },
        { MODEL("", "") ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}}",
          LNT_ERR_FORMAT, "without a text" },
        { MODEL("", "") ",\"added_tokens\":[{\"content\":\"z\"}]}", LNT_ERR_FORMAT,
          "without its content or id" },
        { MODEL("", "") ",\"added_tokens\":[{\"content\":\"z\",\"id\":0}]}", LNT_ERR_FORMAT,
          "number 0 of another" },
        { MODEL("", "") ",\"added_tokens\":[{\"content\":\"z\",\"id\":99999999}]}", LNT_ERR_FORMAT,
          "has the number 99999999" },
#ifdef LNT_PCRE2
        { MODEL("", "") ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},\"behavior\":"
                        "\"Removed\"}}",
          LNT_ERR_FORMAT, "the regular expression '(a' at" },
#endif
#ifdef LNT_UTF8PROC
        { MODEL("", "") ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}}",
          LNT_ERR_FORMAT, "precompiled_charsmap of 3 bytes" },
        { MODEL("", "") ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"*\"}}",
          LNT_ERR_FORMAT, "base64" },
#endif
    };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(cases); i++) {
        lnt_codec *c;
        assert_refused(ctx, lnt_codec_open_json(ctx, "t.json", cases[i].json, strlen(cases[i].json), &c),
                       cases[i].status, cases[i].word);
        assert_null(c);
        assert_non_null(strstr(lnt_ctx_error(ctx), "t.json"));
    }
    lnt_ctx_destroy(ctx);
}

static void broken_metadata_is_refused_by_one_sentence(void **state)
{
    (void)state;
    static const lnt_text twice[] = { { "a", 1 }, { "a", 1 } }, odd[] = { { "a", 1 }, { NULL, 0 } };
    static const float score[] = { 0, 0 };
    const lnt_vocabulary good = { .path = "t.gguf",
                                  .count = 2,
                                  .token = twice,
                                  .score = score,
                                  .bos = 99,
                                  .eos = -7,
                                  .unknown = -1,
                                  .separator = -1,
                                  .padding = -1,
                                  .classify = -1,
                                  .mask = -1 };
    struct {
        const char *model, *word;
        const lnt_text *token;
        const float *score;
        size_t count;
    } cases[] = { { "rwkv", "the model 'rwkv' is not known", twice, score, 2 },
                  { "", "is not known", twice, score, 2 },
                  { "llama", "tokens 0 and 1 have the same spelling", twice, score, 2 },
                  { "llama", "without scores", odd, NULL, 2 },
                  { "llama", "it has no tokens", odd, score, 0 },
                  { "bert", "without a token [UNK]", odd, score, 2 } };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_codec *c;
    for (int i = 0; i < COUNT_OF(cases); i++) {
        lnt_vocabulary v = good;
        v.model = (lnt_text){ cases[i].model, strlen(cases[i].model) };
        v.token = cases[i].token;
        v.score = cases[i].score;
        v.count = cases[i].count;
        const lnt_status status = lnt_codec_open_vocabulary(ctx, &v, &c);
        assert_true(status == LNT_ERR_FORMAT || status == LNT_ERR_UNSUPPORTED);
        assert_null(c);
        if (!strstr(lnt_ctx_error(ctx), "install"))
            assert_non_null(strstr(lnt_ctx_error(ctx), cases[i].word));
    }
    lnt_vocabulary v = good;
    v.model = (lnt_text){ "llama", 5 };
    v.token = odd;
    assert_ok(ctx, lnt_codec_open_vocabulary(ctx, &v, &c)); /* roles beyond the tokens are none */
    assert_int_equal(lnt_codec_role_token(c, LNT_ROLE_EOS), LNT_NO_TOKEN);
    lnt_codec_close(c);
    lnt_ctx_destroy(ctx);
}

/* Forty steps, each of which doubles its text. */
static void a_text_does_not_grow_without_end(void **state)
{
    (void)state;
    static const char step[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aa\"}";
    for (int decoder = 0; decoder < 2; decoder++) {
        tracker t;
        lnt_ctx *ctx = context_tracked(&t, 1, NULL);
        lnt_tokens tokens = { 0 };
        char *text;
        size_t bytes;
        page p = { 0 };
        page_put(&p, MODEL(",\"a\":1", ""));
        page_put(&p, decoder ? ",\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
                             : ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
        for (int i = 0; i < 40; i++) {
            if (i) page_put(&p, ",");
            page_put(&p, step);
        }
        page_put(&p, "]}}");
        lnt_codec *c = open_page(ctx, p);
        if (decoder) {
            const int32_t token = 1;
            assert_refused(ctx, lnt_codec_decode(ctx, c, &token, 1, false, &text, &bytes), LNT_ERR_FORMAT,
                           "of a token");
        } else {
            assert_refused(ctx, lnt_codec_encode(ctx, c, "a", 1, 0, &tokens), LNT_ERR_FORMAT, "of a text");
        }
        assert_true(t.peak_bytes < 2000000);
        lnt_tokens_free(ctx, &tokens);
        lnt_codec_close(c);
        context_close_tracked(ctx, &t);
    }
}

/* ---- files bent at random ------------------------------------------------------------------------ */

static const char pre_tokenizer[] =
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"String\":\",\"},"
    "\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"use_regex\":false}]}";
static const char *const merges[] = { "t h", "th e", "a b", NULL };
static const char members[] =
    ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Strip\"},{\"type\":\"Replace\","
    "\"pattern\":{\"String\":\"x\"},\"content\":\"yy\"}]},\"added_tokens\":[{\"id\":300,\"content\":"
    "\"<s>\",\"special\":true,\"normalized\":true}],\"post_processor\":{\"type\":\"RobertaProcessing\","
    "\"sep\":[\"<s>\",300],\"cls\":[\"<s>\",300]}";

/* Opens, uses what opened, and closes it: a crash or a leak is the failure. */
static void try_bytes(lnt_ctx *ctx, const char *json, size_t bytes)
{
    lnt_codec *c;
    lnt_tokens tokens = { 0 };
    char *text;
    size_t count;
    if (lnt_codec_open_json(ctx, "t.json", json, bytes, &c) != LNT_OK) return;
    if (lnt_codec_encode(ctx, c, "the abx<s>, \xc3\xa9", 13, LNT_ENCODE_FRAMED, &tokens) == LNT_OK &&
        lnt_codec_decode(ctx, c, tokens.token, tokens.count, false, &text, &count) == LNT_OK)
        lnt_release(ctx, text, count + 1);
    lnt_tokens_free(ctx, &tokens);
    lnt_codec_close(c);
}

static void a_file_that_is_bent_or_cut_crashes_nothing(void **state)
{
    (void)state;
    static const char *const words[] = { "null", "[]",           "{}", "-1", "99999999999", "\"\"", "true",
                                         "[[",   "\"Sequence\"", ",",  ":" };
    tracker t;
    lnt_ctx *ctx = context_tracked(&t, 1, NULL);
    page p = byte_level_json(merges, "", pre_tokenizer, members);
    char *bent = malloc(p.bytes + 100);
    dice d = { 5 };
    assert_non_null(bent);
    for (int round = 0; round < budget(300, 5000); round++) {
        size_t bytes = p.bytes;
        memcpy(bent, p.text, bytes);
        for (int64_t k = dice_range(&d, 1, 3); k > 0; k--) {
            /* half of the time in what is not the vocabulary, which is most of the file */
            const int64_t low = dice_range(&d, 0, 1) ? (int64_t)bytes - 500 : 0;
            const size_t at = (size_t)dice_range(&d, low < 0 ? 0 : low, (int64_t)bytes - 1);
            const char *word = DICE_PICK(&d, words);
            if (dice_range(&d, 0, 2)) bent[at] = (char)dice_range(&d, 0, 255);
            else if (at + strlen(word) < bytes) memcpy(bent + at, word, strlen(word));
        }
        if (dice_range(&d, 0, 9) == 0) bytes = (size_t)dice_range(&d, 0, (int64_t)bytes);
        try_bytes(ctx, bent, bytes);
    }
    free(bent);
    free(p.text);
    context_close_tracked(ctx, &t);
}

static void memory_that_runs_out_is_told_and_none_is_lost(void **state)
{
    (void)state;
    page p = byte_level_json(merges, "", pre_tokenizer, members);
    bool done = false;
    for (int64_t fail_at = 0; !done; fail_at++) {
        tracker t;
        lnt_codec *c = NULL;
        lnt_tokens tokens = { 0 };
        char *text = NULL;
        size_t bytes = 0;
        lnt_ctx *ctx = context_tracked(&t, 1, NULL);
        t.fail_at = t.calls + fail_at;
        lnt_status status = lnt_codec_open_json(ctx, "t.json", p.text, p.bytes, &c);
        if (!status)
            status = lnt_codec_encode(ctx, c, "the abx<s>, \xc3\xa9", 13, LNT_ENCODE_FRAMED, &tokens);
        if (!status) status = lnt_codec_decode(ctx, c, tokens.token, tokens.count, true, &text, &bytes);
        assert_true(status == LNT_OK || status == LNT_ERR_MEMORY);
        done = status == LNT_OK;
        if (done) lnt_release(ctx, text, bytes + 1);
        lnt_tokens_free(ctx, &tokens);
        lnt_codec_close(c);
        context_close_tracked(ctx, &t);
        assert_true(fail_at < 10000);
    }
    free(p.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broken_file_is_refused_by_one_sentence),
        cmocka_unit_test(broken_metadata_is_refused_by_one_sentence),
        cmocka_unit_test(a_text_does_not_grow_without_end),
        cmocka_unit_test(a_file_that_is_bent_or_cut_crashes_nothing),
        cmocka_unit_test(memory_that_runs_out_is_told_and_none_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
