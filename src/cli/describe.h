/* cli/describe.h - what the options of a mechanism were: its terms, its landmarks, its window. */
#ifndef LNT_CLI_DESCRIBE_H
#define LNT_CLI_DESCRIBE_H

#include "cli/json.h"
#include "linnet.h"

void json_mechanism(json *line, const lnt_attn_desc *d);
/* "4 terms", "64 landmarks", "128 near, 3 terms" behind `before`; "" where there is nothing to say. */
void text_mechanism(const lnt_attn_desc *d, const char *before, char *text, size_t capacity);

#endif
