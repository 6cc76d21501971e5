/* cli/json.c - writes one JSON object on one line. */
#include "cli/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static void put_string(FILE *to, const char *text)
{
    fputc('"', to);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\') fprintf(to, "\\%c", *c);
        else if (*c < 0x20 || *c == 0x7f) fprintf(to, "\\u%04x", *c);
        else fputc(*c, to);
    }
    fputc('"', to);
}

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

void json_end(json *j) { fputs("}\n", j->to); }
