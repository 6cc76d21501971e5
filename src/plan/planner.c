/* plan/planner.c - seconds = FLOPs an algorithm says it spends x seconds per FLOP.
 *
 * The rate is measured by lnt_ctx_calibrate, or one built in that is the same on every machine, so
 * that without calibration the same descriptor always gets the same algorithm. */
#include "plan/planner.h"

#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "attention/registry.h"
#include "device/device.h"

static double measured_rate(const lnt_ctx *ctx, int index, const lnt_attn_desc *p)
{
    const bool by_state = lnt_registry_get(index, p->dtype)->takes_state;
    return ctx->seconds_per_flop[lnt_device_of(ctx)->rate_dtype(p, by_state)][index];
}

/* Whether this context can say how long an algorithm takes. */
static bool is_known(const lnt_ctx *ctx, int index, const lnt_attn_desc *p)
{
    return lnt_device_of(ctx)->rated || measured_rate(ctx, index, p) > 0;
}

double lnt_planner_seconds(const lnt_ctx *ctx, int index, const lnt_attn_desc *p)
{
    const lnt_algo *algo = lnt_registry_get(index, p->dtype);
    const double measured = measured_rate(ctx, index, p);
    if (!is_known(ctx, index, p)) return 0;
    return algo->cost(p) * (measured > 0 ? measured : algo->rate);
}

/* Why an algorithm cannot do p, or NULL. */
static const char *refusal_of(const lnt_algo *algo, const lnt_attn_desc *p)
{
    if (p->state && p->mechanism == LNT_CUR)
        return "has no state: its landmarks are chosen from the whole sequence";
    if (p->state && !algo->takes_state)
        return p->mechanism == LNT_SOFTMAX ? "plans take no state; stream through lnt_state_step"
                                           : "takes no state, as the other algorithms do";
    return algo->refuses ? algo->refuses(p) : NULL;
}

/* "direct" or "linear/direct", and a form after a colon, which is the device's to know. */
static bool is_named(const lnt_algo *algo, const char *name)
{
    const char *const names[] = { algo->name, strchr(algo->name, '/') + 1 };
    const size_t length = strcspn(name, ":");
    for (int i = 0; i < 2; i++)
        if (strlen(names[i]) == length && strncmp(name, names[i], length) == 0) return true;
    return false;
}

static lnt_status choose_named(lnt_ctx *ctx, const lnt_attn_desc *p, int *index)
{
    char known[200] = "";
    for (int i = 0; i < lnt_registry_count(); i++) {
        const lnt_algo *algo = lnt_registry_get(i, p->dtype);
        if (algo->mechanism != p->mechanism) continue;
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", algo->name);
        if (!is_named(algo, p->algorithm)) continue;
        const char *why = refusal_of(algo, p);
        if (why) return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "%s: %s", algo->name, why);
        *index = i;
        return LNT_OK;
    }
    return lnt_fail(ctx, LNT_ERR_ARGUMENT, "algorithm '%s': %s has %s", p->algorithm,
                    lnt_mechanism_name(p->mechanism), known);
}

lnt_status lnt_planner_choose(lnt_ctx *ctx, const lnt_attn_desc *p, int *index)
{
    if (p->algorithm) return choose_named(ctx, p, index);
    const char *why = "no algorithm is built in";
    double best = -1;
    *index = -1;
    for (int i = 0; i < lnt_registry_count(); i++) {
        const lnt_algo *algo = lnt_registry_get(i, p->dtype);
        if (algo->mechanism != p->mechanism || !is_known(ctx, i, p)) continue;
        const char *refusal = refusal_of(algo, p);
        if (refusal) {
            why = refusal;
            continue;
        }
        const double runs = p->backward && algo->both > 0 ? algo->both : 1;
        const double seconds = lnt_planner_seconds(ctx, i, p) * runs;
        if (best >= 0 && seconds >= best) continue;
        best = seconds;
        *index = i;
    }
    if (best < 0 && lnt_device_of(ctx)->rated)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "%s: %s", lnt_mechanism_name(p->mechanism), why);
    return LNT_OK;
}

/* ---- crossover ------------------------------------------------------------------------------- */

/* Best time over the algorithms of p's mechanism that take a state, or do not. */
static double best_seconds(const lnt_ctx *ctx, const lnt_attn_desc *p, bool state)
{
    double best = -1;
    for (int i = 0; i < lnt_registry_count(); i++) {
        const lnt_algo *algo = lnt_registry_get(i, p->dtype);
        if (algo->mechanism != p->mechanism || algo->takes_state != state ||
            !is_known(ctx, i, p) || refusal_of(algo, p))
            continue;
        const double seconds = lnt_planner_seconds(ctx, i, p);
        if (best < 0 || seconds < best) best = seconds;
    }
    return best;
}

/* Of the form whose cost grows with n: by a state, or by landmarks. */
static double linear_seconds(const lnt_ctx *ctx, const lnt_attn_desc *p)
{
    return best_seconds(ctx, p, p->mechanism != LNT_CUR);
}

/* Of the form whose cost grows with n^2; that of cur is softmax. */
static double direct_seconds(const lnt_ctx *ctx, const lnt_attn_desc *p)
{
    lnt_attn_desc direct = *p;
    if (p->mechanism == LNT_CUR) direct.mechanism = LNT_SOFTMAX;
    return best_seconds(ctx, &direct, false);
}

static bool linear_wins(const lnt_ctx *ctx, lnt_attn_desc p, int64_t n)
{
    p.length_q = p.length_k = n;
    return linear_seconds(ctx, &p) < direct_seconds(ctx, &p);
}

double lnt_planner_crossover(const lnt_ctx *ctx, const lnt_attn_desc *p)
{
    int64_t low = 1, high = 1;
    if (p->mechanism == LNT_CUR) low = high = p->cur.landmarks + 1; /* up to them it is softmax */
    if (linear_seconds(ctx, p) < 0 || direct_seconds(ctx, p) < 0) return 0;
    /* Of a few tokens, and between the lengths of two algorithms, a form with a state may be the faster one
     * as well: steps of an eighth miss little of what lies between. */
    for (int64_t n = low, next; n <= INT64_C(1) << 30; n = next) {
        next = n + n / 8 + 1;
        if (!linear_wins(ctx, *p, n)) low = n, high = next;
    }
    if (high > INT64_C(1) << 30) return 0;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (linear_wins(ctx, *p, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return (double)low;
}

/* ---- calibration ----------------------------------------------------------------------------- */

/* The best of three runs, of more where they are short; half a second of runs is enough by itself. */
static lnt_status time_plan(lnt_ctx *ctx, lnt_plan *plan, const lnt_attn_io *io, double *seconds)
{
    const double start = lnt_clock();
    double all = 0;
    *seconds = -1;
    for (int repeat = 0; repeat < 50 && all < (repeat < 3 ? 0.5 : 0.05); repeat++) {
        const double before = lnt_clock();
        lnt_status status = lnt_plan_forward(plan, io);
        if (!status) status = lnt_ctx_synchronize(ctx);
        const double after = lnt_clock();
        if (status) return status;
        if (*seconds < 0 || after - before < *seconds) *seconds = after - before;
        all = after - start;
    }
    return LNT_OK;
}

static lnt_status calibrate_one(lnt_ctx *ctx, int index, lnt_dtype dtype, const lnt_calibration *c,
                                const lnt_attn_io *io)
{
    const lnt_algo *algo = lnt_registry_get(index, dtype);
    lnt_attn_desc desc, p;
    lnt_plan *plan;
    lnt_status status = lnt_attn_desc_init(&desc, sizeof desc);
    desc.mechanism = algo->mechanism;
    desc.algorithm = algo->name;
    desc.dtype = dtype;
    desc.heads = c->heads;
    desc.length_q = c->tokens;
    desc.dim = c->dim;
    desc.causal = algo->mechanism != LNT_CUR;
    if (!status) status = lnt_problem_resolve(ctx, &desc, &p);
    if (!status) status = lnt_plan_create(ctx, &desc, &plan);
    if (status == LNT_ERR_UNSUPPORTED) return LNT_OK; /* it stays unknown */
    if (status) return status;
    double seconds;
    status = time_plan(ctx, plan, io, &seconds);
    if (!status) ctx->seconds_per_flop[dtype][index] = seconds / algo->cost(&p);
    lnt_plan_destroy(plan);
    return status;
}

/* Random q, k, v and room for out, one after the other in `memory` of the device. */
static lnt_status fill_calibration(lnt_ctx *ctx, lnt_dtype dtype, const lnt_calibration *c, void *memory,
                                   size_t each, lnt_attn_io *io)
{
    lnt_tensor *const tensors[] = { &io->q, &io->k, &io->v, &io->out };
    lnt_status status = LNT_OK;
    void *drawn = lnt_allocate(ctx, each, "calibration");
    if (!drawn) return LNT_ERR_MEMORY;
    for (size_t i = 0; i < 4 && !status; i++) {
        lnt_tensor *t = tensors[i];
        *t = lnt_tensor_bhnd(drawn, dtype, 1, c->heads, c->tokens, c->dim);
        status = lnt_tensor_fill_normal(ctx, t, i, 1);
        t->data = (char *)memory + i * each;
        if (!status) status = lnt_device_write(ctx, t->data, drawn, each);
    }
    lnt_release(ctx, drawn, each);
    return status;
}

static lnt_status calibrate_dtype(lnt_ctx *ctx, lnt_dtype dtype)
{
    lnt_calibration c;
    lnt_attn_io io = { .size = sizeof io };
    void *memory;
    lnt_status status = lnt_device_of(ctx)->calibration(ctx, dtype, &c);
    if (status || !c.heads) return status;
    const size_t each = (size_t)(c.heads * c.tokens * c.dim) * lnt_dtype_size(dtype);
    status = lnt_device_allocate(ctx, 4 * each, &memory);
    if (status) return status;
    status = fill_calibration(ctx, dtype, &c, memory, each, &io);
    for (int i = 0; i < lnt_registry_count() && !status; i++)
        status = calibrate_one(ctx, i, dtype, &c, &io);
    lnt_device_release(ctx, memory, 4 * each);
    return status;
}

lnt_status lnt_ctx_calibrate(lnt_ctx *ctx)
{
    if (!ctx) return LNT_ERR_ARGUMENT;
    static const lnt_dtype dtypes[] = { LNT_F32, LNT_BF16, LNT_F16 };
    lnt_status status = LNT_OK;
    for (int i = 0; i < 3 && !status; i++) status = calibrate_dtype(ctx, dtypes[i]);
    return status;
}
