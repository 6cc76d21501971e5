/* cli/classification.h - `linnet eval` of models that read images. */
#ifndef LNT_CLI_CLASSIFICATION_H
#define LNT_CLI_CLASSIFICATION_H

#include "cli/options.h"
#include "linnet/model.h"

/* The likeliest classes of each image of --data; or, of images sorted into directories that are named after
 * their classes, how often the model is right.  EXIT_OK, or one sentence and another status. */
int classification(const options *o, lnt_ctx *ctx, lnt_model *model, const lnt_model_info *info);

#endif
