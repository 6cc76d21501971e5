/* cli/head_table.h - the cost of Taylor attention for other numbers of heads. */
#ifndef LNT_CLI_HEAD_TABLE_H
#define LNT_CLI_HEAD_TABLE_H

#include "cli/show/json.h"
#include "linnet.h"

/* Whether desc has such a table: it is taylor, and all heads together are at most 2^20 wide. */
bool head_table_applies(const lnt_attn_desc *desc);
/* "heads_table", an array of objects. */
void head_table_json(json *line, const lnt_attn_desc *desc);
void head_table_print(const lnt_attn_desc *desc, FILE *to);

#endif
