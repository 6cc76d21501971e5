/* attention/head.h - one kv head of one sequence, and the sums that its state is or becomes. */
#ifndef LNT_ATTENTION_HEAD_H
#define LNT_ATTENTION_HEAD_H

#include "attention/state/state_view.h"
#include "attention/tile.h"
#include "core/threads.h"

/* S [D, mp] and z [D]: a state, or the gradient of one; what their rounding lost, or NULL. */
typedef struct head_sums {
    real *s, *z;
    real *low_s, *low_z;
} head_sums;

/* One kv head of one sequence, whose number in a state is `sequence`. */
typedef struct head_job {
    lnt_run *run;
    const kernels *ker;
    lnt_sequence seq;
    int64_t sequence, kvh;
    double decay; /* as it was given: f32 has too few digits of one near 1 */
} head_job;

#define lnt_head_job LNT_REAL_NAME(lnt_head_job)
#define lnt_head_rows LNT_REAL_NAME(lnt_head_rows)
#define lnt_sums_take LNT_REAL_NAME(lnt_sums_take)
#define lnt_sums_of LNT_REAL_NAME(lnt_sums_of)
#define lnt_sums_copy LNT_REAL_NAME(lnt_sums_copy)
#define lnt_sums_before LNT_REAL_NAME(lnt_sums_before)

head_job lnt_head_job(lnt_run *run, int64_t sequence, int64_t kvh);

/* Keys of the sequence that no query comes before. */
static inline int64_t keys_alone(const head_job *job)
{
    return job->run->causal ? job->seq.nk - job->seq.nq : job->seq.nk;
}

/* Those of the job in a tensor of a state; NULL where it has no data. */
real *lnt_head_rows(const head_job *job, const lnt_tensor *t);
/* Room for the sums of one head; where those of the job lie in a state, none if that is NULL; dst = src,
 * zeros if src is none. */
head_sums lnt_sums_take(lnt_arena *arena, const lnt_attn_desc *p);
head_sums lnt_sums_of(const head_job *job, const lnt_state *state);
void lnt_sums_copy(const head_job *job, head_sums dst, head_sums src);
/* The sums before the run: in the state that comes out of it, if it is `kept` there, else in own. */
head_sums lnt_sums_before(const head_job *job, head_sums own, bool kept);

/* Whether what is left of a number is had by taking away what is lost: a product with a factor near 1,
 * which is rounded to few digits of 1 - left, would be wrong by more with each chunk. */
static inline bool is_nearly_all(double left) { return left > 0.5; }

/* x [n] times `left`, a power of the decay. */
static inline void fade_numbers(const kernels *ker, real *x, double left, size_t n)
{
    if (is_nearly_all(left)) ker->axpy(x, (real)(left - 1), x, n);
    else ker->scale(x, (real)left, n);
}

/* Threads this run is worth. */
static inline int head_threads(const lnt_run *run)
{
    const double flops = 2 * (double)(lnt_problem_width(run->p) * run->p->dim_value);
    return lnt_threads_for(run->ctx, flops * (double)run->p->heads * lnt_run_tokens(run));
}

#endif
