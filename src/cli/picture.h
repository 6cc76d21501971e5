/* cli/picture.h - what the name of a picture may end in: programs go by it when they open one. */
#ifndef LNT_CLI_PICTURE_H
#define LNT_CLI_PICTURE_H

#include "cli/options.h"

/* Each gives EXIT_OK, or says one sentence and gives another exit status: before the work, so that it is
 * not for nothing. */

/* -o, which is given, ends in .png, and can be written. */
int picture_check_png(const options *o);
/* --svg, where it is given, does not end as pictures of another kind do, and can be written. */
int picture_check_svg(const options *o);

#endif
