/* cli/request.c - turns options into a context and a descriptor, and refuses what the command line alone
 * shows to be wrong. */
#include "cli/request.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/show/report.h"

int request_host(const options *o, int threads, lnt_ctx **out)
{
    char sentence[512];
    *out = NULL;
    lnt_ctx_options with = { .size = sizeof with };
    with.threads = threads ? threads : (int)opt_whole(o, OPT_THREADS, 0);
    const lnt_status status = lnt_ctx_create(&with, out);
    if (!status) return EXIT_OK;
    lnt_ctx_create_error(&with, status, sentence, sizeof sentence);
    return fail("%s", sentence);
}

int request_context(const options *o, int threads, lnt_ctx **out)
{
    const int64_t device = opt_whole(o, OPT_DEVICE, DEVICE_CPU);
    int status = request_host(o, threads, out);
    if (status || device == DEVICE_CPU) return status;
    if (!lnt_ctx_set_device(*out, option_choice(OPT_DEVICE, (int)device))) return EXIT_OK;
    status = fail_ctx(*out);
    lnt_ctx_destroy(*out);
    *out = NULL;
    return status;
}

int request_calibration(const options *o, lnt_ctx *ctx)
{
    const char *path = opt_text(o, OPT_CALIBRATION);
    if (path && !access(path, F_OK)) return lnt_calibration_load(ctx, path) ? fail_ctx(ctx) : EXIT_OK;
    progress("timing the algorithms on this machine", 0, 1);
    lnt_status status = lnt_ctx_calibrate(ctx);
    progress_end();
    if (!status && path) status = lnt_calibration_save(ctx, path);
    return status ? fail_ctx(ctx) : EXIT_OK;
}

/* "direct" or "linear/direct", of the mechanism asked for. */
static int check_algorithm(const char *name, lnt_mechanism mechanism)
{
    char known[256] = "";
    size_t used = 0;
    for (int i = 0; lnt_algorithm_name(i); i++) {
        if (lnt_algorithm_mechanism(i) != mechanism) continue;
        const char *full = lnt_algorithm_name(i), *slash = strchr(full, '/');
        if (!strcmp(name, full) || (slash && !strcmp(name, slash + 1))) return EXIT_OK;
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "",
                                     full);
    }
    return fail_usage("--algorithm: '%s' is not one of %s", name, known);
}

/* What can be wrong between options, whatever the shapes. */
static int check_combinations(const options *o)
{
    const int64_t map = opt_whole(o, OPT_FEATURE_MAP, LNT_MAP_ELU1);
    const bool step = opt_whole(o, OPT_PASS, PASS_FORWARD) == PASS_STEP;
    if (opt_given(o, OPT_FEATURES) && map != LNT_MAP_FOURIER && map != LNT_MAP_POSITIVE)
        return fail_usage("--features applies to --feature-map fourier and positive, not to %s",
                          option_choice(OPT_FEATURE_MAP, (int)map));
    if (map == LNT_MAP_FOURIER && opt_whole(o, OPT_FEATURES, 0) % 2)
        return fail_usage("--features: '%s' is odd; --feature-map fourier takes an even number",
                          opt_text(o, OPT_FEATURES));
    const int count = o->coefficient_count;
    if (count && opt_whole(o, OPT_TERMS, count) != count)
        return fail_usage("--coefficients: %d numbers for --terms %s; give one for each term",
                          count, opt_text(o, OPT_TERMS));
    if (opt_given(o, OPT_SIGMA) && !o->fit)
        return fail_usage("--sigma needs --coefficients fit");
    if (opt_given(o, OPT_TEMPERATURE) &&
        opt_whole(o, OPT_NORMALIZE, LNT_NORMALIZE_NONE) != LNT_NORMALIZE_TAYLORSHIFT)
        return fail_usage("--temperature needs --normalize taylorshift");
    if (opt_given(o, OPT_CACHE) && !step) return fail_usage("--cache needs --pass step");
    const char *center = opt_text(o, OPT_CENTER);
    if (center && strcmp(center, "none") != 0 &&
        opt_whole(o, OPT_NORMALIZE, LNT_NORMALIZE_NONE) != LNT_NORMALIZE_NONE)
        return fail_usage("--center needs --normalize none: keys of length 1 are not centred");
    const bool state = opt_given(o, OPT_STATE_IN) || opt_given(o, OPT_STATE_OUT);
    if (center && !strcmp(center, "mean") && (opt_given(o, OPT_CAUSAL) || step || state))
        return fail_usage("--center mean looks at every key and cannot be %s; give a FILE.npy",
                          step ? "used in a step" : state ? "used with a state" : "causal");
    if (opt_given(o, OPT_DECAY) && !opt_given(o, OPT_CAUSAL) && !step)
        return fail_usage("--decay needs --causal: without an order of tokens nothing fades");
    return EXIT_OK;
}

/* The options that softmax alone takes, beside another mechanism with --compare. */
static int check_softmax(const options *o)
{
    static const option_id own[] = { OPT_CAP, OPT_ALIBI, OPT_ALIGN, OPT_MASK, OPTION_COUNT };
    const int64_t mechanism = o->value[OPT_MECHANISM].whole;
    const option_id given = options_first_of(o, own);
    if (given != OPTION_COUNT && mechanism != LNT_SOFTMAX)
        return fail_usage("%s does not apply to %s", option_name(given),
                          lnt_mechanism_name((lnt_mechanism)mechanism));
    if (opt_given(o, OPT_WINDOW) && mechanism != LNT_SOFTMAX && mechanism != LNT_HYBRID)
        return fail_usage("%s does not apply to %s", option_name(OPT_WINDOW),
                          lnt_mechanism_name((lnt_mechanism)mechanism));
    return EXIT_OK;
}

/* ... of cur. */
static int check_cur(const options *o)
{
    const int64_t pinv = opt_whole(o, OPT_PINV, LNT_PINV_ITERATE);
    const int64_t select = opt_whole(o, OPT_SELECT, LNT_SELECT_STEP);
    if (opt_given(o, OPT_CAUSAL) || opt_whole(o, OPT_PASS, PASS_FORWARD) == PASS_STEP)
        return fail_usage("cur is not causal: the row of a landmark sees every key, and the others "
                          "are made from it; use softmax, linear, taylor or hybrid");
    if (opt_given(o, OPT_STATE_IN) || opt_given(o, OPT_STATE_OUT))
        return fail_usage("cur has no state: its landmarks are chosen from the whole sequence");
    if (opt_given(o, OPT_EMBED_COLUMN) && select != LNT_SELECT_EMBED)
        return fail_usage("--embed-column needs --select embed");
    if (opt_given(o, OPT_RIDGE) && pinv != LNT_PINV_RIDGE)
        return fail_usage("--ridge needs --pinv ridge");
    static const option_id of_iterate[] = { OPT_PINV_ITERATIONS, OPT_PINV_INIT, OPTION_COUNT };
    const option_id iterated = options_first_of(o, of_iterate);
    if (iterated != OPTION_COUNT && pinv != LNT_PINV_ITERATE)
        return fail_usage("%s needs --pinv iterate", option_name(iterated));
    if (o->pin_count && select == LNT_SELECT_MEAN)
        return fail_usage("--pin: the landmarks of --select mean are no tokens");
    if (o->pin_count > opt_whole(o, OPT_LANDMARKS, DEFAULT_LANDMARKS))
        return fail_usage("--pin: %d tokens for %lld landmarks", o->pin_count,
                          (long long)opt_whole(o, OPT_LANDMARKS, DEFAULT_LANDMARKS));
    return EXIT_OK;
}

/* What hybrid makes of the keys that are far: the choices begin with linear. */
static lnt_mechanism far_of(const options *o)
{
    return opt_given(o, OPT_FAR) ? (lnt_mechanism)(LNT_LINEAR + o->value[OPT_FAR].whole) : LNT_TAYLOR;
}

/* ... of hybrid. */
static int check_hybrid(const options *o)
{
    const bool linear = far_of(o) == LNT_LINEAR;
    static const option_id of_taylor[] = { OPT_TERMS, OPT_COEFFICIENTS, OPT_SIGMA, OPT_CENTER,
                                           OPTION_COUNT };
    static const option_id of_linear[] = { OPT_FEATURE_MAP, OPT_FEATURES, OPTION_COUNT };
    const option_id other = options_first_of(o, linear ? of_taylor : of_linear);
    if (other == OPTION_COUNT) return EXIT_OK;
    return fail_usage("%s needs --far %s", option_name(other), linear ? "taylor" : "linear");
}

static int check_order(const options *o)
{
    const bool ordered = opt_given(o, OPT_CAUSAL) || opt_whole(o, OPT_PASS, PASS_FORWARD) == PASS_STEP;
    if (o->value[OPT_MECHANISM].whole != LNT_HYBRID || ordered) return EXIT_OK;
    return fail_usage("hybrid needs --causal: which keys are the last ones needs an order");
}

static void request_cur(const options *o, lnt_attn_desc *desc)
{
    desc->cur.landmarks = opt_whole(o, OPT_LANDMARKS, DEFAULT_LANDMARKS);
    desc->cur.select = (lnt_select)opt_whole(o, OPT_SELECT, desc->cur.select);
    desc->cur.embed_column = opt_whole(o, OPT_EMBED_COLUMN, 0);
    desc->cur.separate_indices = opt_given(o, OPT_SEPARATE_INDICES);
    desc->cur.pin = o->pin;
    desc->cur.pins = o->pin_count;
    desc->cur.copy_rows = !opt_given(o, OPT_NO_ROW_COPY);
    desc->cur.pinv = (lnt_pinv)opt_whole(o, OPT_PINV, desc->cur.pinv);
    desc->cur.pinv_iterations = opt_whole(o, OPT_PINV_ITERATIONS, 0);
    desc->cur.pinv_init = (lnt_pinv_init)opt_whole(o, OPT_PINV_INIT, desc->cur.pinv_init);
    desc->cur.ridge = opt_real(o, OPT_RIDGE, desc->cur.ridge);
    desc->cur.activation = (lnt_activation)opt_whole(o, OPT_ACTIVATION, desc->cur.activation);
}

int request_defaults(lnt_attn_desc *desc)
{
    if (!lnt_attn_desc_init(desc, sizeof *desc)) return EXIT_OK;
    return fail("the library does not match this tool: it is version %s", lnt_version());
}

static int check_mechanism(const options *o)
{
    if (!opt_given(o, OPT_MECHANISM))
        return fail_usage("--mechanism is missing; see --help for those there are");
    const int64_t mechanism = o->value[OPT_MECHANISM].whole;
    int status = options_check_mechanism(o);
    if (!status) status = check_combinations(o);
    if (!status) status = check_softmax(o);
    if (!status && mechanism == LNT_CUR) status = check_cur(o);
    if (!status && mechanism == LNT_HYBRID) status = check_hybrid(o);
    return status;
}

static void request_terms(const options *o, lnt_attn_desc *desc)
{
    const int listed = o->coefficient_count;
    desc->taylor.normalize = (lnt_normalize)opt_whole(o, OPT_NORMALIZE, LNT_NORMALIZE_NONE);
    const bool safe = desc->mechanism == LNT_HYBRID || desc->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT;
    const int otherwise = safe ? DEFAULT_SAFE_TERMS : DEFAULT_TERMS;
    desc->taylor.terms = opt_whole(o, OPT_TERMS, listed ? listed : otherwise);
    if (listed) desc->taylor.coefficients = o->coefficients;
    desc->taylor.output_norm = opt_given(o, OPT_OUTPUT_NORM);
}

static int request_options(const options *o, lnt_attn_desc *desc)
{
    int status = check_mechanism(o);
    if (!status) status = request_defaults(desc);
    if (status) return status;
    desc->mechanism = (lnt_mechanism)o->value[OPT_MECHANISM].whole;
    desc->scale = opt_real(o, OPT_SCALE, desc->scale);
    desc->linear.feature_map = (lnt_feature_map)opt_whole(o, OPT_FEATURE_MAP, desc->linear.feature_map);
    desc->linear.features = opt_whole(o, OPT_FEATURES, desc->linear.features);
    desc->linear.eps = opt_real(o, OPT_EPS, desc->linear.eps);
    desc->softmax.cache = (lnt_cache)opt_whole(o, OPT_CACHE, desc->softmax.cache);
    request_terms(o, desc);
    desc->compensated = opt_given(o, OPT_COMPENSATED);
    request_cur(o, desc);
    if (desc->mechanism == LNT_SOFTMAX) {
        desc->softmax.window = opt_whole(o, OPT_WINDOW, 0);
        desc->softmax.cap = opt_real(o, OPT_CAP, 0);
        desc->softmax.align_begin = opt_whole(o, OPT_ALIGN, ALIGN_END) == ALIGN_BEGIN;
    }
    desc->hybrid.window = opt_whole(o, OPT_WINDOW, DEFAULT_WINDOW);
    desc->hybrid.sink = opt_whole(o, OPT_SINK, 0);
    desc->hybrid.far = far_of(o);
    if (opt_given(o, OPT_SEED)) desc->seed = o->value[OPT_SEED].seed;
    return EXIT_OK;
}

int request_mechanism(const options *o, lnt_attn_desc *desc)
{
    int status = request_options(o, desc);
    if (!status) status = check_order(o);
    if (status) return status;
    desc->dtype = (lnt_dtype)opt_whole(o, OPT_DTYPE, LNT_F32);
    desc->causal = opt_given(o, OPT_CAUSAL);
    desc->algorithm = opt_text(o, OPT_ALGORITHM);
    return desc->algorithm ? check_algorithm(desc->algorithm, desc->mechanism) : EXIT_OK;
}

int request_attention(const options *o, lnt_attn_desc *desc)
{
    if (opt_given(o, OPT_MECHANISM)) return request_options(o, desc);
    const option_id other = options_first_of_mechanisms(o);
    if (other != OPTION_COUNT)
        return fail_usage("%s needs --mechanism, which it belongs to", option_name(other));
    return request_defaults(desc);
}

static int request_shape(const options *o, lnt_attn_desc *desc)
{
    desc->batch = opt_whole(o, OPT_BATCH, 1);
    desc->heads = opt_whole(o, OPT_HEADS, 8);
    desc->kv_heads = opt_whole(o, OPT_KV_HEADS, desc->heads);
    desc->dim = opt_whole(o, OPT_DIM, 64);
    desc->dim_value = opt_whole(o, OPT_DIM_VALUE, desc->dim);
    desc->length_q = desc->length_k = opt_whole(o, OPT_LENGTH, 4096);
    if (desc->heads % desc->kv_heads)
        return fail_usage("--kv-heads: '%lld' does not divide --heads, which is %lld",
                          (long long)desc->kv_heads, (long long)desc->heads);
    if (opt_given(o, OPT_EMBED_COLUMN) && desc->cur.embed_column >= desc->dim)
        return fail_usage("--embed-column: '%lld' is not below --dim, which is %lld",
                          (long long)desc->cur.embed_column, (long long)desc->dim);
    return EXIT_OK;
}

int request_pins(const lnt_attn_desc *desc)
{
    const int64_t n = desc->length_q > desc->length_k ? desc->length_q : desc->length_k;
    for (int64_t i = 0; i < desc->cur.pins; i++)
        if (desc->cur.pin[i] >= n)
            return fail_usage("--pin: %lld is not one of the %lld tokens, which are 0 to %lld",
                              (long long)desc->cur.pin[i], (long long)n, (long long)n - 1);
    return EXIT_OK;
}

/* A list of one number, or one for each head, as an array of one for each head. */
static int spread(option_id id, const double *list, int count, int64_t heads, const char *what,
                  double **out)
{
    if (count != 1 && count != heads)
        return fail_usage("%s: %d numbers for %lld %s; give 1 or one for each", option_name(id),
                          count, (long long)heads, what);
    *out = calloc((size_t)heads, sizeof **out);
    if (!*out) return fail_memory((size_t)heads * sizeof **out);
    for (int64_t h = 0; h < heads; h++) (*out)[h] = list[count == 1 ? 0 : h];
    return EXIT_OK;
}

/* ALiBi's slopes: powers of 2^(-8/H), where H is a power of two; else those of the next lower one, and then
 * every other one of the next higher. */
static int make_slopes(int64_t heads, double **out)
{
    int64_t lower = 1;
    *out = calloc((size_t)heads, sizeof **out);
    if (!*out) return fail_memory((size_t)heads * sizeof **out);
    while (2 * lower <= heads) lower *= 2;
    for (int64_t h = 0; h < heads; h++) {
        const double power = h < lower ? (double)(h + 1) : (double)(h - lower) + 0.5;
        (*out)[h] = exp2(-8 * power / (double)lower);
    }
    return EXIT_OK;
}

int request_per_head(const options *o, lnt_attn_desc *desc, double **owned)
{
    int status = EXIT_OK;
    *owned = NULL; /* no mechanism takes two of these */
    if (opt_given(o, OPT_ALIBI)) {
        status = make_slopes(desc->heads, owned);
        desc->softmax.slopes = *owned;
    }
    if (opt_given(o, OPT_DECAY)) {
        status = spread(OPT_DECAY, o->decay, o->decay_count, desc->kv_heads, "kv heads", owned);
        desc->decay = *owned;
    }
    if (opt_given(o, OPT_TEMPERATURE)) {
        status = spread(OPT_TEMPERATURE, o->temperature, o->temperature_count, desc->heads, "heads",
                        owned);
        desc->taylor.temperature = *owned;
    }
    return status;
}

/* An array [kv_heads, dim], or [dim] for every head, as doubles. */
static int read_center(lnt_ctx *ctx, const char *path, const lnt_attn_desc *desc, double **out)
{
    lnt_array a;
    if (lnt_npy_read(ctx, path, &a)) return fail_ctx(ctx);
    const int64_t width = a.rank ? a.shape[a.rank - 1] : 0, heads = a.rank == 2 ? a.shape[0] : 1;
    const bool fits = (a.rank == 1 || (a.rank == 2 && heads == desc->kv_heads)) && width == desc->dim;
    const size_t count = (size_t)(desc->kv_heads * desc->dim);
    int status = EXIT_OK;
    if (!fits)
        status = fail("--center: '%s' must be of shape [%lld,%lld] (kv heads, width) or [%lld]", path,
                      (long long)desc->kv_heads, (long long)desc->dim, (long long)desc->dim);
    if (!status && !(*out = calloc(count, sizeof **out))) status = fail_memory(count * sizeof **out);
    const lnt_tensor t = lnt_tensor_bhnd(a.data, a.dtype, 1, 1, heads, width);
    for (int64_t i = 0; !status && i < desc->kv_heads * desc->dim; i++)
        (*out)[i] = lnt_tensor_get(&t, 0, 0, i / width % heads, i % width);
    lnt_array_free(ctx, &a);
    return status;
}

int request_center(const options *o, lnt_ctx *ctx, lnt_attn_desc *desc, double **owned)
{
    const char *text = opt_text(o, OPT_CENTER);
    *owned = NULL;
    if (!text || !strcmp(text, "none")) return EXIT_OK;
    if (!strcmp(text, "mean")) {
        desc->taylor.center_mean = 1;
        return EXIT_OK;
    }
    const int status = read_center(ctx, text, desc, owned);
    desc->taylor.center = *owned;
    return status;
}

int request_fit(const options *o, lnt_ctx *ctx, double sigma, lnt_attn_desc *desc,
                double fitted[MAX_TERMS])
{
    if (!o->fit) return EXIT_OK;
    if (lnt_taylor_fit(ctx, desc->taylor.terms, opt_real(o, OPT_SIGMA, sigma), fitted))
        return fail_ctx(ctx);
    desc->taylor.coefficients = fitted;
    return EXIT_OK;
}

int request_open(const options *o, requested *r)
{
    *r = (requested){ .ctx = NULL };
    int status = request_mechanism(o, &r->desc);
    if (!status) status = request_shape(o, &r->desc);
    if (!status) status = request_pins(&r->desc);
    if (!status) status = request_per_head(o, &r->desc, &r->per_head);
    if (!status) status = request_context(o, 0, &r->ctx);
    if (!status) status = request_center(o, r->ctx, &r->desc, &r->center);
    if (!status) status = request_fit(o, r->ctx, 1, &r->desc, r->fitted);
    return status;
}

void request_close(requested *r)
{
    free(r->per_head);
    free(r->center);
    lnt_ctx_destroy(r->ctx);
}
