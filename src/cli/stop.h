/* cli/stop.h - asks a command to stop after SIGINT (Ctrl-C), SIGTERM, SIGHUP (the terminal is gone) or
 * SIGPIPE (the
 * reader is gone).  The command ends at the next point where its work can be kept. */
#ifndef LNT_CLI_STOP_H
#define LNT_CLI_STOP_H

#include <stdbool.h>

/* From here on the first of these signals asks, and the next, unless it comes along with it, ends the
 * process.  One that is ignored already, as in a script's background, stays so. */
void stop_upon_signals(void);

/* The next one goes through the handler, which ends the process. */
void stop_finally(void (*handler)(int number));

bool stop_asked(void);

/* From here on a pipe that nobody reads any more fails the write to it, and is remembered ... */
void stop_hold_pipe(void);
bool stop_pipe_closed(void);
/* ... until here: if it was closed, the process ends without a word, as one that had held nothing. */
void stop_release_pipe(void);

#endif
