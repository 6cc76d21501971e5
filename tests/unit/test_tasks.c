/* test_tasks.c - what the tasks make of their data, and byte pairs. */
#include <math.h>

#include "io_support.h"
#include "task/bpe.h"
#include "task/mel.h"
#include "task/task.h"

enum { BATCH = 3, LENGTH = 40 };

typedef struct room {
    lnt_sample sample;
    int32_t tokens[BATCH * 1000], targets[BATCH * 1000];
    int64_t lengths[BATCH], labels[BATCH];
} room;

static lnt_use use = LNT_USE_TRAINING;

static lnt_status open_task(lnt_ctx *ctx, const char *name, const char *data,
                            void (*change)(lnt_config *, lnt_task_options *), lnt_task *task,
                            lnt_config *config, room *r)
{
    lnt_recipe recipe = lnt_recipe_default();
    *task = (lnt_task){ .ctx = ctx, .kind = lnt_task_find(name), .data = data, .use = use,
                        .rng = lnt_rng_make(4) };
    assert_non_null(task->kind);
    assert_ok(ctx, lnt_config_default(ctx, config));
    task->kind->recipe(config, &recipe, &task->options);
    config->length = LENGTH;
    if (change) change(config, &task->options);
    const lnt_status status = lnt_task_open(task, config);
    assert_true(config->length <= 1000);
    r->sample = (lnt_sample){ .batch = BATCH, .length = (size_t)config->length,
                              .tokens = r->tokens, .targets = r->targets, .lengths = r->lengths,
                              .labels = r->labels };
    return status;
}

static void ask_for_all(lnt_config *config, lnt_task_options *o)
{
    (void)config;
    o->whole = 1;
}

static void check_copy(lnt_ctx *ctx, bool whole)
{
    static room r;
    lnt_task task;
    lnt_config config;
    assert_ok(ctx, open_task(ctx, "copy", NULL, whole ? ask_for_all : NULL, &task, &config, &r));
    for (uint64_t index = 0; index < 50; index++) {
        task.kind->fill(&task, LNT_SPLIT_TRAIN, index, &r.sample);
        double asked_in_all = 0;
        for (int b = 0; b < BATCH; b++) {
            const int32_t *x = r.tokens + b * LENGTH, *y = r.targets + b * LENGTH;
            int word = 0;
            assert_int_equal(x[0], 0);
            while (x[1 + word]) word++;
            assert_true(word >= 1 && 2 * word + 1 <= LENGTH);
            assert_int_equal(r.sample.lengths[b], 2 * word + 1);
            for (int t = 0; t < LENGTH; t++) {
                const bool again = t > word && t <= 2 * word, asked = again || (whole && t <= word);
                assert_int_equal(y[t], again ? x[t - word] : asked ? x[t + 1] : -1);
                if (again && t + 1 < LENGTH && t < 2 * word) assert_int_equal(x[t + 1], y[t]);
                assert_true(x[t] >= 0 && x[t] < config.inputs);
                asked_in_all += asked;
            }
        }
        assert_true(r.sample.units == asked_in_all);
    }
    lnt_task_close(&task);
}

static void copy_asks_for_the_word_again(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    check_copy(ctx, false);
    check_copy(ctx, true);
    lnt_ctx_destroy(ctx);
}

static int64_t asked_length;
static void ask_length(lnt_config *config, lnt_task_options *o)
{
    (void)o;
    config->length = asked_length;
}

static void a_word_of_one_symbol_is_the_least_to_copy(void **state)
{
    (void)state;
    static room r;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_task task;
    lnt_config config;
    asked_length = 2;
    assert_refused(ctx, open_task(ctx, "copy", NULL, ask_length, &task, &config, &r), LNT_ERR_ARGUMENT,
                   "model.length is 2, must be at least 3");
    lnt_task_close(&task);
    asked_length = 3;
    assert_ok(ctx, open_task(ctx, "copy", NULL, ask_length, &task, &config, &r));
    task.kind->fill(&task, LNT_SPLIT_TRAIN, 0, &r.sample);
    assert_true(r.tokens[1] > 0 && r.targets[2] == r.tokens[1] && r.lengths[0] == 3);
    lnt_task_close(&task);
    lnt_ctx_destroy(ctx);
}

static void small_listops(lnt_config *config, lnt_task_options *o)
{
    (void)config;
    o->shortest = 20;
    o->longest = 200;
}

/* The value of the expression that begins at *at, by its definition. */
static int evaluate(const int32_t *words, int *at)
{
    int x[10], count = 0;
    const int32_t word = words[(*at)++];
    if (word < 10) return word;
    while (words[*at] != 14) x[count++] = evaluate(words, at);
    ++*at;
    for (int i = 0; i < count; i++) /* sorted */
        for (int j = i + 1; j < count; j++)
            if (x[j] < x[i]) {
                const int swap = x[i];
                x[i] = x[j];
                x[j] = swap;
            }
    int sum = 0;
    for (int i = 0; i < count; i++) sum += x[i];
    assert_true(count >= 2 && count <= 10);
    return word == 10 ? x[0] : word == 11 ? x[count - 1] : word == 13 ? sum % 10
           : count % 2 ? x[count / 2] : (x[count / 2 - 1] + x[count / 2]) / 2;
}

static void listops_have_the_value_they_are_said_to_have(void **state)
{
    (void)state;
    static room r;
    lnt_ctx *ctx = context_new(2, NULL);
    lnt_task task;
    lnt_config config;
    int seen[10] = { 0 };
    assert_ok(ctx, open_task(ctx, "listops", NULL, small_listops, &task, &config, &r));
    for (uint64_t index = 0; index < 40; index++) {
        task.kind->fill(&task, LNT_SPLIT_TRAIN, index, &r.sample);
        for (int b = 0; b < BATCH; b++) {
            int at = 0;
            assert_int_equal(evaluate(r.tokens + b * 200, &at), r.targets[b]);
            assert_int_equal(at, r.lengths[b]);
            assert_in_range(at, 20, 200);
            seen[r.targets[b]]++;
        }
    }
    for (int d = 0; d < 10; d++) assert_true(seen[d] > 0);
    lnt_task_close(&task);
    lnt_ctx_destroy(ctx);
}

static void impossible_listops(lnt_config *config, lnt_task_options *o)
{
    (void)config;
    o->shortest = 500;
    o->longest = 900;
    o->depth = 1;
}

static void listops_that_do_not_exist_are_refused(void **state)
{
    (void)state;
    static room r;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_task task;
    lnt_config config;
    assert_refused(ctx, open_task(ctx, "listops", NULL, impossible_listops, &task, &config, &r),
                   LNT_ERR_ARGUMENT, "no expression of 500 to 900 words and depth 1");
    lnt_task_close(&task);
    lnt_ctx_destroy(ctx);
}

static void halves(lnt_config *config, lnt_task_options *o)
{
    (void)config;
    o->held_out = 0.5;
}

static void text_is_cut_into_windows_and_its_end_is_held_out(void **state)
{
    (void)state;
    static room r;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_task task;
    lnt_config config;
    char text[400];
    for (int i = 0; i < 400; i++) text[i] = (char)(i < 200 ? 'a' + i % 25 : 'A' + i % 7);
    mkdir("texts", 0777);
    put_file("texts/a.txt", text, 400);
    put_file("texts/b.md", "not read", 8);
    assert_ok(ctx, open_task(ctx, "text", "texts", halves, &task, &config, &r));
    for (uint64_t index = 0; index < 20; index++) {
        task.kind->fill(&task, LNT_SPLIT_TRAIN, index, &r.sample);
        for (int i = 0; i < BATCH * LENGTH; i++) {
            assert_true(r.tokens[i] >= 'a');
            assert_int_equal(r.targets[i], 'a' + (r.tokens[i] - 'a' + 1) % 25);
        }
        assert_true(r.sample.units == BATCH * LENGTH);
    }
    assert_int_equal(task.test_examples, 5);
    int counted = 0, bytes = 0;
    for (uint64_t index = 0; index < 2; index++) {
        task.kind->fill(&task, LNT_SPLIT_TEST, index, &r.sample);
        bytes += (int)r.sample.units;
        for (int i = 0; i < BATCH * LENGTH; i++) {
            counted += r.targets[i] >= 0;
            if (r.targets[i] >= 0) assert_true(r.tokens[i] >= 'A' && r.tokens[i] < 'a');
        }
    }
    assert_true(config.inputs == 256 && config.outputs == 256);
    assert_true(counted == 199 && bytes == 199); /* every byte but the first, once */
    lnt_task_close(&task);
    assert_refused(ctx, open_task(ctx, "text", "nowhere.txt", NULL, &task, &config, &r),
                   LNT_ERR_FILE, "nowhere.txt");
    lnt_task_close(&task);
    assert_refused(ctx, open_task(ctx, "text", NULL, NULL, &task, &config, &r), LNT_ERR_ARGUMENT,
                   "task text needs data");
    lnt_task_close(&task);
    assert_refused(ctx, open_task(ctx, "copy", "x", NULL, &task, &config, &r), LNT_ERR_ARGUMENT,
                   "makes its own data");
    lnt_task_close(&task);
    remove("texts/a.txt");
    remove("texts/b.md");
    remove("texts");
    lnt_ctx_destroy(ctx);
}

static void byte_pairs_are_learned_by_how_often_they_come(void **state)
{
    (void)state;
    static const char text[] = "low low low low lower lower newest newest newest newest newest";
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_merge merge[64];
    size_t count;
    assert_ok(ctx, lnt_bpe_learn(ctx, text, sizeof text - 1, 3, merge, &count));
    assert_int_equal(count, 3);
    /* "es": 5; "lo" and "ow": 6 and "we": 7 (2 lower + 5 newest) come first */
    assert_true(merge[0].left == 'w' && merge[0].right == 'e');
    assert_true(merge[1].left == 'l' && merge[1].right == 'o');
    assert_ok(ctx, lnt_bpe_learn(ctx, text, sizeof text - 1, 64, merge, &count));
    assert_true(count < 64); /* once no pair comes twice it ends */
    assert_ok(ctx, lnt_bpe_learn(ctx, "", 0, 64, merge, &count));
    assert_int_equal(count, 0);
    lnt_ctx_destroy(ctx);
}

/* More pairs than there is room for at first; those that were counted by then stay counted. */
static void byte_pairs_are_counted_however_many_there_are(void **state)
{
    (void)state;
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    enum { LETTERS = 52, WORDS = 2 + LETTERS * LETTERS + 1 };
    static char text[3 * WORDS];
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_merge merge[8];
    size_t count, used = 0;
    for (int i = 0; i < WORDS; i++) {
        const int pair = i - 2;
        text[used++] = i < 2 ? 'z' : i == WORDS - 1 ? 'Q' : letters[pair / LETTERS];
        text[used++] = i < 2 ? 'q' : i == WORDS - 1 ? 'a' : letters[pair % LETTERS];
        text[used++] = '.';
    }
    assert_ok(ctx, lnt_bpe_learn(ctx, text, used, 8, merge, &count));
    assert_int_equal(count, 2); /* each of the others comes once */
    assert_true(merge[0].left == 'z' && merge[0].right == 'q');
    assert_true(merge[1].left == 'Q' && merge[1].right == 'a');
    lnt_ctx_destroy(ctx);
}

enum { RATE = 8000, SOUND = 1200, MEL_FRAMES = 13 };

static double mel(double frequency) { return 2595 * log10(1 + frequency / 700); }

/* The logarithm of what band b has of a frame, by the definition: 200 samples under a Hann window and
 * zeros up to 256; b's triangle falls to 0 at the middles of its neighbours. */
static double band_of(const float *frame, int b)
{
    const double turn = 6.283185307179586, step = mel(RATE / 2.0) / (LNT_MEL_BANDS + 1);
    double sum = 0;
    for (int i = 0; i <= 128; i++) {
        const double share = 1 - fabs(mel(i * RATE / 256.0) / step - (b + 1));
        double re = 0, im = 0;
        if (share <= 0) continue;
        for (int t = 0; t < 200; t++) {
            const double x = (double)frame[t] * (0.5 - 0.5 * cos(turn * t / 200));
            re += x * cos(turn * i * t / 256);
            im += x * sin(turn * i * t / 256);
        }
        sum += share * (re * re + im * im);
    }
    return log(sum + 1e-6);
}

/* Without each band's mean, and divided by one deviation for all. */
static void sound_becomes_the_logarithms_of_mel_bands(void **state)
{
    (void)state;
    static float samples[SOUND], features[MEL_FRAMES * LNT_MEL_BANDS];
    static double wanted[MEL_FRAMES][LNT_MEL_BANDS];
    double square = 0;
    dice d = { 12 };
    for (int i = 0; i < SOUND; i++) /* 300 Hz, then 2500 Hz, and noise */
        samples[i] = (float)(sin(6.283185307179586 * (i < SOUND / 2 ? 300 : 2500) * i / RATE) +
                             0.1 * dice_normal(&d));
    assert_int_equal(lnt_mel_frames(SOUND, RATE), MEL_FRAMES);
    lnt_mel_features(samples, SOUND, RATE, features);
    for (int b = 0; b < LNT_MEL_BANDS; b++) {
        double mean = 0;
        for (int t = 0; t < MEL_FRAMES; t++) mean += wanted[t][b] = band_of(samples + 80 * t, b);
        for (int t = 0; t < MEL_FRAMES; t++) {
            wanted[t][b] -= mean / MEL_FRAMES;
            square += wanted[t][b] * wanted[t][b];
        }
    }
    const double deviation = sqrt(square / (MEL_FRAMES * LNT_MEL_BANDS)) + 1e-3; /* of silence 0 */
    for (int i = 0; i < MEL_FRAMES * LNT_MEL_BANDS; i++) {
        const double off = features[i] - wanted[i / LNT_MEL_BANDS][i % LNT_MEL_BANDS] / deviation;
        assert_true(fabs(off) < 2e-5);
    }
}

static void put_wav(const char *path, int samples, int bits)
{
    unsigned char data[44 + 2 * 1600] = "RIFFxxxxWAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0"
                                        "\x02\0\x10\0" "data";
    data[34] = (unsigned char)bits;
    data[40] = (unsigned char)(2 * samples);
    data[41] = (unsigned char)(2 * samples >> 8);
    for (int i = 0; i < samples; i++) data[44 + 2 * i] = (unsigned char)(i * 37);
    put_file(path, data, 44 + 2 * (size_t)samples);
}

static void utterances_are_recordings_in_a_row(void **state)
{
    (void)state;
    static float features[BATCH * LENGTH * LNT_MEL_BANDS];
    static room r;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_task task;
    lnt_config config;
    char path[64];
    mkdir("recorded", 0777);
    remove("recorded/3_someone_9.wav"); /* a run that failed may have left these */
    remove("recorded/0_someone_3.wav");
    for (int digit = 0; digit < 10; digit++)
        for (int i = 4; i < 6; i++) {
            snprintf(path, sizeof path, "recorded/%d_someone_%d.wav", digit, i);
            put_wav(path, 800 + 80 * digit, 16); /* 8 frames and one more for each */
        }
    put_file("recorded/notes.txt", "x", 1);
    assert_ok(ctx, open_task(ctx, "speech", "recorded", NULL, &task, &config, &r));
    r.sample.features = features;
    assert_int_equal(config.inputs, LNT_MEL_BANDS);
    assert_int_equal(task.test_examples, 10 / 2); /* recordings, by the most in an utterance */
    for (int split = 0; split < 2; split++) {
        task.kind->fill(&task, (lnt_split)split, 0, &r.sample);
        for (int b = 0; b < BATCH; b++) {
            int64_t frames = 0;
            assert_in_range(r.labels[b], 1, 2);
            for (int64_t i = 0; i < r.labels[b]; i++) {
                assert_in_range(r.targets[b * LENGTH + i], 1, 10);
                frames += 8 + r.targets[b * LENGTH + i] - 1;
            }
            assert_int_equal(frames, r.lengths[b]);
        }
    }
    lnt_task_close(&task);
    put_wav("recorded/0_someone_3.wav", 800, 16); /* the eleventh is no utterance, in no batch */
    assert_ok(ctx, open_task(ctx, "speech", "recorded", NULL, &task, &config, &r));
    r.sample.features = features;
    assert_int_equal(task.test_examples, 11 / 2);
    task.kind->fill(&task, LNT_SPLIT_TEST, 1, &r.sample);
    assert_true(r.labels[1] == 2 && r.labels[2] == 0 && r.lengths[2] == 0 && r.sample.units == 4);
    lnt_task_close(&task);
    remove("recorded/0_someone_3.wav");
    asked_length = 20;
    assert_refused(ctx, open_task(ctx, "speech", "recorded", ask_length, &task, &config, &r),
                   LNT_ERR_FORMAT, "model.length is 20, must be at least ");
    lnt_task_close(&task);
    put_wav("recorded/3_someone_9.wav", 800, 8);
    assert_refused(ctx, open_task(ctx, "speech", "recorded", NULL, &task, &config, &r),
                   LNT_ERR_FORMAT, "must be 16-bit PCM");
    lnt_task_close(&task);
    put_wav("recorded/3_someone_9.wav", 0, 16);
    assert_refused(ctx, open_task(ctx, "speech", "recorded", NULL, &task, &config, &r),
                   LNT_ERR_FORMAT, "holds 0 bytes of sound");
    lnt_task_close(&task);
    put_wav("recorded/3_someone_9.wav", 800, 16);
    assert_int_equal(truncate("recorded/3_someone_9.wav", 500), 0);
    assert_refused(ctx, open_task(ctx, "speech", "recorded", NULL, &task, &config, &r),
                   LNT_ERR_FORMAT, "holds 456 bytes of sound, its header says 1600");
    lnt_task_close(&task);
    put_file("recorded/3_someone_9.wav", "RIFF", 4);
    assert_refused(ctx, open_task(ctx, "speech", "recorded", NULL, &task, &config, &r),
                   LNT_ERR_FORMAT, "is no .wav file");
    lnt_task_close(&task);
    use = LNT_USE_TESTS; /* that one is to train on: it is not read */
    assert_ok(ctx, open_task(ctx, "speech", "recorded", NULL, &task, &config, &r));
    assert_int_equal(task.test_examples, 10 / 2);
    lnt_task_close(&task);
    use = LNT_USE_TRAINING;
    assert_refused(ctx, open_task(ctx, "speech", "nowhere", NULL, &task, &config, &r), LNT_ERR_FILE,
                   "nowhere");
    lnt_task_close(&task);
    remove("recorded/3_someone_9.wav");
    for (int i = 5; i > 3; i--) { /* without those to train on, then without any */
        for (int digit = 0; digit < 10; digit++) {
            snprintf(path, sizeof path, "recorded/%d_someone_%d.wav", digit, i);
            remove(path);
        }
        assert_refused(ctx, open_task(ctx, "speech", "recorded", NULL, &task, &config, &r),
                       LNT_ERR_FORMAT, "has no recordings {digit}_{speaker}_{i}.wav both with i < 5 and");
        lnt_task_close(&task);
        use = LNT_USE_TESTS;
        const lnt_status status = open_task(ctx, "speech", "recorded", NULL, &task, &config, &r);
        if (i == 5) assert_ok(ctx, status);
        else assert_refused(ctx, status, LNT_ERR_FORMAT, ".wav with i < 5");
        lnt_task_close(&task);
        use = LNT_USE_TRAINING;
    }
    remove("recorded/notes.txt");
    remove("recorded");
    lnt_ctx_destroy(ctx);
}

/* Those to test on have 8 frames, those to train on 18. */
static void a_word_to_train_on_is_cut_where_it_is_the_first_and_left_out_where_not(void **state)
{
    (void)state;
    static float features[BATCH * LENGTH * LNT_MEL_BANDS];
    static room r;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_task task;
    lnt_config config;
    mkdir("uneven", 0777);
    put_wav("uneven/1_someone_0.wav", 800, 16);
    put_wav("uneven/1_someone_1.wav", 800, 16);
    put_wav("uneven/2_someone_5.wav", 1600, 16);
    for (int cut = 0; cut < 2; cut++) {
        asked_length = cut ? 16 : 20;
        assert_ok(ctx, open_task(ctx, "speech", "uneven", ask_length, &task, &config, &r));
        r.sample.features = features;
        for (uint64_t index = 0; index < 8; index++) {
            task.kind->fill(&task, LNT_SPLIT_TRAIN, index, &r.sample);
            for (int b = 0; b < BATCH; b++)
                assert_true(r.labels[b] == 1 && r.lengths[b] == (cut ? 16 : 18));
            assert_true(r.sample.units == BATCH);
        }
        lnt_task_close(&task);
    }
    remove("uneven/1_someone_0.wav");
    remove("uneven/1_someone_1.wav");
    remove("uneven/2_someone_5.wav");
    remove("uneven");
    lnt_ctx_destroy(ctx);
}

/* Four images of 2 x 2 to a split, whose last pixel and last label are given. */
static void put_idx(const char *folder, char pixel, char label)
{
    unsigned char images[16 + 16] = "\0\0\x08\x03\0\0\0\x04\0\0\0\x02\0\0\0\x02";
    unsigned char labels[8 + 4] = "\0\0\x08\x01\0\0\0\x04";
    static const char *const splits[] = { "train", "t10k" };
    char path[64];
    images[sizeof images - 1] = (unsigned char)pixel;
    labels[sizeof labels - 1] = (unsigned char)label;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s-images-idx3-ubyte", folder, splits[i]);
        put_file(path, images, sizeof images);
        snprintf(path, sizeof path, "%s/%s-labels-idx1-ubyte", folder, splits[i]);
        put_file(path, labels, sizeof labels);
    }
}

static uint64_t sum_of(lnt_ctx *ctx, const char *name, const char *data)
{
    static room r;
    lnt_task task;
    lnt_config config;
    assert_ok(ctx, open_task(ctx, name, data, NULL, &task, &config, &r));
    const uint64_t sum = task.data_checksum;
    lnt_task_close(&task);
    return sum;
}

/* All that the next test puts there, or that it left when it failed. */
static void drop_summed(const char *folder)
{
    static const char *const names[] = { "a.txt", "b.txt", "1_someone_0.wav", "1_someone_5.wav",
                                         "2_someone_5.wav", "train-images-idx3-ubyte",
                                         "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                         "t10k-labels-idx1-ubyte" };
    char path[64];
    for (int i = 0; i < COUNT_OF(names); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    remove(folder);
}

static void data_is_known_again_by_its_sum(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    char text[400];
    memset(text, 'x', sizeof text);
    drop_summed("moved");
    mkdir("summed", 0777);
    put_file("summed/a.txt", text, sizeof text);
    put_file("summed/b.txt", text, sizeof text);
    put_wav("summed/1_someone_0.wav", 800, 16);
    put_wav("summed/1_someone_5.wav", 800, 16);
    put_idx("summed", 1, 2);
    const uint64_t texts = sum_of(ctx, "text", "summed"), words = sum_of(ctx, "speech", "summed");
    const uint64_t images = sum_of(ctx, "mnist", "summed");
    assert_int_equal(rename("summed", "moved"), 0);
    assert_true(sum_of(ctx, "text", "moved") == texts && sum_of(ctx, "speech", "moved") == words &&
                sum_of(ctx, "mnist", "moved") == images &&
                sum_of(ctx, "mnist-class", "moved") == images);
    text[sizeof text - 1] = 'y'; /* held out */
    put_file("moved/b.txt", text, sizeof text);
    assert_true(sum_of(ctx, "text", "moved") != texts);
    put_wav("moved/1_someone_5.wav", 801, 16);
    assert_true(sum_of(ctx, "speech", "moved") != words);
    put_wav("moved/1_someone_5.wav", 800, 16);
    rename("moved/1_someone_5.wav", "moved/2_someone_5.wav");
    assert_true(sum_of(ctx, "speech", "moved") != words);
    put_idx("moved", 3, 2);
    assert_true(sum_of(ctx, "mnist", "moved") != images);
    put_idx("moved", 1, 3);
    assert_true(sum_of(ctx, "mnist", "moved") != images);
    drop_summed("moved");
    lnt_ctx_destroy(ctx);
}

static void images_are_all_of_one_size(void **state)
{
    (void)state;
    static const char small[] = "\0\0\x08\x03\0\0\0\x04\0\0\0\x01\0\0\0\x01" "abcd";
    static room r;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_task task;
    lnt_config config;
    mkdir("sizes", 0777);
    put_idx("sizes", 1, 2);
    put_file("sizes/t10k-images-idx3-ubyte", small, sizeof small - 1);
    assert_refused(ctx, open_task(ctx, "mnist", "sizes", NULL, &task, &config, &r), LNT_ERR_FORMAT,
                   "are 1 x 1, must be square, and as large as those to train on");
    lnt_task_close(&task);
    drop_summed("sizes");
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy_asks_for_the_word_again),
        cmocka_unit_test(a_word_of_one_symbol_is_the_least_to_copy),
        cmocka_unit_test(listops_have_the_value_they_are_said_to_have),
        cmocka_unit_test(listops_that_do_not_exist_are_refused),
        cmocka_unit_test(text_is_cut_into_windows_and_its_end_is_held_out),
        cmocka_unit_test(byte_pairs_are_learned_by_how_often_they_come),
        cmocka_unit_test(byte_pairs_are_counted_however_many_there_are),
        cmocka_unit_test(sound_becomes_the_logarithms_of_mel_bands),
        cmocka_unit_test(utterances_are_recordings_in_a_row),
        cmocka_unit_test(a_word_to_train_on_is_cut_where_it_is_the_first_and_left_out_where_not),
        cmocka_unit_test(data_is_known_again_by_its_sum),
        cmocka_unit_test(images_are_all_of_one_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
