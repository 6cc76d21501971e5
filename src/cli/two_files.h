/* cli/two_files.h - two paths: whether they name one file, and results that appear together or not at all. */
#ifndef LNT_CLI_TWO_FILES_H
#define LNT_CLI_TWO_FILES_H

#include <stdbool.h>

/* Whether two paths, as they may be spelt, name one file, which need not be there. */
bool two_files_are_one(const char *a, const char *b);

/* `first` writes where it will; `second` to a path that it is given, which becomes `path` once the
 * first is there. */
int two_files_write(void *of, int (*first)(void *of), int (*second)(void *of, const char *path),
                    const char *path);

#endif
