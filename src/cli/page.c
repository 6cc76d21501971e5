/* cli/page.c - see page.h. */
#include "cli/page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show/report.h"

int page_add(page *p, const char *text, size_t bytes)
{
    if (p->used + bytes + 1 > p->room) {
        const size_t room = 2 * (p->used + bytes + 1);
        char *grown = realloc(p->text, room);
        if (!grown) return fail_memory(room);
        p->text = grown;
        p->room = room;
    }
    memcpy(p->text + p->used, text, bytes);
    p->used += bytes;
    p->text[p->used] = '\0';
    return EXIT_OK;
}

int page_read(page *p, const char *path)
{
    char part[1 << 14];
    FILE *from = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!from) return fail("cannot read '%s': %s", path, strerror(errno));
    int status = EXIT_OK;
    for (size_t bytes; !status && (bytes = fread(part, 1, sizeof part, from)) > 0;)
        status = page_add(p, part, bytes);
    if (!status && ferror(from)) status = fail("cannot read '%s': %s", path, strerror(errno));
    if (from != stdin) fclose(from);
    return status;
}
