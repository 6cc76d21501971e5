/* model/template/date.c - a date in the ways templates write it: strftime in English, whatever the locale. */
#include <stdio.h>
#include <string.h>

#include "model/template/render.h"

static const char *const months[] = { "January",   "February", "March",    "April",
                                      "May",       "June",     "July",     "August",
                                      "September", "October",  "November", "December" };
static const char *const days[] = { "Sunday",   "Monday", "Tuesday", "Wednesday",
                                    "Thursday", "Friday", "Saturday" };

static int within(int value, int count) { return value >= 0 && value < count ? value : 0; }

/* What %c stands for, in to [64]; with `plain` a number has no zeros before it.  False: not known. */
static bool write_part(char c, bool plain, const struct tm *when, char *to)
{
    const int hour = within(when->tm_hour, 24);
    const struct {
        char name;
        int value, digits;
    } numbers[] = { { 'd', when->tm_mday, 2 },
                    { 'm', when->tm_mon + 1, 2 },
                    { 'Y', when->tm_year + 1900, 4 },
                    { 'y', (when->tm_year % 100 + 100) % 100, 2 },
                    { 'H', hour, 2 },
                    { 'I', (hour + 11) % 12 + 1, 2 },
                    { 'M', when->tm_min, 2 },
                    { 'S', when->tm_sec, 2 },
                    { 'j', when->tm_yday + 1, 3 },
                    { 'w', when->tm_wday, 1 } };
    const char *const month = months[within(when->tm_mon, 12)], *const day = days[within(when->tm_wday, 7)];
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (c == numbers[i].name)
            return snprintf(to, 64, "%0*d", plain ? 1 : numbers[i].digits, numbers[i].value) > 0;
    switch (plain ? 0 : c) {
    case 'B': strcpy(to, month); break;
    case 'b': sprintf(to, "%.3s", month); break;
    case 'A': strcpy(to, day); break;
    case 'a': sprintf(to, "%.3s", day); break;
    case 'p': strcpy(to, hour < 12 ? "AM" : "PM"); break;
    case '%': strcpy(to, "%"); break;
    case 'F': snprintf(to, 64, "%d-%02d-%02d", when->tm_year + 1900, when->tm_mon + 1, when->tm_mday); break;
    case 'T': snprintf(to, 64, "%02d:%02d:%02d", when->tm_hour, when->tm_min, when->tm_sec); break;
    default: return false;
    }
    return true;
}

bool lnt_date_write(lnt_render *r, lnt_span format, const struct tm *when, lnt_value *out)
{
    lnt_buffer to = { 0 };
    for (size_t i = 0; i < format.bytes; i++) {
        char part[64] = { format.text[i], 0 };
        size_t bytes = 1;
        if (format.text[i] == '%') {
            const bool plain = i + 2 < format.bytes && format.text[i + 1] == '-';
            i += plain ? 2 : 1;
            const char c = i < format.bytes ? format.text[i] : ' ';
            if (!c || !write_part(c, plain, when, part))
                return lnt_render_fail(r, "strftime_now of '%%%s%c', which is not known",
                                       plain ? "-" : "", c);
            bytes = strlen(part);
        }
        if (!lnt_render_put(r, &to, part, bytes)) return false;
    }
    *out = lnt_value_text((lnt_span){ to.text ? to.text : "", to.bytes });
    return true;
}
