/* cli/show/status.h - a line on stderr that is rewritten in place while text is written to stdout. */
#ifndef LNT_CLI_SHOW_STATUS_H
#define LNT_CLI_SHOW_STATUS_H

/* Does nothing unless stderr is a terminal.  If stdout is one too, the line has the last row to itself,
 * and the text scrolls above it. */
void status_show(const char *text);
/* Removes the line and restores the terminal. */
void status_end(void);

#endif
