/* model/import/preprocessor.h - what an image becomes before the model reads it, as transformers keeps it. */
#ifndef LNT_MODEL_IMPORT_PREPROCESSOR_H
#define LNT_MODEL_IMPORT_PREPROCESSOR_H

#include "model/config.h"
#include "model/image/pixels.h"
#include "model/import/source.h"

/* Of a model that reads images: from preprocessor_config.json.  Without that file `known` is false. */
lnt_status lnt_preprocessor_read(lnt_source *s, const lnt_config *config, lnt_image_form *out);

#endif
