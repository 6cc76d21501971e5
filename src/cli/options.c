/* cli/options.c - parses a command line by the table of options. */
#include "cli/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/option_table.h"
#include "cli/show/report.h"
#include "cli/spelling.h"
#include "linnet.h"

/* ---- values --------------------------------------------------------------------------------- */

/* Reads a whole text as a finite double. */
static bool read_real(const char *text, const char *end, double *out)
{
    char *stop;
    *out = strtod(text, &stop);
    return stop == end && stop != text && isfinite(*out);
}

static int parse_whole(const option_row *row, const char *text, option_value *value)
{
    char *stop;
    value->whole = strtoll(text, &stop, 10);
    /* What overflows is clamped by strtoll, and so is out of bounds as well. */
    const bool number = (*text == '-' || (*text >= '0' && *text <= '9')) && !*stop;
    if (!number || value->whole < row->min)
        return fail_usage("--%s: '%s' is not a whole number of at least %lld", row->name, text,
                          (long long)row->min);
    if (value->whole > row->max)
        return fail_usage("--%s: '%s' is too large, at most %lld is allowed", row->name, text,
                          (long long)row->max);
    return EXIT_OK;
}

static int parse_seed(const option_row *row, const char *text, option_value *value)
{
    char *stop;
    errno = 0;
    value->seed = strtoull(text, &stop, 10);
    if (*text >= '0' && *text <= '9' && !*stop && !errno) return EXIT_OK;
    return fail_usage("--%s: '%s' is not a whole number from 0 to 18446744073709551615", row->name,
                      text);
}

static int parse_real(const option_row *row, const char *text, option_value *value)
{
    const bool number = read_real(text, text + strlen(text), &value->real);
    if (number && value->real >= row->least) return EXIT_OK;
    if (!isfinite(row->least))
        return fail_usage("--%s: '%s' is not a finite number", row->name, text);
    return fail_usage("--%s: '%s' is not a finite number of at least %g", row->name, text,
                      row->least);
}

/* What a list may hold: numbers above one bound and up to another, in words too; `most` of them. */
typedef struct list_rule {
    double above, upto;
    const char *allowed;
    int most;
} list_rule;

static int parse_list(const option_row *row, const list_rule *rule, const char *text, double *list,
                      int *count)
{
    *count = 0;
    for (const char *item = text;; item++) {
        const char *end = item + strcspn(item, ",");
        double number = 0;
        if (!read_real(item, end, &number) || number <= rule->above || number > rule->upto)
            return fail_usage("--%s: '%.*s' is not %s", row->name, (int)(end - item), item,
                              rule->allowed);
        if (*count == rule->most)
            return fail_usage("--%s: more than %d numbers", row->name, rule->most);
        list[(*count)++] = number;
        if (!*end) return EXIT_OK;
        item = end;
    }
}

static int parse_decays(const option_row *row, const char *text, options *o)
{
    static const list_rule rule = { 0, 1, "a number above 0 and at most 1", MAX_PER_HEAD };
    return parse_list(row, &rule, text, o->decay, &o->decay_count);
}

static int parse_temperatures(const option_row *row, const char *text, options *o)
{
    static const list_rule rule = { -HUGE_VAL, HUGE_VAL, "a finite number", MAX_PER_HEAD };
    return parse_list(row, &rule, text, o->temperature, &o->temperature_count);
}

static int parse_coefficients(const option_row *row, const char *text, options *o)
{
    static const list_rule rule = {
        -HUGE_VAL, HUGE_VAL, "a finite number; give taylor, fit, or one number for each term",
        MAX_TERMS
    };
    o->coefficient_count = 0;
    o->fit = !strcmp(text, "fit");
    if (o->fit || !strcmp(text, "taylor")) return EXIT_OK;
    return parse_list(row, &rule, text, o->coefficients, &o->coefficient_count);
}

static int parse_pins(const option_row *row, const char *text, options *o)
{
    double list[MAX_PINS];
    static const list_rule rule = { -1, 0x1p40, "a whole number of at least 0", MAX_PINS };
    const int status = parse_list(row, &rule, text, list, &o->pin_count);
    for (int i = 0; i < o->pin_count && !status; i++) {
        o->pin[i] = (int64_t)list[i];
        if ((double)o->pin[i] < list[i] || list[i] < 0)
            return fail_usage("--%s: '%g' is not %s", row->name, list[i], rule.allowed);
        for (int other = 0; other < i; other++)
            if (o->pin[other] == o->pin[i])
                return fail_usage("--%s: %lld is there twice", row->name, (long long)o->pin[i]);
    }
    return status;
}

static int parse_stop(const option_row *row, const char *text, options *o)
{
    if (!*text) return fail_usage("--%s: the value is empty", row->name);
    if (o->stop_count == MAX_STOPS) return fail_usage("--%s: given more than %d times", row->name, MAX_STOPS);
    o->stop[o->stop_count++] = text;
    return EXIT_OK;
}

static int parse_choice(const option_row *row, const char *text, option_value *value)
{
    char known[256];
    for (int i = 0; row->choice(i); i++) {
        if (strcmp(text, row->choice(i)) != 0) continue;
        value->whole = i;
        return EXIT_OK;
    }
    return fail_usage("--%s: '%s' is not one of %s", row->name, text,
                      option_join_choices(row, ", ", known, sizeof known));
}

/* Keeps text, which is "" for a flag, as the value of option id. */
static int parse_value(options *o, option_id id, const char *text)
{
    option_value *value = &o->value[id];
    const option_row *row = &option_table[id];
    value->given = true;
    value->text = text;
    switch (row->kind) {
    case KIND_WHOLE: return parse_whole(row, text, value);
    case KIND_SEED: return parse_seed(row, text, value);
    case KIND_REAL: return parse_real(row, text, value);
    case KIND_DECAYS: return parse_decays(row, text, o);
    case KIND_TEMPERATURES: return parse_temperatures(row, text, o);
    case KIND_COEFFICIENTS: return parse_coefficients(row, text, o);
    case KIND_PINS: return parse_pins(row, text, o);
    case KIND_STOPS: return parse_stop(row, text, o);
    case KIND_CHOICE: return parse_choice(row, text, value);
    case KIND_TEXT:
        return *text ? EXIT_OK : fail_usage("--%s: the value is empty", row->name);
    case KIND_PROMPT: value->given = *text != '\0'; break;
    case KIND_FLAG: break;
    }
    return EXIT_OK;
}

/* ---- options -------------------------------------------------------------------------------- */

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
                     : parse_value(o, (option_id)id, "");
    if (!value) { /* the next word, which may well start with a minus sign, but not with two */
        if (*at == argc || !strncmp(argv[*at], "--", 2))
            return fail_usage("--%s needs a value", row->name);
        value = argv[(*at)++];
    }
    return parse_value(o, (option_id)id, value);
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
    if (out->operand_count < cmd->operands && cmd->operands == 1)
        return fail_usage("%.*s is missing; usage: linnet %s %s", (int)strcspn(cmd->usage, " "), cmd->usage,
                          cmd->name, cmd->usage);
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

option_id options_first_of_mechanisms(const options *o)
{
    int id = 0;
    while (id < OPTION_COUNT && !(option_table[id].mechanisms && o->value[id].given)) id++;
    return (option_id)id;
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
