/* cli/show/picture.h - checks the ending of a picture's file name, by which other programs open it. */
#ifndef LNT_CLI_SHOW_PICTURE_H
#define LNT_CLI_SHOW_PICTURE_H

#include "cli/options.h"

/* If the option names a file: checks, before any work, that it can be written and does not end like
 * another kind of picture than `ending`.  EXIT_OK, or one sentence and another exit status. */
int picture_check(const options *o, option_id which, const char *ending);

#endif
