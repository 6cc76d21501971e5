/* cli/output_file.h - output files that appear whole or not at all: a temporary is written beside the target,
 * then renamed to it. */
#ifndef LNT_CLI_OUTPUT_FILE_H
#define LNT_CLI_OUTPUT_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct output_file {
    const char *path;      /* as the user wrote it; stays with the caller */
    char target[PATH_MAX]; /* links followed */
    char temporary[PATH_MAX];
    FILE *file; /* to write to */
} output_file;

/* Creates the temporary.  EXIT_OK, or one sentence and EXIT_FAILED. */
int output_file_open(const char *path, output_file *out);
/* Checks that a file can be written at path, before much work is done; leaves nothing behind. */
int output_file_check(const char *path);
/* Renames the temporary to the target.  EXIT_OK, or removes it, one sentence and EXIT_FAILED. */
int output_file_commit(output_file *at);
void output_file_abandon(output_file *at);

/* Writes two files so that neither replaces an old one unless both were written: `first` chooses its own
 * path, `second` is given a temporary one, which becomes `path` once the first is written. */
int output_file_pair(void *of, int (*first)(void *of), int (*second)(void *of, const char *path),
                     const char *path);

/* Whether two paths name one file, however they are spelt.  The file need not exist. */
bool same_file(const char *a, const char *b);

#endif
