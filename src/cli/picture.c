/* cli/picture.c - see picture.h. */
#include "cli/picture.h"

#include <string.h>
#include <strings.h>

#include "cli/place.h"
#include "cli/report.h"

static bool ends_in(const char *path, const char *ending)
{
    const size_t length = strlen(path), wanted = strlen(ending);
    return length > wanted && strcasecmp(path + length - wanted, ending) == 0;
}

int picture_check_png(const options *o)
{
    const char *path = opt_text(o, OPT_OUTPUT);
    if (ends_in(path, ".png")) return place_check(path);
    return fail_usage("%s: '%s' must end in .png, which is what is written", option_name(OPT_OUTPUT), path);
}

int picture_check_svg(const options *o)
{
    static const char *const others[] = { ".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp",
                                          ".tif", ".tiff", ".pdf", ".ps",  ".eps",  NULL };
    const char *path = opt_text(o, OPT_SVG);
    if (!path) return EXIT_OK;
    for (int i = 0; others[i]; i++)
        if (ends_in(path, others[i]))
            return fail_usage("%s: '%s' must end in .svg, which is what is written", option_name(OPT_SVG),
                              path);
    return place_check(path);
}
