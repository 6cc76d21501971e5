/* test_sequences.c - padded and packed batches are the sequences they stand for, run one by one. */
#include <math.h>

#include "../support/case.h"

/* Runs rows q0..q0+nq of q over keys k0..k0+nk of batch index b alone, into out (same shape). */
static void run_alone(lnt_ctx *ctx, lnt_plan *plan, const trial *t, int64_t b, int64_t q0,
                      int64_t nq, int64_t k0, int64_t nk, const lnt_tensor *out)
{
    const lnt_tensor q = tensor_batch(&t->q.t, b), k = tensor_batch(&t->k.t, b),
                     v = tensor_batch(&t->v.t, b), y = tensor_batch(out, b);
    const lnt_attn_io io = { .size = sizeof io, .q = tensor_rows(&q, q0, nq),
                             .k = tensor_rows(&k, k0, nk), .v = tensor_rows(&v, k0, nk),
                             .out = tensor_rows(&y, q0, nq) };
    assert_ok(ctx, lnt_plan_forward(plan, &io));
}

/* Rows of every sequence of c->cu_* or c->lengths_*, each run alone; zeros elsewhere. */
static void run_separately(lnt_ctx *ctx, lnt_plan *plan, const attn_case *c, const trial *t,
                           const lnt_tensor *out)
{
    tensor_fill(out, 0);
    const int64_t count = c->sequences ? c->sequences : c->desc.batch;
    for (int64_t s = 0; s < count; s++) {
        if (c->sequences)
            run_alone(ctx, plan, t, 0, c->cu_q[s], c->cu_q[s + 1] - c->cu_q[s], c->cu_k[s],
                      c->cu_k[s + 1] - c->cu_k[s], out);
        else
            run_alone(ctx, plan, t, s, 0, c->lengths_q[s], 0, c->lengths_k[s], out);
    }
}

/* NaN in every row that belongs to no sequence: whatever reads it, shows it. */
static void poison_padding(const attn_case *c, const trial *t)
{
    for (int64_t b = 0; b < c->desc.batch; b++) {
        const int64_t first[] = { c->sequences ? c->cu_q[0] : 0, c->sequences ? c->cu_k[0] : 0 };
        const int64_t end[] = { c->sequences ? c->cu_q[c->sequences] : c->lengths_q[b],
                                c->sequences ? c->cu_k[c->sequences] : c->lengths_k[b] };
        const lnt_tensor *const all[] = { &t->q.t, &t->k.t, &t->v.t };
        for (int x = 0; x < COUNT_OF(all); x++)
            for (int64_t h = 0; h < all[x]->shape[1]; h++)
                for (int64_t n = 0; n < all[x]->shape[2]; n++)
                    for (int64_t j = 0; j < all[x]->shape[3]; j++)
                        if (n < first[x > 0] || n >= end[x > 0])
                            lnt_tensor_set(all[x], b, h, n, j, (double)NAN);
    }
}

static void together_equals_separately(bool packed)
{
    lnt_ctx *ctx = context_new(2, NULL);
    coverage cover = { { 0 } };
    dice d = { packed ? 5 : 6 };
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int i = 0; i < budget(6, 60); i++) {
            const int64_t nq = dice_range(&d, 0, 90);
            attn_case c = case_make(lnt_algorithm_mechanism(a), 4, 2, nq,
                                    nq + (i % 3 ? dice_range(&d, 0, 30) : 0), 9, 6);
            c.seed = dice_next(&d);
            c.desc.batch = 3;
            c.desc.causal = i % 2;
            if (c.desc.mechanism == LNT_SOFTMAX && i % 3 == 0) case_random_scores(&d, &c);
            c.lay_q = c.lay_k = c.lay_v = c.lay_out = (layout)(i % LAYOUT_OUTPUTS);
            if (packed) case_random_packing(&d, &c);
            else case_random_lengths(&d, &c);
            lnt_plan *plan = case_plan(ctx, &c, a);
            if (!plan) continue;
            cover.supported[a]++;
            trial t = trial_new(ctx, &c);
            poison_padding(&c, &t);
            block want = block_new(LNT_F32, c.lay_out, c.desc.batch, 4, nq, 6);
            run_separately(ctx, plan, &c, &t, &want.t);
            assert_ok(ctx, lnt_plan_forward(plan, &t.io));
            expect_below(&c, lnt_algorithm_name(a), ctx, "together against one by one",
                         tensor_error(&t.out.t, &want.t), 1e-6);
            block_free(&want);
            trial_free(&t);
            lnt_plan_destroy(plan);
        }
    coverage_check(&cover);
    lnt_ctx_destroy(ctx);
}

static void packed_sequences_equal_separate_runs(void **state)
{
    (void)state;
    together_equals_separately(true);
}

static void padded_sequences_equal_separate_runs_whatever_the_padding_holds(void **state)
{
    (void)state;
    together_equals_separately(false);
}

static void rows_past_the_length_are_exactly_zero(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(2, NULL);
    for (int a = 0; lnt_algorithm_name(a); a++)
        for (int causal = 0; causal < 2; causal++) {
            attn_case c = case_make(lnt_algorithm_mechanism(a), 2, 2, 40, 40, 8, 8);
            c.desc.batch = 3;
            c.desc.causal = causal;
            c.with_lengths = true;
            const int64_t n[] = { 0, 17, 40 };
            for (int b = 0; b < 3; b++) c.lengths_q[b] = c.lengths_k[b] = n[b];
            lnt_plan *plan = case_plan(ctx, &c, a);
            if (!plan) continue;
            trial t = trial_new(ctx, &c);
            assert_ok(ctx, lnt_plan_forward(plan, &t.io));
            for (int64_t b = 0; b < 3; b++)
                for (int64_t i = 0; i < 2 * 40 * 8; i++) {
                    const int64_t row = i / 8 % 40;
                    const double y = lnt_tensor_get(&t.out.t, b, i / 8 / 40, row, i % 8);
                    expect_true(&c, lnt_algorithm_name(a), ctx, "a row past its length is not 0",
                                row < n[b] ? y != 0 : y == 0);
                }
            trial_free(&t);
            lnt_plan_destroy(plan);
        }
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_sequences_equal_separate_runs),
        cmocka_unit_test(padded_sequences_equal_separate_runs_whatever_the_padding_holds),
        cmocka_unit_test(rows_past_the_length_are_exactly_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
