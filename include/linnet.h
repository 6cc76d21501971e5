/* linnet.h - attention at constant cost per token: the header of liblinnet.
 *
 * Models, their files and training are in linnet/model.h and liblinnet-model.  Everything here is
 * prefixed lnt_ / LNT_.  The library never prints, never exits and keeps no mutable globals; every
 * fallible call returns a status, and the context keeps one sentence about the last failure.
 *
 * Structs that begin with `size` grow at their end.  Set size to sizeof of the struct.  A smaller one, of
 * a program compiled with an older header, is taken: what an input lacks is at its default, and a report
 * is filled as far as there is room.  A larger one is refused.  Words named `reserved` must be 0.  The
 * other structs (lnt_tensor, lnt_array, lnt_allocator, the options inside lnt_attn_desc) never grow while
 * the soname stays.
 *
 * A tensor that a call writes lies apart from all that the call reads and else writes, unless the call says
 * what may be shared; a call whose tensors overlap is refused.  Views that lie between each other's rows, as
 * q, k and v in one array, do not overlap.  A pointer to const means that the object is the same afterwards,
 * as seen from outside.  A const lnt_tensor is a view: the numbers in it are written where the call says so.
 *
 * A context and all that is made from it (plans, states, models, sessions, trainers) may be used by one
 * thread at a time, whichever it is, and through pointers to const as well.  Different contexts are
 * independent: two threads may use two of them at once.  What takes no context, nor a thing made from one,
 * may be called by any thread at any time; only lnt_ctx_create and lnt_ctx_set_device read the environment,
 * which nobody may change meanwhile.
 *
 * Shapes are [batch, heads, length, dim]. */
#ifndef LINNET_H
#define LINNET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LNT_VERSION_MAJOR 0
#define LNT_VERSION_MINOR 2
#define LNT_VERSION_PATCH 0
#define LNT_VERSION_STRING "0.2.0"

#if defined(__GNUC__)
#define LNT_API __attribute__((visibility("default")))
#define LNT_MUST_CHECK __attribute__((warn_unused_result))
#else
#define LNT_API
#define LNT_MUST_CHECK
#endif

/* ---- status -------------------------------------------------------------------------------- */

typedef enum lnt_status {
    LNT_OK = 0,
    LNT_ERR_ARGUMENT = 1,    /* a value outside what is allowed */
    LNT_ERR_SHAPE = 2,       /* tensors that do not fit together, or not the plan */
    LNT_ERR_DTYPE = 3,       /* an element type this call does not take */
    LNT_ERR_UNSUPPORTED = 4, /* a combination this mechanism, algorithm or machine does not offer */
    LNT_ERR_MEMORY = 5,      /* the allocator said no, or the size asked for cannot exist */
    LNT_ERR_FILE = 6,        /* a file could not be opened, read, written or moved */
    LNT_ERR_FORMAT = 7       /* a file was read, and is not what it should be */
} lnt_status;

/* "ok", "argument", "shape" ...; never NULL. */
LNT_API const char *lnt_status_name(lnt_status status);

/* The version of the library that was linked, e.g. "0.2.0". */
LNT_API const char *lnt_version(void);

/* ---- context ------------------------------------------------------------------------------- */

typedef struct lnt_ctx lnt_ctx;

/* allocate returns memory aligned to `alignment` (a power of two) or NULL; release gets back the
 * pointer and the size it was allocated with.  They are called only by the thread that calls the library, and
 * only before that call returns, though its work may go over several threads: where every context has hooks
 * of its own they need no lock.  They must not call the library. */
typedef struct lnt_allocator {
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *memory, size_t bytes);
    void *user;
} lnt_allocator;

typedef struct lnt_ctx_options {
    size_t size;             /* sizeof(lnt_ctx_options) */
    lnt_allocator allocator; /* both functions NULL: the C library's */
    int threads;             /* 0: as many as the machine (or OMP_NUM_THREADS) gives */
    const char *isa;         /* NULL: LINNET_ISA if set, else the best this CPU has */
} lnt_ctx_options;

/* options may be NULL.  On failure *out is NULL and, there being no context to ask,
 * lnt_ctx_create_error() explains the status given the same options. */
LNT_API LNT_MUST_CHECK lnt_status lnt_ctx_create(const lnt_ctx_options *options, lnt_ctx **out);

/* Writes the sentence that belongs to a failed lnt_ctx_create into text[capacity]. */
LNT_API void lnt_ctx_create_error(const lnt_ctx_options *options, lnt_status status, char *text,
                                  size_t capacity);

LNT_API void lnt_ctx_destroy(lnt_ctx *ctx); /* NULL is fine; all that was made from it must go first */

/* One sentence about the last failure on this context; "" if there was none. */
LNT_API const char *lnt_ctx_error(const lnt_ctx *ctx);

LNT_API int lnt_ctx_threads(const lnt_ctx *ctx);
LNT_API const char *lnt_ctx_isa(const lnt_ctx *ctx);

/* The instruction sets this library was built with, best last; NULL past the end. */
LNT_API const char *lnt_isa_name(int index);
/* 1 if this CPU can run it. */
LNT_API int lnt_isa_available(int index);

/* ---- devices ------------------------------------------------------------------------------- */

/* Where the plans and states of a context are and run: "cpu", as every context begins, "cuda", or
 * "cuda:1" for the second GPU.  Set it while the context has none of them; a call that is refused
 * leaves the context as it was.  Models are on the CPU only.  A GPU needs the plug-in library
 * liblinnet-cuda.so: the file that LINNET_CUDA_PLUGIN names; else the one beside this library; else
 * where the system looks for libraries. */
LNT_API LNT_MUST_CHECK lnt_status lnt_ctx_set_device(lnt_ctx *ctx, const char *device);
LNT_API const char *lnt_ctx_device(const lnt_ctx *ctx); /* "cpu" or "cuda:0" */

/* On a GPU the tensors of a run, and the arrays of lengths, are in its memory; a run goes to the
 * context's stream (a cudaStream_t; NULL: the default one) and returns before it is done.  It
 * allocates nothing, waits for nothing and may be captured into a graph; a plan or state runs on one
 * stream at a time. */
LNT_API LNT_MUST_CHECK lnt_status lnt_ctx_set_stream(lnt_ctx *ctx, void *stream);
/* Waits for what is on the stream. */
LNT_API LNT_MUST_CHECK lnt_status lnt_ctx_synchronize(lnt_ctx *ctx);

/* Memory of the context's device, for those who have no CUDA of their own; on "cpu", plain memory. */
LNT_API LNT_MUST_CHECK lnt_status lnt_device_allocate(lnt_ctx *ctx, size_t bytes, void **out);
LNT_API void lnt_device_release(lnt_ctx *ctx, void *memory, size_t bytes);
/* Copies to the device, and from it; both wait until it is done.  The two must not overlap. */
LNT_API LNT_MUST_CHECK lnt_status lnt_device_write(lnt_ctx *ctx, void *to, const void *from,
                                                   size_t bytes);
LNT_API LNT_MUST_CHECK lnt_status lnt_device_read(lnt_ctx *ctx, void *to, const void *from,
                                                  size_t bytes);

/* Of a GPU; on "cpu" only `name`, the instruction set, and host_memory are set. */
typedef struct lnt_device_info {
    size_t size;              /* sizeof(lnt_device_info), set by the caller */
    char name[256];           /* "NVIDIA H200" */
    int major, minor;         /* compute capability */
    int multiprocessors;
    size_t memory_bytes, cache_bytes;
    int driver, runtime;      /* CUDA versions, 1000 major + 10 minor */
    int host_memory, reserved; /* 1: tensors of the program are in its memory as they are */
} lnt_device_info;

LNT_API LNT_MUST_CHECK lnt_status lnt_device_describe(lnt_ctx *ctx, lnt_device_info *info);

/* ---- tensors ------------------------------------------------------------------------------- */

typedef enum lnt_dtype { LNT_F32 = 0, LNT_F16 = 1, LNT_BF16 = 2, LNT_F64 = 3 } lnt_dtype;

LNT_API size_t lnt_dtype_size(lnt_dtype dtype);      /* bytes; 0 for an unknown one */
LNT_API const char *lnt_dtype_name(lnt_dtype dtype); /* "f32" ...; never NULL */

/* A view: the data belongs to the caller.  Strides count elements and may be anything, 0 and
 * negative included, as long as every element of an output is its own. */
typedef struct lnt_tensor {
    void *data;
    lnt_dtype dtype;
    int64_t shape[4];  /* batch, heads, length, dim */
    int64_t stride[4]; /* in elements */
} lnt_tensor;

/* Contiguous views: [B,H,N,d] and [B,N,H,d] in memory; both are shaped [B,H,N,d]. */
LNT_API lnt_tensor lnt_tensor_bhnd(void *data, lnt_dtype dtype, int64_t batch, int64_t heads,
                                   int64_t length, int64_t dim);
LNT_API lnt_tensor lnt_tensor_bnhd(void *data, lnt_dtype dtype, int64_t batch, int64_t heads,
                                   int64_t length, int64_t dim);

/* Fills with normal numbers, mean 0, deviation sigma (at least 0), from a counter-based generator:
 * element [b,h,n,d] depends on seed and its row-major index alone. */
LNT_API LNT_MUST_CHECK lnt_status lnt_tensor_fill_normal(lnt_ctx *ctx, const lnt_tensor *tensor,
                                                         uint64_t seed, double sigma);

/* Elements as double, whatever the dtype. */
LNT_API double lnt_tensor_get(const lnt_tensor *tensor, int64_t b, int64_t h, int64_t n, int64_t d);
LNT_API void lnt_tensor_set(const lnt_tensor *tensor, int64_t b, int64_t h, int64_t n, int64_t d,
                            double value);

/* ---- what to compute ----------------------------------------------------------------------- */

typedef enum lnt_mechanism {
    LNT_SOFTMAX = 0,
    LNT_LINEAR = 1,
    LNT_TAYLOR = 2,
    LNT_CUR = 3,   /* softmax of low rank through landmarks; not causal, no state */
    LNT_HYBRID = 4 /* softmax over the last tokens, linear or taylor over those before; causal */
} lnt_mechanism;

LNT_API const char *lnt_mechanism_name(lnt_mechanism mechanism); /* NULL past the last */

/* The algorithms built in, as "mechanism/algorithm"; NULL past the end. */
LNT_API const char *lnt_algorithm_name(int index);
LNT_API lnt_mechanism lnt_algorithm_mechanism(int index);

/* phi of linear attention. */
typedef enum lnt_feature_map {
    LNT_MAP_ELU1 = 0,     /* x > 0 ? x + 1 : exp(x) */
    LNT_MAP_RELU = 1,
    LNT_MAP_EXP = 2,
    LNT_MAP_IDENTITY = 3,
    LNT_MAP_FOURIER = 4,  /* sqrt(2/r) [cos wx, sin wx]: `features` = r, even */
    LNT_MAP_POSITIVE = 5  /* exp(wx - |x|^2/2) / sqrt(r), w in orthogonal blocks */
} lnt_feature_map;

LNT_API const char *lnt_feature_map_name(lnt_feature_map map); /* NULL past the last */

/* What taylor does to q and k first. */
typedef enum lnt_normalize {
    LNT_NORMALIZE_NONE = 0,
    LNT_NORMALIZE_TAYLORSHIFT = 1 /* q <- temperature q/|q|, k <- k/|k| */
} lnt_normalize;

LNT_API const char *lnt_normalize_name(lnt_normalize normalize); /* NULL past the last */

/* Which tokens are the landmarks of cur.  The first three take those of the highest score. */
typedef enum lnt_select {
    LNT_SELECT_SUM = 0,       /* the sum of a row of q and k */
    LNT_SELECT_ABS = 1,       /* the sum of its magnitudes */
    LNT_SELECT_EMBED = 2,     /* its element embed_column */
    LNT_SELECT_STEP = 3,      /* token floor(i n / landmarks) */
    LNT_SELECT_RANDOM = 4,    /* by seed, without replacement */
    LNT_SELECT_MEAN = 5,      /* not tokens: the means of as many segments (Nystroemformer) */
    LNT_SELECT_STEP_MEAN = 6, /* queries by step, the means of segments for keys */
    LNT_SELECT_KMEANS = 7     /* queries by step, for keys the means of those nearest to each step */
} lnt_select;

LNT_API const char *lnt_select_name(lnt_select select); /* NULL past the last */

/* The pseudo-inverse of cur. */
typedef enum lnt_pinv {
    LNT_PINV_ITERATE = 0, /* pinv_iterations of Z <- Z (13 - UZ (15 - UZ (7 - UZ))) / 4 */
    LNT_PINV_RIDGE = 1,   /* (U^T U + r)^-1 U^T, r = ridge |U|_F^2 */
    LNT_PINV_TUNED = 2 /* least squares over the landmark queries and up to 16 between them, whose y is exact
                        * too; the ridge is that, of 1e-6 to 0.1, which serves those best.  On the CPU */
} lnt_pinv;

LNT_API const char *lnt_pinv_name(lnt_pinv pinv); /* NULL past the last */

/* Where its iterations start. */
typedef enum lnt_pinv_init {
    LNT_PINV_NORMS = 0, /* U^T / (|U|_1 |U|_inf): converges for any U */
    LNT_PINV_PAPER1 = 1 /* U^T / |U|_1 */
} lnt_pinv_init;

LNT_API const char *lnt_pinv_init_name(lnt_pinv_init init); /* NULL past the last */

/* From the scores of a row to its weights, in cur. */
typedef enum lnt_activation {
    LNT_ACTIVATION_SOFTMAX = 0,
    LNT_ACTIVATION_LAPLACE = 1 /* (1 + erf((x - sqrt(1/2)) sqrt(2 pi))) / 2, not normalised */
} lnt_activation;

LNT_API const char *lnt_activation_name(lnt_activation activation); /* NULL past the last */

/* How a state of softmax stores keys and values.  What it computes with them is in f32 all the same. */
typedef enum lnt_cache {
    LNT_CACHE_SAME = 0, /* as they are given, in desc.dtype */
    LNT_CACHE_F16 = 1,  /* rounded: half the bytes of f32, and half the time of a step where memory is slow */
    LNT_CACHE_BF16 = 2, /* the same, with the range of f32 and an eighth of the precision of f16 */
    LNT_CACHE_Q8 = 3    /* 34 bytes for 32 numbers of a row, the last of which are filled up with 0: whole
                         * multiples, up to 127, of a step, the least bf16 that reaches the largest of them */
} lnt_cache;

LNT_API const char *lnt_cache_name(lnt_cache cache); /* "f16"; NULL past the last */

typedef struct lnt_linear_options {
    lnt_feature_map feature_map;
    int64_t features; /* random maps: number of features, 0: 2 * dim; drawn by desc.seed */
    double eps;       /* 1e-6, added to the denominator */
    int64_t reserved[4]; /* room for options to come; 0 */
} lnt_linear_options;

/* w(x) = a_0 + a_1 x + ... in place of e^x */
typedef struct lnt_taylor_options {
    int64_t terms;              /* P, 1 to 32; 0: 4, taylorshift: 3.  The highest degree is P - 1 */
    const double *coefficients; /* [terms]; NULL: 1/p! */
    lnt_normalize normalize;    /* taylorshift makes the default scale 1 */
    const double *temperature;  /* [heads], with taylorshift; NULL: 1 */
    int output_norm;            /* 1: y is multiplied by sqrt(n / dim), n the keys it has seen */
    /* One vector taken from every key.  softmax would not change by it; a polynomial does, and is nearer
     * to e^x where scores are nearer to 0.  Not with taylorshift. */
    int center_mean;      /* 1: the mean key of each sequence and kv head.  Not causal, no state */
    const double *center; /* [kv_heads, dim], the same for all; NULL: none */
    int64_t reserved[4]; /* room for options to come; 0 */
} lnt_taylor_options;

/* y = C U^+ (R v); exact where a sequence has no more queries or keys than landmarks */
typedef struct lnt_cur_options {
    int64_t landmarks;    /* 0: 64 */
    lnt_select select;    /* step; random draws by desc.seed */
    int64_t embed_column; /* select embed: 0 to dim - 1 */
    int separate_indices; /* 1: those of q and of k each by their own scores; else the same, by the sum,
                           * where a sequence has as many queries as keys */
    const int64_t *pin;   /* [pins] tokens that are always landmarks, each below the longer of length_q
                           * and length_k; NULL: none.  A shorter sequence leaves out those that it
                           * does not have */
    int64_t pins;
    int copy_rows; /* 1: y of a landmark is exact; 0: it is approximated too */
    lnt_pinv pinv;
    int64_t pinv_iterations; /* 0: 6 */
    lnt_pinv_init pinv_init;
    double ridge; /* 1e-5, at least 1e-12 */
    lnt_activation activation;
    int64_t reserved[4]; /* room for options to come; 0 */
} lnt_cur_options;

/* e^x for keys that are near, the weights of `far` for all others, one denominator.  The options of
 * `far` are desc.taylor's (terms, 0: 3; coefficients; center) or desc.linear's (feature_map, features).
 * linear.eps, taylor.normalize, .output_norm, .center_mean and desc.compensated are not offered. */
typedef struct lnt_hybrid_options {
    int64_t window;    /* the last so many keys are near, the query's own included; 0: 128 */
    int64_t sink;      /* and so are the first so many of a sequence; 0: none */
    lnt_mechanism far; /* LNT_TAYLOR or LNT_LINEAR */
    int64_t reserved[4]; /* room for options to come; 0 */
} lnt_hybrid_options;

/* Which keys a query sees, and what is done to its scores.  Query i stands at key t = i + n_k - n_q, or with
 * align_begin at t = i.  Its score x with key j is cap tanh(s q.k_j / cap) - slope |t - j|, each where it is
 * given, and then lnt_attn_io.mask is added.  A query that sees no key gives zeros.  And how a state keeps
 * what it remembers. */
typedef struct lnt_softmax_options {
    int64_t window;  /* keys j > t - window are seen and, if not causal, only those j < t + window; 0: all.  A
                      * state then remembers so many tokens only: it stops growing */
    double cap;      /* soft cap: scores stay between -cap and cap; 0: none */
    const double *slopes; /* [heads] of ALiBi; NULL: none */
    int align_begin; /* 1: the first query stands at the first key, and there may be more queries than keys;
                      * no state */
    lnt_cache cache; /* how a state stores keys and values; a plan takes no notice of it.  On the CPU, and not
                      * with f64 */
    int64_t reserved[4]; /* room for options to come; 0 */
} lnt_softmax_options;

/* Mechanism and shape.  lnt_attn_desc_init sets every field to its default; then set what differs.
 * The plan keeps what it needs: desc and the arrays in it may go after lnt_plan_create. */
typedef struct lnt_attn_desc {
    size_t size; /* sizeof(lnt_attn_desc), set by lnt_attn_desc_init */
    lnt_mechanism mechanism; /* extents below are at most 2^40 */
    lnt_dtype dtype;       /* of q, k, v, out; sums are f32 or better, f64 for f64 */
    int64_t batch;         /* 1 */
    int64_t heads;         /* 1 */
    int64_t kv_heads;      /* 0: as heads.  Must divide heads; head h reads h*kv_heads/heads */
    int64_t length_q;      /* 0; the longest this plan will see */
    int64_t length_k;      /* -1: as length_q */
    int64_t dim;           /* key width, at least 1 */
    int64_t dim_value;     /* 0: as dim */
    int causal;            /* query i sees keys j <= i + n_k - n_q; see softmax.align_begin too */
    int backward;          /* 1: plan the backward pass too */
    int state;             /* 1: runs will be given a state before or after; linear, taylor,
                              hybrid, which then has no backward */
    int compensated;       /* 1: sums keep what rounding loses, so that the error does not grow with
                              the number of tokens; a state has twice the sums and, as that of taylor
                              always has, room for the keys and values of 16 tokens a kv head.  linear,
                              taylor */
    /* NULL: the planner chooses; else "direct" or "linear/direct".  On a GPU an algorithm has forms, one of
     * which may be asked for after a colon: "taylor/state:tiles". */
    const char *algorithm;
    double scale;          /* all but linear: NaN: 1/sqrt(dim) */
    uint64_t seed;         /* of random maps and of random landmarks */
    const double *decay;   /* [kv_heads], each in (0, 1]; NULL: none.  Causal linear; hybrid: far keys fade,
                            * by one factor of it for each token between them and the window */
    lnt_linear_options linear;
    lnt_taylor_options taylor;
    lnt_cur_options cur;
    lnt_hybrid_options hybrid;
    lnt_softmax_options softmax; /* the other mechanisms refuse these */
} lnt_attn_desc;

/* size: sizeof(lnt_attn_desc) as the caller has it. */
LNT_API LNT_MUST_CHECK lnt_status lnt_attn_desc_init(lnt_attn_desc *desc, size_t size);

/* Coefficients for taylor that come nearest to e^x, in the mean square, where the scores x are normal
 * with deviation sigma (0 to 10) about 0: the same cost, and a smaller error than 1/p! where sigma is
 * right.  coefficients [terms]. */
LNT_API LNT_MUST_CHECK lnt_status lnt_taylor_fit(lnt_ctx *ctx, int64_t terms, double sigma,
                                                 double *coefficients);

/* What happened in runs. */
typedef struct lnt_report {
    size_t size;         /* sizeof(lnt_report), set by the caller */
    int64_t nonpositive; /* rows whose denominator was not above zero (they are 0 if it was 0), or too large
                          * for a number; rows without any key aside */
    /* cur, on the CPU: heads of sequences whose iterations diverged, so that they were done again from the
     * start that is safe (LNT_PINV_NORMS), in forward and in backward */
    int64_t divergent;
    /* ... and the least rank, trace(U U^+), that any of the pseudo-inverses had: at most landmarks, and much
     * less where landmarks are alike.  0: none was needed */
    double rank;
} lnt_report;

/* ---- state --------------------------------------------------------------------------------- */

/* Everything a causal mechanism remembers of the tokens so far, for `batch` sequences at once.
 * linear and taylor: S [D,m] and z [D] per kv head, of fixed size.  hybrid: those of its far keys, and
 * the tokens that are near, of fixed size too.  softmax: the keys and values, growing up to its window. */
typedef struct lnt_state lnt_state;

/* From desc: mechanism, dtype, batch, heads, kv_heads, dim, dim_value and the mechanism's options.
 * length_k is what a growing state has room for at first. */
LNT_API LNT_MUST_CHECK lnt_status lnt_state_create(lnt_ctx *ctx, const lnt_attn_desc *desc,
                                                   lnt_state **out);
LNT_API void lnt_state_destroy(lnt_state *state);

/* k [B,KVH,n,d], v [B,KVH,n,m], q [B,H,n,d], out [B,H,n,m]; any n, 0 included. */

/* None of these tensors may overlap another that is written, or the state's own. */

/* Adds n tokens to every sequence. */
LNT_API LNT_MUST_CHECK lnt_status lnt_state_append(lnt_state *state, const lnt_tensor *k,
                                                   const lnt_tensor *v);
/* Reads with each query, over all tokens so far, standing at the last; remembers nothing of it. */
LNT_API LNT_MUST_CHECK lnt_status lnt_state_query(lnt_state *state, const lnt_tensor *q,
                                                  const lnt_tensor *out);
/* Adds n tokens and reads, token by token: query i sees the tokens up to its own. */
LNT_API LNT_MUST_CHECK lnt_status lnt_state_step(lnt_state *state, const lnt_tensor *q,
                                                 const lnt_tensor *k, const lnt_tensor *v,
                                                 const lnt_tensor *out);
/* Takes tokens that were appended out again; not from a cache, nor hybrid, nor where they decay. */
LNT_API LNT_MUST_CHECK lnt_status lnt_state_remove(lnt_state *state, const lnt_tensor *k,
                                                   const lnt_tensor *v);
/* dst becomes the state of dst's tokens followed by src's; not of hybrid.  They are two states.  What src had
 * kept back goes into its sums, which may change the last digits of what it says next; the same goes for
 * `from` in lnt_state_copy, for a state that is saved and for the states of a plan's run. */
LNT_API LNT_MUST_CHECK lnt_status lnt_state_merge(lnt_state *dst, lnt_state *src);
LNT_API LNT_MUST_CHECK lnt_status lnt_state_fork(const lnt_state *state, lnt_state **out);
/* One sequence of `to` becomes one of `from`: another state of the same kind on the same device, or
 * the same, and the same sequence of it.  Not of a cache. */
LNT_API LNT_MUST_CHECK lnt_status lnt_state_copy(lnt_state *to, int64_t to_sequence,
                                                 lnt_state *from, int64_t from_sequence);
/* On a GPU a state can be a pool: from now on sequence b of the tensors given is its sequence
 * index[b].  index [count] is in the device's memory, stays the caller's and may be written between
 * runs; its entries must differ.  NULL: 0, 1, 2 ... again. */
LNT_API LNT_MUST_CHECK lnt_status lnt_state_select(lnt_state *state, const int64_t *index,
                                                   int64_t count);
/* Forgets the tokens of one sequence; -1: of all. */
LNT_API LNT_MUST_CHECK lnt_status lnt_state_reset(lnt_state *state, int64_t sequence);
/* Makes room, so that the next appends up to `tokens` in all allocate nothing. */
LNT_API LNT_MUST_CHECK lnt_status lnt_state_reserve(lnt_state *state, int64_t tokens);

/* .safetensors; written whole or not at all.  Loading checks that the file fits desc. */
LNT_API LNT_MUST_CHECK lnt_status lnt_state_save(lnt_state *state, const char *path);
LNT_API LNT_MUST_CHECK lnt_status lnt_state_load(lnt_ctx *ctx, const lnt_attn_desc *desc,
                                                 const char *path, lnt_state **out);

/* Of a state on a GPU this waits for the stream; -1 if that fails. */
LNT_API int64_t lnt_state_tokens(const lnt_state *state, int64_t sequence);
/* Bytes of what is remembered, room for growth included, scratch not. */
LNT_API size_t lnt_state_bytes(const lnt_state *state);
/* What happened in the runs since the last report, or since the state was made.  On a GPU it waits. */
LNT_API LNT_MUST_CHECK lnt_status lnt_state_report(lnt_state *state, lnt_report *report);
/* The algorithm that the last append, query, step or remove ran, "taylor/recurrent"; it depends on
 * how many tokens came at once.  NULL: none yet (a cache only copies what is appended).  The name
 * lives as long as the library. */
LNT_API const char *lnt_state_algorithm(const lnt_state *state);

/* The tensors a state is made of.  linear, taylor: "s" [B,KVH,D,m], "z" [B,KVH,1,D]; softmax: "k",
 * "v" [B,KVH,room,d or m], with a window of the last tokens, the oldest first, in the dtype they are
 * stored in (LNT_ERR_UNSUPPORTED with LNT_CACHE_Q8, whose blocks have none); hybrid: "s", "z", and "k", "v"
 * [B,KVH,rows,d or m], where token t is in row t if t < sink, else sink + (t - sink) mod (rows - sink).
 * LNT_ERR_ARGUMENT past the last.  The view is
 * into the state itself; on a GPU, into its memory, where the sums of taylorshift are over keys of
 * length 1, elsewhere over keys times dim^(1/4).  It holds until the next call that changes the state;
 * after that ask for it again: a cache that has grown is elsewhere, and sums that keep the last tokens
 * back for a while take them in when they are asked for. */
LNT_API LNT_MUST_CHECK lnt_status lnt_state_tensor(lnt_state *state, int index, const char **name,
                                                   lnt_tensor *view);

/* ---- plans --------------------------------------------------------------------------------- */

typedef struct lnt_plan lnt_plan;

typedef enum lnt_mask_kind {
    LNT_MASK_ADD = 0, /* numbers, added to the scores; -inf: the key is not seen */
    LNT_MASK_KEEP = 1 /* bytes: 0: the key is not seen; else it is */
} lnt_mask_kind;

/* A view of a mask for softmax, [batch, heads, length of q, length of k]; an extent may also be 1: the mask
 * is the same along it.  Row i and column j are those of the tensors q and k, whatever lengths or packed
 * sequences lie in them.  Strides as in lnt_tensor. */
typedef struct lnt_mask {
    const void *data; /* NULL: no mask */
    lnt_mask_kind kind;
    lnt_dtype dtype;  /* of numbers; any, whatever that of q */
    int64_t shape[4];
    int64_t stride[4]; /* in elements; of bytes, in bytes */
} lnt_mask;

/* Contiguous, [batch, heads, length_q, length_k]. */
LNT_API lnt_mask lnt_mask_contiguous(const void *data, lnt_mask_kind kind, lnt_dtype dtype, int64_t batch,
                                     int64_t heads, int64_t length_q, int64_t length_k);

/* What a run reads and writes.  Zero it, set size, then what is needed.  Inputs stay as they are. */
typedef struct lnt_attn_io {
    size_t size; /* sizeof(lnt_attn_io) */
    lnt_tensor q, k, v, out;
    /* Padded batches: [batch] each, NULL: full.  Output rows past the length become 0.  On a GPU they
     * are not checked. */
    const int64_t *lengths_q, *lengths_k;
    /* Packed sequences: batch is 1, sequence s is rows cu[s] .. cu[s+1]-1; [sequences + 1] each. */
    int64_t sequences;
    const int64_t *cu_seqlens_q, *cu_seqlens_k;
    /* Tokens before the first key (one state sequence per sequence), and those up to the last.
     * Both may be the same state: the bits are those of two.  The plan's desc.state must be 1. */
    lnt_state *state_in, *state_out;
    /* What a forward run of a plan with desc.backward found and backward would have to find again, in memory
     * of the device, aligned as by malloc: info.kept_bytes of the plan, or more.  Forward writes it; backward
     * of the same q, k, v and lengths, with out as forward left it, reads it.  NULL: nothing is kept, and
     * backward finds it again. */
    void *kept;
    size_t kept_bytes;
    lnt_mask mask; /* softmax; it has no gradient */
} lnt_attn_io;

/* dout in; dq, dk, dv out, overwritten.  Backward uses io->out only where io->kept is given.  States: the
 * gradient of the loss with respect to state_out comes in, that with respect to state_in goes out; either
 * may be NULL.  dstate_in is none of the other states of the run. */
typedef struct lnt_attn_grads {
    size_t size; /* sizeof(lnt_attn_grads) */
    lnt_tensor dout, dq, dk, dv;
    lnt_state *dstate_out, *dstate_in;
    /* [heads], overwritten; taylorshift only; NULL: not wanted.  On a GPU backward waits for it. */
    double *dtemperature;
} lnt_attn_grads;

/* An answer before the division, so that answers over disjoint keys can be added:
 * y = num / den; softmax: each relative to e^max.  f32 (f64 for f64). */
typedef struct lnt_partial {
    size_t size;    /* sizeof(lnt_partial) */
    lnt_tensor num; /* [B,H,n,m] */
    lnt_tensor den; /* [B,H,n,1] */
    lnt_tensor max; /* [B,H,n,1]; softmax only, else data NULL */
} lnt_partial;

/* Figures of a state whose width no 64-bit number holds (taylor of many terms) are NaN. */
typedef struct lnt_plan_info {
    size_t size;           /* sizeof(lnt_plan_info), set by the caller */
    const char *algorithm; /* "linear/chunked"; lives as long as the library */
    int64_t chunk;         /* tokens per chunk or tile */
    double flops;          /* useful operations of one forward run, by the formulas of docs/math */
    double flops_backward;
    double flops_direct, flops_state;     /* of the quadratic and of the state form */
    double entries_direct, entries_state; /* numbers held at once by a plain evaluation of each */
    double seconds;                       /* the planner's estimate of a forward run */
    double crossover_speed; /* length from which the state form is the faster one, and cur faster than
                             * softmax; 0: none */
    size_t workspace_bytes; /* scratch the plan holds */
    size_t kept_bytes;      /* of lnt_attn_io.kept; 0: forward leaves backward nothing */
    double state_elements;  /* numbers in the state of one sequence, all kv heads */
    size_t state_bytes;     /* of lnt_state_create(desc); 0 if no size_t holds it */
    double flops_per_token; /* of one step */
    double kv_cache_elements; /* numbers a softmax cache holds at length_k, one sequence */
    const char *form; /* of the algorithm, on a GPU: "pairs"; else ""; lives as long as the library */
} lnt_plan_info;

LNT_API LNT_MUST_CHECK lnt_status lnt_plan_create(lnt_ctx *ctx, const lnt_attn_desc *desc,
                                                  lnt_plan **out);
LNT_API void lnt_plan_destroy(lnt_plan *plan);
LNT_API LNT_MUST_CHECK lnt_status lnt_plan_describe(const lnt_plan *plan, lnt_plan_info *info);
/* What lnt_plan_describe of the plan would tell, without making it: the CPU allocates nothing. */
LNT_API LNT_MUST_CHECK lnt_status lnt_plan_predict(lnt_ctx *ctx, const lnt_attn_desc *desc,
                                                   lnt_plan_info *info);

/* Running a plan allocates nothing.  Tensors may be smaller than planned in batch and length. */
LNT_API LNT_MUST_CHECK lnt_status lnt_plan_forward(lnt_plan *plan, const lnt_attn_io *io);
LNT_API LNT_MUST_CHECK lnt_status lnt_plan_backward(lnt_plan *plan, const lnt_attn_io *io,
                                                    const lnt_attn_grads *grads);
/* As forward, stopping before the division; io->out is not used.  Not cur or hybrid, nor with decay,
 * output_norm, center_mean, lengths_q or packed sequences. */
LNT_API LNT_MUST_CHECK lnt_status lnt_plan_partial(lnt_plan *plan, const lnt_attn_io *io,
                                                   const lnt_partial *partial);
/* into = into + other, for partials of the same queries over disjoint keys.  other may be into itself, all of
 * it: then it is doubled. */
LNT_API LNT_MUST_CHECK lnt_status lnt_partial_merge(lnt_ctx *ctx, const lnt_partial *into,
                                                    const lnt_partial *other);
/* out = num / (den + eps); 0 where that is 0/0.  out may be partial->num itself. */
LNT_API LNT_MUST_CHECK lnt_status lnt_partial_finish(lnt_ctx *ctx, const lnt_partial *partial,
                                                     double eps, const lnt_tensor *out);

/* The same of a plan. */
LNT_API LNT_MUST_CHECK lnt_status lnt_plan_report(lnt_plan *plan, lnt_report *report);
/* The tokens that cur takes as landmarks for head h of sequence s of io, ascending: queries and
 * keys [landmarks], either may be NULL.  Of a mean it is the first token of its segment, or
 * where it started.  *count becomes how many there are; 0: that answer is exact. */
LNT_API LNT_MUST_CHECK lnt_status lnt_plan_landmarks(const lnt_plan *plan, const lnt_attn_io *io,
                                                     int64_t s, int64_t h, int64_t *queries,
                                                     int64_t *keys, int64_t *count);

/* Times every algorithm on this machine (a second or so), so that plans made from this context
 * choose by measurement.  Without it they choose by rates built in, the same on every machine. */
LNT_API LNT_MUST_CHECK lnt_status lnt_ctx_calibrate(lnt_ctx *ctx);
/* Writes what lnt_ctx_calibrate measured, or lnt_calibration_load read, as JSON, whole or not at all.  The
 * file also names the library's version, the instruction set, the threads and the device.  A context without
 * a calibration is refused (LNT_ERR_ARGUMENT). */
LNT_API LNT_MUST_CHECK lnt_status lnt_calibration_save(lnt_ctx *ctx, const char *path);
/* Takes a saved calibration in place of the context's own: plans made after it are chosen as they were after
 * the calibration that was saved.  Set the device first: lnt_ctx_set_device forgets a calibration.  A file of
 * another version, instruction set, number of threads or device is refused (LNT_ERR_UNSUPPORTED), as is one
 * that is no calibration (LNT_ERR_FORMAT); the context then stays as it was. */
LNT_API LNT_MUST_CHECK lnt_status lnt_calibration_load(lnt_ctx *ctx, const char *path);

/* ---- checking and measuring ---------------------------------------------------------------- */

/* Row i of head h of sequence b in double, straight from the formula, by the definition and nothing
 * else: the oracle that every algorithm is held against.  out [m]. */
LNT_API LNT_MUST_CHECK lnt_status lnt_reference_row(lnt_ctx *ctx, const lnt_attn_desc *desc,
                                                    const lnt_attn_io *io, int64_t b, int64_t h,
                                                    int64_t i, double *out);

/* This machine, with the context's threads and ISA: fused multiply-adds in GFLOP/s on registers; on a
 * GPU products of its tensor cores for bf16 and f16. */
LNT_API LNT_MUST_CHECK lnt_status lnt_measure_flops(lnt_ctx *ctx, lnt_dtype dtype, double *gflops);
/* ... and GB/s, read + written, of updating `bytes` of memory in place over and over; on a GPU, of
 * copying half of them to the other half. */
LNT_API LNT_MUST_CHECK lnt_status lnt_measure_bandwidth(lnt_ctx *ctx, size_t bytes,
                                                        double *gbytes_per_second);

/* ---- .npy ---------------------------------------------------------------------------------- */

/* An array in memory, row-major. */
typedef struct lnt_array {
    void *data; /* from the context's allocator: lnt_array_free */
    lnt_dtype dtype;
    int rank; /* 0 .. 4 */
    int64_t shape[4];
} lnt_array;

/* f2, f4, f8 of either byte order, C or Fortran order: what is in the file, converted to row-major
 * native.  Anything else is refused with a sentence that names the file. */
LNT_API LNT_MUST_CHECK lnt_status lnt_npy_read(lnt_ctx *ctx, const char *path, lnt_array *out);
/* A mask for lnt_attn_io: also b1, the booleans, which become 0 where they are true and -inf where they are
 * not, in f16. */
LNT_API LNT_MUST_CHECK lnt_status lnt_npy_read_mask(lnt_ctx *ctx, const char *path, lnt_array *out);
/* Written whole or not at all.  bf16, which .npy does not know, is written as f4. */
LNT_API LNT_MUST_CHECK lnt_status lnt_npy_write(lnt_ctx *ctx, const char *path,
                                                const lnt_array *array);
LNT_API void lnt_array_free(lnt_ctx *ctx, lnt_array *array);

/* Tokens, i4 or i8 in the file, row-major; lnt_tokens_release gives them back. */
LNT_API LNT_MUST_CHECK lnt_status lnt_npy_read_tokens(lnt_ctx *ctx, const char *path, int32_t **tokens,
                                                      int *rank, int64_t shape[4]);
LNT_API void lnt_tokens_release(lnt_ctx *ctx, int32_t *tokens, int rank, const int64_t shape[4]);

#ifdef __cplusplus
}
#endif

#endif
