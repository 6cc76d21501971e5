/* cli/show/png.h - grey images as .png. */
#ifndef LNT_CLI_SHOW_PNG_H
#define LNT_CLI_SHOW_PNG_H

#include <stddef.h>

/* pixels [height,width], 0 black to 255 white.  Written whole or not at all; EXIT_OK, or says one
 * sentence. */
int png_write(const char *path, const unsigned char *pixels, size_t width, size_t height);

#endif
