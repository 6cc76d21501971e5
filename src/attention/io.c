/* attention/io.c - what one run is given: its tensors, lengths and states checked against the problem, and
 * the sequences it consists of. */
#include "attention/io.h"

#include "attention/mask.h"
#include "attention/state/state_view.h"
#include "core/overlap.h"
#include "core/struct.h"
#include "core/tensor.h"

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
    status = lnt_mask_check(ctx, p, io);
    if (status) return status;
    const lnt_tensor mask = lnt_mask_memory(&io->mask);
    const lnt_named_tensor out = { "out", &io->out };
    const lnt_named_tensor inputs[] = { { "q", &io->q }, { "k", &io->k }, { "v", &io->v },
                                        { "mask", &mask } };
    return with_out ? lnt_tensor_expect_apart(ctx, out, inputs, 4) : LNT_OK;
}

lnt_status lnt_io_take(lnt_ctx *ctx, const lnt_attn_io *given, lnt_attn_io *io)
{
    *io = (lnt_attn_io){ .size = sizeof *io };
    const lnt_status status = lnt_struct_take(ctx, LNT_STRUCT(lnt_attn_io, out), "io", given, io);
    lnt_mask_spread(&io->mask);
    return status;
}

lnt_status lnt_io_check(lnt_ctx *ctx, const lnt_attn_desc *p, const lnt_attn_io *io, bool with_out,
                        int64_t *sequences)
{
    lnt_status status = check_tensors(ctx, p, io, with_out);
    if (!status) status = check_sequences(ctx, io, sequences);
    if (!status && io->state_in)
        status = lnt_state_fits(ctx, "state_in", io->state_in, p, *sequences);
    if (!status && io->state_out)
        status = lnt_state_fits(ctx, "state_out", io->state_out, p, *sequences);
    if (status || !p->causal || p->softmax.align_begin) return status;
    const bool alike = !io->sequences && !io->lengths_q && !io->lengths_k;
    for (int64_t s = 0; s < (alike && *sequences ? 1 : *sequences); s++) {
        const lnt_sequence seq = lnt_io_sequence(io, s);
        if (seq.nq > seq.nk)
            return lnt_fail(ctx, LNT_ERR_SHAPE,
                            "causal: sequence %lld has %lld queries, must be at most its %lld keys",
                            (long long)s, (long long)seq.nq, (long long)seq.nk);
    }
    return LNT_OK;
}
