/* cli/leftovers.h - temporary files that a writer who was killed has left in a directory. */
#ifndef LNT_CLI_LEFTOVERS_H
#define LNT_CLI_LEFTOVERS_H

/* Removes the temporaries of the library's writers, and those of the files `names` (NULL ends them)
 * that the tool writes itself, unless the process that began them still runs.  What cannot be read
 * or removed stays: it is in nobody's way. */
void leftovers_remove(const char *directory, const char *const names[]);

#endif
