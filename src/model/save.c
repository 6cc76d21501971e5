/* model/save.c - lnt_model_save_with: which file a model becomes.
 *
 * A model of our own whose weights stay numbers is written as model_file.c has it, and learns on.  One whose
 * matrices are packed, or are to be in blocks, is written as packed.h says. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/dtype.h"
#include "core/struct.h"
#include "io/file.h"
#include "model/packed.h"

/* ---- a file of the first form ------------------------------------------------------------------ */

static bool is_bf16(const lnt_model *m)
{
    for (size_t i = 0; i < m->layout.size; i++)
        if (lnt_float_bits(m->weights[i]) & 0xffff) return false;
    return true;
}

/* What rounding to bf16 changes in a matrix. */
static void count_matrix(const lnt_model *m, const lnt_layout_entry *e, double *wrong, double *all)
{
    for (size_t i = 0; i < e->count; i++) {
        const double was = (double)m->weights[e->offset + i];
        const double change = (double)lnt_bf16_to_float(lnt_float_to_bf16(m->weights[e->offset + i])) - was;
        *wrong += change * change;
        *all += was * was;
    }
}

static void count_changes(const lnt_model *m, bool half, lnt_save_report *r)
{
    double wrong = 0, all = 0;
    r->storages = 1;
    r->storage[0] =
        (lnt_storage_share){ half ? "bf16" : "f32", (int64_t)m->layout.parameters * (half ? 2 : 4) };
    for (size_t i = 0; i < m->layout.entry_count; i++) {
        const lnt_layout_entry *e = &m->layout.entries[i];
        double own_wrong = 0, own_all = 0;
        if (e->param.rank < 2 || !e->count) continue;
        r->matrices++;
        if (half) count_matrix(m, e, &own_wrong, &own_all);
        wrong += own_wrong, all += own_all;
        r->turned += own_wrong > 0;
        const double error = own_all > 0 ? sqrt(own_wrong / own_all) : 0;
        if (!(error > r->worst_error)) continue;
        r->worst_error = error;
        snprintf(r->worst, sizeof r->worst, "%s", e->name);
    }
    r->error = all > 0 ? sqrt(wrong / all) : 0;
}

static lnt_status write_plain(const lnt_model *m, const char *path, lnt_weights weights,
                              lnt_save_report *report)
{
    const bool half = weights == LNT_WEIGHTS_BF16 || (weights == LNT_WEIGHTS_KEEP && is_bf16(m));
    const lnt_status status = lnt_model_write(m, path, half ? LNT_BF16 : LNT_F32, NULL, 0, NULL, 0);
    if (!status) count_changes(m, half, report);
    return status;
}

/* ---- the calls --------------------------------------------------------------------------------- */

static lnt_status save(const lnt_model *m, const char *path, const lnt_save_options *options,
                       lnt_save_report *report)
{
    struct stat at;
    const lnt_weights w = options->weights;
    const bool blocks = w == LNT_WEIGHTS_Q8 || w == LNT_WEIGHTS_Q4;
    const lnt_status status =
        m->packed || blocks ? lnt_packed_write(m, path, options, report) : write_plain(m, path, w, report);
    if (!status && options->progress) options->progress(options->user, 1);
    if (!status && stat(path, &at) == 0) report->file_bytes = (int64_t)at.st_size;
    return status;
}

lnt_status lnt_model_save_with(const lnt_model *model, const char *path, const lnt_save_options *given)
{
    if (!model) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = model->ctx;
    lnt_save_options options = { .size = sizeof options };
    lnt_save_report report = { .size = sizeof report };
    if (!path) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "path is NULL");
    lnt_status status =
        given ? lnt_struct_take(ctx, LNT_STRUCT(lnt_save_options, weights), "options", given, &options)
              : LNT_OK;
    if (!status && options.report)
        status =
            lnt_struct_check(ctx, LNT_STRUCT(lnt_save_report, file_bytes), "options.report", options.report);
    if (status) return status;
    if ((unsigned)options.weights > LNT_WEIGHTS_Q4)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "options.weights is %d, must be 0 to %d", (int)options.weights,
                        (int)LNT_WEIGHTS_Q4);
    status = save(model, path, &options, &report);
    if (!status && options.report) lnt_struct_give(&report, options.report);
    return status;
}

lnt_status lnt_model_check_dtype(lnt_ctx *ctx, lnt_dtype dtype)
{
    if (dtype == LNT_F32 || dtype == LNT_BF16) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_DTYPE, "dtype of a model's file is %s, must be f32 or bf16",
                    lnt_dtype_name(dtype));
}

lnt_status lnt_model_save(const lnt_model *model, const char *path, lnt_dtype dtype)
{
    if (!model) return LNT_ERR_ARGUMENT;
    const lnt_save_options options = { .size = sizeof options,
                                       .weights = dtype == LNT_BF16 ? LNT_WEIGHTS_BF16 : LNT_WEIGHTS_F32 };
    const lnt_status status = lnt_model_check_dtype(model->ctx, dtype);
    return status ? status : lnt_model_save_with(model, path, &options);
}
