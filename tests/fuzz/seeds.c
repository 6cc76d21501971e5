/* seeds.c - writes what the fuzz targets begin with: a small true file of each kind.
 *
 *     fuzz_seeds FOLDER        FOLDER/<target>/seed...
 *
 * Files of ours lose their checksum, or no changed one would be read any further than that; then they are
 * read, for a seed that is refused would leave most of its reader alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image_file.h"
#include "io/safetensors.h"
#include "linnet.h"
#include "linnet/model.h"
#include "llama2c_file.h"
#include "llama_file.h"
#include "model/import/llama2c.h"
#include "model/template/template.h"
#include "model/tokenizer/codec.h"

static void must(lnt_ctx *ctx, lnt_status status)
{
    if (!status) return;
    fprintf(stderr, "fuzz_seeds: %s\n", lnt_ctx_error(ctx));
    exit(1);
}

/* The name of the seed of a target, in a folder that is made for it. */
static const char *seed(const char *target, const char *name)
{
    static char path[256];
    mkdir(target, 0777);
    snprintf(path, sizeof path, "%s/%s", target, name);
    return path;
}

static void put(const char *path, const void *data, size_t count)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, count, file) != count || fclose(file)) {
        perror(path);
        exit(1);
    }
}

static void put_text(const char *target, const char *name, const char *text)
{
    put(seed(target, name), text, strlen(text));
}

/* The keys of the checksum get other names. */
static void drop_checksum(const char *path)
{
    static char data[1 << 20];
    FILE *file = fopen(path, "rb");
    const size_t count = file ? fread(data, 1, sizeof data, file) : 0;
    if (!file || fclose(file)) exit(1);
    for (char *at = data; (at = memmem(at, count - (size_t)(at - data), "linnet.checksum", 15));) *at = 'L';
    put(path, data, count);
}

static void put_gguf(void)
{
    buffer file = gguf_file_sample();
    put(seed("gguf", "sample"), file.data, file.used);
    buffer_free(&file);
    gguf_file f;
    gguf_file_begin(&f);
    for (int s = 0; s < LNT_STORAGES; s++) { /* one block of each */
        static const unsigned char zeros[256];
        const int64_t shape[1] = { (int64_t)lnt_storage_numbers((lnt_storage)s) };
        gguf_file_tensor(&f, lnt_storage_name((lnt_storage)s), (lnt_storage)s, 1, shape, zeros,
                         lnt_storage_bytes((lnt_storage)s));
    }
    file = gguf_file_join(&f);
    put(seed("gguf", "blocks"), file.data, file.used);
    buffer_free(&file);
    gguf_file_free(&f);
}

static void put_arrays(lnt_ctx *ctx)
{
    static float numbers[6];
    const lnt_st_entry entries[] = {
        { .name = "x", .dtype = LNT_ST_F32, .rank = 2, .shape = { 2, 3 }, .data = numbers, .bytes = 24 },
        { .name = "y", .dtype = LNT_ST_U8, .rank = 1, .shape = { 3 }, .data = numbers, .bytes = 3 },
    };
    const lnt_st_meta meta = { "format", "pt" };
    must(ctx, lnt_safetensors_write(ctx, seed("safetensors", "checked"), entries, 2, &meta, 1));
    must(ctx, lnt_safetensors_write(ctx, seed("safetensors", "plain"), entries, 2, &meta, 1));
    drop_checksum(seed("safetensors", "plain"));
    lnt_safetensors st;
    must(ctx, lnt_safetensors_read(ctx, seed("safetensors", "plain"), &st));
    lnt_safetensors_free(ctx, &st);
    const lnt_array array = { .data = numbers, .dtype = LNT_F32, .rank = 2, .shape = { 2, 3 } };
    must(ctx, lnt_npy_write(ctx, seed("npy", "f32"), &array));
}

static void put_texts(void)
{
    put_text("index", "one", "{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"1.safetensors\"}}");
    put_text("index", "leads_out", "{\"metadata\":{},\"weight_map\":{\"a\":\"../1.safetensors\"}}");
    const char *form;
    for (size_t i = 0; (form = lnt_template_fallback_name(i)); i++)
        put_text("template", form, lnt_template_fallback(form));
    put_text("json", "object", "{\"a\":[1,-2.5e3,true,null,\"\\u00e9\\ud83d\\ude00\\n\"],\"b\":{}}");
}

static void put_state(lnt_ctx *ctx)
{
    float rows[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    lnt_attn_desc desc;
    lnt_state *state;
    must(ctx, lnt_attn_desc_init(&desc, sizeof desc));
    desc.mechanism = LNT_LINEAR;
    desc.causal = 1;
    desc.length_q = 4;
    desc.dim = 2;
    const lnt_tensor t = lnt_tensor_bhnd(rows, LNT_F32, 1, 1, 4, 2);
    must(ctx, lnt_state_create(ctx, &desc, &state));
    must(ctx, lnt_state_append(state, &t, &t));
    must(ctx, lnt_state_save(state, seed("state", "linear")));
    lnt_state_destroy(state);
    drop_checksum(seed("state", "linear"));
    must(ctx, lnt_state_load(ctx, &desc, seed("state", "linear"), &state));
    lnt_state_destroy(state);
    put_text("state", "calibration", "{\"format\":\"linnet calibration 1\",\"seconds_per_flop\":{}}");
}

static void put_model(lnt_ctx *ctx, const char *name, const char *config)
{
    const lnt_model_request request = { .size = sizeof request, .task = "copy", .text = config };
    lnt_model *model;
    must(ctx, lnt_model_create(ctx, &request, &model));
    must(ctx, lnt_model_save(model, seed("model", name), LNT_BF16));
    lnt_model_destroy(model);
    drop_checksum(seed("model", name));
    must(ctx, lnt_model_load(ctx, seed("model", name), &model));
    lnt_model_destroy(model);
}

/* Ours, of a model of others: packed, with its tokenizer. */
static void put_imported(lnt_ctx *ctx, const char *from, const char *name)
{
    char source[256];
    lnt_model *model;
    snprintf(source, sizeof source, "%s", seed("model", from));
    must(ctx, lnt_model_load(ctx, source, &model));
    must(ctx, lnt_model_save_with(model, seed("model", name), NULL));
    lnt_model_destroy(model);
    drop_checksum(seed("model", name));
    must(ctx, lnt_model_load(ctx, seed("model", name), &model));
    lnt_model_destroy(model);
}

/* Of others: a model in f32, and one in blocks. */
static void put_llama(lnt_storage storage)
{
    buffer file = llama_file(storage, 1);
    put(seed("model", lnt_storage_name(storage)), file.data, file.used);
    buffer_free(&file);
}

/* One of each way to be read; what this build has no library for is refused, and no seed. */
static void put_images(void)
{
    static const int kinds[][2] = { { 0, 1 }, { 0, 16 }, { 2, 8 }, { 3, 4 }, { 6, 16 } };
    static const uint16_t samples[6 * 5 * 4] = { 1, 0, 1 };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const png_kind kind = { .width = 6, .height = 5, .colour = kinds[i][0], .depth = kinds[i][1],
                                .interlaced = i % 2, .says = true };
        const char name[] = { 'p', (char)('a' + i), '\0' };
        buffer file = png_file(&kind, samples);
        put(seed("image", name), file.data, file.used);
        buffer_free(&file);
    }
#ifdef LNT_JPEG
    for (int i = 0; i < 4; i++) {
        static const unsigned char light[20 * 12 * 4] = { 200, 100, 30 };
        static const int channels[] = { 3, 1, 4, 3 };
        const jpeg_kind kind = { .width = 20, .height = 12, .channels = channels[i], .quality = 60,
                                 .progressive = i > 2, .halved = i == 0, .restart = i, .orientation = 2 * i };
        const char name[] = { 'j', (char)('a' + i), '\0' };
        buffer file = jpeg_file(&kind, light);
        put(seed("image", name), file.data, file.used);
        buffer_free(&file);
    }
#endif
}

static void put_llama2c(lnt_ctx *ctx)
{
    for (int separate = 0; separate < 2; separate++) {
        buffer file = llama2c_file(separate, 1);
        lnt_llama2c read;
        must(ctx, lnt_llama2c_parse(ctx, "seed", file.data, file.used, &read));
        lnt_llama2c_close(ctx, &read);
        put(seed("llama2c", separate ? "separate" : "shared"), file.data, file.used);
        buffer_free(&file);
    }
}

/* A tokenizer with a text behind it, as fuzz_tokenizer takes them. */
static void put_tokenizer(const char *name, char kind, size_t tokens, const void *file, size_t count)
{
    static const char text[] = " ab \xc3\xa9 1\xf0\x9f\x98\x80<s>\xff\n";
    const unsigned char head[] = { (unsigned char)kind, (unsigned char)(tokens / 2), sizeof text - 1 };
    buffer all = { 0 };
    buffer_put(&all, head, sizeof head);
    buffer_put(&all, file, count);
    buffer_put(&all, text, sizeof text - 1);
    put(seed("tokenizer", name), all.data, all.used);
    buffer_free(&all);
}

static void put_tokenizers(lnt_ctx *ctx)
{
    static const char *const json[] = {
        "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"a\":1,\"b\":2,\"ab\":3},"
        "\"merges\":[\"a b\"]},\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},"
        "\"behavior\":\"Isolated\"},\"added_tokens\":[{\"content\":\"<s>\",\"id\":4,\"special\":true}]}",
        "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"a\":1,\"##b\":2}},"
        "\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":true},"
        "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"decoder\":{\"type\":\"WordPiece\"}}",
        "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"u\",0],[\"a\",-1],[\"ab\",-1.5],"
        "[\"\u2581\",-2]]},\"normalizer\":{\"type\":\"NFKC\"},\"pre_tokenizer\":{\"type\":\"Metaspace\"},"
        "\"decoder\":{\"type\":\"Metaspace\"}}",
    };
    static const char *const names[] = { "bpe", "wordpiece", "unigram" };
    lnt_codec *codec;
    for (size_t i = 0; i < 3; i++) {
        must(ctx, lnt_codec_open_json(ctx, names[i], json[i], strlen(json[i]), &codec));
        lnt_codec_close(codec);
        put_tokenizer(names[i], 'j', 0, json[i], strlen(json[i]));
    }
    buffer file = llama2c_tokenizer();
    put_tokenizer("llama2c", 'l', LLAMA2C_TOKENS, file.data, file.used);
    put_tokenizer("text", 't', 0, "", 0);
    buffer_free(&file);
    file = llama_file(LNT_STORAGE_Q8_0, 1);
    put_tokenizer("gguf", 'g', 0, file.data, file.used);
    buffer_free(&file);
}

int main(int argc, char **argv)
{
    lnt_ctx *ctx;
    if (argc != 2 || (mkdir(argv[1], 0777), chdir(argv[1])) || lnt_ctx_create(NULL, &ctx)) return 1;
    put_gguf();
    put_arrays(ctx);
    put_texts();
    put_images();
    put_llama(LNT_STORAGE_F32);
    put_llama(LNT_STORAGE_Q8_0);
    put_imported(ctx, lnt_storage_name(LNT_STORAGE_Q8_0), "imported");
    put_llama2c(ctx);
    put_tokenizers(ctx);
    put_state(ctx);
    put_model(ctx, "linear", "{\"model\":{\"dim\":4,\"layers\":1,\"heads\":1,\"ff\":4,"
                             "\"attention\":{\"mechanism\":\"linear\"}}}");
    lnt_ctx_destroy(ctx);
    return 0;
}
