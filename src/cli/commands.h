/* cli/commands.h - the sub-commands; each is in the file of its name. */
#ifndef LNT_CLI_COMMANDS_H
#define LNT_CLI_COMMANDS_H

#include "cli/options.h"

extern const command cmd_attend, cmd_plan, cmd_bench, cmd_train, cmd_eval, cmd_generate, cmd_chat,
    cmd_import, cmd_tokenize, cmd_embed, cmd_info, cmd_demo;

#endif
