/* attention/taylor/taylor_parts.h - the threads at work on few Taylor states, each cut into parts of its
 * monomials: what forward (taylor_parts.c) and backward (taylor_parts_backward.c) share. */
#ifndef LNT_ATTENTION_TAYLOR_TAYLOR_PARTS_H
#define LNT_ATTENTION_TAYLOR_TAYLOR_PARTS_H

#include "attention/taylor/taylor_chunk.h"

/* Chunks, and tokens, that a piece may take between two meetings of the threads. */
enum { CHUNKS = 4, STRETCH = CHUNKS * TOKENS };

/* Where the pieces sum a stretch, each for itself, and the states of the run. */
typedef struct team_room {
    real *rows;    /* [piece][CHUNKS][head of the group][TOKENS, mp]: numerators, or dv */
    real *den;     /* [piece][CHUNKS][head][TOKENS] */
    real *columns; /* [piece][CHUNKS][head][d, TOKENS]: dq, or dk */
    cursor *begin;         /* [parts + 1]: where each part does; the last is the end */
    head_sums *sums, *grad;      /* [states at a time]; backward: and the gradients of the states */
    double *mean;          /* [states at a time][d], where keys are centred by it */
    const double **center; /* [states at a time], see taylor_scratch */
} team_room;

/* The threads at work on states first .. first+count-1 of a run, each in parts: piece i is part
 * i % parts of state i / parts. */
typedef struct team {
    lnt_run *run;
    team_room room;
    int64_t first;
    size_t count, parts, group; /* group: heads that share a state */
} team;

#define lnt_team_open LNT_REAL_NAME(lnt_team_open)
#define lnt_team_job LNT_REAL_NAME(lnt_team_job)
#define lnt_team_piece LNT_REAL_NAME(lnt_team_piece)
#define lnt_team_add_alone LNT_REAL_NAME(lnt_team_add_alone)
#define lnt_team_sum_at LNT_REAL_NAME(lnt_team_sum_at)
#define lnt_team_collect LNT_REAL_NAME(lnt_team_collect)

/* The team of the states from `first` on, as they are before the run; false past the last.  A forward
 * run has them in place where they are asked for after it. */
bool lnt_team_open(lnt_run *run, int64_t first, team *r);
head_job lnt_team_job(const team *r, size_t state);
/* The scratch of this thread, set to one piece. */
taylor_scratch lnt_team_piece(const team *r, size_t piece, head_job *job);

/* A piece takes in the keys that no query comes before. */
void lnt_team_add_alone(const team *r, size_t piece);

/* A piece sums chunk c of a stretch where the others find it: o or dv, den, dt. */
void lnt_team_sum_at(const team *r, taylor_scratch *s, size_t piece, size_t c);
/* One of those sums, of `width` numbers a token, for head g: those of all parts added in order. */
void lnt_team_collect(const team *r, const real *sum, size_t width, size_t state, size_t g,
                      size_t c, real *to, size_t count);

#endif
