/* models.c - see models.h. */
#include "models.h"

#include <string.h>

const char *const model_configs[MODEL_CONFIGS] = {
    "{\"dim\":24,\"layers\":2,\"heads\":3,\"length\":150}",
    ("{\"dim\":32,\"layers\":2,\"heads\":4,\"kv_heads\":2,\"position\":\"rotary\",\"norm\":\"rms\","
     "\"activation\":\"swiglu\",\"ff\":40,\"tied\":true}"),
    "{\"dim\":16,\"layers\":3,\"heads\":2,\"position\":\"sinusoidal\",\"norm_place\":\"post\"}",
};

lnt_model *model_make(lnt_ctx *ctx, const char *text, lnt_mechanism mechanism, int shift)
{
    lnt_config config;
    lnt_json json;
    lnt_tokenizer tokenizer = { 0 };
    lnt_model *model;
    assert_ok(ctx, lnt_config_default(ctx, &config));
    config.inputs = config.outputs = VOCABULARY;
    config.attention.mechanism = mechanism;
    config.attention.taylor.terms = 3;
    if (shift && mechanism == LNT_TAYLOR) config.attention.taylor.normalize = LNT_NORMALIZE_TAYLORSHIFT;
    config.learned_temperature = shift;
    assert_ok(ctx, lnt_json_parse(ctx, "test", NULL, text, strlen(text), &json));
    assert_ok(ctx, lnt_config_read(ctx, "test", json.root, &config));
    assert_ok(ctx, lnt_config_resolve(ctx, "test", &config));
    lnt_json_free(ctx, &json);
    assert_ok(ctx, lnt_tokenizer_open(ctx, LNT_TOKENS_NONE, NULL, 0, &tokenizer));
    assert_ok(ctx, lnt_model_make(ctx, &config, "test", &tokenizer, 7, &model));
    for (size_t i = 0; i < model->layout.entry_count; i++) { /* temperatures that differ */
        const lnt_layout_entry *e = &model->layout.entries[i];
        if (strstr(e->name, "temperature"))
            for (size_t j = 0; j < e->count; j++) model->weights[e->offset + j] = 1 + (float)j / 4;
    }
    return model;
}

void model_fill_tokens(int32_t *tokens, int count, uint64_t seed)
{
    dice d = { seed };
    for (int i = 0; i < count; i++) tokens[i] = (int32_t)dice_range(&d, 0, VOCABULARY - 1);
}

double model_difference(const float *a, const float *b, size_t count)
{
    error_sum e = { 0 };
    for (size_t i = 0; i < count; i++) error_add(&e, (double)a[i], (double)b[i]);
    return error_value(&e);
}

bool model_generates(int mechanism) { return mechanism != LNT_CUR; }

void model_walk(void (*check)(lnt_ctx *ctx, lnt_model *model))
{
    lnt_ctx *ctx = context_new(2, NULL);
    for (int m = 0; lnt_mechanism_name((lnt_mechanism)m); m++)
        for (int i = 0; model_generates(m) && i < MODEL_CONFIGS; i++) {
            lnt_model *model = model_make(ctx, model_configs[i], (lnt_mechanism)m, i == 0);
            check(ctx, model);
            lnt_model_destroy(model);
        }
    lnt_ctx_destroy(ctx);
}

int64_t model_load_without_memory(const char *path)
{
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    const int64_t before = track.live;
    int64_t calls = 0;
    for (;; calls++) {
        lnt_model *model;
        track.calls = 0;
        track.fail_at = calls;
        const lnt_status status = lnt_model_load(ctx, path, &model);
        track.fail_at = -1;
        if (!status) {
            lnt_model_destroy(model);
            break;
        }
        assert_int_equal(status, LNT_ERR_MEMORY);
        assert_null(model);
        assert_int_equal(track.live, before);
    }
    assert_int_equal(track.live, before);
    context_close_tracked(ctx, &track);
    return calls;
}
