/* model/import/llama2c.c - see llama2c.h.  Every extent is bounded before it is multiplied, so that no
 * product leaves 64 bits, and nothing is allocated until the size of the file is right. */
#include "model/import/llama2c.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/file.h"

#define BASE 10000.0

enum { HEADER = 7, MATRICES = 9, MOST_LAYERS = 1024 };

typedef struct header {
    int64_t dim, hidden, layers, heads, kv_heads, vocabulary, length;
    bool separate; /* a matrix of its own gives the logits */
} header;

/* ---- the header ---------------------------------------------------------------------------- */

static lnt_status check_begin(lnt_ctx *ctx, const char *path, const void *file, size_t bytes)
{
    if (bytes >= 4 && memcmp(file, "PK\3\4", 4) == 0)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        LNT_FILE_FMT ": a model that PyTorch has pickled is not read; save it as safetensors",
                        path);
    if (bytes >= 4 && memcmp(file, "24ka", 4) == 0)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        LNT_FILE_FMT ": of llama2.c's files only those of version 0 are read, which have f32 "
                                     "and no magic number",
                        path);
    if (bytes < HEADER * sizeof(int32_t))
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": has %zu bytes, less than the header of a model of llama2.c", path,
                        bytes);
    return LNT_OK;
}

static lnt_status read_header(lnt_ctx *ctx, const char *path, const void *file, header *h)
{
    int32_t raw[HEADER];
    memcpy(raw, file, sizeof raw);
    *h = (header){ raw[0], raw[1], raw[2], raw[3], raw[4], raw[5], raw[6], raw[5] < 0 };
    if (h->separate) h->vocabulary = -h->vocabulary;
    const struct {
        const char *name;
        int64_t value, most;
    } bounds[HEADER] = { { "dim", h->dim, 1 << 16 },
                         { "hidden_dim", h->hidden, 1 << 18 },
                         { "n_layers", h->layers, MOST_LAYERS },
                         { "n_heads", h->heads, 4096 },
                         { "n_kv_heads", h->kv_heads, 4096 },
                         { "vocab_size", h->vocabulary, 1 << 24 },
                         { "seq_len", h->length, 1 << 24 } };
    for (int i = 0; i < HEADER; i++)
        if (bounds[i].value < 1 || bounds[i].value > bounds[i].most)
            return lnt_fail(ctx, LNT_ERR_FORMAT,
                            LNT_FILE_FMT ": as a model of llama2.c it has %s %lld, must be 1 to %lld", path,
                            bounds[i].name, (long long)bounds[i].value, (long long)bounds[i].most);
    if (h->dim % (2 * h->heads) || h->heads % h->kv_heads)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": as a model of llama2.c it has dim %lld, n_heads %lld and n_kv_heads "
                                     "%lld, which must divide each other with heads of even width",
                        path, (long long)h->dim, (long long)h->heads, (long long)h->kv_heads);
    return LNT_OK;
}

/* ---- the tensors --------------------------------------------------------------------------- */

/* One after the other as the file has them: of all layers, if not of the model. */
typedef struct part {
    const char *name; /* %d: the layer; NULL: it is not a tensor of the model */
    int64_t rows, columns; /* rows 0: a vector */
} part;

enum { PARTS = 14, TABLES = 11 };

static void list_parts(const header *h, part out[PARTS])
{
    const int64_t d = h->dim, kv = d / h->heads * h->kv_heads, turns = h->length * (d / h->heads / 2);
    const part parts[PARTS] = { { "embed_tokens.weight", h->vocabulary, d },
                                { "layers.%d.input_layernorm.weight", 0, d },
                                { "layers.%d.self_attn.q_proj.weight", d, d },
                                { "layers.%d.self_attn.k_proj.weight", kv, d },
                                { "layers.%d.self_attn.v_proj.weight", kv, d },
                                { "layers.%d.self_attn.o_proj.weight", d, d },
                                { "layers.%d.post_attention_layernorm.weight", 0, d },
                                { "layers.%d.mlp.gate_proj.weight", h->hidden, d },
                                { "layers.%d.mlp.down_proj.weight", d, h->hidden },
                                { "layers.%d.mlp.up_proj.weight", h->hidden, d },
                                { "norm.weight", 0, d },
                                { NULL, 0, turns },
                                { NULL, 0, turns },
                                { "lm_head.weight", h->separate ? h->vocabulary : 0,
                                  h->separate ? d : 0 } };
    memcpy(out, parts, sizeof parts);
}

static bool is_of_layers(const part *p) { return p->name && strstr(p->name, "%d"); }

static uint64_t numbers_of(const part *p) { return (uint64_t)(p->rows ? p->rows : 1) * (uint64_t)p->columns; }

static uint64_t bytes_of(const header *h, const part parts[PARTS])
{
    uint64_t numbers = HEADER;
    for (int i = 0; i < PARTS; i++)
        numbers += numbers_of(&parts[i]) * (is_of_layers(&parts[i]) ? (uint64_t)h->layers : 1);
    return numbers * sizeof(float);
}

/* The turns of positions 0 and 1: a weak magic number, but the only one, and the base is seen by them. */
static lnt_status check_turns(lnt_ctx *ctx, const char *path, const header *h, const float *cosine)
{
    const int64_t pairs = h->dim / h->heads / 2;
    const float *sine = cosine + h->length * pairs;
    bool good = true;
    for (int64_t position = 0; position < 2 && position < h->length; position++)
        for (int64_t i = 0; i < pairs; i++) {
            const double angle = (double)position * pow(BASE, -(double)i / (double)pairs);
            const int64_t at = position * pairs + i;
            good = good && fabs((double)cosine[at] - cos(angle)) < 1e-3 &&
                   fabs((double)sine[at] - sin(angle)) < 1e-3;
        }
    if (good) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_FORMAT,
                    LNT_FILE_FMT ": has the size of a model of llama2.c, but its table of positions is not "
                                 "that of rotary positions of base 10000",
                    path);
}

static int by_name(const void *a, const void *b)
{
    const lnt_stored *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static void add(lnt_llama2c *out, const part *p, int64_t layer, const float *data)
{
    const char *place = strstr(p->name, "%d");
    const int before = place ? (int)(place - p->name) : (int)strlen(p->name);
    char *name = out->names[out->count];
    const int used = snprintf(name, sizeof *out->names, "%.*s", before, p->name);
    if (place)
        snprintf(name + used, sizeof *out->names - (size_t)used, "%lld%s", (long long)layer, place + 2);
    out->tensors[out->count++] = (lnt_stored){ .name = name,
                                               .type = "F32",
                                               .storage = LNT_STORAGE_F32,
                                               .rank = p->rows ? 2 : 1,
                                               .shape = { p->rows ? p->rows : p->columns, p->columns },
                                               .data = data,
                                               .bytes = numbers_of(p) * sizeof *data };
}

static size_t room_of(const lnt_llama2c *file)
{
    return file->count * (sizeof *file->tensors + sizeof *file->names);
}

static lnt_status list_tensors(lnt_ctx *ctx, const char *path, const header *h, const part parts[PARTS],
                               const float *data, lnt_llama2c *out)
{
    out->count = (size_t)(MATRICES * h->layers) + 2 + h->separate;
    out->tensors = lnt_allocate(ctx, room_of(out), "the tensors of a model");
    if (!out->tensors) return LNT_ERR_MEMORY;
    out->names = (char(*)[sizeof *out->names])(void *)(out->tensors + out->count);
    out->count = 0;
    lnt_status status = LNT_OK;
    for (int i = 0; i < PARTS; i++) {
        const int64_t copies = is_of_layers(&parts[i]) ? h->layers : 1;
        if (i == TABLES) status = check_turns(ctx, path, h, data);
        for (int64_t layer = 0; layer < copies; layer++, data += numbers_of(&parts[i]))
            if (parts[i].name && parts[i].columns) add(out, &parts[i], layer, data);
    }
    qsort(out->tensors, out->count, sizeof *out->tensors, by_name);
    return status;
}

/* ---- opening ------------------------------------------------------------------------------- */

static void write_config(const header *h, char out[LNT_LLAMA2C_CONFIG])
{
    snprintf(out, LNT_LLAMA2C_CONFIG,
             "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":%lld,\"num_hidden_layers\":%lld,"
             "\"num_attention_heads\":%lld,\"num_key_value_heads\":%lld,\"intermediate_size\":%lld,"
             "\"max_position_embeddings\":%lld,\"rms_norm_eps\":1e-5,\"rope_theta\":%.0f,"
             "\"tie_word_embeddings\":%s}",
             (long long)h->dim, (long long)h->layers, (long long)h->heads, (long long)h->kv_heads,
             (long long)h->hidden, (long long)h->length, BASE, h->separate ? "false" : "true");
}

lnt_status lnt_llama2c_parse(lnt_ctx *ctx, const char *path, const void *file, size_t bytes, lnt_llama2c *out)
{
    header h;
    part parts[PARTS];
    *out = (lnt_llama2c){ 0 };
    lnt_status status = check_begin(ctx, path, file, bytes);
    if (!status) status = read_header(ctx, path, file, &h);
    if (status) return status;
    list_parts(&h, parts);
    const uint64_t wanted = bytes_of(&h, parts);
    if (wanted != bytes)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": has %zu bytes; by its header a model of llama2.c has %llu", path,
                        bytes, (unsigned long long)wanted);
    write_config(&h, out->config);
    status = list_tensors(ctx, path, &h, parts, (const float *)file + HEADER, out);
    if (status) lnt_llama2c_close(ctx, out);
    return status;
}

void lnt_llama2c_close(lnt_ctx *ctx, lnt_llama2c *file)
{
    if (file->tensors) lnt_release(ctx, file->tensors, room_of(file));
    lnt_map_close(&file->map);
    *file = (lnt_llama2c){ 0 };
}

/* ---- files --------------------------------------------------------------------------------- */

/* The first two of a folder's files of a kind, in the order of strcmp. */
typedef struct found {
    char name[2][NAME_MAX + 1];
    size_t count;
} found;

static bool is_bin(const char *name)
{
    const size_t bytes = strlen(name);
    return bytes > 4 && strcmp(name + bytes - 4, ".bin") == 0;
}

static found look(const char *folder, bool tokenizers)
{
    found f = { .count = 0 };
    DIR *open = opendir(folder);
    for (const struct dirent *e; open && (e = readdir(open));) {
        if (!is_bin(e->d_name) || (strncmp(e->d_name, "tok", 3) == 0) != tokenizers) continue;
        const bool first = !f.count || strcmp(e->d_name, f.name[0]) < 0;
        if (first) memcpy(f.name[1], f.name[0], sizeof f.name[0]);
        if (first || f.count < 2 || strcmp(e->d_name, f.name[1]) < 0)
            snprintf(f.name[first ? 0 : 1], sizeof f.name[0], "%s", e->d_name);
        f.count++;
    }
    if (open) closedir(open);
    return f;
}

static bool is_there(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct stat at;
    return snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX && !stat(path, &at);
}

/* A .safetensors file of that name begins with a length of 8 bytes, where this has dim and hidden. */
static bool is_safetensors(const char *path)
{
    uint32_t begin[2] = { 0, 1 };
    FILE *file = fopen(path, "rb");
    const bool whole = file && fread(begin, sizeof begin, 1, file) == 1;
    if (file) fclose(file);
    return whole && begin[0] && !begin[1];
}

bool lnt_llama2c_takes(const char *path)
{
    struct stat at;
    if (stat(path, &at)) return false;
    if (S_ISREG(at.st_mode)) return is_bin(path) && !is_safetensors(path);
    return S_ISDIR(at.st_mode) && !is_there(path, "config.json") && !is_there(path, "model.safetensors") &&
           !is_there(path, "model.safetensors.index.json") && look(path, false).count > 0;
}

static lnt_status put_path(lnt_ctx *ctx, const char *folder, const char *name, char out[PATH_MAX])
{
    if (snprintf(out, PATH_MAX, "%s/%s", folder, name) < PATH_MAX) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_FILE, LNT_FILE_FMT ": the path is too long", folder);
}

static lnt_status find_file(lnt_ctx *ctx, const char *path, char out[PATH_MAX])
{
    struct stat at;
    if (stat(path, &at) || !S_ISDIR(at.st_mode)) {
        if (snprintf(out, PATH_MAX, "%s", path) < PATH_MAX) return LNT_OK;
        return lnt_fail(ctx, LNT_ERR_FILE, LNT_FILE_FMT ": the path is too long", path);
    }
    const found f = look(path, false);
    if (f.count == 1) return put_path(ctx, path, f.name[0], out);
    return lnt_fail(ctx, LNT_ERR_FILE,
                    LNT_FILE_FMT ": has %zu models of llama2.c, among them '%.80s' and '%.80s'; name one",
                    path, f.count, f.name[0], f.name[1]);
}

lnt_status lnt_llama2c_open(lnt_ctx *ctx, const char *path, lnt_llama2c *out)
{
    lnt_map map;
    char file[PATH_MAX];
    *out = (lnt_llama2c){ 0 };
    lnt_status status = find_file(ctx, path, file);
    if (!status) status = lnt_map_open(ctx, file, &map);
    if (status) return status;
    status = lnt_llama2c_parse(ctx, file, map.data, map.bytes, out);
    if (status) {
        lnt_map_close(&map);
        return status;
    }
    out->map = map;
    memcpy(out->path, file, sizeof file);
    return LNT_OK;
}

lnt_status lnt_llama2c_tokenizer(lnt_ctx *ctx, const char *path, char out[PATH_MAX])
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const int bytes = slash ? (int)(slash - path) + (slash == path) : 1;
    snprintf(folder, sizeof folder, "%.*s", bytes, slash ? path : ".");
    out[0] = '\0';
    if (is_there(folder, "tokenizer.bin")) return put_path(ctx, folder, "tokenizer.bin", out);
    const found f = look(folder, true);
    if (f.count < 2) return f.count ? put_path(ctx, folder, f.name[0], out) : LNT_OK;
    return lnt_fail(ctx, LNT_ERR_FILE,
                    LNT_FILE_FMT ": %zu tokenizers are beside it, among them '%.80s' and '%.80s'; say which, "
                                 "or call it tokenizer.bin",
                    path, f.count, f.name[0], f.name[1]);
}
