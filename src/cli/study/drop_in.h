/* cli/study/drop_in.h - what the halves of the study drop-in share: texts as tokens, and a model under a
 * variant. */
#ifndef LNT_CLI_STUDY_DROP_IN_H
#define LNT_CLI_STUDY_DROP_IN_H

#include "cli/model.h"
#include "cli/study/study.h"

enum { DROP_TEXTS = 256, DROP_WORDS = 65536 }; /* at most */

/* Texts of one number of words, as a model reads them. */
typedef struct drop_texts {
    int64_t count, longest;       /* texts; tokens of the longest */
    int32_t *tokens;              /* [count,longest] */
    int64_t lengths[DROP_TEXTS];
} drop_texts;

/* The first `words` words of the first files in --data that have as many, a text each, or so many texts one
 * after the other where it is a file; longer ones end where the model's positions do.  The caller frees
 * tokens. */
int drop_texts_open(const options *o, lnt_ctx *ctx, const lnt_model *model, int64_t words, int64_t count,
                    drop_texts *out);

/* The first `count` tokens of --data, NULL upon failure; the caller frees them. */
int drop_stream_open(const options *o, lnt_ctx *ctx, const lnt_model *model, int64_t count, int32_t **out);

int drop_encoder(const options *o, lnt_ctx *ctx, const lnt_model_info *info);
int drop_decoder(const options *o, lnt_ctx *ctx, const lnt_model_info *info);

#endif
