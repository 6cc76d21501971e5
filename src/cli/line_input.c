/* cli/line_input.c - see line_input.h. */
#include "cli/line_input.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/show/report.h"
#include "cli/stop.h"

/* Bytes of the character at s, by RFC 3629; 0: there is none, or it is NUL. */
static size_t character(const unsigned char *s, size_t left)
{
    const size_t bytes = s[0] < 0x80 ? s[0] != 0 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3
                         : s[0] < 0xf5 ? 4 : 0;
    if (bytes > left) return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    const bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    /* Surrogates, and what is behind the last character. */
    const bool beyond = (s[0] == 0xed && s[1] >= 0xa0) || (s[0] == 0xf4 && s[1] >= 0x90);
    return bytes > 2 && (overlong || beyond) ? 0 : bytes;
}

static line_result give(line_input *in, const char *text, size_t bytes)
{
    static const char unknown[] = "\xef\xbf\xbd";
    if (bytes && text[bytes - 1] == '\r') bytes--;
    in->line.used = 0;
    int status = text_buffer_add(&in->line, "", 0);
    for (size_t at = 0; at < bytes && !status;) {
        size_t good = at, n;
        while (good < bytes && (n = character((const unsigned char *)text + good, bytes - good)) > 0)
            good += n;
        status = text_buffer_add(&in->line, text + at, good - at);
        if (!status && good < bytes) status = text_buffer_add(&in->line, unknown, sizeof unknown - 1);
        at = good + 1;
    }
    return status ? LINE_FAILED : LINE_READ;
}

/* Adds what there is to read; waits for it. */
static line_result read_more(line_input *in)
{
    enum { WAIT = 500 }; /* milliseconds until a signal that came just before the wait is noticed */
    char part[1 << 12];
    struct pollfd from = { .fd = STDIN_FILENO, .events = POLLIN };
    for (;;) {
        if (stop_asked()) return LINE_STOPPED;
        const int ready = poll(&from, 1, WAIT);
        if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
        const ssize_t bytes = read(STDIN_FILENO, part, sizeof part);
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0) {
            fail("cannot read standard input: %s", strerror(errno));
            return LINE_FAILED;
        }
        in->ended = bytes == 0;
        return text_buffer_add(&in->raw, part, (size_t)bytes) ? LINE_FAILED : LINE_READ;
    }
}

line_result line_input_next(line_input *in)
{
    size_t searched = 0;
    in->raw.used -= in->taken;
    if (in->raw.used) memmove(in->raw.text, in->raw.text + in->taken, in->raw.used);
    in->taken = 0;
    for (;;) {
        const char *from = in->raw.text ? in->raw.text + searched : "";
        const char *end = memchr(from, '\n', in->raw.used - searched);
        const size_t bytes = end ? (size_t)(end - in->raw.text) : in->raw.used;
        if (end || (in->ended && bytes)) {
            in->taken = bytes + (end != NULL);
            return give(in, in->raw.text, bytes);
        }
        if (in->ended) return LINE_END;
        searched = bytes;
        const line_result result = read_more(in);
        if (result != LINE_READ) return result;
    }
}

void line_input_close(line_input *in)
{
    free(in->raw.text);
    free(in->line.text);
}
