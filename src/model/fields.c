/* model/fields.c - see fields.h. */
#include "model/fields.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "io/number.h"

enum { VALUE_TEXT = 48 }; /* of a value in a sentence */
enum { ITEM = sizeof(double) };
static_assert(sizeof(int64_t) == sizeof(double), "lists of whole and of real numbers have items of one size");

typedef struct location {
    lnt_ctx *ctx;
    const char *path, *section;
} location;

static const lnt_field *find(const lnt_field *table, const char *key)
{
    while (table->key && strcmp(table->key, key) != 0) table++;
    return table->key ? table : NULL;
}

static void join_keys(const lnt_field *table, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (const lnt_field *f = table; f->key && used < capacity; f++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", f == table ? "" : ", ",
                                 f->key);
}

static void join_choices(const lnt_field *f, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = f->first; f->choice(i) && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", i > f->first ? ", " : "",
                                 f->choice(i));
}

static lnt_status refuse(const location *at, const char *key, const char *problem)
{
    return lnt_fail(at->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": %s%s%s %s", at->path,
                    at->section ? at->section : "", at->section ? "." : "", key, problem);
}

static lnt_status read_number(const location *at, const lnt_field *f, const lnt_json_node *node,
                              char *into)
{
    char problem[160];
    const bool whole = f->kind == LNT_FIELD_WHOLE;
    if (node->type != LNT_JSON_INTEGER && (whole || node->type != LNT_JSON_REAL))
        return refuse(at, f->key, whole ? "must be a whole number" : "must be a number");
    if (!(node->real >= f->least && node->real <= f->most)) {
        snprintf(problem, sizeof problem, "is %.15g, must be %.15g to %.15g", node->real, f->least,
                 f->most);
        return refuse(at, f->key, problem);
    }
    const double real = node->real + 0.0; /* -0 is 0 */
    if (whole) memcpy(into + f->offset, &node->integer, sizeof node->integer);
    else memcpy(into + f->offset, &real, sizeof real);
    return LNT_OK;
}

static lnt_status read_choice(const location *at, const lnt_field *f, const lnt_json_node *node,
                              char *into)
{
    char words[160], problem[280];
    for (int i = f->first; node->type == LNT_JSON_STRING && f->choice(i); i++)
        if (!strcmp(f->choice(i), node->text)) {
            memcpy(into + f->offset, &i, sizeof i);
            return LNT_OK;
        }
    join_choices(f, words, sizeof words);
    snprintf(problem, sizeof problem, "is %s%.40s%s, must be one of %s",
             node->type == LNT_JSON_STRING ? "'" : "",
             node->type == LNT_JSON_STRING ? node->text : "no string",
             node->type == LNT_JSON_STRING ? "'" : "", words);
    return refuse(at, f->key, problem);
}

static lnt_status read_list(const location *at, const lnt_field *f, const lnt_json_node *node, char *into)
{
    char problem[80];
    int64_t count = 0;
    const bool wholes = f->kind == LNT_FIELD_WHOLES;
    snprintf(problem, sizeof problem, "must be a list of 1 to %.0f %snumbers", f->most,
             wholes ? "whole " : "");
    if (node->type != LNT_JSON_ARRAY || node->count < 1 || (double)node->count > f->most)
        return refuse(at, f->key, problem);
    for (const lnt_json_node *c = node->child; c; c = c->next, count++) {
        if ((c->type != LNT_JSON_INTEGER && (wholes || c->type != LNT_JSON_REAL)) || !isfinite(c->real))
            return refuse(at, f->key, problem);
        const double real = c->real + 0.0;
        memcpy(into + f->offset + (size_t)count * ITEM, wholes ? (const void *)&c->integer : &real, ITEM);
    }
    memcpy(into + f->count, &count, sizeof count);
    return LNT_OK;
}

static lnt_status read_words(const location *at, const lnt_field *f, const lnt_json_node *node,
                             char *into)
{
    char words[160], problem[200];
    int bits = 0;
    bool good = node->type == LNT_JSON_ARRAY;
    for (const lnt_json_node *c = good ? node->child : NULL; c; c = c->next) {
        int i = 0;
        while (c->type == LNT_JSON_STRING && f->choice(i) && strcmp(f->choice(i), c->text) != 0) i++;
        good = good && c->type == LNT_JSON_STRING && f->choice(i);
        if (good) bits |= 1 << i;
    }
    join_choices(f, words, sizeof words);
    snprintf(problem, sizeof problem, "must be a list of some of %s", words);
    if (!good) return refuse(at, f->key, problem);
    memcpy(into + f->offset, &bits, sizeof bits);
    return LNT_OK;
}

static lnt_status read_field(const location *at, const lnt_field *f, const lnt_json_node *node,
                             char *into)
{
    const int flag = (node->type == LNT_JSON_TRUE) != (f->kind == LNT_FIELD_INVERTED_FLAG);
    switch (f->kind) {
    case LNT_FIELD_WHOLE:
    case LNT_FIELD_REAL: return read_number(at, f, node, into);
    case LNT_FIELD_CHOICE: return read_choice(at, f, node, into);
    case LNT_FIELD_WHOLES:
    case LNT_FIELD_REALS: return read_list(at, f, node, into);
    case LNT_FIELD_WORDS: return read_words(at, f, node, into);
    case LNT_FIELD_OBJECT:
        return node->type == LNT_JSON_OBJECT ? LNT_OK : refuse(at, f->key, "must be an object");
    case LNT_FIELD_LIST:
        return node->type == LNT_JSON_ARRAY ? LNT_OK : refuse(at, f->key, "must be a list");
    case LNT_FIELD_FLAG:
    case LNT_FIELD_INVERTED_FLAG: break;
    }
    if (node->type != LNT_JSON_TRUE && node->type != LNT_JSON_FALSE)
        return refuse(at, f->key, "must be true or false");
    memcpy(into + f->offset, &flag, sizeof flag);
    return LNT_OK;
}

lnt_status lnt_fields_read(lnt_ctx *ctx, const char *path, const char *section,
                           const lnt_json_node *object, const lnt_field *table, void *into)
{
    const location at = { ctx, path, section };
    const char *name = section ? section : "the config";
    char keys[600];
    if (!object) return LNT_OK;
    if (object->type != LNT_JSON_OBJECT)
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": %s must be an object", path, name);
    for (const lnt_json_node *node = object->child; node; node = node->next) {
        const lnt_field *f = find(table, node->key);
        if (!f) {
            join_keys(table, keys, sizeof keys);
            return lnt_fail(ctx, LNT_ERR_FORMAT,
                            LNT_FILE_FMT ": %s has an unknown key '%.40s'; it takes %s", path, name,
                            node->key, keys);
        }
        const lnt_status status = read_field(&at, f, node, into);
        if (status) return status;
    }
    return LNT_OK;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool is_list(const lnt_field *f) { return f->kind == LNT_FIELD_REALS || f->kind == LNT_FIELD_WHOLES; }

static size_t bytes_of(const lnt_field *f)
{
    switch (f->kind) {
    case LNT_FIELD_WHOLE: return sizeof(int64_t);
    case LNT_FIELD_REAL: return sizeof(double);
    case LNT_FIELD_WHOLES:
    case LNT_FIELD_REALS: return (size_t)f->most * ITEM;
    case LNT_FIELD_FLAG:
    case LNT_FIELD_INVERTED_FLAG:
    case LNT_FIELD_WORDS:
    case LNT_FIELD_CHOICE: return sizeof(int);
    case LNT_FIELD_OBJECT:
    case LNT_FIELD_LIST: break;
    }
    return 0;
}

bool lnt_field_same(const lnt_field *f, const void *a, const void *b)
{
    const char *x = a, *y = b;
    int64_t count[2];
    if (!is_list(f)) return !memcmp(x + f->offset, y + f->offset, bytes_of(f));
    memcpy(&count[0], x + f->count, sizeof count[0]);
    memcpy(&count[1], y + f->count, sizeof count[1]);
    return count[0] == count[1] &&
           !memcmp(x + f->offset, y + f->offset, (size_t)count[0] * ITEM);
}

bool lnt_fields_same(const lnt_field *table, const void *a, const void *b)
{
    while (table->key && lnt_field_same(table, a, b)) table++;
    return !table->key;
}

void lnt_field_copy(const lnt_field *f, void *to, const void *from)
{
    memcpy((char *)to + f->offset, (const char *)from + f->offset, bytes_of(f));
    if (is_list(f))
        memcpy((char *)to + f->count, (const char *)from + f->count, sizeof(int64_t));
}

/* ---- writing ------------------------------------------------------------------------------- */

/* 15 digits where they are enough to read the same number back: 0.1 stays 0.1. */
static void put_real(lnt_json_text *out, double value)
{
    char text[LNT_NUMBER_TEXT];
    lnt_number_write(value, 15, text);
    if (lnt_number_read(text) != value) lnt_number_write(value, 17, text);
    lnt_json_put(out, text);
}

static void put_whole(lnt_json_text *out, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    lnt_json_put(out, text);
}

static void put_list(lnt_json_text *out, const lnt_field *f, const char *from)
{
    int64_t count, whole;
    memcpy(&count, from + f->count, sizeof count);
    lnt_json_put(out, "[");
    for (int64_t i = 0; i < count; i++) {
        double value;
        memcpy(&value, from + f->offset + (size_t)i * ITEM, ITEM);
        memcpy(&whole, from + f->offset + (size_t)i * ITEM, ITEM);
        if (i) lnt_json_put(out, ",");
        if (f->kind == LNT_FIELD_WHOLES) put_whole(out, whole);
        else put_real(out, value);
    }
    lnt_json_put(out, "]");
}

static void put_words(lnt_json_text *out, const lnt_field *f, int bits)
{
    bool first = true;
    lnt_json_put(out, "[");
    for (int i = 0; f->choice(i); i++) {
        if (!(bits >> i & 1)) continue;
        if (!first) lnt_json_put(out, ",");
        first = false;
        lnt_json_put_string(out, f->choice(i));
    }
    lnt_json_put(out, "]");
}

/* Whether the field has a value that can be written. */
static bool has_value(const lnt_field *f, const char *from)
{
    double real;
    int64_t count;
    int words;
    memcpy(&words, from + f->offset, f->kind == LNT_FIELD_WORDS ? sizeof words : 0);
    memcpy(&real, from + f->offset, f->kind == LNT_FIELD_REAL ? sizeof real : 0);
    memcpy(&count, from + f->count, is_list(f) ? sizeof count : 0);
    return !(f->kind == LNT_FIELD_OBJECT || f->kind == LNT_FIELD_LIST ||
             (f->kind == LNT_FIELD_REAL && isnan(real)) ||
             (f->kind == LNT_FIELD_WORDS && words < 0) || (is_list(f) && count == 0));
}

static void put_value(lnt_json_text *out, const lnt_field *f, const char *from)
{
    int64_t whole;
    double real;
    int index;
    switch (f->kind) {
    case LNT_FIELD_WHOLE:
        memcpy(&whole, from + f->offset, sizeof whole);
        put_whole(out, whole);
        break;
    case LNT_FIELD_REAL:
        memcpy(&real, from + f->offset, sizeof real);
        put_real(out, real);
        break;
    case LNT_FIELD_FLAG:
    case LNT_FIELD_INVERTED_FLAG:
        memcpy(&index, from + f->offset, sizeof index);
        lnt_json_put(out, !index == (f->kind == LNT_FIELD_INVERTED_FLAG) ? "true" : "false");
        break;
    case LNT_FIELD_CHOICE:
        memcpy(&index, from + f->offset, sizeof index);
        lnt_json_put_string(out, f->choice(index));
        break;
    case LNT_FIELD_WORDS:
        memcpy(&index, from + f->offset, sizeof index);
        put_words(out, f, index);
        break;
    case LNT_FIELD_WHOLES:
    case LNT_FIELD_REALS: put_list(out, f, from); break;
    case LNT_FIELD_OBJECT:
    case LNT_FIELD_LIST: break;
    }
}

/* Leaves out what is as in plain: quiet fields, or all. */
static void write_fields(lnt_json_text *out, const lnt_field *table, const void *from, const void *plain,
                         bool all)
{
    bool first = true;
    lnt_json_put(out, "{");
    for (const lnt_field *f = table; f->key; f++) {
        const bool spoken = !plain || !(all || f->quiet) || !lnt_field_same(f, from, plain);
        if (!has_value(f, from) || !spoken) continue;
        if (!first) lnt_json_put(out, ",");
        first = false;
        lnt_json_put_string(out, f->key);
        lnt_json_put(out, ":");
        put_value(out, f, from);
    }
}

void lnt_fields_write(lnt_json_text *out, const lnt_field *table, const void *from, const void *plain,
                      bool open)
{
    write_fields(out, table, from, plain, false);
    if (!open) lnt_json_put(out, "}");
}

void lnt_fields_write_changes(lnt_json_text *out, const lnt_field *table, const void *from,
                              const void *plain)
{
    write_fields(out, table, from, plain, true);
    lnt_json_put(out, "}");
}

/* The value alone, as far as there is room. */
static const char *value_text(const lnt_field *f, const void *from, char out[VALUE_TEXT])
{
    lnt_json_text text = { out, VALUE_TEXT - 1, 0 };
    memset(out, 0, VALUE_TEXT);
    if (has_value(f, from)) put_value(&text, f, from);
    else lnt_json_put(&text, "not given");
    return out;
}

lnt_status lnt_fields_check_same(lnt_ctx *ctx, const char *path, const char *section, const lnt_field *table,
                             const void *said, const void *wanted)
{
    const location at = { ctx, path, section };
    char is[VALUE_TEXT], must[VALUE_TEXT], problem[2 * VALUE_TEXT + 16];
    const lnt_field *f = table;
    while (f->key && lnt_field_same(f, said, wanted)) f++;
    if (!f->key) return LNT_OK;
    snprintf(problem, sizeof problem, "is %s, must be %s", value_text(f, said, is),
             value_text(f, wanted, must));
    return refuse(&at, f->key, problem);
}

void lnt_fields_print(char *out, size_t capacity, const lnt_field *table, const void *from)
{
    lnt_json_text text = { out, capacity - 1, 0 };
    lnt_fields_write(&text, table, from, NULL, false);
    assert(text.used < capacity);
    out[text.used] = '\0';
}
