/* cli/stop.c - see stop.h. */
#include "cli/stop.h"

#include <signal.h>

static volatile sig_atomic_t asked;
static void (*last)(int) = SIG_DFL;

static void ask(int number)
{
    asked = 1;
    signal(number, last); /* the second time at once */
}

static void listen_for(int number)
{
    if (signal(number, ask) == SIG_IGN) signal(number, SIG_IGN);
}

void stop_upon_signals(void)
{
    listen_for(SIGINT);
    listen_for(SIGTERM);
    listen_for(SIGHUP);
}

void stop_finally(void (*handler)(int number)) { last = handler; }

bool stop_asked(void) { return asked; }
