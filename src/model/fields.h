/* model/fields.h - a table that reads an object of a JSON document into a struct and writes it back.
 *
 * An unknown key or a value of the wrong kind or out of bounds gives LNT_ERR_FORMAT and a sentence that names
 * the file, the key, the value and what is allowed. */
#ifndef LNT_MODEL_FIELDS_H
#define LNT_MODEL_FIELDS_H

#include "io/json.h"

typedef enum lnt_field_kind {
    LNT_FIELD_WHOLE,  /* int64_t, least .. most */
    LNT_FIELD_REAL,   /* double, least .. most */
    LNT_FIELD_FLAG,   /* int, from true or false */
    LNT_FIELD_INVERTED_FLAG, /* int, 0 where the document says true */
    LNT_FIELD_CHOICE, /* int, the index of a word */
    LNT_FIELD_WORDS,  /* int, a bit for the index of each word of a list; negative: not said */
    LNT_FIELD_REALS,  /* double[], as many as `most` at the most; how many in an int64_t at `count` */
    LNT_FIELD_WHOLES, /* the same of int64_t[] */
    LNT_FIELD_OBJECT, /* another table, or somebody else's business: not read here */
    LNT_FIELD_LIST    /* the same of a list */
} lnt_field_kind;

typedef struct lnt_field {
    const char *key; /* NULL ends the table */
    lnt_field_kind kind;
    size_t offset;
    double least, most;
    const char *(*choice)(int index); /* NULL past the last */
    int first;                        /* of a choice, the index of the first word that may be chosen */
    size_t count;
    int only; /* for a table's owner: what its key is for, as bits; 0: everything */
    bool quiet; /* not written where it is as in the defaults */
} lnt_field;

/* Of a struct's member of the same name. */
#define LNT_WHOLE_FIELD(type, k, low, high)                                                           \
    { .key = #k, .kind = LNT_FIELD_WHOLE, .offset = offsetof(type, k), .least = low, .most = high }
#define LNT_REAL_FIELD(type, k, low, high)                                                            \
    { .key = #k, .kind = LNT_FIELD_REAL, .offset = offsetof(type, k), .least = low, .most = high }
#define LNT_CHOICE_FIELD(type, k, words) \
    { .key = #k, .kind = LNT_FIELD_CHOICE, .offset = offsetof(type, k), .choice = words }

/* A function that gives a choice its words. */
#define LNT_WORDS(name, ...)                                                                          \
    static const char *name(int index)                                                                \
    {                                                                                                 \
        static const char *const words[] = { __VA_ARGS__ };                                           \
        return index >= 0 && index < (int)(sizeof words / sizeof words[0]) ? words[index] : NULL;     \
    }

/* `section` names the object in sentences: "model"; NULL: it is the config itself.  Keys
 * that are absent leave the struct as it is; object NULL: all are. */
lnt_status lnt_fields_read(lnt_ctx *ctx, const char *path, const char *section,
                           const lnt_json_node *object, const lnt_field *table, void *into);

/* Compares, or copies, one field of two structs. */
bool lnt_field_same(const lnt_field *field, const void *a, const void *b);
void lnt_field_copy(const lnt_field *field, void *to, const void *from);

bool lnt_fields_same(const lnt_field *table, const void *a, const void *b); /* in all of them */

/* Refuses a struct that differs from `wanted` in any field; objects are not compared. */
lnt_status lnt_fields_check_same(lnt_ctx *ctx, const char *path, const char *section, const lnt_field *table,
                             const void *said, const void *wanted);

/* {"key":value,...} of all fields but objects and, unless plain is NULL, quiet ones that are as there; NaN
 * left out.  `open` leaves the last brace to the caller. */
void lnt_fields_write(lnt_json_text *out, const lnt_field *table, const void *from, const void *plain,
                      bool open);
/* Of all that is not as in plain, ended. */
void lnt_fields_write_changes(lnt_json_text *out, const lnt_field *table, const void *from,
                              const void *plain);
/* As lnt_fields_write, ended, into a text that is large enough. */
void lnt_fields_print(char *out, size_t capacity, const lnt_field *table, const void *from);

#endif
