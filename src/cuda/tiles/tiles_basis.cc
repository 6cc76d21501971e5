/* cuda/tiles/tiles_basis.cc - which monomial stands where.  Host only; once per plan. */
#include "cuda/tiles/tiles_basis.h"

#include <algorithm>

#include "cuda/common/monomials.h"

namespace lnt
{

/* The sorted real indices of one feature; its degree, or -1 where it is a constant 0 or padding. */
static int indices_of(const basis &b, const tile &t, int w, int e, int out[3])
{
    const int one = b.dim8 * 8;
    int n = 0;
    for (int x : { (int)t.i[w], (int)t.j[w], 8 * t.r + e }) {
        if (x == one) continue;
        if (x >= b.dim) return -1;
        out[n++] = x;
    }
    std::sort(out, out + n);
    return n;
}

static void add_tile(basis &b, int i0, int j0, int i1, int j1, int r)
{
    b.tiles.push_back(
        { { (uint16_t)i0, (uint16_t)i1 }, { (uint16_t)j0, (uint16_t)j1 }, (uint16_t)r, 0 });
}

/* Tasks of one set of prefixes: the blocks of the mask, `most` at a time. */
static void add_tasks(basis &b, tile_task task, int mask, int most)
{
    task.blocks = 0;
    for (int r = 0, next = task.first; r <= b.dim8; r++) {
        const bool in = mask >> r & 1, full = task.blocks == most;
        if (task.blocks && (full || r == b.dim8)) {
            b.tasks.push_back(task);
            task.blocks = 0, task.first = next;
        }
        if (in && r < b.dim8) task.r[task.blocks++] = (uint16_t)r, next += task.step_r;
    }
}

static const int pairs[10][2] = { { 0, 0 }, { 0, 1 }, { 0, 2 }, { 0, 3 }, { 1, 1 },
                                  { 1, 2 }, { 1, 3 }, { 2, 2 }, { 2, 3 }, { 3, 3 } };

static void add_half(basis &b, int h, int mask)
{
    b.units.push_back({ UNIT_HALF, 0, h, mask });
    for (int w = 0; w < 10; w += 2)
        for (int r = 0; r < b.dim8; r++)
            if (mask >> r & 1)
                add_tile(b, 4 * h + pairs[w][0], 4 * h + pairs[w][1], 4 * h + pairs[w + 1][0],
                         4 * h + pairs[w + 1][1], r);
}

/* Two times two prefixes of the halves of a block: prefixes 2 w0, 2 w0 + 1 of half h0, likewise w1.
 */
static void add_half_tasks(basis &b, int first, int h, int h0, int w0, int h1, int w1, int most)
{
    const int mask = (1 << b.dim8) - 1;
    tile_task t = {};
    for (int k = 0; k < 4; k++) {
        const int half = 4 * (h + (k < 2 ? h0 : h1)), *pair = pairs[2 * (k < 2 ? w0 : w1) + k % 2];
        t.i[k] = (uint16_t)(half + pair[0]), t.j[k] = (uint16_t)(half + pair[1]);
    }
    t.first = first + (5 * h0 + w0) * b.dim8, t.step_r = 1;
    t.step_w = (5 * h1 + w1) * b.dim8 - (5 * h0 + w0) * b.dim8;
    t.second = 1, t.multiplies = 2;
    add_tasks(b, t, mask, most);
}

static void add_block(basis &b, int x, int most)
{
    const int all = (1 << b.dim8) - 1, first = (int)b.tiles.size();
    add_half(b, 2 * x, all);
    add_half(b, 2 * x + 1, all);
    add_half_tasks(b, first, 2 * x, 0, 0, 0, 1, most);
    add_half_tasks(b, first, 2 * x, 0, 2, 0, 3, most);
    add_half_tasks(b, first, 2 * x, 0, 4, 1, 4, most);
    add_half_tasks(b, first, 2 * x, 1, 0, 1, 1, most);
    add_half_tasks(b, first, 2 * x, 1, 2, 1, 3, most);
}

static void add_quad(basis &b, int j, int h, int mask, int most)
{
    if (!mask) return;
    tile_task t = {};
    for (int k = 0; k < 4; k++) t.i[k] = (uint16_t)(4 * h + k), t.j[k] = (uint16_t)j;
    t.first = (int)b.tiles.size(), t.step_r = 2, t.step_w = 1;
    t.second = 1, t.multiplies = j < 8 * b.dim8;
    add_tasks(b, t, mask, most);
    b.units.push_back({ UNIT_QUAD, j, h, mask });
    for (int r = 0; r < b.dim8; r++)
        for (int w = 0; w < 4 && (mask >> r & 1); w += 2)
            add_tile(b, 4 * h + w, j, 4 * h + w + 1, j, r);
}

/* For each pair of blocks the third blocks it is multiplied with, so that every triple is there
 * once and few pairs serve many: the pair that covers most of what is left comes first. */
static void cover_triples(int blocks, std::vector<unit> &crossed)
{
    std::vector<char> done((size_t)blocks * blocks * blocks, 0);
    auto slot = [&](int x, int y, int z) -> char & {
        int s[3] = { x, y, z };
        std::sort(s, s + 3);
        return done[((size_t)s[0] * blocks + s[1]) * blocks + s[2]];
    };
    for (;;) {
        unit best = { 0, 0, 0, 0 };
        for (int x = 0; x < blocks; x++)
            for (int y = x + 1; y < blocks; y++) {
                int mask = 0;
                for (int z = 0; z < blocks; z++)
                    if (z != x && z != y && !slot(x, y, z)) mask |= 1 << z;
                if (__builtin_popcount(mask) > __builtin_popcount(best.mask))
                    best = { 0, y, x, mask };
            }
        if (!best.mask) return;
        for (int z = 0; z < blocks; z++)
            if (best.mask >> z & 1) slot(best.h, best.j, z) = 1;
        crossed.push_back(best);
    }
}

static void add_cubes(basis &b, int most)
{
    const int all = (1 << b.dim8) - 1;
    for (int x = 0; x < b.dim8; x++) add_block(b, x, most);
    for (int x = 0; x < b.dim8; x++)
        for (int e = 4; e < 8; e++) add_quad(b, 8 * x + e, 2 * x, all & ~(1 << x), most);
    std::vector<unit> triples;
    cover_triples(b.dim8, triples);
    for (const unit &p : triples)
        for (int h = 0; h < 2; h++) /* units of one half-block side by side: tiles_backward_state.cuh */
            for (int e = 0; e < 8; e++) add_quad(b, 8 * p.j + e, 2 * p.h + h, p.mask, most);
}

static void add_squares(basis &b, int most)
{
    const int all = (1 << b.dim8) - 1;
    for (int h = 0; h < 2 * b.dim8; h++)
        add_quad(b, 8 * b.dim8, h, all & ~((1 << h / 2) - 1), most);
}

/* Degrees 0 and 1: the prefixes 1 and 0, times the constants' block and then x's. */
static void add_ones(basis &b, int most)
{
    const uint16_t one = (uint16_t)(b.dim8 * 8), zero = one + 1;
    for (int r = 0; r <= b.dim8 && (r == 0 || b.terms > 1); r++) {
        const int block = r == 0 ? b.dim8 : r - 1;
        if (r % most == 0) {
            tile_task t = {};
            t.i[0] = one, t.i[1] = t.i[2] = t.i[3] = zero;
            t.first = r, t.step_r = 1;
            b.tasks.push_back(t);
        }
        tile_task &t = b.tasks.back();
        t.r[t.blocks++] = (uint16_t)block;
        add_tile(b, one, one, zero, zero, block);
    }
    if (b.terms > 1) b.units.push_back({ UNIT_ONE, 0, 0, (1 << b.dim8) - 1 });
}

/* Each monomial once: the first time it comes. */
static void number(basis &b, const double *coefficients)
{
    std::vector<char> seen((size_t)monomials_count(b.dim, b.terms), 0);
    for (const tile &t : b.tiles)
        for (int f = 0; f < 16; f++) {
            int i[3];
            const int p = indices_of(b, t, f / 8, f % 8, i);
            const int64_t place = p < 0 ? -1 : monomials_place(b.dim, p, i);
            const bool fresh = place >= 0 && !seen[(size_t)place];
            if (fresh) seen[(size_t)place] = 1;
            b.place.push_back(fresh ? (int32_t)place : -1);
            b.factor.push_back(fresh ? (float)(coefficients[p] * monomials_orderings(p, i)) : 0.0f);
        }
}

/* Warps side by side should have as much to do, and four of them the same shape. */
static void arrange(basis &b)
{
    auto shape = [](const tile_task &x) {
        return 16 * x.blocks * (1 + x.second) + 2 * x.blocks + x.second;
    };
    std::stable_sort(b.tasks.begin(), b.tasks.end(),
                     [&](const tile_task &x, const tile_task &y) { return shape(x) > shape(y); });
    std::vector<tile_task> full;
    for (size_t i = 0; i < b.tasks.size(); i++) {
        full.push_back(b.tasks[i]);
        const bool last = i + 1 == b.tasks.size();
        if (!last && shape(b.tasks[i + 1]) == shape(b.tasks[i])) continue;
        tile_task idle = b.tasks[i];
        idle.first = -1;
        while (full.size() % 4 || (last && full.size() % 8)) full.push_back(idle);
    }
    b.tasks = full;
}

static basis cover(int dim, int terms, int blocks)
{
    basis b = {};
    b.dim = dim, b.dim8 = (dim + 7) / 8, b.terms = terms;
    add_ones(b, blocks);
    if (terms > 2) add_squares(b, blocks);
    if (terms > 3) add_cubes(b, blocks);
    return b;
}

int tiles_basis_count(int dim, int terms) { return (int)cover(dim, terms, 1).tiles.size(); }

basis tiles_basis_make(int dim, int terms, const double *coefficients, int blocks)
{
    basis b = cover(dim, terms, blocks);
    number(b, coefficients);
    arrange(b);
    return b;
}

/* ---- slopes ---------------------------------------------------------------------------------- */

int tiles_slope_count(int dim8, int terms)
{
    return terms < 3 ? 0 : (dim8 + 1) / 2 + (terms > 3 ? 2 * dim8 * (dim8 + 1) : 0);
}

std::vector<int64_t> tiles_basis_sums_at(const basis &b, int width)
{
    std::vector<int64_t> at((size_t)monomials_count(b.dim, b.terms), 0);
    for (size_t f = 16; f < b.place.size(); f++)
        if (b.place[f] >= 0)
            at[(size_t)b.place[f]] =
                ((int64_t)(f / 16 - 1) * (width + 1) + width) * 128 + f % 16 / 8 * 64 + f % 8;
    return at;
}

namespace
{
struct slopes {
    int dim, terms, width;
    const std::vector<int64_t> &at;
    std::vector<uint32_t> entries;

    /* The part of d/dx_c that the n other elements multiply. */
    void add(const int *others, int n, int c)
    {
        int i[3] = { c }, times = 1;
        for (int k = 0; k < n; k++) {
            i[k + 1] = others[k], times += others[k] == c;
            if (others[k] >= dim) times = -9;
        }
        if (c >= dim || times < 0 || n + 1 >= terms) {
            entries.push_back(0);
            return;
        }
        std::sort(i, i + n + 1);
        entries.push_back((uint32_t)at[(size_t)monomials_place(dim, n + 1, i)] |
                          (uint32_t)times << SLOPE_TIMES);
    }
    /* row(w, e, others): the elements of row 8 w + e. */
    template <class R> void add_tile(int n, const R &row)
    {
        for (int x = 0; x < width * 128; x++) {
            int others[2] = { dim, dim };
            row(x / 64 % 2, x % 8, others);
            add(others, n, x / 128 * 8 + x / 8 % 8);
        }
    }
};
} // namespace

std::vector<uint32_t> tiles_basis_slopes(int dim, int terms, int width,
                                         const std::vector<int64_t> &at)
{
    slopes s = { dim, terms, width, at, {} };
    const int dim8 = (dim + 7) / 8;
    for (int r = 0; r < dim8 && terms > 2; r += 2)
        s.add_tile(1, [&](int w, int e, int *others) { others[0] = 8 * (r + w) + e; });
    for (int x = 0; x < dim8 && terms > 3; x++)
        for (int a = 8 * x; a < 8 * x + 8; a += 2)
            for (int r = x; r < dim8; r++)
                s.add_tile(2, [&](int w, int e, int *others) {
                    if (8 * r + e < a + w) return; /* there as a pair already */
                    others[0] = a + w, others[1] = 8 * r + e;
                });
    for (int c = 0; c < 8 * width; c++) s.add(nullptr, 0, c);
    return s.entries;
}

} // namespace lnt
