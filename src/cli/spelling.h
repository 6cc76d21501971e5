/* cli/spelling.h - finds the name nearest to a misspelt word. */
#ifndef LNT_CLI_SPELLING_H
#define LNT_CLI_SPELLING_H

/* Of `count` words the one nearest to `word`, or NULL if none is near. */
const char *nearest_word(const char *word, const char *const *words, int count);

#endif
