/* model/import/source.h - a model that others trained, as its files describe it: a GGUF file, a directory as
 * Hugging Face lays it out, or a file of llama2.c.
 *
 * A key has two spellings: GGUF's behind the name of the architecture ("attention.head_count") and that of
 * config.json ("num_attention_heads"; a dot goes into an object), which llama2.c's header is turned into.
 * NULL: that kind of source has none.  What fails is kept in `status` and the context's sentence, and later
 * reads do nothing: an architecture reads all it needs, and who called it looks once. */
#ifndef LNT_MODEL_IMPORT_SOURCE_H
#define LNT_MODEL_IMPORT_SOURCE_H

#include <math.h>

#include "io/file.h"
#include "io/json.h"
#include "io/tensors.h"
#include "model/import/llama2c.h"

enum { LNT_SOURCE_NAME = 64 };

typedef enum lnt_source_kind { LNT_SOURCE_GGUF, LNT_SOURCE_DIRECTORY, LNT_SOURCE_LLAMA2C } lnt_source_kind;

typedef struct lnt_source {
    lnt_ctx *ctx;
    lnt_source_kind kind;
    const char *path; /* of llama2.c the file, also where its folder was given */
    lnt_status status;
    lnt_tensors tensors;
    lnt_llama2c llama2c;        /* that file; else zeroed */
    lnt_json config;            /* config.json; without root: a GGUF file */
    char name[LNT_SOURCE_NAME]; /* of the architecture: "llama", or "LlamaForCausalLM" */
} lnt_source;

/* Maps the file, or the files of the directory, and finds the name.  On failure nothing is open. */
lnt_status lnt_source_open(lnt_ctx *ctx, const char *path, lnt_source *out);
void lnt_source_close(lnt_source *s);

static inline bool lnt_source_is_gguf(const lnt_source *s) { return s->kind == LNT_SOURCE_GGUF; }

bool lnt_source_has(const lnt_source *s, const char *gguf, const char *json); /* and it is not null */

/* A value that must be there, in bounds. */
int64_t lnt_source_whole(lnt_source *s, const char *gguf, const char *json, int64_t least, int64_t most);
/* One that may be absent; it is `otherwise` then. */
int64_t lnt_source_whole_in(lnt_source *s, const char *gguf, const char *json, int64_t otherwise,
                            int64_t least, int64_t most);
int64_t lnt_source_whole_or(lnt_source *s, const char *gguf, const char *json, int64_t otherwise);
double lnt_source_real_or(lnt_source *s, const char *gguf, const char *json, double otherwise);
bool lnt_source_flag_or(lnt_source *s, const char *gguf, const char *json, bool otherwise);
/* A text, "" where it is absent; it lives as long as the source, and ends in NUL where config.json has it. */
typedef struct lnt_source_text {
    const char *text;
    size_t bytes;
} lnt_source_text;
lnt_source_text lnt_source_text_of(lnt_source *s, const char *gguf, const char *json);
bool lnt_source_text_is(lnt_source_text text, const char *word);

/* What the architecture cannot be: one sentence behind the path, LNT_ERR_UNSUPPORTED. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void lnt_source_refuse(lnt_source *s, const char *format, ...);

/* A JSON file of a directory; absent: the root is NULL, and the status LNT_OK. */
lnt_status lnt_source_json(lnt_ctx *ctx, const char *directory, const char *name, lnt_json *out);

#endif
