/* test_tokenizer.c - text to tokens and back, and the sampler. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/sampler.h"
#include "model/tokenizer.h"
#include "support.h"

static void bytes_are_their_own_tokens(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_tokenizer t;
    int32_t tokens[8];
    assert_ok(ctx, lnt_tokenizer_open(ctx, LNT_TOKENS_BYTES, NULL, 0, &t));
    assert_int_equal(lnt_tokenizer_count(&t), 256);
    assert_int_equal(lnt_tokenizer_encode(&t, "a\xff z", 4, tokens), 4);
    assert_true(tokens[0] == 'a' && tokens[1] == 255 && tokens[2] == ' ' && tokens[3] == 'z');
    lnt_tokenizer_close(ctx, &t);
    lnt_ctx_destroy(ctx);
}

static void merges_apply_in_the_order_they_were_learned_and_spell_the_text_again(void **state)
{
    (void)state;
    const lnt_merge merges[] = { { 't', 'h' }, { 256, 'e' }, { ' ', 257 }, { 'h', 'e' } };
    const char text[] = "the the he \xc3\xa9 12 th";
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_tokenizer t, again;
    int32_t tokens[64];
    char spelled[64] = { 0 }, json[256] = { 0 };
    assert_ok(ctx, lnt_tokenizer_open(ctx, LNT_TOKENS_BPE, merges, 4, &t));
    const size_t n = lnt_tokenizer_encode(&t, text, strlen(text), tokens);
    assert_true(tokens[0] == 257 && tokens[1] == 258 && tokens[2] == ' ' && tokens[3] == 259);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        size_t bytes;
        const char *part = lnt_tokenizer_decode(&t, tokens[i], &bytes);
        memcpy(spelled + at, part, bytes);
        at += bytes;
    }
    assert_string_equal(spelled, text);
    lnt_tokenizer_write(&(lnt_json_text){ json, sizeof json - 1, 0 }, &t);
    assert_ok(ctx, lnt_tokenizer_read(ctx, "t", json, &again));
    assert_int_equal(again.kind, LNT_TOKENS_BPE);
    assert_memory_equal(again.merge, merges, sizeof merges);
    lnt_tokenizer_close(ctx, &t);
    lnt_tokenizer_close(ctx, &again);
    lnt_ctx_destroy(ctx);
}

static void a_broken_tokenizer_is_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_tokenizer t;
    static const char *const bad[] = { "{}", "[]", "{\"kind\":\"bpe\",\"merges\":[1]}",
                                       "{\"kind\":\"bpe\",\"merges\":[1,300]}",
                                       "{\"kind\":\"bpe\",\"merges\":[1,-1]}",
                                       "{\"kind\":\"words\",\"merges\":[]}",
                                       "{\"kind\":\"bpe\",\"merges\":[\"a\",\"b\"]}" };
    for (int i = 0; i < COUNT_OF(bad); i++)
        assert_refused(ctx, lnt_tokenizer_read(ctx, "t", bad[i], &t), LNT_ERR_FORMAT, "tokenizer");
    lnt_ctx_destroy(ctx);
}

static void words_end_where_they_should(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t length;
    } cases[] = { { "word next", 4 }, { " word next", 5 }, { "123a", 3 }, { "  a", 1 },
                  { " \n\n", 3 },     { "?!a", 2 },        { "", 0 },     { " 1", 1 } };
    for (int i = 0; i < COUNT_OF(cases); i++)
        assert_int_equal(lnt_tokenizer_word_length(cases[i].text, strlen(cases[i].text)),
                         cases[i].length);
}

static void draws_follow_the_probabilities_and_their_cuts(void **state)
{
    (void)state;
    const double p[4] = { 0.1, 0.4, 0.2, 0.3 };
    double logits[4];
    lnt_candidate scratch[4];
    for (int i = 0; i < 4; i++) logits[i] = log(p[i]) + 5;
    const lnt_sampling all = { .size = sizeof all, .temperature = 1, .top_p = 1 };
    const lnt_sampling two = { .size = sizeof two, .temperature = 1, .top_k = 2, .top_p = 1 };
    const lnt_sampling most = { .size = sizeof most, .temperature = 1, .top_p = 0.65 };
    const lnt_sampling best = { .size = sizeof best, .top_p = 1 };
    const lnt_sampling cold = { .size = sizeof cold, .temperature = 0.5, .top_p = 1 };
    int count[5][4] = { { 0 } };
    enum { DRAWS = 10000 };
    for (int i = 0; i < DRAWS; i++) {
        const double u = (i + 0.5) / DRAWS;
        count[0][lnt_sampler_draw(&all, logits, 4, u, scratch)]++;
        count[1][lnt_sampler_draw(&two, logits, 4, u, scratch)]++;
        count[2][lnt_sampler_draw(&most, logits, 4, u, scratch)]++;
        count[3][lnt_sampler_draw(&best, logits, 4, u, scratch)]++;
        count[4][lnt_sampler_draw(&cold, logits, 4, u, scratch)]++;
    }
    for (int i = 0; i < 4; i++) {
        assert_true(abs(count[0][i] - (int)(DRAWS * p[i])) <= 2);
        assert_true(abs(count[4][i] - (int)(DRAWS * p[i] * p[i] / 0.3)) <= 2);
    }
    for (int c = 1; c <= 2; c++)
        assert_true(count[c][0] == 0 && count[c][2] == 0 && abs(count[c][1] - DRAWS * 4 / 7) <= 2);
    assert_int_equal(count[3][1], DRAWS);
}

/* The cut among equals is by token, whatever qsort does. */
static void of_equally_likely_tokens_the_first_are_kept(void **state)
{
    (void)state;
    enum { COUNT = 50, KEPT = 3 };
    const double logits[COUNT] = { 0 };
    const lnt_sampling few = { .size = sizeof few, .temperature = 1, .top_k = KEPT, .top_p = 1 };
    const lnt_sampling part = { .size = sizeof part, .temperature = 1, .top_p = (KEPT - 0.5) / COUNT };
    lnt_candidate scratch[COUNT];
    for (int i = 0; i < 2 * KEPT; i++) {
        const double u = (i + 0.5) / (2 * KEPT);
        assert_int_equal(lnt_sampler_draw(&few, logits, COUNT, u, scratch), i / 2);
        assert_int_equal(lnt_sampler_draw(&part, logits, COUNT, u, scratch), i / 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_their_own_tokens),
        cmocka_unit_test(merges_apply_in_the_order_they_were_learned_and_spell_the_text_again),
        cmocka_unit_test(a_broken_tokenizer_is_refused),
        cmocka_unit_test(words_end_where_they_should),
        cmocka_unit_test(draws_follow_the_probabilities_and_their_cuts),
        cmocka_unit_test(of_equally_likely_tokens_the_first_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
