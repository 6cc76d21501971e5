/* attention/taylor/basis.h - the monomials x_i1 x_i2 ... x_ip, i1 <= i2 <= ... <= ip, of every degree below
 * P: the least that (q.k)^p can be written in.
 *
 *     (q.k)^p = sum over monomials of  C . q_i1 ... q_ip . k_i1 ... k_ip,   C = p! / prod r_i!
 *
 * r_i the multiplicities.  Order: degree 0 first, then lexicographic, last index fastest.  So the
 * monomials that share their first p-1 indices, the prefix, stand together: they are a run, the
 * prefix times x_j for j from its last index on.  See docs/math/taylor.md */
#ifndef LNT_ATTENTION_TAYLOR_BASIS_H
#define LNT_ATTENTION_TAYLOR_BASIS_H

#include <stdbool.h>
#include <stdint.h>

enum { LNT_MAX_TERMS = 32 };

/* How many there are: binomial(d + P - 1, P - 1); -1 if that does not fit 62 bits. */
int64_t lnt_basis_size(int64_t d, int64_t terms);

/* One run of degree p, in order. */
typedef struct lnt_basis_run {
    int64_t d;
    int degree;                     /* 0: the one monomial 1 */
    int64_t prefix[LNT_MAX_TERMS];  /* its degree-1 indices */
    int changed;                    /* the first index of the prefix that is new in this run */
    int64_t first;                  /* the run is prefix * x_first ... prefix * x_(d-1) */
} lnt_basis_run;

/* The first run of a degree; then the next, or false past the last. */
lnt_basis_run lnt_basis_begin(int64_t d, int degree);
bool lnt_basis_carry(lnt_basis_run *run); /* the same where the last index of the prefix is at its end */
static inline bool lnt_basis_next(lnt_basis_run *run)
{
    const int last = run->degree - 2;
    if (last < 0 || run->prefix[last] == run->d - 1) return lnt_basis_carry(run);
    run->changed = last;
    run->first = ++run->prefix[last];
    return true;
}

/* Monomials in the run. */
static inline int64_t lnt_basis_length(const lnt_basis_run *run)
{
    return run->degree ? run->d - run->first : 1;
}

/* How often the last of the first n indices of the prefix stands at their end, n above `changed`: the
 * indices from `changed` on are equal, and the one before is less. */
static inline int lnt_basis_new_repeats(const lnt_basis_run *run, int n) { return n - run->changed; }

/* How often the last of the first n indices of the prefix stands at their end. */
int lnt_basis_repeats(const lnt_basis_run *run, int n);

#endif
