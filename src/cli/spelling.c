/* cli/spelling.c - finds the name nearest to a misspelt word, by edit distance. */
#include "cli/spelling.h"

#include <string.h>

/* Insertions, deletions, changes and swaps of neighbours that make b of a; long words do not
 * matter here and count as far away. */
static int edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 31 };
    int cost[LONGEST + 1][LONGEST + 1];
    const int n = (int)strlen(a), m = (int)strlen(b);
    if (n > LONGEST || m > LONGEST) return LONGEST;
    for (int i = 0; i <= n; i++) {
        for (int j = 0; j <= m; j++) {
            int best = i == 0 ? j : j == 0 ? i : LONGEST;
            if (i && j) {
                best = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
                if (cost[i - 1][j] + 1 < best) best = cost[i - 1][j] + 1;
                if (cost[i][j - 1] + 1 < best) best = cost[i][j - 1] + 1;
            }
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                cost[i - 2][j - 2] + 1 < best)
                best = cost[i - 2][j - 2] + 1;
            cost[i][j] = best;
        }
    }
    return cost[n][m];
}

const char *nearest_word(const char *word, const char *const *words, int count)
{
    const char *nearest = NULL;
    int least = 1 + (int)strlen(word) / 3; /* a third of the letters wrong is still a slip */
    if (least > 3) least = 3;
    for (int i = 0; i < count; i++) {
        const int distance = edit_distance(word, words[i]);
        if (distance > least || (nearest && distance == least)) continue;
        least = distance;
        nearest = words[i];
    }
    return nearest;
}
