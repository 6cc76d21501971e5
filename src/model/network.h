/* model/network.h - the layers of a model, forward and backward.
 *
 * The library compiles it in float, the tests in double too. */
#ifndef LNT_MODEL_NETWORK_H
#define LNT_MODEL_NETWORK_H

#include "model/layout.h"

#define lnt_batch LNT_REAL_NAME(lnt_batch)
#define lnt_network LNT_REAL_NAME(lnt_network)
#define lnt_network_open LNT_REAL_NAME(lnt_network_open)
#define lnt_network_close LNT_REAL_NAME(lnt_network_close)
#define lnt_network_forward LNT_REAL_NAME(lnt_network_forward)
#define lnt_network_logits LNT_REAL_NAME(lnt_network_logits)
#define lnt_network_backward LNT_REAL_NAME(lnt_network_backward)

/* What goes in: tokens or features. */
typedef struct lnt_batch {
    size_t batch, length;
    const int32_t *tokens;  /* [batch,length]; or */
    const real *features;   /* [batch,length,inputs], without rows for class tokens */
    const int64_t *lengths; /* [batch], NULL: full */
    int64_t first;          /* position of the first token */
    bool headless;          /* logits are not wanted: lnt_network_logits gives them, of any rows of top */
} lnt_batch;

enum { LNT_CONV_LAYERS = 3, LNT_CONV_KEPT = 2 * LNT_CONV_LAYERS - 1 };

/* What layers of one kind of attention share. */
#define lnt_layer_kind LNT_REAL_NAME(lnt_layer_kind)
typedef struct lnt_layer_kind {
    lnt_block_shape shape;
    lnt_attention attention; /* one plan for all of them: each run is whole in itself */
    double *frequencies;     /* [pairs] of rotary positions */
    real *turns;             /* [length,head_dim]: by the positions of the last pass */
} lnt_layer_kind;

typedef struct lnt_network {
    lnt_ctx *ctx;
    const lnt_config *config;
    const lnt_layout *layout;
    size_t batch, length; /* at most */
    bool backward;
    lnt_layer_kind kinds[LNT_CONFIG_KINDS];
    lnt_state **states;      /* [layers]: tokens follow those remembered; NULL: whole sequences */
    const uint16_t *bf16;    /* [layout->size]: the weights again; NULL: not there */
    lnt_watcher watcher;     /* of each layer */
    const lnt_weight *packed; /* [layout->entry_count]: those that are not in the weights; NULL: none */
    lnt_arena memory;
    real *conv[LNT_CONV_KEPT];       /* [n,dim]: what goes in, then before and after activations */
    real *unnormed, *stat_embedded;  /* [n,dim], [n,2]: the same before its norm; NULL: it has none */
    real *embedded;                  /* [n,dim]: what the first block sees */
    lnt_block_kept *kept;            /* [layers]; without backward they share memory */
    lnt_block_scratch scratch;
    real *top, *stat;     /* [n,dim], [n,2]: the last norm */
    real *pooled;         /* [batch,dim]: what stands for a sequence; of two heads [2,batch,dim] */
    real *unbent;         /* [batch,dim]: the same before the pooler; NULL: there is none */
    real *second;         /* shaped as logits: of the second head; NULL: there is none */
    real *logits;         /* [rows,outputs]: what forward gives, and backward is given dlogits in */
    real *slopes;         /* shaped as logits: of their cap, for backward */
    real *grad, *dpooled; /* [n,dim], shaped as pooled */
    real *positions;      /* [length,dim]: of the positions of the last pass, where they are sinusoidal */
    int64_t first_position;
    size_t position_count;
} lnt_network;

/* With states [layers], which stay the caller's, tokens follow those that they remember, and only the
 * last of each call gets logits.  config and layout must outlive the network. */
lnt_status lnt_network_open(lnt_ctx *ctx, const lnt_config *config, const lnt_layout *layout,
                            size_t batch, size_t length, bool backward, lnt_state **states,
                            lnt_network *out);
void lnt_network_close(lnt_network *net);

/* The kind of layer l. */
static inline const lnt_layer_kind *lnt_network_kind(const lnt_network *net, size_t l)
{
    return &net->kinds[lnt_config_kind(net->config, l)];
}

/* Rows of logits that a pass gives. */
static inline size_t lnt_network_rows(const lnt_network *net, const lnt_batch *in)
{
    const bool one = net->states || lnt_config_pools(net->config);
    return one ? in->batch : in->batch * in->length;
}

/* weights [layout->size]; training: dropout applies, drawn from rng.  Fills net->logits. */
lnt_status lnt_network_forward(lnt_network *net, const real *weights, const lnt_batch *in,
                               bool training, lnt_rng rng);
/* logits [rows,outputs] of x [rows,dim], rows of net->top; not of vectors. */
void lnt_network_logits(const lnt_network *net, const real *weights, const real *x, size_t rows,
                        real *logits);
/* After forward with the same arguments; net->logits now holds the gradient of the loss by them.
 * grads, shaped as weights, is added to. */
lnt_status lnt_network_backward(lnt_network *net, const real *weights, real *grads,
                                const lnt_batch *in, bool training, lnt_rng rng);

#endif
