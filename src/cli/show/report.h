/* cli/show/report.h - error messages of one sentence, progress, and whether standard output was written. */
#ifndef LNT_CLI_SHOW_REPORT_H
#define LNT_CLI_SHOW_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "linnet.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

#if defined(__GNUC__)
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#else
#define PRINTF_LIKE(text, first)
#endif

/* The command that sentences start with; set once by main. */
void report_command(const char *name);

/* One sentence on stderr; return the exit status, so that a failing call is one line. */
int fail_usage(const char *format, ...) PRINTF_LIKE(1, 2);
int fail(const char *format, ...) PRINTF_LIKE(1, 2);
/* Something to know that is no failure: one sentence on stderr. */
void note(const char *format, ...) PRINTF_LIKE(1, 2);
/* The library's sentence. */
int fail_ctx(const lnt_ctx *ctx);
int fail_memory(size_t bytes);

/* EXIT_FAILED, with a sentence, if standard output could not be written. */
int finish_stdout(int status);

/* A bar on stderr where that is a terminal, else nothing.  progress_end wipes it. */
void progress(const char *what, int done, int total);
void progress_end(void);

/* Colours are for terminals, and only where NO_COLOR does not forbid them. */
bool use_color(void);
/* Whether the terminal's character set is UTF-8. */
bool use_utf8(void);

#endif
