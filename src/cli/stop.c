/* cli/stop.c - see stop.h. */
#include "cli/stop.h"

#include <signal.h>

static volatile sig_atomic_t asked;

static void ask(int number)
{
    asked = 1;
    signal(number, SIG_DFL); /* the second time at once */
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

bool stop_asked(void) { return asked; }
