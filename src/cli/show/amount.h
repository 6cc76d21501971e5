/* cli/show/amount.h - amounts for people: three digits and a prefix. */
#ifndef LNT_CLI_SHOW_AMOUNT_H
#define LNT_CLI_SHOW_AMOUNT_H

#include <stddef.h>
#include <stdint.h>

/* "1.25 ms", "133 kB": three digits and a prefix; "too large" for what is not finite.  Returns
 * text. */
const char *text_seconds(double seconds, char *text, size_t capacity);
const char *text_bytes(double bytes, char *text, size_t capacity);
const char *text_count(double count, char *text, size_t capacity); /* 1.02 M */
const char *plural(int64_t count); /* "s", or "" for one */

#endif
