/* model/import/labels.h - the names of classes, as config.json has them: {"id2label": {"0": "cat"}}. */
#ifndef LNT_MODEL_IMPORT_LABELS_H
#define LNT_MODEL_IMPORT_LABELS_H

#include "model/config.h"
#include "model/import/source.h"
#include "model/labels.h"

/* Of a classifier; numbers that are none of its classes have no effect. */
lnt_status lnt_labels_read(lnt_source *s, const lnt_config *config, lnt_labels *out);

#endif
