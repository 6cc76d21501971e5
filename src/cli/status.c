/* cli/status.c - see status.h.
 *
 * The last row is kept out of what scrolls (DECSTBM), so that the text never runs into it; the cursor
 * goes there and back by its place on the screen, which holds because that row does not move. */
#include "cli/status.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SAVE "\0337"
#define RESTORE "\0338"
#define DOWN "\033D" /* in the same column; what is there scrolls at the end */
#define UP "\033[A"
#define CLEAR "\033[K"

static bool shown;
static int reserved; /* rows of the terminal whose last is kept for the line; 0: it is not kept */

static bool can_move(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
}

static void reserve(int rows)
{
    if (reserved == rows) return;
    fprintf(stderr, DOWN UP SAVE "\033[1;%dr" RESTORE, rows - 1);
    reserved = rows;
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
        fprintf(stderr, SAVE "\033[%d;1H" CLEAR "%.*s" RESTORE, reserved, wide, text);
    } else {
        return;
    }
    fflush(stderr);
    shown = true;
}

void status_end(void)
{
    if (!shown) return;
    if (reserved) fprintf(stderr, SAVE "\033[r\033[%d;1H" CLEAR RESTORE, reserved);
    else fputs("\r" CLEAR, stderr);
    fflush(stderr);
    shown = false;
    reserved = 0;
}
