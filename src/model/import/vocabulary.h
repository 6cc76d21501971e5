/* model/import/vocabulary.h - the tokenizer and the chat template of a source. */
#ifndef LNT_MODEL_IMPORT_VOCABULARY_H
#define LNT_MODEL_IMPORT_VOCABULARY_H

#include "model/import/source.h"
#include "model/tokenizer/codec.h"

/* *out is NULL, and the status LNT_OK, where the source has none. */
lnt_status lnt_vocabulary_open(lnt_source *s, lnt_codec **out);

/* The chat template's text, which ends in NUL; NULL where there is none.  The caller releases bytes + 1
 * bytes. */
lnt_status lnt_vocabulary_template(lnt_source *s, char **text, size_t *bytes);

#endif
