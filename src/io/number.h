/* io/number.h - numbers as text with a decimal point, whatever the locale of the program. */
#ifndef LNT_IO_NUMBER_H
#define LNT_IO_NUMBER_H

#include "core/private.h"

enum { LNT_NUMBER_TEXT = 32 };

/* In `digits` significant digits; 17 tell every double from every other. */
LNT_PRIVATE_API void lnt_number_write(double value, int digits, char out[LNT_NUMBER_TEXT]);

/* The double nearest to the decimal number at the begin of text. */
LNT_PRIVATE_API double lnt_number_read(const char *text);

#endif
