/* cli/show/status.c - see status.h.
 *
 * The last row of the terminal is excluded from scrolling (DECSTBM), so the text never runs into it.  The
 * cursor is saved and restored by its screen position, which is right because that row does not move. */
#include "cli/show/status.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/stop.h"

#define SAVE "\0337"
#define RESTORE "\0338"
#define DOWN "\033D" /* in the same column; what is there scrolls at the end */
#define UP "\033[A"
#define CLEAR "\033[K"

static volatile sig_atomic_t shown;
static volatile sig_atomic_t reserved; /* rows of the terminal, the last kept for the line; 0: it is not */

static bool can_move(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
}

/* Whoever ends or stops the process by the keyboard finds all rows of the terminal again. */
static void give_back(int number)
{
    static const char all[] = SAVE "\033[r" RESTORE;
    const int before = errno;
    const ssize_t written = reserved ? write(STDERR_FILENO, all, sizeof all - 1) : 0;
    (void)written; /* who is there to tell */
    reserved = shown = 0;
    signal(number, SIG_DFL);
    raise(number); /* once this returns */
    errno = before;
}

/* Unless it is ignored. */
static bool listen_for(int number)
{
    if (signal(number, give_back) != SIG_IGN) return true;
    signal(number, SIG_IGN);
    return false;
}

static void listen_again(int number)
{
    (void)number;
    signal(SIGTSTP, give_back);
}

static void reserve(int rows)
{
    static bool listens;
    if (reserved == rows) return;
    if (!listens) {
        listen_for(SIGQUIT);
        if (listen_for(SIGTSTP)) signal(SIGCONT, listen_again);
        stop_finally(give_back);
        listens = true;
    }
    reserved = rows;
    fprintf(stderr, DOWN UP SAVE "\033[1;%dr" RESTORE, rows - 1);
}

void status_show(const char *text)
{
    struct winsize size;
    if (!can_move()) return;
    const bool known = !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_row > 2 && size.ws_col > 1;
    const int wide = known ? size.ws_col - 1 : 79; /* a line that wraps is no longer one */
    if (!isatty(STDOUT_FILENO)) {
        fprintf(stderr, "\r" CLEAR "%.*s", wide, text);
    } else if (known) {
        reserve(size.ws_row);
        fprintf(stderr, SAVE "\033[%d;1H" CLEAR "%.*s" RESTORE, size.ws_row, wide, text);
    } else {
        return;
    }
    fflush(stderr);
    shown = true;
}

void status_end(void)
{
    if (!shown) return;
    if (reserved) fprintf(stderr, SAVE "\033[r\033[%d;1H" CLEAR RESTORE, (int)reserved);
    else fputs("\r" CLEAR, stderr);
    fflush(stderr);
    shown = false;
    reserved = 0;
}
