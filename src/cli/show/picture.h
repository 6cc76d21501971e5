/* cli/show/picture.h - what the name of a picture may end in: programs go by it when they open one. */
#ifndef LNT_CLI_SHOW_PICTURE_H
#define LNT_CLI_SHOW_PICTURE_H

#include "cli/options.h"

/* Where the option names a place: that it can be written, and does not end as pictures of another kind than
 * `ending` do.  EXIT_OK, or one sentence and another exit status: before the work, so that it is not for
 * nothing. */
int picture_check(const options *o, option_id which, const char *ending);

#endif
