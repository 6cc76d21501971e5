/* io/json.h - a strict JSON parser for configs and file headers, and a writer of JSON strings.
 *
 * A document becomes an array of nodes that point at each other.  Strict means RFC 8259 and nothing more:
 * valid UTF-8, no key twice in an object, no NUL inside a string, nothing after the value. */
#ifndef LNT_IO_JSON_H
#define LNT_IO_JSON_H

#include "core/context.h"

enum {
    LNT_JSON_MAX_BYTES = 100000000,
    LNT_JSON_MAX_NODES = 1 << 22, /* the largest tokenizers have 2 million */
    LNT_JSON_MAX_DEPTH = 32
};

typedef enum lnt_json_type {
    LNT_JSON_NULL,
    LNT_JSON_FALSE,
    LNT_JSON_TRUE,
    LNT_JSON_INTEGER, /* written without fraction and exponent, and fits int64_t */
    LNT_JSON_REAL,    /* any other number */
    LNT_JSON_STRING,
    LNT_JSON_ARRAY,
    LNT_JSON_OBJECT
} lnt_json_type;

typedef struct lnt_json_node {
    lnt_json_type type;
    size_t offset;    /* in the source, of the value's first byte */
    const char *key;  /* of a member of an object, else NULL */
    const char *text; /* string: UTF-8, ends in NUL, has none inside */
    int64_t integer;
    double real;   /* the double nearest to any number */
    size_t count; /* of children */
    const struct lnt_json_node *child, *next;
} lnt_json_node;

typedef struct lnt_json {
    const lnt_json_node *root;
    void *memory;
    size_t memory_bytes;
} lnt_json;

/* LNT_ERR_FORMAT with the byte at which it went wrong; `path` names the file in the sentence, and
 * `part` the text within it, from whose begin bytes are counted; NULL: the source is the file.  On
 * failure out is zeroed.  The source is copied. */
LNT_PRIVATE_API lnt_status lnt_json_parse(lnt_ctx *ctx, const char *path, const char *part,
                                          const char *source, size_t length, lnt_json *out);
LNT_PRIVATE_API void lnt_json_free(lnt_ctx *ctx, lnt_json *json);

/* The member of an object; NULL if there is none, or if `object` is not one. */
LNT_PRIVATE_API const lnt_json_node *lnt_json_member(const lnt_json_node *object, const char *key);

/* Text in the making.  What does not fit `capacity` is counted but not stored, so the same calls
 * first size a buffer (capacity 0) and then fill it.  No NUL is added. */
typedef struct lnt_json_text {
    char *text;
    size_t capacity, used;
} lnt_json_text;

LNT_PRIVATE_API void lnt_json_put(lnt_json_text *out, const char *raw);           /* as it is */
LNT_PRIVATE_API void lnt_json_put_string(lnt_json_text *out, const char *string); /* quoted and escaped */

LNT_PRIVATE_API bool lnt_json_is_utf8(const char *string);

#endif
