/* model/template/arithmetic.c - operators on numbers, strings and lists as Python has them, and slices. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "model/template/render.h"

static bool overflow(lnt_render *r) { return lnt_render_fail(r, "an integer beyond 64 bits"); }
static bool by_zero(lnt_render *r) { return lnt_render_fail(r, "division by zero"); }

/* ---- numbers ------------------------------------------------------------------------------- */

/* base to the power of exponent >= 0, by squaring. */
static bool integer_power(lnt_render *r, int64_t base, int64_t exponent, int64_t *out)
{
    int64_t result = 1;
    if (base == 1 || base == 0 || base == -1) exponent = exponent > 2 ? 2 + exponent % 2 : exponent;
    for (; exponent; exponent >>= 1) {
        if (exponent & 1 && __builtin_mul_overflow(result, base, &result)) return overflow(r);
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return overflow(r);
    }
    *out = result;
    return true;
}

/* Quotient rounded down and the remainder that goes with it, which has the sign of b. */
static void divide(int64_t a, int64_t b, int64_t *quotient, int64_t *remainder)
{
    *quotient = a / b;
    *remainder = a % b;
    if (*remainder && (*remainder < 0) != (b < 0)) {
        --*quotient;
        *remainder += b;
    }
}

static bool integers(lnt_render *r, int sign, int64_t a, int64_t b, lnt_value *out)
{
    int64_t c = 0, other;
    switch (sign) {
    case '+': if (__builtin_add_overflow(a, b, &c)) return overflow(r); break;
    case '-': if (__builtin_sub_overflow(a, b, &c)) return overflow(r); break;
    case '*': if (__builtin_mul_overflow(a, b, &c)) return overflow(r); break;
    case LNT_SIGN_POWER:
        if (!integer_power(r, a, b, &c)) return false;
        break;
    default:
        if (b == 0) return by_zero(r);
        if (a == INT64_MIN && b == -1) return overflow(r);
        if (sign == LNT_SIGN_FLOOR) divide(a, b, &c, &other);
        else divide(a, b, &other, &c);
    }
    *out = lnt_value_integer(c);
    return true;
}

static bool real_power(lnt_render *r, double a, double b, double *out)
{
    if (a == 0 && b < 0) return by_zero(r);
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
        return lnt_render_fail(r, "a root of a negative number");
    *out = pow(a, b);
    return (isfinite(*out) || !isfinite(a) || !isfinite(b)) ||
           lnt_render_fail(r, "a power that is too large");
}

/* As Python's float_divmod: the remainder has the sign of b, and the quotient is a whole number. */
static void divide_reals(double a, double b, double *quotient, double *remainder)
{
    double rest = fmod(a, b), q = (a - rest) / b;
    if (rest != 0) {
        if ((b < 0) != (rest < 0)) rest += b, q -= 1;
    } else {
        rest = copysign(0.0, b);
    }
    *quotient = q != 0 ? floor(q) + (q - floor(q) > 0.5) : copysign(0.0, a / b);
    *remainder = rest;
}

static bool reals(lnt_render *r, int sign, double a, double b, lnt_value *out)
{
    double c = 0, other;
    switch (sign) {
    case '+': c = a + b; break;
    case '-': c = a - b; break;
    case '*': c = a * b; break;
    case LNT_SIGN_POWER:
        if (!real_power(r, a, b, &c)) return false;
        break;
    default:
        if (b == 0) return by_zero(r);
        if (sign == '/') c = a / b;
        else if (sign == '%') divide_reals(a, b, &other, &c);
        else divide_reals(a, b, &c, &other);
    }
    *out = lnt_value_real(c);
    return true;
}

/* ---- strings and lists --------------------------------------------------------------------- */

static bool join_strings(lnt_render *r, lnt_span a, lnt_span b, lnt_value *out)
{
    char *text = lnt_template_pool_take(&r->pool, a.bytes + b.bytes, 1);
    if (!text || !lnt_render_spend(r, (a.bytes + b.bytes) / 64)) return false;
    memcpy(text, a.text, a.bytes);
    memcpy(text + a.bytes, b.text, b.bytes);
    *out = lnt_value_text((lnt_span){ text, a.bytes + b.bytes });
    return true;
}

static bool join_lists(lnt_render *r, const lnt_list *a, const lnt_list *b, lnt_value *out)
{
    lnt_value *item = lnt_template_pool_take(&r->pool, a->count + b->count, sizeof *item);
    if (!item || !lnt_render_spend(r, a->count + b->count)) return false;
    if (a->count) memcpy(item, a->item, a->count * sizeof *item);
    if (b->count) memcpy(item + a->count, b->item, b->count * sizeof *item);
    return lnt_value_list(r, a->form, item, a->count + b->count, out);
}

static bool repeat_list(lnt_render *r, const lnt_list *list, size_t times, lnt_value *out)
{
    size_t count;
    if (!lnt_size_product(list->count, times, 1, &count)) count = SIZE_MAX;
    lnt_value *item = lnt_template_pool_take(&r->pool, count, sizeof *item);
    if (!item || !lnt_render_spend(r, count)) return false;
    for (size_t i = 0; i < count; i++) item[i] = list->item[i % list->count];
    return lnt_value_list(r, list->form, item, count, out);
}

static bool repeat(lnt_render *r, const lnt_value *of, int64_t times, lnt_value *out)
{
    size_t bytes, n = times > 0 ? (size_t)times : 0;
    if (of->kind == LNT_VALUE_LIST) return repeat_list(r, of->is.list, n, out);
    const lnt_span text = of->is.string;
    if (!text.bytes) n = 0;
    if (!lnt_size_product(text.bytes, n, 1, &bytes)) bytes = SIZE_MAX;
    char *copy = lnt_template_pool_take(&r->pool, bytes, 1);
    if (!copy || !lnt_render_spend(r, bytes / 16)) return false;
    for (size_t i = 0; i < n; i++) memcpy(copy + i * text.bytes, text.text, text.bytes);
    *out = lnt_value_text((lnt_span){ copy, bytes });
    return true;
}

static bool is_sequence(const lnt_value *v)
{
    return v->kind == LNT_VALUE_STRING || lnt_value_is_list(v, LNT_LIST) || lnt_value_is_list(v, LNT_TUPLE);
}

bool lnt_arithmetic(lnt_render *r, int sign, const lnt_value *a, const lnt_value *b, lnt_value *out)
{
    int64_t i = 0, j = 0;
    double x, y;
    const bool whole_a = lnt_value_is_integer(a, &i), whole_b = lnt_value_is_integer(b, &j);
    if (whole_a && whole_b && sign != '/' && (sign != LNT_SIGN_POWER || j >= 0))
        return integers(r, sign, i, j, out);
    if (lnt_value_is_number(a, &x) && lnt_value_is_number(b, &y)) return reals(r, sign, x, y, out);
    if (sign == '+' && a->kind == LNT_VALUE_STRING && b->kind == LNT_VALUE_STRING)
        return join_strings(r, a->is.string, b->is.string, out);
    if (sign == '+' && ((lnt_value_is_list(a, LNT_LIST) && lnt_value_is_list(b, LNT_LIST)) ||
                        (lnt_value_is_list(a, LNT_TUPLE) && lnt_value_is_list(b, LNT_TUPLE))))
        return join_lists(r, a->is.list, b->is.list, out);
    if (sign == '*' && is_sequence(a) && whole_b) return repeat(r, a, j, out);
    if (sign == '*' && whole_a && is_sequence(b)) return repeat(r, b, i, out);
    static const char *const longer[] = { "//", "**" };
    const char one[2] = { (char)sign, 0 };
    return lnt_render_fail(r, "'%s' is not known of %s and %s",
                           sign == LNT_SIGN_FLOOR ? longer[0] : sign == LNT_SIGN_POWER ? longer[1] : one,
                           lnt_value_name(a), lnt_value_name(b));
}

/* ---- slices -------------------------------------------------------------------------------- */

/* A bound within what `count` items allow, going by `step`. */
static bool bound_of(lnt_render *r, const lnt_value *v, int64_t absent, int64_t count, int64_t step,
                     int64_t *out)
{
    *out = absent;
    if (v->kind == LNT_VALUE_MISSING || v->kind == LNT_VALUE_NONE) return true;
    if (!lnt_value_is_integer(v, out))
        return lnt_render_fail(r, "a slice from %s; its bounds are integers", lnt_value_name(v));
    if (*out < 0) *out = *out < -count ? (step < 0 ? -1 : 0) : *out + count;
    else if (*out >= count) *out = step < 0 ? count - 1 : count;
    return true;
}

/* Characters of text: those of a step of 1 are a part of it. */
static bool slice_text(lnt_render *r, lnt_span text, int64_t from, int64_t step, size_t count, lnt_value *out)
{
    lnt_value letters;
    lnt_list all;
    if (step == 1 || !count) {
        const size_t at = lnt_characters_skip(text, (size_t)from);
        const lnt_span rest = { text.text + at, text.bytes - at };
        *out = lnt_value_text((lnt_span){ rest.text, lnt_characters_skip(rest, count) });
        return true;
    }
    letters = lnt_value_text(text);
    lnt_buffer to = { 0 };
    if (!lnt_value_iterate(r, &letters, &all)) return false;
    for (size_t i = 0; i < count; i++) {
        const lnt_span one = all.item[from + (int64_t)i * step].is.string;
        if (!lnt_render_put(r, &to, one.text, one.bytes)) return false;
    }
    *out = lnt_value_text((lnt_span){ to.text ? to.text : "", to.bytes });
    return true;
}

static bool slice_list(lnt_render *r, const lnt_list *list, int64_t from, int64_t step,
                       size_t count, lnt_value *out)
{
    if (step == 1) return lnt_value_list(r, list->form, count ? list->item + from : NULL, count, out);
    lnt_value *item = lnt_template_pool_take(&r->pool, count, sizeof *item);
    if (!item || !lnt_render_spend(r, count)) return false;
    for (size_t i = 0; i < count; i++) item[i] = list->item[from + (int64_t)i * step];
    return lnt_value_list(r, list->form, item, count, out);
}

bool lnt_slice(lnt_render *r, const lnt_value *of, const lnt_value bound[3], lnt_value *out)
{
    int64_t count, from, to, step = 1;
    if (of->kind == LNT_VALUE_UNDEFINED)
        return lnt_render_fail(r, "'%.*s' is not defined, and has no items", LNT_SHOWN(of->is.string));
    if (!is_sequence(of) && !lnt_value_is_list(of, LNT_RANGE))
        return lnt_render_fail(r, "a slice of %s", lnt_value_name(of));
    if (!lnt_value_length(r, of, &count)) return false;
    if (bound[2].kind != LNT_VALUE_MISSING && bound[2].kind != LNT_VALUE_NONE &&
        (!lnt_value_is_integer(&bound[2], &step) || step == 0 || step == INT64_MIN))
        return lnt_render_fail(r, "the step of a slice is an integer that is not 0");
    if (!bound_of(r, &bound[0], step < 0 ? count - 1 : 0, count, step, &from) ||
        !bound_of(r, &bound[1], step < 0 ? -1 : count, count, step, &to))
        return false;
    const int64_t span = step > 0 ? to - from : from - to, size = step > 0 ? step : -step;
    const size_t taken = span > 0 ? (size_t)((span - 1) / size + 1) : 0;
    if (of->kind == LNT_VALUE_STRING) return slice_text(r, of->is.string, taken ? from : 0, step, taken, out);
    if (!slice_list(r, of->is.list, from, step, taken, out)) return false;
    const lnt_list *range = of->is.list; /* a range prints its bounds; in other lists they are 0 */
    out->is.list->start = (int64_t)((uint64_t)range->start + (uint64_t)from * (uint64_t)range->step);
    out->is.list->stop = (int64_t)((uint64_t)range->start + (uint64_t)to * (uint64_t)range->step);
    out->is.list->step = (int64_t)((uint64_t)range->step * (uint64_t)step);
    return true;
}
