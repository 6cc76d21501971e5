/* nn/weight.c - repacks the rows of a model's file into panels, and multiplies by them.
 *
 * Packing reads the data once.  A product of few rows reads the panels once, at the speed of memory; each
 * panel belongs to one thread, and its sums have one order, so the bits do not depend on the number of
 * threads. */
#include "nn/weight.h"

#include <assert.h>
#include <string.h>

#include "core/dtype.h"
#include "core/threads.h"
#include "cpu/weight/kernels.h"
#include "nn/weight_codes.h"

enum {
    QUANTS = 2048, /* blocks of activations that stand on the stack at once */
    MANY = 6,      /* rows from which floats are multiplied by tiles */
    BESIDE = 8     /* panels by which one row is multiplied at once, at most */
};

static size_t least(size_t a, size_t b) { return a < b ? a : b; }
static size_t pieces(size_t count, size_t size) { return (count + size - 1) / size; }
static size_t panels_of(size_t rows) { return pieces(rows, LNT_PANEL); }

/* ---- opening ------------------------------------------------------------------------------- */

/* How many of the first parts are of one storage, and can be rows of the same panels. */
static size_t alike(const lnt_weight_part *parts, size_t count)
{
    size_t n = 1;
    while (n < count && parts[n].storage == parts[0].storage) n++;
    return n;
}

/* Sets the sizes of *w; false: they do not fit. */
static bool lay_out(const lnt_weight_part *parts, size_t count, size_t in, lnt_weight *w)
{
    *w = (lnt_weight){ .in = in };
    if (in > SIZE_MAX / 64 / LNT_PANEL) return false;
    for (size_t i = 0; i < count;) {
        lnt_weight_rows *own = &w->parts[w->part_count++];
        *own = (lnt_weight_rows){ .storage = parts[i].storage, .form = lnt_form_of(parts[i].storage),
                                  .first = w->out };
        for (size_t end = i + alike(parts + i, count - i); i < end; i++)
            if (__builtin_add_overflow(own->count, parts[i].rows, &own->count)) return false;
        own->panel_bytes = lnt_panel_bytes(own->form, in);
        size_t bytes;
        if (__builtin_add_overflow(w->out, own->count, &w->out) || own->count > SIZE_MAX / 64 ||
            __builtin_mul_overflow(panels_of(own->count), own->panel_bytes, &bytes) ||
            __builtin_add_overflow(w->bytes, bytes, &w->bytes))
            return false;
    }
    return true;
}

size_t lnt_weight_bytes(const lnt_weight_part *parts, size_t count, size_t in)
{
    lnt_weight w;
    return lay_out(parts, count, in, &w) ? w.bytes : SIZE_MAX;
}

/* Where a row comes from: the part, and which of its rows. */
typedef struct source {
    const lnt_weight_part *part;
    size_t row, in;
} source;

static source source_of(const lnt_weight_part *part, size_t row, size_t in)
{
    while (row >= part->rows) row -= part++->rows;
    return (source){ part, part->order ? part->order[row] : row, in };
}

static const uint8_t *source_row(source s)
{
    const size_t bytes = s.in / lnt_storage_numbers(s.part->storage) * lnt_storage_bytes(s.part->storage);
    return (const uint8_t *)s.part->data + s.row * bytes;
}

/* Codes 0 .. 31 of row r into their block of the panel. */
static void put_codes(uint8_t *block, const uint8_t *u, int r, int bits)
{
    for (int j = 0; j < LNT_PANEL_BLOCK; j++) {
        const int group = j / 4, at = 4 * r + j % 4;
        if (bits == 8) block[64 * group + at] = u[j];
        else block[64 * (group / 2) + at] = (uint8_t)(block[64 * (group / 2) + at] | u[j] << 4 * (group % 2));
    }
}

/* A row's scales of 32 numbers, to where the panel has those of number k. */
static void put_scales(const lnt_panel *panel, const lnt_codes *c, int r, size_t k)
{
    for (int i = 0; i < LNT_PANEL_BLOCK / panel->form->block; i++) {
        const lnt_scales s = lnt_panel_block(panel, k + (size_t)(i * panel->form->block));
        ((uint16_t *)(uintptr_t)s.d)[r] = c->d;
        if (s.m) ((uint16_t *)(uintptr_t)s.m)[r] = c->m;
        if (s.a) ((int8_t *)(uintptr_t)s.a)[r] = c->a[i];
        if (s.b) ((int8_t *)(uintptr_t)s.b)[r] = c->b[i];
    }
}

static void pack_codes(uint8_t *to, const lnt_form *form, source s, int r)
{
    const uint8_t *row = source_row(s);
    const lnt_panel panel = { form, to, s.in };
    for (size_t k = 0; k < s.in; k += LNT_PANEL_BLOCK) {
        const lnt_codes c = lnt_codes_of(s.part->storage, row, k);
        put_codes(to + lnt_panel_codes(*form, k), c.u, r, form->bits);
        put_scales(&panel, &c, r, k);
    }
}

/* Numbers of `size` bytes, `group` of them side by side in a row of the panel. */
static void pack_floats(uint8_t *panel, source s, int r, size_t size, size_t group)
{
    const size_t step = s.part->transposed ? s.part->rows : 1;
    const uint8_t *from = s.part->data;
    from += s.row * (s.part->transposed ? 1 : s.in) * size;
    for (size_t k = 0; k < s.in; k++) {
        const size_t at = k / group * group * LNT_PANEL + (size_t)r * group + k % group;
        memcpy(panel + at * size, from + k * step * size, size);
    }
}

static void pack_panel(const lnt_weight_rows *own, const lnt_weight_part *parts, size_t in, size_t panel)
{
    uint8_t *to = (uint8_t *)own->panels + panel * own->panel_bytes;
    memset(to, 0, own->panel_bytes);
    const size_t first = panel * LNT_PANEL, count = least(own->count - first, LNT_PANEL);
    for (int r = 0; r < (int)count; r++) {
        const source s = source_of(parts, first + (size_t)r, in);
        switch (own->form.kind) {
        case LNT_FORM_CODES: pack_codes(to, &own->form, s, r); break;
        case LNT_FORM_F16: pack_floats(to, s, r, 2, 1); break;
        case LNT_FORM_BF16: pack_floats(to, s, r, 2, 2); break;
        case LNT_FORM_F32: pack_floats(to, s, r, 4, 1); break;
        }
    }
}

static lnt_status check(lnt_ctx *ctx, const char *name, const lnt_weight_part *parts, size_t count,
                        size_t in)
{
    assert(count > 0 && count <= LNT_WEIGHT_PARTS);
    for (size_t i = 0; i < count; i++) {
        const size_t numbers = lnt_storage_numbers(parts[i].storage);
        assert(!parts[i].transposed || numbers == 1);
        if (in % numbers)
            return lnt_fail(ctx, LNT_ERR_FORMAT,
                            "%s: rows of %zu numbers are not whole blocks of %s, which have %zu", name, in,
                            lnt_storage_name(parts[i].storage), numbers);
    }
    return LNT_OK;
}

lnt_status lnt_weight_open(lnt_ctx *ctx, const char *name, const lnt_weight_part *parts, size_t count,
                           size_t in, void *memory, lnt_weight *out)
{
    *out = (lnt_weight){ 0 };
    lnt_weight w;
    const lnt_status status = check(ctx, name, parts, count, in);
    if (status) return status;
    if (!lay_out(parts, count, in, &w))
        return lnt_fail(ctx, LNT_ERR_MEMORY, "%s alone exceeds the address space", name);
    w.lent = memory != NULL;
    w.memory = memory ? memory : lnt_allocate(ctx, w.bytes, name);
    if (!w.memory) return LNT_ERR_MEMORY;
    char *at = w.memory;
    for (size_t p = 0; p < w.part_count; p++) {
        lnt_weight_rows *own = &w.parts[p];
        const size_t panels = panels_of(own->count);
        own->panels = at;
        at += panels * own->panel_bytes;
        const int threads = lnt_threads_for(ctx, (double)own->count * (double)in);
#pragma omp parallel for schedule(static) num_threads(threads)
        for (int64_t panel = 0; panel < (int64_t)panels; panel++) pack_panel(own, parts, in, (size_t)panel);
        const size_t done = alike(parts, count);
        parts += done;
        count -= done;
    }
    *out = w;
    return LNT_OK;
}

lnt_status lnt_weight_copy(lnt_ctx *ctx, const char *name, const lnt_weight *from, lnt_weight *out)
{
    *out = (lnt_weight){ 0 };
    char *memory = lnt_allocate(ctx, from->bytes, name);
    if (!memory) return LNT_ERR_MEMORY;
    memcpy(memory, from->memory, from->bytes);
    *out = *from;
    out->memory = memory;
    out->lent = false;
    for (size_t p = 0; p < out->part_count; p++)
        out->parts[p].panels = memory + (from->parts[p].panels - (const char *)from->memory);
    return LNT_OK;
}

void lnt_weight_close(lnt_ctx *ctx, lnt_weight *w)
{
    if (!w->lent) lnt_release(ctx, w->memory, w->bytes);
    *w = (lnt_weight){ 0 };
}

/* ---- reading ------------------------------------------------------------------------------- */

/* The panels that a row is in, as one part; *row becomes the row among them. */
static const lnt_weight_rows *part_of(const lnt_weight *w, size_t *row)
{
    const lnt_weight_rows *own = w->parts;
    while (*row - own->first >= own->count) own++;
    *row -= own->first;
    return own;
}

static lnt_panel panel_of(const lnt_weight *w, const lnt_weight_rows *own, size_t panel)
{
    return (lnt_panel){ &own->form, own->panels + panel * own->panel_bytes, w->in };
}

void lnt_weight_unpack(const lnt_ctx *ctx, const lnt_weight *w, size_t row0, size_t rows, size_t k0,
                       size_t depth, float *to, size_t ld)
{
    const lnt_weight_kernels *ker = lnt_weight_kernels_get(ctx->isa);
    _Alignas(LNT_ALIGN) float some[LNT_PANEL_BLOCK * LNT_PANEL];
    for (size_t j = 0; j < rows;) {
        size_t row = row0 + j;
        const lnt_weight_rows *own = part_of(w, &row);
        const lnt_panel panel = panel_of(w, own, row / LNT_PANEL);
        const size_t skip = row % LNT_PANEL;
        const size_t count = least(rows - j, least(LNT_PANEL - skip, own->count - row));
        if (count == LNT_PANEL)
            ker->unpack(to + j, ld, &panel, k0, depth);
        else
            for (size_t k = 0; k < depth; k += LNT_PANEL_BLOCK) {
                const size_t now = least(depth - k, LNT_PANEL_BLOCK);
                ker->unpack(some, LNT_PANEL, &panel, k0 + k, now);
                for (size_t i = 0; i < now; i++)
                    memcpy(to + (k + i) * ld + j, some + i * LNT_PANEL + skip, count * sizeof *to);
            }
        j += count;
    }
}

/* Number k of row r of a panel. */
static float number_at(const lnt_panel *panel, size_t r, size_t k)
{
    const lnt_form f = *panel->form;
    const uint16_t *halves = panel->at;
    const uint8_t *codes = panel->at;
    switch (f.kind) {
    case LNT_FORM_F32: return ((const float *)panel->at)[k * LNT_PANEL + r];
    case LNT_FORM_F16: return lnt_f16_to_float(halves[k * LNT_PANEL + r]);
    case LNT_FORM_BF16: return lnt_bf16_to_float(halves[k / 2 * 2 * LNT_PANEL + 2 * r + k % 2]);
    case LNT_FORM_CODES: break;
    }
    const size_t at = 4 * r + k % 4, upper = 4 * (k / 4 % 2);
    const int u = f.bits == 8 ? codes[k / 4 * 64 + at] : codes[k / 8 * 64 + at] >> upper & 15;
    const lnt_scales s = lnt_panel_block(panel, k);
    float d = lnt_f16_to_float(s.d[r]), m = s.m ? lnt_f16_to_float(s.m[r]) : 0;
    if (s.a) d *= (float)s.a[r];
    if (s.b) m *= -(float)s.b[r];
    return d * (float)(u - f.zero) + m;
}

void lnt_weight_row(const lnt_weight *w, size_t row, float *to)
{
    assert(row < w->out);
    const lnt_weight_rows *own = part_of(w, &row);
    const lnt_panel panel = panel_of(w, own, row / LNT_PANEL);
    for (size_t k = 0; k < w->in; k++) to[k] = number_at(&panel, row % LNT_PANEL, k);
}

/* ---- products of few rows -------------------------------------------------------------------- */

typedef struct job {
    const lnt_weight_kernels *ker;
    const lnt_weight *w;
    const float *x; /* [m] rows, from the first number of this pass on */
    size_t ldx;
    const lnt_quants *quants; /* [m, blocks] */
    size_t blocks;
    float *y;
    size_t ldy;
    size_t m, k0, depth;
    bool accumulate;
} job;

static void multiply_panel(const job *t, const lnt_weight_rows *own, size_t panel, size_t i0, size_t rows)
{
    enum { ROWS = 16 };
    _Alignas(LNT_ALIGN) float sums[ROWS * LNT_PANEL];
    const lnt_panel p = panel_of(t->w, own, panel);
    const size_t count = least(own->count - panel * LNT_PANEL, LNT_PANEL);
    for (size_t end = i0 + rows; i0 < end; i0 += ROWS) {
        const size_t m = least(end - i0, ROWS);
        if (own->form.kind == LNT_FORM_CODES)
            t->ker->multiply_codes(sums, &p, 1, t->quants + i0 * t->blocks, t->blocks, m, t->k0, t->depth);
        else
            t->ker->multiply_floats(sums, &p, t->x + i0 * t->ldx, t->ldx, m, t->k0, t->depth);
        for (size_t i = 0; i < m; i++) {
            float *y = t->y + (i0 + i) * t->ldy + own->first + panel * LNT_PANEL;
            for (size_t r = 0; r < count; r++) y[r] = sums[i * LNT_PANEL + r] + (t->accumulate ? y[r] : 0);
        }
    }
}

/* One row by panels of codes, which the kernel reads side by side. */
static void multiply_row(const job *t, const lnt_weight_rows *own, size_t panel, size_t panels)
{
    _Alignas(LNT_ALIGN) float sums[BESIDE * LNT_PANEL];
    const lnt_panel p = panel_of(t->w, own, panel);
    const size_t count = least(own->count - panel * LNT_PANEL, panels * LNT_PANEL);
    float *y = t->y + own->first + panel * LNT_PANEL;
    t->ker->multiply_codes(sums, &p, panels, t->quants, t->blocks, 1, t->k0, t->depth);
    for (size_t r = 0; r < count; r++) y[r] = sums[r] + (t->accumulate ? y[r] : 0);
}

/* Whole panels of floats, so much of k at a time that it stays in the second cache while the rows pass by. */
static void multiply_many(const job *t, const lnt_weight_rows *own, size_t panel, size_t panels, size_t i0,
                          size_t rows)
{
    enum { DEPTH = 512 };
    const lnt_panel p = panel_of(t->w, own, panel);
    float *y = t->y + i0 * t->ldy + own->first + panel * LNT_PANEL;
    for (size_t k = 0; k < t->depth; k += DEPTH)
        t->ker->multiply_many(y, t->ldy, &p, own->panel_bytes, panels, t->x + i0 * t->ldx + k, t->ldx, rows,
                              t->k0 + k, least(t->depth - k, DEPTH), t->accumulate || k > 0);
}

/* Panels panel .. panel + count - 1 of a part, for rows i0 .. */
static void multiply_group(const job *t, const lnt_weight_rows *own, size_t panel, size_t count, size_t i0,
                           size_t rows)
{
    const bool codes = own->form.kind == LNT_FORM_CODES, many = t->m >= MANY && !codes && t->depth > 0;
    if (codes && t->m == 1) {
        multiply_row(t, own, panel, count);
        return;
    }
    const size_t whole = many ? least(count, own->count / LNT_PANEL - panel) : 0;
    if (whole) multiply_many(t, own, panel, whole, i0, rows);
    for (size_t j = whole; j < count; j++) multiply_panel(t, own, panel + j, i0, rows);
}

static bool has_codes(const lnt_weight *w)
{
    bool any = false;
    for (size_t p = 0; p < w->part_count; p++) any |= w->parts[p].form.kind == LNT_FORM_CODES;
    return any;
}

/* How a product is shared out: groups of panels, and shares of rows, which are whole tiles. */
typedef struct shares {
    size_t group;                  /* panels of it, at most */
    size_t ends[LNT_WEIGHT_PARTS]; /* groups up to the end of each part */
    size_t rows, down;             /* of a share, and shares */
} shares;

enum { TURNS = 4 }; /* of a thread, at least, where there is enough to share out */

static size_t group_of(const job *t, bool codes, int threads)
{
    enum { GROUP = 4 };
    const size_t each = panels_of(t->w->out) / (TURNS * (size_t)threads) / 2 * 2;
    if (codes && t->m == 1) return each < 2 ? 2 : least(each, BESIDE);
    return !codes && t->m >= MANY ? GROUP : 1;
}

static shares share_out(const job *t, bool codes, int threads)
{
    shares s = { .group = group_of(t, codes, threads), .rows = t->m, .down = 1 };
    size_t groups = 0;
    for (size_t p = 0; p < t->w->part_count; p++)
        s.ends[p] = groups += pieces(panels_of(t->w->parts[p].count), s.group);
    if (s.group == 1 || groups == 0) return s;
    const size_t down = least(pieces(TURNS * (size_t)threads, groups), pieces(t->m, 2 * MANY));
    s.rows = pieces(pieces(t->m, down), 2 * MANY) * 2 * MANY;
    s.down = pieces(t->m, s.rows);
    return s;
}

static void multiply_unit(const job *t, const shares *s, size_t unit)
{
    const size_t at = unit / s->down, i0 = unit % s->down * s->rows;
    size_t p = 0;
    while (at >= s->ends[p]) p++;
    const lnt_weight_rows *own = &t->w->parts[p];
    const size_t panel = (at - (p ? s->ends[p - 1] : 0)) * s->group;
    multiply_group(t, own, panel, least(panels_of(own->count) - panel, s->group), i0,
                   least(t->m - i0, s->rows));
}

static void quantise(const job *t, lnt_quants *quants, size_t i)
{
    t->ker->quantise(quants + i * t->blocks, t->x + i * t->ldx, t->depth);
}

/* The activations first, if they are to be in quants [m, blocks]; a single row before there are threads,
 * which would wait for each other twice. */
static void multiply_panels(const job *t, lnt_quants *quants, int threads)
{
    const lnt_weight *w = t->w;
    const shares s = share_out(t, quants != NULL, threads);
    const int64_t rows = quants && t->m > 1 ? (int64_t)t->m : 0;
    const int64_t units = (int64_t)(w->part_count ? s.ends[w->part_count - 1] * s.down : 0);
    if (quants && !rows) quantise(t, quants, 0);
#pragma omp parallel num_threads(threads)
    {
        if (rows) {
#pragma omp for schedule(static)
            for (int64_t i = 0; i < rows; i++) quantise(t, quants, (size_t)i);
        }
#pragma omp for schedule(static) nowait
        for (int64_t unit = 0; unit < units; unit++) multiply_unit(t, &s, (size_t)unit);
    }
}

/* As many rows, and so much of their length, as the quants on the stack take. */
void lnt_weight_multiply(const lnt_ctx *ctx, const lnt_weight *w, const float *x, size_t ldx, float *y,
                         size_t ldy, size_t m, bool accumulate)
{
    _Alignas(LNT_ALIGN) lnt_quants quants[QUANTS];
    const bool codes = has_codes(w);
    const size_t most = codes ? least(w->in, QUANTS * LNT_PANEL_BLOCK) : w->in;
    const size_t rows = codes && most ? QUANTS * LNT_PANEL_BLOCK / most : m;
    job t = { .ker = lnt_weight_kernels_get(ctx->isa), .w = w, .quants = quants, .ldx = ldx, .ldy = ldy };
    for (size_t i = 0; i < m; i += rows) {
        t.m = least(m - i, rows);
        t.y = y + i * ldy;
        t.k0 = 0;
        do {
            t.depth = least(w->in - t.k0, most);
            t.blocks = t.depth / LNT_PANEL_BLOCK;
            t.x = x + i * ldx + t.k0;
            t.accumulate = accumulate || t.k0 > 0;
            const double flops = 2 * (double)t.m * (double)t.depth * (double)w->out;
            multiply_panels(&t, codes ? quants : NULL, lnt_threads_for(ctx, flops));
            t.k0 += t.depth;
        } while (t.k0 < w->in);
    }
}

size_t lnt_weight_few(const lnt_ctx *ctx, const lnt_weight *w)
{
    const lnt_weight_kernels *ker = lnt_weight_kernels_get(ctx->isa);
    return has_codes(w) ? ker->few_codes : SIZE_MAX;
}
