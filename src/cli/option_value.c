/* cli/option_value.c - parses the values of options: whole numbers, seeds, reals, lists, choices. */
#include "cli/option_value.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/option_table.h"
#include "cli/show/report.h"

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

int option_value_parse(options *o, option_id id, const char *text)
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
    case KIND_CHOICE: return parse_choice(row, text, value);
    case KIND_TEXT:
        return *text ? EXIT_OK : fail_usage("--%s: the value is empty", row->name);
    case KIND_PROMPT: value->given = *text != '\0'; break;
    case KIND_FLAG: break;
    }
    return EXIT_OK;
}
