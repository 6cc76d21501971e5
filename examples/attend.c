/* examples/attend.c - the same causal linear attention twice: all tokens at once by a plan, and one
 * token at a time through a state of fixed size.  Exits with 1 if the answers differ.
 *
 * With an installed Linnet:  cc -std=c11 attend.c -o attend $(pkg-config --cflags --libs linnet) */
#include <linnet.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 2, LENGTH = 100, DIM = 16, COUNT = HEADS * LENGTH * DIM };

typedef struct {
    float q[COUNT], k[COUNT], v[COUNT], batch[COUNT], stream[COUNT]; /* [H,N,d] each */
} arrays;

static void check(const lnt_ctx *ctx, lnt_status status)
{
    if (status == LNT_OK) return;
    fprintf(stderr, "attend: %s: %s\n", lnt_status_name(status), lnt_ctx_error(ctx));
    exit(1);
}

static lnt_tensor whole(float *data) { return lnt_tensor_bhnd(data, LNT_F32, 1, HEADS, LENGTH, DIM); }

/* The view of one token: same strides, length 1. */
static lnt_tensor token(float *data, int n)
{
    lnt_tensor t = whole(data + (ptrdiff_t)n * DIM);
    t.shape[2] = 1;
    return t;
}

static void attend_at_once(lnt_ctx *ctx, const lnt_attn_desc *desc, arrays *a)
{
    lnt_plan *plan;
    lnt_plan_info info = { .size = sizeof info };
    check(ctx, lnt_plan_create(ctx, desc, &plan));
    check(ctx, lnt_plan_describe(plan, &info));
    const lnt_attn_io io = { .size = sizeof io,      .q = whole(a->q), .k = whole(a->k),
                             .v = whole(a->v), .out = whole(a->batch) };
    check(ctx, lnt_plan_forward(plan, &io));
    printf("%d tokens at once by %s\n", LENGTH, info.algorithm);
    lnt_plan_destroy(plan);
}

static void attend_by_token(lnt_ctx *ctx, const lnt_attn_desc *desc, arrays *a)
{
    lnt_state *state;
    check(ctx, lnt_state_create(ctx, desc, &state));
    for (int n = 0; n < LENGTH; n++) {
        const lnt_tensor q = token(a->q, n), k = token(a->k, n), v = token(a->v, n);
        const lnt_tensor out = token(a->stream, n);
        check(ctx, lnt_state_step(state, &q, &k, &v, &out));
    }
    printf("%lld tokens one by one, %zu bytes of state\n",
           (long long)lnt_state_tokens(state, 0), lnt_state_bytes(state));
    lnt_state_destroy(state);
}

int main(void)
{
    static arrays a;
    lnt_ctx *ctx;
    lnt_attn_desc desc;
    const lnt_status status = lnt_ctx_create(NULL, &ctx);
    if (status != LNT_OK) {
        char sentence[256];
        lnt_ctx_create_error(NULL, status, sentence, sizeof sentence);
        fprintf(stderr, "attend: %s\n", sentence);
        return 1;
    }
    const lnt_tensor q = whole(a.q), k = whole(a.k), v = whole(a.v);
    check(ctx, lnt_tensor_fill_normal(ctx, &q, 1, 1.0));
    check(ctx, lnt_tensor_fill_normal(ctx, &k, 2, 1.0));
    check(ctx, lnt_tensor_fill_normal(ctx, &v, 3, 1.0));

    check(ctx, lnt_attn_desc_init(&desc, sizeof desc));
    desc.mechanism = LNT_LINEAR;
    desc.heads = HEADS;
    desc.length_q = LENGTH;
    desc.dim = DIM;
    desc.causal = 1;
    attend_at_once(ctx, &desc, &a);
    attend_by_token(ctx, &desc, &a);
    lnt_ctx_destroy(ctx);

    double most = 0;
    int same = 1;
    for (int i = 0; i < COUNT; i++) {
        const double difference = fabs((double)a.stream[i] - (double)a.batch[i]);
        if (difference > most) most = difference;
        if (!(difference <= 1e-5)) same = 0; /* NaN, too, is a difference */
    }
    printf("largest difference %.1e: %s\n", most, same ? "the same answer" : "they differ");
    return same ? 0 : 1;
}
