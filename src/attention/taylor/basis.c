/* attention/taylor/basis.c - counting and walking the symmetric monomials. */
#include "attention/taylor/basis.h"

int64_t lnt_basis_size(int64_t d, int64_t terms)
{
    /* binomial(d + t, t) grows from binomial(d + t - 1, t - 1) by (d + t) / t, which is exact, and so
     * is the share of the remainder by t: the product itself may not fit. */
    int64_t size = 1;
    for (int64_t t = 1; t < terms; t++) {
        const int64_t rest = size % t * (d + t) / t;
        if (__builtin_mul_overflow(size / t, d + t, &size) ||
            __builtin_add_overflow(size, rest, &size) || size > INT64_C(1) << 62)
            return -1;
    }
    return size;
}

lnt_basis_run lnt_basis_begin(int64_t d, int degree)
{
    return (lnt_basis_run){ .d = d, .degree = degree };
}

bool lnt_basis_carry(lnt_basis_run *run)
{
    int i = run->degree - 2; /* the last index of the prefix */
    while (i >= 0 && run->prefix[i] == run->d - 1) i--;
    if (i < 0) return false;
    const int64_t next = run->prefix[i] + 1;
    run->changed = i;
    for (; i <= run->degree - 2; i++) run->prefix[i] = next;
    run->first = next;
    return true;
}

int lnt_basis_repeats(const lnt_basis_run *run, int n)
{
    int repeats = 0;
    while (repeats < n && run->prefix[n - 1 - repeats] == run->prefix[n - 1]) repeats++;
    return repeats;
}
