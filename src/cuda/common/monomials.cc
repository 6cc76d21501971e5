/* cuda/common/monomials.cc - monomials in the order of the library.  Host only; once per plan. */
#include "cuda/common/monomials.h"

namespace lnt
{

static int64_t binomial(int64_t n, int64_t k)
{
    int64_t c = 1;
    for (int64_t i = 1; i <= k; i++) c = c * (n - k + i) / i;
    return c;
}

int64_t monomials_count(int64_t dim, int terms) { return binomial(dim + terms - 1, terms - 1); }

int64_t monomials_place(int dim, int p, const int *i)
{
    int64_t place = p ? monomials_count(dim, p) : 0; /* all of the degrees below p */
    for (int t = 0; t < p; t++)                      /* those whose index t is less */
        for (int x = t ? i[t - 1] : 0; x < i[t]; x++)
            place += binomial(dim - x + p - t - 2, p - t - 1);
    return place;
}

double monomials_orderings(int p, const int *i)
{
    double c = 1;
    for (int t = 0, repeats = 0; t < p; t++) {
        repeats = t && i[t] == i[t - 1] ? repeats + 1 : 1;
        c = c * (t + 1) / repeats;
    }
    return c;
}

static void walk(int dim, int p, int t, int *i, double a, std::vector<uint64_t> &index,
                 std::vector<float> &factor)
{
    if (t < p) {
        for (i[t] = t ? i[t - 1] : 0; i[t] < dim; i[t]++) walk(dim, p, t + 1, i, a, index, factor);
        return;
    }
    uint64_t packed = 0;
    for (int s = 0; s < 8; s++) packed |= (uint64_t)(s < p ? i[s] : dim) << (8 * s);
    index.push_back(packed);
    factor.push_back((float)(a * monomials_orderings(p, i)));
}

void monomials_table(int dim, int terms, const double *coefficients, std::vector<uint64_t> &index,
                     std::vector<float> &factor)
{
    int i[8];
    for (int p = 0; p < terms; p++) walk(dim, p, 0, i, coefficients[p], index, factor);
}

} // namespace lnt
