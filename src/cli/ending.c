/* cli/ending.c - see ending.h.  A piece costs (what is held + its bytes) x the texts. */
#include "cli/ending.h"

#include <stdlib.h>
#include <string.h>

#include "cli/show/report.h"

void ending_open(ending *e, const options *o) { *e = (ending){ .text = o->stop, .count = o->stop_count }; }

void ending_close(ending *e) { free(e->held.text); }

/* The first place in what is held where one of the texts stands, or with `whole` false may begin to; or its
 * end. */
static size_t find(const ending *e, bool whole)
{
    for (size_t at = 0; at < e->held.used; at++)
        for (int i = 0; i < e->count; i++) {
            const size_t bytes = strlen(e->text[i]), left = e->held.used - at;
            if ((!whole || left >= bytes) &&
                memcmp(e->held.text + at, e->text[i], left < bytes ? left : bytes) == 0)
                return at;
        }
    return e->held.used;
}

static void drop_given(ending *e)
{
    if (!e->given) return;
    e->held.used -= e->given;
    memmove(e->held.text, e->held.text + e->given, e->held.used);
    e->given = 0;
}

int ending_put(ending *e, const char *piece, size_t bytes, const char **text, size_t *text_bytes)
{
    *text = piece;
    *text_bytes = e->found ? 0 : bytes;
    if (!e->count || e->found) return EXIT_OK;
    drop_given(e);
    const int status = text_buffer_add(&e->held, piece, bytes);
    if (status) return status;
    const size_t whole = find(e, true);
    e->found = whole < e->held.used;
    e->given = e->found ? whole : find(e, false);
    *text = e->held.text;
    *text_bytes = e->given;
    return EXIT_OK;
}

void ending_end(ending *e, const char **text, size_t *bytes)
{
    drop_given(e);
    *text = e->held.text ? e->held.text : "";
    *bytes = e->found ? 0 : e->held.used;
    e->held.used = 0;
    e->found = false;
}
