/* test_images.c - models of images: a batch says of each image what it says of it alone, memory that runs out
 * leaves nothing behind, and files that were cut or changed give a model or one sentence. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "image_file.h"
#include "io/safetensors.h"
#include "linnet/model.h"
#include "support.h"
#include "unit/io_support.h"

enum { SIDE = 8, PATCH = 4, DIM = 8, FEED = 12, CLASSES = 5, PIXELS = 3 * SIDE * SIDE, TENSORS = 32 };

#define FOLDER "vit"

/* The tensors of a file in the making. */
typedef struct tensors {
    lnt_st_entry entry[TENSORS];
    size_t count;
    dice d;
} tensors;

static void put(tensors *t, const char *name, int rank, const int64_t *shape)
{
    size_t count = 1;
    for (int axis = 0; axis < rank; axis++) count *= (size_t)shape[axis];
    float *numbers = malloc(count * sizeof *numbers);
    assert_non_null(numbers);
    assert_true(t->count < TENSORS);
    for (size_t i = 0; i < count; i++) numbers[i] = 0.4f * (float)dice_normal(&t->d);
    lnt_st_entry *e = &t->entry[t->count++];
    *e = (lnt_st_entry){
        .name = name, .dtype = LNT_ST_F32, .rank = rank, .data = numbers, .bytes = count * sizeof *numbers
    };
    memcpy(e->shape, shape, (size_t)rank * sizeof *shape);
}

#define PUT(t, name, ...) put(t, name, COUNT_OF(((int64_t[]){ __VA_ARGS__ })), (int64_t[]){ __VA_ARGS__ })
#define LAYER "deit.encoder.layer.0."

static void put_layer(tensors *t)
{
    static const char *const square[][2] = {
        { LAYER "attention.attention.query.weight", LAYER "attention.attention.query.bias" },
        { LAYER "attention.attention.key.weight", LAYER "attention.attention.key.bias" },
        { LAYER "attention.attention.value.weight", LAYER "attention.attention.value.bias" },
        { LAYER "attention.output.dense.weight", LAYER "attention.output.dense.bias" },
    };
    for (int i = 0; i < COUNT_OF(square); i++) {
        PUT(t, square[i][0], DIM, DIM);
        PUT(t, square[i][1], DIM);
    }
    PUT(t, LAYER "intermediate.dense.weight", FEED, DIM);
    PUT(t, LAYER "intermediate.dense.bias", FEED);
    PUT(t, LAYER "output.dense.weight", DIM, FEED);
    PUT(t, LAYER "output.dense.bias", DIM);
    PUT(t, LAYER "layernorm_before.weight", DIM);
    PUT(t, LAYER "layernorm_before.bias", DIM);
    PUT(t, LAYER "layernorm_after.weight", DIM);
    PUT(t, LAYER "layernorm_after.bias", DIM);
}

static const char config[] = "{\"architectures\":[\"DeiTForImageClassificationWithTeacher\"],\"model_type\":"
                             "\"deit\",\"hidden_size\":8,"
                             "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"intermediate_size\":12,"
                             "\"image_size\":8,\"patch_size\":4,"
                             "\"hidden_act\":\"gelu\",\"id2label\":{\"0\":\"cat\",\"3\":\"dog\"}}";
static const char preprocessor[] =
    "{\"image_processor_type\":\"DeiTImageProcessor\",\"size\":{\"height\":10,\"width\":11},\"crop_size\":8,"
    "\"image_mean\":[0.1,0.2,0.3]}";

static void save_text(const char *name, const char *text, size_t bytes)
{
    char path[64];
    snprintf(path, sizeof path, FOLDER "/%s", name);
    put_file(path, text, bytes);
}

/* A DeiT with a teacher. */
static int make_model(void **state)
{
    tensors t = { .d = { 8 } };
    if (enter_folder(state) || mkdir(FOLDER, 0777)) return -1;
    lnt_ctx *ctx = context_new(1, NULL);
    PUT(&t, "deit.embeddings.cls_token", 1, 1, DIM);
    PUT(&t, "deit.embeddings.distillation_token", 1, 1, DIM);
    PUT(&t, "deit.embeddings.position_embeddings", 1, 6, DIM);
    PUT(&t, "deit.embeddings.patch_embeddings.projection.weight", DIM, 3, PATCH, PATCH);
    PUT(&t, "deit.embeddings.patch_embeddings.projection.bias", DIM);
    put_layer(&t);
    PUT(&t, "deit.layernorm.weight", DIM);
    PUT(&t, "deit.layernorm.bias", DIM);
    PUT(&t, "cls_classifier.weight", CLASSES, DIM);
    PUT(&t, "cls_classifier.bias", CLASSES);
    PUT(&t, "distillation_classifier.weight", CLASSES, DIM);
    PUT(&t, "distillation_classifier.bias", CLASSES);
    assert_ok(ctx, lnt_safetensors_write(ctx, FOLDER "/model.safetensors", t.entry, t.count, NULL, 0));
    for (size_t i = 0; i < t.count; i++) free((void *)(uintptr_t)t.entry[i].data);
    save_text("config.json", config, sizeof config - 1);
    save_text("preprocessor_config.json", preprocessor, sizeof preprocessor - 1);
    uint16_t samples[12 * 9 * 3];
    const png_kind kind = { .width = 12, .height = 9, .depth = 8, .colour = 2 };
    for (int i = 0; i < COUNT_OF(samples); i++) samples[i] = (uint16_t)dice_range(&t.d, 0, 255);
    buffer file = png_file(&kind, samples);
    put_file("image.png", file.data, file.used);
    buffer_free(&file);
    lnt_ctx_destroy(ctx);
    return 0;
}

static int remove_model(void **state)
{
    unlink(FOLDER "/config.json");
    unlink(FOLDER "/preprocessor_config.json");
    unlink(FOLDER "/model.safetensors");
    unlink("image.png");
    rmdir(FOLDER);
    return leave_folder(state);
}

static void fill(float *pixels, size_t images, uint64_t seed)
{
    dice d = { seed };
    for (size_t i = 0; i < images * PIXELS; i++) pixels[i] = (float)dice_normal(&d);
}

static void a_batch_says_of_each_image_what_it_says_of_it_alone(void **state)
{
    (void)state;
    enum { IMAGES = 3 };
    lnt_ctx *ctx = context_new(2, NULL);
    lnt_model *model;
    float pixels[IMAGES * PIXELS], logits[IMAGES][CLASSES], vectors[IMAGES][DIM];
    fill(pixels, IMAGES, 2);
    assert_ok(ctx, lnt_model_load(ctx, FOLDER, &model));
    for (int again = 0; again < 2; again++) { /* before there is room for a batch, and after */
        if (again) assert_ok(ctx, lnt_model_forward_images(model, pixels, IMAGES, logits[0], vectors[0]));
        for (int i = 0; i < IMAGES; i++) {
            float own[CLASSES], vector[DIM];
            assert_ok(ctx, lnt_model_forward_images(model, pixels + i * PIXELS, 1, own, vector));
            for (int c = 0; again && c < CLASSES; c++) assert_true(fabsf(own[c] - logits[i][c]) < 1e-5f);
            for (int c = 0; again && c < DIM; c++) assert_true(fabsf(vector[c] - vectors[i][c]) < 1e-5f);
        }
    }
    assert_true(fabsf(logits[0][0] - logits[1][0]) > 1e-3f);
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
}

static void what_is_asked_wrongly_is_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model;
    lnt_model_info info = { .size = sizeof info };
    float pixels[PIXELS], logits[CLASSES];
    const int32_t token = 0;
    fill(pixels, 1, 1);
    assert_ok(ctx, lnt_model_load(ctx, FOLDER, &model));
    assert_ok(ctx, lnt_model_describe(model, &info));
    assert_true(info.image == SIDE && info.channels == 3 && info.dim == DIM && info.classifies &&
                !info.embeds);
    assert_true(info.outputs == CLASSES && info.length == 6 && !info.generates);
    assert_string_equal(lnt_model_label(model, 0), "cat");
    assert_string_equal(lnt_model_label(model, 3), "dog");
    assert_null(lnt_model_label(model, 1));
    assert_null(lnt_model_label(model, -1));
    assert_null(lnt_model_label(model, CLASSES));
    assert_refused(ctx, lnt_model_forward_images(model, NULL, 1, logits, NULL), LNT_ERR_ARGUMENT, "pixels");
    assert_refused(ctx, lnt_model_forward_images(model, pixels, 0, logits, NULL), LNT_ERR_ARGUMENT, "batch");
    assert_refused(ctx, lnt_model_forward_images(model, pixels, INT64_MAX / 8, logits, NULL), LNT_ERR_SHAPE,
                   "is too large");
    assert_refused(ctx, lnt_model_read_image(model, "absent.png", pixels), LNT_ERR_FILE, "'absent.png'");
    assert_refused(ctx, lnt_model_read_image(model, NULL, pixels), LNT_ERR_ARGUMENT, "path");
    assert_refused(ctx, lnt_model_forward(model, &token, 1, 1, NULL, logits), LNT_ERR_UNSUPPORTED,
                   "it reads images, not tokens; use lnt_model_forward_images");
    assert_refused(ctx, lnt_model_embed(model, &token, 1, 1, NULL, logits), LNT_ERR_UNSUPPORTED,
                   "no vectors");
    pixels[7] = NAN;
    assert_refused(ctx, lnt_model_forward_images(model, pixels, 1, logits, NULL), LNT_ERR_ARGUMENT,
                   "pixel 7 is not finite");
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
}

static void a_model_under_another_mechanism_reads_the_same_images(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_model *model, *other;
    float pixels[PIXELS], same[PIXELS], logits[CLASSES], others[CLASSES];
    assert_ok(ctx, lnt_model_load(ctx, FOLDER, &model));
    assert_ok(ctx, lnt_model_convert(model, "softmax", &other));
    assert_string_equal(lnt_model_label(other, 3), "dog");
    fill(pixels, 1, 4);
    assert_ok(ctx, lnt_model_forward_images(model, pixels, 1, logits, NULL));
    assert_ok(ctx, lnt_model_forward_images(other, pixels, 1, others, NULL));
    assert_memory_equal(logits, others, sizeof logits);
    if (!lnt_model_read_image(model, "image.png", pixels)) {
        assert_ok(ctx, lnt_model_read_image(other, "image.png", same));
        assert_memory_equal(pixels, same, sizeof pixels);
    }
    lnt_model_destroy(model);
    lnt_model_destroy(other);
    lnt_ctx_destroy(ctx);
}

/* Loads the model, reads the image and answers. */
static lnt_status go(lnt_ctx *ctx, lnt_model **model)
{
    float pixels[PIXELS], logits[CLASSES];
    lnt_status status = lnt_model_load(ctx, FOLDER, model);
    if (!status) status = lnt_model_read_image(*model, "image.png", pixels);
    if (!status) status = lnt_model_forward_images(*model, pixels, 1, logits, NULL);
    return status;
}

static void memory_that_runs_out_leaves_nothing(void **state)
{
    (void)state;
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    const int64_t before = track.live;
    lnt_model *model = NULL;
    lnt_status status = go(ctx, &model);
    const bool reads = !status;
    lnt_model_destroy(model);
    if (!reads) assert_int_equal(status, LNT_ERR_UNSUPPORTED); /* without libpng */
    for (int64_t calls = 0; status == LNT_ERR_MEMORY || calls == 0; calls++) {
        model = NULL;
        track.calls = 0;
        track.fail_at = calls;
        status = go(ctx, &model);
        track.fail_at = -1;
        lnt_model_destroy(model);
        assert_int_equal(track.live, before);
        assert_true(calls < 10000);
    }
    assert_int_equal(status, reads ? LNT_OK : LNT_ERR_UNSUPPORTED);
    context_close_tracked(ctx, &track);
}

/* Changes and cuts of a file of the model. */
static void damage(lnt_ctx *ctx, const char *name, const char *text, size_t bytes)
{
    char changed[1024];
    assert_true(bytes <= sizeof changed);
    for (size_t at = 0; at < bytes; at += (size_t)budget(7, 1))
        for (int change = 0; change < 5; change++) {
            lnt_model *model = NULL;
            memcpy(changed, text, bytes);
            if (change < 4) changed[at] = "9-\"x"[change];
            save_text(name, changed, change < 4 ? bytes : at);
            if (go(ctx, &model)) {
                const char *sentence = lnt_ctx_error(ctx);
                assert_true(*sentence && !strchr(sentence, '\n'));
            }
            lnt_model_destroy(model);
        }
    save_text(name, text, bytes);
}

static void changed_and_cut_configs_are_models_or_a_sentence(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    damage(ctx, "config.json", config, sizeof config - 1);
    damage(ctx, "preprocessor_config.json", preprocessor, sizeof preprocessor - 1);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_says_of_each_image_what_it_says_of_it_alone),
        cmocka_unit_test(what_is_asked_wrongly_is_refused),
        cmocka_unit_test(a_model_under_another_mechanism_reads_the_same_images),
        cmocka_unit_test(memory_that_runs_out_leaves_nothing),
        cmocka_unit_test(changed_and_cut_configs_are_models_or_a_sentence),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
