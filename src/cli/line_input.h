/* cli/line_input.h - lines of standard input, of any length, as UTF-8. */
#ifndef LNT_CLI_LINE_INPUT_H
#define LNT_CLI_LINE_INPUT_H

#include "cli/text_buffer.h"

typedef struct line_input { /* begins zeroed */
    text_buffer raw;  /* read; its first `taken` bytes are of lines that were given */
    text_buffer line;
    size_t taken;
    int ended; /* there is no more to read */
} line_input;

typedef enum line_result { LINE_READ, LINE_END, LINE_STOPPED, LINE_FAILED } line_result;

/* The next line, without its end, in in->line.text until the next call; what is not UTF-8, and NUL, is
 * U+FFFD.  LINE_STOPPED: a signal asked to stop (stop.h) before there was one.  LINE_FAILED: the sentence is
 * said. */
line_result line_input_next(line_input *in);
void line_input_close(line_input *in);

#endif
