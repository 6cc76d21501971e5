/* cli/prompt.c - see prompt.h. */
#include "cli/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "cli/clock.h"
#include "cli/show/report.h"
#include "cli/text_buffer.h"

enum { PORTION = 512 }; /* tokens for each move of the bar; a session's chunks stay whole */

bool prompt_is_text(const generation *g) { return strcmp(g->info.tokenizer, "none") != 0; }

/* "3,0,7", or "3 0 7 " as they are written, as tokens, for models without text. */
static int parse_symbols(const generation *g, option_id option, const char *text, int32_t *tokens,
                         size_t *count)
{
    for (const char *at = text;; at++) {
        char *end;
        const long value = strtol(at, &end, 10);
        if (end == at || value < 0 || value > INT32_MAX || !strchr(", \n", *end))
            return fail_usage("%s: '%.80s' is not a list of tokens such as 0,3,1", option_name(option), text);
        if (value >= g->info.inputs)
            return fail_usage("%s: token %ld is not one of the model's, which are 0 to %lld",
                              option_name(option), value, (long long)g->info.inputs - 1);
        tokens[(*count)++] = (int32_t)value;
        if (!end[strspn(end, " \n")]) return EXIT_OK;
        at = end;
    }
}

static int feed_tokens(const generation *g, const int32_t *tokens, size_t count)
{
    int status = EXIT_OK;
    for (size_t at = 0; at < count && !status; at += PORTION) {
        const size_t portion = count - at < PORTION ? count - at : PORTION;
        if (count > PORTION) progress("prompt", (int)(at / PORTION), (int)(count / PORTION));
        if (lnt_session_forward(g->session, tokens + at, (int64_t)portion)) status = fail_ctx(g->ctx);
    }
    progress_end();
    return status;
}

/* The prompt of a model that others trained, with the tokens that begin a text for it. */
static int encode_framed(const generation *g, const char *text, size_t bytes, int32_t **tokens, size_t *count)
{
    const unsigned flags = lnt_session_tokens(g->session) ? LNT_TEXT_PLAIN : LNT_TEXT_FRAMED;
    if (lnt_model_tokenize(g->model, text, bytes, flags, NULL, 0, count)) return fail_ctx(g->ctx);
    *tokens = malloc((*count + 1) * sizeof **tokens);
    if (!*tokens) return fail_memory((*count + 1) * sizeof **tokens);
    if (lnt_model_tokenize(g->model, text, bytes, flags, *tokens, *count, count)) return fail_ctx(g->ctx);
    return EXIT_OK;
}

static int encode(const generation *g, option_id option, const char *text, size_t bytes, int32_t **tokens,
                  size_t *count)
{
    if (g->stream) return encode_framed(g, text, bytes, tokens, count);
    *tokens = malloc((bytes + 1) * sizeof **tokens);
    if (!*tokens) return fail_memory((bytes + 1) * sizeof **tokens);
    if (!prompt_is_text(g)) return parse_symbols(g, option, text, *tokens, count);
    return lnt_model_encode(g->model, text, bytes, *tokens, count) ? fail_ctx(g->ctx) : EXIT_OK;
}

/* What is written goes on from these tokens: it keeps a space that only the begin of a text would lose. */
static int follow(const generation *g, const int32_t *tokens, size_t count)
{
    const char *text;
    size_t bytes;
    for (size_t i = 0; g->stream && i < count; i++)
        if (lnt_stream_put(g->stream, tokens[i], &text, &bytes)) return fail_ctx(g->ctx);
    return EXIT_OK;
}

static int feed_text(generation *g, option_id option, const char *text, size_t bytes)
{
    size_t count = 0;
    int32_t *tokens = NULL;
    int status = encode(g, option, text, bytes, &tokens, &count);
    const double before = now_seconds();
    if (!status) status = feed_tokens(g, tokens, count);
    if (!status) status = follow(g, tokens, count);
    g->prompt_tokens += (int64_t)count;
    g->prompt_seconds += now_seconds() - before;
    free(tokens);
    return status;
}

static int feed_file(generation *g, const char *path)
{
    text_buffer all = { 0 };
    int status = text_buffer_read(&all, path);
    if (!status && !all.used) status = fail("--prompt-file: '%s' is empty", path);
    if (!status) status = feed_text(g, OPT_PROMPT_FILE, all.text, all.used);
    free(all.text);
    return status;
}

/* Where nothing was said a text begins as the model has learned it: with the tokens that begin one, if there
 * are such. */
static const char *beginning(const generation *g)
{
    size_t count = 0;
    if (!prompt_is_text(g)) return "0";
    const bool framed =
        g->stream && !lnt_model_tokenize(g->model, "", 0, LNT_TEXT_FRAMED, NULL, 0, &count) && count;
    return framed ? "" : "\n";
}

int prompt_prefill(generation *g)
{
    const char *text = opt_text(g->o, OPT_PROMPT), *file = opt_text(g->o, OPT_PROMPT_FILE);
    if (text && file) return fail_usage("--prompt and --prompt-file cannot both be given");
    if (file) return feed_file(g, file);
    if (!text && !opt_given(g->o, OPT_LOAD_STATE)) text = beginning(g);
    return text ? feed_text(g, OPT_PROMPT, text, strlen(text)) : EXIT_OK;
}
