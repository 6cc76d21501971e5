/* cli/cmd_chat.c - `linnet chat`: a conversation with a model, line by line, and the commands in it. */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/line_input.h"
#include "cli/model.h"
#include "cli/output_file.h"
#include "cli/show/amount.h"
#include "cli/show/json.h"
#include "cli/show/report.h"
#include "cli/spelling.h"
#include "cli/stop.h"

enum { DEFAULT_TOKENS = 1024 };

/* Small models wander off at a temperature of 1. */
static const double DEFAULT_TEMPERATURE = 0.4, DEFAULT_MIN_P = 0.1;

/* ---- commands ------------------------------------------------------------------------------ */

typedef struct chat_command {
    const char *name, *argument, *help; /* argument NULL: it takes none */
    const char *done;                   /* said on a terminal; NULL: nothing */
    int (*run)(chat *c, const char *argument);
} chat_command;

static int run_help(chat *c, const char *argument);

static int save(chat *c, const char *path)
{
    text_buffer text = { 0 };
    int status = conversation_note(&c->talk, &text);
    if (!status && (lnt_session_set_note(c->g.session, text.text) || lnt_session_save(c->g.session, path)))
        status = fail_ctx(c->g.ctx);
    free(text.text);
    return status;
}

static int run_save(chat *c, const char *path)
{
    if (model_is_file(c->g.o->operand[0], path)) return fail("/save: '%s' is the model itself", path);
    return save(c, path);
}

/* Both or neither: the session, and the messages in its note. */
static int adopt(chat *c, const char *path, lnt_session *session)
{
    if (!conversation_read(&c->talk, lnt_session_note(session)))
        return fail("'%s': holds no conversation; 'linnet generate' continues it", path);
    return EXIT_OK;
}

static int run_load(chat *c, const char *path)
{
    lnt_session *session;
    int status = generation_load(&c->g, path, 1, &session);
    if (status) return status;
    status = adopt(c, path, session);
    lnt_session_destroy(status ? session : c->g.session);
    if (!status) c->g.session = session;
    return status;
}

static int run_reset(chat *c, const char *argument)
{
    (void)argument;
    const int status = chat_restart(c);
    if (!status) conversation_forget(&c->talk);
    return status;
}

static int run_system(chat *c, const char *text) { return conversation_set_system(&c->talk, text); }

static double rate(int64_t count, double seconds) { return seconds > 0 ? (double)count / seconds : 0; }

static void stats_json(const chat *c)
{
    json line = json_begin(stdout);
    json_whole(&line, "messages", (int64_t)c->talk.count);
    json_whole(&line, "prompt_tokens", c->prompt_tokens);
    json_real(&line, "prompt_tokens_per_second", rate(c->prompt_tokens, c->prompt_seconds));
    json_whole(&line, "tokens", c->tokens);
    json_real(&line, "tokens_per_second", rate(c->tokens, c->seconds));
    json_whole(&line, "session_tokens", lnt_session_tokens(c->g.session));
    json_whole(&line, "state_bytes", (int64_t)lnt_session_bytes(c->g.session));
    json_text(&line, "cache", cache_numbers(lnt_session_cache(c->g.session)));
    json_real(&line, "cache_bytes", lnt_session_cache_bytes(c->g.session));
    json_end(&line);
}

static int run_stats(chat *c, const char *argument)
{
    char state[32], cache[32], prompt_rate[32], token_rate[32];
    (void)argument;
    if (opt_given(c->g.o, OPT_JSON)) {
        stats_json(c);
        return EXIT_OK;
    }
    text_bytes((double)lnt_session_bytes(c->g.session), state, sizeof state);
    text_bytes(lnt_session_cache_bytes(c->g.session), cache, sizeof cache);
    text_count(rate(c->prompt_tokens, c->prompt_seconds), prompt_rate, sizeof prompt_rate);
    text_count(rate(c->tokens, c->seconds), token_rate, sizeof token_rate);
    printf("messages  %zu\nread      %lld tokens, %s tokens/s\nwritten   %lld tokens, %s tokens/s\n"
           "session   %lld tokens, %s; a softmax cache of %s holds %s for them\n",
           c->talk.count, (long long)c->prompt_tokens, prompt_rate, (long long)c->tokens, token_rate,
           (long long)lnt_session_tokens(c->g.session), state,
           cache_numbers(lnt_session_cache(c->g.session)), cache);
    return EXIT_OK;
}

static const chat_command commands[] = {
    { "/help", NULL, "list the commands", NULL, run_help },
    { "/save", "FILE", "save session and messages (.safetensors)", "saved", run_save },
    { "/load", "FILE", "go on with what was saved", "loaded", run_load },
    { "/reset", NULL, "forget the conversation, but for the system's message", "forgotten", run_reset },
    { "/system", "TEXT", "tell the model this before the conversation", "noted", run_system },
    { "/stats", NULL, "tokens, speed and memory", NULL, run_stats },
    { "/exit", NULL, "end; so does /quit, and the end of the input", NULL, NULL },
    { "/quit", NULL, NULL, NULL, NULL },
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static int run_help(chat *c, const char *argument)
{
    (void)c;
    (void)argument;
    char left[32];
    for (int i = 0; i < COMMANDS; i++) {
        if (!commands[i].help) continue;
        const char *argument_name = commands[i].argument;
        snprintf(left, sizeof left, "%s %s", commands[i].name, argument_name ? argument_name : "");
        fprintf(stderr, "%-14s%s\n", left, commands[i].help);
    }
    fputs("A message that begins with '/' is written with two.  Ctrl-C stops an answer.\n", stderr);
    return EXIT_OK;
}

static int fail_command(const char *word)
{
    const char *names[COMMANDS];
    for (int i = 0; i < COMMANDS; i++) names[i] = commands[i].name;
    const char *near = nearest_word(word, names, COMMANDS);
    if (near) return fail("'%s' is not a command; did you mean '%s'?", word, near);
    return fail("'%s' is not a command; see /help", word);
}

static int run_command(chat *c, char *line, bool *goes_on)
{
    const size_t word = strcspn(line, " \t");
    char *argument = line + word + strspn(line + word, " \t");
    for (size_t left = strlen(argument); left && isspace((unsigned char)argument[left - 1]);)
        argument[--left] = '\0';
    line[word] = '\0';
    for (int i = 0; i < COMMANDS; i++) {
        const chat_command *each = &commands[i];
        if (strcmp(line, each->name) != 0) continue;
        if (each->argument && !*argument) return fail("%s: %s is missing", each->name, each->argument);
        if (!each->argument && *argument)
            return fail("%s takes nothing, '%s' was given", each->name, argument);
        *goes_on = each->run != NULL;
        const int status = each->run ? each->run(c, argument) : EXIT_OK;
        if (!status && each->done && isatty(STDIN_FILENO)) note("%s", each->done);
        return status;
    }
    return fail_command(line);
}

/* ---- the conversation ---------------------------------------------------------------------- */

/* After a signal: whether it goes on.  Ctrl-C stopped an answer, or a second one at the prompt ends all. */
static bool goes_on_after(bool at_prompt, bool *warned)
{
    const int number = stop_signal();
    if (!number) return true;
    stop_forget();
    if (number != SIGINT || (at_prompt && *warned)) return false;
    *warned = at_prompt;
    fputs(at_prompt ? "\nCtrl-C once more, or /exit, ends.\n" : "", stderr);
    return true;
}

static int run_line(chat *c, char *line, bool *goes_on)
{
    if (!line[strspn(line, " \t")]) return EXIT_OK;
    if (line[0] == '/' && line[1] != '/') return run_command(c, line, goes_on);
    const int status = conversation_add(&c->talk, "user", line[0] == '/' ? line + 1 : line);
    return status ? status : answer_write(c);
}

/* On a terminal what fails is said, and the conversation goes on; a script ends there. */
static int talk(chat *c)
{
    const bool terminal = isatty(STDIN_FILENO);
    line_input in = { 0 };
    bool goes_on = true, warned = false;
    if (terminal) fputs("A line is a message; /help lists the commands, Ctrl-D ends.\n", stderr);
    int status = EXIT_OK;
    while (goes_on && (!status || terminal) && !stop_pipe_closed()) {
        fflush(stdout);
        if (terminal) fputs("> ", stderr);
        const line_result result = line_input_next(&in);
        if (result == LINE_STOPPED) {
            goes_on = goes_on_after(true, &warned);
            continue;
        }
        if (result == LINE_END && terminal) fputc('\n', stderr);
        if (result == LINE_FAILED) status = EXIT_FAILED;
        if (result != LINE_READ) break;
        status = run_line(c, in.line.text, &goes_on);
        warned = false;
        if (goes_on) goes_on = goes_on_after(false, &warned);
    }
    line_input_close(&in);
    return terminal ? EXIT_OK : status;
}

static int check(const chat *c)
{
    const lnt_model_info *info = &c->g.info;
    const char *path = c->g.o->operand[0];
    if (!info->architecture[0] || strcmp(info->tokenizer, "none") == 0)
        return fail("'%s': has no conversation in it; 'linnet generate' continues a text", path);
    if (!info->chats)
        note("'%s' has no chat template, and may not have learned to answer; a common form is used", path);
    return EXIT_OK;
}

static int begin(chat *c)
{
    const char *from = opt_text(c->g.o, OPT_LOAD_STATE), *system = opt_text(c->g.o, OPT_SYSTEM);
    int status = check(c);
    if (!status) status = generation_begin(&c->g, 1);
    if (!status && from) status = adopt(c, from, c->g.session);
    if (!status && system) status = conversation_set_system(&c->talk, system);
    return status;
}

static int run(const options *o)
{
    chat c = { .most = opt_whole(o, OPT_TOKENS, DEFAULT_TOKENS) };
    int status = generation_open(&c.g, o);
    if (!opt_given(o, OPT_SAMPLE_TEMPERATURE)) c.g.sampling.temperature = DEFAULT_TEMPERATURE;
    if (!opt_given(o, OPT_MIN_P)) c.g.sampling.min_p = DEFAULT_MIN_P;
    if (!status) status = begin(&c);
    if (!status) {
        stop_upon_signals(); /* an answer is stopped, and the session saved */
        stop_hold_pipe();
        status = talk(&c);
        const char *to = opt_text(o, OPT_SAVE_STATE);
        const int saved = to ? save(&c, to) : EXIT_OK; /* even where nobody reads on */
        if (!saved) stop_release_pipe();
        if (!status) status = saved;
    }
    conversation_close(&c.talk);
    generation_close(&c.g);
    return status;
}

const command cmd_chat = {
    .name = "chat",
    .bit = CMD_CHAT,
    .usage = "MODEL [options]",
    .summary = "Talk with a model that was trained to answer",
    .details = "\n"
               "MODEL is a GGUF file, a directory as Hugging Face lays it out, or what 'linnet import'\n"
               "made of either.  Each line of standard input is a message, and the answer is printed as\n"
               "it is generated.  The conversation is put into the form that the model's own chat\n"
               "template gives it.\n"
               "\n"
               "Ctrl-C stops an answer.  Lines that begin with '/' are commands: /help lists them.  What\n"
               "/save and --save-state write holds the messages too; /load and --load-state go on there.\n"
               "In a script the first command that fails ends it.\n",
    .operands = 1,
    .run = run,
};
