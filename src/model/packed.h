/* model/packed.h - the file of a model whose matrices are packed: "linnet model 2" in a .safetensors.
 *
 * A matrix is [out,in] (the embedding of tokens [tokens,dim]), as files of others have it.  In f32, f16 and
 * bf16 it is a tensor of that dtype.  In blocks it is a tensor of U8, [out, bytes of a row], and the metadata
 * "packed" says which blocks these are, and its shape in numbers: {"blocks.0.qkv.weight":["q4_1",960,576]}.
 * Rows that follow in another storage are tensors of their own, whose names end in ".1", ".2".  All other
 * parameters are f32, as in a file of the first form, whose metadata this one has too.
 *
 * A model that others trained has the metadata "origin", {"architecture":...}, with the names of its classes;
 * its tokenizer's file and its chat template are tensors of U8: "tokenizer.json" or "tokenizer.gguf", and
 * "chat_template.jinja". */
#ifndef LNT_MODEL_PACKED_H
#define LNT_MODEL_PACKED_H

#include "model/model.h"

#define LNT_PACKED_FORMAT "linnet model 2"
#define LNT_PACKED_TEMPLATE "chat_template.jinja"

enum { LNT_PACKED_NAME = LNT_PARAM_NAME + 8 };

/* The tensor of rows number `part` of a parameter. */
void lnt_packed_name(const char *param, size_t part, char out[LNT_PACKED_NAME]);

bool lnt_packed_is(const lnt_safetensors *st);
/* A file is checked completely before memory is taken for the model: every word of it may lie. */
lnt_status lnt_packed_read(lnt_ctx *ctx, const char *path, const lnt_safetensors *st,
                           const lnt_model_options *options, lnt_model **out);
/* report may be NULL; it is whole. */
lnt_status lnt_packed_write(const lnt_model *model, const char *path, const lnt_save_options *options,
                            lnt_save_report *report);

#endif
