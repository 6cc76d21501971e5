/* cli/study/drop_spectrum.c - singular values of a small square matrix, by Jacobi's rotations of its rows:
 * each pair is turned until it is orthogonal, and the lengths of the rows are what is left.  Precise for
 * small values too.  O(n^3) a sweep, and a handful of them. */
#include <math.h>
#include <stdlib.h>

#include "cli/study/drop_in.h"

enum { MOST_SWEEPS = 40 };

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Whether a and b had to be turned. */
static bool turn(double *a, double *b, int64_t n)
{
    const double aa = dot(a, a, n), bb = dot(b, b, n), ab = dot(a, b, n);
    if (fabs(ab) <= 1e-14 * sqrt(aa * bb)) return false;
    const double zeta = (bb - aa) / (2 * ab);
    const double t = (zeta < 0 ? -1 : 1) / (fabs(zeta) + sqrt(1 + zeta * zeta));
    const double c = 1 / sqrt(1 + t * t), s = c * t;
    for (int64_t i = 0; i < n; i++) {
        const double x = a[i];
        a[i] = c * x - s * b[i];
        b[i] = s * x + c * b[i];
    }
    return true;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

void drop_singular_values(double *u, int64_t n, double *out)
{
    bool turned = true;
    for (int sweep = 0; turned && sweep < MOST_SWEEPS; sweep++) {
        turned = false;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = i + 1; j < n; j++) turned |= turn(u + i * n, u + j * n, n);
    }
    for (int64_t i = 0; i < n; i++) out[i] = sqrt(dot(u + i * n, u + i * n, n));
    qsort(out, (size_t)n, sizeof *out, by_size);
}
