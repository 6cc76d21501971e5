/* model/labels.h - the names of a classifier's classes. */
#ifndef LNT_MODEL_LABELS_H
#define LNT_MODEL_LABELS_H

#include "io/json.h"

typedef struct lnt_labels {
    size_t count; /* of classes; 0: none has a name */
    size_t *at;   /* [count]: where each name begins in text; SIZE_MAX: it has none */
    char *text;   /* names, each with its NUL */
    size_t bytes;
} lnt_labels;

/* Labels of `count` classes, without names yet, which take `bytes` in all. */
lnt_status lnt_labels_open(lnt_ctx *ctx, size_t count, size_t bytes, lnt_labels *out);
lnt_status lnt_labels_copy(lnt_ctx *ctx, const lnt_labels *from, lnt_labels *out);
void lnt_labels_close(lnt_ctx *ctx, lnt_labels *labels);
/* Of `count` classes, from {"0":"cat"}; what is no class of them, or no text, is left out.  NULL: none. */
lnt_status lnt_labels_read(lnt_ctx *ctx, const lnt_json_node *object, size_t count, lnt_labels *out);
/* As lnt_labels_read takes them. */
void lnt_labels_write(lnt_json_text *out, const lnt_labels *labels);
/* NULL: it has none. */
const char *lnt_labels_name(const lnt_labels *labels, size_t i);

#endif
