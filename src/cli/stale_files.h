/* cli/stale_files.h - removes temporary files that a killed process has left in a directory. */
#ifndef LNT_CLI_STALE_FILES_H
#define LNT_CLI_STALE_FILES_H

/* Removes the temporaries of the library's writers, and those of the files `names` (NULL ends them)
 * that the tool writes itself, unless the process that began them still runs.  What cannot be read
 * or removed stays: it is in nobody's way. */
void stale_files_remove(const char *directory, const char *const names[]);

#endif
