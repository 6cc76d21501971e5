/* test_lanes.c - a batch in lanes is the batch: its gradient and its score, whatever the model reads and
 * gives, with the same bits for any number of threads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "train/sample.h"
#include "train/trainer.h"

enum { BATCH = 18, WORDS = 20, BANDS = 6 };

static const char TOKENS[] = "{\"dim\":8,\"layers\":2,\"heads\":2,\"length\":230}";

/* What a model learns here: noise, in sequences of any length, but for pixels. */
static void fill(const lnt_task *task, lnt_split split, uint64_t index, lnt_sample *out)
{
    const lnt_config *c = task->own;
    dice d = { 1000 * (uint64_t)split + index + 7 };
    const size_t n = out->batch * out->length;
    const size_t targets = c->output == LNT_OUTPUT_CLASS ? out->batch : n;
    for (size_t i = 0; out->tokens && c->input == LNT_INPUT_TOKENS && i < n; i++)
        out->tokens[i] = (int32_t)dice_range(&d, 0, WORDS - 1);
    for (size_t i = 0; c->input == LNT_INPUT_FEATURES && i < n * BANDS; i++)
        out->features[i] = (float)dice_range(&d, -100, 100) / 50;
    for (size_t i = 0; i < targets; i++) /* -1: does not count */
        out->targets[i] = (int32_t)dice_range(&d, c->output == LNT_OUTPUT_FRAMES ? 1 : -1, WORDS - 1);
    for (size_t b = 0; b < out->batch; b++) {
        const int length = (int)out->length;
        out->lengths[b] = c->output == LNT_OUTPUT_LOGISTICS ? length : dice_range(&d, 0, length);
        out->labels[b] = dice_range(&d, 1, 5);
        for (int t = (int)out->lengths[b]; c->output == LNT_OUTPUT_TOKENS && t < length; t++)
            out->targets[b * out->length + (size_t)t] = -1;
    }
    out->units = 100;
}

/* The tenth sequence is longer than any may be. */
static void fill_too_long(const lnt_task *task, lnt_split split, uint64_t index, lnt_sample *out)
{
    fill(task, split, index, out);
    out->lengths[9] = (int64_t)out->length + 1;
}

/* All sequences alike. */
static void fill_alike(const lnt_task *task, lnt_split split, uint64_t index, lnt_sample *out)
{
    fill(task, split, index, out);
    for (size_t i = 0; i < out->batch * out->length; i++) out->tokens[i] = out->targets[i] = 1;
    for (size_t b = 0; b < out->batch; b++) out->lengths[b] = (int64_t)out->length;
}

static void close_nothing(lnt_task *task) { (void)task; }

static const lnt_task_kind noise = { .name = "noise", .fill = fill, .close = close_nothing };
static const lnt_task_kind faulty = { .name = "faulty", .fill = fill_too_long,
                                      .close = close_nothing };

static const lnt_task_kind alike = { .name = "alike", .fill = fill_alike, .close = close_nothing };

static lnt_config config_of(lnt_ctx *ctx, const char *text, lnt_model_input input,
                            lnt_model_output output)
{
    lnt_json json;
    lnt_config config;
    assert_ok(ctx, lnt_config_default(ctx, &config));
    assert_ok(ctx, lnt_json_parse(ctx, "test.json", NULL, text, strlen(text), &json));
    assert_ok(ctx, lnt_config_read(ctx, "test.json", json.root, &config));
    lnt_json_free(ctx, &json);
    config.input = (int)input;
    config.output = (int)output;
    config.inputs = input == LNT_INPUT_FEATURES ? BANDS : output == LNT_OUTPUT_LOGISTICS ? 257 : WORDS;
    config.outputs = output == LNT_OUTPUT_LOGISTICS ? 30 : WORDS;
    assert_ok(ctx, lnt_config_resolve(ctx, "test.json", &config));
    return config;
}

static lnt_trainer *start(lnt_ctx *ctx, const lnt_task_kind *kind, const lnt_config *config,
                          int64_t batch, int64_t accumulate, double rate)
{
    lnt_model *model;
    lnt_trainer *t;
    lnt_tokenizer none = { 0 };
    lnt_recipe recipe = lnt_recipe_default();
    recipe.batch = batch;
    recipe.accumulate = accumulate;
    recipe.rate = rate;
    assert_ok(ctx, lnt_model_make(ctx, config, kind->name, &none, 3, &model));
    lnt_task task = { .ctx = ctx, .kind = kind, .own = &model->config, .test_examples = 2 * BATCH };
    assert_ok(ctx, lnt_trainer_open(ctx, model, &task, &recipe, true, &t));
    return t;
}

static void assert_near(const char *what, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance * fmax(1, fabs(want))))
        fail_msg("%s is %.9g in lanes, %.9g as a whole", what, got, want);
}

/* One divided by the targets that count, of utterances by their number. */
static double weight_of(const lnt_config *config, const lnt_sample *s)
{
    int count = 0;
    if (config->output == LNT_OUTPUT_FRAMES) return 1.0 / BATCH;
    for (size_t i = 0; i < s->batch * (config->output == LNT_OUTPUT_CLASS ? 1 : s->length); i++)
        count += s->targets[i] != -1;
    return 1.0 / count;
}

/* The gradient of one step beside that of its batches, each through one network as a whole. */
static void check_step(lnt_ctx *ctx, const lnt_config *config, size_t lanes, const char *what)
{
    enum { ACCUMULATE = 2 };
    lnt_trainer *t = start(ctx, &noise, config, BATCH, ACCUMULATE, 1e-30);
    const size_t size = t->model->layout.size;
    lnt_step_report report = { .size = sizeof report };
    lnt_network net;
    lnt_loss_scratch room;
    lnt_score score = { 0 };
    int64_t tokens = 0;
    assert_int_equal(t->lanes.count, lanes);
    assert_ok(ctx, lnt_network_open(ctx, config, &t->model->layout, BATCH, (size_t)config->length,
                                    true, NULL, &net));
    lnt_arena counting = { 0 }, memory;
    lnt_loss_take_scratch(&counting, config, BATCH, (size_t)config->length, &room);
    assert_ok(ctx, lnt_arena_open(ctx, &counting, "a test", &memory));
    lnt_loss_take_scratch(&memory, config, BATCH, (size_t)config->length, &room);
    float *grads = calloc(size, sizeof *grads);
    assert_non_null(grads);
    for (uint64_t i = 0; i < ACCUMULATE; i++) {
        fill(&t->task, LNT_SPLIT_TRAIN, i, &t->sample);
        const lnt_batch in = lnt_sample_batch(&t->sample);
        const double weight = weight_of(config, &t->sample) / ACCUMULATE;
        assert_ok(ctx, lnt_network_forward(&net, t->model->weights, &in, true, lnt_rng_make(0)));
        lnt_loss(&net, &t->sample, true, weight, &room, &score);
        for (size_t b = 0; b < BATCH; b++) tokens += t->sample.lengths[b];
        assert_ok(ctx, lnt_network_backward(&net, t->model->weights, grads, &in, true, lnt_rng_make(0)));
    }
    assert_ok(ctx, lnt_trainer_step(t, &report));
    for (size_t i = 0; i < BATCH * (size_t)config->length; i++) t->sample.targets[i] = -1;
    if (config->output != LNT_OUTPUT_FRAMES)
        assert_true(lnt_loss_weight(config, &t->sample) == 0); /* where none counts */
    double square = 0, off = 0;
    for (size_t i = 0; i < size; i++) {
        const double want = (double)grads[i], less = (double)t->grads[i] - want;
        square += want * want;
        off += less * less;
    }
    if (!(square > 0 && off <= 1e-9 * square))
        fail_msg("%s: the gradient is off by %g of its length", what, sqrt(off / square));
    assert_near(what, report.gradient, sqrt(square), 1e-4);
    assert_near(what, report.loss, score.loss / score.targets, 1e-5);
    assert_int_equal(report.targets, (int64_t)score.targets);
    assert_int_equal(report.tokens, tokens);
    assert_near(what, report.bits, score.loss / (ACCUMULATE * 100) / log(2), 1e-5);
    if (config->output == LNT_OUTPUT_FRAMES)
        assert_near(what, report.error_rate, score.edits / score.words, 0);
    else if (config->output != LNT_OUTPUT_LOGISTICS)
        assert_near(what, report.accuracy, score.hits / score.targets, 0);
    free(grads);
    lnt_arena_close(ctx, &memory);
    lnt_network_close(&net);
    lnt_trainer_destroy(t);
}

static void lanes_have_the_gradient_and_score_of_the_batch(void **state)
{
    (void)state;
    static const struct {
        const char *what, *config;
        lnt_model_input input;
        lnt_model_output output;
        size_t lanes;
    } cases[] = {
        { "tokens", TOKENS, LNT_INPUT_TOKENS, LNT_OUTPUT_TOKENS, 16 },
        { "pixels", TOKENS, LNT_INPUT_TOKENS, LNT_OUTPUT_LOGISTICS, 16 },
        { "a class", "{\"kind\":\"encoder\",\"dim\":8,\"layers\":1,\"heads\":2,\"length\":300}",
          LNT_INPUT_TOKENS, LNT_OUTPUT_CLASS, 16 },
        { "frames", "{\"kind\":\"encoder\",\"dim\":8,\"layers\":1,\"heads\":2,\"length\":260,"
                    "\"embedding\":\"cnn\"}",
          LNT_INPUT_FEATURES, LNT_OUTPUT_FRAMES, 16 },
        { "long sequences", "{\"dim\":8,\"layers\":1,\"heads\":1,\"length\":600}", LNT_INPUT_TOKENS,
          LNT_OUTPUT_TOKENS, 16 },
        { "a single lane", "{\"dim\":8,\"layers\":2,\"heads\":2,\"length\":150}", LNT_INPUT_TOKENS,
          LNT_OUTPUT_TOKENS, 1 },
        { "moving averages", "{\"kind\":\"encoder\",\"dim\":8,\"layers\":1,\"heads\":1,\"length\":110,"
                             "\"averages\":2,\"distance_bias\":true}",
          LNT_INPUT_TOKENS, LNT_OUTPUT_CLASS, 1 },
        { "rotations", "{\"dim\":8,\"layers\":1,\"heads\":1,\"length\":150,\"position\":\"rotary\"}",
          LNT_INPUT_TOKENS, LNT_OUTPUT_TOKENS, 1 },
    };
    lnt_ctx *ctx = context_new(2, NULL);
    for (int i = 0; i < COUNT_OF(cases); i++) {
        const lnt_config c = config_of(ctx, cases[i].config, cases[i].input, cases[i].output);
        check_step(ctx, &c, cases[i].lanes, cases[i].what);
    }
    lnt_ctx_destroy(ctx);
}

static void any_number_of_workers_gives_the_same_bits(void **state)
{
    (void)state;
    static const int threads[] = { 1, 2, 5, 17 };
    lnt_trainer *first = NULL;
    lnt_ctx *contexts[COUNT_OF(threads)];
    lnt_step_report reports[COUNT_OF(threads)];
    lnt_score_report scores[COUNT_OF(threads)];
    for (int i = 0; i < COUNT_OF(threads); i++) {
        lnt_ctx *ctx = contexts[i] = context_new(threads[i], NULL);
        const lnt_config c = config_of(ctx, "{\"dim\":16,\"layers\":1,\"heads\":2,\"length\":230,"
                                            "\"dropout\":0.1,\"drop_path\":0.2,"
                                            "\"attention\":{\"mechanism\":\"taylor\","
                                            "\"normalize\":\"taylorshift\","
                                            "\"learned_temperature\":true}}",
                                       LNT_INPUT_TOKENS, LNT_OUTPUT_TOKENS);
        lnt_trainer *t = start(ctx, &noise, &c, BATCH, 1, 0.01);
        reports[i].size = sizeof reports[i];
        scores[i].size = sizeof scores[i];
        assert_int_equal(t->lanes.count, 16);
        assert_int_equal(t->lanes.workers, threads[i] < 16 ? threads[i] : 16);
        for (int step = 0; step < 2; step++) assert_ok(ctx, lnt_trainer_step(t, &reports[i]));
        assert_ok(ctx, lnt_trainer_evaluate(t, 0, &scores[i]));
        if (!first) first = t;
        assert_memory_equal(t->model->weights, first->model->weights,
                            t->model->layout.size * sizeof(float));
        assert_true(reports[i].loss == reports[0].loss && scores[i].loss == scores[0].loss);
        if (t != first) lnt_trainer_destroy(t);
    }
    lnt_trainer_destroy(first);
    for (int i = 0; i < COUNT_OF(threads); i++) lnt_ctx_destroy(contexts[i]);
}

/* Of the same sequences, what differs is what chance left out: another part in every slice. */
static void every_slice_drops_something_else(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    const lnt_config c = config_of(ctx, "{\"dim\":8,\"layers\":1,\"heads\":2,\"length\":128,"
                                        "\"dropout\":0.3}",
                                   LNT_INPUT_TOKENS, LNT_OUTPUT_TOKENS);
    lnt_trainer *t = start(ctx, &alike, &c, 2 * BATCH, 1, 0.01);
    lnt_step_report report = { .size = sizeof report };
    assert_ok(ctx, lnt_trainer_step(t, &report));
    for (size_t a = 0; a < t->lanes.count; a++)
        for (size_t b = 0; b < a; b++)
            assert_true(t->scores[a].loss / t->scores[a].targets !=
                        t->scores[b].loss / t->scores[b].targets);
    lnt_trainer_destroy(t);
    lnt_ctx_destroy(ctx);
}

/* How many lanes there are, and none where they would not pay. */
static void batches_are_cut_where_it_pays(void **state)
{
    (void)state;
    static const struct {
        int64_t batch, length;
        size_t count, slice;
    } cases[] = { { 1, 8192, 1, 1 },     { 15, 8192, 1, 15 },  { 16, 255, 1, 16 },
                  { 16, 256, 16, 1 },    { 31, 700, 16, 1 },   { 33, 512, 32, 1 },
                  { 64, 128, 16, 4 },    { 1000, 25, 48, 20 }, { 1000, 333, 64, 1 },
                  { 17, 250, 16, 2 } };
    lnt_ctx *ctx = context_new(2, NULL);
    for (int i = 0; i < COUNT_OF(cases); i++) {
        char text[100];
        snprintf(text, sizeof text, "{\"dim\":8,\"layers\":1,\"heads\":1,\"length\":%d}",
                 (int)cases[i].length);
        const lnt_config c = config_of(ctx, text, LNT_INPUT_TOKENS, LNT_OUTPUT_TOKENS);
        lnt_model *model;
        lnt_tokenizer none = { 0 };
        const size_t batch = (size_t)cases[i].batch;
        assert_ok(ctx, lnt_model_make(ctx, &c, "noise", &none, 3, &model));
        const lnt_lanes lanes = lnt_lanes_cut(model, batch);
        assert_int_equal(lanes.count, cases[i].count);
        assert_int_equal(lanes.slice, cases[i].slice);
        const size_t size = model->layout.size;
        model->layout.size = (1 << 20) + 1; /* sixteen such sums are too much to hold */
        assert_int_equal(lnt_lanes_cut(model, batch).count, 1);
        model->layout.size = size;
        lnt_model_destroy(model);
    }
    lnt_ctx_destroy(ctx);
}

static size_t cost(const lnt_example *order, size_t begin, size_t end)
{
    size_t sum = 0;
    for (size_t i = begin; i < end; i++) sum += order[i].length + order[0].length / 4 + 1;
    return sum;
}

/* Every sequence in one lane, and none that costs more than an even share and the sequence that it begins
 * with; of whole sequences as many in each. */
static void lanes_share_evenly_and_none_is_empty(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        dice d = { seed };
        lnt_example order[200];
        size_t begin[LNT_LANES_MOST + 1];
        const size_t count = (size_t)dice_range(&d, 1, LNT_LANES_MOST);
        const size_t batch = (size_t)dice_range(&d, (int)count, COUNT_OF(order));
        const int64_t least = seed % 4 ? dice_range(&d, 0, 999) : 999, power = dice_range(&d, 1, 6);
        int64_t lengths[COUNT_OF(order)];
        for (size_t b = 0; b < batch; b++) { /* the greater the power, the more are short */
            const double part = pow((double)dice_range(&d, 0, 1000) / 1000, (double)power);
            lengths[b] = least + (int64_t)((double)(999 - least) * part);
        }
        lnt_sample_order(&(lnt_sample){ .batch = batch, .length = 999, .lengths = lengths }, order);
        const lnt_lanes lanes = { .batch = batch, .count = count };
        lnt_lanes_share(&lanes, order, begin);
        assert_int_equal(begin[0], 0);
        assert_int_equal(begin[count], batch);
        const size_t total = cost(order, 0, batch);
        for (size_t lane = 0; lane < count; lane++) {
            const size_t from = begin[lane], to = begin[lane + 1];
            assert_true(from < to && to <= batch);
            if (to - from > 1)
                assert_true((cost(order, from, to) - cost(order, from, from + 1)) * count <= total);
            if (least == 999) assert_in_range(to - from, batch / count, (batch + count - 1) / count);
        }
    }
}

/* Slices seen so far, of sequences in an order. */
typedef struct seen {
    const lnt_example *order;
    size_t batch, enough, next, slices;
} seen;

static size_t padding(const lnt_example *order, size_t count)
{
    size_t sum = 0;
    for (size_t i = 0; i < count; i++) sum += order[0].length - order[i].length;
    return sum;
}

static void look_at_slice(const lnt_slice *s, void *arg)
{
    enum { ONE_IN = 16 };
    seen *n = arg;
    const lnt_example *order = n->order + s->first;
    const size_t longest = order[0].length;
    assert_int_equal(s->first, n->next);
    assert_int_equal(s->opens, s->first == 0);
    assert_in_range(s->count, 1, n->batch - s->first);
    if ((s->count - 1) * longest >= n->enough) /* one fewer was enough: then padding is little, */
        assert_true(padding(order, s->count) * ONE_IN <= s->count * longest);
    if (s->first + s->count < n->batch) /* and with one more there were too much */
        assert_true(s->count * longest >= n->enough &&
                    padding(order, s->count + 1) * ONE_IN > (s->count + 1) * longest);
    n->next += s->count;
    n->slices++;
}

static void a_single_lane_is_cut_where_sequences_grow_short(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        dice d = { seed };
        int64_t lengths[50];
        lnt_example order[COUNT_OF(lengths)];
        const size_t batch = (size_t)dice_range(&d, 1, COUNT_OF(lengths));
        const int64_t least = dice_range(&d, 0, 100);
        for (size_t b = 0; b < batch; b++) lengths[b] = dice_range(&d, least, 100);
        lnt_sample_order(&(lnt_sample){ .batch = batch, .length = 100, .lengths = lengths }, order);
        bool taken[COUNT_OF(lengths)] = { false };
        for (size_t b = 0; b < batch; b++) {
            assert_int_equal(order[b].length, lengths[order[b].index]);
            assert_false(taken[order[b].index]);
            taken[order[b].index] = true;
            if (b == 0 || order[b - 1].length > order[b].length) continue;
            assert_true(order[b - 1].length == order[b].length);
            assert_true(order[b - 1].index < order[b].index);
        }
        const lnt_lanes lanes = { .batch = batch, .count = 1, .slice = batch, .enough = 400,
                                  .workers = 1 };
        lnt_worker worker = { .status = LNT_OK };
        seen n = { .order = order, .batch = batch, .enough = lanes.enough };
        lnt_lanes_each(&lanes, order, &worker, look_at_slice, &n);
        assert_int_equal(n.next, batch);
        if (least == 100) assert_int_equal(n.slices, 1);
    }
}

/* Utterances may have more to say than they have frames. */
static void what_is_gathered_is_what_was_there(void **state)
{
    (void)state;
    enum { SEQUENCES = 5, ROOM = 7, NUMBERS = 3 };
    static const int64_t lengths[SEQUENCES] = { 2, 7, 0, 1, 2 }, labels[SEQUENCES] = { 3, 1, 0, 5, 2 };
    float features[SEQUENCES * ROOM * NUMBERS], got_features[SEQUENCES * ROOM * NUMBERS];
    int32_t tokens[SEQUENCES * ROOM], got_tokens[SEQUENCES * ROOM];
    int32_t targets[SEQUENCES * ROOM], got_targets[SEQUENCES * ROOM];
    int64_t got_lengths[SEQUENCES], got_labels[SEQUENCES];
    for (int i = 0; i < SEQUENCES * ROOM; i++) tokens[i] = i, targets[i] = 100 + i;
    for (int i = 0; i < SEQUENCES * ROOM * NUMBERS; i++) features[i] = (float)i;
    const lnt_sample all = { .batch = SEQUENCES, .length = ROOM, .tokens = tokens, .features = features,
                             .lengths = (int64_t *)(uintptr_t)lengths, .targets = targets,
                             .labels = (int64_t *)(uintptr_t)labels };
    lnt_sample out = { .tokens = got_tokens, .features = got_features, .lengths = got_lengths,
                       .targets = got_targets, .labels = got_labels };
    lnt_example order[SEQUENCES];
    lnt_sample_order(&all, order);
    for (int kind = 0; kind < 3; kind++)
        for (size_t first = 0; first < SEQUENCES; first++)
            for (size_t count = 1; first + count <= SEQUENCES; count++) {
                const bool class = kind == 0, frames = kind == 1;
                const lnt_config c = {
                    .inputs = NUMBERS,
                    .input = frames ? LNT_INPUT_FEATURES : LNT_INPUT_TOKENS,
                    .output = class ? LNT_OUTPUT_CLASS : frames ? LNT_OUTPUT_FRAMES : LNT_OUTPUT_TOKENS
                };
                size_t row = 1;
                for (size_t i = first; i < first + count; i++) {
                    const int64_t l = lengths[order[i].index], m = labels[order[i].index];
                    if ((size_t)l > row) row = (size_t)l;
                    if (frames && (size_t)m > row) row = (size_t)m;
                }
                lnt_sample_gather(&all, &c, order + first, count, &out);
                assert_int_equal(out.batch, count);
                assert_int_equal(out.length, row);
                for (size_t i = 0; i < count; i++) {
                    const size_t b = order[first + i].index;
                    assert_int_equal(out.lengths[i], lengths[b]);
                    assert_int_equal(out.labels[i], labels[b]);
                    if (class) assert_int_equal(got_targets[i], targets[b]);
                    for (size_t t = 0; t < row; t++) {
                        if (!class) assert_int_equal(got_targets[i * row + t], targets[b * ROOM + t]);
                        if (!frames) assert_int_equal(got_tokens[i * row + t], tokens[b * ROOM + t]);
                        for (size_t x = 0; frames && x < NUMBERS; x++)
                            assert_true(got_features[(i * row + t) * NUMBERS + x] ==
                                        features[(b * ROOM + t) * NUMBERS + x]);
                    }
                }
            }
}

static void a_lane_that_fails_says_why(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        lnt_ctx *ctx = context_new(threads, NULL);
        const lnt_config c = config_of(ctx, TOKENS, LNT_INPUT_TOKENS, LNT_OUTPUT_TOKENS);
        lnt_trainer *t = start(ctx, &faulty, &c, BATCH, 1, 0.01);
        lnt_step_report report = { .size = sizeof report };
        assert_refused(ctx, lnt_trainer_step(t, &report), LNT_ERR_ARGUMENT, "is 231, must be 0 to 230");
        t->task.kind = &noise; /* and the next may succeed */
        assert_ok(ctx, lnt_trainer_step(t, &report));
        lnt_trainer_destroy(t);
        lnt_ctx_destroy(ctx);
    }
}

static void no_allocation_of_a_worker_fails_without_a_trace(void **state)
{
    (void)state;
    lnt_status status = LNT_ERR_MEMORY;
    for (int64_t fail_at = 0; status; fail_at++) {
        tracker track;
        lnt_ctx *ctx = context_tracked(&track, 2, NULL);
        const lnt_config c = config_of(ctx, TOKENS, LNT_INPUT_TOKENS, LNT_OUTPUT_TOKENS);
        const lnt_recipe recipe = { .batch = BATCH };
        lnt_tokenizer none = { 0 };
        lnt_model *model;
        lnt_trainer *t = NULL;
        assert_ok(ctx, lnt_model_make(ctx, &c, "noise", &none, 3, &model));
        lnt_task task = { .ctx = ctx, .kind = &noise, .own = &model->config };
        track.fail_at = track.calls + fail_at;
        status = lnt_trainer_open(ctx, model, &task, &recipe, true, &t);
        track.fail_at = -1;
        if (status) {
            assert_int_equal(status, LNT_ERR_MEMORY);
            assert_non_null(strstr(lnt_ctx_error(ctx), "memory"));
            lnt_model_destroy(model);
        }
        lnt_trainer_destroy(t);
        context_close_tracked(ctx, &track);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_have_the_gradient_and_score_of_the_batch),
        cmocka_unit_test(any_number_of_workers_gives_the_same_bits),
        cmocka_unit_test(every_slice_drops_something_else),
        cmocka_unit_test(batches_are_cut_where_it_pays),
        cmocka_unit_test(lanes_share_evenly_and_none_is_empty),
        cmocka_unit_test(a_single_lane_is_cut_where_sequences_grow_short),
        cmocka_unit_test(what_is_gathered_is_what_was_there),
        cmocka_unit_test(a_lane_that_fails_says_why),
        cmocka_unit_test(no_allocation_of_a_worker_fails_without_a_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
