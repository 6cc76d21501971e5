/* model/packed_write.c - writes the file of packed.h while its matrices are unpacked, or turned into other
 * storage, some rows at a time: beside the model a few megabytes are in memory. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/threads.h"
#include "model/packed.h"
#include "nn/quantise.h"

enum { NUMBERS = 1 << 18 }; /* of a matrix, that are worked on at once */

/* Rows of a matrix, in one storage: a tensor to be made. */
typedef struct piece {
    size_t param, part, rows, in;
    lnt_storage storage;
    bool turned; /* to it, from what the model has */
} piece;

typedef struct job {
    const lnt_model *model;
    const lnt_save_options *options;
    lnt_save_report *report;
    piece *pieces;
    lnt_st_entry *entries;
    char (*names)[LNT_PACKED_NAME];
    size_t room, count, piece_count; /* the first entries are the pieces */
    char *packed, *origin;           /* metadata */
    size_t packed_bytes, origin_bytes;
    double wrong, all;  /* squares: of what turning has changed, and of the numbers */
    size_t done, total; /* bytes of pieces */
} job;

/* ---- what there will be ---------------------------------------------------------------------- */

static bool is_block(lnt_storage storage) { return lnt_storage_numbers(storage) > 1; }

/* What matrices are turned to. */
static lnt_storage target(lnt_weights weights, size_t param)
{
    static const lnt_storage to[] = { [LNT_WEIGHTS_F32] = LNT_STORAGE_F32,
                                      [LNT_WEIGHTS_BF16] = LNT_STORAGE_BF16,
                                      [LNT_WEIGHTS_Q8] = LNT_STORAGE_Q8_0,
                                      [LNT_WEIGHTS_Q4] = LNT_STORAGE_Q4_1 };
    const bool outer = param == LNT_PARAM_EMBED || param == LNT_PARAM_HEAD || param == LNT_PARAM_HEAD2;
    return weights == LNT_WEIGHTS_Q4 && outer ? LNT_STORAGE_Q8_0 : to[weights];
}

/* Whether rows that are `now` of a storage stay so. */
static bool stays(lnt_weights weights, size_t param, size_t in, lnt_storage now)
{
    if (weights == LNT_WEIGHTS_KEEP) return true;
    const lnt_storage to = target(weights, param);
    return now == to || in % lnt_storage_numbers(to) ||
           (weights == LNT_WEIGHTS_Q4 && to == LNT_STORAGE_Q8_0 &&
            is_block(now)); /* blocks are small already */
}

static void add_piece(job *j, piece p)
{
    const lnt_layout_entry *e = &j->model->layout.entries[p.param];
    const size_t row = lnt_weight_row_bytes(p.storage, p.in);
    lnt_st_entry *entry = &j->entries[j->count];
    lnt_packed_name(e->name, p.part, j->names[j->count]);
    *entry = (lnt_st_entry){ .name = j->names[j->count],
                             .rank = 2,
                             .bytes = p.rows * row,
                             .shape = { (int64_t)p.rows, (int64_t)(is_block(p.storage) ? row : p.in) } };
    entry->dtype = p.storage == LNT_STORAGE_F32    ? LNT_ST_F32
                   : p.storage == LNT_STORAGE_F16  ? LNT_ST_F16
                   : p.storage == LNT_STORAGE_BF16 ? LNT_ST_BF16
                                                   : LNT_ST_U8;
    j->total += entry->bytes;
    j->pieces[j->count++] = p;
}

/* A matrix stays the parts that it is in, or becomes one. */
static void add_matrix(job *j, size_t i)
{
    const lnt_model *m = j->model;
    const lnt_weights weights = j->options->weights;
    const lnt_weight *w = m->packed ? &m->packed[i] : NULL;
    size_t out, in;
    lnt_model_extents(&m->config, &m->layout.entries[i], i, &out, &in);
    bool same = w || stays(weights, i, in, LNT_STORAGE_F32);
    for (size_t p = 0; w && p < w->part_count; p++) same &= stays(weights, i, in, w->parts[p].storage);
    j->report->matrices++;
    j->report->turned += !same;
    for (size_t p = 0; same && w && p < w->part_count; p++)
        add_piece(j, (piece){ i, p, w->parts[p].count, in, w->parts[p].storage, false });
    if (!same)
        add_piece(j, (piece){ i, 0, out, in, target(weights, i), true });
    else if (!w)
        add_piece(j, (piece){ i, 0, out, in, LNT_STORAGE_F32, true });
}

static void add_data(job *j, const char *name, const void *data, size_t bytes)
{
    j->entries[j->count++] = (lnt_st_entry){
        .name = name, .dtype = LNT_ST_U8, .rank = 1, .shape = { (int64_t)bytes }, .data = data, .bytes = bytes
    };
}

static void add_floats(job *j, const lnt_layout_entry *e)
{
    lnt_st_entry *entry = &j->entries[j->count++];
    *entry = (lnt_st_entry){ .name = e->name,
                             .dtype = LNT_ST_F32,
                             .rank = e->param.rank,
                             .data = j->model->weights + e->offset,
                             .bytes = e->count * sizeof(float) };
    for (int axis = 0; axis < e->param.rank; axis++) entry->shape[axis] = (int64_t)e->param.shape[axis];
}

static void add_entries(job *j)
{
    const lnt_model *m = j->model;
    for (size_t i = 0; i < m->layout.entry_count; i++)
        if (m->layout.entries[i].param.name && lnt_layout_packs(i)) add_matrix(j, i);
    j->piece_count = j->count;
    for (size_t i = 0; i < m->layout.entry_count; i++)
        if (m->layout.entries[i].count && !lnt_layout_packs(i)) add_floats(j, &m->layout.entries[i]);
    if (m->codec) add_data(j, m->codec_file.name, m->codec_file.data, m->codec_file.bytes);
    if (m->chat_template) add_data(j, LNT_PACKED_TEMPLATE, m->chat_template, m->chat_template_bytes);
}

/* ---- metadata -------------------------------------------------------------------------------- */

static void put_whole(lnt_json_text *out, const char *before, int64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    lnt_json_put(out, before);
    lnt_json_put(out, digits);
}

static void put_packed(const job *j, lnt_json_text *out)
{
    bool first = true;
    lnt_json_put(out, "{");
    for (size_t i = 0; i < j->piece_count; i++) {
        const piece *p = &j->pieces[i];
        if (!is_block(p->storage)) continue;
        lnt_json_put(out, first ? "" : ",");
        lnt_json_put_string(out, j->names[i]);
        lnt_json_put(out, ":[");
        lnt_json_put_string(out, lnt_storage_name(p->storage));
        put_whole(out, ",", (int64_t)p->rows);
        put_whole(out, ",", (int64_t)p->in);
        lnt_json_put(out, "]");
        first = false;
    }
    lnt_json_put(out, "}");
}

static void put_origin(const job *j, lnt_json_text *out)
{
    const lnt_model *m = j->model;
    lnt_json_put(out, "{\"architecture\":");
    lnt_json_put_string(out, m->architecture);
    put_whole(out, ",\"text_length\":", m->text_length);
    lnt_json_put(out, ",\"roles\":");
    for (int i = 0; i < LNT_ROLES; i++)
        put_whole(out, i ? "," : "[",
                  m->codec ? lnt_codec_role_token(m->codec, (lnt_codec_role)i) : LNT_NO_TOKEN);
    lnt_json_put(out, "],\"ends\":[");
    for (size_t i = 0; i < m->end_count; i++) put_whole(out, i ? "," : "", m->end[i]);
    lnt_json_put(out, m->labels.count ? "],\"labels\":" : "]");
    if (m->labels.count) lnt_labels_write(out, &m->labels);
    lnt_json_put(out, "}");
}

static void put_tokenizer(const job *j, lnt_json_text *out)
{
    lnt_tokenizer_write(out, &j->model->tokenizer);
}

/* A text of its own; the caller releases *bytes of it. */
static char *text_of(const job *j, void (*put)(const job *j, lnt_json_text *out), size_t *bytes)
{
    lnt_json_text text = { 0 };
    put(j, &text);
    *bytes = text.used + 1;
    char *out = lnt_allocate(j->model->ctx, *bytes, "the metadata of a model");
    if (!out) return NULL;
    text = (lnt_json_text){ out, *bytes - 1, 0 };
    put(j, &text);
    out[text.used] = '\0';
    return out;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Some rows at a time. */
typedef struct chunk {
    const piece *p;
    size_t first, rows, most, row_bytes; /* most: rows that there is room for */
    unsigned char *out;                  /* [most,row_bytes] */
    float *x, *y;                        /* [most,in]: as they were, and as they are in the file */
    double *wrong, *all;                 /* [most] */
    bool fits;
} chunk;

/* Row `row` of the whole matrix of a packed model, in numbers; raw [in] has room for it as it is stored. */
static void unpack_row(const lnt_weight *w, size_t row, void *raw, float *x)
{
    size_t p = 0;
    while (row - w->parts[p].first >= w->parts[p].count) p++;
    lnt_weight_store(w, p, row - w->parts[p].first, raw);
    lnt_storage_unpack(w->parts[p].storage, raw, x, w->in);
}

static void take_row(const lnt_model *m, const piece *p, size_t row, void *raw, float *x)
{
    const lnt_layout_entry *e = &m->layout.entries[p->param];
    if (m->packed) {
        unpack_row(&m->packed[p->param], row, raw, x);
        return;
    }
    const float *w = m->weights + e->offset;
    const bool table = p->param == LNT_PARAM_EMBED && m->config.input == LNT_INPUT_TOKENS;
    for (size_t k = 0; k < p->in; k++) x[k] = table ? w[row * p->in + k] : w[k * p->rows + row];
}

/* Row i of the chunk; false: it does not fit the storage. */
static bool make_row(const lnt_model *m, chunk *c, size_t i)
{
    const piece *p = c->p;
    unsigned char *out = c->out + i * c->row_bytes;
    if (!p->turned) {
        lnt_weight_store(&m->packed[p->param], p->part, c->first + i, out);
        return true;
    }
    float *x = c->x + i * p->in, *y = c->y + i * p->in;
    c->wrong[i] = c->all[i] = 0;
    take_row(m, p, c->first + i, y, x);
    if (!lnt_quantise(p->storage, x, out, p->in)) return false;
    lnt_storage_unpack(p->storage, out, y, p->in);
    for (size_t k = 0; k < p->in; k++) {
        const double was = (double)x[k], change = (double)y[k] - was;
        c->wrong[i] += change * change;
        c->all[i] += was * was;
    }
    return true;
}

static void make_rows(const lnt_model *m, chunk *c)
{
    const int threads = lnt_threads_for(m->ctx, (double)c->rows * (double)c->p->in * 4);
    bool fits = true;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(&& : fits)
    for (int64_t i = 0; i < (int64_t)c->rows; i++) fits = make_row(m, c, (size_t)i) && fits;
    c->fits = fits;
}

static void count_errors(job *j, const piece *p, double wrong, double all)
{
    lnt_save_report *r = j->report;
    const double error = all > 0 ? sqrt(wrong / all) : 0;
    j->wrong += wrong;
    j->all += all;
    r->error = j->all > 0 ? sqrt(j->wrong / j->all) : 0;
    if (!(error > r->worst_error)) return;
    r->worst_error = error;
    snprintf(r->worst, sizeof r->worst, "%s", j->model->layout.entries[p->param].name);
}

static lnt_status write_rows(job *j, chunk *c, lnt_st_sink *sink)
{
    const lnt_model *m = j->model;
    const piece *p = c->p;
    double wrong = 0, all = 0;
    for (c->first = 0; c->first < p->rows; c->first += c->rows) {
        c->rows = p->rows - c->first < c->most ? p->rows - c->first : c->most;
        make_rows(m, c);
        if (!c->fits)
            return lnt_fail(
                m->ctx, LNT_ERR_FORMAT,
                "model: %s has numbers that are not finite, or too large for %s; weights that are kept "
                "can be saved",
                m->layout.entries[p->param].name, lnt_storage_name(p->storage));
        for (size_t i = 0; p->turned && i < c->rows; i++) wrong += c->wrong[i], all += c->all[i];
        const lnt_status status = lnt_st_put(sink, c->out, c->rows * c->row_bytes);
        if (status) return status;
        j->done += c->rows * c->row_bytes;
        if (j->options->progress)
            j->options->progress(j->options->user, (double)j->done / (double)(j->total ? j->total : 1));
    }
    if (p->turned && (m->packed || p->storage != LNT_STORAGE_F32)) count_errors(j, p, wrong, all);
    return LNT_OK;
}

static lnt_status make_piece(void *user, size_t index, lnt_st_sink *sink)
{
    job *j = user;
    lnt_ctx *ctx = j->model->ctx;
    const piece *p = &j->pieces[index];
    chunk c = { .p = p, .row_bytes = lnt_weight_row_bytes(p->storage, p->in) };
    c.most = p->in < NUMBERS ? NUMBERS / p->in : 1;
    if (c.most > p->rows) c.most = p->rows;
    const size_t numbers = p->turned ? c.most * p->in : 0, sums = p->turned ? c.most : 0;
    c.out = lnt_allocate(ctx, c.most * c.row_bytes, "rows of a matrix");
    c.x = lnt_allocate(ctx, 2 * numbers * sizeof *c.x, "rows of a matrix");
    c.wrong = lnt_allocate(ctx, 2 * sums * sizeof *c.wrong, "the errors of rows");
    lnt_status status = c.out && c.x && c.wrong ? LNT_OK : LNT_ERR_MEMORY;
    if (!status) {
        c.y = c.x + numbers;
        c.all = c.wrong + sums;
        status = write_rows(j, &c, sink);
    }
    lnt_release(ctx, c.out, c.most * c.row_bytes);
    lnt_release(ctx, c.x, 2 * numbers * sizeof *c.x);
    lnt_release(ctx, c.wrong, 2 * sums * sizeof *c.wrong);
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Bytes by storage, the largest first. */
static void count_storages(const job *j)
{
    lnt_save_report *r = j->report;
    int64_t bytes[LNT_STORAGES] = { 0 };
    for (size_t i = 0; i < j->piece_count; i++) bytes[j->pieces[i].storage] += (int64_t)j->entries[i].bytes;
    for (size_t i = j->piece_count; i < j->count; i++)
        if (j->entries[i].dtype == LNT_ST_F32) bytes[LNT_STORAGE_F32] += (int64_t)j->entries[i].bytes;
    for (;;) {
        int most = 0;
        for (int s = 1; s < LNT_STORAGES; s++)
            if (bytes[s] > bytes[most]) most = s;
        if (!bytes[most]) return;
        r->storage[r->storages++] = (lnt_storage_share){ lnt_storage_name((lnt_storage)most), bytes[most] };
        bytes[most] = 0;
    }
}

static lnt_status open_job(job *j)
{
    const lnt_model *m = j->model;
    for (size_t i = 0; i < m->layout.entry_count; i++)
        j->room += m->packed && lnt_layout_packs(i) ? LNT_WEIGHT_PARTS : 1;
    j->room += 2;
    j->entries = lnt_allocate(m->ctx, j->room * sizeof *j->entries, "the tensors of a file");
    j->pieces = lnt_allocate(m->ctx, j->room * sizeof *j->pieces, "the matrices of a file");
    j->names = lnt_allocate(m->ctx, j->room * sizeof *j->names, "the names in a file");
    return j->entries && j->pieces && j->names ? LNT_OK : LNT_ERR_MEMORY;
}

static lnt_status write_file(job *j, const char *path)
{
    const lnt_model *m = j->model;
    size_t tokenizer_bytes = 0;
    char *tokenizer = NULL;
    add_entries(j);
    count_storages(j);
    j->packed = text_of(j, put_packed, &j->packed_bytes);
    j->origin = text_of(j, put_origin, &j->origin_bytes);
    tokenizer = text_of(j, put_tokenizer, &tokenizer_bytes);
    const lnt_st_meta meta[] = {
        { "format", LNT_PACKED_FORMAT }, { "task", m->task },        { "task_options", m->task_options },
        { "config", m->text },           { "tokenizer", tokenizer }, { "packed", j->packed },
        { "origin", j->origin }
    };
    const size_t own = sizeof meta / sizeof meta[0] - (m->architecture[0] ? 0 : 1);
    const lnt_status status =
        j->packed && j->origin && tokenizer
            ? lnt_safetensors_write_made(m->ctx, path, j->entries, j->count, meta, own, make_piece, j)
            : LNT_ERR_MEMORY;
    lnt_release(m->ctx, tokenizer, tokenizer_bytes);
    lnt_release(m->ctx, j->packed, j->packed_bytes);
    lnt_release(m->ctx, j->origin, j->origin_bytes);
    return status;
}

lnt_status lnt_packed_write(const lnt_model *model, const char *path, const lnt_save_options *options,
                            lnt_save_report *report)
{
    job j = { .model = model, .options = options, .report = report };
    if (model->codec && !model->codec_file.name)
        return lnt_fail(model->ctx, LNT_ERR_UNSUPPORTED,
                        "model: its tokenizer is of a file that cannot be put into a model's");
    lnt_status status = open_job(&j);
    if (!status) status = write_file(&j, path);
    lnt_release(model->ctx, j.entries, j.room * sizeof *j.entries);
    lnt_release(model->ctx, j.pieces, j.room * sizeof *j.pieces);
    lnt_release(model->ctx, j.names, j.room * sizeof *j.names);
    return status;
}
