/* cli/option_help.c - prints the text of --help from the table of options. */
#include <stdio.h>

#include "cli/option_table.h"
#include "linnet.h"

/* "; linear, hybrid", or nothing for an option that every mechanism takes. */
static void put_mechanisms(const option_row *row, FILE *to)
{
    const char *before = "; ";
    for (int m = 0; lnt_mechanism_name((lnt_mechanism)m); m++) {
        if (!(row->mechanisms >> m & 1)) continue;
        fprintf(to, "%s%s", before, lnt_mechanism_name((lnt_mechanism)m));
        before = ", ";
    }
    fputc('\n', to);
}

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
        if (width < COLUMN) fprintf(to, "%-*s%s", COLUMN, left, row->help);
        else fprintf(to, "%s\n%*s%s", left, COLUMN, "", row->help);
        put_mechanisms(row, to);
    }
}
