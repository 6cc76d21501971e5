/* cli/stop.c - see stop.h. */
#include "cli/stop.h"

#include <signal.h>

static volatile sig_atomic_t asked, pipe_closed;
static void (*last)(int) = SIG_DFL;

static void ask(int number)
{
    asked = 1;
    signal(number, last); /* the second time at once */
}

static void note_pipe(int number)
{
    pipe_closed = 1;
    signal(number, note_pipe); /* where a handler is for once only */
}

static void listen_for(int number, void (*handler)(int))
{
    if (signal(number, handler) == SIG_IGN) signal(number, SIG_IGN);
}

void stop_upon_signals(void)
{
    listen_for(SIGINT, ask);
    listen_for(SIGTERM, ask);
    listen_for(SIGHUP, ask);
}

void stop_finally(void (*handler)(int number)) { last = handler; }

bool stop_asked(void) { return asked; }

void stop_hold_pipe(void) { listen_for(SIGPIPE, note_pipe); }

bool stop_pipe_closed(void) { return pipe_closed; }

void stop_release_pipe(void)
{
    listen_for(SIGPIPE, SIG_DFL);
    if (pipe_closed) raise(SIGPIPE);
}
