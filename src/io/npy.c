/* io/npy.c - arrays in the .npy format of NumPy.
 *
 *     "\x93NUMPY", major, minor, length of the header (2 bytes in version 1, 4 in 2 and 3),
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, spaces, newline, the elements
 *
 * Read: versions 1.0, 2.0, 3.0, floating point of 2, 4 or 8 bytes, either byte order, C or Fortran order;
 * masks may be booleans; tokens are
 * integers of 4 or 8 bytes.
 * Written: 1.0, little-endian, C order, with the elements at a multiple of 64 bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/dtype.h"
#include "io/file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "'<' and '=' are taken to be native");

enum {
    MAX_RANK = 4,
    MAX_HEADER = 1 << 20, /* bytes; what the three keys need is far below */
    DATA_ALIGN = 64,
    BLOCK_BYTES = 1 << 14, /* elements are converted this much at a time */
    DTYPE_TEXT = 32
};

static const char magic[6] = "\x93NUMPY";

static bool array_bytes(const lnt_array *a, size_t *bytes)
{
    return lnt_shape_bytes(lnt_dtype_size(a->dtype), a->shape, a->rank, bytes);
}

/* ---- the header: a Python dict of exactly three keys --------------------------------------- */

typedef enum content { FLOATS, MASKS, TOKENS } content;

typedef struct header {
    lnt_array array; /* dtype, rank and shape of the file; no data yet */
    bool swapped, fortran;
    bool boolean; /* a byte each in the file; the array is of f16 */
} header;

typedef struct cursor {
    lnt_ctx *ctx;
    const char *path;
    const char *text, *at; /* text ends in NUL, which nothing we accept contains */
    content wanted;        /* of masks booleans are taken too; tokens are read as if they were floats */
} cursor;

static lnt_status broken(const cursor *c, const char *reason)
{
    return lnt_fail(c->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": .npy header, byte %td: %s", c->path,
                    c->at - c->text, reason);
}

static void skip_space(cursor *c) { c->at += strspn(c->at, " \t\n\r\f"); }

/* Steps over `token` and the space around it. */
static bool accept(cursor *c, const char *token)
{
    const size_t n = strlen(token);
    skip_space(c);
    if (strncmp(c->at, token, n) != 0) return false;
    c->at += n;
    skip_space(c);
    return true;
}

/* A string in either quote, of printable ASCII without escapes. */
static lnt_status parse_string(cursor *c, char *out, size_t capacity)
{
    skip_space(c);
    const char quote = *c->at;
    if (quote != '\'' && quote != '"') return broken(c, "expected a string");
    size_t n = 0;
    for (c->at++; *c->at != quote; c->at++) {
        if (*c->at < ' ' || *c->at > '~' || *c->at == '\\')
            return broken(c, "a string that does not end, or is not plain ASCII");
        if (n + 1 == capacity) return broken(c, "a string too long");
        out[n++] = *c->at;
    }
    out[n] = 0;
    c->at++;
    return LNT_OK;
}

static lnt_status parse_descr(cursor *c, header *h)
{
    static const struct {
        const char *text;
        lnt_dtype dtype;
    } known[] = { { "f2", LNT_F16 }, { "f4", LNT_F32 }, { "f8", LNT_F64 },
                  { "i4", LNT_F32 }, { "i8", LNT_F64 } };
    char text[DTYPE_TEXT];
    skip_space(c);
    if (*c->at == '[' || *c->at == '(') {
        snprintf(text, sizeof text, "a structure");
    } else {
        const lnt_status status = parse_string(c, text, sizeof text);
        if (status) return status;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
            if ((known[i].text[0] == 'i') != (c->wanted == TOKENS)) continue;
            if (!text[0] || !strchr("<>=", text[0]) || strcmp(text + 1, known[i].text) != 0)
                continue;
            h->array.dtype = known[i].dtype;
            h->swapped = text[0] == '>';
            return LNT_OK;
        }
        h->boolean = c->wanted == MASKS && !strcmp(text, "|b1");
        h->array.dtype = LNT_F16;
        if (h->boolean) return LNT_OK;
    }
    return lnt_fail(c->ctx, LNT_ERR_DTYPE,
                    LNT_FILE_FMT ": dtype is %s, must be %s in byte order <, > or =", c->path, text,
                    c->wanted == TOKENS  ? "i4 or i8"
                    : c->wanted == MASKS ? "b1, f2, f4 or f8"
                                         : "f2, f4 or f8");
}

static lnt_status parse_fortran(cursor *c, header *h)
{
    h->fortran = accept(c, "True");
    return h->fortran || accept(c, "False") ? LNT_OK : broken(c, "expected True or False");
}

static lnt_status parse_extent(cursor *c, int64_t *out)
{
    const char *first = c->at;
    *out = 0;
    for (; *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, *c->at - '0', out))
            return broken(c, "an extent that does not fit 64 bits");
    if (c->at == first || (*first == '0' && c->at > first + 1))
        return broken(c, "an extent must be a plain number from 0");
    return LNT_OK;
}

static lnt_status parse_shape(cursor *c, header *h)
{
    lnt_array *a = &h->array;
    if (!accept(c, "(")) return broken(c, "expected '(': shape must be a tuple");
    bool comma = true; /* between extents, and needed after a single one */
    while (!accept(c, ")")) {
        if (!comma) return broken(c, "expected ',' or ')' in the shape");
        if (a->rank == MAX_RANK) return broken(c, "the shape has more than 4 extents");
        const lnt_status status = parse_extent(c, &a->shape[a->rank++]);
        if (status) return status;
        comma = accept(c, ",");
    }
    return a->rank == 1 && !comma ? broken(c, "a shape of one extent is written (n,)") : LNT_OK;
}

static lnt_status parse_header(cursor *c, header *h)
{
    static const struct {
        const char *key;
        lnt_status (*parse)(cursor *c, header *h);
    } fields[] = { { "descr", parse_descr },
                   { "fortran_order", parse_fortran },
                   { "shape", parse_shape } };
    enum { FIELDS = sizeof fields / sizeof fields[0] };
    bool seen[FIELDS] = { false }, comma = true;
    if (!accept(c, "{")) return broken(c, "expected '{'");
    while (!accept(c, "}")) {
        char key[DTYPE_TEXT];
        if (!comma) return broken(c, "expected ',' or '}'");
        lnt_status status = parse_string(c, key, sizeof key);
        if (status) return status;
        size_t i = 0;
        while (i < FIELDS && strcmp(key, fields[i].key) != 0) i++;
        if (i == FIELDS || seen[i])
            return broken(c, "keys must be descr, fortran_order and shape, each once");
        seen[i] = true;
        if (!accept(c, ":")) return broken(c, "expected ':'");
        if ((status = fields[i].parse(c, h))) return status;
        comma = accept(c, ",");
    }
    for (size_t i = 0; i < FIELDS; i++)
        if (!seen[i]) return broken(c, "keys must be descr, fortran_order and shape, each once");
    return LNT_OK;
}

/* ---- reading ------------------------------------------------------------------------------- */

static lnt_status not_npy(const lnt_file_reader *file, const char *reason)
{
    return lnt_fail(file->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": not a .npy file: %s", file->path,
                    reason);
}

/* Steps over what comes before the header's text: its length. */
static lnt_status read_prefix(lnt_file_reader *file, size_t *length)
{
    unsigned char prefix[8], size[4];
    if (file->size < sizeof prefix) return not_npy(file, "it is too short");
    lnt_status status = lnt_file_read(file, prefix, sizeof prefix);
    if (status) return status;
    if (memcmp(prefix, magic, sizeof magic) != 0) return not_npy(file, "the first bytes are wrong");
    if (prefix[6] < 1 || prefix[6] > 3 || prefix[7] != 0)
        return lnt_fail(file->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": .npy version %d.%d, must be 1.0, 2.0 or 3.0", file->path,
                        prefix[6], prefix[7]);
    const size_t size_bytes = prefix[6] == 1 ? 2 : 4;
    if (file->size - file->offset < size_bytes) return not_npy(file, "it is too short");
    if ((status = lnt_file_read(file, size, size_bytes))) return status;
    *length = 0;
    for (size_t i = size_bytes; i--;) *length = *length << 8 | size[i];
    if (*length > MAX_HEADER || *length > file->size - file->offset)
        return lnt_fail(file->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": the .npy header is said to have %zu bytes, the file has "
                                     "%" PRIu64 " and %d are allowed",
                        file->path, *length, file->size, MAX_HEADER);
    return LNT_OK;
}

static lnt_status read_header(lnt_file_reader *file, content wanted, header *h)
{
    size_t length = 0;
    lnt_status status = read_prefix(file, &length);
    if (status) return status;
    char *text = lnt_allocate(file->ctx, length + 1, "a .npy header");
    if (!text) return LNT_ERR_MEMORY;
    status = lnt_file_read(file, text, length);
    text[length] = 0;
    cursor c = { .ctx = file->ctx, .path = file->path, .text = text, .at = text, .wanted = wanted };
    if (!status) status = parse_header(&c, h);
    if (!status && c.at != text + length) status = broken(&c, "more text after the dict");
    lnt_release(file->ctx, text, length + 1);
    return status;
}

/* The file has the first index fastest; `into` gets the last one fastest.  Elements of `size` bytes. */
static lnt_status read_fortran(lnt_file_reader *file, const lnt_array *a, size_t size, size_t bytes,
                               char *into)
{
    char block[BLOCK_BYTES];
    size_t stride[MAX_RANK], offset = 0; /* in bytes */
    int64_t index[MAX_RANK] = { 0 };
    for (int i = a->rank - 1; i >= 0; i--)
        stride[i] = i == a->rank - 1 ? size : stride[i + 1] * (size_t)a->shape[i + 1];
    for (size_t done = 0; done < bytes;) {
        const size_t now = bytes - done < sizeof block ? bytes - done : sizeof block;
        const lnt_status status = lnt_file_read(file, block, now);
        if (status) return status;
        for (const char *from = block; from < block + now; from += size) {
            memcpy(into + offset, from, size);
            for (int i = 0; i < a->rank; i++) {
                offset += stride[i];
                if (++index[i] < a->shape[i]) break;
                offset -= stride[i] * (size_t)index[i];
                index[i] = 0;
            }
        }
        done += now;
    }
    return LNT_OK;
}

static void swap_bytes(char *data, size_t bytes, size_t size)
{
    for (char *e = data; e < data + bytes; e += size)
        for (size_t i = 0; i < size / 2; i++) {
            const char kept = e[i];
            e[i] = e[size - 1 - i];
            e[size - 1 - i] = kept;
        }
}

/* count booleans in the second half of data become numbers of f16 in all of it. */
static void spread_booleans(char *data, size_t count)
{
    static const uint16_t seen = 0, hidden = 0xfc00; /* 0 and -inf */
    for (size_t i = 0; i < count; i++) memcpy(data + 2 * i, data[count + i] ? &seen : &hidden, 2);
}

static lnt_status read_array(lnt_file_reader *file, content wanted, lnt_array *out)
{
    header h = { 0 };
    size_t room, bytes;
    lnt_status status = read_header(file, wanted, &h);
    if (status) return status;
    const uint64_t left = file->size - file->offset;
    if (!array_bytes(&h.array, &room))
        return lnt_fail(file->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": the shape is of more bytes than memory can address",
                        file->path);
    bytes = h.boolean ? room / 2 : room;
    if (bytes != left)
        return lnt_fail(file->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": %" PRIu64 " bytes of elements, the shape needs %zu",
                        file->path, left, bytes);
    char *data = lnt_allocate(file->ctx, room, "the elements of a .npy file");
    if (!data) return LNT_ERR_MEMORY;
    char *const into = data + (room - bytes);
    status = h.fortran && h.array.rank > 1
                 ? read_fortran(file, &h.array, h.boolean ? 1 : lnt_dtype_size(h.array.dtype), bytes, into)
                 : lnt_file_read(file, into, bytes);
    if (status) {
        lnt_release(file->ctx, data, room);
        return status;
    }
    if (h.boolean) spread_booleans(data, bytes);
    if (h.swapped) swap_bytes(data, bytes, lnt_dtype_size(h.array.dtype));
    *out = h.array;
    out->data = data;
    return LNT_OK;
}

static lnt_status read_file(lnt_ctx *ctx, const char *path, content wanted, lnt_array *out)
{
    if (out) *out = (lnt_array){ 0 };
    if (!ctx || !path || !out)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "npy read: %s is NULL",
                        !ctx ? "ctx" : !path ? "path" : "out");
    lnt_file_reader file;
    lnt_status status = lnt_file_open(ctx, path, &file);
    if (!status) status = read_array(&file, wanted, out);
    lnt_file_close(&file);
    return status;
}

lnt_status lnt_npy_read(lnt_ctx *ctx, const char *path, lnt_array *out)
{
    return read_file(ctx, path, FLOATS, out);
}

lnt_status lnt_npy_read_mask(lnt_ctx *ctx, const char *path, lnt_array *out)
{
    return read_file(ctx, path, MASKS, out);
}

static size_t count_of(int rank, const int64_t *shape)
{
    size_t count = 1;
    for (int i = 0; i < rank; i++) count *= (size_t)shape[i];
    return count;
}

/* The integers of `from`, 4 or 8 bytes each. */
static lnt_status take_tokens(lnt_ctx *ctx, const char *path, const lnt_array *from, int32_t *tokens)
{
    const size_t count = count_of(from->rank, from->shape);
    for (size_t i = 0; i < count; i++) {
        int64_t wide;
        if (from->dtype == LNT_F32) {
            memcpy(tokens + i, (const char *)from->data + i * sizeof *tokens, sizeof *tokens);
            continue;
        }
        memcpy(&wide, (const char *)from->data + i * sizeof wide, sizeof wide);
        if (wide < INT32_MIN || wide > INT32_MAX)
            return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": element %zu is %" PRId64 ", no token", path,
                            i, wide);
        tokens[i] = (int32_t)wide;
    }
    return LNT_OK;
}

lnt_status lnt_npy_read_tokens(lnt_ctx *ctx, const char *path, int32_t **tokens, int *rank, int64_t shape[4])
{
    lnt_array array;
    if (!tokens || !rank || !shape)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "npy read: tokens, rank and shape must not be NULL");
    *tokens = NULL;
    *rank = 0;
    lnt_status status = read_file(ctx, path, TOKENS, &array);
    if (status) return status;
    const size_t bytes = count_of(array.rank, array.shape) * sizeof **tokens;
    *tokens = lnt_allocate(ctx, bytes, "tokens");
    status = *tokens ? take_tokens(ctx, path, &array, *tokens) : LNT_ERR_MEMORY;
    if (status) {
        lnt_release(ctx, *tokens, bytes);
        *tokens = NULL;
    } else {
        *rank = array.rank;
        memcpy(shape, array.shape, sizeof array.shape);
    }
    lnt_array_free(ctx, &array);
    return status;
}

void lnt_tokens_release(lnt_ctx *ctx, int32_t *tokens, int rank, const int64_t shape[4])
{
    if (ctx && tokens) lnt_release(ctx, tokens, count_of(rank, shape) * sizeof *tokens);
}

void lnt_array_free(lnt_ctx *ctx, lnt_array *array)
{
    size_t bytes;
    if (!ctx || !array) return;
    if (array->data && array_bytes(array, &bytes)) lnt_release(ctx, array->data, bytes);
    *array = (lnt_array){ 0 };
}

/* ---- writing ------------------------------------------------------------------------------- */

static lnt_status check_array(lnt_ctx *ctx, const lnt_array *a, size_t *bytes)
{
    if (!lnt_dtype_size(a->dtype))
        return lnt_fail(ctx, LNT_ERR_DTYPE, "npy write: dtype %d is none of f32, f16, bf16, f64",
                        (int)a->dtype);
    if (a->rank < 0 || a->rank > MAX_RANK)
        return lnt_fail(ctx, LNT_ERR_SHAPE, "npy write: rank is %d, must be 0 to %d", a->rank,
                        MAX_RANK);
    for (int i = 0; i < a->rank; i++)
        if (a->shape[i] < 0)
            return lnt_fail(ctx, LNT_ERR_SHAPE,
                            "npy write: extent %d is %" PRId64 ", must not be negative", i,
                            a->shape[i]);
    if (!array_bytes(a, bytes))
        return lnt_fail(ctx, LNT_ERR_SHAPE,
                        "npy write: the shape is of more bytes than memory can address");
    if (*bytes && !a->data)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "npy write: data is NULL but the shape is not empty");
    return LNT_OK;
}

static lnt_status write_header(lnt_file_writer *file, const lnt_array *a)
{
    /* Version 1.0: magic, 1, 0, two bytes of length, and a text that the four longest extents leave
     * below 192 bytes. */
    enum { PREFIX = 10, ROOM = 192 };
    const size_t size = a->dtype == LNT_BF16 ? 4 : lnt_dtype_size(a->dtype);
    char bytes[ROOM];
    memcpy(bytes, magic, sizeof magic);
    int n = PREFIX;
    n += snprintf(bytes + n, sizeof bytes - PREFIX,
                  "{'descr': '<f%zu', 'fortran_order': False, 'shape': (", size);
    for (int i = 0; i < a->rank; i++)
        n += snprintf(bytes + n, ROOM - (size_t)n, "%s%" PRId64 "%s", i ? " " : "", a->shape[i],
                      i + 1 < a->rank || a->rank == 1 ? "," : "");
    n += snprintf(bytes + n, ROOM - (size_t)n, "), }");
    while ((n + 1) % DATA_ALIGN) bytes[n++] = ' ';
    bytes[n++] = '\n';
    bytes[6] = 1;
    bytes[7] = 0;
    bytes[8] = (char)((n - PREFIX) & 0xff);
    bytes[9] = (char)((n - PREFIX) >> 8);
    return lnt_file_write(file, bytes, (size_t)n);
}

static lnt_status write_bf16(lnt_file_writer *file, const uint16_t *data, size_t count)
{
    float block[BLOCK_BYTES / sizeof(float)];
    enum { ROOM = sizeof block / sizeof block[0] };
    while (count) {
        const size_t now = count < ROOM ? count : ROOM;
        for (size_t i = 0; i < now; i++) block[i] = lnt_bf16_to_float(data[i]);
        const lnt_status status = lnt_file_write(file, block, now * sizeof block[0]);
        if (status) return status;
        data += now;
        count -= now;
    }
    return LNT_OK;
}

lnt_status lnt_npy_write(lnt_ctx *ctx, const char *path, const lnt_array *array)
{
    if (!ctx || !path || !array)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "npy write: %s is NULL",
                        !ctx ? "ctx" : !path ? "path" : "array");
    size_t bytes = 0;
    lnt_file_writer file;
    lnt_status status = check_array(ctx, array, &bytes);
    if (status) return status;
    status = lnt_file_create(ctx, path, &file);
    if (!status) status = write_header(&file, array);
    if (!status)
        status = array->dtype == LNT_BF16 ? write_bf16(&file, array->data, bytes / 2)
                                          : lnt_file_write(&file, array->data, bytes);
    return status ? status : lnt_file_commit(&file);
}
