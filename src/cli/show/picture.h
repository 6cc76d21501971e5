/* cli/show/picture.h - checks the ending of a picture's file name, by which other programs open it. */
#ifndef LNT_CLI_SHOW_PICTURE_H
#define LNT_CLI_SHOW_PICTURE_H

#include "cli/options.h"

/* Where the option names a place: that it can be written, and does not end as pictures of another kind than
 * `ending` do.  EXIT_OK, or one sentence and another exit status: before the work, so that it is not for
 * nothing. */
int picture_check(const options *o, option_id which, const char *ending);

#endif
