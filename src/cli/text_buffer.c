/* cli/text_buffer.c - see text_buffer.h. */
#include "cli/text_buffer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show/report.h"

int text_buffer_add(text_buffer *b, const char *text, size_t bytes)
{
    if (b->used + bytes + 1 > b->room) {
        const size_t room = 2 * (b->used + bytes + 1);
        char *grown = realloc(b->text, room);
        if (!grown) return fail_memory(room);
        b->text = grown;
        b->room = room;
    }
    memcpy(b->text + b->used, text, bytes);
    b->used += bytes;
    b->text[b->used] = '\0';
    return EXIT_OK;
}

int text_buffer_read(text_buffer *b, const char *path)
{
    char part[1 << 14];
    FILE *from = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!from) return fail("cannot read '%s': %s", path, strerror(errno));
    int status = EXIT_OK;
    for (size_t bytes; !status && (bytes = fread(part, 1, sizeof part, from)) > 0;)
        status = text_buffer_add(b, part, bytes);
    if (!status && ferror(from)) status = fail("cannot read '%s': %s", path, strerror(errno));
    if (from != stdin) fclose(from);
    return status;
}
