/* cli/show/report.c - error messages, progress on a terminal, failures of standard output. */
#include "cli/show/report.h"

#include <errno.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { SENTENCE = 2 * PATH_MAX }; /* bytes; two paths and more do not fit a sentence */

static const char *command_name = "";
static bool progress_shown = false;

void report_command(const char *name) { command_name = name; }

/* One line, whatever the names in it: nothing that ends it, and nothing a terminal would obey. */
static void say(const char *format, va_list args)
{
    char text[SENTENCE];
    vsnprintf(text, sizeof text, format, args);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
    progress_end();
    fprintf(stderr, "linnet%s%s: %s\n", *command_name ? " " : "", command_name, text);
}

int fail_usage(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    return EXIT_USAGE;
}

int fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    return EXIT_FAILED;
}

void note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
}

int fail_ctx(const lnt_ctx *ctx) { return fail("%s", lnt_ctx_error(ctx)); }

int fail_memory(size_t bytes) { return fail("out of memory: %zu bytes are needed", bytes); }

int finish_stdout(int status)
{
    errno = 0;
    const bool failed = fflush(stdout) != 0 || ferror(stdout);
    if (!failed || status != EXIT_OK) return status;
    return fail("cannot write to standard output: %s", errno ? strerror(errno) : "write error");
}

/* Of the terminal at stderr; a line that fills them all is no longer one. */
static int columns(void)
{
    struct winsize size;
    return !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col > 1 ? size.ws_col - 1 : 79;
}

void progress(const char *what, int done, int total)
{
    enum { WIDEST = 30, LEAST = 5, AROUND = 3 }; /* of the bar; and its ends with a space */
    if (total <= 0 || !isatty(STDERR_FILENO)) return;
    char text[160], bar[WIDEST + AROUND + 1] = "";
    const int most = columns(), used = snprintf(text, sizeof text, "%d/%d %s", done, total, what);
    const int room = most - used - AROUND, wide = room < WIDEST ? room : WIDEST;
    if (wide >= LEAST) {
        const int filled = (int)((int64_t)done * wide / total);
        snprintf(bar, sizeof bar, "[%*s] ", wide, "");
        memset(bar + 1, '#', (size_t)filled);
        memset(bar + 1 + filled, '.', (size_t)(wide - filled));
    }
    fprintf(stderr, "\r\033[K%s%.*s", bar, most, text);
    fflush(stderr);
    progress_shown = true;
}

void progress_end(void)
{
    if (progress_shown) fputs("\r\033[K", stderr);
    progress_shown = false;
}

bool use_color(void)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    return !(no_color && *no_color) && !(term && !strcmp(term, "dumb")) && isatty(STDOUT_FILENO);
}

bool use_utf8(void)
{
    setlocale(LC_CTYPE, ""); /* only the character set: numbers keep the C locale's point */
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}
