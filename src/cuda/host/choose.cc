/* cuda/host/choose.cc - which kernels run a problem. */
#include "cuda/host/choose.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "cuda/common/monomials.h"
#include "cuda/common/sizes.h"
#include "cuda/orbits/orbits_basis.h"
#include "cuda/pairs/pairs_basis.h"
#include "cuda/tiles/tiles_basis.h"

namespace lnt
{

static bool say(std::string *sentence, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool say(std::string *sentence, const char *format, ...)
{
    char text[480];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    *sentence = std::string("cuda: ") + text;
    return false;
}

bool has_table(const lnt_attn_desc *p)
{
    return p->taylor.terms <= 4 || (p->taylor.terms <= 8 && p->dim <= 16);
}

int width_of(const lnt_attn_desc *p)
{
    const int width = width_for((int)p->dim, (int)p->dim_value);
    return p->backward && width < 2 ? 2 : width; /* the least that gradients are compiled for */
}

bool tiles_fold(int width, int terms) { return width <= 2 || (width <= 4 && terms <= 3); }

/* ---- what is offered at all ------------------------------------------------------------------ */

static bool cur_is_offered(const lnt_attn_desc *p, std::string *no)
{
    if (p->causal) return say(no, "cur is not causal");
    if (p->backward) return say(no, "backward is not offered for cur");
    if (p->cur.select != LNT_SELECT_STEP && p->cur.select != LNT_SELECT_MEAN &&
        p->cur.select != LNT_SELECT_STEP_MEAN)
        return say(no, "cur with select step, mean and step-mean is offered");
    if (p->cur.pins) return say(no, "cur with tokens that are pinned is not offered");
    if (p->cur.pinv == LNT_PINV_TUNED) return say(no, "cur with pinv iterate and ridge is offered");
    if (p->cur.activation != LNT_ACTIVATION_SOFTMAX) return say(no, "cur with activation softmax is offered");
    if (p->cur.landmarks > CUR_LANDMARKS)
        return say(no, "cur with %lld landmarks, up to %d are offered", (long long)p->cur.landmarks,
                   (int)CUR_LANDMARKS);
    if (p->batch * p->heads > 65535)
        return say(no, "cur with batch %lld times heads %lld, up to 65535 are offered", (long long)p->batch,
                   (long long)p->heads);
    return true;
}

static bool softmax_is_offered(const lnt_attn_desc *p, std::string *no)
{
    if (p->softmax.window) return say(no, "softmax with a window is not offered");
    if (p->softmax.cap > 0) return say(no, "softmax with a cap is not offered");
    if (p->softmax.slopes) return say(no, "softmax with slopes is not offered");
    if (p->softmax.align_begin) return say(no, "softmax with align_begin is not offered");
    return true;
}

static bool is_offered(const lnt_attn_desc *p, std::string *no)
{
    if (p->mechanism == LNT_SOFTMAX && !softmax_is_offered(p, no)) return false;
    if (p->mechanism == LNT_CUR && !cur_is_offered(p, no)) return false;
    if (p->mechanism == LNT_HYBRID) return say(no, "hybrid is not offered");
    if (p->compensated) return say(no, "compensated sums are not offered");
    if (p->mechanism == LNT_TAYLOR && (p->taylor.center || p->taylor.center_mean))
        return say(no, "centred keys are not offered");
    if (p->dim > 128 || p->dim_value > 128)
        return say(no, "dim %lld and dim_value %lld, each may be up to 128", (long long)p->dim,
                   (long long)p->dim_value);
    if (p->dtype == LNT_F64) return say(no, "dtype f64 is not offered; f32, f16 and bf16 are");
    if (p->mechanism == LNT_LINEAR && p->linear.feature_map > LNT_MAP_IDENTITY)
        return say(no, "feature_map may be elu1, relu, exp or identity");
    if (p->state && p->length_k > 0 &&
        (p->mechanism == LNT_SOFTMAX || p->mechanism == LNT_CUR ||
         (p->mechanism == LNT_TAYLOR && !has_table(p))))
        return say(no,
                   "forward takes a state for linear, and for taylor with up to 4 terms or 8 where dim is up "
                   "to 16");
    if (p->batch > 65535 || p->heads > 65535 || p->batch * p->kv_heads > 65535)
        return say(no, "batch %lld times kv_heads %lld, up to 65535 are offered", (long long)p->batch,
                   (long long)p->kv_heads);
    return true;
}

/* ---- the forms ------------------------------------------------------------------------------- */

struct request {
    const lnt_attn_desc *p;
    const limits &device;
    bool by_state;

    int width() const { return width_of(p); }
    int dim8() const { return (int)(p->dim + 7) / 8; }
    int terms() const { return (int)p->taylor.terms; }
    bool states() const { return by_state && p->mechanism == LNT_TAYLOR && p->dtype == LNT_BF16; }
    bool linear() const { return p->mechanism == LNT_LINEAR && p->dtype == LNT_BF16; }
    bool direct() const { return p->causal || !by_state; }
    bool fits(int bytes) const { return (size_t)bytes <= device.shared; }
    int orbits() const { return orbits_width((int)p->dim, (int)p->dim_value, terms()); }
};

static bool pairs_take(const request &r)
{
    return r.states() && r.p->causal && r.terms() == 4 && r.p->dim > 24 && r.p->dim <= 32 &&
           r.p->dim_value <= 32 && r.device.warpgroups;
}

/* The gradient of a state before the first key is f32's. */
static bool pairs_take_back(const request &r)
{
    return pairs_take(r) && r.p->heads == r.p->kv_heads && !r.p->state;
}

/* One block of threads walks the whole sequence, so the heads must be enough for half of the
 * multiprocessors. */
static bool pairs_pay(const request &r)
{
    return 2 * r.p->batch * r.p->kv_heads * PAIRS_GROUPS >= r.device.processors;
}

static bool orbits_take(const request &r)
{
    return r.states() && r.orbits() && r.fits(orbits_bytes(r.orbits(), r.terms()));
}

/* Where there are orbits, forward by tiles is neither faster nor tested. */
static bool tiles_take(const request &r)
{
    return r.states() && r.terms() <= 4 && !r.orbits() && r.fits(tiles_sum_bytes(r.dim8(), r.width() + 1)) &&
           r.fits(tiles_answer_bytes(r.width(), r.dim8(), true, r.direct()));
}

static bool tiles_take_back(const request &r)
{
    const int folded = tiles_fold(r.width(), r.terms()) ? 2 * r.width() : r.width();
    return r.states() && r.terms() <= 4 && !r.p->state && r.width() <= BACKWARD_STATE_WIDTH &&
           r.fits(tiles_sum_bytes(r.dim8(), folded + 1)) &&
           r.fits(tiles_backward_bytes(r.width(), r.dim8(), true, r.direct()));
}

static bool bf16_takes(const request &r)
{
    return r.p->dtype == LNT_BF16 &&
           (r.p->mechanism == LNT_SOFTMAX || (r.p->mechanism == LNT_TAYLOR && !r.by_state)) &&
           r.fits(tiles_answer_bytes(r.width(), r.dim8(), false, true));
}

static bool bf16_takes_back(const request &r)
{
    return bf16_takes(r) && r.fits(tiles_backward_bytes(r.width(), r.dim8(), false, true));
}

static bool passes_take(const request &r) { return r.linear() && r.fits(linear_bytes(r.width(), false)); }
static bool passes_take_back(const request &r) { return r.linear() && r.fits(linear_bytes(r.width(), true)); }

static bool pass_takes(const request &r)
{
    return passes_take(r) && r.p->causal && !r.p->decay && r.p->dim <= 64 && r.p->dim_value <= 64 &&
           r.device.warpgroups;
}

/* Where each multiprocessor has a few segments, and the boxes, which are 64 wide, are not half empty. */
static bool pass_pays(const request &r)
{
    const int64_t heads = r.p->batch * r.p->kv_heads, tokens = r.p->length_k * heads;
    return r.p->dim + r.p->dim_value > 64 && heads >= 5 && /* each waits for its own states */
           tokens >= (int64_t)1024 * r.device.processors;
}

static bool f32_takes(const request &r)
{
    return r.fits(f32_answer_bytes((int)r.p->dim, (int)r.p->dim_value));
}

static bool f32_takes_back(const request &r)
{
    return f32_takes(r) && r.fits(f32_backward_bytes((int)r.p->dim, (int)r.p->dim_value));
}

static bool never(const request &) { return false; }
static bool always(const request &) { return true; }

static const struct {
    const char *name;
    bool (*takes)(const request &);
    bool (*takes_back)(const request &);
    bool (*pays)(const request &);
} forms[FORMS] = {
    { "pairs", pairs_take, pairs_take_back, pairs_pay }, { "orbits", orbits_take, never, always },
    { "tiles", tiles_take, tiles_take_back, always },    { "bf16", bf16_takes, bf16_takes_back, always },
    { "pass", pass_takes, passes_take_back, pass_pays }, { "passes", passes_take, passes_take_back, always },
    { "f32", f32_takes, f32_takes_back, always },
};

const char *form_name(form f) { return forms[f].name; }

/* ---- choosing -------------------------------------------------------------------------------- */

/* What forward's form, or the one that is asked for, leaves for the backward pass. */
static bool choose_backward(const request &r, choice *out)
{
    if (!r.p->backward) return true;
    int f = forms[out->forward].takes_back(r) ? out->forward : 0;
    while (f < FORMS && !(forms[f].takes_back(r) && (f == out->forward || forms[f].pays(r)))) f++;
    out->backward = (form)f;
    return f < FORMS;
}

/* wanted: "" for any. */
static bool choose_form(const request &r, const std::string &wanted, choice *out, std::string *sentence)
{
    std::string would;
    out->by_state = r.by_state;
    for (int f = 0; f < FORMS; f++) {
        out->forward = (form)f;
        if (!forms[f].takes(r) || !choose_backward(r, out)) continue;
        if (wanted.empty() ? forms[f].pays(r) : wanted == forms[f].name) return true;
        would += (would.empty() ? "" : ", ") + std::string(forms[f].name);
    }
    if (!wanted.empty() && !would.empty())
        return say(sentence, "%s:%s does not take this problem here; %s would", out->algorithm,
                   wanted.c_str(), would.c_str());
    return say(
        sentence,
        "%s with dim %lld and dim_value %lld%s needs more shared memory than the %zu KB of this device",
        out->algorithm, (long long)r.p->dim, (long long)r.p->dim_value, r.p->backward ? " and backward" : "",
        r.device.shared / 1024);
}

enum { F32_COST = 4 }; /* an operation of f32.h in those of the direct form of bf16, about */

/* Monomials that are multiplied by the basis of the states that backward, or forward alone, takes. */
static double padded(const request &r)
{
    const lnt_attn_desc *p = r.p;
    if (p->dtype != LNT_BF16 || p->taylor.terms > 4) return (double)monomials_count(p->dim, r.terms());
    if (pairs_take(r) && pairs_pay(r) && (!p->backward || p->heads == p->kv_heads))
        return PAIRS_GROUPS * PAIRS_TILES * 16 * 4;
    if (!p->backward && r.orbits()) return (double)orbits_places(r.orbits(), (int)p->dim, r.terms()).size();
    return 16.0 * tiles_basis_count((int)p->dim, r.terms());
}

/* Whether reading every key costs less than making and reading a state. */
static bool direct_is_cheaper(const request &r)
{
    const lnt_attn_desc *p = r.p;
    const double columns = 8 * (r.width() + 1), nq = (double)p->length_q, nk = (double)p->length_k;
    const double pairs = p->causal ? nq * nk - nq * nq / 2 : nq * nk;
    const double group = (double)p->heads / (double)p->kv_heads;
    const double direct = group * pairs * (2 * r.dim8() * 8 + 2 * columns);
    const double states = (nk + group * nq) * 2 * columns * padded(r);
    const bool mixed =
        p->dtype == LNT_BF16 && (p->taylor.terms > 4 || (p->backward && (p->state || !tiles_take_back(r))));
    return direct < states * (mixed ? F32_COST : 1);
}

/* The part of "taylor/state:pairs" between '/' and ':', and that after ':'. */
static void parse(const char *name, std::string *algorithm, std::string *wanted)
{
    const std::string all = name ? name : "";
    const size_t slash = all.find('/'), colon = std::min(all.find(':'), all.size());
    const size_t from = slash == std::string::npos ? 0 : slash + 1;
    *algorithm = all.substr(from, colon - from);
    if (colon < all.size()) *wanted = all.substr(colon + 1);
}

bool choose(const lnt_attn_desc *p, const limits &device, choice *out, std::string *sentence)
{
    if (!is_offered(p, sentence)) return false;
    std::string algorithm, wanted;
    parse(p->algorithm, &algorithm, &wanted);
    request r = { p, device, p->mechanism == LNT_TAYLOR && has_table(p) && algorithm != "direct" };
    if (r.by_state && algorithm != "state" && !p->state && direct_is_cheaper(r)) r.by_state = false;
    static const char *const others[] = { "softmax/tiled", "linear/chunked", NULL, "cur/flash" };
    out->algorithm = p->mechanism != LNT_TAYLOR ? others[p->mechanism]
                     : r.by_state               ? "taylor/state"
                                                : "taylor/direct";
    return choose_form(r, wanted, out, sentence);
}

} // namespace lnt
