/* test_network.c - whole networks in double: every gradient against differences, and what a config
 * may say. */
#define LNT_DOUBLE 1

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gradient.h"
#include "model/network.h"
#include "nn/cross_entropy.h"
#include "support.h"

enum { B = 2, N = 6, V = 7, F = 5 };

typedef struct fixture {
    lnt_ctx *ctx;
    lnt_config config;
    lnt_layout layout;
    lnt_network net;
    lnt_batch in;
    double *weights, *grads, *features;
    int32_t tokens[B * N], targets[B * N];
    bool training;
    uint64_t seed; /* of what is dropped */
} fixture;

static lnt_status parse_config(lnt_ctx *ctx, const char *text, lnt_config *config)
{
    lnt_json json;
    assert_ok(ctx, lnt_config_default(ctx, config));
    config->inputs = config->outputs = V;
    lnt_status status = lnt_json_parse(ctx, "test.json", NULL, text, strlen(text), &json);
    if (!status) status = lnt_config_read(ctx, "test.json", json.root, config);
    lnt_json_free(ctx, &json);
    return status;
}

static lnt_status read_config(lnt_ctx *ctx, const char *text, lnt_config *config)
{
    const lnt_status status = parse_config(ctx, text, config);
    return status ? status : lnt_config_resolve(ctx, "test.json", config);
}

static void open_fixture(fixture *f, const char *config)
{
    dice d = { 17 };
    memset(f, 0, sizeof *f);
    f->ctx = context_new(2, NULL);
    f->seed = 5;
    assert_ok(f->ctx, read_config(f->ctx, config, &f->config));
    assert_ok(f->ctx, lnt_layout_open(f->ctx, &f->config, &f->layout));
    assert_ok(f->ctx,
              lnt_network_open(f->ctx, &f->config, &f->layout, B, N, true, NULL, &f->net));
    float *begin = calloc(f->layout.size, sizeof *begin);
    assert_non_null(begin);
    lnt_layout_init(&f->layout, 3, begin);
    f->weights = random_doubles(&d, f->layout.size, 0.1); /* biases and gains are moved as well */
    f->grads = zero_doubles(f->layout.size);
    f->features = random_doubles(&d, B * N * F, 1);
    for (size_t i = 0; i < f->layout.size; i++) f->weights[i] += (double)begin[i];
    free(begin);
    for (int i = 0; i < B * N; i++) {
        f->tokens[i] = (int32_t)dice_range(&d, 0, V - 1);
        f->targets[i] = (int32_t)dice_range(&d, 0, V - 1);
    }
    f->in = (lnt_batch){ .batch = B, .length = N, .tokens = f->tokens };
    if (f->config.input == LNT_INPUT_FEATURES) f->in.features = f->features;
}

static void close_fixture(fixture *f)
{
    free(f->weights);
    free(f->grads);
    free(f->features);
    lnt_network_close(&f->net);
    lnt_layout_close(f->ctx, &f->layout);
    lnt_ctx_destroy(f->ctx);
}

static double run(fixture *f, bool gradient)
{
    double losses[B * N], sum = 0;
    const size_t rows = lnt_network_rows(&f->net, &f->in);
    const lnt_rng rng = lnt_rng_make(f->seed);
    assert_ok(f->ctx, lnt_network_forward(&f->net, f->weights, &f->in, f->training, rng));
    lnt_cross_entropy(f->ctx, f->net.logits, f->targets, losses, NULL,
                      gradient ? f->net.logits : NULL, 1, rows, V);
    for (size_t i = 0; i < rows; i++) sum += losses[i];
    if (gradient)
        assert_ok(f->ctx, lnt_network_backward(&f->net, f->weights, f->grads, &f->in, f->training,
                                               rng));
    return sum;
}

static double loss(void *user) { return run(user, false); }

static void check(fixture *f, const char *what)
{
    slope slopes[256];
    int count = 0;
    run(f, true);
    for (size_t i = 0; i < f->layout.entry_count; i++) {
        const lnt_layout_entry *e = &f->layout.entries[i];
        if (e->count)
            slopes[count++] = (slope){ e->name, f->weights + e->offset, f->grads + e->offset,
                                       e->count };
    }
    check_slopes(what, loss, f, slopes, count, 1e-6);
}

static void decoders_have_the_right_gradients(void **state)
{
    (void)state;
    static const char *const configs[] = {
        "{\"dim\":8,\"layers\":2,\"heads\":2,\"length\":6}",
        "{\"dim\":8,\"layers\":2,\"heads\":4,\"kv_heads\":2,\"position\":\"rotary\",\"tied\":true,"
        "\"norm\":\"rms\",\"activation\":\"swiglu\",\"ff\":12,"
        "\"attention\":{\"mechanism\":\"taylor\",\"terms\":3}}",
        "{\"dim\":8,\"layers\":2,\"heads\":2,\"position\":\"sinusoidal\",\"norm_place\":\"post\","
        "\"attention\":{\"mechanism\":\"linear\"}}",
        "{\"dim\":16,\"layers\":2,\"heads\":2,\"position\":\"rotary\",\"rotary\":{\"base\":100,"
        "\"dims\":6,\"pairs\":\"halves\","
        "\"scaling\":\"yarn\",\"factor\":3,\"original_length\":50,\"beta_fast\":4}}",
        "{\"dim\":8,\"layers\":2,\"heads\":2,\"position\":\"rotary\",\"qk_norm\":true,\"norm\":\"rms\","
        "\"norm_place\":\"both\","
        "\"embedding_scale\":2.5,\"logit_cap\":1.5,\"tied\":true}",
        "{\"dim\":8,\"layers\":2,\"heads\":2,\"length\":6,\"embedding_norm\":true,\"parallel\":true,"
        "\"embedding_scale\":0.5,"
        "\"logit_cap\":0.7}",
        "{\"dim\":8,\"layers\":2,\"heads\":2,\"bias\":[\"qkv\",\"feed\"],\"epsilon\":0.01,\"tied\":true,"
        "\"activation\":\"geglu\"}",
        "{\"dim\":8,\"layers\":1,\"heads\":2,\"attention\":{\"mechanism\":\"taylor\",\"terms\":3,"
        "\"normalize\":\"taylorshift\",\"learned_temperature\":true,\"output_norm\":true}}",
    };
    for (int i = 0; i < COUNT_OF(configs); i++) {
        fixture f;
        open_fixture(&f, configs[i]);
        check(&f, configs[i]);
        close_fixture(&f);
    }
}

static void classifiers_have_the_right_gradients(void **state)
{
    (void)state;
    const int64_t lengths[B] = { 4, N };
    fixture f;
    open_fixture(&f, "{\"kind\":\"encoder\",\"output\":\"class\",\"dim\":8,\"layers\":2,\"heads\":2,"
                     "\"embedding\":\"cnn\",\"length\":6}");
    check(&f, "classifier");
    f.in.lengths = lengths;
    memset(f.grads, 0, f.layout.size * sizeof *f.grads);
    check(&f, "classifier, padded");
    close_fixture(&f);
    open_fixture(&f, "{\"kind\":\"encoder\",\"output\":\"class\",\"dim\":8,\"layers\":2,\"heads\":2,"
                     "\"length\":6,\"dropout\":0.2,\"drop_path\":0.2,\"position\":\"rotary\"}");
    f.in.lengths = lengths;
    f.training = true;
    check(&f, "classifier, padded, with dropout");
    close_fixture(&f);
    open_fixture(&f, "{\"kind\":\"encoder\",\"output\":\"class\",\"dim\":8,\"layers\":2,\"heads\":2,"
                     "\"length\":6,\"averages\":2,\"position\":\"none\"}");
    check(&f, "classifier with moving averages");
    close_fixture(&f);
    open_fixture(&f, "{\"kind\":\"encoder\",\"output\":\"class\",\"dim\":8,\"layers\":2,\"heads\":2,"
                     "\"length\":6,\"averages\":2,\"dropout\":0.2,\"drop_path\":0.2}");
    f.training = true;
    check(&f, "classifier with moving averages and dropout");
    close_fixture(&f);
}

#define MEGA "{\"kind\":\"encoder\",\"output\":\"class\",\"dim\":8,\"layers\":2,\"heads\":2," \
             "\"length\":6,\"averages\":2,\"position\":\"none\","

static void mega_is_a_configuration_and_so_is_mega_over_cur(void **state)
{
    (void)state;
    static const char *const configs[] = {
        MEGA "\"distance_bias\":true}",
        MEGA "\"distance_bias\":true,\"attention\":{\"activation\":\"laplace\"}}",
        MEGA "\"attention\":{\"mechanism\":\"cur\",\"landmarks\":3}}",
        MEGA "\"attention\":{\"mechanism\":\"cur\",\"landmarks\":3,\"activation\":\"laplace\"}}",
    };
    const int64_t lengths[B] = { 4, N };
    for (int i = 0; i < COUNT_OF(configs); i++) {
        fixture f;
        open_fixture(&f, configs[i]);
        f.in.lengths = lengths;
        check(&f, configs[i]);
        close_fixture(&f);
    }
}

/* Of how many seeds a layer learns nothing, since its branch is dropped in both sequences. */
static int idle(const char *config, const char *layer)
{
    enum { SEEDS = 20 };
    fixture f;
    int count = 0;
    open_fixture(&f, config);
    f.training = true;
    for (f.seed = 0; f.seed < SEEDS; f.seed++) {
        double most = -1;
        memset(f.grads, 0, f.layout.size * sizeof *f.grads);
        run(&f, true);
        for (size_t i = 0; i < f.layout.entry_count; i++) {
            const lnt_layout_entry *e = &f.layout.entries[i];
            for (size_t j = 0; !strcmp(e->name, layer) && j < e->count; j++)
                most = fmax(most, fabs(f.grads[e->offset + j]));
        }
        assert_true(most >= 0);
        count += most == 0;
    }
    close_fixture(&f);
    return count;
}

static void both_branches_of_every_block_are_dropped(void **state)
{
    (void)state;
#define CLASSIFIER "{\"kind\":\"encoder\",\"output\":\"class\",\"dim\":8,\"layers\":1,\"heads\":2,"
    static const char *const configs[][2] = {
        { CLASSIFIER "\"length\":6", "blocks.0.qkv.weight" },
        { CLASSIFIER "\"length\":6,\"norm_place\":\"post\"", "blocks.0.qkv.weight" },
        { CLASSIFIER "\"length\":6,\"averages\":2", "blocks.0.value.weight" },
    };
#undef CLASSIFIER
    for (int i = 0; i < COUNT_OF(configs); i++) {
        char never[160], often[160];
        snprintf(never, sizeof never, "%s}", configs[i][0]);
        snprintf(often, sizeof often, "%s,\"drop_path\":0.95}", configs[i][0]);
        assert_int_equal(idle(never, configs[i][1]), 0);
        assert_int_equal(idle(never, "blocks.0.up.weight"), 0);
        assert_in_range(idle(often, configs[i][1]), 12, 20); /* 18 of 20 */
        assert_in_range(idle(often, "blocks.0.up.weight"), 12, 20);
    }
}

/* With as many landmarks as tokens CUR is exact: both roads take the scores by 1 / length. */
static void mega_over_all_landmarks_is_mega_with_laplace(void **state)
{
    (void)state;
    fixture cur, full;
    open_fixture(&cur, MEGA "\"attention\":{\"mechanism\":\"cur\",\"landmarks\":6,"
                            "\"activation\":\"laplace\"}}");
    open_fixture(&full, MEGA "\"attention\":{\"activation\":\"laplace\"}}");
    assert_int_equal(cur.layout.size, full.layout.size);
    memcpy(full.weights, cur.weights, cur.layout.size * sizeof *cur.weights);
    assert_true(lnt_config_attention(&full.config, 0).scale == 1.0 / 6);
    assert_true(fabs(run(&cur, false) - run(&full, false)) < 1e-9);
    close_fixture(&cur);
    close_fixture(&full);
}

static void a_network_over_features_has_the_right_gradients(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, "{\"kind\":\"encoder\",\"input\":\"features\",\"output\":\"frames\",\"dim\":8,"
                     "\"layers\":1,\"heads\":2,\"inputs\":5,\"position\":\"sinusoidal\"}");
    check(&f, "frames");
    close_fixture(&f);
}

#define IMAGES "{\"kind\":\"encoder\",\"input\":\"features\",\"layers\":1,\"inputs\":4,\"dim\":7," \
               "\"heads\":1,\"image\":4,\"patch\":2,\"channels\":1,\"pooling\":\"first\","

static void networks_of_images_have_the_right_gradients(void **state)
{
    (void)state;
    static const char *const configs[] = {
        IMAGES "\"output\":\"class\",\"class_tokens\":2,\"length\":6}",
        IMAGES "\"output\":\"class\",\"class_tokens\":2,\"length\":6,\"distilled\":true}",
        IMAGES "\"output\":\"class\",\"class_tokens\":1,\"length\":5,\"pooler\":true}",
        IMAGES "\"output\":\"vector\",\"class_tokens\":1,\"length\":5,"
               "\"pooler\":true,\"normalise\":true}",
        IMAGES "\"output\":\"class\",\"length\":4}",
    };
    for (int i = 0; i < COUNT_OF(configs); i++) {
        fixture f;
        open_fixture(&f, configs[i]);
        f.in.length = (size_t)f.config.length;
        check(&f, configs[i]);
        close_fixture(&f);
    }
}

#define VECTOR "{\"kind\":\"encoder\",\"output\":\"vector\",\"dim\":7,\"layers\":2,\"heads\":1,\"length\":6"

static void vectors_have_the_right_gradients(void **state)
{
    (void)state;
    const int64_t lengths[B] = { 4, N };
    static const char *const configs[] = {
        VECTOR "}",
        VECTOR ",\"pooling\":\"first\",\"normalise\":true}",
        VECTOR ",\"pooling\":\"last\",\"norm_place\":\"post\",\"embedding_norm\":true}",
        VECTOR ",\"pooling\":\"none\",\"normalise\":true}",
        "{\"output\":\"vector\",\"dim\":7,\"layers\":2,\"heads\":1,\"length\":6,\"pooling\":\"last\","
        "\"normalise\":true}",
        "{\"kind\":\"encoder\",\"output\":\"class\",\"dim\":8,\"layers\":1,\"heads\":2,"
        "\"pooling\":\"first\"}",
    };
    for (int i = 0; i < COUNT_OF(configs); i++)
        for (int padded = 0; padded < 2; padded++) {
            fixture f;
            open_fixture(&f, configs[i]);
            f.in.lengths = padded ? lengths : NULL;
            check(&f, configs[i]);
            close_fixture(&f);
        }
}

/* Pooled are the rows that are given without pooling. */
static void vectors_are_the_mean_the_first_or_the_last_token(void **state)
{
    (void)state;
    enum { D = 7 };
    static const char *const poolings[] = { "mean", "first", "last" };
    const int64_t lengths[B] = { 4, N };
    fixture all;
    open_fixture(&all, VECTOR ",\"pooling\":\"none\"}");
    all.in.lengths = lengths;
    assert_int_equal(lnt_network_rows(&all.net, &all.in), B * N);
    run(&all, false);
    for (int p = 0; p < 6; p++) {
        char text[200];
        fixture f;
        snprintf(text, sizeof text, VECTOR ",\"pooling\":\"%s\",\"normalise\":%s}", poolings[p % 3],
                 p < 3 ? "false" : "true");
        open_fixture(&f, text);
        f.in.lengths = lengths;
        assert_int_equal(lnt_network_rows(&f.net, &f.in), B);
        memcpy(f.weights, all.weights, all.layout.size * sizeof *all.weights);
        run(&f, false);
        for (int b = 0; b < B; b++) {
            const int first = p % 3 == 2 ? (int)lengths[b] - 1 : 0, end = p % 3 == 1 ? 1 : (int)lengths[b];
            double want[D] = { 0 }, square = 0;
            for (int t = first; t < end; t++)
                for (int c = 0; c < D; c++) want[c] += all.net.logits[(b * N + t) * D + c] / (end - first);
            for (int c = 0; c < D; c++) square += want[c] * want[c];
            for (int c = 0; c < D; c++)
                assert_true(fabs(f.net.logits[b * D + c] - want[c] / (p < 3 ? 1 : sqrt(square))) < 1e-12);
        }
        close_fixture(&f);
    }
    close_fixture(&all);
}

/* Layer 0 has the model's attention, 1 and 3 a kind, 2 another. */
static const char *const kinds =
    "{\"dim\":8,\"layers\":4,\"heads\":2,\"length\":6,\"position\":\"rotary\",\"rotary\":{\"base\":50},"
    "\"attention\":{\"scale\":0.4},\"kinds\":["
    "{\"every\":2,\"offset\":1,\"attention\":{\"mechanism\":\"linear\",\"decay\":[0.9]},"
    "\"rotary\":{\"off\":true}},"
    "{\"layers\":[2],\"attention\":{\"mechanism\":\"taylor\",\"terms\":3,\"learned_temperature\":true},"
    "\"rotary\":{\"base\":9,\"pairs\":\"halves\"}}]}";

static void layers_that_differ_in_attention_have_the_right_gradients(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, kinds);
    assert_int_equal(lnt_network_kind(&f.net, 0) - f.net.kinds, 0);
    assert_int_equal(lnt_network_kind(&f.net, 1) - f.net.kinds, 1);
    assert_int_equal(lnt_network_kind(&f.net, 2) - f.net.kinds, 2);
    assert_int_equal(lnt_network_kind(&f.net, 3) - f.net.kinds, 1);
    assert_int_equal(f.layout.entries[lnt_layout_block(2, LNT_BLOCK_TEMPERATURE)].count, 2);
    assert_int_equal(f.layout.entries[lnt_layout_block(1, LNT_BLOCK_TEMPERATURE)].count, 0);
    check(&f, "kinds");
    close_fixture(&f);
}

/* What a kind does not say it has from the model, unless its mechanism does not take it. */
static void kinds_of_attention_read_back_as_they_were_written(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_config config, again;
    char first[LNT_CONFIG_TEXT] = { 0 }, second[LNT_CONFIG_TEXT] = { 0 };
    assert_ok(ctx, read_config(ctx, kinds, &config));
    assert_int_equal(config.kinds[0].attention.mechanism, LNT_LINEAR);
    assert_true(isnan(lnt_config_attention(&config, 1).scale));
    assert_true(lnt_config_attention(&config, 2).scale == 0.4);
    assert_true(lnt_config_attention(&config, 1).decay == config.kinds[0].decay);
    assert_true(config.kinds[0].rotary.base == 50 && config.kinds[1].rotary.base == 9);
    assert_false(lnt_config_block(&config, 1).rotary);
    assert_ok(ctx, lnt_config_check_applies(ctx, "test.json", &config));
    lnt_config_write(&(lnt_json_text){ first, sizeof first - 1, 0 }, &config);
    assert_non_null(strstr(first, ",\"kinds\":[{\"every\":2,\"offset\":1,"
                                  "\"attention\":{\"mechanism\":\"linear\","
                                  "\"decay\":[0.9,0.9]},\"rotary\":{\"off\":true}},{\"layers\":[2],"));
    assert_ok(ctx, read_config(ctx, first, &again));
    assert_ok(ctx, lnt_config_check_same(ctx, "test.json", &again, &config));
    lnt_config_write(&(lnt_json_text){ second, sizeof second - 1, 0 }, &again);
    assert_string_equal(first, second);
    again.kinds[1].rotary.base = 8;
    assert_refused(ctx, lnt_config_check_same(ctx, "test.json", &again, &config), LNT_ERR_FORMAT, "kinds");
    assert_ok(ctx, lnt_config_set_mechanism(ctx, "softmax", &config));
    for (size_t k = 0; k < 3; k++)
        assert_int_equal(lnt_config_attention(&config, k).mechanism, LNT_SOFTMAX);
    assert_ok(ctx, lnt_config_check_applies(ctx, "test.json", &config));
    lnt_ctx_destroy(ctx);
}

static void padding_does_not_reach_the_answer(void **state)
{
    (void)state;
    const int64_t lengths[B] = { 4, 3 };
    static const char *const configs[] = {
        "{\"kind\":\"encoder\",\"output\":\"class\",\"dim\":8,\"layers\":2,\"heads\":2,\"length\":6}",
        "{\"kind\":\"encoder\",\"output\":\"class\",\"dim\":8,\"layers\":2,\"heads\":2,\"length\":6,"
        "\"embedding\":\"cnn\"}",
        MEGA "\"distance_bias\":true}",
        MEGA "\"attention\":{\"mechanism\":\"cur\",\"landmarks\":3}}",
    };
    for (int i = 0; i < COUNT_OF(configs); i++) {
        fixture f;
        open_fixture(&f, configs[i]);
        f.in.lengths = lengths;
        const double before = run(&f, false);
        f.tokens[4] = (f.tokens[4] + 1) % V;
        f.tokens[N + 3] = (f.tokens[N + 3] + 1) % V;
        assert_true(run(&f, false) == before);
        f.tokens[3] = (f.tokens[3] + 1) % V;
        assert_true(run(&f, false) != before);
        close_fixture(&f);
    }
}

static void a_config_reads_back_as_it_was_written(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_config config, again;
    char first[LNT_CONFIG_TEXT] = { 0 }, second[LNT_CONFIG_TEXT] = { 0 };
    assert_ok(ctx, read_config(ctx, "{\"dim\":24,\"heads\":3,\"dropout\":0.12300001108087606,"
                                    "\"attention\":{"
                                    "\"mechanism\":\"taylor\",\"terms\":3,\"coefficients\":[1,1e-1,"
                                    "-0.25]}}", &config));
    assert_true(config.dropout == 0.12300001108087606 && config.coefficients[1] == 0.1 && config.ff == 96);
    lnt_config_write(&(lnt_json_text){ first, sizeof first - 1, 0 }, &config);
    assert_ok(ctx, read_config(ctx, first, &again));
    assert_true(again.dropout == config.dropout && strstr(first, "[1,0.1,-0.25]"));
    lnt_config_write(&(lnt_json_text){ second, sizeof second - 1, 0 }, &again);
    assert_string_equal(first, second);
    assert_null(strstr(first, "rotary\":{"));
    assert_ok(ctx, read_config(ctx, "{\"position\":\"rotary\",\"rotary\":{\"base\":500000,"
                                    "\"pairs\":\"halves\","
                                    "\"divisors\":[1,1,2,2,4,4,8,8]}}", &config));
    memset(first, 0, sizeof first);
    lnt_config_write(&(lnt_json_text){ first, sizeof first - 1, 0 }, &config);
    assert_non_null(strstr(first, ",\"rotary\":{\"base\":500000,\"pairs\":\"halves\",\"divisors\":"
                                  "[1,1,2,2,4,4,8,8]}}"));
    assert_ok(ctx, read_config(ctx, first, &again));
    assert_ok(ctx, lnt_config_check_same(ctx, "test.json", &again, &config));
    again.rotary.divisors[3] = 3;
    assert_refused(ctx, lnt_config_check_same(ctx, "test.json", &again, &config), LNT_ERR_FORMAT,
                   "model.rotary.divisors is [1,1,2,3");
    assert_ok(ctx, read_config(ctx, "{\"attention\":{\"mechanism\":\"hybrid\",\"coefficients\":"
                                    "[1,1,0.5]}}", &config));
    assert_int_equal(config.attention.taylor.terms, 3);
    assert_ok(ctx, read_config(ctx, "{\"attention\":{\"mechanism\":\"taylor\"}}", &config));
    assert_int_equal(config.attention.taylor.terms, 3);
    assert_ok(ctx, read_config(ctx, "{\"attention\":{\"mechanism\":\"taylor\",\"terms\":5}}", &config));
    assert_int_equal(config.attention.taylor.terms, 5);
    lnt_ctx_destroy(ctx);
}

/* The biases of a network, and what its file says of them: nothing where its norm says it. */
static void biases_are_where_the_config_has_them(void **state)
{
    (void)state;
    static const struct {
        const char *config, *names, *written;
    } cases[] = {
        { "{\"layers\":1}", "blocks.0.norm1.bias blocks.0.qkv.bias blocks.0.out.bias blocks.0.norm2.bias "
                            "blocks.0.up.bias blocks.0.down.bias norm.bias head.bias ", NULL },
        { "{\"layers\":1,\"norm\":\"rms\",\"bias\":[\"head\"]}", "head.bias ", NULL },
        { "{\"layers\":1,\"norm\":\"rms\",\"bias\":[]}", "", "\"bias\":[]," },
        { "{\"layers\":1,\"norm\":\"rms\",\"bias\":[\"qkv\"]}", "blocks.0.qkv.bias ",
          "\"bias\":[\"qkv\"]," },
        { "{\"layers\":1,\"bias\":[\"feed\",\"out\"],\"epsilon\":1e-12}",
          "blocks.0.out.bias blocks.0.up.bias blocks.0.down.bias ",
          "\"bias\":[\"out\",\"feed\"],\"epsilon\":1e-12," },
    };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(cases); i++) {
        lnt_config config;
        lnt_layout laid;
        char text[LNT_CONFIG_TEXT] = { 0 };
        size_t found = 0;
        assert_ok(ctx, read_config(ctx, cases[i].config, &config));
        assert_ok(ctx, lnt_layout_open(ctx, &config, &laid));
        for (size_t e = 0; e < laid.entry_count; e++) {
            if (!laid.entries[e].count || !strstr(laid.entries[e].name, "bias")) continue;
            char name[LNT_PARAM_NAME + 1];
            snprintf(name, sizeof name, "%s ", laid.entries[e].name);
            assert_non_null(strstr(cases[i].names, name));
            found += strlen(name);
        }
        assert_int_equal(found, strlen(cases[i].names));
        lnt_config_write(&(lnt_json_text){ text, sizeof text - 1, 0 }, &config);
        if (cases[i].written) assert_non_null(strstr(text, cases[i].written));
        else assert_null(strstr(text, "bias\":["));
        lnt_layout_close(ctx, &laid);
    }
    lnt_ctx_destroy(ctx);
}

/* Numbers that are public; nothing is allocated but names. */
static void architectures_have_as_many_parameters_as_is_said_of_them(void **state)
{
    (void)state;
    static const struct {
        const char *name, *config;
        size_t parameters;
    } cases[] = {
        { "Llama 3 8B",
          "{\"dim\":4096,\"layers\":32,\"heads\":32,\"kv_heads\":8,\"ff\":14336,\"inputs\":128256,"
          "\"outputs\":128256,"
          "\"norm\":\"rms\",\"bias\":[],\"activation\":\"swiglu\",\"position\":\"rotary\"}",
          8030261248 },
        { "Qwen2.5 0.5B",
          "{\"dim\":896,\"layers\":24,\"heads\":14,\"kv_heads\":2,\"ff\":4864,\"inputs\":151936,"
          "\"outputs\":151936,"
          "\"norm\":\"rms\",\"bias\":[\"qkv\"],\"activation\":\"swiglu\",\"position\":\"rotary\","
          "\"tied\":true}",
          494032768 },
        { "Qwen3 0.6B",
          "{\"dim\":1024,\"layers\":28,\"heads\":16,\"kv_heads\":8,\"head_dim\":128,\"ff\":3072,"
          "\"inputs\":151936,\"outputs\":151936,"
          "\"norm\":\"rms\",\"bias\":[],\"qk_norm\":true,\"activation\":\"swiglu\","
          "\"position\":\"rotary\",\"tied\":true}",
          596049920 },
        { "Gemma 2 2B",
          "{\"dim\":2304,\"layers\":26,\"heads\":8,\"kv_heads\":4,\"head_dim\":256,\"ff\":9216,"
          "\"inputs\":256000,\"outputs\":256000,"
          "\"norm\":\"rms\",\"bias\":[],\"norm_place\":\"both\",\"activation\":\"geglu\","
          "\"position\":\"rotary\",\"tied\":true}",
          2614341888 },
        { "Llama 3 405B",
          "{\"dim\":16384,\"layers\":126,\"heads\":128,\"kv_heads\":8,\"ff\":53248,\"length\":131072,"
          "\"inputs\":128256,\"outputs\":128256,"
          "\"norm\":\"rms\",\"bias\":[],\"activation\":\"swiglu\",\"position\":\"rotary\"}",
          405853388800 },
        { "GPT-2",
          "{\"dim\":768,\"layers\":12,\"heads\":12,\"length\":1024,\"inputs\":50257,\"outputs\":50257,"
          "\"bias\":[\"norm\",\"qkv\",\"out\",\"feed\"],\"tied\":true}",
          124439808 },
        { "Pythia 160M",
          "{\"dim\":768,\"layers\":12,\"heads\":12,\"inputs\":50304,\"outputs\":50304,"
          "\"bias\":[\"norm\",\"qkv\",\"out\",\"feed\"],"
          "\"parallel\":true,\"position\":\"rotary\",\"rotary\":{\"dims\":16}}",
          162322944 },
        { "BERT, without a pooler and types",
          "{\"kind\":\"encoder\",\"output\":\"vector\",\"dim\":768,\"layers\":12,\"heads\":12,"
          "\"length\":512,\"inputs\":30522,"
          "\"outputs\":768,\"norm_place\":\"post\",\"embedding_norm\":true}",
          108890112 },
    };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(cases); i++) {
        lnt_config config;
        lnt_layout laid;
        assert_ok(ctx, read_config(ctx, cases[i].config, &config));
        assert_ok(ctx, lnt_layout_open(ctx, &config, &laid));
        if (laid.parameters != cases[i].parameters)
            fail_msg("%s has %zu parameters, must have %zu", cases[i].name, laid.parameters,
                     cases[i].parameters);
        lnt_layout_close(ctx, &laid);
    }
    lnt_ctx_destroy(ctx);
}

static double logits_change(const char *from, const char *to, double (*expected)(double))
{
    fixture a, b;
    double most = 0;
    open_fixture(&a, from);
    open_fixture(&b, to);
    memcpy(b.weights, a.weights, a.layout.size * sizeof *a.weights);
    run(&a, false);
    run(&b, false);
    for (int i = 0; i < B * N * V; i++)
        most = fmax(most, fabs(b.net.logits[i] - expected(a.net.logits[i])));
    close_fixture(&a);
    close_fixture(&b);
    return most;
}

static double capped(double x) { return 0.3 * tanh(x / 0.3); }
static double unchanged(double x) { return x; }

/* The first norm of a network takes out what its embedding is scaled by. */
static void logits_are_capped_and_embeddings_scaled(void **state)
{
    (void)state;
#define SMALL "{\"dim\":8,\"layers\":2,\"heads\":2,\"position\":\"none\",\"epsilon\":1e-30"
    assert_true(logits_change(SMALL "}", SMALL ",\"logit_cap\":0.3}", capped) < 1e-14);
    assert_true(logits_change(SMALL "}", SMALL ",\"embedding_scale\":3}", unchanged) > 1e-3);
    assert_true(logits_change(SMALL ",\"embedding_norm\":true}",
                              SMALL ",\"embedding_norm\":true,\"embedding_scale\":3}", unchanged) < 1e-13);
#undef SMALL
}

static void a_kind_of_all_layers_is_a_model_that_says_the_same(void **state)
{
    (void)state;
#define TURNED "{\"dim\":8,\"layers\":2,\"heads\":2,\"position\":\"rotary\""
    static const char *const same[][2] = {
        { TURNED ",\"rotary\":{\"base\":9}}", TURNED ",\"kinds\":[{\"every\":1,\"rotary\":{\"base\":9}}]}" },
        { TURNED ",\"rotary\":{\"off\":true}}",
          TURNED ",\"kinds\":[{\"layers\":[0,1],\"rotary\":{\"off\":true}}]}" },
        { TURNED ",\"attention\":{\"mechanism\":\"linear\"}}",
          TURNED ",\"kinds\":[{\"every\":1,\"attention\":{\"mechanism\":\"linear\"}}]}" },
    };
    for (int i = 0; i < COUNT_OF(same); i++) {
        assert_true(logits_change(same[i][0], same[i][1], unchanged) == 0);
        assert_true(logits_change(TURNED "}", same[i][1], unchanged) > 1e-3);
    }
#undef TURNED
}

static void sinusoidal_positions_are_a_table_that_is_not_learned(void **state)
{
    (void)state;
    enum { DIM = 8 };
    fixture learned, fixed;
    open_fixture(&learned, "{\"dim\":8,\"layers\":1,\"heads\":2,\"length\":6,\"position\":\"learned\"}");
    open_fixture(&fixed, "{\"dim\":8,\"layers\":1,\"heads\":2,\"length\":6,\"position\":\"sinusoidal\"}");
    for (size_t i = 0; i < fixed.layout.entry_count; i++) {
        const lnt_layout_entry *from = &fixed.layout.entries[i], *to = &learned.layout.entries[i];
        if (i == LNT_PARAM_POSITION) assert_true(from->count == 0 && to->count == N * DIM);
        else memcpy(learned.weights + to->offset, fixed.weights + from->offset, to->count * sizeof(double));
    }
    memcpy(learned.tokens, fixed.tokens, sizeof fixed.tokens);
    memcpy(learned.targets, fixed.targets, sizeof fixed.targets);
    double *table = learned.weights + learned.layout.entries[LNT_PARAM_POSITION].offset;
    for (int t = 0; t < N; t++)
        for (int c = 0; c < DIM; c++) {
            const double angle = t * pow(10000, -(c / 2) * 2.0 / DIM);
            table[t * DIM + c] = c % 2 ? cos(angle) : sin(angle);
        }
    assert_true(fabs(loss(&learned) - loss(&fixed)) < 1e-12);
    close_fixture(&learned);
    close_fixture(&fixed);
}

static void embeddings_begin_as_wide_as_what_they_stand_for(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        double deviation;
    } cases[] = { { "{\"dim\":16}", 0.5 },
                  { "{\"dim\":16,\"tied\":true}", 0.25 }, /* it is the head as well */
                  { "{\"dim\":16,\"kind\":\"encoder\",\"input\":\"features\",\"inputs\":4,\"output\":"
                    "\"class\"}", 0.5 },
                  { "{\"dim\":16,\"kind\":\"encoder\",\"input\":\"features\",\"inputs\":100,\"output\":"
                    "\"class\"}", 0.1 } };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(cases); i++) {
        lnt_config config;
        lnt_layout laid;
        assert_ok(ctx, read_config(ctx, cases[i].config, &config));
        assert_ok(ctx, lnt_layout_open(ctx, &config, &laid));
        assert_true(fabs(laid.entries[LNT_PARAM_EMBED].param.deviation - cases[i].deviation) < 1e-12);
        lnt_layout_close(ctx, &laid);
    }
    lnt_ctx_destroy(ctx);
}

static void what_cannot_be_is_refused_in_a_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *config, *word;
    } cases[] = {
        { "{\"dmi\":8}", "model has an unknown key 'dmi'; it takes kind, dim" },
        { "{\"dim\":0}", "model.dim is 0, must be 1 to 65536" },
        { "{\"dim\":1.5}", "model.dim must be a whole number" },
        { "{\"dim\":10,\"heads\":3}", "must be a multiple of heads" },
        { "{\"heads\":8,\"kv_heads\":3}", "must divide heads" },
        { "{\"activation\":\"tanh\"}", "'tanh', must be one of relu, gelu, silu, swiglu" },
        { "{\"bias\":true}", "model.bias must be a list of some of norm, qkv, out, feed, head" },
        { "{\"bias\":[\"q\"]}", "model.bias must be a list of some of norm, qkv, out, feed, head" },
        { "{\"norm\":\"rms\",\"bias\":[\"norm\"]}", "bias norm is for norm layer" },
        { "{\"epsilon\":0}", "model.epsilon is 0, must be 1e-30 to 1" },
        { "{\"rotary\":{\"base\":100}}", "position must be rotary" },
        { "{\"position\":\"rotary\",\"rotary\":{\"bas\":1}}", "model.rotary has an unknown key 'bas'" },
        { "{\"position\":\"rotary\",\"rotary\":{\"dims\":5}}",
          "model.rotary.dims is 5, must be even, and at most head_dim, which is 16" },
        { "{\"position\":\"rotary\",\"rotary\":{\"dims\":18}}", "model.rotary.dims is 18, must be even" },
        { "{\"position\":\"rotary\",\"rotary\":{\"factor\":2}}",
          "model.rotary needs a scaling, beside factor" },
        { "{\"position\":\"rotary\",\"rotary\":{\"scaling\":\"llama3\",\"factor\":2}}",
          "needs original_length" },
        { "{\"position\":\"rotary\",\"rotary\":{\"divisors\":[1,2]}}", "has 2 divisors for 8 pairs" },
        { "{\"head_dim\":2,\"position\":\"rotary\",\"rotary\":{\"divisors\":[0]}}",
          "divisors of rotary positions must be above 0" },
        { "{\"parallel\":true,\"norm_place\":\"post\"}", "norm_place must be pre or both" },
        { MEGA "\"qk_norm\":true}", "averages need no qk_norm" },
        { MEGA "\"parallel\":true}", "averages need branches that are not parallel" },
        { "{\"pooling\":\"first\"}", "pooling is for outputs class and vector" },
        { "{\"normalise\":true}", "normalise is for output vector" },
        { "{\"output\":\"vector\"}", "model.outputs is 7, must be dim, which is 128" },
        { "{\"kind\":\"encoder\",\"output\":\"class\",\"pooling\":\"none\"}",
          "pooling none is for output vector" },
        { VECTOR ",\"tied\":true}", "tied needs a task whose outputs" },
        { "{\"patch\":4}", "patch, channels, class_tokens and pixels are for images" },
        { IMAGES "\"output\":\"class\",\"length\":4,\"pixels\":{\"width\":4}}",
          "a width and a height, or neither" },
        { IMAGES "\"output\":\"class\",\"length\":4,\"pixels\":{\"width\":4,\"height\":5}}",
          "images are made 4 x 5, and read 4 x 4" },
        { IMAGES "\"output\":\"class\",\"length\":4,\"pixels\":{\"width\":3,\"height\":9,\"crop_width\":4,"
                 "\"crop_height\":4}}", "of images of 3 x 9 none of 4 x 4 can be cut" },
        { IMAGES "\"output\":\"class\",\"length\":4,\"pixels\":{\"mean\":[1,2]}}",
          "have 3 numbers each, or none" },
        { IMAGES "\"output\":\"class\",\"length\":4,\"pixels\":{\"deviation\":[1,0,1]}}", "must be above 0" },
        { "{\"image\":4}", "images need kind encoder" },
        { IMAGES "\"output\":\"frames\",\"length\":4}", "pooling is for outputs class and vector" },
        { IMAGES "\"output\":\"class\",\"length\":5}", "by image and patch they are 4 and 4" },
        { IMAGES "\"output\":\"class\",\"length\":5,\"class_tokens\":1,\"distilled\":true}",
          "distilled needs class_tokens 2" },
        { "{\"pooler\":true}", "a pooler is for a network that gives one vector" },
        { "{\"kinds\":{}}", "model.kinds must be a list" },
        { "{\"kinds\":[1]}", "model.kinds[0] must be an object" },
        { "{\"kinds\":[{}]}", "model.kinds[0] needs layers or every, and not both" },
        { "{\"kinds\":[{\"every\":2,\"layers\":[1]}]}", "model.kinds[0] needs layers or every" },
        { "{\"kinds\":[{\"layers\":[-1]}]}", "model.kinds[0].layers must be a list of layers" },
        { "{\"kinds\":[{\"layers\":[1024]}]}", "model.kinds[0].layers must be a list of layers" },
        { "{\"kinds\":[{\"layers\":[4]}]}", "model.kinds[0] has layers beyond the model's 4 layers" },
        { "{\"kinds\":[{\"layers\":[]}]}", "model.kinds[0] has none of the model's 4 layers" },
        { "{\"kinds\":[{\"layers\":[1]},{\"every\":1}]}", "model.kinds[0] and [1] both have layer 1" },
        { "{\"kinds\":[{\"layers\":[1],\"attention\":{\"mechanism\":\"cur\"}}]}",
          "mechanism cur sees whole" },
        { "{\"kinds\":[{\"layers\":[1],\"attention\":{\"decays\":1}}]}",
          "model.kinds[0].attention has an unknown" },
        { "{\"kinds\":[{\"every\":1},{\"every\":2},{\"every\":3},{\"every\":4}]}", "more than 3 kinds" },
        { MEGA "\"kinds\":[{\"every\":2}]}", "averages need one kind of attention" },
        { "{\"tied\":1}", "model.tied must be true or false" },
        { "{\"dropout\":1}", "model.dropout is 1, must be 0 to 0.95" },
        { "{\"kind\":\"encoder\"}", "kind must be decoder" },
        { "{\"embedding\":\"cnn\"}", "kind must be encoder" },
        { "{\"dim\":9,\"heads\":3,\"position\":\"rotary\"}", "model.head_dim is 3, must be even" },
        { "{\"attention\":[]}", "model.attention must be an object" },
        { "{\"attention\":{\"terms\":3,\"coefficients\":[1]}}", "1 coefficients for 3 terms" },
        { "{\"attention\":{\"coefficients\":3}}", "coefficients must be a list of 1 to 32 numbers" },
        { "{\"attention\":{\"coefficients\":[]}}", "coefficients must be a list of 1 to 32 numbers" },
        { "{\"attention\":{\"coefficients\":[1,true]}}", "must be a list of 1 to 32 numbers" },
        { "{\"attention\":{\"coefficients\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
          "1]}}", "must be a list of 1 to 32 numbers" },
        { "{\"attention\":{\"mechanism\":\"hybrid\",\"far\":\"softmax\"}}",
          "'test.json': model.attention.far is 'softmax', must be one of linear, taylor" },
        { "{\"kind\":\"encoder\",\"output\":\"class\",\"attention\":{\"mechanism\":\"linear\",\"decay\":"
          "[0.9]}}", "'test.json': model: attention.decay goes by age; kind must be decoder" },
        { "{\"attention\":{\"mechanism\":\"linear\",\"decay\":[3]}}",
          "'test.json': model.attention: decay of kv head 0 is 3" },
        { "{\"averages\":2}", "averages need kind encoder" },
        { MEGA "\"norm\":\"rms\"}", "averages need norm layer" },
        { MEGA "\"kv_heads\":1}", "averages need as many kv_heads as heads" },
        { MEGA "\"norm_place\":\"post\"}", "averages need norm_place pre" },
        { MEGA "\"attention\":{\"learned_temperature\":true}}", "averages need no learned_temperature" },
        { "{\"values\":16}", "values is for blocks with averages" },
        { "{\"distance_bias\":true}", "distance_bias is for blocks with averages" },
        { MEGA "\"distance_bias\":true,\"attention\":{\"mechanism\":\"cur\"}}",
          "distance_bias needs mechanism softmax; cur never has all scores" },
        { "{\"attention\":{\"activation\":\"laplace\"}}", "laplace is for mechanism cur, or for" },
        { "[]", "model must be an object" },
    };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_config config;
    for (int i = 0; i < COUNT_OF(cases); i++)
        assert_refused(ctx, read_config(ctx, cases[i].config, &config), LNT_ERR_FORMAT,
                       cases[i].word);
    lnt_ctx_destroy(ctx);
}

static void an_option_is_of_a_mechanism(void **state)
{
    (void)state;
    static const struct {
        const char *attention, *key; /* NULL: all are its own */
        const char *needs;           /* NULL: the mechanism does not take it */
    } cases[] = {
        { "\"sink\":8", "sink", NULL },
        { "\"window\":0,\"far\":\"taylor\",\"terms\":0", NULL, NULL }, /* as nobody had said it */
        { "\"scale\":0.5", NULL, NULL },
        { "\"mechanism\":\"linear\",\"scale\":0.5", "scale", NULL },
        { "\"mechanism\":\"linear\",\"decay\":[0.5],\"eps\":0.1,\"feature_map\":\"exp\"", NULL, NULL },
        { "\"mechanism\":\"taylor\",\"decay\":[0.5]", "decay", NULL },
        { "\"mechanism\":\"taylor\",\"decay\":[0]", "decay", NULL },
        { "\"mechanism\":\"taylor\",\"terms\":2,\"coefficients\":[1,1]", NULL, NULL },
        { "\"mechanism\":\"hybrid\",\"terms\":2,\"normalize\":\"taylorshift\"", "normalize", NULL },
        { "\"mechanism\":\"hybrid\",\"sink\":2,\"landmarks\":8", "landmarks", NULL },
        { "\"mechanism\":\"linear\",\"features\":64", "features", "feature_map fourier or positive" },
        { "\"mechanism\":\"linear\",\"features\":64,\"feature_map\":\"positive\"", NULL, NULL },
        { "\"mechanism\":\"cur\",\"embed_column\":3", "embed_column", "select embed" },
        { "\"mechanism\":\"cur\",\"embed_column\":3,\"select\":\"embed\"", NULL, NULL },
        { "\"mechanism\":\"cur\",\"ridge\":0.5", "ridge", "pinv ridge" },
        { "\"mechanism\":\"cur\",\"ridge\":0.5,\"pinv\":\"ridge\"", NULL, NULL },
        { "\"mechanism\":\"cur\",\"pinv_iterations\":4", NULL, NULL },
        { "\"mechanism\":\"cur\",\"pinv_iterations\":4,\"pinv\":\"ridge\"", "pinv_iterations",
          "pinv iterate" },
        { "\"mechanism\":\"hybrid\",\"feature_map\":\"exp\"", "feature_map", "far linear" },
        { "\"mechanism\":\"hybrid\",\"feature_map\":\"exp\",\"far\":\"linear\"", NULL, NULL },
        { "\"mechanism\":\"hybrid\",\"terms\":2,\"far\":\"linear\"", "terms", "far taylor" },
    };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(cases); i++) {
        char text[200], sentence[100];
        lnt_config config;
        snprintf(text, sizeof text, "{\"attention\":{%s}}", cases[i].attention);
        snprintf(sentence, sizeof sentence, "model.attention.%s %s%s", cases[i].key ? cases[i].key : "",
                 cases[i].needs ? "needs " : "does not apply to mechanism",
                 cases[i].needs ? cases[i].needs : "");
        assert_ok(ctx, parse_config(ctx, text, &config));
        const lnt_status status = lnt_config_check_applies(ctx, "test.json", &config);
        if (cases[i].key) assert_refused(ctx, status, LNT_ERR_FORMAT, sentence);
        else assert_ok(ctx, status);
        for (int m = 0; lnt_mechanism_name((lnt_mechanism)m); m++) {
            lnt_config other = config;
            if (m == (int)config.attention.mechanism) continue;
            assert_ok(ctx, lnt_config_set_mechanism(ctx, lnt_mechanism_name((lnt_mechanism)m), &other));
            assert_int_equal(other.attention.mechanism, m);
            assert_ok(ctx, lnt_config_check_applies(ctx, "test.json", &other));
        }
    }
    lnt_config config;
    assert_ok(ctx, read_config(ctx, "{\"attention\":{\"mechanism\":\"hybrid\",\"window\":4,"
                                    "\"decay\":[0.5]}}", &config));
    assert_ok(ctx, lnt_config_set_mechanism(ctx, "linear", &config));
    assert_true(config.decay_count == 8 && config.decay[7] == 0.5 && config.attention.hybrid.window == 0);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoders_have_the_right_gradients),
        cmocka_unit_test(classifiers_have_the_right_gradients),
        cmocka_unit_test(mega_is_a_configuration_and_so_is_mega_over_cur),
        cmocka_unit_test(both_branches_of_every_block_are_dropped),
        cmocka_unit_test(mega_over_all_landmarks_is_mega_with_laplace),
        cmocka_unit_test(a_network_over_features_has_the_right_gradients),
        cmocka_unit_test(networks_of_images_have_the_right_gradients),
        cmocka_unit_test(vectors_have_the_right_gradients),
        cmocka_unit_test(vectors_are_the_mean_the_first_or_the_last_token),
        cmocka_unit_test(layers_that_differ_in_attention_have_the_right_gradients),
        cmocka_unit_test(kinds_of_attention_read_back_as_they_were_written),
        cmocka_unit_test(padding_does_not_reach_the_answer),
        cmocka_unit_test(a_config_reads_back_as_it_was_written),
        cmocka_unit_test(biases_are_where_the_config_has_them),
        cmocka_unit_test(architectures_have_as_many_parameters_as_is_said_of_them),
        cmocka_unit_test(logits_are_capped_and_embeddings_scaled),
        cmocka_unit_test(a_kind_of_all_layers_is_a_model_that_says_the_same),
        cmocka_unit_test(sinusoidal_positions_are_a_table_that_is_not_learned),
        cmocka_unit_test(embeddings_begin_as_wide_as_what_they_stand_for),
        cmocka_unit_test(what_cannot_be_is_refused_in_a_sentence),
        cmocka_unit_test(an_option_is_of_a_mechanism),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
