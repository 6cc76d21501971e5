/* cli/study/drop_grid.h - what the encoder's half of the study drop-in has found, as tables and a picture. */
#ifndef LNT_CLI_STUDY_DROP_GRID_H
#define LNT_CLI_STUDY_DROP_GRID_H

#include "cli/study/drop_in.h"

enum {
    DROP_SELECTS = LNT_SELECT_KMEANS + 1,
    DROP_COUNTS = 4,
    DROP_INVERSES = 7,
    DROP_LENGTHS = 5,
    DROP_CELLS = DROP_SELECTS * DROP_COUNTS * DROP_INVERSES * 2 * 2
};

typedef struct drop_grid {
    drop_run run;
    bool chosen[DROP_SELECTS];
    int64_t landmarks[DROP_COUNTS], inverse[DROP_INVERSES]; /* inverse: as drop_cur takes it */
    int counts, inverses, shown;       /* shown: of the inverses the one that stands for all */
    drop_finding cell[DROP_CELLS];     /* NaN: there is none */
    double words[DROP_LENGTHS];
    drop_finding by_length[DROP_SELECTS][DROP_COUNTS][DROP_LENGTHS];
} drop_grid;

typedef struct drop_cell {
    int select, count, inverse, pinned, separate;
} drop_cell;

static inline int drop_cell_index(drop_cell c)
{
    return (((c.select * DROP_COUNTS + c.count) * DROP_INVERSES + c.inverse) * 2 + c.pinned) * 2 + c.separate;
}

static inline drop_cell drop_cell_at(int i)
{
    return (drop_cell){ .select = i / (DROP_COUNTS * DROP_INVERSES * 4),
                        .count = i / (DROP_INVERSES * 4) % DROP_COUNTS,
                        .inverse = i / 4 % DROP_INVERSES,
                        .pinned = i / 2 % 2,
                        .separate = i % 2 };
}

int drop_grid_tables(const drop_grid *g);
void drop_length_table(const drop_grid *g);
int drop_grid_draw(const drop_grid *g, int64_t words); /* words: of the cells */

#endif
