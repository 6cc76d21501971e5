/* cli/stale_files.h - removes temporary files that a killed process has left in a directory. */
#ifndef LNT_CLI_STALE_FILES_H
#define LNT_CLI_STALE_FILES_H

/* Removes the temporaries of the library's writers, and those of the files `names` (NULL ends the list) that
 * the tool writes itself, except those of processes that still run.  A file that cannot be removed stays. */
void stale_files_remove(const char *directory, const char *const names[]);

#endif
