/* softmax.c - checks of softmax_fold, softmax_row, softmax_weights, softmax_grad, softmax_back,
 * softmax_recall.
 *
 * Scores are [keys, padded], one query a column; those of softmax_row are one column of leading
 * dimension 1, so that both are held to the same. */
#include "checks.h"

#include <stdlib.h>
#include <string.h>

static grid scores_new(trial *t, size_t keys, size_t padded, size_t ld, double spread,
                       double masked)
{
    grid s = grid_output(t, keys, padded, ld);
    for (size_t i = 0; i < keys; i++)
        for (size_t c = 0; c < padded; c++) {
            const bool unseen = dice_uniform(&t->dice) < masked;
            s.at[i * s.ld + c] = unseen ? -(real)INFINITY : (real)(spread * dice_normal(&t->dice));
        }
    grid_keep(&s);
    return s;
}

static void set_column(grid *s, size_t from, size_t to, size_t c, real x)
{
    for (size_t i = from; i < to; i++) s->at[i * s->ld + c] = x;
    grid_keep(s);
}

/* One NaN somewhere, all of whose bits are set. */
static void spoil(trial *t, grid *s)
{
    if (s->rows == 0 || s->cols == 0) return;
    const size_t row = (size_t)dice_range(&t->dice, 0, (int64_t)s->rows - 1);
    const size_t c = (size_t)dice_range(&t->dice, 0, (int64_t)s->cols - 1);
    memset(s->at + row * s->ld + c, 0xFF, sizeof(real));
    grid_keep(s);
}

/* ---- one tile ------------------------------------------------------------------------------ */

typedef struct running {
    grid max, sum, rescale;
} running;

static running running_new(trial *t, size_t padded)
{
    return (running){ grid_output(t, 1, padded, padded + 1), grid_output(t, 1, padded, padded + 1),
                      grid_output(t, 1, padded, padded + 1) };
}

static void running_set(running *r, size_t c, real max, real sum)
{
    r->max.at[c] = max;
    r->sum.at[c] = sum;
    grid_keep(&r->max), grid_keep(&r->sum);
}

/* Folds rows from .. from+count-1 of s, in place or, an odd number of them, from elsewhere. */
static void fold(const trial *t, const grid *s, size_t from, size_t count, bool row, running *r)
{
    real *at = s->at + from * s->ld, *scores = at;
    if (row) {
        t->ker->softmax_row(at, count, r->max.at, r->sum.at, r->rescale.at);
        return;
    }
    if (count % 2) {
        scores = malloc(count * s->ld * sizeof *scores);
        assert_non_null(scores);
        for (size_t i = 0; i < count; i++)
            for (size_t c = 0; c < s->cols; c++) {
                scores[i * s->ld + c] = at[i * s->ld + c];
                at[i * s->ld + c] = NAN;
            }
    }
    t->ker->softmax_fold(at, scores, s->ld, count, s->cols, r->max.at, r->sum.at, r->rescale.at);
    if (scores != at) free(scores);
}

static void running_free(running *r)
{
    grid_free(&r->max), grid_free(&r->sum), grid_free(&r->rescale);
}

static void expect_folded(const trial *t, const grid *s, const running *r, size_t c)
{
    const real before = (real)was(&r->max, 0, c), rescale = r->rescale.at[c];
    const double sum_before = was(&r->sum, 0, c);
    real top = before;
    bool poisoned = false;
    for (size_t i = 0; i < s->rows; i++) {
        if ((real)was(s, i, c) > top) top = (real)was(s, i, c);
        poisoned |= isnan(was(s, i, c)) != 0;
    }
    if (poisoned) { /* a NaN is not lost; what else the column holds is free */
        expect_bits(t, "sum", 0, c, now(&r->sum, 0, c), (double)NAN);
        return;
    }
    const bool seen = top > -(real)INFINITY;
    const real shift = seen ? top : 0;
    double total = 0;
    for (size_t i = 0; i < s->rows; i++) {
        const real x = (real)was(s, i, c) - shift;
        expect_exp(t, "s", i, c, s->at[i * s->ld + c], x);
        if (isinf(x)) expect_bits(t, "s", i, c, now(s, i, c), 0);
        total += exp((double)x);
    }
    expect_bits(t, "max", 0, c, now(&r->max, 0, c), (double)top);
    if (seen) expect_exp(t, "rescale", 0, c, rescale, before - shift);
    else if (!isfinite(rescale)) trial_fail(t, "rescale[%zu] is %g", c, (double)rescale);
    if (total == 0) { /* nothing seen in this tile */
        expect_bits(t, "sum", 0, c, now(&r->sum, 0, c), sum_before);
        expect_bits(t, "rescaled sum", 0, c, sum_before * (double)rescale, sum_before);
    }
    const double want = sum_before * exp((double)(before - shift)) + total;
    expect_near(t, "sum", 0, c, now(&r->sum, 0, c), want, sum_bound(s->rows + 1, want));
}

/* Columns of one tile, by turns: ordinary; nothing in this tile; nothing yet; far below what came
 * before; far above; as large as numbers are. */
static void vary_columns(trial *t, grid *s, running *r)
{
    for (size_t c = 0; c < s->cols; c++) {
        const real sum = (real)(1 + 3 * dice_uniform(&t->dice));
        running_set(r, c, (real)dice_normal(&t->dice), sum);
        switch (dice_range(&t->dice, 0, 6)) {
        case 0: set_column(s, 0, s->rows, c, -(real)INFINITY); break;
        case 1: set_column(s, 0, s->rows, c, -(real)INFINITY); /* fall through */
        case 2: running_set(r, c, -(real)INFINITY, 0); break;
        case 3: running_set(r, c, 3000, sum); break;
        case 4: running_set(r, c, -3000, sum); break;
        case 5:
            for (size_t i = 0; i < s->rows; i++)
                set_column(s, i, i + 1, c, s->at[i * s->ld + c] * (REAL_MAX / 256));
            break;
        default: break;
        }
    }
}

static void check_one_tile(trial *t, size_t keys, size_t padded, bool row, bool with_nan)
{
    grid s = scores_new(t, keys, padded, row ? 1 : leading(t, padded), 4, 0.2);
    running r = running_new(t, padded);
    vary_columns(t, &s, &r);
    if (with_nan) spoil(t, &s);
    trial_sizes(t, "keys %zu padded %zu ld %zu", keys, padded, s.ld);
    fold(t, &s, 0, keys, row, &r);
    for (size_t c = 0; c < padded; c++) expect_folded(t, &s, &r, c);
    expect_untouched(t, "s", &s, keys, padded);
    expect_untouched(t, "max", &r.max, 1, padded);
    expect_untouched(t, "sum", &r.sum, 1, padded);
    expect_untouched(t, "rescale", &r.rescale, 1, padded);
    running_free(&r);
    grid_free(&s);
}

/* ---- several tiles ------------------------------------------------------------------------- */

/* The softmax-weighted sum of v, tile by tile, against one pass over all keys. */
static void expect_one_pass(const trial *t, const grid *s, const grid *v, const running *r,
                            const double *numerator, size_t tiles)
{
    for (size_t c = 0; c < s->cols; c++) {
        double top = -(double)INFINITY, sum = 0, weighted = 0, sum_size = 0, size = 0;
        for (size_t i = 0; i < s->rows; i++)
            if (was(s, i, c) > top) top = was(s, i, c);
        for (size_t i = 0; i < s->rows && top > -(double)INFINITY; i++) {
            const double x = was(s, i, c) - top, p = exp(x), value = was(v, 0, i);
            const double part = p > 0 ? p * (1 - x) : 0; /* x was rounded: off by |x| epsilon */
            sum += p;
            weighted += p * value;
            sum_size += part;
            size += part * fabs(value);
        }
        const double steps = 4 * REAL_EPSILON * (double)tiles; /* each rescales all before it */
        expect_bits(t, "final max", 0, c, now(&r->max, 0, c), top);
        expect_near(t, "final sum", 0, c, now(&r->sum, 0, c), sum,
                    sum_bound(s->rows, sum_size) + steps * sum_size);
        expect_near(t, "numerator", 0, c, numerator[c], weighted,
                    sum_bound(s->rows, size) + steps * size);
    }
}

/* Columns that begin late, end early, or see nothing at all. */
static void hide_parts(trial *t, grid *s)
{
    for (size_t c = 0; c < s->cols; c++) {
        const int64_t kind = dice_range(&t->dice, 0, 4);
        if (kind == 0) set_column(s, 0, s->rows / 2, c, -(real)INFINITY);
        if (kind == 1) set_column(s, s->rows / 3, s->rows, c, -(real)INFINITY);
        if (kind == 2) set_column(s, 0, s->rows, c, -(real)INFINITY);
    }
}

/* Tiles are multiples of `step` keys, as all the keys are. */
static void check_tiles(trial *t, size_t keys, size_t padded, bool row, size_t step)
{
    double numerator[LNT_PAD * 17] = { 0 };
    assert_true(padded <= (size_t)COUNT_OF(numerator));
    grid s = scores_new(t, keys, padded, row ? 1 : leading(t, padded), 4, 0.3);
    grid v = grid_input(t, 1, keys, keys + 1);
    hide_parts(t, &s);
    running r = running_new(t, padded);
    for (size_t c = 0; c < padded; c++) running_set(&r, c, -(real)INFINITY, 0);
    size_t tiles = 0;
    for (size_t from = 0, count; from < keys; from += count, tiles++) {
        count = (size_t)dice_range(&t->dice, 0, 9) * step;
        if (count > keys - from) count = keys - from;
        trial_sizes(t, "keys %zu padded %zu ld %zu, tile %zu of %zu keys", keys, padded, s.ld,
                    tiles, count);
        fold(t, &s, from, count, row, &r);
        for (size_t c = 0; c < padded; c++) numerator[c] *= (double)r.rescale.at[c];
        for (size_t i = from; i < from + count; i++)
            for (size_t c = 0; c < padded; c++) numerator[c] += now(&s, i, c) * was(&v, 0, i);
    }
    expect_one_pass(t, &s, &v, &r, numerator, tiles);
    running_free(&r);
    grid_free(&s), grid_free(&v);
}

void CHECK(softmax_fold)(trial *t)
{
    const size_t count = (size_t)budget(COUNT_OF(any_sizes), 2 * 11 * 17);
    for (size_t i = 0; i < count; i++) {
        const size_t padded = TAKE(vector_counts, i) * t->ker->lanes;
        check_one_tile(t, TAKE(any_sizes, i), padded, false, i % 3 == 0);
        if (i % 4 == 0) check_tiles(t, 5 * TAKE(any_sizes, i + 1), padded, false, 1);
    }
}

void CHECK(softmax_row)(trial *t)
{
    const size_t count = (size_t)budget(4 * COUNT_OF(vector_counts), 500), lanes = t->ker->lanes;
    for (size_t i = 0; i < count; i++) {
        check_one_tile(t, TAKE(vector_counts, i) * lanes, 1, true, i % 3 == 0);
        if (i % 4 == 0) check_tiles(t, 5 * TAKE(any_sizes, i) * lanes, 1, true, lanes);
    }
}

/* ---- backward ------------------------------------------------------------------------------ */

void CHECK(softmax_weights)(trial *t)
{
    const size_t count = (size_t)budget(COUNT_OF(any_sizes), 11 * 17);
    for (size_t i = 0; i < count; i++) {
        const size_t keys = TAKE(any_sizes, i), padded = TAKE(vector_counts, i) * t->ker->lanes;
        grid s = scores_new(t, keys, padded, leading(t, padded), i % 2 ? 4 : 60, 0.2);
        if (i % 3 == 0) spoil(t, &s);
        grid lse = grid_input(t, 1, padded, padded + 1);
        for (size_t c = 0; c < padded; c++) lse.at[c] += i % 2 ? 20 : 300;
        grid_keep(&lse);
        trial_sizes(t, "keys %zu padded %zu ld %zu", keys, padded, s.ld);
        t->ker->softmax_weights(s.at, s.ld, keys, padded, lse.at);
        for (size_t r = 0; r < keys; r++)
            for (size_t c = 0; c < padded; c++) {
                const real x = (real)was(&s, r, c) - (real)was(&lse, 0, c);
                expect_exp(t, "s", r, c, s.at[r * s.ld + c], x);
                if (isinf(x)) expect_bits(t, "s", r, c, now(&s, r, c), 0);
            }
        expect_untouched(t, "s", &s, keys, padded);
        expect_untouched(t, "lse", &lse, 0, 0);
        grid_free(&s), grid_free(&lse);
    }
}

void CHECK(softmax_grad)(trial *t)
{
    const size_t count = (size_t)budget(COUNT_OF(any_sizes), 11 * 17);
    for (size_t i = 0; i < count; i++) {
        const size_t keys = TAKE(any_sizes, i), padded = TAKE(vector_counts, i) * t->ker->lanes;
        grid ds = grid_inout(t, keys, padded, leading(t, padded));
        grid p = grid_input(t, keys, padded, ds.ld);
        grid delta = grid_input(t, 1, padded, padded + 1);
        trial_sizes(t, "keys %zu padded %zu ld %zu", keys, padded, ds.ld);
        t->ker->softmax_grad(ds.at, p.at, ds.ld, keys, padded, delta.at);
        for (size_t r = 0; r < keys; r++)
            for (size_t c = 0; c < padded; c++) {
                const double want = was(&p, r, c) * (was(&ds, r, c) - was(&delta, 0, c));
                expect_near(t, "ds", r, c, now(&ds, r, c), want, 2 * REAL_EPSILON * fabs(want));
            }
        expect_untouched(t, "ds", &ds, keys, padded);
        expect_untouched(t, "p", &p, 0, 0);
        expect_untouched(t, "delta", &delta, 0, 0);
        grid_free(&ds), grid_free(&p), grid_free(&delta);
    }
}

void CHECK(softmax_back)(trial *t)
{
    const size_t count = (size_t)budget(COUNT_OF(any_sizes), 11 * 17);
    for (size_t i = 0; i < count; i++) {
        const size_t keys = TAKE(any_sizes, i), padded = TAKE(vector_counts, i) * t->ker->lanes;
        grid s = scores_new(t, keys, padded, leading(t, padded), 4, 0.2);
        grid ds = grid_inout(t, keys, padded, s.ld), delta = grid_input(t, 1, padded, padded + 1);
        grid lse = grid_input(t, 1, padded, padded + 1);
        for (size_t c = 0; c < padded; c++) lse.at[c] += 20;
        grid_keep(&lse);
        trial_sizes(t, "keys %zu padded %zu ld %zu", keys, padded, s.ld);
        t->ker->softmax_back(s.at, ds.at, s.ld, keys, padded, lse.at, delta.at);
        for (size_t r = 0; r < keys; r++)
            for (size_t c = 0; c < padded; c++) {
                expect_exp(t, "s", r, c, s.at[r * s.ld + c],
                           (real)was(&s, r, c) - (real)was(&lse, 0, c));
                const double want = now(&s, r, c) * (was(&ds, r, c) - was(&delta, 0, c));
                expect_near(t, "ds", r, c, now(&ds, r, c), want, 2 * REAL_EPSILON * fabs(want));
            }
        expect_untouched(t, "s", &s, keys, padded);
        expect_untouched(t, "ds", &ds, keys, padded);
        expect_untouched(t, "lse", &lse, 0, 0);
        expect_untouched(t, "delta", &delta, 0, 0);
        grid_free(&s), grid_free(&ds), grid_free(&lse), grid_free(&delta);
    }
}

void CHECK(softmax_recall)(trial *t)
{
    const size_t count = (size_t)budget(COUNT_OF(any_sizes), 11 * 17);
    for (size_t i = 0; i < count; i++) {
        const size_t keys = TAKE(any_sizes, i), padded = TAKE(vector_counts, i) * t->ker->lanes;
        const size_t ld = leading(t, padded);
        grid p = grid_output(t, keys, padded, ld), w = grid_input(t, keys, padded, ld);
        grid ds = grid_inout(t, keys, padded, ld), delta = grid_input(t, 1, padded, padded + 1);
        grid factor = grid_input(t, 1, padded, padded + 1);
        trial_sizes(t, "keys %zu padded %zu ld %zu", keys, padded, ld);
        t->ker->softmax_recall(p.at, w.at, ds.at, ld, keys, padded, factor.at, delta.at);
        for (size_t r = 0; r < keys; r++)
            for (size_t c = 0; c < padded; c++) {
                const double weight = was(&w, r, c) * was(&factor, 0, c);
                const double want = weight * (was(&ds, r, c) - was(&delta, 0, c));
                expect_near(t, "p", r, c, now(&p, r, c), weight, REAL_EPSILON * fabs(weight));
                expect_near(t, "ds", r, c, now(&ds, r, c), want, 3 * REAL_EPSILON * fabs(want));
            }
        expect_untouched(t, "p", &p, keys, padded);
        expect_untouched(t, "ds", &ds, keys, padded);
        expect_untouched(t, "w", &w, 0, 0);
        expect_untouched(t, "factor", &factor, 0, 0);
        expect_untouched(t, "delta", &delta, 0, 0);
        grid_free(&p), grid_free(&w), grid_free(&ds), grid_free(&factor), grid_free(&delta);
    }
}
