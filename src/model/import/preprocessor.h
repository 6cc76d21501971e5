/* model/import/preprocessor.h - what an image becomes before the model reads it, as transformers keeps it. */
#ifndef LNT_MODEL_IMPORT_PREPROCESSOR_H
#define LNT_MODEL_IMPORT_PREPROCESSOR_H

#include "model/image/pixels.h"
#include "model/import/source.h"

/* Of a model that reads images, from preprocessor_config.json.  Without that file *out stays as it is. */
void lnt_preprocessor_read(lnt_source *s, lnt_image_form *out);

#endif
