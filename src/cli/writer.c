/* cli/writer.c - see writer.h. */
#include "cli/writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/prompt.h"
#include "cli/show/report.h"
#include "cli/stop.h"

void writer_open(writer *w, const generation *g, bool prints, bool keeps)
{
    *w = (writer){ .g = g, .prints = prints, .keeps = keeps };
    ending_open(&w->stops, g->o);
}

void writer_close(writer *w)
{
    free(w->kept.text);
    ending_close(&w->stops);
}

static int emit(writer *w, const char *text, size_t bytes)
{
    if (!bytes) return EXIT_OK;
    const int status = w->keeps ? text_buffer_add(&w->kept, text, bytes) : EXIT_OK;
    if (status || !w->prints) return status;
    fwrite(text, 1, bytes, stdout);
    if (!fflush(stdout)) return EXIT_OK;
    return stop_pipe_closed() ? EXIT_FAILED : fail("cannot write to standard output: %s", strerror(errno));
}

static int put_text(writer *w, const char *text, size_t bytes)
{
    int status = w->all ? text_buffer_add(w->all, text, bytes) : EXIT_OK;
    if (!status) status = ending_put(&w->stops, text, bytes, &text, &bytes);
    return status ? status : emit(w, text, bytes);
}

int writer_put(writer *w, int32_t token)
{
    const generation *g = w->g;
    const char *text;
    char number[16];
    size_t bytes;
    if (g->stream) {
        if (lnt_stream_put(g->stream, token, &text, &bytes)) return fail_ctx(g->ctx);
    } else if (!prompt_is_text(g)) {
        bytes = (size_t)snprintf(number, sizeof number, "%d ", token);
        text = number;
    } else if (lnt_model_decode(g->model, token, &text, &bytes)) {
        return fail_ctx(g->ctx);
    }
    return put_text(w, text, bytes);
}

int writer_end(writer *w)
{
    const char *text = "";
    size_t bytes = 0;
    if (w->g->stream && lnt_stream_end(w->g->stream, &text, &bytes)) return fail_ctx(w->g->ctx);
    int status = bytes ? put_text(w, text, bytes) : EXIT_OK;
    ending_end(&w->stops, &text, &bytes);
    return status ? status : emit(w, text, bytes);
}
