/* cli/study/drop_in.h - what the halves of the study drop-in share: texts as tokens, a model whose attention
 * gives way to another, and how far vectors agree. */
#ifndef LNT_CLI_STUDY_DROP_IN_H
#define LNT_CLI_STUDY_DROP_IN_H

#include "cli/model.h"
#include "cli/study/study.h"

enum { DROP_TEXTS = 256, DROP_WORDS = 65536, DROP_LAYERS = 64 }; /* at most */

/* ---- texts ---------------------------------------------------------------------------------- */

/* Texts of one number of words, as a model reads them. */
typedef struct drop_texts {
    int64_t count, longest;       /* texts; tokens of the longest */
    int32_t *tokens;              /* [count,longest] */
    int64_t lengths[DROP_TEXTS];
} drop_texts;

/* The first `words` words of the first files in --data that have as many, a text each, or so many texts one
 * after the other where it is a file; longer ones end where the model's positions do.  The caller frees
 * tokens. */
int drop_texts_open(const options *o, lnt_ctx *ctx, const lnt_model *model, int64_t words, int64_t count,
                    drop_texts *out);

/* The first `count` tokens of --data, NULL upon failure; the caller frees them. */
int drop_stream_open(const options *o, lnt_ctx *ctx, const lnt_model *model, int64_t count, int32_t **out);

/* ---- agreement ------------------------------------------------------------------------------ */

typedef struct drop_finding {
    double cosine, rank; /* of vectors to softmax's: drop_agreement.c */
    double difference;   /* of what attention gives to softmax's, the mean of magnitudes over all layers */
} drop_finding;

/* exact, found [texts,width]: cosine and rank of `out`. */
int drop_agreement(const float *exact, const float *found, int64_t texts, int64_t width, drop_finding *out);
/* Spearman's; a and b [count] become their ranks. */
int drop_rank_correlation(double *a, double *b, int count, double *out);

/* ---- another attention ---------------------------------------------------------------------- */

/* A model as it is loaded, and what the last pass of drop_swap_embed found. */
typedef struct drop_swap {
    lnt_ctx *ctx;
    lnt_model *model;
    const drop_texts *texts;
    int64_t layers;         /* that attend, as far as a pass has shown */
    float *kept[DROP_LAYERS]; /* what the attention of each layer gives in the model as it is */
    float *own;             /* what the other gives */
    size_t numbers;         /* in each of them */
    size_t lacking;         /* bytes there was no memory for */
    const lnt_attn_desc *attention;
    int64_t first, end;     /* the layers whose attention it takes the place of */
    lnt_plan *plan;
    double error[DROP_LAYERS]; /* |other - softmax| / |softmax| on the q, k, v that the layer got */
    double magnitudes, count;  /* of the differences to `kept`, over all layers */
    double *spectrum;          /* [layers,heads,landmarks] singular values of the first text's U; NULL: not */
    int64_t heads;
} drop_swap;

int drop_swap_open(const options *o, lnt_ctx *ctx, drop_swap *out);
void drop_swap_close(drop_swap *s);
/* Vectors of texts as the model has them.  The texts stay the caller's, and are those of all passes that
 * follow, until it is called again. */
int drop_swap_exact(drop_swap *s, const drop_texts *texts, float *vectors);
/* ... with another attention in layers first .. end-1.  In the others its error is found all the same. */
int drop_swap_embed(drop_swap *s, const lnt_attn_desc *attention, int64_t first, int64_t end, float *vectors);
/* The mean over all layers of the magnitude of what differs from softmax's, in the last pass. */
double drop_swap_difference(const drop_swap *s);

/* The singular values of u [n,n], which is overwritten, from the largest on. */
void drop_singular_values(double *u, int64_t n, double *out);

/* ---- the halves ----------------------------------------------------------------------------- */

/* What the parts of the encoder's half work on. */
typedef struct drop_run {
    const options *o;
    lnt_ctx *ctx;
    drop_swap swap;
    drop_texts texts;
    int64_t batch, words, width; /* words: of each text in `texts` */
    float *exact, *found;        /* [batch,width] */
    int done, total;             /* passes */
} drop_run;

/* `inverse`: iterations, or less an lnt_pinv that has none. */
lnt_attn_desc drop_cur(const drop_run *r, lnt_select select, int64_t landmarks, int64_t inverse);
const char *drop_inverse_name(int64_t inverse, char text[16]);
/* A pass with another attention in layers first .. end-1; end -1: all. */
int drop_measure(drop_run *r, const lnt_attn_desc *attention, int64_t first, int64_t end, drop_finding *out);
/* Prints a table under its title, unless --json is given. */
void drop_say(const drop_run *r, const table *t, const char *format, ...) PRINTF_LIKE(3, 4);
/* Layer by layer: how near CUR comes, and what it does in each layer alone; the last two by `inverse`. */
int drop_layers(drop_run *r, lnt_select select, int64_t landmarks, int64_t inverse);
int drop_layer_passes(int64_t layers); /* that it takes */

int drop_encoder(const options *o, lnt_ctx *ctx, const lnt_model_info *info);
int drop_decoder(const options *o, lnt_ctx *ctx, const lnt_model_info *info);

#endif
