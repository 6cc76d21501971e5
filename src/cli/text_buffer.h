/* cli/text_buffer.h - a text that grows. */
#ifndef LNT_CLI_TEXT_BUFFER_H
#define LNT_CLI_TEXT_BUFFER_H

#include <stddef.h>

typedef struct text_buffer {
    char *text; /* [used], then a NUL; NULL while it is empty.  The owner frees it */
    size_t used, room;
} text_buffer;

/* EXIT_OK, or one sentence and EXIT_FAILED. */
int text_buffer_add(text_buffer *b, const char *text, size_t bytes);

/* Adds a whole file; "-" is standard input. */
int text_buffer_read(text_buffer *b, const char *path);

#endif
