/* cli/cmd_generate.c - `linnet generate`: a model writes text, or symbols, or draws images, at the same
 * cost for every token. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/drawing.h"
#include "cli/page.h"
#include "cli/prompt.h"
#include "cli/show/report.h"
#include "cli/show/status.h"
#include "cli/stop.h"
#include "cli/writing.h"

enum { DEFAULT_TOKENS = 400, STATUS_EVERY = 16 };

/* ---- text and symbols ---------------------------------------------------------------------- */

static int put_token(const writing *w, int32_t token, page *kept)
{
    const char *text;
    char number[16];
    size_t bytes;
    if (!prompt_is_text(w)) {
        bytes = (size_t)snprintf(number, sizeof number, "%d ", token);
        text = number;
    } else if (lnt_model_decode(w->model, token, &text, &bytes)) {
        return fail_ctx(w->ctx);
    }
    if (opt_given(w->o, OPT_JSON)) return page_add(kept, text, bytes);
    fwrite(text, 1, bytes, stdout);
    if (!fflush(stdout)) return EXIT_OK;
    return stop_pipe_closed() ? EXIT_FAILED : fail("cannot write to standard output: %s", strerror(errno));
}

/* Until there is enough, or the model cannot take what it wrote last. */
static int write_text(writing *w, page *kept)
{
    const int64_t wanted = opt_given(w->o, OPT_FOREVER) ? INT64_MAX
                                                        : opt_whole(w->o, OPT_TOKENS, DEFAULT_TOKENS);
    int status = EXIT_OK;
    bool goes_on = true;
    for (int64_t i = 0; i < wanted && goes_on && !status && !stop_asked(); i++) {
        int32_t token;
        goes_on = lnt_session_room(w->session) > 0;
        status = writing_next(w, goes_on, &token);
        if (!status) status = put_token(w, token, kept);
        if (!status && i % STATUS_EVERY == 0) writing_status(w);
    }
    status_end();
    return status;
}

/* That fewer tokens came than were asked for, once all else is done. */
static int tell_end(const writing *w)
{
    const bool forever = opt_given(w->o, OPT_FOREVER);
    const int64_t wanted = forever ? INT64_MAX : opt_whole(w->o, OPT_TOKENS, 0);
    if (stop_asked() || w->written >= wanted) return EXIT_OK;
    return fail("%s: %lld tokens were written and no more: the model has learned %lld positions",
                option_name(forever ? OPT_FOREVER : OPT_TOKENS), (long long)w->written,
                (long long)w->info.length);
}

/* A state at the last position may have its last token written, or not: there is no telling. */
static int refuse_full(const writing *w)
{
    if (!opt_given(w->o, OPT_LOAD_STATE) || lnt_session_room(w->session) > 0) return EXIT_OK;
    return fail("'%s': is at the last of the %lld positions that the model has learned",
                opt_text(w->o, OPT_LOAD_STATE), (long long)w->info.length);
}

static int generate_text(writing *w)
{
    page kept = { 0 };
    static const option_id of_images[] = { OPT_OUTPUT, OPT_IMAGES, OPT_DATA,    OPT_KEEP,
                                           OPT_EACH,   OPT_FIRST,  OPTION_COUNT };
    const option_id foreign = options_first_of(w->o, of_images);
    if (foreign != OPTION_COUNT)
        return fail_usage("%s is for models that draw images", option_name(foreign));
    if (opt_given(w->o, OPT_FOREVER) && opt_given(w->o, OPT_TOKENS))
        return fail_usage("--tokens and --forever cannot both be given");
    int status = writing_begin(w, 1);
    if (!status) status = refuse_full(w);
    if (!status) status = prompt_feed(w);
    stop_upon_signals(); /* what was written so far is kept, and the state saved */
    stop_hold_pipe();
    if (!status && opt_given(w->o, OPT_PROMPT) && !opt_given(w->o, OPT_JSON) && prompt_is_text(w))
        fputs(opt_text(w->o, OPT_PROMPT), stdout);
    const bool begun = !status;
    if (begun) status = write_text(w, &kept);
    if (!status && !opt_given(w->o, OPT_JSON)) fputc('\n', stdout);
    if (!status && !fflush(stdout)) writing_status_last(w);
    const int saved = begun && !w->broken ? writing_end(w) : EXIT_OK; /* even where nobody reads on */
    if (!saved) stop_release_pipe();
    if (!status) status = saved;
    if (!status && opt_given(w->o, OPT_JSON)) writing_json(w, kept.text ? kept.text : "", kept.used);
    free(kept.text);
    return status ? status : tell_end(w);
}

static int run(const options *o)
{
    writing w;
    int status = writing_open(&w, o);
    if (!status)
        status = strcmp(w.info.task, "mnist") == 0 ? drawing_write(&w) : generate_text(&w);
    writing_close(&w);
    return status;
}

const command cmd_generate = {
    .name = "generate",
    .bit = CMD_GENERATE,
    .usage = "MODEL [--prompt TEXT] [options]",
    .summary = "Writes with a model, at the same cost for every token",
    .details = "\n"
               "MODEL is a .safetensors file, or the directory of a run.  Text is streamed as it\n"
               "comes; a terminal shows the speed, the bytes that are remembered, and what a KV cache\n"
               "would hold by now.  A model of symbols takes and gives tokens as numbers; a model of\n"
               "images draws a sheet of them into -o FILE.png, or with --data completes those that are\n"
               "for testing, a row for each: what is given of it, how the model goes on from there\n"
               "several times, and how it truly is.\n",
    .operands = 1,
    .run = run,
};
