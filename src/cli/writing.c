/* cli/writing.c - see writing.h. */
#include "cli/writing.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/clock.h"
#include "cli/place.h"
#include "cli/request.h"
#include "cli/show/amount.h"
#include "cli/show/json.h"
#include "cli/show/report.h"
#include "cli/show/status.h"
#include "cli/subject.h"
#include "cli/two_files.h"

int writing_open(writing *w, const options *o)
{
    const double top_p = opt_real(o, OPT_TOP_P, 1);
    *w = (writing){ .o = o, .batch = 1, .info = { .size = sizeof w->info } };
    if (!(top_p > 0 && top_p <= 1))
        return fail_usage("--top-p: '%s' is not a number above 0 and at most 1",
                          opt_text(o, OPT_TOP_P));
    w->sampling = (lnt_sampling){ .size = sizeof w->sampling,
                                  .temperature = opt_real(o, OPT_SAMPLE_TEMPERATURE, 1),
                                  .top_k = opt_whole(o, OPT_TOP_K, 0),
                                  .top_p = top_p,
                                  .seed = o->value[OPT_SEED].seed };
    const char *to = opt_text(o, OPT_SAVE_STATE), *prompt = opt_text(o, OPT_PROMPT_FILE);
    if (to && subject_is(o->operand[0], to)) return fail_usage("--save-state: '%s' is the model itself", to);
    if (to && prompt && two_files_are_one(prompt, to))
        return fail_usage("--save-state and --prompt-file are the same file, '%s'", to);
    int status = request_context(o, 0, &w->ctx);
    if (!status) status = subject_load(w->ctx, o->operand[0], &w->model);
    if (status) return status;
    if (lnt_model_describe(w->model, &w->info)) return fail_ctx(w->ctx);
    if (!w->info.generates)
        return fail("'%s': task %s has an encoder, which does not generate", o->operand[0],
                    w->info.task);
    return EXIT_OK;
}

int writing_begin(writing *w, int64_t batch)
{
    const char *from = opt_text(w->o, OPT_LOAD_STATE), *to = opt_text(w->o, OPT_SAVE_STATE);
    struct stat st;
    const bool there = to && !stat(to, &st);
    const bool special = there && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode); /* a device: as it stands */
    const int unwritable = to && !special ? place_check(to) : EXIT_OK;
    if (unwritable) return unwritable;
    w->batch = batch;
    const lnt_status status = from ? lnt_session_load(w->model, from, &w->session)
                                   : lnt_session_create(w->model, batch, &w->session);
    if (status) return fail_ctx(w->ctx);
    if (lnt_session_batch(w->session) != batch)
        return fail("'%s': holds %lld sequences, must hold %lld", from,
                    (long long)lnt_session_batch(w->session), (long long)batch);
    return EXIT_OK;
}

int writing_end(writing *w)
{
    const char *to = opt_text(w->o, OPT_SAVE_STATE);
    return to && lnt_session_save(w->session, to) ? fail_ctx(w->ctx) : EXIT_OK;
}

void writing_close(writing *w)
{
    lnt_session_destroy(w->session);
    lnt_model_destroy(w->model);
    lnt_ctx_destroy(w->ctx);
}

int writing_next(writing *w, bool goes_on, int32_t *tokens)
{
    const double before = now_seconds();
    w->broken = lnt_session_sample(w->session, &w->sampling, tokens) ||
                (goes_on && lnt_session_feed(w->session, tokens, 1));
    if (w->broken) return fail_ctx(w->ctx);
    w->seconds += now_seconds() - before;
    w->written++;
    return EXIT_OK;
}

static double speed(const writing *w)
{
    return w->seconds > 0 ? (double)(w->written * w->batch) / w->seconds : 0;
}

static const char *figures(const writing *w, char *text, size_t capacity)
{
    char rate[32], state[32], cache[32];
    text_bytes((double)lnt_session_bytes(w->session), state, sizeof state);
    text_bytes(lnt_session_cache_bytes(w->session), cache, sizeof cache);
    text_count(speed(w), rate, sizeof rate);
    snprintf(text, capacity, "[%lld tokens, %s tokens/s, state %s, a KV cache would hold %s]",
             (long long)lnt_session_tokens(w->session), rate, state, cache);
    return text;
}

void writing_status(const writing *w)
{
    char text[160];
    status_show(figures(w, text, sizeof text));
}

void writing_status_last(const writing *w)
{
    char text[160];
    if (isatty(STDERR_FILENO)) fprintf(stderr, "%s\n", figures(w, text, sizeof text));
}

void writing_json(const writing *w, const char *text, size_t bytes)
{
    json line = json_begin(stdout);
    json_text(&line, "task", w->info.task);
    json_text(&line, "mechanism", w->info.mechanism);
    if (text) json_bytes(&line, "text", text, bytes);
    json_whole(&line, "tokens", lnt_session_tokens(w->session));
    json_whole(&line, "written", w->written * w->batch);
    json_real(&line, "seconds", w->seconds);
    json_real(&line, "tokens_per_second", speed(w));
    json_whole(&line, "state_bytes", (int64_t)lnt_session_bytes(w->session));
    json_real(&line, "kv_cache_bytes", lnt_session_cache_bytes(w->session));
    json_end(&line);
}
