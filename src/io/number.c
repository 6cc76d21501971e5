/* io/number.c - the C library's own conversions, under the C locale of this thread alone. */
#include "io/number.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

void lnt_number_write(double value, int digits, char out[LNT_NUMBER_TEXT])
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(plain);
    snprintf(out, LNT_NUMBER_TEXT, "%.*g", digits, value);
    uselocale(before);
    freelocale(plain);
}

double lnt_number_read(const char *text)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(plain);
    const double value = strtod(text, NULL);
    uselocale(before);
    freelocale(plain);
    return value;
}
