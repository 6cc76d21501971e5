/* attention/state/state.h - the inside of a state, for the files that read and write one. */
#ifndef LNT_ATTENTION_STATE_STATE_H
#define LNT_ATTENTION_STATE_STATE_H

#include "attention/workspace.h"
#include "attention/state/state_view.h"
#include "io/safetensors.h"

/* What differs between sums of fixed size and a cache that grows. */
typedef struct lnt_state_kind {
    const char *names[LNT_STATE_SAVED];
    bool grows; /* its size depends on room, the tokens it can hold, */
    int64_t (*most)(const lnt_attn_desc *p); /* of which it holds no more than so many rows; NULL: all */
    /* Heads, rows, columns of tensor i of one sequence, and elements from row to row in memory; rows
     * are 0 where it has no such tensor. */
    void (*shape)(const lnt_attn_desc *p, int64_t room, int i, int64_t shape[3], int64_t *ld);
    lnt_dtype (*dtype)(const lnt_attn_desc *p);
    /* Arguments are checked, and there is room, up to `most` rows. */
    void (*append)(lnt_state *state, const lnt_tensor *k, const lnt_tensor *v, double sign);
    void (*query)(lnt_state *state, const lnt_tensor *q, const lnt_tensor *out);
    void (*step)(lnt_state *state, const lnt_tensor *q, const lnt_tensor *k, const lnt_tensor *v,
                 const lnt_tensor *out);
    void (*merge)(lnt_state *dst, const lnt_state *src); /* both settled */
    void (*settle)(lnt_state *state); /* every token into the first two tensors, or out of a window; NULL:
                                       * they are */
} lnt_state_kind;

extern const lnt_state_kind lnt_state_sums;     /* sums.c: s and z, hybrid's window too */
extern const lnt_state_kind lnt_state_kv_cache; /* kv_cache.c: softmax's k and v */
const lnt_state_kind *lnt_state_kind_of(lnt_mechanism mechanism);

struct lnt_state {
    lnt_workspace work;
    const lnt_state_kind *kind;
    lnt_device_state *own;        /* what the device has of it; the CPU: the state itself */
    const int64_t *index;         /* [selected], of the device: see lnt_state_select; NULL: none */
    int64_t selected;             /* sequences that the tensors of a run have */
    /* What follows is the CPU's. */
    const lnt_algo *algos[2]; /* for few tokens, and for many */
    lnt_tensor tensor[LNT_STATE_TENSORS]; /* views of what is allocated */
    size_t bytes[LNT_STATE_TENSORS];
    int64_t room;    /* tokens, where the state grows */
    int64_t *tokens; /* [batch] */
    int64_t *held;   /* [batch], of a cache: rows that are in use; the last tokens */
    /* Tokens of every sequence that are not yet in the sums: in RECENT_K and RECENT_V, or among those
     * that have left hybrid's window; of a cache, rows of some sequence that have left softmax's. */
    int64_t recent;
    int64_t nonpositive; /* rows since the last report */
    const char *algorithm; /* that ran last; NULL: none */
};

extern const lnt_device_states lnt_cpu_states; /* cpu_state.c */

/* Tensor i, wherever it is; of no rows where there is none. */
static inline lnt_tensor lnt_state_view(const lnt_state *state, int i)
{
    return lnt_state_device(state)->states->tensor(state->own, i);
}

/* Bytes lnt_state_create would allocate for the tensors of p with so much room; 0: too many. */
size_t lnt_state_predict(const lnt_attn_desc *p, int64_t room);

/* Numbers in the state of one sequence. */
double lnt_state_elements(const lnt_attn_desc *p, int64_t room);

/* Rows of a cache that a settled state of so many tokens has in use. */
static inline int64_t lnt_state_rows(const lnt_attn_desc *p, int64_t tokens)
{
    const int64_t window = p->softmax.window;
    return window && tokens > window ? window : tokens;
}

/* How a file has the numbers of a row of the view t, and how many; those of blocks are bytes. */
LNT_PRIVATE_API lnt_st_dtype lnt_state_stored(const lnt_state *state, const lnt_tensor *t, int64_t *columns);

/* Tokens of its longest sequence; on the CPU. */
int64_t lnt_state_longest(const lnt_state *state);

/* Room for n more tokens of every sequence; doubled, so that growing costs O(1) per token. */
LNT_PRIVATE_API lnt_status lnt_state_make_room(lnt_state *state, int64_t n);

/* After a run of io: state_out has seen state_in's tokens and the run's keys. */
void lnt_state_advance(const lnt_attn_io *io, int64_t sequences);

/* lnt_state_create from a problem that is resolved. */
lnt_status lnt_state_make(lnt_ctx *ctx, const lnt_attn_desc *resolved, int64_t room,
                          lnt_state **out);

#endif
