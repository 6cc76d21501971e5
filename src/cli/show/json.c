/* cli/show/json.c - writes one JSON object on one line. */
#include "cli/show/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the character at c if it is UTF-8 beyond ASCII, else 0; the text ends in NUL. */
static int utf8_length(const unsigned char *c)
{
    const int n = c[0] >= 0xf0 ? 4 : c[0] >= 0xe0 ? 3 : 2;
    if (c[0] < 0xc2 || c[0] > 0xf4) return 0;
    for (int i = 1; i < n; i++)
        if ((c[i] & 0xc0) != 0x80) return 0;
    const bool overlong = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90);
    const bool surrogate = c[0] == 0xed && c[1] > 0x9f, beyond = c[0] == 0xf4 && c[1] > 0x8f;
    return overlong || surrogate || beyond ? 0 : n;
}

/* What is not UTF-8, which a model may write, becomes U+FFFD. */
static void put_bytes(FILE *to, const char *text, size_t bytes)
{
    const unsigned char *end = (const unsigned char *)text + bytes;
    fputc('"', to);
    for (const unsigned char *c = (const unsigned char *)text; c < end; c++) {
        const int wide = *c >= 0x80 ? utf8_length(c) : 0;
        if (wide) {
            fwrite(c, 1, (size_t)wide, to);
            c += wide - 1;
        } else if (*c >= 0x80) fputs("\xef\xbf\xbd", to);
        else if (*c == '"' || *c == '\\') fprintf(to, "\\%c", *c);
        else if (*c < 0x20 || *c == 0x7f) fprintf(to, "\\u%04x", *c);
        else fputc(*c, to);
    }
    fputc('"', to);
}

static void put_string(FILE *to, const char *text) { put_bytes(to, text, strlen(text)); }

static void put_name(json *j, const char *name)
{
    if (!j->empty) fputs(", ", j->to);
    j->empty = false;
    put_string(j->to, name);
    fputs(": ", j->to);
}

json json_begin(FILE *to)
{
    fputc('{', to);
    return (json){ .to = to, .empty = true };
}

void json_text(json *j, const char *name, const char *value)
{
    put_name(j, name);
    put_string(j->to, value);
}

void json_bytes(json *j, const char *name, const char *value, size_t bytes)
{
    put_name(j, name);
    put_bytes(j->to, value, bytes);
}

void json_whole(json *j, const char *name, int64_t value)
{
    put_name(j, name);
    fprintf(j->to, "%" PRId64, value);
}

static void put_real(FILE *to, double value)
{
    char text[32];
    if (!isfinite(value)) {
        fputs("null", to);
        return;
    }
    /* 15 digits where they are enough to read the same number back: 0.1 stays 0.1. */
    snprintf(text, sizeof text, "%.15g", value);
    if (strtod(text, NULL) != value) snprintf(text, sizeof text, "%.17g", value);
    fputs(text, to);
}

void json_real(json *j, const char *name, double value)
{
    put_name(j, name);
    put_real(j->to, value);
}

void json_flag(json *j, const char *name, bool value)
{
    put_name(j, name);
    fputs(value ? "true" : "false", j->to);
}

void json_texts(json *j, const char *name, const char *const *values, int count)
{
    put_name(j, name);
    fputc('[', j->to);
    for (int i = 0; i < count; i++) {
        if (i) fputs(", ", j->to);
        put_string(j->to, values[i]);
    }
    fputc(']', j->to);
}

void json_wholes(json *j, const char *name, const int32_t *values, size_t count)
{
    put_name(j, name);
    fputc('[', j->to);
    for (size_t i = 0; i < count; i++) fprintf(j->to, "%s%" PRId32, i ? ", " : "", values[i]);
    fputc(']', j->to);
}

void json_reals(json *j, const char *name, const double *values, int count)
{
    put_name(j, name);
    fputc('[', j->to);
    for (int i = 0; i < count; i++) {
        if (i) fputs(", ", j->to);
        put_real(j->to, values[i]);
    }
    fputc(']', j->to);
}

json json_list(json *j, const char *name)
{
    put_name(j, name);
    fputc('[', j->to);
    return (json){ .to = j->to, .empty = true };
}

json json_item(json *list)
{
    if (!list->empty) fputs(", ", list->to);
    list->empty = false;
    return json_begin(list->to);
}

void json_item_end(json *item) { fputc('}', item->to); }
void json_list_end(json *list) { fputc(']', list->to); }

void json_end(json *j) { fputs("}\n", j->to); }
