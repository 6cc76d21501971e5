/* test_codec.c - text to tokens and back, by tokenizers small enough to know the answer. */
#include "model/tokenizer/codec.h"

#include "codec_support.h"
#include "io_support.h"

static const char byte_level[] = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}";
static const char *const few_merges[] = { "t h", "th e", "\xc4\xa0 the", "h e", "a b", "ab ab", "1 2", NULL };
static const char specials[] =
    ",\"added_tokens\":[{\"id\":300,\"content\":\"<s>\",\"special\":true,\"normalized\":false},"
    "{\"id\":301,\"content\":\"</s>\",\"special\":true,\"normalized\":false},"
    "{\"id\":302,\"content\":\"<s>x\",\"special\":false,\"normalized\":false},"
    "{\"id\":303,\"content\":\"<mask>\",\"special\":true,\"lstrip\":true,\"rstrip\":true,\"normalized\":"
    "false},"
    "{\"id\":304,\"content\":\"be\",\"single_word\":true,\"normalized\":false}],"
    "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},{\"type\":"
    "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{"
    "\"id\":\"A\","
    "\"type_id\":0}},{\"SpecialToken\":{\"id\":\"</"
    "s>\",\"type_id\":0}}],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\","
    "\"ids\":[300],\"tokens\":[\"<s>\"]},\"</s>\":{\"id\":\"</s>\",\"ids\":[301],\"tokens\":[\"</s>\"]}}}]}";

static void merges_apply_by_rank_within_words(void **state)
{
    (void)state;
    needs_regex();
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_codec *c = open_page(ctx, byte_level_json(few_merges, "", byte_level, ""));
    assert_tokens(ctx, c, "the the he", 0, "257 258 32 259");
    assert_tokens(ctx, c, "ababab", 0, "261 260");
    assert_tokens(ctx, c, "a b 12 th", 0, "97 32 98 32 262 32 256");
    assert_tokens(ctx, c, "\xc3\xa9", 0, "195 169");
    assert_tokens(ctx, c, "", 0, "");
    assert_string_equal(lnt_codec_kind_name(c), "bpe");
    assert_int_equal(lnt_codec_count(c), 263);
    lnt_codec_close(c);
    lnt_ctx_destroy(ctx);
}

static void a_word_that_is_a_token_needs_no_merges_where_the_model_says_so(void **state)
{
    (void)state;
    needs_regex();
    static const char *const merges[] = { "a b", "c d", "ab c", "abc d", "b c", NULL };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_codec *c = open_page(ctx, byte_level_json(merges, "", byte_level, ""));
    lnt_codec *whole = open_page(ctx, byte_level_json(merges, "\"ignore_merges\":true,", byte_level, ""));
    assert_tokens(ctx, c, "abcd", 0, "256 257");
    assert_tokens(ctx, whole, "abcd", 0, "259");
    assert_tokens(ctx, whole, "abcda", 0, "256 257 97");
    lnt_codec_close(c);
    lnt_codec_close(whole);
    lnt_ctx_destroy(ctx);
}

static void added_tokens_are_found_longest_first_and_frames_are_put_around(void **state)
{
    (void)state;
    needs_regex();
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_codec *c = open_page(ctx, byte_level_json(few_merges, "", byte_level, specials));
    size_t before, after;
    lnt_codec_frame(c, &before, &after);
    assert_true(before == 1 && after == 1);
    assert_tokens(ctx, c, "he", LNT_ENCODE_FRAMED, "300 259 301");
    assert_tokens(ctx, c, "", LNT_ENCODE_FRAMED, "300 301");
    assert_tokens(ctx, c, "<s>a<s>x</s>", 0, "300 97 302 301");
    assert_tokens(ctx, c, "<s>", LNT_ENCODE_VERBATIM, "60 115 62");
    assert_tokens(ctx, c, "<s>x", LNT_ENCODE_VERBATIM, "302");
    assert_tokens(ctx, c, "a  <mask> \n b", 0, "97 303 98");
    assert_tokens(ctx, c, "be abe bee be", 0, "304 32 260 101 32 98 101 101 32 304");
    assert_int_equal(lnt_codec_find(c, "</s>", 4), 301);
    assert_int_equal(lnt_codec_find(c, "th", 2), 256);
    assert_int_equal(lnt_codec_find(c, "nothing", 7), LNT_NO_TOKEN);
    assert_true(lnt_codec_is_special(c, 300) && !lnt_codec_is_special(c, 302) &&
                !lnt_codec_is_special(c, 9999));
    const int32_t framed[] = { 300, 257, 301 };
    assert_text(ctx, c, framed, 3, false, "<s>the</s>");
    assert_text(ctx, c, framed, 3, true, "the");
    lnt_codec_close(c);
    lnt_ctx_destroy(ctx);
}

static void byte_level_text_comes_back_whatever_it_is(void **state)
{
    (void)state;
    needs_regex();
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_codec *c = open_page(ctx, byte_level_json(few_merges, "", byte_level, specials));
    dice d = { 41 };
    for (int round = 0; round < budget(30, 300); round++) {
        page text = dice_text(&d, (int)dice_range(&d, 0, 40), true);
        lnt_tokens tokens = { 0 };
        lnt_chars whole = { 0 };
        assert_ok(ctx, lnt_utf8_repair(ctx, &whole, text.text, text.bytes));
        assert_ok(ctx, lnt_chars_put(ctx, &whole, "", 1));
        assert_ok(ctx, lnt_codec_encode(ctx, c, text.text, text.bytes, LNT_ENCODE_FRAMED, &tokens));
        assert_text(ctx, c, tokens.token, tokens.count, true, whole.text);
        lnt_tokens_free(ctx, &tokens);
        lnt_chars_free(ctx, &whole);
        free(text.text);
    }
    lnt_codec_close(c);
    lnt_ctx_destroy(ctx);
}

/* ---- byte-pair encoding beside the shortest way to write it --------------------------------------- */

static int find_merge(const int (*merge)[2], int merges, int left, int right)
{
    for (int i = 0; i < merges; i++)
        if (merge[i][0] == left && merge[i][1] == right) return i;
    return -1;
}

static int merge_naively(const int (*merge)[2], int merges, int *token, int count)
{
    for (;;) {
        int best = -1, where = 0;
        for (int i = 0; i + 1 < count; i++) {
            const int m = find_merge(merge, merges, token[i], token[i + 1]);
            if (m >= 0 && (best < 0 || m < best)) best = m, where = i;
        }
        if (best < 0) return count;
        token[where] = 256 + best;
        memmove(token + where + 1, token + where + 2, (size_t)(count - where - 2) * sizeof *token);
        count--;
    }
}

static void the_heap_merges_as_the_rule_says(void **state)
{
    (void)state;
    needs_regex();
    enum { MERGES = 24, LENGTH = 60 };
    lnt_ctx *ctx = context_new(1, NULL);
    dice d = { 7 };
    for (int round = 0; round < budget(10, 100); round++) {
        char spelling[MERGES][200], line[MERGES][420];
        const char *lines[MERGES + 1] = { NULL };
        int merge[MERGES][2], merges = 0;
        while (merges < MERGES) { /* of a, b, c and what was merged before; no two spelled alike */
            const int pick[2] = { (int)dice_range(&d, -3, merges - 1), (int)dice_range(&d, -3, merges - 1) };
            char part[2][200], both[400];
            for (int k = 0; k < 2; k++) {
                if (pick[k] < 0) snprintf(part[k], sizeof part[k], "%c", 'd' + pick[k]);
                else strcpy(part[k], spelling[pick[k]]);
            }
            snprintf(both, sizeof both, "%s%s", part[0], part[1]);
            bool fits = strlen(both) < 30;
            for (int i = 0; i < merges; i++) fits = fits && strcmp(spelling[i], both) != 0;
            if (!fits) continue;
            strcpy(spelling[merges], both);
            snprintf(line[merges], sizeof line[0], "%s %s", part[0], part[1]);
            lines[merges] = line[merges];
            for (int k = 0; k < 2; k++) merge[merges][k] = pick[k] < 0 ? 'd' + pick[k] : 256 + pick[k];
            merges++;
        }
        lnt_codec *c = open_page(ctx, byte_level_json(lines, "", byte_level, ""));
        for (int t = 0; t < 20; t++) {
            char text[LENGTH + 1] = { 0 };
            int want[LENGTH];
            lnt_tokens got = { 0 };
            for (int i = 0; i < LENGTH; i++) want[i] = text[i] = (char)('a' + dice_range(&d, 0, 2));
            const int count = merge_naively((const int(*)[2])merge, merges, want, LENGTH);
            assert_ok(ctx, lnt_codec_encode(ctx, c, text, LENGTH, 0, &got));
            assert_int_equal(got.count, count);
            for (int i = 0; i < count; i++) assert_int_equal(got.token[i], want[i]);
            lnt_tokens_free(ctx, &got);
        }
        lnt_codec_close(c);
    }
    lnt_ctx_destroy(ctx);
}

/* The square of this length would take minutes. */
static void a_long_word_takes_no_time_to_speak_of(void **state)
{
    (void)state;
    needs_regex();
    const size_t length = (size_t)budget(200000, 1000000);
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_codec *c = open_page(ctx, byte_level_json(few_merges, "", byte_level, ""));
    char *text = malloc(length);
    lnt_tokens tokens = { 0 };
    assert_non_null(text);
    for (size_t i = 0; i < length; i++) text[i] = i % 2 ? 'b' : 'a';
    assert_ok(ctx, lnt_codec_encode(ctx, c, text, length, 0, &tokens));
    assert_int_equal(tokens.count, length / 4);
    lnt_tokens_free(ctx, &tokens);
    free(text);
    lnt_codec_close(c);
    lnt_ctx_destroy(ctx);
}

/* ---- SentencePiece ------------------------------------------------------------------------------- */

#define LOW "\xe2\x96\x81"

static lnt_text said(const char *text) { return (lnt_text){ text, strlen(text) }; }

/* <unk> <s> </s>, some words, and the 256 bytes. */
static lnt_codec *open_sentencepiece(lnt_ctx *ctx, const char *model)
{
    enum { WORDS = 11, COUNT = WORDS + 256 };
    static const char *const word[WORDS] = { "<unk>", "<s>",   "</s>", LOW,     "a",    "b",
                                             "ab",    LOW "a", "ba",   "<|x|>", LOW LOW };
    static const float score[WORDS] = { 0, 0, 0, -1, -2, -2.5f, -3, -4, -2.9f, 0, -5 };
    static const int32_t type[WORDS] = { 2, 3, 3, 1, 1, 1, 1, 1, 1, 4, 1 };
    static char bytes[256][8];
    lnt_text token[COUNT];
    float scores[COUNT] = { 0 };
    int32_t types[COUNT];
    for (int i = 0; i < COUNT; i++) {
        if (i >= WORDS) snprintf(bytes[i - WORDS], sizeof bytes[0], "<0x%02X>", (unsigned)(i - WORDS));
        token[i] = said(i < WORDS ? word[i] : bytes[i - WORDS]);
        scores[i] = i < WORDS ? score[i] : -100;
        types[i] = i < WORDS ? type[i] : 6;
    }
    const lnt_vocabulary v = { .path = "t.gguf",
                               .model = said(model),
                               .count = COUNT,
                               .token = token,
                               .score = scores,
                               .type = types,
                               .bos = 1,
                               .eos = 2,
                               .unknown = 0,
                               .separator = LNT_NO_TOKEN,
                               .padding = LNT_NO_TOKEN,
                               .classify = LNT_NO_TOKEN,
                               .mask = LNT_NO_TOKEN };
    lnt_codec *c = NULL;
    assert_ok(ctx, lnt_codec_open_vocabulary(ctx, &v, &c));
    return c;
}

static void sentencepiece_merges_the_best_score_and_falls_back_to_bytes(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_codec *c = open_sentencepiece(ctx, "llama");
    assert_string_equal(lnt_codec_kind_name(c), "sentencepiece");
    assert_tokens(ctx, c, "ab", LNT_ENCODE_FRAMED, "1 3 6");   /* ab is better than _a */
    assert_tokens(ctx, c, "aba", 0, "7 8");                    /* and ba than ab */
    assert_tokens(ctx, c, "a", 0, "7");
    assert_tokens(ctx, c, "  a", 0, "10 7");
    assert_tokens(ctx, c, "\xc3\xa9", 0, "3 206 180");         /* 11 + 0xc3, 11 + 0xa9 */
    assert_tokens(ctx, c, "a<|x|>a", 0, "7 9 7");              /* a prefix for each text between */
    assert_tokens(ctx, c, "<s>", LNT_ENCODE_VERBATIM, "3 71 126 73");
    const int32_t tokens[] = { 1, 3, 206, 180, 6, 7 };
    assert_text(ctx, c, tokens, 6, true, "\xc3\xa9"
                                         "ab a");
    const int32_t broken[] = { 206, 6, 206, 206, 180 };
    assert_text(ctx, c, broken, 5, false, "\xef\xbf\xbd"
                                          "ab\xef\xbf\xbd\xc3\xa9");
    assert_int_equal(lnt_codec_role_token(c, LNT_ROLE_EOS), 2);
    assert_int_equal(lnt_codec_role_token(c, LNT_ROLE_MASK), LNT_NO_TOKEN);
    lnt_codec_close(c);
    lnt_ctx_destroy(ctx);
}

/* The rule, written as shortly as it can be: parts are token numbers. */
static int merge_by_score(const lnt_codec *c, int32_t *part, int count)
{
    for (;;) {
        int where = -1;
        int32_t best = -1;
        for (int i = 0; i + 1 < count; i++) {
            const lnt_text a = c->vocab.token[part[i]], b = c->vocab.token[part[i + 1]];
            char both[64];
            memcpy(both, a.text, a.bytes);
            memcpy(both + a.bytes, b.text, b.bytes);
            const int32_t token = lnt_codec_find(c, both, a.bytes + b.bytes);
            if (token < 0 || (where >= 0 && c->vocab.score[token] <= c->vocab.score[best])) continue;
            best = token;
            where = i;
        }
        if (where < 0) return count;
        part[where] = best;
        memmove(part + where + 1, part + where + 2, (size_t)(count - where - 2) * sizeof *part);
        count--;
    }
}

/* With a token that goes on behind a space, and without: there words are encoded alone. */
static void sentencepiece_merges_across_spaces_where_its_tokens_do(void **state)
{
    (void)state;
    enum { LENGTH = 50, COUNT = 10 };
    static const char *const word[COUNT] = { LOW,  "a",     "b",  "ab",    LOW "a",
                                             "ba", LOW LOW, "bb", "b" LOW, "b" LOW "a" };
    static const float score[COUNT] = { -9, -9, -9, -3, -4, -2.9f, -5, -6, -2, -1 };
    lnt_ctx *ctx = context_new(1, NULL);
    dice d = { 19 };
    lnt_text token[COUNT];
    for (int i = 0; i < COUNT; i++) token[i] = said(word[i]);
    for (int crosses = 0; crosses < 2; crosses++) {
        const size_t tokens = crosses ? COUNT : COUNT - 2;
        const lnt_vocabulary v = { .path = "t.gguf", .model = said("llama"), .count = tokens, .token = token,
                                   .score = score, .bos = -1, .eos = -1, .unknown = -1,
                                   .separator = -1, .padding = -1, .classify = -1, .mask = -1,
                                   .add_space_prefix = LNT_SAID_NO };
        lnt_codec *c;
        assert_ok(ctx, lnt_codec_open_vocabulary(ctx, &v, &c));
        assert_int_equal(c->bpe.mark.bytes, crosses ? 0 : 3);
        for (int round = 0; round < budget(50, 500); round++) {
            char text[LENGTH];
            int32_t want[LENGTH];
            lnt_tokens got = { 0 };
            for (int i = 0; i < LENGTH; i++) text[i] = " ab"[want[i] = (int32_t)dice_range(&d, 0, 2)];
            const int count = merge_by_score(c, want, LENGTH);
            assert_ok(ctx, lnt_codec_encode(ctx, c, text, LENGTH, 0, &got));
            assert_int_equal(got.count, count);
            for (int i = 0; i < count; i++) assert_int_equal(got.token[i], want[i]);
            lnt_tokens_free(ctx, &got);
        }
        lnt_codec_close(c);
    }
    lnt_ctx_destroy(ctx);
}

/* ---- unigram: of all ways to spell a word the best ------------------------------------------------ */

static double best_score(const lnt_codec *c, const char *text, size_t bytes)
{
    double best[64] = { 0 };
    for (size_t end = 1; end <= bytes; end++) {
        best[end] = -1e9;
        for (size_t start = 0; start < end; start++) {
            const int32_t token = lnt_codec_find(c, text + start, end - start);
            const double way = best[start] + (token < 0 ? -1e6 : c->vocab.score[token]);
            if (way > best[end]) best[end] = way;
        }
    }
    return best[bytes];
}

static void unigram_finds_the_most_likely_spelling(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    dice d = { 11 };
    for (int round = 0; round < budget(20, 200); round++) {
        page p = { 0 };
        char entry[64], known[40][8];
        int count = 0;
        page_put(&p, "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"a\",-3],["
                     "\"b\",-3.5],[\"c\",-4]");
        while (count < 30) {
            char word[8] = { 0 };
            const int length = (int)dice_range(&d, 2, 5);
            for (int i = 0; i < length; i++) word[i] = (char)('a' + dice_range(&d, 0, 2));
            bool fresh = true;
            for (int i = 0; i < count; i++) fresh = fresh && strcmp(known[i], word) != 0;
            if (!fresh) continue;
            strcpy(known[count++], word);
            snprintf(entry, sizeof entry, ",[\"%s\",%g]", word, -2 - 10 * dice_uniform(&d));
            page_put(&p, entry);
        }
        page_put(&p, "]}}");
        lnt_codec *c = open_page(ctx, p);
        for (int t = 0; t < 10; t++) {
            char text[40] = { 0 };
            const size_t length = (size_t)dice_range(&d, 1, 39);
            for (size_t i = 0; i < length; i++) text[i] = (char)('a' + dice_range(&d, 0, 2));
            lnt_tokens got = { 0 };
            page spelled = { 0 };
            double score = 0;
            assert_ok(ctx, lnt_codec_encode(ctx, c, text, length, 0, &got));
            for (size_t i = 0; i < got.count; i++) {
                const lnt_text part = lnt_codec_spelling(c, got.token[i]);
                page_bytes(&spelled, part.text, part.bytes);
                score += c->vocab.score[got.token[i]];
            }
            assert_int_equal(spelled.bytes, length);
            assert_memory_equal(spelled.text, text, length);
            assert_true(score >= best_score(c, text, length) - 1e-9);
            free(spelled.text);
            lnt_tokens_free(ctx, &got);
        }
        lnt_codec_close(c);
    }
    lnt_ctx_destroy(ctx);
}

static void unigram_joins_what_is_unknown_or_spells_its_bytes(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_codec *c = open_text(
        ctx, "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"a\",-1]]}}");
    assert_tokens(ctx, c, "a\xc3\xa9z\xe4\xb8\xad" "a", 0, "1 0 1");
    lnt_codec_close(c);
    c = open_text(
        ctx, "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":true,\"vocab\":[[\"<unk>\",0],"
             "[\"a\",-1],[\"<0xC3>\",-9],[\"<0xA9>\",-9]]}}");
    assert_tokens(ctx, c, "a\xc3\xa9" "az", 0, "1 2 3 1 0");
    lnt_codec_close(c);
    lnt_ctx_destroy(ctx);
}

/* ---- WordPiece ----------------------------------------------------------------------------------- */

static const char pieces[] =
    "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"max_input_chars_per_word\":6,\"vocab\":{\"["
    "UNK]\":0,"
    "\"un\":1,\"##able\":2,\"##a\":3,\"unab\":4,\"##le\":5,\"a\":6,\".\":7,\"[CLS]\":8,\"[SEP]\":9,\"'\":10,"
    "\"s\":11}},"
    "\"added_tokens\":[{\"id\":8,\"content\":\"[CLS]\",\"special\":true},{\"id\":9,\"content\":\"[SEP]\","
    "\"special\":true}],"
    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" "
    "\"},\"behavior\":\"Removed\",\"invert\":false},"
    "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",9],\"cls\":[\"[CLS]\",8]},"
    "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}}";

static void wordpiece_takes_the_longest_piece_each_time(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_codec *c = open_text(ctx, pieces);
    assert_tokens(ctx, c, "una unable a unx", LNT_ENCODE_FRAMED,
                  "8 1 3 4 5 6 0 9");                   /* unab + le, not un + able */
    assert_tokens(ctx, c, "aaaaaaa aaa", 0, "0 6 3 3"); /* seven characters are too many */
    const int32_t tokens[] = { 8, 1, 2, 6, 7, 6, 10, 11, 9 };
    assert_text(ctx, c, tokens, 9, true, "unable a. a ' s");
    assert_text(ctx, c, tokens, 9, false, "[CLS] unable a. a ' s [SEP]");
    lnt_codec_close(c);
    lnt_ctx_destroy(ctx);
}

/* ---- pieces of a text as it grows ----------------------------------------------------------------- */

static bool is_whole_utf8(lnt_text t)
{
    uint32_t code;
    for (size_t i = 0; i < t.bytes;) {
        const int n = lnt_utf8_take(t.text + i, t.bytes - i, &code);
        if (n <= 0) return false;
        i += (size_t)n;
    }
    return true;
}

/* Random tokens, most of which break characters. */
static void check_pieces(lnt_ctx *ctx, const lnt_codec *c, dice *d, bool skip)
{
    int32_t tokens[30];
    const size_t count = (size_t)dice_range(d, 0, 30);
    page joined = { 0 };
    lnt_detokenizer *stream;
    lnt_text piece;
    page_put(&joined, "");
    for (size_t i = 0; i < count; i++) tokens[i] = (int32_t)dice_range(d, 0, (int64_t)lnt_codec_count(c) - 1);
    assert_ok(ctx, lnt_detokenizer_open(ctx, c, skip, &stream));
    for (int twice = 0; twice < 2; twice++) { /* after its end a stream begins anew */
        joined.bytes = 0;
        joined.text[0] = '\0';
        for (size_t i = 0; i <= count; i++) {
            assert_ok(ctx, i < count ? lnt_detokenizer_put(stream, tokens[i], &piece)
                                     : lnt_detokenizer_end(stream, &piece));
            assert_true(is_whole_utf8(piece));
            assert_int_equal(piece.text[piece.bytes], 0);
            page_bytes(&joined, piece.text, piece.bytes);
        }
        char *whole;
        size_t bytes;
        assert_ok(ctx, lnt_codec_decode(ctx, c, tokens, count, skip, &whole, &bytes));
        assert_int_equal(bytes, joined.bytes);
        assert_memory_equal(whole, joined.text, bytes);
        lnt_release(ctx, whole, bytes + 1);
    }
    lnt_detokenizer_close(stream);
    free(joined.text);
}

static void pieces_are_whole_characters_and_make_the_whole_text(void **state)
{
    (void)state;
    needs_regex();
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_codec *codecs[] = { open_page(ctx, byte_level_json(few_merges, "", byte_level, specials)),
                            open_sentencepiece(ctx, "llama"), open_sentencepiece(ctx, "t5"),
                            open_text(ctx, pieces) };
    dice d = { 3 };
    for (int round = 0; round < budget(40, 400); round++)
        for (int i = 0; i < COUNT_OF(codecs); i++) check_pieces(ctx, codecs[i], &d, round % 2);
    lnt_text piece;
    lnt_detokenizer *stream;
    assert_ok(ctx, lnt_detokenizer_open(ctx, codecs[0], false, &stream));
    assert_ok(ctx, lnt_detokenizer_put(stream, 0xf0, &piece));
    assert_int_equal(piece.bytes, 0);
    assert_ok(ctx, lnt_detokenizer_put(stream, 0x9f, &piece));
    assert_ok(ctx, lnt_detokenizer_put(stream, 0x98, &piece));
    assert_int_equal(piece.bytes, 0);
    assert_ok(ctx, lnt_detokenizer_put(stream, 0x80, &piece));
    assert_string_equal(piece.text, "\xf0\x9f\x98\x80");
    assert_ok(ctx, lnt_detokenizer_put(stream, 0xe4, &piece));
    assert_ok(ctx, lnt_detokenizer_end(stream, &piece));
    assert_string_equal(piece.text, "\xef\xbf\xbd");
    assert_refused(ctx, lnt_detokenizer_put(stream, -1, &piece), LNT_ERR_ARGUMENT, "token -1, must be 0 to");
    lnt_detokenizer_close(stream);
    for (int i = 0; i < COUNT_OF(codecs); i++) lnt_codec_close(codecs[i]);
    lnt_ctx_destroy(ctx);
}

/* ---- other sources ------------------------------------------------------------------------------- */

static void put_token(page *p, float score, const char *text)
{
    const int32_t bytes = (int32_t)strlen(text);
    page_bytes(p, (const char *)&score, sizeof score);
    page_bytes(p, (const char *)&bytes, sizeof bytes);
    page_put(p, text);
}

static void the_file_of_llama2c_is_read(void **state)
{
    (void)state;
    static const char *const words[] = { "<unk>", "\n<s>\n", "\n</s>\n", " ",      "a",
                                         "b",     "ab",      " a",       "<0xC3>", "<0xA9>" };
    static const float scores[] = { 0, 0, 0, -1, -2, -3, -1, -4, 0, 0 };
    lnt_ctx *ctx = context_new(1, NULL);
    page p = { 0 };
    lnt_codec *c;
    page_bytes(&p, "\x05\0\0", 4);
    for (int i = 0; i < COUNT_OF(words); i++) put_token(&p, scores[i], words[i]);
    put_file("tok.bin", p.text, p.bytes);
    assert_ok(ctx, lnt_codec_open_llama2c(ctx, "tok.bin", COUNT_OF(words), &c));
    assert_tokens(ctx, c, "ab", LNT_ENCODE_FRAMED, "1 3 6");
    assert_tokens(ctx, c, "a", 0, "7");
    assert_tokens(ctx, c, "\xc3\xa9z", 0, "3 8 9 0");
    const int32_t tokens[] = { 1, 7, 8, 9, 6 };
    assert_text(ctx, c, tokens, 5, true, "a\xc3\xa9" "ab");
    lnt_codec_close(c);
    for (size_t cut = 0; cut < p.bytes; cut++) {
        put_file("tok.bin", p.text, cut);
        assert_true(lnt_codec_open_llama2c(ctx, "tok.bin", COUNT_OF(words), &c) != LNT_OK && !c);
    }
    free(p.text);
    assert_int_equal(remove("tok.bin"), 0);
    lnt_ctx_destroy(ctx);
}

static void a_directory_says_which_tokens_are_which(void **state)
{
    (void)state;
    needs_regex();
    static const char config[] =
        "{\"eos_token\":{\"content\":\"</s>\"},\"bos_token\":\"<s>\",\"pad_token\":\"none such\"}";
    static const char map[] = "{\"mask_token\":\"<mask>\",\"eos_token\":\"<s>\"}";
    lnt_ctx *ctx = context_new(1, NULL);
    page p = byte_level_json(few_merges, "", byte_level, specials);
    lnt_codec *c;
    put_file("tokenizer.json", p.text, p.bytes);
    put_file("tokenizer_config.json", config, strlen(config));
    put_file("special_tokens_map.json", map, strlen(map));
    assert_ok(ctx, lnt_codec_open_directory(ctx, ".", &c));
    assert_int_equal(lnt_codec_role_token(c, LNT_ROLE_BOS), 300);
    assert_int_equal(lnt_codec_role_token(c, LNT_ROLE_EOS), 301);
    assert_int_equal(lnt_codec_role_token(c, LNT_ROLE_MASK), 303);
    assert_int_equal(lnt_codec_role_token(c, LNT_ROLE_PADDING), LNT_NO_TOKEN);
    lnt_codec_close(c);
    assert_int_equal(remove("tokenizer.json"), 0);
    assert_refused(ctx, lnt_codec_open_directory(ctx, ".", &c), LNT_ERR_FILE, "tokenizer.json");
    assert_int_equal(remove("tokenizer_config.json") + remove("special_tokens_map.json"), 0);
    free(p.text);
    lnt_ctx_destroy(ctx);
}

static void linnets_own_are_behind_the_same_calls(void **state)
{
    (void)state;
    const lnt_merge merges[] = { { 't', 'h' }, { 256, 'e' } };
    const char text[] = "the \xff\xc3\xa9";
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_tokenizer own;
    lnt_codec *c;
    assert_ok(ctx, lnt_tokenizer_open(ctx, LNT_TOKENS_BPE, merges, 2, &own));
    assert_ok(ctx, lnt_codec_open_own(ctx, &own, &c));
    lnt_tokenizer_close(ctx, &own);
    assert_string_equal(lnt_codec_kind_name(c), "bpe");
    assert_int_equal(lnt_codec_count(c), 258);
    assert_tokens(ctx, c, text, LNT_ENCODE_FRAMED, "257 32 255 195 169");
    const int32_t tokens[] = { 257, 32, 255, 195, 169 };
    assert_text(ctx, c, tokens, 5, true, "the \xef\xbf\xbd\xc3\xa9");
    lnt_codec_close(c);
    assert_ok(ctx, lnt_tokenizer_open(ctx, LNT_TOKENS_NONE, NULL, 0, &own));
    assert_refused(ctx, lnt_codec_open_own(ctx, &own, &c), LNT_ERR_ARGUMENT, "no text");
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_apply_by_rank_within_words),
        cmocka_unit_test(a_word_that_is_a_token_needs_no_merges_where_the_model_says_so),
        cmocka_unit_test(added_tokens_are_found_longest_first_and_frames_are_put_around),
        cmocka_unit_test(byte_level_text_comes_back_whatever_it_is),
        cmocka_unit_test(the_heap_merges_as_the_rule_says),
        cmocka_unit_test(a_long_word_takes_no_time_to_speak_of),
        cmocka_unit_test(sentencepiece_merges_the_best_score_and_falls_back_to_bytes),
        cmocka_unit_test(sentencepiece_merges_across_spaces_where_its_tokens_do),
        cmocka_unit_test(unigram_finds_the_most_likely_spelling),
        cmocka_unit_test(unigram_joins_what_is_unknown_or_spells_its_bytes),
        cmocka_unit_test(wordpiece_takes_the_longest_piece_each_time),
        cmocka_unit_test(pieces_are_whole_characters_and_make_the_whole_text),
        cmocka_unit_test(the_file_of_llama2c_is_read),
        cmocka_unit_test(a_directory_says_which_tokens_are_which),
        cmocka_unit_test(linnets_own_are_behind_the_same_calls),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
