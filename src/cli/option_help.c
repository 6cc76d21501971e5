/* cli/option_help.c - the text of --help, made from the table. */
#include <stdio.h>

#include "cli/option_table.h"

void options_help(const command *cmd, FILE *to)
{
    enum { COLUMN = 26 };
    fprintf(to, "usage: linnet %s %s\n\n%s.\n%s", cmd->name, cmd->usage, cmd->summary,
            cmd->details);
    if (cmd->more) cmd->more(to);
    fputs("\noptions (defaults in brackets):\n", to);
    for (int id = 0; id < OPTION_COUNT; id++) {
        const option_row *row = &option_table[id];
        char left[160], letter[8] = "", words[128] = "";
        if (!(row->commands & cmd->bit)) continue;
        if (row->argument) snprintf(words, sizeof words, "%s", row->argument);
        else if (row->choice) option_join_choices(row, "|", words, sizeof words);
        if (row->letter) snprintf(letter, sizeof letter, "-%c, ", row->letter);
        const int width = snprintf(left, sizeof left, "  %s--%s%s%s", letter, row->name,
                                   *words ? " " : "", words);
        if (width < COLUMN) fprintf(to, "%-*s%s\n", COLUMN, left, row->help);
        else fprintf(to, "%s\n%*s%s\n", left, COLUMN, "", row->help);
    }
}
