/* cli/stop.c - see stop.h. */
#include "cli/stop.h"

#include <signal.h>
#include <time.h>

enum { APART = 200 }; /* milliseconds between two that are not one: `timeout` sends two at once */

static volatile sig_atomic_t asked, pipe_closed;
static struct timespec first; /* when it was asked */
static void (*last)(int) = SIG_DFL;

static bool is_again(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - first.tv_sec) * 1000 + (now.tv_nsec - first.tv_nsec) / 1000000 >= APART;
}

static void ask(int number)
{
    if (asked && is_again()) {
        signal(number, last);
        raise(number); /* comes as soon as this one is dealt with */
        return;
    }
    if (!asked) clock_gettime(CLOCK_MONOTONIC, &first);
    asked = number;
    signal(number, ask); /* where a handler is for once only */
}

static void note_pipe(int number)
{
    pipe_closed = 1;
    signal(number, note_pipe); /* the same */
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

bool stop_asked(void) { return asked != 0; }

int stop_signal(void) { return asked; }

void stop_forget(void) { asked = 0; }

void stop_hold_pipe(void) { listen_for(SIGPIPE, note_pipe); }

bool stop_pipe_closed(void) { return pipe_closed; }

void stop_release_pipe(void)
{
    listen_for(SIGPIPE, SIG_DFL);
    if (pipe_closed) raise(SIGPIPE);
}
