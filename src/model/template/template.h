/* model/template/template.h - chat templates: messages to the text that a model continues.
 *
 * The language is the part of Jinja that models' templates use, with Hugging Face's settings
 * (trim_blocks, lstrip_blocks, loop controls, the functions raise_exception, strftime_now,
 * namespace and dict, its `tojson`).  It has all statements but include, import, extends, block and
 * recursive loops; `safe` changes nothing and there is no escaping.  What is not known is refused,
 * with its line and column.
 *
 * Rendering is bounded in steps, memory and depth, in proportion to the template and what is
 * rendered.  The text has its special tokens spelled out; the tokenizer finds them. */
#ifndef LNT_MODEL_TEMPLATE_TEMPLATE_H
#define LNT_MODEL_TEMPLATE_TEMPLATE_H

#include <time.h>

#include "io/json.h"

typedef struct lnt_template lnt_template;

typedef struct lnt_chat_message {
    const char *role;    /* "system", "user", "assistant", "tool" ... */
    const char *content; /* NULL: none */
    size_t content_bytes;
    const lnt_json_node *more; /* NULL, or an object of more fields: tool_calls, reasoning_content, ... */
} lnt_chat_message;

typedef struct lnt_template_options {
    const char *bos_token, *eos_token, *pad_token, *unk_token; /* NULL: not defined */
    bool add_generation_prompt;
    const struct tm *now;           /* strftime_now's date; NULL: strftime_now is not defined */
    const lnt_json_node
        *variables; /* NULL, or an object of more variables: tools, documents, enable_thinking */
} lnt_template_options;

/* `where` names the file or model in sentences, and is copied.  The text need not end in NUL. */
lnt_status lnt_template_open(lnt_ctx *ctx, const char *where, const char *text, size_t bytes,
                             lnt_template **out);
/* text [bytes], and a NUL after it; give it back with lnt_release(ctx, text, bytes + 1).  A template may be
 * rendered any number of times; each rendering is a function of its arguments alone. */
lnt_status lnt_template_render(const lnt_template *t, const lnt_chat_message *messages, size_t count,
                               const lnt_template_options *options, char **text, size_t *bytes);
void lnt_template_close(lnt_template *t); /* NULL is fine */

/* ---- for models without a template --------------------------------------------------------- */

/* The Jinja text of a well-known form: chatml, llama2, llama3, mistral, gemma, zephyr, phi3,
 * deepseek, command-r, plain.  NULL: the name is not known. */
const char *lnt_template_fallback(const char *name);
/* The name of form i; NULL: there are no more. */
const char *lnt_template_fallback_name(size_t i);
/* The name of the form whose special tokens a vocabulary has, "plain" where it has none of them.  `has` says
 * whether a text is one token of the vocabulary. */
const char *lnt_template_guess(bool (*has)(void *vocabulary, const char *token), void *vocabulary);

#endif
