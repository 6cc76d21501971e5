/* support.c - see support.h. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"

enum { PATTERN = 0xFF }; /* NaN in every dtype: what is not written, or read past, shows */

int budget(int small, int full)
{
    const char *text = getenv("LINNET_TEST_BUDGET");
    return text && strcmp(text, "small") == 0 ? small : full;
}

static bool skipped;

void support_skip(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    printf("SKIPPED: ");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    skipped = true;
    _skip(file, line);
}

int support_verdict(int failed) { return failed ? 1 : skipped ? 77 : 0; }

/* splitmix64 */
static const uint64_t DICE_STEP = UINT64_C(0x9E3779B97F4A7C15);

uint64_t dice_next(dice *d)
{
    uint64_t z = d->state += DICE_STEP;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

int64_t dice_range(dice *d, int64_t low, int64_t high)
{
    return low + (int64_t)(dice_next(d) % (uint64_t)(high - low + 1));
}

double dice_uniform(dice *d) { return (double)(dice_next(d) >> 11) * 0x1p-53; }

static double draw_normal(dice *d)
{
    const double radius = sqrt(-2 * log(1 - dice_uniform(d)));
    return radius * cos(6.283185307179586 * dice_uniform(d));
}

/* A case draws the same numbers anew for every algorithm, type and number of threads: those drawn
 * last are kept by the state they came from.  STEP_INVERSE puts numbers drawn in turn side by side. */
double dice_normal(dice *d)
{
    enum { KEPT = 1 << 18 };
    static const uint64_t STEP_INVERSE = UINT64_C(0xF1DE83E19937733D);
    static struct {
        uint64_t state;
        double number;
    } kept[KEPT];
    const uint64_t state = d->state;
    const size_t at = (size_t)(state * STEP_INVERSE / 2 % KEPT);
    if (kept[at].state != state || kept[at].number == 0) {
        kept[at].number = draw_normal(d);
        kept[at].state = state;
    }
    d->state = state + 2 * DICE_STEP;
    return kept[at].number;
}

/* ---- tensors ------------------------------------------------------------------------------- */

/* Row-major strides for extents e given in memory order `axis`, with `gap` spare per axis. */
static int64_t strides(int64_t stride[4], const int64_t shape[4], const int axis[4], int64_t gap)
{
    int64_t size = 1;
    for (int i = 3; i >= 0; i--) {
        stride[axis[i]] = size;
        size *= shape[axis[i]] + gap;
    }
    return size;
}

block block_new(lnt_dtype dtype, layout kind, int64_t batch, int64_t heads, int64_t length,
                int64_t dim)
{
    static const int bhnd[4] = { 0, 1, 2, 3 }, bnhd[4] = { 0, 2, 1, 3 }, bhdn[4] = { 0, 1, 3, 2 };
    block b = { .t = { .dtype = dtype, .shape = { batch, heads, length, dim } } };
    int64_t size, first = 0;
    switch (kind) {
    case LAYOUT_BNHD: size = strides(b.t.stride, b.t.shape, bnhd, 0); break;
    case LAYOUT_TRANSPOSED: size = strides(b.t.stride, b.t.shape, bhdn, 0); break;
    case LAYOUT_WINDOW:
        size = strides(b.t.stride, b.t.shape, bhnd, 3);
        for (int i = 0; i < 4; i++) first += b.t.stride[i];
        break;
    default: size = strides(b.t.stride, b.t.shape, bhnd, 0); break;
    }
    for (int i = 0; i < 4 && kind == LAYOUT_REVERSED; i++) {
        first += b.t.shape[i] ? (b.t.shape[i] - 1) * b.t.stride[i] : 0;
        b.t.stride[i] = -b.t.stride[i];
    }
    if (kind == LAYOUT_BROADCAST) b.t.stride[0] = b.t.stride[1] = 0;
    if (kind == LAYOUT_REPEATED) b.t.stride[2] = 0;

    const size_t width = lnt_dtype_size(dtype), margin = 32; /* elements in front and behind */
    b.bytes = ((size_t)size + 2 * margin) * width;
    b.memory = malloc(b.bytes);
    assert_non_null(b.memory);
    memset(b.memory, PATTERN, b.bytes);
    b.t.data = b.memory + (margin + (size_t)first) * width;
    return b;
}

void block_free(block *b)
{
    free(b->memory);
    *b = (block){ 0 };
}

static void index_of(const lnt_tensor *t, int64_t i, int64_t at[4])
{
    for (int axis = 3; axis > 0; axis--) {
        at[axis] = i % t->shape[axis];
        i /= t->shape[axis];
    }
    at[0] = i;
}

bool block_guard_intact(const block *b)
{
    unsigned char *owned = calloc(b->bytes, 1);
    assert_non_null(owned);
    const size_t width = lnt_dtype_size(b->t.dtype);
    const ptrdiff_t start = (unsigned char *)b->t.data - b->memory;
    const int64_t *n = b->t.shape, *step = b->t.stride;
    for (int64_t row = 0; row < n[0] * n[1] * n[2]; row++) {
        const int64_t batch = row / n[2] / n[1], head = row / n[2] % n[1], token = row % n[2];
        const int64_t first = batch * step[0] + head * step[1] + token * step[2];
        const int64_t together = step[3] == 1 ? n[3] : 1;
        for (int64_t c = 0; c < n[3]; c += together)
            memset(owned + start + (first + c * step[3]) * (int64_t)width, 1, (size_t)together * width);
    }
    bool intact = true;
    for (size_t i = 0; i < b->bytes; i++) intact &= owned[i] || b->memory[i] == PATTERN;
    free(owned);
    return intact;
}

bool block_same_bits(const block *a, const block *b)
{
    return a->bytes == b->bytes && memcmp(a->memory, b->memory, a->bytes) == 0;
}

int64_t tensor_elements(const lnt_tensor *t)
{
    return t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3];
}

/* Element i lies i elements behind the first: no division, which is most of the time otherwise. */
static bool is_row_major(const lnt_tensor *t)
{
    const int64_t *n = t->shape, *step = t->stride;
    return step[3] == 1 && step[2] == n[3] && step[1] == n[2] * step[2] &&
           step[0] == n[1] * step[1];
}

double tensor_at(const lnt_tensor *t, int64_t i)
{
    int64_t at[4] = { 0, 0, 0, i };
    if (!is_row_major(t)) index_of(t, i, at);
    return lnt_tensor_get(t, at[0], at[1], at[2], at[3]);
}

void tensor_put(const lnt_tensor *t, int64_t i, double x)
{
    int64_t at[4] = { 0, 0, 0, i };
    if (!is_row_major(t)) index_of(t, i, at);
    lnt_tensor_set(t, at[0], at[1], at[2], at[3], x);
}

void tensor_fill(const lnt_tensor *t, double x)
{
    for (int64_t i = 0; i < tensor_elements(t); i++) tensor_put(t, i, x);
}

void tensor_copy(const lnt_tensor *to, const lnt_tensor *from)
{
    for (int axis = 0; axis < 4; axis++) assert_int_equal(to->shape[axis], from->shape[axis]);
    for (int64_t i = 0; i < tensor_elements(to); i++) tensor_put(to, i, tensor_at(from, i));
}

block block_copy(const lnt_tensor *from)
{
    const int64_t *n = from->shape;
    block b = block_new(LNT_F64, LAYOUT_BHND, n[0], n[1], n[2], n[3]);
    tensor_copy(&b.t, from);
    return b;
}

lnt_tensor tensor_rows(const lnt_tensor *t, int64_t first, int64_t count)
{
    lnt_tensor view = *t;
    view.data = (char *)t->data + first * t->stride[2] * (int64_t)lnt_dtype_size(t->dtype);
    view.shape[2] = count;
    return view;
}

lnt_tensor tensor_batch(const lnt_tensor *t, int64_t b)
{
    lnt_tensor view = *t;
    view.data = (char *)t->data + b * t->stride[0] * (int64_t)lnt_dtype_size(t->dtype);
    view.shape[0] = 1;
    return view;
}

/* ---- errors -------------------------------------------------------------------------------- */

void error_add(error_sum *e, double a, double b)
{
    e->bad |= !isfinite(a) || !isfinite(b);
    e->difference += (a - b) * (a - b);
    e->reference += b * b;
}

double error_value(const error_sum *e)
{
    if (e->bad) return INFINITY;
    return sqrt(e->difference) / (e->reference > 0 ? sqrt(e->reference) : 1);
}

double tensor_error(const lnt_tensor *a, const lnt_tensor *b)
{
    error_sum e = { 0 };
    for (int axis = 0; axis < 4; axis++) assert_int_equal(a->shape[axis], b->shape[axis]);
    for (int64_t i = 0; i < tensor_elements(a); i++)
        error_add(&e, tensor_at(a, i), tensor_at(b, i));
    return error_value(&e);
}

/* ---- contexts ------------------------------------------------------------------------------ */

/* No test needs more, and a system that overcommits would grant it. */
#define MOST_BYTES ((size_t)1 << 32)

/* Every block carries its size in front of it, one alignment wide, and starts as NaN: nobody may
 * count on zeroed memory.  Without a tracker it only does that. */
static void *tracked_allocate(void *user, size_t bytes, size_t alignment)
{
    tracker *t = user;
    const int64_t call = t ? t->calls++ : 0;
    if (t && t->fail_at >= 0 && call >= t->fail_at) return NULL;
    if (alignment != LNT_ALIGN || bytes > MOST_BYTES) return NULL;
    const size_t room = (bytes + LNT_ALIGN - 1) / LNT_ALIGN * LNT_ALIGN;
    char *memory = aligned_alloc(LNT_ALIGN, LNT_ALIGN + room);
    if (!memory) return NULL;
    memcpy(memory, &bytes, sizeof bytes);
    memset(memory + LNT_ALIGN, PATTERN, room);
    if (t) {
        t->live++;
        t->live_bytes += bytes;
        if (t->live_bytes > t->peak_bytes) t->peak_bytes = t->live_bytes;
        t->total_bytes += bytes;
    }
    return memory + LNT_ALIGN;
}

static void tracked_release(void *user, void *memory, size_t bytes)
{
    tracker *t = user;
    char *start = (char *)memory - LNT_ALIGN;
    size_t size;
    memcpy(&size, start, sizeof size);
    if (t) {
        t->wrong_sizes += size != bytes;
        t->live--;
        t->live_bytes -= size;
    }
    free(start);
}

static lnt_ctx *context_open(const lnt_ctx_options *options)
{
    lnt_ctx *ctx;
    const lnt_status status = lnt_ctx_create(options, &ctx);
    if (status) {
        char text[512];
        lnt_ctx_create_error(options, status, text, sizeof text);
        fail_msg("no context: %s", text);
    }
    return ctx;
}

/* Whether ctx can be on the device, and that computes in the memory of the program: asked once. */
static bool is_of_host(lnt_ctx *ctx, const char *device)
{
    static int known = -1;
    if (known >= 0) return known;
    lnt_device_info info = { .size = sizeof info };
    known = lnt_ctx_set_device(ctx, device) == LNT_OK && lnt_device_describe(ctx, &info) == LNT_OK &&
            info.host_memory;
    assert_ok(ctx, lnt_ctx_set_device(ctx, "cpu"));
    return known;
}

static lnt_ctx *context_with(tracker *t, int threads, const char *isa)
{
    const char *device = getenv("LINNET_TEST_DEVICE");
    lnt_ctx *ctx = context_open(&(lnt_ctx_options){
        .size = sizeof(lnt_ctx_options),
        .allocator = { tracked_allocate, tracked_release, t },
        .threads = threads,
        .isa = isa,
    });
    if (device && *device && is_of_host(ctx, device)) assert_ok(ctx, lnt_ctx_set_device(ctx, device));
    return ctx;
}

lnt_ctx *context_new(int threads, const char *isa) { return context_with(NULL, threads, isa); }

lnt_ctx *context_tracked(tracker *t, int threads, const char *isa)
{
    *t = (tracker){ .fail_at = -1 };
    return context_with(t, threads, isa);
}

void context_close_tracked(lnt_ctx *ctx, tracker *t)
{
    lnt_ctx_destroy(ctx);
    assert_int_equal(t->live, 0);
    assert_int_equal(t->live_bytes, 0);
    assert_int_equal(t->wrong_sizes, 0);
}

void support_assert_ok(lnt_ctx *ctx, lnt_status status, const char *call, const char *file,
                       int line)
{
    if (status == LNT_OK) return;
    print_error("%s: %s: %s\n", call, lnt_status_name(status), lnt_ctx_error(ctx));
    _fail(file, line);
}

void support_assert_refused(lnt_ctx *ctx, lnt_status got, lnt_status want, const char *word,
                            const char *call, const char *file, int line)
{
    if (got == want && strstr(lnt_ctx_error(ctx), word)) return;
    print_error("%s: status '%s', sentence \"%s\"; wanted '%s' and the word '%s'\n", call,
                lnt_status_name(got), lnt_ctx_error(ctx), lnt_status_name(want), word);
    _fail(file, line);
}
