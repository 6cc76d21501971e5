/* cli/show/picture.c - see picture.h. */
#include "cli/show/picture.h"

#include <string.h>
#include <strings.h>

#include "cli/output_file.h"
#include "cli/show/report.h"

static bool ends_in(const char *path, const char *ending)
{
    const size_t length = strlen(path), wanted = strlen(ending);
    return length > wanted && strcasecmp(path + length - wanted, ending) == 0;
}

int picture_check(const options *o, option_id which, const char *ending)
{
    static const char *const kinds[] = { ".png",  ".svg", ".jpg",  ".jpeg", ".gif", ".webp", ".bmp",
                                         ".tif", ".tiff", ".pdf", ".ps",   ".eps", NULL };
    const char *path = opt_text(o, which);
    if (!path) return EXIT_OK;
    for (int i = 0; kinds[i]; i++)
        if (ends_in(path, kinds[i]) && !ends_in(path, ending))
            return fail_usage("%s: '%s' must end in %s, which is what is written", option_name(which), path,
                              ending);
    return output_file_check(path);
}
