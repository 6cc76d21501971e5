/* model/import/pooling.h - what an encoder makes of a text, as sentence-transformers keeps it. */
#ifndef LNT_MODEL_IMPORT_POOLING_H
#define LNT_MODEL_IMPORT_POOLING_H

#include "model/config.h"
#include "model/import/source.h"

/* Pooling and normalisation, into an encoder's config: a directory has modules.json and what it names, a GGUF
 * file "pooling_type".  Without them a text's vector is the mean of its tokens, as it is. */
void lnt_pooling_read(lnt_source *s, lnt_config *config);
/* Tokens of a text that it reads at the most. */
int64_t lnt_pooling_length(lnt_source *s, const lnt_config *config);

#endif
