/* cli/page.h - text that grows as it comes. */
#ifndef LNT_CLI_PAGE_H
#define LNT_CLI_PAGE_H

#include <stddef.h>

typedef struct page {
    char *text; /* [used], and a NUL behind it; NULL: nothing yet.  For the owner to free */
    size_t used, room;
} page;

/* EXIT_OK, or one sentence and EXIT_FAILED. */
int page_add(page *p, const char *text, size_t bytes);

/* Adds a whole file, "-": standard input. */
int page_read(page *p, const char *path);

#endif
