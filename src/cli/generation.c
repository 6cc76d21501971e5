/* cli/generation.c - see generation.h. */
#include "cli/generation.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/clock.h"
#include "cli/model.h"
#include "cli/output_file.h"
#include "cli/request.h"
#include "cli/show/amount.h"
#include "cli/show/json.h"
#include "cli/show/report.h"
#include "cli/show/status.h"

int generation_open(generation *g, const options *o)
{
    const double top_p = opt_real(o, OPT_TOP_P, 1), min_p = opt_real(o, OPT_MIN_P, 0);
    const double penalty = opt_real(o, OPT_REPETITION_PENALTY, 1);
    *g = (generation){ .o = o, .batch = 1, .info = { .size = sizeof g->info } };
    if (!(top_p > 0 && top_p <= 1))
        return fail_usage("--top-p: '%s' is not a number above 0 and at most 1",
                          opt_text(o, OPT_TOP_P));
    if (min_p > 1)
        return fail_usage("--min-p: '%s' is not a number from 0 to 1", opt_text(o, OPT_MIN_P));
    if (penalty > 100)
        return fail_usage("--repetition-penalty: '%s' is not a number from 0.01 to 100",
                          opt_text(o, OPT_REPETITION_PENALTY));
    g->sampling = (lnt_sampling){ .size = sizeof g->sampling,
                                  .temperature = opt_real(o, OPT_SAMPLE_TEMPERATURE, 1),
                                  .top_k = opt_whole(o, OPT_TOP_K, 0),
                                  .top_p = top_p,
                                  .seed = o->value[OPT_SEED].seed,
                                  .min_p = min_p,
                                  .repetition_penalty = penalty,
                                  .penalty_tokens = opt_whole(o, OPT_PENALTY_TOKENS, 0) };
    const char *to = opt_text(o, OPT_SAVE_STATE), *prompt = opt_text(o, OPT_PROMPT_FILE);
    if (to && model_is_file(o->operand[0], to))
        return fail_usage("--save-state: '%s' is the model itself", to);
    if (to && prompt && same_file(prompt, to))
        return fail_usage("--save-state and --prompt-file are the same file, '%s'", to);
    int status = request_context(o, 0, &g->ctx);
    if (!status) status = model_load_as(o, g->ctx, o->operand[0], &g->model);
    if (status) return status;
    if (lnt_model_describe(g->model, &g->info)) return fail_ctx(g->ctx);
    if (g->info.architecture[0] && lnt_stream_create(g->model, &g->stream)) return fail_ctx(g->ctx);
    if (g->info.architecture[0] && opt_given(o, OPT_MECHANISM) && isatty(STDERR_FILENO))
        note("the model was not trained with this mechanism; 'linnet eval' with the same options says what "
             "it costs");
    if (!g->info.generates)
        return fail("'%s': %s%s has an encoder, which does not generate", o->operand[0],
                    g->info.architecture[0] ? g->info.architecture : "task ", g->info.task);
    return EXIT_OK;
}

static int check_loaded(const generation *g, const char *path, int64_t batch, const lnt_session *session)
{
    const lnt_cache found = lnt_session_cache(session);
    if (lnt_session_batch(session) != batch)
        return fail("'%s': holds %lld sequences, must hold %lld", path, (long long)lnt_session_batch(session),
                    (long long)batch);
    if (opt_given(g->o, OPT_SESSION_CACHE) && opt_whole(g->o, OPT_SESSION_CACHE, found) != (int64_t)found)
        return fail("'%s': its cache is '%s', --cache is '%s'; it goes on without --cache", path,
                    lnt_cache_name(found), lnt_cache_name((lnt_cache)opt_whole(g->o, OPT_SESSION_CACHE, 0)));
    return EXIT_OK;
}

int generation_load(const generation *g, const char *path, int64_t batch, lnt_session **out)
{
    if (lnt_session_load(g->model, path, out)) return fail_ctx(g->ctx);
    const int status = check_loaded(g, path, batch, *out);
    if (!status) return EXIT_OK;
    lnt_session_destroy(*out);
    *out = NULL;
    return status;
}

int generation_begin(generation *g, int64_t batch)
{
    const char *from = opt_text(g->o, OPT_LOAD_STATE), *to = opt_text(g->o, OPT_SAVE_STATE);
    struct stat st;
    const bool there = to && !stat(to, &st);
    const bool special = there && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode); /* a device: as it stands */
    const int unwritable = to && !special ? output_file_check(to) : EXIT_OK;
    if (unwritable) return unwritable;
    g->batch = batch;
    return from ? generation_load(g, from, batch, &g->session)
                : model_session(g->o, g->ctx, g->model, batch, &g->session);
}

int generation_end(generation *g)
{
    const char *to = opt_text(g->o, OPT_SAVE_STATE);
    return to && lnt_session_save(g->session, to) ? fail_ctx(g->ctx) : EXIT_OK;
}

void generation_close(generation *g)
{
    lnt_stream_destroy(g->stream);
    lnt_session_destroy(g->session);
    lnt_model_destroy(g->model);
    lnt_ctx_destroy(g->ctx);
}

int generation_next(generation *g, bool goes_on, int32_t *tokens)
{
    const double before = now_seconds();
    g->broken = lnt_session_sample(g->session, &g->sampling, tokens) ||
                (goes_on && lnt_session_forward(g->session, tokens, 1));
    if (g->broken) return fail_ctx(g->ctx);
    g->seconds += now_seconds() - before;
    g->written++;
    return EXIT_OK;
}

static double speed(const generation *g)
{
    return g->seconds > 0 ? (double)(g->written * g->batch) / g->seconds : 0;
}

static double prompt_speed(const generation *g)
{
    return g->prompt_seconds > 0 ? (double)g->prompt_tokens / g->prompt_seconds : 0;
}

static const char *figures(const generation *g, char *text, size_t capacity)
{
    char rate[32], state[32], cache[32];
    text_bytes((double)lnt_session_bytes(g->session), state, sizeof state);
    text_bytes(lnt_session_cache_bytes(g->session), cache, sizeof cache);
    text_count(speed(g), rate, sizeof rate);
    const bool exact = strcmp(g->info.mechanism, "softmax") == 0;
    snprintf(text, capacity, "[%lld tokens, %s tokens/s, %s %s%s%s]",
             (long long)lnt_session_tokens(g->session), rate, exact ? "cache" : "state", state,
             exact ? " of " : ", a KV cache would hold ",
             exact ? cache_numbers(lnt_session_cache(g->session)) : cache);
    return text;
}

void generation_status(const generation *g)
{
    char text[160];
    status_show(figures(g, text, sizeof text));
}

void generation_status_last(const generation *g)
{
    char text[160];
    if (isatty(STDERR_FILENO)) fprintf(stderr, "%s\n", figures(g, text, sizeof text));
}

void generation_json(const generation *g, const char *text, size_t bytes)
{
    json line = json_begin(stdout);
    json_text(&line, "task", g->info.task);
    json_text(&line, "mechanism", g->info.mechanism);
    if (text) json_bytes(&line, "text", text, bytes);
    json_whole(&line, "prompt_tokens", g->prompt_tokens);
    json_real(&line, "prompt_tokens_per_second", prompt_speed(g));
    json_whole(&line, "tokens", g->written * g->batch);
    json_real(&line, "tokens_per_second", speed(g));
    json_real(&line, "seconds", g->seconds);
    json_whole(&line, "session_tokens", lnt_session_tokens(g->session));
    json_whole(&line, "state_bytes", (int64_t)lnt_session_bytes(g->session));
    json_text(&line, "cache", cache_numbers(lnt_session_cache(g->session)));
    json_real(&line, "cache_bytes", lnt_session_cache_bytes(g->session));
    json_end(&line);
}
