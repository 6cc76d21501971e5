/* core/overlap.c - whether two strided views share an element:
 *
 *     sum_k i_k s_k - sum_k j_k t_k = distance of their first elements,  i, j within their shapes
 *
 * searched from the widest stride down, with what the narrower ones can reach as the bound.  Of views as
 * programs make them a handful of steps; where it is not decided after a thousand they count as one. */
#include "core/overlap.h"

#include <stdint.h>

enum { TERMS = 8, STEPS = 1000 };

/* stride times a number in low .. high. */
typedef struct term {
    int64_t stride, low, high;
} term;

typedef struct search {
    term term[TERMS];
    int64_t low[TERMS + 1], high[TERMS + 1]; /* what the terms from here on reach */
    int count, steps;
} search;

static bool is_empty(const lnt_tensor *t)
{
    return !t->data || !t->shape[0] || !t->shape[1] || !t->shape[2] || !t->shape[3];
}

/* First byte and the one past the last. */
static void bounds(const lnt_tensor *t, uintptr_t *first, uintptr_t *end)
{
    const int64_t size = (int64_t)lnt_dtype_size(t->dtype);
    *first = *end = (uintptr_t)t->data;
    for (int i = 0; i < 4; i++) {
        const int64_t reach = (t->shape[i] - 1) * t->stride[i] * size;
        *(reach < 0 ? first : end) += (uintptr_t)reach;
    }
    *end += (uintptr_t)size;
}

static void add_term(search *s, int64_t stride, int64_t low, int64_t high)
{
    const term t = stride < 0 ? (term){ -stride, -high, -low } : (term){ stride, low, high };
    int at = 0;
    if (low == high || !stride) return;
    while (at < s->count && s->term[at].stride > t.stride) at++;
    if (at < s->count && s->term[at].stride == t.stride) {
        s->term[at].low += t.low;
        s->term[at].high += t.high;
        return;
    }
    for (int i = s->count++; i > at; i--) s->term[i] = s->term[i - 1];
    s->term[at] = t;
}

static int64_t floor_ratio(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* Whether the terms from `at` on can make `rest`. */
static bool reaches(search *s, int at, int64_t rest)
{
    if (rest < s->low[at] || rest > s->high[at]) return false;
    if (at == s->count || s->steps++ > STEPS) return true;
    const term *t = &s->term[at];
    const int64_t least = -floor_ratio(s->high[at + 1] - rest, t->stride);
    const int64_t most = floor_ratio(rest - s->low[at + 1], t->stride);
    for (int64_t i = least > t->low ? least : t->low; i <= most && i <= t->high; i++)
        if (reaches(s, at + 1, rest - i * t->stride)) return true;
    return false;
}

bool lnt_tensor_overlap(const lnt_tensor *a, const lnt_tensor *b)
{
    uintptr_t a_first, a_end, b_first, b_end;
    if (is_empty(a) || is_empty(b)) return false;
    bounds(a, &a_first, &a_end);
    bounds(b, &b_first, &b_end);
    if (a_end <= b_first || b_end <= a_first) return false;
    if (a_end - a_first > SIZE_MAX / 8 || b_end - b_first > SIZE_MAX / 8) return true; /* sums would wrap */
    const int64_t size = (int64_t)lnt_dtype_size(a->dtype);
    const int64_t distance = (int64_t)((uintptr_t)b->data - (uintptr_t)a->data);
    if ((int64_t)lnt_dtype_size(b->dtype) != size || distance % size) return true;
    search s = { .count = 0 };
    for (int i = 0; i < 4; i++) {
        add_term(&s, a->stride[i], 0, a->shape[i] - 1);
        add_term(&s, b->stride[i], 1 - b->shape[i], 0);
    }
    for (int i = s.count; i-- > 0;) {
        s.low[i] = s.low[i + 1] + s.term[i].low * s.term[i].stride;
        s.high[i] = s.high[i + 1] + s.term[i].high * s.term[i].stride;
    }
    return reaches(&s, 0, distance / size);
}

bool lnt_tensor_same(const lnt_tensor *a, const lnt_tensor *b)
{
    bool same = a->data == b->data && a->dtype == b->dtype;
    for (int i = 0; i < 4; i++) same &= a->shape[i] == b->shape[i] && a->stride[i] == b->stride[i];
    return same;
}

lnt_status lnt_tensor_expect_apart(lnt_ctx *ctx, lnt_named_tensor out, const lnt_named_tensor *inputs,
                                   int count)
{
    for (int i = 0; i < count; i++)
        if (lnt_tensor_overlap(out.t, inputs[i].t))
            return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s overlaps %s in memory, must lie apart from it",
                            out.name, inputs[i].name);
    return LNT_OK;
}

lnt_status lnt_expect_apart(lnt_ctx *ctx, const char *to_name, const void *to, size_t to_bytes,
                            const char *from_name, const void *from, size_t from_bytes)
{
    const uintptr_t a = (uintptr_t)to, b = (uintptr_t)from;
    if (a < b + from_bytes && b < a + to_bytes && to_bytes && from_bytes)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s overlaps %s in memory, must lie apart from it", to_name,
                        from_name);
    return LNT_OK;
}
