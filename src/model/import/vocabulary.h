/* model/import/vocabulary.h - the tokenizer and the chat template of a source. */
#ifndef LNT_MODEL_IMPORT_VOCABULARY_H
#define LNT_MODEL_IMPORT_VOCABULARY_H

#include "model/import/source.h"
#include "model/tokenizer/codec.h"

/* *out is NULL, and the status LNT_OK, where the source has none.  given: the file of llama2.c's; NULL: the
 * one beside its model.  *file is what a saved model opens it from, by lnt_vocabulary_reopen; the caller
 * frees it. */
lnt_status lnt_vocabulary_open(lnt_source *s, const char *given, lnt_codec **out, lnt_codec_file *file);
/* path is for sentences.  Without the roles that files beside a tokenizer.json give to tokens. */
lnt_status lnt_vocabulary_reopen(lnt_ctx *ctx, const char *path, const lnt_codec_file *file, lnt_codec **out);

/* The chat template's text, which ends in NUL; NULL where there is none.  The caller releases bytes + 1
 * bytes. */
lnt_status lnt_vocabulary_template(lnt_source *s, char **text, size_t *bytes);

#endif
