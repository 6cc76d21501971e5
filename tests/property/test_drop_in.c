/* test_drop_in.c - another attention in place of a model's own, as it is loaded: it is what conversion
 * gives, with the options that it brings; what cannot be is refused. */
#include <math.h>
#include <stdio.h>

#include "../support/models.h"

static lnt_status load_with(lnt_ctx *ctx, const lnt_attn_desc *attention, lnt_model **out)
{
    const lnt_model_options options = { .size = sizeof options, .attention = attention };
    return lnt_model_load_with(ctx, "drop.safetensors", &options, out);
}

static lnt_attn_desc attention_of(lnt_mechanism mechanism)
{
    lnt_attn_desc desc;
    assert_int_equal(lnt_attn_desc_init(&desc, sizeof desc), LNT_OK);
    desc.mechanism = mechanism;
    desc.batch = 77, desc.heads = 77, desc.dim = 77, desc.causal = 1,
    desc.dtype = LNT_F64; /* not looked at */
    desc.algorithm = "none/such";
    return desc;
}

static void check_drop_in(lnt_ctx *ctx, lnt_model *model)
{
    enum { N = 33 };
    int32_t tokens[N];
    static float as_loaded[N * VOCABULARY], as_converted[N * VOCABULARY];
    model_fill_tokens(tokens, N, 5);
    assert_ok(ctx, lnt_model_save(model, "drop.safetensors", LNT_F32));
    for (int m = 0; lnt_mechanism_name((lnt_mechanism)m); m++) {
        lnt_attn_desc desc = attention_of((lnt_mechanism)m);
        lnt_model *loaded, *converted;
        if (!model_generates(m) || m == (int)model->config.attention.mechanism) continue;
        if (m == LNT_TAYLOR || m == LNT_HYBRID) desc.taylor.terms = 3; /* as models of tests have it */
        assert_ok(ctx, load_with(ctx, &desc, &loaded));
        assert_ok(ctx, lnt_model_convert(model, lnt_mechanism_name((lnt_mechanism)m), &converted));
        assert_string_equal(loaded->text, converted->text);
        assert_ok(ctx, lnt_model_forward(loaded, tokens, 1, N, NULL, as_loaded));
        assert_ok(ctx, lnt_model_forward(converted, tokens, 1, N, NULL, as_converted));
        assert_memory_equal(as_loaded, as_converted, sizeof as_loaded);
        lnt_model_destroy(loaded);
        lnt_model_destroy(converted);
    }
}

/* With the defaults of a mechanism, loading with it is loading, and then converting. */
static void another_attention_takes_the_place_of_a_models(void **state)
{
    (void)state;
    model_walk(check_drop_in);
    remove("drop.safetensors");
}

/* Every layer has it, also those of a kind; its options replace the model's, arrays are copied, and a scale
 * that is not given stays. */
static void a_drop_in_brings_its_options(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model =
        model_make(ctx,
                   "{\"dim\":16,\"layers\":2,\"heads\":2,\"attention\":{\"scale\":0.5,\"terms\":5},"
                   "\"kinds\":[{\"layers\":[1],\"attention\":{\"mechanism\":\"linear\"}}]}",
                   LNT_TAYLOR, 0);
    lnt_model *other;
    double coefficients[2] = { 1, 0.25 }, decay[2] = { 0.5, 0.75 };
    lnt_attn_desc desc = attention_of(LNT_HYBRID);
    assert_ok(ctx, lnt_model_save(model, "drop.safetensors", LNT_F32));
    lnt_model_destroy(model);
    desc.hybrid.window = 7, desc.hybrid.sink = 2;
    desc.taylor.terms = 2, desc.taylor.coefficients = coefficients, desc.decay = decay;
    assert_ok(ctx, load_with(ctx, &desc, &other));
    coefficients[1] = 9, decay[0] = 9;
    for (size_t k = 0; k < 2; k++) {
        const lnt_attn_desc found = lnt_config_attention(&other->config, k);
        assert_int_equal(found.mechanism, LNT_HYBRID);
        assert_true(found.hybrid.window == 7 && found.hybrid.sink == 2 && found.taylor.terms == 2);
        assert_true(found.taylor.coefficients[1] == 0.25 && found.decay[0] == 0.5 && found.decay[1] == 0.75);
        assert_true(found.heads == 2 && found.dim == 8 && found.dtype == LNT_F32 && !found.algorithm);
        assert_true(k ? isnan(found.scale) : found.scale == 0.5);
    }
    lnt_model_destroy(other);
    decay[0] = 0.5;
    desc.scale = 0.125;
    assert_ok(ctx, load_with(ctx, &desc, &other));
    for (size_t k = 0; k < 2; k++) assert_true(lnt_config_attention(&other->config, k).scale == 0.125);
    lnt_model_destroy(other);
    remove("drop.safetensors");
    lnt_ctx_destroy(ctx);
}

static void note_share(void *user, double share)
{
    double *last = user;
    assert_true(share >= *last && share <= 1);
    *last = share;
}

static void a_drop_in_that_cannot_be_is_refused(void **state)
{
    (void)state;
    const double numbers[16] = { 0 };
    const int64_t pins[] = { 0 };
    double share = 0;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = model_make(ctx, model_configs[0], LNT_SOFTMAX, 0), *none;
    assert_ok(ctx, lnt_model_save(model, "drop.safetensors", LNT_F32));
    lnt_model_destroy(model);
    lnt_attn_desc desc = attention_of(LNT_CUR);
    desc.cur.pin = pins, desc.cur.pins = 1;
    assert_refused(ctx, load_with(ctx, &desc, &none), LNT_ERR_FORMAT, "cur sees whole sequences");
    assert_null(none);
    desc.cur.pins = LNT_CONFIG_PINS + 1;
    assert_refused(ctx, load_with(ctx, &desc, &none), LNT_ERR_ARGUMENT,
                   "cur.pin has 65 numbers, must have 0 to 64");
    desc.cur.pin = NULL;
    assert_refused(ctx, load_with(ctx, &desc, &none), LNT_ERR_ARGUMENT, "cur.pin is NULL");
    desc = attention_of((lnt_mechanism)99);
    assert_refused(ctx, load_with(ctx, &desc, &none), LNT_ERR_ARGUMENT, "mechanism is 99");
    desc = attention_of(LNT_TAYLOR);
    desc.taylor.center = numbers;
    assert_refused(ctx, load_with(ctx, &desc, &none), LNT_ERR_UNSUPPORTED, "taylor.center must be NULL");
    desc = attention_of(LNT_TAYLOR);
    desc.taylor.coefficients = numbers;
    assert_refused(ctx, load_with(ctx, &desc, &none), LNT_ERR_ARGUMENT, "taylor.terms must say");
    desc = attention_of(LNT_TAYLOR);
    desc.taylor.terms = 1000;
    assert_refused(ctx, load_with(ctx, &desc, &none), LNT_ERR_FORMAT, "terms");
    lnt_model_options options = { .size = 3 };
    assert_refused(ctx, lnt_model_load_with(ctx, "drop.safetensors", &options, &none), LNT_ERR_ARGUMENT,
                   "size of lnt_model_options");
    options = (lnt_model_options){ .size = sizeof options, .progress = note_share, .user = &share };
    assert_ok(ctx, lnt_model_load_with(ctx, "drop.safetensors", &options, &model));
    assert_true(share == 1);
    lnt_model_destroy(model);
    remove("drop.safetensors");
    lnt_ctx_destroy(ctx);
}

/* Pinned tokens of an encoder go with the model into its file. */
static void a_models_pins_are_kept(void **state)
{
    (void)state;
    const int64_t pins[] = { 0, 60 };
    int32_t tokens[100];
    float logits[10];
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model;
    lnt_attn_desc desc = attention_of(LNT_CUR);
    const lnt_model_request request = { .size = sizeof request, .task = "listops", 
                                        .text = "{\"model\":{\"dim\":16,\"layers\":1,\"heads\":2},"
                                                "\"task\":{\"shortest\":10,\"longest\":90}}" };
    assert_ok(ctx, lnt_model_create(ctx, &request, &model));
    assert_ok(ctx, lnt_model_save(model, "drop.safetensors", LNT_F32));
    lnt_model_destroy(model);
    desc.cur.landmarks = 8, desc.cur.pin = pins, desc.cur.pins = 2;
    assert_ok(ctx, load_with(ctx, &desc, &model));
    assert_ok(ctx, lnt_model_save(model, "drop.safetensors", LNT_F32));
    lnt_model_destroy(model);
    assert_ok(ctx, lnt_model_load(ctx, "drop.safetensors", &model));
    const lnt_attn_desc found = lnt_config_attention(&model->config, 0);
    assert_true(found.cur.pins == 2 && found.cur.pin[0] == 0 && found.cur.pin[1] == 60);
    for (int i = 0; i < 100; i++) tokens[i] = i % 10;
    assert_ok(ctx, lnt_model_forward(model, tokens, 1, 80, NULL, logits));
    lnt_model_destroy(model);
    desc.cur.pin = (const int64_t[]){ 90, 1 };
    assert_refused(ctx, load_with(ctx, &desc, &model), LNT_ERR_FORMAT,
                   "pin 0 is 90, not one of the 90 tokens");
    remove("drop.safetensors");
    lnt_ctx_destroy(ctx);
}

/* What a watcher of a model of two layers and two heads of 8 is told, and what it does. */
typedef struct watching {
    lnt_ctx *ctx;
    int calls;
    double worst;            /* of out against the definition, on the q, k and v that it was told */
    float factor;            /* out becomes so much of it */
    int64_t fails_in;        /* this layer; -1: in none */
} watching;

static lnt_status watch(void *user, int64_t layer, const lnt_attn_desc *problem, const lnt_attn_io *io)
{
    watching *w = user;
    double row[8];
    float *out = io->out.data;
    assert_int_equal(layer, w->calls++);
    assert_true(problem->heads == 2 && problem->dim == 8 && problem->mechanism == LNT_SOFTMAX);
    assert_true(io->out.dtype == LNT_F32 && io->out.shape[2] == 33 && io->lengths_k[1] == 20);
    for (int64_t h = 0; h < 2; h++) {
        assert_ok(w->ctx, lnt_reference_row(w->ctx, problem, io, 1, h, 19, row));
        for (int c = 0; c < 8; c++) { /* [batch,length,heads width], without gaps */
            const double apart = fabs(row[c] - (double)out[(33 + 19) * 16 + h * 8 + c]);
            w->worst = apart > w->worst ? apart : w->worst;
        }
    }
    for (int i = 0; i < 2 * 33 * 16; i++) out[i] *= w->factor;
    return layer == w->fails_in ? LNT_ERR_FORMAT : LNT_OK;
}

static void a_watcher_sees_each_layers_attention_and_may_change_it(void **state)
{
    (void)state;
    enum { N = 33 };
    int32_t tokens[2 * N];
    static float plain[2 * N * VOCABULARY], watched[2 * N * VOCABULARY];
    const int64_t lengths[] = { N, 20 };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model = model_make(ctx, "{\"dim\":16,\"layers\":2,\"heads\":2}", LNT_SOFTMAX, 0);
    watching w = { .ctx = ctx, .factor = 1, .fails_in = -1 };
    model_fill_tokens(tokens, 2 * N, 5);
    assert_ok(ctx, lnt_model_forward(model, tokens, 2, N, lengths, plain));
    lnt_model_watch(model, watch, &w);
    assert_ok(ctx, lnt_model_forward(model, tokens, 2, N, lengths, watched));
    assert_true(w.calls == 2 && w.worst < 1e-6);
    assert_memory_equal(plain, watched, sizeof plain);
    w.calls = 0, w.factor = 0.5f;
    assert_ok(ctx, lnt_model_forward(model, tokens, 2, N, lengths, watched));
    assert_memory_not_equal(plain, watched, sizeof plain);
    w.calls = 0, w.fails_in = 0;
    assert_int_equal(lnt_model_forward(model, tokens, 2, N, lengths, watched), LNT_ERR_FORMAT);
    assert_int_equal(w.calls, 1);
    lnt_model_watch(model, NULL, NULL);
    assert_ok(ctx, lnt_model_forward(model, tokens, 2, N, lengths, watched));
    assert_memory_equal(plain, watched, sizeof plain);
    assert_int_equal(w.calls, 1);
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_attention_takes_the_place_of_a_models),
        cmocka_unit_test(a_drop_in_brings_its_options),
        cmocka_unit_test(a_drop_in_that_cannot_be_is_refused),
        cmocka_unit_test(a_models_pins_are_kept),
        cmocka_unit_test(a_watcher_sees_each_layers_attention_and_may_change_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
