/* model/tokenizer/codec.h - text to tokens and back, by whichever tokenizer a model was trained with.
 *
 * A codec is byte-pair encoding (of bytes, or SentencePiece's), unigram, WordPiece, or one of Linnet's own
 * (model/tokenizer.h).  Text goes through it as in Hugging Face's `tokenizers`: added tokens are found, what
 * is between them is normalised, cut into words, and encoded; then come the tokens that begin and end a text.
 *
 * Text that is not UTF-8 is read as if each broken sequence were U+FFFD, as Rust and Python do when they
 * decode with replacement.  A codec is unchanged by its use: any number of threads may encode and decode with
 * one, each under a context of its own. */
#ifndef LNT_MODEL_TOKENIZER_CODEC_H
#define LNT_MODEL_TOKENIZER_CODEC_H

#include "model/tokenizer.h"

typedef struct lnt_codec lnt_codec;

/* Bytes that need not end in NUL, and may hold it; text may be NULL where bytes is 0. */
typedef struct lnt_text {
    const char *text;
    size_t bytes;
} lnt_text;

/* ---- where a codec comes from ---------------------------------------------------------------------- */

/* Flags that a file may leave out. */
typedef enum lnt_said {
    LNT_UNSAID = 0, /* what is usual for the model */
    LNT_SAID_NO,
    LNT_SAID_YES
} lnt_said;

enum { LNT_NO_TOKEN = -1 };

/* A tokenizer as the metadata of a GGUF file has it (tokenizer.ggml.*).  Nothing in it is needed once the
 * codec is open. */
typedef struct lnt_vocabulary {
    const char *path;      /* of the file, for sentences */
    lnt_text model;        /* "gpt2", "llama", "bert", "t5" */
    lnt_text pre;          /* "llama-bpe", "qwen2", "smollm" ...; empty: "default" */
    size_t count;          /* of tokens */
    const lnt_text *token; /* [count] */
    const float *score;    /* [count], or NULL */
    const int32_t *type;   /* [count], or NULL: all normal */
    size_t merges;
    const lnt_text *merge; /* [merges], "left right" */
    lnt_text charsmap;     /* precompiled_charsmap */
    int64_t bos, eos, unknown, separator, padding, classify, mask; /* LNT_NO_TOKEN: not said */
    lnt_said add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
} lnt_vocabulary;

/* One sentence for what is broken or not known (LNT_ERR_FORMAT, LNT_ERR_UNSUPPORTED).  On failure *out is
 * NULL. */
lnt_status lnt_codec_open_vocabulary(lnt_ctx *ctx, const lnt_vocabulary *from, lnt_codec **out);
/* tokenizer.json in a directory; tokenizer_config.json and special_tokens_map.json, where they are, say which
 * tokens are bos, eos and the like. */
lnt_status lnt_codec_open_directory(lnt_ctx *ctx, const char *directory, lnt_codec **out);
/* The bytes of a tokenizer.json; path is for sentences. */
lnt_status lnt_codec_open_json(lnt_ctx *ctx, const char *path, const char *json, size_t bytes,
                               lnt_codec **out);
/* The file of llama2.c: an int of no use here, then a float score, an int of bytes, and these, for each of
 * `count` tokens. */
lnt_status lnt_codec_open_llama2c(lnt_ctx *ctx, const char *path, size_t count, lnt_codec **out);
/* The bytes of one; path is for sentences.  count LNT_ALL_TOKENS: as many as there are. */
lnt_status lnt_codec_parse_llama2c(lnt_ctx *ctx, const char *path, const char *data, size_t bytes,
                                   size_t count, lnt_codec **out);
#define LNT_ALL_TOKENS SIZE_MAX
/* A copy of one of Linnet's own; kind bytes or bpe. */
lnt_status lnt_codec_open_own(lnt_ctx *ctx, const lnt_tokenizer *own, lnt_codec **out);
void lnt_codec_close(lnt_codec *codec); /* NULL is fine */

/* The file that a codec was opened from, for a model that is saved with it: "tokenizer.json",
 * "tokenizer.gguf", the keys tokenizer.ggml.* of a GGUF file in one of their own, or "tokenizer.bin", that of
 * llama2.c.  Without name: none. */
typedef struct lnt_codec_file {
    const char *name; /* constant */
    char *data;
    size_t bytes;
} lnt_codec_file;

#define LNT_TOKENIZER_JSON "tokenizer.json"
#define LNT_TOKENIZER_GGUF "tokenizer.gguf"
#define LNT_TOKENIZER_LLAMA2C "tokenizer.bin"

static inline void lnt_codec_file_free(lnt_ctx *ctx, lnt_codec_file *file)
{
    lnt_release(ctx, file->data, file->bytes);
    *file = (lnt_codec_file){ 0 };
}

/* ---- what it knows --------------------------------------------------------------------------------- */

typedef enum lnt_codec_role {
    LNT_ROLE_BOS, LNT_ROLE_EOS, LNT_ROLE_UNKNOWN, LNT_ROLE_SEPARATOR, LNT_ROLE_PADDING, LNT_ROLE_CLASSIFY,
    LNT_ROLE_MASK, LNT_ROLES
} lnt_codec_role;

/* "bpe", "sentencepiece", "unigram", "wordpiece", "bytes" */
const char *lnt_codec_kind_name(const lnt_codec *codec);
/* One more than the highest token; a number below it may have no token. */
size_t lnt_codec_count(const lnt_codec *codec);
int32_t lnt_codec_role_token(const lnt_codec *codec, lnt_codec_role role); /* or LNT_NO_TOKEN */
/* Before it is used; what is no token of it changes nothing. */
void lnt_codec_set_role(lnt_codec *codec, lnt_codec_role role, int64_t token);
/* The token spelled so, as a vocabulary has it ("<|im_end|>", "the"), or LNT_NO_TOKEN. */
int32_t lnt_codec_find(const lnt_codec *codec, const char *text, size_t bytes);
/* Its spelling in the vocabulary; of a byte-level token its bytes.  Empty where there is none. */
lnt_text lnt_codec_spelling(const lnt_codec *codec, int32_t token);
bool lnt_codec_is_special(const lnt_codec *codec, int32_t token); /* begins, ends or frames: is no text */

/* ---- text to tokens -------------------------------------------------------------------------------- */

/* Begins as { 0 }, and grows as it must; lnt_tokens_free releases it. */
typedef struct lnt_tokens {
    int32_t *token; /* [count] */
    size_t count, room;
} lnt_tokens;

typedef enum lnt_encoding {
    LNT_ENCODE_PLAIN = 0,
    LNT_ENCODE_FRAMED = 1,  /* with the tokens that begin and end a text (BOS, EOS, [CLS], [SEP]) */
    LNT_ENCODE_VERBATIM = 2 /* a special token that is spelled in the text is text */
} lnt_encoding;

/* Appends to out.  flags: of lnt_encoding.  On failure out holds what it did before. */
lnt_status lnt_codec_encode(lnt_ctx *ctx, const lnt_codec *codec, const char *text, size_t bytes,
                            unsigned flags, lnt_tokens *out);
/* The same of a text in which some special tokens are quoted: none holds the byte at any of `bar` [bars],
 * which ascend, are below `bytes`, and each begin a character. */
lnt_status lnt_codec_encode_barred(lnt_ctx *ctx, const lnt_codec *codec, const char *text, size_t bytes,
                                   unsigned flags, const size_t *bar, size_t bars, lnt_tokens *out);
/* The first place from `from` on where a special token is spelled; `bytes`: there is none. */
size_t lnt_codec_next_special(const lnt_codec *codec, const char *text, size_t bytes, size_t from);
void lnt_tokens_free(lnt_ctx *ctx, lnt_tokens *tokens);

/* How many tokens FRAMED puts before a text, and after: for who cuts it to a length. */
void lnt_codec_frame(const lnt_codec *codec, size_t *before, size_t *after);

/* ---- tokens to text -------------------------------------------------------------------------------- */

/* Text in pieces, as tokens come.  No piece ends within a character: what may still become one is held back,
 * and what cannot is U+FFFD. */
typedef struct lnt_detokenizer lnt_detokenizer;

lnt_status lnt_detokenizer_open(lnt_ctx *ctx, const lnt_codec *codec, bool skip_special,
                                lnt_detokenizer **out);
/* *text points into the detokenizer until its next call, and ends in NUL; it may be empty. */
lnt_status lnt_detokenizer_put(lnt_detokenizer *d, int32_t token, lnt_text *text);
/* What was held back; then it begins anew. */
lnt_status lnt_detokenizer_end(lnt_detokenizer *d, lnt_text *text);
void lnt_detokenizer_close(lnt_detokenizer *d); /* NULL is fine */

/* All at once; text ends in NUL, and lnt_release(ctx, text, bytes + 1) releases it. */
lnt_status lnt_codec_decode(lnt_ctx *ctx, const lnt_codec *codec, const int32_t *tokens, size_t count,
                            bool skip_special, char **text, size_t *bytes);

#endif
