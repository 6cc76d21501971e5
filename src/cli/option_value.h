/* cli/option_value.h - parses and checks the value of an option. */
#ifndef LNT_CLI_OPTION_VALUE_H
#define LNT_CLI_OPTION_VALUE_H

#include "cli/options.h"

/* Keeps text, of a flag "", as the value of option id.  0, or EXIT_USAGE with the sentence said. */
int option_value_parse(options *o, option_id id, const char *text);

#endif
