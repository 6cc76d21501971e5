/* cli/place.h - a file that appears whole or not at all: written beside its place, then moved there. */
#ifndef LNT_CLI_PLACE_H
#define LNT_CLI_PLACE_H

#include <limits.h>
#include <stdio.h>

typedef struct place {
    const char *path;      /* as the user wrote it; stays with the caller */
    char target[PATH_MAX]; /* links followed */
    char temporary[PATH_MAX];
    FILE *file; /* to write to */
} place;

/* Makes the temporary beside the target.  EXIT_OK, or one sentence and EXIT_FAILED. */
int place_open(const char *path, place *out);
/* That it could be done, before much work is; nothing stays. */
int place_check(const char *path);
/* The temporary takes the place of the target, or both it and the sentence that says why not are
 * dealt with here. */
int place_commit(place *at);
void place_abandon(place *at);

#endif
