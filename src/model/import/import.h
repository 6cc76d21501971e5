/* model/import/import.h - models that others trained, as lnt_model. */
#ifndef LNT_MODEL_IMPORT_IMPORT_H
#define LNT_MODEL_IMPORT_IMPORT_H

#include "model/model.h"

/* Whether path is a GGUF file, a directory with a config.json, or named as llama2.c's. */
bool lnt_import_takes(const char *path);
lnt_status lnt_import_model(lnt_ctx *ctx, const char *path, const lnt_model_options *options,
                            lnt_model **out);

#endif
