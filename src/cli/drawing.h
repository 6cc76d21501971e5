/* cli/drawing.h - draws a sheet of images with a model of images. */
#ifndef LNT_CLI_DRAWING_H
#define LNT_CLI_DRAWING_H

#include "cli/generation.h"

/* Into --output: --images new ones, or with --data those of the data, completed.  EXIT_OK, or says one
 * sentence. */
int drawing_write(generation *g);

#endif
