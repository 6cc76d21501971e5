/* io/number.c - conversions of the C library under the C locale, which is set for this thread only. */
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
