/* cli/stop.h - asks a command to stop after SIGINT (Ctrl-C), SIGTERM, SIGHUP (the terminal is gone) or
 * SIGPIPE (the reader is gone).  The command ends at the next point where its work can be kept. */
#ifndef LNT_CLI_STOP_H
#define LNT_CLI_STOP_H

#include <stdbool.h>

/* From here on the first of these signals asks, and a later one ends the process, unless it arrives together
 * with the first.  A signal that is already ignored, as in the background of a script, stays ignored. */
void stop_upon_signals(void);

/* Sets a handler for the signal that ends the process; the handler must end it. */
void stop_finally(void (*handler)(int number));

bool stop_asked(void);
/* The signal that asked; 0: none. */
int stop_signal(void);
/* It was dealt with: the next one asks again. */
void stop_forget(void);

/* From here on a write to a closed pipe fails instead of ending the process ... */
void stop_hold_pipe(void);
bool stop_pipe_closed(void);
/* ... until here: if the pipe was closed, the process now ends, by SIGPIPE. */
void stop_release_pipe(void);

#endif
