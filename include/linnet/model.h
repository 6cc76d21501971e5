/* linnet/model.h - transformers over any mechanism: files, generation at constant cost, training:
 * the header of liblinnet-model.
 *
 * A model is a causal decoder or a bidirectional encoder, described by a JSON
 * config and kept in one .safetensors file with its config and tokenizer.  Sessions are destroyed before
 * their model, models and trainers before their context. */
#ifndef LINNET_MODEL_H
#define LINNET_MODEL_H

#include "../linnet.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- models -------------------------------------------------------------------------------- */

typedef struct lnt_model lnt_model;

/* path: a .safetensors of Linnet's or the directory of a run; or, of models that others trained, a GGUF
 * file, a directory as Hugging Face lays it out (config.json, tokenizer.json, .safetensors), or llama2.c's
 * .bin with its tokenizer beside it (tokenizer.bin, or the only tok*.bin), or their folder.  The weights of
 * the latter stay in the numbers that the file has them in. */
LNT_API LNT_MUST_CHECK lnt_status lnt_model_load(lnt_ctx *ctx, const char *path, lnt_model **out);

typedef struct lnt_model_options {
    size_t size; /* sizeof(lnt_model_options) */
    /* In place of that of every layer, without training: its mechanism, scale (NaN: the model's) and
     * options.  Extents, causal, dtype, algorithm, backward and state are not looked at.  Its arrays are
     * copied; center, center_mean and temperature are refused.  decay has as many numbers as the model has
     * kv heads.  NULL: the model's own. */
    const lnt_attn_desc *attention;
    /* Called now and then by the thread that loads, share 0 to 1; NULL: not. */
    void (*progress)(void *user, double share);
    void *user;
    /* Of llama2.c's models, whose files have none: the file of the tokenizer; NULL: the one beside.  Refused
     * for others. */
    const char *tokenizer;
} lnt_model_options;

LNT_API LNT_MUST_CHECK lnt_status lnt_model_load_with(lnt_ctx *ctx, const char *path,
                                                      const lnt_model_options *options, lnt_model **out);
/* dtype: of the weights in the file, LNT_F32 or LNT_BF16, which halves it and rounds them.  Written whole or
 * not at all, as by lnt_model_save_with. */
LNT_API LNT_MUST_CHECK lnt_status lnt_model_save(const lnt_model *model, const char *path,
                                                 lnt_dtype dtype);

/* What becomes of the matrices in a file. */
typedef enum lnt_weights {
    LNT_WEIGHTS_KEEP = 0, /* as the model has them, packed ones too: the file answers to the same bits */
    LNT_WEIGHTS_F32 = 1,
    LNT_WEIGHTS_BF16 = 2,
    LNT_WEIGHTS_Q8 = 3, /* 8.5 bits a number: blocks of 32 with a scale, GGUF's q8_0 */
    LNT_WEIGHTS_Q4 = 4  /* 5 bits: with a minimum too, q4_1; those that read or write tokens by 8.5 */
} lnt_weights;

typedef struct lnt_storage_share {
    const char *name; /* "q4_1", "f32" */
    int64_t bytes;
} lnt_storage_share;

enum { LNT_SAVE_STORAGES = 16 };

/* What was saved. */
typedef struct lnt_save_report {
    size_t size; /* sizeof(lnt_save_report), set by the caller */
    int64_t file_bytes;
    int64_t matrices, turned; /* how many there are, and how many have other numbers than before */
    /* Of those that were turned: |new - old| / |old|, of all together, and the largest of one. */
    double error, worst_error;
    char worst[64];       /* its name; "" if nothing has changed */
    int64_t storages;     /* of all parameters, the largest first: */
    lnt_storage_share storage[LNT_SAVE_STORAGES]; /* the names are constant */
} lnt_save_report;

typedef struct lnt_save_options {
    size_t size; /* sizeof(lnt_save_options) */
    lnt_weights weights;
    /* Called now and then by the thread that saves, share 0 to 1; NULL: not. */
    void (*progress)(void *user, double share);
    void *user;
    lnt_save_report *report; /* filled in where it was saved; NULL: not */
} lnt_save_options;

/* Everything that lnt_model_load needs, in one .safetensors, whatever the model came from: config, tokenizer,
 * chat template, weights.  Written whole or not at all; memory beside the model's is a few megabytes.  A
 * matrix whose rows are no whole blocks stays as it is.  Models whose matrices are in blocks do not learn. */
LNT_API LNT_MUST_CHECK lnt_status lnt_model_save_with(const lnt_model *model, const char *path,
                                                      const lnt_save_options *options);
LNT_API void lnt_model_destroy(lnt_model *model);

typedef struct lnt_model_info {
    size_t size;         /* sizeof(lnt_model_info), set by the caller */
    const char *task;    /* it was trained on; these texts live as long as the model */
    const char *config;  /* JSON */
    const char *mechanism;
    const char *tokenizer; /* "none", "bytes", "bpe"; "sentencepiece", "unigram", "wordpiece" */
    int generates;         /* 1: a decoder, for the sessions below */
    int64_t parameters, layers, inputs, outputs;
    int64_t length; /* of the sequences it was trained on; of an encoder, what it reads at the most */
    /* Of a model that others trained; "" of our own. */
    const char *architecture; /* "llama", "BertModel" */
    const char *storage;      /* of most of its matrices: "q4_1", "f32" */
    int64_t weight_bytes;     /* that its parameters take in memory */
    int embeds;               /* 1: it gives a text a vector, for lnt_model_embed */
    int chats;                /* 1: it has a chat template of its own */
    int64_t image;            /* the side, in pixels, of the square images that it reads; 0: it reads none */
    int64_t channels;         /* of a pixel */
    int64_t dim;              /* the width of its tokens, and of the vectors of images */
    int classifies, reserved; /* 1: it says a class of `outputs` for a whole text or image */
    int64_t positions;        /* learned ones: no sequence may be longer; 0: it has none */
} lnt_model_info;

LNT_API LNT_MUST_CHECK lnt_status lnt_model_describe(const lnt_model *model, lnt_model_info *info);

typedef struct lnt_model_request {
    size_t size;        /* sizeof(lnt_model_request) */
    const char *task;   /* what goes in and out */
    const char *text;   /* {"model":{},"task":{}} in place of what the task's recipe says; NULL: that */
    const char *config; /* path of a JSON file that goes over it, as for training; NULL: none */
    uint64_t seed;
} lnt_model_request;

/* A model as training begins with it, its weights at random, without data: images are taken to have
 * 28 x 28 pixels and text as many tokens as its tokenizer may have.  Byte pairs are learned from data:
 * with "bpe" the model has no tokenizer, and neither encodes nor decodes. */
LNT_API LNT_MUST_CHECK lnt_status lnt_model_create(lnt_ctx *ctx, const lnt_model_request *request,
                                                   lnt_model **out);
/* The same weights under another mechanism, with those of the options that it takes; under its own a
 * copy. */
LNT_API LNT_MUST_CHECK lnt_status lnt_model_convert(const lnt_model *model, const char *mechanism,
                                                    lnt_model **out);

/* tokens [batch,length], each below inputs; lengths [batch], NULL: full.  logits: [batch,length,
 * outputs] where the model speaks at every token, [batch,outputs] where it classifies, or gives one vector
 * for a sequence.  A call that is
 * larger than those before makes room, and plans; a smaller one runs by that plan, and may differ in the
 * last digits from what it gave before. */
LNT_API LNT_MUST_CHECK lnt_status lnt_model_forward(lnt_model *model, const int32_t *tokens,
                                                    int64_t batch, int64_t length,
                                                    const int64_t *lengths, float *logits);

/* Called after the attention of each layer of lnt_model_forward and lnt_model_embed: problem has the heads,
 * the scale and the options of that attention, io its tensors, in f32.  What the function writes to io->out
 * goes on in its place.  Where it does not return LNT_OK, the pass ends with that status.  Gated attention
 * (MEGA) is not watched. */
typedef lnt_status lnt_watch(void *user, int64_t layer, const lnt_attn_desc *problem, const lnt_attn_io *io);
/* From now on; NULL: no more.  It may use the model's context, but not the model. */
LNT_API void lnt_model_watch(lnt_model *model, lnt_watch *watch, void *user);

/* Text to tokens [bytes at most], and a token to its bytes, which live as long as the model. */
LNT_API LNT_MUST_CHECK lnt_status lnt_model_encode(const lnt_model *model, const char *text,
                                                   size_t bytes, int32_t *tokens, size_t *count);
LNT_API LNT_MUST_CHECK lnt_status lnt_model_decode(const lnt_model *model, int32_t token,
                                                   const char **text, size_t *bytes);

/* The same for tokenizers of any kind.  At most `room` tokens are written; *count becomes how many there
 * are. */
typedef enum lnt_text_flags {
    LNT_TEXT_PLAIN = 0,
    LNT_TEXT_FRAMED = 1,   /* with the tokens that begin and end a text, as the model was trained */
    LNT_TEXT_VERBATIM = 2, /* a special token that is spelled in the text is text */
    LNT_TEXT_CUT = 4       /* where there is no room for all: the first, and those that end a text */
} lnt_text_flags;

LNT_API LNT_MUST_CHECK lnt_status lnt_model_tokenize(const lnt_model *model, const char *text, size_t bytes,
                                                     unsigned flags, int32_t *tokens, size_t room,
                                                     size_t *count);
/* 1: with this token the model ends what it says. */
LNT_API int lnt_model_ends(const lnt_model *model, int32_t token);

/* Tokens to text in pieces, as they come.  No piece ends within a character: what may still become one is
 * held back until it is, and what cannot is U+FFFD.  Tokens that frame a text have none. */
typedef struct lnt_stream lnt_stream;

LNT_API LNT_MUST_CHECK lnt_status lnt_stream_create(const lnt_model *model, lnt_stream **out);
LNT_API void lnt_stream_destroy(lnt_stream *stream);
/* *text [*bytes] lives until the next call; it may be empty. */
LNT_API LNT_MUST_CHECK lnt_status lnt_stream_put(lnt_stream *stream, int32_t token, const char **text,
                                                 size_t *bytes);
/* What was held back; then it begins anew. */
LNT_API LNT_MUST_CHECK lnt_status lnt_stream_end(lnt_stream *stream, const char **text, size_t *bytes);

typedef struct lnt_message {
    const char *role; /* "system", "user", "assistant" */
    const char *content;
} lnt_message;

/* A conversation as the model was trained to read it, by its own chat template or, where it has none, by the
 * form whose special tokens it has; `answer` 1: up to where its answer begins.  *text ends in NUL;
 * lnt_text_free releases it. */
LNT_API LNT_MUST_CHECK lnt_status lnt_model_chat(const lnt_model *model, const lnt_message *messages,
                                                 size_t count, int answer, char **text, size_t *bytes);
LNT_API void lnt_text_free(const lnt_model *model, char *text, size_t bytes);
/* The tokens of that text from byte `from` on, for a session.  The template writes special tokens; a special
 * token that a message spells is text.  At most `room` are written; *token_count becomes how many there
 * are. */
LNT_API LNT_MUST_CHECK lnt_status lnt_model_chat_tokenize(const lnt_model *model, const lnt_message *messages,
                                                          size_t count, int answer, size_t from,
                                                          int32_t *tokens, size_t room, size_t *token_count);

/* The vectors of texts: tokens [batch,length], each text's first lengths[b] of them; vectors
 * [batch,outputs]. */
LNT_API LNT_MUST_CHECK lnt_status lnt_model_embed(lnt_model *model, const int32_t *tokens, int64_t batch,
                                                  int64_t length, const int64_t *lengths, float *vectors);

/* ---- images -------------------------------------------------------------------------------- */

/* A PNG or JPEG file as the model reads it: resized, cut and normalised as its own files say; pixels
 * [channels,image,image].  Each kind of file needs its library, with which this one was built or not. */
LNT_API LNT_MUST_CHECK lnt_status lnt_model_read_image(const lnt_model *model, const char *path,
                                                       float *pixels);
/* pixels [batch,channels,image,image].  logits [batch,outputs], of one that classifies; vectors
 * [batch,dim]: what stands for an image, its first token, or what the model's pooler makes of that.  Either
 * may be NULL. */
LNT_API LNT_MUST_CHECK lnt_status lnt_model_forward_images(lnt_model *model, const float *pixels,
                                                           int64_t batch, float *logits, float *vectors);
/* The name of a class, UTF-8; NULL where the model's files name none.  It lives as long as the model. */
LNT_API const char *lnt_model_label(const lnt_model *model, int64_t index);

/* ---- generating ---------------------------------------------------------------------------- */

/* What a decoder remembers of `batch` sequences that are being written: a state for each layer, of
 * fixed size unless the mechanism is softmax. */
typedef struct lnt_session lnt_session;

LNT_API LNT_MUST_CHECK lnt_status lnt_session_create(const lnt_model *model, int64_t batch,
                                                     lnt_session **out);

typedef struct lnt_session_options {
    size_t size; /* sizeof(lnt_session_options) */
    /* How layers of softmax store keys and values; sums stay in f32, and other layers have no cache.
     * LNT_CACHE_SAME, the default, is f32 and exact; f16 takes half the bytes, LNT_CACHE_Q8 little more
     * than a quarter.  A model without softmax takes LNT_CACHE_SAME alone. */
    lnt_cache cache;
    int reserved; /* 0 */
} lnt_session_options;

/* options NULL: the defaults, as above. */
LNT_API LNT_MUST_CHECK lnt_status lnt_session_create_with(const lnt_model *model, int64_t batch,
                                                          const lnt_session_options *options,
                                                          lnt_session **out);
LNT_API void lnt_session_destroy(lnt_session *session);

/* tokens [batch,count] follow what came before; long inputs are taken by chunks.  A feed that fails
 * leaves the session as it was. */
LNT_API LNT_MUST_CHECK lnt_status lnt_session_forward(lnt_session *session, const int32_t *tokens,
                                                   int64_t count);
/* The same, with what the model says of the token after each of the last `last` of them, 1 to count: logits
 * [batch,last,outputs]. */
LNT_API LNT_MUST_CHECK lnt_status lnt_session_forward_all(lnt_session *session, const int32_t *tokens,
                                                          int64_t count, int64_t last, float *logits);
/* The same, with how little the model expected each: nats [batch,count], -log of the probability that a
 * token has after all before it.  0 for the first of all; infinite for what the model cannot say.  Memory
 * does not grow with count times outputs. */
LNT_API LNT_MUST_CHECK lnt_status lnt_session_score(lnt_session *session, const int32_t *tokens,
                                                    int64_t count, double *nats);
/* Of the next token, [batch,outputs]; NULL before the first feed. */
LNT_API const float *lnt_session_logits(const lnt_session *session);

/* In this order: the penalty changes the logits, which temperature divides; then top_k, top_p and min_p each
 * restrict what those before have left.  top_p counts the probability of what top_k has left. */
typedef struct lnt_sampling {
    size_t size;        /* sizeof(lnt_sampling), set by the caller */
    double temperature; /* 0: the likeliest, after the penalty; the others do not matter then */
    int64_t top_k;      /* draw among the k likeliest; 0: all */
    double top_p;       /* ... among the likeliest that together have p; 1: all */
    uint64_t seed;      /* the draw depends on it, the sequence and its length alone */
    double min_p;       /* ... among those at least p times as likely as the likeliest; 0: all */
    /* Logits of recent tokens are divided by it if above 0, else multiplied; 0 or 1: none; 0.01 to 100. */
    double repetition_penalty;
    /* Of the last how many that the session was fed, or its file has; up to 1024, 0: 256. */
    int64_t penalty_tokens;
} lnt_sampling;

/* Draws the next token of each sequence, tokens [batch]; feed them to go on. */
LNT_API LNT_MUST_CHECK lnt_status lnt_session_sample(const lnt_session *session,
                                                     const lnt_sampling *sampling, int32_t *tokens);

/* The same draw from logits [batch,outputs] of lnt_model_forward, as of sequences of `length` tokens;
 * without a penalty. */
LNT_API LNT_MUST_CHECK lnt_status lnt_model_sample(const lnt_model *model, const float *logits,
                                                   int64_t batch, int64_t length,
                                                   const lnt_sampling *sampling, int32_t *tokens);

LNT_API int64_t lnt_session_tokens(const lnt_session *session);
/* How many more it can be fed: where positions are learned, those that are left of them. */
LNT_API int64_t lnt_session_room(const lnt_session *session);
LNT_API int64_t lnt_session_batch(const lnt_session *session); /* sequences, also of one that was loaded */
LNT_API size_t lnt_session_bytes(const lnt_session *session); /* what is remembered */
LNT_API lnt_cache lnt_session_cache(const lnt_session *session); /* how it stores keys and values */
/* What a softmax cache of the same model, stored that way, would hold by now. */
LNT_API double lnt_session_cache_bytes(const lnt_session *session);

/* A text of the caller's that goes with a session, into its file and out of it; "" where none was set.
 * UTF-8, copied; NULL takes it away.  What lnt_session_note gives lives until the next is set. */
LNT_API LNT_MUST_CHECK lnt_status lnt_session_set_note(lnt_session *session, const char *text);
LNT_API const char *lnt_session_note(const lnt_session *session);

/* To go on another day; .safetensors, written whole or not at all.  What a state has kept back is
 * summed first: a session that goes on after it was saved says what the one that is loaded does, to the
 * bit, and up to the last digits what it had said without.  A cache is loaded as it was stored, whose way
 * lnt_session_cache then says. */
LNT_API LNT_MUST_CHECK lnt_status lnt_session_save(lnt_session *session, const char *path);
LNT_API LNT_MUST_CHECK lnt_status lnt_session_load(const lnt_model *model, const char *path,
                                                   lnt_session **out);

/* What a decoder should have written: the targets of `count` test examples of its task from example
 * `first` on, over data; tokens [count,length], -1 where nothing is asked. */
LNT_API LNT_MUST_CHECK lnt_status lnt_model_examples(const lnt_model *model, const char *data,
                                                     int64_t first, int64_t count, int32_t *tokens);

/* ---- training ------------------------------------------------------------------------------ */

/* The tasks: "copy", "text" ...; NULL past the last.  The summary is one line; data is what a task
 * reads, NULL: nothing. */
LNT_API const char *lnt_task_name(int index);
LNT_API const char *lnt_task_summary(int index);
LNT_API const char *lnt_task_data(int index);

typedef struct lnt_trainer lnt_trainer;

typedef struct lnt_train_request {
    size_t size; /* sizeof(lnt_train_request) */
    const char *task;
    const char *config;    /* path of a JSON file {"model":{},"train":{},"task":{}}; NULL: the task's
                              own recipe */
    const char *data;      /* path, for tasks that read some; else NULL */
    const char *mechanism; /* in place of the config's; NULL: that */
    int64_t steps;         /* 0: the config's */
    const uint64_t *seed;  /* NULL: the config's */
} lnt_train_request;

LNT_API LNT_MUST_CHECK lnt_status lnt_trainer_create(lnt_ctx *ctx, const lnt_train_request *request,
                                                     lnt_trainer **out);
/* Goes on from a checkpoint, to the same bits as if nothing had come between; other data, wherever it
 * lies, is refused.  steps 0: as many as were planned. */
LNT_API LNT_MUST_CHECK lnt_status lnt_trainer_resume(lnt_ctx *ctx, const char *checkpoint,
                                                     const char *data, int64_t steps,
                                                     lnt_trainer **out);
/* That a run is as the request has it, whose size, if not more, is set: what it names and the run has
 * otherwise is refused with a sentence, a config by the first key that differs.  data is not looked at. */
LNT_API LNT_MUST_CHECK lnt_status lnt_trainer_expect(const lnt_trainer *trainer,
                                                     const lnt_train_request *request);
LNT_API void lnt_trainer_destroy(lnt_trainer *trainer);

/* Everything lnt_trainer_resume needs; .safetensors, written whole or not at all. */
LNT_API LNT_MUST_CHECK lnt_status lnt_trainer_save(const lnt_trainer *trainer, const char *path);
/* The model as it is now; it stays the trainer's. */
LNT_API const lnt_model *lnt_trainer_model(const lnt_trainer *trainer);
/* What lnt_model_save writes it as: LNT_F32 or LNT_BF16, as the config says; checkpoints remember it. */
LNT_API lnt_dtype lnt_trainer_dtype(const lnt_trainer *trainer);
LNT_API LNT_MUST_CHECK lnt_status lnt_trainer_set_dtype(lnt_trainer *trainer, lnt_dtype dtype);

typedef struct lnt_trainer_info {
    size_t size; /* sizeof(lnt_trainer_info), set by the caller */
    const char *task;
    int64_t step, steps; /* done, and in all */
    int64_t eval_every, eval_batches, save_every; /* as the config says; 0: at the end only */
    int64_t parameters;
    int tests, reserved; /* there is something to test on */
} lnt_trainer_info;

LNT_API LNT_MUST_CHECK lnt_status lnt_trainer_describe(const lnt_trainer *trainer,
                                                       lnt_trainer_info *info);

/* NaN where it does not apply. */
typedef struct lnt_score_report {
    size_t size;       /* sizeof(lnt_score_report), set by the caller */
    double loss;       /* nats, the mean over targets */
    double accuracy;   /* how often the likeliest was right, 0 to 1 */
    double bits;       /* for each unit */
    double error_rate; /* edits to what was said, for each word of it */
    int64_t targets;
    const char *unit; /* "byte", "dim", "token"; lives as long as the library */
} lnt_score_report;

typedef struct lnt_step_report {
    size_t size; /* sizeof(lnt_step_report), set by the caller */
    int64_t step, tokens; /* tokens: of its sequences, without padding */
    double rate;     /* of learning */
    double gradient; /* its length, before it was cut */
    double loss, accuracy, bits, error_rate; /* as in lnt_score_report, over the batch of this step */
    int64_t targets;
} lnt_step_report;

LNT_API LNT_MUST_CHECK lnt_status lnt_trainer_step(lnt_trainer *trainer, lnt_step_report *report);
/* On examples kept from training; batches 0: all there are. */
LNT_API LNT_MUST_CHECK lnt_status lnt_trainer_evaluate(const lnt_trainer *trainer, int64_t batches,
                                                       lnt_score_report *report);

typedef struct lnt_eval_request {
    size_t size;      /* sizeof(lnt_eval_request) */
    const char *data; /* as in training, or other data of the kind */
    int64_t batch;    /* 0: 16 */
    int64_t batches;  /* 0: all there are, or 20 where the task makes examples without end */
    int held_out;     /* text: 1: only the part that training leaves out; 0: all */
    uint64_t seed;    /* of examples that are made */
} lnt_eval_request;

LNT_API LNT_MUST_CHECK lnt_status lnt_model_evaluate(const lnt_model *model,
                                                     const lnt_eval_request *request,
                                                     lnt_score_report *report);

#ifdef __cplusplus
}
#endif
#endif
