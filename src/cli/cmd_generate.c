/* cli/cmd_generate.c - `linnet generate`: a model writes text or symbols, or draws images, at the same cost
 * for every token. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/drawing.h"
#include "cli/generation.h"
#include "cli/prompt.h"
#include "cli/show/report.h"
#include "cli/show/status.h"
#include "cli/stop.h"
#include "cli/writer.h"

enum { DEFAULT_TOKENS = 400, STATUS_EVERY = 16 };

/* ---- text and symbols ---------------------------------------------------------------------- */

/* Until there is enough, or the model cannot take what it wrote last. */
static int write_text(generation *g, writer *w)
{
    const int64_t wanted = opt_given(g->o, OPT_FOREVER) ? INT64_MAX
                                                        : opt_whole(g->o, OPT_TOKENS, DEFAULT_TOKENS);
    int status = EXIT_OK;
    bool goes_on = true;
    for (int64_t i = 0; i < wanted && goes_on && !g->ended && !status && !stop_asked(); i++) {
        int32_t token;
        goes_on = lnt_session_room(g->session) > 0;
        status = generation_next(g, goes_on, &token);
        if (!status) status = writer_put(w, token);
        g->ended = w->stops.found || (lnt_model_ends(g->model, token) && !opt_given(g->o, OPT_FOREVER));
        if (!status && i % STATUS_EVERY == 0) generation_status(g);
    }
    status_end();
    return status ? status : writer_end(w);
}

/* That fewer tokens came than were asked for, once all else is done. */
static int tell_end(const generation *g)
{
    const bool forever = opt_given(g->o, OPT_FOREVER);
    const int64_t wanted = forever ? INT64_MAX : opt_whole(g->o, OPT_TOKENS, 0);
    if (stop_asked() || g->written >= wanted || g->ended) return EXIT_OK;
    return fail("%s: %lld tokens were written and no more: the model has learned %lld positions",
                option_name(forever ? OPT_FOREVER : OPT_TOKENS), (long long)g->written,
                (long long)g->info.length);
}

/* A state at the last position may have its last token written, or not: there is no telling. */
static int refuse_full(const generation *g)
{
    if (!opt_given(g->o, OPT_LOAD_STATE) || lnt_session_room(g->session) > 0) return EXIT_OK;
    return fail("'%s': is at the last of the %lld positions that the model has learned",
                opt_text(g->o, OPT_LOAD_STATE), (long long)g->info.length);
}

static int generate_text(generation *g)
{
    writer w;
    static const option_id of_images[] = { OPT_OUTPUT, OPT_IMAGES, OPT_DATA,    OPT_KEEP,
                                           OPT_EACH,   OPT_FIRST,  OPTION_COUNT };
    const option_id foreign = options_first_of(g->o, of_images);
    if (foreign != OPTION_COUNT)
        return fail_usage("%s is for models that draw images", option_name(foreign));
    if (opt_given(g->o, OPT_FOREVER) && opt_given(g->o, OPT_TOKENS))
        return fail_usage("--tokens and --forever cannot both be given");
    if (opt_given(g->o, OPT_STOP) && !prompt_is_text(g))
        return fail_usage("--stop is for models that write text");
    writer_open(&w, g, !opt_given(g->o, OPT_JSON), opt_given(g->o, OPT_JSON));
    int status = generation_begin(g, 1);
    if (!status) status = refuse_full(g);
    if (!status) status = prompt_prefill(g);
    stop_upon_signals(); /* what was written so far is kept, and the state saved */
    stop_hold_pipe();
    if (!status && opt_given(g->o, OPT_PROMPT) && !opt_given(g->o, OPT_JSON) && prompt_is_text(g))
        fputs(opt_text(g->o, OPT_PROMPT), stdout);
    const bool begun = !status;
    if (begun) status = write_text(g, &w);
    if (!status && !opt_given(g->o, OPT_JSON)) fputc('\n', stdout);
    if (!status && !fflush(stdout)) generation_status_last(g);
    const int saved = begun && !g->broken ? generation_end(g) : EXIT_OK; /* even where nobody reads on */
    if (!saved) stop_release_pipe();
    if (!status) status = saved;
    if (!status && opt_given(g->o, OPT_JSON)) generation_json(g, w.kept.text ? w.kept.text : "", w.kept.used);
    writer_close(&w);
    return status ? status : tell_end(g);
}

static int run(const options *o)
{
    generation g;
    int status = generation_open(&g, o);
    if (!status)
        status = strcmp(g.info.task, "mnist") == 0 ? drawing_write(&g) : generate_text(&g);
    generation_close(&g);
    return status;
}

const command cmd_generate = {
    .name = "generate",
    .bit = CMD_GENERATE,
    .usage = "MODEL [--prompt TEXT] [options]",
    .summary = "Generate text, symbols or images with a model",
    .details = "\n"
               "MODEL is a .safetensors file of Linnet, the directory of a run, a GGUF file, a directory\n"
               "as Hugging Face lays it out, or a file of llama2.c.  Text is printed as it is\n"
               "generated.  A terminal also shows the speed, the bytes of the state, and the bytes that a\n"
               "KV cache would have.\n"
               "\n"
               "The text ends after --tokens, where the model ends it, or before a text of --stop, whose\n"
               "tokens a saved state has read.  Sampling goes in this order: penalty, temperature, top-k,\n"
               "top-p, min-p.\n"
               "\n"
               "A model of symbols takes and prints tokens as numbers.  A model of images draws a sheet\n"
               "of them into -o FILE.png.  With --data it completes test images, one in each row: the\n"
               "part that is given, several completions, and the image itself.\n",
    .operands = 1,
    .run = run,
};
