/* cli/paper.c - formulas of the papers, to compare with what is measured here.
 *
 * TaylorShift (three terms) stores the d^2 products of every key and does not sort them; its direct form
 * stores the n x n scores.  docs/math/taylor.md has our own numbers. */
#include "cli/paper.h"

#include <math.h>

double paper_crossover_speed(double d)
{
    return ceil((((4 * d + 10) * d + 9) * d + 4) / (4 * d + 6));
}

double paper_crossover_memory(double d)
{
    const double root = sqrt((((d + 12) * d + 14) * d + 4) * d + 1);
    return ceil(((d + 2) * d + 1 + root) / 4);
}

double paper_entries_direct(double n, double d) { return d * n + 2 * n * n; }

double paper_entries_efficient(double n, double d)
{
    return d * d * (d + 1) + (2 * d + d + 1 + d * d) * n;
}

double paper_state_unpacked(double d, double m, int terms)
{
    double monomials = 0;
    for (int p = 0; p < terms; p++) monomials += pow(d, p);
    return (m + 1) * monomials;
}

double paper_flops_unpacked(double d, double m, int terms)
{
    double flops = 0;
    for (int p = 0; p < terms; p++) flops += (4 * m + 2 * p + 4) * pow(d, p);
    return flops;
}
