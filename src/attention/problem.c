/* attention/problem.c - defaults and checks: past this file, a problem is known to make sense. */
#include "attention/problem.h"

#include <float.h>
#include <math.h>

#include "attention/taylor/basis.h"
#include "attention/cur/cur.h"
#include "attention/linear/feature.h"
#include "attention/state/state.h"
#include "core/tensor.h"

const char *lnt_mechanism_name(lnt_mechanism mechanism)
{
    switch (mechanism) {
    case LNT_SOFTMAX: return "softmax";
    case LNT_LINEAR: return "linear";
    case LNT_TAYLOR: return "taylor";
    case LNT_CUR: return "cur";
    case LNT_HYBRID: return "hybrid";
    }
    return NULL;
}

const char *lnt_feature_map_name(lnt_feature_map map)
{
    static const char *const names[] = { "elu1", "relu", "exp", "identity", "fourier", "positive" };
    const size_t i = (size_t)map;
    return i < sizeof names / sizeof names[0] ? names[i] : NULL;
}

const char *lnt_normalize_name(lnt_normalize normalize)
{
    static const char *const names[] = { "none", "taylorshift" };
    const size_t i = (size_t)normalize;
    return i < sizeof names / sizeof names[0] ? names[i] : NULL;
}

lnt_status lnt_attn_desc_init(lnt_attn_desc *desc, size_t size)
{
    if (!desc || size != sizeof *desc) return LNT_ERR_ARGUMENT;
    *desc = (lnt_attn_desc){ .size = size,
                             .dtype = LNT_F32,
                             .batch = 1,
                             .heads = 1,
                             .length_k = -1,
                             .scale = NAN,
                             .linear.eps = 1e-6,
                             .cur = { .select = LNT_SELECT_STEP, .copy_rows = 1, .ridge = 1e-5 },
                             .hybrid.far = LNT_TAYLOR };
    return LNT_OK;
}

static lnt_status check_extent(lnt_ctx *ctx, const char *name, int64_t value, int64_t least)
{
    if (value >= least && value <= LNT_MAX_EXTENT) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s is %lld, must be %lld to 2^40", name,
                    (long long)value, (long long)least);
}

static lnt_status check_shape(lnt_ctx *ctx, const lnt_attn_desc *p)
{
    const struct {
        const char *name;
        int64_t value, least;
    } extents[] = { { "batch", p->batch, 0 },       { "heads", p->heads, 0 },
                    { "kv_heads", p->kv_heads, 0 }, { "length_q", p->length_q, 0 },
                    { "length_k", p->length_k, 0 }, { "dim", p->dim, 1 },
                    { "dim_value", p->dim_value, 1 } };
    for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++) {
        const lnt_status status =
            check_extent(ctx, extents[i].name, extents[i].value, extents[i].least);
        if (status) return status;
    }
    if (p->heads ? p->kv_heads == 0 || p->heads % p->kv_heads != 0 : p->kv_heads != 0)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "kv_heads is %lld, must divide heads, which is %lld",
                        (long long)p->kv_heads, (long long)p->heads);
    if (p->causal && p->length_q > p->length_k)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "causal: length_q is %lld, must be at most length_k, which is %lld",
                        (long long)p->length_q, (long long)p->length_k);
    return LNT_OK;
}

/* Of the numbers that a run of p computes with. */
static double largest(const lnt_attn_desc *p) { return p->dtype == LNT_F64 ? DBL_MAX : FLT_MAX; }

static bool is_number(const lnt_attn_desc *p, double x) { return fabs(x) <= largest(p); }

static lnt_status check_decay(lnt_ctx *ctx, const lnt_attn_desc *p)
{
    for (int64_t h = 0; p->decay && h < p->kv_heads; h++)
        if (!(p->decay[h] > 0 && p->decay[h] <= 1))
            return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                            "decay of kv head %lld is %g, must be above 0 and at most 1",
                            (long long)h, p->decay[h]);
    return LNT_OK;
}

static lnt_status check_linear(lnt_ctx *ctx, lnt_attn_desc *p)
{
    if (!lnt_feature_map_name(p->linear.feature_map))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "feature_map is %d, must be elu1, relu, exp, identity, fourier or positive",
                        (int)p->linear.feature_map);
    if (p->linear.features == 0) p->linear.features = 2 * p->dim;
    if (lnt_feature_is_random(p->linear.feature_map)) {
        const lnt_status status = check_extent(ctx, "features", p->linear.features, 1);
        if (status) return status;
        if (p->linear.feature_map == LNT_MAP_FOURIER && p->linear.features % 2)
            return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                            "features is %lld, must be even for fourier (cosines and sines)",
                            (long long)p->linear.features);
    }
    if (!(p->linear.eps >= 0) || !is_number(p, p->linear.eps))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "eps is %g, must be 0 to %g", p->linear.eps, largest(p));
    return check_decay(ctx, p);
}

static lnt_status check_center(lnt_ctx *ctx, const lnt_attn_desc *p)
{
    if (!p->taylor.center && !p->taylor.center_mean) return LNT_OK;
    if (p->taylor.center && p->taylor.center_mean)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "center and center_mean cannot both be given");
    if (p->taylor.normalize != LNT_NORMALIZE_NONE)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "center: keys of length 1 are not centred; normalize must be none");
    if (p->taylor.center_mean && (p->causal || p->state))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "center_mean: the mean key is known when all keys are, not with %s; give "
                        "center instead",
                        p->causal ? "causal" : "a state");
    for (int64_t i = 0; p->taylor.center && i < p->kv_heads * p->dim; i++)
        if (!is_number(p, p->taylor.center[i]))
            return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                            "center: number %lld of kv head %lld is %g, must be %g to %g",
                            (long long)(i % p->dim), (long long)(i / p->dim), p->taylor.center[i],
                            -largest(p), largest(p));
    return LNT_OK;
}

static lnt_status check_taylor(lnt_ctx *ctx, lnt_attn_desc *p)
{
    if (p->taylor.terms == 0) p->taylor.terms = p->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT ? 3 : 4;
    if (p->taylor.terms < 1 || p->taylor.terms > LNT_MAX_TERMS)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "terms is %lld, must be 1 to %d",
                        (long long)p->taylor.terms, LNT_MAX_TERMS);
    for (int64_t t = 0; p->taylor.coefficients && t < p->taylor.terms; t++)
        if (!is_number(p, p->taylor.coefficients[t]))
            return lnt_fail(ctx, LNT_ERR_ARGUMENT, "coefficient %lld is %g, must be %g to %g",
                            (long long)t, p->taylor.coefficients[t], -largest(p), largest(p));
    if (!lnt_normalize_name(p->taylor.normalize))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "normalize is %d, must be none or taylorshift",
                        (int)p->taylor.normalize);
    if (p->taylor.temperature && p->taylor.normalize != LNT_NORMALIZE_TAYLORSHIFT)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "temperature needs normalize taylorshift");
    for (int64_t h = 0; p->taylor.temperature && h < p->heads; h++)
        if (!is_number(p, p->taylor.temperature[h]))
            return lnt_fail(ctx, LNT_ERR_ARGUMENT, "temperature of head %lld is %g, must be %g to %g",
                            (long long)h, p->taylor.temperature[h], -largest(p), largest(p));
    return check_center(ctx, p);
}

const char lnt_hybrid_needs_causal[] = "which keys are the last ones needs an order; set causal";

static lnt_status refuse_options(lnt_ctx *ctx, const lnt_attn_desc *p)
{
    const struct {
        bool given;
        const char *name, *why;
    } options[] = {
        { p->taylor.normalize != LNT_NORMALIZE_NONE, "normalize", "its near keys are not normalised" },
        { p->taylor.output_norm, "output_norm", "the output of softmax is not multiplied" },
        { p->taylor.center_mean, "center_mean", "the mean key is known when all keys are; give center" }
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (options[i].given)
            return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "hybrid has no %s: %s", options[i].name,
                            options[i].why);
    return LNT_OK;
}

static lnt_status check_hybrid(lnt_ctx *ctx, lnt_attn_desc *p)
{
    if (p->hybrid.far != LNT_LINEAR && p->hybrid.far != LNT_TAYLOR)
        return lnt_fail(
            ctx, LNT_ERR_ARGUMENT, "far is %d (%s), must be linear or taylor", (int)p->hybrid.far,
            lnt_mechanism_name(p->hybrid.far) ? lnt_mechanism_name(p->hybrid.far) : "no mechanism");
    if (p->hybrid.window == 0) p->hybrid.window = 128;
    lnt_status status = check_extent(ctx, "window", p->hybrid.window, 1);
    if (!status) status = check_extent(ctx, "sink", p->hybrid.sink, 0);
    if (!status) status = refuse_options(ctx, p);
    if (status) return status;
    if (p->hybrid.far == LNT_LINEAR) {
        p->taylor.terms = 1; /* the constant: nothing of it is used */
        p->taylor.coefficients = p->taylor.temperature = p->taylor.center = NULL;
        return check_linear(ctx, p);
    }
    /* An even number of terms has a last power that is odd: its weights are not all positive. */
    if (p->taylor.terms == 0) p->taylor.terms = 3;
    status = check_taylor(ctx, p);
    return status ? status : check_decay(ctx, p);
}

static lnt_status check_compensated(lnt_ctx *ctx, const lnt_attn_desc *p)
{
    if (!p->compensated || p->mechanism == LNT_LINEAR || p->mechanism == LNT_TAYLOR) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                    "%s has no compensated: only the sums of linear and taylor keep what rounding loses",
                    lnt_mechanism_name(p->mechanism));
}

double lnt_problem_coefficient(const lnt_attn_desc *p, int64_t term)
{
    double factorial = 1;
    for (int64_t t = 2; t <= term; t++) factorial *= (double)t;
    return p->taylor.coefficients ? p->taylor.coefficients[term] : 1 / factorial;
}

double lnt_problem_score_factor(const lnt_attn_desc *p)
{
    return p->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT ? sqrt((double)p->dim) : 1;
}

lnt_status lnt_problem_resolve(lnt_ctx *ctx, const lnt_attn_desc *desc, lnt_attn_desc *out)
{
    if (!desc) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "desc is NULL");
    if (desc->size != sizeof *desc)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "desc: size is %zu, expected %zu", desc->size,
                        sizeof *desc);
    *out = *desc;
    if (!lnt_mechanism_name(out->mechanism))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "mechanism is %d, must be softmax, linear, taylor, cur or hybrid",
                        (int)out->mechanism);
    if (!lnt_dtype_size(out->dtype))
        return lnt_fail(ctx, LNT_ERR_DTYPE, "dtype is %d, must be f32, f16, bf16 or f64",
                        (int)out->dtype);
    if (out->kv_heads == 0) out->kv_heads = out->heads;
    if (out->length_k == -1) out->length_k = out->length_q;
    if (out->dim_value == 0) out->dim_value = out->dim;
    lnt_status status = check_shape(ctx, out);
    if (!status) status = check_compensated(ctx, out);
    if (status) return status;
    const bool unit = out->mechanism == LNT_TAYLOR && out->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT;
    if (isnan(out->scale)) out->scale = unit ? 1 : 1 / sqrt((double)out->dim);
    if (!is_number(out, out->scale))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "scale is %g, must be %g to %g", out->scale,
                        -largest(out), largest(out));
    const bool hybrid = out->mechanism == LNT_HYBRID;
    if (out->mechanism != LNT_LINEAR && !hybrid) out->decay = NULL;
    out->state = out->state != 0;
    out->compensated = out->compensated != 0;
    if (out->mechanism != LNT_TAYLOR && !hybrid) {
        out->taylor.coefficients = out->taylor.temperature = out->taylor.center = NULL;
        out->taylor.center_mean = 0;
    }
    if (out->mechanism != LNT_CUR || !out->cur.pins) out->cur.pin = NULL;
    switch (out->mechanism) {
    case LNT_LINEAR: return check_linear(ctx, out);
    case LNT_TAYLOR: return check_taylor(ctx, out);
    case LNT_CUR: return lnt_cur_resolve(ctx, out);
    case LNT_HYBRID: return check_hybrid(ctx, out);
    case LNT_SOFTMAX: break;
    }
    return LNT_OK;
}

/* Of phi of linear attention. */
static int64_t feature_width(const lnt_attn_desc *p)
{
    return lnt_feature_is_random(p->linear.feature_map) ? p->linear.features : p->dim;
}

int64_t lnt_score_width(const lnt_attn_desc *p)
{
    return p->mechanism == LNT_LINEAR ? feature_width(p) : p->dim;
}

int64_t lnt_problem_width(const lnt_attn_desc *p)
{
    const lnt_mechanism sums = lnt_problem_sums(p);
    if (sums != LNT_TAYLOR) return sums == LNT_LINEAR ? feature_width(p) : p->dim;
    const int64_t size = lnt_basis_size(p->dim, p->taylor.terms);
    return size < 0 ? INT64_MAX : size; /* no memory holds that: refused when it is asked for */
}

bool lnt_problem_countable(const lnt_attn_desc *p) { return lnt_problem_width(p) != INT64_MAX; }

/* ---- one run --------------------------------------------------------------------------------- */

lnt_sequence lnt_io_sequence(const lnt_attn_io *io, int64_t s)
{
    const int64_t before = io->state_in ? lnt_state_before(io->state_in, s) : 0;
    if (io->sequences)
        return (lnt_sequence){ .b = 0,
                               .before = before,
                               .q0 = io->cu_seqlens_q[s],
                               .nq = io->cu_seqlens_q[s + 1] - io->cu_seqlens_q[s],
                               .k0 = io->cu_seqlens_k[s],
                               .nk = io->cu_seqlens_k[s + 1] - io->cu_seqlens_k[s] };
    return (lnt_sequence){ .b = s,
                           .before = before,
                           .nq = io->lengths_q ? io->lengths_q[s] : io->q.shape[2],
                           .nk = io->lengths_k ? io->lengths_k[s] : io->k.shape[2] };
}

static lnt_status check_packed(lnt_ctx *ctx, const char *name, const int64_t *cu, int64_t sequences,
                               int64_t rows)
{
    if (!cu) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s is NULL but sequences is not 0", name);
    if (cu[0] < 0)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s[0] is %lld, must not be negative", name,
                        (long long)cu[0]);
    for (int64_t s = 0; s < sequences; s++)
        if (cu[s + 1] < cu[s])
            return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s[%lld] is %lld, must be at least %lld", name,
                            (long long)(s + 1), (long long)cu[s + 1], (long long)cu[s]);
    if (cu[sequences] > rows)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s[%lld] is %lld, must be at most the %lld rows",
                        name, (long long)sequences, (long long)cu[sequences], (long long)rows);
    return LNT_OK;
}

static lnt_status check_lengths(lnt_ctx *ctx, const char *name, const int64_t *lengths,
                                int64_t batch, int64_t rows)
{
    for (int64_t b = 0; lengths && b < batch; b++)
        if (lengths[b] < 0 || lengths[b] > rows)
            return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s[%lld] is %lld, must be 0 to %lld", name,
                            (long long)b, (long long)lengths[b], (long long)rows);
    return LNT_OK;
}

static lnt_status check_sequences(lnt_ctx *ctx, const lnt_attn_io *io, int64_t *sequences)
{
    const int64_t batch = io->q.shape[0];
    lnt_status status;
    if (io->sequences < 0)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "sequences is %lld, must not be negative",
                        (long long)io->sequences);
    if (!io->sequences) {
        *sequences = batch;
        status = check_lengths(ctx, "lengths_q", io->lengths_q, batch, io->q.shape[2]);
        if (!status)
            status = check_lengths(ctx, "lengths_k", io->lengths_k, batch, io->k.shape[2]);
        return status;
    }
    *sequences = io->sequences;
    if (batch != 1)
        return lnt_fail(ctx, LNT_ERR_SHAPE, "packed sequences: batch is %lld, must be 1",
                        (long long)batch);
    if (io->lengths_q || io->lengths_k)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "lengths and cu_seqlens cannot both be given");
    status = check_packed(ctx, "cu_seqlens_q", io->cu_seqlens_q, io->sequences, io->q.shape[2]);
    if (!status)
        status = check_packed(ctx, "cu_seqlens_k", io->cu_seqlens_k, io->sequences, io->k.shape[2]);
    return status;
}

static lnt_status check_tensors(lnt_ctx *ctx, const lnt_attn_desc *p, const lnt_attn_io *io,
                                bool with_out)
{
    const int64_t batch = io->q.shape[0];
    lnt_status status = lnt_tensor_expect(ctx, "q", &io->q, -1, p->heads, -1, p->dim);
    if (!status)
        status = lnt_tensor_expect(ctx, "k", &io->k, batch, p->kv_heads, -1, p->dim);
    if (!status)
        status = lnt_tensor_expect(ctx, "v", &io->v, batch, p->kv_heads, io->k.shape[2],
                                   p->dim_value);
    if (!status && with_out)
        status = lnt_tensor_expect(ctx, "out", &io->out, batch, p->heads, io->q.shape[2],
                                   p->dim_value);
    if (status) return status;
    const struct {
        const char *name;
        const lnt_tensor *t;
    } typed[] = { { "q", &io->q }, { "k", &io->k }, { "v", &io->v }, { "out", &io->out } };
    for (int i = 0; i < (with_out ? 4 : 3); i++)
        if (typed[i].t->dtype != p->dtype)
            return lnt_fail(ctx, LNT_ERR_DTYPE, "%s: dtype is %s, the plan's is %s", typed[i].name,
                            lnt_dtype_name(typed[i].t->dtype), lnt_dtype_name(p->dtype));
    const struct {
        const char *name;
        int64_t value, planned;
    } sizes[] = { { "batch", batch, p->batch },
                  { "length of q", io->q.shape[2], p->length_q },
                  { "length of k", io->k.shape[2], p->length_k } };
    for (int i = 0; i < 3; i++)
        if (sizes[i].value > sizes[i].planned)
            return lnt_fail(ctx, LNT_ERR_SHAPE, "%s is %lld, planned for at most %lld",
                            sizes[i].name, (long long)sizes[i].value, (long long)sizes[i].planned);
    return LNT_OK;
}

lnt_status lnt_io_check(lnt_ctx *ctx, const lnt_attn_desc *p, const lnt_attn_io *io, bool with_out,
                        int64_t *sequences)
{
    if (!io) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "io is NULL");
    if (io->size != sizeof *io)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "io: size is %zu, expected %zu", io->size,
                        sizeof *io);
    lnt_status status = check_tensors(ctx, p, io, with_out);
    if (!status) status = check_sequences(ctx, io, sequences);
    if (!status && io->state_in)
        status = lnt_state_fits(ctx, "state_in", io->state_in, p, *sequences);
    if (!status && io->state_out)
        status = lnt_state_fits(ctx, "state_out", io->state_out, p, *sequences);
    if (status || !p->causal) return status;
    const bool alike = !io->sequences && !io->lengths_q && !io->lengths_k;
    for (int64_t s = 0; s < (alike && *sequences ? 1 : *sequences); s++) {
        const lnt_sequence q = lnt_io_sequence(io, s);
        if (q.nq > q.nk)
            return lnt_fail(ctx, LNT_ERR_SHAPE,
                            "causal: sequence %lld has %lld queries, must be at most its %lld keys",
                            (long long)s, (long long)q.nq, (long long)q.nk);
    }
    return LNT_OK;
}
