/* test_scores.c - the losses of a batch: memory, bits, gradients, hits, and the edits of what is read. */
#include <math.h>
#include <stdlib.h>

#include "support.h"
#include "train/loss.h"

static lnt_arena open_room(lnt_ctx *ctx, const lnt_config *config, size_t batch, size_t length,
                           lnt_loss_scratch *out)
{
    lnt_arena counting = { 0 }, memory;
    lnt_loss_take_scratch(&counting, config, batch, length, out);
    assert_ok(ctx, lnt_arena_open(ctx, &counting, "the loss", &memory));
    lnt_loss_take_scratch(&memory, config, batch, length, out);
    return memory;
}

/* Beside what the network takes it is little, however long utterances are. */
static void the_loss_of_utterances_takes_memory_by_their_length(void **state)
{
    (void)state;
    const lnt_config config = { .output = LNT_OUTPUT_FRAMES, .outputs = 11 };
    lnt_loss_scratch r;
    for (size_t length = 1000; length <= 100000; length *= 10) {
        lnt_arena counting = { 0 };
        lnt_loss_take_scratch(&counting, &config, 1, length, &r);
        assert_in_range(counting.used, 8 * 44 * length, 1000 * length);
    }
}

/* Two words have no place in one frame; their bits would be none. */
static void utterances_with_too_few_frames_have_no_bits(void **state)
{
    (void)state;
    enum { FRAMES = 4, CLASSES = 11 };
    lnt_ctx *ctx = context_new(1, NULL);
    const lnt_config config = { .output = LNT_OUTPUT_FRAMES, .outputs = CLASSES };
    float logits[2 * FRAMES * CLASSES] = { 0 };
    int32_t targets[2 * FRAMES] = { 3, 5, 0, 0, 7 };
    int64_t lengths[] = { 1, FRAMES }, labels[] = { 2, 1 };
    const lnt_sample sample = { .batch = 2, .length = FRAMES, .lengths = lengths, .targets = targets,
                                .labels = labels };
    lnt_network net = { .ctx = ctx, .config = &config, .logits = logits };
    lnt_score score = { .units = 3 };
    lnt_loss_scratch r;
    lnt_arena memory = open_room(ctx, &config, 2, FRAMES, &r);
    lnt_loss(&net, &sample, false, 1, &r, &score);
    assert_true(score.targets == 1 && score.units == 1 && score.words == 3);
    /* any of 10 stretches of the 4 frames, each frame one of 11 */
    assert_true(fabs(score.loss - (4 * log(11) - log(10))) < 1e-9);
    score = (lnt_score){ .units = 2 };
    labels[0] = 1; /* one has */
    lnt_loss(&net, &sample, false, 1, &r, &score);
    assert_true(score.targets == 2 && score.units == 2);
    assert_true(fabs(score.loss - (5 * log(11) - log(10))) < 1e-9);
    lnt_arena_close(ctx, &memory);
    lnt_ctx_destroy(ctx);
}

/* What is behind the end of an utterance hears nothing of its loss. */
static void padding_has_no_gradient(void **state)
{
    (void)state;
    enum { FRAMES = 5, CLASSES = 4 };
    lnt_ctx *ctx = context_new(1, NULL);
    const lnt_config config = { .output = LNT_OUTPUT_FRAMES, .outputs = CLASSES };
    float logits[2 * FRAMES * CLASSES];
    int32_t targets[2 * FRAMES] = { 1, 2, 0, 0, 0, 3 };
    int64_t lengths[] = { 3, FRAMES }, labels[] = { 2, 1 };
    const lnt_sample sample = { .batch = 2, .length = FRAMES, .lengths = lengths, .targets = targets,
                                .labels = labels };
    lnt_network net = { .ctx = ctx, .config = &config, .logits = logits };
    lnt_score score = { .units = 3 };
    lnt_loss_scratch r;
    lnt_arena memory = open_room(ctx, &config, 2, FRAMES, &r);
    for (int i = 0; i < COUNT_OF(logits); i++) logits[i] = (float)(i % 7) / 4;
    lnt_loss(&net, &sample, true, 1, &r, &score);
    for (int i = 0; i < COUNT_OF(logits); i++) {
        const bool padding = i / CLASSES >= 3 && i / CLASSES < FRAMES;
        assert_true(padding ? logits[i] == 0 : logits[i] != 0);
    }
    lnt_arena_close(ctx, &memory);
    lnt_ctx_destroy(ctx);
}

/* Of 4 tokens one has no target, and two are the likeliest. */
static void tokens_are_hit_where_the_target_is_the_likeliest(void **state)
{
    (void)state;
    enum { TOKENS = 4, CLASSES = 3 };
    lnt_ctx *ctx = context_new(1, NULL);
    const lnt_config config = { .output = LNT_OUTPUT_TOKENS, .outputs = CLASSES };
    float logits[TOKENS * CLASSES] = { 2, 0, 0, 0, 2, 0, 0, 0, 2, 2, 0, 0 };
    int32_t targets[TOKENS] = { 0, 1, 0, -1 };
    const lnt_sample sample = { .batch = 1, .length = TOKENS, .targets = targets };
    lnt_network net = { .ctx = ctx, .config = &config, .logits = logits };
    lnt_score score = { 0 };
    lnt_loss_scratch r;
    lnt_arena memory = open_room(ctx, &config, 1, TOKENS, &r);
    lnt_loss(&net, &sample, false, 1, &r, &score);
    assert_true(score.hits == 2 && score.targets == 3);
    assert_true(fabs(score.loss - (3 * log(exp(2) + 2) - 4)) < 1e-5);
    lnt_arena_close(ctx, &memory);
    lnt_ctx_destroy(ctx);
}

/* The logits of `frames` frames that say these classes, a blank after each. */
static void say(const char *digits, size_t frames, size_t classes, float *logits)
{
    for (size_t t = 0; t < frames; t++) {
        const bool blank = t % 2 || !*digits;
        logits[t * classes + (blank ? 0 : (size_t)(*digits - '0'))] = 9;
        if (!blank) digits++;
    }
}

static void edits_are_the_fewest_that_make_what_was_read_what_was_said(void **state)
{
    (void)state;
    enum { FRAMES = 16, CLASSES = 10 };
    static const struct {
        const char *read, *said;
        double edits;
    } cases[] = { { "123345", "6233257", 3 }, { "6233257", "123345", 3 }, { "1234", "2341", 2 },
                  { "12", "21", 2 },          { "", "123", 3 },           { "12345", "3", 4 },
                  { "1234", "1934", 1 },      { "7", "7", 0 } };
    lnt_ctx *ctx = context_new(1, NULL);
    const lnt_config config = { .output = LNT_OUTPUT_FRAMES, .outputs = CLASSES };
    lnt_loss_scratch r;
    lnt_arena memory = open_room(ctx, &config, 1, FRAMES, &r);
    for (int i = 0; i < COUNT_OF(cases); i++) {
        float logits[FRAMES * CLASSES] = { 0 };
        int32_t targets[FRAMES] = { 0 };
        int64_t length = FRAMES, label = 0;
        say(cases[i].read, FRAMES, CLASSES, logits);
        for (; cases[i].said[label]; label++) targets[label] = cases[i].said[label] - '0';
        const lnt_sample sample = { .batch = 1, .length = FRAMES, .lengths = &length,
                                    .targets = targets, .labels = &label };
        lnt_network net = { .ctx = ctx, .config = &config, .logits = logits };
        lnt_score score = { 0 };
        lnt_loss(&net, &sample, false, 1, &r, &score);
        assert_true(score.edits == cases[i].edits && score.words == (double)label);
    }
    lnt_arena_close(ctx, &memory);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_of_utterances_takes_memory_by_their_length),
        cmocka_unit_test(utterances_with_too_few_frames_have_no_bits),
        cmocka_unit_test(padding_has_no_gradient),
        cmocka_unit_test(tokens_are_hit_where_the_target_is_the_likeliest),
        cmocka_unit_test(edits_are_the_fewest_that_make_what_was_read_what_was_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
