/* cli/show/status.h - a line on stderr that is rewritten in place while text is written to stdout. */
#ifndef LNT_CLI_SHOW_STATUS_H
#define LNT_CLI_SHOW_STATUS_H

/* Nothing where stderr is no terminal.  Where stdout is one as well the line has the last row to
 * itself, and the text scrolls above it. */
void status_show(const char *text);
/* Takes the line away: the terminal is as it was. */
void status_end(void);

#endif
