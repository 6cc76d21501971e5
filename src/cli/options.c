/* cli/options.c - parses a command line by the table of options. */
#include "cli/options.h"

#include <stdio.h>
#include <string.h>

#include "cli/option_table.h"
#include "cli/option_value.h"
#include "cli/show/report.h"
#include "cli/spelling.h"
#include "linnet.h"

static int fail_unknown(const command *cmd, const char *argument, const char *name, size_t length)
{
    const char *words[OPTION_COUNT];
    char word[32];
    int count = 0;
    snprintf(word, sizeof word, "%.*s", (int)length, name);
    for (int id = 0; id < OPTION_COUNT; id++) {
        const option_row *row = &option_table[id];
        if (row->commands & cmd->bit) words[count++] = row->name;
        else if (!strcmp(word, row->name) && argument[1] == '-')
            return fail_usage("--%s is not an option of this command; see 'linnet %s --help'",
                              word, cmd->name);
    }
    const int shown = (int)(name - argument) + (int)length;
    const char *near = argument[1] == '-' ? nearest_word(word, words, count) : NULL;
    if (near)
        return fail_usage("unknown option '%.*s'; did you mean '--%s'?", shown, argument, near);
    return fail_usage("unknown option '%.*s'; see 'linnet %s --help'", shown, argument, cmd->name);
}

static int find_option(const command *cmd, const char *name, size_t length)
{
    for (int id = 0; id < OPTION_COUNT; id++) {
        const option_row *row = &option_table[id];
        if (row->commands & cmd->bit && strlen(row->name) == length && !memcmp(row->name, name, length))
            return id;
    }
    return -1;
}

static int find_letter(const command *cmd, char letter)
{
    for (int id = 0; id < OPTION_COUNT; id++) {
        const option_row *row = &option_table[id];
        if (letter && row->letter == letter && row->commands & cmd->bit) return id;
    }
    return -1;
}

/* One option at argv[*at]; moves *at past it and its value. */
static int parse_option(const command *cmd, int argc, char **argv, int *at, options *o)
{
    const char *argument = argv[(*at)++], *value = NULL;
    int id;
    if (argument[1] == '-') {
        const size_t length = strcspn(argument + 2, "=");
        id = find_option(cmd, argument + 2, length);
        if (id < 0) return fail_unknown(cmd, argument, argument + 2, length);
        if (argument[2 + length] == '=') value = argument + 2 + length + 1;
    } else {
        id = find_letter(cmd, argument[1]);
        if (id < 0) return fail_unknown(cmd, argument, argument + 1, strlen(argument + 1));
        if (argument[2]) value = argument + 2;
    }
    const option_row *row = &option_table[id];
    if (row->kind == KIND_FLAG)
        return value ? fail_usage("--%s takes no value, '%s' was given", row->name, value)
                     : option_value_parse(o, (option_id)id, "");
    if (!value) { /* the next word, which may well start with a minus sign, but not with two */
        if (*at == argc || !strncmp(argv[*at], "--", 2))
            return fail_usage("--%s needs a value", row->name);
        value = argv[(*at)++];
    }
    return option_value_parse(o, (option_id)id, value);
}

static int add_operand(const command *cmd, options *o, const char *text)
{
    if (o->operand_count == cmd->operands)
        return fail_usage("'%s' is one argument too many; usage: linnet %s %s", text, cmd->name,
                          cmd->usage);
    o->operand[o->operand_count++] = text;
    return EXIT_OK;
}

int options_parse(const command *cmd, int argc, char **argv, options *out)
{
    int status = EXIT_OK;
    bool only_operands = false;
    memset(out, 0, sizeof *out);
    for (int at = 0; at < argc && !status && !out->value[OPT_HELP].given;) {
        if (!only_operands && !strcmp(argv[at], "--")) {
            only_operands = true;
            at++;
        } else if (!only_operands && argv[at][0] == '-' && argv[at][1]) {
            status = parse_option(cmd, argc, argv, &at, out);
        } else {
            status = add_operand(cmd, out, argv[at++]);
        }
    }
    if (status || out->value[OPT_HELP].given) return status;
    if (out->operand_count < cmd->operands)
        return fail_usage("%d of %d files are missing; usage: linnet %s %s",
                          cmd->operands - out->operand_count, cmd->operands, cmd->name, cmd->usage);
    return EXIT_OK;
}

/* ---- what was given ------------------------------------------------------------------------ */

option_id options_first_other(const options *o, const bool allowed[OPTION_COUNT])
{
    int id = 0;
    while (id < OPTION_COUNT && !(option_table[id].problem && o->value[id].given && !allowed[id]))
        id++;
    return (option_id)id;
}

option_id options_first_problem(const options *o)
{
    static const bool none[OPTION_COUNT];
    return options_first_other(o, none);
}

option_id options_first_of(const options *o, const option_id *list)
{
    while (*list != OPTION_COUNT && !opt_given(o, *list)) list++;
    return *list;
}

int options_check_mechanism(const options *o)
{
    const lnt_mechanism mechanism = (lnt_mechanism)o->value[OPT_MECHANISM].whole;
    const int taken = 1 << mechanism | (o->value[OPT_COMPARE].given ? 1 << LNT_SOFTMAX : 0);
    for (int id = 0; id < OPTION_COUNT; id++) {
        const option_row *row = &option_table[id];
        if (o->value[id].given && row->mechanisms && !(row->mechanisms & taken))
            return fail_usage("--%s does not apply to %s", row->name, lnt_mechanism_name(mechanism));
    }
    return EXIT_OK;
}
