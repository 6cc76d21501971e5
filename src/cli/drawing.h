/* cli/drawing.h - draws a sheet of images with a model of images. */
#ifndef LNT_CLI_DRAWING_H
#define LNT_CLI_DRAWING_H

#include "cli/generation.h"

/* Writes --output: --images new images, or with --data completed test images.  EXIT_OK, or one sentence and
 * another status. */
int drawing_write(generation *g);

#endif
