/* cli/main.c - the tool `linnet`: finds the sub-command, parses its options and runs it. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/show/report.h"
#include "cli/spelling.h"
#include "cli/spin_wait.h"
#include "linnet.h"

static const command *const commands[] = { &cmd_attend,   &cmd_plan, &cmd_bench,    &cmd_train, &cmd_eval,
                                           &cmd_generate, &cmd_chat, &cmd_import, &cmd_tokenize, &cmd_embed,
                                           &cmd_info, &cmd_demo };
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void overview(FILE *to)
{
    fputs("usage: linnet COMMAND [options]\n\nAttention at constant cost per token.\n\ncommands:\n",
          to);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-10s%s\n", commands[i]->name, commands[i]->summary);
    fputs("\n'linnet COMMAND --help' lists the options, 'linnet --version' prints the version.\n"
          "Exit status: 0 ok, 1 failed, 2 wrong usage.\n", to);
}

static int fail_command(const char *word)
{
    const char *names[COMMANDS];
    for (int i = 0; i < COMMANDS; i++) names[i] = commands[i]->name;
    const char *near = nearest_word(word, names, COMMANDS);
    if (near) return fail_usage("'%s' is not a command; did you mean '%s'?", word, near);
    return fail_usage("'%s' is not a command; see 'linnet --help'", word);
}

static int run_command(const command *cmd, int argc, char **argv)
{
    options *o = malloc(sizeof *o);
    report_command(cmd->name);
    if (!o) return fail_memory(sizeof *o);
    int status = options_parse(cmd, argc, argv, o);
    if (!status && opt_given(o, OPT_HELP)) options_help(cmd, stdout);
    else if (!status) status = cmd->run(o);
    free(o);
    return status;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        overview(stderr);
        return EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        overview(stdout);
        return EXIT_OK;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("linnet %s\n", lnt_version());
        return EXIT_OK;
    }
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(argv[1], commands[i]->name))
            return run_command(commands[i], argc - 2, argv + 2);
    return argv[1][0] == '-' ? fail_usage("unknown option '%s'; see 'linnet --help'", argv[1])
                             : fail_command(argv[1]);
}

int main(int argc, char **argv)
{
    spin_wait_shorten(argv);
    signal(SIGXFSZ, SIG_IGN); /* a file beyond the limit is a sentence, not the end */
    return finish_stdout(dispatch(argc, argv));
}
