/* cuda/common/monomials.h - monomials in the order in which the library's states have them. */
#ifndef LNT_CUDA_MONOMIALS_H
#define LNT_CUDA_MONOMIALS_H

#include <stdint.h>

#include <vector>

namespace lnt
{

/* How many, and the place of sorted indices i[0] <= ... <= i[p - 1]. */
int64_t monomials_count(int64_t dim, int terms);
int64_t monomials_place(int dim, int p, const int *i);

/* p! / prod r_i!, the orderings of sorted indices. */
double monomials_orderings(int p, const int *i);

/* One entry for each monomial in the library's order: its indices, 8 bits each, the first lowest;
 * unused ones are dim, where a constant 1 stands.  factor [count] = a_p scale^p C.  terms is at
 * most 8. */
void monomials_table(int dim, int terms, const double *coefficients, std::vector<uint64_t> &index,
                     std::vector<float> &factor);

} // namespace lnt
#endif
