/* cuda/common/sizes.h - the sizes that kernels are compiled for.  Plain C++. */
#ifndef LNT_CUDA_SIZES_H
#define LNT_CUDA_SIZES_H

namespace lnt
{

/* The widths compiled, in blocks of 8. */
inline int width_for(int dim, int dim_value)
{
    const int most = dim > dim_value ? dim : dim_value;
    for (int x = 1; x <= 16; x *= 2)
        if (most <= 8 * x) return x;
    return 0;
}

/* tiles: blocks of 8 elements that the backward pass may read a state with. */
enum { BACKWARD_STATE_WIDTH = 8 };

/* f32: columns of a row of values, N: the values, zeros, a 1 at N - 8, zeros. */
inline int f32_columns(int dim_value)
{
    for (int n8 : { 2, 3, 5, 9, 17 })
        if (dim_value <= 8 * (n8 - 1)) return 8 * n8;
    return 0;
}

enum { CUR_LANDMARKS = 256 }; /* the most */

/* ---- shared memory --------------------------------------------------------------------------- */

/* Bytes that a block of threads takes at most, by the family and the widths of a problem.  The launches
 * assert that they take no more; choose.cc asks whether the device has as many. */

/* width: orbits_width(). */
constexpr int orbits_bytes(int width, int terms)
{
    return width == 1 ? (terms == 4 ? 98640 : 68880) : width == 2 ? (terms == 4 ? 92032 : 121344) : 124160;
}

/* width in blocks of 8. */
constexpr int linear_bytes(int width, bool backward)
{
    const int tile = 64 * (8 * width + 8), rounded = 8 * (width > 1 ? width : 2) * (8 * width + 8);
    const int sum = 12 * tile, states = width == 16 ? 1 : 2;
    if (backward) return (10 * tile + states * rounded) * 2 + (states * (16 * width + 8) + 256) * 4;
    return sum > (6 * tile + rounded) * 2 ? sum : (6 * tile + rounded) * 2;
}

/* dim8: blocks of 8 elements of a key; direct: keys are met one by one. */
constexpr int tiles_answer_bytes(int width, int dim8, bool by_state, bool direct)
{
    const int rows = width <= 2 || width == 16 ? 128 : 256, queries = (2 * dim8 + 1) * rows * 16;
    const int state = by_state ? (width == 16 ? 16 : 32) * (width + 1) * 256 : 0;
    const int keys = direct ? 3 * ((dim8 + 1) / 2 * 2 + width + 1) * 1024 : 0;
    return queries + (width <= 2 ? state + keys : state > keys ? state : keys);
}

/* columns8: of the values, in blocks of 8, and one more. */
constexpr int tiles_sum_bytes(int dim8, int columns8) { return 12 * (dim8 + 1 + columns8) * 512; }

constexpr int tiles_backward_bytes(int width, int dim8, bool by_state, bool direct)
{
    const int tokens = direct ? 6 * ((dim8 + 1) / 2 * 1024 + (width + 1) * 512 + 256) : 0;
    const int state = 32 * (width + 1) * 256, rows = (2 * dim8 + 1) * 1024 + 8 * (dim8 + width) * 136 * 4;
    return by_state ? rows + (state > tokens ? state : tokens) : tokens;
}

inline int f32_answer_bytes(int dim, int dim_value)
{
    const int columns = f32_columns(dim_value), rows = (dim + 8) / 8 * 8;
    const int features = 32 * 136, two = 2 * rows * 40, values = 32 * (columns % 16 ? columns : columns + 8);
    return (rows * 136 + (features > two ? features : two) + 2 * values) * 4;
}

/* Of two warps, the fewest. */
inline int f32_backward_bytes(int dim, int dim_value)
{
    const int rows = dim % 8 ? (dim + 7) / 8 * 8 : dim + 1, values = f32_columns(dim_value) + 4;
    const int features = 32 * 40, two = 2 * rows * 40;
    return (2 * rows * 40 + 32 * values + (features > two ? features : two) + 64 * values + 128) * 4;
}

} // namespace lnt
#endif
