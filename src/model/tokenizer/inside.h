/* model/tokenizer/inside.h - the inside of a codec, and the models of tokenizers behind one table. */
#ifndef LNT_MODEL_TOKENIZER_INSIDE_H
#define LNT_MODEL_TOKENIZER_INSIDE_H

#include "model/tokenizer/added.h"
#include "model/tokenizer/detokenizer.h"
#include "model/tokenizer/normalizer.h"
#include "model/tokenizer/vocab.h"
#include "model/tokenizer/words.h"

/* ---- models -------------------------------------------------------------------------------------- */

typedef struct lnt_scratch lnt_scratch; /* of one encoding */

/* A model: how a word becomes tokens. */
typedef struct lnt_codec_kind {
    const char *name;
    /* Appends to out.  word: UTF-8, not empty. */
    lnt_status (*encode)(lnt_ctx *ctx, const lnt_codec *codec, const char *word, size_t bytes,
                         lnt_scratch *scratch, lnt_tokens *out);
} lnt_codec_kind;

extern const lnt_codec_kind lnt_codec_bpe, lnt_codec_sentencepiece, lnt_codec_unigram, lnt_codec_wordpiece,
    lnt_codec_own;

typedef struct lnt_pair {
    int32_t left, right; /* left LNT_NO_TOKEN: a free slot */
    uint32_t rank;
    int32_t token;
} lnt_pair;

typedef struct lnt_bpe {
    bool byte_level;    /* the vocabulary spells bytes, which are where a word begins */
    bool ignore_merges; /* a word that is a token is that token */
    bool byte_fallback, fuse_unknown;
    lnt_text prefix, suffix; /* of a character within a word, of its last */
    lnt_text mark;           /* begins words: no token has it behind another character; or empty */
    int32_t letter[256];     /* byte level: the token of each byte, or LNT_NO_TOKEN */
    lnt_pair *pair;          /* [pairs], a hash table */
    size_t pairs;
} lnt_bpe;

/* Room for merges below count.  Of a merge the halves are spellings in codec->vocab. */
lnt_status lnt_bpe_open(lnt_codec *codec, size_t count);
lnt_status lnt_bpe_merge(lnt_codec *codec, size_t rank, lnt_text left, lnt_text right);
/* "left right", as a file has it. */
lnt_status lnt_bpe_merge_line(lnt_codec *codec, size_t rank, lnt_text line);
/* After the last: fills letter[], and refuses a vocabulary that lacks a byte of ASCII that can be seen. */
lnt_status lnt_bpe_close_letters(lnt_codec *codec);

/* Of characters, with all tokens set: sets mark to that of words, where the tokens allow it. */
void lnt_bpe_find_mark(lnt_codec *codec, lnt_text mark);

typedef struct lnt_unigram {
    int32_t *order; /* [known]: the tokens, by their bytes */
    size_t known;
    size_t first[257]; /* where in order the tokens begin that begin with a byte */
    double lowest;     /* of the scores */
    bool byte_fallback;
} lnt_unigram;

lnt_status lnt_unigram_open(lnt_codec *codec); /* of the tokens that codec->vocab finds */

typedef struct lnt_wordpiece {
    lnt_text prefix;  /* of a piece within a word: "##" */
    size_t most;      /* characters of a word; longer ones are unknown */
} lnt_wordpiece;

/* ---- the codec ----------------------------------------------------------------------------------- */

struct lnt_codec {
    lnt_ctx *ctx;
    lnt_pool pool; /* has all that is below, but what others open */
    const char *path;
    const lnt_codec_kind *kind;
    lnt_vocab vocab;
    lnt_added added[2];       /* found in the text as it is, and in the normalised text */
    lnt_normal *normal;       /* [normals] */
    lnt_cut *cut;             /* [cuts] */
    lnt_spell *spell;         /* [spells], from tokens to text */
    size_t normals, cuts, spells;
    int32_t *before, *after;  /* the frame of a text */
    size_t befores, afters;
    int32_t role[LNT_ROLES];
    int32_t unknown; /* what the model gives for what it does not know, or LNT_NO_TOKEN */
    lnt_bpe bpe;
    lnt_unigram unigram;
    lnt_wordpiece wordpiece;
    lnt_tokenizer own;
};

/* A codec to fill, which has nothing but its path. */
lnt_status lnt_codec_begin(lnt_ctx *ctx, const char *path, lnt_codec **out);
/* Lets all tokens be found by their spellings: of any kind but byte-level BPE.  twice: of two that are
 * spelled alike the later is found; else they are refused. */
lnt_status lnt_codec_index_all(lnt_codec *codec, bool twice);

/* Byte level: the bytes that a token is spelled for in GPT-2's alphabet of 256 characters; false, and the
 * text as it is, where one of its characters is not of these.  to [text.bytes] */
bool lnt_byte_level_bytes(lnt_text text, char *to, size_t *bytes);
/* The token's spelling, in bytes, found by it where all is of the alphabet. */
lnt_status lnt_byte_level_set(lnt_vocab *v, int64_t token, lnt_text spelling, bool found);

typedef struct lnt_symbol {
    int32_t token;
    uint32_t start, bytes;     /* of the word; bytes 0: it was merged into the one before */
    uint32_t before, after;    /* the neighbours; UINT32_MAX: none */
} lnt_symbol;

typedef struct lnt_candidate_merge {
    uint32_t order; /* the least comes first, and of equals the least symbol */
    uint32_t symbol;
    int32_t token;
} lnt_candidate_merge;

typedef struct lnt_best_path {
    double score;
    uint32_t start; /* UINT32_MAX: none ends here */
    int32_t token;
} lnt_best_path;

struct lnt_scratch {
    lnt_words words;
    lnt_chars text, spare, piece;
    lnt_added_match *match[2];
    size_t match_room[2];
    lnt_symbol *symbol;
    size_t symbols, symbol_room;
    lnt_candidate_merge *heap;
    size_t heaped, heap_room;
    lnt_best_path *path;
    size_t path_room;
};

#endif
