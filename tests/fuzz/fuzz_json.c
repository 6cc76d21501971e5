/* fuzz_json.c - the input is a JSON document. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "gguf_file.h"
#include "io/json.h"

/* Depth is bounded by LNT_JSON_MAX_DEPTH. */
static void walk(const lnt_json_node *node)
{
    size_t children = 0;
    if (node->key) fuzz_touch(node->key, strlen(node->key));
    if (node->type == LNT_JSON_STRING) fuzz_touch(node->text, strlen(node->text));
    if (node->type == LNT_JSON_STRING && !lnt_json_is_utf8(node->text)) abort();
    for (const lnt_json_node *c = node->child; c; c = c->next, children++) {
        walk(c);
        if (c->key && lnt_json_member(node, c->key) != c) abort(); /* a key twice */
    }
    if (children != node->count) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lnt_ctx *ctx = fuzz_context();
    char *text = exact_copy(data, size);
    lnt_json json;
    const lnt_status status = lnt_json_parse(ctx, "fuzz", NULL, text, size, &json);
    fuzz_check(status);
    if (status == LNT_OK) walk(json.root);
    lnt_json_free(ctx, &json);
    free(text);
    return 0;
}
