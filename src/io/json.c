/* io/json.c - parses JSON into nodes in one pass, without recursion.
 *
 * Every node follows '[', '{' or ',' or is the root, so counting these outside strings bounds the number of
 * nodes, and one allocation holds them all.  Strings are decoded in place in a copy of the source: an escape
 * is never shorter than what it stands for. */
#include "io/json.h"

#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "io/number.h"

typedef struct frame {
    lnt_json_node *node, *last; /* the container, and its child so far last */
} frame;

typedef struct parser {
    lnt_ctx *ctx;
    const char *path, *part;
    char *text; /* ends in NUL, which no token may contain: reading at `length` is safe */
    size_t at, length;
    lnt_json_node *nodes;
    size_t used;
    const lnt_json_node **scratch; /* room for a pointer to every node */
    frame open[LNT_JSON_MAX_DEPTH];
    int depth;
} parser;

static lnt_status broken(const parser *p, const char *reason)
{
    return lnt_fail(p->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT "%s%s, byte %zu: %s", p->path,
                    p->part ? ": " : "", p->part ? p->part : "", p->at, reason);
}

static void skip_space(parser *p)
{
    while (p->text[p->at] == ' ' || p->text[p->at] == '\t' || p->text[p->at] == '\n' ||
           p->text[p->at] == '\r')
        p->at++;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* ---- strings ------------------------------------------------------------------------------- */

/* Bytes of the character at s, of which `left` may be read; 0 if it is not UTF-8. */
static size_t utf8_length(const char *s, size_t left)
{
    const unsigned char c = (unsigned char)s[0];
    if (c < 0x80) return 1;
    const size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (c < 0xc2 || c > 0xf4 || n > left) return 0;
    for (size_t i = 1; i < n; i++)
        if (((unsigned char)s[i] & 0xc0) != 0x80) return 0;
    const unsigned char d = (unsigned char)s[1];
    const bool overlong = (c == 0xe0 && d < 0xa0) || (c == 0xf0 && d < 0x90);
    const bool surrogate = c == 0xed && d > 0x9f, beyond = c == 0xf4 && d > 0x8f;
    return overlong || surrogate || beyond ? 0 : n;
}

static char *put_utf8(char *to, uint32_t code)
{
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

/* The four digits after "\u", which is at p->at; steps over all six. */
static bool hex4(parser *p, uint32_t *out)
{
    if (p->text[p->at] != '\\' || p->text[p->at + 1] != 'u') return false;
    *out = 0;
    for (size_t i = p->at + 2; i < p->at + 6; i++) {
        const char c = p->text[i];
        const int digit = is_digit(c)            ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    p->at += 6;
    return true;
}

static lnt_status decode_unicode(parser *p, char **to)
{
    uint32_t code, low;
    if (!hex4(p, &code)) return broken(p, "\\u needs four hexadecimal digits");
    if (code == 0) return broken(p, "a string holds \\u0000");
    if (code >= 0xdc00 && code <= 0xdfff) return broken(p, "half a surrogate pair");
    if (code >= 0xd800 && code <= 0xdbff) {
        if (!hex4(p, &low) || low < 0xdc00 || low > 0xdfff)
            return broken(p, "half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *to = put_utf8(*to, code);
    return LNT_OK;
}

static lnt_status decode_escape(parser *p, char **to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    const char c = p->text[p->at + 1];
    if (c == 'u') return decode_unicode(p, to);
    const char *known = c ? strchr(from, c) : NULL;
    if (!known) return broken(p, "an unknown escape");
    *(*to)++ = into[known - from];
    p->at += 2;
    return LNT_OK;
}

static lnt_status parse_string(parser *p, const char **out)
{
    if (p->text[p->at] != '"') return broken(p, "expected a string");
    char *to = p->text + ++p->at;
    *out = to;
    while (p->text[p->at] != '"') {
        const char *s = p->text + p->at;
        if (p->at == p->length) return broken(p, "a string without an end");
        if ((unsigned char)*s < 0x20) return broken(p, "a control character in a string");
        if (*s == '\\') {
            const lnt_status status = decode_escape(p, &to);
            if (status) return status;
            continue;
        }
        const size_t n = utf8_length(s, p->length - p->at);
        if (!n) return broken(p, "a string that is not UTF-8");
        memmove(to, s, n);
        to += n;
        p->at += n;
    }
    *to = 0;
    p->at++;
    return LNT_OK;
}

/* ---- values -------------------------------------------------------------------------------- */

static lnt_status skip_digits(parser *p)
{
    if (!is_digit(p->text[p->at])) return broken(p, "expected a digit");
    while (is_digit(p->text[p->at])) p->at++;
    return LNT_OK;
}

static lnt_status parse_number(parser *p, lnt_json_node *node)
{
    const char *start = p->text + p->at;
    const bool negative = p->text[p->at] == '-';
    p->at += negative;
    const size_t first = p->at;
    lnt_status status = skip_digits(p);
    if (status) return status;
    if (p->text[first] == '0' && p->at > first + 1) return broken(p, "a number that begins with 0");
    node->type = LNT_JSON_INTEGER;
    for (size_t i = first; i < p->at; i++) {
        const int digit = p->text[i] - '0';
        if (__builtin_mul_overflow(node->integer, 10, &node->integer) ||
            __builtin_add_overflow(node->integer, negative ? -digit : digit, &node->integer))
            node->type = LNT_JSON_REAL;
    }
    if (p->text[p->at] == '.') {
        node->type = LNT_JSON_REAL;
        p->at++;
        if ((status = skip_digits(p))) return status;
    }
    if (p->text[p->at] == 'e' || p->text[p->at] == 'E') {
        node->type = LNT_JSON_REAL;
        p->at++;
        p->at += p->text[p->at] == '+' || p->text[p->at] == '-';
        if ((status = skip_digits(p))) return status;
    }
    node->real = node->type == LNT_JSON_INTEGER ? (double)node->integer : lnt_number_read(start);
    return LNT_OK;
}

static lnt_status parse_word(parser *p, lnt_json_node *node)
{
    static const struct {
        const char *word;
        lnt_json_type type;
    } words[] = { { "null", LNT_JSON_NULL },
                  { "false", LNT_JSON_FALSE },
                  { "true", LNT_JSON_TRUE } };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t n = strlen(words[i].word);
        if (strncmp(p->text + p->at, words[i].word, n) != 0) continue;
        node->type = words[i].type;
        p->at += n;
        return LNT_OK;
    }
    return broken(p, "expected a value");
}

/* The value at p->at, as the next child of the container that is open; of a container only the
 * opening bracket. */
static lnt_status parse_value(parser *p, const char *key)
{
    lnt_json_node *node = &p->nodes[p->used++];
    *node = (lnt_json_node){ .offset = p->at, .key = key };
    if (p->depth) {
        frame *parent = &p->open[p->depth - 1];
        if (parent->last) parent->last->next = node;
        else parent->node->child = node;
        parent->last = node;
        parent->node->count++;
    }
    const char c = p->text[p->at];
    if (c == '{' || c == '[') {
        if (p->depth == LNT_JSON_MAX_DEPTH) return broken(p, "nested too deep");
        node->type = c == '{' ? LNT_JSON_OBJECT : LNT_JSON_ARRAY;
        p->open[p->depth++] = (frame){ .node = node };
        p->at++;
        return LNT_OK;
    }
    if (c == '"') {
        node->type = LNT_JSON_STRING;
        return parse_string(p, &node->text);
    }
    return c == '-' || is_digit(c) ? parse_number(p, node) : parse_word(p, node);
}

/* ---- containers ---------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    const lnt_json_node *const *x = a, *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

/* By sorting: a hostile header with a million keys must not cost a million squared. */
static lnt_status check_unique(parser *p, const lnt_json_node *object)
{
    size_t n = 0;
    for (const lnt_json_node *c = object->child; c; c = c->next) p->scratch[n++] = c;
    qsort(p->scratch, n, sizeof *p->scratch, by_key);
    for (size_t i = 1; i < n; i++)
        if (by_key(&p->scratch[i - 1], &p->scratch[i]) == 0)
            return broken(p, "an object with the same key twice");
    return LNT_OK;
}

static lnt_status parse_key(parser *p, const char **key)
{
    lnt_status status = parse_string(p, key);
    if (status) return status;
    skip_space(p);
    if (p->text[p->at] != ':') return broken(p, "expected ':'");
    p->at++;
    return LNT_OK;
}

/* Between values: closes what ends here and steps over ',' and the next key.  Afterwards a value
 * follows, or the document is complete (depth 0). */
static lnt_status advance(parser *p, const char **key)
{
    *key = NULL;
    while (p->depth) {
        const lnt_json_node *top = p->open[p->depth - 1].node;
        const bool object = top->type == LNT_JSON_OBJECT;
        skip_space(p);
        if (p->text[p->at] == (object ? '}' : ']')) {
            const lnt_status status = object ? check_unique(p, top) : LNT_OK;
            if (status) return status;
            p->at++;
            p->depth--;
            continue;
        }
        if (top->count) {
            if (p->text[p->at] != ',')
                return broken(p, object ? "expected ',' or '}'" : "expected ',' or ']'");
            p->at++;
            skip_space(p);
        }
        return object ? parse_key(p, key) : LNT_OK;
    }
    return LNT_OK;
}

static lnt_status parse_document(parser *p)
{
    const char *key = NULL;
    do {
        skip_space(p);
        lnt_status status = parse_value(p, key);
        if (!status) status = advance(p, &key);
        if (status) return status;
    } while (p->depth);
    skip_space(p);
    return p->at == p->length ? LNT_OK : broken(p, "more text after the value");
}

static size_t count_nodes(const char *text, size_t length)
{
    size_t count = 1;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '"') quoted = !quoted;
        else if (quoted) i += text[i] == '\\'; /* the escaped byte is no quote */
        else count += text[i] == ',' || text[i] == '[' || text[i] == '{';
    }
    return count;
}

lnt_status lnt_json_parse(lnt_ctx *ctx, const char *path, const char *part, const char *source,
                          size_t length, lnt_json *out)
{
    *out = (lnt_json){ 0 };
    if (length > LNT_JSON_MAX_BYTES)
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": JSON of %zu bytes, at most %d", path,
                        length, LNT_JSON_MAX_BYTES);
    const size_t nodes = count_nodes(source, length);
    if (nodes > LNT_JSON_MAX_NODES)
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": JSON of %zu values, at most %d", path,
                        nodes, LNT_JSON_MAX_NODES);
    const size_t bytes = nodes * (sizeof(lnt_json_node) + sizeof(lnt_json_node *)) + length + 1;
    char *memory = lnt_allocate(ctx, bytes, "a JSON document");
    if (!memory) return LNT_ERR_MEMORY;
    parser p = { .ctx = ctx, .path = path, .part = part, .length = length };
    p.nodes = (lnt_json_node *)(void *)memory;
    p.scratch = (const lnt_json_node **)(void *)(p.nodes + nodes);
    p.text = (char *)(p.scratch + nodes);
    memcpy(p.text, source, length);
    p.text[length] = 0;
    *out = (lnt_json){ .root = p.nodes, .memory = memory, .memory_bytes = bytes };
    const lnt_status status = parse_document(&p);
    if (status) lnt_json_free(ctx, out);
    return status;
}

void lnt_json_free(lnt_ctx *ctx, lnt_json *json)
{
    lnt_release(ctx, json->memory, json->memory_bytes);
    *json = (lnt_json){ 0 };
}

const lnt_json_node *lnt_json_member(const lnt_json_node *object, const char *key)
{
    if (object->type != LNT_JSON_OBJECT) return NULL;
    for (const lnt_json_node *c = object->child; c; c = c->next)
        if (strcmp(c->key, key) == 0) return c;
    return NULL;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void put_bytes(lnt_json_text *out, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++, out->used++)
        if (out->used < out->capacity) out->text[out->used] = bytes[i];
}

void lnt_json_put(lnt_json_text *out, const char *raw) { put_bytes(out, raw, strlen(raw)); }

void lnt_json_put_string(lnt_json_text *out, const char *string)
{
    static const char hex[] = "0123456789abcdef";
    put_bytes(out, "\"", 1);
    for (const char *s = string; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        const char control[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };
        if (c < 0x20) put_bytes(out, control, 6);
        else if (c == '"' || c == '\\') put_bytes(out, (const char[]){ '\\', *s }, 2);
        else put_bytes(out, s, 1);
    }
    put_bytes(out, "\"", 1);
}

bool lnt_json_is_utf8(const char *string)
{
    for (size_t left = strlen(string), n; left; string += n, left -= n)
        if (!(n = utf8_length(string, left))) return false;
    return true;
}
