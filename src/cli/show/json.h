/* cli/show/json.h - writes one JSON object on one line. */
#ifndef LNT_CLI_SHOW_JSON_H
#define LNT_CLI_SHOW_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct json {
    FILE *to;
    bool empty; /* no field yet: no comma before the next */
} json;

json json_begin(FILE *to);
void json_text(json *j, const char *name, const char *value);
void json_bytes(json *j, const char *name, const char *value, size_t bytes); /* that end in NUL */
void json_whole(json *j, const char *name, int64_t value);
void json_real(json *j, const char *name, double value); /* NaN and infinities: null */
void json_flag(json *j, const char *name, bool value);
void json_texts(json *j, const char *name, const char *const *values, int count);
void json_wholes(json *j, const char *name, const int32_t *values, size_t count);
void json_reals(json *j, const char *name, const double *values, int count);
void json_end(json *j);

/* A list of objects: json_list; for each json_item, its fields, json_item_end; json_list_end. */
json json_list(json *j, const char *name);
json json_item(json *list);
void json_item_end(json *item);
void json_list_end(json *list);

#endif
